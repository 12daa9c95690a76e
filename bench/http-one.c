// SPDX-License-Identifier: Apache-2.0
// One client with one connection: what a request costs that nothing else is in the way of. Ours and
// the bare start take turns.
#include <stdio.h>

#include "base/clock.h"
#include "http-client.h"

enum { QUIET_MS = 50, SETTLE_MS = 5, WARM_UP = 20 };

static void name(char *ret, size_t size, const char *kind)
{
    static unsigned last;
    (void)snprintf(ret, size, "%s-%u", kind, ++last);
}

// --- a sandbox is made and used for the first time ---

struct took {
    int64_t created, used;
};

static struct took one_first(struct http_conn *c)
{
    char id[32];
    struct took took;
    name(id, sizeof id, "first");
    int64_t began = clock_ns();
    http_create(c, id);
    took.created = clock_ns() - began;
    http_exec(c, id, HTTP_EXEC_TRUE);
    took.used = clock_ns() - began;
    http_destroy(c, id);
    return took;
}

// A pool that is full, and a bare start that nobody counts, which warms the caches: before each of
// both sides.
static void prepare(struct http_conn *c)
{
    watchdog("a sandbox");
    http_settle(c);
    sleep_ms(SETTLE_MS);
    (void)bare_true();
}

void line_http_first(const struct http_bench *b)
{
    static struct http_conn c;
    struct series bare, created, used;
    http_open(&c, b);
    series_init(&bare, "bare", b->rounds);
    series_init(&created, "create", b->rounds);
    series_init(&used, "first exec", b->rounds);
    note("a new sandbox and its first exec, %u rounds", b->rounds);
    for (unsigned i = 0; i < WARM_UP; i++) {
        prepare(&c);
        (void)one_first(&c);
    }
    for (unsigned i = 0; i < b->rounds; i++) {
        prepare(&c);
        series_add(&bare, bare_true());
        prepare(&c);
        struct took took = one_first(&c);
        series_add(&created, took.created);
        series_add(&used, took.used);
    }
    series_done(&bare, "first");
    series_done(&created, "first");
    series_done(&used, "first");
    http_close(&c);
}

// --- one that runs is used ---

static int64_t one_exec(struct http_conn *c, const char *id, const char *body)
{
    int64_t began = clock_ns();
    http_exec(c, id, body);
    return clock_ns() - began;
}

static void measure(struct http_conn *c, const char *id, const char *body, unsigned quiet_ms,
                    const char *line)
{
    struct series bare, ours;
    series_init(&bare, "bare", c->b->rounds);
    series_init(&ours, "exec", c->b->rounds);
    for (unsigned i = 0; i < WARM_UP; i++)
        (void)one_exec(c, id, body);
    for (unsigned i = 0; i < 2 * c->b->rounds; i++) {
        watchdog("an exec");
        if (quiet_ms > 0)
            sleep_ms(quiet_ms);
        if ((i + i / 2) % 2 == 0)
            series_add(&bare, bare_true());
        else
            series_add(&ours, one_exec(c, id, body));
    }
    series_done(&bare, line);
    series_done(&ours, line);
}

void line_http_exec(const struct http_bench *b)
{
    static struct http_conn c;
    char id[32];
    name(id, sizeof id, "exec");
    http_open(&c, b);
    http_create(&c, id);
    note("exec in a running sandbox, %u rounds", b->rounds);
    measure(&c, id, HTTP_EXEC_TRUE, 0, "exec");
    note("the same after %d ms of quiet, %u rounds", QUIET_MS, b->rounds);
    measure(&c, id, HTTP_EXEC_TRUE, QUIET_MS, "exec-quiet");
    http_destroy(&c, id);
    http_close(&c);
}

void line_http_session(const struct http_bench *b)
{
    static struct http_conn c;
    char id[32], path[96];
    name(id, sizeof id, "session");
    http_open(&c, b);
    http_create(&c, id);
    (void)snprintf(path, sizeof path, "/sandbox/%s/sessions", id);
    (void)http_must(&c, "POST", path, "{\"id\":\"s\"}");
    note("a builtin in a session, %u rounds", b->rounds);
    measure(&c, id, "{\"command\":\":\",\"session\":\"s\"}", 0, "session");
    http_destroy(&c, id);
    http_close(&c);
}
