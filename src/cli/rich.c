// SPDX-License-Identifier: Apache-2.0
#include "cli/rich.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "cli/event-stream.h"
#include "cli/remote.h"
#include "cli/table.h"

enum { STREAM_OUT, STREAM_ERR };

static const int descriptor[] = {[STREAM_OUT] = STDOUT_FILENO, [STREAM_ERR] = STDERR_FILENO};

void rich_begin(struct rich *rich, const char *id)
{
    rich->files = 0;
    (void)snprintf(rich->cell, sizeof rich->cell, "%s", id != NULL ? id : "");
}

// -- text

int rich_release(struct rich *rich, struct err *err)
{
    struct buf *held = rich->held;
    rich->held = NULL;
    if (held == NULL)
        return 0;
    int r = rich_write(rich, STDOUT_FILENO, buf_str(held), held->len, err);
    buf_reset(held);
    return r;
}

int rich_write(struct rich *rich, int fd, const void *bytes, size_t len, struct err *err)
{
    if (fd == STDOUT_FILENO && rich->held != NULL) {
        if (len <= rich->held->max - rich->held->len && buf_append(rich->held, bytes, len) == 0)
            return 0;
        if (rich_release(rich, err) < 0)
            return -1;
    }
    int r = fd_write_all(fd, bytes, len);
    rich->is_unread = rich->is_unread || r == -EPIPE;
    return r < 0 ? err_sys(err, -r, "pass on what the cell gave") : 0;
}

static int write_text(struct rich *rich, int stream, const char *text, size_t len, struct err *err)
{
    auto_buf plain;
    buf_init(&plain, SIZE_MAX / 2);
    if (rich->plain[stream]) {
        if (text_plain_lines(&plain, text, len, &rich->after_cr[stream]) < 0)
            return err_set(err, ERR_EXHAUSTED, "no memory for what the cell gave");
        text = buf_str(&plain);
        len = plain.len;
    }
    if (len == 0)
        return 0;
    rich->last[stream] = text[len - 1];
    return rich_write(rich, descriptor[stream], text, len, err);
}

// What comes next stands on lines of its own, also behind output that has not ended its last.
static int end_line(struct rich *rich, int stream, struct err *err)
{
    bool open = rich->last[stream] != '\0' && rich->last[stream] != '\n';
    return open ? write_text(rich, stream, "\n", 1, err) : 0;
}

int rich_end_line(struct rich *rich, struct err *err)
{
    return end_line(rich, STREAM_OUT, err) < 0 ? -1 : end_line(rich, STREAM_ERR, err);
}

static int write_lines(struct rich *rich, int stream, const char *text, size_t len, struct err *err)
{
    if (end_line(rich, stream, err) < 0 || write_text(rich, stream, text, len, err) < 0)
        return -1;
    return end_line(rich, stream, err);
}

int rich_text(struct rich *rich, bool is_error, const char *text, size_t len, struct err *err)
{
    return write_text(rich, is_error ? STREAM_ERR : STREAM_OUT, text, len, err);
}

int rich_output(struct rich *rich, bool is_error, const struct json_node *event, struct err *err)
{
    const struct json_node *text = json_get(event, "text");
    if (!json_is(text, JSON_NODE_STRING))
        return err_set(err, ERR_INTERNAL, "the server sent an event without text");
    return rich_text(rich, is_error, text->text, text->text_len, err);
}

// -- JSON, a member a line

static void indent(struct buf *buf, unsigned depth)
{
    (void)buf_append_char(buf, '\n');
    for (unsigned i = 0; i < depth; i++)
        (void)buf_append_str(buf, "  ");
}

// As deep as the reader lets a document be (JSON_READ_DEPTH_MAX).
static void write_pretty(struct buf *buf, const struct json_node *node, unsigned depth)
{
    bool object = json_is(node, JSON_NODE_OBJECT);
    if (!object && !json_is(node, JSON_NODE_ARRAY)) {
        remote_scalar(buf, node);
        return;
    }
    (void)buf_append_char(buf, object ? '{' : '[');
    for (const struct json_node *n = json_first(node); n != NULL; n = json_next(n)) {
        struct json key;
        indent(buf, depth + 1);
        if (object) {
            json_init(&key, buf);
            json_put_str(&key, n->key);
            (void)buf_append_str(buf, ": ");
        }
        write_pretty(buf, n, depth + 1);
        if (json_next(n) != NULL)
            (void)buf_append_char(buf, ',');
    }
    if (json_first(node) != NULL)
        indent(buf, depth);
    (void)buf_append_char(buf, object ? '}' : ']');
}

static int show_json(struct rich *rich, const struct json_node *node, struct err *err)
{
    auto_buf raw, text;
    buf_init(&raw, EVENT_MAX);
    buf_init(&text, EVENT_MAX);
    write_pretty(&raw, node, 0);
    (void)text_plain_json(&text, buf_str(&raw), raw.len);
    return write_lines(rich, STREAM_OUT, buf_str(&text), text.len, err);
}

// -- representations

static bool begins(const struct json_node *node, const char *text)
{
    size_t len = strlen(text);
    return node->text_len >= len && memcmp(node->text, text, len) == 0;
}

// "<Figure size 640x480 with 1 Axes>", "<IPython.core.display.Markdown object>": a name for what
// cannot be written, so any other form says more.
static bool is_a_mere_name(const struct json_node *text)
{
    return begins(text, "<") && text->text[text->text_len - 1] == '>' &&
           memchr(text->text, '\n', text->text_len) == NULL;
}

static const struct json_node *text_of(const struct json_node *representation, const char *key)
{
    const struct json_node *node = json_get(representation, key);
    return json_is(node, JSON_NODE_STRING) && node->text_len > 0 ? node : NULL;
}

static int show_text(struct rich *rich, const struct json_node *representation, bool *ret_shown,
                     struct err *err)
{
    static const char *const others[] = {"markdown", "latex"};
    const struct json_node *text = text_of(representation, "text");
    const struct json_node *json = json_get(representation, "json");
    *ret_shown = true;
    if (text != NULL && !is_a_mere_name(text))
        return write_lines(rich, STREAM_OUT, text->text, text->text_len, err);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const struct json_node *other = text_of(representation, others[i]);
        if (other != NULL)
            return write_lines(rich, STREAM_OUT, other->text, other->text_len, err);
    }
    if (json != NULL)
        return show_json(rich, json, err);
    *ret_shown = text != NULL;
    return text != NULL ? write_lines(rich, STREAM_OUT, text->text, text->text_len, err) : 0;
}

static int show_picture(struct rich *rich, const struct json_node *node, const char *ending,
                        struct err *err)
{
    bool png = strcmp(ending, "png") == 0;
    enum picture_way way = picture_way();
    auto_buf bytes;
    buf_init(&bytes, EVENT_MAX);
    // A kernel is in the hands of the code that it runs: what it calls a picture may be anything.
    if (base64_decode(&bytes, node->text, node->text_len) < 0 ||
        (png && (bytes.len < 8 || memcmp(bytes.data, "\x89PNG\r\n\x1a\n", 8) != 0)) ||
        (!png && (bytes.len < 3 || memcmp(bytes.data, "\xff\xd8\xff", 3) != 0))) {
        (void)fprintf(stderr, "cay: the cell gave a picture that is no %s\n", ending);
        return 0;
    }
    if (end_line(rich, STREAM_OUT, err) < 0)
        return -1;
    if (way == PICTURE_ITERM || (way == PICTURE_KITTY && png)) {
        if (picture_draw(rich, way, node->text, node->text_len, err) < 0)
            return -1;
    }
    return picture_save(rich, ending, buf_str(&bytes), bytes.len, err);
}

int rich_show(struct rich *rich, const struct json_node *representation, struct err *err)
{
    static const struct {
        const char *key, *ending;
        bool is_picture; // in base64; worth a file even beside text
    } files[] = {
        {"png",        "png",  true },
        {"jpeg",       "jpg",  true },
        {"svg",        "svg",  false},
        {"html",       "html", false},
        {"javascript", "js",   false},
    };
    bool shown;
    if (show_text(rich, representation, &shown, err) < 0)
        return -1;
    const struct json_node *text = text_of(representation, "text");
    bool name_only = text == NULL || is_a_mere_name(text);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const struct json_node *node = text_of(representation, files[i].key);
        if (node != NULL && files[i].is_picture)
            return show_picture(rich, node, files[i].ending, err);
        if (node != NULL && name_only)
            return picture_save(rich, files[i].ending, node->text, node->text_len, err);
    }
    return 0;
}

// -- errors

// Lines from a cell's error: each made plain, so that what colours there are are ours.
static void add_node(struct buf *buf, const struct json_node *node)
{
    if (!json_is(node, JSON_NODE_STRING))
        return;
    (void)text_plain_lines(buf, node->text, node->text_len, NULL);
}

static void add_headline(struct buf *buf, const struct json_node *error)
{
    const struct json_node *message = text_of(error, "message");
    add_node(buf, json_get(error, "name"));
    if (message != NULL)
        (void)buf_append_str(buf, ": ");
    add_node(buf, message);
}

// The traceback, whose last lines are the error itself where the language has it so; else those
// are put there.
int rich_error(struct rich *rich, const struct json_node *error, struct err *err)
{
    auto_buf text, headline;
    buf_init(&text, EVENT_MAX);
    buf_init(&headline, EVENT_MAX);
    add_headline(&headline, error);
    const struct json_node *lines = json_get(error, "traceback");
    for (const struct json_node *n = json_first(lines); n != NULL; n = json_next(n)) {
        add_node(&text, n);
        if (text.len > 0 && text.data[text.len - 1] != '\n')
            (void)buf_append_char(&text, '\n');
    }
    bool said = headline.len > 0 && memmem(buf_str(&text), text.len, headline.data, headline.len);
    if (!said) {
        (void)buf_append(&text, buf_str(&headline), headline.len);
        (void)buf_append_char(&text, '\n');
    }
    bool colour = text_colour(stderr);
    if (end_line(rich, STREAM_OUT, err) < 0 || end_line(rich, STREAM_ERR, err) < 0)
        return -1;
    if (colour && rich_write(rich, STDERR_FILENO, "\x1b[31m", 5, err) < 0)
        return -1;
    if (write_text(rich, STREAM_ERR, buf_str(&text), text.len, err) < 0)
        return -1;
    return colour ? rich_write(rich, STDERR_FILENO, "\x1b[0m", 4, err) : 0;
}
