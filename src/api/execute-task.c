// SPDX-License-Identifier: Apache-2.0
// POST /execute with a task. Whatever can be known to be wrong is said here, while nothing has
// begun: what comes after it is a result, and costs.
#include "api/execute-task.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "agents/agent-file.h"
#include "agents/task.h"
#include "api/execute.h"
#include "api/network.h"
#include "box/limits.h"
#include "egress/secret.h"
#include "git/check.h"
#include "git/clone.h"

enum {
    PROMPT_MAX = 100 * 1024, // it is a word of a command line
    PATH_BYTES_MAX = 1024,
};
#define AGENT_DEFAULT "claude"
#define WORKSPACE     "/workspace"

#define AT(field) offsetof(struct task_options, field)
static const struct field options_fields[] = {
    FIELD("include_diff", FIELD_BOOL, AT(include_diff), .help = "true if not given"),
    FIELD("permission_mode", FIELD_STRING, AT(permission_mode), .max = 100,
          .help = "What the agent may do unasked; \"acceptEdits\" if not given"),
    FIELD("system_prompt", FIELD_STRING, AT(system_prompt), .max = PROMPT_MAX,
          .help = "Behind the agent's own"),
    FIELD("working_dir", FIELD_STRING, AT(working_dir), .max = PATH_BYTES_MAX,
          .help = "Where it starts: below the repository, or below " WORKSPACE),
    FIELD("model", FIELD_STRING, AT(model), .max = 200,
          .help = "\"sonnet\", \"opus\", \"haiku\", or the id of a model"),
    FIELD("max_turns", FIELD_INT, AT(max_turns), .min = 1, .max = TASK_TURNS_MAX,
          .help = "How often the model is asked at most; any number if not given"),
    FIELD("timeout", FIELD_MS, AT(timeout), .min = 1, .max = TASK_TIMEOUT_MAX_MS,
          .help = "Of everything, in milliseconds or as \"10m\"; the server's max-execution-time "
                  "if not given, which is also the most"),
    FIELD("keep", FIELD_BOOL, AT(keep), .help = "The sandbox stays when it is over"),
    FIELD("secret", FIELD_STRING, AT(secret), .max = 64,
          .help = "One whose upstream the repository is in"),
    FIELD("network", FIELD_JSON, AT(network), .max = NETWORK_TEXT_MAX,
          .help = "What the agent may reach, as of a sandbox; \"none\" if not given"),
    FIELD("budget", FIELD_OBJECT, AT(budget), .sub = &budget_schema,
          .help = "What it may spend on models"),
    FIELD("sandbox_id", FIELD_STRING, AT(sandbox), .max = EDGE_NAME_MAX,
          .help = "The sandbox to work in; a fresh one if not given"),
    FIELD("image", FIELD_STRING, AT(image), .max = KEEPER_IMAGE_MAX - 1,
          .help = "Of a fresh one; the agent's if not given"),
    FIELD("memory", FIELD_SIZE, AT(memory), .min = LIMIT_MEMORY_MIN, .max = LIMIT_BYTES_MAX,
          .help = "Of a fresh one, in bytes or as \"2g\"; what the agent needs if not given"),
    FIELD("agent", FIELD_STRING, AT(agent), .max = AGENT_NAME_MAX,
          .help = "Who does it: GET /agents lists them; \"" AGENT_DEFAULT "\" if not given"),
    FIELD("components", FIELD_TREE, AT(components),
          .help = "{\"agents\": [...], \"commands\": [...], \"mcps\": [...], \"settings\": [...], "
                  "\"hooks\": [...]}: names in the server's folder, or {\"name\", \"content\"}"),
};
#undef AT
const struct schema task_options_schema =
    SCHEMA("TaskOptions", struct task_options, options_fields);

static int refuse(struct call *call, const char *why)
{
    call_error(call, ERROR_INVALID_REQUEST, NULL, "%s", why);
    return -1;
}

// --- the repository

static int check_url(struct call *call, const struct execute_body *b)
{
    struct git_fault fault = {0};
    const struct git_clone clone = {.url = b->repo, .url_field = "repo", .branch = b->branch};
    if (git_clone_check(&clone, &fault) == 0)
        return 0;
    call_error(call, ERROR_INVALID_REQUEST, NULL, "%s", fault.message);
    return -1;
}

static bool is_below(const char *repo, const char *upstream)
{
    struct err ignored;
    struct url parts;
    char url[GIT_URL_MAX];
    size_t len = strlen(upstream);
    return git_check_url(repo, url, &parts, &ignored) == 0 && strncmp(url, upstream, len) == 0 &&
           url[len] == '/';
}

static int check_secret(struct call *call, const char *name, const char *repo)
{
    struct err err = {0};
    struct secret_row row = {0};
    int r =
        secret_name_valid(name) ? db_secret_get(call->api->db, call->tenant, name, &row, &err) : 0;
    if (r == 0)
        (void)err_set(&err, ERR_INVALID,
                      "options: secret: there is no secret '%.40s': PUT /secrets/NAME makes one",
                      name);
    else if (r > 0 && !is_below(repo, row.upstream))
        (void)err_set(&err, ERR_INVALID,
                      "options: secret: '%s' is for %.120s, and the repository is not there", name,
                      row.upstream);
    secret_row_done(&row);
    if (err.code == ERR_NONE)
        return 0;
    call_fail(call, &err);
    return -1;
}

static int check_repo(struct call *call, const struct execute_body *b)
{
    const struct task_options *o = &b->options;
    if (b->repo == NULL && b->branch != NULL)
        return refuse(call, "branch: of which repository? 'repo' is missing");
    if (b->repo == NULL && o->secret != NULL)
        return refuse(call, "options: secret: is for a repository, and 'repo' is missing");
    if (b->repo != NULL && check_url(call, b) < 0)
        return -1;
    return o->secret != NULL ? check_secret(call, o->secret, b->repo) : 0;
}

// --- where it works

static bool has_dots(const char *path)
{
    while (*path != '\0') {
        size_t n = strcspn(path, "/");
        if (n > 0 && n <= 2 && strncmp(path, "..", n) == 0)
            return true;
        path += n + strspn(path + n, "/");
    }
    return false;
}

static bool has_controls(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return true;
    }
    return false;
}

static int check_dir(struct call *call, const char *dir)
{
    size_t top = strlen(WORKSPACE);
    if (dir == NULL)
        return 0;
    if (*dir == '\0' || has_controls(dir))
        return refuse(call, "options: working_dir: must be a plain path");
    if (has_dots(dir))
        return refuse(call, "options: working_dir: must not have '.' or '..' in it");
    if (*dir != '/' || (strncmp(dir, WORKSPACE, top) == 0 && (dir[top] == '/' || dir[top] == '\0')))
        return 0;
    return refuse(call, "options: working_dir: must be below " WORKSPACE
                        ", or relative: below the repository's top");
}

// Those that are of a fresh sandbox: one that is there has its own.
static int check_sandbox(struct call *call, const struct task_options *o)
{
    if (o->sandbox == NULL)
        return 0;
    const char *name = o->image != NULL                                ? "image"
                       : o->memory.given                               ? "memory"
                       : o->network != NULL                            ? "network"
                       : o->budget.usd.given || o->budget.tokens.given ? "budget"
                                                                       : NULL;
    if (name == NULL)
        return 0;
    call_error(call, ERROR_INVALID_REQUEST, NULL,
               "options: %s: is of a fresh sandbox; that of sandbox_id has its own", name);
    return -1;
}

// As box/image.h has it, which is for those who have images.
static int check_image(struct call *call, const char *name)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    static const char rest[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
    if (name == NULL ||
        (*name != '\0' && strchr(first, *name) != NULL && name[strspn(name, rest)] == '\0'))
        return 0;
    return refuse(call, "options: image: cannot be an image's name: lower case letters, digits, "
                        "'.', '_' and '-'");
}

static int check_timeout(struct call *call, const struct task_options *o)
{
    int64_t most = agents_config(call->api->agents)->task_timeout_ms;
    if (!o->timeout.given || o->timeout.value <= most)
        return 0;
    call_error(call, ERROR_INVALID_REQUEST, NULL,
               "options: timeout: must be at most %lld, the server's max-execution-time",
               (long long)most);
    return -1;
}

// --- who does it

static const struct agent_file *find_agent(struct call *call, const char *name)
{
    const struct agent_files *files = agents_config(call->api->agents)->agent_files;
    const struct agent_file *file = agent_files_find(files, name);
    if (file == NULL)
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "options: agent: there is no agent '%.40s'; there are: %.200s", name,
                   agent_files_names(files));
    return file;
}

static int check_agent(struct call *call, const struct execute_body *b)
{
    struct err err = {0};
    const struct task_options *o = &b->options;
    char turns[24];
    (void)snprintf(turns, sizeof turns, "%lld", (long long)o->max_turns.value);
    const struct agent_values values = {
        .task = b->task,
        .system_prompt = o->system_prompt,
        .permission_mode = o->permission_mode,
        .model = o->model,
        .max_turns = o->max_turns.given ? turns : NULL,
    };
    const struct agent_file *file = find_agent(call, o->agent != NULL ? o->agent : AGENT_DEFAULT);
    if (file == NULL || execute_check_model(call, o->model) < 0)
        return -1;
    if (agent_file_check(file, &values, &err) < 0) {
        (void)err_wrap(&err, "options");
        call_fail(call, &err);
        return -1;
    }
    if (o->components != NULL && !agent_file_has_components(file)) {
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "options: components: the agent '%s' takes none", agent_file_name(file));
        return -1;
    }
    return 0;
}

static int check_key(struct call *call, const struct task_options *o)
{
    const struct agent_file *file = find_agent(call, o->agent != NULL ? o->agent : AGENT_DEFAULT);
    return file != NULL && agent_file_needs_model(file) ? execute_check_key(call) : 0;
}

static void components_done(struct components **components)
{
    components_free(*components);
}
#define auto_components __attribute__((cleanup(components_done)))

// As deep as a body may be at most.
static bool has_nul(json_t *tree)
{
    const char *name;
    json_t *value;
    size_t i;
    json_object_foreach(tree, name, value)
    {
        if (has_nul(value))
            return true;
    }
    json_array_foreach(tree, i, value)
    {
        if (has_nul(value))
            return true;
    }
    return json_is_string(tree) && strlen(json_string_value(tree)) != json_string_length(tree);
}

static int read_components(struct call *call, const json_t *tree, struct components **ret)
{
    struct err err = {0};
    int dir_fd = agents_config(call->api->agents)->components_fd;
    if (tree == NULL)
        return 0;
    if (!json_is_object(tree) || has_nul((json_t *)(uintptr_t)tree))
        return refuse(call, "options: components: must be an object, without NULs in its texts");
    if (components_parse(tree, dir_fd, ret, &err) == 0)
        return 0;
    if (err.code == ERR_NOT_FOUND) // of a part of the body, not of the path
        err.code = ERR_INVALID;
    (void)err_wrap(&err, "options: components");
    call_fail(call, &err);
    return -1;
}

// --- all of it

static int check(struct call *call, const struct execute_body *b)
{
    const struct task_options *o = &b->options;
    if (b->task[strspn(b->task, " \t\r\n")] == '\0')
        return refuse(call, "task: must not be empty");
    if (check_repo(call, b) < 0 || check_dir(call, o->working_dir) < 0 ||
        check_sandbox(call, o) < 0 || check_image(call, o->image) < 0 || check_timeout(call, o) < 0)
        return -1;
    return check_agent(call, b);
}

static struct task_request request_of(const struct call *call, const struct execute_body *b)
{
    const struct task_options *o = &b->options;
    return (struct task_request){
        .tenant = call->tenant,
        .id = execute_id(call),
        .task = b->task,
        .agent = o->agent,
        .sandbox = o->sandbox,
        .image = o->image,
        .memory = (uint64_t)o->memory.value,
        .repo = b->repo,
        .branch = b->branch,
        .secret = o->secret,
        .working_dir = o->working_dir,
        .system_prompt = o->system_prompt,
        .permission_mode = o->permission_mode,
        .model = o->model,
        .max_turns = o->max_turns.value,
        .timeout_ms =
            o->timeout.given ? o->timeout.value : agents_config(call->api->agents)->task_timeout_ms,
        .budget_cost = o->budget.usd.value,
        .budget_tokens = o->budget.tokens.value,
        .include_diff = !o->include_diff.given || o->include_diff.value,
        .keep = o->keep.value,
    };
}

void execute_task(struct call *call, const struct execute_body *b)
{
    static const struct body_strings none = {0};
    struct err err = {0};
    auto_components struct components *components = NULL;
    auto_network network = {0};
    if (check(call, b) < 0 || network_read(call, b->options.network, &none, &network) < 0 ||
        read_components(call, b->options.components, &components) < 0 ||
        check_key(call, &b->options) < 0)
        return;
    struct task_request request = request_of(call, b);
    request.network = network.network;
    request.components = components;
    struct run *run = task_start(call->api->agents, &request, &err);
    if (run == NULL) {
        call_fail(call, &err);
        return;
    }
    // From now on its key leads to it, whatever becomes of this request and this daemon.
    idem_answer_process(call, run_id(run));
    execute_follow(call, run);
    run_unref(run);
}
