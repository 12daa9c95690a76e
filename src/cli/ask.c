// SPDX-License-Identifier: Apache-2.0
// `cay ask "..."`: a question, answered by code that a model writes and a sandbox runs.
#include "cli/ask.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/code.h"
#include "cli/lang.h"
#include "cli/signals.h"

enum ask_flag {
    FLAG_LANGUAGE,
    FLAG_MODEL,
    FLAG_SANDBOX,
    FLAG_CONTINUE,
    FLAG_CONTEXT,
    FLAG_TIMEOUT,
    FLAG_RETRIES,
    FLAG_MAX_TOKENS,
    FLAG_NO_CACHE,
    FLAG_OUTPUT,
    FLAG_NO_FILES,
    FLAG_KEY_FILE,
    FLAG_KEY,
    FLAG_QUIET,
    FLAG_YES,
};

enum { RETRIES = 1, RETRIES_MAX = 5, TOKENS_MAX = 64000 }; // as the server has them

static const struct opt opts[] = {
    {"language",   'l', "NAME", "what is written: python or javascript",               "python"            },
    {"model",      'm', "NAME", "who writes it: sonnet, opus, haiku, or a model's id", "sonnet"            },
    {"sandbox",    's', "ID",   "where it runs; 'last' is that of the last question",  "a new one"         },
    {"continue",   'c', NULL,   "go on where the last question from here has ended",   NULL                },
    {"context",    0,   "ID",   "in this context of the sandbox",                      "the language's own"},
    {"timeout",    't', "TIME", "how long the code may run (500ms, 10s, 2m)",          "30s"               },
    {"retries",    0,   "N",    "how often code that fails goes back to the model",    "1"                 },
    {"max-tokens", 0,   "N",    "how much may be written",                             "2048"              },
    {"no-cache",   0,   NULL,   "have it written anew, also if it was before",         NULL                },
    {"output",     'o', "DIR",  "where files go that the code writes",                 "./cay-<time>"      },
    {"no-files",   0,   NULL,   "leave them in the sandbox",                           NULL                },
    {"key-file",   0,   "FILE", "holds the key of the model's API",                    NULL                },
    {"key",        0,   "KEY",  "the key itself; others on this machine can see it",   NULL                },
    {"quiet",      'q', NULL,   "print the output, and nothing besides",               NULL                },
    {"yes",        'y', NULL,   "ask nothing: start a server, give it the key",        NULL                },
    REMOTE_OPTS,
};

static const struct opt_spec spec = {
    .usage = "cay ask [flags] QUESTION... | -",
    .summary =
        "Say what you want in words: a model writes code for it, the code runs in a sandbox, and\n"
        "what it gives is printed. Code that fails goes back to the model once. The output goes to\n"
        "standard output; the code, how long it took and what it cost to standard error.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more =
        "Examples:\n"
        "  cay ask 'the first 10 primes, one a line'\n"
        "  cay ask -l javascript 'a uuid'\n"
        "  cay ask 'draw a sine to sine.png'    and then    cay ask -c 'now a cosine, too'\n"
        "  cay ask -q 'today in ISO 8601' | tr -d '\\n'\n"
        "  cay ask --json 'what is 6 * 7' | jq .output\n"
        "  cay ask - < question.txt\n"
        "\n"
        "The key: --key-file, --key, ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN, or .env in this\n"
        "directory. It is wanted only where the server has none of its own; a server that we start\n"
        "gets it in its environment, one that runs keeps it as a secret, and you are asked before.\n"
        "\n"
        "Files that the code has written are saved in ./cay-<time>/, over nothing that is there;\n"
        "with --json only if --output names a place. In a pipe the output of an attempt comes when\n"
        "it has ended, so that one that failed leaves none; with --retries 0 it comes at once.\n"
        "\n"
        "Exit codes: 0; 1 the code failed, or there was none; 124 timeout; 130 cancelled; 125 Cay,\n"
        "the server or the model failed; 2 usage. Ctrl-C cancels, a second one gives up waiting.",
};

// -- the command line

static int take_language(struct ask_options *o, const char *value, struct err *err)
{
    const struct lang *lang = lang_find(value);
    if (lang == NULL ||
        (strcmp(lang->name, "python") != 0 && strcmp(lang->name, "javascript") != 0))
        return err_set(err, ERR_INVALID, "'%.40s' is neither python nor javascript", value);
    o->language = lang->name;
    return 0;
}

static int take_sandbox(struct ask_options *o, const char *value, struct err *err)
{
    if (value[0] == '\0' || strlen(value) >= ASK_ID_MAX)
        return err_set(err, ERR_INVALID, "'%.60s' is not the id of a sandbox", value);
    bool is_last = strcmp(value, "last") == 0;
    o->go_on = o->go_on || is_last;
    o->sandbox = is_last ? NULL : value;
    return 0;
}

static int take_text(const char **ret, const char *value, struct err *err)
{
    if (value[0] == '\0')
        return err_set(err, ERR_INVALID, "an empty word");
    *ret = value;
    return 0;
}

static int take_switch(bool *ret)
{
    *ret = true;
    return 0;
}

static int take_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    struct ask_options *o = data;
    switch ((enum ask_flag)flag) {
    case FLAG_LANGUAGE:
        return take_language(o, value, err);
    case FLAG_MODEL:
        return take_text(&o->model, value, err);
    case FLAG_SANDBOX:
        return take_sandbox(o, value, err);
    case FLAG_CONTINUE:
        return take_switch(&o->go_on);
    case FLAG_CONTEXT:
        return take_text(&o->context, value, err);
    case FLAG_TIMEOUT:
        return parse_duration(value, &o->timeout_ms, err);
    case FLAG_RETRIES:
        o->has_retries = true;
        return parse_u64(value, 0, RETRIES_MAX, &o->retries, err);
    case FLAG_MAX_TOKENS:
        return parse_u64(value, 1, TOKENS_MAX, &o->max_tokens, err);
    case FLAG_NO_CACHE:
        return take_switch(&o->no_cache);
    case FLAG_OUTPUT:
        return take_text(&o->output, value, err);
    case FLAG_NO_FILES:
        return take_switch(&o->no_files);
    case FLAG_KEY_FILE:
        return take_text(&o->key_file, value, err);
    case FLAG_KEY:
        return take_text(&o->key, value, err);
    case FLAG_QUIET:
        return take_switch(&o->quiet);
    case FLAG_YES:
        return take_switch(&o->yes);
    }
    return 0;
}

// What makes no sense together, or NULL.
static const char *conflict(const struct ask_options *o, const struct remote *remote)
{
    if (remote->n_words == 0 && isatty(STDIN_FILENO))
        return "no question: give it as words, or - for standard input";
    if (o->go_on && o->sandbox != NULL)
        return "both --continue and --sandbox: which?";
    if (o->context != NULL && o->sandbox == NULL && !o->go_on)
        return "--context goes with --sandbox";
    if (o->no_files && o->output != NULL)
        return "--output and --no-files do not go together";
    if (o->key != NULL && o->key_file != NULL)
        return "both --key and --key-file: which?";
    return NULL;
}

// -- the question

static int read_question(const struct remote *remote, struct buf *ret, struct err *err)
{
    bool is_input =
        remote->n_words == 0 || (remote->n_words == 1 && strcmp(remote->word[0], "-") == 0);
    buf_init(ret, ASK_QUESTION_MAX + 1);
    if (is_input && code_read("-", ret, err) < 0)
        return -1;
    for (size_t i = 0; !is_input && i < remote->n_words; i++)
        (void)buf_printf(ret, "%s%s", i > 0 ? " " : "", remote->word[i]);
    if (ret->failed != 0 || ret->len > ASK_QUESTION_MAX)
        return err_set(err, ERR_INVALID, "a question has at most %d KiB", ASK_QUESTION_MAX >> 10);
    if (!utf8_valid(buf_str(ret), ret->len))
        return err_set(err, ERR_INVALID, "the question is not text (UTF-8)");
    if (strspn(buf_str(ret), " \t\r\n") == ret->len)
        return err_set(err, ERR_INVALID, "the question is empty");
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
        r = finish(ask, files, &err);
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
    if (signals_catch(err) < 0 || read_question(remote, question, err) < 0)
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
    const struct command_line line = {"ask", &spec, take_flag, &o, 0, SIZE_MAX, "a question"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    const char *trouble = conflict(&o, &remote);
    if (trouble != NULL)
        return remote_usage(&remote, trouble);
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
