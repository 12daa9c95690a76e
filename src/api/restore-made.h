// SPDX-License-Identifier: Apache-2.0
// A sandbox that was just made gets what is stored of its workspace, before anybody is told of it.
#pragma once

#include "api/call.h"

// Before it is made: so that a daemon which dies meanwhile leaves none without its files. 0, or -1
// and the call is answered. `id` may be NULL: nothing is stored of one whose name is made up.
int restore_announce(struct call *call, const char *id);
void restore_unannounce(struct call *call, const char *id); // none was made

// Goes on with `next` when it has them and runs. Otherwise the sandbox is destroyed again, and the
// call is answered with the reason.
void restore_made(struct call *call, struct sandbox *s,
                  void (*next)(struct call *call, struct sandbox *s, bool created));
