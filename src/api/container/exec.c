// SPDX-License-Identifier: Apache-2.0
// One command and its result, in a session's shell or, without one, in a program of its own. As
// theirs has it, a session's output comes without its last newline and without NULs, and a timeout
// in it is an error; but here it ends the command, and the session goes on.
#include "api/container/exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/container/gather.h"
#include "api/container/process.h"
#include "api/show.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

enum {
    ESCAPED_MAX = 6, // bytes of JSON for one of text
    CWD_MAX = 4095,
};
#define TIMEOUT_MAX_MS (INT64_C(366) * 86400 * 1000)

#define AT(member)      offsetof(struct container_command, member)
#define AT_BODY(member) AT(command.member)
static const struct field fields[] = {
    FIELD("command", FIELD_STRING, AT_BODY(command), .required = true, .max = EDGE_COMMAND_MAX),
    FIELD("sessionId", FIELD_STRING, AT_BODY(session), .max = EDGE_NAME_MAX),
    FIELD("timeoutMs", FIELD_MS, AT_BODY(timeout), .max = TIMEOUT_MAX_MS),
    FIELD("env", FIELD_ENV, AT_BODY(env), .max = EDGE_ENV_MAX),
    FIELD("cwd", FIELD_STRING, AT_BODY(cwd), .max = CWD_MAX),
    FIELD("processId", FIELD_STRING, AT_BODY(id), .max = EDGE_NAME_MAX),
    FIELD("encoding", FIELD_STRING, AT(encoding), .max = 32),
    FIELD("background", FIELD_BOOL, AT(background)),
    FIELD("autoCleanup", FIELD_BOOL, AT(auto_cleanup)),
};
const struct schema container_command_body =
    SCHEMA("ContainerCommand", struct container_command, fields, .lenient = true);

// -- what is asked

bool container_is_base64(const struct container_command *c)
{
    return c->encoding != NULL && strcasecmp(c->encoding, "base64") == 0;
}

static bool is_known_encoding(const char *name)
{
    return name == NULL || strcasecmp(name, "utf8") == 0 || strcasecmp(name, "utf-8") == 0 ||
           strcasecmp(name, "base64") == 0;
}

// Without a session there is nowhere else to begin.
static void make_absolute(struct call *call, struct command_body *b)
{
    char *path;
    if (b->session != NULL || b->cwd == NULL || b->cwd[0] == '/')
        return;
    if (asprintf(&path, "/workspace/%s", b->cwd) < 0)
        abort();
    body_keep(&call->body, path);
    b->cwd = path;
}

// One of a header is the request's, which may be gone before the command.
static void keep_session(struct call *call, struct command_body *b)
{
    const char *session = container_session(call, b->session);
    char *copy = session != NULL ? mem_copy_text(session) : NULL;
    if (copy != NULL)
        body_keep(&call->body, copy);
    b->session = copy;
}

int container_command_check(struct call *call)
{
    struct container_command *c = call->body.values;
    struct command_body *b = &c->command;
    keep_session(call, b);
    if (container_check_session(call, b->session) < 0)
        return -1;
    if (b->command[0] == '\0') {
        container_invalid(call, "command", "must not be empty");
        return -1;
    }
    if (b->id != NULL && !sandbox_id_valid(b->id)) {
        container_invalid(call, "processId",
                          "a process's id has 1 to %d letters, digits, '.', '_' and '-', with a "
                          "letter or digit at both ends",
                          EDGE_NAME_MAX);
        return -1;
    }
    if (!is_known_encoding(c->encoding)) {
        container_invalid(call, "encoding", "must be utf8 or base64");
        return -1;
    }
    make_absolute(call, b);
    return 0;
}

// Also one that falls asleep or is destroyed: what runs in it is ended before, in one way or
// another. Nobody but its sandbox ends a command that is no session's.
bool container_box_is_gone(const struct call *call, const struct exec_result *r)
{
    const struct command_body *b = call->body.values;
    return r->end.reason == END_BOX_LOST || (r->end.reason == END_KILLED && b->session == NULL) ||
           (!sandbox_is_up(call->sandbox) && show_exit_code(&r->end) != 0);
}

// -- how it is told

void container_put_output(struct json *j, const char *data, size_t len, bool base64)
{
    if (base64)
        json_put_base64(j, data, len);
    else
        json_put_strn(j, data, len);
}

static void reply_result(struct call *call, const struct exec_result *r)
{
    const struct command_body *b = call->body.values;
    struct container_answer *a = gather_finish(perform_own(call));
    struct json *j = &a->json;
    int code = show_exit_code(&r->end);
    show_bool(j, "success", code == 0);
    show_int(j, "exitCode", code);
    show_str(j, "command", b->command);
    show_ms(j, "duration", (double)(r->duration_ns / NS_PER_US) / 1000.0);
    if (b->session != NULL)
        show_str(j, "sessionId", b->session);
    container_end(call, a);
}

static int64_t timeout_of(const struct call *call, const struct exec_result *r)
{
    const struct command_body *b = call->body.values;
    return b->timeout.value > 0 ? b->timeout.value : r->duration_ns / NS_PER_MS; // the session's
}

static void set_context(struct call *call, const struct exec_result *r)
{
    auto_buf context;
    struct json j;
    const struct command_body *b = call->body.values;
    buf_init(&context, ESCAPED_MAX * EDGE_COMMAND_MAX + 4096);
    json_init(&j, &context);
    json_open_object(&j);
    show_str(&j, "sessionId", b->session);
    show_str(&j, "command", b->command);
    show_int(&j, "exitCode", show_exit_code(&r->end));
    json_close_object(&j);
    call_about(call, json_finish(&j) == 0 ? buf_str(&context) : "{}");
}

// By `exit`, or because something has killed it: what it remembered is gone.
static bool shell_has_ended(const struct perform_end *end)
{
    enum end_reason reason = end->result->end.reason;
    return end->terminated || reason == END_SIGNAL || reason == END_OOM;
}

static void reply_in_session(struct call *call, const struct perform_end *end)
{
    const struct command_body *b = call->body.values;
    const struct exec_result *r = end->result;
    if (end->terminated || r->end.reason != END_EXIT)
        set_context(call, r);
    if (shell_has_ended(end))
        container_fail(call, CONTAINER_SESSION_TERMINATED, NULL,
                       "the command ended the shell of session '%s' with exit code %d; the next "
                       "use starts a new one",
                       b->session, show_exit_code(&r->end));
    else if (r->end.reason == END_TIMEOUT)
        container_fail(call, CONTAINER_COMMAND_EXECUTION_ERROR, NULL,
                       "the command timed out after %lld ms and was ended; its session goes on",
                       (long long)timeout_of(call, r));
    else if (r->end.reason == END_KILLED)
        container_fail(call, CONTAINER_SESSION_DESTROYED, NULL,
                       "session '%s' was deleted while the command ran", b->session);
    else
        reply_result(call, r);
}

static void reply_without(struct call *call, const struct perform_end *end)
{
    char late[64];
    struct gather *g = perform_own(call);
    const struct exec_result *r = end->result;
    if (end->not_started != 0)
        gather_output(g, LOG_STDERR, r->err->data, r->err->len);
    if (r->end.reason == END_TIMEOUT) {
        int n = snprintf(late, sizeof late, "Command timed out after %lld ms\n",
                         (long long)timeout_of(call, r));
        gather_output(g, LOG_STDERR, late, (size_t)n);
    }
    reply_result(call, r);
}

static void on_ended(struct call *call, const struct perform_end *end)
{
    const struct command_body *b = call->body.values;
    if (end->result == NULL && b->session != NULL && end->err->code == ERR_NOT_FOUND)
        container_fail(call, CONTAINER_SESSION_DESTROYED, NULL,
                       "session '%s' was deleted before the command ran", b->session);
    else if (end->result == NULL)
        call_fail(call, end->err);
    else if (container_box_is_gone(call, end->result))
        container_interrupted(call, "command.execute", true,
                              "the sandbox's box ended while the command ran; what it has done by "
                              "then may be there");
    else if (b->session != NULL)
        reply_in_session(call, end);
    else
        reply_without(call, end);
    gather_drop(perform_own(call));
}

static void on_output(void *data, enum log_stream stream, const char *bytes, size_t len)
{
    gather_output(perform_own(data), stream, bytes, len);
}

static void stop(struct call *call)
{
    perform_cancel(call);
    gather_drop(perform_own(call));
}

static void on_began(struct call *call)
{
    call->stop = stop;
}

// -- the routes

static void handle_execute(struct call *call)
{
    const struct container_command *c = call->body.values;
    if (c->background.value) {
        container_process_start(call);
        return;
    }
    if (container_command_check(call) < 0)
        return;
    perform_prepare(call, &(struct perform_request){.session = c->command.session,
                                                    .makes_session = true,
                                                    .output = on_output,
                                                    .patient = true,
                                                    .began = on_began,
                                                    .ended = on_ended,
                                                    .own = sizeof(struct gather)});
    struct gather *g = perform_own(call);
    g->call = call;
    g->trims = c->command.session != NULL;
    g->base64 = container_is_base64(c);
    perform_begin(call);
}

const struct route container_exec[] = {
    CONTAINER_ROUTE(HTTP_POST, "/api/execute", SUBJECT_COMMAND, handle_execute,
                    &container_command_body),
    CONTAINER_ROUTE(HTTP_POST, "/api/execute/stream", SUBJECT_COMMAND, container_exec_stream,
                    &container_command_body),
    CONTAINER_ROUTE(HTTP_GET, "/api/commands", SUBJECT_COMMAND, container_commands),
};
const size_t n_container_exec = sizeof container_exec / sizeof *container_exec;
