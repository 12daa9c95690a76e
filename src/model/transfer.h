// SPDX-License-Identifier: Apache-2.0
// HTTP requests over libcurl, driven by the loop: each is a POST of JSON whose answer's body is
// handed on as it comes. Connections are kept and used again, those to guarded places (addresses
// are asked about, no proxy) apart from all others. Callbacks come from the loop and outside of
// libcurl, so that anything may be done in them: also freeing any transfer, or closing the net.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/err.h"

struct net;
struct transfer;

struct net_config {
    uv_loop_t *loop;
    const char *ca_file; // "": none
    bool (*may_connect)(void *data, const struct sockaddr *address, bool tls);
    void *data;
};
int net_open(const struct net_config *config, struct net **ret, struct err *err);
// Transfers that there are end first. Its memory goes when the loop has run once more.
void net_close(struct net *net); // takes NULL

struct transfer_head {
    unsigned status; // 0: there is none yet
    bool is_event_stream;
    int should_retry;       // x-should-retry: 1, 0, -1: nothing was said
    int64_t retry_after_ms; // -1: nothing was said
    int64_t heard_ns;       // when anything of the answer came last; 0: nothing has
    char request_id[128];
};

struct transfer_end {
    bool is_whole;     // the answer came to its end
    bool is_pointless; // no answer, and none to be had by asking again
    const char *why;   // "" of a whole one; lent
};

struct transfer_request { // nothing is copied but the headers: it stays until the end
    const char *url;
    const char *const *headers; // whole lines, at most TRANSFER_HEADERS_MAX, then NULL
    const char *body;
    size_t body_len;
    bool guarded;
    int64_t timeout_ms; // 0: none
};

enum { TRANSFER_HEADERS_MAX = 8 };

struct transfer_ops {
    void (*bytes)(void *data, const char *bytes, size_t len);
    void (*end)(void *data, const struct transfer_end *end); // once
};

struct transfer *transfer_start(struct net *net, const struct transfer_request *request,
                                const struct transfer_ops *ops, void *data);
void transfer_free(struct transfer *transfer); // takes NULL; nobody is called any more
const struct transfer_head *transfer_head(const struct transfer *transfer);
