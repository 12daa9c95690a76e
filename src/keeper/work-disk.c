// SPDX-License-Identifier: Apache-2.0
// Works that copy, move and drop disks. What they are asked is looked at here, before they wait for
// each other; that a disk is there, or is not, is seen when they run.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "keeper/keeper-internal.h"

enum { STILL_PATIENCE_MS = 100 }; // for a box to stand still; its disk is copied anyway

int work_is_disk(struct disk_ref disk)
{
    return disk.place > 0 && disk.place < PLACE_MAX && disk.number > 0 && disk.pad == 0;
}

static int is_in_use(const struct keeper *k, struct disk_ref disk)
{
    return disk.place == PLACE_KEPT && table_find_disk(k, disk.number) != NULL;
}

static int check_disks(const struct keeper *k, const struct disk_ref *a, const struct disk_ref *b,
                       struct err *err)
{
    if (k->volume == NULL)
        return err_set(err, ERR_UNSUPPORTED, "this keeper has no volume for disks");
    if (!work_is_disk(*a) || !work_is_disk(*b))
        return err_set(err, ERR_INVALID, "not a disk");
    if (a->place == b->place && a->number == b->number)
        return err_set(err, ERR_INVALID, "twice the same disk");
    return 0;
}

static int refuse_in_use(const struct keeper *k, struct disk_ref disk, struct err *err)
{
    return is_in_use(k, disk)
               ? err_set(err, ERR_CONFLICT, "disk %" PRIu64 " is in use", disk.number)
               : 0;
}

// Submits it, or tells why not.
static void submit(struct keeper *k, struct work *w, uint32_t request, int r, struct err *err)
{
    if (r == 0 && w == NULL)
        r = err_sys(err, ENOMEM, "work on a disk");
    if (r == 0) {
        work_submit(k, w);
        return;
    }
    work_free(w);
    if (request != 0)
        reply_error(k, request, err);
}

// --- copying ---

// A snapshot is of one instant by itself; this is for what the box has told nobody yet.
static void await_still(struct keeper *k, const struct box *box)
{
    auto_fd events = cgroups_open_events(k->cgroups, keeper_host_slot(k, box->slot));
    int64_t until = clock_ns() + STILL_PATIENCE_MS * NS_PER_MS;
    for (int64_t left; (left = until - clock_ns()) > 0;) {
        char text[128];
        ssize_t n = events < 0 ? -1 : pread(events, text, sizeof text - 1, 0);
        if (n < 0)
            return;
        text[n] = '\0';
        if (strstr(text, "frozen 1") != NULL)
            return;
        struct pollfd changed = {.fd = events, .events = POLLPRI};
        (void)poll(&changed, 1, (int)(left / NS_PER_MS) + 1);
    }
}

// Of those that take moments: cay-pack is in nobody's way.
static int runs_alone(const struct keeper *k, const struct work *w)
{
    for (unsigned i = 0; i < LANE_DISK_MAX; i++) {
        if (k->works.at[i] != NULL && k->works.at[i] != w)
            return 0;
    }
    return 1;
}

static void tell_made(void *arg)
{
    const struct work *w = arg;
    uint64_t one = 1;
    if (w->copied >= 0 && write(w->copied, &one, sizeof one) < 0)
        return; // it goes on when we have ended
}

static int run_copy(struct keeper *k, struct work *w, struct err *err)
{
    const struct keeper_disk_copy *ask = &w->ask.copy;
    const struct box *box = w->box != 0 ? table_find(k, w->box) : NULL;
    if (box != NULL)
        await_still(k, box);
    const struct volume_copy how = {
        .from = ask->from,
        .to = ask->to,
        .bytes = ask->bytes,
        .shard = w->place,
        .alone = runs_alone(k, w),
        .made = tell_made,
        .arg = w,
    };
    return volume_copy(k->volume, &how, &w->result->copied, err);
}

static void answer_bytes(struct keeper *k, struct work *w, const struct err *err)
{
    struct keeper_disk_done msg = {
        .head = {.version = WIRE_VERSION, .type = KEEPER_DISK_DONE, .id = w->request},
    };
    if (w->result != NULL) {
        msg.bytes = w->result->copied.bytes;
        msg.version = w->result->copied.version;
    }
    if (err->code != ERR_NONE)
        reply_error(k, w->request, err);
    else
        client_send(k, &msg, sizeof msg, -1);
}

static const struct work_kind copying = {.run = run_copy, .answer = answer_bytes};

static int check_box(const struct keeper *k, const struct keeper_disk_copy *msg, struct err *err)
{
    const struct box *box = msg->box != 0 ? table_find(k, msg->box) : NULL;
    if (msg->box == 0)
        return 0;
    if (box == NULL || box->state != BOX_LIVE)
        return err_set(err, ERR_NOT_FOUND, "no such box");
    if (msg->from.place != PLACE_KEPT || box->disk_kind != DISK_KEPT ||
        box->disk != msg->from.number)
        return err_set(err, ERR_INVALID, "the box has another disk");
    return 0;
}

static int check_copy(struct keeper *k, const struct keeper_disk_copy *msg, struct err *err)
{
    if (check_disks(k, &msg->from, &msg->to, err) < 0 || refuse_in_use(k, msg->to, err) < 0 ||
        check_box(k, msg, err) < 0)
        return -1;
    if ((msg->to.place == PLACE_SNAPSHOT) != (msg->bytes == 0))
        return err_set(err, ERR_INVALID, "every copy but a snapshot has a limit");
    return space_admit(k, err);
}

void work_ask_copy(struct keeper *k, const struct keeper_disk_copy *msg)
{
    struct err err = {0};
    int r = check_copy(k, msg, &err);
    struct work *w = r == 0 ? work_new(&copying, msg->head.id) : NULL;
    if (w != NULL) {
        w->ask.copy = *msg;
        w->reads = msg->from;
        w->writes[0] = msg->to;
        w->box = msg->box;
        k->works.has_copied = 1;
        space_copied(k);
    }
    submit(k, w, msg->head.id, r, &err);
}

// --- moving ---

static int run_move(struct keeper *k, struct work *w, struct err *err)
{
    return volume_move(k->volume, w->ask.move.from, w->ask.move.to, err);
}

static const struct work_kind moving = {.run = run_move};

// What was never to be written to stays where it is, and nothing else comes there.
static int check_move(const struct keeper *k, const struct keeper_disk_move *msg, struct err *err)
{
    if (check_disks(k, &msg->from, &msg->to, err) < 0)
        return -1;
    if (msg->from.place == PLACE_SNAPSHOT || msg->to.place == PLACE_SNAPSHOT)
        return err_set(err, ERR_INVALID, "a snapshot is copied, not moved");
    return refuse_in_use(k, msg->from, err) < 0 ? -1 : refuse_in_use(k, msg->to, err);
}

void work_ask_move(struct keeper *k, const struct keeper_disk_move *msg)
{
    struct err err = {0};
    int r = check_move(k, msg, &err);
    struct work *w = r == 0 ? work_new(&moving, msg->head.id) : NULL;
    if (w != NULL) {
        w->ask.move = *msg;
        w->writes[0] = msg->from;
        w->writes[1] = msg->to;
    }
    submit(k, w, msg->head.id, r, &err);
}

// --- counting ---

static int run_count(struct keeper *k, struct work *w, struct err *err)
{
    return volume_count(k->volume, w->reads, &w->result->copied.bytes, err);
}

static const struct work_kind counting = {
    .lane = LANE_PACK, .run = run_count, .answer = answer_bytes};

void work_ask_count(struct keeper *k, const struct keeper_disk_count *msg)
{
    struct err err = {0};
    int r = k->volume == NULL || !work_is_disk(msg->disk)
                ? err_set(&err, ERR_NOT_FOUND, "no such disk")
                : 0;
    struct work *w = r == 0 ? work_new(&counting, msg->head.id) : NULL;
    if (w != NULL)
        w->reads = msg->disk;
    submit(k, w, msg->head.id, r, &err);
}

// --- dropping ---

static int run_drop(struct keeper *k, struct work *w, struct err *err)
{
    return volume_drop(k->volume, w->writes[0], err);
}

static int run_drop_blank(struct keeper *k, struct work *w, struct err *err)
{
    return volume_drop_blank(k->volume, w->ask.blank, err);
}

static int run_sweep(struct keeper *k, struct work *w, struct err *err)
{
    (void)w;
    return volume_sweep(k->volume, err);
}

static int run_forget(struct keeper *k, struct work *w, struct err *err)
{
    (void)w;
    (void)err;
    (void)volume_forget_groups(k->volume);
    return 0;
}

static int run_trim(struct keeper *k, struct work *w, struct err *err)
{
    (void)w;
    return volume_trim(k->volume, err);
}

static void over_drop(struct keeper *k, struct work *w)
{
    (void)w;
    space_dropped(k);
}

// Asked for is asked for: they go on without a client.
static const struct work_kind dropping = {.run = run_drop, .over = over_drop, .finishes = 1};
static const struct work_kind dropping_blank = {
    .run = run_drop_blank, .over = over_drop, .finishes = 1};
static const struct work_kind trimming = {.run = run_trim};
static const struct work_kind forgetting = {.run = run_forget};
static const struct work_kind sweeping = {.run = run_sweep, .over = over_drop, .finishes = 1};

void work_ask_drop(struct keeper *k, const struct keeper_disk_drop *msg)
{
    struct err err = {0};
    int r = 0;
    if (k->volume == NULL || !work_is_disk(msg->disk))
        r = err_set(&err, ERR_NOT_FOUND, "no such disk");
    else
        r = refuse_in_use(k, msg->disk, &err);
    struct work *w = r == 0 ? work_new(&dropping, msg->head.id) : NULL;
    if (w != NULL)
        w->writes[0] = msg->disk;
    submit(k, w, msg->head.id, r, &err);
}

// Dropping waits for every copy that is under way, so we do it ourselves only when there is none.
void work_drop_blank(struct keeper *k, uint64_t number)
{
    struct err err = {0};
    struct work *w = work_is_busy(k) ? work_new(&dropping_blank, 0) : NULL;
    space_dropped(k);
    if (w == NULL) {
        (void)volume_drop_blank(k->volume, number, &err);
        return;
    }
    w->ask.blank = number;
    work_submit(k, w);
}

// --- letting go of mounts ---

static int run_write_down(struct keeper *k, struct work *w, struct err *err)
{
    (void)w;
    return volume_write_down(k->volume, err);
}

static void over_let_go(struct keeper *k, struct work *w)
{
    // The descriptor is closed already, when there was little left to be written.
    if (w->ask.gone != 0)
        reply_gone(k, w->ask.gone);
}

static const struct work_kind letting_go = {
    .lane = LANE_PACK, .run = run_write_down, .over = over_let_go, .finishes = 1};

void work_let_go(struct keeper *k, int mntns, uint64_t number)
{
    struct work *w = work_new(&letting_go, 0);
    if (w == NULL) {
        fd_close(mntns);
        if (number != 0)
            reply_gone(k, number);
        return;
    }
    w->fds[0] = mntns;
    w->ask.gone = number;
    work_submit(k, w);
}

void work_sweep(struct keeper *k)
{
    struct err err = {0};
    struct work *w = work_new(&sweeping, 0);
    if (w != NULL)
        w->waits_for_all = 1;
    submit(k, w, 0, 0, &err);
}

void work_trim(struct keeper *k)
{
    struct err err = {0};
    if (work_find(k, &trimming, 0) == NULL)
        submit(k, work_new(&trimming, 0), 0, 0, &err);
}

void work_forget(struct keeper *k)
{
    struct err err = {0};
    submit(k, work_new(&forgetting, 0), 0, 0, &err);
}
