// SPDX-License-Identifier: Apache-2.0
// The directory of images: locks, drafts, removal, and the list. image-internal.h explains the
// names.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/image-internal.h"
#include "box/tree.h"

#define NEW_PREFIX   ".new-"
#define TRASH_PREFIX ".trash-"

enum {
    DIR_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
    META_SIZE = 512,
    SWEEP_MAX = 64, // at one time; the next command takes the rest
};

int images_open(int data_fd, bool create, struct err *err)
{
    auto_fd fd = openat(data_fd, "images", DIR_FLAGS);
    if (fd < 0 && errno == ENOENT && create) {
        if (mkdirat(data_fd, "images", 0700) < 0 && errno != EEXIST)
            return err_sys(err, errno, "make the directory of images");
        fd = openat(data_fd, "images", DIR_FLAGS);
    }
    if (fd < 0)
        return err_sys(err, errno, "open the directory of images");
    struct stat st;
    if (fstat(fd, &st) < 0)
        return err_sys(err, errno, "open the directory of images");
    if (st.st_uid != geteuid() || (st.st_mode & 0077) != 0)
        return err_set(
            err, ERR_DENIED,
            "the directory of images is open to others (uid %u, mode %04o): make it root's, and 0700",
            st.st_uid, st.st_mode & 07777);
    return TAKE_FD(fd);
}

int images_lock(int images_fd, struct err *err)
{
    while (flock(images_fd, LOCK_EX) < 0) {
        if (errno != EINTR)
            return err_sys(err, errno, "lock the directory of images");
    }
    return 0;
}

void images_unlock(int images_fd)
{
    (void)flock(images_fd, LOCK_UN);
}

int images_hold(int images_fd, const char *name, int lock)
{
    enum { TRIES = 8 };
    for (int i = 0; i < TRIES; i++) {
        auto_fd fd = openat(images_fd, name, DIR_FLAGS);
        if (fd < 0)
            return -errno;
        if (flock(fd, lock | LOCK_NB) < 0)
            return -errno;
        // Between open and lock the name may have gone to another directory, and this one to the
        // trash.
        struct stat held, named;
        if (fstat(fd, &held) < 0)
            return -errno;
        if (fstatat(images_fd, name, &named, AT_SYMLINK_NOFOLLOW) < 0) {
            if (errno == ENOENT)
                continue;
            return -errno;
        }
        if (held.st_dev == named.st_dev && held.st_ino == named.st_ino)
            return TAKE_FD(fd);
    }
    return -EWOULDBLOCK;
}

static void temp_name(const char *prefix, char ret[TEMP_NAME_SIZE])
{
    uint32_t random;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        random = (uint32_t)getpid(); // names must differ, no more
    (void)snprintf(ret, TEMP_NAME_SIZE, "%s%08x", prefix, random);
}

static bool is_taken(int images_fd, const char *name)
{
    struct stat st;
    return fstatat(images_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int images_trash(int images_fd, const char *name, char ret_trash[TEMP_NAME_SIZE], struct err *err)
{
    do {
        temp_name(TRASH_PREFIX, ret_trash);
    } while (is_taken(images_fd, ret_trash));
    if (renameat(images_fd, name, images_fd, ret_trash) < 0)
        return err_sys(err, errno, "put image '%s' aside", name);
    return 0;
}

// -- sweeping

struct leftover {
    int fd; // holds it exclusively
    char name[TEMP_NAME_SIZE];
};

static bool is_temporary(const char *name)
{
    return strncmp(name, NEW_PREFIX, strlen(NEW_PREFIX)) == 0 ||
           strncmp(name, TRASH_PREFIX, strlen(TRASH_PREFIX)) == 0;
}

static DIR *open_list(int images_fd)
{
    int fd = openat(images_fd, ".", DIR_FLAGS);
    if (fd < 0)
        return NULL;
    DIR *dir = fdopendir(fd);
    if (dir == NULL)
        fd_close(fd);
    return dir;
}

static unsigned find_leftovers(int images_fd, struct leftover *ret)
{
    unsigned n = 0;
    DIR *dir = open_list(images_fd);
    if (dir == NULL)
        return 0;
    const struct dirent *entry;
    while (n < SWEEP_MAX && (entry = readdir(dir)) != NULL) {
        if (!is_temporary(entry->d_name) || strlen(entry->d_name) >= TEMP_NAME_SIZE)
            continue;
        int fd = images_hold(images_fd, entry->d_name, LOCK_EX);
        if (fd < 0)
            continue;
        ret[n].fd = fd;
        (void)snprintf(ret[n].name, sizeof ret[n].name, "%.*s", TEMP_NAME_SIZE - 1, entry->d_name);
        n++;
    }
    (void)closedir(dir);
    return n;
}

void images_sweep_unlock(int images_fd)
{
    struct leftover leftovers[SWEEP_MAX];
    unsigned n = find_leftovers(images_fd, leftovers);
    images_unlock(images_fd);
    for (unsigned i = 0; i < n; i++) {
        // What cannot be removed stays for the next sweep; nothing depends on it.
        (void)tree_remove(images_fd, leftovers[i].name);
        fd_close(leftovers[i].fd);
    }
}

int image_sweep(int data_fd, struct err *err)
{
    auto_fd images = images_open(data_fd, /* create= */ false, err);
    if (images < 0)
        return err->code == ERR_NOT_FOUND ? 0 : -1;
    if (images_lock(images, err) < 0)
        return -1;
    images_sweep_unlock(images);
    return 0;
}

// -- drafts

int image_draft_make(int images_fd, const char *name, struct image_draft *ret, struct err *err)
{
    struct image_draft draft = IMAGE_DRAFT_NONE;
    (void)snprintf(draft.name, sizeof draft.name, "%s", name);
    do {
        temp_name(NEW_PREFIX, draft.temp);
    } while (is_taken(images_fd, draft.temp));
    if (mkdirat(images_fd, draft.temp, 0700) < 0)
        return err_sys(err, errno, "make a place for image '%s'", name);
    auto_fd dir = images_hold(images_fd, draft.temp, LOCK_EX);
    if (dir < 0)
        return err_sys(err, -dir, "lock the place for image '%s'", name);
    // On failure from here on the next sweep removes it.
    int r = tree_mkdir(dir, "rootfs", 0755, 0);
    auto_fd root = r < 0 ? r : tree_open_dir(dir, "rootfs");
    if (root < 0)
        return err_sys(err, -root, "make a root for image '%s'", name);
    draft.images_fd = fcntl(images_fd, F_DUPFD_CLOEXEC, 0);
    if (draft.images_fd < 0)
        return err_sys(err, errno, "make a place for image '%s'", name);
    draft.dir_fd = TAKE_FD(dir);
    draft.root_fd = TAKE_FD(root);
    *ret = draft;
    return 0;
}

static int refuse_taken(int images_fd, const char *name, struct err *err)
{
    if (!is_taken(images_fd, name))
        return 0;
    return err_set(err, ERR_CONFLICT,
                   "there is an image '%s' already ('cay image rm %s' removes it)", name, name);
}

int image_draft_begin(int data_fd, const char *name, struct image_draft *ret, struct err *err)
{
    if (strcmp(name, IMAGE_HOST) == 0)
        return err_set(err, ERR_INVALID,
                       "'host' is this machine's own image and makes itself: choose another name");
    auto_fd images = images_open(data_fd, /* create= */ true, err);
    if (images < 0 || images_lock(images, err) < 0)
        return -1;
    int r = refuse_taken(images, name, err);
    if (r == 0)
        r = image_draft_make(images, name, ret, err);
    images_sweep_unlock(images); // not the draft: we hold it
    return r;
}

int image_draft_meta(const struct image_draft *draft, const char *kind, uint64_t bytes,
                     struct err *err)
{
    char text[META_SIZE];
    int len = snprintf(text, sizeof text, "kind %s\nmade %lld\nbytes %llu\n", kind,
                       (long long)time(NULL), (unsigned long long)bytes);
    if (len < 0 || (size_t)len >= sizeof text)
        return err_set(err, ERR_INTERNAL, "image '%s' has too long a kind", draft->name);
    int r = tree_write(draft->dir_fd, "meta", text, (size_t)len, 0600);
    if (r < 0)
        return err_sys(err, -r, "describe image '%s'", draft->name);
    return 0;
}

int image_draft_rename(struct image_draft *draft, struct err *err)
{
    // First the lock, so that whoever finds the name can hold it.
    if (flock(draft->dir_fd, LOCK_SH | LOCK_NB) < 0)
        return err_sys(err, errno, "lock image '%s'", draft->name);
    if (renameat(draft->images_fd, draft->temp, draft->images_fd, draft->name) < 0)
        return err_sys(err, errno, "give image '%s' its name", draft->name);
    draft->temp[0] = '\0';
    return 0;
}

int image_draft_commit(struct image_draft *draft, const char *kind, struct tree_survey *ret,
                       struct err *err)
{
    struct tree_survey survey;
    int r = tree_survey(draft->root_fd, &survey);
    if (r == -ELOOP)
        return err_set(err, ERR_INVALID, "its directories are nested more than %d deep",
                       TREE_DEPTH_MAX);
    if (r < 0)
        return err_sys(err, -r, "look through the root of image '%s'", draft->name);
    if (image_draft_meta(draft, kind, survey.bytes, err) < 0)
        return -1;
    if (syncfs(draft->dir_fd) < 0) // the only place where writes that did not fit may show
        return err_sys(err, errno, "write image '%s' to disk", draft->name);
    if (images_lock(draft->images_fd, err) < 0)
        return -1;
    r = refuse_taken(draft->images_fd, draft->name, err);
    if (r == 0)
        r = image_draft_rename(draft, err);
    images_unlock(draft->images_fd);
    if (r == 0)
        *ret = survey;
    return r;
}

void image_draft_done(struct image_draft *draft)
{
    if (draft->images_fd >= 0 && draft->temp[0] != '\0')
        (void)tree_remove(draft->images_fd, draft->temp);
    fd_close(draft->root_fd);
    fd_close(draft->dir_fd);
    fd_close(draft->images_fd);
    *draft = (struct image_draft)IMAGE_DRAFT_NONE;
}

// -- removing

int image_remove(int data_fd, const char *name, struct err *err)
{
    if (image_name_check(name, err) < 0)
        return -1;
    auto_fd images = images_open(data_fd, /* create= */ false, err);
    if (images < 0) {
        if (err->code == ERR_NOT_FOUND)
            (void)err_set(err, ERR_NOT_FOUND, "there is no image '%s'", name);
        return -1;
    }
    if (images_lock(images, err) < 0)
        return -1;
    char trash[TEMP_NAME_SIZE];
    auto_fd held = images_hold(images, name, LOCK_EX);
    int r = held < 0 ? -1 : images_trash(images, name, trash, err);
    images_unlock(images);
    if (held == -ENOENT)
        return err_set(err, ERR_NOT_FOUND, "there is no image '%s'", name);
    if (held == -EWOULDBLOCK)
        return err_set(err, ERR_CONFLICT, "image '%s' is in use: a box stands on it", name);
    if (held < 0)
        return err_sys(err, -held, "open image '%s'", name);
    if (r < 0)
        return -1;
    r = tree_remove(images, trash);
    if (r < 0)
        return err_sys(err, -r, "image '%s' is gone by name, but not all of its files", name);
    return 0;
}

// -- the list

static void read_meta_at(int dir_fd, const char *path, struct image_info *info)
{
    char text[META_SIZE];
    if (fd_read_file(dir_fd, path, text, sizeof text) < 0)
        return;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "kind ", 5) == 0)
            (void)snprintf(info->kind, sizeof info->kind, "%.*s", IMAGE_KIND_MAX - 1, line + 5);
        else if (strncmp(line, "made ", 5) == 0)
            info->made = strtoll(line + 5, NULL, 10);
        else if (strncmp(line, "bytes ", 6) == 0)
            info->bytes = strtoull(line + 6, NULL, 10);
    }
}

static void read_meta(int images_fd, struct image_info *info)
{
    char path[IMAGE_NAME_MAX + sizeof "/meta"];
    (void)snprintf(path, sizeof path, "%s/meta", info->name);
    (void)snprintf(info->kind, sizeof info->kind, "unknown");
    read_meta_at(images_fd, path, info);
}

void image_read_kind(int dir_fd, char ret[IMAGE_KIND_MAX])
{
    struct image_info info = {.kind = ""};
    read_meta_at(dir_fd, "meta", &info);
    (void)snprintf(ret, IMAGE_KIND_MAX, "%s", info.kind);
}

static int by_name(const void *a, const void *b)
{
    const struct image_info *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static size_t read_list(int images_fd, struct image_info *infos, size_t n)
{
    DIR *dir = open_list(images_fd);
    if (dir == NULL)
        return n;
    const struct dirent *entry;
    while (n < IMAGE_COUNT_MAX && (entry = readdir(dir)) != NULL) {
        if (!image_name_valid(entry->d_name))
            continue;
        struct image_info *info = &infos[n];
        if (strcmp(entry->d_name, IMAGE_HOST) == 0)
            info = &infos[0];
        else
            n++;
        (void)snprintf(info->name, sizeof info->name, "%.*s", IMAGE_NAME_MAX - 1, entry->d_name);
        read_meta(images_fd, info);
    }
    (void)closedir(dir);
    return n;
}

int image_list(int data_fd, struct image_info **ret, size_t *ret_n, struct err *err)
{
    auto_fd images = images_open(data_fd, /* create= */ false, err);
    if (images < 0 && err->code != ERR_NOT_FOUND)
        return -1;
    struct image_info *infos = calloc(IMAGE_COUNT_MAX, sizeof *infos);
    if (infos == NULL)
        return err_sys(err, ENOMEM, "list images");
    infos[0] = (struct image_info){.name = IMAGE_HOST, .kind = IMAGE_HOST};
    size_t n = images < 0 ? 1 : read_list(images, infos, 1);
    qsort(infos, n, sizeof *infos, by_name);
    *ret = infos;
    *ret_n = n;
    return 0;
}
