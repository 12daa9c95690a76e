// SPDX-License-Identifier: Apache-2.0
// How much room there is for disks, looked at every second while boxes write: their common limit
// follows what the volume and the host's file system really have (box/volume-quota.c), and nothing
// new is begun when that is almost nothing.
#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "keeper/keeper-internal.h"

enum { BUSY_MS = 1000, IDLE_MS = 10000, FORGET_MS = 20000, TRIM_MS = 5000, HURRY_TIMES = 20 };
enum { CALM_MS = 30, COPIES_MS = 10000 };

#define ADMIT_BYTES (UINT64_C(32) << 20) // what a box needs to be of any use

#define LIFT_BYTES (UINT64_C(16) << 20) // much less than the host keeps for itself

#define SHORT_BYTES  (UINT64_C(1) << 30)  // less on the host, and every bit counts
#define GROUND_BYTES (UINT64_C(2) << 30)  // less than this above its spare: take what must be had
#define IDLE_BYTES   (UINT64_C(32) << 20) // worth the trouble

static int period_ms(const struct keeper *k)
{
    return k->table.n[COUNT_LIVE] > 0 || work_is_busy(k) || k->space.hurry > 0 ? BUSY_MS : IDLE_MS;
}

static int ms_until(int64_t ns)
{
    int64_t left = ns - clock_ns();
    return left <= 0 ? 0 : (int)((left + NS_PER_MS - 1) / NS_PER_MS);
}

// -1: there is nothing to be written.
static int calm_wait(const struct keeper *k)
{
    if (!k->space.unwritten || work_is_busy(k))
        return -1;
    return ms_until(k->last_request_ns + CALM_MS * NS_PER_MS);
}

static int look_wait(const struct keeper *k)
{
    return k->space.worked_ns == 0 ? 0 : ms_until(k->space.worked_ns + period_ms(k) * NS_PER_MS);
}

int space_wait(const struct keeper *k)
{
    if (k->volume == NULL || k->closing)
        return -1;
    int calm = calm_wait(k), due = look_wait(k);
    return calm >= 0 && calm < due ? calm : due;
}

static void look(struct keeper *k)
{
    struct err err = {0};
    struct volume_space now;
    k->space.looked_ns = clock_ns();
    if (volume_space(k->volume, k->config.disk_spare, &now, &err) < 0)
        return;
    k->space.now = now;
    if (volume_confine(k->volume, &now, &err) == 0) {
        k->space.complained = 0;
    } else if (!k->space.complained) {
        k->space.complained = 1;
        log_line(LOG_WARN, "cannot limit the volume, ignoring", "why", err.msg, NULL);
    }
}

static void trim(struct keeper *k)
{
    const struct volume_space *now = &k->space.now;
    if (now->host_free >= k->config.disk_spare + SHORT_BYTES || now->idle < IDLE_BYTES ||
        clock_ns() < k->space.trim_ns)
        return;
    k->space.trim_ns = clock_ns() + TRIM_MS * NS_PER_MS;
    work_trim(k);
}

static void ground(struct keeper *k)
{
    if (k->space.now.host_free >= k->config.disk_spare + GROUND_BYTES)
        return;
    volume_ground(k->volume, k->config.disk_spare / 2);
    look(k); // what that took is not the boxes' any more
}

// A copy is a commit of the file system, and waits until all that was done before it is written.
// Where copies are made, what dropping one leaves is written while nobody asks for anything.
void space_copied(struct keeper *k)
{
    k->space.copied_ns = clock_ns();
}

static void write_when_calm(struct keeper *k)
{
    if (calm_wait(k) != 0)
        return;
    k->space.unwritten = 0;
    volume_hurry(k->volume);
}

// What was dropped or deleted the kernel frees in a few rounds of half a minute each, if nobody
// hurries it; and who deletes something because all is full tries again at once.
void space_dropped(struct keeper *k)
{
    k->space.dropped = 1;
    k->space.unwritten =
        k->space.copied_ns != 0 && clock_ns() - k->space.copied_ns < COPIES_MS * NS_PER_MS;
    if (k->space.looked_ns != 0 && k->space.now.writable < SHORT_BYTES)
        k->space.hurry = HURRY_TIMES;
}

static void hurry(struct keeper *k)
{
    if (k->space.hurry == 0 && !space_is_short(k))
        return;
    k->space.hurry -= k->space.hurry > 0;
    volume_hurry(k->volume);
}

// Groups of dropped disks show as empty only when the file system has committed.
void space_work(struct keeper *k)
{
    write_when_calm(k);
    if (look_wait(k) > 0)
        return;
    look(k);
    k->space.worked_ns = k->space.looked_ns; // others look, too
    ground(k);
    hurry(k);
    trim(k);
    if (!k->space.dropped || clock_ns() < k->space.forget_ns)
        return;
    k->space.dropped = 0;
    k->space.forget_ns = clock_ns() + FORGET_MS * NS_PER_MS;
    work_forget(k);
}

int space_admit(struct keeper *k, struct err *err)
{
    if (k->volume == NULL)
        return 0;
    if (clock_ns() - k->space.looked_ns >= BUSY_MS * NS_PER_MS)
        look(k);
    if (k->space.now.writable >= ADMIT_BYTES)
        return 0;
    int is_host = k->space.now.host_free < k->config.disk_spare + ADMIT_BYTES;
    return err_set(err, ERR_EXHAUSTED,
                   is_host ? "the machine's disk is full (disk-spare is kept free): make room on "
                             "the file system of the data directory, or destroy sandboxes"
                           : "the volume is full: destroy sandboxes or snapshots that are not "
                             "needed");
}

int space_is_short(const struct keeper *k)
{
    return k->volume != NULL && k->space.looked_ns != 0 && k->space.now.writable < ADMIT_BYTES;
}

void space_lift(struct keeper *k, int on)
{
    struct err err = {0};
    if (on)
        look(k);
    struct volume_space space = k->space.now;
    space.writable += on ? LIFT_BYTES : 0;
    (void)volume_confine(k->volume, &space, &err); // then it fails as it has before
}

void space_ask(struct keeper *k, uint32_t request)
{
    struct err err = {0};
    if (k->volume == NULL) {
        (void)err_set(&err, ERR_UNSUPPORTED, "this keeper has no volume for disks");
        reply_error(k, request, &err);
        return;
    }
    look(k);
    const struct volume_space *now = &k->space.now;
    struct keeper_spaced msg = {
        .head = {.version = WIRE_VERSION, .type = KEEPER_SPACED, .id = request},
        .volume = now->size,
        .used = now->used,
        .host_free = now->host_free,
        .writable = now->writable,
    };
    client_send(k, &msg, sizeof msg, -1);
}
