// SPDX-License-Identifier: Apache-2.0
// HAND_SEARCH and HAND_REPLACE: through a tree (or one file), names by a glob, contents by a text.
// Files that change are written anew beside what they were, and take its place whole.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "hand/hand-internal.h"
#include "hand/scan.h"
#include "hand/walk.h"

enum {
    DEFAULT_MAX = 16 * 1024 * 1024,
    TRIES_MAX = 4, // at a file that changes while it is read
    FULL = 1,      // enough was found
};

static struct {
    struct work *work;
    struct hand_search how;
    const char *text, *name, *with;
    const char *path; // of the file at hand, relative
} q;

static bool is_full(void)
{
    return q.work->req->limit != 0 && q.work->n >= q.work->req->limit;
}

static int tell(uint64_t line, uint64_t column, const char *text, size_t len)
{
    char clean[SCAN_TEXT];
    struct hand_match rec = {
        .line = line,
        .column = column,
        .path_len = (uint32_t)strlen(q.path),
        .text_len = (uint32_t)len,
    };
    for (size_t i = 0; i < len; i++) // texts of records have no NUL but their last
        clean[i] = text[i] != '\0' ? text[i] : ' ';
    struct work_text texts[] = {
        {q.path, rec.path_len},
        {clean,  len         },
    };
    q.work->n++;
    int r = work_record(q.work, HAND_REC_MATCH, &rec, sizeof rec, texts, 2);
    return r < 0 ? r : is_full() ? FULL : work_tick(q.work);
}

static int found(void *data, const struct scan_match *match)
{
    (void)data;
    return tell(match->line, match->column, match->text, match->text_len);
}

// The file, if its content is to be looked at; -ENOENT if not.
static int open_text(int dir, const char *name, struct stat *ret_st)
{
    int fd = hand_open_file(dir, name, O_NOFOLLOW, ret_st);
    if (fd < 0) // what it is now, or who has a lease on it, is no failure of the search
        return fd == -EINVAL || fd == -EISDIR || fd == -ELOOP || fd == -EAGAIN ? -ENOENT : fd;
    if ((uint64_t)ret_st->st_size <= q.how.max_file)
        return fd;
    fd_close(fd);
    return -ENOENT;
}

static int search_file(int dir, const char *name)
{
    struct stat st;
    auto_fd fd = open_text(dir, name, &st);
    if (fd < 0)
        return fd;
    q.work->bytes += (uint64_t)st.st_size;
    return scan_file(fd, (uint64_t)st.st_size, found, NULL);
}

// --- replacing

static struct {
    int dir, in;
    const char *name;
    struct hand_terms terms;
    struct hand_draft draft; // once there was a match
    bool open;
    uint64_t done;       // bytes of the old file that are in the new one, or replaced
    uint64_t count;      // matches
    char buf[64 * 1024]; // for the new file
    size_t len;
} e;

static int flush_new(void)
{
    size_t len = e.len;
    e.len = 0;
    return fd_write_all(e.draft.fd, e.buf, len);
}

static int add_new(const char *bytes, size_t len)
{
    int r = len > sizeof e.buf - e.len ? flush_new() : 0;
    if (r < 0)
        return r;
    if (len > sizeof e.buf)
        return fd_write_all(e.draft.fd, bytes, len);
    memcpy(e.buf + e.len, bytes, len);
    e.len += len;
    return 0;
}

// What stays as it is, up to `end`. Short runs are gathered.
static int keep_old(uint64_t end)
{
    uint64_t from = e.done;
    size_t len = end - from < sizeof e.buf ? (size_t)(end - from) : sizeof e.buf;
    e.done = end;
    if (len == sizeof e.buf || len > sizeof e.buf - e.len) {
        int r = flush_new();
        if (r < 0 || len == sizeof e.buf)
            return r < 0 ? r : work_copy_bytes(q.work, e.in, e.draft.fd, from, end);
    }
    for (size_t got = 0; got < len;) {
        ssize_t n = pread(e.in, e.buf + e.len, len - got, (off_t)(from + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -ESTALE; // it got shorter
        got += (size_t)n;
        e.len += (size_t)n;
    }
    return 0;
}

static int open_draft(void)
{
    struct hand_place place = {.dir = fcntl(e.dir, F_DUPFD_CLOEXEC, 0)};
    if (place.dir < 0)
        return -errno;
    memcpy(place.name, e.name, strlen(e.name) + 1);
    int r = hand_draft_open(&e.draft, &place, &e.terms);
    fd_close(place.dir);
    e.open = r == 0;
    return r;
}

static int replace_one(void *data, const struct scan_match *match)
{
    (void)data;
    int r = e.open ? 0 : open_draft();
    if (r == 0)
        r = keep_old(match->offset);
    if (r == 0)
        r = add_new(q.with, q.how.with_len);
    e.done += q.how.text_len;
    e.count++;
    return r < 0 ? r : work_tick(q.work);
}

static int finish(uint64_t size)
{
    struct stat st;
    bool existed;
    if (e.done > size)
        return -ESTALE;
    int r = keep_old(size);
    if (r == 0)
        r = flush_new();
    if (r == 0 && ftruncate(e.draft.fd, lseek(e.draft.fd, 0, SEEK_CUR)) < 0) // a hole at the end
        r = -errno;
    return r < 0 ? r : hand_draft_commit(&e.draft, &e.terms, &existed, &st);
}

static int replace_try(int dir, const char *name)
{
    struct stat st;
    struct hand_stat old;
    auto_fd fd = open_text(dir, name, &st);
    if (fd < 0)
        return fd;
    hand_fill_stat(&old, &st);
    e.dir = dir;
    e.in = fd;
    e.name = name;
    e.open = false;
    e.done = e.count = e.len = 0;
    e.terms = (struct hand_terms){.flags = HAND_EXISTING | HAND_ETAG_GIVEN};
    memcpy(e.terms.etag, old.etag, sizeof old.etag);
    int r = scan_file(fd, (uint64_t)st.st_size, replace_one, NULL);
    if (r == 0 && e.open)
        r = finish((uint64_t)st.st_size);
    if (e.open)
        hand_draft_done(&e.draft);
    return r;
}

static int replace_file(int dir, const char *name)
{
    int r = -ESTALE;
    for (int tries = 0; r == -ESTALE && tries < TRIES_MAX; tries++)
        r = replace_try(dir, name);
    if (r < 0 || e.count == 0)
        return r;
    return tell(e.count, 0, "", 0);
}

// --- through the tree

typedef int (*file_fn)(int dir, const char *name);

static int handle(const struct walk_entry *entry, file_fn fn)
{
    q.path = entry->path;
    if (q.how.name_len > 0 && !hand_glob(q.name, entry->name))
        return 0;
    if (q.how.text_len == 0)
        return tell(0, 0, "", 0);
    if (!S_ISREG(entry->st.st_mode))
        return 0;
    int r = fn(entry->dir, entry->name);
    return r == -ENOENT ? 0 : r;
}

static int through_tree(int take_dir, file_fn fn)
{
    struct work *work = q.work;
    struct walk_how how = {
        .recursive = true,
        .hidden = (q.how.flags & HAND_SEARCH_HIDDEN) || (work->req->flags & HAND_HIDDEN),
        .after = "",
    };
    int r = walk_begin(take_dir, &how);
    while (r == 0) {
        struct walk_entry entry;
        r = walk_next(&entry);
        if (r <= 0)
            break;
        r = handle(&entry, fn);
        if (r < 0)
            return work_failed(work, entry.path, -r);
        if (r == 0)
            r = work_tick(work);
    }
    if (r == FULL)
        return 0;
    const char *missed = work->texts.path;
    if (r == 0 && (r = -walk_missed(&missed)) == 0)
        return 0;
    return work_failed(work, missed, -r);
}

static int one_file(file_fn fn)
{
    struct hand_place place;
    struct walk_entry entry = {.path = "", .name = place.name};
    int r = hand_place(q.work->texts.path, /*make_parents=*/false, &place);
    if (r < 0)
        return work_failed(q.work, q.work->texts.path, -r);
    entry.dir = place.dir;
    if (fstatat(place.dir, place.name, &entry.st, AT_SYMLINK_NOFOLLOW) < 0)
        r = -errno;
    else
        r = handle(&entry, fn);
    fd_close(place.dir);
    return r < 0 ? work_failed(q.work, q.work->texts.path, -r) : 0;
}

static int run(struct work *work, file_fn fn)
{
    q.work = work;
    memcpy(&q.how, work->texts.data, sizeof q.how);
    q.text = work->texts.data + sizeof q.how;
    q.name = q.text + q.how.text_len + 1;
    q.with = q.name + q.how.name_len + 1;
    if (q.how.max_file == 0)
        q.how.max_file = DEFAULT_MAX;
    scan_for(q.text, q.how.text_len, q.how.flags & HAND_SEARCH_NO_CASE);
    int dir = hand_open(AT_FDCWD, work->texts.path, O_RDONLY | O_DIRECTORY);
    if (dir == -ENOTDIR)
        return one_file(fn);
    return dir < 0 ? work_failed(work, work->texts.path, -dir) : through_tree(dir, fn);
}

int work_search(struct work *work)
{
    return run(work, search_file);
}

int work_replace(struct work *work)
{
    return run(work, replace_file);
}
