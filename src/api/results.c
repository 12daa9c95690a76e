// SPDX-License-Identifier: Apache-2.0
// What was asked of a model before: the list, one answer, cancelling and removing. A run that is in
// memory is asked itself; of the others there is the row.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/run.h"
#include "api/call.h"
#include "api/execute.h"
#include "api/handlers.h"
#include "api/page.h"
#include "api/show.h"

enum {
    LIST_DEFAULT = 50,
    LIST_MAX = 500,
    PIECE = 64 * 1024,
};

static void missing(struct call *call, const char *id)
{
    call_error(call, ERROR_NOT_FOUND, NULL, "there is no result '%.80s': GET /execute lists them",
               id);
}

static struct run *find_run(struct call *call)
{
    struct agents *agents = call->api->agents;
    return agents != NULL ? run_find(agents, call->tenant, call->param[0]) : NULL;
}

static void reply_state(struct call *call, unsigned status, const char *state)
{
    struct buf buf;
    struct json j;
    buf_init(&buf, SHOW_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    show_str(&j, "request_id", call->param[0]);
    show_str(&j, "state", state);
    json_close_object(&j);
    call_reply_json(call, status, &j);
}

// -- the list

static const char *state_name(enum result_state state)
{
    switch (state) {
    case RESULT_RUNNING:
        return "running";
    case RESULT_DONE:
        return "done";
    case RESULT_LOST:
        return "lost";
    }
    return "unknown";
}

static void show_result(struct json *j, const struct result_row *row)
{
    bool is_done = row->state == RESULT_DONE;
    show_str(j, "request_id", row->id);
    show_str(j, "kind", row->kind);
    show_str(j, "state", state_name(row->state));
    show_str(j, "question", row->title);
    if (strcmp(row->kind, "task") == 0)
        show_str(j, "task", row->title);
    json_key(j, "success");
    if (is_done)
        json_put_bool(j, row->success);
    else
        json_put_null(j);
    show_str(j, "error_code", row->state == RESULT_LOST ? "RESULT_LOST" : row->error);
    show_str(j, "sandboxId", row->sandbox);
    show_str(j, "model", row->model);
    show_usd(j, "cost_usd", row->cost);
    show_int(j, "input_tokens", row->input_tokens);
    show_int(j, "output_tokens", row->output_tokens);
    show_int(j, "generation_ms", row->generation_ms);
    show_int(j, "sandbox_ms", row->sandbox_ms);
    show_int(j, "total_ms", row->total_ms);
    show_time(j, "created", row->created_ms);
    show_time(j, "ended", row->ended_ms);
}

// One that nobody works on any more has an end that could not be stored.
static enum result_state state_of(const struct call *call, const struct result_row *row)
{
    struct agents *agents = call->api->agents;
    const struct run *run = agents != NULL ? run_find(agents, row->tenant, row->id) : NULL;
    bool is_open = run != NULL && !run_has_ended(run);
    return row->state == RESULT_RUNNING && !is_open ? RESULT_LOST : row->state;
}

static int see_result(void *data, const struct result_row *row)
{
    struct page *page = data;
    struct result_row shown = *row; // lent
    shown.state = state_of(page->call, row);
    if (!page_open(page, row->id))
        return 1;
    show_result(page->j, &shown);
    json_close_object(page->j);
    return 0;
}

static int each_result(struct page *page, const void *query, struct err *err)
{
    return db_result_each(page->call->api->db, query, see_result, page, err);
}

// A place in the list that is gone would be its end: better said.
static int check_before(struct call *call, const char *before)
{
    struct err err = {0};
    struct result_row row = {0};
    if (before == NULL)
        return 0;
    int r = db_result_head(call->api->db, call->tenant, before, &row, &err);
    result_row_done(&row);
    if (r < 0)
        call_fail(call, &err);
    else if (r == 0)
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "?before: there is no result '%.80s' (any more): begin anew without it", before);
    return r > 0 ? 0 : -1;
}

static bool is_kind(const char *name)
{
    return strcmp(name, "question") == 0 || strcmp(name, "sdk") == 0 || strcmp(name, "task") == 0;
}

void handle_result_list(struct call *call)
{
    uint64_t max;
    struct result_query query = {
        .tenant = call->tenant,
        .kind = call_query(call, "kind"),
        .before = call_query(call, "before"),
    };
    if (call_query_u64(call, "limit", LIST_MAX, LIST_DEFAULT, &max) < 0)
        return;
    if (query.kind != NULL && !is_kind(query.kind)) {
        call_error(call, ERROR_INVALID_REQUEST, NULL, "?kind: must be question, sdk or task");
        return;
    }
    if (check_before(call, query.before) < 0)
        return;
    query.max = (unsigned)max + 1; // one more tells whether there is a next page
    page_reply(call, "results", (unsigned)max, each_result, &query);
}

// -- one

// Counts an answer of this size, or has refused it.
static bool is_scarce(struct call *call, size_t len)
{
    if (call_hold(call, len))
        return false;
    call_scarce(call);
    return true;
}

// A long answer as the only event of a stream, as fast as its reader takes it.
struct sending {
    struct call *call;
    size_t at, len;
    char body[];
};

static void send_on(void *data)
{
    struct sending *s = data;
    struct call *call = call_ref(s->call);
    while (call->req != NULL && s->at < s->len && !stream_full(call)) {
        size_t len = s->len - s->at < PIECE ? s->len - s->at : PIECE;
        stream_long_data(call, s->body + s->at, len);
        s->at += len;
    }
    if (call->req != NULL && s->at == s->len) {
        stream_long_end(call);
        stream_end(call);
    }
    call_unref(call);
}

static void send_event(struct call *call, const char *id, const char *body, size_t len)
{
    struct sending *s = malloc(sizeof *s + len);
    if (s == NULL)
        abort();
    *s = (struct sending){.call = call, .len = len};
    (void)memcpy(s->body, body, len);
    free(call->state);
    call->state = s;
    stream_long_begin(call, id, "done");
    http_on_drain(call->req, send_on, s);
    send_on(s);
}

// An answer as it was given, with the status that it was given with.
static void reply_stored(struct call *call, const struct result_row *row)
{
    unsigned status = row->status >= 200 && row->status < 600 ? (unsigned)row->status : 200;
    const char *body = row->body != NULL ? row->body : "{}";
    size_t len = row->body != NULL ? row->body_len : 2;
    if (!call_accepts(call, "text/event-stream")) {
        execute_reply(call, status, body, len, 0);
        return;
    }
    // Its events are gone; the last one is the answer, and none comes after it.
    char id[EDGE_NAME_MAX + 8];
    (void)snprintf(id, sizeof id, "%s:0", row->id);
    stream_begin_sse(call);
    if (call->is_head)
        stream_end(call);
    else
        send_event(call, id, body, len);
}

static void follow(struct call *call, struct run *run)
{
    char id[RUN_ID_MAX];
    uint64_t n = 0;
    const char *last = http_header(call->req, "Last-Event-ID");
    if (last == NULL)
        execute_stream(call, run, 0);
    else if (execute_parse_id(last, id, &n) < 0 || strcmp(id, run_id(run)) != 0)
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "Last-Event-ID is not the id of an event of this result");
    else
        execute_stream(call, run, n + 1);
}

static void reply_ended(struct call *call, const struct run *run)
{
    unsigned status;
    const char *body;
    size_t len;
    int64_t retry_after_ms;
    run_answer(run, &status, &body, &len, &retry_after_ms);
    if (!is_scarce(call, len))
        execute_reply(call, status, body, len, retry_after_ms);
}

// Read only when there is room for it: reading takes its time, too.
static void read_and_reply(struct call *call, const char *id, size_t len)
{
    struct err err = {0};
    struct result_row row = {0};
    if (is_scarce(call, len))
        return;
    int r = db_result_get(call->api->db, call->tenant, id, &row, &err);
    if (r < 0)
        call_fail(call, &err);
    else if (r == 0)
        missing(call, id);
    else
        reply_stored(call, &row);
    result_row_done(&row);
}

static void reply_lost(struct call *call)
{
    call_error(call, ERROR_RESULT_LOST, NULL,
               "the server ended while this ran: its answer is lost, ask again");
}

void execute_stored(struct call *call, const char *id)
{
    struct err err = {0};
    struct result_row row = {0};
    int r = db_result_head(call->api->db, call->tenant, id, &row, &err);
    if (r < 0)
        call_fail(call, &err);
    else if (r > 0 && row.state == RESULT_DONE)
        read_and_reply(call, id, row.body_len);
    else if (call->idem.process != NULL)
        call_error(call, ERROR_OUTCOME_UNKNOWN, NULL,
                   "the first request with this Idempotency-Key was running when the server ended, "
                   "or its result was removed: use another key");
    else if (r > 0)
        reply_lost(call);
    else
        missing(call, id);
    result_row_done(&row);
}

// One that has ended and is still in memory knows more than its row; but when that was removed it
// is gone.
static void reply_row(struct call *call, struct run *run, const struct result_row *row)
{
    if (run != NULL && call_accepts(call, "text/event-stream"))
        follow(call, run);
    else if (run != NULL)
        reply_ended(call, run);
    else if (row->state == RESULT_DONE)
        read_and_reply(call, row->id, row->body_len);
    else
        reply_lost(call);
}

void handle_result_get(struct call *call)
{
    struct err err = {0};
    struct result_row row = {0};
    struct run *run = find_run(call);
    if (run != NULL && !run_has_ended(run)) {
        if (call_accepts(call, "text/event-stream"))
            follow(call, run);
        else
            reply_state(call, 202, "running");
        return;
    }
    int r = db_result_head(call->api->db, call->tenant, call->param[0], &row, &err);
    if (r < 0)
        call_fail(call, &err);
    else if (r == 0)
        missing(call, call->param[0]);
    else
        reply_row(call, run, &row);
    result_row_done(&row);
}

// Asked to end it does so in its own time; its answer says that it was cancelled.
void handle_result_delete(struct call *call)
{
    struct err err = {0};
    struct run *run = find_run(call);
    if (run != NULL && !run_has_ended(run)) {
        run_ref(run);
        run_cancel(run);
        run_unref(run);
        reply_state(call, 202, "cancelling");
        return;
    }
    int r = db_result_del(call->api->db, call->tenant, call->param[0], &err);
    if (r < 0)
        call_fail(call, &err);
    else if (r == 0)
        missing(call, call->param[0]);
    else
        reply_state(call, 200, "removed");
}
