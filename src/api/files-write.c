// SPDX-License-Identifier: Apache-2.0
// PUT of a file: its new content, whatever its length.
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "api/conditional.h"
#include "api/file-put.h"
#include "api/handlers.h"
#include "api/show.h"

enum { ANSWER_MAX = 64 * 1024 };

struct put_call {
    struct file_call file; // first
    struct file_terms terms;
};

// -- the terms

static int refuse(struct call *call, enum error_kind kind, const char *text)
{
    call_error(call, kind, NULL, "%s", text);
    return -1;
}

static int read_conditions(struct call *call, struct file_terms *terms)
{
    const char *if_match = http_header(call->req, "If-Match");
    const char *if_none = http_header(call->req, "If-None-Match");
    if (if_none != NULL && strcmp(if_none, "*") != 0)
        return refuse(call, ERROR_INVALID_REQUEST, "If-None-Match: only '*' goes with PUT");
    if (if_none != NULL)
        terms->flags |= HAND_EXCLUSIVE;
    if (if_match == NULL)
        return 0;
    if (if_none != NULL || http_header_twice(call->req, "If-Match"))
        return refuse(call, ERROR_INVALID_REQUEST, "one If-Match, or If-None-Match: *");
    if (strcmp(if_match, "*") == 0) {
        terms->flags |= HAND_EXISTING;
        return 0;
    }
    if (etag_read(if_match, terms->etag, sizeof terms->etag) < 0 || terms->etag[0] == '\0')
        return refuse(call, ERROR_INVALID_REQUEST,
                      "If-Match: must be '*', or one ETag of this file in its quotes");
    terms->flags |= HAND_ETAG_GIVEN;
    return 0;
}

static int read_terms(struct call *call, struct file_terms *terms)
{
    struct err err = {0};
    bool parents;
    const char *mode = call_query(call, "mode");
    const char *encoding = http_header(call->req, "Content-Encoding");
    if (encoding != NULL && strcasecmp(encoding, "identity") != 0)
        return refuse(call, ERROR_UNSUPPORTED_MEDIA_TYPE,
                      "Content-Encoding: the bytes are stored as they come; send them without it");
    if (http_header(call->req, "Content-Range") != NULL)
        return refuse(call, ERROR_INVALID_REQUEST,
                      "Content-Range: a file is put as a whole, not in parts");
    if (call_query_bool(call, "parents", true, &parents) < 0)
        return -1;
    terms->flags |= parents ? HAND_PARENTS : 0u;
    if (mode != NULL && file_mode_read(mode, &terms->mode, &err) < 0) {
        (void)err_wrap(&err, "?mode");
        call_fail(call, &err);
        return -1;
    }
    terms->flags |= mode != NULL ? HAND_MODE : 0u;
    return read_conditions(call, terms);
}

// -- the answer

static void fail(struct call *call, const struct err *err)
{
    const struct put_call *p = call->state;
    bool unmet = (err->sys_errno == EEXIST && (p->terms.flags & HAND_EXCLUSIVE)) ||
                 (err->sys_errno == ENOENT && (p->terms.flags & HAND_EXISTING));
    if (unmet)
        call_error(call, ERROR_PRECONDITION_FAILED, NULL, "%s", err->msg);
    else
        files_fail(call, err);
}

static void on_put(struct call *call, struct hand_answer *answer, const struct err *err)
{
    const struct put_call *p = call->state;
    struct buf buf;
    struct json j;
    char etag[HAND_ETAG + 2];
    if (err != NULL) {
        fail(call, err);
        return;
    }
    const struct hand_done *done = &answer->done;
    files_etag(&done->st, etag);
    if (etag[0] != '\0')
        call_add_header(call, "ETag", etag);
    buf_init(&buf, ANSWER_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    show_str(&j, "path", p->file.path);
    json_key(&j, "size");
    json_put_uint(&j, done->st.size);
    show_str(&j, "etag", etag);
    show_bool(&j, "created", done->existed == 0);
    json_close_object(&j);
    call_reply_json(call, done->existed != 0 ? 200 : 201, &j);
}

static void start(struct call *call)
{
    const struct put_call *p = call->state;
    struct file_put put = {.path = p->file.path, .terms = p->terms};
    if (!http_is_raw(call->req))
        put.data = http_body(call->req, &put.len);
    file_put(call, &put, on_put);
}

void handle_file_put(struct call *call)
{
    struct put_call *p = files_new(call, sizeof *p);
    if (p != NULL && read_terms(call, &p->terms) == 0)
        files_wake(call, start);
}
