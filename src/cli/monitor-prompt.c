// SPDX-License-Identifier: Apache-2.0
// `cay monitor "prompt"`: has one question answered, and prints where the time went.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/follow.h"
#include "cli/gather.h"
#include "cli/monitor.h"
#include "cli/signals.h"
#include "cli/table.h"
#include "cli/view.h"

enum { BAR = 40, NAME = 16 };

// Moments are nanoseconds since it was asked; -1: it has not come to that.
struct timeline {
    struct remote *remote;
    struct follow follow;
    int64_t health_ns, asked_ns;
    int64_t started, first_code, generated, in_sandbox, first_output, done;
    unsigned repairs;
    struct json_doc *answer;
};

static void note(struct timeline *t, int64_t *moment)
{
    if (*moment < 0)
        *moment = clock_ns() - t->asked_ns;
}

static int take_answer(struct timeline *t, const struct event *event, struct err *err)
{
    note(t, &t->done);
    json_doc_free(t->answer);
    t->answer = NULL;
    if (json_read(event->data, event->len, &t->answer, err) < 0)
        return err_wrap(err, "the server sent an answer that is no JSON");
    t->follow.done = true;
    return 0;
}

// Pieces of code that became void count no less: their time has passed.
static int take_event(void *data, const struct event *event, struct err *err)
{
    static const char *const output[] = {"stdout", "stderr", "result", "display", "error"};
    struct timeline *t = data;
    if (strcmp(event->name, "done") == 0)
        return take_answer(t, event, err);
    if (strcmp(event->name, "start") == 0)
        note(t, &t->started);
    else if (strcmp(event->name, "code") == 0)
        note(t, &t->first_code);
    else if (strcmp(event->name, "generated") == 0)
        note(t, &t->generated);
    else if (strcmp(event->name, "sandbox") == 0)
        note(t, &t->in_sandbox);
    else if (strcmp(event->name, "repair") == 0)
        t->repairs++;
    for (size_t i = 0; i < sizeof output / sizeof *output; i++) {
        if (strcmp(event->name, output[i]) == 0)
            note(t, &t->first_output);
    }
    return 0;
}

// -- asking

static int ask_health(struct timeline *t, struct err *err)
{
    auto_answer answer;
    gather_answer_init(&answer);
    const struct gather_way way = {.remote = t->remote};
    int64_t before = clock_ns();
    int r = gather_ask(&way, "GET", "/health", &answer, err);
    t->health_ns = clock_ns() - before;
    return r;
}

static void write_body(struct buf *body, const char *prompt, const struct monitor_options *options)
{
    struct json j;
    json_init(&j, body);
    json_open_object(&j);
    json_key(&j, "question");
    json_put_str(&j, prompt);
    if (options->language != NULL) {
        json_key(&j, "language");
        json_put_str(&j, options->language);
    }
    if (options->model != NULL) {
        json_key(&j, "model");
        json_put_str(&j, options->model);
    }
    // A measurement of what was measured before would tell nothing.
    json_key(&j, "cache");
    json_put_bool(&j, false);
    json_close_object(&j);
}

static int on_signal(void *data, struct err *err)
{
    (void)data;
    return signals_take() != 0 ? err_set(err, ERR_UNAVAILABLE, "interrupted") : 0;
}

static int ask(struct timeline *t, const char *prompt, const struct monitor_options *options,
               struct err *err)
{
    auto_buf body;
    buf_init(&body, REMOTE_BODY_MAX);
    write_body(&body, prompt, options);
    if (body.failed != 0)
        return err_set(err, ERR_INVALID, "that prompt is more than a request may hold");
    const struct http_call call = {
        .method = "POST",
        .target = "/execute",
        .body = body.data,
        .body_len = body.len,
        .wake_fd = signals_fd(),
        .on_wake = on_signal,
    };
    t->follow = (struct follow){.remote = t->remote, .once = true};
    t->asked_ns = clock_ns();
    return follow_events(&t->follow, &call, take_event, t, err);
}

// -- printing

static void print_bar(const char *name, double from, double ms, double whole)
{
    char bar[BAR + 1];
    memset(bar, ' ', BAR);
    bar[BAR] = '\0';
    int start = whole > 0 ? (int)(from / whole * BAR) : 0;
    int len = whole > 0 ? (int)(ms / whole * BAR + 0.5) : 0;
    for (int i = start < 0 ? 0 : start; i < start + len && i < BAR; i++)
        bar[i] = '#';
    if (ms < 0)
        (void)printf("%-*s %12s\n", NAME, name, "-");
    else
        (void)printf("%-*s %9.1f ms  %s\n", NAME, name, ms, bar);
}

static double to_ms(int64_t ns)
{
    return ns >= 0 ? (double)ns / (double)NS_PER_MS : -1;
}

// What is waited for it: none, where it was there before the code was.
static double start_ms(const struct timeline *t)
{
    if (t->generated < 0 || t->in_sandbox < 0)
        return -1;
    return t->in_sandbox > t->generated ? to_ms(t->in_sandbox - t->generated) : 0;
}

struct parts { // ms; -1: not known
    double health, first, generation, start, run, store, total;
};

static struct parts parts_of(const struct timeline *t)
{
    const struct json_node *metrics = json_get(json_root(t->answer), "metrics");
    double sandbox = json_double(json_get(metrics, "sandbox_ms"), -1);
    double server = json_double(json_get(metrics, "total_ms"), -1);
    struct parts p = {
        .health = to_ms(t->health_ns),
        .first = to_ms(t->first_code),
        .generation = json_double(json_get(metrics, "generation_ms"), to_ms(t->generated)),
        .start = start_ms(t),
        .total = to_ms(t->done),
    };
    p.run = sandbox;
    if (sandbox >= 0 && p.start >= 0)
        p.run = sandbox > p.start ? sandbox - p.start : 0;
    // What the server did beside both: keeping the answer, above all.
    p.store =
        sandbox >= 0 && server >= 0 && p.generation >= 0 ? server - p.generation - sandbox : -1;
    p.store = p.store < 0 && server >= 0 ? 0 : p.store;
    return p;
}

static void print_parts(const struct timeline *t)
{
    struct parts p = parts_of(t);
    double generated = p.generation >= 0 ? p.generation : 0;
    double started = generated + (p.start > 0 ? p.start : 0);
    double ran = started + (p.run > 0 ? p.run : 0);
    print_bar("health check", 0, p.health, p.total);
    print_bar("first token", 0, p.first, p.total);
    print_bar("generation", 0, p.generation, p.total);
    print_bar("sandbox start", generated, p.start, p.total);
    print_bar("execution", started, p.run, p.total);
    print_bar("store, rest", ran, p.store, p.total);
    print_bar("total", 0, p.total, p.total);
}

static void print_summary(const struct timeline *t)
{
    const struct json_node *root = json_root(t->answer), *metrics = json_get(root, "metrics");
    char model[80], error[40];
    view_text(model, sizeof model, root, "model");
    view_text(error, sizeof error, root, "error_code");
    bool ok = json_bool(json_get(root, "success"), false);
    (void)printf("\n%s, %s, %" PRId64 " tokens in, %" PRId64 " out, $%.6f",
                 ok                 ? "ok"
                 : error[0] != '\0' ? error
                                    : "failed",
                 model[0] != '\0' ? model : "no model",
                 json_int(json_get(metrics, "input_tokens"), 0),
                 json_int(json_get(metrics, "output_tokens"), 0),
                 json_double(json_get(metrics, "cost_usd"), 0));
    if (t->repairs > 0)
        (void)printf(", %u repaired", t->repairs);
    (void)fputc('\n', stdout);
}

static void put_ms(struct json *j, const char *key, double ms)
{
    json_key(j, key);
    if (ms < 0)
        json_put_null(j);
    else
        json_put_double(j, ms);
}

static void print_json(const struct timeline *t)
{
    struct parts p = parts_of(t);
    struct json j;
    auto_buf text;
    buf_init(&text, REMOTE_TARGET_MAX);
    json_init(&j, &text);
    json_open_object(&j);
    put_ms(&j, "health_ms", p.health);
    put_ms(&j, "first_token_ms", p.first);
    put_ms(&j, "generation_ms", p.generation);
    put_ms(&j, "sandbox_start_ms", p.start);
    put_ms(&j, "execution_ms", p.run);
    put_ms(&j, "store_ms", p.store);
    put_ms(&j, "total_ms", p.total);
    json_close_object(&j);
    (void)printf("{\"times\":%s,\"answer\":", buf_str(&text));
    remote_print_node(json_root(t->answer));
    (void)puts("}");
}

// An answer that is none: {error, error_code, status, request_id}.
static int is_answer(const struct timeline *t, struct err *err)
{
    char words[200];
    const struct json_node *root = json_root(t->answer);
    if (json_is(json_get(root, "success"), JSON_NODE_BOOL))
        return 0;
    view_text(words, sizeof words, root, "error");
    return err_set(err, ERR_INTERNAL, "%s", words[0] != '\0' ? words : "the server gave no answer");
}

int monitor_prompt(struct remote *remote, const struct monitor_options *options)
{
    struct err err = {0};
    struct timeline t = {.remote = remote, .started = -1, .first_code = -1, .generated = -1};
    t.in_sandbox = t.first_output = t.done = -1;
    int code = CLI_OK;
    if (signals_catch(&err) < 0 || ask_health(&t, &err) < 0 ||
        ask(&t, remote->word[0], options, &err) < 0 || is_answer(&t, &err) < 0) {
        code = remote_fail(remote, &err);
    } else if (remote->json) {
        print_json(&t);
    } else {
        print_parts(&t);
        print_summary(&t);
    }
    json_doc_free(t.answer);
    return code != CLI_OK ? code : remote_flush(remote);
}
