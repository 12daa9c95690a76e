// SPDX-License-Identifier: Apache-2.0
#include "api/watch.h"

#include <string.h>

const char *watch_kind_name(uint32_t kind)
{
    static const char *const names[] = {
        [HAND_CREATED] = "create",       [HAND_MODIFIED] = "modify",  [HAND_DELETED] = "delete",
        [HAND_MOVED_FROM] = "move_from", [HAND_MOVED_TO] = "move_to", [HAND_ATTRIB] = "attrib",
    };
    return kind < sizeof names / sizeof *names ? names[kind] : NULL;
}

static void on_drain(void *data)
{
    struct call *call = data;
    struct watch_call *w = call->state;
    if (w->file.work != NULL)
        hand_long_pause(w->file.work, false);
}

// A failure before this is an answer of its own.
static void begin(struct call *call)
{
    struct watch_call *w = call->state;
    if (w->begun || call->req == NULL)
        return;
    w->begun = true;
    stream_begin_sse(call);
    http_on_drain(call->req, on_drain, call);
    w->ops->begun(call);
}

static void on_record(void *data, const struct hand_record *rec)
{
    struct call *call = data;
    struct watch_call *w = call->state;
    const struct hand_change *change = (const struct hand_change *)rec;
    if (rec->type != HAND_REC_CHANGE)
        return;
    begin(call);
    sandbox_touch(call->sandbox); // a stream that moves bytes is use
    if (change->kind >= HAND_CREATED && change->kind <= HAND_ROOT_GONE)
        w->ops->change(call, change);
    if (stream_full(call))
        hand_long_pause(w->file.work, true);
}

static void on_done(void *data, const struct hand_ended *ended, const struct err *err)
{
    struct call *call = data;
    const struct watch_call *w = call->state;
    struct err failed = {0};
    if (err == NULL && files_ended(ended, w->file.path, &failed) < 0)
        err = &failed;
    if (err == NULL && !w->begun) {
        (void)err_set(&failed, ERR_UNAVAILABLE, "the watch ended before it began");
        err = &failed;
    }
    if (!w->begun) {
        w->ops->fail(call, err);
    } else {
        w->ops->over(call, err);
        stream_end(call);
    }
    files_work_over(call);
}

static uint32_t append_globs(struct buf *data, const char *globs)
{
    size_t len = globs != NULL ? strlen(globs) : 0;
    (void)buf_append(data, globs, len);
    (void)buf_append_char(data, '\0');
    return (uint32_t)len;
}

void watch_start(struct call *call)
{
    static const struct hand_long_ops ops = {.record = on_record, .done = on_done};
    const struct watch_call *w = call->state;
    struct hand_watch head;
    auto_buf data, globs;
    buf_init(&data, HAND_DATA_MAX);
    buf_init(&globs, HAND_DATA_MAX);
    head.include_len = append_globs(&globs, w->include);
    head.exclude_len = append_globs(&globs, w->exclude);
    (void)buf_append(&data, &head, sizeof head);
    (void)buf_append(&data, globs.data, globs.len);
    const struct hand_ask ask = {
        .type = HAND_WATCH,
        .path = w->file.path,
        .flags = w->recursive ? HAND_RECURSIVE : 0u,
        .data = data.data,
        .data_len = data.len,
    };
    files_work(call, &ask, &ops);
}
