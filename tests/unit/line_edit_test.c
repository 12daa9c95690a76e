// SPDX-License-Identifier: Apache-2.0
// Editing: keys and what they make of a text; the same keys at every split; what is drawn, seen by
// a small terminal of our own. And what is kept of what was typed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "check.h"
#include "cli/line-edit.h"

static struct history history;

static void add(const char *text)
{
    history_add(&history, text, strlen(text));
}

// Feeds all of it; the last state.
static enum line_state type(struct line_edit *line, const char *keys)
{
    enum line_state state = LINE_EDITING;
    for (const char *c = keys; *c != '\0'; c++) {
        state = line_feed(line, *c);
        assert_true(line->at <= line->text.len && line->text.len <= LINE_TEXT_MAX);
        assert_true(utf8_valid(buf_str(&line->text), line->at));
        assert_true(utf8_valid(buf_str(&line->text), line->text.len));
    }
    return state;
}

static const struct {
    const char *keys, *text;
    size_t at;
} rows[] = {
    {"abc",                                   "abc",       3},
    {"abc\x1b[D\x1b[Dx",                      "axbc",      2},
    {"abc\x1bODx",                            "abxc",      3},
    {"abc\x01x\x05y",                         "xabcy",     5},
    {"abc\x1b[Hx\x1b[Fy",                     "xabcy",     5},
    {"abc\x02\x02\x04",                       "ac",        1},
    {"abc\x7f\x08",                           "a",         1},
    {"a b\x01\x0b",                           "",          0},
    {"a b\x15x",                              "x",         1},
    {"one two.x\x17",                         "one ",      4},
    {"one two\x17\x01\x19",                   "twoone ",   3},
    {"one two.x\x1b\x7f",                     "one two.",  8},
    {"one two\x01\x1b"
     "d",                                " two",      0},
    {"one two\x1b"
     "b\x1b"
     "b\x1b"
     "fX",                               "oneX two",  4},
    {"one two\x1b[1;5Dx",                     "one xtwo",  5},
    {"a\tb",                                  "a    b",    6},
    {"\xc3\xa4\xf0\x9f\x98\x80\x7f",          "\xc3\xa4",  2},
    {"\xc3\xa4\x1b[Dx",                       "x\xc3\xa4", 1},
    {"a\x1b\x0d"
     "b\x1b[Ax\x1b[By",                  "ax\nby",    5},
    {"ab\x1b\x0d"
     "c\x1b[A\x0b\x0b",                  "ac",        1},
    {"\x1b[200~a\rb\n\tc\x03\x1b[A\x1b[201~", "a\nb\n\tc", 6},
 // What is broken or unknown does nothing, and what follows is read.
    {"a\x1b[99;99zb",                         "ab",        2},
    {"a\x1b\x1b[Db",                          "ba",        1},
    {"\xff\xc3"
     "a\xe2\x82"
     "b\xed\xa0\x80"
     "c",                                "abc",       3},
    {"\xf4\x90\x80\x80"
     "x\x1c\x1d",                        "x",         1},
};

static void test_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct line_edit line;
        line_init(&line, &history);
        assert_int_equal(type(&line, rows[i].keys), LINE_EDITING);
        assert_string_equal(buf_str(&line.text), rows[i].text);
        assert_int_equal(line.at, rows[i].at);
        line_done(&line);
    }
}

static void test_ends(void **state)
{
    struct line_edit line;
    (void)state;
    line_init(&line, &history);
    assert_int_equal(type(&line, "\x04"), LINE_ENDED);
    assert_int_equal(type(&line, "a\x04"), LINE_EDITING);
    assert_int_equal(type(&line, "\x03"), LINE_CANCELLED);
    assert_int_equal(type(&line, "\x0c"), LINE_CLEARED);
    assert_int_equal(type(&line, "\x1a"), LINE_STOPPED);
    assert_int_equal(type(&line, "\r"), LINE_ENTERED);
    assert_string_equal(buf_str(&line.text), "a");
    line_restart(&line);
    assert_int_equal(line.text.len, 0);
    line_done(&line);
}

static bool has_open(void *data, const char *text, size_t len)
{
    (void)data;
    return memchr(text, '(', len) != NULL && memchr(text, ')', len) == NULL;
}

static void test_enter_where_more_must_come(void **state)
{
    struct line_edit line;
    (void)state;
    line_init(&line, &history);
    line.is_incomplete = has_open;
    assert_int_equal(type(&line, "f(\ra\r"), LINE_EDITING);
    assert_int_equal(type(&line, ")\r"), LINE_ENTERED);
    assert_string_equal(buf_str(&line.text), "f(\na\n)");
    line_done(&line);
}

static void test_history(void **state)
{
    struct line_edit line;
    (void)state;
    history_init(&history);
    add("one");
    add("two\nrows");
    add("two\nrows"); // once
    add(" not this");
    add("three");
    assert_int_equal(history.n, 3);
    line_init(&line, &history);
    (void)type(&line, "own\x1b[A");
    assert_string_equal(buf_str(&line.text), "three");
    (void)type(&line, "\x1b[A\x1b[A"); // to its first row, and on
    assert_string_equal(buf_str(&line.text), "two\nrows");
    (void)type(&line, "\x10\x10\x10");
    assert_string_equal(buf_str(&line.text), "one");
    (void)type(&line, "\x0e\x0e\x0e\x0e");
    assert_string_equal(buf_str(&line.text), "own");
    (void)type(&line, "\x12o");
    assert_string_equal(buf_str(&line.text), "two\nrows");
    (void)type(&line, "\x12");
    assert_string_equal(buf_str(&line.text), "one");
    (void)type(&line, "\x7f\x7f\x7fthr");
    assert_string_equal(buf_str(&line.text), "one"); // only what is older is looked at
    (void)type(&line, "\x07");
    assert_string_equal(buf_str(&line.text), "own");
    (void)type(&line, "\x12three\x01!");
    assert_string_equal(buf_str(&line.text), "!three");
    line_done(&line);
    history_done(&history);
}

static void test_history_is_bounded(void **state)
{
    char text[24];
    (void)state;
    history_init(&history);
    for (unsigned i = 0; i < HISTORY_MAX + 10; i++) {
        (void)snprintf(text, sizeof text, "%u", i);
        add(text);
    }
    assert_int_equal(history.n, HISTORY_MAX);
    assert_string_equal(history_get(&history, 1), "1009");
    assert_string_equal(history_get(&history, HISTORY_MAX), "10");
    assert_null(history_get(&history, 0));
    assert_null(history_get(&history, HISTORY_MAX + 1));
    history_done(&history);
}

static void reopen(void)
{
    struct err err;
    history_done(&history);
    history_init(&history);
    assert_int_equal(history_open(&history, &err), 0);
}

static void test_history_file(void **state)
{
    char dir[] = "/tmp/cay-history-XXXXXX", path[sizeof dir + 32], *big;
    struct stat st;
    struct err err;
    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(setenv("XDG_STATE_HOME", dir, 1), 0);
    (void)snprintf(path, sizeof path, "%s/cay/history", dir);
    history_init(&history);
    reopen();
    add("a\\n\nb\\");
    add("c");
    reopen();
    assert_int_equal(history.n, 2);
    assert_string_equal(history_get(&history, 2), "a\\n\nb\\");
    assert_int_equal(chmod(path, 0644), 0);
    reopen();
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    // It is cut when it has grown, and what is newest stays.
    big = malloc(HISTORY_ENTRY_MAX + 2);
    assert_non_null(big);
    for (unsigned i = 0; i < 20; i++) {
        memset(big, 'a' + (int)i, HISTORY_ENTRY_MAX);
        history_add(&history, big, HISTORY_ENTRY_MAX);
    }
    history_add(&history, big, HISTORY_ENTRY_MAX + 1); // too long
    add("last");
    free(big);
    reopen();
    assert_string_equal(history_get(&history, 1), "last");
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size <= HISTORY_FILE_MAX);
    // A link there is not followed.
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/null", path), 0);
    history_done(&history);
    history_init(&history);
    assert_int_equal(history_open(&history, &err), -1);
    add("kept here");
    assert_int_equal(history.n, 1);
    history_done(&history);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof path, "%s/cay", dir);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

// -- drawing: a terminal that knows what line_draw uses

enum { COLS = 10, ROWS = 4, LINES = 64 };

struct screen {
    char cell[LINES][COLS + 1]; // with what has scrolled away
    size_t top, row, col;       // `top` is the first row that the cursor can reach
};

static void put(struct screen *s, char c)
{
    assert_true(s->col < COLS); // it never wraps by itself
    s->cell[s->row][s->col++] = c;
}

static void down(struct screen *s)
{
    s->row++;
    assert_true(s->row < LINES);
    if (s->row >= s->top + ROWS)
        s->top = s->row - ROWS + 1;
}

static const char *escape(struct screen *s, const char *at)
{
    char *end;
    unsigned long n = strtoul(at + 2, &end, 10);
    assert_int_equal(at[1], '[');
    if (*end == 'A') {
        assert_true(n <= s->row - s->top); // it never leaves the screen
        s->row -= n;
    } else if (*end == 'C') {
        s->col += n;
        assert_true(s->col < COLS);
    } else {
        assert_int_equal(*end, 'J');
        memset(s->cell[s->row] + s->col, 0, COLS - s->col);
        for (size_t row = s->row + 1; row < LINES; row++)
            memset(s->cell[row], 0, COLS);
    }
    return end + 1;
}

static void play(struct screen *s, const char *at)
{
    while (*at != '\0') {
        if (*at == '\x1b') {
            at = escape(s, at);
            continue;
        }
        if (*at == '\r')
            s->col = 0;
        else if (*at == '\n')
            down(s);
        else
            put(s, *at);
        at++;
    }
}

static void redraw(struct screen *s, struct line_edit *line, struct line_view *view, bool whole)
{
    auto_buf out;
    buf_init(&out, 1024 * 1024);
    line_draw(line, view, whole, &out);
    play(s, buf_str(&out));
}

static void test_drawing(void **state)
{
    static const char *const keys[] = {"abcdefgh", "\x1b[D\x1b[D", "X",      "\x1b[C\x1b[C",
                                       "ij",       "\x1b\x0d",     "second", "\x1b[A",
                                       "\x01",     "\x0b"};
    static const char *const first[] = {"> abcdefgh", "> abcdefgh", "> abcdefXg", "> abcdefXg",
                                        "> abcdefXg", "> abcdefXg", "> abcdefXg", "> abcdefXg",
                                        "> abcdefXg", "> "};
    struct screen s = {.row = 0};
    struct line_edit line;
    struct line_view view = {.prompt = "> ", .more = ". ", .cols = COLS, .rows = ROWS};
    (void)state;
    history_init(&history);
    line_init(&line, &history);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        (void)type(&line, keys[i]);
        redraw(&s, &line, &view, /* whole */ false);
        assert_string_equal(s.cell[0], first[i]);
    }
    assert_string_equal(s.cell[1], ". second");
    assert_int_equal(s.row, 0);
    assert_int_equal(s.col, 2);
    line_done(&line);
}

// Higher than the screen: drawn around the cursor, and once as a whole at the end.
static void test_drawing_what_is_too_high(void **state)
{
    struct screen s = {.row = 0};
    struct line_edit line;
    struct line_view view = {.prompt = "> ", .more = ". ", .cols = COLS, .rows = ROWS};
    (void)state;
    line_init(&line, &history);
    (void)type(&line, "\x1b[200~0\n1\n2\n3\n4\n5\n6\n7\x1b[201~");
    redraw(&s, &line, &view, /* whole */ false);
    assert_string_equal(s.cell[3], ". 7");
    assert_string_equal(s.cell[0], ". 4");
    for (unsigned i = 0; i < 7; i++) {
        (void)type(&line, "\x1b[A");
        redraw(&s, &line, &view, /* whole */ false);
    }
    assert_string_equal(s.cell[0], "> 0");
    assert_string_equal(s.cell[3], ". 3");
    assert_int_equal(s.row, 0);
    redraw(&s, &line, &view, /* whole */ true);
    assert_string_equal(s.cell[0], "> 0");
    assert_string_equal(s.cell[7], ". 7");
    line_done(&line);
}

static void test_drawing_controls(void **state)
{
    auto_buf out;
    struct line_edit line;
    struct line_view view = {.prompt = "> ", .more = ". ", .cols = 80, .rows = 24};
    (void)state;
    buf_init(&out, 4096);
    line_init(&line, &history);
    (void)type(&line, "a\xe2\x80\xaeZ\xc2\x9b"); // turns the direction; a control of C1
    line_draw(&line, &view, /* whole */ false, &out);
    assert_null(strstr(buf_str(&out), "\xe2\x80\xae"));
    assert_null(strstr(buf_str(&out), "\xc2\x9b"));
    line_done(&line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_enter_where_more_must_come),
        cmocka_unit_test(test_history),
        cmocka_unit_test(test_history_is_bounded),
        cmocka_unit_test(test_history_file),
        cmocka_unit_test(test_drawing),
        cmocka_unit_test(test_drawing_what_is_too_high),
        cmocka_unit_test(test_drawing_controls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
