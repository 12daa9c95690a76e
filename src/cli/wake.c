// SPDX-License-Identifier: Apache-2.0
// `cay wake ID`: makes sure that it runs.
#include <stdio.h>

#include "cli/cli.h"
#include "cli/remote.h"

static const struct opt opts[] = {REMOTE_OPTS};

static const struct opt_spec spec = {
    .usage = "cay wake ID... [flags]",
    .summary = "Wakes sandboxes that sleep. Any use does that too; this does it before.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
};

int cmd_wake(int argc, char **argv)
{
    return remote_each(
        &(const struct command_line){"wake", &spec, NULL, NULL, 1, SIZE_MAX, "at least one ID"},
        "POST", "wake", argc, argv);
}
