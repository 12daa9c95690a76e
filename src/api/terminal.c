// SPDX-License-Identifier: Apache-2.0
// Terminals: opening one, or looking at one that is there (viewer.c), listing and ending them.
#include "api/terminal.h"

#include <stdlib.h>
#include <string.h>

#include "api/auth.h"
#include "api/command.h"
#include "api/handlers.h"
#include "api/show.h"
#include "edge/ws.h"
#include "sandbox/session.h"

enum {
    ROWS = 24,
    COLS = 80,
    PATH_MAX_BYTES = 4095,
};

// -- what is asked for

static void refuse(struct call *call, const struct err *err)
{
    if (err->code != ERR_UNSUPPORTED) {
        call_fail(call, err);
        return;
    }
    call_add_header(call, "Upgrade", "websocket");
    call_add_header(call, "Sec-WebSocket-Version", "13");
    call_error(call, ERROR_UPGRADE_REQUIRED, NULL, "%s", err->msg);
}

static int invalid(struct call *call, const char *why)
{
    call_error(call, ERROR_INVALID_REQUEST, NULL, "%s", why);
    return -1;
}

static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    }
    return true;
}

static int read_sides(struct call *call, struct terminal_asking *a)
{
    uint64_t rows, cols;
    if (call_query_u64(call, "rows", TERMINAL_SIDE_MAX, ROWS, &rows) < 0 ||
        call_query_u64(call, "cols", TERMINAL_SIDE_MAX, COLS, &cols) < 0)
        return -1;
    if (rows == 0 || cols == 0)
        return invalid(call, "?rows and ?cols are at least 1");
    a->request.rows = (uint16_t)rows;
    a->request.cols = (uint16_t)cols;
    a->sized = call_query(call, "rows") != NULL || call_query(call, "cols") != NULL;
    return 0;
}

static int read_shell(struct call *call, struct terminal_request *r)
{
    r->shell = call_query(call, "shell");
    if (r->shell != NULL && (r->shell[0] == '\0' || r->shell[0] == '-' || !is_plain(r->shell) ||
                             (r->shell[0] != '/' && strchr(r->shell, '/') != NULL)))
        return invalid(call, "?shell: must be a program's name or its absolute path");
    return 0;
}

static int read_program(struct call *call, struct terminal_request *r)
{
    struct err err = {0};
    struct body_user user = {0};
    const char *name = call_query(call, "user");
    if (name != NULL && body_user(name, &user, &err) < 0) {
        (void)err_wrap(&err, "?user");
        call_fail(call, &err);
        return -1;
    }
    r->uid = user.uid;
    r->gid = user.gid;
    r->command = call_query(call, "command");
    r->cwd = call_query(call, "cwd");
    if (r->cwd != NULL && (r->cwd[0] != '/' || strlen(r->cwd) > PATH_MAX_BYTES))
        return invalid(call, "?cwd: must be an absolute path");
    if (r->command != NULL && r->command[0] == '\0')
        return invalid(call, "?command: must not be empty");
    return 0;
}

static int read_viewer(struct call *call, struct viewer_request *r)
{
    r->has_offset = call_query(call, "offset") != NULL;
    if (call_query_u64(call, "offset", INT64_MAX, 0, &r->offset) < 0 ||
        call_query_u64(call, "replay", VIEWER_REPLAY_MAX, VIEWER_REPLAY, &r->replay) < 0)
        return -1;
    return call_query_bool(call, "readonly", false, &r->readonly);
}

static int read_query(struct call *call, struct terminal_asking *a)
{
    const char *session = call_query(call, "session");
    a->request.name = session != NULL ? session : "default";
    if (!sandbox_id_valid(a->request.name))
        return invalid(call, "?session: must be letters, digits, '.', '_' and '-', with a letter "
                             "or digit at both ends");
    if (read_program(call, &a->request) < 0)
        return -1;
    return read_viewer(call, &a->viewer);
}

// A browser insists on being answered with one of those that it offers, and a token is nothing to
// send back.
static int check_protocol(struct call *call)
{
    size_t len;
    if (ws_offer(call->req, AUTH_PROTOCOL_BEARER, &len) != NULL &&
        !ws_offers(call->req, AUTH_PROTOCOL))
        return invalid(call, "offer the subprotocols '" AUTH_PROTOCOL "' and '" AUTH_PROTOCOL_BEARER
                             "TOKEN', both");
    return 0;
}

// -- the session of its name

int terminal_make_session(struct call *call, const char *id)
{
    struct err err = {0};
    struct session_row row = {0};
    int r = session_get(call->sandbox, id, &row, &err);
    if (r < 0 && err.code == ERR_NOT_FOUND)
        r = session_create(call->sandbox, id, NULL, NULL, &row, &err);
    if (r < 0)
        call_fail(call, &err);
    session_row_done(&row);
    return r;
}

int terminal_delete_session(struct sandbox *s, const char *id, struct err *err)
{
    struct err ignored;
    if (session_delete(s, id, err) < 0)
        return -1;
    struct process *terminal = terminal_find(s, id);
    if (terminal != NULL)
        (void)process_delete(terminal, &ignored); // it is ending, then
    return 0;
}

// -- opening

static void on_open(void *data, struct process *p, bool created, const struct err *err)
{
    struct call *call = data;
    struct err ignored;
    struct terminal_asking a = *(const struct terminal_asking *)call->state;
    if (call->req == NULL) {
        if (p != NULL && a.viewer.ends)
            (void)process_delete(p, &ignored);
        call_unref(call);
        return;
    }
    if (p == NULL && command_start_failed(err) != 0)
        call_error(call, ERROR_CANNOT_START, NULL, "%s", err->msg);
    else if (p == NULL)
        call_fail(call, err);
    else if (!created && a.request.command != NULL)
        call_error(call, ERROR_CONFLICT, NULL,
                   "there is a terminal '%s' already: a command takes another name",
                   a.request.name);
    else {
        if (!created && a.sized && !a.viewer.readonly)
            (void)terminal_set_size(p, a.request.rows, a.request.cols, &ignored);
        viewer_begin(call, p, &a.viewer);
    }
    call_unref(call);
}

static void on_awake(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct call *call = data;
    (void)s;
    (void)created;
    if (err != NULL && err->code != ERR_NONE) {
        call_fail(call, err);
    } else if (call->req != NULL) {
        const struct terminal_asking *a = call->state;
        terminal_open(call->sandbox, &a->request, on_open, call_ref(call));
    }
    call_unref(call);
}

// That very one, which may have ended: whoever lost the connection wants the rest, not a new one.
static void resume(struct call *call, const char *id)
{
    struct err err = {0};
    struct process *p = process_find(call->sandbox, id, &err);
    const struct terminal_asking *a = call->state;
    if (p == NULL)
        call_fail(call, &err);
    else if (process_row(p)->tty == NULL)
        call_error(call, ERROR_CONFLICT, NULL, "process '%.128s' has no terminal", id);
    else
        viewer_begin(call, p, &a->viewer);
}

int terminal_check(struct call *call)
{
    struct err err = {0};
    if (ws_check(call->req, call->api->cors, &err) == 0)
        return check_protocol(call);
    refuse(call, &err);
    return -1;
}

struct terminal_asking *terminal_asking_new(struct call *call)
{
    struct terminal_asking *a = calloc(1, sizeof *a);
    if (a == NULL)
        abort();
    call->state = a;
    return read_sides(call, a) < 0 || read_shell(call, &a->request) < 0 ? NULL : a;
}

void terminal_begin(struct call *call)
{
    sandbox_wake(call->sandbox, on_awake, call_ref(call));
}

void handle_terminal(struct call *call)
{
    const char *id = call_query(call, "resume");
    if (terminal_check(call) < 0)
        return;
    struct terminal_asking *a = terminal_asking_new(call);
    if (a == NULL || read_query(call, a) < 0)
        return;
    if (id != NULL)
        resume(call, id);
    else
        terminal_begin(call);
}

// -- all of them

struct listing {
    struct json *json;
    const struct api *api;
};

static void show_one(void *data, struct process *p)
{
    const struct listing *l = data;
    const struct process_row *row = process_row(p);
    uint16_t rows, cols;
    terminal_get_size(p, &rows, &cols);
    json_open_object(l->json);
    show_str(l->json, "id", row->tty);
    show_str(l->json, "process", row->id);
    show_int(l->json, "pid", row->pid);
    show_raw(l->json, "command", row->command);
    show_int(l->json, "cols", cols);
    show_int(l->json, "rows", rows);
    show_int(l->json, "viewers", viewer_count(l->api, p));
    show_time(l->json, "startedAt", row->started_ms);
    json_close_object(l->json);
}

void handle_terminal_list(struct call *call)
{
    struct call_list list;
    call_list_begin(&list, "terminals");
    struct listing listing = {.json = &list.json, .api = call->api};
    terminal_each(call->sandbox, show_one, &listing);
    call_list_end(call, &list, 0, NULL);
}

void handle_terminal_delete(struct call *call)
{
    struct err err = {0};
    struct process *p = terminal_find(call->sandbox, call->param[1]);
    if (p == NULL)
        call_error(call, ERROR_NOT_FOUND, NULL, "there is no terminal '%.128s'", call->param[1]);
    else if (process_delete(p, &err) < 0)
        call_fail(call, &err);
    else
        call_reply_ok(call);
}
