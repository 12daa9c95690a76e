// SPDX-License-Identifier: Apache-2.0
// Sessions: made, listed, ended here; used by exec (exec.c).
#include "api/call.h"
#include "api/handlers.h"
#include "api/schemas.h"
#include "api/show.h"
#include "api/terminal.h"
#include "sandbox/session.h"

struct session_body {
    const char *id, *cwd;
    struct body_map env;
};
static const struct field session_fields[] = {
    FIELD("id", FIELD_STRING, offsetof(struct session_body, id), .max = EDGE_NAME_MAX,
          .help = "Made up if not given"),
    FIELD("cwd", FIELD_STRING, offsetof(struct session_body, cwd), .max = 4095,
          .help = "Where its shell begins: an absolute path; /workspace if not given"),
    FIELD("env", FIELD_ENV, offsetof(struct session_body, env), .max = EDGE_ENV_MAX,
          .help = "Variables of its shell, beside the sandbox's own"),
};
const struct schema session_schema = SCHEMA("CreateSession", struct session_body, session_fields);

static void reply_session(struct call *call, unsigned status, const struct session_row *row)
{
    struct buf buf;
    struct json j;
    buf_init(&buf, SHOW_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    show_str(&j, "id", row->id);
    json_key(&j, "session");
    json_open_object(&j);
    show_session(&j, row);
    json_close_object(&j);
    json_close_object(&j);
    call_reply_json(call, status, &j);
}

void handle_session_create(struct call *call)
{
    struct err err = {0};
    struct session_row row = {0};
    const struct session_body *b = call->body.values;
    if (b->id != NULL && !sandbox_id_valid(b->id)) {
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "id: must be letters, digits, '.', '_' and '-', with a letter or digit at both "
                   "ends");
    } else if (b->cwd != NULL && b->cwd[0] != '/') {
        call_error(call, ERROR_INVALID_REQUEST, NULL, "cwd: must be an absolute path");
    } else if (session_create(call->sandbox, b->id, b->cwd, b->env.json, &row, &err) < 0) {
        call_fail(call, &err);
    } else {
        reply_session(call, 201, &row);
        session_row_done(&row);
    }
}

static int see_session(void *data, const struct session_row *row)
{
    struct json *j = data;
    json_open_object(j);
    show_session(j, row);
    json_close_object(j);
    return 0;
}

void handle_session_list(struct call *call)
{
    struct err err = {0};
    struct call_list list;
    call_list_begin(&list, "sessions");
    call_list_end(call, &list, session_each(call->sandbox, see_session, &list.json, &err), &err);
}

void handle_session_get(struct call *call)
{
    struct err err = {0};
    struct session_row row = {0};
    if (session_get(call->sandbox, call->param[1], &row, &err) < 0) {
        call_fail(call, &err);
        return;
    }
    reply_session(call, 200, &row);
    session_row_done(&row);
}

void handle_session_delete(struct call *call)
{
    struct err err = {0};
    if (terminal_delete_session(call->sandbox, call->param[1], &err) < 0)
        call_fail(call, &err);
    else
        call_reply_ok(call);
}
