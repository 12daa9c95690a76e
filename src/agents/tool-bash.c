// SPDX-License-Identifier: Apache-2.0
// A command line, run as the API's own exec is. Its answer is what a person at a terminal would
// see: what it printed, and how it ended where that was not well.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agents/tool.h"
#include "sandbox/exec.h"

enum { TIMEOUT_MS = 120 * 1000, TIMEOUT_MAX_MS = 600 * 1000, COMMAND_MAX = 128 * 1024 };

struct bash {
    struct exec *exec;
    char *command;
    int64_t timeout_ms;
    bool plain_shell, ended;
};

static void cancel(struct tool_call *call)
{
    struct bash *b = call->state;
    struct exec *exec = b->exec;
    b->exec = NULL;
    if (exec == NULL)
        return;
    exec_cancel(exec);
    tool_unref(call); // what the callback would have given back
}

// --- its answer

static void add_stream(struct buf *to, const struct buf *from)
{
    size_t len = from->len;
    while (len > 0 && from->data[len - 1] == '\n')
        len--;
    if (len == 0)
        return;
    if (to->len > 0)
        (void)buf_append_char(to, '\n');
    (void)buf_append(to, from->data, len);
}

// Why it ended, where it did not end well.
static void add_end(struct buf *to, const struct exec_result *r, int64_t timeout_ms)
{
    switch (r->end.reason) {
    case END_EXIT:
        if (r->end.exit_code != 0)
            (void)buf_printf(to, "Exit code %d", r->end.exit_code);
        break;
    case END_TIMEOUT:
        (void)buf_printf(to, "The command was killed: it ran longer than %" PRId64 " ms",
                         timeout_ms);
        break;
    case END_OOM:
        (void)buf_append_str(to, "The command was killed: the sandbox's memory is used up");
        break;
    case END_SIGNAL:
        (void)buf_printf(to, "The command was ended by signal %d", r->end.signal);
        break;
    case END_BOX_LOST:
        (void)buf_append_str(to, "The sandbox ended while the command ran");
        break;
    case END_NONE:
    case END_KILLED:
    case END_REASON_MAX:
        (void)buf_append_str(to, "The command was killed");
        break;
    }
}

static void answer(struct tool_call *call, const struct exec_result *r)
{
    const struct bash *b = call->state;
    add_end(&call->output, r, b->timeout_ms);
    bool is_error = call->output.len > 0;
    add_stream(&call->output, r->out);
    add_stream(&call->output, r->err);
    if (call->output.len == 0)
        (void)buf_append_str(&call->output, "(it printed nothing)");
    tool_done(call, is_error);
}

// --- running it

static void start(struct tool_call *call);

static void on_exec(void *data, struct exec_result *result, const struct err *err)
{
    struct tool_call *call = data;
    struct bash *b = call->state;
    b->exec = NULL;
    b->ended = true;
    if (result != NULL) {
        answer(call, result);
    } else if (err->sys_errno == ENOENT && !b->plain_shell) {
        b->plain_shell = true;
        start(call);
    } else {
        tool_fail(call, "the command could not be run: %s", err->msg);
    }
    tool_unref(call);
}

static void start(struct tool_call *call)
{
    struct err err = {0};
    struct bash *b = call->state;
    const char *const argv[] = {b->plain_shell ? "/bin/sh" : "bash", "-c", b->command, NULL};
    char **env = exec_env(call->sandbox, NULL, /* uid */ 0, &err);
    b->ended = false;
    if (env == NULL) {
        tool_fail(call, "the command could not be run: %s", err.msg);
        return;
    }
    const struct exec_request request = {
        .argv = argv,
        .envp = (const char *const *)env,
        .cwd = "/workspace",
        .timeout_ms = b->timeout_ms,
    };
    call->cancel = cancel;
    struct exec *exec = exec_start(call->sandbox, &request, on_exec, tool_ref(call), &err);
    exec_env_free(env);
    if (exec == NULL) {
        tool_fail(call, "the command could not be run: %s", err.msg);
        tool_unref(call);
    } else if (!b->ended) {
        b->exec = exec;
    }
}

void tool_bash(struct tool_call *call)
{
    const char *command;
    int64_t timeout_ms;
    if (tool_text(call, "command", /* required */ true, &command, NULL) < 0 ||
        tool_int(call, "timeout", TIMEOUT_MS, 1, TIMEOUT_MAX_MS, &timeout_ms) < 0)
        return;
    size_t len = strlen(command);
    if (len == 0 || len > COMMAND_MAX) {
        tool_fail(call, "command: must have 1 to %d bytes", COMMAND_MAX);
        return;
    }
    struct bash *b = calloc(1, sizeof *b + len + 1);
    if (b == NULL)
        abort();
    *b = (struct bash){.command = (char *)(b + 1), .timeout_ms = timeout_ms};
    memcpy(b->command, command, len);
    call->state = b;
    start(call);
}
