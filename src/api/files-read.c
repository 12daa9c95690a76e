// SPDX-License-Identifier: Apache-2.0
// GET of a file: its bytes, or a part of them. A small file comes with the hand's answer; of others
// comes a descriptor, which is sent on the connection itself.
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "api/conditional.h"
#include "api/file-get.h"
#include "api/files-internal.h"
#include "api/handlers.h"
#include "api/transfer.h"
#include "base/clock.h"
#include "base/fd.h"

enum { HEAD_MAX = 8 * 1024 };

struct read_call {
    struct file_call file; // first
    struct file_get get;
    int fd; // being sent
};

struct found { // what there is to send
    const struct hand_stat *st;
    char etag[HAND_ETAG + 2]; // quoted
    uint64_t size;
    struct range range;
};

// -- conditions

// Whether the file itself is to be sent; else it was answered.
static bool check_conditions(struct call *call, const struct found *found)
{
    const char *if_match = http_header(call->req, "If-Match");
    const char *if_none = http_header(call->req, "If-None-Match");
    if (if_match != NULL && !etag_listed(if_match, found->st->etag, /*strong=*/true)) {
        call_error(call, ERROR_PRECONDITION_FAILED, NULL, "the file's ETag is %s", found->etag);
        return false;
    }
    if (if_none == NULL || !etag_listed(if_none, found->st->etag, /*strong=*/false))
        return true;
    struct buf none;
    buf_init(&none, 0);
    call_reply(call, 304, NULL, &none);
    return false;
}

static bool check_range(struct call *call, struct found *found)
{
    char text[64];
    const char *header = http_header(call->req, "Range");
    if (header != NULL && !etag_in_range(http_header(call->req, "If-Range"), found->st->etag))
        header = NULL;
    found->range = range_read(header, found->size);
    if (found->range.kind == RANGE_PART) {
        (void)snprintf(text, sizeof text, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64,
                       found->range.from, found->range.from + found->range.len - 1, found->size);
        call_add_header(call, "Content-Range", text);
    }
    if (found->range.kind != RANGE_NONE)
        return true;
    (void)snprintf(text, sizeof text, "bytes */%" PRIu64, found->size);
    call_add_header(call, "Content-Range", text);
    call_error(call, ERROR_RANGE_NOT_SATISFIABLE, NULL, "the file has %" PRIu64 " bytes",
               found->size);
    return false;
}

// -- the answer

static void add_headers(struct call *call, const struct found *found)
{
    char date[40];
    struct tm tm;
    time_t seconds = found->st->mtime_ns / NS_PER_S;
    if (found->etag[0] != '\0')
        call_add_header(call, "ETag", found->etag);
    call_add_header(call, "Accept-Ranges", "bytes");
    // What lies in a box is a stranger's, and comes from the origin of the API.
    call_add_header(call, "Content-Security-Policy", "sandbox");
    if (gmtime_r(&seconds, &tm) != NULL &&
        strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &tm) > 0)
        call_add_header(call, "Last-Modified", date);
}

static const char *type_of(const struct read_call *r)
{
    return r->get.type != NULL ? r->get.type : file_media_type(r->file.path);
}

static unsigned status_of(const struct found *found)
{
    return found->range.kind == RANGE_PART ? 206 : 200;
}

static void reply_bytes(struct call *call, const struct found *found, const char *data)
{
    const struct read_call *r = call->state;
    struct buf buf;
    buf_init(&buf, HAND_INLINE);
    (void)buf_append(&buf, data + found->range.from, (size_t)found->range.len);
    call_reply(call, status_of(found), type_of(r), &buf);
}

static void on_sent(struct call *call, const struct move_result *result)
{
    struct read_call *r = call->state;
    fd_close(TAKE_FD(r->fd));
    // One that has become shorter meanwhile cannot be what its head said: the connection ends.
    if (result != NULL && result->why == MOVE_COMPLETE)
        call_taken_done(call);
    else
        call_drop(call);
}

static void send_file(struct call *call, const struct found *found, int fd)
{
    struct read_call *r = call->state;
    struct err err = {0};
    auto_fd file = fd;
    auto_buf head;
    buf_init(&head, HEAD_MAX);
    if (call_take(call) < 0)
        return;
    call_count(call, status_of(found));
    call_taken_head(call, status_of(found), type_of(r), found->range.len, &head);
    struct move_config config = {
        .from = file,
        .from_offset = (int64_t)found->range.from,
        .to = call->taken->fd,
        .to_offset = MOVE_NO_OFFSET,
        .length = call->is_head ? 0 : found->range.len,
        .first = head.data,
        .first_len = head.len,
        .stall_ms = TRANSFER_STALL_MS,
    };
    if (head.failed != 0 || transfer_start(call, &config, on_sent, &err) < 0)
        call_drop(call);
    else
        r->fd = TAKE_FD(file);
}

// -- the hand's answer

static void on_read(struct call *call, struct hand_answer *answer, const struct err *err)
{
    const struct read_call *r = call->state;
    struct stat st;
    if (call->req == NULL)
        return;
    if (err != NULL) {
        if (files_kind(err) == ERROR_IS_DIRECTORY)
            call_error(call, ERROR_IS_DIRECTORY, NULL, "%s%s", err->msg, r->get.of_directory);
        else
            files_fail(call, err);
        return;
    }
    struct found found = {.st = &answer->done.st, .size = answer->done.data_len};
    files_etag(found.st, found.etag);
    if (answer->fd >= 0) { // whatever the hand said
        if (fstat(answer->fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < 0) {
            call_error(call, ERROR_UNAVAILABLE, NULL, "the file cannot be read");
            return;
        }
        found.size = (uint64_t)st.st_size;
    }
    add_headers(call, &found);
    if (!check_conditions(call, &found) || !check_range(call, &found))
        return;
    if (answer->fd >= 0)
        send_file(call, &found, TAKE_FD(answer->fd));
    else
        reply_bytes(call, &found, answer->data);
}

static void start(struct call *call)
{
    const struct read_call *r = call->state;
    const struct hand_ask ask = {.type = HAND_READ, .path = r->file.path};
    files_ask(call, &ask, on_read);
}

void file_get(struct call *call, const struct file_get *get)
{
    struct read_call *r = files_new(call, sizeof *r);
    if (r == NULL)
        return;
    r->get = *get;
    r->fd = -1;
    files_wake(call, start);
}

void handle_file_get(struct call *call)
{
    bool list, stat_only;
    if (call_query_bool(call, "list", false, &list) < 0 ||
        call_query_bool(call, "stat", false, &stat_only) < 0)
        return;
    if (list) {
        files_list(call);
    } else if (stat_only) {
        files_stat(call);
    } else if (files_list_asked(call)) {
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "?recursive, ?hidden, ?limit and ?after go with ?list");
    } else if (call->param[1] == NULL) {
        call_error(call, ERROR_IS_DIRECTORY, NULL, "'/' is a directory; add ?list to list it");
    } else {
        file_get(call, &(struct file_get){.of_directory = "; add ?list to list it"});
    }
}
