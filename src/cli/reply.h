// SPDX-License-Identifier: Apache-2.0
// Reads the answer to one HTTP/1.1 request, byte by byte if need be: status line, headers, and a
// body that is framed by Content-Length, by chunks or by the end of the connection. Body bytes are
// handed on as they come and never kept. Strict: line ends are CRLF, a header stands on one line,
// and whatever could be framed in two ways is refused. What it keeps is bounded by REPLY_HEAD_MAX.
// Knows nothing of sockets. One thread at a time.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    REPLY_HEAD_MAX = 32 * 1024, // bytes of status line and headers; of trailers once more
    REPLY_LINE_MAX = 8 * 1024,  // of one line, as that of a chunk's size
    REPLY_INTERIM_MAX = 8,      // answers of 1xx before the real one
};

// One state for each thing that can come next.
enum reply_state {
    REPLY_STATUS,     // the status line
    REPLY_HEADERS,    // a header, or the empty line behind them
    REPLY_FIXED,      // `left` more bytes of body
    REPLY_CHUNK_SIZE, // the line before a chunk
    REPLY_CHUNK,      // `left` more bytes of a chunk
    REPLY_CHUNK_END,  // the empty line behind a chunk
    REPLY_TRAILERS,   // a trailer, or the empty line behind them
    REPLY_UNTIL_END,  // bytes up to the end of the connection
    REPLY_DONE,
};

// Body bytes. Not 0: stop reading; reply_feed then returns -1 with the err that was set there.
typedef int (*reply_body_fn)(void *data, const void *bytes, size_t len, struct err *err);

struct reply {
    enum reply_state state;
    unsigned status;
    bool has_length, chunked;
    bool is_1_0;
    bool may_switch; // 101 is an answer: complete with its head
    unsigned interim;
    uint64_t left;     // of the body, or of its chunk
    size_t head_bytes; // read so far of the head, or of the trailers
    struct buf line;   // the one being read
    struct buf fields; // "name\0value\0" for each header, names in small letters
    reply_body_fn body;
    void *data;
};

void reply_init(struct reply *reply, reply_body_fn body, void *data);
void reply_done(struct reply *reply);

// Takes all of it. What comes behind the answer's end is an error: nothing more was asked.
int reply_feed(struct reply *reply, const void *data, size_t len, struct err *err);
// The connection has ended: 0 when the answer is complete with that.
int reply_end(struct reply *reply, struct err *err);
// Whether the head is there, so that status and headers can be asked for.
bool reply_has_head(const struct reply *reply);
// `name` in small letters; the first of that name, or NULL.
const char *reply_header(const struct reply *reply, const char *name);
