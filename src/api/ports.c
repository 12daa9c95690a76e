// SPDX-License-Identifier: Apache-2.0
// Ports of a sandbox that others may reach, by a token in their address.
#include <stdio.h>
#include <string.h>

#include "api/call.h"
#include "api/handlers.h"
#include "api/preview.h"
#include "api/schemas.h"
#include "api/show.h"

enum { PORTS_MAX = 64, NAME_MAX_LEN = 128 }; // of one sandbox

struct port_body {
    struct body_int port;
    const char *name, *token;
};

#define AT(member) offsetof(struct port_body, member)
static const struct field port_fields[] = {
    FIELD("port", FIELD_INT, AT(port), .required = true, .min = 1, .max = UINT16_MAX,
          .help = "Where a program in the sandbox listens"),
    FIELD("name", FIELD_STRING, AT(name), .max = NAME_MAX_LEN, .help = "The caller's own name"),
    FIELD("token", FIELD_STRING, AT(token), .max = PREVIEW_TOKEN_MAX,
          .help = "8 to 16 lower-case letters and digits, part of the address; made up if not "
                  "given. Another one than before closes the old address"),
};
const struct schema port_schema = SCHEMA("OpenPort", struct port_body, port_fields);

static void show_port(struct json *j, const struct preview_where *where,
                      const struct sandbox_row *s, const struct port_row *row)
{
    auto_buf text;
    buf_init(&text, 512);
    show_int(j, "port", row->port);
    show_str(j, "name", row->name);
    show_str(j, "token", row->token);
    preview_write_url(where, (uint16_t)row->port, s->slug, row->token, &text);
    show_str(j, "url", buf_str(&text));
    buf_reset(&text);
    (void)buf_printf(&text, "/sandbox/%s/proxy/%lld/", s->id, (long long)row->port);
    show_str(j, "path", buf_str(&text));
    show_time(j, "createdAt", row->created_ms);
}

static void reply_port(struct call *call, const struct port_row *row, unsigned status)
{
    struct buf buf;
    struct json j;
    buf_init(&buf, SHOW_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    show_port(&j, previews_where(call->api->previews), sandbox_row(call->sandbox), row);
    json_close_object(&j);
    call_reply_json(call, status, &j);
}

static int count_port(void *data, const struct port_row *row)
{
    unsigned *n = data;
    (void)row;
    ++*n;
    return 0;
}

static int check_room(struct call *call, struct err *err)
{
    unsigned n = 0;
    int64_t number = sandbox_row(call->sandbox)->number;
    if (db_port_each(call->api->db, number, count_port, &n, err) < 0)
        return -1;
    if (n >= PORTS_MAX)
        return err_set(err, ERR_EXHAUSTED, "a sandbox has at most %d ports: close one", PORTS_MAX);
    return 0;
}

static void tell(struct call *call, const char *type, int64_t port)
{
    char data[48];
    (void)snprintf(data, sizeof data, "{\"port\":%lld}", (long long)port);
    sandbox_event(call->sandbox, type, data);
}

// What is there stays, but for what the caller gives anew.
static int put_port(struct call *call, const struct port_body *b, const struct port_row *old,
                    bool is_new, struct err *err)
{
    char made[PREVIEW_TOKEN_MAX + 1];
    preview_token_make(made);
    char *token = is_new ? made : old->token;
    bool changes = b->token != NULL && (is_new || !preview_token_same(b->token, old->token));
    struct port_row row = {
        .sandbox = sandbox_row(call->sandbox)->number,
        .port = b->port.value,
        .name = b->name != NULL ? strdup(b->name) : NULL,
        .token = strdup(changes ? b->token : token),
        .created_ms = is_new ? db_now_ms() : old->created_ms,
    };
    if (b->name == NULL && old->name != NULL)
        row.name = strdup(old->name);
    int r = is_new ? check_room(call, err) : 0;
    if (r == 0)
        r = db_port_put(call->api->db, &row, err);
    if (r == 0 && changes && !is_new)
        previews_end_port(call->api->previews, row.sandbox, (uint16_t)row.port);
    if (r == 0 && is_new)
        tell(call, "port_opened", row.port);
    if (r == 0)
        reply_port(call, &row, is_new ? 201 : 200);
    port_row_done(&row);
    return r;
}

void handle_port_open(struct call *call)
{
    struct err err = {0};
    struct port_row old = {0};
    const struct port_body *b = call->body.values;
    if (b->token != NULL && !preview_token_valid(b->token)) {
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "token: must be %d to %d lower-case letters and digits", PREVIEW_TOKEN_MIN,
                   PREVIEW_TOKEN_MAX);
        return;
    }
    int found =
        db_port_get(call->api->db, sandbox_row(call->sandbox)->number, b->port.value, &old, &err);
    if (found < 0 || put_port(call, b, &old, found == 0, &err) < 0)
        call_fail(call, &err);
    port_row_done(&old);
}

struct listing {
    struct call *call;
    struct json *json;
};

static int see_port(void *data, const struct port_row *row)
{
    const struct listing *l = data;
    json_open_object(l->json);
    show_port(l->json, previews_where(l->call->api->previews), sandbox_row(l->call->sandbox), row);
    json_close_object(l->json);
    return 0;
}

int ports_show(struct call *call, struct json *json, struct err *err)
{
    struct listing l = {call, json};
    json_key(json, "ports");
    json_open_array(json);
    int r = db_port_each(call->api->db, sandbox_row(call->sandbox)->number, see_port, &l, err);
    json_close_array(json);
    return r;
}

void handle_port_list(struct call *call)
{
    struct err err = {0};
    struct call_list list;
    struct listing l = {call, &list.json};
    call_list_begin(&list, "ports");
    int64_t number = sandbox_row(call->sandbox)->number;
    call_list_end(call, &list, db_port_each(call->api->db, number, see_port, &l, &err), &err);
}

void handle_port_close(struct call *call)
{
    struct err err = {0};
    uint16_t port;
    const char *text = call->param[1];
    int64_t number = sandbox_row(call->sandbox)->number;
    if (!preview_read_port(text, strlen(text), &port)) {
        call_error(call, ERROR_INVALID_REQUEST, NULL, "'%.20s' is no port: 1 to 65535, in digits",
                   text);
        return;
    }
    int found = db_port_del(call->api->db, number, port, &err);
    if (found < 0) {
        call_fail(call, &err);
    } else if (found == 0) {
        call_error(call, ERROR_NOT_FOUND, NULL, "port %u is not open", port);
    } else {
        previews_end_port(call->api->previews, number, port);
        tell(call, "port_closed", port);
        call_reply_ok(call);
    }
}
