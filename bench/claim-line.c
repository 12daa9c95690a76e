// SPDX-License-Identifier: Apache-2.0
// A box from the claim to its end, pooled or built in line. Ours and the bare start take turns;
// before each the pool is full and nothing is busy, and the kernel has had a moment for what it
// does behind our back (network namespaces go in a worker), so that neither pays for the other's
// leftovers.
#include "base/clock.h"
#include "client.h"

enum {
    BOXES = 16,
    POOL_READY = 4,
    SETTLE_MS = 5,
    QUIET_MS = 50,
    WARM_UP = 10,
};

// A program that is announced as the box's last takes the box with it; else the box is destroyed
// when the program has ended. A client that runs one thing does the former, one that keeps a box
// the latter.
enum way { WAY_LAST, WAY_DESTROY };

struct times {
    struct series bare, ended, gone, destroyed;
};

struct took {
    int64_t ended, gone; // until its processes are reaped, until nothing is left of it
};

static struct took one_box(struct client *c, enum way way)
{
    struct exec_spec spec = client_exec(true_argv);
    struct box_handle box;
    struct streams streams;
    struct took took;
    spec.flags = way == WAY_LAST ? GUEST_EXEC_LAST : 0;
    int64_t began = clock_ns();
    box_claim(c, &box);
    box_start(&box, &spec, &streams);
    box_finish(&box, &streams);
    if (way == WAY_LAST)
        box_ended(c, &box);
    else
        box_destroy(c, &box);
    took.ended = clock_ns() - began;
    box_gone(c, &box);
    took.gone = clock_ns() - began;
    return took;
}

// With quiet, nothing at all runs before the measured start; else a bare start has warmed the
// caches.
static void prepare(struct client *c, unsigned quiet_ms)
{
    client_settle(c, 0);
    sleep_ms(quiet_ms > 0 ? quiet_ms : SETTLE_MS);
    if (quiet_ms == 0)
        (void)bare_true();
}

static void rounds(struct client *c, unsigned n, unsigned quiet_ms, struct times *t)
{
    for (unsigned i = 0; i < WARM_UP; i++)
        (void)one_box(c, WAY_LAST);
    for (unsigned i = 0; i < n; i++) {
        prepare(c, quiet_ms);
        series_add(&t->bare, bare_true());
        prepare(c, quiet_ms);
        struct took took = one_box(c, WAY_LAST);
        series_add(&t->ended, took.ended);
        series_add(&t->gone, took.gone);
        prepare(c, quiet_ms);
        series_add(&t->destroyed, one_box(c, WAY_DESTROY).ended);
    }
}

static void measure(struct client *c, const struct bench *b, unsigned quiet_ms, const char *line)
{
    struct times t;
    series_init(&t.bare, "bare", b->rounds);
    series_init(&t.ended, "ended", b->rounds);
    series_init(&t.gone, "gone", b->rounds);
    series_init(&t.destroyed, "destroyed", b->rounds);
    rounds(c, b->rounds, quiet_ms, &t);
    series_done(&t.bare, line);
    series_done(&t.ended, line);
    series_done(&t.gone, line);
    series_done(&t.destroyed, line);
}

void line_claim(const struct bench *b)
{
    struct client c;
    client_start(&c, b, BOXES, POOL_READY, 0);
    note("a pooled box, %u rounds", b->rounds);
    measure(&c, b, 0, "claim");
    note("a pooled box after %d ms of quiet, %u rounds", QUIET_MS, b->rounds);
    measure(&c, b, QUIET_MS, "claim-quiet");
    client_stop(&c);
}

void line_cold(const struct bench *b)
{
    struct client c;
    client_start(&c, b, BOXES, 0, 0);
    note("a box without a pool, %u rounds", b->rounds);
    measure(&c, b, 0, "cold");
    note("a box without a pool after %d ms of quiet, %u rounds", QUIET_MS, b->rounds);
    measure(&c, b, QUIET_MS, "cold-quiet");
    client_stop(&c);
}
