// SPDX-License-Identifier: Apache-2.0
// The tools there are, and their turns: what one message asks for is done one after the other, in
// its order, since a model may count on the first when it asks for the second.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/talk-internal.h"
#include "agents/tool.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/show.h"

// --- as the API wants them described

#define TOOL(name, what, properties, required)                                                     \
    "{\"name\":\"" name "\",\"description\":\"" what "\",\"input_schema\":{\"type\":\"object\","   \
    "\"properties\":{" properties "},\"required\":[" required "]}}"
#define TEXT(name, what)   "\"" name "\":{\"type\":\"string\",\"description\":\"" what "\"}"
#define NUMBER(name, what) "\"" name "\":{\"type\":\"integer\",\"description\":\"" what "\"}"
#define SWITCH(name, what) "\"" name "\":{\"type\":\"boolean\",\"description\":\"" what "\"}"
#define PATH               TEXT("file_path", "Absolute, or below /workspace")

static const char about_bash[] =
    TOOL("Bash",
         "Runs a command line with bash in the sandbox, in a new shell in /workspace, and answers "
         "what it printed. Files stay; variables and the working directory do not.",
         TEXT("command", "The command line") "," NUMBER(
             "timeout", "Milliseconds until it is killed: 120000 if not given, at most 600000"),
         "\"command\"");
static const char about_read[] =
    TOOL("Read",
         "Reads a text file in the sandbox. Answers its lines with their numbers, at most 2000 of "
         "them.",
         PATH "," NUMBER("offset", "The first line, from 1") "," NUMBER("limit", "How many lines"),
         "\"file_path\"");
static const char about_write[] = TOOL(
    "Write", "Writes a file in the sandbox, replacing what it had; directories above it are made.",
    PATH "," TEXT("content", "All of its content"), "\"file_path\",\"content\"");
static const char about_edit[] =
    TOOL("Edit",
         "Replaces a text in a file in the sandbox. The text must be in it exactly once, unless "
         "replace_all is true.",
         PATH "," TEXT("old_string", "What is there") "," TEXT(
             "new_string", "What shall be there instead") "," SWITCH("replace_all",
                                                                     "Every place, not only one"),
         "\"file_path\",\"old_string\",\"new_string\"");
static const char about_run_code[] = TOOL(
    "RunCode",
    "Runs code in an interpreter in the sandbox that keeps its variables and imports between "
    "calls. Answers what it printed and the value of its last expression.",
    TEXT("code", "What to run") "," TEXT("language", "python if not given; javascript, typescript, bash, ...") "," NUMBER(
        "timeout", "Milliseconds until it is interrupted: 120000 if not given, at most 600000"),
    "\"code\"");
#define TASK                                                                                       \
    TEXT("content", "What is to be done")                                                          \
    ","                                                                                            \
    "\"status\":{\"type\":\"string\",\"enum\":[\"pending\",\"in_progress\",\"completed\"]}," TEXT( \
        "activeForm", "The same while it is being done: Running the tests")
static const char about_todo_write[] =
    TOOL("TodoWrite",
         "Writes down the list of what is to be done and how far each task is. It replaces the "
         "list there was. For work of several steps.",
         "\"todos\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{" TASK
         "},\"required\":[\"content\",\"status\"]}}",
         "\"todos\"");
static const char about_web_fetch[] =
    "{\"type\":\"web_fetch_20250910\",\"name\":\"web_fetch\",\"max_uses\":20}";
static const char about_web_search[] =
    "{\"type\":\"web_search_20250305\",\"name\":\"web_search\",\"max_uses\":20}";

static const struct tool tools[] = {
    {"Bash",      about_bash,       true,  tool_bash    },
    {"Read",      about_read,       true,  tool_read    },
    {"Write",     about_write,      true,  tool_write   },
    {"Edit",      about_edit,       true,  tool_edit    },
    {"RunCode",   about_run_code,   true,  tool_run_code},
    {"TodoWrite", about_todo_write, false, tool_todo    },
    {"WebFetch",  about_web_fetch,  false, NULL         },
    {"WebSearch", about_web_search, false, NULL         },
};
enum { N_TOOLS = sizeof tools / sizeof *tools };
_Static_assert(N_TOOLS <= 32, "they are bits");

static int find(const char *name)
{
    for (int i = 0; i < N_TOOLS; i++) {
        if (strcmp(tools[i].name, name) == 0)
            return i;
    }
    return -1;
}

bool talk_knows_tool(const char *name)
{
    return find(name) >= 0;
}

const char *talk_tool_names(void)
{
    return "Bash, Edit, Read, RunCode, TodoWrite, WebFetch, WebSearch, Write";
}

int talk_tools_bits(const char *const *names, unsigned n, uint32_t *ret, struct err *err)
{
    uint32_t bits = 0;
    for (unsigned i = 0; i < n; i++) {
        int at = find(names[i]);
        if (at < 0)
            return err_set(err, ERR_INVALID, "there is no tool '%.60s'; there are %s", names[i],
                           talk_tool_names());
        bits |= 1u << at;
    }
    *ret = bits;
    return 0;
}

bool talk_has_tool(const struct talk *talk, const char *name)
{
    int at = find(name);
    return at >= 0 && (talk->tools & 1u << at) != 0;
}

void talk_tools_write(const struct talk *talk, struct json *j)
{
    json_open_array(j);
    for (int i = 0; i < N_TOOLS; i++) {
        if (talk->tools & 1u << i)
            json_put_raw(j, tools[i].definition, strlen(tools[i].definition));
    }
    json_close_array(j);
}

void talk_tools_write_names(const struct talk *talk, struct json *j)
{
    json_open_array(j);
    for (int i = 0; i < N_TOOLS; i++) {
        if (talk->tools & 1u << i)
            json_put_str(j, tools[i].name);
    }
    json_close_array(j);
}

// --- one use

static struct tool_call *tool_new(struct talk *talk, const struct json_node *block)
{
    struct tool_call *call = calloc(1, sizeof *call);
    if (call == NULL)
        abort();
    const char *name = json_text(json_get(block, "name"));
    const char *id = json_text(json_get(block, "id"));
    *call = (struct tool_call){
        .talk = talk,
        .loop = agents_config(talk->agents)->loop,
        .refs = 1,
        .id = mem_copy_text(id != NULL ? id : ""),
        .name = mem_copy_text(name != NULL ? name : ""),
        .input = json_get(block, "input"),
    };
    // What is not allowed was not offered either: it is as if it were not there.
    if (talk_has_tool(talk, call->name) && tools[find(call->name)].start != NULL)
        call->tool = &tools[find(call->name)];
    buf_init(&call->output, TALK_HISTORY_MAX);
    return call;
}

struct tool_call *tool_ref(struct tool_call *call)
{
    call->refs++;
    return call;
}

void tool_unref(struct tool_call *call)
{
    if (call == NULL || --call->refs > 0)
        return;
    if (call->sandbox != NULL)
        sandbox_unref(call->sandbox);
    buf_done(&call->output);
    free(call->state);
    free(call->id);
    free(call->name);
    free(call);
}

bool tool_is_over(const struct tool_call *call)
{
    return call->talk == NULL || call->done;
}

void tool_done(struct tool_call *call, bool is_error)
{
    struct talk *talk = call->talk;
    if (tool_is_over(call))
        return;
    call->done = true;
    call->cancel = NULL;
    call->is_error = is_error;
    tool_cut(&call->output);
    if (call->tool != NULL && call->tool->needs_sandbox)
        talk->tools_ns += clock_ns() - call->begun_ns;
    talk_tools_run(talk);
}

void tool_fail(struct tool_call *call, const char *fmt, ...)
{
    va_list ap;
    if (tool_is_over(call))
        return;
    buf_reset(&call->output);
    va_start(ap, fmt);
    (void)buf_vprintf(&call->output, fmt, ap);
    va_end(ap);
    tool_done(call, /* is_error */ true);
}

static void refuse(struct tool_call *call)
{
    auto_buf names;
    struct json j;
    buf_init(&names, 1024);
    json_init(&j, &names);
    talk_tools_write_names(call->talk, &j);
    tool_fail(call, "there is no tool '%.100s' here; there are %s", call->name, buf_str(&names));
}

static void start(struct tool_call *call)
{
    call->begun_ns = clock_ns();
    if (call->tool == NULL)
        refuse(call);
    else if (call->tool->needs_sandbox)
        talk_sandbox_get(call);
    else
        call->tool->start(call);
}

// --- those of one message

// A use without an id cannot be answered, and is not counted.
static bool is_use(const struct json_node *block)
{
    const char *type = json_text(json_get(block, "type"));
    return type != NULL && strcmp(type, "tool_use") == 0 &&
           json_text(json_get(block, "id")) != NULL;
}

unsigned talk_tools_take(struct talk *talk)
{
    unsigned n = 0;
    talk_tools_drop(talk);
    for (const struct json_node *b = json_first(json_root(talk->content)); b != NULL;
         b = json_next(b)) {
        if (is_use(b) && n++ < TALK_USES_MAX)
            talk->uses[talk->n_uses++] = tool_new(talk, b);
    }
    return n;
}

// Tools that are done at once would otherwise call each other, one frame deeper each.
void talk_tools_run(struct talk *talk)
{
    if (talk->in_turn || talk->ended)
        return;
    talk_ref(talk);
    talk->in_turn = true;
    while (!talk->ended && talk->at < talk->n_uses) {
        struct tool_call *call = tool_ref(talk->uses[talk->at]);
        bool begun = call->begun_ns != 0;
        if (!begun)
            start(call);
        bool done = call->done;
        tool_unref(call);
        if (!done)
            break; // tool_done comes back here
        talk->at++;
    }
    talk->in_turn = false;
    if (!talk->ended && talk->at == talk->n_uses)
        talk_go_on(talk);
    talk_unref(talk);
}

void talk_tools_drop(struct talk *talk)
{
    for (unsigned i = 0; i < talk->n_uses; i++) {
        struct tool_call *call = talk->uses[i];
        void (*cancel)(struct tool_call *) = call->cancel;
        call->talk = NULL;
        call->input = NULL;
        call->cancel = NULL;
        if (cancel != NULL)
            cancel(call);
        tool_unref(call);
        talk->uses[i] = NULL;
    }
    talk->n_uses = 0;
    talk->at = 0;
}

void talk_tools_write_results(const struct talk *talk, struct json *j)
{
    json_open_array(j);
    for (unsigned i = 0; i < talk->n_uses; i++) {
        const struct tool_call *call = talk->uses[i];
        json_open_object(j);
        show_str(j, "type", "tool_result");
        show_str(j, "tool_use_id", call->id);
        json_key(j, "content");
        json_put_strn(j, buf_str(&call->output), call->output.len);
        if (call->is_error)
            show_bool(j, "is_error", true);
        json_close_object(j);
    }
    json_close_array(j);
}
