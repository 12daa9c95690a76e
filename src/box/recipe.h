// SPDX-License-Identifier: Apache-2.0
// What an image is made of, as a text of lines (docs/IMAGES.md): what it stands on, the packages,
// what is left out of them, and links, files, programs from npm and commands that come after, in
// the order in which they are written. Some recipes are part of the program (images/). The struct
// owns its texts.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    RECIPE_TEXT_MAX = 64 * 1024, // of a file
    RECIPE_STEPS_MAX = 64,
    RECIPE_WITHOUT_MAX = 32,
    RECIPE_PATH_MAX = 200,
    RECIPE_ABOUT_MAX = 120,
    RECIPE_FROM_MAX = 200,
    RECIPE_DEPTH_MAX = 8, // recipes that stand on each other
    RECIPE_MACHINE_MAX = 16,
};

#define RECIPE_ON_HOST "host" // as what an image is `from`: this machine's own /usr

enum recipe_step_kind { STEP_LINK, STEP_FILE, STEP_NPM, STEP_RUN, STEP_KIND_MAX };

struct recipe_step {
    enum recipe_step_kind kind;
    unsigned mode; // of a file
    char *path;    // what is made, without a first slash; NULL for a command
    char *text;    // what the link leads to, what the file holds, NAME@VERSION, the command
    // Of a package of npm: the sum of its archive, in base64, and the file in it that is wanted.
    char *sum;
    char *member;
    char machine[RECIPE_MACHINE_MAX]; // it is for this one alone, as uname says it; "": for all
};

struct recipe {
    char about[RECIPE_ABOUT_MAX];
    // "debian:bookworm" or "host"; "" when it does not say. As it was parsed: maybe a recipe.
    char from[RECIPE_FROM_MAX];
    struct buf packages; // ",python3,git"
    bool without_docs;
    char *without[RECIPE_WITHOUT_MAX]; // patterns of paths
    unsigned n_without;
    struct recipe_step steps[RECIPE_STEPS_MAX];
    unsigned n_steps;
};

void recipe_init(struct recipe *recipe);
void recipe_done(struct recipe *recipe);

// Adds the lines of one text. ERR_INVALID names the line.
int recipe_parse(const char *text, size_t len, struct recipe *ret, struct err *err);

// -- recipe-load.c

// Into an empty recipe: that of this name, or of this file if the word has a slash, after the lines
// of those that it is `from`.
int recipe_load(const char *word, struct recipe *ret, struct err *err);
// Whether every step that is for some machines has one for this machine.
int recipe_check_machine(const struct recipe *recipe, const char *machine, struct err *err);

// -- recipe-known.c

// Those that are part of the program, by name in order; NULL past the last one.
struct recipe_known {
    const char *name;
    const char *text;
    size_t len;
};
const struct recipe_known *recipe_known(unsigned index);
const struct recipe_known *recipe_find(const char *name);
// What to say of a name that is none of theirs.
int recipe_unknown(const char *name, struct err *err);
