// SPDX-License-Identifier: Apache-2.0
// What an image is made of, as a text of lines (docs/IMAGES.md): the release, the packages, what is
// left out of them, and links, files and commands that come after, in the order in which they are
// written. Some recipes are part of the program (images/). The struct owns its texts.
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
    RECIPE_FROM_MAX = 48,
};

enum recipe_step_kind { STEP_LINK, STEP_FILE, STEP_RUN, STEP_KIND_MAX };

struct recipe_step {
    enum recipe_step_kind kind;
    char *path; // of a link or file, without a first slash; NULL for a command
    char *text; // what the link leads to, what the file holds, the command
};

struct recipe {
    char about[RECIPE_ABOUT_MAX];
    char from[RECIPE_FROM_MAX]; // "debian:bookworm"; "" when it does not say
    struct buf packages;        // ",python3,git"
    bool without_docs;
    char *without[RECIPE_WITHOUT_MAX]; // patterns of paths
    unsigned n_without;
    struct recipe_step steps[RECIPE_STEPS_MAX];
    unsigned n_steps;
};

void recipe_init(struct recipe *recipe);
void recipe_done(struct recipe *recipe);

// Into an empty recipe. ERR_INVALID names the line.
int recipe_parse(const char *text, size_t len, struct recipe *ret, struct err *err);
int recipe_read(const char *path, struct recipe *ret, struct err *err);

// Those that are part of the program, by name in order; NULL past the last one.
struct recipe_known {
    const char *name;
    const char *text;
    size_t len;
};
const struct recipe_known *recipe_known(unsigned index);
const struct recipe_known *recipe_find(const char *name);
