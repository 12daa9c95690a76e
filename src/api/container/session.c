// SPDX-License-Identifier: Apache-2.0
// Sessions, as the container family has them: those of the native one (session.h).
#include "sandbox/session.h"

#include <stdio.h>
#include <string.h>

#include "api/container/container.h"
#include "api/show.h"
#include "api/terminal.h"

#define NO_SESSION     "__DISABLE_SESSION__"
#define TIMEOUT_MAX_MS (INT64_C(366) * 86400 * 1000)

enum { CWD_MAX = 4095 };

struct create_body {
    const char *id, *cwd;
    struct body_map env;
    struct body_int timeout;
};
#define AT(member) offsetof(struct create_body, member)
static const struct field create_fields[] = {
    FIELD("id", FIELD_STRING, AT(id), .max = EDGE_NAME_MAX),
    FIELD("cwd", FIELD_STRING, AT(cwd), .max = CWD_MAX),
    FIELD("env", FIELD_ENV, AT(env), .max = EDGE_ENV_MAX),
    FIELD("commandTimeoutMs", FIELD_MS, AT(timeout), .max = TIMEOUT_MAX_MS),
};
static const struct schema create_body =
    SCHEMA("ContainerSession", struct create_body, create_fields, .lenient = true);

struct delete_body {
    const char *id;
};
static const struct field delete_fields[] = {
    FIELD("sessionId", FIELD_STRING, offsetof(struct delete_body, id), .required = true,
          .max = EDGE_NAME_MAX),
};
static const struct schema delete_body =
    SCHEMA("ContainerSessionDelete", struct delete_body, delete_fields, .lenient = true);

// -- which

const char *container_session(const struct call *call, const char *given)
{
    if (given == NULL)
        given = call_query(call, "sessionId");
    if (given == NULL && call->req != NULL)
        given = http_header(call->req, "X-Session-Id");
    if (given == NULL || *given == '\0')
        given = "default";
    return strcmp(given, NO_SESSION) != 0 ? given : NULL;
}

int container_check_session(struct call *call, const char *session)
{
    if (session == NULL || sandbox_id_valid(session))
        return 0;
    container_invalid(call, "sessionId",
                      "a session's id has 1 to %d letters, digits, '.', '_' and '-', with a letter "
                      "or digit at both ends",
                      EDGE_NAME_MAX);
    return -1;
}

// -- making one

// Which box it is: another one has none of the processes of the one before.
static void show_placement(struct json *j, const struct call *call)
{
    char text[64];
    const struct sandbox_row *row = sandbox_row(call->sandbox);
    (void)snprintf(text, sizeof text, "cay-%lld-%lld", (long long)row->number,
                   (long long)row->boxes);
    show_str(j, "containerPlacementId", text);
}

static void reply_exists(struct call *call, const char *id)
{
    auto_buf context;
    struct json j;
    buf_init(&context, 1024);
    json_init(&j, &context);
    json_open_object(&j);
    show_str(&j, "sessionId", id);
    show_placement(&j, call);
    json_close_object(&j);
    container_fail(call, CONTAINER_SESSION_ALREADY_EXISTS, buf_str(&context),
                   "there is a session '%s' already: use it, or another id", id);
}

static void reply_made(struct call *call, const struct session_row *row)
{
    struct container_answer a;
    container_begin(&a, true);
    json_key(&a.json, "data");
    json_open_object(&a.json);
    show_str(&a.json, "id", row->id);
    show_str(&a.json, "cwd", row->cwd);
    show_time(&a.json, "createdAt", row->created_ms);
    json_close_object(&a.json);
    show_placement(&a.json, call);
    container_end(call, &a);
}

static void create(struct call *call)
{
    struct err err = {0};
    struct session_row row = {0};
    const struct create_body *b = call->body.values;
    int r = session_create(call->sandbox, b->id, b->cwd, b->env.json, &row, &err);
    if (r == 0 && b->timeout.value > 0)
        r = session_set_timeout(call->sandbox, row.id, b->timeout.value, &err);
    if (r == 0)
        reply_made(call, &row);
    else if (err.code == ERR_CONFLICT)
        reply_exists(call, b->id);
    else
        call_fail(call, &err);
    session_row_done(&row);
}

static void on_awake(void *data, struct sandbox *s, bool created, const struct err *err)
{
    (void)s;
    (void)created;
    call_go_on(data, err, create);
}

static void handle_create(struct call *call)
{
    const struct create_body *b = call->body.values;
    if (b->id != NULL && strcmp(b->id, NO_SESSION) == 0) {
        container_invalid(call, "id", "'%s' is what asks for no session", NO_SESSION);
        return;
    }
    if (b->id != NULL && container_check_session(call, b->id) < 0)
        return;
    if (b->cwd != NULL && b->cwd[0] != '/') {
        container_invalid(call, "cwd", "must be an absolute path");
        return;
    }
    sandbox_wake(call->sandbox, on_awake, call_ref(call));
}

// -- all of them

static int see_session(void *data, const struct session_row *row)
{
    json_put_str(data, row->id);
    return 0;
}

static void handle_list(struct call *call)
{
    struct err err = {0};
    struct container_answer a;
    container_begin(&a, true);
    json_key(&a.json, "data");
    json_open_array(&a.json);
    if (session_each(call->sandbox, see_session, &a.json, &err) < 0) {
        buf_done(&a.buf);
        call_fail(call, &err);
        return;
    }
    json_close_array(&a.json);
    container_end(call, &a);
}

static void handle_delete(struct call *call)
{
    struct err err = {0};
    struct container_answer a;
    const struct delete_body *b = call->body.values;
    if (terminal_delete_session(call->sandbox, b->id, &err) == 0) {
        container_begin(&a, true);
        show_str(&a.json, "sessionId", b->id);
        container_end(call, &a);
    } else if (err.code == ERR_NOT_FOUND) { // as theirs has it
        container_fail(call, CONTAINER_INTERNAL_ERROR, NULL, "there is no session '%.128s'", b->id);
    } else {
        call_fail(call, &err);
    }
}

const struct route container_sessions[] = {
    CONTAINER_ROUTE(HTTP_POST, "/api/session/create", SUBJECT_SESSION, handle_create, &create_body),
    CONTAINER_ROUTE(HTTP_GET, "/api/session/list", SUBJECT_SESSION, handle_list),
    CONTAINER_ROUTE(HTTP_POST, "/api/session/delete", SUBJECT_SESSION, handle_delete, &delete_body),
};
const size_t n_container_sessions = sizeof container_sessions / sizeof *container_sessions;
