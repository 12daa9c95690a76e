// SPDX-License-Identifier: Apache-2.0
// POST /sandbox/{id}/message: something is said to OpenCode in the sandbox. A client that goes away
// has what it asked for aborted, unless it has sent an Idempotency-Key: then it means to ask again.
#include "api/opencode.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/opencode-message.h"
#include "api/handlers.h"
#include "api/preview.h"
#include "api/schemas.h"
#include "api/show.h"
#include "base/mem.h"

enum {
    PROVIDER_MAX = 60,
    MODEL_MAX = 200,
    MODEL_JSON_MAX = 1024,
    REPLY_MAX = 64 * 1024 * 1024,
    FAILURE_MAX = 16 * 1024,
};

struct message_body {
    const char *message, *session, *model, *config, *directory;
    struct body_int timeout;
};

#define AT(member) offsetof(struct message_body, member)
static const struct field message_fields[] = {
    FIELD("message", FIELD_STRING, AT(message), .required = true, .max = OPENCODE_MESSAGE_MAX,
          .help = "What to do, in words"),
    FIELD("sessionId", FIELD_STRING, AT(session), .max = OPENCODE_SESSION_MAX,
          .help = "OpenCode's session to go on with; a new one if not given"),
    FIELD("model", FIELD_JSON, AT(model), .max = MODEL_JSON_MAX,
          .help = "\"PROVIDER/ID\", {\"providerID\", \"modelID\"}, or \"sonnet\", \"opus\", "
                  "\"haiku\"; as OpenCode is configured if not given"),
    FIELD("config", FIELD_JSON, AT(config), .max = OPENCODE_CONFIG_MAX,
          .help = "OpenCode's configuration from now on; another one starts its server anew. "
                  "Credentials in it become secrets of the sandbox and never get into it"),
    FIELD("directory", FIELD_STRING, AT(directory), .max = OPENCODE_DIRECTORY_MAX,
          .help = "Where it works: an absolute path; /workspace if not given"),
    FIELD("timeout", FIELD_MS, AT(timeout), .min = 1, .max = INT64_C(86400) * 1000,
          .help = "Milliseconds, or a text such as \"10m\"; 600000 if not given"),
};
#undef AT
const struct schema message_schema = SCHEMA("Message", struct message_body, message_fields);

struct saying { // call->state
    struct opencode_talk *talk;
    char provider[PROVIDER_MAX + 1], model[MODEL_MAX + 1]; // "": as it is configured
};

// --- what is asked

int opencode_read_config(struct call *call, const char *json, struct opencode_config *ret)
{
    struct err err = {0};
    if (json == NULL || opencode_config_read(json, ret, &err) == 0)
        return 0;
    call_fail(call, &err);
    return -1;
}

static bool is_plain(const char *text, const char *more, size_t max)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    size_t len = strlen(text), n = 0;
    while (n < len && (strchr(letters, text[n]) != NULL || strchr(more, text[n]) != NULL))
        n++;
    return len > 0 && len <= max && n == len;
}

static bool set_model(struct saying *saying, const char *provider, const char *model)
{
    if (provider == NULL || model == NULL || !is_plain(provider, "-._", PROVIDER_MAX) ||
        !is_plain(model, "-._:@/", MODEL_MAX))
        return false;
    (void)snprintf(saying->provider, sizeof saying->provider, "%s", provider);
    (void)snprintf(saying->model, sizeof saying->model, "%s", model);
    return true;
}

static bool read_model(struct saying *saying, const char *json)
{
    char provider[PROVIDER_MAX + 1];
    json_auto_t *value = json_loads(json, JSON_DECODE_ANY, NULL);
    const char *text = json_string_value(value);
    if (text == NULL)
        return set_model(saying, json_string_value(json_object_get(value, "providerID")),
                         json_string_value(json_object_get(value, "modelID")));
    const char *slash = strchr(text, '/');
    if (slash == NULL) // a short name; whose another one is, nobody can tell
        return model_resolve(text) != text && set_model(saying, "anthropic", model_resolve(text));
    if ((size_t)(slash - text) >= sizeof provider)
        return false;
    (void)snprintf(provider, sizeof provider, "%.*s", (int)(slash - text), text);
    return set_model(saying, provider,
                     strcmp(provider, "anthropic") == 0 ? model_resolve(slash + 1) : slash + 1);
}

static int check(struct call *call, const struct message_body *b, struct saying *saying)
{
    const char *why = NULL;
    if (b->message[strspn(b->message, " \t\r\n")] == '\0')
        why = "message: must not be empty";
    else if (b->session != NULL && !opencode_session_valid(b->session))
        why = "sessionId: is none of OpenCode's";
    else if (b->directory != NULL && b->directory[0] != '/')
        why = "directory: must be an absolute path";
    else if (b->model != NULL && !read_model(saying, b->model))
        why = "model: must be \"PROVIDER/ID\", {\"providerID\", \"modelID\"}, or \"sonnet\", "
              "\"opus\", \"haiku\"";
    if (why == NULL)
        return 0;
    call_error(call, ERROR_INVALID_REQUEST, NULL, "%s", why);
    return -1;
}

// --- answers

static void reply_failure(struct call *call, const struct failure *failure, const char *session)
{
    struct buf buf;
    struct json j;
    buf_init(&buf, FAILURE_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_str(&j, "error", failure->message);
    show_str(&j, "error_code", failure->error_code);
    show_str(&j, "request_id", call->id);
    if (session[0] != '\0') {
        json_key(&j, "details");
        json_open_object(&j);
        show_str(&j, "sessionId", session);
        json_close_object(&j);
    }
    json_close_object(&j);
    if (failure->retry_after_ms > 0)
        call_header_n(call, "Retry-After", (failure->retry_after_ms + 999) / 1000);
    call_reply_json(call, failure->status, &j);
}

static void reply(struct call *call, const struct opencode_reply *r)
{
    struct buf buf;
    struct json j;
    buf_init(&buf, REPLY_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    show_str(&j, "sessionId", r->session);
    json_key(&j, "response");
    json_put_strn(&j, r->text, r->text_len);
    json_key(&j, "parts");
    json_put_raw(&j, r->parts, r->parts_len);
    show_raw(&j, "info", r->info);
    json_close_object(&j);
    call_reply_json(call, 200, &j);
}

static void on_reply(void *data, const struct opencode_reply *r, const struct failure *failure,
                     const char *session)
{
    struct call *call = data;
    struct saying *saying = call->state;
    saying->talk = NULL;
    if (r != NULL)
        reply(call, r);
    else
        reply_failure(call, failure, session);
    call_unref(call);
}

// --- the way there

static void stop(struct call *call)
{
    struct saying *saying = call->state;
    if (call->idem.active || saying->talk == NULL) // its client will ask for the answer
        return;
    opencode_hush(saying->talk);
    saying->talk = NULL;
    call_unref(call); // what the callback would have given back
}

static int may_begin(struct call *call, const struct saying *saying)
{
    struct err err = {0};
    struct failure failure;
    if (failure_of_budget(sandbox_row(call->sandbox), &failure)) {
        reply_failure(call, &failure, "");
        return -1;
    }
    if (opencode_may_ask(call->api->agents, call->sandbox,
                         saying->provider[0] != '\0' ? saying->provider : NULL, &err) < 0) {
        call_fail(call, &err);
        return -1;
    }
    return 0;
}

static void begin(struct call *call)
{
    struct saying *saying = call->state;
    const struct message_body *b = call->body.values;
    if (may_begin(call, saying) < 0)
        return;
    const struct opencode_message message = {
        .s = call->sandbox,
        .text = b->message,
        .text_len = strlen(b->message),
        .session = b->session,
        .provider = saying->provider,
        .model = saying->model[0] != '\0' ? saying->model : NULL,
        .directory = b->directory,
        .timeout_ms = b->timeout.given ? b->timeout.value : OPENCODE_TIMEOUT_MS,
    };
    call->stop = stop;
    // It may have been answered when this returns, and then the talk is NULL.
    saying->talk = opencode_say(call->api->agents, &message, on_reply, call_ref(call));
}

static void on_configured(void *data, struct sandbox *s, bool created, const struct err *err)
{
    (void)s;
    (void)created;
    call_go_on(data, err, begin);
}

void handle_message(struct call *call)
{
    const struct message_body *b = call->body.values;
    auto_opencode_config config = {0};
    struct saying *saying = calloc(1, sizeof *saying);
    if (saying == NULL)
        abort();
    call->state = saying;
    if (check(call, b, saying) < 0 || opencode_read_config(call, b->config, &config) < 0)
        return;
    if (b->config != NULL)
        opencode_configure(call->api->agents, call->sandbox, &config, on_configured,
                           call_ref(call));
    else
        begin(call);
}

// --- where it is

// As the client reaches the server: what it calls it goes into the address that it is told.
static void write_url(struct call *call, const struct sandbox_row *row, struct buf *ret)
{
    const struct preview_where *where = previews_where(call->api->previews);
    const char *host = call->req != NULL ? http_header(call->req, "Host") : NULL;
    if (host != NULL && !http_is_local(call->req))
        (void)buf_printf(ret, "%s://%s", where->tls ? "https" : "http", host);
    (void)buf_printf(ret, "/sandbox/%s/opencode", row->id);
}

void opencode_show(struct call *call, const struct sandbox_row *row, struct json *j)
{
    auto_buf text;
    struct err err = {0};
    struct port_row port = {0};
    buf_init(&text, 1024);
    write_url(call, row, &text);
    show_str(j, "opencodeUrl", buf_str(&text));
    buf_reset(&text);
    if (db_port_get(call->api->db, row->number, OPENCODE_PORT, &port, &err) > 0)
        preview_write_url(previews_where(call->api->previews), OPENCODE_PORT, row->slug, port.token,
                          &text);
    show_str(j, "opencodeUiUrl", text.len > 0 ? buf_str(&text) : NULL);
    port_row_done(&port);
}
