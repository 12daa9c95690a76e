// SPDX-License-Identifier: Apache-2.0
// Programs run in mount and pid namespaces of their own, so that whatever ends us ends them and all
// their children, and no mount of theirs is left on the machine.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/image-steps.h"
#include "box/tool.h"
#include "box/watch.h"

struct workplace {
    int tree;         // the directory as a detached mount
    const char *path; // where it is bound
    const struct step *step;
    int below[IMAGE_BIND_MAX]; // detached mounts as well
};

// apt's own user must reach the new root by its path, which the data directory does not allow: it
// is bound on a directory that every system has, in a namespace that nobody else sees.
const char *step_place(void)
{
    static const char *const places[] = {"/mnt", "/media", "/srv"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct stat st;
        if (fstatat(AT_FDCWD, places[i], &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
            return places[i];
    }
    return "/opt";
}

static void mount_or_die(const char *what, const char *where, const char *type, unsigned long flags)
{
    if (mount(what, where, type, flags, NULL) < 0)
        tool_die(where, errno);
}

// In the new root, seen as "." from here.
static void make_devices(void)
{
    static const char *const names[] = {"null", "zero", "full", "random", "urandom"};
    mount_or_die("dev", "dev", "tmpfs", MS_NOSUID | MS_NOEXEC);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char from[32], to[32];
        (void)snprintf(from, sizeof from, "/dev/%s", names[i]);
        (void)snprintf(to, sizeof to, "dev/%s", names[i]);
        fd_close(open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        mount_or_die(from, to, NULL, MS_BIND);
    }
}

static void bind_below(const struct workplace *place)
{
    const struct image *below = place->step->below;
    for (unsigned i = 0; below != NULL && i < below->n_binds; i++) {
        const char *target = below->binds[i].target;
        if (move_mount(place->below[i], "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) < 0)
            tool_die(target, errno);
    }
}

static void enter_root(const struct workplace *place)
{
    bind_below(place);
    make_devices();
    mount_or_die("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC);
    // A command may ask for names as this machine does. Without any it asks nobody.
    if (access("/etc/resolv.conf", R_OK) == 0)
        mount_or_die("/etc/resolv.conf", "etc/resolv.conf", NULL, MS_BIND);
    if (chroot(".") < 0)
        tool_die("enter the new root", errno);
}

static void enter_workplace(const void *arg)
{
    const struct workplace *place = arg;
    (void)umask(0022);
    mount_or_die(NULL, "/", NULL, MS_REC | MS_PRIVATE);
    if (move_mount(place->tree, "", AT_FDCWD, place->path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        tool_die("bind the new root", errno);
    if ((place->step->in_root || place->step->at_place) && chdir(place->path) < 0)
        tool_die(place->path, errno);
    if (place->step->in_root)
        enter_root(place);
    else
        mount_or_die("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC);
}

// Reads until the child is done. -1 when we were stopped.
static int follow(int from, const struct step *step, const struct image_watch *watch,
                  struct err *err)
{
    struct line_cutter cutter = {.len = 0};
    for (;;) {
        struct pollfd wants[] = {
            {.fd = watch->stop_fd, .events = POLLIN},
            {.fd = from,           .events = POLLIN},
        };
        if (poll(wants, 2, -1) < 0 && errno != EINTR)
            return err_sys(err, errno, "wait for %s", step->argv[0]);
        if (watch_stopped(watch, err))
            return -1;
        char data[4096];
        ssize_t n = wants[1].revents == 0 ? -1 : read(from, data, sizeof data);
        if (n == 0)
            return 0;
        if (n > 0)
            line_cutter_feed(&cutter, data, (size_t)n, step->each, step->arg);
        else if (wants[1].revents != 0 && errno != EINTR)
            return err_sys(err, errno, "listen to %s", step->argv[0]);
    }
}

// Before the fork: the child's mount namespace would not own what the descriptors are of.
static int detach(int fd)
{
    return open_tree(fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

static int detach_below(const struct step *step, struct workplace *place)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    for (unsigned i = 0; step->below != NULL && i < step->below->n_binds; i++) {
        place->below[i] = detach(step->below->binds[i].fd);
        if (place->below[i] < 0 ||
            mount_setattr(place->below[i], "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
            return -1;
    }
    return 0;
}

static int run_in(struct workplace *place, const struct step *step, const struct image_watch *watch,
                  struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(err, errno, "make a pipe");
    auto_fd from = ends[0];
    auto_fd to = ends[1];
    struct tool tool = {
        .argv = step->argv,
        .envp = step->envp,
        .fds = {-1, to, to},
        .namespaces = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS,
        .setup = enter_workplace,
        .setup_arg = place,
    };
    int child = tool_start(&tool, err);
    if (child < 0)
        return -1;
    fd_close(TAKE_FD(to));
    if (follow(from, step, watch, err) < 0) {
        tool_kill(child);
        return -1;
    }
    return tool_wait(child);
}

int step_run(const struct step *step, int dir_fd, const struct image_watch *watch, struct err *err)
{
    struct workplace place = {.tree = detach(dir_fd), .path = step_place(), .step = step};
    for (int i = 0; i < IMAGE_BIND_MAX; i++)
        place.below[i] = -1;
    int r = place.tree < 0 || detach_below(step, &place) < 0
                ? err_sys(err, errno, "set up a place to build in")
                : run_in(&place, step, watch, err);
    for (int i = 0; i < IMAGE_BIND_MAX; i++)
        fd_close(place.below[i]);
    fd_close(place.tree);
    return r;
}
