// SPDX-License-Identifier: Apache-2.0
#include "agents/clean.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct line {
    const char *at;
    size_t len; // without its end
};

static bool next_line(const char **at, const char *end, struct line *ret)
{
    if (*at >= end)
        return false;
    const char *nl = memchr(*at, '\n', (size_t)(end - *at));
    const char *stop = nl != NULL ? nl : end;
    ret->at = *at;
    ret->len = (size_t)(stop - *at);
    if (ret->len > 0 && ret->at[ret->len - 1] == '\r')
        ret->len--;
    *at = nl != NULL ? nl + 1 : end;
    return true;
}

static struct line trim(struct line l)
{
    while (l.len > 0 && isblank((unsigned char)l.at[0])) {
        l.at++;
        l.len--;
    }
    while (l.len > 0 && isspace((unsigned char)l.at[l.len - 1]))
        l.len--;
    return l;
}

// --- texts within bare code, in which a fence is none: between three quotes and three quotes

struct quotes {
    char open; // which they are; 0: outside
    char last;
    unsigned n; // how many of `last`
};

static void quotes_feed(struct quotes *q, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        q->n = (c == '"' || c == '\'') ? (c == q->last ? q->n + 1 : 1) : 0;
        q->last = c;
        if (q->n < 3)
            continue;
        if (q->open == 0 || q->open == c)
            q->open = q->open == 0 ? c : '\0';
        q->n = 0;
    }
}

static void quotes_line(struct quotes *q, struct line l)
{
    quotes_feed(q, l.at, l.len);
    quotes_feed(q, "\n", 1);
}

// --- fences: a run of three or more ` or ~, at most three blanks before it

struct fence {
    char mark;
    size_t n;
    struct line info; // what stands behind it
};

static bool is_fence(struct line l, struct fence *ret)
{
    size_t blanks = 0, n = 0;
    while (blanks < l.len && blanks < 4 && l.at[blanks] == ' ')
        blanks++;
    if (blanks > 3 || blanks >= l.len || strchr("`~", l.at[blanks]) == NULL)
        return false;
    char mark = l.at[blanks];
    while (blanks + n < l.len && l.at[blanks + n] == mark)
        n++;
    if (n < 3)
        return false;
    struct line info = trim((struct line){l.at + blanks + n, l.len - blanks - n});
    if (mark == '`' && memchr(info.at, '`', info.len) != NULL)
        return false; // ```code``` on one line
    *ret = (struct fence){.mark = mark, .n = n, .info = info};
    return true;
}

static bool closes(const struct fence *open, const struct fence *f)
{
    return f->mark == open->mark && f->n >= open->n && f->info.len == 0;
}

// --- whose fence it is

enum kinship { OTHER, NONE, SAME };

static enum kinship kinship_of(struct line info, const char *language)
{
    static const char *const names[][8] = {
        {"python", "py",   "python3", "py3", "ipython", "pycon",      NULL},
        { "javascript",    "js", "node",     "mjs", "cjs",     "jsx", "ecmascript", NULL},
    };
    size_t n = 0;
    while (n < info.len && strchr(" \t:{,;", info.at[n]) == NULL)
        n++;
    if (n == 0)
        return NONE;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i][0], language) != 0)
            continue;
        for (size_t k = 0; names[i][k] != NULL; k++) {
            if (strlen(names[i][k]) == n && strncasecmp(names[i][k], info.at, n) == 0)
                return SAME;
        }
    }
    return OTHER;
}

// Appends the blocks that are of this kin. Whether there was one.
static bool take_blocks(const char *text, size_t len, const char *language, enum kinship kin,
                        struct buf *ret)
{
    const char *at = text, *end = text + len;
    struct line l;
    struct fence open = {0}, f;
    struct quotes quotes = {0};
    bool inside = false, wanted = false, any = false;
    while (next_line(&at, end, &l)) {
        if (!inside && quotes.open == 0 && is_fence(l, &open)) {
            inside = true;
            wanted = kinship_of(open.info, language) == kin;
            any |= wanted;
        } else if (inside && is_fence(l, &f) && closes(&open, &f)) {
            inside = false;
        } else if (inside && wanted) {
            (void)buf_append(ret, l.at, l.len);
            (void)buf_append_char(ret, '\n');
        } else if (!inside) {
            quotes_line(&quotes, l);
        }
    }
    return any;
}

static bool has_fence(const char *text, size_t len)
{
    const char *at = text, *end = text + len;
    struct line l;
    struct fence f;
    struct quotes quotes = {0};
    while (next_line(&at, end, &l)) {
        if (quotes.open == 0 && is_fence(l, &f))
            return true;
        quotes_line(&quotes, l);
    }
    return false;
}

// --- sentences

static size_t count_words(struct line l)
{
    size_t n = 0;
    for (size_t i = 0; i < l.len; i++)
        n += !isspace((unsigned char)l.at[i]) && (i == 0 || isspace((unsigned char)l.at[i - 1]));
    return n;
}

static bool is_operator(struct line word)
{
    for (size_t i = 0; i < word.len; i++) {
        if (strchr("+*/%<>|&^@", word.at[i]) == NULL)
            return false;
    }
    return true;
}

// `x + 1`, `n - 2`: a word that is an operator. A dash is one before a number only.
static bool has_operator(struct line l)
{
    bool after_dash = false;
    for (size_t i = 0, n; i < l.len; i += n + 1) {
        for (n = 0; i + n < l.len && !isspace((unsigned char)l.at[i + n]);)
            n++;
        if (n > 0 && (is_operator((struct line){l.at + i, n}) ||
                      (after_dash && isdigit((unsigned char)l.at[i]))))
            return true;
        after_dash = n == 1 && l.at[i] == '-';
    }
    return false;
}

// A line of people's words: it begins with a letter, has several words and nothing that code has.
static bool is_prose(struct line l)
{
    static const char *const keywords[] = {"import ", "from ",   "def ",      "class ",  "for ",
                                           "while ",  "if ",     "with ",     "return ", "print ",
                                           "try:",    "async ",  "await ",    "const ",  "let ",
                                           "var ",    "export ", "raise ",    "assert ", "del ",
                                           "global ", "pass",    "function ", "lambda ", "throw "};
    if (l.len > 0 && isblank((unsigned char)l.at[0]))
        return false;
    l = trim(l);
    if (l.len == 0 || (!isalpha((unsigned char)l.at[0]) && (unsigned char)l.at[0] < 0x80))
        return false;
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        size_t n = strlen(keywords[i]);
        if (l.len >= n && memcmp(l.at, keywords[i], n) == 0)
            return false;
    }
    for (size_t i = 0; i < l.len; i++) {
        if (strchr("=()[]{};", l.at[i]) != NULL)
            return false;
    }
    if (has_operator(l))
        return false;
    return count_words(l) >= 3 || (count_words(l) >= 2 && strchr(".:!?", l.at[l.len - 1]) != NULL);
}

static bool is_blank(struct line l)
{
    return trim(l).len == 0;
}

// Without a fence: all but the sentences at both ends.
static bool take_bare(const char *text, size_t len, struct buf *ret)
{
    const char *at = text, *end = text + len, *first = NULL, *last = NULL;
    struct line l;
    while (next_line(&at, end, &l)) {
        if (is_blank(l) || is_prose(l))
            continue;
        if (first == NULL)
            first = l.at;
        last = l.at + l.len;
    }
    if (first == NULL)
        return false;
    (void)buf_append(ret, first, (size_t)(last - first));
    (void)buf_append_char(ret, '\n');
    return true;
}

bool clean_code(const char *text, size_t len, const char *language, struct buf *ret)
{
    size_t before = ret->len;
    if (!has_fence(text, len))
        (void)take_bare(text, len, ret);
    else if (!take_blocks(text, len, language, SAME, ret))
        (void)take_blocks(text, len, language, NONE, ret);
    for (size_t i = before; i < ret->len; i++) {
        if (!isspace((unsigned char)ret->data[i]))
            return true;
    }
    return false;
}

// --- while it is being written

enum state {
    BEFORE, // nothing was handed out
    BARE,   // handing out, without a fence
    INSIDE, // a fence
    AFTER,  // it
};

enum { LINE_MAX_HELD = 256 }; // of a line that is judged before it is handed out

struct clean_stream {
    const struct clean_stream_ops *ops;
    void *data;
    enum state state;
    struct fence open;
    struct quotes quotes; // of what was handed out without a fence
    bool passing;         // the rest of this line was decided: it is handed out
    bool dropping;
    struct buf line; // what is held of it
};

struct clean_stream *clean_stream_new(const struct clean_stream_ops *ops, void *data)
{
    struct clean_stream *s = calloc(1, sizeof *s);
    if (s == NULL)
        abort();
    *s = (struct clean_stream){.ops = ops, .data = data};
    buf_init(&s->line, LINE_MAX_HELD + 1);
    return s;
}

void clean_stream_free(struct clean_stream *s)
{
    if (s == NULL)
        return;
    buf_done(&s->line);
    free(s);
}

static void hand_out(struct clean_stream *s, const char *text, size_t len)
{
    if (s->state == BARE)
        quotes_feed(&s->quotes, text, len);
    if (len > 0)
        s->ops->code(s->data, text, len);
}

// A whole line that could be a fence: whether it was one.
static bool take_fence(struct clean_stream *s, struct line l)
{
    struct fence f;
    if (s->quotes.open != 0 || !is_fence(l, &f))
        return false;
    if (s->state == INSIDE) {
        if (!closes(&s->open, &f))
            return false;
        s->state = AFTER;
        return true;
    }
    if (s->state == BARE)
        s->ops->again(s->data); // what came before was about the code, not of it
    s->state = INSIDE;
    s->open = f;
    return true;
}

static void end_line(struct clean_stream *s, const char *end)
{
    struct line l = {buf_str(&s->line), s->line.len};
    if (take_fence(s, l)) {
        buf_reset(&s->line);
        return;
    }
    bool is_code = s->state == INSIDE || s->state == BARE ||
                   (s->state == BEFORE && !is_blank(l) && !is_prose(l));
    if (is_code) {
        if (s->state == BEFORE)
            s->state = BARE;
        hand_out(s, l.at, l.len);
        hand_out(s, end, strlen(end));
    }
    buf_reset(&s->line);
}

// Whether what is held of a line need not be held any longer.
static bool is_decided(const struct clean_stream *s)
{
    struct line l = trim((struct line){buf_str(&s->line), s->line.len});
    if (l.len == 0)
        return s->line.len > 3 && s->state != BEFORE && s->state != AFTER;
    if (strchr("`~", l.at[0]) != NULL)
        return s->line.len >= LINE_MAX_HELD;
    switch (s->state) {
    case INSIDE:
    case BARE:
        return true;
    case BEFORE: // surely code
        return l.at[0] == '#' || memchr(l.at, '(', l.len) != NULL ||
               memchr(l.at, '=', l.len) != NULL || s->line.len >= LINE_MAX_HELD ||
               (l.len >= 7 && (memcmp(l.at, "import ", 7) == 0));
    case AFTER:
        break;
    }
    return s->line.len >= LINE_MAX_HELD;
}

static void decide(struct clean_stream *s)
{
    if (s->state == AFTER) {
        s->dropping = true;
    } else {
        if (s->state == BEFORE)
            s->state = BARE;
        s->passing = true;
        hand_out(s, buf_str(&s->line), s->line.len);
    }
    buf_reset(&s->line);
}

static const char *feed_held(struct clean_stream *s, const char *at, const char *end)
{
    while (at < end && *at != '\n') {
        (void)buf_append_char(&s->line, *at++);
        if (is_decided(s)) {
            decide(s);
            return at;
        }
    }
    if (at < end) {
        end_line(s, "\n");
        at++;
    }
    return at;
}

void clean_stream_feed(struct clean_stream *s, const char *text, size_t len)
{
    const char *at = text, *end = text + len;
    while (at < end) {
        if (!s->passing && !s->dropping) {
            at = feed_held(s, at, end);
            continue;
        }
        const char *nl = memchr(at, '\n', (size_t)(end - at));
        const char *stop = nl != NULL ? nl + 1 : end;
        if (s->passing)
            hand_out(s, at, (size_t)(stop - at));
        if (nl != NULL)
            s->passing = s->dropping = false;
        at = stop;
    }
}

void clean_stream_end(struct clean_stream *s)
{
    if (s->line.len > 0)
        end_line(s, "");
    s->passing = s->dropping = false;
}
