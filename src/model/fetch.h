// SPDX-License-Identifier: Apache-2.0
// HTTP requests over libcurl, driven by the loop: each is a POST of JSON whose answer's body is
// handed on as it comes. Connections are kept and used again, those to guarded places (addresses
// are asked about, no proxy) apart from all others. Callbacks come from the loop and outside of
// libcurl, so that anything may be done in them: also freeing any, or closing it all.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/err.h"

struct web;
struct fetch;

struct web_config {
    uv_loop_t *loop;
    const char *ca_file; // "": none
    bool (*may_connect)(void *data, const struct sockaddr *address, bool tls);
    void *data;
};
int web_open(const struct web_config *config, struct web **ret, struct err *err);
// Fetches that there are end first. Its memory goes when the loop has run once more.
void web_close(struct web *web); // takes NULL

struct fetch_head {
    unsigned status; // 0: there is none yet
    bool is_whole;
    bool is_event_stream;
    int should_retry;       // x-should-retry: 1, 0, -1: nothing was said
    int64_t retry_after_ms; // -1: nothing was said
    int64_t heard_ns;       // when anything of the answer came last; 0: nothing has
    char request_id[128];
};

struct fetch_end {
    bool is_whole;     // the answer came to its end
    bool is_pointless; // no answer, and none to be had by asking again
    bool is_stale;     // the connection was a kept one that had ended: nothing was answered
    const char *why;   // "" of a whole one; lent
};

struct fetch_request { // nothing is copied but the headers: it stays until the end
    const char *url;
    const char *const *headers; // whole lines, at most FETCH_HEADERS_MAX, then NULL
    const char *body;
    size_t body_len;
    bool guarded;
    int64_t timeout_ms; // 0: none
};

enum { FETCH_HEADERS_MAX = 8 };

struct fetch_ops {
    void (*bytes)(void *data, const char *bytes, size_t len);
    void (*end)(void *data, const struct fetch_end *end); // once
};

struct fetch *fetch_start(struct web *web, const struct fetch_request *request,
                          const struct fetch_ops *ops, void *data);
void fetch_free(struct fetch *fetch); // takes NULL; nobody is called any more
const struct fetch_head *fetch_head(const struct fetch *fetch);
