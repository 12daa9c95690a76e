// SPDX-License-Identifier: Apache-2.0
// `cay snapshot ID [NAME]`, `cay snapshot rm ID SNAP...` and `cay snapshots ID`: the files of a
// sandbox as they are at one moment, kept beside it.
#include "cli/snapshot.h"

#include <stdio.h>
#include <string.h>

#include "cli/await.h"
#include "cli/body.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/table.h"

static const struct opt opts[] = {REMOTE_OPTS};

// -- names

int snapshot_id(struct remote *remote, const char *sandbox, const char *word, struct buf *ret,
                struct err *err)
{
    auto_answer answer;
    auto_buf target;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    buf_reset(ret);
    (void)buf_append_str(ret, word);
    if (strncmp(word, "snap-", 5) == 0)
        return 0;
    remote_target(&target, "sandbox", sandbox, "snapshots");
    if (remote_do(remote, "GET", &target, NULL, &answer, err) < 0)
        return -1;
    const struct json_node *list = json_get(answer_root(&answer), "snapshots");
    for (const struct json_node *n = json_first(list); n != NULL; n = json_next(n)) {
        const char *name = json_text(json_get(n, "name")), *id = json_text(json_get(n, "id"));
        if (name != NULL && id != NULL && strcmp(name, word) == 0) { // oldest first
            buf_reset(ret);
            (void)buf_append_str(ret, id);
        }
    }
    return 0;
}

// -- make

static const struct opt_spec make_spec = {
    .usage = "cay snapshot ID [NAME] [flags] | cay snapshot rm ID SNAP...",
    .summary =
        "Keeps the files of a sandbox as they are now and prints the snapshot's id. It takes a\n"
        "moment, whatever their size: what does not change is not kept twice. Programs go on; one\n"
        "that sleeps is not woken.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more = "commands:\n"
            "  rm        delete snapshots (a sandbox of that name: 'cay snapshot -- rm')\n"
            "\n"
            "Snapshots go with their sandbox; 'cay backup' makes what outlives it.\n"
            "\n"
            "Examples:\n"
            "  cay snapshot build before-upgrade\n"
            "  cay snapshots build\n"
            "  cay rollback build before-upgrade      # all is as it was\n"
            "  cay fork build try --snapshot before-upgrade",
};

static void write_body(const char *name, struct buf *body)
{
    struct json j;
    json_init(&j, body);
    json_open_object(&j);
    body_text(&j, "name", name);
    json_close_object(&j);
    (void)json_finish(&j);
}

static int make(int argc, char **argv)
{
    int code;
    auto_remote remote;
    const struct command_line line = {
        "snapshot", &make_spec, NULL, NULL, 1, 2, "an ID, and perhaps a NAME"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    struct err err;
    auto_answer answer;
    auto_buf target, body, id;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    buf_init(&body, REMOTE_BODY_MAX);
    buf_init(&id, REMOTE_TARGET_MAX);
    write_body(remote.n_words > 1 ? remote.word[1] : NULL, &body);
    remote_target(&target, "sandbox", remote.word[0], "snapshots");
    if (remote_await(&remote, "POST", &target, &body, "taking a snapshot", &answer, &err) < 0)
        return remote_fail(&remote, &err);
    if (remote.json)
        return remote_print(&remote, &answer);
    (void)puts(remote_text(&id, answer_root(&answer), "id"));
    return remote_flush(&remote);
}

// -- rm

static const struct opt_spec rm_spec = {
    .usage = "cay snapshot rm ID SNAP... [flags]",
    .summary = "Deletes snapshots of a sandbox. Its files, and forks that were made of them, stay.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
};

static int discard_one(struct remote *remote, const char *word)
{
    struct err err;
    auto_answer answer;
    auto_buf target, id;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    buf_init(&id, REMOTE_TARGET_MAX);
    if (snapshot_id(remote, remote->word[0], word, &id, &err) < 0)
        return remote_fail(remote, &err);
    remote_target(&target, "sandbox", remote->word[0], "snapshots", buf_str(&id));
    if (remote_do(remote, "DELETE", &target, NULL, &answer, &err) < 0)
        return remote_fail(remote, &err);
    return remote->json ? remote_print(remote, &answer) : CLI_OK;
}

static int discard(int argc, char **argv)
{
    int code;
    auto_remote remote;
    const struct command_line line = {"snapshot", &rm_spec,         NULL, NULL, 2,
                                      SIZE_MAX,   "an ID and SNAPs"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    code = CLI_OK;
    for (size_t i = 1; i < remote.n_words; i++) {
        int one = discard_one(&remote, remote.word[i]);
        code = one != CLI_OK ? one : code;
    }
    return code;
}

int cmd_snapshot(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "rm") == 0)
        return discard(argc - 1, argv + 1);
    return make(argc, argv);
}

// -- ls

enum list_flag { FLAG_QUIET };

static const struct opt list_opts[] = {
    {"quiet", 'q', NULL, "ids alone, one a line", NULL},
    REMOTE_OPTS,
};

static const struct opt_spec list_spec = {
    .usage = "cay snapshots ID [flags]",
    .summary =
        "Lists the snapshots of a sandbox. SIZE is what a fork of one begins with; most of it is\n"
        "shared with the sandbox and with other snapshots ('cay du' says what is really held).",
    .opts = list_opts,
    .n_opts = sizeof list_opts / sizeof *list_opts,
};

static const struct table_column columns[] = {
    {"ID",      false},
    {"NAME",    false},
    {"SIZE",    true },
    {"CREATED", true },
};

static void add_row(struct table *table, const struct json_node *snapshot)
{
    cli_table_cell(table, json_text(json_get(snapshot, "id")));
    cli_table_cell(table, json_text(json_get(snapshot, "name")));
    remote_cell_size(table, json_get(snapshot, "bytes"));
    remote_cell_ago(table, json_get(snapshot, "createdAt"));
}

static int take_list_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    (void)flag;
    (void)value;
    (void)err;
    *(bool *)data = true;
    return 0;
}

int cmd_snapshots(int argc, char **argv)
{
    bool quiet = false;
    int code;
    auto_remote remote;
    const struct command_line line = {"snapshots", &list_spec, take_list_flag, &quiet,
                                      1,           1,          "one ID"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    const struct remote_list list = {
        .key = "snapshots",
        .columns = columns,
        .n_columns = sizeof columns / sizeof *columns,
        .add_row = add_row,
        .quiet = quiet,
    };
    auto_buf target;
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "sandbox", remote.word[0], "snapshots");
    return remote_print_list(&remote, &target, &list);
}
