// SPDX-License-Identifier: Apache-2.0
// state-bench --port PORT [--other-port PORT] [--quick] LINE...: measures what takes milliseconds
// of the table of state, with a server that runs and has the sandboxes that bench/state.py made;
// its token is in CAY_TOKEN, that of the other server in CAY_OTHER_TOKEN.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "http-client.h"

#define USAGE "usage: CAY_TOKEN=TOKEN state-bench --port PORT [--other-port PORT] [--quick] LINE..."

// The keeper makes boxes when nobody has asked it for 10 ms, and only those that are ready show.
enum { SETTLE_MS = 30, WARM_UP = 10 };

struct state_bench {
    struct http_bench ours, other;
};

struct line {
    const char *name;
    void (*run)(const struct state_bench *b);
};

static void name(char *ret, size_t size, const char *kind)
{
    static unsigned last;
    (void)snprintf(ret, size, "%s-%u", kind, ++last);
}

// A pool that is full, and a bare start that nobody counts, which warms the caches: before each of
// both sides.
static void prepare(struct http_conn *c, const char *what)
{
    watchdog(what);
    http_settle(c);
    sleep_ms(SETTLE_MS);
    (void)bare_true();
}

// --- a snapshot, of little and of much ---

// The id in an answer.
static void read_id(const struct http_answer *answer, char ret[64])
{
    const char *at = strstr(answer->body, "\"id\":\"");
    if (at == NULL)
        die("an answer without an id: %.200s", answer->body);
    at += strlen("\"id\":\"");
    (void)snprintf(ret, 64, "%.*s", (int)strcspn(at, "\""), at);
}

static int64_t one_snapshot(struct http_conn *c, const char *id)
{
    char path[192], snapshot[64];
    (void)snprintf(path, sizeof path, "/sandbox/%s/snapshots", id);
    prepare(c, "a snapshot");
    int64_t began = clock_ns();
    struct http_answer answer = http_must(c, "POST", path, "{}");
    int64_t took = clock_ns() - began;
    read_id(&answer, snapshot);
    (void)snprintf(path, sizeof path, "/sandbox/%s/snapshots/%s", id, snapshot);
    (void)http_must(c, "DELETE", path, NULL);
    return took;
}

static void line_snapshot(const struct state_bench *b)
{
    static struct http_conn c;
    struct series small, large;
    unsigned rounds = b->ours.rounds;
    http_open(&c, &b->ours);
    series_init(&small, "small", rounds);
    series_init(&large, "large", rounds);
    note("a snapshot of little and of much, %u rounds", rounds);
    for (unsigned i = 0; i < WARM_UP; i++) {
        (void)one_snapshot(&c, "small");
        (void)one_snapshot(&c, "large");
    }
    for (unsigned i = 0; i < rounds; i++) {
        series_add(&small, one_snapshot(&c, "small"));
        series_add(&large, one_snapshot(&c, "large"));
    }
    series_done(&small, "snapshot");
    series_done(&large, "snapshot");
    http_close(&c);
}

// --- a fork that has answered ---

struct forked {
    int64_t made, used;
};

static struct forked one_fork(struct http_conn *c, const char *id)
{
    char path[96], body[96], child[32];
    struct forked took;
    name(child, sizeof child, "child");
    (void)snprintf(path, sizeof path, "/sandbox/%s/fork", id);
    (void)snprintf(body, sizeof body, "{\"id\":\"%s\"}", child);
    prepare(c, "a fork");
    int64_t began = clock_ns();
    (void)http_must(c, "POST", path, body);
    took.made = clock_ns() - began;
    http_exec(c, child, HTTP_EXEC_TRUE);
    took.used = clock_ns() - began;
    http_destroy(c, child);
    return took;
}

static void line_fork(const struct state_bench *b)
{
    static struct http_conn c;
    static const char *const sources[] = {"small", "large"};
    struct series bare, made[2], used[2];
    unsigned rounds = b->ours.rounds;
    http_open(&c, &b->ours);
    series_init(&bare, "bare", rounds);
    for (unsigned s = 0; s < 2; s++) {
        series_init(&used[s], sources[s], rounds);
        series_init(&made[s], s == 0 ? "small made" : "large made", rounds);
        for (unsigned i = 0; i < WARM_UP; i++)
            (void)one_fork(&c, sources[s]);
    }
    note("a fork and its first exec, %u rounds", rounds);
    for (unsigned i = 0; i < rounds; i++) {
        prepare(&c, "a bare start");
        series_add(&bare, bare_true());
        for (unsigned s = 0; s < 2; s++) {
            struct forked took = one_fork(&c, sources[s]);
            series_add(&made[s], took.made);
            series_add(&used[s], took.used);
        }
    }
    series_done(&bare, "fork");
    for (unsigned s = 0; s < 2; s++) {
        series_done(&made[s], "fork");
        series_done(&used[s], "fork");
    }
    http_close(&c);
}

// --- one that sleeps, and a new one ---

static int64_t one_wake(struct http_conn *c)
{
    (void)http_must(c, "POST", "/sandbox/sleeper/sleep", NULL);
    prepare(c, "a wake");
    int64_t began = clock_ns();
    http_exec(c, "sleeper", HTTP_EXEC_TRUE);
    return clock_ns() - began;
}

static int64_t one_create(struct http_conn *c)
{
    char id[32];
    name(id, sizeof id, "new");
    prepare(c, "a new sandbox");
    int64_t began = clock_ns();
    http_create(c, id);
    http_exec(c, id, HTTP_EXEC_TRUE);
    int64_t took = clock_ns() - began;
    http_destroy(c, id);
    return took;
}

static void line_wake(const struct state_bench *b)
{
    static struct http_conn c;
    struct series wake, create;
    unsigned rounds = b->ours.rounds;
    http_open(&c, &b->ours);
    series_init(&wake, "wake", rounds);
    series_init(&create, "create", rounds);
    note("one that sleeps and a new one, %u rounds", rounds);
    for (unsigned i = 0; i < WARM_UP; i++) {
        (void)one_wake(&c);
        (void)one_create(&c);
    }
    for (unsigned i = 0; i < rounds; i++) {
        series_add(&wake, one_wake(&c));
        series_add(&create, one_create(&c));
    }
    series_done(&wake, "wake");
    series_done(&create, "wake");
    http_close(&c);
}

// --- a new one beside many that sleep, and alone ---

static void line_asleep(const struct state_bench *b)
{
    static struct http_conn beside, alone;
    struct series with, without;
    unsigned rounds = b->ours.rounds;
    if (b->other.port == 0)
        die(USAGE);
    http_open(&beside, &b->ours);
    http_open(&alone, &b->other);
    series_init(&with, "asleep", rounds);
    series_init(&without, "none", rounds);
    note("a new sandbox beside many that sleep, %u rounds", rounds);
    for (unsigned i = 0; i < WARM_UP; i++) {
        (void)one_create(&beside);
        (void)one_create(&alone);
    }
    for (unsigned i = 0; i < rounds; i++) {
        series_add(&with, one_create(&beside));
        series_add(&without, one_create(&alone));
    }
    series_done(&with, "asleep");
    series_done(&without, "asleep");
    http_close(&beside);
    http_close(&alone);
}

static const struct line lines[] = {
    {"snapshot", line_snapshot},
    {"fork",     line_fork    },
    {"wake",     line_wake    },
    {"asleep",   line_asleep  },
};

static void run_line(const struct state_bench *b, const char *wanted)
{
    for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (strcmp(lines[i].name, wanted) == 0) {
            lines[i].run(b);
            watchdog_off();
            return;
        }
    }
    die("there is no line '%s'", wanted);
}

static uint16_t port(const char *text)
{
    struct err err = {0};
    uint64_t n;
    if (parse_u64(text, 1, UINT16_MAX, &n, &err) < 0)
        die("'%s': %s", text, err.msg);
    return (uint16_t)n;
}

int main(int argc, char **argv)
{
    struct state_bench b = {.ours = {.rounds = 200}};
    int i = 1;
    report_begin("state-bench");
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            b.ours.rounds = 20;
        else if (strcmp(argv[i], "--port") == 0 && i + 1 < argc)
            b.ours.port = port(argv[++i]);
        else if (strcmp(argv[i], "--other-port") == 0 && i + 1 < argc)
            b.other.port = port(argv[++i]);
        else
            die(USAGE);
    }
    b.ours.token = getenv("CAY_TOKEN");
    b.other.token = getenv("CAY_OTHER_TOKEN");
    if (b.ours.port == 0 || b.ours.token == NULL)
        die(USAGE);
    for (; i < argc; i++)
        run_line(&b, argv[i]);
    return 0;
}
