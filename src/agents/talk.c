// SPDX-License-Identifier: Apache-2.0
// The loop: the model is asked; what it says is told and kept; what it wants done is done; and
// again. Each step comes from the loop, so the run can be cancelled, or run out of its time,
// between any two.
#include "agents/talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/talk-internal.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/show.h"

enum {
    SAID_MAX = 1024 * 1024,
    TODOS_MAX = 64 * 1024,
    GRACE_MS = 1000, // a call's own timeout comes after the conversation's
};

// --- its life

struct talk *talk_ref(struct talk *talk)
{
    talk->refs++;
    return talk;
}

void talk_unref(struct talk *talk)
{
    if (--talk->refs > 0)
        return;
    if (talk->sandbox != NULL)
        sandbox_unref(talk->sandbox);
    json_doc_free(talk->content);
    buf_done(&talk->body);
    buf_done(&talk->messages);
    buf_done(&talk->todos);
    buf_done(&talk->said);
    run_unref(talk->run);
    free(talk->model);
    free(talk);
}

static void free_timer(uv_handle_t *handle)
{
    free(handle);
}

static void end(struct talk *talk, struct run_end *end, const struct buf *body)
{
    end->sandbox = talk->sandbox != NULL ? sandbox_row(talk->sandbox)->id : NULL;
    end->model = talk->answered_by[0] != '\0' ? talk->answered_by : talk->model;
    end->generation_ms = talk->model_ns / NS_PER_MS;
    end->sandbox_ms = talk->tools_ns / NS_PER_MS;
    end->total_ms = talk_elapsed_ms(talk);
    talk->ended = true;
    talk_tools_drop(talk);
    talk_sandbox_done(talk);
    uv_close((uv_handle_t *)talk->timer, free_timer);
    run_end(talk->run, end, body);
    talk_unref(talk);
}

// What it has used until now is known then.
static void stop_asking(struct talk *talk)
{
    agents_cancel(talk->call);
    talk->call = NULL;
}

static void conclude(struct talk *talk, const struct talk_outcome *outcome)
{
    auto_buf body;
    struct run_end how = {
        .status = 200, .success = outcome->success, .error_code = outcome->error_code};
    stop_asking(talk);
    talk_say_end(talk, outcome);
    talk_write_answer(talk, outcome, &body);
    end(talk, &how, &body);
}

void talk_fail(struct talk *talk, const struct failure *failure)
{
    auto_buf body;
    if (talk->ended)
        return;
    struct run_end how = {
        .status = failure->status,
        .error_code = failure->error_code,
        .retry_after_ms = failure->retry_after_ms,
    };
    const struct talk_outcome outcome = {
        .subtype = "error_during_execution",
        .error_code = failure->error_code,
        .error = failure->message,
    };
    stop_asking(talk);
    talk_say_end(talk, &outcome);
    talk_write_failure(talk, failure, &body);
    end(talk, &how, &body);
}

static void on_cancel(void *data)
{
    struct talk *talk = data;
    const struct talk_outcome outcome = {
        .subtype = "error_during_execution",
        .error_code = "CANCELLED",
        .error = "it was cancelled",
    };
    if (!talk->ended)
        conclude(talk, &outcome);
}

static void on_time(uv_timer_t *timer)
{
    struct talk *talk = timer->data;
    struct failure failure;
    failure_timeout(&failure, talk->timeout_ms);
    talk_fail(talk, &failure);
}

// --- what the model said

// The text of the message is what the caller gets as its result.
static void collect_text(struct talk *talk)
{
    buf_reset(&talk->said);
    for (const struct json_node *b = json_first(json_root(talk->content)); b != NULL;
         b = json_next(b)) {
        const char *type = json_text(json_get(b, "type"));
        const struct json_node *text = json_get(b, "text");
        if (type != NULL && strcmp(type, "text") == 0 && json_is(text, JSON_NODE_STRING))
            (void)buf_append(&talk->said, text->text, text->text_len);
    }
}

static void count(struct talk *talk, const struct model_result *r)
{
    talk->model_ns += r->total_ns;
    if (r->end == MODEL_DONE && r->model != NULL && model_name_valid(r->model))
        (void)snprintf(talk->answered_by, sizeof talk->answered_by, "%s", r->model);
}

// How a message that is the last one ends the conversation.
static const struct {
    const char *stop_reason;
    struct talk_outcome outcome;
} endings[] = {
    {"end_turn",                      {.success = true, .subtype = "success"}                     },
    {"stop_sequence",                 {.success = true, .subtype = "success"}                     },
    {"max_tokens",
     {.subtype = "success",
      .error_code = "MAX_TOKENS",
      .error = "the answer is longer than max_tokens: it breaks off"}                             },
    {"model_context_window_exceeded",
     {.subtype = "success",
      .error_code = "MAX_TOKENS",
      .error = "the conversation is longer than the model can take in"}                           },
    {"refusal",
     {.subtype = "success", .error_code = "MODEL_REFUSED", .error = "the model refused to answer"}},
};

static void conclude_with(struct talk *talk, const char *stop_reason)
{
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (strcmp(endings[i].stop_reason, stop_reason) == 0) {
            conclude(talk, &endings[i].outcome);
            return;
        }
    }
    const struct talk_outcome unknown = {
        .subtype = "error_during_execution",
        .error_code = "API_ERROR",
        .error = "the model stopped for a reason that is not known here",
    };
    conclude(talk, &unknown);
}

static void out_of_turns(struct talk *talk)
{
    char text[80];
    (void)snprintf(text, sizeof text, "Reached maximum number of turns (%lld)",
                   (long long)talk->max_turns);
    const struct talk_outcome outcome = {
        .subtype = "error_max_turns", .error_code = "MAX_TURNS", .error = text};
    conclude(talk, &outcome);
}

static void ask(struct talk *talk);

// Tools are not run when nobody would hear of what they did.
static void use_tools(struct talk *talk)
{
    struct failure failure;
    unsigned n = talk_tools_take(talk);
    if (n == 0 || n > TALK_USES_MAX) {
        failure_set(&failure, 502, "API_ERROR", "the model asked for %u tools at once", n);
        talk_fail(talk, &failure);
    } else if (talk->turns >= talk->max_turns) {
        out_of_turns(talk);
    } else {
        talk_tools_run(talk);
    }
}

void talk_go_on(struct talk *talk)
{
    if (talk->ended)
        return;
    talk_say_results(talk);
    talk_request_results(talk);
    talk_tools_drop(talk);
    ask(talk);
}

// 0, or -1 when the answer was none, and that was the end.
static int take_in(struct talk *talk, const struct model_result *r)
{
    struct err err = {0};
    struct failure failure;
    struct json_doc *content = NULL;
    if (json_read(r->content, r->content_len, &content, &err) < 0) {
        failure_set(&failure, 502, "API_ERROR", "the model's answer cannot be read: %s", err.msg);
        talk_fail(talk, &failure);
        return -1;
    }
    json_doc_free(talk->content);
    talk->content = content;
    talk->turns++;
    (void)snprintf(talk->stop_reason, sizeof talk->stop_reason, "%s",
                   r->stop_reason != NULL ? r->stop_reason : "");
    collect_text(talk);
    talk_say_answer(talk, r);
    talk_request_answer(talk, r->content, r->content_len);
    return 0;
}

// What comes after the message that was taken in.
static void follow(struct talk *talk)
{
    if (strcmp(talk->stop_reason, "tool_use") == 0)
        use_tools(talk);
    else if (strcmp(talk->stop_reason, "pause_turn") != 0)
        conclude_with(talk, talk->stop_reason);
    else if (talk->turns >= talk->max_turns)
        out_of_turns(talk);
    else
        ask(talk);
}

static void on_done(void *data, const struct model_result *r)
{
    struct talk *talk = data;
    struct failure failure;
    talk->call = NULL;
    count(talk, r);
    if (r->end != MODEL_DONE) {
        failure_of(r, &failure);
        talk_fail(talk, &failure);
        return;
    }
    talk_ref(talk);
    if (take_in(talk, r) == 0 && !talk->ended)
        follow(talk);
    talk_unref(talk);
}

static void on_event(void *data, const struct model_event *event)
{
    struct talk *talk = data;
    switch (event->type) {
    case MODEL_RAW:
        if (talk->partial)
            talk_say_piece(talk, event);
        break;
    case MODEL_AGAIN:
        talk_say_retry(talk, event);
        break;
    case MODEL_TEXT:
        break;
    }
}

// --- asking it

static bool may_ask(struct talk *talk)
{
    struct failure failure;
    if (talk->sandbox != NULL && failure_of_budget(sandbox_row(talk->sandbox), &failure)) {
        talk_fail(talk, &failure);
        return false;
    }
    if (talk_request_finish(talk) == 0)
        return true;
    failure_set(&failure, 400, "INVALID_REQUEST", "the conversation is longer than %d bytes",
                TALK_HISTORY_MAX);
    talk_fail(talk, &failure);
    return false;
}

static void ask(struct talk *talk)
{
    if (talk->ended || !may_ask(talk))
        return;
    const struct sandbox_row *row = talk->sandbox != NULL ? sandbox_row(talk->sandbox) : NULL;
    const struct agents_ask what = {
        .run = talk->run,
        .source = "sdk",
        .sandbox = row != NULL ? row->id : NULL,
        .sandbox_number = row != NULL ? row->number : 0,
        .model = talk->model,
        .request_ =
            {
                       .body = talk->body.data,
                       .body_len = talk->body.len,
                       .stream = true,
                       .timeout_ms = talk->timeout_ms + GRACE_MS,
                       .retries = -1,
                       },
    };
    talk->call = agents_ask(talk->agents, &what, on_event, on_done, talk);
    talk_request_unfinish(talk);
}

// --- beginning

static int64_t within(int64_t value, int64_t max)
{
    return value < max ? value : max;
}

static struct talk *talk_new(struct agents *agents, const struct talk_request *request,
                             const char *model)
{
    struct talk *talk = calloc(1, sizeof *talk);
    if (talk == NULL)
        abort();
    *talk = (struct talk){
        .agents = agents,
        .refs = 1,
        .tenant = request->tenant,
        .model = mem_copy_text(model),
        .max_turns = request->max_turns,
        .max_tokens = within(request->max_tokens, model_max_output(model)),
        .timeout_ms = request->timeout_ms,
        .partial = request->partial,
        .begun_ns = clock_ns(),
    };
    run_make_id(talk->session);
    buf_init(&talk->messages, 2 * TALK_MESSAGES_MAX);
    buf_init(&talk->todos, TODOS_MAX);
    buf_init(&talk->said, SAID_MAX);
    return talk;
}

static void begin(struct talk *talk)
{
    struct json j;
    auto_buf start;
    buf_init(&start, 1024);
    json_init(&j, &start);
    json_open_object(&j);
    show_str(&j, "request_id", run_id(talk->run));
    json_close_object(&j);
    run_event(talk->run, "start", &start);
    talk_say_init(talk);
    ask(talk);
}

static void start_timer(struct talk *talk)
{
    talk->timer = calloc(1, sizeof *talk->timer);
    if (talk->timer == NULL)
        abort();
    (void)uv_timer_init(agents_config(talk->agents)->loop, talk->timer);
    talk->timer->data = talk;
    (void)uv_timer_start(talk->timer, on_time, (uint64_t)talk->timeout_ms, 0);
}

struct run *talk_start(struct agents *agents, const struct talk_request *request, struct err *err)
{
    const struct agents_config *config = agents_config(agents);
    const char *model =
        model_resolve(request->model != NULL ? request->model : config->default_model);
    uint32_t tools;
    struct sandbox *s = NULL;
    if (!model_name_valid(model)) {
        (void)err_set(err, ERR_INVALID, "model: '%.80s' cannot be the name of a model", model);
        return NULL;
    }
    if (talk_tools_bits(request->tools, request->n_tools, &tools, err) < 0)
        return NULL;
    if (request->sandbox != NULL &&
        (s = fleet_find(config->fleet, request->tenant, request->sandbox, err)) == NULL)
        return NULL;
    const struct run_start start = {
        .tenant = request->tenant,
        .id = request->id,
        .kind = "sdk",
        .title = request->prompt,
        .model = model,
    };
    struct run *run = run_new(agents, &start, err);
    if (run == NULL)
        return NULL;
    struct talk *talk = talk_new(agents, request, model);
    talk->run = run_ref(run);
    talk->tools = tools;
    talk->sandbox = s != NULL ? sandbox_ref(s) : NULL;
    talk_request_begin(talk, request);
    start_timer(talk);
    run_on_cancel(run, on_cancel, talk);
    begin(talk);
    return run;
}
