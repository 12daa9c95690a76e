// SPDX-License-Identifier: Apache-2.0
// GET /api/interpreter/health, /api/contexts.
#include <string.h>

#include "api/container/code.h"
#include "api/container/files.h"
#include "api/show.h"

struct context_body {
    const char *language, *cwd;
    struct body_map env;
};

#define AT(member) offsetof(struct context_body, member)
static const struct field context_fields[] = {
    FIELD("language", FIELD_STRING, AT(language), .max = EDGE_NAME_MAX,
          .help = "\"python\" if not given, \"javascript\", \"typescript\", or another of GET "
                  "/sandbox/{id}/languages"),
    FIELD("cwd", FIELD_STRING, AT(cwd), .help = "/workspace if not given"),
    FIELD("env_vars", FIELD_ENV, AT(env), .max = EDGE_ENV_MAX,
          .help = "Its variables, beside the sandbox's own"),
};
#undef AT
static const struct schema context_schema =
    SCHEMA("ContainerContext", struct context_body, context_fields, .lenient = true);

// -- what is shared

const struct language *container_language(struct call *call, const char *field, const char *name)
{
    const struct language *language = language_find(name != NULL ? name : "python");
    if (language == NULL)
        container_invalid(call, field,
                          "%s: there is no language '%.40s'; python, javascript and typescript are "
                          "some, and GET /sandbox/{id}/languages lists them all",
                          field, name);
    return language;
}

void container_about_context(struct call *call, const char *id)
{
    auto_buf about;
    struct json j;
    buf_init(&about, 4096);
    json_init(&j, &about);
    json_open_object(&j);
    show_str(&j, "contextId", id);
    json_close_object(&j);
    if (json_finish(&j) == 0)
        call_about(call, buf_str(&about));
}

static enum container_code missing(const struct language *language)
{
    if (strcmp(language->name, "python") == 0)
        return CONTAINER_PYTHON_NOT_AVAILABLE;
    if (strcmp(language->name, "javascript") == 0 || strcmp(language->name, "typescript") == 0)
        return CONTAINER_JAVASCRIPT_NOT_AVAILABLE;
    return CONTAINER_NOT_IMPLEMENTED;
}

void container_code_fail(struct call *call, const struct language *language, const struct err *err)
{
    if (err->code == ERR_UNSUPPORTED && language != NULL)
        container_fail(call, missing(language), NULL, "%s", err->msg);
    else if (err->code == ERR_CONFLICT)
        container_fail(call, CONTAINER_CODE_EXECUTION_ERROR, NULL, "%s", err->msg);
    else
        call_fail(call, err);
}

// -- making one

static void on_made(void *data, struct context *c, const struct err *err)
{
    struct call *call = data;
    const struct context_body *b = call->body.values;
    struct container_answer answer;
    struct context_info info;
    if (c == NULL && err->code == ERR_INVALID) {
        container_invalid(call, "cwd", "cwd: %s", err->msg);
    } else if (c == NULL) {
        container_code_fail(call, language_find(b->language != NULL ? b->language : "python"), err);
    } else {
        context_info(c, &info);
        container_begin(&answer, true);
        show_str(&answer.json, "contextId", info.id);
        show_str(&answer.json, "language", info.language->name);
        show_str(&answer.json, "cwd", info.cwd);
        container_end(call, &answer);
    }
    call_unref(call);
}

static void make(struct call *call)
{
    const struct context_body *b = call->body.values;
    const struct file_call *f = call->state;
    const struct context_settings settings = {
        .language = language_find(b->language != NULL ? b->language : "python"),
        .cwd = f->path,
        .env = b->env.json,
        .timeout_ms = CELL_TIMEOUT_MS,
    };
    context_create(call->sandbox, &settings, on_made, call_ref(call));
}

static void on_awake(void *data, struct sandbox *s, bool created, const struct err *err)
{
    (void)s;
    (void)created;
    call_go_on(data, err, make);
}

static void handle_create(struct call *call)
{
    const struct context_body *b = call->body.values;
    const struct language *language = container_language(call, "language", b->language);
    if (language == NULL)
        return;
    if (language->kernel == KERNEL_ONCE)
        container_invalid(call, "language",
                          "language: a cell of %s is compiled and run by itself and leaves nothing "
                          "for a context to keep: POST /sandbox/{id}/code runs it",
                          language->name);
    else if (container_file_new(call, sizeof(struct file_call), "__DISABLE_SESSION__", "cwd",
                                b->cwd != NULL ? b->cwd : "/workspace",
                                "code.context.create") != NULL)
        sandbox_wake(call->sandbox, on_awake, call_ref(call));
}

// -- looking, ending

static void see_context(void *data, struct context *c)
{
    struct json *j = data;
    struct context_info info;
    context_info(c, &info);
    json_open_object(j);
    show_str(j, "id", info.id);
    show_str(j, "language", info.language->name);
    show_str(j, "cwd", info.cwd);
    json_close_object(j);
}

static void handle_list(struct call *call)
{
    struct container_answer answer;
    container_begin(&answer, true);
    json_key(&answer.json, "contexts");
    json_open_array(&answer.json);
    context_each(call->sandbox, see_context, &answer.json);
    json_close_array(&answer.json);
    container_end(call, &answer);
}

static void handle_delete(struct call *call)
{
    struct err err = {0};
    struct container_answer answer;
    const char *id = call->param[1];
    struct context *c = context_find(call->sandbox, id, &err);
    container_about_context(call, id);
    if (c == NULL || context_delete(c, &err) < 0) {
        call_fail(call, &err);
        return;
    }
    container_begin(&answer, true);
    show_str(&answer.json, "contextId", id);
    container_end(call, &answer);
}

// Contexts start when they are asked for: there is nothing to wait for.
static void handle_health(struct call *call)
{
    struct container_answer answer;
    container_begin(&answer, true);
    show_str(&answer.json, "status", "healthy");
    container_end(call, &answer);
}

const struct route container_contexts[] = {
    CONTAINER_ROUTE(HTTP_GET, "/api/interpreter/health", SUBJECT_CODE, handle_health),
    CONTAINER_ROUTE(HTTP_POST, "/api/contexts", SUBJECT_CODE, handle_create,
                    .body = &context_schema),
    CONTAINER_ROUTE(HTTP_GET, "/api/contexts", SUBJECT_CODE, handle_list),
    CONTAINER_ROUTE(HTTP_DELETE, "/api/contexts/{cid}", SUBJECT_CODE, handle_delete),
};
const size_t n_container_contexts = sizeof container_contexts / sizeof *container_contexts;
