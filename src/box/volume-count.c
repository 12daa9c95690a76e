// SPDX-License-Identifier: Apache-2.0
// What a disk really holds, whoever wrote it: the extents that its files refer to, each once and
// whole. Sizes of files would not do: of an extent that only one block is left of, the file system
// keeps all, and so whoever punches holes would hold far more than it seems.
#include <endian.h>
#include <errno.h>
#include <linux/btrfs_tree.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "box/volume-internal.h"

enum {
    SEARCH_SIZE = 256 * 1024,
    EXTENTS_MAX = 16 * 1024 * 1024,
    ITEM_HEAD = 25, // bytes of an item's own on the disk
};

struct extent {
    uint64_t at, bytes;
};

struct tally {
    struct extent *list;
    size_t n, room;
    uint64_t items; // bytes of the tree itself: names, and contents of small files
};

static int add(struct tally *t, struct extent extent)
{
    if (t->n == t->room) {
        size_t room = t->room > 0 ? t->room * 2 : 4096;
        struct extent *list =
            room <= EXTENTS_MAX ? reallocarray(t->list, room, sizeof *list) : NULL;
        if (list == NULL)
            return -ENOMEM;
        t->list = list;
        t->room = room;
    }
    t->list[t->n++] = extent;
    return 0;
}

static int add_item(struct tally *t, const struct btrfs_ioctl_search_header *head, const char *item)
{
    struct btrfs_file_extent_item extent;
    t->items += ITEM_HEAD + head->len;
    if (head->type != BTRFS_EXTENT_DATA_KEY || head->len < sizeof extent)
        return 0; // a short one is the content itself
    memcpy(&extent, item, sizeof extent);
    if (extent.type == BTRFS_FILE_EXTENT_INLINE || extent.disk_bytenr == 0)
        return 0;
    return add(t, (struct extent){le64toh(extent.disk_bytenr), le64toh(extent.disk_num_bytes)});
}

// One block of what the kernel has found; the key becomes that of the last.
static int add_block(struct tally *t, struct btrfs_ioctl_search_key *key, const char *block)
{
    size_t at = 0;
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < key->nr_items; i++) {
        struct btrfs_ioctl_search_header head;
        memcpy(&head, block + at, sizeof head);
        r = add_item(t, &head, block + at + sizeof head);
        at += sizeof head + head.len;
        key->min_objectid = head.objectid;
        key->min_type = head.type;
        key->min_offset = head.offset;
    }
    return r;
}

// The next possible one; 0 when there is none.
static int advance(struct btrfs_ioctl_search_key *key)
{
    if (++key->min_offset != 0)
        return 1;
    if (++key->min_type < 256)
        return 1;
    key->min_type = 0;
    return ++key->min_objectid != 0;
}

static int search(int disk, struct tally *t)
{
    auto_free struct btrfs_ioctl_search_args_v2 *args = malloc(sizeof *args + SEARCH_SIZE);
    if (args == NULL)
        return -ENOMEM;
    struct btrfs_ioctl_search_key key = {
        // tree 0: the one that the descriptor is of
        .max_objectid = UINT64_MAX,
        .max_type = 255,
        .max_offset = UINT64_MAX,
        .max_transid = UINT64_MAX,
    };
    int r;
    do {
        key.nr_items = UINT32_MAX;
        *args = (struct btrfs_ioctl_search_args_v2){.key = key, .buf_size = SEARCH_SIZE};
        if (volume_ioctl(disk, BTRFS_IOC_TREE_SEARCH_V2, args) < 0)
            return -errno;
        key.nr_items = args->key.nr_items;
        r = add_block(t, &key, (const char *)args->buf);
    } while (r == 0 && key.nr_items > 0 && advance(&key));
    return r;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = ((const struct extent *)a)->at, y = ((const struct extent *)b)->at;
    return x < y ? -1 : x > y;
}

static uint64_t sum(struct tally *t)
{
    uint64_t bytes = t->items;
    if (t->n > 0)
        qsort(t->list, t->n, sizeof *t->list, compare);
    for (size_t i = 0; i < t->n; i++)
        bytes += i > 0 && t->list[i].at == t->list[i - 1].at ? 0 : t->list[i].bytes;
    return bytes;
}

int volume_count(struct volume *v, struct disk_ref disk, uint64_t *ret_bytes, struct err *err)
{
    auto_fd fd = volume_open_disk(v, disk, err);
    struct tally t = {0};
    if (fd < 0)
        return -1;
    int r = search(fd, &t);
    if (r == 0)
        *ret_bytes = sum(&t);
    free(t.list);
    return r < 0 ? err_sys(err, -r, "count what a disk holds") : 0;
}
