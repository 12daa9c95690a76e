// SPDX-License-Identifier: Apache-2.0
// One question, and one turn of a conversation, each beside the call to the model that is in it.
// One client with one connection, at the pace of a user; the contenders take turns.
#include <string.h>

#include "ask.h"
#include "base/clock.h"

enum { WARM_UP = 5 };

#define TALK "{\"prompt\":\"[[text: Canberra]]\"}"

static const char *const python[] = {"/usr/bin/python3", "-c", ASK_CODE, NULL};

struct sides {
    struct series ours, bare, curl, model, generation, sandbox;
};

static void init(struct sides *s, const char *ours, unsigned rounds)
{
    series_init(&s->ours, ours, rounds);
    series_init(&s->bare, "python3", rounds);
    series_init(&s->curl, "curl", rounds);
    series_init(&s->model, "model call", rounds);
    series_init(&s->generation, "generation_ms", rounds);
    series_init(&s->sandbox, "sandbox_ms", rounds);
}

// What came so far was to get warm.
static void begin_anew(struct sides *s)
{
    struct series *all[] = {&s->ours, &s->bare, &s->curl, &s->model, &s->generation, &s->sandbox};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        all[i]->n = 0;
}

static void report(struct sides *s, const char *line)
{
    struct series *all[] = {&s->ours, &s->bare, &s->curl, &s->model, &s->generation, &s->sandbox};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        series_done(all[i], line);
}

// --- a question

static void add_ms(struct series *s, const struct http_answer *answer)
{
    series_add(s, (int64_t)(http_number(answer, s->name) * (double)NS_PER_MS));
}

static void question(struct http_conn *c, struct sides *s)
{
    const char *body = ask_question();
    int64_t began = clock_ns();
    struct http_answer answer = http_call(c, "POST", "/execute", body);
    int64_t took = clock_ns() - began;
    if (!ask_good(&answer))
        die("POST /execute: %d %.300s", answer.status, answer.body);
    series_add(&s->ours, took);
    add_ms(&s->generation, &answer);
    add_ms(&s->sandbox, &answer);
    ask_clear(c, &answer);
}

static void question_round(const struct ask_bench *b, struct http_conn *c, struct model_conn *m,
                           struct sides *s)
{
    ask_prepare(c);
    series_add(&s->bare, bare_command(python));
    ask_prepare(c);
    series_add(&s->curl, model_curl(b, b->question));
    ask_prepare(c);
    series_add(&s->model, model_call(m).all);
    ask_prepare(c);
    question(c, s);
}

void line_ask_question(const struct ask_bench *b)
{
    static struct http_conn c;
    struct model_conn m;
    struct sides s;
    http_open(&c, &b->http);
    model_open(&m, b, b->question);
    note("a question, %u rounds", b->rounds);
    init(&s, "question", b->rounds);
    for (unsigned i = 0; i < WARM_UP; i++)
        question_round(b, &c, &m, &s);
    begin_anew(&s);
    for (unsigned i = 0; i < b->rounds; i++)
        question_round(b, &c, &m, &s);
    report(&s, "question");
    model_close(&m);
    http_close(&c);
}

// --- a turn

static int64_t talk(struct http_conn *c)
{
    int64_t began = clock_ns();
    struct http_answer answer = http_call(c, "POST", "/execute/sdk", TALK);
    int64_t took = clock_ns() - began;
    if (answer.status != 200 || strstr(answer.body, "\"result\":\"Canberra\"") == NULL)
        die("POST /execute/sdk: %d %.300s", answer.status, answer.body);
    return took;
}

static void talk_round(const struct ask_bench *b, struct http_conn *c, struct model_conn *m,
                       struct sides *s)
{
    ask_prepare(c);
    series_add(&s->curl, model_curl(b, b->talk));
    ask_prepare(c);
    series_add(&s->model, model_call(m).all);
    ask_prepare(c);
    series_add(&s->ours, talk(c));
}

void line_ask_talk(const struct ask_bench *b)
{
    static struct http_conn c;
    struct model_conn m;
    struct sides s;
    http_open(&c, &b->http);
    model_open(&m, b, b->talk);
    note("a turn of a conversation, %u rounds", b->rounds);
    init(&s, "turn", b->rounds);
    for (unsigned i = 0; i < WARM_UP; i++)
        talk_round(b, &c, &m, &s);
    begin_anew(&s);
    for (unsigned i = 0; i < b->rounds; i++)
        talk_round(b, &c, &m, &s);
    report(&s, "talk");
    model_close(&m);
    http_close(&c);
}
