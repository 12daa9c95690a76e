// SPDX-License-Identifier: Apache-2.0
// What a kernel says, and what it is told before its first cell. Each frame is checked: one that
// should not come, or is not what it should be, is the end of the kernel.
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "sandbox/exec.h"
#include "sandbox/kernel-json.h"
#include "sandbox/kernel-link-internal.h"

enum { ACKS_MAX = 1000 }; // that wait to be read: an honest kernel has one

void kernel_hear_broke(struct kernel_link *link, const char *what)
{
    struct context_death death = {.end = END_KILLED, .detail = "protocol", .reason = "protocol"};
    log_line(LOG_WARN, "a kernel breaks the protocol, killing it", "sandbox", link->c->s->row.id,
             "context", link->c->row.id, "what", what, NULL);
    (void)err_set(&death.err, ERR_UNAVAILABLE,
                  "the interpreter broke its protocol (%s) and was killed; its state is lost",
                  what);
    if (link->is_open)
        context_die(link->c, &death);
    else if (link->is_ordinary)
        context_failed(link->c, &death.err);
    else
        kernel_link_begin_ordinary(link);
}

static int put_strings(struct buf *payload, const struct context *c, struct err *err)
{
    char **env = exec_env(c->s, c->row.env, KERNEL_UID, err);
    if (env == NULL)
        return -1;
    (void)buf_append(payload, c->language->name, strlen(c->language->name) + 1);
    (void)buf_append(payload, c->row.cwd, strlen(c->row.cwd) + 1);
    for (size_t i = 0; env[i] != NULL; i++)
        (void)buf_append(payload, env[i], strlen(env[i]) + 1);
    exec_env_free(env);
    return payload->failed == 0 ? 0 : err_set(err, ERR_INVALID, "the environment is too large");
}

static int put_open(struct kernel_link *link, struct err *err)
{
    auto_buf payload;
    buf_init(&payload, FRAME_TO_MAX);
    if (put_strings(&payload, link->c, err) < 0)
        return -1;
    (void)frame_put(&link->outgoing, "open", 0, payload.data, payload.len);
    return 0;
}

static int put_tool(struct kernel_link *link, struct err *err)
{
    struct kernel_source tool = kernel_typescript_tool();
    if (tool.len == 0)
        return err_set(err, ERR_UNSUPPORTED,
                       "the image's node does not strip types, and this build of Cay has no tool "
                       "that does: use an image with node 22.6 or later, or javascript");
    (void)frame_put(&link->outgoing, "tool", 0, tool.bytes, tool.len);
    return 0;
}

bool kernel_hear_waits(const struct kernel_link *link)
{
    return strcmp(link->c->language->name, "typescript") == 0 && !link->is_ready;
}

// Everything that can be said now goes out in one write, the first cell too.
int kernel_hear_open(struct kernel_link *link, bool with_tool, struct err *err)
{
    if ((with_tool && put_tool(link, err) < 0) || put_open(link, err) < 0)
        return -1;
    link->is_asked = true;
    context_send_first(link->c);
    kernel_link_flush(link);
    return 0;
}

static const char *on_ready(struct kernel_link *link, struct frame *frame)
{
    struct kernel_object object;
    struct err err = {0};
    if (link->is_ready || link->is_open ||
        kernel_json_scan(frame->bytes, frame->len, &object) != KERNEL_JSON_OK)
        return "ready";
    bool waits = kernel_hear_waits(link);
    link->is_ready = true;
    if (waits && kernel_hear_open(link, !kernel_json_bool(&object, "stripsTypes"), &err) < 0)
        context_failed(link->c, &err);
    return NULL;
}

static const char *on_opened(struct kernel_link *link, struct frame *frame)
{
    struct kernel_object object;
    if (!link->is_asked || link->is_open ||
        kernel_json_scan(frame->bytes, frame->len, &object) != KERNEL_JSON_OK)
        return "opened";
    link->is_open = true;
    kernel_link_set_deadline(link, 0);
    context_on_opened(link->c);
    return NULL;
}

static const char *on_refused(struct kernel_link *link, struct frame *frame)
{
    struct kernel_object object;
    struct err err = {0};
    char message[160];
    if (!link->is_asked || link->is_open ||
        kernel_json_scan(frame->bytes, frame->len, &object) != KERNEL_JSON_OK)
        return "failed";
    kernel_json_text(&object, "message", message, sizeof message);
    if (frame->type[0] == 'u' && !link->is_ordinary) {
        log_line(LOG_DEBUG, "a fork does not fit its box, starting a kernel", "sandbox",
                 link->c->s->row.id, "why", message, NULL);
        kernel_link_begin_ordinary(link);
        return NULL;
    }
    if (kernel_json_bool(&object, "missing"))
        (void)language_missing(link->c->language, link->c->s, &err);
    else
        (void)err_set(&err, ERR_INVALID, "%s",
                      message[0] != '\0' ? message : "it cannot be opened");
    context_failed(link->c, &err);
    return NULL;
}

static const char *on_cell_frame(struct kernel_link *link, struct frame *frame)
{
    struct context *c = link->c;
    bool is_display = frame->type[0] == 'd' && frame->type[1] == 'i';
    uint32_t cell = frame->cell;
    if (!link->is_open)
        return "not open";
    bool is_ours = c->current != NULL && c->current->number == cell;
    if (is_ours && cell_on_frame(c, frame) < 0)
        return frame->type;
    if (!is_ours && c->current != NULL && c->current->is_rest && strcmp(frame->type, "done") == 0)
        cell_on_rest_over(c); // it was another
    // Also one that nobody knows: a daemon before us may have begun it, and it waits.
    if (is_display && link->c != NULL) {
        if (++link->acks > ACKS_MAX)
            return "displays without waiting";
        (void)frame_put(&link->outgoing, "ack", cell, "", 0);
        kernel_link_flush(link);
    }
    return NULL;
}

static const char *on_pong(struct kernel_link *link, struct frame *frame)
{
    struct context *c = link->c;
    if (!link->is_open)
        return "pong";
    if (c->current != NULL && c->current->is_rest && frame->cell == context_ping(c))
        cell_on_rest_over(c);
    return NULL;
}

// Each answers NULL, or what is wrong. Afterwards the context may be gone.
static const struct {
    const char *type;
    const char *(*fn)(struct kernel_link *link, struct frame *frame);
} frames[] = {
    {"ready",   on_ready     },
    {"opened",  on_opened    },
    {"failed",  on_refused   },
    {"unfit",   on_refused   },
    {"display", on_cell_frame},
    {"result",  on_cell_frame},
    {"error",   on_cell_frame},
    {"done",    on_cell_frame},
    {"pong",    on_pong      },
};

static void take_frame(struct kernel_link *link, struct frame *frame)
{
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        if (strcmp(frames[i].type, frame->type) != 0)
            continue;
        const char *wrong = frames[i].fn(link, frame);
        if (wrong != NULL && link->c != NULL)
            kernel_hear_broke(link, wrong);
        return;
    }
    kernel_hear_broke(link, "a frame of no known type");
}

void kernel_hear_frames(struct kernel_link *link)
{
    struct frame frame;
    int r = 0;
    while (link->c != NULL && (r = frame_reader_next(&link->reader, &frame)) > 0)
        take_frame(link, &frame);
    if (link->c != NULL && r < 0)
        kernel_hear_broke(link, "no frame");
}
