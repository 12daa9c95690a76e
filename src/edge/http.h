// SPDX-License-Identifier: Apache-2.0
// An HTTP/1.1 server on the loop. What it hands on is sound: framed in one way only, within the
// limits of edge/limits.h, its target raw. Nothing outside http*.c knows which library reads the
// bytes.
//
// A request lives until its answer is complete or its client is gone. Whoever works on it
// asynchronously sets http_on_close, which is called when the client goes before the answer is
// complete; after that, and after http_reply or http_stream_end, the request must not be touched
// again. Exactly one of http_reply and http_stream_begin is called for each request. All on the
// loop's thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "edge/error.h"
#include "edge/http-peek.h"

enum http_method {
    HTTP_GET = 1u << 0,
    HTTP_HEAD = 1u << 1,
    HTTP_POST = 1u << 2,
    HTTP_PUT = 1u << 3,
    HTTP_PATCH = 1u << 4,
    HTTP_DELETE = 1u << 5,
    HTTP_OPTIONS = 1u << 6,
    HTTP_OTHER = 1u << 7,
};

struct http_server;
struct http_request;

// Called when a request's head and its whole body (at most EDGE_BODY_MAX) are there. It may answer
// at once or later.
typedef void (*http_handler_fn)(struct http_request *req, void *data);
typedef void (*http_close_fn)(void *data);

struct http_listener {
    int fd;     // bound and listening; the caller's
    bool local; // a unix socket
};

// Whether the body of a request is left in the socket, for whoever takes the connection
// (http_take): its handler is called as soon as its head is there.
typedef bool (*http_raw_fn)(void *data, const struct http_peek *peek);

// Whether a request may send a body of more than EDGE_BODY_FREE, which is kept until it is
// answered: a stranger would fill the memory before anybody asks for a name. The handler of one
// that may not is called at once, without its body, and refuses it. May set the context, and whose
// it is.
typedef bool (*http_known_fn)(void *data, struct http_request *req);

// Writes the body of a message's refusal that comes before any handler: too large a body, say.
// `target` is what is known of it, "" if nothing. Answers its status.
typedef unsigned (*http_refusal_fn)(void *data, const char *target, enum error_kind kind,
                                    const char *message, const char *request_id, struct buf *ret);

struct http_config {
    uv_loop_t *loop;
    const struct http_listener *listeners;
    unsigned n_listeners;
    http_handler_fn handler;
    http_raw_fn is_raw;      // NULL: no request is
    http_known_fn is_known;  // NULL: everybody is
    http_refusal_fn refusal; // NULL: as error_write has it
    void *data;
    unsigned idle_seconds; // 0: EDGE_IDLE_SECONDS; for tests
};

int http_start(const struct http_config *config, struct http_server **ret, struct err *err);
// No new connection is accepted, idle ones are closed; requests that run go on.
void http_drain(struct http_server *server);
unsigned http_active(const struct http_server *server); // requests without a complete answer
// Closes everything but the listening sockets, which others may have too; holders of requests are
// told before it returns. Frees the server when the loop has run once more.
void http_stop(struct http_server *server);

// --- what was asked: texts live as long as the request

enum http_method http_get_method(const struct http_request *req);
const char *http_method_name(const struct http_request *req);
const char *http_target(const struct http_request *req); // raw: "/sandbox/a%20b?x=1"
const char *http_header(const struct http_request *req, const char *name); // NULL if there is none
bool http_header_twice(const struct http_request *req, const char *name);
// The head as it came (but for the space around values), for whoever hands it on.
void http_write_head(const struct http_request *req, struct buf *ret);
const char *http_body(const struct http_request *req,
                      size_t *ret_len); // never NULL, ends with a NUL
bool http_is_local(const struct http_request *req);
const char *http_peer(const struct http_request *req); // "127.0.0.1:5000", "unix"

// --- the answer

// Before http_reply or http_stream_begin. Names and values with control characters, and more than
// EDGE_REPLY_HEADERS_MAX bytes in all, are left out and logged (a bug).
void http_add_header(struct http_request *req, const char *name, const char *value);
// Takes the buffer's bytes (it is empty afterwards). `body` may be NULL. A 204 or 304 has none.
// HEAD is answered as GET without the body.
void http_reply(struct http_request *req, unsigned status, const char *content_type,
                struct buf *body);
// As http_reply, and then the connection is closed.
void http_reply_close(struct http_request *req, unsigned status, const char *content_type,
                      struct buf *body);

// A body of unknown length. Writing copies and never waits; whoever writes more than a reader takes
// looks at http_stream_queued and waits for the drain callback, which comes each time the queue has
// become empty. Whoever does not wait loses the stream at EDGE_STREAM_HARD_MAX; so does a reader
// that takes nothing of what is there for EDGE_IDLE_SECONDS. Of a lost stream SIZE_MAX is queued.
void http_stream_begin(struct http_request *req, unsigned status, const char *content_type);
void http_stream_write(struct http_request *req, const void *data, size_t len);
size_t http_stream_queued(const struct http_request *req);
void http_on_drain(struct http_request *req, http_close_fn fn, void *data);
void http_stream_end(struct http_request *req);
void http_stream_cut(struct http_request *req); // ends it as if the client had gone

void http_on_close(struct http_request *req, http_close_fn fn, void *data); // NULL: nobody any more

// --- taking the connection: large bodies, other protocols

// The socket itself, with what the answer's head needs. Everything is the caller's.
struct http_taken {
    struct http_server *server;
    int fd; // non-blocking
    bool local;
    bool keep;          // HTTP/1.1 and nothing was pipelined: it may be given back
    bool is_old;        // HTTP/1.0: it knows no chunks
    bool expects;       // wants "HTTP/1.1 100 Continue" before it sends its body
    bool chunked;       // how its body is framed; `early` is the beginning of it
    uint64_t length;    // 0 when there is none, or when chunked
    struct buf early;   // bytes behind the head that were read already
    struct buf headers; // "Name: value\r\n" of every header that was added to the answer
};

bool http_is_raw(const struct http_request *req); // its body was not read
// Instead of http_reply and http_stream_begin; the request is over for its holder (its context is
// freed soon after, on_close is not called). ERR_CONFLICT when bytes of the body, or of a next
// request, are where they cannot be had any more: answer with an error then.
int http_take(struct http_request *req, struct http_taken *ret, struct err *err);
// Gives the connection back after a whole answer was written: the next request on it is read by the
// server. Closes it where `keep` is false or the server drains. Frees what is left in `taken`.
void http_give(struct http_taken *taken);
void http_taken_close(struct http_taken *taken); // closes and frees
// As http_taken_close, after an answer to a client that may still be sending: it hears why.
void http_taken_linger(struct http_taken *taken);
// Appends "HTTP/1.1 200 OK\r\n", Date, the taken headers; fields of the answer's own and the empty
// line are the caller's to append.
void http_taken_head(const struct http_taken *taken, unsigned status, struct buf *ret);

// A place for the layer above: one pointer, freed by it with the request (called when the request
// is over, however it ended).
void http_set_context(struct http_request *req, void *context, http_close_fn free_fn);
void *http_context(const struct http_request *req);
// Whose it is, by a number of the layer's own: large bodies of one, and those of nobody (0), take
// at most half of the room that there is for them.
void http_set_owner(struct http_request *req, uint64_t owner);
