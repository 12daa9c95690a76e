// SPDX-License-Identifier: Apache-2.0
// What the model is asked for a question, and what becomes of its answer.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "agents/answer-internal.h"
#include "base/clock.h"
#include "base/show.h"

enum {
    MODEL_TIMEOUT_MS = 300 * 1000,
    WORDS_TOLD = 2000, // of an answer without code
};

// --- the code is there

static void emit_generated(struct answer *a)
{
    struct buf buf;
    struct json j;
    answer_event(&j, &buf);
    json_key(&j, "code");
    json_put_strn(&j, buf_str(&a->code), a->code.len);
    show_bool(&j, "cached", a->cached);
    show_int(&j, "attempt", a->attempt);
    answer_emit(a, "generated", &j);
}

static void use_code(struct answer *a)
{
    a->refs++;
    a->has_code = true;
    a->code_ns = clock_ns();
    emit_generated(a);
    answer_want_sandbox(a);
    answer_run_if_ready(a);
    answer_unref(a);
}

// A model that fails on a repair has not unmade what went before.
void answer_reply_with_note(struct answer *a, const char *why)
{
    auto_buf text;
    buf_init(&text, TEXT_MAX + sizeof(struct failure));
    (void)buf_printf(&text, "%s\n(it was not repaired: %s)", a->error != NULL ? a->error : "", why);
    answer_say(a, a->error_code, buf_str(&text));
    answer_reply(a);
}

static void reply_without_code(struct answer *a, const char *error_code, const char *what,
                               const struct buf *text)
{
    auto_buf error;
    if (a->has_run) {
        answer_reply_with_note(a, what);
        return;
    }
    buf_init(&error, WORDS_TOLD + 256);
    (void)buf_append_str(&error, what);
    if (text->len > 0)
        (void)buf_printf(&error, ": %.*s", WORDS_TOLD, buf_str(text));
    answer_say(a, error_code, buf_str(&error));
    answer_reply(a);
}

static void join_text(const struct model_result *result, struct buf *ret)
{
    size_t i;
    json_t *block, *blocks = json_loadb(result->content, result->content_len, 0, NULL);
    json_array_foreach(blocks, i, block)
    {
        const char *type = json_string_value(json_object_get(block, "type"));
        const char *text = json_string_value(json_object_get(block, "text"));
        if (type != NULL && strcmp(type, "text") == 0 && text != NULL)
            (void)buf_append_str(ret, text);
    }
    json_decref(blocks);
}

// Why it refused, where the API says so and the model does not.
static void add_explanation(const struct model_result *result, struct buf *text)
{
    json_t *details = json_loads(result->stop_details, 0, NULL);
    const char *why = json_string_value(json_object_get(details, "explanation"));
    if (text->len == 0 && why != NULL)
        (void)buf_append_str(text, why);
    json_decref(details);
}

static void take_message(struct answer *a, const struct model_result *result)
{
    auto_buf text, code;
    buf_init(&text, CODE_MAX);
    buf_init(&code, CODE_MAX);
    join_text(result, &text);
    bool found = clean_code(buf_str(&text), text.len, a->language->name, &code);
    if (strcmp(result->stop_reason, "refusal") == 0) {
        add_explanation(result, &text);
        reply_without_code(a, "MODEL_REFUSED", "the model refused", &text);
    } else if (strcmp(result->stop_reason, "max_tokens") == 0 || text.failed != 0) {
        buf_reset(&text);
        reply_without_code(a, "MAX_TOKENS",
                           "the code was cut off: it is longer than maxTokens allows", &text);
    } else if (!found) {
        reply_without_code(a, "NO_CODE", "the model answered without code", &text);
    } else {
        buf_reset(&a->code);
        (void)buf_append(&a->code, code.data, code.len);
        use_code(a);
    }
}

// --- the model

static void on_code(void *data, const char *text, size_t len)
{
    struct answer *a = data;
    (void)buf_append(&a->piece, text, len);
}

static void on_again(void *data)
{
    struct answer *a = data;
    buf_reset(&a->piece);
    answer_emit_str(a, "restart", "reason", "what was shown were not lines of code");
}

static void emit_piece(struct answer *a)
{
    struct buf buf;
    struct json j;
    if (a->piece.len == 0)
        return;
    answer_event(&j, &buf);
    json_key(&j, "text");
    json_put_strn(&j, a->piece.data, a->piece.len);
    buf_reset(&a->piece);
    answer_emit(a, "code", &j);
    answer_want_sandbox(a);
}

static void begin_stream(struct answer *a)
{
    static const struct clean_stream_ops ops = {.code = on_code, .again = on_again};
    clean_stream_free(a->stream);
    a->stream = clean_stream_new(&ops, a);
    buf_reset(&a->piece);
    a->text_bytes = 0;
}

// No code is that long, whatever maxTokens allows: the rest is not waited for.
static void stop_asking(struct answer *a)
{
    auto_buf none;
    a->generation_ns += clock_ns() - a->asked_ns;
    buf_init(&none, 0);
    reply_without_code(a, "MAX_TOKENS", "the code is longer than 1 MiB", &none);
}

static void on_event(void *data, const struct model_event *event)
{
    struct answer *a = data;
    if (event->type == MODEL_TEXT) {
        a->refs++;
        a->text_bytes += event->len;
        if (a->text_bytes <= CODE_MAX) {
            clean_stream_feed(a->stream, event->text, event->len);
            emit_piece(a);
        }
        if (a->text_bytes > CODE_MAX && !a->over)
            stop_asking(a);
        answer_unref(a);
    } else if (event->type == MODEL_AGAIN) {
        begin_stream(a);
        answer_emit_str(a, "restart", "reason",
                        "the model's answer broke off or failed: asked again");
    }
}

static void take_result(struct answer *a, const struct model_result *result)
{
    struct failure failure;
    if (result->end == MODEL_DONE) {
        take_message(a, result);
        return;
    }
    failure_of(result, &failure);
    if (a->has_run)
        answer_reply_with_note(a, failure.message);
    else
        answer_fail(a, &failure);
}

static void on_done(void *data, const struct model_result *result)
{
    struct answer *a = data;
    a->refs++;
    a->call = NULL;
    a->generation_ns += clock_ns() - a->asked_ns;
    clean_stream_end(a->stream);
    emit_piece(a);
    if (!a->over) // there may be no sandbox for it
        take_result(a, result);
    answer_unref(a);
}

static bool take_cached(struct answer *a)
{
    struct err err;
    char *code = NULL;
    if (!a->cache || a->attempt != 1 || db_code_get(a->agents->config.db, a->key, &code, &err) <= 0)
        return false;
    a->cached = true;
    a->agents->stats.cached++;
    (void)buf_append_str(&a->code, code);
    free(code);
    use_code(a);
    return true;
}

static bool is_over_budget(struct answer *a)
{
    struct failure failure;
    if (a->s == NULL || !failure_of_budget(sandbox_row(a->s), &failure))
        return false;
    if (a->has_run)
        answer_reply_with_note(a, failure.message);
    else
        answer_fail(a, &failure);
    return true;
}

void answer_ask(struct answer *a)
{
    auto_buf body;
    const struct sandbox_row *row = a->s != NULL && !a->fresh ? sandbox_row(a->s) : NULL;
    a->attempt++;
    a->asked_ns = clock_ns();
    buf_init(&body, MESSAGES_MAX + 64 * 1024);
    prompt_write(a, &body);
    if (a->attempt == 1)
        prompt_key(a, &body);
    if (take_cached(a) || is_over_budget(a))
        return;
    begin_stream(a);
    const struct agents_ask request = {
        .run = a->run,
        .source = "execute",
        .sandbox = row != NULL ? row->id : NULL,
        .sandbox_number = row != NULL ? row->number : 0,
        .model = a->model,
        .request_ = {.body = body.data,
                     .body_len = body.len,
                     .stream = true,
                     .timeout_ms = MODEL_TIMEOUT_MS,
                     .retries = -1},
    };
    a->call = agents_ask(a->agents, &request, on_event, on_done, a);
}
