// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "agents/talk-internal.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/show.h"

enum {
    MESSAGE_MAX = TALK_HISTORY_MAX,
    ANSWER_MAX = 2 * TALK_HISTORY_MAX, // what is too much to be stored is seen by run_end
    RETRIES = 2,                       // of model.h, for "max_retries"
};

int64_t talk_elapsed_ms(const struct talk *talk)
{
    return (clock_ns() - talk->begun_ns) / NS_PER_MS;
}

static double dollars(int64_t nano)
{
    return (double)nano / 1e9;
}

// --- telling

struct message {
    struct buf buf;
    struct json j;
};

static void begin(struct message *m, const char *type)
{
    buf_init(&m->buf, MESSAGE_MAX);
    json_init(&m->j, &m->buf);
    json_open_object(&m->j);
    show_str(&m->j, "type", type);
}

static void end(struct talk *talk, struct message *m)
{
    char uuid[RUN_ID_MAX];
    run_make_id(uuid);
    show_str(&m->j, "session_id", talk->session);
    show_str(&m->j, "uuid", uuid);
    json_close_object(&m->j);
    if (json_finish(&m->j) < 0)
        return;
    run_event(talk->run, "message", &m->buf);
}

// Keeps it for the answer, as long as there is room. Once there was none nothing follows but the
// last one.
static void keep(struct talk *talk, const struct message *m, bool is_last)
{
    struct buf *all = &talk->messages;
    bool fits = !talk->messages_cut && all->len + m->buf.len < TALK_MESSAGES_MAX;
    if (m->buf.failed != 0 || (!fits && !is_last)) {
        talk->messages_cut = true;
        return;
    }
    if (all->len > 0)
        (void)buf_append_char(all, ',');
    (void)buf_append(all, m->buf.data, m->buf.len);
}

static void tell(struct talk *talk, struct message *m)
{
    end(talk, m);
    keep(talk, m, /* is_last */ false);
    buf_done(&m->buf);
}

void talk_say_init(struct talk *talk)
{
    struct message m;
    begin(&m, "system");
    show_str(&m.j, "subtype", "init");
    show_str(&m.j, "cwd", "/workspace");
    json_key(&m.j, "tools");
    talk_tools_write_names(talk, &m.j);
    show_raw(&m.j, "mcp_servers", "[]");
    show_str(&m.j, "model", talk->model);
    show_str(&m.j, "permissionMode", "dontAsk");
    show_raw(&m.j, "slash_commands", "[]");
    show_raw(&m.j, "agents", "[]");
    show_raw(&m.j, "skills", "[]");
    show_raw(&m.j, "plugins", "[]");
    tell(talk, &m);
}

static void show_text_or_null(struct json *j, const char *key, const char *text)
{
    show_str(j, key, text != NULL && text[0] != '\0' ? text : NULL);
}

void talk_say_answer(struct talk *talk, const struct model_result *r)
{
    struct message m;
    begin(&m, "assistant");
    json_key(&m.j, "message");
    json_open_object(&m.j);
    show_str(&m.j, "id", r->id);
    show_str(&m.j, "type", "message");
    show_str(&m.j, "role", "assistant");
    show_str(&m.j, "model", r->model);
    json_key(&m.j, "content");
    json_put_raw(&m.j, r->content, r->content_len);
    show_text_or_null(&m.j, "stop_reason", r->stop_reason);
    show_str(&m.j, "stop_sequence", NULL);
    show_raw(&m.j, "stop_details", r->stop_details);
    show_raw(&m.j, "usage", r->usage_json);
    json_close_object(&m.j);
    show_str(&m.j, "parent_tool_use_id", NULL);
    tell(talk, &m);
}

void talk_say_results(struct talk *talk)
{
    struct message m;
    begin(&m, "user");
    json_key(&m.j, "message");
    json_open_object(&m.j);
    show_str(&m.j, "role", "user");
    json_key(&m.j, "content");
    talk_tools_write_results(talk, &m.j);
    json_close_object(&m.j);
    show_str(&m.j, "parent_tool_use_id", NULL);
    tell(talk, &m);
}

void talk_say_retry(struct talk *talk, const struct model_event *event)
{
    struct message m;
    begin(&m, "system");
    show_str(&m.j, "subtype", "api_retry");
    show_int(&m.j, "attempt", event->attempt);
    show_int(&m.j, "max_retries", RETRIES);
    show_int(&m.j, "retry_delay_ms", event->delay_ms);
    json_key(&m.j, "error_status");
    if (event->status != 0)
        json_put_uint(&m.j, event->status);
    else
        json_put_null(&m.j);
    tell(talk, &m);
}

// Not for the answer, in which the whole message is.
void talk_say_piece(struct talk *talk, const struct model_event *event)
{
    struct message m;
    begin(&m, "stream_event");
    json_key(&m.j, "event");
    json_put_raw(&m.j, event->text, event->len);
    show_str(&m.j, "parent_tool_use_id", NULL);
    end(talk, &m);
    buf_done(&m.buf);
}

// --- the end

static void write_usage(struct json *j, const struct model_usage *u)
{
    json_open_object(j);
    show_int(j, "input_tokens", u->input);
    show_int(j, "output_tokens", u->output);
    show_int(j, "cache_creation_input_tokens", u->cache_write + u->cache_write_1h);
    show_int(j, "cache_read_input_tokens", u->cache_read);
    json_key(j, "server_tool_use");
    json_open_object(j);
    show_int(j, "web_search_requests", u->searches);
    show_int(j, "web_fetch_requests", u->fetches);
    json_close_object(j);
    json_close_object(j);
}

static const char *model_of(const struct talk *talk)
{
    return talk->answered_by[0] != '\0' ? talk->answered_by : talk->model;
}

static void write_model_usage(struct json *j, const struct talk *talk)
{
    const struct model_usage *u = run_usage(talk->run);
    json_open_object(j);
    json_key(j, model_of(talk));
    json_open_object(j);
    show_int(j, "inputTokens", u->input);
    show_int(j, "outputTokens", u->output);
    show_int(j, "cacheReadInputTokens", u->cache_read);
    show_int(j, "cacheCreationInputTokens", u->cache_write + u->cache_write_1h);
    show_int(j, "webSearchRequests", u->searches);
    json_key(j, "costUSD");
    json_put_double(j, dollars(run_cost(talk->run)));
    show_int(j, "maxOutputTokens", model_max_output(talk->model));
    json_close_object(j);
    json_close_object(j);
}

static void show_cost(struct json *j, const struct talk *talk)
{
    json_key(j, "total_cost_usd");
    json_put_double(j, dollars(run_cost(talk->run)));
}

static void show_result(struct json *j, const struct talk *talk)
{
    json_key(j, "result");
    json_put_strn(j, buf_str(&talk->said), talk->said.len);
}

void talk_say_end(struct talk *talk, const struct talk_outcome *o)
{
    struct message m;
    begin(&m, "result");
    show_str(&m.j, "subtype", o->subtype);
    show_bool(&m.j, "is_error", !o->success);
    if (strcmp(o->subtype, "success") == 0)
        show_result(&m.j, talk);
    if (o->error != NULL) {
        json_key(&m.j, "errors");
        json_open_array(&m.j);
        json_put_str(&m.j, o->error);
        json_close_array(&m.j);
    }
    show_int(&m.j, "num_turns", talk->turns);
    show_int(&m.j, "duration_ms", talk_elapsed_ms(talk));
    show_int(&m.j, "duration_api_ms", talk->model_ns / NS_PER_MS);
    show_text_or_null(&m.j, "stop_reason", talk->stop_reason);
    show_cost(&m.j, talk);
    json_key(&m.j, "usage");
    write_usage(&m.j, run_usage(talk->run));
    json_key(&m.j, "modelUsage");
    write_model_usage(&m.j, talk);
    show_raw(&m.j, "permission_denials", "[]");
    end(talk, &m);
    keep(talk, &m, /* is_last */ true);
    buf_done(&m.buf);
}

static void write_metadata(struct json *j, const struct talk *talk)
{
    json_open_object(j);
    show_int(j, "execution_time_ms", talk_elapsed_ms(talk));
    show_cost(j, talk);
    show_int(j, "num_turns", talk->turns);
    show_str(j, "model", model_of(talk));
    json_key(j, "usage");
    write_usage(j, run_usage(talk->run));
    show_text_or_null(j, "stop_reason", talk->stop_reason);
    show_str(j, "sandbox_id", talk->sandbox != NULL ? sandbox_row(talk->sandbox)->id : NULL);
    if (talk->messages_cut)
        show_bool(j, "messages_truncated", true);
    if (talk->todos.len > 0)
        show_raw(j, "todos", buf_str(&talk->todos));
    json_close_object(j);
}

void talk_write_answer(struct talk *talk, const struct talk_outcome *o, struct buf *ret)
{
    struct json j;
    buf_init(ret, ANSWER_MAX);
    json_init(&j, ret);
    json_open_object(&j);
    show_bool(&j, "success", o->success);
    show_str(&j, "request_id", run_id(talk->run));
    show_time(&j, "timestamp", run_created_ms(talk->run));
    show_result(&j, talk);
    show_str(&j, "error", o->error);
    show_str(&j, "error_code", o->error_code);
    json_key(&j, "messages");
    json_open_array(&j);
    if (talk->messages.len > 0)
        json_put_raw(&j, talk->messages.data, talk->messages.len);
    json_close_array(&j);
    json_key(&j, "metadata");
    write_metadata(&j, talk);
    json_close_object(&j);
    (void)json_finish(&j);
}

// An error as every other, with what was done and spent until then.
void talk_write_failure(struct talk *talk, const struct failure *failure, struct buf *ret)
{
    struct json j;
    buf_init(ret, ANSWER_MAX);
    json_init(&j, ret);
    json_open_object(&j);
    show_str(&j, "error", failure->message);
    show_str(&j, "error_code", failure->error_code);
    show_str(&j, "request_id", run_id(talk->run));
    if (talk->turns > 0) {
        json_key(&j, "details");
        write_metadata(&j, talk);
    }
    json_close_object(&j);
    (void)json_finish(&j);
}
