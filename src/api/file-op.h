// SPDX-License-Identifier: Apache-2.0
// One thing done to a file of a sandbox: alone, or in a batch. On the loop's thread.
#pragma once

#include "api/files.h"
#include "edge/body.h"

enum { FILE_OP_READ_MAX = 1024 * 1024 }; // larger ones are for GET

enum file_op_kind {
    OP_WRITE,
    OP_READ,
    OP_STAT,
    OP_MKDIR,
    OP_MOVE,
    OP_COPY,
    OP_CHMOD,
    OP_CHOWN,
    OP_DELETE,
    OP_MAX,
};

// As a body has it, by the tables of files-ops.c.
struct file_op {
    const char *op;
    const char *path, *from, *to, *mode, *encoding;
    struct body_bytes content;
    struct body_bool parents, replace, recursive;
    struct body_user user;
};

struct file_op_result { // what there is of it to tell
    const struct hand_done *done;
    const char *data;  // OP_READ, OP_STAT: done->data_len bytes
    uint64_t n, bytes; // OP_COPY, and OP_DELETE and OP_MOVE of trees
};

int file_op_find(const char *name, enum file_op_kind *ret, struct err *err); // "write"
// Refuses what the kind does not take and what is missing, paths that are not canonical, a mode
// above 0777, content that is not what its encoding says.
int file_op_check(enum file_op_kind kind, const struct file_op *op, struct err *err);

typedef void (*file_op_fn)(struct call *call, const struct file_op_result *result,
                           const struct err *err);
// Of a call whose state begins with a file_call; one at a time. The op was checked, and lives as
// long as the call. Never calls back before it returns.
void file_op_start(struct call *call, enum file_op_kind kind, const struct file_op *op,
                   file_op_fn fn);
void file_op_drop(struct call *call); // one whose work was cancelled; takes none
// Members of an open object.
void file_op_show(struct json *j, enum file_op_kind kind, const struct file_op *op,
                  const struct file_op_result *result);
