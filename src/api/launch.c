// SPDX-License-Identifier: Apache-2.0
#include "api/launch.h"

#include <stdlib.h>

struct launching { // call->state
    bool keep_stdin, keep_awake, plain_shell;
    launch_fn fn;
};

static void start(struct call *call);

static void on_started(void *data, struct process *p, const struct err *err)
{
    struct call *call = data;
    struct launching *l = call->state;
    if (p == NULL && !l->plain_shell && command_wants_plain_shell(call->body.values, err)) {
        l->plain_shell = true;
        start(call);
    } else {
        l->fn(call, p, err);
    }
    call_unref(call);
}

static void start(struct call *call)
{
    struct err err = {0};
    struct command command;
    struct json j;
    auto_buf text;
    const struct launching *l = call->state;
    const struct command_body *b = call->body.values;
    buf_init(&text, 8 * EDGE_BODY_MAX);
    json_init(&j, &text);
    command_show(&j, b);
    if (command_init(&command, b, call->sandbox, l->plain_shell, &err) < 0) {
        call_fail(call, &err);
        return;
    }
    struct process_request request = {
        .id = b->id,
        .command = buf_str(&text),
        .note = b->note,
        .exec = command.request,
        .keep_stdin = l->keep_stdin,
        .keep_awake = l->keep_awake,
    };
    process_start(call->sandbox, &request, on_started, call_ref(call));
    command_done(&command);
}

static void on_awake(void *data, struct sandbox *s, bool created, const struct err *err)
{
    (void)s;
    (void)created;
    call_go_on(data, err, start);
}

void launch(struct call *call, bool keep_stdin, bool keep_awake, launch_fn fn)
{
    struct launching *l = calloc(1, sizeof *l);
    if (l == NULL)
        abort();
    *l = (struct launching){.keep_stdin = keep_stdin, .keep_awake = keep_awake, .fn = fn};
    call->state = l;
    sandbox_wake(call->sandbox, on_awake, call_ref(call));
}

struct exec_result launch_failed(const struct err *err, int code, struct buf *ret_none,
                                 struct buf *ret_message)
{
    buf_init(ret_none, 1);
    buf_init(ret_message, sizeof err->msg + 16);
    (void)buf_printf(ret_message, "cay: %s\n", err->msg);
    return (struct exec_result){
        .end = {.reason = END_EXIT, .exit_code = code},
          .out = ret_none, .err = ret_message
    };
}
