// SPDX-License-Identifier: Apache-2.0
// Calls whose connection was taken from the HTTP server: large bodies in either direction are moved
// on the socket itself. What is answered looks like any other answer.
#include <inttypes.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "api/call.h"

enum { HEAD_MAX = 8 * 1024 };

int call_take(struct call *call)
{
    struct err err = {0};
    struct http_taken *taken = calloc(1, sizeof *taken);
    if (taken == NULL)
        abort();
    if (http_take(call->req, taken, &err) < 0) {
        free(taken);
        call_fail(call, &err);
        return -1;
    }
    call->taken = taken;
    call->req = NULL;
    call->stop = NULL;
    return 0;
}

void call_drop(struct call *call)
{
    if (call->taken == NULL)
        return;
    if (call->taken->fd >= 0)
        http_taken_close(call->taken);
    free(call->taken);
    call->taken = NULL;
}

void call_taken_done(struct call *call)
{
    if (call->taken->keep)
        http_give(call->taken);
    else
        http_taken_linger(call->taken);
    free(call->taken);
    call->taken = NULL;
}

void call_taken_head(const struct call *call, unsigned status, const char *type, uint64_t length,
                     struct buf *ret)
{
    http_taken_head(call->taken, status, ret);
    if (type != NULL)
        (void)buf_printf(ret, "Content-Type: %s\r\n", type);
    if (length == UINT64_MAX)
        (void)buf_append_str(ret, "Transfer-Encoding: chunked\r\n");
    else
        (void)buf_printf(ret, "Content-Length: %" PRIu64 "\r\n", length);
    if (!call->taken->keep)
        (void)buf_append_str(ret, "Connection: close\r\n");
    (void)buf_append_str(ret, "\r\n");
}

// Nothing was written to the socket before, so that this fits into its buffer. A client that has
// made that buffer too small to hold an answer gets none.
void call_taken_reply(struct call *call, unsigned status, const char *type, const struct buf *body)
{
    auto_buf answer;
    buf_init(&answer, HEAD_MAX + body->len);
    call_count(call, status);
    call_taken_head(call, status, type, body->len, &answer);
    if (!call->is_head)
        (void)buf_append(&answer, body->data, body->len);
    ssize_t n = send(call->taken->fd, answer.data, answer.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (answer.failed != 0 || n != (ssize_t)answer.len)
        call_drop(call);
    else
        call_taken_done(call);
}
