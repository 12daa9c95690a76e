// SPDX-License-Identifier: Apache-2.0
#include "h1/head.h"

#include <string.h>

enum {
    METHOD_MAX = 32,
    LENGTH_DIGITS_MAX = 18,
    REASON_MAX = 256,
};

// What a byte may be part of.
enum {
    TOKEN = 1u << 0,  // a method or a header's name
    TARGET = 1u << 1, // a path, a query, or a whole address
    VALUE = 1u << 2,  // a header's value: no control character but the tab
    HOST = 1u << 3,
};

#define ALNUM  (TOKEN | TARGET | VALUE | HOST)
#define SUBDEL (TARGET | VALUE | HOST)
static const uint8_t kinds[256] = {
    ['\t'] = VALUE,
    [' '] = VALUE,
    ['"'] = VALUE,
    ['\\'] = VALUE,
    ['<'] = VALUE,
    ['>'] = VALUE,
    ['#'] = TOKEN | VALUE,
    ['0' ... '9'] = ALNUM,
    ['A' ... 'Z'] = ALNUM,
    ['a' ... 'z'] = ALNUM,
    ['-'] = ALNUM,
    ['.'] = ALNUM,
    ['_'] = ALNUM,
    ['~'] = ALNUM,
    ['!'] = ALNUM,
    ['$'] = ALNUM,
    ['&'] = ALNUM,
    ['\''] = ALNUM,
    ['*'] = ALNUM,
    ['+'] = ALNUM,
    ['%'] = ALNUM,
    ['('] = SUBDEL,
    [')'] = SUBDEL,
    [';'] = SUBDEL,
    ['='] = SUBDEL,
    [':'] = SUBDEL,
    ['['] = SUBDEL,
    [']'] = SUBDEL,
    [','] = TARGET | VALUE,
    ['/'] = TARGET | VALUE,
    ['?'] = TARGET | VALUE,
    ['@'] = TARGET | VALUE,
    ['{'] = TARGET | VALUE,
    ['}'] = TARGET | VALUE,
    ['|'] = TOKEN | TARGET | VALUE,
    ['^'] = TOKEN | TARGET | VALUE,
    ['`'] = TOKEN | TARGET | VALUE,
    [0x80 ... 0xff] = VALUE,
};

static bool is(char c, unsigned kind)
{
    return (kinds[(unsigned char)c] & kind) != 0;
}

const char h1_too_long[] = "the head is too long";

// The bytes that are read, and where reading is.
struct reader {
    const char *at, *end, *start;
    const char *why;
};

// Every step answers so, as h1_parse_request does.
enum { BAD = -1, MORE = 0, GOOD = 1 };

static int bad(struct reader *r, const char *why)
{
    r->why = why;
    return BAD;
}

// A run of such bytes, and the one behind it is there.
static int run(struct reader *r, unsigned kind, struct h1_text *ret)
{
    const char *at = r->at;
    while (at < r->end && is(*at, kind))
        at++;
    *ret = (struct h1_text){r->at, (size_t)(at - r->at)};
    r->at = at;
    return at < r->end ? GOOD : MORE;
}

static int line_end(struct reader *r)
{
    if (r->at < r->end && *r->at != '\r')
        return bad(r, "a line does not end with CR LF");
    if (r->end - r->at < 2)
        return MORE;
    if (r->at[1] != '\n')
        return bad(r, "a line does not end with CR LF");
    r->at += 2;
    return GOOD;
}

// "HTTP/1.1" or "HTTP/1.0".
static int version(struct reader *r, unsigned *ret_minor)
{
    static const char text[] = "HTTP/1.";
    size_t left = (size_t)(r->end - r->at);
    size_t n = left < sizeof text - 1 ? left : sizeof text - 1;
    if (memcmp(r->at, text, n) != 0)
        return bad(r, "this is not HTTP/1.1");
    if (left < sizeof text)
        return MORE;
    char minor = r->at[n];
    if (minor != '0' && minor != '1')
        return bad(r, "this is not HTTP/1.1");
    *ret_minor = (unsigned)(minor - '0');
    r->at += sizeof text;
    return GOOD;
}

static int space(struct reader *r, const char *why)
{
    if (*r->at != ' ')
        return bad(r, why);
    r->at++;
    return GOOD;
}

static int request_line(struct reader *r, struct h1_head *h)
{
    // RFC 9112, 2.2: one empty line before a request is no harm.
    if (r->at < r->end && *r->at == '\r') {
        int got = line_end(r);
        if (got != GOOD)
            return got;
    }
    int got = run(r, TOKEN, &h->method);
    if (h->method.len > METHOD_MAX || (got == GOOD && h->method.len == 0))
        return bad(r, "the request line does not begin with a method");
    if (got != GOOD)
        return got;
    if (space(r, "the method is not a word") != GOOD)
        return BAD;
    got = run(r, TARGET, &h->target);
    if (got != GOOD)
        return got;
    if (h->target.len == 0)
        return bad(r, "there is no target");
    if (space(r, "the target has a character that must be percent-encoded") != GOOD)
        return BAD;
    got = version(r, &h->minor);
    return got == GOOD ? line_end(r) : got;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// "HTTP/1.1 200 OK"; the reason may be missing, and the space before it with it.
static int status_line(struct reader *r, struct h1_head *h)
{
    int got = version(r, &h->minor);
    if (got != GOOD)
        return got;
    if (r->end - r->at < 5)
        return MORE;
    const char *at = r->at;
    if (at[0] != ' ' || !is_digit(at[1]) || !is_digit(at[2]) || !is_digit(at[3]) || at[1] == '0')
        return bad(r, "the status is not a number");
    h->status = (unsigned)((at[1] - '0') * 100 + (at[2] - '0') * 10 + (at[3] - '0'));
    r->at += 4;
    if (at[4] == ' ') {
        r->at++;
        got = run(r, VALUE, &h->reason);
        if (h->reason.len > REASON_MAX)
            return bad(r, "the reason is too long");
        if (got != GOOD)
            return got;
    }
    return line_end(r);
}

static int field_line(struct reader *r, struct h1_field *ret)
{
    int got = run(r, TOKEN, &ret->name);
    if (got != GOOD)
        return got;
    if (ret->name.len == 0) {
        bool fold = *r->at == ' ' || *r->at == '\t';
        return bad(r, fold ? "a header is folded" : "a header's name is not a word");
    }
    if (*r->at != ':')
        return bad(r, "a header's name is not a word");
    r->at++;
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t'))
        r->at++;
    got = run(r, VALUE, &ret->value);
    if (got != GOOD)
        return got;
    struct h1_text *value = &ret->value;
    while (value->len > 0 &&
           (value->at[value->len - 1] == ' ' || value->at[value->len - 1] == '\t'))
        value->len--;
    return *r->at == '\r' ? line_end(r) : bad(r, "a header has a control character");
}

static int fields(struct reader *r, struct h1_head *h)
{
    for (;;) {
        if (r->at == r->end)
            return MORE;
        if (*r->at == '\r')
            return line_end(r);
        if (h->n_fields == H1_FIELDS_MAX)
            return bad(r, "there are too many headers");
        int got = field_line(r, &h->fields[h->n_fields]);
        if (got != GOOD)
            return got;
        h->n_fields++;
    }
}

// --- what the fields say about the message

// Fields that decide how a message is understood; found in one pass.
struct special {
    const struct h1_field *length, *coding, *host, *upgrade;
    bool close, wants_upgrade;
};

static int take_once(struct reader *r, const struct h1_field **slot, const struct h1_field *field)
{
    if (*slot != NULL)
        return bad(r, "Content-Length, Transfer-Encoding or Host is there twice");
    *slot = field;
    return GOOD;
}

static int look(struct reader *r, const struct h1_head *h, struct special *s)
{
    *s = (struct special){0};
    for (size_t i = 0; i < h->n_fields; i++) {
        const struct h1_field *f = &h->fields[i];
        int got = GOOD;
        switch (f->name.len) {
        case sizeof "Host" - 1:
            if (h1_is(f->name, "Host"))
                got = take_once(r, &s->host, f);
            break;
        case sizeof "Upgrade" - 1:
            if (h1_is(f->name, "Upgrade"))
                s->upgrade = f;
            break;
        case sizeof "Connection" - 1:
            if (h1_is(f->name, "Connection")) {
                s->close |= h1_has_word(f->value, "close");
                s->wants_upgrade |= h1_has_word(f->value, "upgrade");
            }
            break;
        case sizeof "Content-Length" - 1:
            if (h1_is(f->name, "Content-Length"))
                got = take_once(r, &s->length, f);
            break;
        case sizeof "Transfer-Encoding" - 1:
            if (h1_is(f->name, "Transfer-Encoding"))
                got = take_once(r, &s->coding, f);
            break;
        default:
            break;
        }
        if (got != GOOD)
            return got;
    }
    return GOOD;
}

static int parse_length(struct reader *r, struct h1_text text, uint64_t *ret)
{
    uint64_t n = 0;
    if (text.len == 0 || text.len > LENGTH_DIGITS_MAX)
        return bad(r, "Content-Length is not a number");
    for (size_t i = 0; i < text.len; i++) {
        if (!is_digit(text.at[i]))
            return bad(r, "Content-Length is not a number");
        n = n * 10 + (uint64_t)(text.at[i] - '0');
    }
    *ret = n;
    return GOOD;
}

static int find_framing(struct reader *r, struct h1_head *h, const struct special *s)
{
    if (s->length != NULL && s->coding != NULL)
        return bad(r, "Content-Length and Transfer-Encoding are both there");
    h->body = H1_NO_BODY;
    h->length = 0;
    if (s->length != NULL) {
        h->body = H1_LENGTH;
        return parse_length(r, s->length->value, &h->length);
    }
    if (s->coding != NULL) {
        if (!h1_is(s->coding->value, "chunked") || h->minor == 0)
            return bad(r, "Transfer-Encoding is not 'chunked'");
        h->body = H1_CHUNKED;
    }
    return GOOD;
}

static bool all(struct h1_text text, unsigned kind)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!is(text.at[i], kind))
            return false;
    }
    return true;
}

static int understand_request(struct reader *r, struct h1_head *h)
{
    struct special s;
    if (look(r, h, &s) != GOOD || find_framing(r, h, &s) != GOOD)
        return BAD;
    if (h->minor == 1 && s.host == NULL)
        return bad(r, "there is no Host header");
    if (s.host != NULL && !all(s.host->value, HOST))
        return bad(r, "Host is not a host");
    h->close = s.close || h->minor == 0;
    bool empty = h->body == H1_NO_BODY || (h->body == H1_LENGTH && h->length == 0);
    h->upgrade = s.wants_upgrade && s.upgrade != NULL && h1_is(s.upgrade->value, "websocket") &&
                 h->minor == 1 && empty && h1_same(h->method, "GET");
    return GOOD;
}

static int understand_answer(struct reader *r, struct h1_head *h, struct h1_text method)
{
    struct special s;
    if (look(r, h, &s) != GOOD || find_framing(r, h, &s) != GOOD)
        return BAD;
    h->close = s.close || h->minor == 0;
    h->upgrade = h->status == 101 && s.wants_upgrade && s.upgrade != NULL &&
                 h1_is(s.upgrade->value, "websocket");
    if (h->status == 101 && !h->upgrade)
        return bad(r, "it changes to a protocol that nobody asked for");
    if (h1_same(method, "CONNECT") && h->status / 100 == 2)
        return bad(r, "CONNECT is not for passing on");
    if (h->status < 200 || h->status == 204) {
        h->body = H1_NO_BODY;
        h->length = 0;
    } else if (h1_same(method, "HEAD") || h->status == 304) {
        h->body = H1_NO_BODY; // the length stays: what there would be
    } else if (h->body == H1_NO_BODY) {
        h->body = H1_TO_END;
        h->close = true;
    }
    return GOOD;
}

// --- all of it

static struct reader begin(struct h1_head *ret, const char *data, size_t len)
{
    ret->method = ret->target = ret->reason = (struct h1_text){data, 0};
    ret->status = 0;
    ret->minor = 0;
    ret->n_fields = 0;
    size_t most = len < H1_HEAD_MAX ? len : H1_HEAD_MAX;
    return (struct reader){.at = data, .end = data + most, .start = data};
}

static int finish(struct reader *r, struct h1_head *ret, int got, size_t len, const char **why)
{
    if (got == MORE && len >= H1_HEAD_MAX)
        got = bad(r, h1_too_long);
    if (got == BAD)
        *why = r->why;
    ret->len = (size_t)(r->at - r->start);
    return got;
}

int h1_parse_request(struct h1_head *ret, const char *data, size_t len, const char **why)
{
    struct reader r = begin(ret, data, len);
    int got = request_line(&r, ret);
    if (got == GOOD)
        got = fields(&r, ret);
    if (got == GOOD)
        got = understand_request(&r, ret);
    return finish(&r, ret, got, len, why);
}

int h1_parse_answer(struct h1_head *ret, const char *data, size_t len, struct h1_text method,
                    const char **why)
{
    struct reader r = begin(ret, data, len);
    int got = status_line(&r, ret);
    if (got == GOOD)
        got = fields(&r, ret);
    if (got == GOOD)
        got = understand_answer(&r, ret, method);
    return finish(&r, ret, got, len, why);
}
