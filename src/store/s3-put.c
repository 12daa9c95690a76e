// SPDX-License-Identifier: Apache-2.0
// Writing: what fits into a part is sent at once; what does not, part by part, which nobody sees
// before the end.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "store/s3-internal.h"
#include "store/s3-xml.h"
#include "store/sha256.h"

enum { FIRST = 64 * 1024, UPLOAD_MAX = 1024, MARK = 33 };

struct writing {
    struct s3 *s3;
    const struct store_put *put;
    char *part;
    size_t len, cap, max; // of the part: filled, allocated, allowed
    bool ended;           // nothing is left to read
    uint64_t size;
    struct sha256 sha; // of all of it
    char hex[65];      // of put->sha256, or of all in the end
    char upload[UPLOAD_MAX], mark[MARK];
    unsigned n_parts;
    struct buf parts; // the list of them, as XML
};

// --- reading ---

static int grow(struct writing *w)
{
    size_t cap = w->cap == 0 ? FIRST : 2 * w->cap;
    cap = cap < w->max ? cap : w->max;
    char *part = realloc(w->part, cap);
    if (part == NULL)
        return -ENOMEM;
    w->part = part;
    w->cap = cap;
    return 0;
}

// As much as a part may have, or until the end.
static int fill(struct writing *w, struct err *err)
{
    w->len = 0;
    while (!w->ended && w->len < w->max) {
        if (store_stopped(w->put->stop))
            return store_say_stopped(err);
        if (w->len == w->cap && grow(w) < 0)
            return err_sys(err, ENOMEM, "write to the store");
        ssize_t n = w->put->read(w->put->data, w->part + w->len, w->cap - w->len, err);
        if (n < 0)
            return -1;
        w->ended = n == 0;
        w->len += (size_t)n;
        w->size += (uint64_t)n;
        if (w->put->size >= 0 && w->size > (uint64_t)w->put->size)
            return store_say_unlike(err, w->put->key, "there is more of it");
    }
    if (w->len > 0)
        sha256_add(&w->sha, w->part, w->len);
    return 0;
}

// Before anybody may see it.
static int check_whole(struct writing *w, struct store_info *ret, struct err *err)
{
    if (w->put->size >= 0 && w->size != (uint64_t)w->put->size)
        return store_say_unlike(err, w->put->key, "there is less of it");
    *ret = (struct store_info){.size = w->size, .has_sha256 = true};
    sha256_end(&w->sha, ret->sha256);
    if (w->put->sha256 != NULL && memcmp(w->put->sha256, ret->sha256, STORE_SHA256) != 0)
        return store_say_unlike(err, w->put->key, "it has another SHA-256");
    sha256_hex(ret->sha256, w->hex);
    ret->modified_ms = (int64_t)time(NULL) * 1000;
    return 0;
}

// --- at once ---

static int send_whole(struct writing *w, struct store_info *ret, struct err *err)
{
    auto_s3_call call;
    if (check_whole(w, ret, err) < 0)
        return -1;
    s3_call_init(&call, "PUT", w->put->key);
    s3_call_header(&call, "x-amz-meta-sha256", w->hex);
    call.body = w->len > 0 ? w->part : "";
    call.body_len = w->len;
    call.stop = w->put->stop;
    if (s3_perform(w->s3, &call, err) < 0)
        return -1;
    return call.etag[0] != '\0' ? 0 : s3_say_no_s3(err);
}

// --- in parts ---

static int on_upload(void *data, const char *path, const char *text)
{
    if (strcmp(path, "InitiateMultipartUploadResult/UploadId") == 0 && strlen(text) < UPLOAD_MAX)
        (void)snprintf(data, UPLOAD_MAX, "%s", text);
    return 0;
}

static int begin_upload(struct writing *w, struct err *err)
{
    auto_s3_call call;
    int r = store_random_name(w->mark);
    if (r < 0)
        return err_sys(err, -r, "getrandom");
    s3_call_init(&call, "POST", w->put->key);
    s3_call_param(&call, "uploads", "");
    s3_call_header(&call, "x-amz-meta-cay-upload", w->mark);
    if (w->put->sha256 != NULL) {
        sha256_hex(w->put->sha256, w->hex);
        s3_call_header(&call, "x-amz-meta-sha256", w->hex);
    }
    call.body = "";
    call.stop = w->put->stop;
    if (s3_perform(w->s3, &call, err) < 0)
        return -1;
    r = xml_read(buf_str(&call.answer), call.answer.len, on_upload, w->upload);
    if (r < 0 || w->upload[0] == '\0')
        return s3_say_no_s3(err);
    return 0;
}

static int say_too_large(const struct writing *w, unsigned most, struct err *err)
{
    return err_set(err, ERR_EXHAUSTED,
                   "the object is too large: the store takes at most %u parts of %zu bytes", most,
                   w->max);
}

// Some stores are set to take fewer parts than others (Swift: 1000), and say it when it happens. In
// nothing else a part differs from those before it that were taken.
static bool is_too_many(const struct writing *w, const struct s3_call *call)
{
    return w->n_parts > 1 && strcmp(call->code, "InvalidArgument") == 0;
}

static int send_part(struct writing *w, struct err *err)
{
    char number[16];
    auto_s3_call call;
    if (w->n_parts == S3_PARTS_MAX)
        return say_too_large(w, S3_PARTS_MAX, err);
    (void)snprintf(number, sizeof number, "%u", ++w->n_parts);
    s3_call_init(&call, "PUT", w->put->key);
    s3_call_param(&call, "partNumber", number);
    s3_call_param(&call, "uploadId", w->upload);
    call.body = w->part;
    call.body_len = w->len;
    call.stop = w->put->stop;
    if (s3_perform(w->s3, &call, err) < 0)
        return is_too_many(w, &call) ? say_too_large(w, w->n_parts - 1, err) : -1;
    if (call.etag[0] == '\0')
        return s3_say_no_s3(err);
    (void)buf_printf(&w->parts, "<Part><PartNumber>%s</PartNumber><ETag>%s</ETag></Part>", number,
                     call.etag);
    return w->parts.failed < 0 ? err_sys(err, -w->parts.failed, "list the parts") : 0;
}

// An answer of 200 may still be an error: the store begins it before it knows.
static int on_result(void *data, const char *path, const char *text)
{
    (void)text;
    *(bool *)data |= strcmp(path, "CompleteMultipartUploadResult") == 0;
    return 0;
}

static enum s3_end try_complete(struct writing *w, struct s3_call *call, struct err *err)
{
    bool complete = false;
    enum s3_end end = s3_try(w->s3, call, err);
    if (end != S3_GOOD)
        return end;
    if (xml_read(buf_str(&call->answer), call->answer.len, on_result, &complete) == 0 && complete)
        return S3_GOOD;
    (void)s3_read_error(w->s3, call, err);
    err->code = ERR_UNAVAILABLE;
    return S3_AGAIN;
}

// When the answer got lost, nobody knows whether it is complete: a second time there is no such
// upload. The object tells, which has this upload's mark then.
static bool is_complete(struct writing *w)
{
    struct err ignored;
    auto_s3_call call;
    s3_call_init(&call, "HEAD", w->put->key);
    return s3_perform(w->s3, &call, &ignored) == 0 && strcmp(call.mark, w->mark) == 0 &&
           call.length == (int64_t)w->size;
}

static int complete(struct writing *w, struct err *err)
{
    auto_s3_call call;
    auto_buf body;
    buf_init(&body, S3_PARTS_MAX * (S3_ETAG_MAX + 80));
    (void)buf_printf(&body, "<CompleteMultipartUpload>%s</CompleteMultipartUpload>",
                     buf_str(&w->parts));
    if (body.failed < 0)
        return err_sys(err, -body.failed, "list the parts");
    s3_call_init(&call, "POST", w->put->key);
    s3_call_param(&call, "uploadId", w->upload);
    call.body = body.data;
    call.body_len = body.len;
    for (unsigned n = 1;; n++) {
        enum s3_end end = try_complete(w, &call, err);
        if (end == S3_GOOD || (n > 1 && end == S3_BAD && is_complete(w)))
            return 0;
        if (end == S3_BAD || n >= w->s3->tries)
            return end == S3_AGAIN && is_complete(w) ? 0 : -1;
        (void)s3_wait(w->s3, n, NULL);
    }
}

static int send_parts(struct writing *w, struct store_info *ret, struct err *err)
{
    int r = begin_upload(w, err);
    while (r == 0 && w->len > 0) {
        r = send_part(w, err);
        if (r == 0)
            r = fill(w, err);
    }
    if (r == 0)
        r = check_whole(w, ret, err);
    if (r == 0)
        r = complete(w, err);
    if (r < 0 && w->upload[0] != '\0')
        s3_abort(w->s3, w->put->key, w->upload);
    return r;
}

void s3_abort(struct s3 *s3, const char *key, const char *upload)
{
    struct err ignored;
    auto_s3_call call;
    s3_call_init(&call, "DELETE", key);
    s3_call_param(&call, "uploadId", upload);
    call.tries = 2;
    (void)s3_perform(s3, &call, &ignored); // what stays is aborted when it is old
}

// All parts but the last have the same length, which some stores insist on.
static size_t part_size(const struct s3 *s3, int64_t size)
{
    uint64_t least = size > 0 ? ((uint64_t)size + S3_PARTS_MAX - 1) / S3_PARTS_MAX : 0;
    return least > s3->part ? (size_t)least : s3->part;
}

int s3_put(void *driver, const struct store_put *put, struct store_info *ret, struct err *err)
{
    struct writing w = {.s3 = driver, .put = put, .max = part_size(driver, put->size)};
    buf_init(&w.parts, S3_PARTS_MAX * (S3_ETAG_MAX + 64));
    int r = sha256_init(&w.sha) ? fill(&w, err) : err_sys(err, ENOMEM, "write to the store");
    if (r == 0)
        r = w.ended ? send_whole(&w, ret, err) : send_parts(&w, ret, err);
    sha256_done(&w.sha);
    buf_done(&w.parts);
    free(w.part);
    return r;
}
