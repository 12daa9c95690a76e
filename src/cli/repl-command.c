// SPDX-License-Identifier: Apache-2.0
// What one can say to the conversation itself: ":help" and the like. A colon and a letter begin
// nothing in any of the languages; the shell's own ":" has a space behind it.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/cli.h"
#include "cli/repl.h"
#include "cli/table.h"

static void say(const struct err *err)
{
    (void)cli_fail(err);
}

static void do_help(struct repl *repl, const char *word);

static void do_quit(struct repl *repl, const char *word)
{
    (void)word;
    repl->is_over = true;
}

static void do_restart(struct repl *repl, const char *word)
{
    struct err err;
    (void)word;
    if (code_context_do(&repl->run, "restart", &err) < 0) {
        (void)remote_fail(repl->place.remote, &err);
        return;
    }
    repl->run.count = 0;
    (void)fputs("cay: started anew\n", stderr);
}

static void do_interrupt(struct repl *repl, const char *word)
{
    struct err err;
    (void)word;
    if (code_context_do(&repl->run, "interrupt", &err) < 0)
        (void)remote_fail(repl->place.remote, &err);
}

// Never over a file that is there.
static int save(const struct repl *repl, const char *path, struct err *err)
{
    auto_fd fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return err_sys(err, errno, "make '%s'", path);
    int r = fd_write_all(fd, buf_str(&repl->saved), repl->saved.len);
    return r < 0 ? err_sys(err, -r, "write '%s'", path) : 0;
}

static void do_save(struct repl *repl, const char *word)
{
    struct err err;
    char size[24];
    if (word[0] == '\0') {
        (void)fputs("cay: :save FILE\n", stderr);
        return;
    }
    if (save(repl, word, &err) < 0)
        say(&err);
    else
        (void)fprintf(stderr, "cay: wrote %s\n", text_size(size, sizeof size, repl->saved.len));
}

static void do_load(struct repl *repl, const char *word)
{
    struct err err;
    auto_buf code;
    buf_init(&code, 0);
    if (word[0] == '\0')
        (void)fputs("cay: :load FILE\n", stderr);
    else if (strcmp(word, "-") == 0)
        (void)fputs("cay: standard input is where you are\n", stderr);
    else if (code_read(word, &code, &err) < 0)
        say(&err);
    else
        repl_cell(repl, buf_str(&code), code.len);
}

static void do_lang(struct repl *repl, const char *word)
{
    const struct lang *lang = lang_find(word);
    if (word[0] == '\0')
        (void)fprintf(stderr, "cay: %s\n", repl->lang->name);
    else if (repl->run.context != NULL)
        (void)fputs("cay: the context has its language\n", stderr);
    else if (lang == NULL || lang->is_single)
        (void)fputs("cay: python, javascript, typescript or bash\n", stderr);
    else if (lang != repl->lang) {
        repl->lang = lang;
        repl->run.language = lang->name;
        repl->run.count = 0;
        repl->run.seen_context[0] = '\0';
    }
}

static void do_sandbox(struct repl *repl, const char *word)
{
    (void)word;
    (void)fprintf(stderr, "cay: %s\n", repl->place.sandbox);
}

static const struct {
    const char *name, *word, *help;
    void (*fn)(struct repl *repl, const char *word);
} commands[] = {
    {"help",      "",        "this",                                         do_help     },
    {"quit",      "",        "leave; so do Ctrl-D and exit",                 do_quit     },
    {"interrupt", "",        "what still runs; Ctrl-C does it to a cell",    do_interrupt},
    {"restart",   "",        "begin anew: all that was defined goes",        do_restart  },
    {"lang",      " [NAME]", "the language, or another one",                 do_lang     },
    {"load",      " FILE",   "run a file of this machine as a cell",         do_load     },
    {"save",      " FILE",   "write the cells that went well to a new file", do_save     },
    {"sandbox",   "",        "where all this is",                            do_sandbox  },
};

static void do_help(struct repl *repl, const char *word)
{
    (void)repl;
    (void)word;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char left[32];
        (void)snprintf(left, sizeof left, ":%s%s", commands[i].name, commands[i].word);
        (void)fprintf(stderr, "  %-14s  %s\n", left, commands[i].help);
    }
    (void)fputs(
        "  Alt-Enter begins another line, Ctrl-R looks for what was typed before; what begins\n"
        "  with a space is not remembered.\n",
        stderr);
}

// What people type to leave an interpreter, in any language that is spoken here.
static bool is_farewell(const char *text, size_t len)
{
    static const char *const words[] = {"exit", "exit()", "quit", "quit()", ".exit"};
    while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\n' || text[len - 1] == ';'))
        len--;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i]) == len && memcmp(words[i], text, len) == 0)
            return true;
    }
    return false;
}

bool repl_command(struct repl *repl, const char *text, size_t len)
{
    char line[4096];
    if (is_farewell(text, len)) {
        do_quit(repl, "");
        return true;
    }
    if (len < 2 || text[0] != ':' || text[1] < 'a' || text[1] > 'z' || len >= sizeof line ||
        memchr(text, '\n', len) != NULL)
        return false;
    (void)snprintf(line, sizeof line, "%.*s", (int)len, text);
    size_t name = strcspn(line + 1, " \t");
    char *word = line + 1 + name;
    word += strspn(word, " \t");
    for (char *end = word + strlen(word); end > word && (end[-1] == ' ' || end[-1] == '\t');)
        *--end = '\0';
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strlen(commands[i].name) == name && memcmp(commands[i].name, line + 1, name) == 0) {
            commands[i].fn(repl, word);
            return true;
        }
    }
    (void)fputs("cay: there is no such command (:help lists them)\n", stderr);
    return true;
}
