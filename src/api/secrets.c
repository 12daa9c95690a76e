// SPDX-License-Identifier: Apache-2.0
// Secrets of a tenant. A value comes in and never goes out: answers, errors and logs have names.
#include <string.h>

#include "api/call.h"
#include "api/handlers.h"
#include "api/schemas.h"
#include "api/show.h"
#include "base/log.h"
#include "egress/egress.h"
#include "egress/secret.h"

struct secret_body {
    struct body_bytes value;
    const char *upstream, *header, *format;
};

#define AT(member) offsetof(struct secret_body, member)
static const struct field secret_fields[] = {
    FIELD("value", FIELD_BYTES, AT(value), .required = true, .min = 1, .max = SECRET_VALUE_MAX,
          .help = "The credential. It is stored encrypted and never told again"),
    FIELD("upstream", FIELD_STRING, AT(upstream), .required = true, .max = 512,
          .help = "Where it belongs: https://HOST, with :PORT and /PATH if need be"),
    FIELD("header", FIELD_STRING, AT(header), .max = 63,
          .help = "The header that it is sent in; Authorization if not given"),
    FIELD("format", FIELD_STRING, AT(format), .max = 256,
          .help = "The header's value: {} is the credential, {basic} its base64. \"Bearer {}\" if "
                  "not given; \"{}\" in another header than Authorization"),
};
const struct schema secret_schema = SCHEMA("PutSecret", struct secret_body, secret_fields);

static void show_secret(struct json *j, const struct secret_row *row)
{
    show_str(j, "name", row->name);
    show_str(j, "upstream", row->upstream);
    show_str(j, "header", row->header);
    show_str(j, "format", row->format);
    show_time(j, "createdAt", row->created_ms);
    show_time(j, "updatedAt", row->updated_ms);
}

static void missing(struct call *call, const char *name)
{
    call_error(call, ERROR_NOT_FOUND, NULL, "there is no secret '%.80s'", name);
}

static void reply_secret(struct call *call, const char *name, unsigned status)
{
    struct err err = {0};
    struct buf buf;
    struct json j;
    struct secret_row row = {0};
    int found = db_secret_get(call->api->db, call->tenant, name, &row, &err);
    if (found < 0) {
        call_fail(call, &err);
    } else if (found == 0) {
        missing(call, name);
    } else {
        buf_init(&buf, SHOW_MAX);
        json_init(&j, &buf);
        json_open_object(&j);
        show_bool(&j, "success", true);
        show_secret(&j, &row);
        json_close_object(&j);
        call_reply_json(call, status, &j);
    }
    secret_row_done(&row);
}

static void changed(struct call *call, const char *what, const char *name)
{
    egress_secret_changed(call->api->egress, call->tenant, name);
    log_line(LOG_INFO, what, "secret", name, "tenant", LOG_U64((uint64_t)call->tenant), "req",
             call->id, NULL);
}

void handle_secret_put(struct call *call)
{
    struct err err = {0};
    bool is_new;
    const struct secret_body *b = call->body.values;
    const struct secret_put put = {
        .name = call->param[0],
        .value = b->value.data,
        .value_len = b->value.len,
        .upstream = b->upstream,
        .header = b->header,
        .format = b->format,
    };
    if (secrets_put(call->api->secrets, call->tenant, &put, &is_new, &err) < 0) {
        call_fail(call, &err);
        return;
    }
    changed(call, is_new ? "secret made" : "secret replaced", call->param[0]);
    reply_secret(call, call->param[0], is_new ? 201 : 200);
}

void handle_secret_get(struct call *call)
{
    reply_secret(call, call->param[0], 200);
}

static int see_secret(void *data, const struct secret_row *row)
{
    struct json *j = data;
    if (secret_row_is_own(row)) // of a sandbox: it comes and goes with its configuration
        return 0;
    json_open_object(j);
    show_secret(j, row);
    json_close_object(j);
    return 0;
}

void handle_secret_list(struct call *call)
{
    struct err err = {0};
    struct call_list list;
    call_list_begin(&list, "secrets");
    call_list_end(call, &list,
                  db_secret_each(call->api->db, call->tenant, see_secret, &list.json, &err), &err);
}

void handle_secret_delete(struct call *call)
{
    struct err err = {0};
    const char *name = call->param[0];
    int found = secrets_delete(call->api->secrets, call->tenant, name, &err);
    if (found < 0) {
        call_fail(call, &err);
    } else if (found == 0) {
        missing(call, name);
    } else {
        changed(call, "secret deleted", name);
        call_reply_ok(call);
    }
}
