// SPDX-License-Identifier: Apache-2.0
// What contexts and cells of the container family share.
#pragma once

#include "api/container/container.h"
#include "sandbox/context.h"

// NULL when it was refused and answered. `field` is what the request calls it.
const struct language *container_language(struct call *call, const char *field, const char *name);
// {"contextId": ...}, told with every error from now on.
void container_about_context(struct call *call, const char *id);
// What could not be started: `language` may be NULL.
void container_code_fail(struct call *call, const struct language *language, const struct err *err);
