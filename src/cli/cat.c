// SPDX-License-Identifier: Apache-2.0
// `cay cat ID:/path`: a file's bytes to standard output.
#include <unistd.h>

#include "cli/cli.h"
#include "cli/copy.h"

static const struct opt opts[] = {REMOTE_OPTS};

static const struct opt_spec spec = {
    .usage = "cay cat ID:/path...",
    .summary = "Prints files of sandboxes, byte for byte. Wakes a sandbox that sleeps.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more = "Examples:\n"
            "  cay cat build:/workspace/result.json | jq .",
};

int cmd_cat(int argc, char **argv)
{
    int code;
    auto_remote remote;
    const struct command_line line = {
        "cat", &spec, NULL, NULL, 1, SIZE_MAX, "one ID:/path or more"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    for (size_t i = 0; i < remote.n_words; i++) {
        struct err err = {0};
        struct file_place place;
        auto_buf target;
        buf_init(&target, REMOTE_TARGET_MAX);
        if (file_place_read(&place, remote.word[i], &err) < 0)
            return remote_usage(&remote, err.msg);
        file_target(&target, place.id, place.path);
        if (copy_download(&remote, buf_str(&target), STDOUT_FILENO, /*progress=*/false, &err) < 0)
            return remote_fail(&remote, &err);
    }
    return CLI_OK;
}
