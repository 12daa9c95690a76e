// SPDX-License-Identifier: Apache-2.0
// Whatever is typed: the text stays well formed and within its limit, the cursor between two
// characters, and what is drawn keeps to the screen. Whatever is written in a language: whether it
// is complete is answered.
//
// An input is: one byte for the terminal's size, then keys.
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/text.h"
#include "cli/lang.h"
#include "cli/line-edit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct line_edit *line)
{
    assert(line->at <= line->text.len && line->n_sequence < LINE_SEQUENCE_MAX);
    assert(utf8_valid(buf_str(&line->text), line->at));
    assert(utf8_valid(buf_str(&line->text), line->text.len));
}

static void draw(const struct line_edit *line, struct line_view *view)
{
    auto_buf out;
    buf_init(&out, 1024 * 1024);
    line_draw(line, view, /* whole */ false, &out);
    assert(out.failed == 0);
    assert(view->cursor_row < (view->rows > 2 ? view->rows : 2));
}

static void type(const uint8_t *data, size_t size)
{
    static struct history history;
    struct line_edit line;
    struct line_view view = {
        .prompt = "> ", .more = ". ", .cols = data[0] & 31u, .rows = data[0] >> 5};
    history_init(&history);
    history_add(&history, "one", 3);
    history_add(&history, "t\xc3\xa4wo\nrows", 10);
    line_init(&line, &history);
    for (size_t i = 1; i < size; i++) {
        (void)line_feed(&line, (char)data[i]);
        check(&line);
        if (i % 8 == 0 || i + 1 == size)
            draw(&line, &view);
    }
    line_done(&line);
    history_done(&history);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum lang_rule rules[] = {LANG_PLAIN, LANG_PYTHON, LANG_SCRIPT, LANG_SHELL};
    if (size == 0 || size > 4096)
        return 0;
    type(data, size);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        (void)lang_incomplete(rules[i], (const char *)data + 1, size - 1);
    (void)lang_begins_anew(LANG_PYTHON, (const char *)data + 1, size - 1, "x = 1");
    return 0;
}
