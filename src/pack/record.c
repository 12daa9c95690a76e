// SPDX-License-Identifier: Apache-2.0
#include "pack/record.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "pack/index.h"

enum { BLOCK_SIZE = 256 * 1024 };

struct record_out {
    int fd;
    size_t len;
    char block[BLOCK_SIZE];
};

struct record_in {
    int fd;
    size_t at, len;
    uint64_t left; // of the record's content
    char block[BLOCK_SIZE];
};

// --- out ---

struct record_out *record_out_new(int fd)
{
    struct record_out *out = malloc(sizeof *out);
    if (out != NULL) {
        out->fd = fd;
        out->len = 0;
    }
    return out;
}

void record_out_free(struct record_out *out)
{
    free(out);
}

int record_flush(struct record_out *out)
{
    int r = fd_write_all(out->fd, out->block, out->len);
    out->len = 0;
    return r;
}

int record_data(struct record_out *out, const void *data, size_t len)
{
    int r = len > BLOCK_SIZE - out->len ? record_flush(out) : 0;
    if (r < 0)
        return r;
    if (len >= BLOCK_SIZE)
        return fd_write_all(out->fd, data, len);
    memcpy(out->block + out->len, data, len);
    out->len += len;
    return 0;
}

int record_put(struct record_out *out, const struct pack_record *record, const char *path)
{
    struct pack_record r = *record;
    r.path_len = (uint32_t)strlen(path);
    int failed = record_data(out, &r, sizeof r);
    return failed < 0 ? failed : record_data(out, path, r.path_len);
}

// --- in ---

struct record_in *record_in_new(int fd)
{
    struct record_in *in = malloc(sizeof *in);
    if (in != NULL) {
        in->fd = fd;
        in->at = in->len = 0;
        in->left = 0;
    }
    return in;
}

void record_in_free(struct record_in *in)
{
    free(in);
}

// At least a byte in the block, or -1.
static int fill(struct record_in *in, struct err *err)
{
    while (in->at == in->len) {
        ssize_t n = read(in->fd, in->block, BLOCK_SIZE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, errno, "read what comes in");
        if (n == 0)
            return err_set(err, ERR_UNAVAILABLE, "what comes in ends too early");
        in->at = 0;
        in->len = (size_t)n;
    }
    return 0;
}

static int take(struct record_in *in, void *data, size_t len, struct err *err)
{
    for (char *to = data; len > 0;) {
        if (fill(in, err) < 0)
            return -1;
        size_t n = in->len - in->at < len ? in->len - in->at : len;
        memcpy(to, in->block + in->at, n);
        in->at += n;
        to += n;
        len -= n;
    }
    return 0;
}

static bool has_path(uint32_t type)
{
    return type == PACK_PUT || type == PACK_DELETE;
}

static int check(const struct pack_record *r, const char *path, struct err *err)
{
    if (r->type == 0 || r->type >= PACK_RECORD_MAX || r->pad != 0 || r->mode > 07777 ||
        r->size > INT64_MAX)
        return err_set(err, ERR_INVALID, "a record makes no sense");
    if (has_path(r->type) != (r->path_len > 0) || strlen(path) != r->path_len ||
        (r->path_len > 0 && !index_is_path(path)))
        return err_set(err, ERR_INVALID, "a record has no path that could be one");
    if (r->type == PACK_INDEX && r->size > PACK_INDEX_BYTES_MAX)
        return err_set(err, ERR_INVALID, "the index is too large");
    return 0;
}

int record_next(struct record_in *in, struct pack_record *ret, char path[PACK_PATH_MAX],
                struct err *err)
{
    if (in->left > 0)
        return err_set(err, ERR_INVALID, "a record that was not read to its end");
    if (take(in, ret, sizeof *ret, err) < 0)
        return -1;
    if (ret->path_len >= PACK_PATH_MAX)
        return err_set(err, ERR_INVALID, "a record has too long a path");
    if (take(in, path, ret->path_len, err) < 0)
        return -1;
    path[ret->path_len] = '\0';
    if (check(ret, path, err) < 0)
        return -1;
    in->left = ret->type == PACK_PUT || ret->type == PACK_INDEX ? ret->size : 0;
    return 1;
}

ssize_t record_read(struct record_in *in, void *data, size_t max, struct err *err)
{
    if (in->left == 0)
        return 0;
    if (fill(in, err) < 0)
        return -1;
    size_t n = in->len - in->at < max ? in->len - in->at : max;
    n = n < in->left ? n : (size_t)in->left;
    memcpy(data, in->block + in->at, n);
    in->at += n;
    in->left -= n;
    return (ssize_t)n;
}
