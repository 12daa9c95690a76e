// SPDX-License-Identifier: Apache-2.0
#include "api/container/process.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/container/exec.h"
#include "api/launch.h"
#include "api/show.h"
#include "base/mem.h"
#include "sandbox/session.h"

enum {
    CLEANUP_AFTER_MS = 10000, // a process that shall be cleaned up can be looked at for so long
    NOTE_MAX = 256,
};

// -- what is known of one

static bool note_has(const struct process *p, const char *text)
{
    const char *note = process_row(p)->note;
    return note != NULL && strstr(note, text) != NULL;
}

bool container_process_is_base64(const struct process *p)
{
    return note_has(p, "\"encoding\":\"base64\"");
}

bool container_process_is_over(const struct process *p)
{
    const struct process_row *row = process_row(p);
    return row->reason != END_NONE && row->ended_ms + CLEANUP_AFTER_MS <= db_now_ms() &&
           note_has(p, "\"autoCleanup\":true");
}

static int exit_code_of(const struct process *p)
{
    struct job_end end = show_end_of(process_row(p));
    return show_exit_code(&end);
}

const char *container_process_status(const struct process *p)
{
    const struct process_row *row = process_row(p);
    int code = exit_code_of(p);
    switch (row->reason) {
    case END_NONE:
        return row->pid > 0 ? "running" : "starting";
    case END_BOX_LOST:
        return "error";
    case END_TIMEOUT:
    case END_KILLED:
        return "killed";
    case END_EXIT:
    case END_SIGNAL:
    case END_OOM:
    case END_REASON_MAX:
        break;
    }
    return code == 0 ? "completed" : code == 137 || code == 143 ? "killed" : "failed";
}

// What it was started with: a text, or an array's texts with spaces between them.
void container_process_command(struct json *j, const struct process *p)
{
    size_t i;
    json_t *word;
    auto_buf text;
    const char *command = process_row(p)->command;
    json_t *root = command != NULL ? json_loads(command, JSON_DECODE_ANY, NULL) : NULL;
    buf_init(&text, 2 * EDGE_BODY_MAX);
    if (json_is_string(root))
        (void)buf_append_str(&text, json_string_value(root));
    json_array_foreach(root, i, word)
    {
        (void)buf_printf(&text, "%s%s", i > 0 ? " " : "", json_string_value(word));
    }
    json_put_strn(j, text.data, text.len);
    json_decref(root);
}

void container_process_show(struct json *j, const struct process *p)
{
    const struct process_row *row = process_row(p);
    show_str(j, "id", row->id);
    if (row->pid > 0)
        show_int(j, "pid", row->pid);
    json_key(j, "command");
    container_process_command(j, p);
    show_str(j, "status", container_process_status(p));
    show_time(j, "startTime", row->started_ms);
    if (row->reason == END_NONE)
        return;
    show_time(j, "endTime", row->ended_ms);
    show_int(j, "exitCode", exit_code_of(p));
}

static void reply_missing(struct call *call, const char *id)
{
    auto_buf context;
    struct json j;
    buf_init(&context, 1024);
    json_init(&j, &context);
    json_open_object(&j);
    show_str(&j, "processId", id);
    json_close_object(&j);
    container_fail(call, CONTAINER_PROCESS_NOT_FOUND, buf_str(&context),
                   "there is no process '%.128s'", id);
}

struct process *container_process(struct call *call)
{
    struct err err = {0};
    struct process *p = process_find(call->sandbox, call->param[1], &err);
    if (p != NULL && container_process_is_over(p)) {
        (void)process_delete(p, &err);
        p = NULL;
        err.code = ERR_NOT_FOUND;
    }
    if (p == NULL && err.code == ERR_NOT_FOUND)
        reply_missing(call, call->param[1]);
    else if (p == NULL)
        call_fail(call, &err);
    return p;
}

// -- starting one

static void on_started(struct call *call, struct process *p, const struct err *err)
{
    struct container_answer a;
    const struct command_body *b = call->body.values;
    if (p == NULL && command_start_failed(err) != 0) {
        call_error(call, ERROR_CANNOT_START, NULL, "%s", err->msg);
    } else if (p == NULL) {
        call_fail(call, err);
    } else {
        container_begin(&a, true);
        show_str(&a.json, "processId", process_row(p)->id);
        show_int(&a.json, "pid", process_row(p)->pid);
        show_str(&a.json, "command", b->command);
        container_end(call, &a);
    }
}

static void start(struct call *call)
{
    launch(call, /*keep_stdin=*/false, /*keep_awake=*/false, on_started);
}

// The session's, then the call's own.
static void merge_env(struct call *call, struct command_body *b, const char *of_session)
{
    json_t *all = json_loads(of_session, 0, NULL);
    json_t *own = b->env.json != NULL ? json_loads(b->env.json, 0, NULL) : NULL;
    if (all == NULL)
        return;
    if (own != NULL)
        (void)json_object_update(all, own);
    char *text = json_dumps(all, JSON_COMPACT);
    if (text == NULL)
        abort();
    body_keep(&call->body, text);
    b->env.json = text;
    json_decref(own);
    json_decref(all);
}

static void take_cwd(struct call *call, struct command_body *b, const char *of_session)
{
    char *path;
    if (b->cwd != NULL && b->cwd[0] == '/')
        return;
    int n = b->cwd != NULL ? asprintf(&path, "%s/%s", of_session, b->cwd)
                           : asprintf(&path, "%s", of_session);
    if (n < 0)
        abort();
    body_keep(&call->body, path);
    b->cwd = path;
}

static void on_session(void *data, const struct session_row *row, const struct err *err)
{
    struct call *call = data;
    struct command_body *b = call->body.values;
    if (row == NULL) {
        call_fail(call, err);
    } else if (call->req != NULL) {
        merge_env(call, b, row->env != NULL ? row->env : "{}");
        take_cwd(call, b, row->cwd != NULL ? row->cwd : "/workspace");
        start(call);
    }
    call_unref(call);
}

// One that has ended gives up its name.
static void free_name(struct call *call, const char *id)
{
    struct err ignored;
    struct process *p = id != NULL ? process_find(call->sandbox, id, &ignored) : NULL;
    if (p != NULL && process_row(p)->reason != END_NONE)
        (void)process_delete(p, &ignored);
}

static void write_note(struct call *call, struct container_command *c)
{
    struct buf note;
    buf_init(&note, NOTE_MAX);
    (void)buf_printf(&note, "{\"autoCleanup\":%s,\"encoding\":\"%s\"}",
                     c->auto_cleanup.value ? "true" : "false",
                     container_is_base64(c) ? "base64" : "utf8");
    char *text = mem_copy_text(buf_str(&note));
    buf_done(&note);
    body_keep(&call->body, text);
    c->command.note = text;
}

void container_process_start(struct call *call)
{
    struct err err = {0};
    struct session_row row = {0};
    struct container_command *c = call->body.values;
    if (container_command_check(call) < 0)
        return;
    write_note(call, c);
    free_name(call, c->command.id);
    if (c->command.session == NULL) {
        start(call);
        return;
    }
    if (session_create(call->sandbox, c->command.session, NULL, NULL, &row, &err) < 0 &&
        err.code != ERR_CONFLICT) {
        call_fail(call, &err);
        return;
    }
    session_row_done(&row);
    session_ask(call->sandbox, c->command.session, on_session, call_ref(call));
}

// -- looking

struct listing {
    struct json *json;
    const char *status; // NULL: any
};

static void see_process(void *data, struct process *p)
{
    struct err ignored;
    const struct listing *l = data;
    if (process_row(p)->tty != NULL ||
        (l->status != NULL && strcmp(l->status, container_process_status(p)) != 0))
        return;
    if (container_process_is_over(p)) {
        (void)process_delete(p, &ignored);
        return;
    }
    json_open_object(l->json);
    container_process_show(l->json, p);
    json_close_object(l->json);
}

static void handle_list(struct call *call)
{
    struct err err = {0};
    struct container_answer a;
    container_begin(&a, true);
    struct listing listing = {&a.json, call_query(call, "status")};
    json_key(&a.json, "processes");
    json_open_array(&a.json);
    if (process_each(call->sandbox, see_process, &listing, &err) < 0) {
        buf_done(&a.buf);
        call_fail(call, &err);
        return;
    }
    json_close_array(&a.json);
    container_end(call, &a);
}

static void handle_get(struct call *call)
{
    struct container_answer a;
    struct process *p = container_process(call);
    if (p == NULL)
        return;
    container_begin(&a, true);
    json_key(&a.json, "process");
    json_open_object(&a.json);
    container_process_show(&a.json, p);
    json_close_object(&a.json);
    container_end(call, &a);
}

#define ONE "/api/process/{pid}"
const struct route container_processes[] = {
    CONTAINER_ROUTE(HTTP_POST, "/api/process/start", SUBJECT_PROCESS, container_process_start,
                    &container_command_body),
    CONTAINER_ROUTE(HTTP_GET, "/api/process/list", SUBJECT_PROCESS, handle_list),
    CONTAINER_ROUTE(HTTP_DELETE, "/api/process/kill-all", SUBJECT_PROCESS,
                    container_process_kill_all),
    CONTAINER_ROUTE(HTTP_GET, ONE, SUBJECT_PROCESS, handle_get),
    CONTAINER_ROUTE(HTTP_DELETE, ONE, SUBJECT_PROCESS, container_process_kill,
                    &container_signal_body),
    CONTAINER_ROUTE(HTTP_GET, ONE "/logs", SUBJECT_PROCESS, container_process_logs),
    CONTAINER_ROUTE(HTTP_GET, ONE "/stream", SUBJECT_PROCESS, container_process_stream),
};
const size_t n_container_processes = sizeof container_processes / sizeof *container_processes;
