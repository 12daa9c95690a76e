// SPDX-License-Identifier: Apache-2.0
#include "cli/gather.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { UNAUTHORIZED = 401, RATE_LIMITED = 429 };

void gather_answer_init(struct answer *answer)
{
    *answer = (struct answer){.status = 0};
    buf_init(&answer->body, GATHER_ANSWER_MAX);
}

int gather_ask(const struct gather_way *way, const char *method, const char *target,
               struct answer *ret, struct err *err)
{
    const struct http_call call = {
        .method = method,
        .target = target,
        .wake_fd = way->wake_fd,
        .on_wake = way->on_wake,
        .wake_data = way->data,
    };
    if (way->before != NULL)
        way->before(way->data);
    if (remote_ask(way->remote, &call, ret, err) < 0)
        return -1;
    if (ret->doc == NULL)
        return err_set(err, ERR_INTERNAL, "the server at %s did not answer with JSON",
                       way->remote->place.text);
    return 0;
}

void gather_init(struct gathered *g)
{
    *g = (struct gathered){.taken_ns = 0};
    gather_answer_init(&g->health);
    gather_answer_init(&g->stats);
    gather_answer_init(&g->sandboxes);
    gather_answer_init(&g->requests);
    for (size_t i = 0; i < GATHER_USAGE; i++)
        gather_answer_init(&g->usage[i]);
}

void gather_done(struct gathered *g)
{
    answer_done(&g->health);
    answer_done(&g->stats);
    answer_done(&g->sandboxes);
    answer_done(&g->requests);
    for (size_t i = 0; i < GATHER_USAGE; i++)
        answer_done(&g->usage[i]);
}

// A server that answers, even with a refusal, is there; a break is not. One that lets us in no
// more, or says that we ask too much, is not asked on.
static int ask_perhaps(const struct gather_way *way, const char *target, struct answer *ret,
                       bool *ret_has, struct err *err)
{
    int r = gather_ask(way, "GET", target, ret, err);
    *ret_has = r == 0;
    unsigned status = way->remote->status;
    return r == 0 || (status >= 400 && status != UNAUTHORIZED && status != RATE_LIMITED) ? 0 : -1;
}

static bool is_running(const struct json_node *sandbox)
{
    const char *status = json_text(json_get(sandbox, "status"));
    return status != NULL && strcmp(status, "running") == 0;
}

static int ask_usage(struct gathered *g, const struct gather_way *way, const char *id,
                     struct err *err)
{
    bool has;
    auto_buf target;
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "sandbox", id, "stats");
    if (ask_perhaps(way, buf_str(&target), &g->usage[g->n_usage], &has, err) < 0)
        return -1;
    g->n_usage += has ? 1 : 0; // it may be gone since it was listed
    return 0;
}

static size_t count_running(const struct gathered *g)
{
    size_t n = 0;
    const struct json_node *list = json_get(answer_root(&g->sandboxes), "sandboxes");
    for (const struct json_node *s = json_first(list); s != NULL; s = json_next(s))
        n += is_running(s) ? 1 : 0;
    return n;
}

// The `n`th of those that run, round and round, until there are enough.
static int ask_usages(struct gathered *g, const struct gather_way *way, size_t from,
                      struct err *err)
{
    const struct json_node *list = json_get(answer_root(&g->sandboxes), "sandboxes");
    size_t running = count_running(g), at = 0;
    size_t skip = running > GATHER_USAGE ? from % running : 0;
    for (unsigned round = 0; round < 2; round++) {
        at = 0;
        for (const struct json_node *s = json_first(list); s != NULL; s = json_next(s)) {
            const char *id = json_text(json_get(s, "id"));
            if (!is_running(s) || id == NULL)
                continue;
            bool wanted = round == 0 ? at >= skip : at < skip;
            at++;
            if (!wanted || g->n_usage == GATHER_USAGE)
                continue;
            if (ask_usage(g, way, id, err) < 0)
                return -1;
        }
    }
    return 0;
}

// One that is being stopped says so with a 503, and answers the rest no more.
static int ask_health(struct gathered *g, const struct gather_way *way, struct err *err)
{
    int64_t before = clock_ns();
    int r = gather_ask(way, "GET", "/health", &g->health, err);
    g->health_ns = clock_ns() - before;
    return r;
}

int gather(struct gathered *g, const struct gather_way *way, size_t from, struct err *err)
{
    char list[64], requests[64];
    (void)snprintf(list, sizeof list, "/sandbox?limit=%d", GATHER_SANDBOXES);
    (void)snprintf(requests, sizeof requests, "/execute?limit=%d", GATHER_REQUESTS);
    g->taken_ns = clock_ns();
    g->n_usage = 0;
    if (ask_health(g, way, err) < 0 || gather_ask(way, "GET", list, &g->sandboxes, err) < 0 ||
        ask_perhaps(way, "/stats", &g->stats, &g->has_stats, err) < 0 ||
        ask_perhaps(way, requests, &g->requests, &g->has_requests, err) < 0)
        return -1;
    return ask_usages(g, way, from, err);
}

const struct json_node *gather_usage_of(const struct gathered *g, const char *id)
{
    for (size_t i = 0; i < g->n_usage; i++) {
        const struct json_node *root = answer_root(&g->usage[i]);
        const char *whose = json_text(json_get(root, "sandboxId"));
        if (whose != NULL && strcmp(whose, id) == 0)
            return json_get(root, "stats");
    }
    return NULL;
}
