// SPDX-License-Identifier: Apache-2.0
// A made-up cgroup file system in plain directories, which behaves as the kernel's does where it
// matters: a new directory is full of files, of a controller's only if the parent hands it down; a
// value is one write; a directory goes with its files, but not with children or processes in it.
// Every write is noted.
#pragma once

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "check.h"

static struct {
    char top[64];
    char log[4096];          // every write, one line each
    const char *refuse_path; // writing to this file fails
    int refuse_errno;
    int open_before;
} fake;

struct path {
    char text[1024]; // a path, relative to fake.top, or other words
};

static __attribute__((format(printf, 1, 2))) struct path text(const char *fmt, ...)
{
    struct path p;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(p.text, sizeof p.text, fmt, ap);
    va_end(ap);
    assert_true(n >= 0 && (size_t)n < sizeof p.text);
    return p;
}

static struct path path_at(int dirfd, const char *name)
{
    char dir[256];
    ssize_t n = readlink(text("/proc/self/fd/%d", dirfd).text, dir, sizeof dir - 1);
    assert_true(n > 0);
    dir[n] = '\0';
    size_t top = strlen(fake.top);
    assert_memory_equal(dir, fake.top, top);
    const char *below = dir[top] == '/' ? dir + top + 1 : dir + top;
    return text("%s%s%s", below, *below != '\0' ? "/" : "", name);
}

static struct path full(const char *path)
{
    return text("%s/%s", fake.top, path);
}

static struct path join(const char *dir, const char *name)
{
    return text("%s/%s", dir, name);
}

static void put(const char *path, const char *value)
{
    auto_fd fd = open(full(path).text, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, value, strlen(value)), 0);
}

static struct path get(const char *path)
{
    struct path got;
    assert_true(fd_read_file(AT_FDCWD, full(path).text, got.text, sizeof got.text) >= 0);
    return got;
}

static int exists(const char *path)
{
    return access(full(path).text, F_OK) == 0;
}

static void note(const char *what, const char *value)
{
    size_t at = strlen(fake.log);
    size_t left = sizeof fake.log - at;
    assert_true((size_t)snprintf(fake.log + at, left, "%s %s\n", what, value) < left);
}

// The log since the last time.
static void wrote(const char *lines)
{
    assert_string_equal(fake.log, lines);
    fake.log[0] = '\0';
}

// What a controller puts into a directory of either version.
static void furnish_control(const char *dir, const char *control, int v2)
{
    static const struct {
        const char *control;
        int v2;
        const char *file, *text;
    } files[] = {
        {"memory", 1, "memory.max",                  "max\n"                                        },
        {"memory", 1, "memory.swap.max",             "max\n"                                        },
        {"memory", 1, "memory.peak",                 "0\n"                                          },
        {"memory", 1, "memory.events",               "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n"    },
        {"pids",   1, "pids.max",                    "max\n"                                        },
        {"pids",   1, "pids.events",                 "max 0\n"                                      },
        {"cpu",    1, "cpu.max",                     "max 100000\n"                                 },
        {"memory", 0, "memory.limit_in_bytes",       "9223372036854771712\n"                        },
        {"memory", 0, "memory.memsw.limit_in_bytes", "9223372036854771712\n"                        },
        {"memory", 0, "memory.max_usage_in_bytes",   "0\n"                                          },
        {"memory", 0, "memory.oom_control",          "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n"},
        {"pids",   0, "pids.max",                    "max\n"                                        },
        {"pids",   0, "pids.events",                 "max 0\n"                                      },
        {"cpu",    0, "cpu.cfs_quota_us",            "-1\n"                                         },
        {"cpu",    0, "cpu.cfs_period_us",           "100000\n"                                     },
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (files[i].v2 == v2 && strcmp(files[i].control, control) == 0)
            put(join(dir, files[i].file).text, files[i].text);
    }
}

static int is_unified(const char *path)
{
    return strncmp(path, "unified", 7) == 0;
}

// cgroup.controllers and their files, by what the parent hands down.
static void furnish_handed(const char *dir, const char *handed)
{
    struct path words = text("%s", handed);
    put(join(dir, "cgroup.controllers").text, handed);
    char *save = NULL;
    for (char *w = strtok_r(words.text, " \n", &save); w != NULL; w = strtok_r(NULL, " \n", &save))
        furnish_control(dir, w, 1);
}

static void furnish(const char *dir)
{
    put(join(dir, "cgroup.procs").text, "");
    if (!is_unified(dir)) {
        furnish_control(dir, text("%.*s", (int)strcspn(dir, "/"), dir).text, 0);
        return;
    }
    struct path parent = text("%.*s", (int)(strrchr(dir, '/') - dir), dir);
    put(join(dir, "cgroup.kill").text, "");
    put(join(dir, "cgroup.subtree_control").text, "");
    furnish_handed(dir, get(join(parent.text, "cgroup.subtree_control").text).text);
}

static int fake_mkdirat(int dirfd, const char *name, mode_t mode)
{
    struct path path = path_at(dirfd, name);
    if (mkdir(full(path.text).text, mode) < 0)
        return -1;
    furnish(path.text);
    return 0;
}

// Some entry of `dir` that is of this type.
static int find_entry(const char *dir, unsigned char type, struct path *ret)
{
    DIR *d = opendir(full(dir).text);
    int found = 0;
    for (struct dirent *e; d != NULL && !found && (e = readdir(d)) != NULL;) {
        found = e->d_type == type && e->d_name[0] != '.';
        if (found)
            *ret = join(dir, e->d_name);
    }
    if (d != NULL)
        (void)closedir(d);
    return found;
}

static int fake_unlinkat(int dirfd, const char *name, int flags)
{
    struct path path = path_at(dirfd, name), inner;
    assert_int_equal(flags, AT_REMOVEDIR); // a file of a cgroup cannot be removed
    if (!exists(path.text)) {
        errno = ENOENT;
        return -1;
    }
    if (find_entry(path.text, DT_DIR, &inner) ||
        get(join(path.text, "cgroup.procs").text).text[0] != '\0') {
        errno = EBUSY;
        return -1;
    }
    while (find_entry(path.text, DT_REG, &inner))
        assert_int_equal(unlink(full(inner.text).text), 0);
    return rmdir(full(path.text).text);
}

static int fake_fchownat(int dirfd, const char *name, uid_t uid, gid_t gid, int flags)
{
    (void)flags;
    struct path path = path_at(dirfd, name);
    if (!exists(path.text)) {
        errno = ENOENT;
        return -1;
    }
    note(path.text, text("owner %u %u", uid, gid).text);
    return 0;
}

static int hand_down(const char *file, const char *value)
{
    struct path before = get(file), children;
    struct path dir = text("%.*s", (int)(strrchr(file, '/') - file), file);
    struct path have = get(join(dir.text, "cgroup.controllers").text);
    assert_int_equal(value[0], '+');
    if (strstr(have.text, value + 1) == NULL)
        return -ENOENT;
    const char *space = before.text[0] != '\0' ? " " : "";
    struct path handed = text("%s%s%s", before.text, space, value + 1);
    put(file, handed.text);
    if (find_entry(dir.text, DT_DIR, &children)) // there is one at most here: cay
        furnish_handed(children.text, handed.text);
    return 0;
}

// The kernel's rule: with swap never below without.
static int breaks_memsw(const char *file, const char *value)
{
    const char *name = strrchr(file, '/') + 1;
    int is_memsw = strcmp(name, "memory.memsw.limit_in_bytes") == 0;
    if (!is_memsw && strcmp(name, "memory.limit_in_bytes") != 0)
        return 0;
    struct path other = text("%.*s%s", (int)(name - file), file,
                             is_memsw ? "memory.limit_in_bytes" : "memory.memsw.limit_in_bytes");
    if (!exists(other.text))
        return 0;
    uint64_t there = strtoull(get(other.text).text, NULL, 10), new = strtoull(value, NULL, 10);
    return is_memsw ? new < there : new > there;
}

static void kill_all(const char *dir)
{
    put(join(dir, "cgroup.procs").text, "");
    for (int i = 0; i < 16; i++) {
        if (exists(text("%s/e%d", dir, i).text))
            put(text("%s/e%d/cgroup.procs", dir, i).text, "");
    }
}

static int fake_write(int dirfd, const char *name, const char *value)
{
    struct path path = path_at(dirfd, name);
    const char *file = strrchr(path.text, '/') + 1;
    if (!exists(path.text))
        return -ENOENT;
    if (fake.refuse_path != NULL && strcmp(fake.refuse_path, path.text) == 0)
        return -fake.refuse_errno;
    if (breaks_memsw(path.text, value))
        return -EINVAL;
    note(path.text, value);
    if (strcmp(file, "cgroup.subtree_control") == 0)
        return hand_down(path.text, value);
    if (strcmp(file, "cgroup.kill") == 0) {
        path.text[file - 1 - path.text] = '\0';
        kill_all(path.text);
        return 0;
    }
    put(path.text, value);
    return 0;
}
