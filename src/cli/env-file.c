// SPDX-License-Identifier: Apache-2.0
#include "cli/env-file.h"

#include <stdbool.h>
#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static const char *skip_blanks(const char *at, const char *end)
{
    while (at < end && is_blank(*at))
        at++;
    return at;
}

// "export", and what it is followed by.
static const char *skip_export(const char *at, const char *end)
{
    static const char word[] = "export";
    size_t n = sizeof word - 1;
    bool there = (size_t)(end - at) > n && memcmp(at, word, n) == 0 && is_blank(at[n]);
    return there ? skip_blanks(at + n, end) : at;
}

// Where the value begins, if the line sets this name; else NULL.
static const char *value_of(const char *at, const char *end, const char *name)
{
    size_t n = strlen(name);
    at = skip_export(skip_blanks(at, end), end);
    if ((size_t)(end - at) <= n || memcmp(at, name, n) != 0)
        return NULL;
    at = skip_blanks(at + n, end);
    return at < end && *at == '=' ? skip_blanks(at + 1, end) : NULL;
}

static int bad_line(unsigned number, const char *what, struct err *err)
{
    return err_set(err, ERR_INVALID, "line %u %s", number, what);
}

// In single quotes everything is itself; in double quotes a backslash guards what follows it.
static int read_quoted(const char *at, const char *end, unsigned number, struct buf *ret,
                       struct err *err)
{
    char quote = *at++;
    for (; at < end && *at != quote; at++) {
        bool guarded = quote == '"' && *at == '\\' && at + 1 < end;
        at += guarded;
        (void)buf_append_char(ret, guarded && *at == 'n' ? '\n' : *at);
    }
    if (at == end)
        return bad_line(number, "has a quote that is not closed", err);
    at = skip_blanks(at + 1, end);
    return at == end || *at == '#' ? 0 : bad_line(number, "goes on behind its closing quote", err);
}

// Up to a comment, which stands behind a blank.
static void read_bare(const char *at, const char *end, struct buf *ret)
{
    const char *stop = at;
    while (stop < end && !(*stop == '#' && (stop == at || is_blank(stop[-1]))))
        stop++;
    while (stop > at && is_blank(stop[-1]))
        stop--;
    (void)buf_append(ret, at, (size_t)(stop - at));
}

static int read_value(const char *at, const char *end, unsigned number, struct buf *ret,
                      struct err *err)
{
    buf_reset(ret); // the last one counts
    if (at < end && (*at == '"' || *at == '\''))
        return read_quoted(at, end, number, ret, err);
    read_bare(at, end, ret);
    return 0;
}

int env_file_get(const char *text, size_t len, const char *name, struct buf *ret, struct err *err)
{
    const char *end = text + len;
    unsigned number = 0;
    int found = 0;
    if (memchr(text, '\0', len) != NULL)
        return err_set(err, ERR_INVALID, "it is not text");
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3;
    while (text < end) {
        const char *line_end = memchr(text, '\n', (size_t)(end - text));
        const char *next = line_end != NULL ? line_end + 1 : end;
        line_end = line_end != NULL ? line_end : end;
        if (line_end > text && line_end[-1] == '\r')
            line_end--;
        const char *value = value_of(text, line_end, name);
        number++;
        text = next;
        if (value == NULL)
            continue;
        if (read_value(value, line_end, number, ret, err) < 0)
            return -1;
        if (ret->failed != 0)
            return bad_line(number, "is too long", err);
        found = 1;
    }
    return found;
}
