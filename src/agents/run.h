// SPDX-License-Identifier: Apache-2.0
// A run: one thing that was asked of a model, on its way to its answer. It has a row from its
// beginning, a log of events that anybody of its tenant may read from any place, and an answer that
// is stored before anybody is told of it. It does not need its client: who goes away asks for it
// again by its id. What works on it (answer.h, talk.h) holds it while it works.
//
// The log is bounded: beyond RUN_LOG_MAX there is one event "gap", no other is added, and the
// answer alone tells all. The last RUNS_KEPT runs keep their logs for a while after they ended; the
// row keeps the answer.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agents/agents.h"
#include "base/buf.h"
#include "base/json.h"

enum { RUN_ID_MAX = 40, RUN_LOG_MAX = 8 * 1024 * 1024, RUNS_KEPT = 64, RUN_TITLE_MAX = 1000 };

struct run; // counted

struct run_start {
    int64_t tenant;
    const char *id;    // of the request, which nobody else has; NULL: one is made up
    const char *kind;  // "question", "sdk", "task"
    const char *title; // cut
    const char *model;
};
// Writes its row. The reference is the caller's. NULL: err; ERR_UNAVAILABLE: too many run.
struct run *run_new(struct agents *agents, const struct run_start *start, struct err *err);
// One that an earlier daemon has left, with a log of its own. As run_new otherwise.
struct run *run_new_again(struct agents *agents, const struct result_row *row);
bool run_is_again(const struct run *run); // places in its log are not those of the earlier one's
struct run *run_ref(struct run *run);
void run_unref(struct run *run); // takes NULL
const char *run_id(const struct run *run);
int64_t run_tenant(const struct run *run);
int64_t run_created_ms(const struct run *run); // on the wall
// One that is in memory; lent. NULL: look at its row (db_result_get).
struct run *run_find(struct agents *agents, int64_t tenant, const char *id);

// Whether it has room for events: when it has not, nobody need write any.
bool run_takes_events(const struct run *run);
// Adds an event: `type` a literal, `json` one whole object.
void run_event(struct run *run, const char *type, const struct buf *json);

// What its calls to the model have used until now; agents_ask adds to it.
void run_spent(struct run *run, const struct model_usage *usage, int64_t cost);
const struct model_usage *run_usage(const struct run *run);
int64_t run_cost(const struct run *run);
void run_make_id(char ret[RUN_ID_MAX]); // a UUID of random bits (version 4)

// How it ended, as it is stored and answered. Texts are copied.
struct run_end {
    unsigned status; // of HTTP
    bool success;
    const char *error_code; // NULL: none
    const char *sandbox, *model;
    int64_t generation_ms, sandbox_ms, total_ms;
    int64_t retry_after_ms; // 0: nothing to say
};
// Stores `body` (JSON, the whole answer), then adds the last event, "done", with it, and tells
// those who follow. A body that cannot be stored becomes an error that can. Once.
void run_end(struct run *run, const struct run_end *end, const struct buf *body);
bool run_has_ended(const struct run *run);
void run_answer(const struct run *run, unsigned *ret_status, const char **ret_body, size_t *ret_len,
                int64_t *ret_retry_after_ms);

// Who works on it hears here that it shall end: it then calls run_end, now or later.
void run_on_cancel(struct run *run, void (*fn)(void *data), void *data);
void run_cancel(struct run *run); // nothing when it has ended, or was cancelled

// --- reading it

struct run_event { // lent until the next call into this room
    const char *type;
    const char *json;
    size_t len;
};
// The event at place `n`, from 0. 1; 0 when it has not happened yet; -1 when it never will.
int run_event_at(const struct run *run, uint64_t n, struct run_event *ret);
struct run_follower;
struct run_follower *run_follow(struct run *run, void (*fn)(void *data), void *data);
void run_follower_free(struct run_follower *follower); // takes NULL
