// SPDX-License-Identifier: Apache-2.0
// 11 the executables behind /proc/*/exe, 12 descriptors and directories that were left open.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attempt.h"
#include "world.h"

// Read-only is enough: who holds it can write through /proc/self/fd once it no longer runs.
static enum outcome exe_of_guest(const struct attempt *self)
{
    const int *mode = self->arg;
    int fd = open("/proc/1/exe", *mode | O_CLOEXEC);
    enum outcome outcome = judge_call("/proc/1/exe", fd, REFUSALS);
    if (fd >= 0)
        close(fd);
    return outcome;
}

// Any process here whose executable is not a file of the box came in from outside.
static enum outcome exe_of_others(const struct attempt *self)
{
    (void)self;
    int seen = 0, hidden = 0;
    for (int round = 0; round < 20; round++) {
        DIR *proc = opendir("/proc");
        const struct dirent *entry;
        while (proc != NULL && (entry = readdir(proc)) != NULL) {
            char path[300];
            if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
                continue;
            seen++;
            snprintf(path, sizeof(path), "/proc/%s/exe", entry->d_name);
            int fd = open(path, O_RDONLY | O_CLOEXEC);
            if (fd < 0) {
                hidden++;
                continue;
            }
            struct stat st;
            fstat(fd, &st);
            char target[512] = "";
            struct stat here;
            ssize_t n = readlink(path, target, sizeof(target) - 1);
            bool ours = n > 0 && stat(target, &here) == 0 && here.st_ino == st.st_ino;
            close(fd);
            if (!ours && n > 0) {
                closedir(proc);
                return escaped("%s -> %s is open to the box", path, target);
            }
        }
        if (proc != NULL)
            closedir(proc);
        usleep(5000);
    }
    return held("%d looks, %d refused, none led out of the box", seen, hidden);
}

static enum outcome exe_of_self(const struct attempt *self)
{
    (void)self;
    return judge_call("/proc/self/exe for writing", open("/proc/self/exe", O_WRONLY | O_CLOEXEC),
                      REFUSALS_AND(ETXTBSY));
}

// The box's command is /proc/self/exe: what runs is the guest's own image, as user code.
static enum outcome exe_as_command(const struct attempt *self)
{
    (void)self;
    return held("the command line is the attempt");
}

static enum outcome fds_leaked(const struct attempt *self)
{
    (void)self;
    char path[64], target[128] = "";
    if (world.n_leaked == 0)
        return held("nothing above descriptor 2");
    snprintf(path, sizeof(path), "/proc/self/fd/%d", world.leaked[0]);
    ssize_t n = readlink(path, target, sizeof(target) - 1);
    return escaped("%zu descriptors above 2, the first is %d -> %.100s", world.n_leaked,
                   world.leaked[0], n > 0 ? target : "?");
}

static bool is_root(const struct stat *st)
{
    struct stat root;
    return stat("/", &root) == 0 && root.st_dev == st->st_dev && root.st_ino == st->st_ino;
}

static enum outcome cwd_climb(const struct attempt *self)
{
    (void)self;
    char path[4096] = "";
    struct stat st;
    ssize_t n = readlink("/proc/self/cwd", path, sizeof(path) - 1);
    if (n <= 0)
        return cannot("/proc/self/cwd: %s", strerrorname_np(errno));
    if (path[0] != '/')
        return escaped("the working directory is outside: %.100s", path);
    for (int i = 0; i < 256; i++) {
        if (chdir("..") < 0)
            return held("..: %s", strerrorname_np(errno));
    }
    if (stat(".", &st) < 0 || !is_root(&st))
        return escaped("climbed from %.100s to something that is not /", path);
    return held("climbed from %.100s to / and no further", path);
}

static enum outcome proc_links(const struct attempt *self)
{
    static const char *const links[] = {"/proc/1/root", "/proc/1/cwd", "/proc/1/fd"};
    (void)self;
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        int fd = open(links[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0) {
            close(fd);
            return escaped("%s opens", links[i]);
        }
    }
    return held("the guest's root, directory and descriptors: %s", strerrorname_np(errno));
}

static enum outcome workdir_tricks(const struct attempt *self)
{
    (void)self;
    char path[4096] = "";
    struct stat st = {0}, box = {0};
    ssize_t n = readlink("/proc/self/cwd", path, sizeof(path) - 1);
    int there = stat(".", &st);
    if (n <= 0 || path[0] != '/')
        return escaped("the working directory is outside: %.100s", path);
    if (there < 0 || stat(path, &box) < 0 || box.st_ino != st.st_ino || box.st_dev != st.st_dev)
        return escaped("%.100s is not the directory of that name in the box", path);
    return held("works in %.100s", path);
}

static const int for_reading = O_RDONLY, for_writing = O_WRONLY;

#define GUEST_OPEN ROOT_POWER ",guestuid,dumpable"

// It would push the members far to the right.
// clang-format off
static const struct attempt attempts[] = {
    {.number = 11,
     .name = "exe_of_guest_read",
     .tries = "opens the guest's executable",
     .held_by = "the guest has a uid and a user namespace the box does not have, and is not dumpable",
     .canary = GUEST_OPEN,
     .run = exe_of_guest,
     .arg = &for_reading},
    {.number = 11,
     .name = "exe_of_guest_write",
     .tries = "opens the guest's executable for writing",
     .held_by = "the same; and the file belongs to nobody of the box",
     .canary = GUEST_OPEN,
     .run = exe_of_guest,
     .arg = &for_writing},
    {.number = 11,
     .name = "exe_of_others",
     .tries = "looks for processes that were executed from outside",
     .held_by = "nothing enters a box but forks of the guest, which cannot be opened",
     .canary = GUEST_OPEN,
     .run = exe_of_others},
    {.number = 11,
     .name = "exe_of_self",
     .tries = "writes to its own running executable",
     .held_by = "the kernel",
     .no_canary = "the kernel's own doing; there is nothing to take away",
     .run = exe_of_self},
    {.number = 11,
     .name = "exe_as_command",
     .tries = "names /proc/self/exe as the command to run",
     .held_by = "the command is opened inside the box by a child that is already weak",
     .no_canary = "what could be gained is exe_of_guest_write, which has one",
     .place = OUTSIDE,
     .run = exe_as_command},
    {.number = 12,
     .name = "fds_leaked",
     .tries = "looks for descriptors it was not meant to have",
     .held_by = "the guest closes everything above 2 before it executes",
     .canary = "fds",
     .run = fds_leaked},
    {.number = 12,
     .name = "cwd_climb",
     .tries = "climbs from its working directory",
     .held_by = "the working directory is entered after the root was changed",
     .no_canary = "workdir_tricks shows the ways in, root_dotdot the way up",
     .run = cwd_climb},
    {.number = 12,
     .name = "proc_links",
     .tries = "follows the guest's root, cwd and fd links",
     .held_by = "the guest cannot be traced",
     .canary = GUEST_OPEN,
     .run = proc_links},
    {.number = 12,
     .name = "workdir_tricks",
     .tries = "is started with a working directory below /proc/self/fd and /proc/1",
     .held_by = "the guest opens the directory inside the box, after it has let go of the rest",
     .no_canary = "the descriptors it would need are those of fds_leaked, which has one",
     .place = OUTSIDE,
     .run = workdir_tricks},
};
// clang-format on

const struct attempt_list exe_attempts = ATTEMPTS(attempts);
