// SPDX-License-Identifier: Apache-2.0
// Asks a server over HTTP/1.1, one connection a request. Blocking; connecting gives up after a
// while, waiting for an answer does not. A place owns nothing but its own bytes. One thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "cli/reply.h"

enum {
    HTTP_CONNECT_MS = 10 * 1000, // for each address of a host
    HTTP_HOST_MAX = 256,
    HTTP_PREFIX_MAX = 256,
};

// Where a server is: a unix socket, or a host and port.
struct http_place {
    char socket[108]; // "" for a host
    char host[HTTP_HOST_MAX];
    char port[6];
    char prefix[HTTP_PREFIX_MAX];  // of every target: "" or "/some/path"
    char text[HTTP_HOST_MAX + 16]; // for messages
};

int http_place_socket(struct http_place *ret, const char *path, struct err *err);
// "http://host[:port][/prefix]", "unix:/path".
int http_place_url(struct http_place *ret, const char *url, struct err *err);

#define HTTP_UNKNOWN UINT64_MAX

struct http_call {
    const char *method;
    const char *target;       // "/sandbox?x=1", encoded
    const char *token;        // NULL: none
    const char *accept;       // NULL: application/json
    const char *key;          // Idempotency-Key; NULL: none
    const char *last_event;   // Last-Event-ID; NULL: none
    const char *if_none;      // If-None-Match; NULL: none
    const char *content_type; // NULL: application/json, where there is a body
    const void *body;         // NULL: none
    size_t body_len;
    // A body that is read as it is sent, instead: `max` bytes at most, 0 at its end, -1 and err.
    // Of `read_length` bytes; HTTP_UNKNOWN: it is sent in chunks. NULL: none.
    ssize_t (*read_body)(void *data, void *bytes, size_t max, struct err *err);
    void *read_data;
    uint64_t read_length;
    // Asks for a WebSocket with this key (16 bytes in base64; NULL: none). When the server switches
    // (101), the connection goes to *ret_switched, with nothing read of what comes behind its head.
    const char *ws_key;
    int *ret_switched;
    // A descriptor that becomes readable when its caller wants to be asked, and what is called
    // then: not 0 ends the call. NULL: nobody.
    int wake_fd;
    int (*on_wake)(void *data, struct err *err);
    void *wake_data;
};

enum http_broken {      // how far a call has come that failed
    HTTP_NOT_CONNECTED, // the server cannot have seen it
    HTTP_SENT,          // it may have
};

// 0 when `reply` is complete, whatever its status. Else -1, and `ret_broken` says how far it came.
// What the reply's body callback refuses ends the call too, with the err that it has set.
int http_call(const struct http_place *place, const struct http_call *call, struct reply *reply,
              enum http_broken *ret_broken, struct err *err);

// Percent-encodes all but unreserved characters.
int http_encode(struct buf *buf, const char *text); // 0 or -errno
