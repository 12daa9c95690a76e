// SPDX-License-Identifier: Apache-2.0
// Which files are meant, by lines as in .gitignore files: '!' takes back, a slash at the end means
// directories, one elsewhere ties the pattern to its directory, ** stands for any directories. The
// last line that matches decides; what is in an excluded directory is excluded.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ignore;

struct ignore *ignore_new(void); // NULL: no memory
void ignore_free(struct ignore *ignore);

// Lines of a file in the directory `base` ("" for the top), which has `depth` names. They go when
// ignore_leave is called with a smaller depth. 0 or -ENOMEM; -E2BIG with too many.
int ignore_add(struct ignore *ignore, const char *base, unsigned depth, const char *text,
               size_t len);
// What was given on the command line: stronger than any file.
int ignore_add_exclude(struct ignore *ignore, const char *glob);
int ignore_add_include(struct ignore *ignore, const char *glob); // with one, only such files
void ignore_leave(struct ignore *ignore, unsigned depth);

enum ignore_verdict { IGNORE_NO, IGNORE_YES, IGNORE_LOOK }; // LOOK: itself not, but go in

// Of a path whose directories are not excluded.
enum ignore_verdict ignore_check(const struct ignore *ignore, const char *path, bool is_dir);

// One pattern against one path, both without a first slash: '*' and '?' match no slash.
bool ignore_match(const char *pattern, size_t len, const char *path);

// The steps of all matching since ignore_new have an end: from then on nothing matches, and whoever
// asked has to say so. Of the whole program.
bool ignore_is_spent(void);
void ignore_begin(void); // ignore_new does
void ignore_allow(void); // one path more
void ignore_spend(uint64_t n);
