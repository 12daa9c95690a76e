// SPDX-License-Identifier: Apache-2.0
#include "saved/sync-records.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LOOK_MS = 250, // how often one that waits looks whether it is to stop
    SKIP = 64 * 1024,
    MODE_MAX = 07777,
};

// -- pipes

static int wait_for(int fd, short what, const atomic_bool *stop, struct err *err)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = what};
        if (stop != NULL && atomic_load(stop)) {
            (void)err_set(err, ERR_UNAVAILABLE, "it was ended");
            err->sys_errno = ECANCELED;
            return -1;
        }
        int n = poll(&p, 1, LOOK_MS);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return err_sys(err, errno, "wait for a pipe");
    }
}

ssize_t records_read_some(int fd, const atomic_bool *stop, void *buf, size_t size, struct err *err)
{
    for (;;) {
        if (wait_for(fd, POLLIN, stop, err) < 0)
            return -1;
        ssize_t n = read(fd, buf, size);
        if (n >= 0)
            return n;
        if (errno != EINTR && errno != EAGAIN)
            return err_sys(err, errno, "read from a pipe");
    }
}

// As many as `size`, or fewer at the end.
static ssize_t read_whole(int fd, const atomic_bool *stop, void *buf, size_t size, struct err *err)
{
    size_t have = 0;
    while (have < size) {
        ssize_t n = records_read_some(fd, stop, (char *)buf + have, size - have, err);
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        have += (size_t)n;
    }
    return (ssize_t)have;
}

int records_write(int fd, const atomic_bool *stop, const void *data, size_t len, struct err *err)
{
    const char *at = data;
    while (len > 0) {
        if (wait_for(fd, POLLOUT, stop, err) < 0)
            return -1;
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return err_sys(err, errno, "write to a pipe");
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

int records_write_head(int fd, const atomic_bool *stop, const struct pack_record *head,
                       const char *path, struct err *err)
{
    char both[sizeof *head + PACK_PATH_MAX];
    size_t len = strlen(path);
    if (len >= PACK_PATH_MAX)
        return err_set(err, ERR_INVALID, "a stored path is too long");
    memcpy(both, head, sizeof *head);
    memcpy(both + sizeof *head, path, len);
    return records_write(fd, stop, both, sizeof *head + len, err);
}

// -- records

static int bad(struct err *err, const char *what)
{
    (void)err_set(err, ERR_INTERNAL, "what came from cay-pack makes no sense: %s", what);
    err->sys_errno = EPROTO;
    return -1;
}

bool record_path_valid(const char *path, size_t len)
{
    if (len == 0 || len >= PACK_PATH_MAX || memchr(path, '\0', len) != NULL)
        return false;
    for (size_t at = 0; at <= len;) {
        const char *slash = memchr(path + at, '/', len - at);
        size_t n = slash != NULL ? (size_t)(slash - path) - at : len - at;
        if (n == 0 || (n == 1 && path[at] == '.') || (n == 2 && memcmp(path + at, "..", 2) == 0))
            return false;
        at += n + 1;
    }
    return true;
}

static bool has_path(uint32_t type)
{
    return type == PACK_PUT || type == PACK_DELETE;
}

static bool has_content(uint32_t type)
{
    return type == PACK_PUT || type == PACK_INDEX;
}

static int check_head(const struct pack_record *head, struct err *err)
{
    if (head->type == 0 || head->type > PACK_INDEX)
        return bad(err, "an unknown record");
    if (head->path_len >= PACK_PATH_MAX || (head->path_len > 0) != has_path(head->type))
        return bad(err, "a path of that length");
    if (head->size > INT64_MAX || head->mode > MODE_MAX || head->pad != 0)
        return bad(err, "a number that is out of range");
    if (head->type == PACK_INDEX && head->size > SYNC_INDEX_MAX)
        return err_set(err, ERR_EXHAUSTED, "there are too many files to be synced: exclude some");
    return 0;
}

void records_init(struct records *records, int fd, const atomic_bool *stop)
{
    *records = (struct records){.fd = fd, .stop = stop};
}

static int skip(struct records *records, struct err *err)
{
    char waste[SKIP];
    while (records->left > 0) {
        if (records_read(records, waste, sizeof waste, err) < 0)
            return -1;
    }
    return 0;
}

static int read_path(struct records *records, struct record *ret, struct err *err)
{
    size_t len = ret->head.path_len;
    ssize_t n = read_whole(records->fd, records->stop, ret->path, len, err);
    if (n < 0)
        return -1;
    if ((size_t)n < len)
        return bad(err, "it ends within a path");
    ret->path[len] = '\0';
    return len == 0 || record_path_valid(ret->path, len) ? 0 : bad(err, "a path");
}

int records_next(struct records *records, struct record *ret, struct err *err)
{
    if (skip(records, err) < 0)
        return -1;
    ssize_t n = read_whole(records->fd, records->stop, &ret->head, sizeof ret->head, err);
    if (n < 0)
        return -1;
    if (n == 0)
        return records->is_over ? 0 : bad(err, "it ends without an index");
    if (records->is_over)
        return bad(err, "something behind the index");
    if ((size_t)n < sizeof ret->head)
        return bad(err, "it ends within a record");
    if (check_head(&ret->head, err) < 0 || read_path(records, ret, err) < 0)
        return -1;
    records->left = has_content(ret->head.type) ? ret->head.size : 0;
    records->is_over = ret->head.type == PACK_INDEX;
    return 1;
}

ssize_t records_read(void *data, void *buf, size_t size, struct err *err)
{
    struct records *records = data;
    if (size > records->left)
        size = (size_t)records->left;
    if (size == 0)
        return 0;
    ssize_t n = records_read_some(records->fd, records->stop, buf, size, err);
    if (n == 0)
        return bad(err, "it ends within a file");
    if (n > 0)
        records->left -= (uint64_t)n;
    return n;
}

int records_read_all(struct records *records, char **ret, size_t *ret_len, struct err *err)
{
    size_t len = (size_t)records->left, have = 0;
    char *all = records->left <= SYNC_INDEX_MAX ? malloc(len + 1) : NULL;
    if (all == NULL)
        return err_set(err, ERR_EXHAUSTED, "there is no memory for an index of %zu bytes", len);
    while (have < len) {
        ssize_t n = records_read(records, all + have, len - have, err);
        if (n < 0) {
            free(all);
            return -1;
        }
        have += (size_t)n;
    }
    all[len] = '\0';
    *ret = all;
    *ret_len = len;
    return 0;
}

ssize_t records_read_text(int fd, const atomic_bool *stop, char *ret, size_t size, struct err *err)
{
    return read_whole(fd, stop, ret, size, err);
}
