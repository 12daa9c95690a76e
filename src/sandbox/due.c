// SPDX-License-Identifier: Apache-2.0
// What sandboxes have of time and money: those that nobody has used for as long as their
// destroyAfter says are destroyed, and what is spent for one is known to its copy in memory.
//
// The rows decide who is due: those that are in use have their time of activity stored before. So
// whoever's time ran out while the server was down is found like all others. One that runs must
// have been idle by the clock that nobody sets, too.
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "sandbox/sandbox-internal.h"

enum { SWEEP_MAX = 32 }; // at one time

static bool is_unused(const struct sandbox *s)
{
    if (s->destroy_wanted || s->row.keep_alive || s->wakers != NULL || s->row.destroy_after_ms <= 0)
        return false;
    if (s->state == STATE_RUNNING)
        return clock_ns() - s->active_ns >= s->row.destroy_after_ms * NS_PER_MS;
    return s->state == STATE_SLEEPING && db_now_ms() - s->row.active_ms >= s->row.destroy_after_ms;
}

static int see(void *data, const struct sandbox_row *row)
{
    struct fleet *fleet = data;
    struct err err = {0};
    struct sandbox *s = fleet_look_up(fleet, row->tenant, row->id, &err);
    if (s == NULL)
        return 0;
    if (s->busy > 0) {
        sandbox_touch(s); // it is in use: others come first the next time
    } else if (is_unused(s)) {
        log_line(LOG_INFO, "sandbox was not used for its destroyAfter", "sandbox", s->row.id, NULL);
        sandbox_destroy(s, NULL, NULL);
    }
    return 0;
}

void due_sweep(struct fleet *fleet)
{
    struct err err = {0};
    if (fleet->adoption != NULL || fleet->stopping)
        return;
    if (db_sandbox_each_due(fleet->config.db, db_now_ms(), SWEEP_MAX, see, fleet, &err) < 0)
        log_line(LOG_WARN, "cannot look for unused sandboxes, ignoring", "error", err.msg, NULL);
}

// --- money

static void add(int64_t *sum, int64_t one)
{
    if (__builtin_add_overflow(*sum, one, sum))
        *sum = INT64_MAX;
}

void sandbox_set_request(struct sandbox *s, const char *id)
{
    (void)snprintf(s->request, sizeof s->request, "%s", id != NULL ? id : "");
}

const char *sandbox_request(const struct sandbox *s)
{
    return s->request;
}

int fleet_spend(struct fleet *fleet, const struct spend_row *row, struct err *err)
{
    // One that is loaded later reads the counters with this in them.
    struct sandbox *s =
        row->sandbox != NULL ? fleet_in_memory(fleet, row->tenant, row->sandbox) : NULL;
    int r = db_spend_add(fleet->config.db, row, err);
    // Also when that fails: a full disk is no way around a budget.
    if (s != NULL && s->row.number == row->sandbox_number) {
        add(&s->row.spent_cost, row->cost);
        add(&s->row.spent_tokens,
            row->input + row->output + row->cache_write + row->cache_write_1h + row->cache_read);
    }
    return r;
}
