// SPDX-License-Identifier: Apache-2.0
// A command as events: start, stdout and stderr as they come, then complete when it has really
// ended, and error when not. The command ends with its reader.
#include <string.h>

#include "api/container/exec.h"
#include "api/live.h"
#include "api/show.h"
#include "base/clock.h"

enum { ECHO_MAX = 256 * 1024 }; // of a command: escaped, it would not fit into a stream's queue

void container_event_error(struct call *call, const char *message)
{
    struct container_answer e;
    container_event_begin(&e, "error");
    show_str(&e.json, "error", message);
    show_str(&e.json, "data", message);
    container_event_send(call, &e);
}

// The server stops, or who asked may no longer: a reader that is still there hears that it is not
// over.
static void stop(struct call *call)
{
    if (call->req != NULL && call->streaming)
        container_event_error(call, "the server ended this stream, and the command with it");
    perform_cancel(call);
}

static void on_began(struct call *call)
{
    struct container_answer e;
    const struct command_body *b = call->body.values;
    call->stop = stop;
    container_event_begin(&e, "start");
    json_key(&e.json, "command");
    json_put_strn(&e.json, b->command, strnlen(b->command, ECHO_MAX));
    if (b->session != NULL)
        show_str(&e.json, "sessionId", b->session);
    container_event_send(call, &e);
}

static void send_output(struct call *call, const char *type, const char *bytes, size_t len)
{
    struct container_answer e;
    container_event_begin(&e, type);
    json_key(&e.json, "data");
    container_put_output(&e.json, bytes, len, container_is_base64(call->body.values));
    container_event_send(call, &e);
}

static void on_piece(struct call *call, enum log_stream stream, uint64_t offset, const char *bytes,
                     size_t len)
{
    (void)offset;
    send_output(call, stream == LOG_STDOUT ? "stdout" : "stderr", bytes, len);
}

static void send_complete(struct call *call, const struct exec_result *r)
{
    struct container_answer e;
    container_event_begin(&e, "complete");
    show_int(&e.json, "exitCode", show_exit_code(&r->end));
    show_ms(&e.json, "duration", (double)(r->duration_ns / NS_PER_US) / 1000.0);
    container_event_send(call, &e);
}

static const char *failure_of(const struct call *call, const struct perform_end *end)
{
    const struct command_body *b = call->body.values;
    if (end->result == NULL)
        return end->err->code != ERR_INTERNAL ? end->err->msg : "something went wrong inside Cay";
    if (container_box_is_gone(call, end->result))
        return "the sandbox's box ended while the command ran";
    if (b->session != NULL && end->result->end.reason == END_TIMEOUT)
        return "the command timed out and was ended; its session goes on";
    if (b->session != NULL && end->result->end.reason == END_KILLED)
        return "its session was deleted while the command ran";
    return NULL;
}

static void finish(struct call *call, const struct perform_end *end)
{
    static const char late[] = "Command timed out\n";
    const char *failure = failure_of(call, end);
    if (end->not_started != 0)
        send_output(call, "stderr", end->result->err->data, end->result->err->len);
    if (failure == NULL && end->result->end.reason == END_TIMEOUT)
        send_output(call, "stderr", late, sizeof late - 1);
    if (failure != NULL)
        container_event_error(call, failure);
    else
        send_complete(call, end->result);
    stream_end(call);
}

static void on_ended(struct call *call, const struct perform_end *end)
{
    if (call->streaming)
        finish(call, end);
    else if (end->result == NULL)
        call_fail(call, end->err);
    else
        container_fail(call, CONTAINER_STREAM_START_ERROR, NULL, "the command did not start");
}

void container_exec_stream(struct call *call)
{
    const struct command_body *b = call->body.values;
    if (container_command_check(call) < 0)
        return;
    live_begin(call, &(struct live_request){
                         .run = {.session = b->session, .makes_session = true, .ended = on_ended},
                         .began = on_began,
                         .piece = on_piece,
    });
}
