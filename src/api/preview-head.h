// SPDX-License-Identifier: Apache-2.0
// What a program in a box gets of a request, and what a browser gets of its answer. Nothing that
// belongs to Cay goes in; nothing that would reach beyond the preview's own host comes out.
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "h1/exchange.h"

struct preview_rules {
    bool by_path;       // under the API's own host: no cookies, no credentials, a sandboxed page
    const char *prefix; // of by_path: "/sandbox/a/proxy/3000", cut off the target
    const char *origin; // of by_path: a page that may read the answer; or NULL
    const char *peer;   // "127.0.0.1"; "" for a unix socket
    bool tls;           // what the client speaks to whoever is in front
    // Whether a bearer's token is one of the API's: those are not for boxes.
    bool (*is_ours)(void *data, const char *token);
    void *data;
};

// 0, or -1 for a request that is none of a preview's: its target has another form, or lies
// elsewhere.
int preview_write_request(const struct preview_rules *rules, const struct exchange *x,
                          const struct h1_head *head, struct buf *ret);
void preview_write_answer(const struct preview_rules *rules, const struct exchange *x,
                          const struct h1_head *head, struct buf *ret);
// The fields by which a browser lets that page read an answer.
void preview_write_cors(const struct preview_rules *rules, struct buf *ret);

// The value of ?cay_token= in a target, as its own text. 1, 0 when there is none, -1 when there are
// several, or one that cannot be.
int preview_query_token(const char *target, size_t len, char *ret, size_t size);
