// SPDX-License-Identifier: Apache-2.0
#include "box/root.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/weaken.h"

// A copy of the tree at `fd` as a mount of its own, shifted to the ids of `userns`. Sets *plain when the
// file system cannot be idmapped (overlayfs, when Cay itself runs in a container) and goes on without.
static int clone_tree(int fd, int userns, uint64_t attrs, int recursive, int *plain)
{
    unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH;
    unsigned set_flags = AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0);
    auto_fd tree = open_tree(fd, "", flags | (recursive ? AT_RECURSIVE : 0));
    if (tree < 0)
        return -errno;
    struct mount_attr shifted = {
        .attr_set = attrs | MOUNT_ATTR_IDMAP,
        .userns_fd = (uint64_t)userns,
    };
    if (userns >= 0 && mount_setattr(tree, "", set_flags, &shifted, sizeof shifted) == 0)
        return TAKE_FD(tree);
    struct mount_attr plainly = {.attr_set = attrs};
    *plain = 1;
    if (mount_setattr(tree, "", set_flags, &plainly, sizeof plainly) < 0)
        return -errno;
    return TAKE_FD(tree);
}

// --- overlay ---

int root_attach_layers;

void root_init(void)
{
    struct utsname name;
    int major, minor;
    if (uname(&name) == 0 && sscanf(name.release, "%d.%d", &major, &minor) == 2 &&
        (major < 6 || (major == 6 && minor < 15)))
        root_attach_layers = 1;
}

#define LAYER_DIR "/run/cay/layers" // in a mount namespace of our own

struct layer {
    const char *key, *old_key; // as of fsconfig; the older name where there is a newer
    int fd;                    // the mount
    const char *mount_name;    // below LAYER_DIR
    const char *path;          // in the mount
};

static int set_layer(int fs, const struct layer *layer)
{
    if (root_attach_layers) {
        char path[96];
        (void)snprintf(path, sizeof path, LAYER_DIR "/%s/%s", layer->mount_name, layer->path);
        return fsconfig(fs, FSCONFIG_SET_STRING, layer->old_key, path, 0) < 0 ? -errno : 0;
    }
    auto_fd dir = openat(layer->fd, layer->path, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (dir < 0)
        return -errno;
    return fsconfig(fs, FSCONFIG_SET_FD, layer->key, NULL, dir) < 0 ? -errno : 0;
}

static int make_layer_dirs(void)
{
    static int made;
    if (made)
        return 0;
    (void)mkdir("/run/cay", 0700);
    (void)mkdir(LAYER_DIR, 0700);
    if (mount("cay", LAYER_DIR, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700") < 0 ||
        mkdir(LAYER_DIR "/lower", 0700) < 0 || mkdir(LAYER_DIR "/disk", 0700) < 0)
        return -errno;
    made = 1;
    return 0;
}

static int attach_layers(int lower, int disk)
{
    int r = make_layer_dirs();
    if (r < 0)
        return r;
    if (move_mount(lower, "", AT_FDCWD, LAYER_DIR "/lower", MOVE_MOUNT_F_EMPTY_PATH) < 0 ||
        move_mount(disk, "", AT_FDCWD, LAYER_DIR "/disk", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

static void detach_layers(void)
{
    (void)umount2(LAYER_DIR "/lower", MNT_DETACH);
    (void)umount2(LAYER_DIR "/disk", MNT_DETACH);
}

static int make_work_dirs(int disk)
{
    static const char *const names[] = {"up", "work"};
    for (int i = 0; i < 2; i++) {
        if (mkdirat(disk, names[i], 0755) < 0 && errno != EEXIST)
            return -errno;
    }
    // A volatile mount leaves this mark against being mounted again. What could have been lost was lost
    // in a power cut only, which the volume itself recovers from.
    (void)unlinkat(disk, "work/work/incompat/volatile", AT_REMOVEDIR);
    return 0;
}

static int configure(int fs, int lower, int disk, int durable)
{
    const struct layer layers[] = {
        {"lowerdir+", "lowerdir", lower, "lower", "."   },
        {"upperdir",  "upperdir", disk,  "disk",  "up"  },
        {"workdir",   "workdir",  disk,  "disk",  "work"},
    };
    int r = 0;
    for (int i = 0; r == 0 && i < 3; i++)
        r = set_layer(fs, &layers[i]);
    // Unmounting an overlay syncs its whole volume, behind everybody's writes; not a volatile one.
    if (r == 0 && !durable && fsconfig(fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0) < 0)
        r = -errno;
    if (r == 0 && fsconfig(fs, FSCONFIG_SET_STRING, "source", "cay", 0) < 0)
        r = -errno;
    if (r == 0 && fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        r = -errno;
    return r;
}

static int mount_overlay(int lower, int disk, int durable)
{
    auto_fd fs = fsopen("overlay", FSOPEN_CLOEXEC);
    if (fs < 0)
        return -errno;
    int r = make_work_dirs(disk);
    if (r == 0)
        r = configure(fs, lower, disk, durable);
    if (r < 0)
        return r;
    uint64_t attrs = MOUNT_ATTR_RELATIME;
    attrs |= weaken(WEAKEN_NOSUID) ? 0 : MOUNT_ATTR_NOSUID;
    attrs |= weaken(WEAKEN_DEV) ? 0 : MOUNT_ATTR_NODEV;
    auto_fd mnt = fsmount(fs, FSMOUNT_CLOEXEC, (unsigned)attrs);
    struct statvfs st;
    if (mnt < 0 || fstatvfs(mnt, &st) < 0)
        return -errno;
    // An overlay that cannot make its work directory becomes read-only without a word.
    return st.f_flag & ST_RDONLY ? -EROFS : TAKE_FD(mnt);
}

// The mounter's file system ids must be ones that B knows, or the work directory cannot be made on an
// idmapped layer. The keeper has SECBIT_NO_SETUID_FIXUP, so its capabilities stay.
static int mount_overlay_as(uint32_t uid, int lower, int disk, int durable)
{
    (void)setfsuid(uid);
    (void)setfsgid(uid);
    int fd = mount_overlay(lower, disk, durable);
    (void)setfsuid(0);
    (void)setfsgid(0);
    return fd;
}

static int mount_layers(uint32_t uid, int lower, int disk, int durable)
{
    if (!root_attach_layers)
        return mount_overlay_as(uid, lower, disk, durable);
    int r = attach_layers(lower, disk);
    if (r == 0)
        r = mount_overlay_as(uid, lower, disk, durable);
    detach_layers();
    return r;
}

static int make_overlay(const struct image *image, const struct root_disk *disk, int userns,
                        uint32_t host_uid, struct root *root)
{
    auto_fd lower = clone_tree(image->root_fd, userns, MOUNT_ATTR_RDONLY, 0, &root->plain);
    if (lower < 0)
        return lower;
    if (!disk->idmap)
        return mount_layers(host_uid, lower, disk->fd, disk->durable);
    int failed = 0;
    auto_fd upper = clone_tree(disk->fd, userns, 0, 0, &failed);
    if (upper < 0 || failed)
        return failed ? -EOPNOTSUPP : upper;
    return mount_layers(host_uid, lower, upper, disk->durable);
}

static int make_binds(const struct image *image, int userns, struct root *root)
{
    uint64_t attrs = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV;
    attrs |= weaken(WEAKEN_NOSUID) ? 0 : MOUNT_ATTR_NOSUID;
    for (unsigned i = 0; i < image->n_binds; i++) {
        int fd = clone_tree(image->binds[i].fd, userns, attrs, 1, &root->plain);
        if (fd < 0)
            return fd;
        root->targets[root->n_binds] = image->binds[i].target;
        root->binds[root->n_binds++] = fd;
    }
    return 0;
}

int root_make(const struct image *image, const struct root_disk *disk, int userns, uint32_t host_uid,
              struct root *ret, struct err *err)
{
    struct root root = {.overlay = -1};
    root.overlay = make_overlay(image, disk, userns, host_uid, &root);
    if (root.overlay < 0)
        return err_sys(err, -root.overlay, "mount the root of a box");
    int r = make_binds(image, userns, &root);
    if (r < 0) {
        root_done(&root);
        return err_sys(err, -r, "bind the image of a box");
    }
    *ret = root;
    return 0;
}

void root_done(struct root *root)
{
    fd_close(root->overlay);
    root->overlay = -1;
    for (unsigned i = 0; i < root->n_binds; i++)
        fd_close(root->binds[i]);
    root->n_binds = 0;
}
