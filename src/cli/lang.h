// SPDX-License-Identifier: Apache-2.0
// What a keyboard needs to know of languages: which files are of which, how their prompts look, and
// whether a text is the beginning of something longer. Which ones a sandbox has is the server's to
// say: a name that is not known here is sent as it is. No state.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum lang_rule { // by which a text is seen to be incomplete
    LANG_PLAIN,  // never is
    LANG_PYTHON,
    LANG_SCRIPT, // JavaScript and what looks like it
    LANG_SHELL,
};

struct lang {
    const char *name;
    const char *aliases[4]; // ends with NULL
    const char *endings[5]; // "py"; ends with NULL
    enum lang_rule rule;
    bool is_single; // its cells know nothing of each other
    const char *prompt, *more;
};

const struct lang *lang_find(const char *name);    // by name or alias, any case; NULL
const struct lang *lang_of_file(const char *path); // by its ending; NULL

// Whether more lines must follow before it can run: something is open, or a block has begun that an
// empty line ends. What only looks so is at worst asked one more line for.
bool lang_incomplete(enum lang_rule rule, const char *text, size_t len);
// Whether a line that follows a block of Python, which is otherwise complete, begins something new:
// in a file there is no empty line between them.
bool lang_begins_anew(enum lang_rule rule, const char *text, size_t len, const char *line);
