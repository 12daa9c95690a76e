// SPDX-License-Identifier: Apache-2.0
// Reading: when a connection breaks, the next one goes on where it broke, of the same object.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "store/s3-internal.h"
#include "store/sha256.h"

enum { PROGRESS = 1024 * 1024 }; // so much more, and tries are counted anew

struct reading {
    struct s3 *s3;
    const struct store_get *get;
    struct s3_call call;
    struct sha256 sha;      // of what is read whole
    uint64_t at, end;       // in the object; `end` is UINT64_MAX until its size is known
    char etag[S3_ETAG_MAX]; // of the first answer
    struct store_info info;
    bool is_known; // info
    bool has_head; // of this answer, which is looked at before any of its bytes is handed over
};

static int say_replaced(const struct reading *r, struct err *err)
{
    return err_set(err, ERR_UNAVAILABLE, "'%.100s' was replaced while it was read", r->get->key);
}

// "bytes 5-9/10"
static int read_range(struct reading *r, uint64_t *ret_size, struct err *err)
{
    uint64_t first, last, size;
    int used = 0;
    if (sscanf(r->call.range, "bytes %" SCNu64 "-%" SCNu64 "/%" SCNu64 "%n", &first, &last, &size,
               &used) != 3 ||
        r->call.range[used] != '\0' || first != r->at || last < first || last >= size)
        return store_say_bad(err, r->get->key, "the store sends another part than was asked for");
    *ret_size = size;
    return 0;
}

static void learn(struct reading *r, uint64_t size)
{
    const struct store_get *get = r->get;
    r->info = (struct store_info){.size = size, .modified_ms = r->call.modified_ms};
    r->info.has_sha256 = sha256_from_hex(r->call.sha256, r->info.sha256);
    (void)snprintf(r->etag, sizeof r->etag, "%s", r->call.etag);
    r->end = get->length > 0 && get->length < size - get->offset ? get->offset + get->length : size;
    r->is_known = true;
}

static int check_head(struct reading *r, struct err *err)
{
    uint64_t size = 0;
    bool in_part = r->call.headers[0].name != NULL;
    r->has_head = true;
    if (r->call.etag[0] == '\0')
        return s3_say_no_s3(err);
    if (in_part != (r->call.status == 206))
        return store_say_bad(err, r->get->key, "the store does not heed which part is asked for");
    if (!in_part && r->call.length < 0)
        return store_say_bad(err, r->get->key, "the store does not say how long it is");
    if (!in_part)
        size = (uint64_t)r->call.length;
    else if (read_range(r, &size, err) < 0)
        return -1;
    if (!r->is_known) {
        learn(r, size);
        return 0;
    }
    bool same = size == r->info.size && strcmp(r->etag, r->call.etag) == 0;
    return same ? 0 : say_replaced(r, err);
}

static int take(void *data, const void *bytes, size_t len, struct err *err)
{
    struct reading *r = data;
    if (!r->has_head && check_head(r, err) < 0)
        return -1;
    if (len > r->end - r->at)
        return store_say_bad(err, r->get->key, "the store sends more than was asked for");
    if (r->sha.ctx != NULL)
        sha256_add(&r->sha, bytes, len);
    r->at += len;
    return r->get->write(r->get->data, bytes, len, err);
}

// The rest of it, or all.
static enum s3_end read_on(struct reading *r, struct err *err)
{
    char range[64];
    const struct store_get *get = r->get;
    memset(r->call.headers, 0, sizeof r->call.headers);
    if (r->is_known && r->end != UINT64_MAX)
        (void)snprintf(range, sizeof range, "bytes=%" PRIu64 "-%" PRIu64, r->at, r->end - 1);
    else if (get->length > 0)
        (void)snprintf(range, sizeof range, "bytes=%" PRIu64 "-%" PRIu64, r->at,
                       get->offset + get->length - 1);
    else
        (void)snprintf(range, sizeof range, "bytes=%" PRIu64 "-", r->at);
    if (r->at > 0 || get->length > 0)
        s3_call_header(&r->call, "range", range);
    if (r->is_known)
        s3_call_header(&r->call, "if-match", r->etag);
    r->has_head = false;
    enum s3_end end = s3_try(r->s3, &r->call, err);
    if (end == S3_GOOD && !r->has_head && check_head(r, err) < 0)
        return S3_BAD;
    if (end == S3_GOOD && r->at != r->end) {
        (void)err_set(err, ERR_UNAVAILABLE, "the store sent less than it said");
        return S3_AGAIN;
    }
    // Of an object that nobody has replaced all is there that was before.
    if (end == S3_BAD && r->is_known && (r->call.status == 412 || r->call.status == 416))
        (void)say_replaced(r, err);
    return end;
}

static int read_all(struct reading *r, struct err *err)
{
    uint64_t counted = r->at;
    for (unsigned n = 1;; n++) {
        enum s3_end end = read_on(r, err);
        if (end == S3_GOOD || (end == S3_AGAIN && r->is_known && r->at == r->end))
            return 0; // all of it was there when it broke
        if (r->at - counted >= PROGRESS) {
            counted = r->at;
            n = 1;
        }
        if (end == S3_BAD || n >= r->s3->tries)
            return -1;
        if (!s3_wait(r->s3, n, r->get->stop))
            return store_say_stopped(err);
    }
}

static int check_sha256(struct reading *r, struct err *err)
{
    uint8_t digest[STORE_SHA256];
    const uint8_t *expected = r->get->sha256;
    if (expected == NULL && r->info.has_sha256)
        expected = r->info.sha256;
    sha256_end(&r->sha, digest);
    if (expected != NULL && memcmp(expected, digest, sizeof digest) != 0)
        return store_say_bad(err, r->get->key, "it has another SHA-256 than it was written with");
    return 0;
}

int s3_get(void *driver, const struct store_get *get, struct store_info *ret, struct err *err)
{
    struct reading r = {.s3 = driver, .get = get, .at = get->offset, .end = UINT64_MAX};
    bool whole = get->offset == 0 && get->length == 0;
    s3_call_init(&r.call, "GET", get->key);
    r.call.sink = take;
    r.call.sink_data = &r;
    r.call.stop = get->stop;
    int result = whole && !sha256_init(&r.sha) ? err_sys(err, ENOMEM, "read from the store") : 0;
    if (result == 0)
        result = read_all(&r, err);
    if (result == 0 && whole)
        result = check_sha256(&r, err);
    if (result == 0)
        *ret = r.info;
    sha256_done(&r.sha);
    s3_call_done(&r.call);
    return result;
}

// --- head ---

static int tell_none(void *data, const struct store_listed *object)
{
    (void)data, (void)object;
    return 1;
}

// An answer to HEAD has no words: "404" is also what a missing bucket says, and then it would be
// wrong to believe that the object is gone.
static int check_bucket(struct s3 *s3, struct err *err)
{
    const int64_t believed = 60 * NS_PER_S;
    int64_t seen = s3->bucket_seen_ns;
    if (seen != 0 && clock_ns() - seen < believed)
        return 0;
    return s3_list(s3, "", NULL, 1, tell_none, NULL, err);
}

int s3_head(void *driver, const char *key, struct store_info *ret, struct err *err)
{
    struct s3 *s3 = driver;
    auto_s3_call call;
    s3_call_init(&call, "HEAD", key);
    if (s3_perform(s3, &call, err) < 0)
        return call.status == 404 && err->code == ERR_NOT_FOUND ? check_bucket(s3, err) : -1;
    if (call.length < 0 || call.etag[0] == '\0')
        return s3_say_no_s3(err);
    *ret = (struct store_info){.size = (uint64_t)call.length, .modified_ms = call.modified_ms};
    ret->has_sha256 = sha256_from_hex(call.sha256, ret->sha256);
    return 1;
}
