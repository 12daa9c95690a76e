// SPDX-License-Identifier: Apache-2.0
// 15 cgroups. Values are set to what they are; only a child that ends at once is moved.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "attempt.h"
#include "world.h"

enum {
    CGROUP1_MAGIC = 0x27e0eb,
    CGROUP2_MAGIC = 0x63677270,
    TREES_MAX = 32,
    DEPTH_MAX = 8,
};

struct trees {
    char path[TREES_MAX][256];
    size_t n;
};

static bool is_cgroup(const char *path)
{
    struct statfs fs;
    return statfs(path, &fs) == 0 && (fs.f_type == CGROUP1_MAGIC || fs.f_type == CGROUP2_MAGIC);
}

// Cgroup file systems among the box's mounts, and where systems usually have them.
static void find_trees(struct trees *trees)
{
    static char mounts[262144];
    trees->n = 0;
    if (slurp("/proc/self/mountinfo", mounts, sizeof(mounts)) > 0) {
        char *rest = mounts;
        for (char *line; (line = strsep(&rest, "\n")) != NULL && *line != '\0';) {
            char where[256];
            if (sscanf(line, "%*s %*s %*s %*s %255s", where) == 1 && is_cgroup(where) &&
                trees->n < TREES_MAX)
                snprintf(trees->path[trees->n++], 256, "%s", where);
        }
    }
    DIR *dir = trees->n > 0 ? NULL : opendir("/sys/fs/cgroup");
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char path[300];
        snprintf(path, sizeof(path), "/sys/fs/cgroup/%s", entry->d_name);
        if (entry->d_name[0] != '.' && strlen(path) < 256 && is_cgroup(path) &&
            trees->n < TREES_MAX)
            memcpy(trees->path[trees->n++], path, strlen(path) + 1);
    }
    if (dir != NULL)
        closedir(dir);
}

// The directory that lists this process, below `path`. False: it is not in sight.
static bool find_own(const char *path, int depth, char *ret, size_t size)
{
    static char procs[1 << 20];
    char name[512];
    snprintf(name, sizeof(name), "%s/cgroup.procs", path);
    if (slurp(name, procs, sizeof(procs)) > 0) {
        for (char *at = procs; at != NULL && *at != '\0'; at = strchr(at, '\n')) {
            at += *at == '\n';
            if (strtol(at, NULL, 10) == getpid()) {
                snprintf(ret, size, "%s", path);
                return true;
            }
        }
    }
    DIR *dir = depth < DEPTH_MAX ? opendir(path) : NULL;
    const struct dirent *entry;
    bool found = false;
    while (dir != NULL && !found && (entry = readdir(dir)) != NULL) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof(name), "%.200s/%.255s", path, entry->d_name);
        found = find_own(name, depth + 1, ret, size);
    }
    if (dir != NULL)
        closedir(dir);
    return found;
}

// The first of `names` (ends with NULL) that opens for writing anywhere on a tree's top.
static enum outcome open_on_top(const char *const *names)
{
    struct trees trees;
    int error = ENOENT;
    find_trees(&trees);
    for (size_t i = 0; i < trees.n; i++) {
        for (const char *const *name = names; *name != NULL; name++) {
            char path[512];
            snprintf(path, sizeof(path), "%s/%s", trees.path[i], *name);
            int fd = open(path, O_WRONLY | O_CLOEXEC);
            if (fd >= 0) {
                close(fd);
                return escaped("%.150s opens for writing", path);
            }
            if (errno != ENOENT)
                error = errno;
        }
    }
    if (trees.n == 0)
        return held("no cgroup file system in sight");
    return held("%zu cgroup file systems: %s", trees.n, strerrorname_np(error));
}

static enum outcome cgroup_release_agent(const struct attempt *self)
{
    static const char *const names[] = {"release_agent", NULL};
    (void)self;
    return open_on_top(names);
}

static enum outcome cgroup_notify(const struct attempt *self)
{
    static const char *const names[] = {"notify_on_release", NULL};
    (void)self;
    return open_on_top(names);
}

static bool write_back(const char *path)
{
    char value[256];
    long n = slurp(path, value, sizeof(value));
    int fd = n > 0 ? open(path, O_WRONLY | O_CLOEXEC) : -1;
    bool done = fd >= 0 && write(fd, value, (size_t)n) == n;
    if (fd >= 0)
        close(fd);
    return done;
}

static enum outcome cgroup_limits(const struct attempt *self)
{
    static const char *const names[] = {"memory.max", "memory.limit_in_bytes", "pids.max",
                                        "cpu.max",    "cpu.cfs_quota_us",      NULL};
    struct trees trees;
    char own[512];
    int seen = 0;
    (void)self;
    find_trees(&trees);
    for (size_t i = 0; i < trees.n; i++) {
        if (!find_own(trees.path[i], 0, own, sizeof(own)))
            continue;
        seen++;
        for (const char *const *name = names; *name != NULL; name++) {
            char path[600];
            snprintf(path, sizeof(path), "%s/%s", own, *name);
            if (write_back(path))
                return escaped("%.150s takes a new value", path);
        }
    }
    return held("own cgroup seen in %d of %zu trees, no limit could be written", seen, trees.n);
}

static enum outcome cgroup_leave(const struct attempt *self)
{
    struct trees trees;
    int error = 0;
    (void)self;
    find_trees(&trees);
    for (size_t i = 0; i < trees.n; i++) {
        char path[512], own[512];
        // Where the process is on top already there is nowhere to go.
        if (!find_own(trees.path[i], 0, own, sizeof(own)) || strcmp(own, trees.path[i]) == 0)
            continue;
        snprintf(path, sizeof(path), "%s/cgroup.procs", trees.path[i]);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd >= 0 && write(fd, "0", 1) == 1)
            return escaped("moved itself to %.150s", trees.path[i]);
        error = errno;
        if (fd >= 0)
            close(fd);
    }
    if (trees.n == 0)
        return held("no cgroup file system in sight");
    return held("%zu cgroup file systems: %s", trees.n, strerrorname_np(error));
}

static enum outcome cgroup_child(const struct attempt *self)
{
    struct trees trees;
    int error = 0;
    (void)self;
    find_trees(&trees);
    for (size_t i = 0; i < trees.n; i++) {
        char path[512];
        snprintf(path, sizeof(path), "%s/cay-escape-%d", trees.path[i], (int)getpid());
        if (mkdir(path, 0755) == 0) {
            rmdir(path);
            return escaped("made a cgroup in %.150s", trees.path[i]);
        }
        error = errno;
    }
    if (trees.n == 0)
        return held("no cgroup file system in sight");
    return held("%zu cgroup file systems: %s", trees.n, strerrorname_np(error));
}

// A path of more than one part, or one that goes up, tells where the box stands on the host. One
// part is a cgroup that the guest made below the box's own.
static enum outcome cgroup_paths(const struct attempt *self)
{
    static char text[65536];
    int n = 0;
    (void)self;
    if (slurp("/proc/self/cgroup", text, sizeof(text)) <= 0)
        return held("/proc/self/cgroup cannot be read");
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL && *line != '\0'; n++) {
        const char *path = strrchr(line, ':');
        if (path == NULL || strchr(path + 2, '/') != NULL || strstr(path, "..") != NULL)
            return escaped("the box sees where it stands: %.150s", line);
    }
    return held("none of %d paths leads out of the box", n);
}

#define CGROUP_HELD                                                                                \
    "a box has no cgroup file system; its files belong to a user the box does not have"

// It would push the members far to the right.
// clang-format off
static const struct attempt attempts[] = {
    {.number = 15,
     .name = "cgroup_release_agent",
     .tries = "names a program for the host to run when a cgroup empties (CVE-2022-0492)",
     .held_by = CGROUP_HELD,
     .canary = "cgroupfs,userns,caps",
     .run = cgroup_release_agent},
    {.number = 15,
     .name = "cgroup_notify",
     .tries = "turns notify_on_release on",
     .held_by = CGROUP_HELD,
     .canary = "cgroupfs,userns,caps",
     .run = cgroup_notify},
    {.number = 15,
     .name = "cgroup_limits",
     .tries = "writes its own limits",
     .held_by = CGROUP_HELD,
     .canary = "cgroupfs,userns,caps",
     .run = cgroup_limits},
    {.number = 15,
     .name = "cgroup_leave",
     .tries = "moves itself out of its cgroup",
     .held_by = CGROUP_HELD,
     .canary = "cgroupfs,userns,caps",
     .run = cgroup_leave},
    {.number = 15,
     .name = "cgroup_child",
     .tries = "makes a cgroup",
     .held_by = CGROUP_HELD,
     .canary = "cgroupfs,userns,caps",
     .run = cgroup_child},
    {.number = 15,
     .name = "cgroup_paths",
     .tries = "reads where its cgroups stand on the host",
     .held_by = "a cgroup namespace, unshared after the box joined its cgroups",
     .canary = "cgroupns",
     .run = cgroup_paths},
};
// clang-format on

const struct attempt_list cgroup_attempts = ATTEMPTS(attempts);
