// SPDX-License-Identifier: Apache-2.0
// A program and its arguments, as a stream of events: "stdout" and "stderr" with base64 as their
// data, as they come; then "exit" when it has really ended, and "error" when that is not known. In
// a program of its own, or, with a Session-Id, in that session's shell, so that `cd` and `export`
// stay. It ends with its reader.
#include <string.h>

#include "api/bridge/bridge.h"
#include "api/live.h"
#include "api/show.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "edge/sse.h"

enum { EVENT_MAX = 256 * 1024 }; // of base64, and of an error's words
#define TIMEOUT_MAX (INT64_C(366) * 86400 * 1000)

#define AT(member) offsetof(struct command_body, member)
static const struct field exec_fields[] = {
    FIELD("argv", FIELD_STRINGS, AT(argv), .required = true, .min = 1, .max = EDGE_ARGS_MAX,
          .help = "A program and its arguments"),
    FIELD("timeout_ms", FIELD_MS, AT(timeout), .max = TIMEOUT_MAX,
          .help = "Milliseconds; then all of it is killed. 0, or none: it may take any time"),
    FIELD("cwd", FIELD_STRING, AT(cwd), .max = FILE_PATH_MAX,
          .help = "In /workspace; that itself, or where the session is, if not given"),
};
static const struct schema exec_body =
    SCHEMA("BridgeExec", struct command_body, exec_fields, .lenient = true);

// -- what is to be run

// What only a shell knows. Theirs gives every command to one.
static bool is_builtin(const char *name)
{
    static const char *const builtins[] = {
        ".",       ":",        "alias",  "builtin", "cd",    "command", "declare", "dirs", "eval",
        "exec",    "exit",     "export", "getopts", "hash",  "help",    "let",     "popd", "pushd",
        "read",    "readonly", "set",    "shift",   "shopt", "source",  "times",   "trap", "type",
        "typeset", "ulimit",   "umask",  "unalias", "unset", "wait",
    };
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++) {
        if (strcmp(builtins[i], name) == 0)
            return true;
    }
    return false;
}

// The arguments as a shell's command line, in which each is one word and means nothing else.
static int write_line(struct call *call, const struct body_strings *argv)
{
    struct command_body *b = call->body.values;
    auto_buf line;
    buf_init(&line, EDGE_COMMAND_MAX);
    for (size_t i = 0; i < argv->n; i++) {
        if (i > 0)
            (void)buf_append_char(&line, ' ');
        shell_quote(&line, argv->items[i]);
    }
    if (line.failed != 0) {
        call_error(call, ERROR_PAYLOAD_TOO_LARGE, NULL, "argv: more than %d bytes",
                   EDGE_COMMAND_MAX);
        return -1;
    }
    char *text = mem_copy_text(buf_str(&line));
    body_keep(&call->body, text);
    b->command = text;
    b->argv = (struct body_strings){0};
    return 0;
}

static int read_cwd(struct call *call, struct command_body *b)
{
    char path[FILE_PATH_MAX + 1];
    if (b->cwd == NULL)
        return 0;
    if (bridge_path(b->cwd, path) < 0) {
        bridge_fail(call, 403, "invalid_request", "cwd: '%.200s' is not in /workspace", b->cwd);
        return -1;
    }
    char *copy = mem_copy_text(path);
    body_keep(&call->body, copy);
    b->cwd = copy;
    return 0;
}

static int check(struct call *call)
{
    struct command_body *b = call->body.values;
    const char *session;
    if (bridge_session(call, &session) < 0 || read_cwd(call, b) < 0)
        return -1;
    if (b->argv.n == 0) {
        call_error(call, ERROR_INVALID_REQUEST, NULL, "argv: must not be empty");
        return -1;
    }
    if (session == NULL && b->argv.items[0][0] == '\0') {
        call_error(call, ERROR_INVALID_REQUEST, NULL, "argv: the program's name is empty");
        return -1;
    }
    const struct body_strings argv = b->argv;
    return session != NULL || is_builtin(argv.items[0]) ? write_line(call, &argv) : 0;
}

// -- events

static void send_event(struct call *call, const char *event, const struct buf *data)
{
    if (call->req == NULL || data->failed != 0)
        return;
    call->written_ns = clock_ns();
    sse_send(call->req, NULL, event, data->data, data->len);
}

static void send_output(struct call *call, enum log_stream stream, const char *bytes, size_t len)
{
    auto_buf data;
    buf_init(&data, EVENT_MAX);
    (void)base64_append(&data, bytes, len);
    send_event(call, stream == LOG_STDOUT ? "stdout" : "stderr", &data);
}

static void send_note(struct call *call, const char *text)
{
    send_output(call, LOG_STDERR, text, strlen(text));
}

static void send_exit(struct call *call, int code)
{
    auto_buf data;
    buf_init(&data, 64);
    (void)buf_printf(&data, "{\"exit_code\":%d}", code);
    send_event(call, "exit", &data);
}

static void send_error(struct call *call, const char *code, const char *message)
{
    auto_buf data;
    struct json j;
    buf_init(&data, EVENT_MAX);
    json_init(&j, &data);
    json_open_object(&j);
    show_str(&j, "error", message);
    show_str(&j, "code", code);
    json_close_object(&j);
    send_event(call, "error", &data);
}

// -- its end

// Why it is not known how it ended, or not by itself. NULL: it is.
static const char *failure_of(const struct perform_end *end, bool in_session, const char **ret_code)
{
    *ret_code = "exec_transport_error";
    if (end->result == NULL)
        return end->err->code != ERR_INTERNAL ? end->err->msg : "something went wrong inside Cay";
    if (end->result->end.reason == END_BOX_LOST)
        return "the sandbox's box ended while the command ran; the next one gets a new box";
    *ret_code = "exec_error";
    if (end->terminated)
        return "the command ended the shell of its session; the next one gets a new shell";
    if (end->result->end.reason == END_KILLED)
        return in_session ? "its session was deleted while the command ran"
                          : "the command was killed";
    if (in_session && end->result->end.reason == END_TIMEOUT)
        return "the command timed out and was ended; its session goes on";
    return NULL;
}

static void finish(struct call *call, const struct perform_end *end)
{
    const struct command_body *b = call->body.values;
    const char *code, *failure = failure_of(end, b->session != NULL, &code);
    if (failure != NULL) {
        send_error(call, code, failure);
        stream_end(call);
        return;
    }
    if (end->not_started != 0)
        send_output(call, LOG_STDERR, end->result->err->data, end->result->err->len);
    if (end->result->end.reason == END_TIMEOUT)
        send_note(call, "cay: the command timed out and was killed\n");
    if (end->result->end.reason == END_OOM)
        send_note(call, "cay: the sandbox's memory was used up, and the command was killed\n");
    send_exit(call, show_exit_code(&end->result->end));
    stream_end(call);
}

static void on_ended(struct call *call, const struct perform_end *end)
{
    call->is_at_work = sandbox_is_up(call->sandbox); // else it could not be woken
    if (call->streaming)
        finish(call, end);
    else if (end->result == NULL)
        call_fail(call, end->err);
    else
        call_error(call, ERROR_UNAVAILABLE, NULL, "the command did not start");
}

// The server stops, or who asked may no longer: a reader that is still there hears that it is not
// over.
static void stop(struct call *call)
{
    if (call->req != NULL && call->streaming)
        send_error(call, "exec_transport_error",
                   "the server ended this stream, and the command with it");
    perform_cancel(call);
}

static void on_began(struct call *call)
{
    call->stop = stop;
}

static void on_piece(struct call *call, enum log_stream stream, uint64_t offset, const char *bytes,
                     size_t len)
{
    (void)offset;
    send_output(call, stream, bytes, len);
}

static void handle_exec(struct call *call)
{
    struct command_body *b = call->body.values;
    if (bridge_session(call, &b->session) < 0)
        return;
    if (b->session != NULL) { // the request may be gone before the command
        char *copy = mem_copy_text(b->session);
        body_keep(&call->body, copy);
        b->session = copy;
    }
    live_begin(call, &(struct live_request){
                         .run = {.session = b->session, .makes_session = true, .ended = on_ended},
                         .began = on_began,
                         .piece = on_piece,
    });
}

const struct route bridge_exec[] = {
    BRIDGE_ROUTE(HTTP_POST, "/sandbox/{id}/exec", 200, handle_exec, .flags = ROUTE_SANDBOX,
                 .body = &exec_body, .name = "execCommand",
                 .summary = "Run a program; its output comes as it writes it",
                 .answer = "Events: `stdout` and `stderr` with base64, then `exit` {\"exit_code\"} "
                           "or `error` {\"error\", \"code\"}. One that ends without these is not "
                           "whole",
                 .type = "text/event-stream", .headers = bridge_session_header, .check = check),
};
const size_t n_bridge_exec = sizeof bridge_exec / sizeof *bridge_exec;
