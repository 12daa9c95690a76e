// SPDX-License-Identifier: Apache-2.0
// A question while it is worked on: answer.c (its beginning, its repair, its end), answer-prompt.c
// (what the model is told), answer-ask.c (what it answers), answer-box.c (the sandbox),
// answer-cell.c (the code as it runs, and the answer).
#pragma once

#include <sodium.h>

#include "agents/agents-internal.h"
#include "agents/answer.h"
#include "agents/clean.h"
#include "agents/failure.h"
#include "agents/written.h"
#include "sandbox/cell-whole.h"
#include "sandbox/context.h"

enum {
    CODE_MAX = 1024 * 1024,
    MESSAGES_MAX = 4 * 1024 * 1024,
    EVENT_MAX = 9 * 1024 * 1024,
    TEXT_MAX = 2 * 1024 * 1024, // of what the code wrote, in the answer
    OBJECTS_MAX = 4 * 1024 * 1024,
    SHORT_MAX = 64 * 1024, // of each text, where all of them would be too long
};

struct answer {
    struct agents *agents;
    struct run *run; // a reference
    unsigned refs;   // its own while it is worked on, and one of each call back that cannot be
                     // taken back
    bool over;
    // what was asked
    char *question, *model, *sandbox_id, *context;
    const struct language *language;
    int64_t max_tokens, timeout_ms;
    unsigned retries;
    bool cache;
    // the model
    struct buf messages; // JSON, comma after comma
    struct agents_call *call;
    struct clean_stream *stream;
    struct buf piece;  // of code, not told yet
    size_t text_bytes; // of what it says now
    uint8_t key[DB_CODE_KEY];
    bool cached;
    unsigned attempt; // from 1
    struct buf code;
    // the sandbox
    struct sandbox *s; // a reference, once it is there
    bool fresh, asked_for, is_up, has_code;
    uv_timer_t *soon; // asks for it
    struct err sandbox_err;
    struct written_call *listing;
    struct written *before, *after;
    // the code
    struct cell *cell; // a reference
    struct cell_follower *follower;
    uint64_t at;             // its next event
    struct buf rest[2];      // of its streams: a character that is not whole
    bool has_run;            // any cell
    struct cell_end end;     // of the last one
    struct cell_whole whole; // of it
    const char *error_code;  // what will be said; a literal
    char *error;
    // times
    int64_t start_ns, asked_ns, code_ns; // the last question, the last code
    int64_t generation_ns, sandbox_ns;
};

// --- answer-prompt.c

// What the model is asked first. In a sandbox that was used for questions before, those too.
void prompt_begin(struct answer *a);
// Its code and what came of it, for another try. `answered`: what it wrote; error: in words.
void prompt_repair(struct answer *a, const char *code, const char *error);
void prompt_write(const struct answer *a, struct buf *ret);   // the request's body
void prompt_key(struct answer *a, const struct buf *request); // what code is kept under

// --- answer-ask.c

void answer_ask(struct answer *a); // for code, once more or for the first time
// A model that fails on a repair has not unmade what went before.
void answer_reply_with_note(struct answer *a, const char *why);

// --- answer-box.c

void answer_want_sandbox(struct answer *a); // in the loop's next round; once
void answer_stop_timer(struct answer *a);
void answer_run_if_ready(struct answer *a);

// --- answer-cell.c

void answer_run_code(struct answer *a);  // the sandbox is up, and there is code
void answer_read_cell(struct answer *a); // what it wrote and showed, until now
void answer_let_go(struct answer *a);    // of the model, the cell, a listing
// The error of the cell that has ended, in words, for the model and for people.
void answer_cell_error(const struct answer *a, struct buf *ret);
// The answer, as far as it has come, with error_code and error if these are set. Ends it.
void answer_reply(struct answer *a);

// --- answer.c

struct json *answer_event(struct json *j, struct buf *buf);           // an object that is open
void answer_emit(struct answer *a, const char *type, struct json *j); // and its end
// An event of one text.
void answer_emit_str(struct answer *a, const char *type, const char *key, const char *text);
void answer_say(struct answer *a, const char *error_code, const char *error); // NULL: nothing
void answer_code_ended(struct answer *a);                          // end and whole tell how
void answer_fail(struct answer *a, const struct failure *failure); // there is no result
void answer_finish(struct answer *a, const struct run_end *end, const struct buf *body);
void answer_unref(struct answer *a);
