// SPDX-License-Identifier: Apache-2.0
// Texts of lines that begin with their word, as recipes and agents are: plain, '#' before a remark,
// no blanks before a word. Taken apart in place. No state, any thread.
#pragma once

#include <stddef.h>

#include "base/err.h"

// ERR_INVALID: it is none, or has more than `max` bytes.
int words_check(const char *text, size_t len, size_t max, struct err *err);
// Whether a line says something: 1; 0 when it is empty or a remark; -1 when blanks come first.
int words_line(const char *line, struct err *err);
// Ends the word that the line begins with. What follows, without the blanks around it.
char *words_cut(char *line);
// The next of the words that blanks separate, ended in place; NULL: no more.
char *words_next(char **rest);
