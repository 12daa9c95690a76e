// SPDX-License-Identifier: Apache-2.0
// A question on its way: asked, written, run, perhaps repaired, answered. The sandbox is asked for
// when the first words of code come, so that it is there when the last ones do.
#include "agents/answer.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "agents/answer-internal.h"
#include "agents/fresh.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/show.h"

enum {
    MODEL_TIMEOUT_MS = 300 * 1000,
    WORDS_TOLD = 2000, // of an answer without code
};

static void ask(struct answer *a);
static void stop_timer(struct answer *a);

// --- memory, events, the end

void answer_unref(struct answer *a)
{
    if (--a->refs > 0)
        return;
    clean_stream_free(a->stream);
    written_free(a->before);
    written_free(a->after);
    cell_whole_done(&a->whole);
    buf_done(&a->messages);
    buf_done(&a->code);
    buf_done(&a->piece);
    buf_done(&a->rest[0]);
    buf_done(&a->rest[1]);
    free(a->question);
    free(a->model);
    free(a->sandbox_id);
    free(a->context);
    free(a->error);
    run_unref(a->run);
    free(a);
}

struct json *answer_event(struct json *j, struct buf *buf)
{
    buf_init(buf, EVENT_MAX);
    json_init(j, buf);
    json_open_object(j);
    return j;
}

void answer_emit(struct answer *a, const char *type, struct json *j)
{
    json_close_object(j);
    if (json_finish(j) == 0)
        run_event(a->run, type, j->buf);
    buf_done(j->buf);
}

static void emit_str(struct answer *a, const char *type, const char *key, const char *text)
{
    struct buf buf;
    struct json j;
    show_str(answer_event(&j, &buf), key, text);
    answer_emit(a, type, &j);
}

// What nothing was run in is of no use to anybody.
static void leave_sandbox(struct answer *a)
{
    struct sandbox *s = a->s;
    if (s == NULL)
        return;
    if (a->is_up)
        sandbox_idle(s);
    if (a->fresh && !a->has_run)
        sandbox_destroy(s, NULL, NULL);
    else if (a->fresh)
        fresh_left(a->agents, s);
    sandbox_unref(s);
    a->s = NULL;
}

void answer_finish(struct answer *a, const struct run_end *end, const struct buf *body)
{
    a->over = true;
    stop_timer(a);
    answer_let_go(a);
    run_end(a->run, end, body);
    leave_sandbox(a);
    answer_unref(a);
}

void answer_fail(struct answer *a, const struct failure *failure)
{
    auto_buf body;
    int64_t total_ns = clock_ns() - a->start_ns;
    const struct run_end end = {
        .status = failure->status,
        .error_code = failure->error_code,
        .sandbox = a->s != NULL && a->has_run ? sandbox_row(a->s)->id : NULL,
        .model = a->model,
        .generation_ms = a->generation_ns / NS_PER_MS,
        .total_ms = total_ns / NS_PER_MS,
        .retry_after_ms = failure->retry_after_ms,
    };
    buf_init(&body, EVENT_MAX);
    failure_write(failure, run_id(a->run), &body);
    answer_finish(a, &end, &body);
}

static void say(struct answer *a, const char *error_code, const char *error)
{
    a->error_code = error_code;
    free(a->error);
    a->error = mem_copy_text(error);
}

static void on_cancel(void *data)
{
    struct answer *a = data;
    a->refs++;
    if (a->cell != NULL) {
        answer_read_cell(a); // what there is of it
        a->end.reason = "cancelled";
        cell_cancel(a->cell);
    }
    if (!a->over) { // the cell's end may have been its own
        say(a, "CANCELLED", "it was cancelled");
        answer_reply(a);
    }
    answer_unref(a);
}

// --- the sandbox

static void run_if_ready(struct answer *a)
{
    if (a->over || !a->has_code || !a->is_up || a->listing != NULL)
        return;
    a->has_code = false;
    answer_run_code(a);
}

static void on_before(void *data, struct written *list, const struct err *err)
{
    struct answer *a = data;
    (void)err; // then all that is there afterwards counts as written
    a->listing = NULL;
    a->before = list;
    run_if_ready(a);
}

static void use_sandbox(struct answer *a)
{
    a->is_up = true;
    sandbox_busy(a->s);
    emit_str(a, "sandbox", "sandboxId", sandbox_row(a->s)->id);
    if (!a->fresh)
        a->listing = written_list(a->agents->config.loop, a->s, on_before, a);
    run_if_ready(a);
}

static void on_awake(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct answer *a = data;
    struct failure failure;
    (void)s;
    (void)created;
    if (err != NULL && err->code != ERR_NONE) {
        failure_of_err(err, &failure);
        if (!a->over)
            answer_fail(a, &failure);
    } else if (!a->over) {
        use_sandbox(a);
    }
    answer_unref(a);
}

static void on_made(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct answer *a = data;
    struct failure failure;
    (void)created;
    if (s == NULL) {
        failure_of_err(err, &failure);
        if (!a->over)
            answer_fail(a, &failure);
    } else if (a->over) {
        sandbox_destroy(s, NULL, NULL);
    } else {
        a->s = sandbox_ref(s);
        use_sandbox(a);
    }
    answer_unref(a);
}

static void free_timer(uv_handle_t *handle)
{
    free(handle);
}

static void stop_timer(struct answer *a)
{
    if (a->soon != NULL)
        uv_close((uv_handle_t *)a->soon, free_timer);
    a->soon = NULL;
}

static void on_soon(uv_timer_t *timer)
{
    struct answer *a = timer->data;
    stop_timer(a);
    a->refs++;
    if (a->s != NULL)
        fresh_wake(a->agents, a->s, on_awake, a);
    else
        fresh_make(a->agents, run_tenant(a->run), run_id(a->run), a->language->name, on_made, a);
}

// In the loop's next round: it takes longer than anything else here, and whoever follows the code
// shall see its first words before.
static void ask_for_sandbox(struct answer *a)
{
    if (a->asked_for)
        return;
    a->asked_for = true;
    a->soon = calloc(1, sizeof *a->soon);
    if (a->soon == NULL)
        abort();
    (void)uv_timer_init(a->agents->config.loop, a->soon);
    a->soon->data = a;
    (void)uv_timer_start(a->soon, on_soon, 0, 0);
}

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
    ask_for_sandbox(a);
    run_if_ready(a);
    answer_unref(a);
}

// A model that fails on a repair has not unmade what went before.
static void reply_with_note(struct answer *a, const char *why)
{
    auto_buf text;
    buf_init(&text, TEXT_MAX + sizeof(struct failure));
    (void)buf_printf(&text, "%s\n(it was not repaired: %s)", a->error != NULL ? a->error : "", why);
    say(a, a->error_code, buf_str(&text));
    answer_reply(a);
}

static void reply_without_code(struct answer *a, const char *error_code, const char *what,
                               const struct buf *text)
{
    auto_buf error;
    if (a->has_run) {
        reply_with_note(a, what);
        return;
    }
    buf_init(&error, WORDS_TOLD + 256);
    (void)buf_append_str(&error, what);
    if (text->len > 0)
        (void)buf_printf(&error, ": %.*s", WORDS_TOLD, buf_str(text));
    say(a, error_code, buf_str(&error));
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
    emit_str(a, "restart", "reason", "what was shown were not lines of code");
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
    ask_for_sandbox(a);
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
        emit_str(a, "restart", "reason", "the model's answer broke off or failed: asked again");
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
        reply_with_note(a, failure.message);
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
        reply_with_note(a, failure.message);
    else
        answer_fail(a, &failure);
    return true;
}

static void ask(struct answer *a)
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

// --- the code has ended

static void repair(struct answer *a)
{
    struct buf buf;
    struct json j;
    answer_event(&j, &buf);
    show_int(&j, "attempt", a->attempt + 1);
    show_str(&j, "error", a->error);
    answer_emit(a, "repair", &j);
    prompt_repair(a, buf_str(&a->code), a->error);
    a->cached = false;
    if (a->messages.failed == 0)
        ask(a);
    else
        reply_with_note(a, "all of it is more than a model is asked");
}

static void on_after(void *data, struct written *list, const struct err *err)
{
    struct answer *a = data;
    (void)err; // nobody knows: none are told
    a->listing = NULL;
    a->after = list;
    answer_reply(a);
}

static void look_at_files(struct answer *a)
{
    if (sandbox_is_up(a->s))
        a->listing = written_list(a->agents->config.loop, a->s, on_after, a);
    else
        answer_reply(a);
}

static const char *code_of(const struct cell_end *end)
{
    if (end->success)
        return NULL;
    if (strcmp(end->reason, "timeout") == 0)
        return "EXECUTION_TIMEOUT";
    // What was killed was so from outside: the sandbox fell asleep or was destroyed.
    bool lost = strcmp(end->reason, "box_lost") == 0 || strcmp(end->reason, "killed") == 0;
    return lost ? "SANDBOX_LOST" : "CODE_FAILED";
}

static void keep_code(struct answer *a)
{
    struct err err;
    if (a->cache && !a->cached && a->attempt == 1 &&
        db_code_put(a->agents->config.db, a->key, run_tenant(a->run), buf_str(&a->code), &err) < 0)
        log_line(LOG_WARN, "code cannot be kept", "error", err.msg, NULL);
}

void answer_code_ended(struct answer *a)
{
    auto_buf error;
    buf_init(&error, TEXT_MAX);
    if (a->end.success) {
        say(a, NULL, NULL);
        keep_code(a);
        look_at_files(a);
        return;
    }
    answer_cell_error(a, &error);
    say(a, code_of(&a->end), buf_str(&error));
    if (strcmp(a->end.reason, "error") == 0 && a->attempt <= a->retries)
        repair(a);
    else
        look_at_files(a);
}

// --- the beginning

static void emit_start(struct answer *a)
{
    struct buf buf;
    struct json j;
    answer_event(&j, &buf);
    show_str(&j, "request_id", run_id(a->run));
    show_str(&j, "question", a->question);
    show_str(&j, "language", a->language->name);
    show_str(&j, "model", a->model);
    answer_emit(a, "start", &j);
}

// A context has its language already: nothing is asked of a model that could not run there.
static const struct language *settle_language(struct sandbox *s, const struct answer_request *r,
                                              struct err *err)
{
    const struct context *c;
    struct context_info info;
    if (r->context == NULL)
        return language_find(r->language != NULL ? r->language : "python");
    if (s == NULL || (c = context_find(s, r->context, err)) == NULL)
        return NULL;
    context_info(c, &info);
    const char *name = info.language->name;
    if (r->language != NULL && strcmp(r->language, name) != 0)
        (void)err_set(err, ERR_INVALID, "language: the context '%.60s' speaks %s", r->context,
                      name);
    else if (strcmp(name, "python") != 0 && strcmp(name, "javascript") != 0)
        (void)err_set(err, ERR_INVALID, "context: '%.60s' speaks %s, which is not written here",
                      r->context, name);
    else
        return info.language;
    return NULL;
}

static struct answer *make(struct agents *agents, const struct answer_request *r,
                           const struct language *language)
{
    struct answer *a = calloc(1, sizeof *a);
    if (a == NULL)
        abort();
    *a = (struct answer){
        .agents = agents,
        .refs = 1,
        .question = mem_copy_text(r->question),
        .model = mem_copy_text(r->model != NULL ? model_resolve(r->model)
                                                : agents->config.default_model),
        .sandbox_id = mem_copy_text(r->sandbox),
        .context = mem_copy_text(r->context),
        .language = language,
        .max_tokens = r->max_tokens,
        .timeout_ms = r->timeout_ms,
        .retries = r->retries,
        .cache = r->cache,
        .fresh = r->sandbox == NULL,
        .start_ns = clock_ns(),
    };
    buf_init(&a->messages, MESSAGES_MAX);
    buf_init(&a->code, CODE_MAX);
    buf_init(&a->piece, CODE_MAX);
    buf_init(&a->rest[0], CELL_OUTPUT_MAX);
    buf_init(&a->rest[1], CELL_OUTPUT_MAX);
    cell_whole_init(&a->whole, TEXT_MAX, OBJECTS_MAX);
    return a;
}

struct run *answer_start(struct agents *agents, const struct answer_request *r, struct err *err)
{
    struct sandbox *s = NULL;
    if (r->sandbox != NULL) {
        s = fleet_find(agents->config.fleet, r->tenant, r->sandbox, err);
        if (s == NULL)
            return NULL;
    }
    const struct language *language = settle_language(s, r, err);
    if (language == NULL)
        return NULL;
    struct answer *a = make(agents, r, language);
    const struct run_start start = {.tenant = r->tenant,
                                    .id = r->id,
                                    .kind = "question",
                                    .title = a->question,
                                    .model = a->model};
    a->s = s != NULL ? sandbox_ref(s) : NULL;
    a->run = run_new(agents, &start, err);
    if (a->run == NULL) {
        leave_sandbox(a);
        answer_unref(a);
        return NULL;
    }
    struct run *run = run_ref(a->run); // it may be over before this returns
    run_on_cancel(run, on_cancel, a);
    emit_start(a);
    prompt_begin(a);
    ask(a);
    return run;
}
