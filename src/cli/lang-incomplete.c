// SPDX-License-Identifier: Apache-2.0
// Whether a text is the beginning of something longer. Each language is read as far as that takes:
// brackets, strings, comments, and what opens a block. Where a reader this simple errs, the
// language's own error says so, or an empty line more is typed.
#include <string.h>

#include "cli/lang.h"

struct reader {
    const char *at, *end;
    long depth;      // of open brackets
    char last;       // the last character that counts, of the text so far; '\0': none
    bool open;       // something that only more text can close
    bool continued;  // a backslash ends the last line
    bool has_block;  // Python: a line has ended in ':'
    bool blank_last; // nothing stands on the last line
};

static bool peek(const struct reader *r, const char *text)
{
    size_t len = strlen(text);
    return (size_t)(r->end - r->at) >= len && memcmp(r->at, text, len) == 0;
}

static void skip_line(struct reader *r)
{
    while (r->at < r->end && *r->at != '\n')
        r->at++;
}

// Goes behind the next `close` that no backslash stands before; open when there is none. A string
// that may not go on in the next line ends there: that is the language's to complain about.
static void skip_string(struct reader *r, const char *close, bool lines, bool escapes)
{
    while (r->at < r->end && !peek(r, close)) {
        if (*r->at == '\n' && !lines)
            return;
        if (escapes && *r->at == '\\' && r->at + 1 < r->end)
            r->at++;
        r->at++;
    }
    if (r->at >= r->end)
        r->open = r->open || lines;
    else
        r->at += strlen(close);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void take_bracket(struct reader *r, char c)
{
    if (c == '(' || c == '[' || c == '{')
        r->depth++;
    else if (c == ')' || c == ']' || c == '}')
        r->depth--;
}

// -- Python

static void python_line_end(struct reader *r)
{
    if (r->depth <= 0 && r->last == ':' && !r->blank_last)
        r->has_block = true;
    r->blank_last = true;
    r->at++;
}

static void python_string(struct reader *r)
{
    const char quote = *r->at;
    const char *const three = quote == '"' ? "\"\"\"" : "'''";
    const char one[] = {quote, '\0'};
    bool is_long = peek(r, three);
    r->at += is_long ? 3 : 1;
    skip_string(r, is_long ? three : one, is_long, /* escapes */ true);
    r->last = quote;
    r->blank_last = false;
}

static void python_char(struct reader *r)
{
    char c = *r->at++;
    if (is_space(c))
        return;
    if (c == '\\' && r->at < r->end && *r->at == '\n') {
        r->at++;
        r->continued = r->at == r->end;
        return;
    }
    // A decorator wants what it decorates.
    r->has_block = r->has_block || (c == '@' && r->blank_last && r->depth <= 0);
    r->blank_last = false;
    r->last = c;
    take_bracket(r, c);
}

// In a block it is a line of it.
static void python_comment(struct reader *r)
{
    r->blank_last = false;
    skip_line(r);
}

static struct reader read_python(const char *text, size_t len)
{
    struct reader r = {.at = text, .end = text + len, .blank_last = true};
    while (r.at < r.end) {
        if (*r.at == '\n')
            python_line_end(&r);
        else if (*r.at == '#')
            python_comment(&r);
        else if (*r.at == '"' || *r.at == '\'')
            python_string(&r);
        else
            python_char(&r);
    }
    if (r.depth <= 0 && r.last == ':' && !r.blank_last)
        r.has_block = true;
    return r;
}

static bool python_incomplete(const char *text, size_t len)
{
    const struct reader r = read_python(text, len);
    if (len > 0 && text[len - 1] == '\\')
        return true;
    if (r.depth > 0 || r.open || r.continued)
        return true;
    // A block goes on up to an empty line, but for one that nothing stands in yet.
    return r.has_block && (!r.blank_last || r.last == ':');
}

bool lang_begins_anew(enum lang_rule rule, const char *text, size_t len, const char *line)
{
    static const char *const go_on[] = {"elif", "else", "except", "finally"};
    if (rule != LANG_PYTHON || is_space(line[0]) || line[0] == '\0' || line[0] == '#')
        return false;
    size_t word = strcspn(line, " \t:(");
    for (size_t i = 0; i < sizeof go_on / sizeof *go_on; i++) {
        if (strlen(go_on[i]) == word && memcmp(line, go_on[i], word) == 0)
            return false;
    }
    const struct reader r = read_python(text, len);
    if (r.depth > 0 || r.open || r.continued || r.last == ':' || !r.has_block)
        return false;
    // Behind a decorator stands what it decorates, in the same column.
    const char *last = text + len;
    while (last > text && is_space(last[-1]))
        last--;
    while (last > text && last[-1] != '\n')
        last--;
    return last < text + len && *last != '@';
}

// -- JavaScript

// A slash begins a regular expression where a value may stand.
static bool script_is_regex(const struct reader *r)
{
    return r->last == '\0' || strchr("(,=:[!&|?{};+-*%<>~^", r->last) != NULL;
}

static void script_regex(struct reader *r)
{
    bool in_class = false;
    for (r->at++; r->at < r->end && *r->at != '\n' && (in_class || *r->at != '/'); r->at++) {
        if (*r->at == '\\' && r->at + 1 < r->end)
            r->at++;
        else if (*r->at == '[' || *r->at == ']')
            in_class = *r->at == '[';
    }
    if (r->at < r->end)
        r->at++;
    r->last = '/';
}

enum { TEMPLATES_MAX = 16 };

// A text between backquotes, up to its end or to "${", behind which code follows up to a brace.
static void script_template(struct reader *r, long *templates, unsigned *n)
{
    for (; r->at < r->end; r->at++) {
        if (*r->at == '\\' && r->at + 1 < r->end) {
            r->at++;
        } else if (*r->at == '`') {
            r->at++;
            r->last = '`';
            return;
        } else if (peek(r, "${") && *n < TEMPLATES_MAX) {
            r->at += 2;
            templates[(*n)++] = r->depth++;
            r->last = '{';
            return;
        }
    }
    r->open = true;
}

static bool script_incomplete(const char *text, size_t len)
{
    struct reader r = {.at = text, .end = text + len};
    long templates[TEMPLATES_MAX]; // depths at which code inside one began
    unsigned n = 0;
    while (r.at < r.end) {
        char c = *r.at;
        if (peek(&r, "//")) {
            skip_line(&r);
        } else if (peek(&r, "/*")) {
            r.at += 2;
            skip_string(&r, "*/", /* lines */ true, /* escapes */ false);
        } else if (c == '/' && script_is_regex(&r)) {
            script_regex(&r);
        } else if (c == '"' || c == '\'') {
            r.at++;
            skip_string(&r, c == '"' ? "\"" : "'", /* lines */ false, /* escapes */ true);
            r.last = c;
        } else {
            r.at++;
            take_bracket(&r, c);
            bool resumed = c == '}' && n > 0 && r.depth == templates[n - 1];
            n -= resumed;
            if (!is_space(c))
                r.last = c;
            if (c == '`' || resumed)
                script_template(&r, templates, &n);
        }
    }
    return r.depth > 0 || r.open;
}

// -- shells

enum { HERE_MAX = 64 };

// "<<EOF", "<<-'EOF'": goes behind the line that ends it; open when there is none.
static void shell_here(struct reader *r)
{
    char word[HERE_MAX];
    size_t n = 0;
    bool tabs = r->at < r->end && *r->at == '-';
    r->at += tabs;
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t'))
        r->at++;
    for (; r->at < r->end && strchr(" \t\n;|&<>()", *r->at) == NULL; r->at++) {
        if (strchr("'\"\\", *r->at) == NULL && n < sizeof word - 1)
            word[n++] = *r->at;
    }
    const char *rest = r->at;
    skip_line(r);
    while (r->at < r->end) {
        const char *line = ++r->at;
        skip_line(r);
        while (tabs && line < r->at && *line == '\t')
            line++;
        if ((size_t)(r->at - line) == n && memcmp(line, word, n) == 0)
            return;
    }
    r->open = true;
    r->last = rest < r->end ? r->last : '\0';
}

// Words that open and close, where a command may stand.
static void shell_word(struct reader *r, const char *word, size_t len, long *cases)
{
    static const struct {
        const char *word;
        int step;
    } words[] = {
        {"if",     1 },
        {"fi",     -1},
        {"for",    1 },
        {"while",  1 },
        {"until",  1 },
        {"select", 1 },
        {"done",   -1},
        {"case",   1 },
        {"esac",   -1},
        {"{",      1 },
        {"}",      -1},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i].word) != len || memcmp(words[i].word, word, len) != 0)
            continue;
        r->depth += words[i].step;
        if (word[0] == 'c' || word[0] == 'e')
            *cases += words[i].step;
    }
}

// After these words a command may stand again.
static bool shell_leads(const char *word, size_t len)
{
    static const char *const words[] = {"then",  "do",    "else", "elif", "if",
                                        "while", "until", "{",    "!",    "time"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i]) == len && memcmp(words[i], word, len) == 0)
            return true;
    }
    return false;
}

static void shell_quote(struct reader *r)
{
    bool single = *r->at == '\'';
    r->at++;
    skip_string(r, single ? "'" : "\"", /* lines */ true, /* escapes */ !single);
}

// One word, with the quotes in it. Returns whether a command may follow.
static bool shell_take_word(struct reader *r, bool commands, long *cases)
{
    const char *from = r->at;
    while (r->at < r->end && strchr(" \t\r\n;|&()<>#", *r->at) == NULL) {
        if (*r->at == '\'' || *r->at == '"') {
            shell_quote(r);
        } else if (*r->at == '\\') {
            r->continued = r->at + 1 >= r->end || (r->at[1] == '\n' && r->at + 2 >= r->end);
            r->at += r->at + 1 < r->end ? 2 : 1;
        } else {
            r->at++;
        }
    }
    while (r->at < r->end && *r->at == '#' && r->at > from) // inside a word it begins no comment
        r->at++;
    size_t len = (size_t)(r->at - from);
    if (commands)
        shell_word(r, from, len, cases);
    r->last = 'a';
    return commands && shell_leads(from, len);
}

// Returns whether a command may follow.
static bool shell_sign(struct reader *r, long cases)
{
    char c = *r->at;
    bool both = peek(r, "&&");
    if (peek(r, "<<") && !peek(r, "<<<")) {
        r->at += 2;
        shell_here(r);
        return true;
    }
    r->at += peek(r, "<<<") ? 3 : peek(r, ";;") || both ? 2 : 1;
    if (c == '(' || (c == ')' && (cases == 0 || r->depth > cases)))
        take_bracket(r, c);
    // A line that ends in | or && goes on; a single & does not.
    r->last = both ? '|' : c;
    return c != '<' && c != '>';
}

static bool shell_incomplete(const char *text, size_t len)
{
    struct reader r = {.at = text, .end = text + len};
    long cases = 0;
    bool commands = true; // a command may stand here
    while (r.at < r.end) {
        char c = *r.at;
        if (c == '\n') {
            r.at++;
            commands = true;
        } else if (is_space(c)) {
            r.at++;
        } else if (c == '#') {
            skip_line(&r);
        } else if (strchr(";|&()<>", c) != NULL) {
            commands = shell_sign(&r, cases);
        } else {
            commands = shell_take_word(&r, commands, &cases);
        }
    }
    return r.depth > 0 || r.open || r.continued || r.last == '|';
}

bool lang_incomplete(enum lang_rule rule, const char *text, size_t len)
{
    switch (rule) {
    case LANG_PLAIN:
        return false;
    case LANG_PYTHON:
        return python_incomplete(text, len);
    case LANG_SCRIPT:
        return script_incomplete(text, len);
    case LANG_SHELL:
        return shell_incomplete(text, len);
    }
    return false;
}
