// SPDX-License-Identifier: Apache-2.0
// Code that is run in a context, and its result. A client that waits for the result and goes away
// takes its cell with it, unless it has sent an Idempotency-Key: then it means to ask again. A cell
// that is streamed goes on, and is followed again by its id.
#include "api/code.h"

#include <stdlib.h>
#include <string.h>

#include "api/contexts.h"
#include "api/handlers.h"
#include "api/language-read.h"
#include "api/schemas.h"
#include "api/show.h"
#include "base/mem.h"

#define TIMEOUT_MAX (INT64_C(366) * 86400 * 1000)

struct code_body {
    const char *code, *context, *language;
    struct body_map env;
    struct body_int timeout;
};
static const struct field code_fields[] = {
    FIELD("code", FIELD_STRING, offsetof(struct code_body, code), .required = true,
          .max = CELL_CODE_MAX, .help = "What to run"),
    FIELD("context", FIELD_STRING, offsetof(struct code_body, context), .max = EDGE_NAME_MAX,
          .help = "The context to run it in; if not given the default one of its language"),
    FIELD("language", FIELD_STRING, offsetof(struct code_body, language), .max = EDGE_NAME_MAX,
          .help = "Instead of a context: \"python\" if not given; GET .../languages lists them"),
    FIELD("timeout", FIELD_MS, offsetof(struct code_body, timeout), .min = 1, .max = TIMEOUT_MAX,
          .help = "Milliseconds, or a text such as \"1s\"; then it is interrupted. The context's, "
                  "60000, if not given"),
    FIELD("env", FIELD_ENV, offsetof(struct code_body, env), .max = EDGE_ENV_MAX,
          .help = "Variables of this cell alone"),
};
const struct schema code_schema = SCHEMA("RunCode", struct code_body, code_fields);

struct run {
    const struct language *language; // NULL: it has a context
    bool is_streamed;
    struct cell *cell; // counted, while it is waited for, with a reference of the call
    struct cell_follower *follower;
};

// -- one that waits for the result

static void let_go(struct run *run)
{
    cell_follower_free(run->follower);
    cell_unref(run->cell);
    run->follower = NULL;
    run->cell = NULL;
}

static void stop(struct call *call)
{
    struct run *run = call->state;
    if (call->idem.active || run->cell == NULL) // its client will ask for the answer
        return;
    struct cell *cell = cell_ref(run->cell);
    let_go(run); // so that its end is not told to us
    cell_cancel(cell);
    cell_unref(cell);
    call_unref(call);
}

static void on_news(void *data)
{
    struct call *call = data;
    struct run *run = call->state;
    if (run->cell == NULL || !cell_has_ended(run->cell))
        return;
    struct cell *cell = cell_ref(run->cell);
    let_go(run);
    code_reply(call, cell);
    cell_unref(cell);
    call_unref(call);
}

static void wait_for(struct call *call, struct cell *cell)
{
    struct run *run = call->state;
    if (cell_has_ended(cell)) {
        code_reply(call, cell);
    } else if (call->req == NULL && !call->idem.active) { // it left before there was a cell
        cell_cancel(cell);
    } else {
        run->cell = cell_ref(cell);
        run->follower = cell_follow(cell, on_news, call_ref(call));
        call->stop = stop;
    }
}

// -- what cannot be run

struct seen {
    const struct language *language;
    bool found;
};

static void see_default(void *data, struct context *c)
{
    struct seen *seen = data;
    struct context_info info;
    context_info(c, &info);
    seen->found |= info.is_default && info.language == seen->language;
}

// Too many cells wait, which passes; or there are too many contexts for one more, which does not.
static bool is_queue_full(struct call *call)
{
    const struct run *run = call->state;
    struct seen seen = {.language = run->language};
    if (run->language != NULL && run->language->kernel != KERNEL_ONCE)
        context_each(call->sandbox, see_default, &seen);
    else
        seen.found = true;
    return seen.found;
}

// The language that it was to be; of a context, its.
static const struct language *language_of(struct call *call)
{
    struct err ignored;
    struct context_info info = {0};
    const struct run *run = call->state;
    const struct code_body *b = call->body.values;
    const struct context *c =
        b->context != NULL ? context_find(call->sandbox, b->context, &ignored) : NULL;
    if (c != NULL)
        context_info(c, &info);
    return c != NULL ? info.language : run->language;
}

static bool refuse_if_dead(struct call *call, const struct context *c)
{
    struct context_info info;
    context_info(c, &info);
    if (info.status != CONTEXT_DEAD || info.is_default)
        return false;
    context_refuse_dead(call, &info);
    return true;
}

static void fail(struct call *call, const struct err *err)
{
    struct err ignored, told = *err;
    const struct code_body *b = call->body.values;
    const struct context *c =
        b->context != NULL ? context_find(call->sandbox, b->context, &ignored) : NULL;
    if (err->code == ERR_CONFLICT && c != NULL && refuse_if_dead(call, c))
        return;
    if (err->code == ERR_EXHAUSTED && is_queue_full(call))
        told.code = ERR_UNAVAILABLE;
    context_fail(call, language_of(call), &told);
}

// -- POST

static void on_cell(void *data, struct cell *cell, const struct err *err)
{
    struct call *call = data;
    const struct run *run = call->state;
    if (cell == NULL) {
        fail(call, err);
    } else if (!run->is_streamed) {
        wait_for(call, cell);
    } else {
        idem_answer_process(call, cell_id(cell));
        if (call->req != NULL)
            code_stream(call, cell, (struct code_place){0}, /* start */ true);
    }
    call_unref(call);
}

static void on_awake(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct call *call = data;
    const struct run *run = call->state;
    const struct code_body *b = call->body.values;
    struct cell_request request = {
        .code = b->code,
        .len = strlen(b->code),
        .context = b->context,
        .language = run->language,
        .timeout_ms = b->timeout.value,
        .env = b->env.json,
    };
    (void)s;
    (void)created;
    if (err != NULL && err->code != ERR_NONE)
        call_fail(call, err);
    else if (call->req != NULL || call->idem.active)
        cell_run(call->sandbox, &request, on_cell, call_ref(call));
    call_unref(call);
}

// The stream of an earlier request, from where its reader was.
static void attach(struct call *call, const char *id, struct code_place from, bool start)
{
    struct err err = {0};
    struct cell *cell = cell_find(call->sandbox, id, &err);
    if (cell != NULL)
        code_stream(call, cell, from, start);
    else if (call->idem.process != NULL && err.code == ERR_NOT_FOUND)
        call_error(call, ERROR_OUTCOME_UNKNOWN, NULL,
                   "the cell of the first request with this Idempotency-Key is gone");
    else
        call_fail(call, &err);
}

// Whether the request goes on with a stream that has been begun.
static bool goes_on(struct call *call)
{
    struct code_place from = {0};
    const char *last = http_header(call->req, "Last-Event-ID");
    if (last == NULL && call->idem.process != NULL)
        attach(call, call->idem.process, from, /* start */ true);
    if (last == NULL)
        return call->idem.process != NULL;
    auto_free char *id = mem_copy_text(last);
    if (code_parse_id(id, &from) < 0)
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "Last-Event-ID is not the id of an event of a cell");
    else
        attach(call, id, from, /* start */ false);
    return true;
}

// In which context or language. 0, or -1 when it was refused and answered; nothing was woken.
static int check(struct call *call, const struct code_body *b, const struct language **ret)
{
    struct err err = {0};
    if (b->context != NULL && b->language != NULL) {
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "either 'context' or 'language': a context has its language");
        return -1;
    }
    if (b->context == NULL) {
        *ret = language_read(call, "language", b->language != NULL ? b->language : "python");
        return *ret != NULL ? 0 : -1;
    }
    const struct context *c = context_find(call->sandbox, b->context, &err);
    if (c == NULL) {
        call_fail(call, &err);
        return -1;
    }
    return refuse_if_dead(call, c) ? -1 : 0;
}

void handle_code(struct call *call)
{
    const struct language *language = NULL;
    bool is_streamed = call_accepts(call, "text/event-stream");
    if (is_streamed && goes_on(call))
        return;
    if (check(call, call->body.values, &language) < 0)
        return;
    struct run *run = calloc(1, sizeof *run);
    if (run == NULL)
        abort();
    *run = (struct run){.language = language, .is_streamed = is_streamed};
    call->state = run;
    sandbox_wake(call->sandbox, on_awake, call_ref(call));
}

// -- GET

static void reply_running(struct call *call, struct cell *cell)
{
    struct buf buf;
    struct json j;
    struct err ignored;
    struct context_info info = {0};
    const char *id = cell_context(cell);
    const struct context *c = id != NULL ? context_find(call->sandbox, id, &ignored) : NULL;
    if (c != NULL)
        context_info(c, &info);
    bool waits = c != NULL && (info.cell == NULL || strcmp(info.cell, cell_id(cell)) != 0);
    buf_init(&buf, SHOW_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_str(&j, "id", cell_id(cell));
    show_str(&j, "context", id);
    show_str(&j, "language", cell_language(cell)->name);
    show_str(&j, "status", waits ? "queued" : "running");
    json_close_object(&j);
    call_reply_json(call, 202, &j);
}

// From the header if there is one, else from ?offset. 0, or -1 when it was refused and answered.
static int read_place(struct call *call, struct code_place *ret, bool *ret_start)
{
    const char *last = http_header(call->req, "Last-Event-ID");
    const char *offset = call_query(call, "offset");
    auto_free char *id = mem_copy_text(last);
    bool good = true;
    if (id != NULL)
        good = code_parse_id(id, ret) == 0 && strcmp(id, call->param[1]) == 0;
    else if (offset != NULL)
        good = code_parse_place(offset, ret) == 0;
    *ret_start = last == NULL && ret->n == 0 && ret->at == 0;
    if (!good)
        call_error(call, ERROR_INVALID_REQUEST, NULL, "%s: must be %s of an event of this cell",
                   last != NULL ? "Last-Event-ID" : "?offset",
                   last != NULL ? "the id" : "what stands behind the ':' in the id");
    return good ? 0 : -1;
}

void handle_code_get(struct call *call)
{
    struct err err = {0};
    bool start;
    struct code_place from = {0};
    struct cell *cell = cell_find(call->sandbox, call->param[1], &err);
    if (cell == NULL) {
        call_fail(call, &err);
        return;
    }
    if (read_place(call, &from, &start) < 0)
        return;
    if (call_accepts(call, "text/event-stream"))
        code_stream(call, cell, from, start);
    else if (cell_has_ended(cell))
        code_reply(call, cell);
    else
        reply_running(call, cell);
}

void handle_code_cancel(struct call *call)
{
    struct err err = {0};
    struct cell *cell = cell_find(call->sandbox, call->param[1], &err);
    if (cell == NULL) {
        call_fail(call, &err);
        return;
    }
    if (!cell_has_ended(cell))
        cell_cancel(cell);
    call_reply_ok(call);
}
