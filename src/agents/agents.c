// SPDX-License-Identifier: Apache-2.0
#include "agents/agents.h"

#include <stdlib.h>
#include <string.h>

#include "agents/agents-internal.h"
#include "agents/failure.h"
#include "agents/fresh.h"
#include "agents/opencode.h"
#include "base/mem.h"
#include "egress/spend.h"

int agents_open(const struct agents_config *config, struct agents **ret, struct err *err)
{
    int64_t lost = 0;
    if (db_result_lose(config->db, config->run, &lost, err) < 0)
        return -1;
    struct agents *a = calloc(1, sizeof *a);
    if (a == NULL)
        return err_set(err, ERR_EXHAUSTED, "no memory");
    a->config = *config;
    a->config.default_model = mem_copy_text(model_resolve(config->default_model));
    a->fresh = fresh_open();
    a->opencode = opencode_open();
    *ret = a;
    return 0;
}

void agents_stop(struct agents *a)
{
    a->closing = true;
    runs_cancel(a);
    tasks_stop(a);
    opencode_stop(a);
    fresh_stop(a);
}

void agents_close(struct agents *a)
{
    if (a == NULL)
        return;
    if (!a->closing) // nobody has asked for it: the keeper is gone, and the next daemon goes on
        tasks_leave(a);
    a->closing = true;
    tasks_stop(a);
    runs_close(a);
    opencode_close(a);
    fresh_close(a);
    free((char *)(uintptr_t)a->config.default_model);
    free(a);
}

const struct agents_config *agents_config(const struct agents *a)
{
    return &a->config;
}

void agents_stats(const struct agents *a, struct agents_stats *ret)
{
    *ret = a->stats;
}

// --- one call to the model

struct agents_call {
    struct agents *agents;
    struct agents_ask ask; // its texts are copies
    char *body;
    model_event_fn event;
    model_done_fn done;
    void *data;
    struct model_access access;
    struct model_call *call;
    uv_timer_t *later; // tells that there is no key, from the loop
    struct err err;
    bool waits_for_key, cancelled, renewed;
};

static void free_timer(uv_handle_t *handle)
{
    free(handle);
}

static void free_call(struct agents_call *c)
{
    if (c->later != NULL)
        uv_close((uv_handle_t *)c->later, free_timer);
    model_access_done(&c->access);
    run_unref(c->ask.run);
    free((char *)(uintptr_t)c->ask.sandbox);
    free((char *)(uintptr_t)c->ask.model);
    free((char *)(uintptr_t)c->ask.request_.beta);
    free(c->body);
    free(c);
}

static void finish(struct agents_call *c, const struct model_result *result)
{
    model_done_fn done = c->done;
    void *data = c->data;
    free_call(c);
    done(data, result);
}

static void write_down(struct agents_call *c, const char *model, const struct model_usage *usage,
                       bool always)
{
    struct agents *a = c->agents;
    struct spend_row row = {
        .tenant = run_tenant(c->ask.run),
        .sandbox_number = c->ask.sandbox_number,
        .sandbox = (char *)(uintptr_t)c->ask.sandbox,
        .request = (char *)(uintptr_t)run_id(c->ask.run),
        .source = (char *)(uintptr_t)c->ask.source,
        .model = (char *)(uintptr_t)model,
    };
    if (!always && model_usage_tokens(usage) == 0)
        return;
    spend_write(a->config.fleet, &row, usage);
    run_spent(c->ask.run, usage, row.cost);
    model_usage_add(&a->stats.usage, usage);
    a->stats.cost = model_cost_add(a->stats.cost, row.cost);
}

static void begin(struct agents_call *c);

static void on_done(void *data, const struct model_result *result)
{
    struct agents_call *c = data;
    c->call = NULL;
    c->agents->stats.call_errors += result->end != MODEL_DONE;
    // What is told may be anything, and is written down for long.
    bool is_named = result->model != NULL && model_name_valid(result->model);
    write_down(c, is_named ? result->model : c->ask.model, &result->usage,
               result->end == MODEL_DONE);
    if (result->end == MODEL_AUTH && !c->renewed && !c->access.guarded &&
        model_keys_refused(c->agents->config.keys, &c->access)) {
        c->renewed = true;
        begin(c);
        return;
    }
    finish(c, result);
}

static void on_event(void *data, const struct model_event *event)
{
    struct agents_call *c = data;
    if (c->event != NULL)
        c->event(c->data, event);
}

static void tell_no_key(uv_timer_t *timer)
{
    struct agents_call *c = timer->data;
    const struct err err = c->err; // which goes with the call
    bool missing = err.code == ERR_NOT_FOUND;
    const struct model_result result = {
        .end = missing ? MODEL_INVALID : MODEL_AUTH,
        .error_type = missing ? FAILURE_NO_KEY : "",
        .message = err.msg,
        .request_id = "",
        .id = "",
        .model = "",
        .content = "[]",
        .stop_reason = "",
        .stop_details = "null",
        .usage_json = "{}",
    };
    finish(c, &result);
}

static void fail_later(struct agents_call *c, const struct err *err)
{
    c->err = *err;
    c->later = calloc(1, sizeof *c->later);
    if (c->later == NULL)
        abort();
    (void)uv_timer_init(c->agents->config.loop, c->later);
    c->later->data = c;
    (void)uv_timer_start(c->later, tell_no_key, 0, 0);
}

static void on_key(void *data, const struct model_access *access, const struct err *err)
{
    struct agents_call *c = data;
    c->waits_for_key = false;
    if (c->cancelled) {
        free_call(c);
        return;
    }
    if (access == NULL) {
        fail_later(c, err);
        return;
    }
    model_access_done(&c->access);
    if (model_access_copy(access, &c->access) < 0)
        abort();
    c->ask.request_.access = &c->access;
    c->agents->stats.calls++;
    c->call = model_ask(c->agents->config.model, &c->ask.request_, on_event, on_done, c);
}

static void begin(struct agents_call *c)
{
    const struct agents_config *config = &c->agents->config;
    c->waits_for_key = true;
    model_key_get(config->secrets, config->keys, run_tenant(c->ask.run), on_key, c);
}

struct agents_call *agents_ask(struct agents *a, const struct agents_ask *ask, model_event_fn event,
                               model_done_fn done, void *data)
{
    struct agents_call *c = calloc(1, sizeof *c);
    if (c == NULL)
        abort();
    *c = (struct agents_call){.agents = a, .ask = *ask, .event = event, .done = done, .data = data};
    run_ref(c->ask.run);
    c->ask.sandbox = mem_copy_text(ask->sandbox);
    c->ask.model = mem_copy_text(ask->model);
    c->ask.request_.beta = mem_copy_text(ask->request_.beta);
    c->body = malloc(ask->request_.body_len + 1);
    if (c->body == NULL)
        abort();
    (void)memcpy(c->body, ask->request_.body, ask->request_.body_len);
    c->body[ask->request_.body_len] = '\0';
    c->ask.request_.body = c->body;
    begin(c);
    return c;
}

void agents_cancel(struct agents_call *c)
{
    if (c == NULL)
        return;
    c->cancelled = true;
    if (c->waits_for_key)
        return;            // it is freed when the key comes
    if (c->call != NULL) { // what was said until now has its price
        struct model_usage used;
        model_used(c->call, &used);
        model_cancel(c->call);
        write_down(c, c->ask.model, &used, /* always */ false);
    }
    free_call(c);
}
