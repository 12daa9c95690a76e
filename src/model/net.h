// SPDX-License-Identifier: Apache-2.0
// What net.c (libcurl on the loop) and transfer.c (one request) share.
#pragma once

#include <curl/curl.h>
#include <openssl/ssl.h>

#include "base/buf.h"
#include "model/transfer.h"

// Connections that may be shared among each other.
struct lane {
    struct net *net;
    CURLM *multi; // NULL: closed
    uv_timer_t timer;
};

enum { LANE_OPEN, LANE_GUARDED, LANE_MAX };

struct net {
    struct net_config config;
    X509_STORE *trusted;
    struct lane lanes[LANE_MAX];
    struct transfer *all;
    struct transfer *ready, **ready_end; // have bytes that were not handed on
    struct buf spare;                    // memory for those of the next one
    unsigned handles;                    // of the loop, that are not closed
    bool is_closing;
};

struct transfer {
    struct net *net;
    struct transfer *next, **at; // of all
    struct transfer *next_ready;
    bool is_ready, guarded, tls, refused;
    CURL *easy;
    CURLM *multi; // it is in; NULL: in none
    struct curl_slist *headers;
    struct transfer_ops ops;
    void *data;
    struct transfer_head head;
    size_t head_len;
    bool has_body;
    struct buf bytes;
    char error[CURL_ERROR_SIZE];
};

void net_tell_bytes(struct net *net);
void transfer_has_ended(struct transfer *transfer, CURLcode code);
