// SPDX-License-Identifier: Apache-2.0
#include "agents/opencode.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "agents/agents-internal.h"
#include "agents/opencode-http.h"
#include "agents/opencode-internal.h"
#include "base/log.h"
#include "base/mem.h"
#include "sandbox/process.h"
#include "wire/guest-msg.h"

enum {
    PROBE_MS = 1500,       // one that was sent while it boots may hang
    PROBE_EVERY_MS = 20,   // while nobody listens
    START_MS = 120 * 1000, // from the start to the first answer
    STOP_MS = 15 * 1000,
    HEALTH_MAX = 64 * 1024,
};

enum state {
    WAKING,   // the sandbox
    LOOKING,  // soon: which process there is
    STOPPING, // one with another configuration, or of another box
    STARTING, // the process
    PROBING,  // whether it answers
    UP,
};

struct waiter {
    TAILQ_ENTRY(waiter) link;
    opencode_fn fn;
    void *data;
};

struct server {
    struct agents *agents;
    unsigned refs; // its own until it is down, and those of what is under way
    bool down;
    char key[24];
    struct sandbox *s;
    bool busy;
    enum state state;
    uint64_t box; // where it is up
    struct process *p;
    struct process_watch *watch;
    struct opencode_http *probe;
    uv_timer_t timer;
    uint64_t since; // the state's beginning
    char *config;   // that it was started with; NULL: none
    TAILQ_HEAD(waiters, waiter) waiters;
};

// --- life

static void server_unref(struct server *srv)
{
    if (--srv->refs > 0)
        return;
    free(srv->config);
    free(srv);
}

static void on_timer_closed(uv_handle_t *handle)
{
    server_unref(handle->data);
}

static void set_busy(struct server *srv, bool on)
{
    if (srv->busy == on)
        return;
    srv->busy = on;
    if (on)
        sandbox_busy(srv->s);
    else
        sandbox_idle(srv->s);
}

static void let_go_of_process(struct server *srv)
{
    process_watch_free(srv->watch);
    srv->watch = NULL;
    process_unref(srv->p);
    srv->p = NULL;
    opencode_http_cancel(srv->probe);
    srv->probe = NULL;
}

static void tell(struct server *srv, const struct failure *failure)
{
    struct waiters told;
    TAILQ_INIT(&told);
    TAILQ_CONCAT(&told, &srv->waiters, link);
    for (struct waiter *w; (w = TAILQ_FIRST(&told)) != NULL;) {
        TAILQ_REMOVE(&told, w, link);
        w->fn(w->data, failure);
        free(w);
    }
}

// There is none any more; the next who asks begins from the beginning.
static void server_down(struct server *srv, const struct failure *failure)
{
    if (srv->down)
        return;
    srv->down = true;
    (void)map_del(&srv->agents->opencode->servers, srv->key);
    let_go_of_process(srv);
    set_busy(srv, false);
    tell(srv, failure);
    sandbox_unref(srv->s); // now: the fleet may be freed before the loop turns
    srv->s = NULL;
    uv_close((uv_handle_t *)&srv->timer, on_timer_closed); // its own reference goes with it
}

static void fail_err(struct server *srv, const struct err *err)
{
    struct failure failure;
    failure_of_err(err, &failure);
    server_down(srv, &failure);
}

static struct server *find(struct agents *agents, const struct sandbox *s)
{
    char key[24];
    (void)snprintf(key, sizeof key, "%lld", (long long)sandbox_row(s)->number);
    return map_get(&agents->opencode->servers, key);
}

static void enter(struct server *srv, enum state state)
{
    srv->state = state;
    srv->since = uv_now(srv->agents->config.loop);
}

static uint64_t lasted(const struct server *srv)
{
    return uv_now(srv->agents->config.loop) - srv->since;
}

// --- why it ended

static void fail_ended(struct server *srv, struct process *p)
{
    struct failure failure;
    char words[LAST_WORDS_MAX];
    const struct process_row *row = process_row(p);
    opencode_words_of(p, words, sizeof words);
    if (row->reason == END_OOM || (row->limits & GUEST_LIMIT_OOM))
        failure_set(&failure, 507, "OUT_OF_MEMORY",
                    "OpenCode was ended, since the sandbox's memory was used up: it needs about "
                    "700 MiB. PATCH /sandbox/%.128s {\"memory\": \"2g\"}",
                    sandbox_row(srv->s)->id);
    else
        failure_set(&failure, 502, "AGENT_FAILED",
                    "OpenCode's server ended before it answered (%s, exit code %d)%s%s",
                    end_reason_name(row->reason), (int)row->exit_code, words[0] != '\0' ? ": " : "",
                    words);
    server_down(srv, &failure);
}

// --- whether it answers

static void on_timer(uv_timer_t *timer);

static void soon(struct server *srv, uint64_t ms)
{
    (void)uv_timer_start(&srv->timer, on_timer, ms, 0);
}

static void become_up(struct server *srv)
{
    enter(srv, UP);
    srv->box = sandbox_box(srv->s);
    set_busy(srv, false);
    (void)uv_timer_stop(&srv->timer);
    tell(srv, NULL);
}

static void on_health(void *data, const struct opencode_answer *answer, const struct err *err)
{
    struct server *srv = data;
    srv->probe = NULL;
    (void)err; // it boots
    if (answer != NULL && answer->status < 500)
        become_up(srv);
    else
        soon(srv, PROBE_EVERY_MS);
}

static void probe(struct server *srv)
{
    struct failure failure;
    char words[LAST_WORDS_MAX];
    if (lasted(srv) > START_MS) {
        opencode_words_of(srv->p, words, sizeof words);
        failure_set(&failure, 504, "AGENT_FAILED", "OpenCode's server does not answer%s%s",
                    words[0] != '\0' ? ": " : "", words);
        server_down(srv, &failure);
        return;
    }
    const struct opencode_request request = {
        .loop = srv->agents->config.loop,
        .s = srv->s,
        .port = OPENCODE_PORT,
        .method = "GET",
        .target = "/global/health",
        .timeout_ms = PROBE_MS,
        .max = HEALTH_MAX,
    };
    srv->probe = opencode_http_ask(&request, on_health, srv);
}

static void on_process(void *data, struct process *p)
{
    struct server *srv = data;
    if (p != NULL && process_row(p)->reason == END_NONE)
        return; // it has written something
    if (srv->state == STOPPING) {
        let_go_of_process(srv);
        enter(srv, LOOKING);
        soon(srv, 0); // its row is still being written
    } else if (p != NULL && srv->state == PROBING) {
        fail_ended(srv, p);
    } else {
        struct failure failure;
        failure_set(&failure, 503, "UNAVAILABLE", "OpenCode's server was ended");
        server_down(srv, &failure);
    }
}

static void follow(struct server *srv, struct process *p, enum state state)
{
    srv->p = process_ref(p);
    srv->watch = process_watch(p, on_process, srv);
    enter(srv, state);
}

// --- starting it

static void note_start(struct server *srv, struct process *p)
{
    struct err err = {0};
    if (srv->config != NULL &&
        db_opencode_started(srv->agents->config.db, sandbox_row(srv->s)->number, srv->config,
                            process_row(p)->log, &err) < 0)
        log_line(LOG_WARN, "cannot note how OpenCode was started", "sandbox",
                 sandbox_row(srv->s)->id, "error", err.msg, NULL);
}

static void on_started(void *data, struct process *p, const struct err *err)
{
    struct server *srv = data;
    struct failure failure;
    if (srv->down) {
        if (p != NULL)
            (void)process_delete(p, &(struct err){0});
    } else if (p == NULL && err->sys_errno == ENOENT) {
        failure_set(&failure, 501, "AGENT_NOT_INSTALLED",
                    "there is no OpenCode in this sandbox's image: `cay image build agents`, and "
                    "make sandboxes with \"image\": \"agents\"");
        server_down(srv, &failure);
    } else if (p == NULL) {
        fail_err(srv, err);
    } else {
        note_start(srv, p);
        follow(srv, p, PROBING);
        probe(srv);
    }
    server_unref(srv);
}

static void start(struct server *srv)
{
    static const char *const argv[] = {"opencode",   "serve",     "--port", "4096",
                                       "--hostname", "127.0.0.1", NULL};
    struct err err = {0};
    auto_free char *extra = opencode_environment(srv->config, srv->agents->config.default_model);
    char **env = exec_env(srv->s, extra, 0, &err);
    if (env == NULL) {
        fail_err(srv, &err);
        return;
    }
    const struct process_request request = {
        .id = OPENCODE_NAME,
        .command = "[\"opencode\",\"serve\",\"--port\",\"4096\",\"--hostname\",\"127.0.0.1\"]",
        .exec = {.argv = argv, .envp = (const char *const *)env, .cwd = "/workspace"},
    };
    enter(srv, STARTING);
    srv->refs++;
    process_start(srv->s, &request, on_started, srv);
    exec_env_free(env);
}

// --- which process there is

static int read_config(struct server *srv, int64_t *ret_log, struct err *err)
{
    char *config = NULL;
    if (db_opencode_get(srv->agents->config.db, sandbox_row(srv->s)->number, &config, ret_log,
                        err) < 0)
        return -1;
    free(srv->config);
    srv->config = config;
    return 0;
}

static bool is_ours(const struct server *srv, const struct process_row *row, int64_t log)
{
    return row->box == (int64_t)sandbox_box(srv->s) && (srv->config == NULL || row->log == log);
}

static void look(struct server *srv)
{
    struct err err = {0};
    int64_t log = 0;
    if (read_config(srv, &log, &err) < 0) {
        fail_err(srv, &err);
        return;
    }
    struct process *p = process_find(srv->s, OPENCODE_NAME, &err);
    if (p == NULL && err.code != ERR_NOT_FOUND) {
        fail_err(srv, &err);
    } else if (p == NULL) {
        start(srv);
    } else if (process_row(p)->reason == END_NONE && is_ours(srv, process_row(p), log)) {
        follow(srv, p, PROBING);
        probe(srv);
    } else if (process_row(p)->reason == END_NONE) {
        follow(srv, p, STOPPING);
        soon(srv, STOP_MS);
        (void)process_delete(p, &err);
    } else if (process_delete(p, &err) < 0) {
        fail_err(srv, &err);
    } else {
        start(srv);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct server *srv = timer->data;
    struct failure failure;
    switch (srv->state) {
    case LOOKING:
        look(srv);
        break;
    case PROBING:
        probe(srv);
        break;
    case STOPPING:
        failure_set(&failure, 503, "UNAVAILABLE", "the OpenCode that runs cannot be ended");
        server_down(srv, &failure);
        break;
    case WAKING:
    case STARTING:
    case UP:
        break;
    }
}

static void on_awake(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct server *srv = data;
    (void)s;
    (void)created;
    if (!srv->down && err != NULL && err->code != ERR_NONE)
        fail_err(srv, err);
    else if (!srv->down)
        look(srv);
    server_unref(srv);
}

// --- for others

static struct server *server_new(struct agents *agents, struct sandbox *s)
{
    struct server *srv = calloc(1, sizeof *srv);
    if (srv == NULL)
        abort();
    srv->agents = agents;
    srv->refs = 1;
    srv->s = sandbox_ref(s);
    TAILQ_INIT(&srv->waiters);
    (void)snprintf(srv->key, sizeof srv->key, "%lld", (long long)sandbox_row(s)->number);
    (void)uv_timer_init(agents->config.loop, &srv->timer);
    srv->timer.data = srv;
    map_put(&agents->opencode->servers, srv->key, srv);
    return srv;
}

static bool is_up(const struct server *srv)
{
    return srv->state == UP && sandbox_is_up(srv->s) && sandbox_box(srv->s) == srv->box;
}

static void add_waiter(struct server *srv, opencode_fn fn, void *data)
{
    struct waiter *w = calloc(1, sizeof *w);
    if (w == NULL)
        abort();
    *w = (struct waiter){.fn = fn, .data = data};
    TAILQ_INSERT_TAIL(&srv->waiters, w, link);
}

void opencode_ready(struct agents *agents, struct sandbox *s, opencode_fn fn, void *data)
{
    struct server *srv = find(agents, s);
    if (srv != NULL && is_up(srv)) {
        sandbox_touch(s);
        fn(data, NULL);
        return;
    }
    if (srv != NULL && srv->state == UP)
        server_down(srv, NULL); // its box is gone
    srv = find(agents, s);
    if (srv != NULL) {
        add_waiter(srv, fn, data);
        return;
    }
    srv = server_new(agents, s);
    add_waiter(srv, fn, data);
    enter(srv, WAKING);
    set_busy(srv, true);
    srv->refs++;
    sandbox_wake(s, on_awake, srv);
}

void opencode_unready(struct agents *agents, struct sandbox *s, void *data)
{
    struct server *srv = find(agents, s);
    struct waiter *w, *next;
    for (w = srv != NULL ? TAILQ_FIRST(&srv->waiters) : NULL; w != NULL; w = next) {
        next = TAILQ_NEXT(w, link);
        if (w->data == data) {
            TAILQ_REMOVE(&srv->waiters, w, link);
            free(w);
        }
    }
}

void opencode_missing(struct agents *agents, struct sandbox *s)
{
    struct server *srv = find(agents, s);
    if (srv != NULL && srv->state == UP)
        server_down(srv, NULL);
}

void opencode_changed(struct agents *agents, struct sandbox *s)
{
    struct server *srv = find(agents, s);
    if (srv != NULL && (srv->state == UP || srv->state == PROBING || srv->state == STARTING)) {
        // Whoever waits meant the one before; the next finds a process with the old configuration.
        struct failure failure;
        failure_set(&failure, 503, "UNAVAILABLE", "OpenCode is being configured anew: try again");
        server_down(srv, &failure);
    }
}

struct opencode *opencode_open(void)
{
    struct opencode *all = calloc(1, sizeof *all);
    if (all == NULL)
        abort();
    return all;
}

void opencode_close(struct agents *agents)
{
    size_t at = 0;
    struct failure failure;
    opencode_stop(agents);
    failure_set(&failure, 503, "UNAVAILABLE", "the server is being stopped");
    for (struct server *srv; (srv = map_next(&agents->opencode->servers, &at)) != NULL;)
        server_down(srv, &failure);
    map_done(&agents->opencode->servers);
    free(agents->opencode);
    agents->opencode = NULL;
}
