// SPDX-License-Identifier: Apache-2.0
// `cay code FILE`: runs a piece of code in a sandbox and shows what it gives.
#include "cli/code.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/lang.h"
#include "cli/signals.h"

enum code_flag {
    FLAG_LANGUAGE,
    FLAG_CODE,
    FLAG_SANDBOX,
    FLAG_CONTEXT,
    FLAG_TIMEOUT,
    FLAG_ENV,
    FLAG_IMAGE,
    FLAG_KEEP,
    FLAG_OUT,
};

static const struct opt opts[] = {
    {"language", 'l', "NAME", "what it is written in",                                "by the file's ending, else python"},
    {"code",     'c', "CODE", "run this text instead of a file",                      NULL                               },
    {"sandbox",  's', "ID",   "in this sandbox, instead of one that goes afterwards", NULL                               },
    {"context",  0,   "ID",   "in this context of the sandbox",                       "the language's own"               },
    {"timeout",  't', "TIME", "interrupt it after this long (500ms, 10s, 2m)",        "60s"                              },
    {"env",      'e', "K=V",  "set a variable; K alone takes ours. May be repeated",  NULL                               },
    {"image",    'i', "NAME", "what a new sandbox stands on",                         "host"                             },
    {"keep",     'k', NULL,   "keep the new sandbox, and tell its id",                NULL                               },
    {"out",      'o', "DIR",  "where pictures are written",                           "."                                },
    REMOTE_OPTS,
};

static const struct opt_spec spec = {
    .usage = "cay code [flags] FILE | - | -c CODE",
    .summary = "Runs code in a sandbox of its own, or in one that is there: then variables and\n"
               "imports stay for the next time. Output comes as it is written, the value of the\n"
               "last expression is printed, pictures are written to files.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more = "Examples:\n"
            "  cay code plot.py\n"
            "  cay code -c 'sum(range(10))'\n"
            "  echo 'console.log(6 * 7)' | cay code -l javascript -\n"
            "  cay code -s build -c 'x = 6'  and then  cay code -s build -c 'x * 7'\n"
            "\n"
            "Exit codes: 0; 1 the code failed; 124 timeout; 130 interrupted; 137 killed, out of\n"
            "memory; 125 Cay failed; 2 usage. Ctrl-C interrupts the code, a second one gives up.",
};

struct code_options {
    const char *language, *code, *context;
    struct pairs env;
    int64_t timeout_ms;
    const char *out;
    struct code_place place;
};

static int take_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    struct code_options *o = data;
    switch ((enum code_flag)flag) {
    case FLAG_LANGUAGE:
        o->language = value;
        return 0;
    case FLAG_CODE:
        o->code = value;
        return 0;
    case FLAG_SANDBOX:
        return code_place_name(&o->place, value, err);
    case FLAG_CONTEXT:
        o->context = value;
        return 0;
    case FLAG_TIMEOUT:
        return parse_duration(value, &o->timeout_ms, err);
    case FLAG_ENV:
        return pairs_add(&o->env, value, true, err);
    case FLAG_IMAGE:
        o->place.image = value;
        return 0;
    case FLAG_KEEP:
        o->place.keep = true;
        return 0;
    case FLAG_OUT:
        o->out = value;
        return 0;
    }
    return 0;
}

// What makes no sense together, or NULL.
static const char *conflict(const struct code_options *o, const struct remote *remote)
{
    bool named = o->place.sandbox[0] != '\0';
    if (o->code == NULL && remote->n_words == 0)
        return "no code to run: give a FILE, - for standard input, or -c CODE";
    if (o->code != NULL && remote->n_words > 0)
        return "both -c CODE and a FILE: which?";
    if (o->context != NULL && !named)
        return "--context goes with --sandbox";
    if (o->context != NULL && o->language != NULL)
        return "a context has its language: --language goes not with it";
    if (named && (o->place.image != NULL || o->place.keep))
        return "--image and --keep are for a new sandbox: they go not with --sandbox";
    return NULL;
}

// NULL when it is not known. A context knows its own.
static const char *language_of(const struct code_options *o, const char *path)
{
    if (o->language != NULL || o->context != NULL)
        return o->language;
    if (path == NULL || strcmp(path, "-") == 0)
        return "python";
    const struct lang *lang = lang_of_file(path);
    return lang != NULL ? lang->name : NULL;
}

static int read_code(const struct code_options *o, const char *path, struct buf *ret,
                     struct err *err)
{
    if (o->code == NULL)
        return code_read(path, ret, err);
    buf_init(ret, CODE_MAX);
    if (buf_append_str(ret, o->code) < 0)
        return err_set(err, ERR_INVALID, "more than %d MiB of code", CODE_MAX >> 20);
    return utf8_valid(buf_str(ret), ret->len)
               ? 0
               : err_set(err, ERR_INVALID, "the code is not text (UTF-8)");
}

static int run(struct code_options *o, const struct buf *code, struct err *err)
{
    struct code_run run = {
        .place = &o->place,
        .language = o->language,
        .context = o->context,
        .timeout_ms = o->timeout_ms,
        .env = &o->env,
        .rich = {.dir = o->out != NULL ? o->out : "."},
        .wake_fd = signals_fd(),
        .take_signal = signals_take,
    };
    if (code_place_open(&o->place, err) < 0)
        return -1;
    if (o->place.is_ours && o->place.keep)
        (void)fprintf(stderr, "cay: in sandbox %s\n", o->place.sandbox);
    int code_exit = o->place.remote->json ? code_run_json(&run, buf_str(code), code->len, err)
                                          : code_run(&run, buf_str(code), code->len, err);
    if (code_exit < 0) // before the sandbox is removed: that is asked for with the same remote
        code_exit = remote_fail(o->place.remote, err);
    code_place_close(&o->place);
    return code_exit;
}

int cmd_code(int argc, char **argv)
{
    static struct code_options o;
    int code;
    auto_remote remote;
    const struct command_line line = {"code", &spec, take_flag, &o, 0, 1, "one FILE"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    struct err err = {0};
    const char *path = remote.n_words > 0 ? remote.word[0] : NULL;
    const char *trouble = conflict(&o, &remote);
    if (trouble != NULL)
        return remote_usage(&remote, trouble);
    o.language = language_of(&o, path);
    if (o.language == NULL && o.context == NULL)
        return remote_usage(&remote, "the file's ending does not tell its language: say -l NAME");
    auto_buf text;
    buf_init(&text, 0);
    o.place.remote = &remote;
    o.place.language = o.language;
    (void)signal(SIGPIPE, SIG_IGN);
    if (signals_catch(&err) < 0 || read_code(&o, path, &text, &err) < 0)
        return cli_fail(&err);
    code = run(&o, &text, &err);
    return code < 0 ? remote_fail(&remote, &err) : code;
}
