// SPDX-License-Identifier: Apache-2.0
// What the routes of contexts and of code share. On the loop's thread.
#pragma once

#include "api/call.h"
#include "sandbox/context.h"

// Says that the context runs nothing any more, why, and how to go on.
void context_refuse_dead(struct call *call, const struct context_info *info);
// What went wrong in a context of this language (may be NULL), as an answer.
void context_fail(struct call *call, const struct language *language, const struct err *err);
