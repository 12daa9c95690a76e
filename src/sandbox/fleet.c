// SPDX-License-Identifier: Apache-2.0
// All sandboxes that somebody uses or that have a box. The others are rows.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "box/limits.h"
#include "sandbox/context.h"
#include "sandbox/exec.h"
#include "sandbox/process.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/session.h"

enum { TICK_MS = 1000, STORE_TICKS = 10 };

const double timing_bounds[TIMING_BUCKETS] = {0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                              0.05,    0.1,    0.25,  0.5,    1,     2.5,  10};

static char *make_key(int64_t tenant, const char *id)
{
    return event_data("%lld/%s", (long long)tenant, id);
}

// --- tenants

static int64_t quota(int64_t own, int64_t common)
{
    return own >= 0 ? own : common;
}

static struct tenant *load_tenant(struct fleet *fleet, int64_t number, struct err *err)
{
    struct tenant_row row = {0};
    struct usage_row usage = {0};
    int r = db_tenant_by_number(fleet->config.db, number, &row, err);
    if (r == 0)
        (void)err_set(err, ERR_NOT_FOUND, "no such tenant");
    if (r <= 0 || db_sandbox_usage(fleet->config.db, number, &usage, err) < 0) {
        tenant_row_done(&row);
        return NULL;
    }
    struct tenant *tenant = calloc(1, sizeof *tenant);
    if (tenant == NULL)
        abort();
    *tenant = (struct tenant){.number = number, .sandboxes = usage.sandboxes, .disk = usage.disk};
    (void)snprintf(tenant->key, sizeof tenant->key, "%lld", (long long)number);
    fleet_quotas(fleet, tenant, &row);
    tenant_row_done(&row);
    map_put(&fleet->tenants, tenant->key, tenant);
    return tenant;
}

void fleet_quotas(struct fleet *fleet, struct tenant *tenant, const struct tenant_row *row)
{
    tenant->max_sandboxes = quota(row->sandboxes, fleet->config.tenant_sandboxes);
    tenant->max_running = quota(row->running, fleet->config.tenant_running);
    tenant->max_memory = quota(row->memory, fleet->config.tenant_memory);
    tenant->max_disk = quota(row->disk, fleet->config.tenant_disk);
}

struct tenant *fleet_tenant(struct fleet *fleet, int64_t number, struct err *err)
{
    char key[24];
    (void)snprintf(key, sizeof key, "%lld", (long long)number);
    struct tenant *tenant = map_get(&fleet->tenants, key);
    return tenant != NULL ? tenant : load_tenant(fleet, number, err);
}

void fleet_tenant_changed(struct fleet *fleet, const struct tenant_row *row)
{
    char key[24];
    (void)snprintf(key, sizeof key, "%lld", (long long)row->number);
    struct tenant *tenant = map_get(&fleet->tenants, key);
    if (tenant != NULL)
        fleet_quotas(fleet, tenant, row);
}

// --- the pool

void fleet_ready_box(struct fleet *fleet, uint64_t number, int guest)
{
    if (fleet->n_ready == READY_MAX) {
        fd_close(guest);
        return;
    }
    fleet->ready[fleet->n_ready++] = (struct ready_box){.number = number, .guest = guest};
    parking_ready(fleet);
}

int fleet_take_ready(struct fleet *fleet, struct ready_box *ret)
{
    if (fleet->n_ready == 0)
        return -1;
    *ret = fleet->ready[--fleet->n_ready];
    return 0;
}

static bool drop_ready(struct fleet *fleet, uint64_t number)
{
    for (unsigned i = 0; i < fleet->n_ready; i++) {
        if (fleet->ready[i].number == number) {
            fd_close(fleet->ready[i].guest);
            fleet->ready[i] = fleet->ready[--fleet->n_ready];
            return true;
        }
    }
    return false;
}

unsigned fleet_renew_pool(struct fleet *fleet)
{
    const struct box_limits limits = limits_default();
    struct ready_box box;
    unsigned n = 0;
    for (; fleet_take_ready(fleet, &box) == 0; n++) {
        fd_close(box.guest);
        keeper_take(fleet, box.number, &limits, 0, NULL, NULL); // only who has it can end it
        keeper_destroy(fleet, box.number, NULL, NULL);
    }
    return n;
}

// --- boxes by number

struct bound { // an entry of fleet->boxes
    char key[24];
    struct box_link *box;
};

void fleet_bind(struct fleet *fleet, struct box_link *box)
{
    struct bound *b = calloc(1, sizeof *b);
    if (b == NULL)
        abort();
    (void)snprintf(b->key, sizeof b->key, "%llu", (unsigned long long)box_link_number(box));
    b->box = box;
    map_put(&fleet->boxes, b->key, b);
}

void fleet_unbind(struct fleet *fleet, struct box_link *box)
{
    char key[24];
    (void)snprintf(key, sizeof key, "%llu", (unsigned long long)box_link_number(box));
    free(map_del(&fleet->boxes, key));
}

struct box_link *fleet_box(struct fleet *fleet, uint64_t number)
{
    char key[24];
    (void)snprintf(key, sizeof key, "%llu", (unsigned long long)number);
    struct bound *b = map_get(&fleet->boxes, key);
    return b != NULL ? b->box : NULL;
}

static struct sandbox *by_box(struct fleet *fleet, uint64_t number)
{
    struct box_link *box = fleet_box(fleet, number);
    return box != NULL ? box_link_sandbox(box) : NULL;
}

void fleet_box_ended(struct fleet *fleet, const struct keeper_ended *msg)
{
    struct sandbox *s = by_box(fleet, msg->box);
    if (s != NULL)
        lifecycle_box_ended(s, msg);
    else
        (void)drop_ready(fleet, msg->box);
}

void fleet_box_gone(struct fleet *fleet, uint64_t number)
{
    struct sandbox *s = by_box(fleet, number);
    if (s != NULL)
        lifecycle_box_gone(s);
}

// --- sandboxes in memory

static void waiters_free(struct waiter *w)
{
    while (w != NULL) {
        struct waiter *next = w->next;
        free(w);
        w = next;
    }
}

static void sandbox_empty(struct sandbox *s)
{
    waiters_free(s->wakers); // there are some only when the fleet goes: nobody is told any more
    waiters_free(s->sleepers);
    waiters_free(s->destroyers);
    waiters_free(s->holders);
    waiters_free(s->copiers);
    processes_forget(s);
    sessions_forget(s);
    contexts_forget(s);
    sandbox_row_done(&s->row);
    exec_env_free(s->env);
    free(s->key);
}

static void sandbox_free(struct sandbox *s)
{
    sandbox_empty(s);
    free(s);
}

struct sandbox *sandbox_ref(struct sandbox *s)
{
    s->refs++;
    return s;
}

void sandbox_unref(struct sandbox *s)
{
    if (s == NULL || --s->refs > 0)
        return;
    if (s->state != STATE_GONE)
        return; // it is forgotten by the ticker: who has looked one up may use it
    if (s->fleet != NULL)
        sandbox_free(s);
    else
        free(s); // what it had went with the fleet
}

void fleet_remove(struct sandbox *s)
{
    (void)map_del(&s->fleet->sandboxes, s->key);
}

struct sandbox *fleet_add(struct fleet *fleet, struct sandbox_row *row)
{
    struct err err = {0};
    struct sandbox *s = calloc(1, sizeof *s);
    if (s == NULL)
        abort();
    s->listen_tcp = s->listen_udp = -1;
    s->fleet = fleet;
    s->row = *row;
    *row = (struct sandbox_row){0};
    s->key = make_key(s->row.tenant, s->row.id);
    s->active_ns = clock_ns();
    s->active_stored = s->row.active_ms;
    s->env = env_parse(s->row.env, &err);
    if (s->env == NULL)
        s->env = env_parse(NULL, &err);
    map_put(&fleet->sandboxes, s->key, s);
    return s;
}

struct sandbox *fleet_in_memory(struct fleet *fleet, int64_t tenant, const char *id)
{
    char key[160];
    int n = snprintf(key, sizeof key, "%lld/%s", (long long)tenant, id);
    return n > 0 && (size_t)n < sizeof key ? map_get(&fleet->sandboxes, key) : NULL;
}

// In memory or from its row; NULL without an error when there is none.
struct sandbox *fleet_look_up(struct fleet *fleet, int64_t tenant, const char *id, struct err *err)
{
    struct sandbox_row row = {0};
    struct sandbox *s = fleet_in_memory(fleet, tenant, id);
    if (s != NULL)
        return s;
    if (fleet_tenant(fleet, tenant, err) == NULL ||
        db_sandbox_get(fleet->config.db, tenant, id, &row, err) != 1)
        return NULL;
    if (row.status == SANDBOX_MAKING) { // nobody's yet: its name is taken all the same
        sandbox_row_done(&row);
        (void)err_set(err, ERR_CONFLICT, "sandbox '%.128s' is being made: try again", id);
        err->sys_errno = EINPROGRESS;
        return NULL;
    }
    s = fleet_add(fleet, &row);
    if (s->row.status != SANDBOX_DESTROYING)
        return s;
    (void)err_set(err, ERR_CONFLICT, "sandbox '%.128s' is being destroyed: try again", id);
    lifecycle_resume_destroy(s); // its row could not be removed
    return NULL;
}

struct sandbox *fleet_find(struct fleet *fleet, int64_t tenant, const char *id, struct err *err)
{
    struct err found = {0};
    struct sandbox *s = sandbox_id_valid(id) ? fleet_look_up(fleet, tenant, id, &found) : NULL;
    if (s != NULL && !s->destroy_wanted)
        return s;
    if (found.code != ERR_NONE && found.sys_errno != EINPROGRESS)
        *err = found;
    else
        (void)err_set(err, ERR_NOT_FOUND,
                      "there is no sandbox '%.128s': PUT /sandbox/%.64s makes it", id, id);
    return NULL;
}

const struct sandbox_row *sandbox_row(const struct sandbox *s)
{
    return &s->row;
}

uint64_t sandbox_box(const struct sandbox *s)
{
    return s->box != NULL ? box_link_number(s->box) : 0;
}

bool sandbox_is_up(const struct sandbox *s)
{
    return s->box != NULL && s->state == STATE_RUNNING && !box_link_is_over(s->box);
}

void sandbox_touch(struct sandbox *s)
{
    s->active_ns = clock_ns();
    s->row.active_ms = db_now_ms();
}

void sandbox_busy(struct sandbox *s)
{
    s->busy++;
    sandbox_touch(s);
}

void sandbox_idle(struct sandbox *s)
{
    s->busy--;
    sandbox_touch(s);
}

// --- the clock: who falls asleep, what is written down, who is forgotten

static bool is_idle(const struct sandbox *s, int64_t now_ns)
{
    return s->state == STATE_RUNNING && s->busy == 0 && !s->row.keep_alive &&
           now_ns - s->active_ns > s->row.sleep_after_ms * NS_PER_MS;
}

static void store_activity(struct fleet *fleet)
{
    struct err err = {0};
    size_t at = 0;
    struct sandbox *s;
    if (db_begin(fleet->config.db, &err) < 0)
        return;
    while ((s = map_next(&fleet->sandboxes, &at)) != NULL) {
        if (s->active_stored != s->row.active_ms &&
            db_sandbox_touch(fleet->config.db, s->row.number, s->row.active_ms, &err) == 0)
            s->active_stored = s->row.active_ms;
    }
    if (db_commit(fleet->config.db, &err) < 0)
        db_rollback(fleet->config.db);
}

static void on_tick(uv_timer_t *timer)
{
    struct fleet *fleet = timer->data;
    int64_t now = clock_ns();
    size_t at = 0;
    struct sandbox *s;
    if (++fleet->ticks % STORE_TICKS == 0) {
        store_activity(fleet);
        due_sweep(fleet); // by what was just stored
    }
    while ((s = map_next(&fleet->sandboxes, &at)) != NULL) {
        if (is_idle(s, now)) {
            sandbox_sleep(s, "idle", NULL, NULL);
        } else if (s->disk_in_use) {
            lifecycle_drop_disk(s);
        } else if (s->refs == 0 && s->state == STATE_SLEEPING &&
                   s->active_stored == s->row.active_ms) {
            fleet_remove(s);
            sandbox_free(s);
        }
    }
}

// --- counting

void fleet_stats(const struct fleet *fleet, struct fleet_stats *ret)
{
    *ret = fleet->counted;
    ret->boxes_max = fleet->welcome.boxes;
    ret->ready = fleet->n_ready;
    ret->pool = fleet->welcome.pool_ready;
    ret->parked_python = parking_count(fleet, KERNEL_PYTHON);
    ret->parked_node = parking_count(fleet, KERNEL_NODE);
    ret->running = fleet->running - fleet->starting;
    ret->waiting = fleet->starting;
    ret->has_volume = fleet->welcome.has_volume != 0;
    ret->restarts = fleet->welcome.restarts;
}

const struct timing *fleet_timing(const struct fleet *fleet, enum fleet_timing which)
{
    return &fleet->timings[which];
}

const struct recent *fleet_recent(const struct fleet *fleet, enum fleet_timing which)
{
    return &fleet->recent[which];
}

int64_t fleet_running_of(const struct fleet *fleet, int64_t tenant)
{
    char key[24];
    (void)snprintf(key, sizeof key, "%lld", (long long)tenant);
    const struct tenant *t = map_get(&fleet->tenants, key);
    return t != NULL ? (int64_t)t->running : 0;
}

void fleet_time(struct fleet *fleet, enum fleet_timing which, int64_t ns)
{
    recent_add(&fleet->recent[which], clock_ns(), ns);
    timing_add(&fleet->timings[which], ns);
}

void timing_add(struct timing *t, int64_t ns)
{
    double seconds = (double)ns / (double)NS_PER_S;
    unsigned i = 0;
    while (i < TIMING_BUCKETS && seconds > timing_bounds[i])
        i++;
    if (i < TIMING_BUCKETS)
        t->bucket[i]++;
    t->count++;
    t->sum += seconds;
}

void fleet_count_end(struct fleet *fleet, enum end_reason reason)
{
    fleet->counted.ends[reason]++;
}

// --- life

int fleet_logs_fd(const struct fleet *fleet)
{
    return fleet->config.logs_fd;
}

uint64_t fleet_process_log(const struct fleet *fleet)
{
    return fleet->config.process_log;
}

struct db *fleet_db(struct fleet *fleet)
{
    return fleet->config.db;
}

uv_loop_t *fleet_loop(struct fleet *fleet)
{
    return fleet->config.loop;
}

int fleet_open(const struct fleet_config *config, void (*ready)(void *data),
               void (*lost)(void *data), void *data, struct fleet **ret, struct err *err)
{
    struct fleet *fleet = calloc(1, sizeof *fleet);
    if (fleet == NULL)
        abort();
    fleet->config = *config;
    if (config->image == NULL)
        fleet->config.image = "host";
    fleet->ready_fn = ready;
    fleet->lost_fn = lost;
    fleet->data = data;
    if (keeper_link_open(fleet, err) < 0) {
        free(fleet);
        return -1;
    }
    parking_open(fleet);
    fleet->ticker = calloc(1, sizeof *fleet->ticker);
    if (fleet->ticker == NULL)
        abort();
    fleet->ticker->data = fleet;
    (void)uv_timer_init(config->loop, fleet->ticker);
    (void)uv_timer_start(fleet->ticker, on_tick, TICK_MS, TICK_MS);
    *ret = fleet;
    return 0;
}

void fleet_check_stopped(struct fleet *fleet)
{
    if (!fleet->stopping || fleet->running + fleet->held + fleet->forking > 0 ||
        fleet->stopped_fn == NULL)
        return;
    void (*fn)(void *) = fleet->stopped_fn;
    fleet->stopped_fn = NULL;
    fn(fleet->stopped_data);
}

void fleet_stop(struct fleet *fleet, void (*done)(void *data), void *data)
{
    size_t at = 0;
    struct sandbox *s;
    fleet->stopping = true;
    fleet->stopped_fn = done;
    fleet->stopped_data = data;
    store_activity(fleet);
    while ((s = map_next(&fleet->sandboxes, &at)) != NULL) {
        if (s->state == STATE_RUNNING || s->state == STATE_STARTING)
            sandbox_sleep(s, "the server stops", NULL, NULL);
    }
    fleet_check_stopped(fleet);
}

// Work on threads may still hold one, and lets it go when the loop runs for the last time.
static void leave_to_others(struct sandbox *s)
{
    sandbox_empty(s);
    if (s->refs == 0) {
        free(s);
        return;
    }
    s->state = STATE_GONE;
    s->box = NULL;
    s->fleet = NULL;
}

void fleet_free(struct fleet *fleet)
{
    size_t at = 0;
    struct sandbox *s;
    void *entry;
    if (fleet == NULL)
        return;
    fleet->ticker->data = NULL;
    uv_close((uv_handle_t *)fleet->ticker, (uv_close_cb)free);
    adopt_drop(fleet);
    while ((s = map_next(&fleet->sandboxes, &at)) != NULL) {
        followers_end(s);
        if (s->box != NULL) {
            fleet_unbind(fleet, s->box);
            box_link_free(s->box);
            s->refs--; // the box's
        }
        if (s->state == STATE_DESTROYING || s->state == STATE_HELD)
            s->refs--; // that of those in destruction: the next daemon goes on with it
        fleet_remove(s);
        leave_to_others(s);
    }
    drains_end(fleet);
    for (unsigned i = 0; i < fleet->n_ready; i++)
        fd_close(fleet->ready[i].guest);
    for (at = 0; (entry = map_next(&fleet->tenants, &at)) != NULL;)
        free(entry);
    map_done(&fleet->tenants);
    map_done(&fleet->sandboxes);
    map_done(&fleet->boxes);
    keeper_link_close(fleet);
    parking_close(fleet);
    free(fleet);
}
