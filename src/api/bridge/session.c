// SPDX-License-Identifier: Apache-2.0
// Sessions: those of the native API (sandbox/session.h), by which an exec's shell stays.
#include "sandbox/session.h"

#include <string.h>

#include "api/bridge/bridge.h"
#include "api/show.h"
#include "api/terminal.h"

struct session_body {
    const char *id, *cwd;
    struct body_map env;
};
#define AT(member) offsetof(struct session_body, member)
static const struct field session_fields[] = {
    FIELD("id", FIELD_STRING, AT(id), .max = EDGE_NAME_MAX, .help = "Made up if not given"),
    FIELD("cwd", FIELD_STRING, AT(cwd), .max = FILE_PATH_MAX,
          .help = "Where its shell begins: absolute, or below /workspace"),
    FIELD("env", FIELD_ENV, AT(env), .max = EDGE_ENV_MAX, .help = "Variables of its shell"),
};
static const struct schema session_body =
    SCHEMA("BridgeSession", struct session_body, session_fields, .lenient = true);

static int check_create(struct call *call)
{
    const struct session_body *b = call->body.values;
    char path[FILE_PATH_MAX + 1];
    if (bridge_session_valid(call, b->id) < 0)
        return -1;
    if (b->cwd == NULL || b->cwd[0] == '/' || bridge_path(b->cwd, path) == 0)
        return 0;
    bridge_fail(call, 403, "invalid_request", "cwd: '%.200s' leads out of /workspace", b->cwd);
    return -1;
}

static void handle_create(struct call *call)
{
    struct err err = {0};
    struct buf buf;
    struct json j;
    struct session_row row = {0};
    char path[FILE_PATH_MAX + 1];
    const struct session_body *b = call->body.values;
    const char *cwd = b->cwd;
    call->is_at_work = true;
    if (cwd != NULL && cwd[0] != '/' && bridge_path(cwd, path) == 0)
        cwd = path;
    if (session_create(call->sandbox, b->id, cwd, b->env.json, &row, &err) < 0) {
        call_fail(call, &err);
        return;
    }
    buf_init(&buf, 1024);
    json_init(&j, &buf);
    json_open_object(&j);
    show_str(&j, "id", row.id);
    json_close_object(&j);
    session_row_done(&row);
    call_reply_json(call, 200, &j);
}

static void handle_delete(struct call *call)
{
    struct err err = {0};
    struct buf buf;
    struct json j;
    const char *id = call->param[1];
    call->is_at_work = true;
    if (terminal_delete_session(call->sandbox, id, &err) < 0) {
        call_fail(call, &err);
        return;
    }
    buf_init(&buf, 1024);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    show_str(&j, "sessionId", id);
    show_time_now(&j, "timestamp");
    json_close_object(&j);
    call_reply_json(call, 200, &j);
}

const struct route bridge_sessions[] = {
    BRIDGE_ROUTE(HTTP_POST, "/sandbox/{id}/session", 200, handle_create, .flags = ROUTE_SANDBOX,
                 .body = &session_body, .name = "createSession",
                 .summary = "A shell that stays: directory, variables, functions",
                 .answer = "Its id, for the Session-Id header", .shape = &bridge_id_shape,
                 .check = check_create),
    BRIDGE_ROUTE(HTTP_DELETE, "/sandbox/{id}/session/{sid}", 200, handle_delete,
                 .flags = ROUTE_SANDBOX | ROUTE_EXISTING, .name = "deleteSession",
                 .summary = "End it, with its shell, its terminal and what runs in them",
                 .answer = "It is gone", .shape = &bridge_deleted_shape),
};
const size_t n_bridge_sessions = sizeof bridge_sessions / sizeof *bridge_sessions;
