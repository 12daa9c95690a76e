// SPDX-License-Identifier: Apache-2.0
#include "sandbox/cell-log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fd.h"

enum {
    INDEX_STEP = 64,
    KEEP_READ = 1024 * 1024, // memory kept of the room for reading
    READ_AHEAD = 32 * 1024,
};

// What was read from a file last: lent. Small records are read with those behind them.
static struct buf reading;
static const struct cell_log *reading_log;
static uint64_t reading_from; // place of its first byte

void cell_log_init(struct cell_log *log, int dirfd)
{
    *log = (struct cell_log){.dirfd = dirfd, .fd = -1};
    buf_init(&log->memory, CELL_LOG_MEMORY);
    buf_init(&log->open, CELL_LOG_PIECE);
}

void cell_log_done(struct cell_log *log)
{
    if (reading_log == log)
        reading_log = NULL;
    buf_done(&log->memory);
    buf_done(&log->open);
    free(log->index);
    fd_close(log->fd);
    cell_log_init(log, log->dirfd);
}

uint64_t cell_log_size(const struct cell_log *log)
{
    return log->memory.len + log->filed + log->open.len;
}

size_t cell_log_memory(const struct cell_log *log)
{
    return log->memory.cap + log->open.cap + log->index_cap * sizeof *log->index;
}

uint64_t cell_log_count(const struct cell_log *log)
{
    return log->n;
}

// --- writing

static int file_open(struct cell_log *log)
{
    if (log->fd >= 0)
        return 0;
    log->fd = openat(log->dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return log->fd < 0 ? -errno : 0;
}

// All or nothing: a part that was written is written over.
static int file_append(struct cell_log *log, const struct iovec *parts, size_t total)
{
    int r = file_open(log);
    if (r < 0)
        return r;
    ssize_t n = pwritev(log->fd, parts, 2, (off_t)log->filed);
    if (n < 0)
        return -errno;
    if ((size_t)n < total)
        return -ENOSPC;
    log->filed += total;
    return 0;
}

static void index_put(struct cell_log *log, uint64_t n, uint64_t place)
{
    if (n % INDEX_STEP != 0)
        return;
    size_t i = (size_t)(n / INDEX_STEP);
    if (i == log->index_cap) {
        log->index_cap = i > 0 ? i * 2 : 4;
        log->index = realloc(log->index, log->index_cap * sizeof *log->index);
        if (log->index == NULL)
            abort(); // an eighth of a byte for each event, whose bytes are bounded
    }
    log->index[i] = place;
}

// Appends the record of event `n`.
static int store(struct cell_log *log, uint64_t n, enum cell_event_type type, bool filed,
                 const void *bytes, size_t len)
{
    char head[CELL_LOG_RECORD] = {(char)type};
    const uint32_t size = (uint32_t)len;
    size_t total = sizeof head + len;
    uint64_t place = log->memory.len + log->filed;
    memcpy(head + 1, &size, sizeof size);
    if (!filed && log->fd < 0 && log->memory.len + total <= CELL_LOG_MEMORY) {
        (void)buf_append(&log->memory, head, sizeof head);
        (void)buf_append(&log->memory, bytes, len);
        if (log->memory.failed != 0)
            return log->memory.failed;
    } else {
        // iovec has no const; pwritev only reads.
        const struct iovec parts[2] = {
            {head,                     sizeof head},
            {(void *)(uintptr_t)bytes, len        }
        };
        int r = file_append(log, parts, total);
        if (r < 0)
            return r;
    }
    index_put(log, n, place);
    return 0;
}

int cell_log_close(struct cell_log *log, bool filed)
{
    if (!log->is_open)
        return 0;
    int r = store(log, log->n - 1, log->type, filed, log->open.data, log->open.len);
    if (r < 0)
        return r; // it stays open, and readable
    log->is_open = false;
    buf_reset(&log->open);
    return 0;
}

static int grow_open(struct cell_log *log, enum cell_event_type type, const char *bytes, size_t len)
{
    int r = buf_append(&log->open, bytes, len);
    if (r < 0 || log->is_open)
        return r;
    log->is_open = true;
    log->is_seen = false;
    log->type = type;
    log->n++;
    return 0;
}

int cell_log_grow(struct cell_log *log, enum cell_event_type type, bool filed, const char *bytes,
                  size_t len)
{
    int r = 0;
    while (len > 0 && r == 0) {
        if (log->is_open && (log->is_seen || log->type != type || log->open.len == CELL_LOG_PIECE))
            r = cell_log_close(log, filed);
        size_t room = CELL_LOG_PIECE - log->open.len;
        size_t take = len < room ? len : room;
        if (r == 0)
            r = grow_open(log, type, bytes, take);
        bytes += take;
        len -= take;
    }
    return r;
}

int cell_log_add(struct cell_log *log, enum cell_event_type type, bool filed, const void *bytes,
                 size_t len)
{
    int r = cell_log_close(log, filed);
    if (r == 0)
        r = store(log, log->n, type, filed, bytes, len);
    if (r == 0)
        log->n++;
    return r;
}

// --- reading

static bool is_read(const struct cell_log *log, uint64_t place, size_t len)
{
    return reading_log == log && place >= reading_from && place + len <= reading_from + reading.len;
}

// At least `len` bytes of the file, and some of those behind them.
static int read_file(const struct cell_log *log, uint64_t place, size_t len)
{
    char *at = NULL;
    size_t room = 0;
    uint64_t left = log->memory.len + log->filed - place;
    size_t want = len < READ_AHEAD && left >= READ_AHEAD ? READ_AHEAD : len;
    reading_log = NULL;
    if (reading.max == 0)
        buf_init(&reading, 2 * (size_t)CELL_OUTPUT_MAX);
    else if (reading.cap > KEEP_READ && len < KEEP_READ)
        buf_done(&reading);
    buf_reset(&reading);
    if (buf_reserve(&reading, want, &at, &room) < 0 || room < want)
        return -ENOMEM;
    for (size_t done = 0; done < want;) {
        ssize_t n = pread(log->fd, at + done, want - done, (off_t)(place - log->memory.len + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        done += (size_t)n;
    }
    buf_commit(&reading, want);
    reading_log = log;
    reading_from = place;
    return 0;
}

// Makes `len` bytes at that place readable in memory.
static int read_at(const struct cell_log *log, uint64_t place, size_t len, const char **ret)
{
    if (place + len <= log->memory.len) {
        *ret = log->memory.data + place;
        return 0;
    }
    int r = is_read(log, place, len) ? 0 : read_file(log, place, len);
    if (r == 0)
        *ret = reading.data + (place - reading_from);
    return r;
}

static int read_head(const struct cell_log *log, uint64_t place, enum cell_event_type *ret_type,
                     uint32_t *ret_len)
{
    const char *head = NULL;
    int r = read_at(log, place, CELL_LOG_RECORD, &head);
    if (r < 0 || head == NULL)
        return r < 0 ? r : -EIO;
    *ret_type = (enum cell_event_type)head[0];
    memcpy(ret_len, head + 1, sizeof *ret_len);
    return 0;
}

// Walks to the record of event `n`.
static int walk(struct cell_log *log, uint64_t n)
{
    enum cell_event_type type;
    uint32_t len = 0;
    uint64_t from = n / INDEX_STEP * INDEX_STEP;
    if (log->cursor < from || log->cursor > n || log->cursor_at == 0) {
        log->cursor = from;
        log->cursor_at = log->index[n / INDEX_STEP];
    }
    while (log->cursor < n) {
        int r = read_head(log, log->cursor_at, &type, &len);
        if (r < 0)
            return r;
        log->cursor++;
        log->cursor_at += CELL_LOG_RECORD + (uint64_t)len;
    }
    return 0;
}

static size_t part_length(size_t total, size_t at, size_t max)
{
    size_t left = at < total ? total - at : 0;
    return left < max ? left : max;
}

int cell_log_part(struct cell_log *log, uint64_t n, size_t at, size_t max, struct cell_event *ret)
{
    uint32_t total = 0;
    const char *bytes = "";
    enum cell_event_type type = CELL_STDOUT;
    if (n >= log->n)
        return 0;
    if (log->is_open && n == log->n - 1) {
        size_t len = part_length(log->open.len, at, max);
        log->is_seen = true;
        *ret =
            (struct cell_event){log->type, len > 0 ? log->open.data + at : "", len, log->open.len};
        return 1;
    }
    int r = walk(log, n);
    if (r == 0)
        r = read_head(log, log->cursor_at, &type, &total);
    size_t len = part_length(total, at, max);
    if (r == 0 && len > 0)
        r = read_at(log, log->cursor_at + CELL_LOG_RECORD + at, len, &bytes);
    if (r < 0)
        return r;
    *ret = (struct cell_event){type, bytes, len, total};
    return 1;
}

int cell_log_get(struct cell_log *log, uint64_t n, struct cell_event *ret)
{
    return cell_log_part(log, n, 0, SIZE_MAX, ret);
}
