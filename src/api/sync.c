// SPDX-License-Identifier: Apache-2.0
// The workspace to the store: asking for it, with or without being told how far it is, and how the
// last one went. A sync goes on when its client leaves.
#include <stdlib.h>

#include "api/call.h"
#include "api/handlers.h"
#include "api/schemas.h"
#include "api/show.h"
#include "saved/sync-options.h"

struct sync_body {
    struct body_strings include, exclude;
    struct body_bool gitignore, stream;
};

#define AT(member) offsetof(struct sync_body, member)
static const struct field sync_fields[] = {
    FIELD("include", FIELD_STRINGS, AT(include), .max = SYNC_PATTERNS_MAX,
          .help = "Only what one of these patterns names, as lines of a .gitignore do"),
    FIELD("exclude", FIELD_STRINGS, AT(exclude), .max = SYNC_PATTERNS_MAX,
          .help = "Not what one of these names. Without include, exclude and gitignore: as the "
                  "last time"),
    FIELD("gitignore", FIELD_BOOL, AT(gitignore), .help = "Nor what the .gitignore files name"),
    FIELD("stream", FIELD_BOOL, AT(stream),
          .help = "Answer with events, as with Accept: text/event-stream"),
};
const struct schema sync_schema = SCHEMA("Sync", struct sync_body, sync_fields);

struct sync_call {
    struct syncing *syncing;
    bool stream;
};

// -- answers

static void begin(struct buf *buf, struct json *j)
{
    buf_init(buf, SHOW_MAX);
    json_init(j, buf);
    json_open_object(j);
}

static void show_done(struct json *j, const struct sync_row *row)
{
    show_int(j, "files", row->files);
    show_int(j, "bytes", row->bytes);
    show_int(j, "put", row->put);
    show_int(j, "putBytes", row->put_bytes);
    show_int(j, "deleted", row->deleted);
    show_int(j, "durationMs", row->ended_ms - row->started_ms);
    if (row->error != NULL)
        show_str(j, "warning", row->error);
}

static const char *state_name(enum sync_state state)
{
    switch (state) {
    case SYNC_NEVER:
        return "never";
    case SYNC_RUNNING:
        return "running";
    case SYNC_DONE:
        return "done";
    case SYNC_FAILED:
        return "failed";
    case SYNC_RESTORING:
        return "restoring";
    }
    return "unknown";
}

// -- POST

static void fail(struct call *call, const struct err *err)
{
    const struct sync_call *s = call->state;
    struct buf buf;
    struct json j;
    if (!s->stream) {
        call_fail(call, err);
        return;
    }
    begin(&buf, &j);
    show_str(&j, "error", err->msg);
    show_str(&j, "error_code", error_name(error_of_err(err)));
    json_close_object(&j);
    stream_event(call, NULL, "error", &j);
    stream_end(call);
}

static void reply(struct call *call, const struct sync_row *row)
{
    const struct sync_call *s = call->state;
    struct buf buf;
    struct json j;
    begin(&buf, &j);
    show_bool(&j, "success", true);
    show_done(&j, row);
    json_close_object(&j);
    if (!s->stream) {
        call_reply_json(call, 200, &j);
        return;
    }
    stream_event(call, NULL, "done", &j);
    stream_end(call);
}

static void on_done(void *data, const struct sync_row *row, const struct err *err)
{
    struct call *call = data;
    struct sync_call *s = call->state;
    s->syncing = NULL;
    call->stop = NULL;
    if (call->req == NULL)
        ; // nobody waits
    else if (err != NULL)
        fail(call, err);
    else
        reply(call, row);
    call_unref(call);
}

static void on_progress(void *data, const struct sync_progress *p)
{
    struct call *call = data;
    struct buf buf;
    struct json j;
    if (call->req == NULL || stream_full(call))
        return; // the next one says more
    begin(&buf, &j);
    show_int(&j, "seen", (int64_t)p->seen);
    show_int(&j, "bytes", (int64_t)p->bytes);
    show_int(&j, "put", (int64_t)p->put);
    show_int(&j, "putBytes", (int64_t)p->put_bytes);
    show_int(&j, "deleted", (int64_t)p->deleted);
    json_close_object(&j);
    stream_event(call, NULL, "progress", &j);
}

static void stop(struct call *call)
{
    struct sync_call *s = call->state;
    struct syncing *syncing = s->syncing;
    s->syncing = NULL;
    if (syncing == NULL)
        return;
    sync_leave(syncing);
    call_unref(call);
}

void handle_sync(struct call *call)
{
    const struct sync_body *b = call->body.values;
    const struct sync_options options = {
        .include = b->include.items,
        .exclude = b->exclude.items,
        .gitignore = b->gitignore.value,
    };
    bool given = b->include.items != NULL || b->exclude.items != NULL || b->gitignore.given;
    struct sync_call *s = calloc(1, sizeof *s);
    struct err err = {0};
    char *text = NULL;
    if (s == NULL)
        abort();
    call->state = s;
    // What makes no sense is told with its own status, before a stream begins.
    if (sandbox_has_disk(call->sandbox, &err) < 0 ||
        (given && sync_options_write(&options, &text, &err) < 0)) {
        call_fail(call, &err);
        return;
    }
    free(text);
    s->stream = b->stream.value || call_accepts(call, "text/event-stream");
    if (s->stream)
        stream_begin_sse(call);
    call->stop = stop;
    (void)call_ref(call); // on_done's
    struct call *held = call_ref(call);
    struct syncing *syncing = sync_start(call->api->saved, call->sandbox, given ? &options : NULL,
                                         s->stream ? on_progress : NULL, on_done, call);
    s->syncing = syncing;
    call_unref(held);
}

// -- GET

static void reply_state(struct call *call, const struct sync_row *row)
{
    struct buf buf;
    struct json j;
    bool failed = row->state == SYNC_FAILED;
    begin(&buf, &j);
    show_bool(&j, "success", true);
    show_str(&j, "state", state_name(row->state));
    show_time(&j, "syncedAt", row->synced_ms);
    show_time(&j, "startedAt", row->started_ms);
    show_int(&j, "files", row->files);
    show_int(&j, "bytes", row->bytes);
    show_raw(&j, "options", row->options != NULL ? row->options : "{}");
    if (failed)
        show_str(&j, "error", row->error);
    else if (row->error != NULL)
        show_str(&j, "warning", row->error);
    if (failed && row->again_ms > 0)
        show_time(&j, "retryAt", row->again_ms);
    json_close_object(&j);
    call_reply_json(call, 200, &j);
}

// What is stored outlives the sandbox, and so does the answer.
void handle_sync_get(struct call *call)
{
    struct err err = {0}, ignored;
    struct sync_row row = {0};
    int r = db_sync_get(call->api->db, call->tenant, call->param[0], &row, &err);
    if (r < 0)
        call_fail(call, &err);
    else if (r == 0 && fleet_find(call->api->fleet, call->tenant, call->param[0], &ignored) == NULL)
        call_error(call, ERROR_NOT_FOUND, NULL,
                   "there is no sandbox '%.128s', and nothing is stored of one", call->param[0]);
    else
        reply_state(call, &row);
    sync_row_done(&row);
}
