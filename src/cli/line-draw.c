// SPDX-License-Identifier: Apache-2.0
// How a text that is edited looks on a terminal. It is laid out in rows as wide as the terminal, so
// that it never wraps by itself, which terminals do differently; of a text higher than the screen
// the rows around the cursor are drawn.
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/line-edit.h"
#include "cli/table.h"

enum { LAYOUT_MAX = 6 * LINE_TEXT_MAX };

struct layout {
    struct buf rows; // each ended by '\n'
    size_t cols;
    size_t row, col;               // at its end
    size_t cursor_row, cursor_col; // of the cursor
};

static void end_row(struct layout *layout)
{
    (void)buf_append_char(&layout->rows, '\n');
    layout->row++;
    layout->col = 0;
}

static void add_piece(struct layout *layout, const char *text, size_t len, size_t width)
{
    if (layout->col + width > layout->cols && layout->col > 0)
        end_row(layout);
    (void)buf_append(&layout->rows, text, len);
    layout->col += width;
}

static void add_text(struct layout *layout, const char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        char piece[16] = "";
        size_t n = utf8_step(text + at, len - at);
        n = n > 0 ? n : 1;
        auto_buf plain;
        buf_init(&plain, sizeof piece - 1);
        if (text[at] == '\t')
            (void)buf_append_str(&plain, "    ");
        else
            (void)text_plain(&plain, text + at, n);
        (void)snprintf(piece, sizeof piece, "%s", buf_str(&plain));
        add_piece(layout, piece, strlen(piece), text_width(piece));
        at += n;
    }
}

static void mark_cursor(struct layout *layout)
{
    if (layout->col >= layout->cols) // it stands before what comes next
        end_row(layout);
    layout->cursor_row = layout->row;
    layout->cursor_col = layout->col;
}

static void lay_out(struct layout *layout, const struct line_edit *line,
                    const struct line_view *view)
{
    const char *text = buf_str(&line->text);
    if (line->searching) {
        add_text(layout, "(search: ", 9);
        add_text(layout, buf_str(&line->query), line->query.len);
        add_text(layout, ") ", 2);
    } else {
        add_text(layout, view->prompt, strlen(view->prompt));
    }
    for (size_t at = 0; at <= line->text.len;) {
        size_t n = strcspn(text + at, "\n"), end = at + n;
        if (line->at >= at && line->at <= end) {
            add_text(layout, text + at, line->at - at);
            mark_cursor(layout);
            add_text(layout, text + line->at, end - line->at);
        } else {
            add_text(layout, text + at, n);
        }
        at = end + 1;
        if (at <= line->text.len) {
            end_row(layout);
            add_text(layout, view->more, strlen(view->more));
        }
    }
}

static const char *skip_rows(const char *rows, size_t n)
{
    for (; n > 0; n--)
        rows += strcspn(rows, "\n") + 1;
    return rows;
}

// Rows `top` to `bottom`, with carriage returns: the terminal does not add them in raw mode.
static void write_rows(const struct layout *layout, size_t top, size_t bottom, struct buf *out)
{
    const char *at = skip_rows(buf_str(&layout->rows), top);
    for (size_t row = top; row <= bottom; row++) {
        size_t len = strcspn(at, "\n");
        (void)buf_append(out, at, len);
        if (row < bottom)
            (void)buf_append_str(out, "\r\n");
        at += len + 1;
    }
}

static void back_to_top(struct line_view *view, struct buf *out)
{
    if (view->cursor_row > 0)
        (void)buf_printf(out, "\x1b[%zuA", view->cursor_row);
    (void)buf_append_str(out, "\r\x1b[J");
    view->cursor_row = 0;
}

void line_draw(const struct line_edit *line, struct line_view *view, bool whole, struct buf *out)
{
    struct layout layout = {.cols = view->cols > 8 ? view->cols : 8};
    size_t height = view->rows > 2 ? view->rows : 2;
    buf_init(&layout.rows, LAYOUT_MAX);
    lay_out(&layout, line, view);
    size_t top = 0, bottom = layout.row;
    if (!whole && bottom >= height) {
        top = layout.cursor_row + 1 > height ? layout.cursor_row + 1 - height : 0;
        bottom = top + height - 1;
    }
    back_to_top(view, out);
    write_rows(&layout, top, bottom, out);
    buf_done(&layout.rows);
    if (whole)
        return;
    view->cursor_row = layout.cursor_row - top;
    if (bottom > layout.cursor_row)
        (void)buf_printf(out, "\x1b[%zuA", bottom - layout.cursor_row);
    (void)buf_append_char(out, '\r');
    if (layout.cursor_col > 0)
        (void)buf_printf(out, "\x1b[%zuC", layout.cursor_col);
}
