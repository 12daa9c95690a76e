// SPDX-License-Identifier: Apache-2.0
// A WebSocket on a taken connection (frames by libwslay): the server's side of RFC 6455, no
// extensions. Whatever the other side does costs bounded memory: a message above `max_message` ends
// it with 1009, more than WS_QUEUE_MAX bytes that it has not taken with 1008, and so do floods of
// control frames and messages in too many pieces. One that is not heard of for two pings is given
// up. All on the loop's thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "edge/http.h"

enum {
    WS_QUEUE_MAX = 2 * 1024 * 1024,
    WS_PING_SECONDS = 30,
    WS_FRAGMENTS_MAX = 1024, // of one message
    WS_CONTROL_BURST = 256,  // control frames at once,
    WS_CONTROL_RATE = 32,    // and a second
};

enum ws_code { // RFC 6455, section 7.4.1
    WS_NORMAL = 1000,
    WS_GOING_AWAY = 1001,
    WS_PROTOCOL = 1002,
    WS_BROKEN = 1006, // never sent: the connection ended without a word
    WS_POLICY = 1008,
    WS_TOO_LARGE = 1009,
    WS_TROUBLE = 1011,
};

struct ws;

struct ws_ops {
    void (*text)(void *data, const char *text, size_t len); // UTF-8, checked
    void (*binary)(void *data, const void *bytes, size_t len);
    // All that was sent is taken; may be NULL. Never called from within ws_send_*.
    void (*drained)(void *data);
    // It is over: closed by either side, or broken. Called once, never from within another call
    // (but for ws_end_all); the ws must not be touched after it.
    void (*closed)(void *data, unsigned code);
};

// Whether a request asks for one: Upgrade: websocket.
bool ws_is_asked(const struct http_request *req);
// What is wrong with a request. ERR_UNSUPPORTED: it asks for none, or for another version (a 426,
// with Sec-WebSocket-Version: 13). ERR_INVALID: method, key, body. ERR_DENIED: an Origin that is
// neither the Host's own nor in `origins` (by commas, as for CORS; "*" is any).
int ws_check(const struct http_request *req, const char *origins, struct err *err);
// Whether the client offers this subprotocol.
bool ws_offers(const struct http_request *req, const char *protocol);
// The first one that it offers which begins with `prefix`: where the rest of it begins, and its
// length. NULL: none.
const char *ws_offer(const struct http_request *req, const char *prefix, size_t *ret_len);
// Takes the connection and answers 101 (`protocol`: one that is offered, or NULL). After ws_check.
// -1: the request is still to be answered.
int ws_accept(struct http_request *req, uv_loop_t *loop, const char *protocol, size_t max_message,
              const struct ws_ops *ops, void *data, struct ws **ret, struct err *err);
// A socket that is past its handshake. Takes it, and the bytes of `early` (NULL: none) that were
// read from it before.
struct ws *ws_new(uv_loop_t *loop, int fd, struct buf *early, size_t max_message,
                  const struct ws_ops *ops, void *data);

// Both copy and never wait: whoever writes much looks at ws_queued and waits for `drained`.
void ws_send_text(struct ws *ws, const char *text, size_t len);
void ws_send_binary(struct ws *ws, const void *bytes, size_t len);
size_t ws_queued(const struct ws *ws);
// Says goodbye, after all that was sent before. Only `closed` comes after this.
void ws_close(struct ws *ws, unsigned code, const char *reason);
void ws_pause(struct ws *ws, bool paused); // nothing is read: the owner cannot take more
void ws_end_all(void);                     // at once: the loop is about to end
// Sec-WebSocket-Accept for a key.
void ws_accept_key(const char *key, char ret[static 29]);
