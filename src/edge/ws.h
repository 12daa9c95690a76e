// SPDX-License-Identifier: Apache-2.0
// A WebSocket on a taken connection (frames by libwslay): the server's side of RFC 6455, no
// extensions. Whatever the other side does costs bounded memory: messages above `max_message` end
// it with 1009, a reader that stops with WS_QUEUE_MAX waiting ends it with 1008, unless the owner
// waits for `drained` itself. All on the loop's thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "edge/http.h"

enum { WS_QUEUE_MAX = 1024 * 1024, WS_PING_SECONDS = 30 };

struct ws;

struct ws_ops {
    void (*text)(void *data, const char *text, size_t len); // UTF-8, checked; NUL behind it
    void (*binary)(void *data, const void *bytes, size_t len);
    void (*drained)(void *data); // the queue is empty again; may be NULL
    // It is over: closed by either side, or broken (1006). The ws is freed after this.
    void (*closed)(void *data, unsigned code);
};

// Whether a request asks for one: Upgrade: websocket. ws_check says what is wrong with it
// (ERR_INVALID: key, version, method); an Origin that is not in `origins` (a list as for CORS) and
// not the Host's own is ERR_DENIED.
bool ws_is_asked(const struct http_request *req);
int ws_check(const struct http_request *req, const char *origins, struct err *err);
// Takes the connection and answers 101. After ws_check. -1: the request is still to be answered.
int ws_accept(struct http_request *req, uv_loop_t *loop, size_t max_message,
              const struct ws_ops *ops, void *data, struct ws **ret, struct err *err);
void ws_send_text(struct ws *ws, const char *text, size_t len);
void ws_send_binary(struct ws *ws, const void *bytes, size_t len);
size_t ws_queued(const struct ws *ws);
// Says goodbye; `closed` comes later.
void ws_close(struct ws *ws, unsigned code, const char *reason);
void ws_pause(struct ws *ws, bool paused); // nothing is read: the owner cannot take more
