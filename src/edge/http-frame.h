// SPDX-License-Identifier: Apache-2.0
// Looks at every byte of a connection before the HTTP library does, and knows one way only to frame
// a message: RFC 9112 without what it merely tolerates. Line ends are CR LF; no folded header, no
// space before a colon, no control character, no second Content-Length, Transfer-Encoding or Host,
// not both of the first two, no coding but `chunked`, no chunk extension, no trailer. So a message
// that passes means the same to everybody who passed it on, which the library alone does not
// promise: it is lenient, and hides where it was.
//
// A message that does not pass is brought to an end for the library (frame_ending), so that it
// still becomes a request, which is then answered with `status` and `why`; whatever follows on that
// connection is for nobody. No allocation, no system call: one connection, one thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "edge/http-peek.h"

enum frame_state {
    FRAME_START,      // first byte of a request, or one CR LF before it
    FRAME_START_LF,   //
    FRAME_METHOD,     //
    FRAME_TARGET,     //
    FRAME_QUERY,      // the target behind its "?"
    FRAME_VERSION,    // "HTTP/1.1", letter by letter
    FRAME_LINE_CR,    // the request line has ended
    FRAME_LINE_LF,    //
    FRAME_FIELD,      // first byte of a header line, or of the empty one
    FRAME_NAME,       //
    FRAME_SPACE,      // between colon and value
    FRAME_VALUE,      //
    FRAME_VALUE_LF,   //
    FRAME_HEAD_LF,    // of the empty line
    FRAME_BODY,       // `left` bytes of Content-Length
    FRAME_CHUNK_SIZE, // hexadecimal digits
    FRAME_CHUNK_LINE_LF,
    FRAME_CHUNK,    // `left` bytes
    FRAME_CHUNK_CR, // behind them
    FRAME_CHUNK_LF,
    FRAME_LAST_CR, // the empty line behind the chunk of size 0
    FRAME_LAST_LF,
    FRAME_RAW,     // the head of a message whose body somebody else reads: nothing more is
    FRAME_REFUSED, // nothing more is read
    FRAME_STATE_MAX,
};

enum frame_field { FRAME_OTHER, FRAME_LENGTH, FRAME_CODING, FRAME_HOST, FRAME_COOKIE };

struct frame {
    // Set once, may be NULL: whether the body of this message, and whatever follows it, is left for
    // somebody else.
    bool (*is_raw)(void *data, const struct http_peek *peek);
    void *raw_data;
    struct http_peek peek; // filled while is_raw is set
    unsigned n_host_bytes;
    enum frame_state state;
    enum frame_state refused_in; // where it was found
    enum frame_field field;      // the header whose value is read
    unsigned heads;              // requests whose head is complete, also if it was completed by us
    unsigned refused_at;         // the number of the request that is refused, from 1
    unsigned status;             // 0, or 400, 413, 414, 431
    const char *why;
    unsigned n_target, n_args, n_fields, field_bytes, at; // of this request
    char name[20];                                        // as much of a header's name as matters
    uint8_t n_length, n_coding, n_host, minor, held;
    bool blank; // an empty line was skipped
    uint64_t left, body;
    uint64_t bytes; // of this message so far
};

void frame_init(struct frame *frame);
// How many of the bytes are good: all, or those before the one that is refused. The last
// frame_held() of all that were good so far are not handed on yet: the beginning of a chunk's size,
// which could not be completed if it went wrong later. Once refused they never are.
size_t frame_feed(struct frame *frame, const char *data, size_t len);
static inline size_t frame_held(const struct frame *frame)
{
    return frame->held;
}
// Hands on what is held, because a buffer is full.
static inline void frame_release(struct frame *frame)
{
    frame->held = 0;
}
// What completes the message that was refused, after what was handed on of it. NULL when nothing
// can, after frame_release.
const char *frame_ending(const struct frame *frame);
// Whether request number n is refused. It may only become known with its body.
static inline bool frame_refuses(const struct frame *frame, unsigned n)
{
    return n > frame->heads || (frame->status != 0 && n >= frame->refused_at);
}
// Between two messages: no byte of the next one was seen.
static inline bool frame_is_idle(const struct frame *frame)
{
    return frame->state == FRAME_START && frame->bytes == 0;
}
