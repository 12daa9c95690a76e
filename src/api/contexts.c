// SPDX-License-Identifier: Apache-2.0
// Contexts: made, listed, interrupted, started anew and ended here; code.c runs cells in them. What
// only looks does not wake the sandbox: one that sleeps has contexts, which are dead.
#include "api/contexts.h"

#include <string.h>

#include "api/handlers.h"
#include "api/language-read.h"
#include "api/schemas.h"
#include "api/show.h"

enum { CWD_MAX = 4095 };
#define TIMEOUT_MAX (INT64_C(366) * 86400 * 1000)

struct context_body {
    const char *language, *id, *cwd;
    struct body_map env;
    struct body_int timeout;
};
static const struct field context_fields[] = {
    FIELD("language", FIELD_STRING, offsetof(struct context_body, language), .max = EDGE_NAME_MAX,
          .help = "\"python\" if not given; GET .../languages lists them"),
    FIELD("id", FIELD_STRING, offsetof(struct context_body, id), .max = EDGE_NAME_MAX,
          .help = "Made up if not given"),
    FIELD("cwd", FIELD_STRING, offsetof(struct context_body, cwd), .max = CWD_MAX,
          .help = "Where it begins: an absolute path; /workspace if not given"),
    FIELD("env", FIELD_ENV, offsetof(struct context_body, env), .max = EDGE_ENV_MAX,
          .help = "Its variables, beside the sandbox's own"),
    FIELD("timeout", FIELD_MS, offsetof(struct context_body, timeout), .min = 1, .max = TIMEOUT_MAX,
          .help = "Of a cell that names none: milliseconds, or a text such as \"1s\"; 60000 if not "
                  "given"),
};
const struct schema context_schema = SCHEMA("CreateContext", struct context_body, context_fields);

// -- answers

static const char *status_name(enum context_status status)
{
    switch (status) {
    case CONTEXT_STARTING:
        return "starting";
    case CONTEXT_IDLE:
        return "idle";
    case CONTEXT_BUSY:
        return "busy";
    case CONTEXT_DEAD:
        return "dead";
    }
    return "unknown";
}

// "killed", and what there is to add to it.
static const char *reason_of(const struct context_info *info)
{
    bool is_plain = info->end == END_NONE && info->end_detail != NULL;
    return is_plain ? info->end_detail : end_reason_name(info->end);
}

static void show_context(struct json *j, const struct context *c)
{
    struct context_info info;
    context_info(c, &info);
    show_str(j, "id", info.id);
    show_str(j, "language", info.language->name);
    show_str(j, "cwd", info.cwd);
    show_str(j, "status", status_name(info.status));
    if (info.status == CONTEXT_DEAD) {
        show_str(j, "reason", reason_of(&info));
        show_str(j, "detail", info.end_detail);
    }
    show_int(j, "executionCount", (int64_t)info.count);
    show_int(j, "queued", info.queued);
    show_str(j, "cell", info.cell);
    show_int(j, "timeout", info.timeout_ms);
    show_bool(j, "isDefault", info.is_default);
    json_key(j, "pid");
    if (info.pid > 0)
        json_put_int(j, info.pid);
    else
        json_put_null(j);
    show_time(j, "createdAt", info.created_ms);
    show_time(j, "lastUsed", info.used_ms);
}

static void reply_context(struct call *call, unsigned status, const struct context *c)
{
    struct buf buf;
    struct json j;
    buf_init(&buf, SHOW_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    show_context(&j, c);
    json_close_object(&j);
    call_reply_json(call, status, &j);
}

void context_refuse_dead(struct call *call, const struct context_info *info)
{
    auto_buf details;
    struct json j;
    const char *detail = info->end_detail;
    bool tells_more = detail != NULL && strcmp(detail, reason_of(info)) != 0;
    buf_init(&details, 4096);
    json_init(&j, &details);
    json_open_object(&j);
    show_str(&j, "context", info->id);
    show_str(&j, "reason", reason_of(info));
    show_str(&j, "detail", detail);
    json_close_object(&j);
    call_error(call, ERROR_CONTEXT_DEAD, json_finish(&j) == 0 ? buf_str(&details) : NULL,
               "context '%.128s' is dead (%s%s%.80s) and what it knew is gone: POST "
               "/sandbox/%.128s/contexts/%.128s/restart starts it anew",
               info->id, reason_of(info), tells_more ? ": " : "", tells_more ? detail : "",
               call->param[0], info->id);
}

static void refuse_missing(struct call *call, const struct language *language,
                           const struct err *err)
{
    auto_buf details;
    struct json j;
    buf_init(&details, 4096);
    json_init(&j, &details);
    json_open_object(&j);
    show_str(&j, "language", language->name);
    show_str(&j, "package", language->package);
    json_close_object(&j);
    call_error(call, ERROR_LANGUAGE_MISSING, json_finish(&j) == 0 ? buf_str(&details) : NULL, "%s",
               err->msg);
}

void context_fail(struct call *call, const struct language *language, const struct err *err)
{
    if (err->code == ERR_UNSUPPORTED && language != NULL)
        refuse_missing(call, language, err);
    else
        call_fail(call, err);
}

// -- making one

static const struct language *language_of(struct call *call, const struct context_body *b)
{
    const struct language *language =
        language_read(call, "language", b->language != NULL ? b->language : "python");
    if (language == NULL || language->kernel != KERNEL_ONCE)
        return language;
    call_error(call, ERROR_INVALID_REQUEST, NULL,
               "language: a cell of %s is compiled and run by itself and leaves nothing for a "
               "context to keep: POST /sandbox/{id}/code with \"language\": \"%s\"",
               language->name, language->name);
    return NULL;
}

static void on_made(void *data, struct context *c, const struct err *err)
{
    struct call *call = data;
    const struct context_body *b = call->body.values;
    if (c != NULL)
        reply_context(call, 201, c);
    else
        context_fail(call, language_find(b->language != NULL ? b->language : "python"), err);
    call_unref(call);
}

static void make(struct call *call)
{
    const struct context_body *b = call->body.values;
    struct context_settings settings = {
        .id = b->id,
        .language = language_find(b->language != NULL ? b->language : "python"),
        .cwd = b->cwd,
        .env = b->env.json,
        .timeout_ms = b->timeout.given ? b->timeout.value : CELL_TIMEOUT_MS,
    };
    context_create(call->sandbox, &settings, on_made, call_ref(call));
}

static void on_awake_make(void *data, struct sandbox *s, bool created, const struct err *err)
{
    (void)s;
    (void)created;
    call_go_on(data, err, make);
}

void handle_context_create(struct call *call)
{
    const struct context_body *b = call->body.values;
    if (language_of(call, b) == NULL)
        return;
    if (b->id != NULL && !sandbox_id_valid(b->id)) {
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "id: must be letters, digits, '.', '_' and '-', with a letter or digit at both "
                   "ends");
    } else if (b->id != NULL && strncmp(b->id, "default-", 8) == 0) {
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "id: names that begin with 'default-' are those of the default contexts");
    } else if (b->cwd != NULL && b->cwd[0] != '/') {
        call_error(call, ERROR_INVALID_REQUEST, NULL, "cwd: must be an absolute path");
    } else {
        sandbox_wake(call->sandbox, on_awake_make, call_ref(call));
    }
}

// -- looking

static void see_context(void *data, struct context *c)
{
    struct json *j = data;
    json_open_object(j);
    show_context(j, c);
    json_close_object(j);
}

void handle_context_list(struct call *call)
{
    struct err err = {0};
    struct call_list list;
    call_list_begin(&list, "contexts");
    context_each(call->sandbox, see_context, &list.json);
    call_list_end(call, &list, 0, &err);
}

// The one that the path names; NULL when that was answered.
static struct context *find(struct call *call)
{
    struct err err = {0};
    struct context *c = context_find(call->sandbox, call->param[1], &err);
    if (c == NULL)
        call_fail(call, &err);
    return c;
}

void handle_context_get(struct call *call)
{
    const struct context *c = find(call);
    if (c != NULL)
        reply_context(call, 200, c);
}

// -- ending and starting anew

void handle_context_delete(struct call *call)
{
    struct err err = {0};
    struct context *c = find(call);
    if (c == NULL)
        return;
    if (context_delete(c, &err) < 0)
        call_fail(call, &err);
    else
        call_reply_ok(call);
}

void handle_context_interrupt(struct call *call)
{
    struct err err = {0};
    struct context *c = find(call);
    if (c == NULL)
        return;
    if (context_interrupt(c, &err) < 0)
        call_fail(call, &err);
    else
        call_reply_ok(call);
}

static const struct language *language_known(struct call *call)
{
    struct err ignored;
    struct context_info info = {0};
    const struct context *c = context_find(call->sandbox, call->param[1], &ignored);
    if (c != NULL)
        context_info(c, &info);
    return info.language;
}

static void on_restarted(void *data, struct context *c, const struct err *err)
{
    struct call *call = data;
    if (c != NULL)
        reply_context(call, 200, c);
    else
        context_fail(call, language_known(call), err);
    call_unref(call);
}

static void on_awake_restart(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct call *call = data;
    (void)s;
    (void)created;
    if (err != NULL && err->code != ERR_NONE) {
        call_fail(call, err);
    } else {
        struct context *c = find(call); // it may have been deleted while the sandbox woke
        if (c != NULL)
            context_restart(c, on_restarted, call_ref(call));
    }
    call_unref(call);
}

void handle_context_restart(struct call *call)
{
    if (find(call) != NULL)
        sandbox_wake(call->sandbox, on_awake_restart, call_ref(call));
}
