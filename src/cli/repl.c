// SPDX-License-Identifier: Apache-2.0
// `cay repl`: a conversation with an interpreter in a sandbox.
#include "cli/repl.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/shell.h"
#include "cli/signals.h"

#define NO_TIMEOUT (INT64_C(366) * 86400 * 1000) // the longest that a server takes

enum repl_flag {
    FLAG_LANGUAGE,
    FLAG_SANDBOX,
    FLAG_CONTEXT,
    FLAG_TIMEOUT,
    FLAG_IMAGE,
    FLAG_KEEP,
    FLAG_OUT,
};

static const struct opt opts[] = {
    {"language", 'l', "NAME", "python, javascript, typescript or bash",               "python"            },
    {"sandbox",  's', "ID",   "in this sandbox, instead of one that goes afterwards", NULL                },
    {"context",  0,   "ID",   "in this context of the sandbox",                       "the language's own"},
    {"timeout",  't', "TIME", "interrupt a cell after this long (10s, 2m)",           "none"              },
    {"image",    'i', "NAME", "what a new sandbox stands on",                         "host"              },
    {"keep",     'k', NULL,   "keep the new sandbox",                                 NULL                },
    {"out",      'o', "DIR",  "where pictures are written",                           "."                 },
    REMOTE_OPTS,
};

static const struct opt_spec spec = {
    .usage = "cay repl [flags]",
    .summary =
        "Talks to an interpreter in a sandbox: what is typed runs when it is complete, and what\n"
        "it gives is shown. Without a terminal, cells are read line by line.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more =
        "Ctrl-C interrupts a cell, a second one stops waiting for it; Ctrl-D leaves; :help says\n"
        "more. What is typed is kept in ~/.local/state/cay/history.\n"
        "\n"
        "Examples:\n"
        "  cay repl\n"
        "  cay repl -l javascript --sandbox build\n"
        "  printf 'x = 6\\nx * 7\\n' | cay repl\n"
        "\n"
        "Exit codes: 0; without a terminal that of the last cell, as 'cay code' has them.",
};

static int take_language(struct repl *repl, const char *name, struct err *err)
{
    const struct lang *lang = lang_find(name);
    if (lang != NULL && lang->is_single)
        return err_set(err, ERR_INVALID,
                       "cells of %s know nothing of each other: use 'cay code -l %s'", lang->name,
                       lang->name);
    if (lang == NULL)
        return err_set(err, ERR_INVALID, "'%.40s' is none of python, javascript, typescript, bash",
                       name);
    repl->lang = lang;
    return 0;
}

static int take_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    struct repl *repl = data;
    switch ((enum repl_flag)flag) {
    case FLAG_LANGUAGE:
        return take_language(repl, value, err);
    case FLAG_SANDBOX:
        return code_place_name(&repl->place, value, err);
    case FLAG_CONTEXT:
        repl->run.context = value;
        return 0;
    case FLAG_TIMEOUT:
        return parse_duration(value, &repl->run.timeout_ms, err);
    case FLAG_IMAGE:
        repl->place.image = value;
        return 0;
    case FLAG_KEEP:
        repl->place.keep = true;
        return 0;
    case FLAG_OUT:
        repl->run.rich.dir = value;
        return 0;
    }
    return 0;
}

// What makes no sense together, or NULL.
static const char *conflict(const struct repl *repl)
{
    bool named = repl->place.sandbox[0] != '\0';
    if (repl->run.context != NULL && !named)
        return "--context goes with --sandbox";
    if (repl->run.context != NULL && repl->lang != NULL)
        return "a context has its language: --language goes not with it";
    if (named && (repl->place.image != NULL || repl->place.keep))
        return "--image and --keep are for a new sandbox: they go not with --sandbox";
    if (repl->place.remote->json)
        return "--json goes with 'cay code'";
    return NULL;
}

// -- cells

static void tell_state(struct repl *repl)
{
    const struct remote *remote = repl->place.remote;
    if (repl->run.ended_by == SIGINT)
        (void)fputs("cay: no longer waiting for it: it may still run (:interrupt, :restart)\n",
                    stderr);
    else if (repl->run.state_lost || strcmp(remote->error_code, "CONTEXT_DEAD") == 0)
        (void)fprintf(stderr, "cay: the interpreter has ended, and what was defined is gone%s\n",
                      repl->run.context != NULL ? " (:restart begins anew)" : "");
}

static void remember(struct repl *repl, const char *code, size_t len)
{
    if (repl->saved.len + len + 2 > REPL_SAVED_MAX)
        return;
    (void)buf_append_str(&repl->saved, repl->saved.len > 0 ? "\n" : "");
    (void)buf_append(&repl->saved, code, len);
    if (len > 0 && code[len - 1] != '\n')
        (void)buf_append_char(&repl->saved, '\n');
}

void repl_cell(struct repl *repl, const char *code, size_t len)
{
    struct err err;
    signals_forgive();
    int r = code_run(&repl->run, code, len, &err);
    if (r < 0)
        r = remote_fail(repl->place.remote, &err);
    repl->exit_code = r;
    if (r == CLI_OK)
        remember(repl, code, len);
    if (repl->run.ended_by != 0 && (repl->run.ended_by != SIGINT || !repl->is_tty))
        repl->is_over = true;
    else
        tell_state(repl);
}

void repl_take(struct repl *repl, const char *text, size_t len)
{
    if (!repl_command(repl, text, len))
        repl_cell(repl, text, len);
}

// -- the conversation

static void converse(struct repl *repl)
{
    struct prompt prompt;
    prompt_init(&prompt, &repl->history);
    while (!repl->is_over) {
        enum line_state state = prompt_read(&prompt, repl->lang);
        struct buf *text = &prompt.line.text;
        while (text->len > 0 && strchr(" \t\n", text->data[text->len - 1]) != NULL)
            text->data[--text->len] = '\0';
        if (state == LINE_ENDED)
            break;
        if (state == LINE_CANCELLED || text->len == 0)
            continue;
        history_add(&repl->history, text->data, text->len);
        repl_take(repl, text->data, text->len);
    }
    prompt_done(&prompt);
}

// Whether it is there, and what a context's language is.
static int look(struct repl *repl, struct err *err)
{
    auto_answer answer;
    auto_buf target;
    if (repl->place.sandbox[0] == '\0')
        return 0;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "sandbox", repl->place.sandbox,
                  repl->run.context != NULL ? "contexts" : NULL, repl->run.context);
    if (remote_do(repl->place.remote, "GET", &target, NULL, &answer, err) < 0)
        return -1;
    const char *language = json_text(json_get(answer_root(&answer), "language"));
    return repl->run.context != NULL && language != NULL ? take_language(repl, language, err) : 0;
}

static void greet(const struct repl *repl)
{
    const char *goes = !repl->place.is_ours ? ""
                       : repl->place.keep   ? ", which is kept"
                                            : ", which goes when you leave (--keep keeps it)";
    if (repl->is_tty || (repl->place.is_ours && repl->place.keep))
        (void)fprintf(stderr, "cay: %s in sandbox %s%s%s\n", repl->lang->name, repl->place.sandbox,
                      goes, repl->is_tty ? "; :help" : "");
}

// Terminals that cannot move the cursor get lines, too.
static bool can_edit(const struct repl *repl)
{
    const char *term = getenv("TERM");
    return repl->is_tty && term != NULL && term[0] != '\0' && strcmp(term, "dumb") != 0;
}

static int open_signals(struct repl *repl, bool edits, struct err *err)
{
    (void)signal(SIGPIPE, SIG_IGN);
    if ((edits ? tty_open(err) : signals_catch(err)) < 0)
        return -1;
    repl->run.wake_fd = edits ? tty_wake_fd() : signals_fd();
    repl->run.take_signal = edits ? tty_signal : signals_take;
    return 0;
}

static int run(struct repl *repl, struct err *err)
{
    bool edits = can_edit(repl);
    struct err trouble;
    if (open_signals(repl, edits, err) < 0 || look(repl, err) < 0)
        return -1;
    repl->run.language = repl->place.language = repl->lang->name;
    if (code_place_open(&repl->place, err) < 0)
        return -1;
    greet(repl);
    if (edits && history_open(&repl->history, &trouble) < 0)
        (void)cli_fail(&trouble);
    if (edits)
        converse(repl);
    else
        repl_lines(repl);
    code_place_close(&repl->place);
    bool left = repl->is_tty && (repl->run.ended_by == 0 || repl->run.ended_by == SIGINT);
    return left ? CLI_OK : repl->exit_code;
}

int cmd_repl(int argc, char **argv)
{
    static struct repl repl;
    int code;
    auto_remote remote;
    const struct command_line line = {"repl", &spec, take_flag, &repl, 0, 0, "no words"};
    repl.place.remote = &remote;
    repl.run.place = &repl.place;
    repl.run.timeout_ms = NO_TIMEOUT;
    repl.run.rich.dir = ".";
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    const char *trouble = conflict(&repl);
    if (trouble != NULL)
        return remote_usage(&remote, trouble);
    struct err err = {0};
    if (repl.lang == NULL)
        repl.lang = lang_find("python");
    repl.is_tty = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    repl.place.linger = true;
    buf_init(&repl.saved, REPL_SAVED_MAX);
    history_init(&repl.history);
    code = run(&repl, &err);
    history_done(&repl.history);
    buf_done(&repl.saved);
    return code < 0 ? remote_fail(&remote, &err) : code;
}
