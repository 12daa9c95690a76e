// SPDX-License-Identifier: Apache-2.0
// What the commands of `cay image` share: their words and flags, the data directory, and how work
// that takes long is watched and stopped.
#pragma once

#include "base/err.h"
#include "base/opt.h"
#include "box/image-make.h"

#define DATA_HELP "where Cay keeps its things; else the variable CAY_DATA"

enum { IMAGE_WORDS_MAX = 64 }; // images that one `rm` takes

struct image_words {
    const char *word[IMAGE_WORDS_MAX];
    int n;
};

// image.c
int image_usage(const struct err *err); // the exit code of a command line that makes no sense
int image_usage_text(const char *text);
int image_add_word(struct image_words *words, const char *word, struct err *err);
// 0 when the flags are read and the command may go on; else `ret_exit` is the program's exit code.
int image_flags_ended(int which, const struct opt_spec *spec, const struct err *err, int *ret_exit);
int image_open_data(const char *path, struct err *err);

// From here on SIGINT, SIGTERM and SIGHUP wait in a descriptor, so that what is half made can be
// removed before they do what they do.
int image_catch_signals(struct image_watch *ret, struct err *err);
// The exit code, unless a signal has stopped the work: then the process ends by it.
int image_made(int r, const struct image_watch *watch, const struct err *err);

// image-build.c
int cmd_image_build(int argc, char **argv);
int cmd_image_recipe(int argc, char **argv);
