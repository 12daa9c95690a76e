// SPDX-License-Identifier: Apache-2.0
#include "store/s3-xml.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"

enum { VALUE_MAX = 16 * 1024 };

struct reader {
    const char *at, *end;
    xml_fn fn;
    void *data;
    char path[XML_PATH_MAX];
    size_t starts[XML_DEPTH_MAX]; // where in the path each open element's name begins
    unsigned depth;
    bool had_root;
    struct buf value;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == ':';
}

static bool begins(const struct reader *r, const char *word)
{
    size_t len = strlen(word);
    return (size_t)(r->end - r->at) >= len && memcmp(r->at, word, len) == 0;
}

static void skip_space(struct reader *r)
{
    while (r->at < r->end && is_space(*r->at))
        r->at++;
}

// Past the next `word`.
static int skip_past(struct reader *r, const char *word)
{
    const char *found = memmem(r->at, (size_t)(r->end - r->at), word, strlen(word));
    if (found == NULL)
        return -EBADMSG;
    r->at = found + strlen(word);
    return 0;
}

static int read_name(struct reader *r, char ret[XML_NAME_MAX])
{
    size_t len = 0;
    while (r->at < r->end && is_name(*r->at)) {
        if (len == XML_NAME_MAX - 1)
            return -E2BIG;
        ret[len++] = *r->at++;
    }
    ret[len] = '\0';
    return len > 0 ? 0 : -EBADMSG;
}

// --- elements ---

static int push(struct reader *r, const char *name)
{
    size_t len = strlen(r->path), more = strlen(name);
    if (r->depth == 0 && r->had_root)
        return -EBADMSG;
    if (r->depth == XML_DEPTH_MAX || len + more + 2 > sizeof r->path)
        return -E2BIG;
    r->starts[r->depth++] = len;
    if (len > 0)
        r->path[len++] = '/';
    memcpy(r->path + len, name, more + 1);
    r->had_root = true;
    buf_reset(&r->value);
    return 0;
}

static int pop(struct reader *r)
{
    if (r->value.failed < 0)
        return r->value.failed;
    int told = r->fn(r->data, r->path, buf_str(&r->value));
    r->path[r->starts[--r->depth]] = '\0';
    buf_reset(&r->value);
    return told;
}

// Up to the '>' of a tag; whether it was "/>".
static int skip_attributes(struct reader *r, bool *ret_closed)
{
    char name[XML_NAME_MAX];
    for (;;) {
        skip_space(r);
        *ret_closed = begins(r, "/>");
        if (*ret_closed || begins(r, ">")) {
            r->at += *ret_closed ? 2 : 1;
            return 0;
        }
        int failed = read_name(r, name);
        if (failed < 0)
            return failed;
        skip_space(r);
        if (!begins(r, "="))
            return -EBADMSG;
        r->at++;
        skip_space(r);
        if (!begins(r, "\"") && !begins(r, "'"))
            return -EBADMSG;
        const char quote[2] = {*r->at++, '\0'};
        if ((failed = skip_past(r, quote)) < 0)
            return failed;
    }
}

static int read_open(struct reader *r)
{
    char name[XML_NAME_MAX];
    bool closed;
    r->at++;
    int failed = read_name(r, name);
    if (failed == 0)
        failed = push(r, name);
    if (failed == 0)
        failed = skip_attributes(r, &closed);
    return failed == 0 && closed ? pop(r) : failed;
}

static int read_close(struct reader *r)
{
    char name[XML_NAME_MAX];
    r->at += 2;
    int failed = read_name(r, name);
    skip_space(r);
    if (failed < 0 || r->depth == 0 || !begins(r, ">"))
        return failed < 0 ? failed : -EBADMSG;
    r->at++;
    const char *open = r->path + r->starts[r->depth - 1];
    if (*open == '/')
        open++;
    return strcmp(open, name) == 0 ? pop(r) : -EBADMSG;
}

// --- text ---

static int append_character(struct reader *r, uint32_t c)
{
    char bytes[4];
    size_t len = 0;
    if (c == 0 || c > 0x10ffff)
        return -EBADMSG;
    if (c < 0x80) {
        bytes[len++] = (char)c;
    } else if (c < 0x800) {
        bytes[len++] = (char)(0xc0 | c >> 6);
        bytes[len++] = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        bytes[len++] = (char)(0xe0 | c >> 12);
        bytes[len++] = (char)(0x80 | (c >> 6 & 63));
        bytes[len++] = (char)(0x80 | (c & 63));
    } else {
        bytes[len++] = (char)(0xf0 | c >> 18);
        bytes[len++] = (char)(0x80 | (c >> 12 & 63));
        bytes[len++] = (char)(0x80 | (c >> 6 & 63));
        bytes[len++] = (char)(0x80 | (c & 63));
    }
    return buf_append(&r->value, bytes, len);
}

static int digit(char c, unsigned base)
{
    int n = c >= '0' && c <= '9'   ? c - '0'
            : c >= 'a' && c <= 'f' ? c - 'a' + 10
            : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                   : 99;
    return n < (int)base ? n : -1;
}

static int read_number(struct reader *r)
{
    unsigned base = begins(r, "x") ? 16 : 10;
    uint32_t c = 0;
    unsigned n = 0;
    r->at += base == 16;
    for (int d; r->at < r->end && (d = digit(*r->at, base)) >= 0; r->at++, n++) {
        c = c * base + (unsigned)d;
        if (c > 0x10ffff)
            return -EBADMSG;
    }
    if (n == 0 || !begins(r, ";"))
        return -EBADMSG;
    r->at++;
    return append_character(r, c);
}

static int read_reference(struct reader *r)
{
    static const struct {
        const char *name;
        char c;
    } known[] = {
        {"amp;",  '&' },
        {"lt;",   '<' },
        {"gt;",   '>' },
        {"quot;", '"' },
        {"apos;", '\''},
    };
    r->at++;
    if (begins(r, "#")) {
        r->at++;
        return read_number(r);
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (begins(r, known[i].name)) {
            r->at += strlen(known[i].name);
            return buf_append_char(&r->value, known[i].c);
        }
    }
    return -EBADMSG;
}

static int read_text(struct reader *r)
{
    const char *begin = r->at;
    while (r->at < r->end && *r->at != '<' && *r->at != '&') {
        if (*r->at == '\0' || (r->depth == 0 && !is_space(*r->at)))
            return -EBADMSG;
        r->at++;
    }
    return buf_append(&r->value, begin, (size_t)(r->at - begin));
}

static int step(struct reader *r)
{
    if (begins(r, "<?"))
        return skip_past(r, "?>");
    if (begins(r, "<!--"))
        return skip_past(r, "-->");
    if (begins(r, "</"))
        return read_close(r);
    if (begins(r, "<"))
        return read_open(r);
    if (begins(r, "&"))
        return r->depth > 0 ? read_reference(r) : -EBADMSG;
    return read_text(r);
}

int xml_read(const char *text, size_t len, xml_fn fn, void *data)
{
    struct reader r = {.at = text, .end = text + len, .fn = fn, .data = data};
    int result = 0;
    buf_init(&r.value, VALUE_MAX);
    while (result == 0 && r.at < r.end)
        result = step(&r);
    if (result == 0 && (r.depth > 0 || !r.had_root))
        result = -EBADMSG;
    buf_done(&r.value);
    return result;
}
