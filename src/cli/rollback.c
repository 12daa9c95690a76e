// SPDX-License-Identifier: Apache-2.0
// `cay rollback ID SNAP`: a sandbox becomes what it was.
#include "cli/await.h"
#include "cli/body.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/snapshot.h"

static const struct opt opts[] = {REMOTE_OPTS};

static const struct opt_spec spec = {
    .usage = "cay rollback ID SNAP [flags]",
    .summary =
        "Takes a sandbox back to a snapshot: its programs are ended, and its files, environment and\n"
        "sessions are those of then. What was written since is gone, unless a snapshot has it.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more = "Example:\n"
            "  cay snapshot build now && cay rollback build before-upgrade   # and back: now",
};

int cmd_rollback(int argc, char **argv)
{
    int code;
    auto_remote remote;
    const struct command_line line = {
        "rollback", &spec, NULL, NULL, 2, 2, "an ID and a SNAP ('cay snapshots ID' lists them)"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    struct err err;
    struct json j;
    auto_answer answer;
    auto_buf target, body, id;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    buf_init(&body, REMOTE_BODY_MAX);
    buf_init(&id, REMOTE_TARGET_MAX);
    if (snapshot_id(&remote, remote.word[0], remote.word[1], &id, &err) < 0)
        return remote_fail(&remote, &err);
    json_init(&j, &body);
    json_open_object(&j);
    body_text(&j, "snapshot", buf_str(&id));
    json_close_object(&j);
    (void)json_finish(&j);
    remote_target(&target, "sandbox", remote.word[0], "rollback");
    if (remote_await(&remote, "POST", &target, &body, "going back", &answer, &err) < 0)
        return remote_fail(&remote, &err);
    return remote.json ? remote_print(&remote, &answer) : CLI_OK;
}
