// SPDX-License-Identifier: Apache-2.0
// POST /execute, here with a question, and how runs are answered and streamed.
#include "api/execute.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/answer.h"
#include "agents/failure.h"
#include "agents/task.h"
#include "api/body-token.h"
#include "api/execute-task.h"
#include "api/handlers.h"
#include "api/schemas.h"
#include "api/show.h"
#include "git/clone.h"
#include "sandbox/language.h"

enum { PIECE = 64 * 1024 };

struct watch {
    struct call *call; // a reference while it waits for the end
    struct run *run;   // counted
    struct run_follower *follower;
    uint64_t n;  // the event that is sent
    size_t at;   // of it
    bool opened; // its first lines are
};

static struct watch *watch_new(struct call *call, struct run *run)
{
    struct watch *w = calloc(1, sizeof *w);
    if (w == NULL)
        abort();
    *w = (struct watch){.call = call, .run = run_ref(run)};
    free(call->state);
    call->state = w;
    return w;
}

static void let_go(struct watch *w)
{
    run_follower_free(w->follower);
    w->follower = NULL;
    run_unref(w->run);
    w->run = NULL;
}

// --- as one answer

void execute_reply(struct call *call, unsigned status, const char *body, size_t len,
                   int64_t retry_after_ms)
{
    struct buf buf;
    buf_init(&buf, len + 1);
    (void)buf_append(&buf, body, len);
    (void)buf_append_char(&buf, '\n'); // as every other answer ends
    if (retry_after_ms > 0)
        call_header_n(call, "Retry-After", (retry_after_ms + 999) / 1000);
    call_reply(call, status, "application/json", &buf);
}

static void reply(struct call *call, const struct run *run)
{
    unsigned status;
    const char *body;
    size_t len;
    int64_t retry_after_ms;
    run_answer(run, &status, &body, &len, &retry_after_ms);
    execute_reply(call, status, body, len, retry_after_ms);
}

static void stop_waiting(struct call *call)
{
    struct watch *w = call->state;
    if (call->idem.active || w->run == NULL) // its client will ask for the answer
        return;
    let_go(w);
    call_unref(call);
}

static void on_news(void *data)
{
    struct watch *w = data;
    struct call *call = w->call;
    if (w->run == NULL || !run_has_ended(w->run))
        return;
    struct run *run = run_ref(w->run);
    let_go(w);
    reply(call, run);
    run_unref(run);
    call_unref(call);
}

static void wait_for(struct call *call, struct run *run)
{
    if (run_has_ended(run)) {
        reply(call, run);
        return;
    }
    struct watch *w = watch_new(call_ref(call), run);
    w->follower = run_follow(run, on_news, w);
    call->stop = stop_waiting;
}

// --- as a stream

// Sends one piece of the event at hand. 1; 0: there is none yet; -1: that was the last.
static int step(struct watch *w)
{
    struct run_event event;
    char id[RUN_ID_MAX + 24];
    int r = run_event_at(w->run, w->n, &event);
    if (r <= 0)
        return r;
    if (!w->opened) {
        (void)snprintf(id, sizeof id, "%s:%" PRIu64, run_id(w->run), w->n);
        stream_long_begin(w->call, id, event.type);
        w->opened = true;
    }
    size_t len = event.len - w->at < PIECE ? event.len - w->at : PIECE;
    stream_long_data(w->call, event.json + w->at, len);
    w->at += len;
    if (w->at < event.len)
        return 1;
    stream_long_end(w->call);
    w->opened = false;
    w->at = 0;
    w->n++;
    return 1;
}

static void stop_stream(struct call *call)
{
    struct watch *w = call->state;
    if (w->run != NULL)
        let_go(w);
}

static void pump(void *data)
{
    struct watch *w = data;
    struct call *call = call_ref(w->call);
    int r = 1;
    while (r > 0 && w->run != NULL && call->req != NULL && !stream_full(call))
        r = step(w);
    if (call->req != NULL && w->run != NULL && (r < 0 || (r == 0 && call->is_head))) {
        let_go(w);
        stream_end(call);
    }
    call_unref(call);
}

void execute_stream(struct call *call, struct run *run, uint64_t from)
{
    struct run_event event;
    bool is_there = from == 0 || run_event_at(run, from - 1, &event) > 0;
    if (!is_there && run_is_again(run)) // it was received from an earlier daemon: all is told anew
        from = 0;
    else if (!is_there) {
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "there is no such event; send the id of one that was received");
        return;
    }
    struct watch *w = watch_new(call, run);
    w->n = from;
    call->stop = stop_stream;
    call->stream_stays = true;
    stream_begin_sse(call);
    http_on_drain(call->req, pump, w);
    w->follower = run_follow(run, pump, w);
    pump(w);
}

void execute_follow(struct call *call, struct run *run)
{
    if (!call_accepts(call, "text/event-stream")) {
        wait_for(call, run);
        return;
    }
    idem_answer_process(call, run_id(run));
    if (call->req != NULL)
        execute_stream(call, run, 0);
}

int execute_parse_id(const char *text, char ret_id[RUN_ID_MAX], uint64_t *ret_n)
{
    const char *colon = strchr(text, ':');
    char *end;
    if (colon == NULL || (size_t)(colon - text) >= RUN_ID_MAX || colon[1] < '0' || colon[1] > '9')
        return -1;
    (void)snprintf(ret_id, RUN_ID_MAX, "%.*s", (int)(colon - text), text);
    errno = 0;
    *ret_n = strtoull(colon + 1, &end, 10);
    return errno != 0 || *end != '\0' || *ret_n > INT64_MAX ? -1 : 0;
}

// The stream of an earlier request.
static void attach(struct call *call, const char *id, uint64_t from)
{
    struct run *run = run_find(call->api->agents, call->tenant, id);
    if (run != NULL)
        execute_stream(call, run, from);
    else
        execute_stored(call, id);
}

// The answer of an earlier request, now or when it is there.
static bool wait_along(struct call *call, const char *id)
{
    if (id == NULL)
        return false;
    struct run *run = run_find(call->api->agents, call->tenant, id);
    call_add_header(call, "Idempotency-Replayed", "true");
    if (run != NULL)
        wait_for(call, run);
    else
        execute_stored(call, id);
    return true;
}

// The machine was full, say: it can be asked for again, and the key leads to the next one.
static bool was_refused(struct call *call, const char *id)
{
    struct err ignored;
    struct result_row row = {0};
    int r = db_result_head(call->api->db, call->tenant, id, &row, &ignored);
    bool refused = r > 0 && row.state == RESULT_DONE && row.status == 503;
    result_row_done(&row);
    return refused;
}

bool execute_goes_on(struct call *call)
{
    char id[RUN_ID_MAX];
    uint64_t n;
    if (call->idem.process != NULL && was_refused(call, call->idem.process)) {
        free(call->idem.process);
        call->idem.process = NULL;
        call->idem.active = true;
    }
    if (!call_accepts(call, "text/event-stream"))
        return wait_along(call, call->idem.process);
    const char *last = http_header(call->req, "Last-Event-ID");
    if (last != NULL && execute_parse_id(last, id, &n) < 0)
        call_error(call, ERROR_INVALID_REQUEST, NULL, "Last-Event-ID is not the id of an event");
    else if (last != NULL)
        attach(call, id, n + 1);
    else if (call->idem.process != NULL)
        attach(call, call->idem.process, 0);
    return last != NULL || call->idem.process != NULL;
}

// --- what may be asked

#define AT(field) offsetof(struct execute_body, field)
static const struct field execute_fields[] = {
    FIELD("question", FIELD_STRING, AT(question), .max = ANSWER_QUESTION_MAX,
          .help = "What to find out, in words, by code that a model writes; this or `task`"),
    FIELD("language", FIELD_STRING, AT(language), .max = EDGE_NAME_MAX,
          .help = "Of the code that is written: \"python\", which is the default, or "
                  "\"javascript\"; in a context, the context's"),
    FIELD("model", FIELD_STRING, AT(model), .max = 200,
          .help = "\"sonnet\", \"opus\", \"haiku\", or the id of a model"),
    FIELD("maxTokens", FIELD_INT, AT(max_tokens), .min = 1, .max = ANSWER_TOKENS_MAX,
          .help = "That the code may have; 2048 if not given"),
    FIELD("timeout", FIELD_MS, AT(timeout), .min = 1, .max = INT64_C(86400) * 1000,
          .help = "How long the code may run, in milliseconds or as \"1s\"; 30000 if not given"),
    FIELD("sandboxId", FIELD_STRING, AT(sandbox), .max = EDGE_NAME_MAX,
          .help = "The sandbox to run it in; a fresh one if not given"),
    FIELD("context", FIELD_STRING, AT(context), .max = EDGE_NAME_MAX,
          .help = "A context of that sandbox; the language's default one if not given"),
    FIELD("retries", FIELD_INT, AT(retries), .min = 0, .max = ANSWER_RETRIES_MAX,
          .help = "How often code that fails goes back to the model; 1 if not given"),
    FIELD("cache", FIELD_BOOL, AT(cache),
          .help = "Whether code that was written for the same question before, and worked, is "
                  "used again; true if not given"),
    FIELD("task", FIELD_STRING, AT(task), .max = TASK_MAX,
          .help = "What an agent is to do, in words; this or `question`"),
    FIELD("repo", FIELD_STRING, AT(repo), .max = GIT_URL_MAX - 1,
          .help = "Of a task: the repository to do it in, https:// or http://"),
    FIELD("branch", FIELD_STRING, AT(branch), .max = GIT_REF_MAX,
          .help = "Of a task: the repository's branch or tag; its own if not given"),
    FIELD("options", FIELD_OBJECT, AT(options), .sub = &task_options_schema,
          .help = "Of a task: how to go about it"),
    FIELD(BODY_TOKEN_NAME, FIELD_STRING, AT(auth_token), .max = BODY_TOKEN_MAX - 1,
          .help = "Instead of the header Authorization: Bearer"),
};
#undef AT
const struct schema execute_schema = SCHEMA("Execute", struct execute_body, execute_fields);

const char *execute_id(const struct call *call)
{
    return call->id_is_ours ? call->id : NULL;
}

int execute_check_key(struct call *call)
{
    struct err err = {0};
    struct failure failure;
    const struct agents_config *config = agents_config(call->api->agents);
    int r = model_key_is_there(config->secrets, config->keys, call->tenant, &err);
    if (r > 0)
        return 0;
    failure_no_key(&failure);
    if (r == 0)
        call_error(call, ERROR_MISSING_API_KEY, NULL, "%s", failure.message);
    else
        call_fail(call, &err);
    return -1;
}

int execute_check_model(struct call *call, const char *name)
{
    if (name == NULL || model_name_valid(name))
        return 0;
    call_error(call, ERROR_INVALID_REQUEST, NULL,
               "model: must be \"sonnet\", \"opus\", \"haiku\" or the id of a model");
    return -1;
}

// --- a question

static const struct language *read_language(struct call *call, const char *name)
{
    const struct language *l = language_find(name != NULL ? name : "python");
    if (l != NULL && (strcmp(l->name, "python") == 0 || strcmp(l->name, "javascript") == 0))
        return l;
    call_error(call, ERROR_INVALID_REQUEST, NULL, "language: must be \"python\" or \"javascript\"");
    return NULL;
}

static int check(struct call *call, const struct execute_body *b)
{
    if (b->question[strspn(b->question, " \t\r\n")] == '\0')
        call_error(call, ERROR_INVALID_REQUEST, NULL, "question: must not be empty");
    else if (b->context != NULL && b->sandbox == NULL)
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "context: is one of a sandbox: give sandboxId, too");
    else
        return execute_check_model(call, b->model) < 0 || execute_check_key(call) < 0 ? -1 : 0;
    return -1;
}

static void ask(struct call *call, const struct execute_body *b)
{
    struct err err = {0};
    const struct language *language = read_language(call, b->language);
    if (language == NULL || check(call, b) < 0)
        return;
    const struct answer_request request = {
        .tenant = call->tenant,
        .id = execute_id(call),
        .question = b->question,
        .language = b->language != NULL ? language->name : NULL,
        .model = b->model,
        .sandbox = b->sandbox,
        .context = b->context,
        .max_tokens = b->max_tokens.given ? b->max_tokens.value : ANSWER_TOKENS,
        .timeout_ms = b->timeout.given ? b->timeout.value : ANSWER_TIMEOUT_MS,
        .retries = b->retries.given ? (unsigned)b->retries.value : 1,
        .cache = !b->cache.given || b->cache.value,
    };
    struct run *run = answer_start(call->api->agents, &request, &err);
    if (run == NULL) {
        call_fail(call, &err);
        return;
    }
    execute_follow(call, run);
    run_unref(run);
}

// --- which of the two

// Fields of the one that the other would leave unheeded.
static const char *const of_questions[] = {
    "language", "model", "maxTokens", "timeout", "sandboxId", "context", "retries", "cache", NULL,
};
static const char *const of_tasks[] = {"repo", "branch", "options", NULL};

static int check_kind(struct call *call, const struct execute_body *b)
{
    bool is_task = b->task != NULL;
    if ((b->question != NULL) == is_task) {
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "a request has either 'question' or 'task', and this one has %s",
                   is_task ? "both" : "neither");
        return -1;
    }
    const char *const *name = is_task ? of_questions : of_tasks;
    while (*name != NULL && !body_has(&call->body, *name))
        name++;
    if (*name == NULL)
        return 0;
    call_error(call, ERROR_INVALID_REQUEST, NULL, "%s: is of a %s", *name,
               is_task ? "question; what a task has is in 'options'"
                       : "task, and this is a question");
    return -1;
}

void handle_execute(struct call *call)
{
    const struct execute_body *b = call->body.values;
    if (execute_goes_on(call) || check_kind(call, b) < 0)
        return;
    if (b->task != NULL)
        execute_task(call, b);
    else
        ask(call, b);
}
