// SPDX-License-Identifier: Apache-2.0
// Bytes being moved for a call, by the mover. Its sandbox, if it is of one (and the call not
// `is_apart`), is at work meanwhile; when its box goes, or the token that asked is revoked, the
// transfer is cut: a descriptor that is held open would keep the disk of a box that has ended. On
// the loop's thread.
#pragma once

#include "api/call.h"
#include "move/move.h"

enum { TRANSFER_STALL_MS = EDGE_IDLE_SECONDS * 1000 }; // without a byte

struct transfer;
// `result` is NULL when it was cut. The descriptors are the caller's again.
typedef void (*transfer_fn)(struct call *call, const struct move_result *result);

// Fills in config's done and data. Calls back exactly once, never before it returns, and holds the
// call until then. 0, or -1 and err.
int transfer_start(struct call *call, struct move_config *config, transfer_fn fn, struct err *err);

// The body that was left in the call's connection, which was taken. Sends "100 Continue" where that
// is waited for. In fn, transfer_body_over says what may become of the connection.
int transfer_body(struct call *call, int to, int64_t to_offset, transfer_fn fn, struct err *err);
// Behind a body that was not read to its end, or that others came with, nothing else is read.
void transfer_body_over(struct call *call, const struct move_result *result);
// Bytes in memory, copied.
int transfer_memory(struct call *call, const void *data, size_t len, int to, int64_t to_offset,
                    transfer_fn fn, struct err *err);

// The end of an answer in chunks, when all that went before is known to be good. `from` is the pipe
// they came from. -1 also for a client that knows no chunks: to it the end of the connection says
// it.
int transfer_last_chunk(struct call *call, int from, transfer_fn fn, struct err *err);

void transfers_cut(struct api *api, const struct token *token); // of a revoked token
void transfers_drop(struct api *api); // the mover is closed: nobody calls back any more
