// SPDX-License-Identifier: Apache-2.0
#include "edge/http-frame.h"

#include <string.h>
#include <strings.h>

#include "edge/limits.h"

enum {
    METHOD_MAX = 32,
    LENGTH_DIGITS_MAX = 18,
    CHUNK_DIGITS_MAX = 8,
};

// What a byte may be part of.
enum {
    TOKEN = 1u << 0,  // a method or a header's name
    TARGET = 1u << 1, // a path: RFC 3986's characters
    QUERY = 1u << 2,  // and some that browsers send as they are
    VALUE = 1u << 3,  // a header's value: no control character but the tab
    HOST = 1u << 4,
};

// '#', '\\', '"', '<' and '>' are in no target; '/', '@' and ',' in no host.
#define ALNUM  (TOKEN | TARGET | QUERY | VALUE | HOST)
#define SUBDEL (TARGET | QUERY | VALUE | HOST)
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
    [','] = TARGET | QUERY | VALUE,
    ['/'] = TARGET | QUERY | VALUE,
    ['?'] = TARGET | QUERY | VALUE,
    ['@'] = TARGET | QUERY | VALUE,
    ['['] = QUERY | VALUE | HOST,
    [']'] = QUERY | VALUE | HOST,
    ['{'] = QUERY | VALUE,
    ['}'] = QUERY | VALUE,
    ['|'] = TOKEN | QUERY | VALUE,
    ['^'] = TOKEN | QUERY | VALUE,
    ['`'] = TOKEN | QUERY | VALUE,
    [0x80 ... 0xff] = VALUE,
};

static bool is(char c, unsigned kind)
{
    return (kinds[(unsigned char)c] & kind) != 0;
}

static const char version[] = "HTTP/1.";
static const char chunked[] = "chunked";

void frame_init(struct frame *frame)
{
    *frame = (struct frame){.state = FRAME_START};
}

static void start_message(struct frame *f)
{
    struct frame next = {
        .state = FRAME_START, .heads = f->heads, .is_raw = f->is_raw, .raw_data = f->raw_data};
    *f = next;
}

static void note(char *text, size_t size, unsigned at, char c)
{
    if (at + 1 < size)
        text[at] = c;
}

static bool in_head(enum frame_state state)
{
    return state < FRAME_BODY;
}

// A head that is refused counts as complete: frame_ending makes it so.
static bool refuse(struct frame *f, unsigned status, const char *why)
{
    if (in_head(f->state))
        f->heads++;
    f->refused_at = f->heads;
    f->refused_in = f->state == FRAME_CHUNK_LINE_LF ? FRAME_CHUNK_SIZE : f->state;
    f->status = status;
    f->why = why;
    f->state = FRAME_REFUSED;
    return false;
}

static bool bad(struct frame *f, const char *why)
{
    return refuse(f, 400, why);
}

const char *frame_ending(const struct frame *f)
{
    static const char *const endings[FRAME_STATE_MAX] = {
        [FRAME_START] = "GET / HTTP/1.1\r\n\r\n",
        [FRAME_START_LF] = "\nGET / HTTP/1.1\r\n\r\n",
        [FRAME_METHOD] = " / HTTP/1.1\r\n\r\n",
        [FRAME_LINE_CR] = "\r\n\r\n",
        [FRAME_LINE_LF] = "\n\r\n",
        [FRAME_FIELD] = "\r\n",
        [FRAME_NAME] = "-:\r\n\r\n", // another name than it may have been
        [FRAME_SPACE] = "\r\n\r\n",
        [FRAME_VALUE] = "\r\n\r\n",
        [FRAME_VALUE_LF] = "\n\r\n",
        [FRAME_HEAD_LF] = "\n",
        [FRAME_BODY] = "",
        [FRAME_CHUNK_SIZE] = "0\r\n\r\n",
        [FRAME_CHUNK_CR] = "\r\n0\r\n\r\n",
        [FRAME_CHUNK_LF] = "\n0\r\n\r\n",
        [FRAME_LAST_CR] = "\r\n",
        [FRAME_LAST_LF] = "\n",
    };
    if (f->refused_in == FRAME_TARGET || f->refused_in == FRAME_QUERY)
        return f->n_target == 0 ? "/ HTTP/1.1\r\n\r\n" : " HTTP/1.1\r\n\r\n";
    if (f->refused_in == FRAME_VERSION)
        return &"HTTP/1.1\r\n\r\n"[f->at];
    bool is_value = f->refused_in == FRAME_SPACE || f->refused_in == FRAME_VALUE;
    if (is_value && f->field == FRAME_LENGTH && f->at == 0)
        return "0\r\n\r\n"; // for an empty one the library has an answer of its own
    if (f->refused_in == FRAME_CHUNK_SIZE && f->held < f->at)
        return NULL; // frame_release has handed on a part of the size
    return endings[f->refused_in];
}

// --- the request line

static bool feed_start(struct frame *f, char c)
{
    if (c == '\r' && !f->blank) { // RFC 9112, 2.2: one empty line before a request is no harm
        f->blank = true;
        f->state = FRAME_START_LF;
        return true;
    }
    if (!is(c, TOKEN))
        return bad(f, "the request line does not begin with a method");
    note(f->peek.method, sizeof f->peek.method, 0, c);
    f->at = 1;
    f->state = FRAME_METHOD;
    return true;
}

static bool feed_method(struct frame *f, char c)
{
    if (c == ' ') {
        f->state = FRAME_TARGET;
        return true;
    }
    if (!is(c, TOKEN) || ++f->at > METHOD_MAX)
        return bad(f, "the method is not a word");
    note(f->peek.method, sizeof f->peek.method, f->at - 1, c);
    return true;
}

static bool feed_target(struct frame *f, char c)
{
    bool query = f->state == FRAME_QUERY;
    if (c == ' ' && f->n_target > 0) {
        f->at = 0;
        f->state = FRAME_VERSION;
        return true;
    }
    if (f->n_target == 0 && c != '/')
        return bad(f, "the target does not begin with '/'");
    if (!is(c, query ? QUERY : TARGET))
        return bad(f, "the target has a character that must be percent-encoded");
    if (f->n_target == EDGE_TARGET_MAX)
        return refuse(f, 414, "the target is too long");
    if (query && c == '&' && ++f->n_args >= EDGE_QUERY_MAX)
        return bad(f, "the query has too many parameters");
    if (c == '?')
        f->state = FRAME_QUERY;
    note(f->peek.target, sizeof f->peek.target, f->n_target, c);
    f->n_target++;
    return true;
}

static bool feed_version(struct frame *f, char c)
{
    if (f->at < sizeof version - 1) {
        if (c != version[f->at])
            return bad(f, "the request line does not end with HTTP/1.1");
    } else {
        if (c != '0' && c != '1')
            return bad(f, "this is a server for HTTP/1.1");
        f->minor = (uint8_t)(c - '0');
        f->state = FRAME_LINE_CR;
    }
    f->at++;
    return true;
}

// --- headers

static bool feed_field(struct frame *f, char c)
{
    if (c == '\r') {
        f->state = FRAME_HEAD_LF;
        return true;
    }
    if (!is(c, TOKEN)) {
        bool fold = c == ' ' || c == '\t';
        return bad(f, fold ? "a header is folded" : "a header's name is not a word");
    }
    if (++f->n_fields > EDGE_HEADERS_MAX)
        return refuse(f, 431, "there are too many headers");
    f->name[0] = c;
    f->at = 1;
    f->state = FRAME_NAME;
    return true;
}

static bool name_is(const struct frame *f, const char *name)
{
    return f->at == strlen(name) && strncasecmp(f->name, name, f->at) == 0;
}

static enum frame_field which_field(struct frame *f)
{
    if (name_is(f, "Content-Length")) {
        f->n_length++;
        return FRAME_LENGTH;
    }
    if (name_is(f, "Transfer-Encoding")) {
        f->n_coding++;
        return FRAME_CODING;
    }
    if (name_is(f, "Host")) {
        f->n_host++;
        return FRAME_HOST;
    }
    return name_is(f, "Cookie") ? FRAME_COOKIE : FRAME_OTHER;
}

// The library copies cookies and makes an entry of each.
static bool count_cookie(struct frame *f, char c)
{
    f->field_bytes += c == ';' ? EDGE_COOKIE_BYTES : 1;
    return f->field_bytes <= EDGE_HEADER_BYTES_MAX || refuse(f, 431, "the cookies are too long");
}

static bool feed_name(struct frame *f, char c)
{
    if (c == ':') {
        f->field = which_field(f);
        f->at = 0;
        if (f->n_length > 1 || f->n_coding > 1 || f->n_host > 1)
            return bad(f, "Content-Length, Transfer-Encoding or Host is there twice");
        if (f->n_length + f->n_coding > 1)
            return bad(f, "Content-Length and Transfer-Encoding are both there");
        f->state = FRAME_SPACE;
        return true;
    }
    if (!is(c, TOKEN))
        return bad(f, "a header's name is not a word");
    if (f->at < sizeof f->name)
        f->name[f->at] = c;
    f->at++;
    return true;
}

static bool feed_length(struct frame *f, char c)
{
    if (c < '0' || c > '9' || f->at == LENGTH_DIGITS_MAX)
        return bad(f, "Content-Length is not a number");
    f->at++;
    f->left = f->left * 10 + (uint64_t)(c - '0');
    return true;
}

static bool feed_coding(struct frame *f, char c)
{
    if (f->at == sizeof chunked - 1 || (c | 0x20) != chunked[f->at] || f->minor == 0)
        return bad(f, "Transfer-Encoding is not 'chunked'");
    f->at++;
    return true;
}

static bool value_ends(struct frame *f)
{
    if (f->field == FRAME_LENGTH && f->at == 0)
        return bad(f, "Content-Length is not a number");
    if (f->field == FRAME_CODING && f->at < sizeof chunked - 1)
        return bad(f, "Transfer-Encoding is not 'chunked'");
    f->state = FRAME_VALUE_LF;
    return true;
}

static bool feed_value(struct frame *f, char c)
{
    if (c == '\r')
        return value_ends(f);
    if (!is(c, VALUE))
        return bad(f, "a header has a control character");
    if (f->state == FRAME_SPACE && (c == ' ' || c == '\t'))
        return true;
    f->state = FRAME_VALUE;
    switch (f->field) {
    case FRAME_OTHER:
        return true;
    case FRAME_LENGTH:
        return feed_length(f, c);
    case FRAME_CODING:
        return feed_coding(f, c);
    case FRAME_HOST:
        note(f->peek.host, sizeof f->peek.host, f->n_host_bytes++, c);
        return is(c, HOST) || bad(f, "Host is not a host");
    case FRAME_COOKIE:
        return count_cookie(f, c);
    }
    return true;
}

// The whole head was seen, and the library has it: what is refused from here on needs no ending.
static bool head_ends(struct frame *f)
{
    f->heads++;
    f->state = FRAME_BODY;
    if (f->minor == 1 && f->n_host == 0)
        return bad(f, "there is no Host header");
    f->peek.length = f->n_coding > 0 ? HTTP_CHUNKED : f->left;
    if (f->is_raw != NULL && f->is_raw(f->raw_data, &f->peek)) {
        f->state = FRAME_RAW;
        return true;
    }
    if (f->left > EDGE_BODY_MAX)
        return refuse(f, 413, "the body is too large");
    if (f->n_coding > 0)
        f->state = FRAME_CHUNK_SIZE;
    else if (f->left == 0)
        start_message(f);
    f->at = 0;
    return true;
}

// --- chunks

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool feed_chunk_size(struct frame *f, char c)
{
    int digit = hex_digit(c);
    if (c == '\r' && f->at > 0) {
        f->state = FRAME_CHUNK_LINE_LF;
    } else {
        if (digit < 0 || f->at == CHUNK_DIGITS_MAX)
            return bad(f, "a chunk's size is not a number");
        f->at++;
        f->left = f->left * 16 + (uint64_t)digit;
    }
    f->held++;
    return true;
}

static bool chunk_line_ends(struct frame *f)
{
    f->body += f->left;
    if (f->body > EDGE_BODY_MAX)
        return refuse(f, 413, "the body is too large");
    f->held = 0;
    f->at = 0;
    f->state = f->left == 0 ? FRAME_LAST_CR : FRAME_CHUNK;
    return true;
}

// --- all of it

static bool feed_end(struct frame *f, char c)
{
    const char *what =
        in_head(f->state) ? "a line does not end with CR LF" : "a chunk does not end with CR LF";
    bool cr = f->state == FRAME_LINE_CR || f->state == FRAME_CHUNK_CR || f->state == FRAME_LAST_CR;
    if (c != (cr ? '\r' : '\n'))
        return bad(f, what);
    switch ((int)f->state) {
    case FRAME_START_LF:
        f->state = FRAME_START;
        break;
    case FRAME_LINE_CR:
    case FRAME_CHUNK_CR:
    case FRAME_LAST_CR:
        f->state++; // to its LF
        break;
    case FRAME_LINE_LF:
    case FRAME_VALUE_LF:
        f->state = FRAME_FIELD;
        break;
    case FRAME_HEAD_LF:
        return head_ends(f);
    case FRAME_CHUNK_LINE_LF:
        return chunk_line_ends(f);
    case FRAME_CHUNK_LF:
        f->state = FRAME_CHUNK_SIZE;
        break;
    case FRAME_LAST_LF:
        start_message(f);
        break;
    default:
        break;
    }
    return true;
}

static bool feed_byte(struct frame *f, char c)
{
    switch (f->state) {
    case FRAME_START:
        return feed_start(f, c);
    case FRAME_METHOD:
        return feed_method(f, c);
    case FRAME_TARGET:
    case FRAME_QUERY:
        return feed_target(f, c);
    case FRAME_VERSION:
        return feed_version(f, c);
    case FRAME_FIELD:
        return feed_field(f, c);
    case FRAME_NAME:
        return feed_name(f, c);
    case FRAME_SPACE:
    case FRAME_VALUE:
        return feed_value(f, c);
    case FRAME_CHUNK_SIZE:
        return feed_chunk_size(f, c);
    case FRAME_START_LF:
    case FRAME_LINE_CR:
    case FRAME_LINE_LF:
    case FRAME_VALUE_LF:
    case FRAME_HEAD_LF:
    case FRAME_CHUNK_LINE_LF:
    case FRAME_CHUNK_CR:
    case FRAME_CHUNK_LF:
    case FRAME_LAST_CR:
    case FRAME_LAST_LF:
        return feed_end(f, c);
    case FRAME_BODY:
    case FRAME_CHUNK:
    case FRAME_RAW:
    case FRAME_REFUSED:
    case FRAME_STATE_MAX:
        break;
    }
    return false;
}

// Bytes of a body, as many as belong to it.
static size_t skip_body(struct frame *f, size_t len)
{
    size_t n = f->left < len ? (size_t)f->left : len;
    f->left -= n;
    f->bytes += n;
    if (f->left == 0) {
        if (f->state == FRAME_CHUNK)
            f->state = FRAME_CHUNK_CR;
        else
            start_message(f);
    }
    return n;
}

// The plain run of a value, which is most of a head.
static size_t skip_value(const char *data, size_t len)
{
    size_t n = 0;
    while (n < len && is(data[n], VALUE))
        n++;
    return n;
}

static bool count_head(struct frame *f, size_t n)
{
    f->bytes += n;
    if (f->state < FRAME_TARGET || !in_head(f->state))
        return true;
    f->field_bytes += (unsigned)n;
    return f->field_bytes <= EDGE_HEADER_BYTES_MAX || refuse(f, 431, "the headers are too long");
}

// One step: a byte, or a run of those that need no looking at singly. 0 when it is refused.
static size_t feed_some(struct frame *f, const char *data, size_t len)
{
    if (f->state == FRAME_BODY || f->state == FRAME_CHUNK)
        return skip_body(f, len);
    if (f->state == FRAME_VALUE && f->field == FRAME_OTHER) {
        size_t room = EDGE_HEADER_BYTES_MAX + 1 - f->field_bytes;
        size_t run = skip_value(data, len < room ? len : room);
        if (run > 0)
            return count_head(f, run) ? run : 0;
    }
    if (!count_head(f, 1))
        return 0;
    // A head that is refused when it is complete needs no other ending than its own.
    return feed_byte(f, *data) || f->refused_in == FRAME_BODY ? 1 : 0;
}

size_t frame_feed(struct frame *f, const char *data, size_t len)
{
    size_t at = 0;
    while (at < len && f->state != FRAME_REFUSED && f->state != FRAME_RAW)
        at += feed_some(f, data + at, len - at);
    return at;
}
