// SPDX-License-Identifier: Apache-2.0
// A command that is followed: the server makes it a process with a log, and we read that to its
// end, over several connections if one breaks. Interrupting us interrupts the command; doing it
// twice ends it.
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/exec.h"
#include "cli/follow.h"
#include "cli/output.h"
#include "cli/signals.h"

enum {
    INPUT_PIECE = 256 * 1024,
    INPUT_PAUSE_MS = 20,
};

struct run {
    struct remote *remote;
    const struct exec_options *options;
    struct follow follow;
    struct output output;
    int signal;    // the first that came
    int exit_code; // where a second one has ended us
};

// -- signals

// Asks for something about the process; what comes of it is seen in the stream.
static void ask(const struct run *run, const char *method, const char *action, const char *json)
{
    if (run->output.process[0] == '\0')
        return;
    struct err ignored;
    struct remote remote = *run->remote; // its last error stays what it is
    auto_answer answer;
    auto_buf target, body;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    buf_init(&body, 64);
    (void)buf_append_str(&body, json != NULL ? json : "");
    remote_target(&target, "sandbox", run->options->id, "processes", run->output.process, action);
    (void)remote_do(&remote, method, &target, json != NULL ? &body : NULL, &answer, &ignored);
}

static void pass_on(struct run *run, int number)
{
    char json[32];
    (void)snprintf(json, sizeof json, "{\"signal\":%d}", number);
    ask(run, "POST", "signal", json);
}

// The first is the command's; one that it does not heed, or a session's, ends us, and the command
// with us.
static int on_signal(void *data, struct err *err)
{
    struct run *run = data;
    int number = signals_take();
    if (number == 0)
        return 0;
    if (run->signal != 0 || run->options->session != NULL) {
        ask(run, "DELETE", NULL, NULL);
        run->follow.stopped = true;
        run->exit_code = 128 + number;
        return err_set(err, ERR_CONFLICT, "interrupted");
    }
    run->signal = number;
    if (run->output.process[0] != '\0') // else when it is there
        pass_on(run, number);
    return 0;
}

static int take_event(void *data, const struct event *event, struct err *err)
{
    struct run *run = data;
    bool was_there = run->output.process[0] != '\0';
    int r = output_event(&run->output, event, err);
    if (!was_there && run->signal != 0)
        pass_on(run, run->signal);
    run->follow.done = run->output.has_exit;
    return r;
}

// -- standard input that is not text, piece by piece to a process that was started for it

// Not 0: interrupted.
static int pause_input(struct run *run, struct err *err)
{
    struct pollfd wait = {.fd = signals_fd(), .events = POLLIN};
    return poll(&wait, 1, INPUT_PAUSE_MS) > 0 ? on_signal(run, err) : 0;
}

static int send_piece(struct run *run, const char *target, const char *data, size_t len,
                      struct err *err)
{
    const struct http_call call = {
        .method = "POST",
        .target = target,
        .content_type = "application/octet-stream",
        .body = data,
        .body_len = len,
    };
    auto_answer answer;
    answer_init(&answer);
    while (remote_ask(run->remote, &call, &answer, err) < 0) {
        if (run->remote->status != 503) // else it has not read the last piece yet
            return -1;
        if (pause_input(run, err) != 0)
            return -1;
    }
    return 0;
}

// A command that ends before it has read all is no failure of ours: its own end tells.
static int send_input(struct run *run, struct err *err)
{
    const struct buf *input = &run->options->stdin_data;
    auto_buf target;
    buf_init(&target, REMOTE_TARGET_MAX);
    for (size_t at = 0; at < input->len;) {
        size_t len = input->len - at < INPUT_PIECE ? input->len - at : INPUT_PIECE;
        remote_target(&target, "sandbox", run->options->id, "processes", run->output.process,
                      "stdin");
        if (at + len == input->len)
            remote_query(&target, "end", "1");
        if (send_piece(run, buf_str(&target), input->data + at, len, err) < 0)
            return run->remote->status == 409 ? 0 : -1;
        at += len;
    }
    return 0;
}

// -- starting

static int start_process(struct remote *remote, const struct exec_options *o, struct answer *ret,
                         struct err *err)
{
    auto_buf target, body;
    buf_init(&target, REMOTE_TARGET_MAX);
    buf_init(&body, REMOTE_BODY_MAX);
    exec_write_body(o, true, &body);
    remote_target(&target, "sandbox", o->id, "processes");
    return remote_do(remote, "POST", &target, &body, ret, err);
}

int exec_detach(struct remote *remote, const struct exec_options *o, struct err *err)
{
    auto_answer answer;
    auto_buf id;
    answer_init(&answer);
    buf_init(&id, REMOTE_TARGET_MAX);
    if (start_process(remote, o, &answer, err) < 0)
        return -1;
    if (remote->json)
        return remote_print(remote, &answer);
    (void)puts(remote_text(&id, json_get(answer_root(&answer), "process"), "id"));
    return remote_flush(remote);
}

static int follow_process(struct run *run, struct http_call *call, struct err *err)
{
    auto_answer answer;
    auto_buf target;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    if (start_process(run->remote, run->options, &answer, err) < 0)
        return -1;
    const char *id = json_text(json_get(json_get(answer_root(&answer), "process"), "id"));
    if (id == NULL || strlen(id) >= sizeof run->output.process)
        return err_set(err, ERR_INTERNAL, "the server has not told the process's id");
    (void)snprintf(run->output.process, sizeof run->output.process, "%s", id);
    if (send_input(run, err) < 0)
        return -1;
    remote_target(&target, "sandbox", run->options->id, "processes", id, "logs");
    remote_query(&target, "follow", "1");
    call->method = "GET";
    call->target = buf_str(&target);
    return follow_events(&run->follow, call, take_event, run, err);
}

// One that a key names can be asked for again; without one, as for a session, it ends with us.
static int follow_exec(struct run *run, struct http_call *call, struct err *err)
{
    char key[40];
    auto_buf target, body;
    buf_init(&target, REMOTE_TARGET_MAX);
    buf_init(&body, REMOTE_BODY_MAX);
    exec_write_body(run->options, false, &body);
    remote_target(&target, "sandbox", run->options->id, "exec");
    if (body.failed != 0 || target.failed != 0)
        return err_set(err, ERR_INVALID, "that is more than a request may hold");
    remote_key(key);
    call->method = "POST";
    call->target = buf_str(&target);
    call->key = run->options->session == NULL ? key : NULL;
    call->body = buf_str(&body);
    call->body_len = body.len;
    run->follow.once = run->options->session != NULL;
    return follow_events(&run->follow, call, take_event, run, err);
}

int exec_follow(struct remote *remote, const struct exec_options *o, struct err *err)
{
    struct run run = {
        .remote = remote,
        .options = o,
        .follow = {.remote = remote     },
        .output = { .out = STDOUT_FILENO, .err = STDERR_FILENO},
    };
    if (signals_catch(err) < 0)
        return -1;
    struct http_call call = {.wake_fd = signals_fd(), .on_wake = on_signal, .wake_data = &run};
    bool binary = o->input && !o->stdin_is_text && o->session == NULL;
    if (o->input && !o->stdin_is_text && o->session != NULL)
        return err_set(err, ERR_INVALID, "standard input of a session must be text (UTF-8)");
    int r = binary ? follow_process(&run, &call, err) : follow_exec(&run, &call, err);
    if (r < 0)
        return run.exit_code != 0 ? run.exit_code : -1;
    // Nobody else knows of it: what it wrote has been passed on, so the server need not keep it.
    ask(&run, "DELETE", NULL, NULL);
    output_explain(run.output.reason);
    return run.output.exit_code;
}
