// SPDX-License-Identifier: Apache-2.0
// Tables that fill the width of the screen: the first column takes what the others leave; columns
// at the end that do not fit are left out.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "monitor/screen.h"

struct column {
    const char *head;
    int width; // 0, of the first: what is left
    bool right;
};

void columns_head(int row, const struct column *columns, size_t n);
void columns_row(int row, const struct column *columns, size_t n, enum screen_style style,
                 const char *const *cells);
// Milliseconds with as many digits as say something.
const char *columns_ms(char *ret, size_t size, double ms);
