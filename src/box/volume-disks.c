// SPDX-License-Identifier: Apache-2.0
// Disks by place and number: made, copied, moved, dropped, listed. Whoever reads this as a recipe
// for what a crash leaves: a copy is there under its name as a whole or not at all, and what the
// forge and PLACE_MAKING hold is swept away.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/volume-internal.h"

// --- names ---

static int place_dir(const struct volume *v, uint32_t place)
{
    switch (place) {
    case PLACE_KEPT:
        return v->kept;
    case PLACE_SNAPSHOT:
        return v->snaps;
    case PLACE_MAKING:
        return v->making;
    default:
        return -1;
    }
}

static int is_sharded(uint32_t place)
{
    return place != PLACE_KEPT;
}

static struct volume_name number_name(uint64_t number)
{
    struct volume_name name;
    (void)snprintf(name.text, sizeof name.text, "%" PRIu64, number);
    return name;
}

static struct volume_name shard_name(uint64_t number)
{
    struct volume_name name;
    (void)snprintf(name.text, sizeof name.text, "s%x", (unsigned)(number % VOLUME_SHARDS));
    return name;
}

// As seen from its place's directory.
static struct volume_name disk_name(struct disk_ref disk)
{
    struct volume_name name = number_name(disk.number);
    if (is_sharded(disk.place))
        (void)snprintf(name.text, sizeof name.text, "s%x/%" PRIu64,
                       (unsigned)(disk.number % VOLUME_SHARDS), disk.number);
    return name;
}

int volume_open_dir(int dir, const char *name, struct err *err)
{
    if (mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
        return err_sys(err, errno, "make '%s' on the volume", name);
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? err_sys(err, errno, "open '%s' on the volume", name) : fd;
}

int volume_make_shards(int dir, struct err *err)
{
    for (uint64_t i = 0; i < VOLUME_SHARDS; i++) {
        if (mkdirat(dir, shard_name(i).text, 0700) < 0 && errno != EEXIST)
            return err_sys(err, errno, "make a directory on the volume");
    }
    return 0;
}

// The directory that holds the disk's own name; the caller's.
static int open_parent(const struct volume *v, struct disk_ref disk)
{
    struct volume_name shard =
        is_sharded(disk.place) ? shard_name(disk.number) : (struct volume_name){"."};
    return openat(place_dir(v, disk.place), shard.text,
                  O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

// --- one disk ---

// A new subvolume of a directory: a snapshot of `from`, or an empty one when that is -1.
static int make(struct volume *v, int dir, const char *name, int from, uint64_t flags)
{
    struct btrfs_ioctl_vol_args_v2 args = {.fd = from, .flags = flags};
    (void)snprintf(args.name, sizeof args.name, "%s", name);
    volume_name_group(v, &args);
    unsigned long what = from >= 0 ? BTRFS_IOC_SNAP_CREATE_V2 : BTRFS_IOC_SUBVOL_CREATE_V2;
    return volume_ioctl(dir, what, &args);
}

static int drop_from(int dir, uint64_t number, struct err *err)
{
    struct btrfs_ioctl_vol_args args = {0};
    (void)snprintf(args.name, sizeof args.name, "%" PRIu64, number);
    if (volume_ioctl(dir, BTRFS_IOC_SNAP_DESTROY, &args) < 0 && errno != ENOENT)
        return err_sys(err, errno, "remove disk %" PRIu64, number);
    return 0;
}

static int open_limited(struct volume *v, int dir, const char *name, uint64_t bytes,
                        struct err *err)
{
    auto_fd fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return err_sys(err, errno, "open disk %s", name);
    return volume_limit(v, fd, bytes, err) < 0 ? -1 : TAKE_FD(fd);
}

int volume_make_blank(struct volume *v, uint64_t number, uint64_t bytes, struct err *err)
{
    struct volume_name name = number_name(number);
    if (make(v, v->blank, name.text, -1, 0) < 0)
        return err_sys(err, errno, "make disk %s", name.text);
    return open_limited(v, v->blank, name.text, bytes, err);
}

int volume_open_kept(struct volume *v, uint64_t number, uint64_t bytes, struct err *err)
{
    struct volume_name name = number_name(number);
    if (faccessat(v->kept, name.text, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
        make(v, v->kept, name.text, -1, 0) < 0)
        return err_sys(err, errno, "make disk %s", name.text);
    return open_limited(v, v->kept, name.text, bytes, err);
}

int volume_open_blank(struct volume *v, uint64_t number, struct err *err)
{
    struct volume_name name = number_name(number);
    int fd = openat(v->blank, name.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? err_sys(err, errno, "open disk %s", name.text) : fd;
}

int volume_has(const struct volume *v, struct disk_ref disk)
{
    return faccessat(place_dir(v, disk.place), disk_name(disk).text, F_OK, AT_SYMLINK_NOFOLLOW) ==
           0;
}

int volume_open_disk(struct volume *v, struct disk_ref disk, struct err *err)
{
    int fd = openat(place_dir(v, disk.place), disk_name(disk).text,
                    O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT)
        return err_set(err, ERR_NOT_FOUND, "there is no disk %" PRIu64, disk.number);
    return fd < 0 ? err_sys(err, errno, "open disk %" PRIu64, disk.number) : fd;
}

int volume_keep_blank(struct volume *v, uint64_t number, uint64_t kept, struct err *err)
{
    struct volume_name from = number_name(number), to = number_name(kept);
    if (renameat2(v->blank, from.text, v->kept, to.text, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno == EEXIST)
        return err_set(err, ERR_CONFLICT, "disk %s exists", to.text);
    return err_sys(err, errno, "keep disk %s", to.text);
}

int volume_drop_blank(struct volume *v, uint64_t number, struct err *err)
{
    return drop_from(v->blank, number, err);
}

int volume_drop(struct volume *v, struct disk_ref disk, struct err *err)
{
    auto_fd dir = open_parent(v, disk);
    if (dir < 0)
        return err_sys(err, errno, "remove disk %" PRIu64, disk.number);
    return drop_from(dir, disk.number, err);
}

// --- copies ---

// Waits until what was made or renamed in this directory would survive a power cut. Where a
// subvolume is concerned, Btrfs commits all of its transaction for that; data that others are
// writing is not waited for. (BTRFS_IOC_START_SYNC leaves the commit to the kernel's own thread,
// whose waking gets lost when several ask at once: then they wait for its next turn, which is 30 s
// later.)
static int commit(int dir, struct err *err)
{
    return fsync(dir) < 0 ? err_sys(err, errno, "commit the volume") : 0;
}

// Making the snapshot has written down all that counts, so that can be read before whoever was to
// stand still goes on.
static int make_copy(struct volume *v, int dir, int from, const struct volume_copy *how,
                     struct volume_copied *ret, struct err *err)
{
    const struct disk_ref to = how->to;
    uint64_t flags = from >= 0 && to.place == PLACE_SNAPSHOT ? BTRFS_SUBVOL_RDONLY : 0;
    if (make(v, dir, number_name(to.number).text, from, flags) == 0) {
        ret->bytes = from < 0 ? 0 : volume_disk_bytes(v, from);
        if (how->made != NULL)
            how->made(how->arg);
        return 0;
    }
    if (errno == EEXIST)
        return err_set(err, ERR_CONFLICT, "disk %" PRIu64 " exists", to.number);
    return err_sys(err, errno, "copy a disk to %" PRIu64, to.number);
}

// A snapshot inherits the number of the transaction that changed its source last, and all of that
// one is in it: the kernel makes snapshots while it commits, when nobody can change anything.
// Whatever changes a file changes its inode, and that number with it; what was written and not yet
// given a place on the disk, the kernel has given one before.
static void read_version(int copy, struct disk_version *ret)
{
    struct btrfs_ioctl_get_subvol_info_args info = {0};
    if (volume_ioctl(copy, BTRFS_IOC_GET_SUBVOL_INFO, &info) < 0)
        return; // before Linux 4.18
    ret->change = info.ctransid;
    memcpy(ret->disk, info.parent_uuid, sizeof ret->disk);
}

static int limit_copy(struct volume *v, int dir, const struct volume_copy *how,
                      struct volume_copied *ret, struct err *err)
{
    auto_fd fd = open_limited(v, dir, number_name(how->to.number).text, how->bytes, err);
    if (fd >= 0 && how->to.place == PLACE_MAKING)
        read_version(fd, &ret->version);
    return fd < 0 ? -1 : 0;
}

// An empty snapshot becomes one by a flag; the others were made with it.
static int seal(int dir, uint64_t number, struct err *err)
{
    uint64_t flags = BTRFS_SUBVOL_RDONLY;
    auto_fd fd = openat(dir, number_name(number).text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || volume_ioctl(fd, BTRFS_IOC_SUBVOL_SETFLAGS, &flags) < 0)
        return err_sys(err, errno, "make a snapshot read-only");
    return 0;
}

// Where it stays. The kernel commits a snapshot before it returns, but not an empty subvolume.
static int copy_in_place(struct volume *v, int from, const struct volume_copy *how,
                         struct volume_copied *ret, struct err *err)
{
    auto_fd dir = open_parent(v, how->to);
    int is_snapshot = how->to.place == PLACE_SNAPSHOT;
    if (dir < 0)
        return err_sys(err, errno, "copy a disk to %" PRIu64, how->to.number);
    if (make_copy(v, dir, from, how, ret, err) < 0)
        return -1;
    int r = is_snapshot ? 0 : limit_copy(v, dir, how, ret, err);
    if (r == 0 && is_snapshot && from < 0)
        r = seal(dir, how->to.number, err) < 0 ? -1 : commit(dir, err);
    if (r < 0)
        (void)drop_from(dir, how->to.number, &(struct err){0});
    return r;
}

static int install(struct volume *v, int dir, uint64_t number, struct err *err)
{
    struct volume_name name = number_name(number);
    if (renameat2(dir, name.text, v->kept, name.text, RENAME_NOREPLACE) == 0)
        return commit(v->kept, err);
    if (errno == EEXIST)
        return err_set(err, ERR_CONFLICT, "disk %s exists", name.text);
    return err_sys(err, errno, "copy a disk to %s", name.text);
}

static int copy_by_forge(struct volume *v, int from, const struct volume_copy *how,
                         struct volume_copied *ret, struct err *err)
{
    uint64_t number = how->to.number;
    auto_fd dir = openat(v->forge, shard_name(how->shard).text,
                         O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (dir < 0)
        return err_sys(err, errno, "copy a disk to %" PRIu64, number);
    (void)drop_from(dir, number, &(struct err){0}); // of one that was killed
    if (make_copy(v, dir, from, how, ret, err) < 0)
        return -1;
    int r = limit_copy(v, dir, how, ret, err);
    if (r == 0)
        r = install(v, dir, number, err);
    if (r < 0)
        (void)drop_from(dir, number, &(struct err){0});
    return r;
}

int volume_copy(struct volume *v, const struct volume_copy *how, struct volume_copied *ret,
                struct err *err)
{
    struct err missing = {0};
    auto_fd from = volume_open_disk(v, how->from, &missing);
    if (from < 0 && !(missing.code == ERR_NOT_FOUND && how->from.place == PLACE_KEPT)) {
        *err = missing;
        return -1;
    }
    // By the forge each takes one commit more, which those that run at once share. (An empty one is
    // not committed in its place at all.)
    int by_forge = how->to.place == PLACE_KEPT && (!how->alone || from < 0);
    return by_forge ? copy_by_forge(v, from, how, ret, err) : copy_in_place(v, from, how, ret, err);
}

// --- what has to be on the machine's disk ---

#define UNFLUSHED "unflushed" // beside `up`, where no box sees it

int volume_will_write(int disk_fd, struct err *err)
{
    auto_fd mark = openat(disk_fd, UNFLUSHED, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return mark < 0 ? err_sys(err, errno, "mark a disk as written to") : 0;
}

// What came here as a copy is on the machine's disk already; the others may have written since.
static int is_flushed(int disk, uint32_t place)
{
    return place == PLACE_MAKING && faccessat(disk, UNFLUSHED, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
           errno == ENOENT;
}

// Taking a snapshot writes all data of one subvolume, and of no other: syncfs would wait for what
// every box is writing. (So will we, where there is no room for a snapshot.)
static int flush(struct volume *v, int disk, uint64_t number, struct err *err)
{
    auto_fd dir =
        openat(v->forge, shard_name(number).text, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    (void)unlinkat(disk, UNFLUSHED, 0);
    if (dir >= 0)
        (void)drop_from(dir, number, &(struct err){0}); // of one that was killed
    if (dir >= 0 && make(v, dir, number_name(number).text, disk, BTRFS_SUBVOL_RDONLY) == 0)
        return drop_from(dir, number, err);
    return syncfs(disk) < 0 ? err_sys(err, errno, "write disk %" PRIu64 " down", number) : 0;
}

// Not the old one's name for a moment less than for ever: it is the new one from one commit to the
// next.
int volume_move(struct volume *v, struct disk_ref from, struct disk_ref to, struct err *err)
{
    auto_fd disk = volume_open_disk(v, from, err);
    if (disk < 0 || (!is_flushed(disk, from.place) && flush(v, disk, from.number, err) < 0))
        return -1;
    int from_dir = place_dir(v, from.place), to_dir = place_dir(v, to.place);
    struct volume_name from_name = disk_name(from), to_name = disk_name(to);
    if (renameat2(from_dir, from_name.text, to_dir, to_name.text, RENAME_NOREPLACE) == 0)
        return commit(to_dir, err);
    if (errno == EEXIST &&
        renameat2(from_dir, from_name.text, to_dir, to_name.text, RENAME_EXCHANGE) == 0) {
        if (commit(to_dir, err) < 0)
            return -1;
        (void)volume_drop(v, from, &(struct err){0}); // it has moved; if not now, it goes later
        return 0;
    }
    if (errno == ENOENT)
        return err_set(err, ERR_NOT_FOUND, "there is no disk %" PRIu64, from.number);
    return err_sys(err, errno, "move disk %" PRIu64, from.number);
}

// --- all of them ---

struct numbers {
    uint64_t *list;
    size_t n, room;
};

static int add_number(struct numbers *to, uint64_t number)
{
    if (to->n == to->room) {
        to->room = to->room > 0 ? to->room * 2 : 256;
        uint64_t *more = reallocarray(to->list, to->room, sizeof *more);
        if (more == NULL)
            return -ENOMEM;
        to->list = more;
    }
    to->list[to->n++] = number;
    return 0;
}

// Adds all numbers above one that the directory `name` of another has. 0 or -errno.
static int read_numbers(int at, const char *name, uint64_t above, struct numbers *to)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        fd_close(fd);
        return -errno;
    }
    int r = 0;
    for (struct dirent *e; r == 0 && (e = readdir(dir)) != NULL;) {
        char *end;
        uint64_t number = strtoull(e->d_name, &end, 10);
        if (e->d_name[0] >= '0' && e->d_name[0] <= '9' && *end == '\0' && number > above)
            r = add_number(to, number);
    }
    (void)closedir(dir);
    return r;
}

static int read_shards(int at, uint64_t above, struct numbers *to)
{
    int r = 0;
    for (uint64_t i = 0; r == 0 && i < VOLUME_SHARDS; i++)
        r = read_numbers(at, shard_name(i).text, above, to);
    return r;
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

int volume_list(struct volume *v, struct disk_ref above, uint64_t *ret, unsigned max,
                struct err *err)
{
    struct numbers found = {0};
    int dir = place_dir(v, above.place);
    int r = is_sharded(above.place) ? read_shards(dir, above.number, &found)
                                    : read_numbers(dir, ".", above.number, &found);
    if (r < 0) {
        free(found.list);
        return err_sys(err, -r, "list disks");
    }
    if (found.n > 0)
        qsort(found.list, found.n, sizeof *found.list, compare_numbers);
    size_t n = found.n < max ? found.n : max;
    if (n > 0)
        memcpy(ret, found.list, n * sizeof *ret);
    free(found.list);
    return (int)n;
}

static int sweep_dir(int at, const char *name, struct err *err)
{
    struct numbers found = {0};
    auto_fd dir = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    int r = dir < 0 ? -errno : read_numbers(dir, ".", 0, &found);
    if (r < 0)
        (void)err_sys(err, -r, "list disks");
    for (size_t i = 0; r == 0 && i < found.n; i++)
        r = drop_from(dir, found.list[i], err);
    free(found.list);
    return r;
}

int volume_sweep_blank(struct volume *v, struct err *err)
{
    return sweep_dir(v->blank, ".", err);
}

int volume_sweep(struct volume *v, struct err *err)
{
    int r = 0;
    for (uint64_t i = 0; r == 0 && i < VOLUME_SHARDS; i++) {
        r = sweep_dir(v->making, shard_name(i).text, err);
        if (r == 0)
            r = sweep_dir(v->forge, shard_name(i).text, err);
    }
    return r;
}
