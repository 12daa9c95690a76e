// SPDX-License-Identifier: Apache-2.0
// Tokens and tenants, for admins. A token's text is told once, when it is made.
#include <sodium.h>
#include <string.h>

#include "api/auth.h"
#include "api/call.h"
#include "api/handlers.h"
#include "api/schemas.h"
#include "api/show.h"

struct quota_body {
    struct body_int sandboxes, running, memory, disk;
};

#define AT_QUOTA(member) offsetof(struct quota_body, member)
#define COUNT_MAX        1000000
#define BYTES_MAX        (INT64_C(1) << 60)

static const struct field quota_fields[] = {
    FIELD("sandboxes", FIELD_INT, AT_QUOTA(sandboxes), .max = COUNT_MAX,
          .help = "How many sandboxes; 0: no limit"),
    FIELD("running", FIELD_INT, AT_QUOTA(running), .max = COUNT_MAX,
          .help = "How many may run at once; 0: no limit"),
    FIELD("memory", FIELD_SIZE, AT_QUOTA(memory), .max = BYTES_MAX,
          .help = "Sum of the memory limits of those that run; 0: no limit"),
    FIELD("disk", FIELD_SIZE, AT_QUOTA(disk), .max = BYTES_MAX,
          .help = "Sum of the disk limits; 0: no limit"),
};
const struct schema tenant_schema = SCHEMA("Quotas", struct quota_body, quota_fields);

struct token_body {
    const char *name, *tenant;
    struct body_bool admin;
    struct body_int rate;
    struct quota_body quotas;
};

#define AT(member) offsetof(struct token_body, member)
static const struct field token_fields[] = {
    FIELD("name", FIELD_STRING, AT(name), .required = true, .max = EDGE_NAME_MAX,
          .help = "What it is for"),
    FIELD("tenant", FIELD_STRING, AT(tenant), .max = EDGE_NAME_MAX,
          .help = "Whose sandboxes it sees; made if new. The token's name if not given"),
    FIELD("admin", FIELD_BOOL, AT(admin), .help = "May manage tokens and act for every tenant"),
    FIELD("rate", FIELD_INT, AT(rate), .max = COUNT_MAX,
          .help = "Requests a minute; 0: no limit; the configured one if not given"),
    FIELD("quotas", FIELD_OBJECT, AT(quotas), .sub = &tenant_schema, .help = "Of the tenant"),
};
const struct schema token_schema = SCHEMA("CreateToken", struct token_body, token_fields);

// -- tenants

static void take_quotas(struct tenant_row *row, const struct quota_body *b)
{
    const struct {
        const struct body_int *from;
        int64_t *to;
    } pairs[] = {
        {&b->sandboxes, &row->sandboxes},
        {&b->running,   &row->running  },
        {&b->memory,    &row->memory   },
        {&b->disk,      &row->disk     },
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (pairs[i].from->given)
            *pairs[i].to = pairs[i].from->value;
    }
}

// Finds it or makes it, and changes what was given. 0 or -1.
static int put_tenant(struct call *call, const char *name, const struct quota_body *quotas,
                      struct tenant_row *ret, struct err *err)
{
    struct tenant_row row = {0};
    int found = db_tenant_get(call->api->db, name, &row, err);
    if (found < 0)
        return -1;
    if (found == 0) {
        row = (struct tenant_row){.name = strdup(name),
                                  .sandboxes = -1,
                                  .running = -1,
                                  .memory = -1,
                                  .disk = -1,
                                  .created_ms = db_now_ms()};
    }
    take_quotas(&row, quotas);
    if (db_tenant_put(call->api->db, &row, err) < 0) {
        tenant_row_done(&row);
        return -1;
    }
    fleet_tenant_changed(call->api->fleet, &row);
    *ret = row;
    return 0;
}

static void show_quota(struct json *j, const char *key, int64_t n)
{
    json_key(j, key);
    if (n < 0)
        json_put_str(j, "default");
    else
        json_put_int(j, n);
}

static void show_tenant(struct json *j, const struct tenant_row *row)
{
    show_str(j, "tenant", row->name);
    json_key(j, "quotas");
    json_open_object(j);
    show_quota(j, "sandboxes", row->sandboxes);
    show_quota(j, "running", row->running);
    show_quota(j, "memory", row->memory);
    show_quota(j, "disk", row->disk);
    json_close_object(j);
    show_time(j, "createdAt", row->created_ms);
}

static void reply_tenant(struct call *call, const struct tenant_row *row)
{
    struct buf buf;
    struct json j;
    buf_init(&buf, SHOW_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    show_tenant(&j, row);
    json_close_object(&j);
    call_reply_json(call, 200, &j);
}

static int check_name(struct call *call, const char *field, const char *name)
{
    if (sandbox_id_valid(name))
        return 0;
    call_error(call, ERROR_INVALID_REQUEST, NULL,
               "%s: must be 1 to %d letters, digits, '.', '_' and '-', with a letter or digit at "
               "both ends",
               field, EDGE_NAME_MAX);
    return -1;
}

void handle_tenant_put(struct call *call)
{
    struct err err = {0};
    struct tenant_row row = {0};
    if (check_name(call, "name", call->param[0]) < 0)
        return;
    if (put_tenant(call, call->param[0], call->body.values, &row, &err) < 0)
        call_fail(call, &err);
    else
        reply_tenant(call, &row);
    tenant_row_done(&row);
}

void handle_tenant_get(struct call *call)
{
    struct err err = {0};
    struct tenant_row row = {0};
    int found = db_tenant_get(call->api->db, call->param[0], &row, &err);
    if (found < 0)
        call_fail(call, &err);
    else if (found == 0)
        call_error(call, ERROR_NOT_FOUND, NULL, "there is no tenant '%.128s'", call->param[0]);
    else
        reply_tenant(call, &row);
    tenant_row_done(&row);
}

// -- tokens

static void show_token(struct json *j, const struct token_row *row, const char *tenant)
{
    show_str(j, "id", row->id);
    show_str(j, "name", row->name);
    show_str(j, "tenant", tenant);
    show_bool(j, "admin", row->admin);
    show_quota(j, "rate", row->rate);
    show_time(j, "createdAt", row->created_ms);
}

static void reply_token(struct call *call, const struct token_row *row, const char *tenant,
                        const char *text)
{
    struct buf buf;
    struct json j;
    buf_init(&buf, SHOW_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    show_token(&j, row, tenant);
    show_str(&j, "token", text);
    json_close_object(&j);
    call_reply_json(call, 201, &j);
}

static void add_token(struct call *call, const struct token_body *b,
                      const struct tenant_row *tenant)
{
    struct err err = {0};
    char text[TOKEN_TEXT];
    struct token_row row = {
        .tenant = tenant->number,
        .admin = b->admin.value,
        .name = strdup(b->name),
        .rate = b->rate.given ? b->rate.value : -1,
        .created_ms = db_now_ms(),
    };
    token_make_id(row.id);
    token_make(text);
    token_hash(text, row.hash);
    if (db_token_add(call->api->db, &row, &err) < 0)
        call_fail(call, &err);
    else
        reply_token(call, &row, tenant->name, text);
    sodium_memzero(text, sizeof text);
    token_row_done(&row);
}

void handle_token_create(struct call *call)
{
    struct err err = {0};
    struct tenant_row tenant = {0};
    const struct token_body *b = call->body.values;
    const char *name = b->tenant != NULL ? b->tenant : b->name;
    if (check_name(call, "name", b->name) < 0 || check_name(call, "tenant", name) < 0)
        return;
    if (strcmp(b->name, "admin") == 0)
        call_error(call, ERROR_CONFLICT, NULL, "name: 'admin' is the configured token");
    else if (put_tenant(call, name, &b->quotas, &tenant, &err) < 0)
        call_fail(call, &err);
    else
        add_token(call, b, &tenant);
    tenant_row_done(&tenant);
}

struct token_list {
    struct json *j;
    struct db *db;
};

static int see_token(void *data, const struct token_row *row)
{
    struct token_list *list = data;
    struct err ignored;
    struct tenant_row tenant = {0};
    (void)db_tenant_by_number(list->db, row->tenant, &tenant, &ignored);
    json_open_object(list->j);
    show_token(list->j, row, tenant.name);
    json_close_object(list->j);
    tenant_row_done(&tenant);
    return 0;
}

void handle_token_list(struct call *call)
{
    struct err err = {0};
    struct call_list list;
    struct token_list tokens = {.j = &list.json, .db = call->api->db};
    call_list_begin(&list, "tokens");
    call_list_end(call, &list, db_token_each(call->api->db, see_token, &tokens, &err), &err);
}

void handle_token_revoke(struct call *call)
{
    struct err err = {0};
    struct api *api = call->api;
    const char *id = call->param[0];
    if (strcmp(id, api->admin_id) == 0) {
        call_error(call, ERROR_CONFLICT, NULL,
                   "this is the configured admin token: change the configuration instead");
        return;
    }
    int found = db_token_revoke(api->db, id, &err);
    if (found < 0) {
        call_fail(call, &err);
    } else if (found == 0) {
        call_error(call, ERROR_NOT_FOUND, NULL, "there is no token '%.128s'", id);
    } else {
        auth_revoked(api, id);
        call_reply_ok(call);
    }
}
