// SPDX-License-Identifier: Apache-2.0
#include "api/command.h"

#include <errno.h>
#include <string.h>

#include "api/schemas.h"

enum {
    CWD_MAX = 4095,
    EXIT_NOT_FOUND = 127,
    EXIT_NOT_EXECUTABLE = 126,
    TIMEOUT_MAX_DAYS = 366,
    SHOWN_MAX = 16 * 1024, // bytes of it: rows keep it, and lists have hundreds of them
};

#define TIMEOUT_MAX (INT64_C(86400) * 1000 * TIMEOUT_MAX_DAYS)
#define AT(member)  offsetof(struct command_body, member)

#define COMMAND_FIELDS                                                                             \
    FIELD("command", FIELD_STRING, AT(command), .max = EDGE_COMMAND_MAX,                           \
          .help = "A shell's command line. Either this or argv"),                                  \
        FIELD("argv", FIELD_STRINGS, AT(argv), .min = 1, .max = EDGE_ARGS_MAX,                     \
              .help = "A program and its arguments, without a shell"),                             \
        FIELD("cwd", FIELD_STRING, AT(cwd), .max = CWD_MAX,                                        \
              .help = "An absolute path; /workspace if not given"),                                \
        FIELD("env", FIELD_ENV, AT(env), .max = EDGE_ENV_MAX,                                      \
              .help = "Variables, beside the sandbox's own"),                                      \
        FIELD("timeout", FIELD_MS, AT(timeout), .min = 1, .max = TIMEOUT_MAX,                      \
              .help = "Milliseconds, or a text such as \"1s\"; then all of it is killed"),         \
        FIELD("user", FIELD_USER, AT(user),                                                        \
              .help = "\"root\" (if not given), \"user\", a user id, or \"uid:gid\"")

static const struct field exec_fields[] = {
    COMMAND_FIELDS,
    FIELD("stdin", FIELD_BYTES, AT(input), .help = "What it reads from standard input"),
    FIELD("session", FIELD_STRING, AT(session), .max = EDGE_NAME_MAX,
          .help = "Run the command in this session's shell"),
};
static const struct field process_fields[] = {
    COMMAND_FIELDS,
    FIELD("id", FIELD_STRING, AT(id), .max = EDGE_NAME_MAX, .help = "Made up if not given"),
    FIELD("keepAwake", FIELD_BOOL, AT(keep_awake),
          .help = "The sandbox does not fall asleep while it runs"),
    FIELD("stdin", FIELD_BOOL, AT(keep_stdin),
          .help = "Standard input stays open for POST .../stdin (true if not given)"),
};

const struct schema exec_schema = SCHEMA("Exec", struct command_body, exec_fields);
const struct schema process_schema = SCHEMA("StartProcess", struct command_body, process_fields);

static int refuse(struct call *call, const char *why)
{
    call_error(call, ERROR_INVALID_REQUEST, NULL, "%s", why);
    return -1;
}

int command_check(struct call *call, const struct command_body *b)
{
    bool has_argv = b->argv.items != NULL;
    if ((b->command != NULL) == has_argv)
        return refuse(call, "one of 'command' (a text) and 'argv' (an array) is needed");
    if (b->command != NULL && b->command[0] == '\0')
        return refuse(call, "command: must not be empty");
    if (has_argv && b->argv.items[0][0] == '\0')
        return refuse(call, "argv: the program's name is empty");
    if (b->cwd != NULL && b->cwd[0] != '/')
        return refuse(call, "cwd: must be an absolute path");
    if (b->id != NULL && !sandbox_id_valid(b->id))
        return refuse(call, "id: must be letters, digits, '.', '_' and '-', with a letter or digit "
                            "at both ends");
    if (b->session != NULL && has_argv)
        return refuse(call, "a session runs a 'command', not 'argv'");
    if (b->session != NULL && b->user.given)
        return refuse(call, "user: a session's commands run as the user of its shell");
    return 0;
}

int command_init(struct command *c, const struct command_body *b, const struct sandbox *s,
                 bool plain_shell, struct err *err)
{
    *c = (struct command){
        .shell = {plain_shell ? "/bin/sh" : "bash", "-c", b->command, NULL},
        .env = exec_env(s, b->env.json, b->user.uid, err),
    };
    if (c->env == NULL)
        return -1;
    c->request = (struct exec_request){
        .argv = b->command != NULL ? c->shell : b->argv.items,
        .envp = (const char *const *)c->env,
        .cwd = b->cwd != NULL ? b->cwd : "/workspace",
        .stdin_data = b->input.data,
        .stdin_len = b->input.len,
        .timeout_ms = b->timeout.value,
        .uid = b->user.uid,
        .gid = b->user.gid,
    };
    return 0;
}

void command_done(struct command *c)
{
    if (c->env != NULL)
        exec_env_free(c->env);
    c->env = NULL;
}

// Of a text that is longer than what is left, the beginning.
static void show_text(struct json *j, const char *text, size_t *left)
{
    static const char more[] = "\xe2\x80\xa6"; // an ellipsis
    size_t len = strnlen(text, *left);
    bool is_whole = text[len] == '\0';
    while (!is_whole && len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80)
        len--; // not within a character
    json_open_text(j);
    json_more_text(j, text, len);
    if (!is_whole)
        json_more_text(j, more, sizeof more - 1);
    json_close_text(j);
    *left -= is_whole ? len : *left;
}

void command_show(struct json *j, const struct command_body *b)
{
    size_t left = SHOWN_MAX;
    if (b->command != NULL) {
        show_text(j, b->command, &left);
        return;
    }
    json_open_array(j);
    for (size_t i = 0; i < b->argv.n && left > 0; i++)
        show_text(j, b->argv.items[i], &left);
    json_close_array(j);
}

// Only a guest's own report carries an errno: what Cay refuses has none, and a box that is gone is
// ERR_UNAVAILABLE.
int command_start_failed(const struct err *err)
{
    if (err->sys_errno == 0 || err->code == ERR_UNAVAILABLE)
        return 0;
    return err->sys_errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

bool command_wants_plain_shell(const struct command_body *b, const struct err *err)
{
    return b->command != NULL && err->sys_errno == ENOENT;
}
