// SPDX-License-Identifier: Apache-2.0
// `cay backup ID [DIR]`, `cay backup rm BACKUP...` and `cay backups [ID]`: archives in the
// store.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/await.h"
#include "cli/body.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/table.h"

// -- make

enum make_flag { FLAG_NAME, FLAG_TTL, FLAG_EXCLUDE, FLAG_GITIGNORE };

static const struct opt make_opts[] = {
    {"name",      'n', "NAME", "what to call it",                             NULL   },
    {"ttl",       't', "TIME", "it is deleted after this long (12h, 30d)",    "never"},
    {"exclude",   'x', "GLOB", "without files that fit; may be repeated",     NULL   },
    {"gitignore", 'g', NULL,   "without what .gitignore files in DIR ignore", NULL   },
    REMOTE_OPTS,
};

static const struct opt_spec make_spec = {
    .usage = "cay backup ID [DIR] [flags] | cay backup rm BACKUP...",
    .summary =
        "Makes an archive of a directory of a sandbox in the store and prints its id; without DIR,\n"
        "of everything that it has written. Programs go on; one that sleeps is not woken. Backups\n"
        "outlive the sandbox.",
    .opts = make_opts,
    .n_opts = sizeof make_opts / sizeof *make_opts,
    .more = "commands:\n"
            "  rm        delete backups (a sandbox of that name: 'cay backup -- rm')\n"
            "\n"
            "Examples:\n"
            "  cay backup build /workspace --gitignore --ttl 30d\n"
            "  cay backups build\n"
            "  cay restore build BACKUP               # all of it, or nothing is changed\n"
            "  cay export build /workspace > build.tar.zst",
};

struct backup {
    const char *name, *ttl;
    struct names excludes;
    bool gitignore;
};

static int take_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    struct backup *b = data;
    int64_t ms;
    switch ((enum make_flag)flag) {
    case FLAG_NAME:
        b->name = value;
        return 0;
    case FLAG_TTL:
        b->ttl = value;
        return parse_duration(value, &ms, err);
    case FLAG_EXCLUDE:
        return names_add(&b->excludes, value, err);
    case FLAG_GITIGNORE:
        b->gitignore = true;
        return 0;
    }
    return 0;
}

static void write_body(const struct backup *b, const char *dir, struct buf *body)
{
    struct json j;
    json_init(&j, body);
    json_open_object(&j);
    body_text(&j, "dir", dir);
    body_text(&j, "name", b->name);
    body_text(&j, "ttl", b->ttl);
    body_names(&j, "excludes", &b->excludes);
    body_flag(&j, "gitignore", b->gitignore);
    json_close_object(&j);
    (void)json_finish(&j);
}

static int make(int argc, char **argv)
{
    static struct backup b;
    int code;
    auto_remote remote;
    const struct command_line line = {
        "backup", &make_spec, take_flag, &b, 1, 2, "an ID, and perhaps a DIR"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    struct err err;
    auto_answer answer;
    auto_buf target, body, id;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    buf_init(&body, REMOTE_BODY_MAX);
    buf_init(&id, REMOTE_TARGET_MAX);
    write_body(&b, remote.n_words > 1 ? remote.word[1] : NULL, &body);
    remote_target(&target, "sandbox", remote.word[0], "backups");
    if (remote_await(&remote, "POST", &target, &body, "making a backup", &answer, &err) < 0)
        return remote_fail(&remote, &err);
    if (remote.json)
        return remote_print(&remote, &answer);
    (void)puts(remote_text(&id, answer_root(&answer), "id"));
    return remote_flush(&remote);
}

// -- rm

static const struct opt plain_opts[] = {REMOTE_OPTS};

static const struct opt_spec rm_spec = {
    .usage = "cay backup rm BACKUP... [flags]",
    .summary = "Deletes backups from the store.",
    .opts = plain_opts,
    .n_opts = sizeof plain_opts / sizeof *plain_opts,
};

static void write_target(const struct remote *remote, const char *word, struct buf *ret)
{
    (void)remote;
    remote_target(ret, "backups", word);
}

static int discard(int argc, char **argv)
{
    int code;
    auto_remote remote;
    const struct command_line line = {
        "backup", &rm_spec, NULL, NULL, 1, SIZE_MAX, "at least one BACKUP"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    return remote_delete_words(&remote, 0, write_target);
}

int cmd_backup(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "rm") == 0)
        return discard(argc - 1, argv + 1);
    return make(argc, argv);
}

// -- ls

static const struct opt list_opts[] = {
    {"quiet", 'q', NULL, "ids alone, one a line", NULL},
    REMOTE_OPTS,
};

static const struct opt_spec list_spec = {
    .usage = "cay backups [ID] [flags]",
    .summary = "Lists the backups of a sandbox, or all, also of sandboxes that are gone.",
    .opts = list_opts,
    .n_opts = sizeof list_opts / sizeof *list_opts,
};

static const struct table_column columns[] = {
    {"ID",      false},
    {"SANDBOX", false},
    {"OF",      false},
    {"NAME",    false},
    {"SIZE",    true },
    {"CREATED", true },
    {"EXPIRES", false},
};

static void add_row(struct table *table, const struct json_node *backup)
{
    const char *dir = json_text(json_get(backup, "dir"));
    const char *kind = json_text(json_get(backup, "kind"));
    cli_table_cell(table, json_text(json_get(backup, "id")));
    cli_table_cell(table, json_text(json_get(backup, "sandboxId")));
    cli_table_cell(table, dir != NULL ? dir : kind);
    cli_table_cell(table, json_text(json_get(backup, "name")));
    remote_cell_size(table, json_get(backup, "size"));
    remote_cell_ago(table, json_get(backup, "createdAt"));
    cli_table_cell(table, json_text(json_get(backup, "expiresAt")));
}

static int take_list_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    (void)flag;
    (void)value;
    (void)err;
    *(bool *)data = true;
    return 0;
}

int cmd_backups(int argc, char **argv)
{
    bool quiet = false;
    int code;
    auto_remote remote;
    const struct command_line line = {"backups", &list_spec, take_list_flag,  &quiet,
                                      0,         1,          "one ID at most"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    const struct remote_list list = {
        .key = "backups",
        .columns = columns,
        .n_columns = sizeof columns / sizeof *columns,
        .add_row = add_row,
        .quiet = quiet,
    };
    auto_buf target;
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "backups");
    if (remote.n_words > 0)
        remote_query(&target, "sandbox", remote.word[0]);
    return remote_print_pages(&remote, &target, "before", &list);
}
