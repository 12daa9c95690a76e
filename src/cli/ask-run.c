// SPDX-License-Identifier: Apache-2.0
// One question: sent, its events shown as they come, to its answer. It is asked for as a stream in
// any case: so its id is known from the beginning, and with it what to cancel and where to go on
// when the connection breaks.
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/code.h"
#include "cli/signals.h"

void ask_init(struct ask *ask)
{
    buf_init(&ask->target, REMOTE_TARGET_MAX);
    buf_init(&ask->body, REMOTE_BODY_MAX);
    answer_init(&ask->answer);
}

void ask_done(struct ask *ask)
{
    buf_done(&ask->target);
    buf_done(&ask->body);
    answer_done(&ask->answer);
}

// -- the request

static void put_text(struct json *j, const char *key, const char *text)
{
    if (text == NULL)
        return;
    json_key(j, key);
    json_put_str(j, text);
}

static void put_number(struct json *j, const char *key, bool is_set, uint64_t value)
{
    if (!is_set)
        return;
    json_key(j, key);
    json_put_uint(j, value);
}

// What was not said is the server's to choose.
static void put_question(const struct ask *ask, struct json *j)
{
    const struct ask_options *o = ask->options;
    put_text(j, "question", ask->question);
    put_text(j, "language", o->language);
    put_text(j, "model", o->model);
    put_text(j, "sandboxId", o->sandbox);
    put_text(j, "context", o->context);
    put_number(j, "timeout", o->timeout_ms > 0, (uint64_t)o->timeout_ms);
    put_number(j, "maxTokens", o->max_tokens > 0, o->max_tokens);
    put_number(j, "retries", o->has_retries, o->retries);
    if (o->no_cache) {
        json_key(j, "cache");
        json_put_bool(j, false);
    }
}

static int write_body(struct ask *ask, struct err *err)
{
    struct json j;
    buf_reset(&ask->body);
    json_init(&j, &ask->body);
    json_open_object(&j);
    if (!ask->options->is_task)
        put_question(ask, &j);
    else if (ask_task_body(ask, &j, err) < 0)
        return -1;
    json_close_object(&j);
    return json_finish(&j) < 0 ? err_set(err, ERR_INVALID, "that is more than a request may hold")
                               : 0;
}

// -- giving up

// The run ends, and the stream tells so.
static void cancel(struct ask *ask)
{
    struct err ignored;
    struct remote copy = *ask->remote; // its last error stays what it is
    auto_answer answer;
    auto_buf target;
    if (ask->id[0] == '\0') // else when it is known
        return;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "execute", ask->id);
    (void)remote_do(&copy, "DELETE", &target, NULL, &answer, &ignored);
}

static int on_wake(void *data, struct err *err)
{
    struct ask *ask = data;
    spinner_tick(&ask->show->spinner);
    int number = signals_take();
    if (number == 0)
        return 0;
    bool first = !ask->cancelled;
    ask->cancelled = true;
    ask_show_wait(ask->show, "cancelling");
    if (first)
        cancel(ask);
    if (first && number == SIGINT) // its end is waited for; a second one gives up on that
        return 0;
    ask->follow.stopped = true;
    ask->ended_by = number;
    return err_set(err, ERR_CONFLICT, "interrupted");
}

// -- events

static void copy_text(char *ret, size_t size, const struct json_node *node)
{
    const char *text = json_text(node);
    if (text != NULL && strlen(text) < size)
        (void)snprintf(ret, size, "%s", text);
}

// From now on it is asked for by its id.
static void take_start(struct ask *ask, const struct json_node *root)
{
    copy_text(ask->id, sizeof ask->id, json_get(root, "request_id"));
    if (ask->id[0] == '\0')
        return;
    remote_target(&ask->target, "execute", ask->id);
    ask->call.method = "GET";
    ask->call.target = buf_str(&ask->target);
    ask->call.key = NULL;
    ask->call.body = NULL;
    ask->call.body_len = 0;
    if (!ask->options->is_task)
        ask_show_start(ask->show, ask->remote, root);
    if (ask->cancelled)
        cancel(ask);
}

// {"error", "error_code", "request_id"}: as if the server had answered with that.
static int take_failure(struct ask *ask, const struct json_node *root, struct err *err)
{
    auto_buf text;
    struct remote *remote = ask->remote;
    buf_init(&text, sizeof err->msg - 1);
    (void)remote_text(&text, root, "error_code");
    (void)snprintf(remote->error_code, sizeof remote->error_code, "%s", buf_str(&text));
    (void)remote_text(&text, root, "request_id");
    (void)snprintf(remote->request_id, sizeof remote->request_id, "%s", buf_str(&text));
    remote->status = (unsigned)json_int(json_get(root, "status"), 500);
    (void)remote_text(&text, root, "error");
    ask->follow.stopped = true;
    return err_set(err, ERR_UNAVAILABLE, "%s",
                   text.len > 0 ? buf_str(&text) : "the server has not said what went wrong");
}

static int take_done(struct ask *ask, const struct event *event, struct json_doc **doc,
                     struct err *err)
{
    const struct json_node *root = json_root(*doc);
    if (!json_is(root, JSON_NODE_OBJECT))
        return err_set(err, ERR_INTERNAL, "the server sent an answer that is none");
    if (!json_is(json_get(root, "success"), JSON_NODE_BOOL) ||
        json_int(json_get(root, "status"), 200) >= 300)
        return take_failure(ask, root, err);
    if (buf_append(&ask->answer.body, event->data, event->len) < 0)
        return err_set(err, ERR_EXHAUSTED, "the server's answer is too large");
    ask->answer.doc = *doc;
    *doc = NULL;
    ask->follow.done = true;
    return 0;
}

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names != NULL && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

static int take_event(void *data, const struct event *event, struct err *err)
{
    static const char *const output[] = {"stdout", "stderr", "result", "display", "error", NULL};
    struct ask *ask = data;
    const char *name = event->name;
    auto_json_doc *doc = NULL;
    if (json_read(event->data, event->len, &doc, err) < 0)
        return err_wrap(err, "the server sent an event that is no JSON");
    const struct json_node *root = json_root(doc);
    if (ask->options->is_task && ask_task_event(ask, name, root))
        return 0;
    if (strcmp(name, "code") == 0)
        ask_show_piece(ask->show, root);
    else if (is_one_of(name, output))
        return ask_show_output(ask->show, name, root, err);
    else if (strcmp(name, "start") == 0)
        take_start(ask, root);
    else if (strcmp(name, "restart") == 0)
        ask_show_restart(ask->show, root);
    else if (strcmp(name, "generated") == 0)
        ask_show_code(ask->show, root);
    else if (strcmp(name, "repair") == 0)
        ask_show_repair(ask->show, root, ++ask->attempt >= ask->options->retries);
    else if (strcmp(name, "done") == 0)
        return take_done(ask, event, &doc, err);
    return 0; // and what a newer server may tell
}

// -- running

// The events of a run are kept for a while, its answer for longer: where only that is left, it is
// shown as a whole.
static int fetch_answer(struct ask *ask, struct err *err)
{
    const struct http_call call = {
        .method = "GET",
        .target = ask->call.target,
        .wake_fd = ask->show->wake_fd,
        .on_wake = on_wake,
        .wake_data = ask,
    };
    if (remote_ask(ask->remote, &call, &ask->answer, err) < 0)
        return -1;
    const struct json_node *root = answer_root(&ask->answer);
    if (ask->answer.status != 200 || !json_is(json_get(root, "success"), JSON_NODE_BOOL))
        return err_set(err, ERR_UNAVAILABLE, "the server has lost what came of %.60s", ask->id);
    return ask->options->is_task ? ask_task_whole(ask->show, root, err)
                                 : ask_show_whole(ask->show, root, err);
}

int ask_run(struct ask *ask, struct err *err)
{
    if (write_body(ask, err) < 0)
        return -1;
    remote_key(ask->key);
    remote_target(&ask->target, "execute");
    ask->id[0] = '\0';
    ask->attempt = 0;
    ask->follow = (struct follow){.remote = ask->remote};
    ask->call = (struct http_call){
        .method = "POST",
        .target = buf_str(&ask->target),
        .body = buf_str(&ask->body),
        .body_len = ask->body.len,
        .key = ask->key, // so that it can be asked for again until its id is known
        .wake_fd = ask->show->wake_fd,
        .on_wake = on_wake,
        .wake_data = ask,
    };
    ask_show_wait(ask->show, ask->options->is_task ? "the server works" : "the model thinks");
    int r = follow_events(&ask->follow, &ask->call, take_event, ask, err);
    if (r < 0 && ask->id[0] != '\0' && !ask->follow.stopped && ask->remote->status == 404)
        r = fetch_answer(ask, err);
    spinner_stop(&ask->show->spinner);
    if (ask->show->rich.is_unread && ask->ended_by == 0) { // `| head`
        ask->ended_by = SIGPIPE;
        cancel(ask);
    }
    return r;
}

bool ask_found_nobody(const struct ask *ask, const struct err *err)
{
    const struct follow *f = &ask->follow;
    return ask->remote->status == 0 && err->code == ERR_UNAVAILABLE && f->tries == 0 &&
           !f->was_connected && !f->stopped;
}

int ask_exit_code(const struct json_node *answer)
{
    static const struct {
        const char *code;
        int exit_code;
    } table[] = {
        {"EXECUTION_TIMEOUT", CODE_TIMEOUT    },
        {"CANCELLED",         CODE_INTERRUPTED},
        {"SANDBOX_LOST",      CLI_FAILED      },
    };
    const char *code = json_text(json_get(answer, "error_code"));
    if (json_bool(json_get(answer, "success"), false))
        return CLI_OK;
    for (size_t i = 0; code != NULL && i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i].code, code) == 0)
            return table[i].exit_code;
    }
    return CODE_CELL_FAILED;
}
