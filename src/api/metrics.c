// SPDX-License-Identifier: Apache-2.0
// Numbers for Prometheus, in its text format.
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "agents/agents.h"
#include "api/call.h"
#include "api/handlers.h"
#include "api/stats.h"
#include "base/clock.h"
#include "base/fd.h"
#include "egress/egress.h"
#include "move/move.h"
#include "saved/saved.h"

enum { METRICS_MAX = 256 * 1024 };

static void head(struct buf *b, const char *name, const char *type, const char *help)
{
    (void)buf_printf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void number(struct buf *b, const char *name, const char *type, const char *help, uint64_t n)
{
    head(b, name, type, help);
    (void)buf_printf(b, "%s %" PRIu64 "\n", name, n);
}

static void put_fleet(struct buf *b, const struct fleet *fleet)
{
    struct fleet_stats s;
    fleet_stats(fleet, &s);
    number(b, "cay_sandbox_created_total", "counter", "Sandboxes made.", s.created);
    number(b, "cay_sandbox_woken_total", "counter", "Sandboxes woken.", s.woken);
    number(b, "cay_sandbox_slept_total", "counter", "Sandboxes put to sleep.", s.slept);
    number(b, "cay_sandbox_destroyed_total", "counter", "Sandboxes destroyed.", s.destroyed);
    number(b, "cay_boxes_lost_total", "counter", "Boxes that died by themselves.", s.lost);
    number(b, "cay_admission_refused_total", "counter", "Boxes refused for want of room.",
           s.refused);
    number(b, "cay_execs_total", "counter", "Programs started in boxes.", s.execs);
    number(b, "cay_daemon_restarts", "gauge", "How often the daemon was started again.",
           s.restarts);
    number(b, "cay_pool_ready", "gauge", "Boxes that stand ready.", s.ready);
    head(b, "cay_pool_parked", "gauge", "Interpreters that wait in boxes that stand ready.");
    (void)buf_printf(b, "cay_pool_parked{kernel=\"python\"} %u\n", s.parked_python);
    (void)buf_printf(b, "cay_pool_parked{kernel=\"node\"} %u\n", s.parked_node);
    head(b, "cay_kernels_total", "counter", "Interpreters that contexts were given, by their way.");
    (void)buf_printf(b, "cay_kernels_total{way=\"parked\"} %" PRIu64 "\n", s.kernels_parked);
    (void)buf_printf(b, "cay_kernels_total{way=\"forked\"} %" PRIu64 "\n", s.kernels_forked);
    (void)buf_printf(b, "cay_kernels_total{way=\"started\"} %" PRIu64 "\n", s.kernels_started);
    number(b, "cay_boxes_running", "gauge", "Boxes in use.", s.running);
    number(b, "cay_boxes_waiting", "gauge", "Boxes asked for.", s.waiting);
    number(b, "cay_boxes_max", "gauge", "Boxes at most.", s.boxes_max);
    head(b, "cay_ends_total", "counter", "Ends of execs, processes and commands, by reason.");
    for (int i = END_NONE + 1; i < END_REASON_MAX; i++)
        (void)buf_printf(b, "cay_ends_total{reason=\"%s\"} %" PRIu64 "\n",
                         end_reason_name((enum end_reason)i), s.ends[i]);
}

static void put_histogram(struct buf *b, const char *name, const char *help, const struct timing *t)
{
    uint64_t sum = 0;
    head(b, name, "histogram", help);
    for (int i = 0; i < TIMING_BUCKETS; i++) {
        sum += t->bucket[i];
        (void)buf_printf(b, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, timing_bounds[i], sum);
    }
    (void)buf_printf(b, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum %.9g\n%s_count %" PRIu64 "\n",
                     name, t->count, name, t->sum, name, t->count);
}

static void put_timing(struct buf *b, const struct fleet *fleet, enum fleet_timing which)
{
    static const struct {
        const char *name, *help;
    } names[TIMING_MAX] = {
        [TIMING_CREATE] = {"cay_sandbox_create_seconds",
                           "From the request to a sandbox that runs."                           },
        [TIMING_WAKE] = {"cay_sandbox_wake_seconds",   "From asleep to running."              },
        [TIMING_EXEC] = {"cay_exec_seconds",           "From the start of an exec to its end."},
        [TIMING_CELL] = {"cay_cell_seconds",           "From the start of a cell to its end." },
    };
    put_histogram(b, names[which].name, names[which].help, fleet_timing(fleet, which));
}

static void put_requests(struct buf *b, const struct api *api)
{
    static const char *const methods[API_METHODS] = {"GET",   "HEAD",   "POST",    "PUT",
                                                     "PATCH", "DELETE", "OPTIONS", "other"};
    unsigned streams = 0;
    head(b, "cay_http_requests_total", "counter", "Requests answered, by method and status.");
    for (int m = 0; m < API_METHODS; m++) {
        for (int c = 0; c < API_CLASSES; c++) {
            if (api->requests_by[m][c] > 0)
                (void)buf_printf(
                    b, "cay_http_requests_total{method=\"%s\",code=\"%dxx\"} %" PRIu64 "\n",
                    methods[m], c + 1, api->requests_by[m][c]);
        }
    }
    for (const struct call *c = api->streams; c != NULL; c = c->stream_next)
        streams++;
    put_histogram(b, "cay_request_seconds",
                  "From a request to its answer, or a stream's beginning.",
                  stats_timing(api->stats));
    number(b, "cay_http_streams", "gauge", "Streamed answers that are open.", streams);
}

static void put_ways(struct buf *b, const struct api *api)
{
    struct egress_stats s;
    egress_stats(api->egress, &s);
    number(b, "cay_egress_allowed_total", "counter", "Connections that boxes were allowed.",
           s.allowed);
    number(b, "cay_egress_denied_total", "counter", "Connections that they were not.", s.denied);
    number(b, "cay_egress_bytes_total", "counter", "Bytes of boxes, in both directions.", s.bytes);
    number(b, "cay_egress_open", "gauge", "Connections of boxes that are open.", s.open);
    number(b, "cay_transfers", "gauge", "Files and tunnels being moved.",
           mover_running(api->mover));
}

static void put_tokens(struct buf *b, const struct model_usage *u)
{
    const struct {
        const char *kind;
        int64_t n;
    } rows[] = {
        {"input",          u->input         },
        {"output",         u->output        },
        {"cache_write",    u->cache_write   },
        {"cache_write_1h", u->cache_write_1h},
        {"cache_read",     u->cache_read    },
    };
    head(b, "cay_model_tokens_total", "counter", "Tokens of models, by kind.");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        (void)buf_printf(b, "cay_model_tokens_total{kind=\"%s\"} %" PRId64 "\n", rows[i].kind,
                         rows[i].n);
}

static void put_agents(struct buf *b, const struct agents *agents)
{
    struct agents_stats s;
    if (agents == NULL)
        return;
    agents_stats(agents, &s);
    number(b, "cay_runs_total", "counter", "Questions, conversations and tasks begun.", s.runs);
    number(b, "cay_runs_failed_total", "counter", "Those that ended without success.", s.failed);
    number(b, "cay_runs_cached_total", "counter", "Questions answered by code that was there.",
           s.cached);
    number(b, "cay_runs_open", "gauge", "Those that run.", s.open);
    number(b, "cay_tasks_total", "counter", "Tasks among them.", s.tasks);
    number(b, "cay_tasks_failed_total", "counter", "Tasks that ended without success.",
           s.tasks_failed);
    number(b, "cay_tasks_open", "gauge", "Tasks that run.", s.tasks_open);
    number(b, "cay_model_requests_total", "counter", "Calls to models.", s.calls);
    number(b, "cay_model_errors_total", "counter", "Calls to models that failed.", s.call_errors);
    put_tokens(b, &s.usage);
    head(b, "cay_model_cost_usd_total", "counter", "What models have cost, in dollars.");
    (void)buf_printf(b, "cay_model_cost_usd_total %.9f\n", (double)s.cost / 1e9);
}

// The rows are added up once a minute: there may be many.
static const struct stored_sums *stored_bytes(struct db *db)
{
    static struct stored_sums sums;
    static int64_t known_ns;
    struct err err;
    int64_t now = clock_ns();
    if ((known_ns == 0 || now - known_ns > 60 * NS_PER_S) &&
        db_stored_sums(db, 0, &sums, &err) == 0)
        known_ns = now;
    return &sums;
}

static void put_store_bytes(struct buf *b, struct db *db)
{
    const struct stored_sums *s = stored_bytes(db);
    const struct {
        const char *kind;
        int64_t n;
    } rows[] = {
        {"workspaces", s->workspaces},
        {"backups",    s->backups   },
        {"archives",   s->archives  },
        {"results",    s->results   },
    };
    head(b, "cay_store_bytes", "gauge", "Bytes in the store, by kind.");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        (void)buf_printf(b, "cay_store_bytes{kind=\"%s\"} %" PRId64 "\n", rows[i].kind, rows[i].n);
}

static void put_store(struct buf *b, const struct api *api)
{
    struct saved_stats s;
    struct err err;
    saved_stats(api->saved, &s);
    put_store_bytes(b, api->db);
    put_histogram(b, "cay_store_sync_seconds", "From the start of a sync to its end.", &s.sync);
    number(b, "cay_store_ok", "gauge", "1: the store works.", saved_store_ok(api->saved, &err));
    number(b, "cay_store_puts_total", "counter", "Objects written.", s.store.puts);
    number(b, "cay_store_gets_total", "counter", "Objects read.", s.store.gets);
    number(b, "cay_store_deletes_total", "counter", "Objects deleted.", s.store.deletes);
    number(b, "cay_store_failed_total", "counter", "Calls to the store that failed.",
           s.store.failed);
    number(b, "cay_store_retried_total", "counter", "Calls to the store that were tried again.",
           s.store.retried);
    number(b, "cay_store_in_bytes_total", "counter", "Bytes written to it.", s.store.bytes_in);
    number(b, "cay_store_out_bytes_total", "counter", "Bytes read from it.", s.store.bytes_out);
    number(b, "cay_store_waiting", "gauge", "Work that waits for a thread or its turn.", s.waiting);
    number(b, "cay_syncs_total", "counter", "Workspaces synced.", s.syncs);
    number(b, "cay_syncs_failed_total", "counter", "Syncs that failed.", s.syncs_failed);
    number(b, "cay_backups_total", "counter", "Backups made.", s.backups);
    number(b, "cay_restores_total", "counter", "Backups restored.", s.restores);
    number(b, "cay_archived_total", "counter", "Disks sent to the archive.", s.archived);
    number(b, "cay_recalled_total", "counter", "Disks brought back from it.", s.recalled);
    number(b, "cay_backups_expired_total", "counter", "Backups that expired.", s.expired);
}

static void put_process(struct buf *b)
{
    char text[256];
    unsigned long long size, resident;
    if (fd_read_file(-1, "/proc/self/statm", text, sizeof text) > 0 &&
        sscanf(text, "%llu %llu", &size, &resident) == 2) {
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
        number(b, "process_resident_memory_bytes", "gauge", "Resident memory of the daemon.",
               resident * page);
        number(b, "process_virtual_memory_bytes", "gauge", "Virtual memory of the daemon.",
               size * page);
    }
    head(b, "cay_build_info", "gauge", "The version.");
    (void)buf_printf(b, "cay_build_info{version=\"%s\"} 1\n", CAY_VERSION);
}

void handle_metrics(struct call *call)
{
    struct buf b;
    buf_init(&b, METRICS_MAX);
    put_fleet(&b, call->api->fleet);
    for (int i = 0; i < TIMING_MAX; i++)
        put_timing(&b, call->api->fleet, (enum fleet_timing)i);
    put_requests(&b, call->api);
    put_ways(&b, call->api);
    put_agents(&b, call->api->agents);
    put_store(&b, call->api);
    put_process(&b);
    call_reply(call, 200, "text/plain; version=0.0.4; charset=utf-8", &b);
}
