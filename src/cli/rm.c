// SPDX-License-Identifier: Apache-2.0
// `cay rm ID...`: destroys sandboxes, with their files.
#include <stdio.h>

#include "cli/cli.h"
#include "cli/remote.h"

enum rm_flag { FLAG_ALL, FLAG_YES };

static const struct opt opts[] = {
    {"all", 'a', NULL, "all that this token can see; needs --yes", NULL},
    {"yes", 'y', NULL, "yes, all of them",                         NULL},
    REMOTE_OPTS,
};

static const struct opt_spec spec = {
    .usage = "cay rm ID... | cay rm --all --yes",
    .summary =
        "Destroys sandboxes: what runs in them is ended, their files are gone. It does not ask.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
};

struct rm {
    bool all, yes;
};

static int take_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    struct rm *rm = data;
    (void)value;
    (void)err;
    if (flag == FLAG_ALL)
        rm->all = true;
    else
        rm->yes = true;
    return 0;
}

struct removal {
    struct remote *remote;
    int code;
};

static int remove_one(struct removal *removal, const char *id)
{
    int code = remote_one(removal->remote, "DELETE", id, NULL);
    removal->code = code != CLI_OK ? code : removal->code; // and on with the others
    return 0;
}

static int remove_listed(void *data, const struct json_node *box, struct err *err)
{
    const char *id = json_text(json_get(box, "id"));
    (void)err;
    return id != NULL ? remove_one(data, id) : 0;
}

int cmd_rm(int argc, char **argv)
{
    struct rm rm = {0};
    int code;
    auto_remote remote;
    const struct command_line line = {"rm", &spec, take_flag, &rm, 0, SIZE_MAX, "at least one ID"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    if (rm.all && remote.n_words > 0)
        return remote_usage(&remote, "--all and an ID: which?");
    if (rm.all && !rm.yes)
        return remote_usage(&remote, "--all destroys every sandbox with its files: say --yes too");
    if (!rm.all && remote.n_words == 0)
        return remote_usage(&remote, "it takes at least one ID");
    struct err err;
    struct removal removal = {.remote = &remote, .code = CLI_OK};
    if (rm.all && remote_list(&remote, NULL, NULL, remove_listed, &removal, &err) < 0)
        return remote_fail(&remote, &err);
    for (size_t i = 0; i < remote.n_words; i++)
        (void)remove_one(&removal, remote.word[i]);
    return removal.code;
}
