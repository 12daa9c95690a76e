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

// A copy of the tree at `fd` as a mount of its own, shifted to the ids of `userns`. Sets *plain
// when the file system cannot be idmapped (overlayfs, when Cay itself runs in a container) and goes
// on without.
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

// The same, as a layer of a root.
static int clone_layer(struct root *root, int fd, int userns, uint64_t attrs, int *plain)
{
    int tree = clone_tree(fd, userns, attrs, plain);
    if (tree >= 0)
        root->layers[root->n_layers++] = tree;
    return tree;
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
        mkdir(LAYER_DIR "/lower", 0700) < 0 || mkdir(LAYER_DIR "/disk", 0700) < 0 ||
        mkdir(LAYER_DIR "/tree", 0700) < 0)
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

static int make_work_dirs(int disk)
{
    if (mkdirat(disk, "up", 0755) < 0 && errno != EEXIST)
        return -errno;
    if (mkdirat(disk, "work", 0755) == 0)
        return 0;
    if (errno != EEXIST)
        return -errno;
    // A volatile mount leaves this mark against being mounted again. What could have been lost was
    // lost in a power cut only, which the volume itself recovers from.
    (void)unlinkat(disk, "work/work/incompat/volatile/dirty", 0);
    (void)unlinkat(disk, "work/work/incompat/volatile", AT_REMOVEDIR);
    return 0;
}

// Makes the overlay of what was set; -1 stands for a layer that could not be.
static int finish_overlay(int fs, int r)
{
    if (r < 0)
        return r;
    // No id of its own on the disk: it would only cost a write. Kernels before 6.6 have none
    // anyway.
    (void)fsconfig(fs, FSCONFIG_SET_STRING, "uuid", "null", 0);
    // Whatever the machine's default is: a disk must make sense without what it lay over, or it
    // could not be packed.
    if (fsconfig(fs, FSCONFIG_SET_STRING, "redirect_dir", "off", 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "metacopy", "off", 0) < 0)
        return -errno;
    if (fsconfig(fs, FSCONFIG_SET_STRING, "source", "cay", 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    uint64_t attrs = MOUNT_ATTR_RELATIME;
    attrs |= weaken(WEAKEN_NOSUID) ? 0 : MOUNT_ATTR_NOSUID;
    attrs |= weaken(WEAKEN_DEV) ? 0 : MOUNT_ATTR_NODEV;
    int fd = fsmount(fs, FSMOUNT_CLOEXEC, (unsigned)attrs);
    return fd < 0 ? -errno : fd;
}

static int set_layers(int fs, const struct layer *layers, int n)
{
    int r = 0;
    for (int i = 0; r == 0 && i < n; i++)
        r = set_layer(fs, &layers[i]);
    return r;
}

// The root itself: the image below, the disk above.
static int mount_root(int lower, int disk, int durable)
{
    auto_fd fs = fsopen("overlay", FSOPEN_CLOEXEC);
    const struct layer layers[] = {
        {"lowerdir+", "lowerdir", lower, "lower", "."   },
        {"upperdir",  "upperdir", disk,  "disk",  "up"  },
        {"workdir",   "workdir",  disk,  "disk",  "work"},
    };
    int r = fs < 0 ? -errno : make_work_dirs(disk);
    if (r == 0)
        r = set_layers(fs, layers, 3);
    // Unmounting an overlay syncs its whole volume, behind everybody's writes; not a volatile one.
    if (r == 0 && !durable && fsconfig(fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0) < 0)
        r = -errno;
    auto_fd mnt = finish_overlay(fs, r);
    struct statvfs st;
    if (mnt < 0 || fstatvfs(mnt, &st) < 0)
        return mnt < 0 ? mnt : -errno;
    // An overlay that cannot make its work directory becomes read-only without a word.
    return st.f_flag & ST_RDONLY ? -EROFS : TAKE_FD(mnt);
}

// A further tree of the image, read-only. Not simply bound: the files of a bind are the host's own,
// whose opening inotify reports and whose locks are one, for the host and for every box. An overlay
// without a disk must have two layers; the second is the empty directory that it is laid over.
static int mount_tree(int tree, int lower, const char *target)
{
    auto_fd fs = fsopen("overlay", FSOPEN_CLOEXEC);
    const struct layer layers[] = {
        {"lowerdir+", NULL, tree,  "tree",  "."   },
        {"lowerdir+", NULL, lower, "lower", target},
    };
    char both[96];
    int r = fs < 0 ? -errno : 0;
    if (r == 0 && root_attach_layers) {
        (void)snprintf(both, sizeof both, LAYER_DIR "/tree/.:" LAYER_DIR "/lower/%s", target);
        r = fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", both, 0) < 0 ? -errno : 0;
    } else if (r == 0) {
        r = set_layers(fs, layers, 2);
    }
    return finish_overlay(fs, r);
}

static int make_trees(const struct image *image, int lower, int userns, struct root *root)
{
    for (unsigned i = 0; i < image->n_binds; i++) {
        const struct image_bind *bind = &image->binds[i];
        int tree = clone_layer(root, bind->fd, userns, MOUNT_ATTR_RDONLY, &root->plain);
        int fd = tree < 0 ? tree : attach(tree, "tree");
        if (fd == 0)
            fd = mount_tree(tree, lower, bind->target);
        detach("tree");
        if (fd < 0)
            return fd;
        root->targets[root->n_binds] = bind->target;
        root->binds[root->n_binds++] = fd;
    }
    return 0;
}

static int make_all(const struct image *image, int disk, int userns, int durable, struct root *root)
{
    int lower = clone_layer(root, image->root_fd, userns, MOUNT_ATTR_RDONLY, &root->plain);
    if (lower < 0)
        return lower;
    int r = attach(lower, "lower");
    if (r == 0)
        r = root->overlay = mount_root(lower, disk, durable);
    if (r >= 0)
        r = make_trees(image, lower, userns, root);
    detach("lower");
    return r;
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

int root_make(const struct image *image, const struct root_disk *disk, int userns,
              uint32_t host_uid, struct root *ret, struct err *err)
{
    struct root root = {.overlay = -1};
    int failed = 0;
    int shifted = disk->idmap ? clone_layer(&root, disk->fd, userns, 0, &failed) : -1;
    if (disk->idmap && (shifted < 0 || failed)) {
        root_done(&root);
        return err_sys(err, shifted < 0 ? -shifted : EOPNOTSUPP, "idmap the disk of a box");
    }
    int r = make_all_as(host_uid, image, disk->idmap ? shifted : disk->fd, userns, disk->durable,
                        &root);
    if (r < 0) {
        root_done(&root);
        return err_sys(err, -r, "mount the root of a box");
    }
    *ret = root;
    return 0;
}

// --- a view for others ---

static int clone_plain(int fd, uint64_t attrs)
{
    auto_fd tree = open_tree(fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    struct mount_attr attr = {.attr_set = attrs};
    if (tree < 0 || (attrs != 0 && mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0))
        return -errno;
    return TAKE_FD(tree);
}

// What was written lies over the image, which must be two layers, as there is no upper one.
static int mount_read_only(int lower, int disk)
{
    auto_fd fs = fsopen("overlay", FSOPEN_CLOEXEC);
    const struct layer layers[] = {
        {"lowerdir+", NULL, disk,  "disk",  "up"},
        {"lowerdir+", NULL, lower, "lower", "." },
    };
    int r = fs < 0 ? -errno : 0;
    if (r == 0 && root_attach_layers)
        r = fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir",
                     LAYER_DIR "/disk/up:" LAYER_DIR "/lower/.", 0) < 0
                ? -errno
                : 0;
    else if (r == 0)
        r = set_layers(fs, layers, 2);
    return finish_overlay(fs, r);
}

static int mount_view(const struct image *image, int lower, int disk, int writable)
{
    if (writable)
        return mount_root(lower, disk, 0);
    // A disk that no box has used yet has nothing on it.
    if (faccessat(disk, "up", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return clone_plain(image->root_fd,
                           MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    return mount_read_only(lower, disk);
}

int root_view(const struct image *image, int disk_fd, int writable, struct err *err)
{
    auto_fd lower = clone_plain(image->root_fd, MOUNT_ATTR_RDONLY);
    auto_fd disk = clone_plain(disk_fd, writable ? 0 : MOUNT_ATTR_RDONLY);
    int r = lower < 0 ? lower : disk < 0 ? disk : attach(lower, "lower");
    if (r == 0)
        r = attach(disk, "disk");
    auto_fd view = r < 0 ? r : mount_view(image, lower, disk, writable);
    detach("disk");
    detach("lower");
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOEXEC};
    if (view >= 0 && mount_setattr(view, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        return err_sys(err, errno, "mount a disk and its image");
    return view < 0 ? err_sys(err, -view, "mount a disk and its image") : TAKE_FD(view);
}

void root_done(struct root *root)
{
    fd_close(root->overlay);
    root->overlay = -1;
    for (unsigned i = 0; i < root->n_binds; i++)
        fd_close(root->binds[i]);
    for (unsigned i = 0; i < root->n_layers; i++)
        fd_close(root->layers[i]);
    root->n_binds = root->n_layers = 0;
}
