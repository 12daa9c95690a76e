// SPDX-License-Identifier: Apache-2.0
#include "agents/opencode-message.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/agents-internal.h"
#include "agents/opencode-http.h"
#include "agents/opencode-internal.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"

enum {
    BODY_MAX = 6 * OPENCODE_MESSAGE_MAX + 16 * 1024,
    ANSWER_MAX = 8 * 1024 * 1024,
    SESSION_ANSWER_MAX = 256 * 1024,
    SESSION_MS = 60 * 1000,
    ABORT_MS = 5000,
    TITLE_MAX = 80,
    TARGET_MAX = 3 * OPENCODE_DIRECTORY_MAX + 256,
};

struct opencode_talk {
    struct agents *agents;
    struct opencode_talk *prev, *next; // all of them
    unsigned refs;                     // until it is over, and the timer's
    opencode_reply_fn fn;              // NULL: nobody waits
    void *data;
    struct sandbox *s;
    struct opencode_http *http;
    uv_timer_t timer;
    int64_t timeout_ms;
    bool waits; // for the server
    bool asked; // the message is on its way
    bool again; // the server was looked for a second time
    bool over;
    char session[OPENCODE_SESSION_MAX + 1];
    char *text, *provider, *model, *directory;
    size_t text_len;
};

bool opencode_session_valid(const char *id)
{
    size_t len = strlen(id);
    for (size_t i = 0; i < len; i++) {
        if (!isalnum((unsigned char)id[i]) && id[i] != '_' && id[i] != '-')
            return false;
    }
    return len > 0 && len <= OPENCODE_SESSION_MAX;
}

// --- life

static void talk_unref(struct opencode_talk *talk)
{
    if (--talk->refs > 0)
        return;
    free(talk->text);
    free(talk->provider);
    free(talk->model);
    free(talk->directory);
    free(talk);
}

static void on_timer_closed(uv_handle_t *handle)
{
    talk_unref(handle->data);
}

static void unlink_talk(struct opencode_talk *talk)
{
    struct opencode *all = talk->agents->opencode;
    if (talk->prev != NULL)
        talk->prev->next = talk->next;
    else
        all->talks = talk->next;
    if (talk->next != NULL)
        talk->next->prev = talk->prev;
}

static void talk_end(struct opencode_talk *talk)
{
    if (talk->over)
        return;
    talk->over = true;
    if (talk->waits)
        opencode_unready(talk->agents, talk->s, talk);
    opencode_http_cancel(talk->http);
    talk->http = NULL;
    unlink_talk(talk);
    sandbox_idle(talk->s);
    sandbox_unref(talk->s);
    uv_close((uv_handle_t *)&talk->timer, on_timer_closed);
    talk_unref(talk);
}

static void on_aborted(void *data, const struct opencode_answer *answer, const struct err *err)
{
    struct opencode_talk *talk = data;
    (void)answer;
    (void)err;
    talk->http = NULL;
    talk_end(talk);
}

static void ask(struct opencode_talk *talk, const struct opencode_request *request,
                opencode_http_fn fn)
{
    struct opencode_request whole = *request;
    whole.loop = talk->agents->config.loop;
    whole.s = talk->s;
    whole.port = OPENCODE_PORT;
    whole.method = "POST";
    talk->http = opencode_http_ask(&whole, fn, talk);
}

// Nobody waits: what was begun in the box is ended, which takes a moment.
static void abandon(struct opencode_talk *talk)
{
    char target[OPENCODE_SESSION_MAX + 32];
    talk->fn = NULL;
    (void)uv_timer_stop(&talk->timer);
    if (!talk->asked || talk->session[0] == '\0') {
        talk_end(talk);
        return;
    }
    opencode_http_cancel(talk->http);
    (void)snprintf(target, sizeof target, "/session/%s/abort", talk->session);
    ask(talk,
        &(struct opencode_request){
            .target = target, .timeout_ms = ABORT_MS, .max = SESSION_ANSWER_MAX},
        on_aborted);
}

void opencode_hush(struct opencode_talk *talk)
{
    if (talk->fn != NULL)
        abandon(talk);
}

static void fail(struct opencode_talk *talk, const struct failure *failure)
{
    opencode_reply_fn fn = talk->fn;
    talk->refs++;
    talk->fn = NULL;
    talk_end(talk);
    if (fn != NULL)
        fn(talk->data, NULL, failure, talk->session);
    talk_unref(talk);
}

static void on_time(uv_timer_t *timer)
{
    struct opencode_talk *talk = timer->data;
    struct failure failure;
    opencode_reply_fn fn = talk->fn;
    failure_timeout(&failure, talk->timeout_ms);
    talk->refs++;
    abandon(talk);
    if (fn != NULL)
        fn(talk->data, NULL, &failure, talk->session);
    talk_unref(talk);
}

// --- what went wrong

static void get_ready(struct opencode_talk *talk);

static void fail_http(struct opencode_talk *talk, const struct err *err)
{
    struct failure failure;
    char words[LAST_WORDS_MAX] = "";
    opencode_missing(talk->agents, talk->s);
    if (err->sys_errno == ECONNREFUSED && !talk->again) { // it died since: nothing was sent
        talk->again = true;
        get_ready(talk);
        return;
    }
    if (err->code != ERR_INVALID)
        opencode_last_words(talk->s, words, sizeof words);
    failure_set(&failure, 502, err->code == ERR_INVALID ? "BAD_GATEWAY" : "AGENT_FAILED",
                "OpenCode's server gave no answer: %s%s%s", err->msg,
                words[0] != '\0' ? "; it wrote last: " : "", words);
    fail(talk, &failure);
}

static void fail_answer(struct opencode_talk *talk, const struct opencode_answer *answer)
{
    struct failure failure;
    opencode_read_failure(answer->status, answer->body, answer->len, &failure);
    if (answer->status == 404)
        failure_set(&failure, 404, "NOT_FOUND", "there is no session '%s'", talk->session);
    else if (answer->status == 500 && talk->model != NULL) // all that it says of a wrong name
        failure_set(&failure, 502, "AGENT_FAILED",
                    "OpenCode failed; perhaps it knows no model '%.60s/%.200s': GET "
                    "/sandbox/ID/opencode/config/providers lists them",
                    talk->provider, talk->model);
    fail(talk, &failure);
}

// --- the steps

static void append_directory(const struct opencode_talk *talk, struct buf *ret)
{
    static const char plain[] = "/-._~";
    if (talk->directory == NULL)
        return;
    (void)buf_append_str(ret, "?directory=");
    for (const char *c = talk->directory; *c != '\0'; c++) {
        if (isalnum((unsigned char)*c) || strchr(plain, *c) != NULL)
            (void)buf_append_char(ret, *c);
        else
            (void)buf_printf(ret, "%%%02X", (unsigned)(unsigned char)*c);
    }
}

static void on_answer(void *data, const struct opencode_answer *answer, const struct err *err)
{
    struct opencode_talk *talk = data;
    struct opencode_read read = {0};
    struct failure failure;
    talk->http = NULL;
    if (err != NULL) {
        fail_http(talk, err);
        return;
    }
    if (answer->status != 200) {
        fail_answer(talk, answer);
        return;
    }
    if (opencode_read_answer(answer->body, answer->len, &read, &failure) < 0) {
        fail(talk, &failure);
        return;
    }
    const struct opencode_reply reply = {
        .session = talk->session,
        .text = buf_str(&read.text),
        .text_len = read.text.len,
        .parts = read.parts,
        .parts_len = strlen(read.parts),
        .info = read.info,
    };
    opencode_reply_fn fn = talk->fn;
    talk->refs++;
    talk->fn = NULL;
    talk_end(talk);
    if (fn != NULL)
        fn(talk->data, &reply, NULL, talk->session);
    talk_unref(talk);
    opencode_read_done(&read);
}

static void put_message(const struct opencode_talk *talk, struct buf *ret)
{
    struct json j;
    json_init(&j, ret);
    json_open_object(&j);
    if (talk->model != NULL) {
        json_key(&j, "model");
        json_open_object(&j);
        json_key(&j, "providerID");
        json_put_str(&j, talk->provider);
        json_key(&j, "modelID");
        json_put_str(&j, talk->model);
        json_close_object(&j);
    }
    json_key(&j, "parts");
    json_open_array(&j);
    json_open_object(&j);
    json_key(&j, "type");
    json_put_str(&j, "text");
    json_key(&j, "text");
    json_put_strn(&j, talk->text, talk->text_len);
    json_close_object(&j);
    json_close_array(&j);
    json_close_object(&j);
}

static void send_message(struct opencode_talk *talk)
{
    auto_buf body;
    auto_buf target;
    buf_init(&body, BODY_MAX);
    buf_init(&target, TARGET_MAX);
    put_message(talk, &body);
    (void)buf_printf(&target, "/session/%s/message", talk->session);
    append_directory(talk, &target);
    talk->asked = true;
    ask(talk,
        &(struct opencode_request){
            .target = buf_str(&target), .body = body.data, .body_len = body.len, .max = ANSWER_MAX},
        on_answer);
}

static void on_session(void *data, const struct opencode_answer *answer, const struct err *err)
{
    struct opencode_talk *talk = data;
    struct failure failure;
    talk->http = NULL;
    if (err != NULL) {
        fail_http(talk, err);
    } else if (answer->status != 200) {
        opencode_read_failure(answer->status, answer->body, answer->len, &failure);
        fail(talk, &failure);
    } else if (opencode_read_id(answer->body, answer->len, talk->session, sizeof talk->session) <
                   0 ||
               !opencode_session_valid(talk->session)) {
        talk->session[0] = '\0';
        failure_set(&failure, 502, "BAD_GATEWAY", "OpenCode's server made no session");
        fail(talk, &failure);
    } else {
        send_message(talk);
    }
}

// A title of ours: without one OpenCode asks the model for it.
static void make_session(struct opencode_talk *talk)
{
    auto_buf body;
    auto_buf target;
    struct json j;
    size_t len = strcspn(talk->text, "\r\n");
    if (len > TITLE_MAX)
        len = TITLE_MAX;
    while (len > 0 && !utf8_valid(talk->text, len))
        len--;
    buf_init(&body, BODY_MAX);
    buf_init(&target, TARGET_MAX);
    json_init(&j, &body);
    json_open_object(&j);
    json_key(&j, "title");
    json_put_strn(&j, len > 0 ? talk->text : "Message", len > 0 ? len : strlen("Message"));
    json_close_object(&j);
    (void)buf_append_str(&target, "/session");
    append_directory(talk, &target);
    ask(talk,
        &(struct opencode_request){.target = buf_str(&target),
                                   .body = body.data,
                                   .body_len = body.len,
                                   .timeout_ms = SESSION_MS,
                                   .max = SESSION_ANSWER_MAX},
        on_session);
}

static void on_ready(void *data, const struct failure *failure)
{
    struct opencode_talk *talk = data;
    talk->waits = false;
    if (failure != NULL)
        fail(talk, failure);
    else if (talk->session[0] != '\0')
        send_message(talk);
    else
        make_session(talk);
}

static void get_ready(struct opencode_talk *talk)
{
    talk->waits = true;
    talk->asked = false;
    opencode_ready(talk->agents, talk->s, on_ready, talk);
}

static struct opencode_talk *talk_new(struct agents *agents, const struct opencode_message *m)
{
    struct opencode_talk *talk = calloc(1, sizeof *talk);
    if (talk == NULL)
        abort();
    talk->agents = agents;
    talk->refs = 2;
    talk->s = sandbox_ref(m->s);
    talk->text = malloc(m->text_len + 1);
    if (talk->text == NULL)
        abort();
    (void)memcpy(talk->text, m->text, m->text_len);
    talk->text[m->text_len] = '\0';
    talk->text_len = m->text_len;
    talk->provider = mem_copy_text(m->provider);
    talk->model = mem_copy_text(m->model);
    talk->directory = mem_copy_text(m->directory);
    talk->timeout_ms = m->timeout_ms;
    if (m->session != NULL)
        (void)snprintf(talk->session, sizeof talk->session, "%s", m->session);
    talk->next = agents->opencode->talks;
    if (talk->next != NULL)
        talk->next->prev = talk;
    agents->opencode->talks = talk;
    return talk;
}

struct opencode_talk *opencode_say(struct agents *agents, const struct opencode_message *message,
                                   opencode_reply_fn fn, void *data)
{
    struct opencode_talk *talk = talk_new(agents, message);
    talk->fn = fn;
    talk->data = data;
    sandbox_busy(talk->s);
    (void)uv_timer_init(agents->config.loop, &talk->timer);
    talk->timer.data = talk;
    (void)uv_timer_start(&talk->timer, on_time, (uint64_t)talk->timeout_ms, 0);
    talk->refs++;
    get_ready(talk);
    struct opencode_talk *ret = talk->fn != NULL ? talk : NULL;
    talk_unref(talk);
    return ret;
}

void opencode_stop(struct agents *agents)
{
    struct failure failure;
    failure_set(&failure, 503, "CANCELLED", "the server is being stopped");
    while (agents->opencode->talks != NULL)
        fail(agents->opencode->talks, &failure);
}
