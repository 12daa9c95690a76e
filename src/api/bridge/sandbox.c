// SPDX-License-Identifier: Apache-2.0
// Sandboxes themselves: an id for a new one, whether one is there, and its end. The one that an id
// is for is made by the first route that uses it (family.h).
#include <sodium.h>
#include <string.h>

#include "api/bridge/bridge.h"
#include "api/show.h"

// -- a new id

enum {
    RANDOM = 16,
    ID_LEN = 26, // of so many bytes, five bits a letter
};

struct create_body {
    const char *mounts;
};
// Their client sends what its caller has set for itself, too: timeouts and ports, which concern it
// alone.
static const struct field create_fields[] = {
    FIELD("mounts", FIELD_JSON, offsetof(struct create_body, mounts),
          .help = "Buckets: not here, so that only an empty list is taken"),
};
static const struct schema create_body =
    SCHEMA("BridgeCreate", struct create_body, create_fields, .lenient = true);

static void make_id(char ret[ID_LEN + 1])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
    uint8_t bytes[RANDOM + 1] = {0}; // one more than there is, for the last letter
    randombytes_buf(bytes, RANDOM);
    for (size_t i = 0; i < ID_LEN; i++) {
        size_t at = i * 5 / 8, shift = i * 5 % 8;
        unsigned two = (unsigned)bytes[at] << 8 | bytes[at + 1];
        ret[i] = letters[two >> (11 - shift) & 31];
    }
    ret[ID_LEN] = '\0';
}

static void handle_create(struct call *call)
{
    struct buf buf;
    struct json j;
    char id[ID_LEN + 1];
    const struct create_body *b = call->body.values;
    if (b->mounts != NULL && strcmp(b->mounts, "[]") != 0) {
        bridge_fail(call, 501, "mount_error",
                    "mounts: Cay mounts no buckets; copy what is needed with PUT "
                    "/v1/sandbox/{id}/file/{path} or POST /v1/sandbox/{id}/hydrate");
        return;
    }
    make_id(id);
    buf_init(&buf, 256);
    json_init(&j, &buf);
    json_open_object(&j);
    show_str(&j, "id", id);
    json_close_object(&j);
    call_reply_json(call, 200, &j);
}

// -- whether it is there

// What their clients ask this for is whether to go on with it, and that they can with one that
// sleeps, too: it has its files, and any use wakes it. One that would have lost them is none.
static bool can_go_on(const struct sandbox_row *row)
{
    return row->status == SANDBOX_RUNNING || (row->status == SANDBOX_SLEEPING && !row->ephemeral);
}

static const char *state_of(const struct sandbox_row *row)
{
    switch (row->status) {
    case SANDBOX_RUNNING:
        return "running";
    case SANDBOX_SLEEPING:
        return row->archive != NULL ? "archived" : "sleeping";
    case SANDBOX_MAKING:
        return "making";
    case SANDBOX_DESTROYING:
        break;
    }
    return "destroying";
}

static void handle_running(struct call *call)
{
    struct err err = {0};
    struct buf buf;
    struct json j;
    struct sandbox *s = fleet_find(call->api->fleet, call->tenant, call->param[0], &err);
    if (s == NULL && err.code != ERR_NOT_FOUND) {
        call_fail(call, &err);
        return;
    }
    buf_init(&buf, 256);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "running", s != NULL && can_go_on(sandbox_row(s)));
    show_str(&j, "state", s != NULL ? state_of(sandbox_row(s)) : "none");
    json_close_object(&j);
    call_reply_json(call, 200, &j);
}

// -- its end

static void reply_gone(struct call *call)
{
    struct buf none;
    buf_init(&none, 0);
    call_reply(call, 204, NULL, &none);
}

static void on_destroyed(void *data, struct sandbox *s, bool created, const struct err *err)
{
    (void)s;
    (void)created;
    call_go_on(data, err, reply_gone);
}

static void handle_delete(struct call *call)
{
    struct err err = {0};
    struct sandbox *s = fleet_find(call->api->fleet, call->tenant, call->param[0], &err);
    if (s != NULL) {
        call->sandbox = sandbox_ref(s);
        sandbox_destroy(s, on_destroyed, call_ref(call));
    } else if (err.code == ERR_NOT_FOUND)
        reply_gone(call);
    else
        call_fail(call, &err);
}

const struct route bridge_sandbox[] = {
    BRIDGE_ROUTE(HTTP_POST, "/sandbox", 200, handle_create, .body = &create_body,
                 .name = "createSandbox",
                 .summary = "An id for a new sandbox, which is made when it is first used",
                 .answer = "The id", .shape = &bridge_id_shape),
    BRIDGE_ROUTE(HTTP_GET, "/sandbox/{id}/running", 200, handle_running, .name = "isSandboxRunning",
                 .summary = "Whether it is there to go on with. Does not wake it",
                 .answer = "true: it runs, or sleeps and has its files; `state` says which",
                 .shape = &bridge_running_shape),
    BRIDGE_ROUTE(HTTP_DELETE, "/sandbox/{id}", 204, handle_delete, .name = "deleteSandbox",
                 .summary = "Destroy it, with all it has",
                 .answer = "It is gone, or was not there"),
};
const size_t n_bridge_sandbox = sizeof bridge_sandbox / sizeof *bridge_sandbox;
