// SPDX-License-Identifier: Apache-2.0
// Firm ground for the file system's own blocks. The volume is a sparse file: where it was never
// written to, a write needs room on the host's file system, and when there is none Btrfs gives up
// and turns read-only. So the places of its metadata get their room before the host has none left.
// What is deleted leaves holes there again, hence this is done again and again; where there is
// room already it costs next to nothing.
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs_tree.h>
#include <string.h>
#include <sys/statvfs.h>

#include "box/volume-internal.h"

#define PIECE (UINT64_C(16) << 20)

static uint64_t host_free(const struct volume *v)
{
    struct statvfs st;
    return fstatvfs(v->file, &st) < 0 ? 0 : (uint64_t)st.f_bavail * st.f_frsize;
}

// In pieces, from the beginning, which is where most is: `spare` stays free on the host.
static void ground_range(struct volume *v, uint64_t offset, uint64_t len, uint64_t spare)
{
    for (uint64_t at = 0; at < len; at += PIECE) {
        uint64_t n = len - at < PIECE ? len - at : PIECE;
        if (host_free(v) < spare + n ||
            fallocate(v->file, FALLOC_FL_KEEP_SIZE, (off_t)(offset + at), (off_t)n) < 0)
            return;
    }
}

static void ground_chunk(struct volume *v, const char *item, size_t len, uint64_t spare)
{
    struct btrfs_chunk chunk;
    if (len < sizeof chunk)
        return;
    memcpy(&chunk, item, sizeof chunk);
    unsigned n = le16toh(chunk.num_stripes);
    if ((le64toh(chunk.type) & (BTRFS_BLOCK_GROUP_METADATA | BTRFS_BLOCK_GROUP_SYSTEM)) == 0)
        return;
    for (unsigned i = 0; i < n; i++) {
        struct btrfs_stripe stripe;
        size_t at = offsetof(struct btrfs_chunk, stripe) + i * sizeof stripe;
        if (at + sizeof stripe > len)
            return;
        memcpy(&stripe, item + at, sizeof stripe);
        ground_range(v, le64toh(stripe.offset), le64toh(chunk.length), spare);
    }
}

// Items as the kernel puts them into its answer. The offset of the last one.
static uint64_t ground_found(struct volume *v, const struct btrfs_ioctl_search_args *found,
                             uint64_t spare)
{
    size_t at = 0;
    struct btrfs_ioctl_search_header head = {0};
    for (uint32_t i = 0; i < found->key.nr_items; i++) {
        if (at + sizeof head > sizeof found->buf)
            break;
        memcpy(&head, found->buf + at, sizeof head);
        at += sizeof head;
        if (at + head.len > sizeof found->buf)
            break;
        if (head.type == BTRFS_CHUNK_ITEM_KEY)
            ground_chunk(v, found->buf + at, head.len, spare);
        at += head.len;
    }
    return head.offset;
}

void volume_ground(struct volume *v, uint64_t spare)
{
    enum { PAGES = 1024 }; // of chunks: far more than there can be
    uint64_t next = 0;
    for (int i = 0; i < PAGES; i++) {
        struct btrfs_ioctl_search_args args = {
            .key = {.tree_id = BTRFS_CHUNK_TREE_OBJECTID,
                    .min_objectid = BTRFS_FIRST_CHUNK_TREE_OBJECTID,
                    .max_objectid = BTRFS_FIRST_CHUNK_TREE_OBJECTID,
                    .min_type = BTRFS_CHUNK_ITEM_KEY,
                    .max_type = BTRFS_CHUNK_ITEM_KEY,
                    .min_offset = next,
                    .max_offset = UINT64_MAX,
                    .max_transid = UINT64_MAX,
                    .nr_items = 32},
        };
        if (volume_ioctl(v->root, BTRFS_IOC_TREE_SEARCH, &args) < 0 || args.key.nr_items == 0)
            return;
        next = ground_found(v, &args, spare) + 1;
    }
}
