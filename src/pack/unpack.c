// SPDX-License-Identifier: Apache-2.0
// An archive of a stranger's into a directory. All of it goes into a new directory, so what it says
// can only refer to itself; and nothing is there under its name before all of it is.
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "pack/attr.h"
#include "pack/pack-internal.h"
#include "pack/place.h"
#include "pack/source.h"
#include "pack/times.h"

enum {
    BLOCK_SIZE = 512,             // of a tar
    TRAIL_MAX = 64 * 1024 * 1024, // what may follow the end of an archive
    HEADERS_MAX = 8192,           // bytes of an entry's headers, on average
};

struct unpacker {
    struct job *job;
    struct source *source;
    struct archive *archive;
    struct place *place, *targets; // of entries; of what hard links are to
    struct times times;
    struct err source_err;
    uint64_t trail;
};

// --- the archive ---

static la_ssize_t read_in(struct archive *archive, void *arg, const void **ret)
{
    struct unpacker *u = arg;
    size_t len;
    int r = source_next(u->source, ret, &len, &u->source_err);
    if (r < 0)
        archive_set_error(archive, EIO, "read the archive");
    return r < 0 ? ARCHIVE_FATAL : r == 0 ? 0 : (la_ssize_t)len;
}

static int archive_failed(struct unpacker *u, struct err *err)
{
    const char *why = archive_error_string(u->archive);
    if (u->source_err.code != ERR_NONE) {
        *err = u->source_err;
        return -1;
    }
    char text[100];
    return err_set(err, ERR_INVALID, "not an archive, or a damaged one: %s",
                   shown(why != NULL ? why : "no reason", text));
}

static uint64_t sum_or_max(uint64_t a, uint64_t b)
{
    return a < UINT64_MAX - b ? a + b : UINT64_MAX;
}

static int open_archive(struct unpacker *u, struct err *err)
{
    static int (*const filters[])(struct archive *) = {
        archive_read_support_filter_gzip,     archive_read_support_filter_bzip2,
        archive_read_support_filter_xz,       archive_read_support_filter_lzma,
        archive_read_support_filter_lz4,      archive_read_support_filter_lzip,
        archive_read_support_filter_compress,
    };
    uint64_t headers = u->job->max_entries < UINT64_MAX / HEADERS_MAX
                           ? u->job->max_entries * HEADERS_MAX
                           : UINT64_MAX;
    u->source =
        source_new(u->job->in, sum_or_max(sum_or_max(u->job->max_bytes, headers), TRAIL_MAX), err);
    if (u->source == NULL)
        return -1;
    u->archive = archive_read_new();
    if (u->archive == NULL)
        return err_set(err, ERR_EXHAUSTED, "no memory to unpack with");
    int r = archive_read_support_format_tar(u->archive);
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        (void)filters[i](u->archive); // one that this library lacks: then it knows it not
    if (r != ARCHIVE_OK || archive_read_open(u->archive, u, NULL, read_in, NULL) != ARCHIVE_OK)
        return archive_failed(u, err);
    return 0;
}

// Behind its end may be padding, of which the sum of a compression is part too.
static int drain(struct unpacker *u, struct err *err)
{
    const void *data;
    size_t len;
    int r;
    while ((r = source_next(u->source, &data, &len, err)) == 1) {
        u->trail += len;
        if (u->trail > TRAIL_MAX)
            return err_set(err, ERR_INVALID, "too much follows the end of the archive");
    }
    return r;
}

// --- entries ---

// What no sound archive brings about is the archive's fault.
static bool is_archives_fault(int sys_errno)
{
    static const int faults[] = {ENOENT,    EEXIST,       ENOTDIR, EISDIR, ELOOP,
                                 ENOTEMPTY, ENAMETOOLONG, EINVAL,  EMLINK, EFBIG};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        if (faults[i] == sys_errno)
            return true;
    }
    return false;
}

static int failed_at(struct archive_entry *entry, const char *what, struct err *err)
{
    char text[100];
    (void)err_sys(err, errno, "%s '%s'", what, shown(archive_entry_pathname(entry), text));
    if (is_archives_fault(err->sys_errno))
        err->code = ERR_INVALID;
    return -1;
}

static int refused(struct archive_entry *entry, const char *why, struct err *err)
{
    char text[100];
    return err_set(err, ERR_INVALID, "'%s' is %s", shown(archive_entry_pathname(entry), text), why);
}

static uint32_t id_of(la_int64_t id)
{
    return id >= 0 && id < JOB_IDS ? (uint32_t)id : JOB_NOBODY;
}

static void times_of(struct archive_entry *entry, struct timespec ret[2])
{
    ret[0] = (struct timespec){.tv_nsec = UTIME_OMIT};
    ret[1] = (struct timespec){.tv_nsec = UTIME_OMIT};
    long ns = archive_entry_mtime_nsec(entry);
    if (archive_entry_mtime_is_set(entry))
        ret[1] = (struct timespec){.tv_sec = archive_entry_mtime(entry),
                                   .tv_nsec = ns >= 0 && ns < 1000000000 ? ns : 0};
}

// What is in the way of a name that comes a second time: the last one counts.
static int clear_way(struct unpacker *u, int dir, const char *name, bool is_dir)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (is_dir && S_ISDIR(st.st_mode))
        return 1;
    if (S_ISDIR(st.st_mode))
        place_forget(u->targets); // it may be open there
    return unlinkat(dir, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0 ? -errno : 0;
}

// Owner and mode, attributes in between: a change of owner takes special bits away.
static int dress(struct unpacker *u, int fd, struct archive_entry *entry, struct err *err)
{
    mode_t mode = archive_entry_mode(entry) & 07777;
    uint32_t uid = id_of(archive_entry_uid(entry)), gid = id_of(archive_entry_gid(entry));
    bool is_ours = uid == 0 && gid == 0;
    if (!is_ours && fchown(fd, uid, gid) < 0)
        return failed_at(entry, "own", err);
    if (attr_write(fd, u->job->is_disk, entry, err) < 0)
        return -1;
    if (fchmod(fd, mode) < 0)
        return failed_at(entry, "permit", err);
    return 0;
}

static int make_dir(struct unpacker *u, int dir, const char *name, struct archive_entry *entry,
                    struct err *err)
{
    bool is_top = strcmp(name, ".") == 0;
    int r = is_top ? 1 : clear_way(u, dir, name, true);
    if (r == 0 && mkdirat(dir, name, 0700) < 0)
        r = -errno;
    auto_fd fd = r < 0 ? -1 : openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (r >= 0 && fd < 0)
        r = -errno;
    if (r < 0) {
        errno = -r;
        return failed_at(entry, "make", err);
    }
    if (dress(u, fd, entry, err) < 0)
        return -1;
    struct timespec times[2];
    times_of(entry, times);
    r = times_add(&u->times, archive_entry_pathname(entry), &times[1]);
    return r < 0 ? err_sys(err, -r, "remember the times of directories") : 0;
}

static int write_at(int fd, const char *data, size_t len, off_t at)
{
    while (len > 0) {
        ssize_t n = pwrite(fd, data, len, at);
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0) {
            data += n;
            len -= (size_t)n;
            at += n;
        }
    }
    return 0;
}

static int count_bytes(struct unpacker *u, size_t len, struct err *err)
{
    if (len > u->job->max_bytes - u->job->bytes)
        return err_set(err, ERR_EXHAUSTED, "the archive holds more than %llu bytes",
                       (unsigned long long)u->job->max_bytes);
    u->job->bytes += len;
    return 0;
}

static int write_content(struct unpacker *u, int fd, struct archive_entry *entry, struct err *err)
{
    const void *data;
    size_t len;
    la_int64_t at, end = 0, size = archive_entry_size(entry);
    uint64_t begun = 0;
    int r;
    while ((r = archive_read_data_block(u->archive, &data, &len, &at)) == ARCHIVE_OK) {
        if (at < end || (la_int64_t)len > size - at)
            return refused(entry, "larger than it says", err);
        if (count_bytes(u, len, err) < 0)
            return -1;
        int written = write_at(fd, data, len, at);
        if (written < 0) {
            errno = -written;
            return failed_at(entry, "write", err);
        }
        end = at + (la_int64_t)len;
        begun = write_early(fd, begun, (uint64_t)end, false);
    }
    (void)write_early(fd, begun, (uint64_t)end, true);
    if (r != ARCHIVE_EOF)
        return archive_failed(u, err);
    // A hole at its end.
    if (end < size && ftruncate(fd, size) < 0)
        return failed_at(entry, "write", err);
    return 0;
}

static int make_file(struct unpacker *u, int dir, const char *name, struct archive_entry *entry,
                     struct err *err)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    if (!archive_entry_size_is_set(entry) || archive_entry_size(entry) < 0)
        return refused(entry, "a file without a size", err);
    auto_fd fd = openat(dir, name, flags, 0600);
    if (fd < 0 && errno == EEXIST && clear_way(u, dir, name, false) == 0)
        fd = openat(dir, name, flags, 0600);
    if (fd < 0)
        return failed_at(entry, "make", err);
    if (write_content(u, fd, entry, err) < 0 || dress(u, fd, entry, err) < 0)
        return -1;
    struct timespec times[2];
    times_of(entry, times);
    return futimens(fd, times) < 0 ? failed_at(entry, "date", err) : 0;
}

// To something that came before; itself, if it is a link.
static int make_hard_link(struct unpacker *u, int dir, const char *name,
                          struct archive_entry *entry, struct err *err)
{
    const char *target;
    int from = place_find(u->targets, archive_entry_hardlink(entry), &target, err);
    if (from < 0)
        return -1;
    struct stat st, old;
    if (fstatat(from, target, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return failed_at(entry, "find what is linked to by", err);
    if (S_ISDIR(st.st_mode))
        return refused(entry, "a hard link to a directory", err);
    if (fstatat(dir, name, &old, AT_SYMLINK_NOFOLLOW) == 0) {
        if (old.st_ino == st.st_ino && old.st_dev == st.st_dev)
            return 0; // to itself
        if (clear_way(u, dir, name, false) < 0)
            return failed_at(entry, "make", err);
        // What was in the way may have been a directory, and then nothing is open any more.
        from = place_find(u->targets, archive_entry_hardlink(entry), &target, err);
        if (from < 0)
            return -1;
    }
    return linkat(from, target, dir, name, 0) < 0 ? failed_at(entry, "link", err) : 0;
}

// What has no descriptor to work on: links, pipes, whiteouts.
static int finish_other(struct unpacker *u, int dir, const char *name, struct archive_entry *entry,
                        struct err *err)
{
    uint32_t uid = id_of(archive_entry_uid(entry)), gid = id_of(archive_entry_gid(entry));
    struct timespec times[2];
    times_of(entry, times);
    if ((uid != 0 || gid != 0) && fchownat(dir, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
        return failed_at(entry, "own", err);
    if (utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0)
        return failed_at(entry, "date", err);
    return attr_check(u->job->is_disk, entry, err);
}

static int make_link(struct unpacker *u, int dir, const char *name, struct archive_entry *entry,
                     struct err *err)
{
    const char *target = archive_entry_symlink(entry);
    if (target == NULL || target[0] == '\0')
        return refused(entry, "a link to nothing", err);
    if (symlinkat(target, dir, name) < 0 &&
        (errno != EEXIST || clear_way(u, dir, name, false) < 0 || symlinkat(target, dir, name) < 0))
        return failed_at(entry, "make", err);
    return finish_other(u, dir, name, entry, err);
}

// Its mode is the one it is made with: there is nothing to change it by afterwards.
static int make_node(struct unpacker *u, int dir, const char *name, struct archive_entry *entry,
                     mode_t type, struct err *err)
{
    mode_t mode = type | (archive_entry_mode(entry) & 0777);
    if (mknodat(dir, name, mode, 0) < 0 &&
        (errno != EEXIST || clear_way(u, dir, name, false) < 0 || mknodat(dir, name, mode, 0) < 0))
        return failed_at(entry, "make", err);
    return finish_other(u, dir, name, entry, err);
}

static bool is_whiteout(struct archive_entry *entry)
{
    return archive_entry_filetype(entry) == AE_IFCHR && archive_entry_rdevmajor(entry) == 0 &&
           archive_entry_rdevminor(entry) == 0;
}

static int make_entry(struct unpacker *u, int dir, const char *name, struct archive_entry *entry,
                      struct err *err)
{
    if (archive_entry_hardlink(entry) != NULL)
        return make_hard_link(u, dir, name, entry, err);
    switch (archive_entry_filetype(entry)) {
    case AE_IFREG:
        return make_file(u, dir, name, entry, err);
    case AE_IFLNK:
        return make_link(u, dir, name, entry, err);
    case AE_IFIFO:
        return make_node(u, dir, name, entry, S_IFIFO, err);
    case AE_IFCHR:
        if (u->job->is_disk && is_whiteout(entry))
            return make_node(u, dir, name, entry, S_IFCHR, err);
        return refused(entry, "a device", err);
    case AE_IFBLK:
        return refused(entry, "a device", err);
    default:
        return refused(entry, "of an unknown kind", err);
    }
}

static int take(struct unpacker *u, struct archive_entry *entry, struct err *err)
{
    const char *path = archive_entry_pathname(entry), *name;
    if (path == NULL)
        return err_set(err, ERR_INVALID, "an entry of the archive has no name");
    if (u->job->entries++ >= u->job->max_entries)
        return err_set(err, ERR_EXHAUSTED, "the archive has more than %llu entries",
                       (unsigned long long)u->job->max_entries);
    int dir = place_find(u->place, path, &name, err);
    if (dir < 0)
        return -1;
    bool is_dir =
        archive_entry_filetype(entry) == AE_IFDIR && archive_entry_hardlink(entry) == NULL;
    if (is_dir)
        return make_dir(u, dir, name, entry, err);
    if (strcmp(name, ".") == 0)
        return refused(entry, "the directory itself, and no directory", err);
    return make_entry(u, dir, name, entry, err);
}

static int take_all(struct unpacker *u, struct err *err)
{
    struct archive_entry *entry;
    for (;;) {
        int64_t before = archive_filter_bytes(u->archive, 0);
        int r = archive_read_next_header(u->archive, &entry);
        // Without the zeros that end an archive, a part of it is missing.
        if (r == ARCHIVE_EOF && u->job->entries == 0) // a file of zeros, say
            return err_set(err, ERR_INVALID, "not an archive, or one of nothing");
        if (r == ARCHIVE_EOF)
            return archive_filter_bytes(u->archive, 0) - before >= BLOCK_SIZE
                       ? drain(u, err)
                       : err_set(err, ERR_INVALID, "the archive ends too early");
        if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
            return archive_failed(u, err);
        if (take(u, entry, err) < 0)
            return -1;
        if (archive_read_data_skip(u->archive) != ARCHIVE_OK)
            return archive_failed(u, err);
    }
}

static int unpack_into(struct unpacker *u, int dir, struct err *err)
{
    u->place = place_new(dir, true, err);
    u->targets = u->place == NULL ? NULL : place_new(dir, false, err);
    if (u->targets == NULL || open_archive(u, err) < 0 || take_all(u, err) < 0)
        return -1;
    return times_apply(&u->times, u->place, err);
}

static void unpacker_done(struct unpacker *u)
{
    (void)archive_read_free(u->archive);
    source_free(u->source);
    place_free(u->place);
    place_free(u->targets);
    times_done(&u->times);
}

int job_unpack(struct job *job, struct err *err)
{
    struct unpacker u = {.job = job};
    struct tree_new new;
    (void)umask(0);
    if (tree_begin(job, &new, err) < 0)
        return -1;
    int r = unpack_into(&u, new.fd, err);
    unpacker_done(&u);
    if (r == 0)
        r = tree_commit(job, &new, err);
    else
        tree_abort(&new);
    return r;
}
