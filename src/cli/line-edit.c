// SPDX-License-Identifier: Apache-2.0
#include "cli/line-edit.h"

#include <string.h>

#include "base/text.h"

#define ESC        '\x1b'
#define CTRL(c)    ((c)&0x1f)
#define BACKSPACE  '\x7f'
#define PASTE_END  "\x1b[201~"
#define TAB_SPACES "    "

void line_init(struct line_edit *line, const struct history *history)
{
    *line = (struct line_edit){.history = history};
    buf_init(&line->text, LINE_TEXT_MAX);
    buf_init(&line->killed, LINE_TEXT_MAX);
    buf_init(&line->own, LINE_TEXT_MAX);
    buf_init(&line->query, LINE_QUERY_MAX);
}

void line_done(struct line_edit *line)
{
    buf_done(&line->text);
    buf_done(&line->killed);
    buf_done(&line->own);
    buf_done(&line->query);
}

void line_restart(struct line_edit *line)
{
    buf_reset(&line->text);
    buf_reset(&line->own);
    line->at = line->nth = line->n_sequence = 0;
    line->pasting = line->searching = false;
    line->state = LINE_EDITING;
}

// -- places in the text

static size_t before(const struct line_edit *line, size_t at)
{
    if (at > 0)
        at--;
    while (at > 0 && ((unsigned char)line->text.data[at] & 0xc0) == 0x80)
        at--;
    return at;
}

static size_t after(const struct line_edit *line, size_t at)
{
    return at < line->text.len ? at + utf8_step(line->text.data + at, line->text.len - at) : at;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           ((unsigned char)c & 0x80) != 0;
}

static size_t word_start(const struct line_edit *line, size_t at)
{
    const char *text = buf_str(&line->text);
    while (at > 0 && !is_word(text[at - 1]))
        at--;
    while (at > 0 && is_word(text[at - 1]))
        at--;
    return at;
}

static size_t word_end(const struct line_edit *line, size_t at)
{
    const char *text = buf_str(&line->text);
    while (at < line->text.len && !is_word(text[at]))
        at++;
    while (at < line->text.len && is_word(text[at]))
        at++;
    return at;
}

static size_t row_start(const struct line_edit *line, size_t at)
{
    const char *text = buf_str(&line->text);
    while (at > 0 && text[at - 1] != '\n')
        at--;
    return at;
}

static size_t row_end(const struct line_edit *line, size_t at)
{
    const char *text = buf_str(&line->text);
    while (at < line->text.len && text[at] != '\n')
        at++;
    return at;
}

// -- changing it

// All of it or nothing.
static void insert(struct line_edit *line, const char *text, size_t len)
{
    char *room;
    size_t n;
    if (line->text.len + len > LINE_TEXT_MAX || buf_reserve(&line->text, len, &room, &n) < 0)
        return;
    char *at = line->text.data + line->at;
    memmove(at + len, at, line->text.len - line->at);
    memcpy(at, text, len);
    buf_commit(&line->text, len);
    line->at += len;
}

static void cut(struct line_edit *line, size_t from, size_t to, bool kept)
{
    if (from >= to)
        return;
    char *data = line->text.data;
    if (kept) {
        buf_reset(&line->killed);
        (void)buf_append(&line->killed, data + from, to - from);
    }
    memmove(data + from, data + to, line->text.len - to);
    line->text.len -= to - from;
    data[line->text.len] = '\0';
    line->at = from;
}

static void replace(struct line_edit *line, const char *text, size_t len)
{
    buf_reset(&line->text);
    (void)buf_append(&line->text, text, len);
    line->at = line->text.len;
}

// -- what was typed before

static void show_nth(struct line_edit *line, size_t nth)
{
    const char *text = nth == 0 ? buf_str(&line->own) : history_get(line->history, nth);
    if (text == NULL)
        return;
    if (line->nth == 0) {
        buf_reset(&line->own);
        (void)buf_append(&line->own, buf_str(&line->text), line->text.len);
    }
    line->nth = nth;
    replace(line, text, strlen(text));
}

static void older(struct line_edit *line)
{
    show_nth(line, line->nth + 1);
}

static void newer(struct line_edit *line)
{
    if (line->nth > 0)
        show_nth(line, line->nth - 1);
}

static void find_from(struct line_edit *line, size_t nth)
{
    for (const char *text; (text = history_get(line->history, nth)) != NULL; nth++) {
        if (strstr(text, buf_str(&line->query)) == NULL)
            continue;
        line->found = nth;
        show_nth(line, nth);
        return;
    }
}

static void search(struct line_edit *line)
{
    if (line->searching) {
        find_from(line, line->found + 1);
        return;
    }
    line->searching = true;
    line->found = 0;
    buf_reset(&line->query);
}

// Returns whether the key was for the search; any other ends it, and the text stays.
static bool search_key(struct line_edit *line, const char *key, size_t len)
{
    if (len == 1 && key[0] == CTRL('r'))
        return search(line), true;
    if (len == 1 && (key[0] == BACKSPACE || key[0] == CTRL('h'))) {
        struct buf *query = &line->query;
        while (query->len > 0 && ((unsigned char)query->data[--query->len] & 0xc0) == 0x80)
            ;
        if (query->data != NULL)
            query->data[query->len] = '\0';
        return true;
    }
    if ((unsigned char)key[0] >= ' ' && key[0] != BACKSPACE) {
        if (line->query.len + len <= LINE_QUERY_MAX)
            (void)buf_append(&line->query, key, len);
        find_from(line, line->found > 0 ? line->found : 1);
        return true;
    }
    line->searching = false;
    if (len == 1 && key[0] == CTRL('g'))
        return show_nth(line, 0), true;
    return false;
}

// -- keys

static void key_left(struct line_edit *line)
{
    line->at = before(line, line->at);
}

static void key_right(struct line_edit *line)
{
    line->at = after(line, line->at);
}

static void key_word_left(struct line_edit *line)
{
    line->at = word_start(line, line->at);
}

static void key_word_right(struct line_edit *line)
{
    line->at = word_end(line, line->at);
}

static void key_home(struct line_edit *line)
{
    line->at = row_start(line, line->at);
}

static void key_end(struct line_edit *line)
{
    line->at = row_end(line, line->at);
}

// To the same column, counted in characters, of another row that begins at `start`.
static void to_row(struct line_edit *line, size_t start)
{
    size_t column = 0, end = row_end(line, start);
    for (size_t i = row_start(line, line->at); i < line->at; i = after(line, i))
        column++;
    for (line->at = start; column > 0 && line->at < end; column--)
        line->at = after(line, line->at);
}

static void key_up(struct line_edit *line)
{
    size_t start = row_start(line, line->at);
    if (start == 0)
        older(line);
    else
        to_row(line, row_start(line, start - 1));
}

static void key_down(struct line_edit *line)
{
    size_t end = row_end(line, line->at);
    if (end == line->text.len)
        newer(line);
    else
        to_row(line, end + 1);
}

static void key_backspace(struct line_edit *line)
{
    cut(line, before(line, line->at), line->at, /* kept */ false);
}

static void key_delete(struct line_edit *line)
{
    cut(line, line->at, after(line, line->at), /* kept */ false);
}

static void key_delete_or_end(struct line_edit *line)
{
    if (line->text.len == 0)
        line->state = LINE_ENDED;
    else
        key_delete(line);
}

static void key_kill_end(struct line_edit *line)
{
    size_t end = row_end(line, line->at);
    cut(line, line->at, end > line->at ? end : after(line, end), /* kept */ true);
}

static void key_kill_start(struct line_edit *line)
{
    cut(line, row_start(line, line->at), line->at, /* kept */ true);
}

// Up to a space, as a shell's terminal does it; Alt with Backspace takes a word of letters.
static void key_kill_space(struct line_edit *line)
{
    const char *text = buf_str(&line->text);
    size_t from = line->at;
    while (from > 0 && strchr(" \t\n", text[from - 1]) != NULL)
        from--;
    while (from > 0 && strchr(" \t\n", text[from - 1]) == NULL)
        from--;
    cut(line, from, line->at, /* kept */ true);
}

static void key_kill_word(struct line_edit *line)
{
    cut(line, word_start(line, line->at), line->at, /* kept */ true);
}

static void key_kill_next(struct line_edit *line)
{
    cut(line, line->at, word_end(line, line->at), /* kept */ true);
}

static void key_yank(struct line_edit *line)
{
    insert(line, buf_str(&line->killed), line->killed.len);
}

static void key_newline(struct line_edit *line)
{
    insert(line, "\n", 1);
}

static void key_enter(struct line_edit *line)
{
    if (line->is_incomplete != NULL &&
        line->is_incomplete(line->data, buf_str(&line->text), line->text.len))
        key_newline(line);
    else
        line->state = LINE_ENTERED;
}

static void key_tab(struct line_edit *line)
{
    insert(line, TAB_SPACES, sizeof TAB_SPACES - 1);
}

static void key_cancel(struct line_edit *line)
{
    line->state = LINE_CANCELLED;
}

static void key_clear(struct line_edit *line)
{
    line->state = LINE_CLEARED;
}

static void key_stop(struct line_edit *line)
{
    line->state = LINE_STOPPED;
}

static void key_paste(struct line_edit *line)
{
    line->pasting = true;
}

static const struct {
    const char *key;
    void (*fn)(struct line_edit *line);
} keys[] = {
    {"\x01",      key_home         }, // Ctrl-A
    {"\x02",      key_left         },
    {"\x03",      key_cancel       },
    {"\x04",      key_delete_or_end},
    {"\x05",      key_end          },
    {"\x06",      key_right        },
    {"\x08",      key_backspace    },
    {"\x09",      key_tab          },
    {"\x0a",      key_enter        },
    {"\x0b",      key_kill_end     },
    {"\x0c",      key_clear        },
    {"\x0d",      key_enter        },
    {"\x0e",      newer            },
    {"\x10",      older            },
    {"\x12",      search           },
    {"\x15",      key_kill_start   },
    {"\x17",      key_kill_space   },
    {"\x19",      key_yank         },
    {"\x1a",      key_stop         },
    {"\x7f",      key_backspace    },
    {"\x1b[A",    key_up           },
    {"\x1b[B",    key_down         },
    {"\x1b[C",    key_right        },
    {"\x1b[D",    key_left         },
    {"\x1b[H",    key_home         },
    {"\x1b[F",    key_end          },
    {"\x1bOA",    key_up           },
    {"\x1bOB",    key_down         },
    {"\x1bOC",    key_right        },
    {"\x1bOD",    key_left         },
    {"\x1bOH",    key_home         },
    {"\x1bOF",    key_end          },
    {"\x1b[1~",   key_home         },
    {"\x1b[3~",   key_delete       },
    {"\x1b[4~",   key_end          },
    {"\x1b[7~",   key_home         },
    {"\x1b[8~",   key_end          },
    {"\x1b[1;5C", key_word_right   }, // Ctrl and an arrow
    {"\x1b[1;5D", key_word_left    },
    {"\x1b[1;3C", key_word_right   }, // Alt and an arrow
    {"\x1b[1;3D", key_word_left    },
    {"\x1b[200~", key_paste        },
    {"\x1b"
     "b",    key_word_left    },
    {"\x1b"
     "d",    key_kill_next    },
    {"\x1b"
     "f",    key_word_right   },
    {"\x1b\x7f",  key_kill_word    },
    {"\x1b\x0d",  key_newline      }, // Alt-Enter
};

// One whole key or character. Sequences and control characters that are not known do nothing.
static void take_key(struct line_edit *line, const char *key, size_t len)
{
    if (line->searching && search_key(line, key, len))
        return;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strlen(keys[i].key) == len && memcmp(keys[i].key, key, len) == 0) {
            keys[i].fn(line);
            return;
        }
    }
    if ((unsigned char)key[0] >= ' ')
        insert(line, key, len);
}

// What is pasted is text, not keys.
static void take_pasted(struct line_edit *line, const char *key, size_t len)
{
    if (len == sizeof PASTE_END - 1 && memcmp(key, PASTE_END, len) == 0)
        line->pasting = false;
    else if (key[0] == '\r' || key[0] == '\n')
        insert(line, "\n", 1);
    else if ((unsigned char)key[0] >= ' ' || key[0] == '\t')
        insert(line, key, len);
}

// -- bytes

// How many bytes of the sequence are a key: 0 when more must come, -1 when it is nothing.
static int key_length(const char *s, size_t len)
{
    unsigned char first = (unsigned char)s[0];
    if (first == ESC) {
        if (len == 1)
            return 0;
        if (s[1] == ESC) // the first was a key of its own
            return -1;
        if (s[1] == 'O')
            return len < 3 ? 0 : 3;
        if (s[1] != '[')
            return 2;
        bool ended = len > 2 && s[len - 1] >= '@' && s[len - 1] <= '~';
        return ended ? (int)len : 0;
    }
    if (first < 0x80)
        return 1;
    if (first < 0xc2 || first > 0xf4 || (len > 1 && ((unsigned char)s[len - 1] & 0xc0) != 0x80))
        return -1;
    size_t want = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (len < want)
        return 0;
    return utf8_step(s, len) == want ? (int)want : -1;
}

enum line_state line_feed(struct line_edit *line, char byte)
{
    line->state = LINE_EDITING;
    line->sequence[line->n_sequence++] = byte;
    int n = key_length(line->sequence, line->n_sequence);
    if (n == 0 && line->n_sequence < LINE_SEQUENCE_MAX)
        return LINE_EDITING;
    size_t len = line->n_sequence;
    line->n_sequence = 0;
    if (n <= 0) {
        // The byte that broke it may begin something itself.
        return len > 1 && n < 0 ? line_feed(line, byte) : LINE_EDITING;
    }
    if (line->pasting)
        take_pasted(line, line->sequence, len);
    else
        take_key(line, line->sequence, len);
    return line->state;
}
