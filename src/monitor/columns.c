// SPDX-License-Identifier: Apache-2.0
#include "monitor/columns.h"

#include <stdio.h>

enum { FIRST_MIN = 16, GAP = 1, MARGIN = 1 };

static int width_of(const struct column *columns, size_t n)
{
    int width = MARGIN;
    for (size_t i = 1; i < n; i++)
        width += GAP + columns[i].width;
    return width;
}

static size_t count_fitting(const struct column *columns, size_t n)
{
    while (n > 1 && width_of(columns, n) + FIRST_MIN > screen_cols())
        n--;
    return n;
}

void columns_row(int row, const struct column *columns, size_t n, enum screen_style style,
                 const char *const *cells)
{
    size_t fitting = count_fitting(columns, n);
    int first = screen_cols() - width_of(columns, fitting), col = MARGIN;
    screen_put(row, 0, screen_cols(), style, "");
    for (size_t i = 0; i < fitting; i++) {
        int width = i == 0 ? first : columns[i].width;
        if (columns[i].right)
            screen_right(row, col, width, style, cells[i]);
        else
            screen_put(row, col, width, style, cells[i]);
        col += width + GAP;
    }
}

void columns_head(int row, const struct column *columns, size_t n)
{
    const char *heads[16];
    for (size_t i = 0; i < n; i++)
        heads[i] = columns[i].head;
    columns_row(row, columns, n, STYLE_HEAD, heads);
}

const char *columns_ms(char *ret, size_t size, double ms)
{
    (void)snprintf(ret, size, ms < 10 ? "%.2f" : ms < 100 ? "%.1f" : "%.0f", ms);
    return ret;
}
