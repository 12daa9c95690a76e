// SPDX-License-Identifier: Apache-2.0
// `cay secret set|ls|rm`: credentials that boxes use and never see. A value is read from standard
// input or typed without being shown; never an argument, which every user of a machine can read.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/table.h"

enum { VALUE_MAX = 16 * 1024 }; // as the server has it

// -- set

enum set_flag { FLAG_UPSTREAM, FLAG_HEADER, FLAG_FORMAT };

static const struct opt set_opts[] = {
    {"upstream", 'u', "URL",    "where it belongs, as https://api.example.com", NULL           },
    {"header",   0,   "NAME",   "the header that it is sent in",                "Authorization"},
    {"format",   0,   "FORMAT", "the header's value; {} is the credential",     "Bearer {}"    },
    REMOTE_OPTS,
};

static const struct opt_spec set_spec = {
    .usage = "cay secret set NAME --upstream URL [flags]",
    .summary =
        "Stores a credential, or replaces it. The value is read from standard input, up to its\n"
        "end and without its last line's end; on a terminal it is asked for.",
    .opts = set_opts,
    .n_opts = sizeof set_opts / sizeof *set_opts,
    .more = "Example:\n"
            "  cay secret set github --upstream https://api.github.com < token\n"
            "  printf 'user:password' | cay secret set git --upstream https://git.example.com "
            "--format 'Basic {basic}'\n"
            "  cay secret set anthropic < key    (its upstream and header are known)\n"
            "A sandbox that names it in `secrets` reaches the upstream as http://NAME.cay/.",
};

struct set {
    const char *upstream, *header, *format;
};

// What is known of a name: the key of the model's API is sent in a header of its own.
static void set_known(struct set *s, const char *name)
{
    if (strcmp(name, "anthropic") != 0)
        return;
    if (s->upstream == NULL)
        s->upstream = "https://api.anthropic.com";
    if (s->header == NULL && s->format == NULL) {
        s->header = "x-api-key";
        s->format = "{}";
    }
}

static int take_set_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    struct set *s = data;
    (void)err;
    switch ((enum set_flag)flag) {
    case FLAG_UPSTREAM:
        s->upstream = value;
        return 0;
    case FLAG_HEADER:
        s->header = value;
        return 0;
    case FLAG_FORMAT:
        s->format = value;
        return 0;
    }
    return 0;
}

static void wipe(struct buf *buf)
{
    if (buf->data != NULL)
        explicit_bzero(buf->data, buf->cap);
    buf_done(buf);
}

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signum)
{
    (void)signum;
    interrupted = 1;
}

static int read_input(char *value, size_t size, size_t *ret_len, struct err *err)
{
    size_t len = 0;
    while (len < size) {
        ssize_t n = read(STDIN_FILENO, value + len, size - len);
        if (interrupted)
            return err_set(err, ERR_INVALID, "interrupted: nothing was stored");
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, errno, "read the value from standard input");
        if (n == 0 || (isatty(STDIN_FILENO) && value[len + (size_t)n - 1] == '\n')) {
            *ret_len = len + (size_t)n;
            return 0;
        }
        len += (size_t)n;
    }
    return err_set(err, ERR_INVALID, "the value is longer than %d bytes", VALUE_MAX);
}

// Shows nothing of what is typed; the terminal is as it was afterwards, also after Ctrl-C.
static int ask(const char *name, char *value, size_t size, size_t *ret_len, struct err *err)
{
    struct termios before, quiet;
    const struct sigaction action = {.sa_handler = on_interrupt}; // ends read(2): no SA_RESTART
    struct sigaction old;
    if (tcgetattr(STDIN_FILENO, &before) < 0)
        return err_sys(err, errno, "quiet the terminal");
    quiet = before;
    quiet.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
    quiet.c_lflag |= ICANON | ISIG;
    (void)fprintf(stderr, "value of %s: ", name);
    (void)fflush(stderr);
    (void)sigaction(SIGINT, &action, &old);
    int r = tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet) < 0
                ? err_sys(err, errno, "quiet the terminal")
                : read_input(value, size, ret_len, err);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    (void)sigaction(SIGINT, &old, NULL);
    (void)fputc('\n', stderr);
    return r;
}

static int read_value(const char *name, char *value, size_t size, size_t *ret_len, struct err *err)
{
    int r = isatty(STDIN_FILENO) ? ask(name, value, size, ret_len, err)
                                 : read_input(value, size, ret_len, err);
    if (r < 0)
        return -1;
    size_t len = *ret_len;
    if (len > 0 && value[len - 1] == '\n')
        len--;
    if (len > 0 && value[len - 1] == '\r')
        len--;
    *ret_len = len;
    if (len == 0)
        return err_set(err, ERR_INVALID, "the value is empty: it is read from standard input");
    return utf8_valid(value, len) ? 0 : err_set(err, ERR_INVALID, "the value is not UTF-8");
}

static void write_body(const struct set *s, const char *value, size_t len, struct buf *body)
{
    const struct {
        const char *key, *text;
    } fields[] = {
        {"upstream", s->upstream},
        {"header",   s->header  },
        {"format",   s->format  },
    };
    struct json j;
    json_init(&j, body);
    json_open_object(&j);
    json_key(&j, "value");
    json_put_strn(&j, value, len);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (fields[i].text != NULL) {
            json_key(&j, fields[i].key);
            json_put_str(&j, fields[i].text);
        }
    }
    json_close_object(&j);
    (void)json_finish(&j);
}

static int send_set(struct remote *remote, const struct buf *body)
{
    struct err err;
    auto_answer answer;
    auto_buf target;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "secrets", remote->word[0]);
    if (remote_do(remote, "PUT", &target, body, &answer, &err) < 0)
        return remote_fail(remote, &err);
    if (remote->json)
        return remote_print(remote, &answer);
    (void)puts(remote->word[0]);
    return remote_flush(remote);
}

static int cmd_secret_set(int argc, char **argv)
{
    static char value[VALUE_MAX + 2]; // and a line's end
    struct set set = {0};
    int code;
    auto_remote remote;
    const struct command_line line = {"secret", &set_spec, take_set_flag, &set, 1, 1, "one NAME"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    set_known(&set, remote.word[0]);
    if (set.upstream == NULL)
        return remote_usage(&remote, "--upstream URL is missing: a credential is for one place");
    struct err err;
    struct buf body;
    size_t len = 0;
    buf_init(&body, REMOTE_BODY_MAX);
    if (read_value(remote.word[0], value, sizeof value, &len, &err) < 0) {
        code = remote_fail(&remote, &err);
    } else {
        write_body(&set, value, len, &body);
        code = send_set(&remote, &body);
    }
    explicit_bzero(value, sizeof value);
    wipe(&body);
    return code;
}

// -- ls

static const struct opt plain_opts[] = {REMOTE_OPTS};

static const struct opt_spec ls_spec = {
    .usage = "cay secret ls [flags]",
    .summary = "Lists the secrets: where they belong, not what they are.",
    .opts = plain_opts,
    .n_opts = sizeof plain_opts / sizeof *plain_opts,
};

static const struct table_column columns[] = {
    {"NAME",     false},
    {"UPSTREAM", false},
    {"HEADER",   false},
    {"FORMAT",   false},
    {"CHANGED",  true },
};

static void add_row(struct table *table, const struct json_node *secret)
{
    cli_table_cell(table, json_text(json_get(secret, "name")));
    cli_table_cell(table, json_text(json_get(secret, "upstream")));
    cli_table_cell(table, json_text(json_get(secret, "header")));
    cli_table_cell(table, json_text(json_get(secret, "format")));
    remote_cell_ago(table, json_get(secret, "updatedAt"));
}

static int cmd_secret_ls(int argc, char **argv)
{
    static const struct remote_list list = {
        .key = "secrets",
        .columns = columns,
        .n_columns = sizeof columns / sizeof *columns,
        .add_row = add_row,
    };
    int code;
    auto_remote remote;
    const struct command_line line = {"secret", &ls_spec, NULL, NULL, 0, 0, "no names"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    auto_buf target;
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "secrets");
    return remote_print_list(&remote, &target, &list);
}

// -- rm

static const struct opt_spec rm_spec = {
    .usage = "cay secret rm NAME... [flags]",
    .summary = "Forgets secrets; sandboxes that name them cannot use them from now on.",
    .opts = plain_opts,
    .n_opts = sizeof plain_opts / sizeof *plain_opts,
};

static void write_target(const struct remote *remote, const char *word, struct buf *ret)
{
    (void)remote;
    remote_target(ret, "secrets", word);
}

static int cmd_secret_rm(int argc, char **argv)
{
    int code;
    auto_remote remote;
    const struct command_line line = {"secret", &rm_spec,           NULL, NULL, 1,
                                      SIZE_MAX, "at least one NAME"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    return remote_delete_words(&remote, 0, write_target);
}

// -- all of them

static const struct command commands[] = {
    {"set", NULL, "store a credential, or replace it", cmd_secret_set},
    {"ls",  NULL, "list the secrets",                  cmd_secret_ls },
    {"rm",  NULL, "forget secrets",                    cmd_secret_rm },
};

int cmd_secret(int argc, char **argv)
{
    static const struct command_group group = {
        .name = "secret",
        .about =
            "Secrets are credentials that belong to an upstream. A box that may use one calls\n"
            "http://NAME.cay/, and the server puts it in on the way; the box never has it.\n",
        .commands = commands,
        .n = sizeof commands / sizeof *commands,
    };
    return cli_run_group(&group, argc, argv);
}
