// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "store/local-internal.h"

// --- from a key to a directory ---

// Nothing on the way is a link or leaves the directory, whoever may have put it there.
static int open_beneath(int dir, const char *path, int flags)
{
    const struct open_how how = {
        .flags = (unsigned)(flags | O_CLOEXEC | O_NOFOLLOW),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    for (int tries = 0; tries < LOCAL_TRIES; tries++) {
        int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
        if (fd >= 0)
            return fd;
        if (errno != EAGAIN && errno != EINTR) // somebody renames; it could not be told
            return -errno;
    }
    return -EBUSY;
}

int local_open_key(const struct local *local, const char *key, int flags)
{
    return open_beneath(local->dir, key, flags);
}

static int open_dir(const struct local *local, const char *path, size_t len)
{
    char text[STORE_KEY_MAX + 1];
    (void)snprintf(text, sizeof text, "%.*s", (int)len, path);
    return open_beneath(local->dir, len > 0 ? text : ".", O_RDONLY | O_DIRECTORY);
}

static int make_dir(const struct local *local, const char *path, size_t len)
{
    char name[NAME_MAX + 1];
    size_t before = len;
    while (before > 0 && path[before - 1] != '/')
        before--;
    (void)snprintf(name, sizeof name, "%.*s", (int)(len - before), path + before);
    auto_fd parent = open_dir(local, path, before > 0 ? before - 1 : 0);
    if (parent < 0)
        return parent;
    return mkdirat(parent, name, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

// From above: each step may find that the one before was removed by somebody who saw it empty.
static int make_dirs(const struct local *local, const char *path, size_t len)
{
    int r = 0;
    for (size_t n = 1; r == 0 && n <= len; n++) {
        if (n == len || path[n] == '/')
            r = make_dir(local, path, n);
    }
    return r == -ENOENT ? 0 : r;
}

int local_open_parent(const struct local *local, const char *key, bool make, const char **ret_name)
{
    const char *slash = strrchr(key, '/');
    size_t len = slash != NULL ? (size_t)(slash - key) : 0;
    *ret_name = slash != NULL ? slash + 1 : key;
    for (int tries = 0; tries < LOCAL_TRIES; tries++) {
        int fd = open_dir(local, key, len);
        if (fd != -ENOENT || !make)
            return fd;
        int r = make_dirs(local, key, len);
        if (r < 0)
            return r;
    }
    return -EBUSY;
}

// --- directories that have become empty ---

void local_prune(const struct local *local, const char *key)
{
    char path[STORE_KEY_MAX + 1];
    (void)snprintf(path, sizeof path, "%s", key);
    for (char *slash = strrchr(path, '/'); slash != NULL; slash = strrchr(path, '/')) {
        const char *name;
        *slash = '\0';
        auto_fd parent = local_open_parent(local, path, false, &name);
        if (parent < 0 || unlinkat(parent, name, AT_REMOVEDIR) < 0)
            return;
    }
}

// One that is in the directory, by name; 1, 0: none, or -errno.
static int first_entry(const struct local *local, const char *path, char ret[NAME_MAX + 1])
{
    int fd = local_open_key(local, path, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return fd;
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        fd_close(fd);
        return -ENOMEM;
    }
    struct dirent *entry;
    int r = 0;
    while (r == 0 && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        (void)snprintf(ret, NAME_MAX + 1, "%s", entry->d_name);
        r = 1;
    }
    (void)closedir(dir);
    return r;
}

static int remove_dir(const struct local *local, const char *path)
{
    const char *name;
    auto_fd parent = local_open_parent(local, path, false, &name);
    if (parent < 0)
        return parent;
    return unlinkat(parent, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int local_remove_hollow(const struct local *local, const char *key)
{
    char path[STORE_KEY_MAX + 1], name[NAME_MAX + 1];
    for (int tries = 0; tries < LOCAL_TRIES; tries++) {
        (void)snprintf(path, sizeof path, "%s", key);
        int r;
        while ((r = first_entry(local, path, name)) == 1) { // down to one that is empty
            size_t len = strlen(path);
            if (len + 1 + strlen(name) > STORE_KEY_MAX)
                return -ENOTEMPTY;
            (void)snprintf(path + len, sizeof path - len, "/%s", name);
        }
        if (r == -ENOTDIR) // an object
            return -ENOTEMPTY;
        r = r == 0 ? remove_dir(local, path) : r;
        if (r < 0 && r != -ENOENT && r != -ENOTEMPTY)
            return r;
        if (strcmp(path, key) == 0 && r != -ENOTEMPTY)
            return 0;
    }
    return -ENOTEMPTY;
}

// --- what has no name ---

// What is still to be removed: directories of `.tmp` that are numbered, under one random name.
struct heap {
    char base[33];
    unsigned n;
};

static void heap_name(const struct heap *heap, unsigned i, char ret[NAME_MAX + 1])
{
    (void)snprintf(ret, NAME_MAX + 1, "%s.%u", heap->base, i);
}

// Takes the files away and puts directories on the heap: so that deep ones need neither a deep
// stack nor many descriptors.
static int empty_entry(const struct local *local, int dir, const char *name, struct heap *heap)
{
    char beside[NAME_MAX + 1];
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || unlinkat(dir, name, 0) == 0)
        return 0;
    if (errno != EISDIR)
        return errno == ENOENT ? 0 : -errno;
    heap_name(heap, heap->n, beside);
    if (renameat(dir, name, local->tmp, beside) < 0)
        return errno == ENOENT ? 0 : -errno;
    heap->n++;
    return 0;
}

static int empty_dir(const struct local *local, const char *name, struct heap *heap)
{
    int fd = open_beneath(local->tmp, name, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return fd;
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        fd_close(fd);
        return -ENOMEM;
    }
    struct dirent *entry;
    int r = 0;
    while (r == 0 && (entry = readdir(dir)) != NULL)
        r = empty_entry(local, fd, entry->d_name, heap);
    (void)closedir(dir);
    return r;
}

// Somebody who writes there still may put one more in.
static int remove_one(const struct local *local, const char *name, struct heap *heap)
{
    int r = -ENOTEMPTY;
    for (int tries = 0; r == -ENOTEMPTY && tries < LOCAL_TRIES; tries++) {
        r = empty_dir(local, name, heap);
        if (r == 0 && unlinkat(local->tmp, name, AT_REMOVEDIR) < 0)
            r = -errno;
    }
    return r == -ENOENT ? 0 : r;
}

int local_remove_tmp(const struct local *local, const char *name)
{
    struct heap heap = {.n = 0};
    char beside[NAME_MAX + 1];
    if (unlinkat(local->tmp, name, 0) == 0 || errno == ENOENT)
        return 0;
    int r = errno == EISDIR ? store_random_name(heap.base) : -errno;
    if (r == 0)
        r = remove_one(local, name, &heap);
    for (unsigned i = 0; r == 0 && i < heap.n; i++) {
        heap_name(&heap, i, beside);
        r = remove_one(local, beside, &heap);
    }
    return r;
}

void local_tidy(const struct local *local)
{
    char name[NAME_MAX + 1];
    const struct local at_tmp = {.dir = local->tmp, .tmp = local->tmp};
    while (first_entry(&at_tmp, ".", name) == 1) {
        if (local_remove_tmp(local, name) < 0)
            return; // it is only in the way
    }
}
