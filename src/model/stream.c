// SPDX-License-Identifier: Apache-2.0
#include "model/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/block.h"
#include "model/sse.h"
#include "model/usage.h"

// What a block costs beside its bytes, so that empty ones are bounded as well.
enum { BLOCK_COST = 512, BYTES_A_TOKEN = 4 };
// Whoever answers may be a stranger: he neither goes on for ever, nor has us look for each of very
// many names among very many others.
enum {
    FED_MAX = 2 * MESSAGE_MAX,
    USAGE_JSON_MAX = 4096,
    USAGE_MEMBERS_MAX = 32,
    USAGE_TOLD_MAX = 256,
};

struct stream {
    stream_event_fn event;
    void *data;
    enum stream_state state;
    struct api_error error;
    struct sse sse;
    struct buf line; // the data of the event that is arriving
    bool has_begun;
    char *id, *model, *stop_reason, *stop_details;
    struct block *blocks;
    size_t n_blocks, cap_blocks;
    size_t fed;    // bytes that came
    size_t held;   // bytes of blocks
    size_t values; // in them, about
    struct usage_told usage;
    struct buf usage_json;
    unsigned usage_n; // how often it was told
};

// One event, in both forms.
struct event {
    const struct json_node *root;
    struct raw raw;
    unsigned index;
};

static void fail(struct stream *stream, enum stream_state state, const char *why)
{
    stream->state = state;
    (void)snprintf(stream->error.message, sizeof stream->error.message, "%s", why);
}

static void replace(char **text, const struct json_node *node)
{
    if (!json_is(node, JSON_NODE_STRING) || node->text_len > MESSAGE_NAME_MAX)
        return;
    free(*text);
    *text = message_text(node, "");
}

// --- usage: members that are told again take the place of the earlier ones

static bool is_told(struct raw value)
{
    return value.at != NULL && !raw_is(value, "null");
}

static void write_member(struct buf *out, struct raw key, struct raw value)
{
    if (out->len > 1)
        (void)buf_append_char(out, ',');
    (void)buf_append(out, key.at, key.len);
    (void)buf_append_char(out, ':');
    (void)buf_append(out, value.at, value.len);
}

static struct raw raw_same(struct raw object, struct raw key)
{
    struct raw rest = object, name, value, found = {0};
    while (object.len > 0 && raw_next(&rest, &name, &value))
        if (name.len == key.len && memcmp(name.at, key.at, key.len) == 0)
            found = value;
    return found;
}

static size_t count_members(struct raw object)
{
    struct raw rest = object, key, value;
    size_t n = 0;
    while (rest.len > 0 && n <= USAGE_MEMBERS_MAX && raw_next(&rest, &key, &value))
        n++;
    return n;
}

static void merge_usage(struct stream *stream, struct raw later)
{
    const struct raw earlier = {stream->usage_json.data, stream->usage_json.len};
    struct raw rest = earlier, key, value;
    struct buf out;
    buf_init(&out, USAGE_JSON_MAX);
    (void)buf_append_char(&out, '{');
    while (rest.len > 0 && raw_next(&rest, &key, &value)) {
        struct raw now = raw_same(later, key);
        write_member(&out, key, is_told(now) ? now : value);
    }
    rest = later;
    while (raw_next(&rest, &key, &value))
        if (raw_same(earlier, key).at == NULL)
            write_member(&out, key, value);
    (void)buf_append_char(&out, '}');
    if (out.failed != 0 || count_members((struct raw){out.data, out.len}) > USAGE_MEMBERS_MAX) {
        buf_done(&out);
        return;
    }
    buf_done(&stream->usage_json);
    stream->usage_json = out;
}

static void tell_usage(struct stream *stream, const struct json_node *node, struct raw raw)
{
    if (!json_is(node, JSON_NODE_OBJECT))
        return;
    usage_told_read(&stream->usage, node);
    // Nonsense of any length is not kept.
    if (stream->usage_n++ < USAGE_TOLD_MAX && raw.len <= USAGE_JSON_MAX &&
        count_members(raw) <= USAGE_MEMBERS_MAX)
        merge_usage(stream, raw);
}

// --- events

static void tell_text(struct stream *stream, unsigned index, const struct json_node *text)
{
    const struct model_event event = {
        .type = MODEL_TEXT,
        .text = json_is(text, JSON_NODE_STRING) ? text->text : "",
        .len = json_is(text, JSON_NODE_STRING) ? text->text_len : 0,
        .index = index,
    };
    if (event.len > 0 && stream->event != NULL && !stream->event(stream->data, &event))
        stream->state = STREAM_HALTED;
}

static void on_message_start(struct stream *stream, const struct event *event)
{
    const struct json_node *message = json_get(event->root, "message");
    struct raw raw = raw_get(event->raw, "message");
    if (stream->has_begun || !json_is(message, JSON_NODE_OBJECT)) {
        fail(stream, STREAM_BROKEN, "a message began that should not");
        return;
    }
    stream->has_begun = true;
    replace(&stream->id, json_get(message, "id"));
    replace(&stream->model, json_get(message, "model"));
    replace(&stream->stop_reason, json_get(message, "stop_reason"));
    tell_usage(stream, json_get(message, "usage"), raw_get(raw, "usage"));
}

static bool hold(struct stream *stream, size_t len)
{
    stream->held += len;
    if (stream->held <= MESSAGE_MAX)
        return true;
    fail(stream, STREAM_LARGE, "the message is longer than 32 MiB");
    return false;
}

// Small as they are, what is made of very many values would be large.
static bool hold_values(struct stream *stream, struct raw raw)
{
    stream->values += raw_count(raw);
    if (stream->values <= RAW_VALUES_MAX)
        return true;
    fail(stream, STREAM_LARGE, "the message has too many values");
    return false;
}

static struct block *new_block(struct stream *stream)
{
    if (stream->n_blocks == stream->cap_blocks) {
        size_t cap = stream->cap_blocks > 0 ? 2 * stream->cap_blocks : 4;
        struct block *blocks = reallocarray(stream->blocks, cap, sizeof *blocks);
        if (blocks == NULL)
            abort();
        stream->blocks = blocks;
        stream->cap_blocks = cap;
    }
    return &stream->blocks[stream->n_blocks++];
}

static void on_block_start(struct stream *stream, const struct event *event)
{
    const struct json_node *block = json_get(event->root, "content_block");
    struct raw raw = raw_get(event->raw, "content_block");
    if (!stream->has_begun || !json_is(block, JSON_NODE_OBJECT) || raw.at == NULL ||
        event->index != stream->n_blocks) {
        fail(stream, STREAM_BROKEN, "a block began that should not");
        return;
    }
    if (!hold(stream, raw.len + BLOCK_COST) || !hold_values(stream, raw))
        return;
    if (block_init(new_block(stream), raw) < 0)
        fail(stream, STREAM_LARGE, "there is no memory for the message");
    else
        tell_text(stream, event->index, json_get(block, "text"));
}

static struct block *open_block(struct stream *stream, const struct event *event)
{
    if (event->index < stream->n_blocks && !stream->blocks[event->index].ended)
        return &stream->blocks[event->index];
    fail(stream, STREAM_BROKEN, "a piece came of a block that is not open");
    return NULL;
}

static void on_block_delta(struct stream *stream, const struct event *event)
{
    const struct json_node *delta = json_get(event->root, "delta");
    const char *type = json_text(json_get(delta, "type"));
    struct raw raw = raw_get(event->raw, "delta");
    enum block_part part = type != NULL ? block_part_of(type) : BLOCK_PART_MAX;
    if (part == BLOCK_PART_MAX) // of a kind that is not known, wherever it comes
        return;
    struct block *block = open_block(stream, event);
    if (block == NULL || !hold(stream, raw.len) ||
        (part == BLOCK_CITATIONS && !hold_values(stream, raw)))
        return;
    int r = block_add(block, part, raw, delta);
    if (r == -EINVAL)
        fail(stream, STREAM_BROKEN, "a piece of a block has nothing in it");
    else if (r < 0)
        fail(stream, STREAM_LARGE, "there is no memory for the message");
    else if (part == BLOCK_TEXT)
        tell_text(stream, event->index, json_get(delta, "text"));
}

static void on_block_stop(struct stream *stream, const struct event *event)
{
    struct block *block = open_block(stream, event);
    if (block != NULL)
        block->ended = true;
}

static void on_message_delta(struct stream *stream, const struct event *event)
{
    const struct json_node *delta = json_get(event->root, "delta");
    struct raw details = raw_get(raw_get(event->raw, "delta"), "stop_details");
    replace(&stream->stop_reason, json_get(delta, "stop_reason"));
    if (details.at != NULL && hold(stream, details.len)) {
        free(stream->stop_details);
        stream->stop_details = message_copy(details, "null");
    }
    tell_usage(stream, json_get(event->root, "usage"), raw_get(event->raw, "usage"));
}

static void on_message_stop(struct stream *stream, const struct event *event)
{
    (void)event;
    if (stream->has_begun)
        stream->state = STREAM_WHOLE;
    else
        fail(stream, STREAM_BROKEN, "a message ended that had not begun");
}

static void on_error(struct stream *stream, const struct event *event)
{
    stream->state = STREAM_ERROR;
    (void)api_error_get(event->root, &stream->error);
}

static const struct {
    const char *type;
    void (*fn)(struct stream *stream, const struct event *event);
} handlers[] = {
    {"message_start",       on_message_start},
    {"content_block_start", on_block_start  },
    {"content_block_delta", on_block_delta  },
    {"content_block_stop",  on_block_stop   },
    {"message_delta",       on_message_delta},
    {"message_stop",        on_message_stop },
    {"error",               on_error        },
};

// Others hear of an event before what it means is told. Errors are for whoever asks again.
static void tell_raw(struct stream *stream, const struct event *event, const char *type)
{
    const struct model_event raw = {
        .type = MODEL_RAW,
        .text = event->raw.at,
        .len = event->raw.len,
        .index = event->index,
    };
    if (stream->event != NULL && strcmp(type, "error") != 0 && !stream->event(stream->data, &raw))
        stream->state = STREAM_HALTED;
}

static void take_event(struct stream *stream, const struct event *event)
{
    const char *type = json_text(json_get(event->root, "type"));
    if (type == NULL)
        return;
    tell_raw(stream, event, type);
    for (size_t i = 0; stream->state == STREAM_OPEN && i < sizeof handlers / sizeof *handlers; i++)
        if (strcmp(type, handlers[i].type) == 0)
            handlers[i].fn(stream, event);
}

static bool on_event_end(void *data)
{
    struct stream *stream = data;
    auto_json_doc *doc = NULL;
    struct err err = {0};
    if (stream->line.len == 0)
        return true;
    if (raw_read((struct raw){stream->line.data, stream->line.len}, &doc, &err) < 0) {
        fail(stream, STREAM_BROKEN, "an event of the stream is not JSON");
    } else {
        const struct json_node *root = json_root(doc);
        int64_t index = json_int(json_get(root, "index"), 0);
        const struct event event = {
            .root = root,
            .raw = {stream->line.data, stream->line.len},
            .index = index >= 0 && index < UINT32_MAX ? (unsigned)index : UINT32_MAX,
        };
        take_event(stream, &event);
    }
    buf_reset(&stream->line);
    return stream->state == STREAM_OPEN;
}

static bool on_piece(void *data, const char *bytes, size_t len)
{
    struct stream *stream = data;
    if (buf_append(&stream->line, bytes, len) == 0)
        return true;
    fail(stream, STREAM_LARGE, "an event of the stream is longer than 32 MiB");
    return false;
}

struct stream *stream_new(stream_event_fn event, void *data)
{
    struct stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL)
        abort();
    stream->event = event;
    stream->data = data;
    sse_init(&stream->sse, on_piece, on_event_end, stream);
    buf_init(&stream->line, MESSAGE_MAX);
    buf_init(&stream->usage_json, USAGE_JSON_MAX);
    return stream;
}

void stream_free(struct stream *stream)
{
    if (stream == NULL)
        return;
    for (size_t i = 0; i < stream->n_blocks; i++)
        block_done(&stream->blocks[i]);
    free(stream->blocks);
    buf_done(&stream->line);
    buf_done(&stream->usage_json);
    free(stream->id);
    free(stream->model);
    free(stream->stop_reason);
    free(stream->stop_details);
    free(stream);
}

enum stream_state stream_feed(struct stream *stream, const char *bytes, size_t len)
{
    stream->fed += len;
    if (stream->state == STREAM_OPEN && stream->fed > FED_MAX)
        fail(stream, STREAM_LARGE, "the API's answer does not come to an end");
    if (stream->state == STREAM_OPEN)
        (void)sse_feed(&stream->sse, bytes, len);
    return stream->state;
}

enum stream_state stream_state(const struct stream *stream)
{
    return stream->state;
}

void stream_usage(const struct stream *stream, struct model_usage *ret)
{
    int64_t text = 0;
    usage_told_sum(&stream->usage, ret);
    for (size_t i = 0; i < stream->n_blocks; i++)
        for (unsigned k = 0; k < BLOCK_PART_MAX; k++)
            text += (int64_t)stream->blocks[i].parts[k].len;
    if (ret->output < text / BYTES_A_TOKEN)
        ret->output = text / BYTES_A_TOKEN;
}

size_t stream_size(const struct stream *stream)
{
    return stream->line.cap + stream->held;
}

const struct api_error *stream_error(const struct stream *stream)
{
    return &stream->error;
}

static char *copy_or(const char *text, const char *otherwise)
{
    return mem_copy_text(text != NULL ? text : otherwise);
}

static int write_content(const struct stream *stream, struct message *ret)
{
    struct buf out;
    buf_init(&out, (size_t)MESSAGE_MAX * 8); // escaping may lengthen what is kept
    (void)buf_append_char(&out, '[');
    for (size_t i = 0; i < stream->n_blocks; i++) {
        if (i > 0)
            (void)buf_append_char(&out, ',');
        (void)block_write(&stream->blocks[i], &out);
    }
    (void)buf_append_char(&out, ']');
    ret->content = out.data;
    ret->content_len = out.len;
    return out.failed;
}

int stream_message(const struct stream *stream, struct message *ret)
{
    *ret = (struct message){
        .id = copy_or(stream->id, ""),
        .model = copy_or(stream->model, ""),
        .stop_reason = copy_or(stream->stop_reason, ""),
        .stop_details = copy_or(stream->stop_details, "null"),
        .usage_json = copy_or(stream->usage_json.data, "{}"),
    };
    usage_told_sum(&stream->usage, &ret->usage);
    if (stream->state == STREAM_WHOLE)
        return write_content(stream, ret);
    ret->content = mem_copy_text("[]");
    ret->content_len = 2;
    return 0;
}
