// SPDX-License-Identifier: Apache-2.0
// A network namespace is the dearest part of a box: half of what a box costs that is made while
// somebody waits. So the spawner makes one ahead, when it has been idle for a moment, with its
// loopback up.
#pragma once

enum { SPARE_IDLE_MS = 5 };

// A new network namespace that nobody is in. The descriptor, or -1: then the next box makes its
// own.
int spare_make(void);
