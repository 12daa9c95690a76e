// SPDX-License-Identifier: Apache-2.0
// One request on its way through the API: who asks, for what, with which body, and how it is
// answered. Counted: the HTTP server holds it as long as the request lasts, and whoever works on it
// asynchronously takes a reference for that time. `req` becomes NULL with the answer, or when the
// client goes; replies are then dropped, so nobody has to ask before replying. On the loop's
// thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/api-internal.h"
#include "api/family.h"
#include "api/route.h"
#include "base/buf.h"
#include "base/json.h"
#include "db/db.h"
#include "edge/body.h"
#include "edge/error.h"
#include "edge/http.h"
#include "edge/limits.h"
#include "edge/target.h"
#include "sandbox/sandbox.h"

struct token;

struct idem {
    char *key; // NULL: none was sent
    uint8_t request[32];
    bool active;   // the key is ours and has no answer yet
    char *process; // a repeated stream: the process that the first one started
};

struct call {
    struct api *api;
    struct http_request *req;
    struct http_taken *taken; // its connection, once that was taken (taken.c)
    enum http_method method;
    const struct family *family;
    const struct route *route; // NULL while it is not known
    unsigned refs;
    char id[EDGE_REQUEST_ID_MAX + 1];
    bool id_is_ours; // and not what the client calls it
    int64_t start_ns;
    struct target target;
    const char *param[ROUTE_PARAMS_MAX]; // of the path, decoded
    struct token *token;                 // counted; NULL: nobody known
    int64_t tenant;
    bool admin;
    bool is_head;
    struct body body;
    struct sandbox *sandbox; // counted; of a route with a sandbox's id
    bool has_marked;         // that a sandbox shall be restored, before it was made
    bool is_apart;           // what is moved for it does not come from the sandbox's box
    bool is_at_work;         // its sandbox runs: what fails now is the work itself
    struct idem idem;
    // What the handler keeps, freed with free(3) when the call is over, and how it hears that
    // nobody waits any more (the client is gone): it lets go of what `state` refers to.
    void *state;
    void (*stop)(struct call *call);
    size_t held, asked; // bytes that are counted until it is over (hold.c): all, and its request's
    char *about;        // call_about
    // An answer that is being streamed (stream.c).
    bool streaming, stream_is_sse;
    bool stream_stays; // also when the server stops: what it tells comes to its end before
    int64_t written_ns;
    struct call *stream_prev, *stream_next;
};

struct call *call_new(struct api *api, struct http_request *req);
struct call *call_ref(struct call *call);
void call_unref(struct call *call);
// For a sandbox_fn whose data is a reference to the call, which is given back: answers the error,
// or goes on with `next` if anybody still wants the answer.
void call_go_on(struct call *call, const struct err *err, void (*next)(struct call *call));

const char *call_query(const struct call *call, const char *name); // decoded, NULL if not given
// Numbers and switches of the query. 0, or -1 when it was refused and answered.
int call_query_u64(struct call *call, const char *name, uint64_t max, uint64_t fallback,
                   uint64_t *ret);
int call_query_bool(struct call *call, const char *name, bool fallback, bool *ret);
bool call_accepts(const struct call *call, const char *type); // named in the Accept header

// --- answers

void call_reply(struct call *call, unsigned status, const char *type, struct buf *body);
// What the writer wrote; a body that did not fit is a 500.
void call_reply_json(struct call *call, unsigned status, struct json *json);
void call_reply_ok(struct call *call); // {"success":true}
void call_fail(struct call *call, const struct err *err);
// `details`: a JSON object, or NULL.
void call_error(struct call *call, enum error_kind kind, const char *details, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
// What the call is about, as a JSON object, for families whose errors carry that: {"path":
// "/workspace/a"}. Told with every error from now on that brings no details of its own. Copied.
void call_about(struct call *call, const char *json);
// {"success":true,"<key>":[...]}: begin, let something write the entries into list.json, end with
// what it returned.
struct call_list {
    struct buf buf;
    struct json json;
};
void call_list_begin(struct call_list *list, const char *key);
void call_list_end(struct call *call, struct call_list *list, int r, const struct err *err);
void call_add_header(struct call *call, const char *name, const char *value);
void call_header_n(struct call *call, const char *name, int64_t n);
void call_count(struct call *call, unsigned status); // for the log and /metrics

// --- large answers (hold.c)

enum {
    CALL_SMALL = 256 * 1024,          // what always has room
    CALL_HELD_MAX = 256 * 1024 * 1024 // of all calls together; of one token's, half of it
};
// An answer waits in memory for a reader who may never take it. call_reply counts each; one of a
// GET that has no room is not sent, but that there is none. Whoever puts together a large one over
// some time, or cannot say afterwards that it was not done, counts while it grows: `len` bytes,
// instead of what the call has counted before, until it is over. False: there is no room for them,
// and nothing has changed.
bool call_hold(struct call *call, size_t len);
bool call_has_room(const struct call *call, size_t len);
void call_holds(struct call *call, size_t len); // whether there is room or not
// And of its request, of one that outlives its client, who no longer counts for it then.
bool call_hold_request(struct call *call, size_t len);
void call_hold_nothing(struct call *call); // at its end
void call_scarce(struct call *call);       // answers that there is none

// --- calls that work on their connection themselves (taken.c)

// Takes the connection: `req` is NULL from now on, `taken` is not. Answers go to the connection all
// the same, which is then given back; call_drop closes it without one. 0, or -1 when it was
// answered that this is not possible.
int call_take(struct call *call);
// The head of an answer, written by the caller: `type` may be NULL, UINT64_MAX is "chunked".
void call_taken_head(const struct call *call, unsigned status, const char *type, uint64_t length,
                     struct buf *ret);
void call_taken_reply(struct call *call, unsigned status, const char *type, const struct buf *body);
void call_taken_done(struct call *call); // a whole answer was written
void call_drop(struct call *call);       // what is left of the connection is closed

// --- streams (stream.c)

void stream_begin_sse(struct call *call);
void stream_begin_raw(struct call *call, const char *type);
// One that goes on over a connection that was taken: `stop` ends it, stream_forget says that it
// has.
void stream_begin_taken(struct call *call, void (*stop)(struct call *call));
void stream_event(struct call *call, const char *id, const char *event, struct json *json);
// An event whose data, JSON, is written piece by piece.
void stream_long_begin(struct call *call, const char *id, const char *event);
void stream_long_data(struct call *call, const char *data, size_t len);
void stream_long_end(struct call *call);
void stream_write(struct call *call, const void *data, size_t len);
bool stream_full(const struct call *call); // wait for the drain callback before writing more
void stream_end(struct call *call);        // the answer is complete
void stream_cut(struct call *call); // it cannot be completed, which its reader sees: as if he went
void stream_forget(struct call *call); // its client is gone
void streams_tick(struct api *api);    // keeps quiet ones open
void streams_end(struct api *api,
                 const struct token *token); // of a revoked token; NULL: all that do not stay

// --- the steps before a handler; 0, or -1 when they have answered

int auth_check(struct call *call);
int auth_refuse(struct call *call, const char *why); // 401; -1
bool auth_peek(struct call *call);                   // whether a valid token came; answers nothing
int idem_begin(struct call *call);
void idem_answer(struct call *call, unsigned status, const char *body, size_t len);
void idem_answer_process(struct call *call, const char *process);
