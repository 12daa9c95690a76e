// SPDX-License-Identifier: Apache-2.0
// What the files of OpenCode share.
#pragma once

#include "agents/opencode.h"
#include "base/buf.h"
#include "base/map.h"
#include "sandbox/process.h"

enum { LAST_WORDS_MAX = 320 }; // of what it wrote, in an error

struct opencode {
    struct map servers; // by the sandbox's number
    struct opencode_talk *talks;
};

// Its configuration is another from now on.
void opencode_changed(struct agents *agents, struct sandbox *s);
// Its variables, as exec_env takes them. `config` may be NULL.
char *opencode_environment(const char *config, const char *default_model);
// The last lines of both its streams, as one text.
void opencode_words_of(struct process *p, char *ret, size_t size);
// Appends what somebody in a box has written, fit for an error: no colours, no controls, lines
// joined by " | ".
void opencode_plain_text(const char *data, size_t len, struct buf *ret);

// --- opencode-read.c: what its server answers

struct opencode_read {
    struct buf text;
    char *parts, *info; // JSON
};
// -1 and failure: it is none, or says that it failed.
int opencode_read_answer(const char *text, size_t len, struct opencode_read *ret,
                         struct failure *failure);
void opencode_read_done(struct opencode_read *read);
int opencode_read_id(const char *text, size_t len, char *ret, size_t size); // "id" of an object
// Of an answer that is not 200.
void opencode_read_failure(unsigned status, const char *text, size_t len, struct failure *ret);
