// SPDX-License-Identifier: Apache-2.0
// `cay port add|ls|rm`: ports of a sandbox that others may reach.
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/table.h"

// -- add

enum add_flag { FLAG_NAME, FLAG_TOKEN };

static const struct opt add_opts[] = {
    {"name",  'n', "NAME",  "what to call it",                                            NULL},
    {"token", 't', "TOKEN", "8 to 16 lower-case letters and digits, part of the address",
     "made up"                                                                                },
    REMOTE_OPTS,
};

static const struct opt_spec add_spec = {
    .usage = "cay port add ID PORT [flags]",
    .summary = "Opens a port of a sandbox and prints its address: whoever has that may come in.\n"
               "A port that is open already keeps its address, unless another token is given.",
    .opts = add_opts,
    .n_opts = sizeof add_opts / sizeof *add_opts,
    .more = "Example:\n"
            "  cay port add a 3000\n"
            "  curl \"$(cay port add a 3000)\"",
};

struct add {
    const char *name, *token;
};

static int take_add_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    struct add *add = data;
    (void)err;
    switch ((enum add_flag)flag) {
    case FLAG_NAME:
        add->name = value;
        break;
    case FLAG_TOKEN:
        add->token = value;
        break;
    }
    return 0;
}

static void write_body(const struct add *add, uint64_t port, struct buf *body)
{
    struct json j;
    json_init(&j, body);
    json_open_object(&j);
    json_key(&j, "port");
    json_put_uint(&j, port);
    if (add->name != NULL) {
        json_key(&j, "name");
        json_put_str(&j, add->name);
    }
    if (add->token != NULL) {
        json_key(&j, "token");
        json_put_str(&j, add->token);
    }
    json_close_object(&j);
    (void)json_finish(&j);
}

static int cmd_port_add(int argc, char **argv)
{
    struct add add = {0};
    int code;
    auto_remote remote;
    const struct command_line line = {"port", &add_spec, take_add_flag,  &add,
                                      2,      2,         "ID and a PORT"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    struct err err;
    uint64_t port;
    auto_answer answer;
    auto_buf target, body, url;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    buf_init(&body, REMOTE_BODY_MAX);
    buf_init(&url, REMOTE_TARGET_MAX);
    if (parse_u64(remote.word[1], 1, UINT16_MAX, &port, &err) < 0)
        return remote_usage(&remote, err.msg);
    write_body(&add, port, &body);
    remote_target(&target, "sandbox", remote.word[0], "ports");
    if (remote_do(&remote, "POST", &target, &body, &answer, &err) < 0)
        return remote_fail(&remote, &err);
    if (remote.json)
        return remote_print(&remote, &answer);
    (void)puts(remote_text(&url, answer_root(&answer), "url"));
    return remote_flush(&remote);
}

// -- ls

static const struct opt plain_opts[] = {REMOTE_OPTS};

static const struct opt_spec ls_spec = {
    .usage = "cay port ls ID [flags]",
    .summary = "Lists the ports of a sandbox that others may reach, with their addresses.",
    .opts = plain_opts,
    .n_opts = sizeof plain_opts / sizeof *plain_opts,
};

static const struct table_column columns[] = {
    {"PORT", true },
    {"NAME", false},
    {"URL",  false},
    {"OPEN", true },
};

static void add_row(struct table *table, const struct json_node *port)
{
    char text[24];
    int64_t age = remote_age(json_get(port, "createdAt"));
    cli_table_cellf(table, "%" PRId64, json_int(json_get(port, "port"), 0));
    cli_table_cell(table, json_text(json_get(port, "name")));
    cli_table_cell(table, json_text(json_get(port, "url")));
    if (age < 0)
        cli_table_cell(table, NULL);
    else
        cli_table_cellf(table, "%s", text_ago(text, sizeof text, age));
}

static int cmd_port_ls(int argc, char **argv)
{
    static const struct remote_list list = {
        .key = "ports",
        .columns = columns,
        .n_columns = sizeof columns / sizeof *columns,
        .add_row = add_row,
    };
    int code;
    auto_remote remote;
    const struct command_line line = {"port", &ls_spec, NULL, NULL, 1, 1, "one ID"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    auto_buf target;
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "sandbox", remote.word[0], "ports");
    return remote_print_list(&remote, &target, &list);
}

// -- rm

static const struct opt_spec rm_spec = {
    .usage = "cay port rm ID PORT... [flags]",
    .summary = "Closes ports: their addresses are worth nothing any more, connections end.",
    .opts = plain_opts,
    .n_opts = sizeof plain_opts / sizeof *plain_opts,
};

static void write_target(const struct remote *remote, const char *word, struct buf *ret)
{
    remote_target(ret, "sandbox", remote->word[0], "ports", word);
}

static int cmd_port_rm(int argc, char **argv)
{
    int code;
    auto_remote remote;
    const struct command_line line = {"port", &rm_spec, NULL, NULL, 2, SIZE_MAX, "ID and PORTs"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    return remote_delete_words(&remote, 1, write_target);
}

// -- all of them

static const struct command commands[] = {
    {"add", NULL, "open a port and print its address",     cmd_port_add},
    {"ls",  NULL, "list those that are open",              cmd_port_ls },
    {"rm",  NULL, "close ports and end their connections", cmd_port_rm },
};

int cmd_port(int argc, char **argv)
{
    static const struct command_group group = {
        .name = "port",
        .about =
            "A port that is open has an address of its own, through which HTTP and WebSockets\n"
            "reach the program that listens there in the sandbox.\n",
        .commands = commands,
        .n = sizeof commands / sizeof *commands,
    };
    return cli_run_group(&group, argc, argv);
}
