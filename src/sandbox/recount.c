// SPDX-License-Identifier: Apache-2.0
// What a disk shares with others becomes less as it deletes and overwrites, which nobody tells: the
// number in its row is what it began with. So the disk is counted when that number stands in the
// way, and when a sandbox falls asleep that is held to a much smaller disk by it. All that is there
// counts, also what it wrote itself: less than that it cannot be, without knowing more.
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "sandbox/sandbox-internal.h"

#define RECOUNT_AFTER_NS                                                                           \
    (600 * NS_PER_S) // of one sandbox: a disk with millions of files takes long

struct counting {
    struct fleet *fleet;
    int64_t known;
    recounted_fn fn;
    void *data;
};

static void on_counted(void *data, const struct keeper_event *ev, const struct err *err)
{
    struct counting *c = data;
    int64_t known = c->known;
    (void)err; // then it is what it was
    if (ev != NULL && ev->msg.copied.bytes < (uint64_t)known)
        known = (int64_t)ev->msg.copied.bytes;
    struct fleet *fleet = c->fleet;
    c->fn(c->data, known);
    free(c);
    fleet->forking--;
    fleet_check_stopped(fleet);
}

void disk_recount(struct fleet *fleet, struct disk_ref disk, int64_t known, recounted_fn fn,
                  void *data)
{
    struct counting *c = calloc(1, sizeof *c);
    if (c == NULL)
        abort();
    *c = (struct counting){.fleet = fleet, .known = known, .fn = fn, .data = data};
    fleet->forking++; // its end waits
    keeper_disk_count(fleet, disk, on_counted, c);
}

struct recounting {
    struct sandbox *s; // counted
    int64_t disk;      // row.disks: which one it is
};

static void on_recounted(void *data, int64_t shared)
{
    struct recounting *r = data;
    struct sandbox *s = r->s;
    struct err err = {0};
    bool is_same = s->state != STATE_GONE && !s->destroy_wanted && s->row.disks == r->disk;
    if (is_same && shared < s->row.shared) {
        int64_t before = s->row.shared;
        s->row.shared = shared;
        if (lifecycle_store(s, &err) < 0)
            s->row.shared = before;
    }
    sandbox_unref(s);
    free(r);
}

// What it has deleted its snapshots may still hold, and that is to count.
static bool has_snapshots(const struct sandbox *s)
{
    struct err ignored;
    int64_t n = 0;
    return db_snapshot_count(s->fleet->config.db, s->row.number, &n, &ignored) < 0 || n > 0;
}

void sandbox_recount(struct sandbox *s)
{
    if (s->row.shared <= s->row.disk / 4 || s->row.archive != NULL || s->fleet->stopping ||
        (s->recounted_ns != 0 && clock_ns() - s->recounted_ns < RECOUNT_AFTER_NS) ||
        has_snapshots(s))
        return;
    struct recounting *r = calloc(1, sizeof *r);
    if (r == NULL)
        abort();
    *r = (struct recounting){.s = sandbox_ref(s), .disk = s->row.disks};
    s->recounted_ns = clock_ns();
    disk_recount(s->fleet, disk_kept((uint64_t)s->row.number), s->row.shared, on_recounted, r);
}
