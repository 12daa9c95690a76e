// SPDX-License-Identifier: Apache-2.0
// The hand at its quick work: reading, writing, and changing names; and what it says to nonsense.
#include "hand_kit.h"

static struct kit_answer got; // large

// --- helpers

static int put(struct kit *kit, const char *name, const char *text, uint32_t flags)
{
    return kit_ask(kit,
                   &(struct kit_ask){.type = HAND_WRITE,
                                     .flags = flags,
                                     .path = kit_path(kit, name),
                                     .data = text,
                                     .data_len = strlen(text)},
                   &got);
}

static int get(struct kit *kit, const char *path, uint32_t flags)
{
    return kit_ask(kit, &(struct kit_ask){.type = HAND_READ, .flags = flags, .path = path}, &got);
}

static int look(struct kit *kit, const char *path, uint32_t flags)
{
    return kit_ask(kit, &(struct kit_ask){.type = HAND_STAT, .flags = flags, .path = path}, &got);
}

#define assert_reads(kit, name, text)                                                              \
    do {                                                                                           \
        assert_int_equal(get(kit, kit_path(kit, name), 0), 0);                                     \
        assert_string_equal(got.data, text);                                                       \
    } while (0)

// --- reading and writing

static void test_write_read(void **state)
{
    struct kit *kit = *state;
    assert_int_equal(put(kit, "f", "hello", 0), 0);
    assert_int_equal(got.done.existed, 0);
    assert_int_equal(got.done.st.size, 5);
    assert_int_equal(got.done.st.mode, 0644);
    char etag[HAND_ETAG];
    memcpy(etag, got.done.st.etag, sizeof etag);
    assert_reads(kit, "f", "hello");
    assert_string_equal(got.done.st.etag, etag);
    assert_int_equal(got.done.st.kind, HAND_FILE);
    assert_int_equal(put(kit, "f", "again", 0), 0);
    assert_int_equal(got.done.existed, 1);
    assert_string_not_equal(got.done.st.etag, etag);
    assert_reads(kit, "f", "again");
    assert_int_equal(look(kit, kit_path(kit, "f"), 0), 0);
    assert_int_equal(got.done.st.size, 5);
}

CHECK_MAIN(KIT_CASE(test_write_read))
