// SPDX-License-Identifier: Apache-2.0
#include "cli/reply.h"

#include <string.h>
#include <strings.h>
#include <sys/types.h>

enum {
    STATUS_MIN = 100,
    STATUS_MAX = 599,
    STATUS_SWITCHING = 101,
    STATUS_OK = 200,
    STATUS_NO_CONTENT = 204,
    STATUS_NOT_MODIFIED = 304,
    SIZE_DIGITS_MAX = 15, // hexadecimal; more would be no size that anybody sends
    LENGTH_DIGITS_MAX = 18,
};

void reply_init(struct reply *reply, reply_body_fn body, void *data)
{
    *reply = (struct reply){.state = REPLY_STATUS, .body = body, .data = data};
    buf_init(&reply->line, REPLY_LINE_MAX);
    buf_init(&reply->fields, REPLY_HEAD_MAX + 2);
}

void reply_done(struct reply *reply)
{
    buf_done(&reply->line);
    buf_done(&reply->fields);
}

static int bad(struct err *err, const char *what)
{
    return err_set(err, ERR_INTERNAL, "what answered does not speak HTTP as it should: %s", what);
}

// -- the head

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// "HTTP/1.1 200 OK"; the reason may be empty, the space before it may not be missing.
static int read_status(struct reply *reply, const char *line, size_t len, struct err *err)
{
    static const char version[] = "HTTP/1.";
    size_t at = sizeof version - 1;
    if (len < at + 6 || memcmp(line, version, at) != 0 || (line[at] != '0' && line[at] != '1') ||
        line[at + 1] != ' ' || !is_digit(line[at + 2]) || !is_digit(line[at + 3]) ||
        !is_digit(line[at + 4]) || line[at + 5] != ' ')
        return bad(err, "the status line");
    reply->is_1_0 = line[at] == '0';
    reply->status =
        (unsigned)((line[at + 2] - '0') * 100 + (line[at + 3] - '0') * 10 + (line[at + 4] - '0'));
    if (reply->status < STATUS_MIN || reply->status > STATUS_MAX)
        return bad(err, "the status");
    reply->state = REPLY_HEADERS;
    return 0;
}

// The characters of a token, RFC 9110 section 5.6.2.
static bool is_token(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static int read_length(struct reply *reply, const char *value, struct err *err)
{
    size_t len = strlen(value);
    if (len == 0 || len > LENGTH_DIGITS_MAX || strspn(value, "0123456789") != len ||
        reply->has_length)
        return bad(err, "Content-Length");
    reply->has_length = true;
    reply->left = 0;
    for (size_t i = 0; i < len; i++)
        reply->left = reply->left * 10 + (uint64_t)(value[i] - '0');
    return 0;
}

static int note_framing(struct reply *reply, const char *name, const char *value, struct err *err)
{
    if (strcmp(name, "content-length") == 0)
        return read_length(reply, value, err);
    if (strcmp(name, "transfer-encoding") != 0)
        return 0;
    if (reply->chunked || reply->is_1_0 || strcasecmp(value, "chunked") != 0)
        return bad(err, "Transfer-Encoding");
    reply->chunked = true;
    return 0;
}

// Length of the name, 0 when the line is no header: a fold, a space before the colon, no colon.
static size_t name_length(const char *line, size_t len)
{
    size_t n = 0;
    while (n < len && is_token(line[n]))
        n++;
    return n < len && line[n] == ':' ? n : 0;
}

static int read_header(struct reply *reply, const char *line, size_t len, struct err *err)
{
    size_t n = name_length(line, len), from = n + 1, to = len;
    if (n == 0)
        return bad(err, "a header");
    while (from < to && (line[from] == ' ' || line[from] == '\t'))
        from++;
    while (to > from && (line[to - 1] == ' ' || line[to - 1] == '\t'))
        to--;
    size_t at = reply->fields.len;
    for (size_t i = 0; i < n; i++) {
        char c = line[i];
        (void)buf_append_char(&reply->fields, c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c);
    }
    (void)buf_append_char(&reply->fields, '\0');
    (void)buf_append(&reply->fields, line + from, to - from);
    (void)buf_append_char(&reply->fields, '\0');
    if (reply->fields.failed != 0)
        return bad(err, "its headers are too large");
    return note_framing(reply, reply->fields.data + at, reply->fields.data + at + n + 1, err);
}

// An answer of 1xx comes before the real one, which begins anew.
static int skip_interim(struct reply *reply, struct err *err)
{
    if (reply->status == STATUS_SWITCHING || ++reply->interim > REPLY_INTERIM_MAX ||
        reply->has_length || reply->chunked)
        return bad(err, "an interim answer");
    buf_reset(&reply->fields);
    reply->head_bytes = 0;
    reply->state = REPLY_STATUS;
    return 0;
}

static int end_head(struct reply *reply, struct err *err)
{
    if (reply->status == STATUS_SWITCHING && reply->may_switch) {
        reply->state = REPLY_DONE;
        return 0;
    }
    if (reply->status < STATUS_OK)
        return skip_interim(reply, err);
    if (reply->has_length && reply->chunked)
        return bad(err, "both Content-Length and Transfer-Encoding");
    reply->head_bytes = 0; // now those of trailers
    if (reply->status == STATUS_NO_CONTENT || reply->status == STATUS_NOT_MODIFIED)
        reply->state = REPLY_DONE;
    else if (reply->chunked)
        reply->state = REPLY_CHUNK_SIZE;
    else if (!reply->has_length)
        reply->state = REPLY_UNTIL_END;
    else
        reply->state = reply->left > 0 ? REPLY_FIXED : REPLY_DONE;
    return 0;
}

// -- chunks

static int hex_value(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c == '\0' ? NULL : strchr(digits, c >= 'A' && c <= 'F' ? c | 0x20 : c);
    return at == NULL ? -1 : (int)(at - digits);
}

// "1f" or "1f;name=value": extensions mean nothing here.
static int read_chunk_size(struct reply *reply, const char *line, size_t len, struct err *err)
{
    uint64_t size = 0;
    size_t n = 0;
    for (int digit; n < len && (digit = hex_value(line[n])) >= 0; n++) {
        if (n == SIZE_DIGITS_MAX)
            return bad(err, "a chunk's size");
        size = size * 16 + (uint64_t)digit;
    }
    if (n == 0 || (n < len && line[n] != ';'))
        return bad(err, "a chunk's size");
    reply->left = size;
    reply->state = size > 0 ? REPLY_CHUNK : REPLY_TRAILERS;
    return 0;
}

// -- lines

static int take_line(struct reply *reply, const char *line, size_t len, struct err *err)
{
    switch (reply->state) {
    case REPLY_STATUS:
        return read_status(reply, line, len, err);
    case REPLY_HEADERS:
        return len == 0 ? end_head(reply, err) : read_header(reply, line, len, err);
    case REPLY_CHUNK_SIZE:
        return read_chunk_size(reply, line, len, err);
    case REPLY_CHUNK_END:
        reply->state = REPLY_CHUNK_SIZE;
        return len == 0 ? 0 : bad(err, "a chunk longer than its size");
    case REPLY_TRAILERS:
        if (len == 0)
            reply->state = REPLY_DONE;
        return len == 0 || name_length(line, len) > 0 ? 0 : bad(err, "a trailer");
    case REPLY_FIXED:
    case REPLY_CHUNK:
    case REPLY_UNTIL_END:
    case REPLY_DONE:
        break;
    }
    return bad(err, "bytes after its end");
}

// Of all control characters a line may have tabs, and the CR before its LF.
static bool line_is_plain(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)line[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

// Reads up to the line's end if that is there. How many bytes it took, or -1.
static ssize_t feed_line(struct reply *reply, const char *data, size_t len, struct err *err)
{
    const char *end = memchr(data, '\n', len);
    size_t n = end == NULL ? len : (size_t)(end - data) + 1;
    reply->head_bytes +=
        reply->state == REPLY_CHUNK_SIZE || reply->state == REPLY_CHUNK_END ? 0 : n;
    if (buf_append(&reply->line, data, n) < 0 || reply->head_bytes > REPLY_HEAD_MAX)
        return bad(err, "a line, or its head, is too long");
    if (end == NULL)
        return (ssize_t)n;
    struct buf *line = &reply->line;
    if (line->len < 2 || line->data[line->len - 2] != '\r')
        return bad(err, "a line that does not end with CRLF");
    size_t content = line->len - 2;
    if (!line_is_plain(line->data, content))
        return bad(err, "control characters in a line");
    if (take_line(reply, line->data, content, err) < 0)
        return -1;
    buf_reset(line);
    return (ssize_t)n;
}

// -- bodies

static ssize_t feed_body(struct reply *reply, const char *data, size_t len, struct err *err)
{
    size_t n = len;
    if (reply->state != REPLY_UNTIL_END && n > reply->left)
        n = (size_t)reply->left;
    if (reply->body != NULL && reply->body(reply->data, data, n, err) != 0)
        return -1;
    if (reply->state == REPLY_UNTIL_END)
        return (ssize_t)n;
    reply->left -= n;
    if (reply->left == 0)
        reply->state = reply->state == REPLY_CHUNK ? REPLY_CHUNK_END : REPLY_DONE;
    return (ssize_t)n;
}

int reply_feed(struct reply *reply, const void *data, size_t len, struct err *err)
{
    const char *at = data;
    while (len > 0) {
        bool body = reply->state == REPLY_FIXED || reply->state == REPLY_CHUNK ||
                    reply->state == REPLY_UNTIL_END;
        if (reply->state == REPLY_DONE)
            return bad(err, "bytes after its end");
        ssize_t n = body ? feed_body(reply, at, len, err) : feed_line(reply, at, len, err);
        if (n < 0)
            return -1;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

int reply_end(struct reply *reply, struct err *err)
{
    if (reply->state == REPLY_UNTIL_END)
        reply->state = REPLY_DONE;
    if (reply->state == REPLY_DONE)
        return 0;
    return err_set(err, ERR_UNAVAILABLE, "the connection ended in the middle of the answer");
}

bool reply_has_head(const struct reply *reply)
{
    return reply->state != REPLY_STATUS && reply->state != REPLY_HEADERS;
}

const char *reply_header(const struct reply *reply, const char *name)
{
    const char *at = reply->fields.data;
    const char *end = at == NULL ? NULL : at + reply->fields.len;
    while (at < end) {
        const char *value = at + strlen(at) + 1;
        if (strcmp(at, name) == 0)
            return value;
        at = value + strlen(value) + 1;
    }
    return NULL;
}
