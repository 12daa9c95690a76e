// SPDX-License-Identifier: Apache-2.0
// A tree as an archive: pax headers by libarchive, contents past it, compressed by threads while
// the next file is read.
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "pack/attr.h"
#include "pack/links.h"
#include "pack/pack-internal.h"
#include "pack/select.h"
#include "pack/squeeze.h"
#include "pack/walk.h"

enum {
    READ_SIZE = 1024 * 1024,
    AHEAD_SIZE = 256 * 1024,        // from this size on the kernel is told to read ahead
    HOLE_STEP = 1024 * 1024 * 1024, // of a hole passed over at once
};

struct packer {
    struct job *job;
    struct squeeze *squeeze;
    struct archive *archive;
    struct archive_entry *entry;
    struct links links;
    char *block;
    const char *hole; // zeros, never touched
};

// --- the archive ---

static la_ssize_t write_out(struct archive *archive, void *arg, const void *data, size_t len)
{
    struct packer *p = arg;
    int r = squeeze_add(p->squeeze, data, len);
    if (r < 0) {
        archive_set_error(archive, -r, "write the archive");
        return -1;
    }
    return (la_ssize_t)len;
}

static int archive_failed(struct packer *p, struct err *err)
{
    int sys_errno = archive_errno(p->archive);
    if (sys_errno == EPIPE)
        return err_set(err, ERR_UNAVAILABLE, "nobody reads the archive");
    const char *why = archive_error_string(p->archive);
    return err_set(err, ERR_INTERNAL, "make an archive: %.150s", why != NULL ? why : "no reason");
}

static int open_archive(struct packer *p, struct err *err)
{
    p->squeeze = squeeze_new(p->job->out, p->job->threads, err);
    if (p->squeeze == NULL)
        return -1;
    p->archive = archive_write_new();
    p->entry = archive_entry_new();
    p->block = malloc(READ_SIZE);
    void *hole =
        mmap(NULL, HOLE_STEP, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    p->hole = hole != MAP_FAILED ? hole : NULL;
    if (p->archive == NULL || p->entry == NULL || p->block == NULL || p->hole == NULL)
        return err_set(err, ERR_EXHAUSTED, "no memory to make an archive with");
    if (archive_write_set_format_pax(p->archive) != ARCHIVE_OK ||
        archive_write_set_format_option(p->archive, "pax", "xattrheader", "SCHILY") != ARCHIVE_OK ||
        archive_write_set_bytes_per_block(p->archive, 0) != ARCHIVE_OK ||
        archive_write_open(p->archive, p, NULL, write_out, NULL) != ARCHIVE_OK)
        return archive_failed(p, err);
    return 0;
}

static int close_archive(struct packer *p, struct err *err)
{
    if (archive_write_close(p->archive) != ARCHIVE_OK)
        return archive_failed(p, err);
    int r = squeeze_end(p->squeeze);
    return r < 0 ? err_sys(err, -r, "write the archive") : 0;
}

static void packer_done(struct packer *p)
{
    if (p->archive != NULL)
        (void)archive_write_fail(p->archive); // what was not closed before is not ended now
    (void)archive_write_free(p->archive);
    archive_entry_free(p->entry);
    squeeze_free(p->squeeze);
    links_done(&p->links);
    free(p->block);
    if (p->hole != NULL)
        (void)munmap((void *)(uintptr_t)p->hole, HOLE_STEP);
}

// --- contents ---

static int read_failed(ssize_t n, const char *path, struct err *err)
{
    char text[100];
    if (n < 0)
        return err_sys(err, errno, "read '%s'", shown(path, text));
    return err_set(err, ERR_INTERNAL, "'%s' has become shorter", shown(path, text));
}

static int copy_range(struct packer *p, int fd, off_t at, off_t end, const char *path,
                      struct err *err)
{
    while (at < end) {
        size_t want = end - at < READ_SIZE ? (size_t)(end - at) : READ_SIZE;
        ssize_t n = pread(fd, p->block, want, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return read_failed(n, path, err);
        if (archive_write_data(p->archive, p->block, (size_t)n) != n)
            return archive_failed(p, err);
        at += n;
    }
    return 0;
}

// libarchive is told of the hole's bytes, but does not look at them.
static int pass_hole(struct packer *p, off_t len, struct err *err)
{
    while (len > 0) {
        size_t step = len < HOLE_STEP ? (size_t)len : HOLE_STEP;
        if (archive_write_data(p->archive, p->hole, step) != (la_ssize_t)step)
            return archive_failed(p, err);
        len -= (off_t)step;
    }
    return 0;
}

// Adds the ranges that have data to the entry.
static int find_data(struct packer *p, int fd, off_t size, struct err *err)
{
    off_t end = 0;
    for (;;) {
        off_t start = lseek(fd, end, SEEK_DATA);
        if (start < 0 && errno == ENXIO)
            break;
        if (start < 0 || (end = lseek(fd, start, SEEK_HOLE)) < 0)
            return err_sys(err, errno, "look for holes");
        archive_entry_sparse_add_entry(p->entry, start, (end < size ? end : size) - start);
        if (end >= size)
            break;
    }
    if (archive_entry_sparse_count(p->entry) == 0)
        archive_entry_sparse_add_entry(p->entry, 0, 0);
    return 0;
}

static int copy_sparse(struct packer *p, int fd, off_t size, const char *path, struct err *err)
{
    la_int64_t start, len;
    off_t at = 0;
    (void)archive_entry_sparse_reset(p->entry);
    while (archive_entry_sparse_next(p->entry, &start, &len) == ARCHIVE_OK) {
        if (pass_hole(p, start - at, err) < 0 ||
            copy_range(p, fd, start, start + len, path, err) < 0)
            return -1;
        p->job->bytes += (uint64_t)len;
        at = start + len;
    }
    return pass_hole(p, size - at, err);
}

// --- entries ---

static void describe(struct packer *p, const char *path, const struct stat *st)
{
    archive_entry_clear(p->entry);
    archive_entry_set_pathname(p->entry, path);
    archive_entry_set_mode(p->entry, st->st_mode);
    archive_entry_set_uid(p->entry, st->st_uid);
    archive_entry_set_gid(p->entry, st->st_gid);
    archive_entry_set_mtime(p->entry, st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
    archive_entry_set_size(p->entry, 0);
}

// It warns of names that are not UTF-8, and writes them as they are.
static int put_header(struct packer *p, struct err *err)
{
    p->job->entries++;
    int r = archive_write_header(p->archive, p->entry);
    return r != ARCHIVE_OK && r != ARCHIVE_WARN ? archive_failed(p, err) : 0;
}

static int put_dir(struct packer *p, int fd, const char *path, const struct stat *st,
                   struct err *err)
{
    describe(p, path, st);
    return attr_read(fd, p->job->is_disk, p->entry, err) < 0 ? -1 : put_header(p, err);
}

static int put_link(struct packer *p, const struct walk_entry *e, struct err *err)
{
    char target[PATH_MAX], text[100];
    ssize_t n = readlinkat(e->dir, e->name, target, sizeof target - 1);
    if (n < 0)
        return err_sys(err, errno, "read '%s'", shown(e->path, text));
    target[n] = '\0';
    archive_entry_set_symlink(p->entry, target);
    return put_header(p, err);
}

static int put_file(struct packer *p, const struct walk_entry *e, struct err *err)
{
    char text[100];
    off_t size = e->st.st_size;
    auto_fd fd = openat(e->dir, e->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", shown(e->path, text));
    if (size >= AHEAD_SIZE)
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    bool is_sparse = size >= 4096 && e->st.st_blocks < size / 512;
    archive_entry_set_size(p->entry, size);
    if (attr_read(fd, p->job->is_disk, p->entry, err) < 0 ||
        (is_sparse && find_data(p, fd, size, err) < 0) || put_header(p, err) < 0)
        return -1;
    if (is_sparse && archive_entry_sparse_reset(p->entry) > 0)
        return copy_sparse(p, fd, size, e->path, err);
    p->job->bytes += (uint64_t)size;
    return copy_range(p, fd, 0, size, e->path, err);
}

static int put_hard_link(struct packer *p, const char *first, struct err *err)
{
    archive_entry_set_hardlink(p->entry, first);
    archive_entry_unset_size(p->entry);
    return put_header(p, err);
}

static bool is_whiteout(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

// Neither sockets, which are nothing without their program, nor devices, which no box can make.
static bool is_packed(const struct packer *p, const struct stat *st)
{
    return S_ISREG(st->st_mode) || S_ISDIR(st->st_mode) || S_ISLNK(st->st_mode) ||
           S_ISFIFO(st->st_mode) || (p->job->is_disk && is_whiteout(st));
}

static int put(struct packer *p, const struct walk_entry *e, struct err *err)
{
    int r = 0;
    const char *first = NULL;
    if (!is_packed(p, &e->st))
        return 0;
    if (S_ISDIR(e->st.st_mode))
        return put_dir(p, e->fd, e->path, &e->st, err);
    if (e->st.st_nlink > 1)
        first = links_find(&p->links, e->st.st_dev, e->st.st_ino, e->path, &r);
    if (r < 0)
        return err_sys(err, -r, "remember hard links");
    describe(p, e->path, &e->st);
    if (first != NULL)
        return put_hard_link(p, first, err);
    if (S_ISREG(e->st.st_mode))
        return put_file(p, e, err);
    if (S_ISLNK(e->st.st_mode))
        return put_link(p, e, err);
    if (S_ISCHR(e->st.st_mode))
        archive_entry_set_rdev(p->entry, makedev(0, 0));
    return put_header(p, err);
}

static int put_all(struct packer *p, int dir, struct err *err)
{
    struct stat st;
    struct walk_entry e;
    if (fstat(dir, &st) < 0)
        return err_sys(err, errno, "look at the directory");
    struct select *select = select_new(p->job, dir, err);
    int r = select == NULL ? -1 : put_dir(p, dir, ".", &st, err);
    while (r == 0 && (r = select_next(select, &e, err)) == 1)
        r = put(p, &e, err);
    select_free(select);
    return r;
}

// As what a box would find there: an archive without any entry is none.
static int put_nothing(struct packer *p, struct err *err)
{
    struct stat st;
    if (fstat(p->job->top, &st) < 0)
        return err_sys(err, errno, "look at the disk");
    st.st_mode = S_IFDIR | 0755;
    return put_dir(p, p->job->top, ".", &st, err);
}

int job_pack(struct job *job, struct err *err)
{
    struct packer p = {.job = job};
    struct err why = {0};
    auto_fd dir = tree_open(job, &why);
    // The disk of a sandbox that has never run has nothing on it.
    bool is_blank = dir < 0 && job->is_disk && why.code == ERR_NOT_FOUND;
    if (dir < 0 && !is_blank) {
        *err = why;
        return -1;
    }
    int r = open_archive(&p, err);
    if (r == 0)
        r = is_blank ? put_nothing(&p, err) : put_all(&p, dir, err);
    if (r == 0)
        r = close_archive(&p, err);
    packer_done(&p);
    return r;
}
