// SPDX-License-Identifier: Apache-2.0
// `cay monitor --once`: one look at a server, as text or as one JSON object.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/monitor.h"
#include "cli/table.h"
#include "cli/view.h"

enum { REQUESTS_SHOWN = 10 };

// -- JSON: {url, health, health_ms, stats, sandboxes, requests}, the parts as the server has them

static void print_key(const char *key)
{
    (void)printf(",\"%s\":", key);
}

static void print_node(const struct json_node *node)
{
    if (node != NULL)
        remote_print_node(node);
    else
        (void)fputs("null", stdout);
}

// A sandbox with what it uses beside what it is.
static void print_sandbox(const struct gathered *g, const struct json_node *sandbox)
{
    const char *id = json_text(json_get(sandbox, "id"));
    (void)fputc('{', stdout);
    for (const struct json_node *n = json_first(sandbox); n != NULL; n = json_next(n)) {
        auto_buf key;
        struct json j;
        buf_init(&key, REMOTE_TARGET_MAX);
        json_init(&j, &key);
        json_put_str(&j, n->key);
        if (strcmp(n->key, "stats") == 0)
            continue;
        (void)printf("%s:", buf_str(&key));
        remote_print_node(n);
        (void)fputc(',', stdout);
    }
    (void)fputs("\"stats\":", stdout);
    print_node(id != NULL ? gather_usage_of(g, id) : NULL);
    (void)fputc('}', stdout);
}

static void print_json(const struct remote *remote, const struct gathered *g)
{
    auto_buf url;
    struct json j;
    bool any = false;
    buf_init(&url, REMOTE_TARGET_MAX);
    json_init(&j, &url);
    json_put_str(&j, remote->place.text);
    (void)printf("{\"url\":%s,\"health_ms\":%.3f", buf_str(&url), (double)g->health_ns / 1e6);
    print_key("health");
    print_node(answer_root(&g->health));
    print_key("stats");
    print_node(g->has_stats ? answer_root(&g->stats) : NULL);
    print_key("sandboxes");
    (void)fputc('[', stdout);
    const struct json_node *list = json_get(answer_root(&g->sandboxes), "sandboxes");
    for (const struct json_node *s = json_first(list); s != NULL; s = json_next(s)) {
        (void)fputs(any ? "," : "", stdout);
        print_sandbox(g, s);
        any = true;
    }
    (void)fputc(']', stdout);
    print_key("requests");
    print_node(g->has_requests ? json_get(answer_root(&g->requests), "results") : NULL);
    (void)puts("}");
}

// -- text

static const char *or_dash(char *ret, size_t size, int64_t n)
{
    (void)snprintf(ret, size, n >= 0 ? "%" PRId64 : "-", n);
    return ret;
}

static void print_server(const struct remote *remote, const struct view *v)
{
    char up[24];
    (void)printf("%s: %s, version %s, answers in %.1f ms", remote->place.text,
                 v->status[0] != '\0' ? v->status : "unknown", v->version, v->health_ms);
    if (v->uptime_ms >= 0)
        (void)printf(", up for %s", text_ago(up, sizeof up, v->uptime_ms / 1000));
    (void)fputc('\n', stdout);
    if (v->boxes_max >= 0)
        (void)printf("boxes: %" PRId64 " of %" PRId64 " run, %" PRId64 " asked for, %" PRId64
                     " ready; parked: python %" PRId64 ", javascript %" PRId64 "\n",
                     v->boxes_running, v->boxes_max, v->waiting, v->ready, v->parked_python,
                     v->parked_javascript);
    if (v->running >= 0)
        (void)printf("sandboxes: %" PRId64 " run, %" PRId64 " sleep\n", v->running, v->sleeping);
}

static void print_machine(const struct view *v)
{
    char total[24], used[24];
    if (v->cpus < 0)
        return;
    if (v->cpu_percent >= 0)
        (void)printf("machine: %.0f%% of %" PRId64 " cpus, ", v->cpu_percent, v->cpus);
    else
        (void)printf("machine: %" PRId64 " cpus, ", v->cpus);
    (void)printf("load %.2f %.2f %.2f, %s of %s memory used\n", v->load[0], v->load[1], v->load[2],
                 text_size(used, sizeof used, (uint64_t)(v->memory_total - v->memory_available)),
                 text_size(total, sizeof total, (uint64_t)v->memory_total));
}

static void print_ways(const struct view *v)
{
    char bytes[24];
    if (v->model_requests >= 0)
        (void)printf("models: %" PRId64 " requests, %" PRId64 " tokens, $%.4f\n", v->model_requests,
                     v->model_tokens, v->model_cost);
    if (v->egress_allowed >= 0)
        (void)printf("egress: %" PRId64 " allowed, %" PRId64 " denied, %s, %" PRId64 " open\n",
                     v->egress_allowed, v->egress_denied,
                     text_size(bytes, sizeof bytes, (uint64_t)v->egress_bytes), v->egress_open);
}

static void add_ms(struct table *table, double ms)
{
    if (ms < 0)
        cli_table_cell(table, NULL);
    else
        cli_table_cellf(table, ms < 10 ? "%.2f" : "%.0f", ms);
}

static void print_table(struct table *table)
{
    (void)fputc('\n', stdout);
    (void)cli_table_print(table, stdout, text_colour(stdout));
    cli_table_done(table);
}

static void print_latency(const struct view *v)
{
    static const struct table_column columns[] = {
        {"LAST 5 MIN", false},
        {"COUNT",      true },
        {"P50 MS",     true },
        {"P90",        true },
        {"P99",        true },
    };
    struct table table;
    cli_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (int i = 0; i < VIEW_LATENCIES; i++) {
        const struct view_latency_row *row = &v->latency[i];
        if (row->count < 0)
            continue;
        cli_table_cell(&table, view_latency_names[i]);
        cli_table_cellf(&table, "%" PRId64, row->count);
        add_ms(&table, row->p50);
        add_ms(&table, row->p90);
        add_ms(&table, row->p99);
    }
    print_table(&table);
}

static void add_size(struct table *table, int64_t bytes)
{
    char text[24];
    cli_table_cell(table, bytes >= 0 ? text_size(text, sizeof text, (uint64_t)bytes) : NULL);
}

static void add_sandbox(struct table *table, const struct view_sandbox *s)
{
    char text[24];
    cli_table_cell(table, s->id);
    cli_table_cell(table, s->status);
    if (s->has_usage)
        cli_table_cellf(table, "%.2f s", s->cpu_ms / 1000);
    else
        cli_table_cell(table, NULL);
    add_size(table, s->memory);
    add_size(table, s->disk);
    cli_table_cell(table, or_dash(text, sizeof text, s->pids));
    cli_table_cell(table, s->age_s >= 0 ? text_ago(text, sizeof text, s->age_s) : NULL);
    cli_table_cell(table, s->label);
}

static void print_sandboxes(const struct view *v)
{
    static const struct table_column columns[] = {
        {"SANDBOX", false},
        {"STATUS",  false},
        {"CPU",     true },
        {"MEMORY",  true },
        {"DISK",    true },
        {"PIDS",    true },
        {"AGE",     true },
        {"LABELS",  false},
    };
    struct table table;
    if (v->n_sandboxes == 0)
        return;
    cli_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < v->n_sandboxes; i++)
        add_sandbox(&table, &v->sandboxes[i]);
    print_table(&table);
    if (v->more_sandboxes)
        (void)puts("and more: 'cay ls' lists them all");
}

static void add_request(struct table *table, const struct view_request *r)
{
    char text[24];
    bool running = strcmp(r->state, "running") == 0;
    const char *failed = r->error[0] != '\0' ? r->error : "failed";
    cli_table_cell(table, r->question);
    cli_table_cell(table, or_dash(text, sizeof text, r->generation_ms));
    cli_table_cell(table, or_dash(text, sizeof text, r->sandbox_ms));
    cli_table_cell(table, or_dash(text, sizeof text, r->total_ms));
    cli_table_cell(table, or_dash(text, sizeof text, r->tokens));
    if (r->cost >= 0)
        cli_table_cellf(table, "$%.4f", r->cost);
    else
        cli_table_cell(table, NULL);
    cli_table_cell(table, running ? "running" : r->success ? "ok" : failed);
}

static void print_requests(const struct view *v)
{
    static const struct table_column columns[] = {
        {"QUESTION",      false},
        {"GENERATION MS", true },
        {"SANDBOX MS",    true },
        {"TOTAL MS",      true },
        {"TOKENS",        true },
        {"COST",          true },
        {"",              false},
    };
    struct table table;
    if (v->n_requests == 0)
        return;
    cli_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < v->n_requests && i < REQUESTS_SHOWN; i++)
        add_request(&table, &v->requests[i]);
    print_table(&table);
}

int monitor_once(struct remote *remote)
{
    struct err err = {0};
    struct gathered g;
    struct view view;
    const struct gather_way way = {.remote = remote};
    gather_init(&g);
    int r = gather(&g, &way, 0, &err);
    if (r == 0 && remote->json) {
        print_json(remote, &g);
    } else if (r == 0) {
        view_make(&view, &g, NULL);
        print_server(remote, &view);
        print_machine(&view);
        print_ways(&view);
        print_latency(&view);
        print_sandboxes(&view);
        print_requests(&view);
        view_done(&view);
    }
    gather_done(&g);
    return r < 0 ? remote_fail(remote, &err) : remote_flush(remote);
}
