// SPDX-License-Identifier: Apache-2.0
// A long request to a sandbox's hand (sandbox/hand.h), and the records that come through its pipe.
// On the loop's thread.
#pragma once

#include <uv.h>

#include "sandbox/hand.h"

struct hand_long;

struct hand_long_ops {
    // It runs. May take descriptors out of the answer; where it leaves `fd`, records are read from
    // that. May be NULL.
    void (*started)(void *data, struct hand_answer *answer);
    void (*record)(void *data, const struct hand_record *rec); // may be NULL
    // Once, after the last record: exactly one of ended and err. `ended` may tell of a failure
    // (sys_errno). It is freed after this.
    void (*done)(void *data, const struct hand_ended *ended, const struct err *err);
};

// Never calls back before it returns.
struct hand_long *hand_long_start(uv_loop_t *loop, struct sandbox *s, const struct hand_ask *ask,
                                  const struct hand_long_ops *ops, void *data);
void hand_long_pause(struct hand_long *work, bool paused); // no records meanwhile, or few
void hand_long_cancel(struct hand_long *work);             // takes NULL. Nobody is told any more
