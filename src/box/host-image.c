// SPDX-License-Identifier: Apache-2.0
// The image `host`: the machine's own /usr on a small root that is made up, with the parts of /etc
// that programs need to start (host-copy.h). Opening it when it is fresh is on the path of every
// box: a stamp is read and its inputs are looked at (host-stamp.h). When it is stale it is made
// again beside the old one, which boxes may still stand on, and the names are changed.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "box/host-copy.h"
#include "box/host-stamp.h"
#include "box/image-internal.h"
#include "box/tree.h"

// Where a system has programs and libraries beside /usr: links into it on a merged system,
// directories of their own on others.
static const char *const usr_parts[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

enum {
    N_USR_PARTS = sizeof usr_parts / sizeof usr_parts[0],
    LINK_SIZE = 256,
};

struct text_file {
    const char *path;
    const char *text;
};

static const struct text_file made_files[] = {
    {"etc/nsswitch.conf",
     "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
     "protocols: files\nservices: files\nethers: files\nrpc: files\n"               },
    {"etc/host.conf",     "multi on\n"                                              },
    {"etc/timezone",      "Etc/UTC\n"                                               },
    {"etc/shells",        "/bin/sh\n/bin/bash\n/usr/bin/sh\n/usr/bin/bash\n"        },
    {"etc/environment",
     "PATH=\"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/cay/bin\"\n"
     "LANG=\"C.UTF-8\"\n"                                                           },
    {"etc/profile",
     "# Read by login shells in the box.\n"
     "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/cay/bin\n"
     "export PATH\n"
     "if [ -n \"$BASH\" ] && [ -r /etc/bash.bashrc ]; then . /etc/bash.bashrc; fi\n"},
    {"etc/bash.bashrc",   "# Read by interactive shells in the box.\n"
                        "[ -z \"$PS1\" ] && return\n"
                        "shopt -s checkwinsize\n"
                        "PS1='\\u@\\h:\\w\\$ '\n"            },
 // su and runuser from root to another user; everybody else is refused.
    {"etc/pam.d/other",
     "auth sufficient pam_rootok.so\nauth required pam_deny.so\naccount required pam_permit.so\n"
     "password required pam_deny.so\nsession required pam_permit.so\n"              },
};

static const struct text_file made_links[] = {
    {"etc/os-release", "../usr/lib/os-release"      },
    {"etc/localtime",  "/usr/share/zoneinfo/Etc/UTC"},
};

static int write_texts(int root_fd)
{
    for (size_t i = 0; i < sizeof made_files / sizeof made_files[0]; i++) {
        const char *text = made_files[i].text;
        int r = tree_mkparents(root_fd, made_files[i].path);
        if (r == 0)
            r = tree_write(root_fd, made_files[i].path, text, strlen(text), 0644);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < sizeof made_links / sizeof made_links[0]; i++) {
        int r = tree_symlink(root_fd, made_links[i].path, made_links[i].text);
        if (r < 0)
            return r;
    }
    return 0;
}

// usr/ to bind on, and bin, lib... as the machine has them.
static int make_usr_parts(int source_fd, int root_fd, struct buf *stamp)
{
    int r = tree_mkdir(root_fd, "usr", 0755, 0);
    for (int i = 0; i < N_USR_PARTS && r == 0; i++) {
        host_stamp_add(stamp, source_fd, usr_parts[i]);
        char target[LINK_SIZE];
        ssize_t len = readlinkat(source_fd, usr_parts[i], target, sizeof target - 1);
        struct stat st;
        if (len > 0 && len < LINK_SIZE - 1) {
            target[len] = '\0';
            const char *inside = target[0] == '/' ? target + 1 : target;
            if (strncmp(inside, "usr/", 4) == 0 && strstr(inside, "..") == NULL)
                r = tree_symlink(root_fd, usr_parts[i], inside);
        } else if (fstatat(source_fd, usr_parts[i], &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                   S_ISDIR(st.st_mode)) {
            r = tree_mkdir(root_fd, usr_parts[i], 0755, 0);
        }
    }
    return r;
}

// `python` beside `python3`, at the end of the PATH: /usr is the machine's and cannot be added to.
static int make_python(int source_fd, int root_fd, struct buf *stamp)
{
    host_stamp_add(stamp, source_fd, "usr/bin/python");
    host_stamp_add(stamp, source_fd, "usr/bin/python3");
    struct stat st;
    if (fstatat(source_fd, "usr/bin/python3", &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        fstatat(source_fd, "usr/bin/python", &st, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    int r = tree_mkparents(root_fd, "opt/cay/bin/python");
    return r < 0 ? r : tree_symlink(root_fd, "opt/cay/bin/python", "/usr/bin/python3");
}

static int fill_root(int source_fd, int root_fd, struct buf *stamp, struct err *err)
{
    host_stamp_begin(stamp);
    host_stamp_add(stamp, source_fd, "etc");
    int r = make_usr_parts(source_fd, root_fd, stamp);
    if (r < 0)
        return err_sys(err, -r, "make the root of image 'host'");
    if (image_prepare(root_fd, err) < 0)
        return -1;
    r = write_texts(root_fd);
    if (r == 0)
        r = make_python(source_fd, root_fd, stamp);
    if (r < 0)
        return err_sys(err, -r, "make the root of image 'host'");
    struct host_copy copy = {.from_fd = source_fd, .to_fd = root_fd, .stamp = stamp};
    r = host_copy_etc(&copy);
    if (r < 0)
        return err_sys(err, -r, "copy parts of /etc to image 'host'");
    return 0;
}

int host_root_fill(int source_fd, int root_fd, struct err *err)
{
    auto_buf stamp; // of no use: such an image is not made anew by itself
    buf_init(&stamp, HOST_STAMP_MAX - 1);
    return fill_root(source_fd, root_fd, &stamp, err);
}

static int fill_draft(struct image_draft *draft, int source_fd, struct err *err)
{
    auto_buf stamp;
    buf_init(&stamp, HOST_STAMP_MAX - 1);
    if (fill_root(source_fd, draft->root_fd, &stamp, err) < 0)
        return -1;
    struct tree_survey survey;
    int r = tree_survey(draft->root_fd, &survey);
    if (r == 0)
        r = stamp.failed;
    if (r == 0)
        r = tree_write(draft->dir_fd, "stamp", stamp.data, stamp.len, 0600);
    if (r < 0)
        return err_sys(err, -r, "stamp image 'host'");
    return image_draft_meta(draft, IMAGE_HOST, survey.bytes, err);
}

// Takes the old image out of its name. It is deleted by the sweep once no box stands on it.
static int put_old_aside(int images_fd, struct err *err)
{
    struct stat st;
    if (fstatat(images_fd, IMAGE_HOST, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    char trash[TEMP_NAME_SIZE];
    return images_trash(images_fd, IMAGE_HOST, trash, err);
}

static bool is_fresh(int dir_fd, int source_fd)
{
    char stamp[HOST_STAMP_MAX];
    return fd_read_file(dir_fd, "stamp", stamp, sizeof stamp) > 0 &&
           host_stamp_fresh(stamp, source_fd);
}

// Holds the image when it is there and fresh; -1 when not.
static int hold_fresh(int images_fd, int source_fd)
{
    auto_fd dir = images_hold(images_fd, IMAGE_HOST, LOCK_SH);
    if (dir < 0 || !is_fresh(dir, source_fd))
        return -1;
    return TAKE_FD(dir);
}

// Makes the image, or waits for whoever is making it. The descriptor holds it.
static int make_fresh(int data_fd, int source_fd, struct err *err)
{
    auto_fd images = images_open(data_fd, /* create= */ true, err);
    if (images < 0 || images_lock(images, err) < 0)
        return -1;
    auto_fd dir = hold_fresh(images, source_fd);
    if (dir < 0) {
        struct image_draft draft = IMAGE_DRAFT_NONE;
        if (image_draft_make(images, IMAGE_HOST, &draft, err) == 0 &&
            fill_draft(&draft, source_fd, err) == 0 && put_old_aside(images, err) == 0 &&
            image_draft_rename(&draft, err) == 0)
            dir = TAKE_FD(draft.dir_fd);
        image_draft_done(&draft);
    }
    images_sweep_unlock(images);
    return TAKE_FD(dir);
}

int host_binds_open(int source_fd, struct image *image, struct err *err)
{
    enum { FLAGS = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
    int usr = openat(source_fd, "usr", FLAGS);
    if (usr < 0)
        return err_sys(err, errno, "open /usr");
    image->binds[image->n_binds++] = (struct image_bind){.fd = usr, .target = "usr"};
    for (int i = 0; i < N_USR_PARTS; i++) {
        int fd = openat(source_fd, usr_parts[i], FLAGS); // ENOTDIR on a merged system: a link
        if (fd >= 0)
            image->binds[image->n_binds++] = (struct image_bind){.fd = fd, .target = usr_parts[i]};
    }
    return 0;
}

int host_image_open(int data_fd, int source_fd, struct image *ret, struct err *err)
{
    struct image image = {.root_fd = -1, .lock_fd = -1};
    {
        struct err missing = {0};
        auto_fd images = images_open(data_fd, /* create= */ false, &missing);
        if (images >= 0)
            image.lock_fd = hold_fresh(images, source_fd);
    }
    if (image.lock_fd < 0)
        image.lock_fd = make_fresh(data_fd, source_fd, err);
    if (image.lock_fd < 0)
        return -1;
    image.root_fd = openat(image.lock_fd, "rootfs", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = image.root_fd < 0 ? err_sys(err, errno, "open the root of image 'host'")
                              : host_binds_open(source_fd, &image, err);
    if (r < 0) {
        image_done(&image);
        return -1;
    }
    *ret = image;
    return 0;
}
