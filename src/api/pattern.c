// SPDX-License-Identifier: Apache-2.0
// The pattern becomes a small program (Thompson's construction), and all ways through it are
// followed at once, so that no pattern can make a search take longer than length times program.
// Jumps are relative: a piece of program can be moved and copied, which is how repetitions are
// made.
#include "api/pattern.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum op {
    OP_BYTE,  // this one
    OP_ANY,   // any
    OP_SET,   // one of a set
    OP_BEGIN, // the line begins here
    OP_END,   // the line ends here
    OP_JUMP,  // go on at +a
    OP_SPLIT, // go on at +a and at +b
    OP_FOUND,
};

enum {
    SETS_MAX = 32,
    DEPTH_MAX = 32, // parentheses in each other
    REPEAT_MAX = 255,
};

struct code {
    enum op op;
    int a, b;
};

struct pattern {
    struct code code[PATTERN_CODE_MAX];
    int n;
    uint8_t set[SETS_MAX][32];
    int n_sets;
};

struct parser {
    struct pattern *p;
    const char *at;
    int depth;
    struct err *err;
};

static int refuse(struct parser *r, const char *why)
{
    return err_set(r->err, ERR_INVALID, "the pattern %s", why);
}

// -- writing the program

static int emit(struct parser *r, enum op op, int a, int b)
{
    if (r->p->n == PATTERN_CODE_MAX)
        return refuse(r, "is too long");
    r->p->code[r->p->n++] = (struct code){.op = op, .a = a, .b = b};
    return 0;
}

static int insert(struct parser *r, int at, enum op op, int a, int b)
{
    struct pattern *p = r->p;
    if (p->n == PATTERN_CODE_MAX)
        return refuse(r, "is too long");
    memmove(&p->code[at + 1], &p->code[at], (size_t)(p->n - at) * sizeof *p->code);
    p->code[at] = (struct code){.op = op, .a = a, .b = b};
    p->n++;
    return 0;
}

static int append(struct parser *r, const struct code *code, int n)
{
    for (int i = 0; i < n; i++) {
        if (emit(r, code[i].op, code[i].a, code[i].b) < 0)
            return -1;
    }
    return 0;
}

static int star(struct parser *r, int start)
{
    int len = r->p->n - start;
    if (insert(r, start, OP_SPLIT, 1, len + 2) < 0)
        return -1;
    return emit(r, OP_JUMP, -(len + 1), 0);
}

static int maybe(struct parser *r, int start)
{
    return insert(r, start, OP_SPLIT, 1, r->p->n - start + 1);
}

// -- sets

static void set_add(uint8_t *set, unsigned char c)
{
    set[c / 8] |= (uint8_t)(1u << (c % 8));
}

static const struct {
    const char *name;
    int (*is)(int);
} classes[] = {
    {"alpha",  isalpha },
    {"digit",  isdigit },
    {"alnum",  isalnum },
    {"upper",  isupper },
    {"lower",  islower },
    {"space",  isspace },
    {"blank",  isblank },
    {"punct",  ispunct },
    {"print",  isprint },
    {"graph",  isgraph },
    {"cntrl",  iscntrl },
    {"xdigit", isxdigit},
};

static void set_add_class(uint8_t *set, int (*is)(int))
{
    for (int c = 0; c < 128; c++) {
        if (is(c))
            set_add(set, (unsigned char)c);
    }
}

static uint8_t *new_set(struct parser *r)
{
    if (r->p->n_sets == SETS_MAX || emit(r, OP_SET, r->p->n_sets, 0) < 0) {
        (void)refuse(r, "has too many sets");
        return NULL;
    }
    return r->p->set[r->p->n_sets++];
}

// "[:alpha:]" inside brackets; r->at is behind the first two characters.
static int parse_class(struct parser *r, uint8_t *set)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        size_t len = strlen(classes[i].name);
        if (strncmp(r->at, classes[i].name, len) == 0 && strncmp(r->at + len, ":]", 2) == 0) {
            set_add_class(set, classes[i].is);
            r->at += len + 2;
            return 0;
        }
    }
    return refuse(r, "names a class of characters that there is not");
}

static int parse_range(struct parser *r, uint8_t *set)
{
    unsigned char from = (unsigned char)*r->at++;
    unsigned char to = from;
    if (r->at[0] == '-' && r->at[1] != ']' && r->at[1] != '\0') {
        to = (unsigned char)r->at[1];
        r->at += 2;
    }
    if (to < from)
        return refuse(r, "has a range that ends before it begins");
    for (unsigned c = from; c <= to; c++)
        set_add(set, (unsigned char)c);
    return 0;
}

static int parse_set(struct parser *r)
{
    uint8_t *set = new_set(r);
    bool negated = *r->at == '^';
    if (set == NULL)
        return -1;
    r->at += negated;
    for (bool first = true; first || *r->at != ']'; first = false) {
        int e;
        if (*r->at == '\0')
            return refuse(r, "has a '[' without its ']'");
        if (r->at[0] == '[' && r->at[1] == ':') {
            r->at += 2;
            e = parse_class(r, set);
        } else {
            e = parse_range(r, set);
        }
        if (e < 0)
            return -1;
    }
    r->at++;
    for (int i = 0; negated && i < 32; i++)
        set[i] = (uint8_t)~set[i];
    return 0;
}

static int is_word(int c)
{
    return isalnum(c) || c == '_';
}

static int parse_escape(struct parser *r)
{
    char c = *r->at++;
    int (*is)(int) = c == 'd' ? isdigit : c == 'w' ? is_word : c == 's' ? isspace : NULL;
    if (is != NULL) {
        uint8_t *set = new_set(r);
        if (set == NULL)
            return -1;
        set_add_class(set, is);
        return 0;
    }
    if (c == 't')
        return emit(r, OP_BYTE, '\t', 0);
    if (c == '\0' || isalnum((unsigned char)c))
        return refuse(r, "has a '\\' before something that has no meaning so");
    return emit(r, OP_BYTE, (unsigned char)c, 0);
}

// -- the grammar

static int parse_either(struct parser *r);

static int parse_group(struct parser *r)
{
    if (++r->depth > DEPTH_MAX)
        return refuse(r, "has too many parentheses in each other");
    if (parse_either(r) < 0)
        return -1;
    r->depth--;
    if (*r->at != ')')
        return refuse(r, "has a '(' without its ')'");
    r->at++;
    return 0;
}

static int parse_atom(struct parser *r)
{
    char c = *r->at++;
    switch (c) {
    case '(':
        return parse_group(r);
    case '[':
        return parse_set(r);
    case '.':
        return emit(r, OP_ANY, 0, 0);
    case '^':
        return emit(r, OP_BEGIN, 0, 0);
    case '$':
        return emit(r, OP_END, 0, 0);
    case '\\':
        return parse_escape(r);
    case '*':
    case '+':
    case '?':
        return refuse(r, "repeats nothing: put a '\\' before *, + or ? to mean itself");
    default:
        return emit(r, OP_BYTE, (unsigned char)c, 0);
    }
}

static int parse_count(struct parser *r, int *ret)
{
    int n = 0;
    if (!isdigit((unsigned char)*r->at))
        return refuse(r, "has a '{' without a count");
    while (isdigit((unsigned char)*r->at) && n <= REPEAT_MAX)
        n = n * 10 + (*r->at++ - '0');
    if (n > REPEAT_MAX)
        return refuse(r, "repeats more than 255 times");
    *ret = n;
    return 0;
}

// "{m}", "{m,}", "{m,n}": as many copies, the last ones optional or repeated.
static int repeat(struct parser *r, int start, int min, int max)
{
    struct code piece[PATTERN_CODE_MAX];
    int len = r->p->n - start;
    memcpy(piece, &r->p->code[start], (size_t)len * sizeof *piece);
    r->p->n = start;
    for (int i = 0; i < min; i++) {
        if (append(r, piece, len) < 0)
            return -1;
    }
    for (int i = min; i < max || (max < 0 && i == min); i++) {
        int at = r->p->n;
        if (append(r, piece, len) < 0 || (max < 0 ? star(r, at) : maybe(r, at)) < 0)
            return -1;
    }
    return 0;
}

static int parse_repeat(struct parser *r, int start)
{
    int min, max;
    if (parse_count(r, &min) < 0)
        return -1;
    max = min;
    if (*r->at == ',') {
        r->at++;
        max = -1;
        if (*r->at != '}' && parse_count(r, &max) < 0)
            return -1;
    }
    if (*r->at++ != '}')
        return refuse(r, "has a '{' without its '}'");
    if (max >= 0 && max < min)
        return refuse(r, "has a count that ends before it begins");
    return r->p->n == start ? 0 : repeat(r, start, min, max);
}

static int parse_piece(struct parser *r)
{
    int start = r->p->n;
    if (parse_atom(r) < 0)
        return -1;
    for (;;) {
        int e;
        char c = *r->at;
        if (c != '*' && c != '+' && c != '?' && c != '{')
            return 0;
        r->at++;
        if (c == '*')
            e = star(r, start);
        else if (c == '+')
            e = emit(r, OP_SPLIT, start - r->p->n, 1);
        else
            e = c == '?' ? maybe(r, start) : parse_repeat(r, start);
        if (e < 0)
            return -1;
    }
}

static int parse_row(struct parser *r)
{
    while (*r->at != '\0' && *r->at != '|' && *r->at != ')') {
        if (parse_piece(r) < 0)
            return -1;
    }
    return 0;
}

static int parse_either(struct parser *r)
{
    int start = r->p->n;
    if (parse_row(r) < 0)
        return -1;
    if (*r->at != '|')
        return 0;
    r->at++;
    if (insert(r, start, OP_SPLIT, 1, r->p->n - start + 2) < 0)
        return -1;
    int jump = r->p->n;
    if (emit(r, OP_JUMP, 0, 0) < 0 || parse_either(r) < 0)
        return -1;
    r->p->code[jump].a = r->p->n - jump;
    return 0;
}

int pattern_new(const char *text, struct pattern **ret, struct err *err)
{
    struct pattern *p = calloc(1, sizeof *p);
    struct parser r = {.p = p, .at = text, .err = err};
    if (p == NULL)
        abort();
    int e = strlen(text) > PATTERN_TEXT_MAX ? refuse(&r, "is too long") : parse_either(&r);
    if (e == 0 && *r.at != '\0')
        e = refuse(&r, "has a ')' without its '('");
    if (e == 0)
        e = emit(&r, OP_FOUND, 0, 0);
    if (e < 0) {
        pattern_free(p);
        return -1;
    }
    *ret = p;
    return 0;
}

void pattern_free(struct pattern *pattern)
{
    free(pattern);
}

// -- searching

struct ways { // places in the program, each once
    int at[PATTERN_CODE_MAX];
    int n;
    bool seen[PATTERN_CODE_MAX];
};

// Adds a place and all that can be reached from it without a byte. True when the end is among them.
static bool add(const struct pattern *p, struct ways *w, int first, bool at_begin, bool at_end)
{
    int todo[PATTERN_CODE_MAX + 1];
    int n = 0;
    todo[n++] = first;
    while (n > 0) {
        int pc = todo[--n];
        if (w->seen[pc])
            continue;
        w->seen[pc] = true;
        const struct code *c = &p->code[pc];
        if (c->op == OP_FOUND)
            return true;
        if (c->op == OP_JUMP || c->op == OP_SPLIT) {
            if (!w->seen[pc + c->a])
                todo[n++] = pc + c->a;
            if (c->op == OP_SPLIT && !w->seen[pc + c->b] && n <= PATTERN_CODE_MAX)
                todo[n++] = pc + c->b;
        } else if ((c->op == OP_BEGIN && at_begin) || (c->op == OP_END && at_end)) {
            todo[n++] = pc + 1;
        } else if (c->op != OP_BEGIN && c->op != OP_END) {
            w->at[w->n++] = pc;
        }
    }
    return false;
}

static bool takes(const struct pattern *p, const struct code *c, unsigned char byte)
{
    return c->op == OP_ANY || (c->op == OP_BYTE && c->a == byte) ||
           (c->op == OP_SET && (p->set[c->a][byte / 8] >> (byte % 8) & 1));
}

bool pattern_found(const struct pattern *p, const char *data, size_t len)
{
    struct ways a = {0}, b = {0};
    struct ways *now = &a, *next = &b;
    for (size_t i = 0;; i++) {
        if (add(p, now, 0, i == 0, i == len))
            return true;
        if (i == len)
            return false;
        next->n = 0;
        memset(next->seen, 0, sizeof next->seen);
        for (int w = 0; w < now->n; w++) {
            if (takes(p, &p->code[now->at[w]], (unsigned char)data[i]) &&
                add(p, next, now->at[w] + 1, false, i + 1 == len))
                return true;
        }
        struct ways *swap = now;
        now = next;
        next = swap;
    }
}
