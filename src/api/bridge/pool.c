// SPDX-License-Identifier: Apache-2.0
// The pool of boxes that stand ready, as theirs is asked about it. Ours fills itself, at once and
// by itself, up to what `cay serve --pool` says.
#include "api/bridge/bridge.h"
#include "api/show.h"

static void handle_stats(struct call *call)
{
    struct fleet_stats stats;
    struct buf buf;
    struct json j;
    fleet_stats(call->api->fleet, &stats);
    // A tenant sees what is its own.
    int64_t assigned = call->admin ? (int64_t)stats.running + stats.waiting
                                   : fleet_running_of(call->api->fleet, call->tenant);
    buf_init(&buf, 1024);
    json_init(&j, &buf);
    json_open_object(&j);
    show_int(&j, "warm", stats.ready);
    show_int(&j, "assigned", assigned);
    show_int(&j, "total", stats.ready + assigned);
    json_key(&j, "config");
    json_open_object(&j);
    show_int(&j, "warmTarget", stats.pool);
    show_int(&j, "refreshInterval", 0);
    json_close_object(&j);
    show_int(&j, "maxInstances", stats.boxes_max);
    json_close_object(&j);
    call_reply_json(call, 200, &j);
}

static void handle_prime(struct call *call)
{
    bridge_ok(call);
}

static void handle_shutdown(struct call *call)
{
    struct buf buf;
    struct json j;
    buf_init(&buf, 256);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "ok", true);
    show_int(&j, "stopped", fleet_renew_pool(call->api->fleet));
    json_close_object(&j);
    call_reply_json(call, 200, &j);
}

const struct route bridge_pool[] = {
    BRIDGE_ROUTE(HTTP_GET, "/pool/stats", 200, handle_stats, .name = "getPoolStats",
                 .summary = "How many boxes stand ready, and how many are in use",
                 .answer = "Counts; `assigned` is the tenant's own, an admin's is all",
                 .shape = &bridge_pool_shape),
    BRIDGE_ROUTE(HTTP_POST, "/pool/prime", 200, handle_prime, .name = "primePool",
                 .summary = "Nothing to do: the pool is kept filled without being asked",
                 .answer = "It is", .shape = &bridge_ok_shape),
    BRIDGE_ROUTE(HTTP_POST, "/pool/shutdown-prewarmed", 200, handle_shutdown, .flags = ROUTE_ADMIN,
                 .name = "shutdownPrewarmed",
                 .summary = "End the boxes that stand ready; new ones are made in their place",
                 .answer = "How many", .shape = &bridge_stopped_shape),
};
const size_t n_bridge_pool = sizeof bridge_pool / sizeof *bridge_pool;
