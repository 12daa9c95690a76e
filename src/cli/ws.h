// SPDX-License-Identifier: Apache-2.0
// The client's side of a WebSocket (RFC 6455) on a socket that is past its handshake: masked frames
// out, whole messages in. Knows nothing of what they mean. Non-blocking; what the socket does not
// take waits in `out`, whose length is the caller's to look at. One thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    WS_LINK_MESSAGE_MAX = 8 * 1024 * 1024,
    WS_LINK_OUT_MAX = 4 * 1024 * 1024,
};

enum ws_opcode {
    WS_CONTINUE = 0,
    WS_TEXT = 1,
    WS_BINARY = 2,
    WS_CLOSE = 8,
    WS_PING = 9,
    WS_PONG = 10
};

struct ws_link {
    int fd;
    struct buf in;      // bytes of frames that are not complete
    struct buf message; // one in several frames
    enum ws_opcode kind;
    bool in_message;
    struct buf out;
    size_t out_at;
    unsigned closed; // the code that they said goodbye with; 0: they have not
};

// Not 0: stop reading; ws_link_read then returns -1 with the err that was set there.
typedef int (*ws_message_fn)(void *data, enum ws_opcode kind, const char *bytes, size_t len,
                             struct err *err);

void ws_link_init(struct ws_link *link, int fd); // takes it
void ws_link_done(struct ws_link *link);
size_t ws_link_waiting(const struct ws_link *link);
void ws_link_send(struct ws_link *link, enum ws_opcode opcode, const void *data, size_t len);
int ws_link_flush(struct ws_link *link, struct err *err); // what goes
// Reads what is there. ERR_UNAVAILABLE: the connection has ended, with or without a goodbye.
int ws_link_read(struct ws_link *link, ws_message_fn fn, void *data, struct err *err);
// 16 random bytes in base64.
void ws_make_key(char ret[static 25]);
