// SPDX-License-Identifier: Apache-2.0
// Languages as a client names them: by name or alias, in any case. On the loop's thread.
#pragma once

#include "api/call.h"
#include "sandbox/language.h"

enum { LANGUAGE_NAMES_MAX = 32 }; // in `languages` of a sandbox

// NULL when there is no such language, and that was answered with those there are. `field` is what
// the client calls it.
const struct language *language_read(struct call *call, const char *field, const char *name);
// `languages` of a sandbox, canonical: a JSON array of names, each once, in the table's order; NULL
// when there are none. 0, or -1 when it was refused and answered. The text is the caller's.
int languages_read(struct call *call, const struct body_strings *names, char **ret);
