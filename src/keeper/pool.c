// SPDX-License-Identifier: Apache-2.0
// Boxes made before anybody asks. Making one takes both cores for a while, so it waits until
// requests have paused, unless the pool has run half empty.
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "box/limits.h"
#include "keeper/keeper-internal.h"

enum { QUIET_MS = 10, REST_MS = 1000 };

struct box *pool_take_blank(struct keeper *k)
{
    struct box *box = table_first(k, LIST_BLANK);
    if (box != NULL) {
        box->in_pool = 0;
        table_update(k, box);
    }
    return box;
}

static int wants_ready(const struct keeper *k)
{
    return k->table.n[COUNT_POOL_READY] < k->config.pool_ready;
}

static int wants(const struct keeper *k)
{
    return wants_ready(k) || k->table.n[COUNT_POOL_BLANK] < k->config.pool_blank;
}

static int has_run_low(const struct keeper *k)
{
    return k->table.n[COUNT_POOL_READY] < k->config.pool_ready / 2;
}

// Boxes died with their keepers, whose slots are free; each is held meanwhile, so that nobody
// starts a box in it. Those of our own slots are what an earlier holder has left.
void pool_sweep(struct keeper *k)
{
    enum { FOUND_MAX = 4 * SLOTS_TOTAL };
    auto_free uint32_t *found = calloc(FOUND_MAX, sizeof *found);
    unsigned n = found != NULL ? cgroups_list(k->cgroups, found, FOUND_MAX) : 0;
    k->swept = 1;
    for (unsigned i = 0; i < n; i++) {
        uint32_t own = found[i] - k->slots.first; // wraps around below the first
        if (own < k->slots.n && k->boxes[own].state == BOX_NONE) {
            (void)cgroups_clear(k->cgroups, found[i]);
        } else if (slots_hold(&k->slots, found[i])) {
            (void)cgroups_clear(k->cgroups, found[i]);
            slots_release(&k->slots, found[i]);
        }
    }
}

int pool_wait(const struct keeper *k)
{
    if (!k->swept && k->claimed)
        return 0;
    if (k->closing || serve_is_ending(k) || k->spawner < 0 || !wants(k) ||
        k->table.n[COUNT_MAKING] >= 2 || k->table.first[LIST_WAITING] != 0 ||
        table_free(k) == NULL || space_is_short(k))
        return -1; // whatever changes that is an event, after which we are asked again
    int64_t rest = (k->pool_rests_until_ns - clock_ns()) / NS_PER_MS;
    if (rest > 0)
        return (int)rest;
    if (has_run_low(k))
        return 0;
    int64_t quiet = (clock_ns() - k->last_request_ns) / NS_PER_MS;
    return quiet >= QUIET_MS ? 0 : (int)(QUIET_MS - quiet);
}

void pool_rest(struct keeper *k)
{
    k->pool_rests_until_ns = clock_ns() + REST_MS * NS_PER_MS;
}

const char *pool_image(const struct keeper *k)
{
    return k->config.image != NULL ? k->config.image : IMAGE_HOST;
}

// What makes a pooled box one that is ready: a root of the pool's image, and a disk.
static int describe_ready(struct keeper *k, struct box *box)
{
    struct err err = {0};
    box->image = build_image(k, pool_image(k), &err);
    if (box->image == NULL) { // told to whoever claims one and fails the same way
        k->config.pool_ready = 0;
        return -1;
    }
    box->image->users++;
    box->pooled_root = 1;
    box->rehearse = !has_run_low(k); // else every cycle counts
    box->disk_kind = k->volume != NULL ? DISK_BLANK : DISK_TMPFS;
    return 0;
}

void pool_work(struct keeper *k)
{
    if (!k->swept && k->claimed) {
        pool_sweep(k);
        return;
    }
    struct box *box = table_free(k);
    if (!wants(k) || box == NULL || (wants_ready(k) && describe_ready(k, box) < 0))
        return;
    box->limits = limits_default();
    box->in_pool = 1;
    build_start(k, box);
}

void pool_count(const struct keeper *k, struct keeper_state *ret)
{
    ret->live = k->table.n[COUNT_LIVE];
    ret->ready = k->table.n[COUNT_READY];
    ret->blank = k->table.n[COUNT_BLANK];
    ret->busy = k->table.n[COUNT_BUSY];
}
