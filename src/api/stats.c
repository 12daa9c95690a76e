// SPDX-License-Identifier: Apache-2.0
// GET /stats: how the server does, for monitors. An admin sees all; others see what is theirs: what
// the machine and the others do is not.
#include "api/stats.h"

#include <stdlib.h>

#include "agents/agents.h"
#include "api/call.h"
#include "api/handlers.h"
#include "api/machine.h"
#include "api/show.h"
#include "base/clock.h"
#include "base/recent.h"
#include "egress/egress.h"

enum {
    STATS_MAX = 64 * 1024,
    LOADS = 3,
    ANSWERS_SEEN = 500, // of the last minutes, at most
    DAY_MS = 24 * 3600 * 1000,
};

struct stats {
    int64_t since_ns;
    struct recent answers;
    struct timing timing;
    struct machine machine;
};

struct stats *stats_new(void)
{
    struct stats *stats = calloc(1, sizeof *stats);
    if (stats == NULL)
        abort();
    stats->since_ns = clock_ns();
    machine_look(&stats->machine);
    return stats;
}

void stats_free(struct stats *stats)
{
    free(stats);
}

void stats_tick(struct stats *stats)
{
    machine_look(&stats->machine);
}

void stats_answered(struct stats *stats, int64_t took_ns)
{
    recent_add(&stats->answers, clock_ns(), took_ns);
    timing_add(&stats->timing, took_ns);
}

const struct timing *stats_timing(const struct stats *stats)
{
    return &stats->timing;
}

// -- the parts of the answer

static void show_null(struct json *j, const char *key)
{
    json_key(j, key);
    json_put_null(j);
}

static void show_host(struct json *j, struct machine *machine)
{
    double load[LOADS];
    struct machine_memory memory;
    int n = getloadavg(load, LOADS);
    machine_look(machine);
    machine_memory(&memory);
    json_key(j, "host");
    json_open_object(j);
    show_int(j, "cpus", machine_cpus());
    if (machine->cpu_percent >= 0)
        show_ms(j, "cpu_percent", machine->cpu_percent);
    else
        show_null(j, "cpu_percent");
    json_key(j, "load");
    json_open_array(j);
    for (int i = 0; i < n; i++)
        json_put_double(j, (double)(int64_t)(load[i] * 100 + 0.5) / 100);
    json_close_array(j);
    show_int(j, "memory_total", (int64_t)memory.total);
    show_int(j, "memory_available", (int64_t)memory.available);
    json_close_object(j);
}

static void show_boxes(struct json *j, const struct fleet_stats *s)
{
    json_key(j, "boxes");
    json_open_object(j);
    show_int(j, "max", s->boxes_max);
    show_int(j, "ready", s->ready);
    show_int(j, "running", s->running);
    show_int(j, "waiting", s->waiting);
    json_key(j, "parked");
    json_open_object(j);
    show_int(j, "python", s->parked_python);
    show_int(j, "javascript", s->parked_node);
    json_close_object(j);
    json_close_object(j);
}

static int show_sandboxes(struct json *j, const struct call *call, const struct fleet_stats *s,
                          struct err *err)
{
    struct usage_row usage = {0};
    int64_t running = call->admin ? s->running : fleet_running_of(call->api->fleet, call->tenant);
    if (db_sandbox_usage(call->api->db, call->admin ? 0 : call->tenant, &usage, err) < 0)
        return -1;
    json_key(j, "sandboxes");
    json_open_object(j);
    show_int(j, "running", running);
    // One that is being made has a box before it has a row.
    show_int(j, "sleeping", usage.sandboxes > running ? usage.sandboxes - running : 0);
    json_close_object(j);
    return 0;
}

static void show_reading(struct json *j, const char *key, const struct recent_reading *r)
{
    json_key(j, key);
    json_open_object(j);
    show_int(j, "count", (int64_t)r->count);
    if (r->count > 0) {
        show_ms(j, "p50_ms", r->p50_ms);
        show_ms(j, "p90_ms", r->p90_ms);
        show_ms(j, "p99_ms", r->p99_ms);
    } else {
        show_null(j, "p50_ms");
        show_null(j, "p90_ms");
        show_null(j, "p99_ms");
    }
    json_close_object(j);
}

static void show_recent(struct json *j, const char *key, const struct recent *recent)
{
    struct recent_reading reading;
    recent_read(recent, clock_ns(), &reading);
    show_reading(j, key, &reading);
}

// Those of the fleet are the whole machine's.
static void show_machine_latency(struct json *j, const struct call *call)
{
    static const char *const names[TIMING_MAX] = {
        [TIMING_CREATE] = "create",
        [TIMING_WAKE] = "wake",
        [TIMING_EXEC] = "exec",
        [TIMING_CELL] = "cell",
    };
    show_recent(j, "requests", &call->api->stats->answers);
    for (int i = 0; i < TIMING_MAX; i++)
        show_recent(j, names[i], fleet_recent(call->api->fleet, (enum fleet_timing)i));
}

// Questions that were answered: rows have their times.
struct answered {
    int64_t since_ms, now_ns;
    struct recent generation, sandbox;
};

static int see_result(void *data, const struct result_row *row)
{
    struct answered *a = data;
    if (row->created_ms < a->since_ms)
        return 1;
    if (row->state != RESULT_DONE)
        return 0;
    if (row->generation_ms > 0) // else its code was there already
        recent_add(&a->generation, a->now_ns, row->generation_ms * NS_PER_MS);
    if (row->sandbox_ms > 0)
        recent_add(&a->sandbox, a->now_ns, row->sandbox_ms * NS_PER_MS);
    return 0;
}

static int show_latency(struct json *j, const struct call *call, struct err *err)
{
    struct answered a = {.since_ms = db_now_ms() - RECENT_MINUTES * 60 * 1000,
                         .now_ns = clock_ns()};
    const struct result_query query = {
        .tenant = call->admin ? 0 : call->tenant, .kind = "question", .max = ANSWERS_SEEN};
    if (db_result_each(call->api->db, &query, see_result, &a, err) < 0)
        return -1;
    json_key(j, "latency");
    json_open_object(j);
    show_int(j, "seconds", RECENT_MINUTES * 60);
    if (call->admin)
        show_machine_latency(j, call);
    show_recent(j, "generation", &a.generation);
    show_recent(j, "sandbox", &a.sandbox);
    json_close_object(j);
    return 0;
}

static int see_spend(void *data, const struct spend_sum *sum)
{
    *(struct spend_sum *)data = *sum;
    return 0;
}

// What was spent in the last day, by boxes too; what fails and what is open is the whole server's.
static int show_model(struct json *j, const struct call *call, struct err *err)
{
    struct agents_stats stats = {0};
    struct spend_sum s = {0};
    const struct spend_query query = {.tenant = call->admin ? 0 : call->tenant,
                                      .by = SPEND_BY_NONE,
                                      .since_ms = db_now_ms() - DAY_MS,
                                      .max = 1};
    if (db_spend_each(call->api->db, &query, see_spend, &s, err) < 0)
        return -1;
    if (call->api->agents != NULL)
        agents_stats(call->api->agents, &stats);
    json_key(j, "model");
    json_open_object(j);
    show_int(j, "requests", s.requests);
    show_int(j, "tokens", s.input + s.output + s.cache_write + s.cache_write_1h + s.cache_read);
    show_usd(j, "cost_usd", s.cost);
    if (call->admin) {
        show_int(j, "errors", (int64_t)stats.call_errors);
        show_int(j, "open", stats.open);
    } else {
        show_null(j, "errors");
        show_null(j, "open");
    }
    json_close_object(j);
    return 0;
}

static void show_egress(struct json *j, const struct api *api)
{
    struct egress_stats s;
    egress_stats(api->egress, &s);
    json_key(j, "egress");
    json_open_object(j);
    show_int(j, "allowed", (int64_t)s.allowed);
    show_int(j, "denied", (int64_t)s.denied);
    show_int(j, "bytes", (int64_t)s.bytes);
    show_int(j, "open", s.open);
    json_close_object(j);
}

// -- the route

static int show_all(struct json *j, const struct call *call, struct err *err)
{
    struct fleet_stats fleet;
    struct stats *stats = call->api->stats;
    fleet_stats(call->api->fleet, &fleet);
    show_bool(j, "success", true);
    show_time_now(j, "timestamp");
    show_int(j, "uptime_ms", (clock_ns() - stats->since_ns) / NS_PER_MS);
    show_str(j, "version", CAY_VERSION);
    show_str(j, "scope", call->admin ? "all" : "tenant");
    show_boxes(j, &fleet);
    if (show_sandboxes(j, call, &fleet, err) < 0 || show_latency(j, call, err) < 0 ||
        show_model(j, call, err) < 0)
        return -1;
    if (call->admin) {
        show_host(j, &stats->machine);
        show_egress(j, call->api);
    } else {
        show_null(j, "host");
        show_null(j, "egress");
    }
    return 0;
}

void handle_server_stats(struct call *call)
{
    struct buf buf;
    struct json j;
    struct err err = {0};
    buf_init(&buf, STATS_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    if (show_all(&j, call, &err) < 0) {
        buf_done(&buf);
        call_fail(call, &err);
        return;
    }
    json_close_object(&j);
    call_reply_json(call, 200, &j);
}
