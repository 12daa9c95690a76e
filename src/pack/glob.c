// SPDX-License-Identifier: Apache-2.0
// One pattern of a .gitignore against one path, a segment (what is between slashes) at a time. A
// star that fails is tried again from the last star alone, and so are segments from the last "**":
// what was matched before it cannot be matched better, so the time is bounded by the product of
// both lengths. That may still be more than anybody wants to wait for, when somebody has written
// long patterns for just that: all of them together have so many steps, by the paths looked at.
#include <ctype.h>
#include <string.h>

#include "pack/ignore.h"

#define STEPS_MAX (UINT64_C(100) * 1000 * 1000)

struct span {
    const char *at, *end;
};

enum { STEPS_PATH = 20 * 1000 }; // more for each path

static uint64_t steps, allowed;

void ignore_begin(void)
{
    steps = allowed = 0;
}

void ignore_allow(void)
{
    allowed += STEPS_PATH;
}

void ignore_spend(uint64_t n)
{
    steps += n;
}

bool ignore_is_spent(void)
{
    return steps > STEPS_MAX + allowed;
}

static const struct {
    const char *name;
    int (*is)(int);
} classes[] = {
    {"alnum",  isalnum },
    {"alpha",  isalpha },
    {"blank",  isblank },
    {"cntrl",  iscntrl },
    {"digit",  isdigit },
    {"graph",  isgraph },
    {"lower",  islower },
    {"print",  isprint },
    {"punct",  ispunct },
    {"space",  isspace },
    {"upper",  isupper },
    {"xdigit", isxdigit},
};

// "[:name:]" at `at`: its length, or 0 when it is none; -1 when there is no such class.
static int match_class(struct span p, unsigned char c, bool *ret_matched)
{
    const char *close = memchr(p.at + 2, ']', (size_t)(p.end - p.at - 2));
    if (close == NULL)
        return -1;
    if (close - p.at < 3 || close[-1] != ':')
        return 0;
    size_t len = (size_t)(close - p.at - 3);
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (strlen(classes[i].name) == len && memcmp(classes[i].name, p.at + 2, len) == 0) {
            *ret_matched = *ret_matched || (c < 128 && classes[i].is(c) != 0);
            return (int)(close + 1 - p.at);
        }
    }
    return -1;
}

// One member of a set that is a character: where it ends, or NULL.
static const char *set_char(struct span p, unsigned char *ret)
{
    if (*p.at == '\\')
        p.at++;
    if (p.at >= p.end)
        return NULL;
    *ret = (unsigned char)*p.at;
    return p.at + 1;
}

// A single character or a range: where it ends, or NULL.
static const char *match_range(struct span p, unsigned char c, bool *ret_matched)
{
    unsigned char low, high;
    const char *at = set_char(p, &low);
    if (at == NULL)
        return NULL;
    if (p.end - at >= 2 && at[0] == '-' && at[1] != ']') {
        at = set_char((struct span){at + 1, p.end}, &high);
        if (at == NULL)
            return NULL;
    } else {
        high = low;
    }
    *ret_matched = *ret_matched || (low <= c && c <= high);
    return at;
}

// A set that begins at '[': where it ends, or NULL when it is none. No set matches a slash, and
// here there is none.
static const char *match_set(struct span p, unsigned char c, bool *ret_matched)
{
    bool negated = false, matched = false;
    const char *at = p.at + 1;
    if (at < p.end && (*at == '!' || *at == '^')) {
        negated = true;
        at++;
    }
    for (const char *first = at; at < p.end && (at == first || *at != ']');) {
        struct span rest = {at, p.end};
        int n = p.end - at > 2 && at[0] == '[' && at[1] == ':' ? match_class(rest, c, &matched) : 0;
        if (n < 0)
            return NULL;
        at = n > 0 ? at + n : match_range(rest, c, &matched);
        steps++;
        if (at == NULL || ignore_is_spent())
            return NULL;
    }
    if (at >= p.end)
        return NULL;
    *ret_matched = matched != negated;
    return at + 1;
}

// One character against what is at p: where the pattern goes on, or NULL.
static const char *match_one(struct span p, unsigned char c)
{
    bool matched = false;
    switch (*p.at) {
    case '?':
        return p.at + 1;
    case '[': {
        const char *next = match_set(p, c, &matched);
        return matched ? next : NULL;
    }
    case '\\':
        return p.end - p.at > 1 && (unsigned char)p.at[1] == c ? p.at + 2 : NULL;
    default:
        return (unsigned char)*p.at == c ? p.at + 1 : NULL;
    }
}

static bool match_segment(struct span p, struct span t)
{
    const char *star = NULL, *from = NULL;
    while (!ignore_is_spent()) {
        steps++;
        if (p.at < p.end && *p.at == '*') {
            star = ++p.at;
            from = t.at;
            continue;
        }
        if (t.at == t.end && p.at == p.end)
            return true;
        const char *next = p.at < p.end && t.at < t.end ? match_one(p, (unsigned char)*t.at) : NULL;
        if (next != NULL) {
            p.at = next;
            t.at++;
        } else if (star != NULL && from < t.end) {
            p.at = star;
            t.at = ++from;
        } else {
            return false;
        }
    }
    return false;
}

// Where a set ends, or NULL when it is none.
static const char *skip_set(struct span p)
{
    bool ignored;
    return match_set(p, 0, &ignored);
}

// The end of the first segment of a pattern: a slash in a set is none.
static const char *segment_end(struct span p)
{
    while (p.at < p.end && *p.at != '/') {
        steps++;
        const char *set = *p.at == '[' ? skip_set(p) : NULL;
        if (*p.at == '\\' && p.end - p.at > 1 && p.at[1] == '/')
            return p.at;
        p.at = set != NULL ? set : p.at + (*p.at == '\\' && p.end - p.at > 1 ? 2 : 1);
    }
    return p.at;
}

static struct span after_slash(struct span p, const char *end)
{
    if (end < p.end && *end == '\\')
        end++;
    return (struct span){end < p.end ? end + 1 : p.end, p.end};
}

static struct span path_rest(struct span t)
{
    const char *slash = memchr(t.at, '/', (size_t)(t.end - t.at));
    return (struct span){slash != NULL ? slash + 1 : t.end, t.end};
}

static struct span path_first(struct span t)
{
    const char *slash = memchr(t.at, '/', (size_t)(t.end - t.at));
    return (struct span){t.at, slash != NULL ? slash : t.end};
}

// Two stars or more, and nothing else.
static bool is_any_depth(const char *at, const char *end)
{
    size_t len = (size_t)(end - at);
    return len >= 2 && strspn(at, "*") >= len;
}

bool ignore_match(const char *pattern, size_t len, const char *path)
{
    struct span p = {pattern, pattern + len}, t = {path, path + strlen(path)};
    struct span retry_p = {0}, retry_t = {0};
    while (!ignore_is_spent()) {
        const char *end = segment_end(p);
        if (is_any_depth(p.at, end)) {
            if (end == p.end) // everything in it
                return t.at < t.end;
            p = after_slash(p, end);
            retry_p = p;
            retry_t = t;
            continue;
        }
        if (p.at == p.end && t.at == t.end)
            return true;
        struct span first = path_first(t);
        if (p.at < p.end && t.at < t.end && match_segment((struct span){p.at, end}, first)) {
            bool more_p = end < p.end, more_t = first.end < t.end;
            if (more_p == more_t) {
                p = after_slash(p, end);
                t = path_rest(t);
                continue;
            }
        }
        if (retry_p.at == NULL || retry_t.at >= retry_t.end)
            return false;
        retry_t = path_rest(retry_t);
        p = retry_p;
        t = retry_t;
    }
    return false;
}
