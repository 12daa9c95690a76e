// SPDX-License-Identifier: Apache-2.0
// Which box is where: free ones, ready ones, who has a number or a disk. The keeper looks at this
// between any two events, so that nothing here may take longer the more boxes there are. A box's
// fields decide; table_update brings counts, lists and indexes in line with them.
#include <errno.h>
#include <stdlib.h>

#include "keeper/keeper-internal.h"

// --- what a box is counted as ---

static int is_spawned_for_nobody(const struct box *box)
{
    return box->in_pool && box->state != BOX_DYING && box->state != BOX_NONE;
}

static uint32_t pool_counts(const struct box *box)
{
    if (!is_spawned_for_nobody(box))
        return 0;
    if (box->pooled_root)
        return 1u << COUNT_POOL_READY | (uint32_t)(box->state != BOX_READY) << COUNT_MAKING;
    return 1u << COUNT_POOL_BLANK | (uint32_t)!box->joined << COUNT_MAKING;
}

static enum box_count state_count(const struct box *box)
{
    if (box->state == BOX_LIVE)
        return COUNT_LIVE;
    if (box->in_pool && box->state == BOX_READY)
        return COUNT_READY;
    if (box->in_pool && box->state == BOX_BLANK && !box->pooled_root && box->joined)
        return COUNT_BLANK;
    return COUNT_BUSY;
}

static uint32_t counts_of(const struct box *box)
{
    if (box->state == BOX_NONE)
        return 0;
    uint32_t counts = 1u << COUNT_USED | 1u << state_count(box) | pool_counts(box);
    counts |= (uint32_t)(box->guest >= 0 && box->pidfd < 0) << COUNT_SPAWNING;
    counts |= (uint32_t)(box->mute != 0) << COUNT_MUTE;
    counts |= (uint32_t)(box->is_zygote != 0) << COUNT_ZYGOTE;
    return counts;
}

static void recount(struct table *t, struct box *box)
{
    uint32_t now = counts_of(box), changed = now ^ box->place.counted;
    for (unsigned i = 0; changed != 0; i++, changed >>= 1) {
        if (changed & 1)
            t->n[i] += now >> i & 1 ? 1u : -1u;
    }
    box->place.counted = now;
}

// --- lists ---

static enum box_list list_of(const struct box *box)
{
    if (box->state == BOX_NONE)
        return LIST_FREE;
    if (box->state == BOX_WAITING)
        return LIST_WAITING;
    if (box->in_pool && box->state == BOX_BLANK && !box->pooled_root)
        return LIST_BLANK;
    return LIST_NONE;
}

static void unlink_box(struct keeper *k, struct box *box)
{
    struct box_place *p = &box->place;
    struct table *t = &k->table;
    if (p->list == LIST_NONE)
        return;
    *(p->prev != 0 ? &k->boxes[p->prev].place.next : &t->first[p->list]) = p->next;
    *(p->next != 0 ? &k->boxes[p->next].place.prev : &t->last[p->list]) = p->prev;
    p->prev = p->next = 0;
}

// A slot that was used last goes first, because its B is there already; who waits goes last.
static void link_box(struct keeper *k, struct box *box, enum box_list list)
{
    struct box_place *p = &box->place;
    struct table *t = &k->table;
    p->list = list;
    if (list == LIST_NONE)
        return;
    if (list == LIST_FREE) {
        p->next = t->first[list];
        *(p->next != 0 ? &k->boxes[p->next].place.prev : &t->last[list]) = box->slot;
        t->first[list] = box->slot;
    } else {
        p->prev = t->last[list];
        *(p->prev != 0 ? &k->boxes[p->prev].place.next : &t->first[list]) = box->slot;
        t->last[list] = box->slot;
    }
}

struct box *table_first(const struct keeper *k, enum box_list list)
{
    uint32_t slot = k->table.first[list];
    return slot != 0 ? &k->boxes[slot] : NULL;
}

// --- indexes: chains of slots, by the lower half of the key ---

static uint32_t *bucket_of(const struct keeper *k, enum box_index index, uint64_t key)
{
    return &k->table.bucket[index][(uint32_t)key & (k->table.n_buckets - 1)];
}

static void reindex(struct keeper *k, struct box *box, enum box_index index, uint64_t key)
{
    struct box_place *p = &box->place;
    if (p->key[index] == key)
        return;
    if (p->key[index] != 0) {
        uint32_t *at = bucket_of(k, index, p->key[index]);
        while (*at != box->slot)
            at = &k->boxes[*at].place.chain[index];
        *at = p->chain[index];
    }
    p->key[index] = key;
    if (key != 0) {
        uint32_t *at = bucket_of(k, index, key);
        p->chain[index] = *at;
        *at = box->slot;
    }
}

static struct box *look_up(const struct keeper *k, enum box_index index, uint64_t key,
                           uint64_t mask)
{
    uint32_t slot = key != 0 ? *bucket_of(k, index, key) : 0;
    while (slot != 0 && ((k->boxes[slot].place.key[index] ^ key) & mask) != 0)
        slot = k->boxes[slot].place.chain[index];
    return slot != 0 ? &k->boxes[slot] : NULL;
}

struct box *table_find(const struct keeper *k, uint64_t number)
{
    return look_up(k, INDEX_NUMBER, number, UINT64_MAX);
}

struct box *table_find_low(const struct keeper *k, uint32_t number)
{
    return look_up(k, INDEX_NUMBER, number, UINT32_MAX);
}

struct box *table_find_disk(const struct keeper *k, uint64_t disk)
{
    return look_up(k, INDEX_DISK, disk, UINT64_MAX);
}

// --- all of it ---

void table_update(struct keeper *k, struct box *box)
{
    int used = box->state != BOX_NONE;
    recount(&k->table, box);
    if (list_of(box) != box->place.list) {
        unlink_box(k, box);
        link_box(k, box, list_of(box));
    }
    reindex(k, box, INDEX_NUMBER, used ? box->number : 0);
    reindex(k, box, INDEX_DISK, used && box->disk_kind == DISK_KEPT ? box->disk : 0);
}

int table_init(struct keeper *k, struct err *err)
{
    k->table = (struct table){.n_buckets = 16};
    while (k->table.n_buckets < k->slots.n)
        k->table.n_buckets *= 2;
    for (unsigned i = 0; i < INDEX_MAX; i++) {
        k->table.bucket[i] = calloc(k->table.n_buckets, sizeof(uint32_t));
        if (k->table.bucket[i] == NULL)
            return err_sys(err, ENOMEM, "table of boxes");
    }
    for (uint32_t slot = k->slots.n - 1; slot > 0; slot--) // the first comes to the front
        table_update(k, &k->boxes[slot]);
    return 0;
}

uint32_t table_boxes_max(const struct keeper *k)
{
    uint32_t max = k->slots.n - 1 - zygote_slots(k); // those of a program before may be fewer
    return k->config.boxes < max ? k->config.boxes : max;
}

struct box *table_free(const struct keeper *k)
{
    if (k->table.n[COUNT_USED] - k->table.n[COUNT_ZYGOTE] >= table_boxes_max(k))
        return NULL;
    return table_first(k, LIST_FREE);
}
