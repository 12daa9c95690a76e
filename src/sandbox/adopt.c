// SPDX-License-Identifier: Apache-2.0
// Coming back: the keeper tells which boxes live, the rows which sandboxes ran. What both know goes
// on; each guest is asked for its jobs, which processes and sessions take over again. What only one
// of them knows is put right: a row without its box sleeps (and says that it was lost), a box
// without a row is ended, a disk without a row is removed.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "sandbox/context.h"
#include "sandbox/process.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/session.h"

struct live {
    struct keeper_live msg;
    int guest;
    bool claimed; // a row knows it
};

enum { LIST_MS = 15000 }; // a guest that has not told by then is not waited for

struct adoption {
    struct live *live;
    size_t n, cap;
    unsigned asked; // guests that have not told yet
    uv_timer_t *late;
    bool rows_done;
    unsigned adopted, lost;
    int64_t since_ns;
};

static struct adoption *adoption_get(struct fleet *fleet)
{
    if (fleet->adoption == NULL) {
        fleet->adoption = calloc(1, sizeof *fleet->adoption);
        if (fleet->adoption == NULL)
            abort();
        fleet->adoption->since_ns = clock_ns();
    }
    return fleet->adoption;
}

int adopt_live(struct fleet *fleet, const struct keeper_event *ev)
{
    struct adoption *a = adoption_get(fleet);
    if (a->n == a->cap) {
        a->cap = a->cap > 0 ? a->cap * 2 : 64;
        a->live = realloc(a->live, a->cap * sizeof *a->live);
        if (a->live == NULL)
            abort();
    }
    a->live[a->n++] = (struct live){.msg = ev->msg.live, .guest = ev->guest};
    return 0;
}

static struct live *find_live(struct adoption *a, uint64_t box)
{
    for (size_t i = 0; i < a->n; i++) {
        if (a->live[i].msg.box == box && !a->live[i].claimed)
            return &a->live[i];
    }
    return NULL;
}

// --- disks

struct known {
    struct fleet *fleet;
    struct map numbers;
};

static void add_known(struct known *known, int64_t number)
{
    char *key = event_data("%lld", (long long)number);
    map_put(&known->numbers, key, key);
}

// The disk of one that is archived is in the store, and what is here was to go when a daemon was
// killed; unless somebody works with it, who may just have brought it back.
static int is_disk(void *data, const struct sandbox_row *row)
{
    struct known *known = data;
    if (row->archive == NULL || fleet_in_memory(known->fleet, row->tenant, row->id) != NULL)
        add_known(known, row->number);
    return 0;
}

static int is_snapshot(void *data, const struct snapshot_row *row)
{
    add_known(data, row->number);
    return 0;
}

// All that rows know in that place. Those that are being made, too.
static int read_known(struct known *known, enum disk_place place, struct err *err)
{
    struct sandbox_query all = {.making = true};
    struct db *db = known->fleet->config.db;
    if (place == PLACE_SNAPSHOT)
        return db_snapshot_each(db, 0, is_snapshot, known, err);
    return db_sandbox_each(db, &all, is_disk, known, err);
}

static void drop_unknown(struct fleet *fleet, enum disk_place place, const struct keeper_disks *msg)
{
    struct err err = {0};
    struct known known = {.fleet = fleet};
    size_t at = 0;
    char *key;
    // Without all rows at hand nothing is removed.
    bool sure = read_known(&known, place, &err) == 0;
    for (uint32_t i = 0; sure && i < msg->n && i < KEEPER_DISKS_MAX; i++) {
        char number[24];
        if (map_get(&known.numbers, log_u64(number, msg->disk[i])) == NULL) {
            log_line(LOG_WARN, "removing a disk that belongs to no sandbox", "disk", number, NULL);
            keeper_disk_drop(fleet, (struct disk_ref){.place = place, .number = msg->disk[i]}, NULL,
                             NULL);
        }
    }
    while ((key = map_next(&known.numbers, &at)) != NULL)
        free(key);
    map_done(&known.numbers);
}

static void on_late(uv_timer_t *timer)
{
    struct fleet *fleet = timer->data;
    size_t at = 0;
    struct sandbox *s;
    if (fleet == NULL)
        return;
    while ((s = map_next(&fleet->sandboxes, &at)) != NULL) {
        if (s->box != NULL)
            box_link_list_late(s->box);
    }
}

static void start_late(struct fleet *fleet)
{
    uv_timer_t *timer = calloc(1, sizeof *timer);
    if (timer == NULL)
        abort();
    timer->data = fleet;
    uv_update_time(fleet->config.loop);
    (void)uv_timer_init(fleet->config.loop, timer);
    (void)uv_timer_start(timer, on_late, LIST_MS, 0);
    fleet->adoption->late = timer;
}

void adopt_drop(struct fleet *fleet)
{
    struct adoption *a = fleet->adoption;
    if (a == NULL)
        return;
    if (a->late != NULL) {
        a->late->data = NULL;
        uv_close((uv_handle_t *)a->late, (uv_close_cb)free);
    }
    for (size_t i = 0; i < a->n; i++)
        fd_close(a->live[i].guest);
    free(a->live);
    free(a);
    fleet->adoption = NULL;
}

static void on_disks(struct fleet *fleet, enum disk_place place, const struct keeper_event *ev,
                     const struct err *err);

static void on_kept(void *data, const struct keeper_event *ev, const struct err *err)
{
    on_disks(data, PLACE_KEPT, ev, err);
}

static void on_snapshots(void *data, const struct keeper_event *ev, const struct err *err)
{
    on_disks(data, PLACE_SNAPSHOT, ev, err);
}

static void list_disks(struct fleet *fleet, enum disk_place place, uint64_t above)
{
    keeper_disk_list(fleet, (struct disk_ref){.place = place, .number = above},
                     place == PLACE_KEPT ? on_kept : on_snapshots, fleet);
}

// After requests are taken: a disk whose row has just been made is known by then.
static void on_disks(struct fleet *fleet, enum disk_place place, const struct keeper_event *ev,
                     const struct err *err)
{
    if (ev == NULL) {
        log_line(LOG_WARN, "cannot list the disks", "error", err->msg, NULL);
        return;
    }
    const struct keeper_disks *msg = &ev->msg.disks;
    drop_unknown(fleet, place, msg);
    if (msg->n == KEEPER_DISKS_MAX)
        list_disks(fleet, place, msg->disk[msg->n - 1]);
}

static void finish(struct fleet *fleet)
{
    struct adoption *a = fleet->adoption;
    char ms[24];
    log_line(LOG_INFO, "rows, boxes and disks agree", "adopted", LOG_U64(a->adopted), "lost",
             LOG_U64(a->lost), "ms",
             log_u64(ms, (uint64_t)((clock_ns() - a->since_ns) / NS_PER_MS)), NULL);
    adopt_drop(fleet);
    fleet->ready_fn(fleet->data);
    if (fleet->welcome.has_volume) {
        list_disks(fleet, PLACE_KEPT, 0);
        list_disks(fleet, PLACE_SNAPSHOT, 0);
    }
}

// --- rows

static void finish_if_done(struct fleet *fleet)
{
    if (fleet->adoption->rows_done && fleet->adoption->asked == 0)
        finish(fleet);
}

void adopt_listed(struct sandbox *s)
{
    struct fleet *fleet = s->fleet;
    processes_adopt(s);
    sessions_adopt(s);
    contexts_adopt(s);
    box_link_drop_orphans(s->box);
    reach_bind(s, NULL);
    fleet->adoption->asked--;
    finish_if_done(fleet);
}

void adopt_unlisted(struct sandbox *s)
{
    struct fleet *fleet = s->fleet;
    if (fleet->adoption == NULL)
        return;
    processes_lost(fleet, s->row.number);
    sessions_lost(fleet, s->row.number);
    contexts_lost(fleet, s->row.number);
    fleet->adoption->asked--;
    finish_if_done(fleet);
}

static void row_lost(struct fleet *fleet, struct sandbox *s)
{
    struct err err = {0};
    s->row.status = SANDBOX_SLEEPING;
    s->row.box = 0;
    s->row.slept_ms = db_now_ms();
    fleet->adoption->lost++;
    log_line(LOG_WARN, "the box of a sandbox is gone, its files are kept", "sandbox", s->row.id,
             NULL);
    if (lifecycle_store(s, &err) < 0)
        log_line(LOG_ERROR, "cannot store a sandbox's row", "sandbox", s->row.id, "error", err.msg,
                 NULL);
    sandbox_event(s, "lost", "{\"reason\":\"box_lost\"}");
    processes_lost(fleet, s->row.number);
    sessions_lost(fleet, s->row.number);
    contexts_lost(fleet, s->row.number);
}

static int copy_row(void *data, const struct sandbox_row *row)
{
    struct fleet *fleet = data;
    struct sandbox_row mine = *row;
    char **texts[] = {&mine.id,      &mine.slug,    &mine.image,   &mine.env,       &mine.labels,
                      &mine.user_id, &mine.network, &mine.secrets, &mine.languages, &mine.archive};
    struct err err = {0};
    if (fleet_tenant(fleet, row->tenant, &err) == NULL) {
        log_line(LOG_ERROR, "a sandbox without a tenant", "sandbox", row->id, "error", err.msg,
                 NULL);
        return 0;
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (*texts[i] != NULL && (*texts[i] = strdup(*texts[i])) == NULL)
            abort();
    }
    (void)fleet_add(fleet, &mine);
    return 0;
}

// Into memory come the rows that are not at rest.
static int load_rows(struct fleet *fleet, enum sandbox_status status)
{
    struct err err = {0};
    struct sandbox_query query = {.status = status};
    if (db_sandbox_each(fleet->config.db, &query, copy_row, fleet, &err) == 0)
        return 0;
    log_line(LOG_ERROR, "cannot read the rows of sandboxes", "error", err.msg, NULL);
    return -1;
}

static void adopt_row(struct fleet *fleet, struct sandbox *s)
{
    struct adoption *a = fleet->adoption;
    struct live *live = s->row.run == (int64_t)fleet->welcome.run && s->row.box != 0
                            ? find_live(a, (uint64_t)s->row.box)
                            : NULL;
    bool destroying = s->row.status == SANDBOX_DESTROYING;
    if (live != NULL) {
        live->claimed = true;
        bind_adopt(s, live->msg.box,
                   (struct guest_peer){.sock = TAKE_FD(live->guest),
                                       .version = (uint16_t)live->msg.guest_version});
    }
    if (destroying) {
        lifecycle_resume_destroy(s); // its box, which holds its disk, goes first
    } else if (live == NULL) {
        row_lost(fleet, s);
    } else {
        a->adopted++;
        a->asked++;
        box_link_list(s->box);
    }
}

void adopt_welcome(struct fleet *fleet, const struct keeper_welcome *msg)
{
    struct adoption *a = adoption_get(fleet);
    size_t at = 0;
    struct sandbox *s;
    fleet->welcome = *msg;
    // Without all rows at hand no box is ended: the next daemon may be luckier.
    if (load_rows(fleet, SANDBOX_RUNNING) < 0 || load_rows(fleet, SANDBOX_DESTROYING) < 0) {
        fleet->lost_fn(fleet->data);
        return;
    }
    fork_forget_making(fleet);
    start_late(fleet);
    while ((s = map_next(&fleet->sandboxes, &at)) != NULL)
        adopt_row(fleet, s);
    for (size_t i = 0; i < a->n; i++) {
        if (a->live[i].claimed)
            continue;
        log_line(LOG_WARN, "ending a box that belongs to no sandbox", "box",
                 LOG_U64(a->live[i].msg.box), NULL);
        keeper_destroy(fleet, a->live[i].msg.box, NULL, NULL);
    }
    a->rows_done = true;
    finish_if_done(fleet);
}
