// SPDX-License-Identifier: Apache-2.0
// The index of a sync and records: what is written is read again, and what makes no sense is
// refused.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "check.h"
#include "pack/index.h"
#include "pack/record.h"

#define HASH "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define HEAD PACK_INDEX_HEAD "\n"

static int parse(const char *text, struct index *ret)
{
    struct err err = {0};
    char *copy = strdup(text);
    *ret = (struct index){0};
    int r = index_parse(ret, copy, strlen(copy), &err);
    if (r < 0) {
        assert_int_equal(err.code, ERR_INVALID);
        index_done(ret);
        free(copy);
    }
    return r < 0 ? -1 : 0;
}

CHECK_CASE(what_is_written_is_read)
{
    struct index index = {0}, again = {0};
    struct err err = {0};
    struct index_entry file = {.kind = 'f',
                               .has_hash = true,
                               .mode = 0644,
                               .uid = 1000,
                               .gid = 33,
                               .size = 12,
                               .mtime_ns = -1500000000,
                               .path = "z/\xff\t%\n\xc2\x85\xc3\xbc",
                               .target = ""};
    struct index_entry link = {
        .kind = 'l', .mode = 0777, .path = "a", .target = "../\x01 elsewhere"};
    memset(file.sha256, 0xa5, sizeof file.sha256);
    assert_int_equal(index_add(&index, &file), 0);
    assert_int_equal(index_add(&index, &link), 0);
    index_sort(&index);
    auto_buf out;
    buf_init(&out, 4096);
    index_print(&index, &out);
    assert_int_equal(out.failed, 0);
    assert_non_null(strstr(out.data, "\tz/%FF%09%25%0A%C2%85\xc3\xbc\t\n"));
    assert_int_equal(index_parse(&again, out.data, out.len, &err), 0);
    assert_int_equal(again.n, 2);
    const struct index_entry *e = index_find(&again, file.path);
    assert_non_null(e);
    assert_memory_equal(e->sha256, file.sha256, PACK_SHA256);
    assert_true(e->mtime_ns == file.mtime_ns && e->size == 12 && e->uid == 1000 && e->gid == 33);
    assert_string_equal(index_find(&again, "a")->target, link.target);
    assert_null(index_find(&again, "b"));
    assert_int_equal(index_escaped_len(file.path), strlen("z/%FF%09%25%0A%C2%85xx"));
    assert_int_equal(index_escaped_part(file.path), strlen("%FF%09%25%0A%C2%85xx"));
    assert_int_equal(index_escaped_part("long/er/x"), 4);
    index_done(&index);
    index_done(&again);
}

CHECK_CASE(times_from_end_to_end)
{
    static const int64_t times[] = {INT64_MIN, INT64_MIN + 1, -1, 0, INT64_MAX};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        struct index index = {0}, again = {0};
        struct err err = {0};
        const struct index_entry dir = {
            .kind = 'd', .mode = 0755, .mtime_ns = times[i], .path = "d", .target = ""};
        auto_buf out;
        buf_init(&out, 4096);
        assert_int_equal(index_add(&index, &dir), 0);
        index_print(&index, &out);
        assert_int_equal(index_parse(&again, out.data, out.len, &err), 0);
        assert_true(again.entries[0].mtime_ns == times[i]);
        index_done(&index);
        index_done(&again);
    }
    struct index index;
    assert_int_equal(parse(HEAD "d\t0\t-9223372036854775809\t0\t0\t0\t-\td\t\n", &index), -1);
    assert_int_equal(parse(HEAD "d\t0\t9223372036854775808\t0\t0\t0\t-\td\t\n", &index), -1);
}

CHECK_CASE(nonsense_is_refused)
{
    static const char *const texts[] = {
        "cay index 1",
        "cay index 2\n",
        "\n",
        HEAD "x",
        HEAD "\n",
        HEAD "f\t1\t2\t420\t0\t0\t" HASH "\tpath\n",
        HEAD "f\t1\t2\t420\t0\t0\t" HASH "\tpath\t\t\n",
        HEAD "x\t1\t2\t420\t0\t0\t" HASH "\tpath\t\n",
        HEAD "f\t-1\t2\t420\t0\t0\t" HASH "\tpath\t\n",
        HEAD "f\t99999999999999999999\t2\t420\t0\t0\t" HASH "\tpath\t\n",
        HEAD "f\t1\t2\t65535\t0\t0\t" HASH "\tpath\t\n",
        HEAD "f\t1\t2\t420\t4294967296\t0\t" HASH "\tpath\t\n",
        HEAD "f\t1\t2\t420\t0\t0\t-\tpath\t\n",
        HEAD "d\t1\t2\t420\t0\t0\t" HASH "\tpath\t\n",
        HEAD "f\t1\t2\t420\t0\t0\t" HASH "\t/path\t\n",
        HEAD "f\t1\t2\t420\t0\t0\t" HASH "\ta/../path\t\n",
        HEAD "f\t1\t2\t420\t0\t0\t" HASH "\ta/%2E%2E/path\t\n",
        HEAD "f\t1\t2\t420\t0\t0\t" HASH "\ta//path\t\n",
        HEAD "f\t1\t2\t420\t0\t0\t" HASH "\ta%00b\t\n",
        HEAD "f\t1\t2\t420\t0\t0\t" HASH "\ta%4\t\n",
        HEAD "f\t1\t2\t420\t0\t0\t" HASH "\t\t\n",
        HEAD "f\t1\t2\t420\t0\t0\t" HASH "\tpath\ttarget\n",
        HEAD "l\t0\t2\t420\t0\t0\t-\tpath\t\n",
        HEAD "d\t0\t2\t420\t0\t0\t-\tb\t\nd\t0\t2\t420\t0\t0\t-\ta\t\n",
        HEAD "d\t0\t2\t420\t0\t0\t-\ta\t\nd\t0\t2\t420\t0\t0\t-\ta\t\n",
    };
    struct index index;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (parse(texts[i], &index) == 0)
            fail_msg("taken: %s", texts[i]);
    }
}

static int records(const void *bytes, size_t len, struct err *err)
{
    int ends[2];
    char path[PACK_PATH_MAX];
    struct pack_record record;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(fd_write_all(ends[1], bytes, len), 0);
    fd_close(ends[1]);
    struct record_in *in = record_in_new(ends[0]);
    *err = (struct err){0};
    int r = record_next(in, &record, path, err);
    char data[64];
    ssize_t n = 1;
    while (r > 0 && n > 0)
        n = record_read(in, data, 7, err);
    record_in_free(in);
    fd_close(ends[0]);
    return r < 0 || n < 0 ? -1 : 0;
}

CHECK_CASE(records_at_every_split)
{
    char bytes[256];
    struct err err;
    struct pack_record record = {.type = PACK_PUT, .path_len = 3, .size = 20, .mode = 0644};
    memcpy(bytes, &record, sizeof record);
    memcpy(bytes + sizeof record, "a/b12345678901234567890", 23);
    size_t len = sizeof record + 23;
    assert_int_equal(records(bytes, len, &err), 0);
    for (size_t cut = 0; cut < len; cut++) {
        assert_int_equal(records(bytes, cut, &err), -1);
        assert_int_equal(err.code, ERR_UNAVAILABLE);
    }
}

CHECK_CASE(records_that_make_no_sense)
{
    static const struct {
        struct pack_record record;
        const char *path;
    } bad[] = {
        {{.type = 0},                                            ""     },
        {{.type = PACK_RECORD_MAX},                              ""     },
        {{.type = PACK_PUT},                                     ""     },
        {{.type = PACK_END, .path_len = 1},                      "a"    },
        {{.type = PACK_PUT, .path_len = 2},                      ".."   },
        {{.type = PACK_PUT, .path_len = 2},                      "/a"   },
        {{.type = PACK_PUT, .path_len = 5},                      "a//bc"},
        {{.type = PACK_PUT, .path_len = 1, .mode = 0100644},     "a"    },
        {{.type = PACK_PUT, .path_len = 1, .pad = 1},            "a"    },
        {{.type = PACK_PUT, .path_len = 1, .size = 1ull << 63},  "a"    },
        {{.type = PACK_PUT, .path_len = PACK_PATH_MAX},          "a"    },
        {{.type = PACK_INDEX, .size = PACK_INDEX_BYTES_MAX + 1}, ""     },
    };
    char bytes[256];
    struct err err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memcpy(bytes, &bad[i].record, sizeof bad[i].record);
        memcpy(bytes + sizeof bad[i].record, bad[i].path, strlen(bad[i].path));
        assert_int_equal(records(bytes, sizeof bad[i].record + strlen(bad[i].path), &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
    }
}

CHECK_MAIN(cmocka_unit_test(what_is_written_is_read), cmocka_unit_test(times_from_end_to_end),
           cmocka_unit_test(nonsense_is_refused), cmocka_unit_test(records_at_every_split),
           cmocka_unit_test(records_that_make_no_sense))
