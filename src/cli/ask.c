// SPDX-License-Identifier: Apache-2.0
// `cay ask "..."`: a question, answered by code that a model writes and a sandbox runs; or a task,
// for an agent in a sandbox.
#include "cli/ask.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/code.h"
#include "cli/signals.h"

enum { RETRIES = 1 }; // as the server has them

// -- the question

static int read_question(const struct remote *remote, bool is_task, struct buf *ret,
                         struct err *err)
{
    const char *what = is_task ? "task" : "question";
    size_t max = is_task ? ASK_TASK_MAX : ASK_QUESTION_MAX;
    bool is_input =
        remote->n_words == 0 || (remote->n_words == 1 && strcmp(remote->word[0], "-") == 0);
    buf_init(ret, max + 1);
    if (is_input && code_read("-", ret, err) < 0)
        return -1;
    for (size_t i = 0; !is_input && i < remote->n_words; i++)
        (void)buf_printf(ret, "%s%s", i > 0 ? " " : "", remote->word[i]);
    if (ret->failed != 0 || ret->len > max)
        return err_set(err, ERR_INVALID, "a %s has at most %zu KiB", what, max >> 10);
    if (!utf8_valid(buf_str(ret), ret->len))
        return err_set(err, ERR_INVALID, "the %s is not text (UTF-8)", what);
    if (strspn(buf_str(ret), " \t\r\n") == ret->len)
        return err_set(err, ERR_INVALID, "the %s is empty", what);
    return 0;
}

// -- asking the person

// A line from the terminal: its first letter; 0 for an empty one, -1 at its end or on a signal.
static int read_letter(void)
{
    char line[256];
    struct pollfd fds[] = {
        {.fd = STDIN_FILENO, .events = POLLIN},
        {.fd = signals_fd(), .events = POLLIN},
    };
    while (poll(fds, 2, -1) < 0 && errno == EINTR)
        ;
    if (fds[1].revents != 0)
        return -1;
    ssize_t n = read(STDIN_FILENO, line, sizeof line);
    if (n <= 0)
        return -1;
    for (ssize_t i = 0; i < n; i++) {
        if (line[i] != ' ' && line[i] != '\n')
            return line[i];
    }
    return 0;
}

int ask_confirm(const struct ask_options *options, bool fallback, const char *question)
{
    if (options->yes)
        return 1;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return -1;
    (void)fprintf(stderr, "%s %s ", question, fallback ? "[Y/n]" : "[y/N]");
    int letter = read_letter();
    if (letter < 0)
        (void)fputc('\n', stderr);
    if (letter == 0)
        return fallback;
    return letter == 'y' || letter == 'Y';
}

// -- the command

// A server that is not there is started, and a key that it lacks is given to it, each once.
static int run_to_answer(struct ask *ask, struct err *err)
{
    const struct ask_options *o = ask->options;
    bool started = false, gave = false;
    for (;;) {
        int r = ask_run(ask, err);
        if (r == 0 && !started && !gave && (o->key != NULL || o->key_file != NULL))
            ask_show_say(ask->show, "-- the server has a key: the one that was given is not used");
        if (r == 0 || ask->ended_by != 0)
            return r;
        if (!started && ask_found_nobody(ask, err) && ask_server_fits(ask->remote)) {
            started = true;
            r = ask_server_start(ask->remote, o, ask->show, err);
        } else if (!gave && strcmp(ask->remote->error_code, "MISSING_API_KEY") == 0) {
            gave = true;
            r = ask_key_give(ask->remote, o, err);
        }
        if (r < 0)
            return -1;
    }
}

static int finish(struct ask *ask, struct ask_files *files, struct err *err)
{
    const struct ask_options *o = ask->options;
    const struct json_node *answer = answer_root(&ask->answer);
    const char *sandbox = json_text(json_get(answer, "sandboxId"));
    bool json = ask->remote->json, saves = !o->no_files && (!json || o->output != NULL);
    int code = ask_exit_code(answer);
    if (!json && ask_show_end(ask->show, answer, err) < 0)
        return -1;
    int printed = json ? remote_print(ask->remote, &ask->answer) : CLI_OK;
    bool kept = sandbox != NULL && sandbox[0] != '\0' && ask_last_put(ask->remote, sandbox) == 0;
    int saved = saves ? ask_files_save(files, sandbox, json_get(answer, "files")) : 0;
    ask_show_sum(ask->show, answer, kept);
    if (printed != CLI_OK)
        return printed;
    return saved < 0 && code == CLI_OK ? CLI_FAILED : code;
}

static int run(struct ask *ask, struct ask_files *files)
{
    struct err err = {0};
    int r = run_to_answer(ask, &err);
    if (r == 0)
        r = ask->options->is_task ? ask_task_finish(ask, files, &err) : finish(ask, files, &err);
    if (r >= 0)
        return r;
    struct err ignored;
    (void)rich_release(&ask->show->rich, &ignored);
    (void)rich_end_line(&ask->show->rich, &ignored);
    if (ask->show->rich.is_unread)
        return 128 + SIGPIPE;
    if (strcmp(ask->remote->error_code, "CANCELLED") == 0) {
        (void)fputs("cay: cancelled\n", stderr);
        return CODE_INTERRUPTED;
    }
    r = remote_fail(ask->remote, &err);
    return ask->ended_by != 0 ? 128 + ask->ended_by : r;
}

static int prepare(struct ask_options *o, struct remote *remote, struct buf *question,
                   char last[ASK_ID_MAX], struct err *err)
{
    (void)signal(SIGPIPE, SIG_IGN);
    if (signals_catch(err) < 0 || read_question(remote, o->is_task, question, err) < 0)
        return -1;
    if (o->key != NULL)
        (void)fputs("cay: --key can be seen by others on this machine; --key-file FILE cannot\n",
                    stderr);
    if (!o->go_on)
        return 0;
    o->sandbox = last;
    return ask_last_get(remote, last, err);
}

int cmd_ask(int argc, char **argv)
{
    struct ask_options o = {.retries = RETRIES};
    struct err err = {0};
    struct ask_files files;
    struct ask_show show;
    char last[ASK_ID_MAX];
    int code;
    auto_remote remote;
    auto_buf question;
    buf_init(&question, 0);
    const struct command_line line = {"ask", &ask_spec, ask_take_flag, &o,
                                      0,     SIZE_MAX,  "a question"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    if (ask_check(&o, &remote, &err) < 0)
        return remote_usage(&remote, err.msg);
    if (prepare(&o, &remote, &question, last, &err) < 0)
        return cli_fail(&err);
    ask_files_init(&files, &remote, o.output);
    struct ask ask = {
        .remote = &remote, .options = &o, .question = buf_str(&question), .show = &show};
    ask_init(&ask);
    code = ask_show_init(&show, &remote, &o, &files, &err) < 0 ? cli_fail(&err) : run(&ask, &files);
    ask_done(&ask);
    ask_show_done(&show);
    ask_files_done(&files);
    return code;
}
