// SPDX-License-Identifier: Apache-2.0
// What the routes about files share: a call that wakes its sandbox, asks its hand, and says what
// went wrong in the words of a file system. On the loop's thread.
#pragma once

#include "api/call.h"
#include "api/file-path.h"
#include "sandbox/hand-long.h"
#include "sandbox/hand.h"

struct hand_answer;

// Exactly one of answer and err, as hand_fn.
typedef void (*files_fn)(struct call *call, struct hand_answer *answer, const struct err *err);

// call->state of such a call begins with this.
struct file_call {
    void (*next)(struct call *call);
    files_fn on_answer;
    struct hand_long *work;             // goes with the client
    struct writing *writing;            // file_put's
    struct op_run *run;                 // file_op's
    void (*cleanup)(struct call *call); // when it has gone so: what the state owns. May be NULL
    char path[FILE_PATH_MAX + 1];
};

// Makes the state (of `size` bytes, zeros), with the path of the route's {path*} in it. NULL when
// it was refused and answered.
void *files_new(struct call *call, size_t size);
// Wakes the sandbox and goes on with `next`, unless the client has gone meanwhile.
void files_wake(struct call *call, void (*next)(struct call *call));
// One at a time. What is asked is done, also when the client goes: its answer is then for nobody.
void files_ask(struct call *call, const struct hand_ask *ask, files_fn fn);
// A long one, which is cancelled when the client goes; whoever is told by done sets `work` to NULL.
// Its data is the call, of which it holds a reference until done (or until it is cancelled).
void files_work(struct call *call, const struct hand_ask *ask, const struct hand_long_ops *ops);
void files_work_over(struct call *call); // from done: gives the reference back, last
void files_cancel(struct call *call);    // takes one that is not under way

// An err of the hand's as a kind; with one that tells which condition was not met.
enum error_kind files_kind(const struct err *err);
void files_fail(struct call *call, const struct err *err);
// What a long request that came to an end of its own says, as an err. 0 when it did all.
int files_ended(const struct hand_ended *ended, const char *path, struct err *err);

const char *files_type(uint32_t kind); // "file", "directory", "symlink", "other"
// Members of an open object: name, path, type, size, mode, uid, gid, mtime, target.
void files_show(struct json *j, const char *path, const struct hand_stat *st, const char *target);
// A text that may not be UTF-8: with `key`Base64 beside it then.
void files_show_text(struct json *j, const char *key, const char *text);
// The tag of a file as a header has it: "..."; "" when the hand gave none that is one.
void files_etag(const struct hand_stat *st, char ret[HAND_ETAG + 2]);
