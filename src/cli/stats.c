// SPDX-License-Identifier: Apache-2.0
// `cay stats [ID...]`: what running sandboxes use now.
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/table.h"

enum stats_flag { FLAG_WATCH };

static const struct opt opts[] = {
    {"watch", 'w', NULL, "again every second, until interrupted", NULL},
    REMOTE_OPTS,
};

static const struct opt_spec spec = {
    .usage = "cay stats [ID...] [flags]",
    .summary = "Shows what sandboxes use: of those named, or of all that run.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
};

static const struct table_column columns[] = {
    {"ID",     false},
    {"CPU",    true },
    {"MEMORY", true },
    {"PEAK",   true },
    {"PIDS",   true },
    {"DISK",   true },
};

static int take_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    bool *watch = data;
    (void)flag;
    (void)value;
    (void)err;
    *watch = true;
    return 0;
}

static void size_cell(struct table *table, const struct json_node *stats, const char *key)
{
    char text[24];
    int64_t bytes = json_int(json_get(stats, key), -1);
    cli_table_cell(table, bytes >= 0 ? text_size(text, sizeof text, (uint64_t)bytes) : NULL);
}

static void add_row(struct table *table, const char *id, const struct json_node *stats)
{
    double cpu = json_double(json_get(stats, "cpu"), -1);
    int64_t pids = json_int(json_get(stats, "pids"), -1);
    cli_table_cell(table, id);
    if (cpu >= 0)
        cli_table_cellf(table, "%.2f s", cpu / 1000.0);
    else
        cli_table_cell(table, NULL);
    size_cell(table, stats, "memory");
    size_cell(table, stats, "peakMemory");
    if (pids >= 0)
        cli_table_cellf(table, "%" PRId64, pids);
    else
        cli_table_cell(table, NULL);
    size_cell(table, stats, "disk");
}

static int one(struct remote *remote, const char *id, struct table *table, struct err *err)
{
    auto_answer answer;
    auto_buf target;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "sandbox", id, "stats");
    if (remote_do(remote, "GET", &target, NULL, &answer, err) < 0)
        return -1;
    if (remote->json)
        (void)remote_print(remote, &answer);
    else
        add_row(table, id, json_get(answer_root(&answer), "stats"));
    return 0;
}

struct collection {
    struct remote *remote;
    struct table *table;
};

// One that has gone to sleep or away since it was listed is left out.
static int take_listed(void *data, const struct json_node *box, struct err *err)
{
    struct collection *c = data;
    const char *id = json_text(json_get(box, "id"));
    if (id == NULL || one(c->remote, id, c->table, err) == 0)
        return 0;
    return err->code == ERR_NOT_FOUND || err->code == ERR_CONFLICT || c->remote->status == 503 ? 0
                                                                                               : -1;
}

// On a terminal the table stays where it is; elsewhere one follows the other.
static int show(struct remote *remote, bool clear)
{
    struct err err;
    struct table table;
    int r = 0;
    cli_table_init(&table, columns, sizeof columns / sizeof *columns);
    struct collection collection = {remote, &table};
    if (remote->n_words == 0)
        r = remote_list(remote, NULL, "running", take_listed, &collection, &err);
    for (size_t i = 0; i < remote->n_words && r == 0; i++)
        r = one(remote, remote->word[i], &table, &err);
    if (clear)
        (void)fputs("\x1b[H\x1b[J", stdout);
    if (r == 0 && !remote->json)
        (void)cli_table_print(&table, stdout, text_colour(stdout));
    cli_table_done(&table);
    return r < 0 ? remote_fail(remote, &err) : remote_flush(remote);
}

int cmd_stats(int argc, char **argv)
{
    bool watch = false;
    int code;
    auto_remote remote;
    const struct command_line line = {"stats", &spec, take_flag, &watch, 0, SIZE_MAX, "IDs"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    bool clear = watch && !remote.json && isatty(STDOUT_FILENO);
    while ((code = show(&remote, clear)) == CLI_OK && watch)
        (void)nanosleep(&(const struct timespec){.tv_sec = 1}, NULL);
    return code;
}
