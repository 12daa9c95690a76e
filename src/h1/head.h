// SPDX-License-Identifier: Apache-2.0
// The head of an HTTP/1.1 message, read strictly: RFC 9112 without what it merely tolerates (as
// edge/http-frame.h does for the server itself): CR LF only, no folded line, no space before a
// colon, no control characters, one Host, one Content-Length or one Transfer-Encoding: chunked and
// never both. What passes means the same to everybody who passes it on. No allocation, no state,
// any thread: all texts point into the bytes that were read.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    H1_HEAD_MAX = 16 * 1024, // bytes of a head
    H1_FIELDS_MAX = 100,
};

struct h1_text {
    const char *at; // not ended by a NUL
    size_t len;
};

struct h1_field {
    struct h1_text name, value; // value without the space around it
};

enum h1_body {
    H1_NO_BODY,
    H1_LENGTH, // `length` bytes follow
    H1_CHUNKED,
    H1_TO_END, // an answer that ends with its connection
};

struct h1_head {
    struct h1_text method, target; // of a request
    unsigned status;               // of an answer; with its reason
    struct h1_text reason;
    unsigned minor; // HTTP/1.minor
    size_t n_fields;
    struct h1_field fields[H1_FIELDS_MAX];
    size_t len; // bytes of the head, with its empty line
    enum h1_body body;
    uint64_t length;
    bool close;   // the connection ends after this message (Connection: close, or HTTP/1.0)
    bool upgrade; // to a WebSocket: Connection: upgrade and Upgrade: websocket, without a body
};

extern const char h1_too_long[]; // one of the texts that *why may be

// 1 when the head is complete, 0 when more bytes are needed, -1 and *why (a constant text).
int h1_parse_request(struct h1_head *ret, const char *data, size_t len, const char **why);
// `method`: of the request that is answered (HEAD has no body). 1xx, 204, 304 have none.
int h1_parse_answer(struct h1_head *ret, const char *data, size_t len, struct h1_text method,
                    const char **why);

bool h1_is(struct h1_text text, const char *word);      // the same letters, whatever their case
bool h1_same(struct h1_text text, const char *exactly); // byte for byte
const struct h1_field *h1_find(const struct h1_head *head, const char *name); // NULL: none
unsigned h1_count(const struct h1_head *head, const char *name);
// A comma-separated list has this word (Connection, Transfer-Encoding), whatever its case.
bool h1_has_word(struct h1_text list, const char *word);
// Fields that belong to one connection only (Connection and those it names, Keep-Alive, TE,
// Trailer, Transfer-Encoding, Upgrade, Proxy-*): never passed on as they are.
bool h1_is_hop_by_hop(const struct h1_head *head, struct h1_text name);

// Follows a body to its end.
struct h1_framing {
    enum h1_body body;
    uint64_t left;          // of the length, or of this chunk
    unsigned state, digits; // framing.c's
    bool done;
    bool bad;
};
void h1_framing_init(struct h1_framing *framing, const struct h1_head *head);
// How many of the bytes belong to the message; less than `len` only when it is `done` or `bad`.
size_t h1_framing_feed(struct h1_framing *framing, const char *data, size_t len);
// As above, but only as far as the bytes are all of one kind: the body's own, or the frame of its
// chunks.
size_t h1_framing_next(struct h1_framing *framing, const char *data, size_t len, bool *ret_is_data);
bool h1_framing_in_data(const struct h1_framing *framing); // which kind comes next
