// SPDX-License-Identifier: Apache-2.0
// A call goes through attempts. Each is a fetch whose bytes become a message (stream.h,
// message.h) or a fault (fault.h), after which it is asked again or told to whoever called.
#include "model/model.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "model/fault.h"
#include "model/fetch.h"
#include "model/message.h"
#include "model/model-internal.h"
#include "model/stream.h"

enum {
    TIMEOUT_MS = 600 * 1000,
    STALL_MS = 120 * 1000,
    TAIL_MS = 100,
    RETRIES = 2,
    ERROR_BODY_MAX = 64 * 1024,
    // What arrives of all answers together; beyond it those that are large are given up.
    HELD_MAX = 256 * 1024 * 1024,
    HELD_SMALL = 1024 * 1024,
};

struct model {
    uv_loop_t *loop;
    struct web *web;
    int64_t stall_ms;
    struct model_call *calls;
    size_t held; // bytes of answers
};

enum call_state {
    CALL_BROKEN,  // cannot be begun, which is told from the loop
    CALL_ASKING,  // a fetch is under way
    CALL_WAITING, // for `at_ns`, to ask again
    CALL_TAIL,    // the message is whole; for the end of the fetch, so that its connection can
                  // be used again, but not for long
    CALL_OVER,    // told or cancelled; its memory goes when the loop has closed its timer
};

struct model_call {
    struct model *model;
    struct model_call *next, **at;
    enum call_state state;
    struct model_access access;
    char *url, *body, *beta;
    size_t body_len;
    bool is_stream;
    model_event_fn event;
    model_done_fn done;
    void *data;
    uv_timer_t timer;
    int64_t begun_ns, deadline_ns, at_ns, first_ns, total_ns;
    int64_t timeout_ms;
    unsigned attempts, retries;
    struct fetch *fetch;
    struct fetch_head head; // of the last fetch
    struct stream *stream;  // of this attempt; NULL: the answer is not streamed
    struct buf plain;
    size_t held;              // bytes of both, in model->held
    struct model_usage spent; // by attempts that broke
};

static void on_timer(uv_timer_t *timer);
static void begin(struct model_call *call);

// --- the end of a call

static void on_closed(uv_handle_t *handle)
{
    struct model_call *call = handle->data;
    model_access_done(&call->access);
    stream_free(call->stream);
    buf_done(&call->plain);
    free(call->url);
    free(call->body);
    free(call->beta);
    free(call);
}

static void drop_fetch(struct model_call *call)
{
    if (call->fetch != NULL)
        call->head = *fetch_head(call->fetch);
    fetch_free(call->fetch);
    call->fetch = NULL;
}

static void count_held(struct model_call *call)
{
    size_t now = call->plain.cap + (call->stream != NULL ? stream_size(call->stream) : 0);
    call->model->held += now - call->held;
    call->held = now;
}

// Nothing of it happens any more; what its callbacks up the stack still look at stays for now.
static void retire(struct model_call *call)
{
    drop_fetch(call);
    call->state = CALL_OVER;
    call->model->held -= call->held;
    *call->at = call->next;
    if (call->next != NULL)
        call->next->at = call->at;
    uv_close((uv_handle_t *)&call->timer, on_closed);
}

static void tell(struct model_call *call, const struct message *message, struct fault *fault)
{
    char id[sizeof call->head.request_id];
    int64_t now = clock_ns();
    retire(call);
    fault_hide(fault->message, call->access.header);
    fault_hide(fault->type, call->access.header);
    memcpy(id, call->head.request_id, sizeof id);
    fault_hide(id, call->access.header);
    struct model_result result = {
        .end = fault->end,
        .status = call->head.status,
        .error_type = fault->type,
        .message = fault->message,
        .retry_after_ms = fault->retry_after_ms > 0 ? fault->retry_after_ms : 0,
        .request_id = id,
        .attempts = call->attempts,
        .first_ns = call->first_ns,
        .total_ns = call->total_ns > 0 ? call->total_ns : now - call->begun_ns,
        .id = message->id,
        .model = message->model,
        .content = message->content,
        .content_len = message->content_len,
        .stop_reason = message->stop_reason,
        .stop_details = message->stop_details,
        .usage = message->usage,
        .usage_json = message->usage_json,
    };
    model_usage_add(&result.usage, &call->spent);
    call->done(call->data, &result);
}

static void finish_failed(struct model_call *call, struct fault *fault)
{
    struct message message = {0};
    static char none[] = "", empty[] = "[]", null[] = "null", nothing[] = "{}";
    const struct message blank = {none, none, empty, 2, none, null, nothing, {0}};
    if (call->stream != NULL)
        (void)stream_message(call->stream, &message);
    tell(call, call->stream != NULL ? &message : &blank, fault);
    message_done(&message);
}

static void finish_done(struct model_call *call, struct message *message)
{
    struct fault none;
    fault_set(&none, MODEL_DONE, "%s", "");
    tell(call, message, &none);
    message_done(message);
}

static void finish_stream(struct model_call *call)
{
    struct message message = {0};
    if (stream_message(call->stream, &message) == 0) {
        finish_done(call, &message);
        return;
    }
    struct fault fault;
    message_done(&message);
    fault_set(&fault, MODEL_FAILED, "there is no memory for the message");
    finish_failed(call, &fault);
}

// --- time

static void arm(struct model_call *call)
{
    int64_t at = call->deadline_ns, now = clock_ns();
    if (call->state != CALL_ASKING && call->at_ns < at)
        at = call->at_ns;
    else if (call->state == CALL_ASKING && call->is_stream &&
             now + call->model->stall_ms * NS_PER_MS < at)
        at = now + call->model->stall_ms * NS_PER_MS;
    // Rounded up: a timer that comes too early would come twice.
    int64_t ms = at > now ? (at - now + NS_PER_MS - 1) / NS_PER_MS : 0;
    (void)uv_timer_start(&call->timer, on_timer, (uint64_t)ms, 0);
}

// --- attempts

static void tell_again(struct model_call *call, int64_t delay_ms)
{
    const struct model_event event = {
        .type = MODEL_AGAIN,
        .text = "",
        .attempt = call->attempts + 1,
        .status = call->head.status,
        .delay_ms = delay_ms,
    };
    if (call->event != NULL)
        call->event(call->data, &event);
}

// An attempt that broke was paid for, too.
static void put_by(struct model_call *call)
{
    struct model_usage used;
    model_used(call, &used);
    call->spent = used;
    stream_free(call->stream);
    call->stream = NULL;
    count_held(call);
}

static void fail(struct model_call *call, struct fault *fault)
{
    drop_fetch(call);
    int64_t wait = fault_wait_ms(fault, call->attempts > 0 ? call->attempts - 1 : 0);
    int64_t now = clock_ns();
    bool in_time = wait < (call->deadline_ns - now) / NS_PER_MS;
    if (!fault->may_ask_again || call->attempts > call->retries || !in_time) {
        finish_failed(call, fault);
        return;
    }
    put_by(call);
    call->state = CALL_WAITING;
    call->at_ns = now + wait * NS_PER_MS;
    arm(call);
    tell_again(call, wait);
}

static bool on_stream_event(void *data, const struct model_event *event)
{
    struct model_call *call = data;
    if (call->event != NULL)
        call->event(call->data, event);
    return call->state != CALL_OVER;
}

static void on_stream_bytes(struct model_call *call, const char *bytes, size_t len)
{
    struct fault fault;
    if (call->stream == NULL)
        call->stream = stream_new(on_stream_event, call);
    switch (stream_feed(call->stream, bytes, len)) {
    case STREAM_OPEN:
    case STREAM_HALTED:
        return;
    case STREAM_WHOLE:
        if (call->state != CALL_ASKING)
            return;
        call->state = CALL_TAIL;
        call->total_ns = clock_ns() - call->begun_ns;
        call->at_ns = clock_ns() + TAIL_MS * NS_PER_MS;
        arm(call);
        return;
    case STREAM_ERROR:
    case STREAM_BROKEN:
    case STREAM_LARGE:
        fault_of_stream(&fault, call->stream);
        fail(call, &fault);
        return;
    }
}

static bool is_good(unsigned status)
{
    return status >= 200 && status < 300;
}

static void on_plain_bytes(struct model_call *call, const char *bytes, size_t len)
{
    const struct fetch_head *head = fetch_head(call->fetch);
    struct fault fault;
    call->plain.max = is_good(head->status) ? MESSAGE_MAX : ERROR_BODY_MAX;
    if (buf_append(&call->plain, bytes, len) == 0)
        return;
    if (is_good(head->status))
        fault_set(&fault, MODEL_FAILED, "the message is longer than 32 MiB");
    else // enough to see what it is
        fault_of_status(&fault, head, buf_str(&call->plain), call->plain.len);
    fail(call, &fault);
}

static void on_bytes(void *data, const char *bytes, size_t len)
{
    struct model_call *call = data;
    const struct fetch_head *head = fetch_head(call->fetch);
    struct model *model = call->model;
    struct fault fault;
    if (call->first_ns == 0)
        call->first_ns = clock_ns() - call->begun_ns;
    if (is_good(head->status) && head->is_event_stream)
        on_stream_bytes(call, bytes, len);
    else
        on_plain_bytes(call, bytes, len);
    if (call->state != CALL_ASKING) // its memory is still there
        return;
    count_held(call);
    if (model->held <= HELD_MAX || call->held <= HELD_SMALL)
        return;
    fault_set(&fault, MODEL_FAILED, "too many large answers arrive at once");
    fail(call, &fault);
}

static void on_plain_end(struct model_call *call)
{
    struct message message = {0};
    struct fault fault;
    struct err err = {0};
    if (message_read(buf_str(&call->plain), call->plain.len, &message, &err) == 0) {
        finish_done(call, &message);
        return;
    }
    fault_set(&fault, MODEL_FAILED, "the API's answer is none: %s", err.msg);
    fail(call, &fault);
}

static void on_end(void *data, const struct fetch_end *end)
{
    struct model_call *call = data;
    struct fault fault;
    if (call->state == CALL_TAIL) {
        finish_stream(call);
        return;
    }
    const struct fetch_head *head = fetch_head(call->fetch);
    if (end->is_stale) { // as often as there are such connections, and no more
        drop_fetch(call);
        call->attempts--;
        begin(call);
        return;
    }
    if (head->status != 0 && !is_good(head->status)) {
        fault_of_status(&fault, head, buf_str(&call->plain), call->plain.len);
    } else if (!end->is_whole) {
        fault_of_network(&fault, end, head->status != 0);
    } else if (call->stream != NULL) {
        fault_of_stream(&fault, call->stream);
    } else {
        on_plain_end(call);
        return;
    }
    fail(call, &fault);
}

// Tokens of this kind are taken only with a word of the API's about them.
static bool is_oauth(const struct model_call *call)
{
    return strstr(call->access.header, " sk-ant-oat") != NULL;
}

static void begin(struct model_call *call)
{
    static const struct fetch_ops ops = {on_bytes, on_end};
    static const char oauth[] = "oauth-2025-04-20";
    auto_free char *beta = NULL;
    bool has_beta = call->beta != NULL && *call->beta != '\0';
    if (asprintf(&beta, "anthropic-beta: %s%s%s", has_beta ? call->beta : "",
                 has_beta && is_oauth(call) ? "," : "", is_oauth(call) ? oauth : "") < 0)
        abort();
    const char *const headers[] = {
        "content-type: application/json",
        "anthropic-version: 2023-06-01",
        call->access.header,
        has_beta || is_oauth(call) ? beta : NULL,
        NULL,
    };
    const struct fetch_request request = {
        .url = call->url,
        .headers = headers,
        .body = call->body,
        .body_len = call->body_len,
        .guarded = call->access.guarded,
    };
    stream_free(call->stream);
    call->stream = NULL;
    buf_done(&call->plain);
    count_held(call);
    call->first_ns = 0;
    call->attempts++;
    call->state = CALL_ASKING;
    call->fetch = fetch_start(call->model->web, &request, &ops, call);
    arm(call);
}

static void on_stalled(struct model_call *call)
{
    struct fault fault;
    const struct fetch_head *head = fetch_head(call->fetch);
    int64_t silent_ms = (clock_ns() - head->heard_ns) / NS_PER_MS;
    if (head->heard_ns == 0 || silent_ms < call->model->stall_ms) {
        arm(call);
        return;
    }
    fault_set(&fault, MODEL_NETWORK, "the API's answer stopped: nothing came for %lld s",
              (long long)silent_ms / 1000);
    fault.may_ask_again = true;
    fail(call, &fault);
}

static void on_timeout(struct model_call *call)
{
    struct fault fault;
    fault_set(&fault, MODEL_TIMEOUT, "the API did not answer within %lld.%03lld s",
              (long long)(call->timeout_ms / 1000), (long long)(call->timeout_ms % 1000));
    finish_failed(call, &fault);
}

static void on_timer(uv_timer_t *timer)
{
    struct model_call *call = timer->data;
    struct fault fault;
    int64_t now = clock_ns();
    switch (call->state) {
    case CALL_BROKEN:
        fault_set(&fault, MODEL_INVALID, "the address of the API or its credential cannot be used");
        finish_failed(call, &fault);
        break;
    case CALL_ASKING:
        if (now >= call->deadline_ns)
            on_timeout(call);
        else
            on_stalled(call);
        break;
    case CALL_WAITING:
        if (now >= call->at_ns)
            begin(call);
        else
            arm(call);
        break;
    case CALL_TAIL:
        finish_stream(call);
        break;
    case CALL_OVER:
        break;
    }
}

// --- beginning

static void copy_request(struct model_call *call, const struct model_request *request)
{
    (void)model_access_copy(request->access, &call->access);
    call->url = access_url(request->access);
    call->body = malloc(request->body_len + 1);
    if (call->body == NULL)
        abort();
    memcpy(call->body, request->body, request->body_len);
    call->body[request->body_len] = '\0';
    call->body_len = request->body_len;
    call->beta = mem_copy_text(request->beta);
    call->is_stream = request->stream;
    call->timeout_ms = request->timeout_ms > 0 ? request->timeout_ms : TIMEOUT_MS;
    call->retries = request->retries < 0 ? RETRIES : (unsigned)request->retries;
}

struct model_call *model_ask(struct model *model, const struct model_request *request,
                             model_event_fn event, model_done_fn done, void *data)
{
    struct model_call *call = calloc(1, sizeof *call);
    if (call == NULL)
        abort();
    call->model = model;
    call->event = event;
    call->done = done;
    call->data = data;
    copy_request(call, request);
    buf_init(&call->plain, MESSAGE_MAX);
    call->begun_ns = clock_ns();
    call->deadline_ns = call->begun_ns + call->timeout_ms * NS_PER_MS;
    (void)uv_timer_init(model->loop, &call->timer);
    call->timer.data = call;
    call->at = &model->calls;
    call->next = model->calls;
    if (call->next != NULL)
        call->next->at = &call->next;
    model->calls = call;
    if (access_can_be_asked(&call->access, call->beta)) {
        begin(call);
    } else {
        call->state = CALL_BROKEN;
        call->at_ns = call->begun_ns;
        arm(call);
    }
    return call;
}

void model_used(const struct model_call *call, struct model_usage *ret)
{
    struct model_usage now = {0};
    if (call->stream != NULL)
        stream_usage(call->stream, &now);
    *ret = call->spent;
    model_usage_add(ret, &now);
}

void model_cancel(struct model_call *call)
{
    assert(call->state != CALL_OVER);
    retire(call);
}

// --- the whole

int model_open(const struct model_config *config, struct model **ret, struct err *err)
{
    const struct web_config web = {
        .loop = config->loop,
        .ca_file = config->ca_file,
        .may_connect = config->may_connect,
        .data = config->data,
    };
    struct model *model = calloc(1, sizeof *model);
    if (model == NULL)
        abort();
    model->loop = config->loop;
    model->stall_ms = STALL_MS;
    if (web_open(&web, &model->web, err) < 0) {
        free(model);
        return -1;
    }
    *ret = model;
    return 0;
}

void model_close(struct model *model)
{
    struct fault fault;
    if (model == NULL)
        return;
    while (model->calls != NULL) {
        fault_set(&fault, MODEL_CANCELLED, "the server is stopping");
        finish_failed(model->calls, &fault);
    }
    web_close(model->web);
    free(model);
}

struct web *model_web(struct model *model)
{
    return model->web;
}

void model_set_patience(struct model *model, int64_t ms)
{
    model->stall_ms = ms;
}
