// SPDX-License-Identifier: Apache-2.0
// File work in a sandbox, by the hand in its box (wire/hand-msg.h), which is started on first use
// and again when something in the box has killed it. The sandbox must run (sandbox_wake); it is
// kept busy while something is asked of it. Never waits behind execs.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "sandbox/sandbox.h"
#include "wire/hand-msg.h"

struct hand_call;

struct hand_ask {
    enum hand_type type;
    uint32_t flags, mode, uid, gid;
    uint64_t handle, limit;
    const char *path, *path2; // NULL: ""
    const void *data;
    size_t data_len;
    const char *etag; // with HAND_ETAG_GIVEN
};

struct hand_answer {
    struct hand_done done;
    const char *data; // done.data_len bytes, and a NUL behind them
    // Checked: regular files (HAND_READ, HAND_CREATE), pipes (long requests). Non-blocking where
    // they are pipes. The callee takes one by setting it to -1; what is left is closed.
    int fd;    // the file, or the pipe to read from
    int in_fd; // HAND_TAR_IN: the pipe to write to
};

// Exactly one of answer and err. An answer has sys_errno 0; others come as err, in words, with
// err->sys_errno set: ERR_NOT_FOUND (ENOENT), ERR_CONFLICT (EEXIST, ENOTEMPTY, ESTALE), ERR_INVALID
// (EISDIR, ENOTDIR, not a regular file), ERR_EXHAUSTED (ENOSPC, EDQUOT), ERR_DENIED; and
// ERR_UNAVAILABLE when the box or its hand went away.
typedef void (*hand_fn)(void *data, struct hand_answer *answer, const struct err *err);
// Of long requests, after fn with an answer: how they ended, once.
typedef void (*hand_ended_fn)(void *data, const struct hand_ended *ended, const struct err *err);

// `ended` NULL for quick ones. Never calls back before it returns. NULL is never returned: what
// cannot be asked is told by fn. A call is over, and must not be cancelled any more, when fn came
// (quick, or with err), or ended.
struct hand_call *hand_ask(struct sandbox *s, const struct hand_ask *ask, hand_fn fn,
                           hand_ended_fn ended, void *data);
// Nobody is told any more; a long one is ended.
void hand_cancel(struct hand_call *call);
// What an errno of the hand means for a path. Returns -1.
int hand_error(int sys_errno, const char *path, struct err *err);

// Splits a pipe's bytes into records: calls fn for each whole one, answers how many bytes were
// used, or -1 for nonsense (the hand is a stranger). Texts of records are NUL-ended and within
// their len.
typedef void (*hand_record_fn)(void *data, const struct hand_record *rec);
ssize_t hand_records(const void *data, size_t len, hand_record_fn fn, void *fn_data);
