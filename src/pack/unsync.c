// SPDX-License-Identifier: Apache-2.0
// A directory made of what was stored of it: directories and links as the index has them, and the
// files that come.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "pack/hash.h"
#include "pack/index.h"
#include "pack/pack-internal.h"
#include "pack/place.h"
#include "pack/record.h"
#include "pack/times.h"

enum { READ_SIZE = 256 * 1024 };

struct unsync {
    struct job *job;
    struct record_in *in;
    struct hash *hash;
    struct index index;
    char *index_text;
    struct place *place;
    struct times times;
    struct stat owner; // of the directory as it was: mode too
    char *block;
};

static int failed_at(const char *what, const char *path, struct err *err)
{
    char text[100];
    return err_sys(err, errno, "%s '%s'", what, shown(path, text));
}

static uint32_t id_of(uint32_t id)
{
    return id < JOB_IDS ? id : JOB_NOBODY;
}

static struct timespec time_of(int64_t ns)
{
    int64_t seconds = ns / NS_PER_S, part = ns % NS_PER_S;
    if (part < 0) {
        seconds--;
        part += NS_PER_S;
    }
    return (struct timespec){.tv_sec = seconds, .tv_nsec = part};
}

// --- the index ---

static int read_index(struct unsync *u, struct err *err)
{
    struct pack_record record;
    char path[PACK_PATH_MAX];
    if (record_next(u->in, &record, path, err) < 0)
        return -1;
    if (record.type != PACK_INDEX)
        return err_set(err, ERR_INVALID, "the index does not come first");
    u->index_text = malloc((size_t)record.size + 1);
    if (u->index_text == NULL)
        return err_set(err, ERR_EXHAUSTED, "no memory for the index");
    size_t len = 0;
    while (len < record.size) {
        ssize_t n = record_read(u->in, u->index_text + len, (size_t)record.size - len, err);
        if (n < 0)
            return -1;
        len += (size_t)n;
    }
    return index_parse(&u->index, u->index_text, len, err);
}

static int make_dir(struct unsync *u, int dir, const char *name, const struct index_entry *e,
                    struct err *err)
{
    struct timespec mtime = time_of(e->mtime_ns);
    if (mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
        return failed_at("make", e->path, err);
    auto_fd fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchown(fd, id_of(e->uid), id_of(e->gid)) < 0 || fchmod(fd, e->mode) < 0)
        return failed_at("make", e->path, err);
    int r = times_add(&u->times, e->path, &mtime);
    return r < 0 ? err_sys(err, -r, "remember the times of directories") : 0;
}

static int make_link(int dir, const char *name, const struct index_entry *e, struct err *err)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, time_of(e->mtime_ns)};
    if (symlinkat(e->target, dir, name) < 0 ||
        fchownat(dir, name, id_of(e->uid), id_of(e->gid), AT_SYMLINK_NOFOLLOW) < 0 ||
        utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0)
        return failed_at("make", e->path, err);
    return 0;
}

// In the order of the index, in which a directory comes before what is in it.
static int make_frame(struct unsync *u, struct err *err)
{
    for (size_t i = 0; i < u->index.n; i++) {
        const struct index_entry *e = &u->index.entries[i];
        const char *name;
        if (e->kind == 'f')
            continue;
        int dir = place_find(u->place, e->path, &name, err);
        if (dir < 0)
            return -1;
        int r = e->kind == 'd' ? make_dir(u, dir, name, e, err) : make_link(dir, name, e, err);
        if (r < 0)
            return -1;
        u->job->entries++;
    }
    return 0;
}

// --- files ---

static bool is_sum(const struct pack_record *record, const uint8_t sum[PACK_SHA256])
{
    static const uint8_t none[PACK_SHA256];
    return memcmp(record->sha256, none, sizeof none) == 0 ||
           memcmp(record->sha256, sum, sizeof none) == 0;
}

static int copy_content(struct unsync *u, int fd, const struct pack_record *record,
                        const char *path, struct err *err)
{
    uint8_t sum[PACK_SHA256];
    char text[100];
    uint64_t begun = 0, end = 0;
    ssize_t n;
    hash_begin(u->hash);
    while ((n = record_read(u->in, u->block, READ_SIZE, err)) > 0) {
        hash_add(u->hash, u->block, (size_t)n);
        int r = fd_write_all(fd, u->block, (size_t)n);
        if (r < 0) {
            errno = -r;
            return failed_at("write", path, err);
        }
        end += (uint64_t)n;
        begun = write_early(fd, begun, end, false);
    }
    (void)write_early(fd, begun, end, true);
    hash_end(u->hash, sum);
    if (n < 0)
        return -1;
    return is_sum(record, sum)
               ? 0
               : err_set(err, ERR_INVALID, "'%s' is not what was stored", shown(path, text));
}

static int open_new(int dir, const char *name)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(dir, name, flags, 0600);
    // It was a link or an empty directory when the index was written, and stored since.
    if (fd < 0 && errno == EEXIST &&
        (unlinkat(dir, name, 0) == 0 || unlinkat(dir, name, AT_REMOVEDIR) == 0))
        fd = openat(dir, name, flags, 0600);
    return fd;
}

static int make_file(struct unsync *u, const struct pack_record *record, const char *path,
                     struct err *err)
{
    const char *name;
    int dir = place_find(u->place, path, &name, err);
    if (dir < 0)
        return -1;
    auto_fd fd = open_new(dir, name);
    if (fd < 0)
        return failed_at("make", path, err);
    if (copy_content(u, fd, record, path, err) < 0)
        return -1;
    const struct index_entry *e = index_find(&u->index, path);
    bool is_known = e != NULL && e->kind == 'f';
    uint32_t uid = is_known ? id_of(e->uid) : u->owner.st_uid;
    uint32_t gid = is_known ? id_of(e->gid) : u->owner.st_gid;
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, time_of(record->mtime_ns)};
    if (fchown(fd, uid, gid) < 0 || fchmod(fd, record->mode) < 0 || futimens(fd, times) < 0)
        return failed_at("own", path, err);
    u->job->entries++;
    u->job->bytes += record->size;
    return 0;
}

static int make_files(struct unsync *u, struct err *err)
{
    struct pack_record record;
    char path[PACK_PATH_MAX];
    for (;;) {
        if (record_next(u->in, &record, path, err) < 0)
            return -1;
        if (record.type == PACK_END)
            return 0;
        if (record.type != PACK_PUT)
            return err_set(err, ERR_INVALID, "a record that does not belong here");
        if (make_file(u, &record, path, err) < 0)
            return -1;
    }
}

// --- the whole ---

// Of the directory as it is, or of the one that it will be in.
static int look_at_old(struct unsync *u, const struct tree_new *new, struct err *err)
{
    if (fstatat(new->parent, new->name, &u->owner, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    if (errno != ENOENT || fstat(new->parent, &u->owner) < 0)
        return failed_at("look at", new->name, err);
    u->owner.st_mode = 0755;
    return 0;
}

static int fill(struct unsync *u, const struct tree_new *new, struct err *err)
{
    u->in = record_in_new(u->job->in);
    u->hash = hash_new();
    u->block = malloc(READ_SIZE);
    if (u->in == NULL || u->hash == NULL || u->block == NULL)
        return err_set(err, ERR_EXHAUSTED, "no memory to restore with");
    u->place = place_new(new->fd, true, err);
    if (u->place == NULL || look_at_old(u, new, err) < 0)
        return -1;
    place_own(u->place, u->owner.st_uid, u->owner.st_gid);
    if (read_index(u, err) < 0 || make_frame(u, err) < 0 || make_files(u, err) < 0 ||
        times_apply(&u->times, u->place, err) < 0)
        return -1;
    if (fchown(new->fd, u->owner.st_uid, u->owner.st_gid) < 0 ||
        fchmod(new->fd, u->owner.st_mode & 07777) < 0)
        return failed_at("own", new->name, err);
    return 0;
}

int job_unsync(struct job *job, struct err *err)
{
    struct unsync u = {.job = job};
    struct tree_new new;
    (void)umask(0);
    if (tree_begin(job, &new, err) < 0)
        return -1;
    int r = fill(&u, &new, err);
    record_in_free(u.in);
    hash_free(u.hash);
    index_done(&u.index);
    free(u.index_text);
    place_free(u.place);
    times_done(&u.times);
    free(u.block);
    if (r == 0)
        r = tree_commit(job, &new, err);
    else
        tree_abort(&new);
    return r;
}
