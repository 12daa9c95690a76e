// SPDX-License-Identifier: Apache-2.0
// Snapshots of a sandbox, going back to one, and forks.
#include "api/call.h"
#include "api/handlers.h"
#include "api/schemas.h"
#include "api/show.h"
#include "sandbox/snapshot.h"

enum { SNAPSHOT_NAME_MAX = 128, SNAPSHOT_ID_MAX = 40 };

struct snapshot_body {
    const char *name;
};
static const struct field snapshot_fields[] = {
    FIELD("name", FIELD_STRING, offsetof(struct snapshot_body, name), .max = SNAPSHOT_NAME_MAX,
          .help = "The caller's own name for it"),
};
const struct schema snapshot_schema = SCHEMA("MakeSnapshot", struct snapshot_body, snapshot_fields);

struct rollback_body {
    const char *snapshot;
};
static const struct field rollback_fields[] = {
    FIELD("snapshot", FIELD_STRING, offsetof(struct rollback_body, snapshot), .required = true,
          .max = SNAPSHOT_ID_MAX, .help = "The id of one of its snapshots"),
};
const struct schema rollback_schema = SCHEMA("Rollback", struct rollback_body, rollback_fields);

struct fork_body {
    const char *id, *snapshot;
    struct body_int count;
};
static const struct field fork_fields[] = {
    FIELD("id", FIELD_STRING, offsetof(struct fork_body, id), .max = EDGE_NAME_MAX,
          .help = "Of the child; of several: id-1, id-2 and so on. Made up if not given"),
    FIELD("count", FIELD_INT, offsetof(struct fork_body, count), .min = 1, .max = FORKS_MAX,
          .help = "How many; 1 if not given. All of them are made, or none"),
    FIELD("snapshot", FIELD_STRING, offsetof(struct fork_body, snapshot), .max = SNAPSHOT_ID_MAX,
          .help = "The id of one of its snapshots; as it is now if not given"),
};
const struct schema fork_schema = SCHEMA("Fork", struct fork_body, fork_fields);

// -- snapshots

static void show_snapshot(struct json *j, const struct snapshot_row *row)
{
    show_str(j, "id", row->id);
    show_str(j, "name", row->name);
    show_int(j, "bytes", row->bytes);
    show_time(j, "createdAt", row->created_ms);
}

static void on_made(void *data, const struct snapshot_row *row, const struct err *err)
{
    struct call *call = data;
    struct buf buf;
    struct json j;
    if (row == NULL) {
        call_fail(call, err);
    } else {
        buf_init(&buf, SHOW_MAX);
        json_init(&j, &buf);
        json_open_object(&j);
        show_bool(&j, "success", true);
        show_str(&j, "sandboxId", call->param[0]);
        show_snapshot(&j, row);
        json_close_object(&j);
        call_reply_json(call, 201, &j);
    }
    call_unref(call);
}

void handle_snapshot_make(struct call *call)
{
    const struct snapshot_body *b = call->body.values;
    snapshot_make(call->sandbox, b->name, on_made, call_ref(call));
}

static int see_snapshot(void *data, const struct snapshot_row *row)
{
    struct json *j = data;
    json_open_object(j);
    show_snapshot(j, row);
    json_close_object(j);
    return 0;
}

void handle_snapshot_list(struct call *call)
{
    struct err err = {0};
    struct call_list list;
    call_list_begin(&list, "snapshots");
    call_list_end(call, &list, snapshot_each(call->sandbox, see_snapshot, &list.json, &err), &err);
}

static void on_deleted(void *data, const struct err *err)
{
    struct call *call = data;
    if (err != NULL)
        call_fail(call, err);
    else
        call_reply_ok(call);
    call_unref(call);
}

void handle_snapshot_delete(struct call *call)
{
    snapshot_delete(call->sandbox, call->param[1], on_deleted, call_ref(call));
}

// -- going back

static void on_rolled_back(void *data, const struct err *err)
{
    struct call *call = data;
    struct buf buf;
    struct json j;
    if (err != NULL) {
        call_fail(call, err);
    } else {
        buf_init(&buf, SHOW_MAX);
        json_init(&j, &buf);
        json_open_object(&j);
        show_bool(&j, "success", true);
        show_str(&j, "sandboxId", call->param[0]);
        show_str(&j, "snapshot", ((const struct rollback_body *)call->body.values)->snapshot);
        json_close_object(&j);
        call_reply_json(call, 200, &j);
    }
    call_unref(call);
}

void handle_rollback(struct call *call)
{
    const struct rollback_body *b = call->body.values;
    snapshot_roll_back(call->sandbox, b->snapshot, on_rolled_back, call_ref(call));
}

// -- forks

static void show_child(struct json *j, struct sandbox *child, bool is_short)
{
    const struct sandbox_row *row = sandbox_row(child);
    json_open_object(j);
    show_str(j, "sandboxId", row->id);
    if (is_short) { // what they are given is the same for all
        show_str(j, "slug", row->slug);
        show_str(j, "status", show_status(row->status));
    } else {
        show_sandbox(j, row);
    }
    json_close_object(j);
}

static void on_forked(void *data, struct sandbox *const *children, unsigned n,
                      const struct err *err)
{
    enum { SHORT_ABOVE = 16 };
    struct call *call = data;
    struct buf buf;
    struct json j;
    if (err != NULL) {
        call_fail(call, err);
        call_unref(call);
        return;
    }
    bool is_short = n > SHORT_ABOVE;
    buf_init(&buf, SHOW_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    show_int(&j, "count", n);
    json_key(&j, "sandboxes");
    json_open_array(&j);
    for (unsigned i = 0; i < n; i++)
        show_child(&j, children[i], is_short);
    json_close_array(&j);
    json_close_object(&j);
    call_reply_json(call, 201, &j);
    call_unref(call);
}

void handle_fork(struct call *call)
{
    const struct fork_body *b = call->body.values;
    struct fork_request request = {
        .id = b->id,
        .snapshot = b->snapshot,
        .count = b->count.given ? (unsigned)b->count.value : 1,
    };
    fleet_fork(call->sandbox, &request, on_forked, call_ref(call));
}
