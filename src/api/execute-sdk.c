// SPDX-License-Identifier: Apache-2.0
// POST /execute/sdk: a conversation with a model that may use tools.
#include <string.h>

#include "agents/talk.h"
#include "api/execute.h"
#include "api/handlers.h"
#include "api/schemas.h"

struct sdk_options {
    struct body_int max_turns, max_tokens, timeout;
    const char *model, *system_prompt, *append_system_prompt, *sandbox;
    struct body_strings tools;
    struct body_bool partial;
};
#define AT(field) offsetof(struct sdk_options, field)
static const struct field options_fields[] = {
    FIELD("max_turns", FIELD_INT, AT(max_turns), .min = 1, .max = TALK_TURNS_MAX,
          .help = "How often the model is asked at most; 10 if not given"),
    FIELD("model", FIELD_STRING, AT(model), .max = 200,
          .help = "\"sonnet\", \"opus\", \"haiku\", or the id of a model"),
    FIELD("system_prompt", FIELD_STRING, AT(system_prompt), .max = TALK_PROMPT_MAX,
          .help = "Instead of the default one"),
    FIELD("append_system_prompt", FIELD_STRING, AT(append_system_prompt), .max = TALK_PROMPT_MAX,
          .help = "Behind the default one, or behind system_prompt"),
    FIELD("allowed_tools", FIELD_STRINGS, AT(tools), .max = TALK_TOOLS_MAX,
          .help =
              "Of WebFetch, WebSearch, TodoWrite (these three if not given), Bash, Read, Write, "
              "Edit, RunCode"),
    FIELD("max_tokens", FIELD_INT, AT(max_tokens), .min = 1, .max = TALK_TOKENS_MAX,
          .help = "Of each answer of the model; 8192 if not given"),
    FIELD("timeout", FIELD_MS, AT(timeout), .min = 1, .max = TALK_TIMEOUT_MAX_MS,
          .help = "Of all of it, in milliseconds or as \"1m\"; 300000 if not given"),
    FIELD("sandbox_id", FIELD_STRING, AT(sandbox), .max = EDGE_NAME_MAX,
          .help = "The sandbox that tools work in; one is made when it is needed if not given"),
    FIELD("include_partial_messages", FIELD_BOOL, AT(partial),
          .help = "Of a stream: also the pieces of messages, as stream_event"),
};
#undef AT
static const struct schema options_schema =
    SCHEMA("SdkOptions", struct sdk_options, options_fields);

struct sdk_body {
    const char *prompt;
    struct sdk_options options;
};
static const struct field sdk_fields[] = {
    FIELD("prompt", FIELD_STRING, offsetof(struct sdk_body, prompt), .required = true,
          .max = TALK_PROMPT_MAX, .help = "What is said to the model"),
    FIELD("options", FIELD_OBJECT, offsetof(struct sdk_body, options), .sub = &options_schema,
          .help = "How to go about it"),
};
const struct schema sdk_schema = SCHEMA("Sdk", struct sdk_body, sdk_fields);

static const char *const default_tools[] = {"WebFetch", "WebSearch", "TodoWrite"};

static int64_t given_or(const struct body_int *value, int64_t fallback)
{
    return value->given ? value->value : fallback;
}

static int check_tools(struct call *call, const struct body_strings *tools)
{
    for (size_t i = 0; i < tools->n; i++) {
        if (!talk_knows_tool(tools->items[i])) {
            call_error(call, ERROR_INVALID_REQUEST, NULL,
                       "options: allowed_tools: there is no tool '%.60s'; there are %s",
                       tools->items[i], talk_tool_names());
            return -1;
        }
    }
    return 0;
}

static int check(struct call *call, const struct sdk_body *b)
{
    if (b->prompt[strspn(b->prompt, " \t\r\n")] == '\0') {
        call_error(call, ERROR_INVALID_REQUEST, NULL, "prompt: must not be empty");
        return -1;
    }
    if (check_tools(call, &b->options.tools) < 0 || execute_check_model(call, b->options.model) < 0)
        return -1;
    return execute_check_key(call);
}

void handle_execute_sdk(struct call *call)
{
    struct err err = {0};
    if (execute_goes_on(call))
        return;
    const struct sdk_body *b = call->body.values;
    const struct sdk_options *o = &b->options;
    bool has_tools = o->tools.items != NULL;
    if (check(call, b) < 0)
        return;
    const struct talk_request request = {
        .tenant = call->tenant,
        .id = execute_id(call),
        .prompt = b->prompt,
        .model = o->model,
        .system_prompt = o->system_prompt,
        .append_system_prompt = o->append_system_prompt,
        .tools = has_tools ? o->tools.items : default_tools,
        .n_tools = has_tools ? (unsigned)o->tools.n : sizeof default_tools / sizeof *default_tools,
        .sandbox = o->sandbox,
        .max_turns = given_or(&o->max_turns, TALK_TURNS),
        .max_tokens = given_or(&o->max_tokens, TALK_TOKENS),
        .timeout_ms = given_or(&o->timeout, TALK_TIMEOUT_MS),
        .partial = o->partial.value,
    };
    struct run *run = talk_start(call->api->agents, &request, &err);
    if (run == NULL) {
        call_fail(call, &err);
        return;
    }
    execute_follow(call, run);
    run_unref(run);
}
