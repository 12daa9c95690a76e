// SPDX-License-Identifier: Apache-2.0
// Between the files of a conversation: talk.c is its loop, talk-request.c what the model is sent,
// talk-message.c what is told, talk-tools.c the table of tools and their turns, talk-sandbox.c the
// sandbox they work in, tool-*.c the tools themselves.
//
// A talk is counted: its run's work has one reference, and so has whatever was asked for and cannot
// be called back (a sandbox that is being made). Once `ended`, nothing is done any more.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agents/failure.h"
#include "agents/run.h"
#include "agents/talk.h"
#include "base/buf.h"
#include "base/json-in.h"

enum {
    TALK_HISTORY_MAX = 16 * 1024 * 1024, // bytes of a request to the model
    TALK_MESSAGES_MAX = 4 * 1024 * 1024, // of what is told in the answer; the rest is left out
    TALK_USES_MAX = 64,                  // tools asked for in one message; more are refused
};

struct tool;
struct tool_call;

struct talk {
    struct agents *agents;
    struct run *run;
    unsigned refs;
    bool ended;

    // what was asked
    int64_t tenant;
    char *model; // id
    int64_t max_turns, max_tokens, timeout_ms;
    uint32_t tools; // bits of the table
    bool partial;
    char session[RUN_ID_MAX];

    // the conversation
    struct buf body;     // the request to the model, until the end of its last message
    size_t marked;       // bytes at its end that are there for this request only
    struct buf messages; // as told, separated by commas
    bool messages_cut;
    struct buf todos; // JSON array; empty: there is none
    struct buf said;  // text of the last message
    int64_t turns;
    struct agents_call *call;
    uv_timer_t *timer;
    int64_t begun_ns, model_ns, tools_ns;
    char answered_by[128]; // the model as the API names it
    char stop_reason[64];  // of the last message, "": none

    // tools of the last message
    struct json_doc *content;
    struct tool_call *uses[TALK_USES_MAX];
    unsigned n_uses, at;
    bool in_turn; // talk_tools_run is at work

    // where they work
    struct sandbox *sandbox; // counted, and kept awake while `holds`; NULL: none yet
    bool made;               // its sandbox, and was not named
    bool holds;
};

struct talk *talk_ref(struct talk *talk);
void talk_unref(struct talk *talk);
// The tools of the last message are done, or there is no going on. Both may be called from anywhere
// that holds a reference; nothing happens once it has ended.
void talk_go_on(struct talk *talk);
void talk_fail(struct talk *talk, const struct failure *failure);

// --- talk-request.c

void talk_request_begin(struct talk *talk, const struct talk_request *request);
void talk_request_answer(struct talk *talk, const char *content, size_t len);
void talk_request_results(struct talk *talk);  // of talk->uses
int talk_request_finish(struct talk *talk);    // the body is whole; -1: it is too long
void talk_request_unfinish(struct talk *talk); // it has been sent: more can be added

// --- talk-message.c: what happened, in the shapes of the Agent SDK

struct talk_outcome {
    bool success;
    const char *subtype;    // of the result
    const char *error_code; // NULL: none
    const char *error;
};
void talk_say_init(struct talk *talk);
void talk_say_answer(struct talk *talk, const struct model_result *result);
void talk_say_results(struct talk *talk);
void talk_say_retry(struct talk *talk, const struct model_event *event);
void talk_say_piece(struct talk *talk, const struct model_event *event);
void talk_say_end(struct talk *talk, const struct talk_outcome *outcome);
void talk_write_answer(struct talk *talk, const struct talk_outcome *outcome, struct buf *ret);
void talk_write_failure(struct talk *talk, const struct failure *failure, struct buf *ret);
int64_t talk_elapsed_ms(const struct talk *talk);

// --- talk-tools.c

int talk_tools_bits(const char *const *names, unsigned n, uint32_t *ret, struct err *err);
void talk_tools_write(const struct talk *talk, struct json *j);       // as the API wants them
void talk_tools_write_names(const struct talk *talk, struct json *j); // an array
// The tools that this message asks for, one after the other; then talk_go_on. How many there are.
unsigned talk_tools_take(struct talk *talk);
void talk_tools_run(struct talk *talk);
void talk_tools_drop(struct talk *talk); // what is at work is cancelled
// One tool_result a use.
void talk_tools_write_results(const struct talk *talk, struct json *j);
bool talk_has_tool(const struct talk *talk, const char *name);

// --- talk-sandbox.c

// Makes sure that there is one and that it runs; then the tool is begun, or told why not.
void talk_sandbox_get(struct tool_call *call);
void talk_sandbox_done(struct talk *talk);
