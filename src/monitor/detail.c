// SPDX-License-Identifier: Apache-2.0
#include "monitor/detail.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { PAGES_MAX = 20, PAGE = 1000, NOT_FOUND = 404 };

// 1: answered; 0: it is not there; -1.
static int ask(const struct gather_way *way, const char *id, const char *what, const char *query,
               struct answer *ret, struct err *err)
{
    auto_buf target;
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "sandbox", id, what);
    (void)buf_append_str(&target, query);
    if (gather_ask(way, "GET", buf_str(&target), ret, err) == 0)
        return 1;
    return way->remote->status == NOT_FOUND ? 0 : -1;
}

// An array of words, or an object or array of whatever, on one line.
static void put_list(char *ret, size_t size, const struct json_node *list)
{
    auto_buf text;
    buf_init(&text, size);
    for (const struct json_node *n = json_first(list); n != NULL; n = json_next(n)) {
        if (text.len > 0)
            (void)buf_append_str(&text, " ");
        if (n->key != NULL)
            (void)buf_printf(&text, "%s=", n->key);
        if (json_is(n, JSON_NODE_ARRAY) || json_is(n, JSON_NODE_OBJECT)) {
            put_list(ret, size, n); // which is ours to write on until the end
            (void)buf_append_str(&text, ret);
        } else if (json_is(n, JSON_NODE_BOOL)) {
            (void)buf_append_str(&text, n->is_true ? "yes" : "no");
        } else {
            (void)buf_append_str(&text, n->text != NULL ? n->text : "-");
        }
    }
    (void)snprintf(ret, size, "%s", buf_str(&text));
}

// A member that is a word, or a list of them.
static void put_words(char *ret, size_t size, const struct json_node *node, const char *key)
{
    const struct json_node *member = json_get(node, key);
    if (json_is(member, JSON_NODE_STRING))
        view_text(ret, size, node, key);
    else
        put_list(ret, size, member);
}

// -- the parts

static void read_settings(struct detail *d, const struct json_node *root)
{
    const struct json_node *limits = json_get(root, "limits"), *usage = json_get(root, "stats");
    put_words(d->image, sizeof d->image, root, "image");
    put_words(d->network, sizeof d->network, root, "network");
    put_words(d->secrets, sizeof d->secrets, root, "secrets");
    put_words(d->languages, sizeof d->languages, root, "languages");
    d->keep_alive = json_bool(json_get(root, "keepAlive"), false);
    d->ephemeral = json_bool(json_get(root, "ephemeral"), false);
    d->sleep_after_s = (int64_t)json_double(json_get(root, "sleepAfter"), -1);
    d->active_s = remote_age(json_get(root, "lastActiveAt"));
    d->boxes = json_int(json_get(root, "boxes"), -1);
    d->pids_max = json_int(json_get(limits, "pids"), -1);
    d->cpus = json_double(json_get(limits, "cpus"), -1);
    d->peak_memory = json_int(json_get(usage, "peakMemory"), -1);
    d->oom_kills = json_int(json_get(usage, "oomKills"), -1);
    d->network_bytes = json_int(json_get(usage, "networkBytes"), -1);
    d->connections = json_int(json_get(usage, "connections"), -1);
}

static void read_process(struct detail_process *p, const struct json_node *node)
{
    view_text(p->id, sizeof p->id, node, "id");
    view_text(p->status, sizeof p->status, node, "status");
    put_words(p->command, sizeof p->command, node, "command");
    p->pid = json_int(json_get(node, "pid"), -1);
    p->age_s = remote_age(json_get(node, "startedAt"));
    p->cpu_ms = json_double(json_get(node, "cpu"), -1);
}

static bool is_running(const struct json_node *node)
{
    const char *status = json_text(json_get(node, "status"));
    return status != NULL && strcmp(status, "running") == 0;
}

// Those that run come first: there may be many that have ended.
static void read_processes(struct detail *d, const struct json_node *list)
{
    d->n_processes = 0;
    d->all_processes = list != NULL ? list->n : 0;
    for (unsigned ended = 0; ended < 2; ended++) {
        for (const struct json_node *n = json_first(list); n != NULL; n = json_next(n)) {
            if (is_running(n) != (ended == 0) || d->n_processes == DETAIL_PROCESSES)
                continue;
            read_process(&d->processes[d->n_processes++], n);
        }
    }
}

static void read_contexts(struct detail *d, const struct json_node *list)
{
    d->n_contexts = 0;
    for (const struct json_node *n = json_first(list); n != NULL && d->n_contexts < DETAIL_CONTEXTS;
         n = json_next(n)) {
        struct detail_context *c = &d->contexts[d->n_contexts++];
        view_text(c->id, sizeof c->id, n, "id");
        view_text(c->language, sizeof c->language, n, "language");
        view_text(c->status, sizeof c->status, n, "status");
        c->executions = json_int(json_get(n, "executionCount"), 0);
    }
}

static void add_event(struct detail *d, const struct json_node *node)
{
    char when[40];
    if (d->n_events == DETAIL_EVENTS) {
        memmove(d->events, d->events + 1, sizeof *d->events * (DETAIL_EVENTS - 1));
        d->n_events--;
    }
    struct detail_event *e = &d->events[d->n_events++];
    view_text(when, sizeof when, node, "timestamp"); // "2026-01-02T03:04:05.678Z"
    (void)snprintf(e->when, sizeof e->when, "%.8s", strlen(when) >= 19 ? when + 11 : "");
    view_text(e->type, sizeof e->type, node, "type");
    put_list(e->data, sizeof e->data, json_get(node, "data"));
}

static int ask_events(struct detail *d, const char *id, const struct gather_way *way,
                      struct answer *answer, struct err *err)
{
    int r = 1;
    size_t n = PAGE;
    for (unsigned page = 0; r == 1 && n == PAGE && page < PAGES_MAX; page++) {
        char query[64];
        (void)snprintf(query, sizeof query, "?limit=%d&after=%" PRId64, PAGE, d->last_event);
        r = ask(way, id, "events", query, answer, err);
        if (r != 1)
            break;
        const struct json_node *list = json_get(answer_root(answer), "events");
        n = 0;
        for (const struct json_node *e = json_first(list); e != NULL; e = json_next(e), n++) {
            int64_t number = json_int(json_get(e, "id"), -1);
            if (number <= d->last_event)
                continue;
            d->last_event = number;
            add_event(d, e);
        }
    }
    return r;
}

int detail_ask(struct detail *d, const char *id, const struct gather_way *way, struct err *err)
{
    struct view_sandbox before = d->sandbox;
    auto_answer answer;
    gather_answer_init(&answer);
    int r = ask(way, id, NULL, "", &answer, err);
    if (r == 1) {
        const struct json_node *root = answer_root(&answer);
        view_sandbox_read(&d->sandbox, root, json_get(root, "stats"), clock_ns(),
                          before.id[0] != '\0' ? &before : NULL);
        read_settings(d, root);
        r = ask(way, id, "processes", "", &answer, err);
    }
    if (r == 1) {
        read_processes(d, json_get(answer_root(&answer), "processes"));
        r = ask(way, id, "contexts", "", &answer, err);
    }
    if (r == 1) {
        read_contexts(d, json_get(answer_root(&answer), "contexts"));
        r = ask_events(d, id, way, &answer, err);
    }
    d->gone = r == 0;
    return r < 0 ? -1 : 0;
}
