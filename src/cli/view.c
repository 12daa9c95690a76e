// SPDX-License-Identifier: Apache-2.0
#include "cli/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"

const char *const view_latency_names[VIEW_LATENCIES] = {
    "requests", "create", "wake", "exec", "cell", "generation", "sandbox",
};

// -- texts

// Whole characters only: what is cut in the middle of one would be none.
static void put_text(char *ret, size_t size, const char *text, size_t len)
{
    size_t n = 0;
    auto_buf plain;
    buf_init(&plain, 4 * size);
    (void)text_plain(&plain, text, len);
    while (n < plain.len) {
        size_t step = utf8_step(plain.data + n, plain.len - n);
        if (step == 0 || n + step >= size)
            break;
        n += step;
    }
    memcpy(ret, buf_str(&plain), n);
    ret[n] = '\0';
}

void view_text(char *ret, size_t size, const struct json_node *node, const char *key)
{
    const struct json_node *member = json_get(node, key);
    bool is_text = json_is(member, JSON_NODE_STRING);
    // Lines that are kept in one go on behind a space.
    auto_buf line;
    buf_init(&line, 4 * size);
    for (size_t i = 0; is_text && i < member->text_len && line.failed == 0; i++) {
        char c = member->text[i];
        (void)buf_append_char(&line, c == '\n' || c == '\t' || c == '\r' ? ' ' : c);
    }
    put_text(ret, size, buf_str(&line), line.len);
}

// {"team": "web"} as "team=web".
static void put_labels(char *ret, size_t size, const struct json_node *labels)
{
    auto_buf text;
    buf_init(&text, 4 * size);
    for (const struct json_node *n = json_first(labels); n != NULL; n = json_next(n)) {
        const char *value = json_text(n);
        if (text.len > 0)
            (void)buf_append_char(&text, ' ');
        (void)buf_append_str(&text, n->key != NULL ? n->key : "");
        if (value != NULL && value[0] != '\0')
            (void)buf_printf(&text, "=%s", value);
    }
    put_text(ret, size, buf_str(&text), text.len);
}

// -- the server

static void read_latency(struct view *v, const struct json_node *latency)
{
    for (int i = 0; i < VIEW_LATENCIES; i++) {
        const struct json_node *row = json_get(latency, view_latency_names[i]);
        v->latency[i] = (struct view_latency_row){
            .count = json_int(json_get(row, "count"), -1),
            .p50 = json_double(json_get(row, "p50_ms"), -1),
            .p90 = json_double(json_get(row, "p90_ms"), -1),
            .p99 = json_double(json_get(row, "p99_ms"), -1),
        };
    }
}

static void read_machine(struct view *v, const struct json_node *host)
{
    const struct json_node *load = json_first(json_get(host, "load"));
    v->cpus = json_int(json_get(host, "cpus"), -1);
    v->cpu_percent = json_double(json_get(host, "cpu_percent"), -1);
    v->memory_total = json_int(json_get(host, "memory_total"), -1);
    v->memory_available = json_int(json_get(host, "memory_available"), -1);
    for (int i = 0; i < 3; i++, load = json_next(load))
        v->load[i] = json_double(load, -1);
}

static void read_ways(struct view *v, const struct json_node *model, const struct json_node *egress)
{
    v->model_requests = json_int(json_get(model, "requests"), -1);
    v->model_errors = json_int(json_get(model, "errors"), -1);
    v->model_open = json_int(json_get(model, "open"), -1);
    v->model_tokens = json_int(json_get(model, "tokens"), -1);
    v->model_cost = json_double(json_get(model, "cost_usd"), -1);
    v->egress_allowed = json_int(json_get(egress, "allowed"), -1);
    v->egress_denied = json_int(json_get(egress, "denied"), -1);
    v->egress_bytes = json_int(json_get(egress, "bytes"), -1);
    v->egress_open = json_int(json_get(egress, "open"), -1);
}

static void read_server(struct view *v, const struct json_node *health,
                        const struct json_node *stats)
{
    const struct json_node *boxes = json_get(stats, "boxes"), *parked = json_get(boxes, "parked");
    const char *scope = json_text(json_get(stats, "scope"));
    view_text(v->status, sizeof v->status, health, "status");
    view_text(v->version, sizeof v->version, health, "version");
    v->uptime_ms = json_int(json_get(stats, "uptime_ms"), -1);
    v->all = scope != NULL && strcmp(scope, "all") == 0;
    v->boxes_max = json_int(json_get(boxes, "max"), -1);
    v->ready = json_int(json_get(boxes, "ready"), -1);
    v->boxes_running = json_int(json_get(boxes, "running"), -1);
    v->waiting = json_int(json_get(boxes, "waiting"), -1);
    v->parked_python = json_int(json_get(parked, "python"), -1);
    v->parked_javascript = json_int(json_get(parked, "javascript"), -1);
    v->running = json_int(json_get(json_get(stats, "sandboxes"), "running"), -1);
    v->sleeping = json_int(json_get(json_get(stats, "sandboxes"), "sleeping"), -1);
    read_latency(v, json_get(stats, "latency"));
    read_machine(v, json_get(stats, "host"));
    read_ways(v, json_get(stats, "model"), json_get(stats, "egress"));
}

// -- sandboxes

static const struct view_sandbox *find(const struct view *v, const char *id)
{
    for (size_t i = 0; v != NULL && i < v->n_sandboxes; i++) {
        if (strcmp(v->sandboxes[i].id, id) == 0)
            return &v->sandboxes[i];
    }
    return NULL;
}

// The first time seen after a wake its counter begins anew.
static double percent_since(const struct view_sandbox *now, const struct view_sandbox *then)
{
    if (then == NULL || !then->has_usage || now->cpu_ms < then->cpu_ms)
        return -1;
    double passed = (double)(now->seen_ns - then->seen_ns) / (double)NS_PER_MS;
    return passed > 0 ? 100.0 * (now->cpu_ms - then->cpu_ms) / passed : then->cpu_percent;
}

static void read_usage(struct view_sandbox *s, const struct json_node *usage, int64_t seen_ns,
                       const struct view_sandbox *before)
{
    s->has_usage = json_is(usage, JSON_NODE_OBJECT);
    if (s->has_usage) {
        s->seen_ns = seen_ns;
        s->cpu_ms = json_double(json_get(usage, "cpu"), 0);
        s->memory = json_int(json_get(usage, "memory"), -1);
        s->disk = json_int(json_get(usage, "disk"), -1);
        s->pids = json_int(json_get(usage, "pids"), -1);
        s->cpu_percent = percent_since(s, before);
    } else if (before != NULL && before->has_usage && strcmp(s->status, "running") == 0) {
        // Not asked this time: there are more than can be each time.
        s->has_usage = true;
        s->seen_ns = before->seen_ns;
        s->cpu_ms = before->cpu_ms;
        s->cpu_percent = before->cpu_percent;
        s->memory = before->memory;
        s->disk = before->disk;
        s->pids = before->pids;
    }
}

void view_sandbox_read(struct view_sandbox *s, const struct json_node *node,
                       const struct json_node *usage, int64_t seen_ns,
                       const struct view_sandbox *before)
{
    const struct json_node *limits = json_get(node, "limits");
    *s = (struct view_sandbox){.cpu_percent = -1, .memory = -1, .disk = -1, .pids = -1};
    view_text(s->id, sizeof s->id, node, "id");
    view_text(s->status, sizeof s->status, node, "status");
    put_labels(s->label, sizeof s->label, json_get(node, "labels"));
    s->age_s = remote_age(json_get(node, "createdAt"));
    s->memory_max = json_int(json_get(limits, "memory"), -1);
    s->disk_max = json_int(json_get(limits, "disk"), -1);
    read_usage(s, usage, seen_ns, before);
}

static void read_sandboxes(struct view *v, const struct gathered *g, const struct view *before)
{
    const struct json_node *root = answer_root(&g->sandboxes), *list = json_get(root, "sandboxes");
    size_t n = list != NULL && list->n < GATHER_SANDBOXES ? list->n : GATHER_SANDBOXES;
    v->sandboxes = calloc(n + 1, sizeof *v->sandboxes);
    if (v->sandboxes == NULL)
        abort();
    for (const struct json_node *s = json_first(list); s != NULL && v->n_sandboxes < n;
         s = json_next(s)) {
        const char *id = json_text(json_get(s, "id"));
        if (id != NULL)
            view_sandbox_read(&v->sandboxes[v->n_sandboxes++], s, gather_usage_of(g, id),
                              g->taken_ns, find(before, id));
    }
    v->more_sandboxes = json_text(json_get(root, "next")) != NULL;
}

// -- requests

static void read_request(struct view_request *r, const struct json_node *node)
{
    int64_t input = json_int(json_get(node, "input_tokens"), -1);
    int64_t output = json_int(json_get(node, "output_tokens"), -1);
    *r = (struct view_request){.success = json_bool(json_get(node, "success"), false)};
    view_text(r->id, sizeof r->id, node, "request_id");
    view_text(r->question, sizeof r->question, node, "question");
    view_text(r->state, sizeof r->state, node, "state");
    view_text(r->error, sizeof r->error, node, "error_code");
    r->age_s = remote_age(json_get(node, "created"));
    r->generation_ms = r->sandbox_ms = r->total_ms = r->tokens = -1;
    r->cost = -1;
    if (strcmp(r->state, "done") != 0) // then these are not known yet, or never
        return;
    r->generation_ms = json_int(json_get(node, "generation_ms"), -1);
    r->sandbox_ms = json_int(json_get(node, "sandbox_ms"), -1);
    r->total_ms = json_int(json_get(node, "total_ms"), -1);
    r->tokens = input >= 0 && output >= 0 ? input + output : -1;
    r->cost = json_double(json_get(node, "cost_usd"), -1);
}

static void read_requests(struct view *v, const struct gathered *g)
{
    const struct json_node *list =
        g->has_requests ? json_get(answer_root(&g->requests), "results") : NULL;
    v->requests = calloc(GATHER_REQUESTS, sizeof *v->requests);
    if (v->requests == NULL)
        abort();
    for (const struct json_node *r = json_first(list); r != NULL && v->n_requests < GATHER_REQUESTS;
         r = json_next(r))
        read_request(&v->requests[v->n_requests++], r);
}

void view_make(struct view *ret, const struct gathered *g, const struct view *before)
{
    *ret = (struct view){.health_ms = (double)g->health_ns / (double)NS_PER_MS};
    read_server(ret, answer_root(&g->health), g->has_stats ? answer_root(&g->stats) : NULL);
    read_sandboxes(ret, g, before);
    read_requests(ret, g);
}

void view_done(struct view *view)
{
    free(view->sandboxes);
    free(view->requests);
    *view = (struct view){.status = ""};
}
