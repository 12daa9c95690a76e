// SPDX-License-Identifier: Apache-2.0
// Each pattern is followed by Knuth, Morris and Pratt's automaton, whose state is how many bytes of
// the pattern the last bytes are: with it goes how much must be held back. Chunk frames lie between
// the bytes of a body, so `ring` tells where in the stream the last bytes of the body were.
#include "egress/scan.h"

#include <errno.h>
#include <sodium.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "h1/head.h"

enum { PATTERNS_MAX = 3, PENDING_MAX = 256 * 1024 };

struct pattern {
    uint8_t *text;
    uint32_t *fail; // how much of the pattern is left when one more byte does not fit
    size_t len, matched;
};

enum scan_state {
    SCAN_HEAD,    // an answer's head is being waited for
    SCAN_BODY,    // its body
    SCAN_STREAM,  // after a 101: bytes
    SCAN_STOPPED, // found, or nonsense
};

struct scan {
    enum scan_state state;
    bool is_head, ended;
    struct pattern patterns[PATTERNS_MAX];
    unsigned n_patterns;
    struct buf pending; // not taken yet
    uint64_t base;      // where in the stream `pending` begins
    uint64_t seen;      // and how far it was looked at
    uint64_t *ring;     // where the last `ring_size` bytes of text were
    size_t ring_size, ring_at;
    struct h1_framing framing;
};

struct scan *scan_new(void)
{
    struct scan *scan = calloc(1, sizeof *scan);
    if (scan == NULL)
        abort();
    buf_init(&scan->pending, PENDING_MAX);
    return scan;
}

void scan_free(struct scan *scan)
{
    if (scan == NULL)
        return;
    for (unsigned i = 0; i < scan->n_patterns; i++) {
        struct pattern *p = &scan->patterns[i];
        sodium_memzero(p->text, p->len);
        sodium_memzero(p->fail, p->len * sizeof *p->fail); // tells what repeats in it
        free(p->text);
        free(p->fail);
    }
    if (scan->pending.data != NULL)
        sodium_memzero(scan->pending.data, scan->pending.cap);
    buf_done(&scan->pending);
    free(scan->ring);
    free(scan);
}

static void prepare(struct pattern *p)
{
    for (size_t i = 1, k = 0; i < p->len; i++) {
        while (k > 0 && p->text[i] != p->text[k])
            k = p->fail[k - 1];
        k += p->text[i] == p->text[k];
        p->fail[i] = (uint32_t)k;
    }
}

void scan_add(struct scan *scan, const void *text, size_t len)
{
    struct pattern *p = &scan->patterns[scan->n_patterns];
    if (len < SCAN_LEAST || scan->n_patterns == PATTERNS_MAX)
        return;
    p->text = malloc(len);
    p->fail = calloc(len, sizeof *p->fail);
    uint64_t *ring = len > scan->ring_size ? calloc(len, sizeof *ring) : scan->ring;
    if (p->text == NULL || p->fail == NULL || ring == NULL)
        abort();
    (void)memcpy(p->text, text, len);
    p->len = len;
    p->matched = 0;
    prepare(p);
    if (ring != scan->ring) {
        free(scan->ring);
        scan->ring = ring;
        scan->ring_size = len;
        scan->ring_at = 0;
    }
    scan->n_patterns++;
}

void scan_request(struct scan *scan, bool is_head)
{
    scan->is_head = is_head;
}

static void forget_matches(struct scan *scan)
{
    for (unsigned i = 0; i < scan->n_patterns; i++)
        scan->patterns[i].matched = 0;
}

// One byte of text, which stands at `at` in the stream. True: that was the last of a pattern.
static bool look(struct scan *scan, uint8_t byte, uint64_t at)
{
    bool found = false;
    if (scan->ring_size > 0) {
        scan->ring[scan->ring_at] = at;
        scan->ring_at = (scan->ring_at + 1) % scan->ring_size;
    }
    for (unsigned i = 0; i < scan->n_patterns; i++) {
        struct pattern *p = &scan->patterns[i];
        while (p->matched > 0 && p->text[p->matched] != byte)
            p->matched = p->fail[p->matched - 1];
        p->matched += p->text[p->matched] == byte;
        found |= p->matched == p->len;
        if (p->matched == p->len)
            p->matched = p->fail[p->len - 1];
    }
    return found;
}

static bool look_at(struct scan *scan, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (look(scan, (uint8_t)data[i], scan->seen + i))
            return true;
    }
    return false;
}

static void after_head(struct scan *scan, const struct h1_head *head)
{
    forget_matches(scan);
    h1_framing_init(&scan->framing, head);
    if (head->status == 101)
        scan->state = SCAN_STREAM;
    else if (head->status >= 200 && !scan->framing.done)
        scan->state = SCAN_BODY;
}

// Each of these looks at what is pending: bytes it is done with, 0 when it needs more, or -errno.

static ssize_t step_head(struct scan *scan, const char *data, size_t len)
{
    struct h1_head head;
    const char *why;
    struct h1_text method = {scan->is_head ? "HEAD" : "", scan->is_head ? 4 : 0};
    int r = h1_parse_answer(&head, data, len, method, &why);
    if (r <= 0)
        return r < 0 ? -EBADMSG : 0;
    if (look_at(scan, data, head.len))
        return -EPERM;
    after_head(scan, &head);
    return (ssize_t)head.len;
}

static ssize_t step_body(struct scan *scan, const char *data, size_t len)
{
    bool is_data;
    size_t n = h1_framing_next(&scan->framing, data, len, &is_data);
    if (scan->framing.bad)
        return -EBADMSG;
    if (is_data && look_at(scan, data, n))
        return -EPERM;
    if (scan->framing.done) {
        forget_matches(scan);
        scan->state = SCAN_HEAD;
    }
    return (ssize_t)n;
}

static ssize_t step(struct scan *scan, const char *data, size_t len)
{
    switch (scan->state) {
    case SCAN_HEAD:
        return step_head(scan, data, len);
    case SCAN_BODY:
        return step_body(scan, data, len);
    case SCAN_STREAM:
        return look_at(scan, data, len) ? -EPERM : (ssize_t)len;
    case SCAN_STOPPED:
        break;
    }
    return -EPERM;
}

int scan_put(struct scan *scan, const void *data, size_t len)
{
    int r = buf_append(&scan->pending, data, len);
    while (r == 0) {
        size_t at = (size_t)(scan->seen - scan->base);
        if (at == scan->pending.len)
            return 0;
        ssize_t n = step(scan, scan->pending.data + at, scan->pending.len - at);
        if (n == 0)
            return 0;
        if (n < 0)
            r = (int)n;
        else
            scan->seen += (uint64_t)n;
    }
    scan->state = SCAN_STOPPED;
    return r;
}

void scan_end(struct scan *scan)
{
    scan->ended = true;
}

// How far what is pending may be taken.
static uint64_t limit(const struct scan *scan)
{
    uint64_t to = scan->seen;
    if (scan->state == SCAN_STOPPED)
        return scan->base;
    if (scan->ended)
        return scan->base + scan->pending.len;
    for (unsigned i = 0; i < scan->n_patterns; i++) {
        size_t matched = scan->patterns[i].matched;
        if (matched < SCAN_LEAST)
            continue;
        uint64_t from = scan->ring[(scan->ring_at + scan->ring_size - matched) % scan->ring_size];
        if (from < to)
            to = from;
    }
    return to < scan->base ? scan->base : to;
}

size_t scan_take(struct scan *scan, void *ret, size_t size)
{
    size_t n = (size_t)(limit(scan) - scan->base);
    if (n > size)
        n = size;
    if (n == 0)
        return 0;
    (void)memcpy(ret, scan->pending.data, n);
    buf_consume(&scan->pending, n);
    scan->base += n;
    return n;
}

bool scan_is_empty(const struct scan *scan)
{
    return limit(scan) == scan->base;
}
