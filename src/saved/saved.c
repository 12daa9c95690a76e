// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "saved/errand-internal.h"

enum {
    POOL_THREADS = 12,
    HASH_THREADS = 8, // so many imports with a digest at once
    CORES_MAX = 16,
    OUT_AT_ONCE = 4, // all but one of them for one tenant
    IN_AT_ONCE = 5,
    WAITING_MAX = 1000,
    WAITING_TENANT_MAX = 250,
    EXPIRE_AT_ONCE = 100,
};
#define LOOK_OK_NS     (60 * NS_PER_S)
#define LOOK_FAILED_NS (5 * NS_PER_S)
#define DOOM_AGAIN_NS  (10 * NS_PER_S)

// -- lines

static unsigned at_once(enum saved_lane lane)
{
    return lane == LANE_OUT ? OUT_AT_ONCE : IN_AT_ONCE;
}

static unsigned count_of(const struct turn_list *list, int64_t tenant)
{
    unsigned n = 0;
    const struct turn *turn;
    TAILQ_FOREACH(turn, list, next)
    {
        n += turn->tenant == tenant;
    }
    return n;
}

// Who has a turn may have to wait for a sandbox of his that another of his errands holds, for as
// long as he likes. So there is always one that is not his.
static bool may_run(const struct saved *saved, const struct turn *turn)
{
    const struct turn_lane *lane = &saved->lane[turn->lane];
    unsigned max = at_once(turn->lane);
    return saved->closing ||
           (lane->n_running < max && count_of(&lane->running, turn->tenant) < max - 1);
}

static void run_turn(struct saved *saved, struct turn *turn)
{
    struct turn_lane *lane = &saved->lane[turn->lane];
    TAILQ_INSERT_TAIL(&lane->running, turn, next);
    lane->n_running++;
    lane->last = turn->tenant;
    turn->has_it = true;
    turn->run(turn->data);
}

int turn_take(struct saved *saved, struct turn *turn, const struct turn_config *config,
              struct err *err)
{
    struct turn_lane *lane = &saved->lane[config->lane];
    *turn = (struct turn){
        .run = config->run, .data = config->data, .tenant = config->tenant, .lane = config->lane};
    if (may_run(saved, turn)) {
        run_turn(saved, turn);
        return 0;
    }
    if (lane->waits >= WAITING_MAX || count_of(&lane->waiting, turn->tenant) >= WAITING_TENANT_MAX)
        return err_set(err, ERR_UNAVAILABLE,
                       "too much waits for the store already: try again later");
    lane->waits++;
    TAILQ_INSERT_TAIL(&lane->waiting, turn, next);
    return 0;
}

// Not one of whoever was served last, where another waits: nobody's hundred backups are before
// somebody's first. NULL: none may run now.
static struct turn *pick_turn(const struct saved *saved, const struct turn_lane *lane)
{
    struct turn *turn, *first = NULL;
    TAILQ_FOREACH(turn, &lane->waiting, next)
    {
        if (!may_run(saved, turn))
            continue;
        if (turn->tenant != lane->last)
            return turn;
        first = first != NULL ? first : turn;
    }
    return first;
}

// One may be over before `run` returns, and end here again: then it is the loop that goes on, or a
// line of those that fail at once would be as deep as it is long.
static void next_turns(struct saved *saved, struct turn_lane *lane)
{
    struct turn *turn;
    if (lane->is_moving)
        return;
    lane->is_moving = true;
    while ((turn = pick_turn(saved, lane)) != NULL) {
        TAILQ_REMOVE(&lane->waiting, turn, next);
        lane->waits--;
        run_turn(saved, turn);
    }
    lane->is_moving = false;
}

void turn_over(struct saved *saved, struct turn *turn)
{
    struct turn_lane *lane = &saved->lane[turn->lane];
    if (!turn->has_it)
        return;
    turn->has_it = false;
    TAILQ_REMOVE(&lane->running, turn, next);
    lane->n_running--;
    next_turns(saved, lane);
}

// -- what files of this room share

void saved_blame_store(struct err *err)
{
    if (err->sys_errno == ECANCELED || err->sys_errno == EBADMSG || err->sys_errno == EPIPE)
        return;
    switch (err->code) {
    case ERR_UNAVAILABLE:
    case ERR_DENIED:
    case ERR_EXHAUSTED:
        err->code = ERR_UNAVAILABLE;
        err->sys_errno = EREMOTEIO;
        break;
    case ERR_NOT_FOUND:
        (void)err_set(err, ERR_INTERNAL, "the object is not in the store any more");
        err->sys_errno = EBADMSG;
        break;
    case ERR_INTERNAL: // a disk that fails, or does not take anything any more
        if (err->sys_errno != 0) {
            err->code = ERR_UNAVAILABLE;
            err->sys_errno = EREMOTEIO;
        }
        break;
    case ERR_NONE:
    case ERR_INVALID:
    case ERR_CONFLICT:
    case ERR_UNSUPPORTED:
    case ERR_CODE_MAX:
        break;
    }
}

void saved_backup_id(char ret[SAVED_ID_MAX])
{
    uint8_t dice[10];
    char hex[2 * sizeof dice + 1];
    randombytes_buf(dice, sizeof dice);
    (void)snprintf(ret, SAVED_ID_MAX, "bak-%s", sodium_bin2hex(hex, sizeof hex, dice, sizeof dice));
}

struct store *saved_store(struct saved *saved)
{
    return saved->config.store;
}

struct store_pool *saved_pool(struct saved *saved)
{
    return saved->pool;
}

const char *saved_store_kind(const struct saved *saved)
{
    return store_kind(saved->config.store);
}

void saved_stats(const struct saved *saved, struct saved_stats *ret)
{
    *ret = saved->stats;
    store_counts(saved->config.store, &ret->store);
    ret->waiting =
        store_pool_waiting(saved->pool) + saved->lane[LANE_OUT].waits + saved->lane[LANE_IN].waits;
}

// -- how the store does

struct look {
    struct saved *saved;
    struct err err;
};

static void look(void *data)
{
    struct look *l = data;
    if (store_check(l->saved->config.store, &l->err) < 0 && l->err.code == ERR_NONE)
        (void)err_set(&l->err, ERR_UNAVAILABLE, "the store does not work");
}

static void on_looked(void *data)
{
    struct look *l = data;
    struct saved *saved = l->saved;
    bool ok = l->err.code == ERR_NONE;
    bool changed = !saved->health.known || ok != saved->health.ok;
    saved->health.looking = false;
    if (!saved->closing) {
        saved->health.known = true;
        saved->health.ok = ok;
        saved->health.err = l->err;
        saved->health.next_ns = clock_ns() + (ok ? LOOK_OK_NS : LOOK_FAILED_NS);
        if (changed)
            saved->doom.next_ns = 0;
        if (changed && ok)
            log_line(LOG_INFO, "the store works", "store", saved_store_kind(saved), NULL);
        else if (changed)
            log_line(LOG_WARN, "the store does not work", "store", saved_store_kind(saved), "error",
                     l->err.msg, NULL);
    }
    free(l);
    saved_unref(saved);
}

static void look_at_store(struct saved *saved)
{
    struct look *l;
    if (saved->health.looking || clock_ns() < saved->health.next_ns)
        return;
    l = calloc(1, sizeof *l);
    if (l == NULL)
        abort();
    l->saved = saved;
    saved->health.looking = true;
    saved_ref(saved);
    store_pool_run(saved->pool, look, on_looked, l);
}

bool saved_store_ok(const struct saved *saved, struct err *ret)
{
    if (saved->health.known && saved->health.ok)
        return true;
    if (!saved->health.known)
        (void)err_set(ret, ERR_UNAVAILABLE, "it was not looked at yet");
    else
        *ret = saved->health.err;
    return false;
}

// -- what is to go from the store: one after the other; what cannot be deleted is tried again later

struct doom {
    struct saved *saved;
    struct doomed_row row;
    int log; // of the database
    struct err err;
    bool is_gone;
};

static void doom_next(struct saved *saved);

static bool is_prefix(const char *key)
{
    size_t len = strlen(key);
    return len > 0 && key[len - 1] == '/';
}

// What has made it useless must not come back after a power cut, so that is on the disk before.
static void doom_work(void *data)
{
    struct doom *d = data;
    struct store *store = d->saved->config.store;
    if (fdatasync(d->log) < 0) {
        (void)err_sys(&d->err, errno, "sync the database");
        return;
    }
    d->is_gone = (is_prefix(d->row.key) ? store_delete_all(store, d->row.key, &d->err)
                                        : store_delete(store, d->row.key, &d->err)) >= 0;
}

static void on_doomed(void *data)
{
    struct doom *d = data;
    struct saved *saved = d->saved;
    struct err err = {0};
    saved->doom.busy = false;
    if (!d->is_gone) {
        if (!saved->doom.failed && !saved->closing)
            log_line(LOG_WARN, "cannot delete from the store, trying again later", "key",
                     d->row.key, "error", d->err.msg, NULL);
        saved->doom.failed = true;
        saved->doom.after = d->row.seq;
    } else if (db_doomed_del(saved->config.db, d->row.seq, &err) < 0) {
        saved->doom.failed = true;
        saved->doom.after = d->row.seq;
    }
    doomed_row_done(&d->row);
    free(d);
    if (!saved->closing)
        doom_next(saved);
    saved_unref(saved);
}

// A round over: what is left of it comes again after a while.
static void doom_rest(struct saved *saved)
{
    if (saved->doom.failed)
        saved->doom.next_ns = clock_ns() + DOOM_AGAIN_NS;
    saved->doom.failed = false;
    saved->doom.after = 0;
}

static void doom_next(struct saved *saved)
{
    struct err err = {0};
    struct doomed_row row = {0};
    if (saved->doom.busy || saved->closing || !saved->started)
        return;
    int r = db_doomed_next(saved->config.db, saved->doom.after, &row, &err);
    if (r <= 0) {
        saved->doom.failed = saved->doom.failed || r < 0;
        doom_rest(saved);
        return;
    }
    struct doom *d = calloc(1, sizeof *d);
    if (d == NULL)
        abort();
    *d = (struct doom){.saved = saved, .row = row, .log = db_log_fd(saved->config.db)};
    saved->doom.busy = true;
    saved_ref(saved);
    store_pool_run(saved->pool, doom_work, on_doomed, d);
}

void saved_doom_soon(struct saved *saved)
{
    if (clock_ns() >= saved->doom.next_ns)
        doom_next(saved);
}

// -- backups that nobody wants any more

static int forget(void *data, const struct backup_row *row)
{
    struct saved *saved = data;
    struct err err = {0};
    if (db_backup_del(saved->config.db, row->tenant, row->id, &err) < 0) {
        log_line(LOG_WARN, "cannot delete a backup, trying again later", "backup", row->id, "error",
                 err.msg, NULL);
        return 1;
    }
    return 0;
}

static int expire_one(void *data, const struct backup_row *row)
{
    struct saved *saved = data;
    if (strcmp(row->kind, "archive") == 0 || row->state != BACKUP_READY)
        return 0;
    int failed = forget(saved, row);
    saved->stats.expired += failed == 0;
    return failed;
}

static void expire(struct saved *saved)
{
    struct err err = {0};
    const struct backup_query query = {.expired_ms = db_now_ms(), .max = EXPIRE_AT_ONCE};
    if (db_backup_each(saved->config.db, &query, expire_one, saved, &err) < 0)
        log_line(LOG_WARN, "cannot look for expired backups, ignoring", "error", err.msg, NULL);
}

struct sweep {
    struct saved *saved;
    unsigned n;
    bool failed; // the next start sees to the rest
};

static int sweep_one(void *data, const struct backup_row *row)
{
    struct sweep *sweep = data;
    sweep->failed = forget(sweep->saved, row) != 0;
    sweep->n += !sweep->failed;
    return sweep->failed;
}

// Pages end with a row that is gone: until there are none.
static void sweep(struct saved *saved, const struct backup_query *query, const char *what)
{
    struct err err = {0};
    struct sweep s = {.saved = saved};
    unsigned last = 1;
    while (last > 0) {
        s.n = 0;
        int r = db_backup_each(saved->config.db, query, sweep_one, &s, &err);
        if (s.n > 0)
            log_line(LOG_INFO, "backups removed", "what", what, "n", LOG_U64(s.n), NULL);
        last = r < 0 || s.failed ? 0 : s.n;
    }
    if (err.code != ERR_NONE)
        log_line(LOG_WARN, "cannot look for backups, ignoring", "what", what, "error", err.msg,
                 NULL);
}

// What daemons before this one have begun, and archives of disks that are back, or never went.
static void sweep_left(struct saved *saved)
{
    const struct backup_query begun = {.not_run = saved->config.run};
    const struct backup_query orphans = {.orphans = true};
    sweep(saved, &begun, "begun");
    sweep(saved, &orphans, "orphans");
}

// -- life

static void on_tick(uv_timer_t *timer)
{
    struct saved *saved = timer->data;
    look_at_store(saved);
    expire(saved);
    archive_tick(saved);
    syncs_tick(saved);
    results_tick(saved);
    saved_doom_soon(saved);
}

void saved_ref(struct saved *saved)
{
    saved->refs++;
}

void saved_unref(struct saved *saved)
{
    if (--saved->refs == 0)
        free(saved);
}

static void on_timer_closed(uv_handle_t *handle)
{
    saved_unref(handle->data);
}

static int open_parts(struct saved *saved, struct err *err)
{
    uv_loop_t *loop = saved->config.loop;
    if (store_pool_open(loop, POOL_THREADS, &saved->pool, err) < 0 ||
        store_pool_open(loop, HASH_THREADS, &saved->hashing, err) < 0)
        return -1;
    return syncs_open(saved, err) < 0 ? -1 : results_open(saved, err);
}

int saved_open(const struct saved_config *config, struct saved **ret, struct err *err)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct saved *saved = calloc(1, sizeof *saved);
    if (saved == NULL)
        abort();
    saved->config = *config;
    saved->refs = 1; // the timer's
    saved->n_cores = cores < 1 ? 1 : cores > CORES_MAX ? CORES_MAX : (unsigned)cores;
    for (int i = 0; i < LANE_MAX; i++) {
        TAILQ_INIT(&saved->lane[i].waiting);
        TAILQ_INIT(&saved->lane[i].running);
    }
    LIST_INIT(&saved->freights);
    LIST_INIT(&saved->errands);
    (void)uv_timer_init(config->loop, &saved->tick);
    saved->tick.data = saved;
    if (open_parts(saved, err) < 0) {
        saved_close(saved);
        return -1;
    }
    fleet_on_recall(config->fleet, archive_recall, saved);
    fleet_on_slept(config->fleet, syncs_slept, saved);
    *ret = saved;
    return 0;
}

void saved_start(struct saved *saved)
{
    saved->started = true;
    sweep_left(saved);
    syncs_start(saved);
    results_start(saved);
    (void)uv_timer_start(&saved->tick, on_tick, 0, SAVED_TICK_MS);
}

void saved_close(struct saved *saved)
{
    if (saved == NULL)
        return;
    saved->closing = true;
    freights_stop(saved);
    syncs_stop(saved);
    for (int i = 0; i < LANE_MAX; i++)
        next_turns(saved, &saved->lane[i]);
    if (saved->pool != NULL)
        store_pool_close(saved->pool);
    if (saved->hashing != NULL)
        store_pool_close(saved->hashing);
    errands_tell(saved);
    syncs_close(saved);
    results_close(saved);
    archive_close(saved);
    uv_close((uv_handle_t *)&saved->tick, on_timer_closed);
}
