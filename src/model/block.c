// SPDX-License-Identifier: Apache-2.0
#include "model/block.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "model/message.h"

// How pieces become a member.
enum joining {
    JOIN_STRING, // the insides of strings, one behind the other, escapes and all
    JOIN_LAST,   // the last one
    JOIN_LIST,   // elements of an array
    JOIN_JSON,   // strings which, joined, are the JSON of a value
};

static const struct {
    const char *delta_type, *from, *member;
    enum joining joining;
} parts[BLOCK_PART_MAX] = {
    [BLOCK_TEXT] = {"text_delta",       "text",         "text",      JOIN_STRING},
    [BLOCK_THINKING] = {"thinking_delta",   "thinking",     "thinking",  JOIN_STRING},
    [BLOCK_SIGNATURE] = {"signature_delta",  "signature",    "signature", JOIN_LAST  },
    [BLOCK_CITATIONS] = {"citations_delta",  "citation",     "citations", JOIN_LIST  },
    [BLOCK_INPUT] = {"input_json_delta", "partial_json", "input",     JOIN_JSON  },
};

int block_init(struct block *block, struct raw start)
{
    *block = (struct block){0};
    buf_init(&block->start, MESSAGE_MAX);
    for (unsigned i = 0; i < BLOCK_PART_MAX; i++)
        buf_init(&block->parts[i], MESSAGE_MAX);
    return buf_append(&block->start, start.at, start.len);
}

void block_done(struct block *block)
{
    buf_done(&block->start);
    for (unsigned i = 0; i < BLOCK_PART_MAX; i++)
        buf_done(&block->parts[i]);
}

enum block_part block_part_of(const char *delta_type)
{
    unsigned i = 0;
    while (i < BLOCK_PART_MAX && strcmp(parts[i].delta_type, delta_type) != 0)
        i++;
    return (enum block_part)i;
}

int block_add(struct block *block, enum block_part part, struct raw raw,
              const struct json_node *node)
{
    struct buf *to = &block->parts[part];
    const struct json_node *value = json_get(node, parts[part].from);
    struct raw written = raw_get(raw, parts[part].from);
    bool is_text = parts[part].joining != JOIN_LIST;
    if (written.at == NULL || value == NULL || (is_text && !json_is(value, JSON_NODE_STRING)))
        return -EINVAL;
    switch (parts[part].joining) {
    case JOIN_STRING:
        return buf_append(to, raw_inside(written).at, raw_inside(written).len);
    case JOIN_LAST:
        buf_reset(to);
        return buf_append(to, written.at, written.len);
    case JOIN_LIST:
        if (to->len > 0)
            (void)buf_append_char(to, ',');
        return buf_append(to, written.at, written.len);
    case JOIN_JSON:
        return buf_append(to, value->text, value->text_len);
    }
    return -EINVAL;
}

// A value between two marks that begins with what the block began with, if that was of its kind.
static void write_joined(struct buf *out, const char *marks, struct raw start, const char *between,
                         const struct buf *part)
{
    bool has_start = start.len > 2 && start.at[0] == marks[0];
    (void)buf_append_char(out, marks[0]);
    if (has_start)
        (void)buf_append(out, raw_inside(start).at, raw_inside(start).len);
    if (has_start && part->len > 0)
        (void)buf_append_str(out, between);
    (void)buf_append(out, part->data, part->len);
    (void)buf_append_char(out, marks[1]);
}

// What the model wrote for a tool need not be JSON: it may have been cut off by max_tokens, or be
// wrong. It goes back to the model in a wrapper that says so, as the API's documentation has it.
static void write_json(struct buf *out, const struct buf *part)
{
    auto_json_doc *doc = NULL;
    struct err err = {0};
    struct json json;
    if (raw_read((struct raw){part->data, part->len}, &doc, &err) == 0) {
        (void)buf_append(out, part->data, part->len);
        return;
    }
    json_init(&json, out);
    json_open_object(&json);
    json_key(&json, "INVALID_JSON");
    json_put_strn(&json, part->data, part->len);
    json_close_object(&json);
    (void)json_finish(&json);
}

static void write_part(struct buf *out, enum block_part i, struct raw start, const struct buf *part)
{
    switch (parts[i].joining) {
    case JOIN_STRING:
        write_joined(out, "\"\"", start, "", part);
        break;
    case JOIN_LAST:
        (void)buf_append(out, part->data, part->len);
        break;
    case JOIN_LIST:
        write_joined(out, "[]", start, ",", part);
        break;
    case JOIN_JSON:
        write_json(out, part);
        break;
    }
}

static unsigned part_for(const struct block *block, struct raw key)
{
    unsigned i = 0;
    while (i < BLOCK_PART_MAX && (block->parts[i].len == 0 || !raw_key_is(key, parts[i].member)))
        i++;
    return i;
}

static void separate(struct buf *out, bool *first)
{
    if (!*first)
        (void)buf_append_char(out, ',');
    *first = false;
}

int block_write(const struct block *block, struct buf *out)
{
    struct raw rest = {block->start.data, block->start.len}, key, value;
    unsigned written = 0;
    bool first = true;
    (void)buf_append_char(out, '{');
    while (raw_next(&rest, &key, &value)) {
        unsigned i = part_for(block, key);
        separate(out, &first);
        (void)buf_append(out, key.at, key.len);
        (void)buf_append_char(out, ':');
        if (i == BLOCK_PART_MAX)
            (void)buf_append(out, value.at, value.len);
        else
            write_part(out, (enum block_part)i, value, &block->parts[i]);
        written |= 1u << i;
    }
    for (unsigned i = 0; i < BLOCK_PART_MAX; i++) {
        if (block->parts[i].len == 0 || (written & 1u << i) != 0)
            continue;
        separate(out, &first);
        (void)buf_printf(out, "\"%s\":", parts[i].member);
        write_part(out, (enum block_part)i, (struct raw){0}, &block->parts[i]);
    }
    (void)buf_append_char(out, '}');
    return out->failed;
}
