// SPDX-License-Identifier: Apache-2.0
// `cay exec ID -- COMMAND...`: a command in a sandbox, as if it ran here.
#include "cli/exec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/output.h"

enum exec_flag {
    FLAG_SHELL,
    FLAG_SESSION,
    FLAG_CWD,
    FLAG_ENV,
    FLAG_USER,
    FLAG_TIMEOUT,
    FLAG_STDIN,
    FLAG_DETACH,
    FLAG_ID,
    FLAG_CREATE,
};

static const struct opt opts[] = {
    {"command", 'c', "TEXT",      "run this text in a shell instead",                    NULL        },
    {"session", 's', "NAME",      "in this session, made on first use: its state stays", NULL        },
    {"cwd",     'w', "DIR",       "working directory",                                   "/workspace"},
    {"env",     'e', "K=V",       "set a variable; K alone takes ours. May be repeated", NULL        },
    {"user",    'u', "UID[:GID]", "who to be: 'root', 'user' or an id",                  "root"      },
    {"timeout", 't', "TIME",      "end everything after this long (500ms, 10s, 2m)",     "none"      },
    {"stdin",   'i', NULL,        "read standard input to its end, and send it first",   NULL        },
    {"detach",  'd', NULL,        "start it, print its id and leave it running",         NULL        },
    {"id",      0,   "PROCESS",   "with --detach: the id it shall have",                 "made up"   },
    {"create",  0,   NULL,        "make the sandbox if it is not there",                 NULL        },
    REMOTE_OPTS,
};

static const struct opt_spec spec = {
    .usage = "cay exec ID [flags] [--] COMMAND [ARG...] | cay exec ID [flags] -c TEXT",
    .summary =
        "Runs a command in a sandbox, waking it if it sleeps. Output comes as it is written, also\n"
        "over broken connections and restarts of the server; signals are passed on.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more =
        "Examples:\n"
        "  cay exec build --create -- make -j4\n"
        "  cay exec build -c 'cd src && ls | wc -l'\n"
        "  cay exec build -s shell -c 'cd /tmp; export A=1'  and then  -s shell -c 'pwd; echo $A'\n"
        "  tar c src | cay exec build -i -- tar x\n"
        "  cay exec build --detach --id web -- python3 -m http.server\n"
        "\n"
        "Exit codes: the command's own; 128+N when signal N ended it (137: also out of memory);\n"
        "124 timeout; 125 Cay failed; 126 and 127 the command cannot be run, is not there; 2 usage.",
    .stop_at_word = true,
};

static int take_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    struct exec_options *o = data;
    switch ((enum exec_flag)flag) {
    case FLAG_SHELL:
        o->shell = value;
        return 0;
    case FLAG_SESSION:
        o->session = value;
        return 0;
    case FLAG_CWD:
        o->cwd = value;
        return value[0] == '/' ? 0
                               : err_set(err, ERR_INVALID, "'%s' is not an absolute path", value);
    case FLAG_ENV:
        return pairs_add(&o->env, value, true, err);
    case FLAG_USER:
        o->user = value;
        return 0;
    case FLAG_TIMEOUT:
        return parse_duration(value, &o->timeout_ms, err);
    case FLAG_STDIN:
        o->input = true;
        return 0;
    case FLAG_DETACH:
        o->detach = true;
        return 0;
    case FLAG_ID:
        o->process = value;
        return 0;
    case FLAG_CREATE:
        o->create = true;
        return 0;
    }
    return 0;
}

// What makes no sense together, or NULL.
static const char *conflict(const struct exec_options *o)
{
    if (o->shell == NULL && o->argv[0] == NULL)
        return "no command to run";
    if (o->shell != NULL && o->argv[0] != NULL)
        return "both -c TEXT and a COMMAND: which?";
    if (o->process != NULL && !o->detach)
        return "--id goes with --detach";
    if (o->detach && (o->session != NULL || o->input))
        return "--detach goes with neither --session nor --stdin";
    if (o->session != NULL && o->user != NULL)
        return "a session has its own user: --user goes not with it";
    if (o->input && isatty(STDIN_FILENO))
        return "standard input is a terminal: pipe something into it, or leave --stdin out";
    return NULL;
}

static int read_input(struct exec_options *o, struct err *err)
{
    char *at;
    size_t room;
    if (!o->input)
        return 0;
    for (;;) {
        // One byte more than is taken, so that too much is seen.
        if (buf_reserve(&o->stdin_data, 64 * 1024, &at, &room) < 0)
            return err_set(err, ERR_INVALID, "more than %d MiB of standard input",
                           EXEC_INPUT_MAX >> 20);
        ssize_t n = read(STDIN_FILENO, at, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, errno, "read standard input");
        if (n == 0)
            break;
        buf_commit(&o->stdin_data, (size_t)n);
    }
    if (o->stdin_data.len > EXEC_INPUT_MAX)
        return err_set(err, ERR_INVALID, "more than %d MiB of standard input",
                       EXEC_INPUT_MAX >> 20);
    o->stdin_is_text = utf8_valid(buf_str(&o->stdin_data), o->stdin_data.len);
    return 0;
}

// -- the body

static void put_text(struct json *j, const char *key, const char *text)
{
    if (text == NULL)
        return;
    json_key(j, key);
    json_put_str(j, text);
}

// A session's shell reads text: each word in quotes, so that it arrives as it is.
static void put_quoted(struct json *j, char **argv)
{
    auto_buf text;
    buf_init(&text, REMOTE_BODY_MAX);
    for (char **word = argv; *word != NULL; word++) {
        if (word != argv)
            (void)buf_append_char(&text, ' ');
        shell_quote(&text, *word);
    }
    put_text(j, "command", buf_str(&text));
}

static void put_command(struct json *j, const struct exec_options *o)
{
    if (o->shell != NULL) {
        put_text(j, "command", o->shell);
        return;
    }
    if (o->session != NULL) {
        put_quoted(j, o->argv);
        return;
    }
    json_key(j, "argv");
    json_open_array(j);
    for (char **word = o->argv; *word != NULL; word++)
        json_put_str(j, *word);
    json_close_array(j);
}

void exec_write_body(const struct exec_options *o, bool process, struct buf *body)
{
    struct json j;
    json_init(&j, body);
    json_open_object(&j);
    put_command(&j, o);
    put_text(&j, "cwd", o->cwd);
    put_text(&j, "user", o->user);
    if (o->timeout_ms > 0) {
        json_key(&j, "timeout");
        json_put_int(&j, o->timeout_ms);
    }
    pairs_put(&j, "env", &o->env);
    if (process) {
        put_text(&j, "id", o->process);
        json_key(&j, "stdin");
        json_put_bool(&j, o->input);
        if (!o->detach) {
            json_key(&j, "keepAwake");
            json_put_bool(&j, true);
        }
    } else {
        put_text(&j, "session", o->session);
        if (o->input) {
            json_key(&j, "stdin");
            json_put_strn(&j, buf_str(&o->stdin_data), o->stdin_data.len);
        }
    }
    json_close_object(&j);
    (void)json_finish(&j); // the buffer is looked at when it is sent
}

// -- ways to run it

// The whole result at once, as JSON.
static int run_json(struct remote *remote, const struct exec_options *o, struct err *err)
{
    auto_answer answer;
    auto_buf target, body;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    buf_init(&body, REMOTE_BODY_MAX);
    if (o->input && !o->stdin_is_text)
        return err_set(err, ERR_INVALID,
                       "with --json, standard input must be text (UTF-8): leave --json out");
    exec_write_body(o, false, &body);
    remote_target(&target, "sandbox", o->id, "exec");
    if (remote_do(remote, "POST", &target, &body, &answer, err) < 0)
        return -1;
    int code = remote_print(remote, &answer);
    return code != CLI_OK ? code : output_exit_code(answer_root(&answer));
}

static int run(struct remote *remote, const struct exec_options *o, struct err *err)
{
    if (o->detach)
        return exec_detach(remote, o, err);
    return remote->json ? run_json(remote, o, err) : exec_follow(remote, o, err);
}

// Whether the sandbox is there: 1, 0, or -1 with err.
static int exists(struct remote *remote, const char *id, struct err *err)
{
    auto_answer answer;
    auto_buf target;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "sandbox", id);
    if (remote_do(remote, "GET", &target, NULL, &answer, err) == 0)
        return 1;
    return remote->status == 404 ? 0 : -1;
}

// Makes it; whoever made it in between has made it, and any settings will do.
static int make(struct remote *remote, const char *method, const struct buf *target,
                const struct buf *body, struct err *err)
{
    auto_answer answer;
    answer_init(&answer);
    if (remote_do(remote, method, target, body, &answer, err) == 0)
        return 0;
    return remote->status == 409 ? 0 : -1;
}

static int make_sandbox(struct remote *remote, const char *id, struct err *err)
{
    auto_buf target, body;
    buf_init(&target, REMOTE_TARGET_MAX);
    buf_init(&body, 8);
    (void)buf_append_str(&body, "{}");
    remote_target(&target, "sandbox", id);
    return make(remote, "PUT", &target, &body, err);
}

static int make_session(struct remote *remote, const struct exec_options *o, struct err *err)
{
    struct json j;
    auto_buf target, body;
    buf_init(&target, REMOTE_TARGET_MAX);
    buf_init(&body, REMOTE_TARGET_MAX);
    json_init(&j, &body);
    json_open_object(&j);
    put_text(&j, "id", o->session);
    json_close_object(&j);
    (void)json_finish(&j);
    remote_target(&target, "sandbox", o->id, "sessions");
    return make(remote, "POST", &target, &body, err);
}

// Something was not found: makes what may be made, and says what to do about the rest.
static int make_missing(struct remote *remote, const struct exec_options *o, struct err *err)
{
    struct err why = *err;
    int there = exists(remote, o->id, err);
    if (there < 0)
        return -1;
    if (there == 0 && !o->create)
        return err_set(err, ERR_NOT_FOUND,
                       "there is no sandbox '%.128s': make it with 'cay create %.128s', or say "
                       "--create",
                       o->id, o->id);
    if (there == 0 && make_sandbox(remote, o->id, err) < 0)
        return -1;
    if (o->session != NULL)
        return make_session(remote, o, err);
    *err = why;
    return there == 0 ? 0 : -1;
}

static int run_or_make(struct remote *remote, const struct exec_options *o, struct err *err)
{
    int code = run(remote, o, err);
    if (code >= 0 || remote->status != 404)
        return code;
    return make_missing(remote, o, err) < 0 ? -1 : run(remote, o, err);
}

int cmd_exec(int argc, char **argv)
{
    static struct exec_options o;
    int code;
    auto_remote remote;
    const struct command_line line = {"exec", &spec, take_flag, &o, 1, 1, "an ID and a COMMAND"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    struct err err = {0};
    o.id = remote.word[0];
    o.argv = remote.rest;
    const char *trouble = conflict(&o);
    if (trouble != NULL)
        return remote_usage(&remote, trouble);
    buf_init(&o.stdin_data, EXEC_INPUT_MAX + 1);
    code = read_input(&o, &err) < 0 ? -1 : run_or_make(&remote, &o, &err);
    buf_done(&o.stdin_data);
    return code < 0 ? remote_fail(&remote, &err) : code;
}
