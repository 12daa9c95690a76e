// SPDX-License-Identifier: Apache-2.0
// The languages that cells can be written in, from one table.
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "kernels/kernels.h"
#include "sandbox/sandbox.h"

struct language {
    const char *name;        // "python"
    const char *aliases[4];  // "py", "python3"; ends with NULL
    enum kernel_kind kernel; // KERNEL_ONCE: a cell is compiled and run by itself, has no context
    const char *program;     // that an image must have: "python3", "lua5.4 lua": any of these
    const char *version;     // a shell command that prints its version on one line; $1: the program
    const char *package;     // Debian's, which adds it: "g++"
};

extern const struct language languages[];
extern const unsigned n_languages;

const struct language *language_find(const char *name); // by name or alias, any case; NULL
// ERR_UNSUPPORTED, with the package to add and how.
int language_missing(const struct language *language, const struct sandbox *s, struct err *err);

// Which of them the sandbox's image and disk have. Runs a short program in a sandbox that runs;
// what it said is believed for a minute.
struct language_state {
    const struct language *language;
    bool available;
    char version[64];    // "": it does not say
    char libraries[192]; // python: "numpy=1.24.2 pandas=1.5.3 ", those of a list that there are
};
typedef void (*languages_fn)(void *data, const struct language_state *states, unsigned n,
                             const struct err *err);
void languages_probe(struct sandbox *s, languages_fn fn, void *data);
