// SPDX-License-Identifier: Apache-2.0
// `cay stored ls|get|put|rm`: the files that `cay sync` has brought to the store, without a
// sandbox.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/cli.h"
#include "cli/copy.h"
#include "cli/remote.h"
#include "cli/table.h"

static const struct opt plain_opts[] = {REMOTE_OPTS};

// "/sandbox/ID/stored/a/b"
static void write_target(const struct remote *remote, const char *word, struct buf *ret)
{
    char part[4097];
    remote_target(ret, "sandbox", remote->word[0], "stored");
    for (word += *word == '/'; *word != '\0';) {
        size_t n = strcspn(word, "/");
        (void)snprintf(part, sizeof part, "%.*s", (int)n, word);
        (void)buf_append_char(ret, '/');
        (void)http_encode(ret, part);
        word += n + (word[n] == '/');
    }
}

// -- ls

static const struct opt_spec ls_spec = {
    .usage = "cay stored ls ID [PREFIX] [flags]",
    .summary = "Lists the stored files of a sandbox, also of one that is gone. Nothing is woken.",
    .opts = plain_opts,
    .n_opts = sizeof plain_opts / sizeof *plain_opts,
};

static const struct table_column columns[] = {
    {"PATH",     false},
    {"SIZE",     true },
    {"MODIFIED", true },
};

static void add_row(struct table *table, const struct json_node *file)
{
    cli_table_cell(table, json_text(json_get(file, "path")));
    remote_cell_size(table, json_get(file, "size"));
    remote_cell_ago(table, json_get(file, "modified"));
}

static int cmd_stored_ls(int argc, char **argv)
{
    static const struct remote_list list = {
        .key = "files",
        .columns = columns,
        .n_columns = sizeof columns / sizeof *columns,
        .add_row = add_row,
    };
    int code;
    auto_remote remote;
    const struct command_line line = {
        "stored", &ls_spec, NULL, NULL, 1, 2, "an ID, and perhaps a PREFIX"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    auto_buf target;
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "sandbox", remote.word[0], "stored");
    if (remote.n_words > 1)
        remote_query(&target, "prefix", remote.word[1]);
    return remote_print_pages(&remote, &target, "after", &list);
}

// -- get

static const struct opt_spec get_spec = {
    .usage = "cay stored get ID PATH [flags]",
    .summary = "Prints a stored file, byte for byte.",
    .opts = plain_opts,
    .n_opts = sizeof plain_opts / sizeof *plain_opts,
};

static int cmd_stored_get(int argc, char **argv)
{
    int code;
    auto_remote remote;
    const struct command_line line = {"stored", &get_spec, NULL, NULL, 2, 2, "an ID and a PATH"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    struct err err = {0};
    auto_buf target;
    buf_init(&target, REMOTE_TARGET_MAX);
    write_target(&remote, remote.word[1], &target);
    if (copy_download(&remote, buf_str(&target), STDOUT_FILENO, !isatty(STDOUT_FILENO), &err) < 0)
        return remote_fail(&remote, &err);
    return CLI_OK;
}

// -- put

static const struct opt_spec put_spec = {
    .usage = "cay stored put ID PATH [FILE] [flags]",
    .summary =
        "Gives a stored file the content of FILE, or of standard input: all of it, or nothing is\n"
        "changed. A sandbox that is there does not see it before it is made anew with --restore;\n"
        "the next sync of its own file of that name replaces it.",
    .opts = plain_opts,
    .n_opts = sizeof plain_opts / sizeof *plain_opts,
};

static int cmd_stored_put(int argc, char **argv)
{
    int code;
    auto_remote remote;
    const struct command_line line = {
        "stored", &put_spec, NULL, NULL, 2, 3, "an ID, a PATH, and perhaps a FILE"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    struct err err = {0};
    const char *name = remote.n_words > 2 ? remote.word[2] : "-";
    auto_fd file = -1;
    if (strcmp(name, "-") != 0 && (file = open(name, O_RDONLY | O_CLOEXEC)) < 0) {
        (void)err_sys(&err, errno, "open '%s'", name);
        return remote_fail(&remote, &err);
    }
    auto_buf target;
    auto_answer answer;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    write_target(&remote, remote.word[1], &target);
    const struct upload upload = {
        .target = buf_str(&target),
        .type = "application/octet-stream",
        .fd = file >= 0 ? file : STDIN_FILENO,
        .progress = file >= 0 && !remote.json,
    };
    if (copy_upload(&remote, &upload, &answer, &err) < 0)
        return remote_fail(&remote, &err);
    return remote.json ? remote_print(&remote, &answer) : CLI_OK;
}

// -- rm

static const struct opt_spec rm_spec = {
    .usage = "cay stored rm ID PATH... [flags]",
    .summary = "Deletes stored files. Those of the sandbox itself stay.",
    .opts = plain_opts,
    .n_opts = sizeof plain_opts / sizeof *plain_opts,
};

static int cmd_stored_rm(int argc, char **argv)
{
    int code;
    auto_remote remote;
    const struct command_line line = {"stored", &rm_spec,         NULL, NULL, 2,
                                      SIZE_MAX, "an ID and PATHs"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    return remote_delete_words(&remote, 1, write_target);
}

// -- all of them

static const struct command commands[] = {
    {"ls",  NULL, "list the stored files",      cmd_stored_ls },
    {"get", NULL, "print one",                  cmd_stored_get},
    {"put", NULL, "make one, or replace it",    cmd_stored_put},
    {"rm",  NULL, "delete some from the store", cmd_stored_rm },
};

int cmd_stored(int argc, char **argv)
{
    static const struct command_group group = {
        .name = "stored",
        .about =
            "Stored files are those that 'cay sync' has brought to the store. They are reached\n"
            "without waking a sandbox, and stay when it is gone.\n",
        .commands = commands,
        .n = sizeof commands / sizeof *commands,
    };
    return cli_run_group(&group, argc, argv);
}
