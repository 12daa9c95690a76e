// SPDX-License-Identifier: Apache-2.0
// `cay ps ID`: the processes of a sandbox, those that have ended too.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/table.h"

enum ps_flag { FLAG_RUNNING, FLAG_QUIET };

static const struct opt opts[] = {
    {"running", 'r', NULL, "only those that run",   NULL},
    {"quiet",   'q', NULL, "ids alone, one a line", NULL},
    REMOTE_OPTS,
};

static const struct opt_spec spec = {
    .usage = "cay ps ID [flags]",
    .summary =
        "Lists the processes that were started in a sandbox ('cay exec --detach'), with those that\n"
        "have ended and are still remembered. Looking does not wake it.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
};

struct ps {
    bool running, quiet;
};

static int take_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    struct ps *ps = data;
    (void)value;
    (void)err;
    if (flag == FLAG_RUNNING)
        ps->running = true;
    else
        ps->quiet = true;
    return 0;
}

static const struct table_column columns[] = {
    {"PROCESS", false},
    {"PID",     true },
    {"STATUS",  false},
    {"STARTED", true },
    {"COMMAND", false},
};

static bool is_running(const struct json_node *p)
{
    const char *status = json_text(json_get(p, "status"));
    return status != NULL && strcmp(status, "running") == 0;
}

// "exit 3", "signal 9", "timeout"; "running".
static void status_cell(struct table *table, const struct json_node *p)
{
    const char *reason = json_text(json_get(p, "reason"));
    int64_t code = json_int(json_get(p, "exitCode"), -1);
    auto_buf signal;
    buf_init(&signal, 64);
    (void)remote_text(&signal, p, "signal");
    if (is_running(p))
        cli_table_cell(table, "running");
    else if (reason != NULL && strcmp(reason, "exit") == 0)
        cli_table_cellf(table, "exit %" PRId64, code);
    else if (reason != NULL && signal.len > 0 && strcmp(reason, "signal") == 0)
        cli_table_cellf(table, "signal %s", buf_str(&signal));
    else
        cli_table_cell(table, reason != NULL ? reason : json_text(json_get(p, "status")));
}

// A shell's text as it is; arguments with spaces between them.
static void command_cell(struct table *table, const struct json_node *p)
{
    const struct json_node *command = json_get(p, "command");
    auto_buf text;
    buf_init(&text, 256);
    command = command != NULL ? command : json_get(p, "argv");
    if (json_text(command) != NULL)
        (void)buf_append_str(&text, json_text(command));
    for (const struct json_node *n = json_first(command); n != NULL; n = json_next(n)) {
        const char *word = json_text(n);
        bool quote = word == NULL || word[0] == '\0' || strpbrk(word, " \t\n'\"$\\") != NULL;
        (void)buf_printf(&text, quote ? "%s'%s'" : "%s%s", text.len > 0 ? " " : "",
                         word != NULL ? word : "");
    }
    if (text.failed != 0)
        memcpy(text.data + text.len - 3, "...", 3);
    cli_table_cell(table, buf_str(&text));
}

static void add_row(struct table *table, const struct json_node *p)
{
    cli_table_cell(table, json_text(json_get(p, "id")));
    cli_table_cellf(table, "%" PRId64, json_int(json_get(p, "pid"), 0));
    status_cell(table, p);
    remote_cell_ago(table, json_get(p, "startedAt"));
    command_cell(table, p);
}

static void print_list(const struct ps *ps, const struct json_node *list)
{
    struct table table;
    cli_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (const struct json_node *n = json_first(list); n != NULL; n = json_next(n)) {
        auto_buf id;
        buf_init(&id, REMOTE_TARGET_MAX);
        if (ps->running && !is_running(n))
            continue;
        if (ps->quiet)
            (void)puts(remote_text(&id, n, "id"));
        else
            add_row(&table, n);
    }
    if (!ps->quiet)
        (void)cli_table_print(&table, stdout, text_colour(stdout));
    cli_table_done(&table);
}

int cmd_ps(int argc, char **argv)
{
    struct ps ps = {0};
    int code;
    auto_remote remote;
    const struct command_line line = {"ps", &spec, take_flag, &ps, 1, 1, "one ID"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    struct err err;
    auto_answer answer;
    auto_buf target;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "sandbox", remote.word[0], "processes");
    if (remote_do(&remote, "GET", &target, NULL, &answer, &err) < 0)
        return remote_fail(&remote, &err);
    if (remote.json)
        return remote_print(&remote, &answer);
    print_list(&ps, json_get(answer_root(&answer), "processes"));
    return remote_flush(&remote);
}
