// SPDX-License-Identifier: Apache-2.0
// One cell: sent, its events shown as they come, to its end. Interrupting us interrupts the cell;
// doing it twice gives up on it.
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/code.h"
#include "cli/follow.h"
#include "cli/output.h"

struct following {
    struct code_run *run;
    struct follow follow;
    int exit_code;
};

// -- the request

static void put_text(struct json *j, const char *key, const char *text)
{
    if (text == NULL)
        return;
    json_key(j, key);
    json_put_str(j, text);
}

static void write_body(const struct code_run *run, const char *code, size_t len, struct buf *body)
{
    struct json j;
    json_init(&j, body);
    json_open_object(&j);
    json_key(&j, "code");
    json_put_strn(&j, code, len);
    put_text(&j, "context", run->context);
    put_text(&j, "language", run->context == NULL ? run->language : NULL);
    if (run->timeout_ms > 0) {
        json_key(&j, "timeout");
        json_put_int(&j, run->timeout_ms);
    }
    if (run->env != NULL)
        pairs_put(&j, "env", run->env);
    json_close_object(&j);
    (void)json_finish(&j); // the buffer is looked at when it is sent
}

static void begin(struct code_run *run)
{
    run->cell[0] = run->reason[0] = '\0';
    run->interrupted = run->state_lost = false;
    run->ended_by = 0;
    rich_begin(&run->rich, NULL);
}

// -- interrupting

int code_context_do(struct code_run *run, const char *action, struct err *err)
{
    const char *id = run->seen_context[0] != '\0' ? run->seen_context : run->context;
    auto_answer answer;
    auto_buf target;
    if (id == NULL)
        return err_set(err, ERR_CONFLICT, "nothing has run yet");
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "sandbox", run->place->sandbox, "contexts", id, action);
    return remote_do(run->place->remote, "POST", &target, NULL, &answer, err);
}

static void cancel_cell(const struct code_run *run, struct remote *remote)
{
    struct err ignored;
    auto_answer answer;
    auto_buf target;
    if (run->cell[0] == '\0')
        return;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "sandbox", run->place->sandbox, "code", run->cell);
    (void)remote_do(remote, "DELETE", &target, NULL, &answer, &ignored);
}

// What comes of it is seen in the stream. A cell without a context, as of a language that is
// compiled, has a process for itself: it is ended.
static void interrupt_cell(struct code_run *run)
{
    struct err ignored;
    struct remote *ours = run->place->remote, copy = *ours; // its last error stays what it is
    run->place->remote = &copy;
    if (run->seen_context[0] != '\0')
        (void)code_context_do(run, "interrupt", &ignored);
    else
        cancel_cell(run, &copy);
    run->place->remote = ours;
}

static int on_wake(void *data, struct err *err)
{
    struct following *f = data;
    struct code_run *run = f->run;
    int number = run->take_signal();
    if (number == 0 || number == SIGWINCH)
        return 0;
    if (number == SIGINT && !run->interrupted) {
        run->interrupted = true;
        if (run->cell[0] != '\0') // else when it is there
            interrupt_cell(run);
        return 0;
    }
    f->follow.stopped = true;
    run->ended_by = number;
    struct remote copy = *run->place->remote;
    cancel_cell(run, &copy);
    return err_set(err, ERR_CONFLICT, "interrupted");
}

// -- events

static void copy_text(char *ret, size_t size, const struct json_node *node)
{
    const char *text = json_text(node);
    if (text != NULL && strlen(text) < size)
        (void)snprintf(ret, size, "%s", text);
}

static int exit_code_of(const char *reason, bool success)
{
    static const struct {
        const char *reason;
        int code;
    } table[] = {
        {"timeout",     CODE_TIMEOUT    },
        {"interrupted", CODE_INTERRUPTED},
        {"oom",         CODE_KILLED     },
        {"killed",      CODE_KILLED     },
        {"box_lost",    CLI_FAILED      },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i].reason, reason) == 0)
            return table[i].code;
    }
    return success ? CLI_OK : CODE_CELL_FAILED;
}

static void take_start(struct code_run *run, const struct json_node *root)
{
    copy_text(run->cell, sizeof run->cell, json_get(root, "id"));
    run->seen_context[0] = '\0';
    copy_text(run->seen_context, sizeof run->seen_context, json_get(root, "context"));
    rich_begin(&run->rich, run->cell);
    if (run->interrupted)
        interrupt_cell(run);
}

// The result's own fields: where the reader of a terminal would not guess them, in words.
static void take_end(struct code_run *run, const struct json_node *root)
{
    uint64_t count = (uint64_t)json_int(json_get(root, "executionCount"), 0);
    copy_text(run->reason, sizeof run->reason, json_get(root, "reason"));
    bool died = json_bool(json_get(root, "contextDied"), false);
    run->state_lost = died || (count > 0 && count <= run->count);
    run->count = died ? 0 : count; // the next one counts from 1, and that has been told
}

static void explain_end(const struct code_run *run, const struct json_node *root)
{
    auto_buf message;
    buf_init(&message, 4096);
    if (json_bool(json_get(root, "truncated"), false))
        (void)fputs("cay: the cell wrote more than is kept: the rest was dropped\n", stderr);
    const char *text = remote_text(&message, root, "message");
    if (text[0] != '\0')
        (void)fprintf(stderr, "cay: %s\n", text);
    else if (strcmp(run->reason, "timeout") == 0)
        (void)fputs("cay: ended after its time was up (--timeout)\n", stderr);
    else
        output_explain(run->reason);
}

static int take_event(void *data, const struct event *event, struct err *err)
{
    struct following *f = data;
    struct code_run *run = f->run;
    auto_json_doc *doc = NULL;
    if (json_read(event->data, event->len, &doc, err) < 0)
        return err_wrap(err, "the server sent an event that is no JSON");
    const struct json_node *root = json_root(doc);
    if (strcmp(event->name, "stdout") == 0 || strcmp(event->name, "stderr") == 0)
        return rich_output(&run->rich, event->name[3] == 'e', root, err);
    if (strcmp(event->name, "result") == 0 || strcmp(event->name, "display") == 0)
        return rich_show(&run->rich, root, err);
    if (strcmp(event->name, "error") == 0)
        return rich_error(&run->rich, root, err);
    if (strcmp(event->name, "start") == 0)
        take_start(run, root);
    if (strcmp(event->name, "end") == 0) {
        take_end(run, root);
        if (rich_end_line(&run->rich, err) < 0)
            return -1;
        explain_end(run, root);
        f->follow.done = true;
        f->exit_code = exit_code_of(run->reason, json_bool(json_get(root, "success"), false));
    }
    return 0; // and what a newer server may tell
}

// -- running

int code_run(struct code_run *run, const char *code, size_t len, struct err *err)
{
    struct following f = {.run = run, .follow = {.remote = run->place->remote}};
    char key[40]; // so that it can be asked for again where the connection breaks
    auto_buf target, body;
    buf_init(&target, REMOTE_TARGET_MAX);
    buf_init(&body, REMOTE_BODY_MAX);
    begin(run);
    remote_key(key);
    write_body(run, code, len, &body);
    remote_target(&target, "sandbox", run->place->sandbox, "code");
    if (body.failed != 0 || target.failed != 0)
        return err_set(err, ERR_INVALID, "that is more than a request may hold");
    const struct http_call call = {
        .method = "POST",
        .target = buf_str(&target),
        .body = buf_str(&body),
        .body_len = body.len,
        .key = key,
        .wake_fd = run->wake_fd,
        .on_wake = on_wake,
        .wake_data = &f,
    };
    int r = follow_events(&f.follow, &call, take_event, &f, err);
    if (run->rich.is_unread)
        run->ended_by = SIGPIPE;
    if (r < 0)
        return run->ended_by != 0 ? 128 + run->ended_by : -1;
    return f.exit_code;
}

int code_run_json(struct code_run *run, const char *code, size_t len, struct err *err)
{
    struct following f = {.run = run, .follow = {.remote = run->place->remote}};
    auto_answer answer;
    auto_buf target, body;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    buf_init(&body, REMOTE_BODY_MAX);
    begin(run);
    run->interrupted = true; // there is no telling which cell it is: the first one ends us
    write_body(run, code, len, &body);
    remote_target(&target, "sandbox", run->place->sandbox, "code");
    const struct http_call call = {
        .method = "POST",
        .target = buf_str(&target),
        .body = buf_str(&body),
        .body_len = body.len,
        .wake_fd = run->wake_fd,
        .on_wake = on_wake,
        .wake_data = &f,
    };
    if (body.failed != 0 || target.failed != 0)
        return err_set(err, ERR_INVALID, "that is more than a request may hold");
    if (remote_ask(run->place->remote, &call, &answer, err) < 0)
        return run->ended_by != 0 ? 128 + run->ended_by : -1;
    int printed = remote_print(run->place->remote, &answer);
    const struct json_node *root = answer_root(&answer);
    copy_text(run->reason, sizeof run->reason, json_get(root, "reason"));
    return printed != CLI_OK
               ? printed
               : exit_code_of(run->reason, json_bool(json_get(root, "success"), false));
}
