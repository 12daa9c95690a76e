// SPDX-License-Identifier: Apache-2.0
// What of a directory has changed since the index was written. First the whole of it is listed and
// compared; only what may have changed is then opened and read, its sum first if its content may
// still be the same.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "pack/hash.h"
#include "pack/index.h"
#include "pack/pack-internal.h"
#include "pack/record.h"
#include "pack/select.h"

enum {
    READ_SIZE = 1024 * 1024,
    TELL_ENTRIES = 1000,
    TELL_MS = 500,
};

struct sync {
    struct job *job;
    int dir;
    struct index old, new;
    char *old_text;
    struct record_out *out;
    struct hash *hash;
    char *block;
    uint64_t told; // entries
    int64_t told_ns;
};

// --- what comes in ---

static int read_index(struct sync *s, struct err *err)
{
    size_t len = 0, room = 0;
    for (;;) {
        if (len == room) {
            room = room > 0 ? room * 2 : READ_SIZE;
            char *text = room <= 2 * PACK_INDEX_BYTES_MAX ? realloc(s->old_text, room) : NULL;
            if (text == NULL)
                return err_set(err, ERR_EXHAUSTED, "the index is too large");
            s->old_text = text;
        }
        ssize_t n = read(s->job->in, s->old_text + len, room - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, errno, "read the index");
        if (n == 0)
            return index_parse(&s->old, s->old_text, len, err);
        len += (size_t)n;
    }
}

// --- listing ---

// A file may be of any year, nanoseconds only of three centuries on either side: what is beyond is
// at the end of them.
static int64_t time_ns(const struct timespec *t)
{
    int64_t ns;
    if (__builtin_mul_overflow(t->tv_sec, NS_PER_S, &ns) ||
        __builtin_add_overflow(ns, t->tv_nsec, &ns))
        return t->tv_sec < 0 ? INT64_MIN : INT64_MAX;
    return ns;
}

static bool is_at_end(int64_t ns)
{
    return ns == INT64_MIN || ns == INT64_MAX;
}

static int add_entry(struct sync *s, const struct walk_entry *e, struct err *err)
{
    char target[PACK_PATH_MAX] = "", text[100];
    struct index_entry entry = {
        .kind = S_ISDIR(e->st.st_mode)   ? 'd'
                : S_ISLNK(e->st.st_mode) ? 'l'
                                         : 'f',
        .mode = e->st.st_mode & 07777,
        .uid = e->st.st_uid,
        .gid = e->st.st_gid,
        .size = S_ISREG(e->st.st_mode) ? (uint64_t)e->st.st_size : 0,
        .mtime_ns = time_ns(&e->st.st_mtim),
        .path = e->path,
        .target = target,
    };
    if (entry.kind == 'l') {
        ssize_t n = readlinkat(e->dir, e->name, target, sizeof target - 1);
        if (n < 0)
            return err_sys(err, errno, "read '%s'", shown(e->path, text));
        target[n] = '\0';
    }
    int r = index_add(&s->new, &entry);
    return r < 0 ? err_sys(err, -r, "remember what is in the directory") : 0;
}

static bool is_kept(const struct stat *st)
{
    return S_ISREG(st->st_mode) || S_ISDIR(st->st_mode) || S_ISLNK(st->st_mode);
}

static int list(struct sync *s, struct err *err)
{
    struct walk_entry e;
    uint64_t total = 0;
    struct select *select = select_new(s->job, s->dir, err);
    int r = select == NULL ? -1 : 0;
    while (r == 0 && (r = select_next(select, &e, err)) == 1) {
        r = 0;
        if (!is_kept(&e.st))
            continue;
        // Holes cost nothing on the disk, but time here and room in the store.
        total += S_ISREG(e.st.st_mode) ? (uint64_t)e.st.st_size : 0;
        if (total > s->job->max_bytes)
            r = err_set(err, ERR_EXHAUSTED,
                        "its files are larger than its disk (are they sparse?): exclude some");
        else if (e.path_len >= PACK_PATH_MAX || index_escaped_len(e.path) > PACK_KEY_MAX ||
                 index_escaped_part(e.path) > PACK_PART_MAX)
            s->job->skipped++;
        else
            r = add_entry(s, &e, err);
    }
    select_free(select);
    index_sort(&s->new);
    return r;
}

// --- telling ---

static int told(int r, struct err *err)
{
    if (r == -EPIPE)
        return err_set(err, ERR_UNAVAILABLE, "nobody reads the records");
    return r < 0 ? err_sys(err, -r, "write records") : 0;
}

static int tell_progress(struct sync *s, struct err *err)
{
    int64_t now = clock_ns();
    if (s->job->entries - s->told < TELL_ENTRIES && now - s->told_ns < TELL_MS * NS_PER_MS)
        return 0;
    s->told = s->job->entries;
    s->told_ns = now;
    struct pack_record record = {
        .type = PACK_PROGRESS, .seen = s->job->entries, .size = s->job->bytes};
    int r = record_put(s->out, &record, "");
    return told(r < 0 ? r : record_flush(s->out), err);
}

static int read_some(int fd, char *to, size_t max, const char *path, struct err *err)
{
    char text[100];
    ssize_t n;
    do {
        n = read(fd, to, max);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_sys(err, errno, "read '%s'", shown(path, text));
    if (n == 0)
        return err_set(err, ERR_INTERNAL, "'%s' has become shorter", shown(path, text));
    return (int)n;
}

// The whole file, to be summed or sent. One that fits into the block is all there afterwards.
static int read_file(struct sync *s, int fd, const struct index_entry *e, bool sends,
                     struct err *err)
{
    size_t at = 0;
    for (uint64_t left = e->size; left > 0;) {
        at = e->size <= READ_SIZE ? at : 0;
        size_t max = left < READ_SIZE - at ? (size_t)left : READ_SIZE - at;
        int n = read_some(fd, s->block + at, max, e->path, err);
        if (n < 0)
            return -1;
        if (!sends)
            hash_add(s->hash, s->block + at, (size_t)n);
        else if (told(record_data(s->out, s->block + at, (size_t)n), err) < 0)
            return -1;
        at += (size_t)n;
        left -= (uint64_t)n;
    }
    return 0;
}

static int sum_file(struct sync *s, int fd, struct index_entry *e, struct err *err)
{
    hash_begin(s->hash);
    if (read_file(s, fd, e, false, err) < 0)
        return -1;
    hash_end(s->hash, e->sha256);
    e->has_hash = true;
    return 0;
}

// Was summed just now.
static int send_file(struct sync *s, int fd, const struct index_entry *e, struct err *err)
{
    char text[100];
    struct pack_record record = {
        .type = PACK_PUT, .size = e->size, .mode = e->mode, .mtime_ns = e->mtime_ns};
    memcpy(record.sha256, e->sha256, sizeof record.sha256);
    if (told(record_put(s->out, &record, e->path), err) < 0)
        return -1;
    if (e->size <= READ_SIZE)
        return told(record_data(s->out, s->block, (size_t)e->size), err);
    if (lseek(fd, 0, SEEK_SET) < 0)
        return err_sys(err, errno, "read '%s'", shown(e->path, text));
    return read_file(s, fd, e, true, err);
}

static int open_file(struct sync *s, const char *path, struct err *err)
{
    char text[100];
    struct open_how how = {.flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    int fd = (int)syscall(SYS_openat2, s->dir, path, &how, sizeof how);
    return fd < 0 ? err_sys(err, errno, "open '%s'", shown(path, text)) : fd;
}

// With an old entry of a file: whether only what is said about it may have changed. A time that is
// none tells nothing.
static bool is_untouched(const struct index_entry *old, const struct index_entry *new)
{
    return old != NULL && old->kind == 'f' && old->size == new->size &&
           old->mtime_ns == new->mtime_ns && !is_at_end(new->mtime_ns);
}

static int compare_file(struct sync *s, struct index_entry *e, struct err *err)
{
    const struct index_entry *old = index_find(&s->old, e->path);
    if (is_untouched(old, e)) {
        memcpy(e->sha256, old->sha256, sizeof e->sha256);
        e->has_hash = true;
        return 0;
    }
    auto_fd fd = open_file(s, e->path, err);
    if (fd < 0 || sum_file(s, fd, e, err) < 0)
        return -1;
    if (old != NULL && old->kind == 'f' && memcmp(old->sha256, e->sha256, PACK_SHA256) == 0)
        return 0;
    return send_file(s, fd, e, err);
}

static int tell_changes(struct sync *s, struct err *err)
{
    s->told_ns = clock_ns();
    for (size_t i = 0; i < s->new.n; i++) {
        struct index_entry *e = &s->new.entries[i];
        if (e->kind == 'f' && compare_file(s, e, err) < 0)
            return -1;
        s->job->entries++;
        s->job->bytes += e->size;
        if (tell_progress(s, err) < 0)
            return -1;
    }
    return 0;
}

// Objects whose file is gone, or is no file any more.
static int tell_deleted(struct sync *s, struct err *err)
{
    for (size_t i = 0, j = 0; i < s->old.n; i++) {
        const struct index_entry *old = &s->old.entries[i];
        while (j < s->new.n && strcmp(s->new.entries[j].path, old->path) < 0)
            j++;
        bool is_there = j < s->new.n &&strcmp(s->new.entries[j].path, old->path) == 0 &&
                        s->new.entries[j].kind == 'f';
        struct pack_record record = {.type = PACK_DELETE};
        if (old->kind == 'f' && !is_there && told(record_put(s->out, &record, old->path), err) < 0)
            return -1;
    }
    return 0;
}

static int tell_index(struct sync *s, struct err *err)
{
    auto_buf text;
    buf_init(&text, PACK_INDEX_BYTES_MAX);
    index_print(&s->new, &text);
    if (text.failed)
        return err_set(err, ERR_EXHAUSTED, "too many files for an index");
    struct pack_record record = {.type = PACK_INDEX, .size = text.len};
    int r = record_put(s->out, &record, "");
    if (r == 0)
        r = record_data(s->out, text.data, text.len);
    return told(r < 0 ? r : record_flush(s->out), err);
}

static int prepare(struct sync *s, struct err *err)
{
    s->dir = tree_open(s->job, err);
    if (s->dir < 0)
        return -1;
    s->out = record_out_new(s->job->out);
    s->hash = hash_new();
    s->block = malloc(READ_SIZE);
    if (s->out == NULL || s->hash == NULL || s->block == NULL)
        return err_set(err, ERR_EXHAUSTED, "no memory to sync with");
    return 0;
}

int job_sync(struct job *job, struct err *err)
{
    struct sync s = {.job = job, .dir = -1};
    int r = prepare(&s, err);
    if (r == 0)
        r = read_index(&s, err);
    if (r == 0)
        r = list(&s, err);
    if (r == 0)
        r = tell_changes(&s, err);
    if (r == 0)
        r = tell_deleted(&s, err);
    if (r == 0)
        r = tell_index(&s, err);
    fd_close(s.dir);
    index_done(&s.old);
    index_done(&s.new);
    free(s.old_text);
    record_out_free(s.out);
    hash_free(s.hash);
    free(s.block);
    return r;
}
