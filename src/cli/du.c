// SPDX-License-Identifier: Apache-2.0
// `cay du`: who holds what, on the machine's disk and in the store.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/table.h"

enum du_flag { FLAG_ALL };

static const struct opt opts[] = {
    {"all", 'a', NULL, "those of all tenants, for administrators", NULL},
    REMOTE_OPTS,
};

static const struct opt_spec spec = {
    .usage = "cay du [flags]",
    .summary =
        "Shows what sandboxes hold, largest first: on the machine's disk (with what only snapshots\n"
        "still need), of that in snapshots as they were taken (shared: they cost what has changed\n"
        "since), in the store as synced files, backups, and disks that were archived. Sandboxes that\n"
        "are gone are listed as long as the store has something of them.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more =
        "'cay archive ID' moves a disk to the store, 'cay snapshot rm' and 'cay backup rm' delete.",
};

static int take_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    (void)flag;
    (void)value;
    (void)err;
    *(bool *)data = true;
    return 0;
}

static const struct table_column columns[] = {
    {"TENANT",    false},
    {"SANDBOX",   false},
    {"STATUS",    false},
    {"DISK",      true },
    {"SNAPSHOTS", true },
    {"STORED",    true },
    {"BACKUPS",   true },
    {"ARCHIVED",  true },
};

static const char *const sizes[] = {"disk", "snapshots", "stored", "backups", "archived"};

// All that it holds; what is in snapshots is on the disk for the most part.
static int64_t total(const struct json_node *row)
{
    int64_t sum = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t n = json_int(json_get(row, sizes[i]), 0);
        if (strcmp(sizes[i], "snapshots") != 0 && n > 0 && sum < INT64_MAX - n)
            sum += n;
    }
    return sum;
}

static int compare(const void *a, const void *b)
{
    int64_t x = total(*(const struct json_node *const *)a);
    int64_t y = total(*(const struct json_node *const *)b);
    return (x < y) - (x > y);
}

// Nothing is a dash: what stands out is what is held.
static void size_cell(struct table *table, const struct json_node *row, const char *key)
{
    const struct json_node *bytes = json_get(row, key);
    if (json_int(bytes, 0) > 0)
        remote_cell_size(table, bytes);
    else
        cli_table_cell(table, NULL);
}

// As 'cay ls' has it.
static const char *status(const struct json_node *row)
{
    const char *text = json_text(json_get(row, "status"));
    bool sleeps = text != NULL && strcmp(text, "sleeping") == 0;
    return sleeps && json_int(json_get(row, "archived"), 0) > 0 ? "archived" : text;
}

static void add_row(struct table *table, const struct json_node *row, bool all)
{
    if (all)
        cli_table_cell(table, json_text(json_get(row, "tenant")));
    cli_table_cell(table, json_text(json_get(row, "sandboxId")));
    cli_table_cell(table, status(row));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        size_cell(table, row, sizes[i]);
}

// The largest first.
static void print_rows(const struct json_node *list, bool all)
{
    struct table table;
    size_t n = 0;
    auto_free const struct json_node **row = calloc((list != NULL ? list->n : 0) + 1, sizeof *row);
    if (row == NULL)
        abort();
    for (const struct json_node *r = json_first(list); r != NULL; r = json_next(r))
        row[n++] = r;
    qsort(row, n, sizeof *row, compare);
    cli_table_init(&table, columns + !all, sizeof columns / sizeof *columns - !all);
    for (size_t i = 0; i < n; i++)
        add_row(&table, row[i], all);
    (void)cli_table_print(&table, stdout, text_colour(stdout));
    cli_table_done(&table);
}

static void print_size(const struct json_node *node, const char *key, const char *text)
{
    char size[24];
    int64_t bytes = json_int(json_get(node, key), -1);
    if (bytes >= 0)
        (void)printf("%s %s", text, text_size(size, sizeof size, (uint64_t)bytes));
}

static void print_totals(const struct json_node *root)
{
    const struct json_node *volume = json_get(root, "volume"), *store = json_get(root, "store");
    auto_buf kind;
    buf_init(&kind, 256);
    if (json_int(json_get(volume, "size"), -1) >= 0) {
        print_size(volume, "used", "\nvolume:");
        print_size(volume, "size", " of");
        print_size(volume, "writable", " held,");
        (void)puts(" can still be written");
    }
    if (store == NULL)
        return;
    (void)printf("store (%s):", remote_text(&kind, store, "kind"));
    print_size(store, "workspaces", " synced");
    print_size(store, "backups", ", backups");
    print_size(store, "archives", ", archived");
    print_size(store, "results", ", results");
    (void)fputc('\n', stdout);
}

int cmd_du(int argc, char **argv)
{
    bool all = false;
    int code;
    auto_remote remote;
    const struct command_line line = {"du", &spec, take_flag, &all, 0, 0, "no names"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    struct err err;
    auto_answer answer;
    auto_buf target;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "du");
    if (all)
        remote_query(&target, "all", "true");
    if (remote_do(&remote, "GET", &target, NULL, &answer, &err) < 0)
        return remote_fail(&remote, &err);
    if (remote.json)
        return remote_print(&remote, &answer);
    print_rows(json_get(answer_root(&answer), "sandboxes"), all);
    print_totals(answer_root(&answer));
    return remote_flush(&remote);
}
