// SPDX-License-Identifier: Apache-2.0
// Threads for work that waits: the store, pipes of archives. `work` runs on one of them, `done` on
// the loop afterwards, exactly once, never before store_pool_run has returned. Work that is not
// begun yet waits in line.
#pragma once

#include <uv.h>

#include "base/err.h"

struct store_pool;

int store_pool_open(uv_loop_t *loop, unsigned n_threads, struct store_pool **ret, struct err *err);
// Waits for work that runs (whoever started it has told it to stop); what waits in line is not
// begun. `done` of all of it is called before this returns.
void store_pool_close(struct store_pool *pool);
void store_pool_run(struct store_pool *pool, void (*work)(void *data), void (*done)(void *data),
                    void *data);
unsigned store_pool_waiting(const struct store_pool *pool); // not begun
