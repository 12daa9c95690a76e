// SPDX-License-Identifier: Apache-2.0
// The beginning of a zygote (wire/zygote-msg.h): a child of the spawner's with mounts of its own
// becomes an image's Python.
#pragma once

#include "wire/spawner-msg.h"

// In the child, born in a mount namespace of its own. Waits for the keeper's first word, which says
// that it is in its cgroups. Never returns.
_Noreturn void zygote_main(const struct spawner_zygote *msg, const struct wire_fds *fds);
