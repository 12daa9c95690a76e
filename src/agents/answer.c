// SPDX-License-Identifier: Apache-2.0
// A question on its way: asked, written, run, perhaps repaired, answered. The sandbox is asked for
// when the first words of code come, so that it is there when the last ones do.
#include "agents/answer.h"

#include <stdlib.h>
#include <string.h>

#include "agents/answer-internal.h"
#include "agents/fresh.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/show.h"

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

void answer_emit_str(struct answer *a, const char *type, const char *key, const char *text)
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
    answer_stop_timer(a);
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

void answer_say(struct answer *a, const char *error_code, const char *error)
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
        answer_say(a, "CANCELLED", "it was cancelled");
        answer_reply(a);
    }
    answer_unref(a);
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
        answer_ask(a);
    else
        answer_reply_with_note(a, "all of it is more than a model is asked");
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
        answer_say(a, NULL, NULL);
        keep_code(a);
        look_at_files(a);
        return;
    }
    answer_cell_error(a, &error);
    answer_say(a, code_of(&a->end), buf_str(&error));
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
    answer_ask(a);
    return run;
}
