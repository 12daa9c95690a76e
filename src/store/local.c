// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "store/local-internal.h"
#include "store/sha256.h"

#define LABEL "user.cay.object"

enum { CHUNK = 256 * 1024, LOOK_EVERY = 64 * CHUNK };

// The attribute of an object's file: short enough to be kept within the inode.
struct label {
    uint8_t sha256[STORE_SHA256];
    uint8_t size[8]; // the lowest first
};

static void label_make(struct label *label, const uint8_t sha256[STORE_SHA256], uint64_t size)
{
    memcpy(label->sha256, sha256, STORE_SHA256);
    for (int i = 0; i < 8; i++)
        label->size[i] = (uint8_t)(size >> (8 * i));
}

static uint64_t label_size(const struct label *label)
{
    uint64_t size = 0;
    for (int i = 0; i < 8; i++)
        size |= (uint64_t)label->size[i] << (8 * i);
    return size;
}

static int64_t modified_ms(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
}

// A key that goes through an object, or names a directory of others.
static int say(struct err *err, int r, const char *what, const char *key)
{
    if (r == -ENOTDIR || r == -EISDIR || r == -ENOTEMPTY || r == -EEXIST)
        return err_set(err, ERR_CONFLICT,
                       "'%.100s': an object and a directory cannot have the same name", key);
    if (r == -ELOOP || r == -EXDEV)
        return store_say_bad(err, key, "there is a link on the way to it");
    if (r == -ENXIO)
        return store_say_bad(err, key, "it is no file");
    return err_sys(err, -r, "%s '%.100s'", what, key);
}

// --- put ---

static int make_tmp(const struct local *local, char ret_name[33])
{
    int r = store_random_name(ret_name);
    if (r < 0)
        return r;
    int fd =
        openat(local->tmp, ret_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? -errno : fd;
}

// Whoever fills the store must not fill the machine, whose database lies on the same file system.
static int check_room(const struct local *local, const char *key, struct err *err)
{
    struct statvfs fs;
    if (local->spare == 0 || fstatvfs(local->tmp, &fs) < 0 ||
        (uint64_t)fs.f_bavail * fs.f_frsize >= local->spare)
        return 0;
    (void)err_set(err, ERR_EXHAUSTED, "write '%.100s': the store's disk is almost full", key);
    err->sys_errno = ENOSPC;
    return -1;
}

static int copy_in(const struct local *local, const struct store_put *put, int fd,
                   struct label *ret, struct err *err)
{
    auto_sha256 sha = {0};
    auto_free char *buf = malloc(CHUNK);
    uint8_t digest[STORE_SHA256];
    uint64_t size = 0;
    ssize_t n;
    if (buf == NULL || !sha256_init(&sha))
        return err_sys(err, ENOMEM, "write '%.100s'", put->key);
    while ((n = put->read(put->data, buf, CHUNK, err)) > 0) {
        if (store_stopped(put->stop))
            return store_say_stopped(err);
        if (size % LOOK_EVERY < CHUNK && check_room(local, put->key, err) < 0)
            return -1;
        int r = fd_write_all(fd, buf, (size_t)n);
        if (r < 0)
            return say(err, r, "write", put->key);
        sha256_add(&sha, buf, (size_t)n);
        size += (uint64_t)n;
        local->tally->bytes_in += (uint64_t)n;
        if (put->size >= 0 && size > (uint64_t)put->size)
            return store_say_unlike(err, put->key, "there is more of it");
    }
    if (n < 0)
        return -1;
    if (put->size >= 0 && size != (uint64_t)put->size)
        return store_say_unlike(err, put->key, "there is less of it");
    sha256_end(&sha, digest);
    if (put->sha256 != NULL && memcmp(put->sha256, digest, sizeof digest) != 0)
        return store_say_unlike(err, put->key, "it has another SHA-256");
    label_make(ret, digest, size);
    return 0;
}

// Directories on the way may go at any moment, with the last object of somebody else; what lies in
// the place may be directories that nobody has removed.
static int give_name(const struct local *local, const char *tmp, const char *key)
{
    int r = -EBUSY;
    for (int tries = 0; tries < LOCAL_TRIES; tries++) {
        const char *name;
        auto_fd parent = local_open_parent(local, key, true, &name);
        if (parent < 0)
            return parent;
        if (renameat(local->tmp, tmp, parent, name) == 0)
            return 0;
        r = -errno;
        if (r == -EISDIR) {
            int hollow = local_remove_hollow(local, key);
            if (hollow < 0)
                return hollow;
        } else if (r != -ENOENT) {
            return r;
        }
    }
    return r;
}

static int local_put(void *driver, const struct store_put *put, struct store_info *ret,
                     struct err *err)
{
    const struct local *local = driver;
    struct label label;
    struct stat st;
    char name[33];
    auto_fd fd = make_tmp(local, name);
    if (fd < 0)
        return say(err, fd, "make a file for", put->key);
    int r = copy_in(local, put, fd, &label, err);
    if (r == 0 && (fsetxattr(fd, LABEL, &label, sizeof label, 0) < 0 || fstat(fd, &st) < 0))
        r = say(err, -errno, "label", put->key);
    if (r == 0) {
        int named = give_name(local, name, put->key);
        r = named < 0 ? say(err, named, "name", put->key) : 0;
    }
    if (r < 0) {
        (void)unlinkat(local->tmp, name, 0);
        return -1;
    }
    *ret = (struct store_info){
        .size = label_size(&label), .has_sha256 = true, .modified_ms = modified_ms(&st)};
    memcpy(ret->sha256, label.sha256, sizeof ret->sha256);
    return 0;
}

// --- get ---

static int read_label(int fd, const char *key, struct store_info *ret, struct err *err)
{
    struct label label;
    struct stat st;
    if (fstat(fd, &st) < 0)
        return say(err, -errno, "look at", key);
    if (S_ISDIR(st.st_mode))
        return say(err, -ENOENT, "read", key);
    if (!S_ISREG(st.st_mode))
        return store_say_bad(err, key, "it is no file");
    ssize_t n = fgetxattr(fd, LABEL, &label, sizeof label);
    if (n < 0 && errno != ENODATA && errno != ERANGE)
        return say(err, -errno, "read the label of", key);
    if (n != sizeof label)
        return store_say_bad(err, key,
                             "its checksum is gone (extended attributes are not copied?)");
    if (label_size(&label) != (uint64_t)st.st_size)
        return store_say_bad(err, key, "it has another length than it was written with");
    *ret = (struct store_info){
        .size = (uint64_t)st.st_size, .has_sha256 = true, .modified_ms = modified_ms(&st)};
    memcpy(ret->sha256, label.sha256, sizeof ret->sha256);
    return 0;
}

static int open_object(const struct local *local, const char *key, struct store_info *ret,
                       struct err *err)
{
    auto_fd fd = local_open_key(local, key, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd == -ENOTDIR) // below an object there is nothing
        return say(err, -ENOENT, "read", key);
    if (fd < 0)
        return say(err, fd, "read", key);
    if (read_label(fd, key, ret, err) < 0)
        return -1;
    return TAKE_FD(fd);
}

static int copy_out(const struct local *local, const struct store_get *get, int fd, uint64_t length,
                    struct sha256 *sha, struct err *err)
{
    auto_free char *buf = malloc(CHUNK);
    if (buf == NULL)
        return err_sys(err, ENOMEM, "read '%.100s'", get->key);
    for (uint64_t at = get->offset, end = at + length; at < end;) {
        size_t want = end - at < CHUNK ? (size_t)(end - at) : CHUNK;
        ssize_t n = pread(fd, buf, want, (off_t)at);
        if (n < 0)
            return say(err, -errno, "read", get->key);
        if (n == 0)
            return store_say_bad(err, get->key, "it ends too early");
        if (store_stopped(get->stop))
            return store_say_stopped(err);
        if (sha->ctx != NULL)
            sha256_add(sha, buf, (size_t)n);
        local->tally->bytes_out += (uint64_t)n;
        if (get->write(get->data, buf, (size_t)n, err) < 0)
            return -1;
        at += (uint64_t)n;
    }
    return 0;
}

static int copy_checked(const struct local *local, const struct store_get *get, int fd,
                        const struct store_info *info, struct err *err)
{
    auto_sha256 sha = {0};
    uint8_t digest[STORE_SHA256];
    const uint8_t *expected = get->sha256 != NULL ? get->sha256 : info->sha256;
    if (!sha256_init(&sha))
        return err_sys(err, ENOMEM, "read '%.100s'", get->key);
    if (copy_out(local, get, fd, info->size, &sha, err) < 0)
        return -1;
    sha256_end(&sha, digest);
    if (memcmp(digest, expected, sizeof digest) != 0)
        return store_say_bad(err, get->key, "it has another SHA-256 than it was written with");
    return 0;
}

static int local_get(void *driver, const struct store_get *get, struct store_info *ret,
                     struct err *err)
{
    const struct local *local = driver;
    struct sha256 unchecked = {0};
    auto_fd fd = open_object(local, get->key, ret, err);
    if (fd < 0)
        return -1;
    if (get->offset == 0 && get->length == 0)
        return copy_checked(local, get, fd, ret, err);
    if (get->offset >= ret->size)
        return err_set(err, ERR_INVALID, "'%.100s' ends before byte %llu", get->key,
                       (unsigned long long)get->offset);
    uint64_t rest = ret->size - get->offset;
    uint64_t length = get->length == 0 || get->length > rest ? rest : get->length;
    return copy_out(local, get, fd, length, &unchecked, err);
}

static int local_head(void *driver, const char *key, struct store_info *ret, struct err *err)
{
    auto_fd fd = open_object(driver, key, ret, err);
    if (fd < 0)
        return err->code == ERR_NOT_FOUND ? 0 : -1;
    return 1;
}

// --- delete ---

static int local_remove(void *driver, const char *key, struct err *err)
{
    const struct local *local = driver;
    const char *name;
    auto_fd parent = local_open_parent(local, key, false, &name);
    int r = parent < 0 ? parent : unlinkat(parent, name, 0) < 0 ? -errno : 0;
    if (r == -ENOENT || r == -ENOTDIR || r == -EISDIR)
        return 0;
    if (r < 0)
        return say(err, r, "delete", key);
    local_prune(local, key);
    return 1;
}

// The directory goes at once, under another name; then what is in it.
static int local_remove_all(void *driver, const char *prefix, struct err *err)
{
    const struct local *local = driver;
    char path[STORE_KEY_MAX + 1], tmp[33];
    const char *name;
    (void)snprintf(path, sizeof path, "%s", prefix);
    path[strlen(path) - 1] = '\0';
    auto_fd parent = local_open_parent(local, path, false, &name);
    struct stat st;
    int r = parent < 0 ? parent : fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
    if (r == -ENOENT || r == -ENOTDIR || (r == 0 && !S_ISDIR(st.st_mode)))
        return 0;
    if (r == 0)
        r = store_random_name(tmp);
    if (r == 0 && renameat(parent, name, local->tmp, tmp) < 0)
        r = errno == ENOENT ? 0 : -errno;
    if (r == 0)
        r = local_remove_tmp(local, tmp);
    if (r < 0)
        return say(err, r, "delete all of", prefix);
    local_prune(local, path);
    return 0;
}

static int local_sync(void *driver, struct err *err)
{
    const struct local *local = driver;
    return syncfs(local->dir) < 0 ? err_sys(err, errno, "write the store to its disk") : 0;
}

// --- opening ---

static int say_no_attributes(struct err *err)
{
    return err_set(
        err, ERR_UNSUPPORTED,
        "store-dir: its file system keeps no extended attributes, in which checksums are "
        "kept: choose one with ext4, XFS or Btrfs, or store = s3");
}

static int try_attributes(const struct local *local, struct err *err)
{
    struct label label = {.size = {1}}, back;
    char name[33];
    auto_fd fd = make_tmp(local, name);
    if (fd < 0)
        return err_sys(err, -fd, "write to the store's directory");
    int r = fsetxattr(fd, LABEL, &label, sizeof label, 0) < 0 ? -errno : 0;
    ssize_t n = r == 0 ? fgetxattr(fd, LABEL, &back, sizeof back) : 0;
    (void)unlinkat(local->tmp, name, 0);
    if (r == -ENOSPC || r == -EDQUOT)
        return err_sys(err, -r, "write to the store's directory");
    if (r < 0 || n != sizeof back || memcmp(&label, &back, sizeof back) != 0)
        return say_no_attributes(err);
    return 0;
}

static int open_dirs(struct local *local, int dir, struct err *err)
{
    local->dir = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (local->dir < 0)
        return err_sys(err, errno, "open the store's directory");
    if (mkdirat(local->dir, LOCAL_TMP, 0700) < 0 && errno != EEXIST)
        return err_sys(err, errno, "make '%s' in the store's directory", LOCAL_TMP);
    local->tmp = openat(local->dir, LOCAL_TMP, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (local->tmp < 0)
        return err_sys(err, errno, "open '%s' in the store's directory", LOCAL_TMP);
    // Left by those who died: nobody who lives has the lock.
    if (flock(local->tmp, LOCK_EX | LOCK_NB) == 0)
        local_tidy(local);
    if (flock(local->tmp, LOCK_SH) < 0)
        return err_sys(err, errno, "lock '%s' in the store's directory", LOCAL_TMP);
    return try_attributes(local, err);
}

static void local_close(void *driver)
{
    struct local *local = driver;
    fd_close(local->dir);
    fd_close(local->tmp);
    free(local);
}

int store_local_open(int dir, uint64_t spare, struct store_tally *tally, void **ret,
                     struct err *err)
{
    struct local *local = malloc(sizeof *local);
    if (local == NULL)
        return err_sys(err, ENOMEM, "open the store");
    *local = (struct local){.dir = -1, .tmp = -1, .spare = spare, .tally = tally};
    if (open_dirs(local, dir, err) < 0) {
        local_close(local);
        return -1;
    }
    *ret = local;
    return 0;
}

const struct store_driver store_local = {
    .kind = "local",
    .close = local_close,
    .put = local_put,
    .get = local_get,
    .head = local_head,
    .remove = local_remove,
    .list = local_list,
    .remove_all = local_remove_all,
    .sync = local_sync,
};
