// SPDX-License-Identifier: Apache-2.0
// Runs (agents/run.h) as answers: waited for, or streamed.
#pragma once

#include "agents/run.h"
#include "api/call.h"

// Answers the call with the run's answer, now or when it is there, or streams its events if the
// client wants that. A client that goes away does not end the run.
void execute_follow(struct call *call, struct run *run);
void execute_stream(struct call *call, struct run *run, uint64_t from); // from that event on
// The stored answer of a run that is not in memory any more, or of one that is over.
void execute_reply(struct call *call, unsigned status, const char *body, size_t len,
                   int64_t retry_after_ms);
// As a stream, of one that is not in memory; or why there is none.
void execute_stored(struct call *call, const char *id);
// A request that goes on with a stream that was begun: by its Last-Event-ID, or because it repeats
// an Idempotency-Key. Whether it was one, and has been answered.
bool execute_goes_on(struct call *call);
// "ID:N" of an event. 0, or -1.
int execute_parse_id(const char *text, char ret_id[RUN_ID_MAX], uint64_t *ret_n);
// What the run shall be called: the request's own id, unless the client has made it up.
const char *execute_id(const struct call *call);
// Refuses where there is no key. 0, or -1 when it was answered.
int execute_check_key(struct call *call);
int execute_check_model(struct call *call, const char *name); // may be NULL
