// SPDX-License-Identifier: Apache-2.0
#include "box/image.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/image-internal.h"
#include "box/recipe.h"

bool image_name_valid(const char *name)
{
    static const char alnum[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    static const char rest[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t len = strlen(name);
    return len > 0 && len < IMAGE_NAME_MAX && strchr(alnum, name[0]) != NULL &&
           strspn(name, rest) == len;
}

int image_name_check(const char *name, struct err *err)
{
    if (image_name_valid(name))
        return 0;
    return err_set(
        err, ERR_INVALID,
        "'%.80s' cannot name an image: use up to 63 of a-z 0-9 . _ - and begin with a letter or digit",
        name);
}

static int missing(const char *name, struct err *err)
{
    if (recipe_find(name) != NULL)
        return err_set(err, ERR_NOT_FOUND,
                       "there is no image '%s' yet: 'cay image build %s' makes it", name, name);
    return err_set(
        err, ERR_NOT_FOUND,
        "there is no image '%s' ('cay image ls' shows those there are, 'cay image build' "
        "and 'cay image import' make one)",
        name);
}

// Whose /usr is this machine's has it laid over its root, as `host` has.
static int open_binds(struct image *image, struct err *err)
{
    char kind[IMAGE_KIND_MAX];
    image_read_kind(image->lock_fd, kind);
    if (strcmp(kind, IMAGE_HOST) != 0)
        return 0;
    auto_fd source = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return source < 0 ? err_sys(err, errno, "open /") : host_binds_open(source, image, err);
}

static int open_named(int images_fd, const char *name, struct image *ret, struct err *err)
{
    enum { TRIES = 5 };
    auto_fd lock = -1;
    for (int i = 0; i < TRIES; i++) {
        lock = images_hold(images_fd, name, LOCK_SH);
        if (lock != -EWOULDBLOCK)
            break;
        // Somebody asks whether it may be removed: a moment later it is gone, or free again.
        (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    if (lock == -ENOENT)
        return missing(name, err);
    if (lock == -EWOULDBLOCK)
        return err_set(err, ERR_UNAVAILABLE, "image '%s' is being removed", name);
    if (lock < 0)
        return err_sys(err, -lock, "open image '%s'", name);
    int root = openat(lock, "rootfs", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (root < 0)
        return err_sys(err, errno, "open the root of image '%s'", name);
    struct image image = {.root_fd = root, .lock_fd = TAKE_FD(lock)};
    if (open_binds(&image, err) < 0) {
        image_done(&image);
        return -1;
    }
    *ret = image;
    return 0;
}

int image_open(int data_fd, const char *name, struct image *ret, struct err *err)
{
    if (image_name_check(name, err) < 0)
        return -1;
    if (strcmp(name, IMAGE_HOST) == 0) {
        auto_fd source = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (source < 0)
            return err_sys(err, errno, "open /");
        return host_image_open(data_fd, source, ret, err);
    }
    auto_fd images = images_open(data_fd, /* create= */ false, err);
    if (images < 0) {
        return err->code == ERR_NOT_FOUND ? missing(name, err) : -1;
    }
    return open_named(images, name, ret, err);
}

void image_done(struct image *image)
{
    for (unsigned i = 0; i < image->n_binds; i++)
        fd_close(image->binds[i].fd);
    fd_close(image->root_fd);
    fd_close(image->lock_fd);
    *image = (struct image){.root_fd = -1, .lock_fd = -1};
}
