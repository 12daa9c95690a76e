// SPDX-License-Identifier: Apache-2.0
// `cay kill ID PROCESS`: sends a signal to a process and all that it has started.
#include <stdio.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/remote.h"

enum kill_flag { FLAG_SIGNAL };

static const struct opt opts[] = {
    {"signal", 's', "SIGNAL", "which: a name such as HUP, or a number", "TERM"},
    REMOTE_OPTS,
};

static const struct opt_spec spec = {
    .usage = "cay kill ID PROCESS [--signal SIGNAL]",
    .summary =
        "Sends a signal to a process of a sandbox ('cay ps ID' lists them) and to the whole group\n"
        "that it leads.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
};

static int take_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    const char **signal = data;
    (void)flag;
    if (value[0] == '\0')
        return err_set(err, ERR_INVALID, "no signal");
    *signal = value;
    return 0;
}

// The server reads names and numbers; a number must not arrive as a text.
static void write_body(const char *signal, struct buf *body)
{
    uint64_t number;
    struct err ignored;
    struct json j;
    json_init(&j, body);
    json_open_object(&j);
    json_key(&j, "signal");
    if (parse_u64(signal, 0, INT32_MAX, &number, &ignored) == 0)
        json_put_uint(&j, number);
    else
        json_put_str(&j, signal);
    json_close_object(&j);
    (void)json_finish(&j);
}

int cmd_kill(int argc, char **argv)
{
    int code;
    const char *signal = "TERM";
    auto_remote remote;
    const struct command_line line = {
        "kill", &spec, take_flag, &signal, 2, 2, "an ID and a PROCESS"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    struct err err;
    auto_answer answer;
    auto_buf target, body;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    buf_init(&body, REMOTE_BODY_MAX);
    write_body(signal, &body);
    remote_target(&target, "sandbox", remote.word[0], "processes", remote.word[1], "signal");
    if (remote_do(&remote, "POST", &target, &body, &answer, &err) < 0)
        return remote_fail(&remote, &err);
    return remote.json ? remote_print(&remote, &answer) : CLI_OK;
}
