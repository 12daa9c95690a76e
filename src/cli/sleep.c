// SPDX-License-Identifier: Apache-2.0
// `cay sleep ID`: ends what runs in it; its files stay.
#include <stdio.h>

#include "cli/cli.h"
#include "cli/remote.h"

static const struct opt opts[] = {REMOTE_OPTS};

static const struct opt_spec spec = {
    .usage = "cay sleep ID... [flags]",
    .summary =
        "Puts sandboxes to sleep: their programs are ended, their files stay (but for --ephemeral\n"
        "ones). The next use wakes them.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
};

int cmd_sleep(int argc, char **argv)
{
    return remote_each(
        &(const struct command_line){"sleep", &spec, NULL, NULL, 1, SIZE_MAX, "at least one ID"},
        "POST", "sleep", argc, argv);
}
