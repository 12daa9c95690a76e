// SPDX-License-Identifier: Apache-2.0
// A request that may take a while: on a terminal a line on standard error shows that something is
// done, and for how long. One thread.
#pragma once

#include "cli/remote.h"

// As remote_do; `what` is shown ("making a backup"). Nothing is shown with --json.
int remote_await(struct remote *remote, const char *method, const struct buf *target,
                 const struct buf *body, const char *what, struct answer *ret, struct err *err);
