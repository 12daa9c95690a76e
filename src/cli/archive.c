// SPDX-License-Identifier: Apache-2.0
// `cay archive ID`: the disk of a sandbox goes to the store.
#include <stdio.h>

#include "cli/await.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/table.h"

static const struct opt opts[] = {REMOTE_OPTS};

static const struct opt_spec spec = {
    .usage = "cay archive ID... [flags]",
    .summary =
        "Puts sandboxes to sleep and their disks into the store, to free room on this machine. They\n"
        "are listed as before; whatever uses one brings its disk back, which takes as long as its\n"
        "size asks for.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more = "'cay create --archive-after 7d' does it by itself. 'cay du' shows who holds what.",
};

static int archive_one(struct remote *remote, const char *id)
{
    struct err err;
    char text[24];
    auto_answer answer;
    auto_buf target;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "sandbox", id, "archive");
    if (remote_await(remote, "POST", &target, NULL, "archiving", &answer, &err) < 0)
        return remote_fail(remote, &err);
    if (remote->json)
        return remote_print(remote, &answer);
    int64_t bytes = json_int(json_get(answer_root(&answer), "bytes"), -1);
    if (bytes >= 0)
        (void)printf("%s\n", text_size(text, sizeof text, (uint64_t)bytes));
    return remote_flush(remote);
}

int cmd_archive(int argc, char **argv)
{
    int code;
    auto_remote remote;
    const struct command_line line = {"archive", &spec, NULL, NULL, 1, SIZE_MAX, "at least one ID"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    code = CLI_OK;
    for (size_t i = 0; i < remote.n_words; i++) {
        int one = archive_one(&remote, remote.word[i]);
        code = one != CLI_OK ? one : code;
    }
    return code;
}
