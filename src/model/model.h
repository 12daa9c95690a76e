// SPDX-License-Identifier: Apache-2.0
// A client of the Messages API, over libcurl on the loop. One call is one message asked for: sent
// again as the API's own clients do (twice; 408, 409, 429, 5xx, no connection, a stream that
// breaks; `x-should-retry` and `retry-after` are heeded), cancelled at any moment, ended by its
// timeout. All on the loop's thread; callbacks come from the loop, never from within a call.
//
// A streamed answer is put together as the API would have sent it in one piece: whoever calls sees
// one result, however it came. A stream without its end is never a success.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/err.h"
#include "model/price.h"

struct model;
struct model_call;

// Where to, and as whom. The texts are the holder's: model_access_done wipes and frees them.
struct model_access {
    char *base_url; // "https://api.anthropic.com": without "/v1/messages", maybe with a path
    char *header;   // "x-api-key: ..." or "authorization: Bearer ...": one whole line
    bool guarded; // a tenant's own: addresses are checked with `may_connect`, no redirect, no proxy
};
int model_access_copy(const struct model_access *access, struct model_access *ret);
void model_access_done(struct model_access *access); // takes zeros

struct model_config {
    uv_loop_t *loop;
    const char *ca_file; // trusted beside the machine's; "": none
    // Whether a guarded access may be connected to this address, by TLS or without.
    bool (*may_connect)(void *data, const struct sockaddr *address, bool tls);
    void *data;
};
int model_open(const struct model_config *config, struct model **ret, struct err *err);
void model_close(struct model *model); // calls that run end with MODEL_CANCELLED first; takes NULL

enum model_end {
    MODEL_DONE,       // a whole message, whatever its stop_reason
    MODEL_INVALID,    // 400, 404, 413, 422: the request, the model's name
    MODEL_AUTH,       // 401, 403
    MODEL_LIMITED,    // 429
    MODEL_OVERLOADED, // 529
    MODEL_FAILED,     // 5xx, an answer that is none; errors inside a stream end as their type says
    MODEL_NETWORK,    // no connection, or it broke
    MODEL_TIMEOUT,
    MODEL_CANCELLED, // by model_cancel (then nobody is told) or model_close
    MODEL_END_MAX,
};

struct model_result { // lent for the callback
    enum model_end end;
    unsigned status;        // of HTTP, 0: there was none
    const char *error_type; // "overloaded_error"; "": none
    const char *message;    // for people, of an end that is not MODEL_DONE; never holds a key
    int64_t retry_after_ms; // 0: nothing was said
    const char *request_id; // "": none
    unsigned attempts;
    int64_t first_ns, total_ns; // until the first byte of the answer's body, until its end
    // MODEL_DONE
    const char *id, *model;
    const char *content; // JSON array of blocks
    size_t content_len;
    const char *stop_reason;  // "end_turn", "tool_use", "max_tokens", "refusal", "pause_turn", ...
    const char *stop_details; // JSON, "null": none
    // Of all attempts together; known also of a broken stream, as far as it was told.
    struct model_usage usage;
    const char *usage_json; // as the API told it, "{}": nothing
};

enum model_event_type {
    MODEL_TEXT,  // a piece of the text of block `index`
    MODEL_RAW,   // an event of the stream as JSON, also those that have one of the other types,
                 // but no error: that is told by what comes of it
    MODEL_AGAIN, // it is asked for once more: what was told of the message until now is void
};
struct model_event { // lent
    enum model_event_type type;
    const char *text;
    size_t len;
    unsigned index;
    unsigned attempt, status; // MODEL_AGAIN: the next one's number, why (0: no answer)
    int64_t delay_ms;
};

struct model_request {
    const struct model_access *access; // copied
    const char *body;                  // a JSON object, with "stream" as below; copied
    size_t body_len;
    bool stream;
    int64_t timeout_ms; // of everything, retries too; 0: 600 s
    int retries;        // -1: 2
    const char *beta;   // anthropic-beta; NULL: none
};

typedef void (*model_event_fn)(void *data, const struct model_event *event); // may be NULL
typedef void (*model_done_fn)(void *data, const struct model_result *result);
// Never fails at once: also what cannot be begun is told to `done`.
struct model_call *model_ask(struct model *model, const struct model_request *request,
                             model_event_fn event, model_done_fn done, void *data);
// What the answer has used until now: what was told of it, and about what else has come.
void model_used(const struct model_call *call, struct model_usage *ret);
void model_cancel(struct model_call *call); // nobody is called any more; not after `done`
