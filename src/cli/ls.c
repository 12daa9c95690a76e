// SPDX-License-Identifier: Apache-2.0
// `cay ls`: the sandboxes, page after page.
#include <stdio.h>

#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/table.h"

enum ls_flag { FLAG_LABEL, FLAG_STATUS, FLAG_QUIET };

static const struct opt opts[] = {
    {"label",  'l', "K[=V]",  "only those with this label",                  NULL},
    {"status", 's', "STATUS", "only those that are 'running' or 'sleeping'", NULL},
    {"quiet",  'q', NULL,     "ids alone, one a line",                       NULL},
    REMOTE_OPTS,
};

static const struct opt_spec spec = {
    .usage = "cay ls [flags]",
    .summary = "Lists the sandboxes. Looking at them wakes none.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more = "Examples:\n"
            "  cay ls --status running --label team=web\n"
            "  cay ls --label ci -q | xargs cay rm",
};

struct ls {
    const char *label, *status;
    bool quiet;
};

static int take_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    struct ls *ls = data;
    (void)err;
    switch ((enum ls_flag)flag) {
    case FLAG_LABEL:
        ls->label = value;
        break;
    case FLAG_STATUS:
        ls->status = value;
        break;
    case FLAG_QUIET:
        ls->quiet = true;
        break;
    }
    return 0;
}

static const struct table_column columns[] = {
    {"ID",      false},
    {"STATUS",  false},
    {"IMAGE",   false},
    {"MEMORY",  true },
    {"CREATED", true },
    {"ACTIVE",  true },
};

static void add_row(struct table *table, const struct json_node *box)
{
    // One whose disk is in the store sleeps like others; that waking it takes longer is worth a
    // word.
    bool archived = json_bool(json_get(box, "archived"), false);
    cli_table_cell(table, json_text(json_get(box, "id")));
    cli_table_cell(table, archived ? "archived" : json_text(json_get(box, "status")));
    cli_table_cell(table, json_text(json_get(box, "image")));
    remote_cell_size(table, json_get(json_get(box, "limits"), "memory"));
    remote_cell_ago(table, json_get(box, "createdAt"));
    remote_cell_ago(table, json_get(box, "lastActiveAt"));
}

struct listing {
    const struct remote *remote;
    const struct ls *ls;
    struct table table;
    bool any;
};

// With --json the entries of all pages make one array.
static int take_one(void *data, const struct json_node *box, struct err *err)
{
    struct listing *listing = data;
    (void)err;
    if (listing->remote->json) {
        (void)fputs(listing->any ? ",\n " : "[", stdout);
        remote_print_node(box);
    } else if (listing->ls->quiet) {
        auto_buf id;
        buf_init(&id, REMOTE_TARGET_MAX);
        (void)puts(remote_text(&id, box, "id"));
    } else {
        add_row(&listing->table, box);
    }
    listing->any = true;
    return 0;
}

static void finish(const struct listing *listing)
{
    if (listing->remote->json)
        (void)puts(listing->any ? "]" : "[]");
    else if (!listing->ls->quiet)
        (void)cli_table_print(&listing->table, stdout, text_colour(stdout));
}

int cmd_ls(int argc, char **argv)
{
    static struct ls ls;
    int code;
    auto_remote remote;
    const struct command_line line = {"ls", &spec, take_flag, &ls, 0, 0, "no names"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    struct err err;
    struct listing listing = {.remote = &remote, .ls = &ls};
    cli_table_init(&listing.table, columns, sizeof columns / sizeof *columns);
    int r = remote_list(&remote, ls.label, ls.status, take_one, &listing, &err);
    if (r == 0)
        finish(&listing);
    cli_table_done(&listing.table);
    return r < 0 ? remote_fail(&remote, &err) : remote_flush(&remote);
}
