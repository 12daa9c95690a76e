// SPDX-License-Identifier: Apache-2.0
// What a recipe wants beside packages: links and files, made below a descriptor and through no link
// (tree.h), and commands, run in the new root as root. Whoever builds an image trusts its recipe as
// much as the packages, whose scripts run in the same way.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "box/image-steps.h"
#include "box/tree.h"
#include "box/watch.h"

int image_step_failed(const struct recipe_step *step, int r, struct err *err)
{
    if (r == -ELOOP)
        return err_set(err, ERR_INVALID,
                       "recipe: a part of '/%s' is a link in this root: name where it leads",
                       step->path);
    return err_sys(err, -r, "recipe: make '/%s'", step->path);
}

static int put(int root_fd, const struct recipe_step *step, struct err *err)
{
    int r = tree_mkparents(root_fd, step->path);
    if (r == 0 && step->kind == STEP_LINK)
        r = tree_symlink(root_fd, step->path, step->text);
    else if (r == 0)
        r = tree_write(root_fd, step->path, step->text, strlen(step->text), step->mode);
    return r < 0 ? image_step_failed(step, r, err) : 0;
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

static int run(const struct image_work *work, const char *command, struct err *err)
{
    const char *argv[] = {"/bin/sh", "-ec", command, NULL};
    const char *envp[APT_ENV_MAX];
    apt_environment(work->settings, envp);
    struct command_log log = {.watch = work->watch};
    struct step step = {.argv = argv,
                        .envp = envp,
                        .in_root = true,
                        .below = &work->host,
                        .each = take_line,
                        .arg = &log};
    watch_say(work->watch, "running %.150s", command);
    int status = step_run(&step, work->root_fd, work->watch, err);
    if (status <= 0)
        return status;
    (void)err_set(err, ERR_UNAVAILABLE, "recipe: '%.60s' ended with %d: %.120s", command, status,
                  log.last[0] != '\0' ? log.last : "it said nothing");
    if (!work->lacks)
        return -1;
    // Most likely it wants one of the packages that were named as missing.
    watch_say(work->watch, "%s, going on without", err->msg);
    return 0;
}

// Below a directory that is this machine's own?
static bool is_bound(const struct image_work *work, const char *path)
{
    for (unsigned i = 0; i < work->host.n_binds; i++) {
        const char *target = work->host.binds[i].target;
        size_t len = strlen(target);
        if (strncmp(path, target, len) == 0 && (path[len] == '/' || path[len] == '\0'))
            return true;
    }
    return false;
}

static bool is_for(const struct recipe_step *step, const char *machine)
{
    return step->machine[0] == '\0' || strcmp(step->machine, machine) == 0;
}

static int follow(const struct image_work *work, const struct recipe_step *step, struct err *err)
{
    if (step->path != NULL && is_bound(work, step->path)) {
        watch_say(work->watch, "left out /%s: it lies in this machine's own directory", step->path);
        return 0;
    }
    switch (step->kind) {
    case STEP_LINK:
    case STEP_FILE:
        return put(work->root_fd, step, err);
    case STEP_NPM:
        return image_take_npm(work, step, err);
    case STEP_RUN:
        return run(work, step->text, err);
    case STEP_KIND_MAX:
        break;
    }
    return err_set(err, ERR_INTERNAL, "recipe: a step of no kind");
}

int image_follow(const struct image_work *work, struct err *err)
{
    struct utsname machine;
    if (uname(&machine) < 0)
        return err_sys(err, errno, "ask for this machine's kind");
    if (recipe_check_machine(work->recipe, machine.machine, err) < 0)
        return -1;
    for (unsigned i = 0; i < work->recipe->n_steps; i++) {
        const struct recipe_step *step = &work->recipe->steps[i];
        if (is_for(step, machine.machine) && follow(work, step, err) < 0)
            return -1;
    }
    return 0;
}
