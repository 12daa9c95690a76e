// SPDX-License-Identifier: Apache-2.0
// The hole grows in steps of an eighth of the cap. Once the file is cap + k * step long, [head,
// head + k * step) is the hole: whoever knows size and cap knows it. It is counted as a hole from
// that size on, then made: a crash in between leaves bytes on the disk that nobody reads, until the
// next opening makes it again. No write crosses such a mark, which bounds what lies on the disk.
//
// The cap may have been larger or smaller when the file was last open. Smaller: there is more hole
// than the size tells; it begins and ends at whole blocks, so SEEK_HOLE finds it.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox/log.h"
#include "sandbox/spool.h"

enum {
    GRAIN_SMALL = 4 * 1024,
    GRAIN = 64 * 1024, // no file system has larger blocks
    GRAIN_FROM = 2 * 1024 * 1024,
    STEPS = 8,
    COPY_MAX = 64 * 1024,
    NAME_SIZE = 32,
};

struct bytelog {
    int fd;
    uint64_t size;
    uint64_t cap, head, step;
    uint64_t from, to; // the hole
    uint64_t lost;
    enum { HOLES_UNKNOWN, HOLES_WORK, HOLES_NONE } holes;
};

static const char *const suffixes[LOG_STREAMS] = {[LOG_STDOUT] = "out", [LOG_STDERR] = "err"};

static void name_of(char name[static NAME_SIZE], int64_t number, enum log_stream stream)
{
    (void)snprintf(name, NAME_SIZE, "%" PRId64 ".%s", number, suffixes[stream]);
}

static uint64_t round_down(uint64_t n, uint64_t grain)
{
    return n - n % grain;
}

static void set_cap(struct bytelog *log, uint64_t cap)
{
    uint64_t grain = cap < GRAIN_FROM ? GRAIN_SMALL : GRAIN;
    log->cap = cap < BYTELOG_CAP_MIN ? BYTELOG_CAP_MIN : round_down(cap, grain);
    log->step = round_down(log->cap / STEPS, grain);
    log->head = round_down(log->cap / 4 < BYTELOG_HEAD ? log->cap / 4 : BYTELOG_HEAD, grain);
}

// --- the hole

static int punch(const struct bytelog *log, uint64_t from, uint64_t to)
{
    int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    return fallocate(log->fd, mode, (off_t)from, (off_t)(to - from)) < 0 ? -errno : 0;
}

// Behind the end of the file there is nothing to give back, but a file system that cannot says so.
static bool makes_holes(struct bytelog *log)
{
    if (log->holes == HOLES_UNKNOWN) {
        uint64_t at = round_down(log->size, GRAIN) + GRAIN;
        int r = punch(log, at, at + GRAIN);
        log->holes = r == -EOPNOTSUPP || r == -ENOSYS ? HOLES_NONE : HOLES_WORK;
    }
    return log->holes == HOLES_WORK;
}

// Where the hole ends by the size alone; not above `head` when there is none.
static uint64_t hole_end(const struct bytelog *log)
{
    return log->size < log->cap ? 0 : log->head + round_down(log->size - log->cap, log->step);
}

static void widen_hole(struct bytelog *log)
{
    uint64_t end = hole_end(log);
    if (end <= log->head || end <= log->to)
        return;
    uint64_t fresh = log->to;
    if (log->from == log->to)
        log->from = fresh = log->head;
    log->to = end;
    (void)punch(log, fresh, end); // one that fails is made at the next opening
}

// A hole that an earlier, smaller cap has left.
static void find_hole(struct bytelog *log)
{
    off_t from = lseek(log->fd, 0, SEEK_HOLE);
    if (from <= 0 || (uint64_t)from > BYTELOG_HEAD || (uint64_t)from >= log->size)
        return;
    off_t to = lseek(log->fd, from, SEEK_DATA);
    if (to <= from || (uint64_t)to > log->size)
        return;
    log->from = (uint64_t)from;
    log->to = (uint64_t)to;
}

static void restore_hole(struct bytelog *log)
{
    if (log->size <= BYTELOG_CAP_MIN)
        return;
    find_hole(log);
    uint64_t end = hole_end(log);
    if (end > log->head) {
        bool had = log->from < log->to;
        log->from = had && log->from < log->head ? log->from : log->head;
        log->to = had && log->to > end ? log->to : end;
        (void)punch(log, log->from, log->to);
    }
}

// --- opening

static int open_file(int dirfd, const char *name, bool make, struct bytelog *log, struct err *err)
{
    struct stat st;
    int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (make ? O_CREAT : 0);
    log->fd = openat(dirfd, name, flags, 0600);
    if (log->fd < 0)
        return err_sys(err, errno, "open log %s", name);
    if (fstat(log->fd, &st) < 0)
        return err_sys(err, errno, "look at log %s", name);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_INTERNAL, "log %s is not a file", name);
    log->size = (uint64_t)st.st_size;
    return 0;
}

int bytelog_open(int dirfd, int64_t number, enum log_stream stream, uint64_t cap, bool make,
                 struct bytelog **ret, struct err *err)
{
    char name[NAME_SIZE];
    name_of(name, number, stream);
    struct bytelog *log = calloc(1, sizeof *log);
    if (log == NULL)
        abort();
    set_cap(log, cap);
    if (open_file(dirfd, name, make, log, err) < 0) {
        bytelog_free(log);
        return -1;
    }
    restore_hole(log);
    *ret = log;
    return 0;
}

void bytelog_free(struct bytelog *log)
{
    if (log == NULL)
        return;
    fd_close(log->fd);
    free(log);
}

void bytelog_remove(int dirfd, int64_t number)
{
    for (enum log_stream stream = 0; stream < LOG_STREAMS; stream++) {
        char name[NAME_SIZE];
        name_of(name, number, stream);
        (void)unlinkat(dirfd, name, 0);
    }
    spool_remove(dirfd, number);
}

// --- writing

// How many bytes may come before the next mark. 0: no more at all.
static size_t room(struct bytelog *log, size_t want)
{
    uint64_t mark = log->cap;
    if (log->size >= log->cap) {
        if (!makes_holes(log))
            return 0;
        mark += round_down(log->size - log->cap, log->step) + log->step;
    }
    return mark - log->size < want ? (size_t)(mark - log->size) : want;
}

static void grown(struct bytelog *log, size_t by)
{
    log->size += by;
    widen_hole(log);
}

int bytelog_append(struct bytelog *log, const void *data, size_t len)
{
    const char *at = data;
    while (len > 0) {
        size_t most = room(log, len);
        if (most == 0)
            break;
        ssize_t n = pwrite(log->fd, at, most, (off_t)log->size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            log->lost += len;
            return n < 0 ? -errno : -EIO;
        }
        grown(log, (size_t)n);
        at += n;
        len -= (size_t)n;
    }
    log->lost += len;
    return 0;
}

static ssize_t read_some(int pipe, char *data, size_t max)
{
    ssize_t n;
    do
        n = read(pipe, data, max < COPY_MAX ? max : COPY_MAX);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

static ssize_t drop(struct bytelog *log, int pipe, size_t max)
{
    char nowhere[COPY_MAX];
    ssize_t n = read_some(pipe, nowhere, max);
    log->lost += n > 0 ? (uint64_t)n : 0;
    return n;
}

// For file systems that do not know splice(2).
static ssize_t copy(struct bytelog *log, int pipe, size_t max)
{
    char data[COPY_MAX];
    ssize_t n = read_some(pipe, data, max);
    if (n > 0)
        (void)bytelog_append(log, data, (size_t)n);
    return n;
}

ssize_t bytelog_splice(struct bytelog *log, int pipe, size_t max)
{
    size_t most = room(log, max);
    if (most == 0)
        return max == 0 ? -EAGAIN : drop(log, pipe, max);
    ssize_t n;
    do {
        off_t at = (off_t)log->size;
        n = splice(pipe, NULL, log->fd, &at, most, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    } while (n < 0 && errno == EINTR);
    if (n >= 0) {
        grown(log, (size_t)n);
        return n;
    }
    switch (errno) {
    case EAGAIN: // only the pipe says that
    case EBADF:
        return -errno;
    case ENOMEM: // better later than lost
        return -EAGAIN;
    case EINVAL:
        return copy(log, pipe, max);
    default: // the file: full, over a quota or a limit, broken
        return drop(log, pipe, max);
    }
}

// --- reading

uint64_t bytelog_size(const struct bytelog *log)
{
    return log->size;
}

uint64_t bytelog_lost(const struct bytelog *log)
{
    return log->lost;
}

void bytelog_gap(const struct bytelog *log, uint64_t *ret_from, uint64_t *ret_to)
{
    *ret_from = log->from;
    *ret_to = log->to;
}

ssize_t bytelog_read(struct bytelog *log, uint64_t offset, void *data, size_t max, uint64_t *ret_at)
{
    uint64_t end = log->size;
    if (log->from < log->to) {
        if (offset >= log->from && offset < log->to)
            offset = log->to;
        if (offset < log->from)
            end = log->from;
    }
    *ret_at = offset;
    if (offset >= end)
        return 0;
    ssize_t n;
    do
        n = pread(log->fd, data, max < end - offset ? max : (size_t)(end - offset), (off_t)offset);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}
