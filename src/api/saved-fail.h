// SPDX-License-Identifier: Apache-2.0
// Errors of what is done with the store and with disks.
#pragma once

#include "api/call.h"

// As call_fail, and a disk that is too small is NO_SPACE.
void saved_fail(struct call *call, const struct err *err);
