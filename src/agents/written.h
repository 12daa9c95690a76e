// SPDX-License-Identifier: Apache-2.0
// Which files code has written: what lies below /workspace afterwards and did not, or not like
// this, before. Hidden files, and those that tools keep for themselves (__pycache__,
// node_modules), are not looked at.
#pragma once

#include <stdbool.h>

#include "base/json.h"
#include "sandbox/sandbox.h"

enum { WRITTEN_LOOKED_AT = 10000, WRITTEN_TOLD = 1000 };

struct written;                          // what was there at one moment
void written_free(struct written *list); // takes NULL

// The sandbox must run. Exactly one of list, which is the callee's, and err; from the loop.
typedef void (*written_fn)(void *data, struct written *list, const struct err *err);
struct written_call;
struct written_call *written_list(uv_loop_t *loop, struct sandbox *s, written_fn fn, void *data);
void written_cancel(struct written_call *call); // takes NULL; nobody is called any more

// The members "files": [{"path", "size"}], and "filesTruncated" where there are more. NULL before:
// nothing was there; NULL after: nobody knows.
void written_show(struct written *before, const struct written *after, struct json *j);
