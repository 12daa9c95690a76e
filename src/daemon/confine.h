// SPDX-License-Identifier: Apache-2.0
// The daemon's own filter of system calls: what it needs to serve, and nothing that starts
// programs, mounts, traces or changes who it is. It reads what strangers send, so it gets as little
// as possible.
#pragma once

#include "base/err.h"

// Also checks that there are no capabilities and that none can be gained: a daemon that is more
// than it should be does not start. For all threads to come.
int confine(struct err *err);
