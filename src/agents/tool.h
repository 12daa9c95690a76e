// SPDX-License-Identifier: Apache-2.0
// One use of a tool. Everything in its input was written by a model and is checked here, as any
// stranger's word; what is wrong with it is told to the model, which may try again.
//
// A use is counted: whatever a tool waits for holds a reference. When the conversation ends first
// `talk` becomes NULL and `cancel`, if set, is called; a callback that comes later sees that nobody
// waits (tool_is_over) and cleans up.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json-in.h"
#include "sandbox/sandbox.h"

enum {
    TOOL_OUTPUT_MAX = 30000,  // bytes of an answer; of more, the beginning and the end
    TOOL_OUTPUT_HEAD = 24000, // so much of it is the beginning
    TOOL_PATH_MAX = 4096,     // with its NUL
};

struct talk;
struct tool_call;

struct tool {
    const char *name;
    const char *definition; // as the API wants it: one JSON object
    bool needs_sandbox;
    // NULL: the API does it itself. Ends with tool_done or tool_fail, now or later.
    void (*start)(struct tool_call *call);
};

struct tool_call {
    struct talk *talk; // NULL: nobody waits any more
    uv_loop_t *loop;
    unsigned refs;
    const struct tool *tool; // NULL: there is none of this name, or it is not allowed
    char *id, *name;
    // Lent by the message while `talk` is set.
    const struct json_node *input;
    struct sandbox *sandbox; // counted, running when `start` is called; NULL: none is needed
    void *state;             // the tool's own, freed with free(3)
    void (*cancel)(struct tool_call *call);
    struct buf output;
    bool is_error, done;
    int64_t begun_ns;
};

struct tool_call *tool_ref(struct tool_call *call);
void tool_unref(struct tool_call *call);
bool tool_is_over(const struct tool_call *call);

// Ends it with what is in `output`, which is cut if need be.
void tool_done(struct tool_call *call, bool is_error);
void tool_fail(struct tool_call *call, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// --- input. Each answers 0, or -1 when it is not what it should be and tool_fail has said so.

// Text: `ret` NULL when it is optional and not there. Without NULs unless `ret_len` is given.
int tool_text(struct tool_call *call, const char *key, bool required, const char **ret,
              size_t *ret_len);
int tool_int(struct tool_call *call, const char *key, int64_t fallback, int64_t min, int64_t max,
             int64_t *ret);
int tool_bool(struct tool_call *call, const char *key, bool fallback, bool *ret);
// A path in the sandbox, absolute and in one way only; a relative one is below /workspace.
int tool_path(struct tool_call *call, const char *key, char ret[TOOL_PATH_MAX]);
// The same of any text. ERR_INVALID.
int tool_path_clean(const char *text, char ret[TOOL_PATH_MAX], struct err *err);

// Cuts a text that is too long: its beginning, what is missing, its end.
void tool_cut(struct buf *text);

// --- the tools

void tool_bash(struct tool_call *call);
void tool_read(struct tool_call *call);
void tool_write(struct tool_call *call);
void tool_edit(struct tool_call *call);
void tool_run_code(struct tool_call *call);
void tool_todo(struct tool_call *call);
