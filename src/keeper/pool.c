// SPDX-License-Identifier: Apache-2.0
// Boxes made before anybody asks. Making one takes both cores for a while, so it waits until
// requests have paused, unless the pool has run half empty.
#include "base/clock.h"
#include "box/limits.h"
#include "keeper/keeper-internal.h"

enum { QUIET_MS = 10, REST_MS = 1000 };

struct counts {
    uint32_t ready, blank; // there, or being made
    uint32_t making;
};

static struct counts count(const struct keeper *k)
{
    struct counts c = {0};
    for (uint32_t i = 1; i < k->slots.n; i++) {
        const struct box *box = &k->boxes[i];
        if (!box->in_pool || box->state == BOX_DYING)
            continue;
        if (box->pooled_root)
            c.ready++;
        else
            c.blank++;
        c.making += box->pooled_root && box->state != BOX_READY;
        c.making += !box->pooled_root && !box->joined;
    }
    return c;
}

struct box *pool_take_blank(struct keeper *k)
{
    for (uint32_t i = 1; i < k->slots.n; i++) {
        struct box *box = &k->boxes[i];
        if (box->in_pool && box->state == BOX_BLANK && !box->pooled_root) {
            box->in_pool = 0;
            return box;
        }
    }
    return NULL;
}

static int wants(const struct keeper *k, const struct counts *c)
{
    return c->ready < k->config.pool_ready || c->blank < k->config.pool_blank;
}

// Removes the cgroups that killed keepers have left. Their boxes died with them, and their slots
// are free; each is held meanwhile, so that nobody starts a box in it.
static void sweep(struct keeper *k)
{
    uint32_t found[1024];
    unsigned n = cgroups_list(k->cgroups, found, sizeof found / sizeof *found);
    for (unsigned i = 0; i < n; i++) {
        if (!slots_hold(&k->slots, found[i]))
            continue;
        cgroups_kill(k->cgroups, found[i]);
        (void)cgroups_remove(k->cgroups, found[i]);
        slots_release(&k->slots, found[i]);
    }
}

int pool_wait(const struct keeper *k)
{
    struct counts c = count(k);
    if (!k->swept && k->claimed)
        return 0;
    if (k->closing || k->spawner < 0 || !wants(k, &c) || c.making >= 2 ||
        build_find_slot(k) == NULL)
        return -1; // whatever changes that is an event, after which we are asked again
    int64_t rest = (k->pool_rests_until_ns - clock_ns()) / NS_PER_MS;
    if (rest > 0)
        return (int)rest;
    if (c.ready < k->config.pool_ready / 2)
        return 0;
    int64_t quiet = (clock_ns() - k->last_request_ns) / NS_PER_MS;
    return quiet >= QUIET_MS ? 0 : (int)(QUIET_MS - quiet);
}

void pool_rest(struct keeper *k)
{
    k->pool_rests_until_ns = clock_ns() + REST_MS * NS_PER_MS;
}

void pool_work(struct keeper *k)
{
    if (!k->swept && k->claimed) {
        k->swept = 1;
        sweep(k);
        return;
    }
    struct counts c = count(k);
    struct box *box = build_find_slot(k);
    struct err err = {0};
    if (!wants(k, &c) || box == NULL)
        return;
    box->limits = limits_default();
    box->in_pool = 1;
    if (c.ready < k->config.pool_ready) {
        box->pooled_root = 1;
        box->rehearse = c.ready >= k->config.pool_ready / 2; // else every cycle counts
        box->disk_kind = k->volume != NULL ? DISK_BLANK : DISK_TMPFS;
        box->image = build_image(k, "host", &err);
        if (box->image == NULL) { // told to whoever claims one and fails the same way
            box->in_pool = 0;
            box->pooled_root = 0;
            k->config.pool_ready = 0;
            return;
        }
    }
    build_start(k, box);
}

void pool_count(const struct keeper *k, struct keeper_state *ret)
{
    for (uint32_t i = 1; i < k->slots.n; i++) {
        const struct box *box = &k->boxes[i];
        if (box->state == BOX_NONE)
            continue;
        if (box->state == BOX_LIVE)
            ret->live++;
        else if (box->in_pool && box->state == BOX_READY)
            ret->ready++;
        else if (box->in_pool && box->state == BOX_BLANK && !box->pooled_root && box->joined)
            ret->blank++;
        else
            ret->busy++;
    }
}
