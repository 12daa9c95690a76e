// SPDX-License-Identifier: Apache-2.0
#include "agents/fresh.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "agents/agents-internal.h"
#include "base/clock.h"
#include "base/mem.h"

enum {
    SLEEP_AFTER_MS = 60 * 1000,
    DESTROY_AFTER_MS = 60 * 60 * 1000, // whoever wants to go on with it has so long
    WAIT_MS = 30 * 1000,
    AGAIN_MS = 50,
    AWAKE_MIN = 4, // a quarter of all boxes, between these
    AWAKE_MAX = 64,
};

struct left { // a sandbox that nobody is known to need
    int64_t tenant;
    char *id;
    int64_t active_ms; // as it was left
    TAILQ_ENTRY(left) link;
};

struct making {
    struct agents *agents;
    int64_t tenant;
    struct fresh_wish wish; // its texts are copies
    struct sandbox *s;      // once there is one
    bool is_old;            // it was there before
    bool was_full;          // the machine was, not a quota
    sandbox_fn fn;
    void *data;
    int64_t until_ns;
    uv_timer_t *timer; // while it waits
    LIST_ENTRY(making) link;
};

struct fresh {
    TAILQ_HEAD(left_list, left) left; // oldest first
    unsigned n_left;
    LIST_HEAD(making_list, making) waiting;
    int64_t next_ns; // when one of those that wait for a quota may try again
};

struct fresh *fresh_open(void)
{
    struct fresh *f = calloc(1, sizeof *f);
    if (f == NULL)
        abort();
    TAILQ_INIT(&f->left);
    LIST_INIT(&f->waiting);
    return f;
}

// --- those that are awake for nobody

static void forget_left(struct fresh *f, struct left *left)
{
    TAILQ_REMOVE(&f->left, left, link);
    f->n_left--;
    free(left->id);
    free(left);
}

// Whether one was put to sleep. Those that somebody has used since are his.
static bool sleep_oldest(struct agents *a)
{
    struct fresh *f = a->fresh;
    struct err err;
    struct left *left = TAILQ_FIRST(&f->left);
    if (left == NULL)
        return false;
    struct sandbox *s = fleet_find(a->config.fleet, left->tenant, left->id, &err);
    bool unused = s != NULL && sandbox_is_up(s) && sandbox_row(s)->active_ms <= left->active_ms;
    forget_left(f, left);
    if (unused)
        sandbox_sleep(s, "others need its box", NULL, NULL);
    return unused;
}

static void make_room(struct agents *a)
{
    while (a->fresh->n_left > 0 && !sleep_oldest(a))
        ;
}

static unsigned most_awake(const struct agents *a)
{
    struct fleet_stats stats;
    fleet_stats(a->config.fleet, &stats);
    unsigned n = stats.boxes_max / 4;
    return n < AWAKE_MIN ? AWAKE_MIN : n > AWAKE_MAX ? AWAKE_MAX : n;
}

void fresh_left(struct agents *a, struct sandbox *s)
{
    const struct sandbox_row *row = sandbox_row(s);
    struct left *left = calloc(1, sizeof *left);
    if (left == NULL)
        abort();
    *left = (struct left){
        .tenant = row->tenant, .id = mem_copy_text(row->id), .active_ms = row->active_ms};
    TAILQ_INSERT_TAIL(&a->fresh->left, left, link);
    a->fresh->n_left++;
    while (a->fresh->n_left > most_awake(a))
        (void)sleep_oldest(a);
}

// --- making one

static void try(struct making *m);

static void free_timer(uv_handle_t *handle)
{
    free(handle);
}

static void stop_waiting(struct making *m)
{
    if (m->timer == NULL)
        return;
    LIST_REMOVE(m, link);
    uv_close((uv_handle_t *)m->timer, free_timer);
    m->timer = NULL;
}

// Each text is a copy of its own, or lent.
static void wish_texts(struct fresh_wish *wish, const char **ret[5])
{
    ret[0] = &wish->run;
    ret[1] = &wish->language;
    ret[2] = &wish->image;
    ret[3] = &wish->network;
    ret[4] = &wish->secrets;
}

static struct fresh_wish wish_copy(const struct fresh_wish *from)
{
    struct fresh_wish wish = *from;
    const char **texts[5];
    wish_texts(&wish, texts);
    for (unsigned i = 0; i < 5; i++)
        *texts[i] = mem_copy_text(*texts[i]);
    return wish;
}

static void wish_done(struct fresh_wish *wish)
{
    const char **texts[5];
    wish_texts(wish, texts);
    for (unsigned i = 0; i < 5; i++)
        free((char *)(uintptr_t)*texts[i]);
}

static void finish(struct making *m, const struct err *err)
{
    stop_waiting(m);
    if (err != NULL && m->s != NULL && !m->is_old)
        sandbox_destroy(m->s, NULL, NULL); // else it goes later, by itself
    m->fn(m->data, err == NULL ? m->s : NULL, !m->is_old, err);
    if (m->s != NULL)
        sandbox_unref(m->s);
    wish_done(&m->wish);
    free(m);
}

static bool is_full(const struct agents *a)
{
    struct fleet_stats stats;
    fleet_stats(a->config.fleet, &stats);
    return stats.running >= stats.boxes_max;
}

// Each try makes a sandbox, and removes it when there is no box for it: hundreds who wait must not
// do that all the time.
static bool may_try(struct making *m)
{
    struct fresh *f = m->agents->fresh;
    int64_t now = clock_ns();
    if (is_full(m->agents)) {
        m->was_full = true;
        return false;
    }
    if (m->was_full)
        return true;
    if (now < f->next_ns)
        return false;
    f->next_ns = now + AGAIN_MS * NS_PER_MS;
    return true;
}

static void on_timer(uv_timer_t *timer)
{
    struct making *m = timer->data;
    if (clock_ns() < m->until_ns && !may_try(m)) {
        make_room(m->agents);
        (void)uv_timer_start(timer, on_timer, AGAIN_MS, 0);
        return;
    }
    stop_waiting(m);
    try(m);
}

static void try_again(struct making *m)
{
    m->was_full = is_full(m->agents);
    make_room(m->agents);
    m->timer = calloc(1, sizeof *m->timer);
    if (m->timer == NULL)
        abort();
    (void)uv_timer_init(m->agents->config.loop, m->timer);
    m->timer->data = m;
    LIST_INSERT_HEAD(&m->agents->fresh->waiting, m, link);
    (void)uv_timer_start(m->timer, on_timer, AGAIN_MS, 0);
}

static void fail_or_wait(struct making *m, const struct err *err)
{
    if (err->code == ERR_UNAVAILABLE && !m->agents->closing && clock_ns() < m->until_ns)
        try_again(m);
    else
        finish(m, err);
}

static void create(struct making *m);

// Whether another image will do, and is tried.
static bool try_default_image(struct making *m, const struct err *err)
{
    if (err == NULL || err->code != ERR_NOT_FOUND || !m->wish.any_image || m->wish.image == NULL)
        return false;
    free((char *)(uintptr_t)m->wish.image);
    m->wish.image = NULL;
    create(m);
    return true;
}

static void on_awake(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct making *m = data;
    (void)s;
    (void)created;
    if (err != NULL && err->code != ERR_NONE)
        fail_or_wait(m, err);
    else
        finish(m, NULL);
}

static void on_created(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct making *m = data;
    (void)created;
    if (s == NULL || (err != NULL && err->code != ERR_NONE)) {
        if (!try_default_image(m, err))
            fail_or_wait(m, err);
        return;
    }
    m->s = sandbox_ref(s);
    sandbox_wake(s, on_awake, m);
}

static void create(struct making *m)
{
    struct fleet_stats stats;
    auto_buf labels, names;
    const struct fresh_wish *wish = &m->wish;
    fleet_stats(m->agents->config.fleet, &stats);
    buf_init(&labels, 256);
    buf_init(&names, 256);
    (void)buf_printf(&labels, "{\"" FRESH_LABEL "\":\"%s\"}", wish->run);
    if (wish->language != NULL)
        (void)buf_printf(&names, "[\"%s\"]", wish->language);
    const struct sandbox_settings settings = {
        .image = wish->image,
        .limits = {.memory = wish->memory, .cpu_milli = wish->cpu_milli},
        .sleep_after_ms = SLEEP_AFTER_MS,
        .destroy_after_ms = wish->destroy_after_ms != 0 ? wish->destroy_after_ms : DESTROY_AFTER_MS,
        .ephemeral = !stats.has_volume,
        .labels = buf_str(&labels),
        .languages = wish->language != NULL ? buf_str(&names) : NULL,
        .network = wish->network,
        .secrets = wish->secrets,
        .budget_cost = wish->budget_cost,
        .budget_tokens = wish->budget_tokens,
    };
    fleet_create(m->agents->config.fleet, m->tenant, &settings, on_created, m);
}

static void try(struct making *m)
{
    if (m->s != NULL)
        sandbox_wake(m->s, on_awake, m);
    else
        create(m);
}

static struct making *making_new(struct agents *a, sandbox_fn fn, void *data)
{
    struct making *m = calloc(1, sizeof *m);
    if (m == NULL)
        abort();
    *m = (struct making){
        .agents = a, .fn = fn, .data = data, .until_ns = clock_ns() + WAIT_MS * NS_PER_MS};
    return m;
}

void fresh_make_with(struct agents *a, int64_t tenant, const struct fresh_wish *wish, sandbox_fn fn,
                     void *data)
{
    struct making *m = making_new(a, fn, data);
    m->tenant = tenant;
    m->wish = wish_copy(wish);
    try(m);
}

void fresh_make(struct agents *a, int64_t tenant, const char *run, const char *language,
                sandbox_fn fn, void *data)
{
    const struct fresh_wish wish = {.run = run, .language = language};
    fresh_make_with(a, tenant, &wish, fn, data);
}

void fresh_wake(struct agents *a, struct sandbox *s, sandbox_fn fn, void *data)
{
    struct making *m = making_new(a, fn, data);
    m->s = sandbox_ref(s);
    m->is_old = true;
    try(m);
}

void fresh_stop(struct agents *a)
{
    struct err err;
    (void)err_set(&err, ERR_UNAVAILABLE, "the server is being stopped");
    while (!LIST_EMPTY(&a->fresh->waiting))
        finish(LIST_FIRST(&a->fresh->waiting), &err);
}

void fresh_close(struct agents *a)
{
    fresh_stop(a);
    while (!TAILQ_EMPTY(&a->fresh->left))
        forget_left(a->fresh, TAILQ_FIRST(&a->fresh->left));
    free(a->fresh);
    a->fresh = NULL;
}
