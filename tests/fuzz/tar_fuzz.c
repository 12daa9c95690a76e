// SPDX-License-Identifier: Apache-2.0
// Whatever an archive says: its headers, records, names and maps are read within their bounds, what
// is accepted keeps the promises that unpacking relies on, and what we write ourselves is read as
// it was meant.
//
// An input is an archive, read block by block as work_tar_in would read it, but nothing is
// unpacked.
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "hand/tar-format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tar_head head, back;
static struct tar_extra all, extra, none, again;
static struct tar_extent extents[TAR_EXTENTS_MAX];

static void check_error(int r)
{
    assert(r == -EBADMSG || r == -EPROTONOSUPPORT || r == -ENAMETOOLONG || r == -EINVAL ||
           r == -EFBIG);
}

static void check_clean(const char *name, int len)
{
    assert(len == (int)strlen(name) && name[0] != '/' && len < TAR_NAME_MAX);
    for (const char *p = name; *p != '\0';) {
        size_t n = strcspn(p, "/");
        assert(n > 0 && !(n == 1 && p[0] == '.') && !(n == 2 && p[0] == '.' && p[1] == '.'));
        p += n + (p[n] == '/');
        assert(p[-1] != '/' || *p != '\0');
    }
}

// What was read is written, read again, and the same.
static void check_back(void)
{
    static uint8_t bytes[TAR_HEAD_MAX];
    if (head.kind > TAR_FIFO || head.sparse || head.uid > INT64_MAX / 16 ||
        head.gid > INT64_MAX / 16 || head.size > INT64_MAX / 16 || head.mtime < INT64_MIN / 16 ||
        head.mtime > INT64_MAX / 16 || head.name[0] == '\0')
        return;
    size_t len = tar_put_head(&head, bytes);
    assert(len <= TAR_HEAD_MAX && len % TAR_BLOCK == 0);
    again.said = 0;
    if (len > TAR_BLOCK) {
        assert(tar_get_head(bytes, &back) == 0 && back.kind == TAR_PAX);
        assert(tar_get_pax((char *)bytes + TAR_BLOCK, (size_t)back.size, false, &again) == 0);
    }
    assert(tar_get_head(bytes + len - TAR_BLOCK, &back) == 0);
    assert(tar_apply(&back, &none, &again) == 0);
    assert(strcmp(back.name, head.name) == 0 && strcmp(back.link, head.link) == 0);
    assert(back.kind == head.kind && back.size == head.size && back.mtime == head.mtime);
    assert(back.uid == head.uid && back.gid == head.gid && back.mode == head.mode);
}

static void take_map(const uint8_t *data, size_t size, const uint8_t *head_block)
{
    struct tar_map map = {.extents = extents};
    size_t at = 0;
    int r = 1;
    if (head.kind == TAR_OLD_SPARSE)
        r = tar_map_old_head(&map, head_block);
    for (; r == 1 && at + TAR_BLOCK <= size; at += TAR_BLOCK)
        r = head.kind == TAR_OLD_SPARSE ? tar_map_old_more(&map, data + at)
                                        : tar_map_text(&map, data + at);
    if (r < 0)
        check_error(r);
    assert(map.n <= TAR_EXTENTS_MAX);
    uint64_t sum = 0;
    for (size_t i = 0; i < map.n; i++)
        sum += extents[i].len;
    if (r != 0 || !tar_map_fits(&map, head.real_size, sum))
        return;
    uint64_t end = 0;
    for (size_t i = 0; i < map.n; i++) {
        assert(extents[i].at >= end && extents[i].at + extents[i].len <= head.real_size);
        end = extents[i].at + extents[i].len;
    }
}

static int take_extra(const uint8_t *data, size_t size)
{
    if (head.size > size || head.size > TAR_EXTRA_MAX)
        return -EBADMSG;
    if (head.kind == TAR_LONG_NAME || head.kind == TAR_LONG_LINK)
        return tar_get_long((const char *)data, (size_t)head.size, head.kind, &extra);
    bool for_all = head.kind == TAR_PAX_ALL;
    return tar_get_pax((const char *)data, (size_t)head.size, for_all, for_all ? &all : &extra);
}

static int take_entry(const uint8_t *data, size_t size, const uint8_t *head_block)
{
    int r = tar_apply(&head, &all, &extra);
    extra.said = 0;
    if (r < 0)
        return r;
    assert(head.size <= INT64_MAX && head.real_size <= INT64_MAX && head.mtime_ns < 1000000000);
    assert(head.mode <= 07777);
    check_back();
    if (head.sparse)
        take_map(data, size, head_block);
    r = tar_clean_name(head.name);
    if (r >= 0)
        check_clean(head.name, r);
    return r < 0 ? r : 0;
}

// A fuzzer does not find sums: they are put right for it.
static int get_head(const uint8_t *block)
{
    static uint8_t fixed[TAR_BLOCK];
    unsigned sum = 8 * ' ';
    int r = tar_get_head(block, &head);
    if (r != -EBADMSG)
        return r;
    memcpy(fixed, block, sizeof fixed);
    for (size_t i = 0; i < sizeof fixed; i++)
        sum += i >= 148 && i < 156 ? 0 : fixed[i];
    (void)snprintf((char *)fixed + 148, 8, "%06o", sum);
    return tar_get_head(fixed, &head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    all.said = extra.said = 0;
    (void)tar_is_compressed(data, size);
    while (size >= TAR_BLOCK && !tar_is_end(data)) {
        const uint8_t *block = data;
        int r = get_head(block);
        data += TAR_BLOCK;
        size -= TAR_BLOCK;
        if (r == 0)
            r = head.kind > TAR_LABEL ? take_extra(data, size) : take_entry(data, size, block);
        if (r < 0) {
            check_error(r);
            return 0;
        }
        uint64_t skip = head.size + tar_padding(head.size);
        if (skip > size)
            return 0;
        data += skip;
        size -= (size_t)skip;
    }
    return 0;
}
