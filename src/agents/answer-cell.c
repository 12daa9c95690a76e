// SPDX-License-Identifier: Apache-2.0
// The code as it runs: its events become the run's, and its end the answer.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "agents/answer-internal.h"
#include "base/clock.h"
#include "base/show.h"
#include "base/text.h"

void answer_let_go(struct answer *a)
{
    agents_cancel(a->call);
    a->call = NULL;
    cell_follower_free(a->follower);
    cell_unref(a->cell);
    a->follower = NULL;
    a->cell = NULL;
    written_cancel(a->listing);
    a->listing = NULL;
}

// --- its events

static void emit_text(struct answer *a, const struct cell_event *event)
{
    bool is_err = event->type == CELL_STDERR;
    struct buf *rest = &a->rest[is_err];
    struct json j;
    struct buf buf;
    (void)buf_append(rest, event->bytes, event->len);
    size_t wait = utf8_unfinished(buf_str(rest), rest->len);
    size_t len = rest->len - wait;
    if (len == 0)
        return;
    answer_event(&j, &buf);
    json_key(&j, "text");
    json_put_strn(&j, rest->data, len);
    buf_consume(rest, len);
    answer_emit(a, is_err ? "stderr" : "stdout", &j);
}

static void emit_object(struct answer *a, const char *type, const struct cell_event *event)
{
    struct buf buf;
    buf_init(&buf, EVENT_MAX);
    (void)buf_append(&buf, event->bytes, event->len);
    run_event(a->run, type, &buf);
    buf_done(&buf);
}

static void emit(struct answer *a, const struct cell_event *event)
{
    switch (event->type) {
    case CELL_STDOUT:
    case CELL_STDERR:
        emit_text(a, event);
        break;
    case CELL_RESULT:
        emit_object(a, "result", event);
        break;
    case CELL_DISPLAY:
        emit_object(a, "display", event);
        break;
    case CELL_ERROR:
        emit_object(a, "error", event);
        break;
    case CELL_END:
        break;
    }
}

void answer_read_cell(struct answer *a)
{
    a->sandbox_ns += clock_ns() - a->code_ns;
    cell_whole_done(&a->whole);
    cell_whole_init(&a->whole, TEXT_MAX, OBJECTS_MAX);
    cell_whole_read(&a->whole, a->cell);
}

static void on_end(struct answer *a)
{
    a->end = *cell_end(a->cell);
    answer_read_cell(a);
    answer_let_go(a);
    answer_code_ended(a);
}

static void on_news(void *data)
{
    struct answer *a = data;
    struct err err;
    struct cell_event event;
    a->refs++;
    while (!a->over && a->cell != NULL && cell_event(a->cell, a->at, &event, &err) > 0) {
        a->at++;
        emit(a, &event);
        if (event.type == CELL_END)
            break;
    }
    if (!a->over && a->cell != NULL && cell_has_ended(a->cell))
        on_end(a);
    answer_unref(a);
}

// --- its beginning

static void fail_of_err(struct answer *a, const struct err *err)
{
    struct failure failure;
    failure_of_err(err, &failure);
    answer_fail(a, &failure);
}

static void on_cell(void *data, struct cell *cell, const struct err *err)
{
    struct answer *a = data;
    if (a->over && cell != NULL) {
        cell_cancel(cell);
    } else if (!a->over && cell == NULL) {
        fail_of_err(a, err);
    } else if (!a->over) {
        a->cell = cell_ref(cell);
        a->at = 0;
        a->follower = cell_follow(cell, on_news, a);
        on_news(a);
    }
    answer_unref(a);
}

void answer_run_code(struct answer *a)
{
    const struct cell_request request = {
        .code = buf_str(&a->code),
        .len = a->code.len,
        .context = a->context,
        .language = a->context == NULL ? a->language : NULL,
        .timeout_ms = a->timeout_ms,
    };
    a->has_run = true;
    buf_reset(&a->rest[0]);
    buf_reset(&a->rest[1]);
    a->refs++;
    cell_run(a->s, &request, on_cell, a);
}

// --- in words

static void append_traceback(const json_t *error, struct buf *ret)
{
    size_t i;
    json_t *line;
    json_array_foreach(json_object_get(error, "traceback"), i, line)
    {
        const char *text = json_string_value(line);
        if (text == NULL)
            continue;
        (void)buf_append_str(ret, text);
        if (*text == '\0' || text[strlen(text) - 1] != '\n')
            (void)buf_append_char(ret, '\n');
    }
}

static void append_name(const json_t *error, struct buf *ret)
{
    const char *name = json_string_value(json_object_get(error, "name"));
    const char *message = json_string_value(json_object_get(error, "message"));
    if (name != NULL)
        (void)buf_printf(ret, "%s%s", name, message != NULL && *message != '\0' ? ": " : "");
    if (message != NULL)
        (void)buf_append_str(ret, message);
}

static void trim_end(struct buf *text)
{
    while (text->len > 0 && text->data[text->len - 1] == '\n')
        text->data[--text->len] = '\0';
}

void answer_cell_error(const struct answer *a, struct buf *ret)
{
    const struct cell_whole *w = &a->whole;
    json_t *error = w->error.len > 0 ? json_loadb(w->error.data, w->error.len, 0, NULL) : NULL;
    if (error != NULL) {
        append_traceback(error, ret);
        if (ret->len == 0)
            append_name(error, ret);
    }
    json_decref(error);
    trim_end(ret);
    if (ret->len > 0 && strcmp(a->end.reason, "error") == 0)
        return;
    if (ret->len > 0)
        (void)buf_append_char(ret, '\n');
    if (strcmp(a->end.reason, "timeout") == 0)
        (void)buf_printf(ret, "the code ran longer than %lld ms", (long long)a->timeout_ms);
    else if (a->end.err.code != ERR_NONE)
        (void)buf_append_str(ret, a->end.err.msg);
    else
        (void)buf_printf(ret, "the code did not come to its end: %s", a->end.reason);
}

// --- the answer

// What a person would see: what was printed, and the values that were shown as text.
static void append_values(const struct cell_whole *w, struct buf *ret)
{
    auto_buf list;
    size_t i;
    json_t *value;
    buf_init(&list, OBJECTS_MAX + 2);
    (void)buf_append_char(&list, '[');
    (void)buf_append(&list, w->results.data, w->results.len);
    (void)buf_append_char(&list, ']');
    json_t *values = json_loadb(list.data, list.len, 0, NULL);
    json_array_foreach(values, i, value)
    {
        const char *type = json_string_value(json_object_get(value, "type"));
        const char *text = json_string_value(json_object_get(value, "text"));
        if (text == NULL || type == NULL || strcmp(type, "result") != 0)
            continue;
        if (ret->len > 0 && ret->data[ret->len - 1] != '\n')
            (void)buf_append_char(ret, '\n');
        (void)buf_append_str(ret, text);
        (void)buf_append_char(ret, '\n');
    }
    json_decref(values);
}

static void show_text(struct json *j, const char *key, const struct buf *text, size_t max)
{
    size_t len = text->len < max ? text->len : max;
    json_key(j, key);
    json_put_strn(j, buf_str(text), len - (len < text->len ? utf8_unfinished(text->data, len) : 0));
}

static void show_cell(struct json *j, const struct cell_whole *w, bool is_short)
{
    auto_buf out;
    size_t max = is_short ? SHORT_MAX : SIZE_MAX;
    buf_init(&out, TEXT_MAX + OBJECTS_MAX);
    (void)buf_append(&out, w->out.data, w->out.len);
    if (w->results.len > 0)
        append_values(w, &out);
    show_text(j, "output", &out, max);
    show_text(j, "stderr", &w->err, max);
    json_key(j, "results");
    json_open_array(j);
    if (w->results.len > 0 && !is_short)
        json_put_raw(j, w->results.data, w->results.len);
    json_close_array(j);
    if (w->is_cut || is_short)
        show_bool(j, "truncated", true);
}

static double ms_of(int64_t ns)
{
    return (double)(ns / NS_PER_US) / 1000.0;
}

static void show_metrics(const struct answer *a, int64_t total_ns, struct json *j)
{
    const struct model_usage *u = run_usage(a->run);
    json_key(j, "metrics");
    json_open_object(j);
    show_ms(j, "generation_ms", ms_of(a->generation_ns));
    show_ms(j, "sandbox_ms", ms_of(a->sandbox_ns));
    show_ms(j, "total_ms", ms_of(total_ns));
    show_int(j, "input_tokens", model_usage_prompt(u));
    show_int(j, "output_tokens", u->output);
    show_ms(j, "cost_usd", (double)run_cost(a->run) / 1e9);
    json_close_object(j);
}

static void show_answer(struct answer *a, int64_t total_ns, bool is_short, struct json *j)
{
    bool is_there = a->s != NULL && a->has_run;
    show_bool(j, "success", a->error_code == NULL);
    show_str(j, "request_id", run_id(a->run));
    show_time(j, "timestamp", run_created_ms(a->run));
    show_str(j, "question", a->question);
    json_key(j, "code");
    json_put_strn(j, buf_str(&a->code), a->code.len);
    show_cell(j, &a->whole, is_short);
    if (is_short && a->error != NULL)
        a->error[strnlen(a->error, SHORT_MAX)] = '\0';
    show_str(j, "error", a->error);
    show_str(j, "error_code", a->error_code);
    written_show(a->before, a->after, j);
    show_str(j, "sandboxId", is_there ? sandbox_row(a->s)->id : NULL);
    show_str(j, "context", a->context);
    show_str(j, "language", a->language->name);
    show_str(j, "model", a->model);
    show_int(j, "attempts", a->attempt);
    show_str(j, "reason", a->end.reason);
    show_int(j, "executionTime", total_ns / NS_PER_MS);
    show_metrics(a, total_ns, j);
    show_bool(j, "cached", a->cached);
}

static void write_answer(struct answer *a, int64_t total_ns, bool is_short, struct buf *body)
{
    struct json j;
    buf_reset(body);
    json_init(&j, body);
    json_open_object(&j);
    show_answer(a, total_ns, is_short, &j);
    json_close_object(&j);
}

void answer_reply(struct answer *a)
{
    struct buf body;
    int64_t total_ns = clock_ns() - a->start_ns;
    answer_let_go(a); // what it has used is known then
    buf_init(&body, RUN_BODY_MAX);
    write_answer(a, total_ns, /* is_short */ false, &body);
    if (body.failed != 0) // each part has its bounds, but all of them together are too much
        write_answer(a, total_ns, /* is_short */ true, &body);
    const struct run_end end = {
        .status = 200,
        .success = a->error_code == NULL,
        .error_code = a->error_code,
        .sandbox = a->s != NULL && a->has_run ? sandbox_row(a->s)->id : NULL,
        .model = a->model,
        .generation_ms = a->generation_ns / NS_PER_MS,
        .sandbox_ms = a->sandbox_ns / NS_PER_MS,
        .total_ms = total_ns / NS_PER_MS,
    };
    answer_finish(a, &end, &body);
    buf_done(&body);
}
