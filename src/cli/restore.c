// SPDX-License-Identifier: Apache-2.0
// `cay restore ID BACKUP [DIR]`: a sandbox gets back what a backup has.
#include "cli/await.h"
#include "cli/body.h"
#include "cli/cli.h"
#include "cli/remote.h"

static const struct opt opts[] = {REMOTE_OPTS};

static const struct opt_spec spec = {
    .usage = "cay restore ID BACKUP [DIR] [flags]",
    .summary =
        "Puts what a backup has in the place of what a sandbox has there: of a directory, that\n"
        "directory (or DIR), of a whole disk, everything. The backup may be of another sandbox. It is\n"
        "checked first; then all of it is there, or nothing is changed. Programs of the sandbox are\n"
        "ended.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more = "Example:\n"
            "  cay create again && cay restore again $(cay backups build -q | head -1)",
};

int cmd_restore(int argc, char **argv)
{
    int code;
    auto_remote remote;
    const struct command_line line = {
        "restore",
        &spec,
        NULL,
        NULL,
        2,
        3,
        "an ID, a BACKUP ('cay backups' lists them), and perhaps a DIR"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    struct err err;
    struct json j;
    auto_answer answer;
    auto_buf target, body;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    buf_init(&body, REMOTE_BODY_MAX);
    json_init(&j, &body);
    json_open_object(&j);
    body_text(&j, "backup", remote.word[1]);
    body_text(&j, "dir", remote.n_words > 2 ? remote.word[2] : NULL);
    json_close_object(&j);
    (void)json_finish(&j);
    remote_target(&target, "sandbox", remote.word[0], "restore");
    if (remote_await(&remote, "POST", &target, &body, "restoring", &answer, &err) < 0)
        return remote_fail(&remote, &err);
    return remote.json ? remote_print(&remote, &answer) : CLI_OK;
}
