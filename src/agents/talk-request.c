// SPDX-License-Identifier: Apache-2.0
// The request to the model. It only grows: head and earlier messages are what they were in the turn
// before, to the byte, so that the API finds them in its cache.
#include <string.h>

#include "agents/talk-internal.h"
#include "base/json.h"
#include "base/show.h"

// What the last result ends with in the newest request only: from here on it is cached.
#define MARK     ",\"cache_control\":{\"type\":\"ephemeral\"}"
#define TAIL     "}]}"
#define BODY_END "]}"

static const char own_prompt[] =
    "You answer questions and carry out tasks for a program that called you over HTTP. Nobody "
    "can answer questions back, so decide for yourself what was meant, say what you assumed, and "
    "go on until the task is done. Be accurate and brief: your last message is what the caller "
    "gets. Use the tools you have where they help, and only those; when one fails, read why and "
    "try another way. Tools that run commands or touch files work in an isolated Linux sandbox "
    "whose working directory is /workspace and which may have no network.";

static void write_text_block(struct json *j, const char *text, bool cached)
{
    json_open_object(j);
    show_str(j, "type", "text");
    show_str(j, "text", text);
    if (cached)
        show_raw(j, "cache_control", "{\"type\":\"ephemeral\"}");
    json_close_object(j);
}

// One block, since only a whole block can be cached. An empty one is refused by the API.
static void write_system(struct json *j, const struct talk_request *request)
{
    auto_buf text;
    const char *more = request->append_system_prompt;
    buf_init(&text, 4 * TALK_PROMPT_MAX);
    (void)buf_append_str(&text,
                         request->system_prompt != NULL ? request->system_prompt : own_prompt);
    if (more != NULL && more[0] != '\0') {
        (void)buf_append_str(&text, text.len > 0 ? "\n\n" : "");
        (void)buf_append_str(&text, more);
    }
    if (text.len == 0)
        return;
    json_key(j, "system");
    json_open_array(j);
    write_text_block(j, buf_str(&text), /* cached */ true);
    json_close_array(j);
}

static void write_prompt(struct json *j, const char *prompt)
{
    json_open_object(j);
    show_str(j, "role", "user");
    json_key(j, "content");
    json_open_array(j);
    write_text_block(j, prompt, /* cached */ false);
    json_close_array(j);
    json_close_object(j);
}

void talk_request_begin(struct talk *talk, const struct talk_request *request)
{
    struct json j;
    buf_init(&talk->body, TALK_HISTORY_MAX);
    json_init(&j, &talk->body);
    json_open_object(&j);
    show_str(&j, "model", talk->model);
    show_int(&j, "max_tokens", talk->max_tokens);
    show_bool(&j, "stream", true);
    write_system(&j, request);
    if (talk->tools != 0) {
        json_key(&j, "tools");
        talk_tools_write(talk, &j);
    }
    json_key(&j, "messages");
    json_open_array(&j);
    write_prompt(&j, request->prompt);
    json_close_array(&j);
    json_close_object(&j);
    talk_request_unfinish(talk);
}

// --- adding to it

static void cut_end(struct buf *buf, size_t n)
{
    if (buf->failed != 0)
        return;
    buf->len -= n;
    buf->data[buf->len] = '\0';
}

// The mark of the last results belongs to one request.
static void unmark(struct talk *talk)
{
    if (talk->marked == 0)
        return;
    cut_end(&talk->body, talk->marked);
    (void)buf_append_str(&talk->body, TAIL);
    talk->marked = 0;
}

void talk_request_answer(struct talk *talk, const char *content, size_t len)
{
    unmark(talk);
    (void)buf_append_str(&talk->body, ",{\"role\":\"assistant\",\"content\":");
    (void)buf_append(&talk->body, content, len);
    (void)buf_append_str(&talk->body, "}");
}

void talk_request_results(struct talk *talk)
{
    struct json j;
    auto_buf results;
    buf_init(&results, TALK_HISTORY_MAX);
    json_init(&j, &results);
    talk_tools_write_results(talk, &j);
    if (json_finish(&j) < 0) {
        talk->body.failed = results.failed;
        return;
    }
    (void)buf_append_str(&talk->body, ",{\"role\":\"user\",\"content\":");
    (void)buf_append(&talk->body, results.data, results.len - strlen("}]")); // there is one result
    (void)buf_append_str(&talk->body, MARK TAIL);
    talk->marked = sizeof MARK TAIL - 1;
}

int talk_request_finish(struct talk *talk)
{
    (void)buf_append_str(&talk->body, BODY_END);
    return talk->body.failed != 0 ? -1 : 0;
}

void talk_request_unfinish(struct talk *talk)
{
    cut_end(&talk->body, sizeof BODY_END - 1);
}
