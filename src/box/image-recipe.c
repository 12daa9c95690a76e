// SPDX-License-Identifier: Apache-2.0
// What a recipe wants beside packages: links and files, made below a descriptor and through no link
// (tree.h), and commands, run in the new root as root. Whoever builds an image trusts its recipe as
// much as the packages, whose scripts run in the same way.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "box/image-steps.h"
#include "box/tree.h"
#include "box/watch.h"

static int put(int root_fd, const struct recipe_step *step, struct err *err)
{
    int r = tree_mkparents(root_fd, step->path);
    if (r == 0 && step->kind == STEP_LINK)
        r = tree_symlink(root_fd, step->path, step->text);
    else if (r == 0)
        r = tree_write(root_fd, step->path, step->text, strlen(step->text), 0644);
    if (r == -ELOOP)
        return err_set(err, ERR_INVALID,
                       "recipe: a part of '/%s' is a link in this root: name where it leads",
                       step->path);
    return r < 0 ? err_sys(err, -r, "recipe: make '/%s'", step->path) : 0;
}

struct command_log {
    const struct image_watch *watch;
    char last[200];
};

static void take_line(void *arg, const char *line)
{
    struct command_log *log = arg;
    (void)snprintf(log->last, sizeof log->last, "%s", line);
    watch_tick(log->watch, "%s", line);
}

static int run(int root_fd, const char *command, const struct apt_settings *settings,
               const struct image_watch *watch, struct err *err)
{
    const char *argv[] = {"/bin/sh", "-ec", command, NULL};
    const char *envp[APT_ENV_MAX];
    apt_environment(settings, envp);
    struct command_log log = {.watch = watch};
    struct step step = {
        .argv = argv, .envp = envp, .in_root = true, .each = take_line, .arg = &log};
    watch_say(watch, "running %.150s", command);
    int status = step_run(&step, root_fd, watch, err);
    if (status > 0)
        return err_set(err, ERR_UNAVAILABLE, "recipe: '%.60s' ended with %d: %.120s", command,
                       status, log.last[0] != '\0' ? log.last : "it said nothing");
    return status;
}

int image_follow(int root_fd, const struct recipe *recipe, const struct apt_settings *settings,
                 const struct image_watch *watch, struct err *err)
{
    for (unsigned i = 0; i < recipe->n_steps; i++) {
        const struct recipe_step *step = &recipe->steps[i];
        int r = step->kind == STEP_RUN ? run(root_fd, step->text, settings, watch, err)
                                       : put(root_fd, step, err);
        if (r < 0)
            return -1;
    }
    return 0;
}
