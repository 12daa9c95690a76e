// SPDX-License-Identifier: Apache-2.0
#include "hand/scan.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "hand/hand-internal.h"

enum {
    WINDOW = 256 * 1024,
    BINARY = 8 * 1024, // where NULs are looked for
    BEFORE = 256,      // of a long line, before the match
};

static struct {
    char needle[HAND_DATA_MAX];
    size_t needle_len;
    bool no_case;
    char bytes[WINDOW];
    char folded[WINDOW]; // the same in small letters, if case does not matter
} s;

struct window {
    int fd;
    uint64_t max;
    uint64_t base;   // where bytes[0] is in the file
    size_t len, pos; // pos: matches begin there or later
    bool at_end;
    uint64_t line, line_start, counted; // newlines before `counted` were
};

static void fold(char *to, const char *from, size_t len)
{
    for (size_t i = 0; i < len; i++)
        to[i] = from[i] >= 'A' && from[i] <= 'Z' ? (char)(from[i] + ('a' - 'A')) : from[i];
}

void scan_for(const char *text, size_t len, bool no_case)
{
    s.needle_len = len;
    s.no_case = no_case;
    if (no_case)
        fold(s.needle, text, len);
    else
        memcpy(s.needle, text, len);
}

static int fill(struct window *w)
{
    size_t from = w->len;
    while (w->len < WINDOW && !w->at_end) {
        uint64_t at = w->base + w->len;
        size_t want = WINDOW - w->len;
        if (w->max - at < want)
            want = (size_t)(w->max - at);
        ssize_t n = want > 0 ? pread(w->fd, s.bytes + w->len, want, (off_t)at) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        w->at_end = n == 0;
        w->len += (size_t)n;
    }
    if (s.no_case)
        fold(s.folded + from, s.bytes + from, w->len - from);
    return 0;
}

// Counts lines up to a place in the window.
static void count(struct window *w, size_t to)
{
    size_t at = (size_t)(w->counted - w->base);
    while (at < to) {
        const char *nl = memchr(s.bytes + at, '\n', to - at);
        if (nl == NULL)
            break;
        at = (size_t)(nl - s.bytes) + 1;
        w->line++;
        w->line_start = w->base + at;
    }
    if (w->counted < w->base + to)
        w->counted = w->base + to;
}

static int tell(struct window *w, size_t at, scan_fn fn, void *data)
{
    count(w, at);
    uint64_t offset = w->base + at;
    size_t before = offset - w->line_start < BEFORE ? (size_t)(offset - w->line_start) : BEFORE;
    if (before > at)
        before = at;
    struct scan_match match = {
        .offset = offset,
        .line = w->line,
        .column = offset - w->line_start + 1,
        .text = s.bytes + at - before,
        .text_len = w->len - (at - before) < SCAN_TEXT ? w->len - (at - before) : SCAN_TEXT,
    };
    const char *nl = memchr(s.bytes + at, '\n', match.text_len - before);
    if (nl != NULL)
        match.text_len = (size_t)(nl - match.text);
    return fn(data, &match);
}

// All matches of the window that are whole, with what is around them.
static int scan_window(struct window *w, scan_fn fn, void *data)
{
    const char *hay = s.no_case ? s.folded : s.bytes;
    size_t behind = s.needle_len + SCAN_TEXT; // must be there, unless the file ends
    size_t last = w->at_end ? w->len : w->len < behind ? 0 : w->len - behind;
    while (w->pos <= last) {
        const char *hit = memmem(hay + w->pos, w->len - w->pos, s.needle, s.needle_len);
        size_t at = hit != NULL ? (size_t)(hit - hay) : w->len;
        if (hit == NULL || at > last) {
            w->pos = at > last ? last + 1 : at;
            break;
        }
        int r = tell(w, at, fn, data);
        if (r != 0)
            return r;
        w->pos = at + s.needle_len;
    }
    return 0;
}

static void slide(struct window *w)
{
    size_t gone = w->pos > BEFORE ? w->pos - BEFORE : 0;
    if (gone > w->len)
        gone = w->len;
    count(w, w->pos < w->len ? w->pos : w->len);
    memmove(s.bytes, s.bytes + gone, w->len - gone);
    if (s.no_case)
        memmove(s.folded, s.folded + gone, w->len - gone);
    w->base += gone;
    w->pos -= gone;
    w->len -= gone;
}

int scan_file(int fd, uint64_t max, scan_fn fn, void *data)
{
    struct window w = {.fd = fd, .max = max, .line = 1};
    for (;;) {
        int r = fill(&w);
        if (r < 0)
            return r;
        if (w.base == 0 && memchr(s.bytes, '\0', w.len < BINARY ? w.len : BINARY) != NULL)
            return 0;
        r = scan_window(&w, fn, data);
        if (r != 0 || w.at_end)
            return r;
        slide(&w);
    }
}
