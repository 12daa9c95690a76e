// SPDX-License-Identifier: Apache-2.0
// `cay token create|ls|revoke`: who may use the server.
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/table.h"

// -- create

enum create_flag { FLAG_TENANT, FLAG_ADMIN, FLAG_RATE };

static const struct opt create_opts[] = {
    {"tenant", 't', "NAME", "whose sandboxes it sees; made if it is new",    "NAME of the token"},
    {"admin",  0,   NULL,   "it may manage tokens and act for every tenant", NULL               },
    {"rate",   0,   "N",    "requests a minute; 0 is no limit",              "the server's"     },
    REMOTE_OPTS,
};

static const struct opt_spec create_spec = {
    .usage = "cay token create NAME [flags]",
    .summary = "Makes a token and prints it, this one time: the server keeps only its hash.",
    .opts = create_opts,
    .n_opts = sizeof create_opts / sizeof *create_opts,
    .more = "Example:\n"
            "  cay token create ci --tenant web > ci.token && chmod 600 ci.token\n"
            "  cay ls --url http://127.0.0.1:8787 --token-file ci.token",
};

struct create {
    const char *tenant;
    bool admin, has_rate;
    uint64_t rate;
};

static int take_create_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    struct create *c = data;
    switch ((enum create_flag)flag) {
    case FLAG_TENANT:
        c->tenant = value;
        return 0;
    case FLAG_ADMIN:
        c->admin = true;
        return 0;
    case FLAG_RATE:
        c->has_rate = true;
        return parse_u64(value, 0, UINT32_MAX, &c->rate, err);
    }
    return 0;
}

static void write_body(const struct create *c, const char *name, struct buf *body)
{
    struct json j;
    json_init(&j, body);
    json_open_object(&j);
    json_key(&j, "name");
    json_put_str(&j, name);
    if (c->tenant != NULL) {
        json_key(&j, "tenant");
        json_put_str(&j, c->tenant);
    }
    if (c->admin) {
        json_key(&j, "admin");
        json_put_bool(&j, true);
    }
    if (c->has_rate) {
        json_key(&j, "rate");
        json_put_uint(&j, c->rate);
    }
    json_close_object(&j);
    (void)json_finish(&j);
}

static int cmd_token_create(int argc, char **argv)
{
    struct create create = {0};
    int code;
    auto_remote remote;
    const struct command_line line = {"token", &create_spec, take_create_flag, &create, 1,
                                      1,       "one NAME"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    struct err err;
    auto_answer answer;
    auto_buf target, body, token;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    buf_init(&body, REMOTE_BODY_MAX);
    buf_init(&token, REMOTE_TARGET_MAX);
    write_body(&create, remote.word[0], &body);
    remote_target(&target, "tokens");
    if (remote_do(&remote, "POST", &target, &body, &answer, &err) < 0)
        return remote_fail(&remote, &err);
    if (remote.json)
        return remote_print(&remote, &answer);
    (void)puts(remote_text(&token, answer_root(&answer), "token"));
    return remote_flush(&remote);
}

// -- ls

static const struct opt plain_opts[] = {REMOTE_OPTS};

static const struct opt_spec ls_spec = {
    .usage = "cay token ls [flags]",
    .summary = "Lists the tokens: what they are for, not what they are.",
    .opts = plain_opts,
    .n_opts = sizeof plain_opts / sizeof *plain_opts,
};

static const struct table_column columns[] = {
    {"ID",      false},
    {"NAME",    false},
    {"TENANT",  false},
    {"ADMIN",   false},
    {"RATE",    true },
    {"CREATED", true },
};

static void add_row(struct table *table, const struct json_node *token)
{
    int64_t rate = json_int(json_get(token, "rate"), -1);
    cli_table_cell(table, json_text(json_get(token, "id")));
    cli_table_cell(table, json_text(json_get(token, "name")));
    cli_table_cell(table, json_text(json_get(token, "tenant")));
    cli_table_cell(table, json_bool(json_get(token, "admin"), false) ? "yes" : "no");
    if (rate < 0) // not a number: the server's own
        cli_table_cell(table, json_text(json_get(token, "rate")));
    else if (rate == 0)
        cli_table_cell(table, "no limit");
    else
        cli_table_cellf(table, "%" PRId64 "/min", rate);
    remote_cell_ago(table, json_get(token, "createdAt"));
}

static int cmd_token_ls(int argc, char **argv)
{
    static const struct remote_list list = {
        .key = "tokens",
        .columns = columns,
        .n_columns = sizeof columns / sizeof *columns,
        .add_row = add_row,
    };
    int code;
    auto_remote remote;
    const struct command_line line = {"token", &ls_spec, NULL, NULL, 0, 0, "no names"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    auto_buf target;
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "tokens");
    return remote_print_list(&remote, &target, &list);
}

// -- revoke

static const struct opt_spec revoke_spec = {
    .usage = "cay token revoke ID... [flags]",
    .summary =
        "Makes tokens worthless from now on; streams that they have open end. IDs are those of\n"
        "'cay token ls'.",
    .opts = plain_opts,
    .n_opts = sizeof plain_opts / sizeof *plain_opts,
};

static void write_target(const struct remote *remote, const char *word, struct buf *ret)
{
    (void)remote;
    remote_target(ret, "tokens", word);
}

static int cmd_token_revoke(int argc, char **argv)
{
    int code;
    auto_remote remote;
    const struct command_line line = {"token",  &revoke_spec,     NULL, NULL, 1,
                                      SIZE_MAX, "at least one ID"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    return remote_delete_words(&remote, 0, write_target);
}

// -- all of them

static const struct command commands[] = {
    {"create", NULL, "make a token and print it", cmd_token_create},
    {"ls",     NULL, "list the tokens",           cmd_token_ls    },
    {"revoke", NULL, "make tokens worthless",     cmd_token_revoke},
};

int cmd_token(int argc, char **argv)
{
    static const struct command_group group = {
        .name = "token",
        .about = "Tokens say who may use the server over the network; its socket asks for none.\n",
        .commands = commands,
        .n = sizeof commands / sizeof *commands,
    };
    return cli_run_group(&group, argc, argv);
}
