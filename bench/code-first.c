// SPDX-License-Identifier: Apache-2.0
// The first cell of a sandbox that did not exist, beside an interpreter that is started bare for
// the same code. One client with one connection, at the pace of a user: before each round the pool
// is full, and has been left alone for long enough to have an interpreter in its boxes again.
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "code.h"

enum { WARM_UP = 3, BODY_MAX = 512 };

#define PYTHON     "/usr/bin/python3"
#define PANDAS     "import pandas as pd; "
#define PANDAS_SUM "pd.DataFrame({'a':[1,2,3]})['a'].sum()"

struct first {
    const char *line;
    const char *language;
    const char *create; // of POST /sandbox, behind the id
    const char *code;
    const char *text; // what must be in the answer
    const char *bare[4];
    unsigned pause_ms;
};

static const struct first python = {
    .line = "first",
    .language = "python",
    .create = "",
    .code = "1+1",
    .text = "\"text\":\"2\"",
    .bare = {PYTHON, "-c", "print(1+1)"},
    .pause_ms = 100,
};

static const struct first pandas = {
    .line = "pandas",
    .language = "python",
    .create = "",
    .code = PANDAS PANDAS_SUM,
    .text = "\"text\":\"6\"",
    .bare = {PYTHON, "-c", PANDAS "print(" PANDAS_SUM ")"},
    .pause_ms = 100,
};

static const struct first node = {
    .line = "node",
    .language = "javascript",
    .create = ",\"languages\":[\"javascript\"]",
    .code = "1+1",
    .text = "\"text\":\"2\"",
    .bare = {"/usr/bin/node", "-e", "1+1"},
    .pause_ms = 300, // a Node starts in earnest
};

struct took {
    int64_t created, opened, all;
};

static void create(struct http_conn *c, const struct first *f, const char *id)
{
    char body[BODY_MAX];
    (void)snprintf(body, sizeof body, "{\"id\":\"%s\",\"keepAlive\":true%s}", id, f->create);
    (void)http_must(c, "POST", "/sandbox", body);
}

// Sandbox, context, cell: three requests.
static struct took three(struct http_conn *c, const struct first *f)
{
    char id[32], path[96], open[BODY_MAX], run[BODY_MAX];
    struct took took;
    code_name(id, sizeof id, f->line);
    (void)snprintf(path, sizeof path, "/sandbox/%s/contexts", id);
    (void)snprintf(open, sizeof open, "{\"id\":\"c\",\"language\":\"%s\"}", f->language);
    (void)snprintf(run, sizeof run, "{\"context\":\"c\",\"code\":\"%s\"}", f->code);
    int64_t began = clock_ns();
    create(c, f, id);
    took.created = clock_ns() - began;
    (void)http_must(c, "POST", path, open);
    took.opened = clock_ns() - began - took.created;
    code_run(c, id, run, f->text);
    took.all = clock_ns() - began;
    http_destroy(c, id);
    return took;
}

// Sandbox, and a cell in the language's own context: two.
static int64_t two(struct http_conn *c, const struct first *f)
{
    char id[32], run[BODY_MAX];
    code_name(id, sizeof id, f->line);
    (void)snprintf(run, sizeof run, "{\"language\":\"%s\",\"code\":\"%s\"}", f->language, f->code);
    int64_t began = clock_ns();
    create(c, f, id);
    code_run(c, id, run, f->text);
    int64_t took = clock_ns() - began;
    http_destroy(c, id);
    return took;
}

static void prepare(struct http_conn *c, const struct first *f)
{
    watchdog("a sandbox");
    http_settle(c);
    sleep_ms(f->pause_ms);
}

struct sides {
    struct series bare, three, created, opened, ran, two;
};

static void one_round(struct http_conn *c, const struct first *f, struct sides *s)
{
    prepare(c, f);
    series_add(&s->bare, bare_command(f->bare));
    prepare(c, f);
    struct took took = three(c, f);
    series_add(&s->three, took.all);
    series_add(&s->created, took.created);
    series_add(&s->opened, took.opened);
    series_add(&s->ran, took.all - took.created - took.opened);
    prepare(c, f);
    series_add(&s->two, two(c, f));
}

static void measure(const struct code_bench *b, const struct first *f, unsigned rounds)
{
    static struct http_conn c;
    struct sides s;
    http_open(&c, &b->http);
    series_init(&s.bare, "bare", rounds);
    series_init(&s.three, "three requests", rounds);
    series_init(&s.created, "create", rounds);
    series_init(&s.opened, "context", rounds);
    series_init(&s.ran, "code", rounds);
    series_init(&s.two, "two requests", rounds);
    note("a new sandbox and its first cell, %u rounds", rounds);
    for (unsigned i = 0; i < WARM_UP; i++) {
        prepare(&c, f);
        (void)bare_command(f->bare);
        (void)three(&c, f);
    }
    for (unsigned i = 0; i < rounds; i++)
        one_round(&c, f, &s);
    struct series *all[] = {&s.bare, &s.three, &s.created, &s.opened, &s.ran, &s.two};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        series_done(all[i], f->line);
    http_close(&c);
}

void line_code_first(const struct code_bench *b)
{
    measure(b, &python, b->starts);
}

void line_code_pandas(const struct code_bench *b)
{
    measure(b, &pandas, b->slow_starts);
}

void line_code_node(const struct code_bench *b)
{
    measure(b, &node, b->starts / 2);
}
