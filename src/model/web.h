// SPDX-License-Identifier: Apache-2.0
// What web.c (libcurl on the loop) and fetch.c (one request) share.
#pragma once

#include <curl/curl.h>
#include <openssl/ssl.h>

#include "base/buf.h"
#include "model/fetch.h"

// Connections that may be shared among each other.
struct lane {
    struct web *web;
    CURLM *multi; // NULL: closed
    uv_timer_t timer;
    bool is_acting; // it is called
};

enum { LANE_OPEN, LANE_GUARDED, LANE_MAX };

struct web {
    struct web_config config;
    X509_STORE *trusted;
    bool has_loader; // the thread that loads the machine's certificates has begun,
    bool has_loaded; // and was waited for
    uv_thread_t loader;
    struct lane lanes[LANE_MAX];
    struct fetch *all;
    struct fetch *ready, **ready_end; // have bytes that were not handed on
    struct buf spare;                 // memory for those of the next one
    unsigned handles;                 // of the loop, that are not closed
    bool is_closing;
};

struct fetch {
    struct web *web;
    struct fetch *next, **at; // of all
    struct fetch *next_ready;
    bool is_ready, guarded, tls, refused;
    CURL *easy;
    CURLM *multi; // it is in; NULL: in none
    struct curl_slist *headers;
    struct fetch_ops ops;
    void *data;
    struct fetch_head head;
    size_t head_len;
    bool has_body, is_paused;
    struct buf bytes;
    char error[CURL_ERROR_SIZE];
};

void web_tell_bytes(struct web *web);
void web_load_trusted(struct web *web);   // begins
X509_STORE *web_trusted(struct web *web); // waits for it
void fetch_resume(struct fetch *fetch);   // its bytes were taken
void fetch_has_ended(struct fetch *fetch, CURLcode code);
