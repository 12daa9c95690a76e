// SPDX-License-Identifier: Apache-2.0
#include "box/root.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
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
static int clone_tree(int fd, int userns, uint64_t attrs, int *plain)
{
    auto_fd tree = open_tree(fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    if (tree < 0)
        return -errno;
    struct mount_attr shifted = {
        .attr_set = attrs | MOUNT_ATTR_IDMAP,
        .userns_fd = (uint64_t)userns,
    };
    if (mount_setattr(tree, "", AT_EMPTY_PATH, &shifted, sizeof shifted) == 0)
        return TAKE_FD(tree);
    struct mount_attr plainly = {.attr_set = attrs};
    *plain = 1;
    if (attrs != 0 && mount_setattr(tree, "", AT_EMPTY_PATH, &plainly, sizeof plainly) < 0)
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

// Hangs a mount below LAYER_DIR, where older kernels want to find it.
static int attach(int mnt, const char *name)
{
    char path[64];
    int r = root_attach_layers ? make_layer_dirs() : 0;
    if (r < 0 || !root_attach_layers)
        return r;
    (void)snprintf(path, sizeof path, LAYER_DIR "/%s", name);
    return move_mount(mnt, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

static void detach(const char *name)
{
    char path[64];
    (void)snprintf(path, sizeof path, LAYER_DIR "/%s", name);
    if (root_attach_layers)
        (void)umount2(path, MNT_DETACH);
}

// Where an overlay keeps what is written: "up" and "work" on the disk for the root itself, "up.usr" and
// "work.usr" for what is bound on its /usr.
struct place {
    char up[GUEST_TARGET_MAX + 8], work[GUEST_TARGET_MAX + 8];
};

static struct place place_of(const char *target)
{
    struct place place;
    const char *dot = target != NULL ? "." : "";
    target = target != NULL ? target : "";
    (void)snprintf(place.up, sizeof place.up, "up%s%s", dot, target);
    (void)snprintf(place.work, sizeof place.work, "work%s%s", dot, target);
    return place;
}

static int make_work_dirs(int disk, const struct place *place)
{
    char mark[GUEST_TARGET_MAX + 48];
    if (mkdirat(disk, place->up, 0755) < 0 && errno != EEXIST)
        return -errno;
    if (mkdirat(disk, place->work, 0755) < 0) {
        if (errno != EEXIST)
            return -errno;
        // A volatile mount leaves this mark against being mounted again. What could have been lost was
        // lost in a power cut only, which the volume itself recovers from.
        (void)snprintf(mark, sizeof mark, "%s/work/incompat/volatile/dirty", place->work);
        (void)unlinkat(disk, mark, 0);
        mark[strlen(mark) - strlen("/dirty")] = '\0';
        (void)unlinkat(disk, mark, AT_REMOVEDIR);
    }
    return 0;
}

static int configure(int fs, int lower, int disk, const struct place *place, int durable)
{
    const struct layer layers[] = {
        {"lowerdir+", "lowerdir", lower, "lower", "."        },
        {"upperdir",  "upperdir", disk,  "disk",  place->up  },
        {"workdir",   "workdir",  disk,  "disk",  place->work},
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

static int mount_overlay(int lower, int disk, const struct place *place, int durable)
{
    auto_fd fs = fsopen("overlay", FSOPEN_CLOEXEC);
    if (fs < 0)
        return -errno;
    int r = make_work_dirs(disk, place);
    if (r == 0)
        r = configure(fs, lower, disk, place, durable);
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

// The image's tree at `fd` with the disk above it.
static int overlay(int fd, const char *target, int disk, int userns, int durable, int *plain)
{
    struct place place = place_of(target);
    auto_fd lower = clone_tree(fd, userns, MOUNT_ATTR_RDONLY, plain);
    if (lower < 0)
        return lower;
    int r = attach(lower, "lower");
    if (r == 0)
        r = mount_overlay(lower, disk, &place, durable);
    detach("lower");
    return r;
}

// The root, and on it what else the image consists of. Not simply bound: the files of a bind are the
// host's own, whose opening inotify reports and whose locks are one, for the host and for every box.
static int make_all(const struct image *image, int disk, int userns, int durable, struct root *root)
{
    root->overlay = overlay(image->root_fd, NULL, disk, userns, durable, &root->plain);
    if (root->overlay < 0)
        return root->overlay;
    for (unsigned i = 0; i < image->n_binds; i++) {
        const struct image_bind *bind = &image->binds[i];
        int fd = overlay(bind->fd, bind->target, disk, userns, durable, &root->plain);
        if (fd < 0)
            return fd;
        root->targets[root->n_binds] = bind->target;
        root->binds[root->n_binds++] = fd;
    }
    return 0;
}

// The mounter's file system ids must be ones that B knows, or a work directory cannot be made on an
// idmapped layer. The keeper has SECBIT_NO_SETUID_FIXUP, so its capabilities stay.
static int make_all_as(uint32_t uid, const struct image *image, int disk, int userns, int durable,
                       struct root *root)
{
    (void)setfsuid(uid);
    (void)setfsgid(uid);
    int r = attach(disk, "disk");
    if (r == 0)
        r = make_all(image, disk, userns, durable, root);
    detach("disk");
    (void)setfsuid(0);
    (void)setfsgid(0);
    return r;
}

int root_make(const struct image *image, const struct root_disk *disk, int userns, uint32_t host_uid,
              struct root *ret, struct err *err)
{
    struct root root = {.overlay = -1};
    int failed = 0;
    auto_fd shifted = disk->idmap ? clone_tree(disk->fd, userns, 0, &failed) : -1;
    if (disk->idmap && (shifted < 0 || failed))
        return err_sys(err, shifted < 0 ? -shifted : EOPNOTSUPP, "idmap the disk of a box");
    int r = make_all_as(host_uid, image, disk->idmap ? shifted : disk->fd, userns, disk->durable, &root);
    if (r < 0) {
        root_done(&root);
        return err_sys(err, -r, "mount the root of a box");
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
