// SPDX-License-Identifier: Apache-2.0
// Recursive descent, at most JSON_READ_DEPTH_MAX deep. A first look over the text counts what can
// begin a value, so that nodes and texts fit into one allocation: decoded and ended by a NUL, a
// text is never longer than it was between its quotes, or than a number with what follows it.
#include "base/json-in.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

struct json_doc {
    size_t n, cap;
    struct json_node nodes[];
};

struct reader {
    const char *text;
    size_t len, at;
    unsigned depth;
    struct json_doc *doc;
    char *out; // where the next text goes
    struct err *err;
};

static int read_value(struct reader *r, struct json_node *node);

// -- the text, byte by byte

static int fail(struct reader *r, const char *what)
{
    return err_set(r->err, ERR_INVALID, "not JSON: %s, at byte %zu", what, r->at);
}

// A NUL at the end, which is no JSON wherever it stands.
static char peek(const struct reader *r)
{
    return r->at < r->len ? r->text[r->at] : '\0';
}

static void skip_space(struct reader *r)
{
    while (peek(r) == ' ' || peek(r) == '\t' || peek(r) == '\n' || peek(r) == '\r')
        r->at++;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// -- strings

static int read_hex4(struct reader *r, uint32_t *ret)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        char c = peek(r);
        uint32_t digit = is_digit(c)            ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit == 16)
            return fail(r, "four hexadecimal digits must follow \\u");
        value = value << 4 | digit;
    }
    *ret = value;
    return 0;
}

// Half a pair stands for nothing.
static int read_code(struct reader *r, uint32_t *ret)
{
    uint32_t low;
    if (read_hex4(r, ret) < 0)
        return -1;
    if (*ret < 0xd800 || *ret > 0xdfff)
        return 0;
    if (*ret > 0xdbff || r->len - r->at < 2 || memcmp(r->text + r->at, "\\u", 2) != 0)
        return fail(r, "half a surrogate pair");
    r->at += 2;
    if (read_hex4(r, &low) < 0)
        return -1;
    if (low < 0xdc00 || low > 0xdfff)
        return fail(r, "half a surrogate pair");
    *ret = 0x10000 + ((*ret - 0xd800) << 10) + (low - 0xdc00);
    return 0;
}

static void put_code(struct reader *r, uint32_t code)
{
    if (code < 0x80) {
        *r->out++ = (char)code;
        return;
    }
    unsigned tails = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char marks[] = {0, 0xc0, 0xe0, 0xf0};
    *r->out++ = (char)(marks[tails] | code >> 6 * tails);
    while (tails-- > 0)
        *r->out++ = (char)(0x80 | (code >> 6 * tails & 0x3f));
}

static int read_escape(struct reader *r)
{
    static const char names[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    uint32_t code;
    r->at++;
    char c = peek(r);
    const char *name = c != '\0' ? strchr(names, c) : NULL;
    if (name != NULL)
        *r->out++ = means[name - names];
    else if (c != 'u')
        return fail(r, "no such escape");
    r->at++;
    if (name != NULL)
        return 0;
    if (read_code(r, &code) < 0)
        return -1;
    put_code(r, code);
    return 0;
}

static int read_char(struct reader *r)
{
    if (r->at >= r->len)
        return fail(r, "a string has no end");
    if ((unsigned char)r->text[r->at] < ' ')
        return fail(r, "a control character in a string");
    size_t n = utf8_step(r->text + r->at, r->len - r->at);
    if (n == 0)
        return fail(r, "a string that is not UTF-8");
    memcpy(r->out, r->text + r->at, n);
    r->out += n;
    r->at += n;
    return 0;
}

static int read_string(struct reader *r, const char **ret, size_t *ret_len)
{
    char *start = r->out;
    r->at++;
    while (peek(r) != '"') {
        if ((peek(r) == '\\' ? read_escape(r) : read_char(r)) < 0)
            return -1;
    }
    r->at++;
    *ret = start;
    *ret_len = (size_t)(r->out - start);
    *r->out++ = '\0';
    return 0;
}

// -- numbers and words

static int skip_digits(struct reader *r)
{
    if (!is_digit(peek(r)))
        return fail(r, "a digit is missing");
    while (is_digit(peek(r)))
        r->at++;
    return 0;
}

static int skip_number(struct reader *r)
{
    if (peek(r) == '-')
        r->at++;
    if (peek(r) == '0')
        r->at++; // alone, or before a point
    else if (skip_digits(r) < 0)
        return -1;
    if (peek(r) == '.') {
        r->at++;
        if (skip_digits(r) < 0)
            return -1;
    }
    if (peek(r) != 'e' && peek(r) != 'E')
        return 0;
    r->at++;
    if (peek(r) == '+' || peek(r) == '-')
        r->at++;
    return skip_digits(r);
}

static int read_number(struct reader *r, struct json_node *node)
{
    size_t start = r->at;
    if (skip_number(r) < 0)
        return -1;
    node->type = JSON_NODE_NUMBER;
    node->text = r->out;
    node->text_len = r->at - start;
    memcpy(r->out, r->text + start, node->text_len);
    r->out += node->text_len;
    *r->out++ = '\0';
    return 0;
}

static int read_word(struct reader *r, struct json_node *node)
{
    static const struct {
        const char *name;
        enum json_node_type type;
        bool is_true;
    } words[] = {
        {"null",  JSON_NODE_NULL, false},
        {"true",  JSON_NODE_BOOL, true },
        {"false", JSON_NODE_BOOL, false},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t n = strlen(words[i].name);
        if (r->len - r->at < n || memcmp(r->text + r->at, words[i].name, n) != 0)
            continue;
        r->at += n;
        node->type = words[i].type;
        node->is_true = words[i].is_true;
        return 0;
    }
    return fail(r, r->at < r->len ? "no value begins like this" : "it ends too early");
}

// -- arrays and objects

static struct json_node *new_node(struct reader *r)
{
    assert(r->doc->n < r->doc->cap);
    return &r->doc->nodes[r->doc->n++];
}

static int read_key(struct reader *r, struct json_node *node)
{
    size_t len;
    skip_space(r);
    if (peek(r) != '"')
        return fail(r, "a key is missing");
    if (read_string(r, &node->key, &len) < 0)
        return -1;
    if (strlen(node->key) != len)
        return fail(r, "a NUL in a key");
    skip_space(r);
    if (peek(r) != ':')
        return fail(r, "a ':' is missing after a key");
    r->at++;
    return 0;
}

static int read_children(struct reader *r, struct json_node *parent, char close)
{
    const struct json_node **end = &parent->first;
    parent->type = close == '}' ? JSON_NODE_OBJECT : JSON_NODE_ARRAY;
    if (++r->depth > JSON_READ_DEPTH_MAX)
        return fail(r, "nested too deeply");
    r->at++;
    skip_space(r);
    while (peek(r) != close || parent->n > 0) {
        struct json_node *child = new_node(r);
        if ((close == '}' && read_key(r, child) < 0) || read_value(r, child) < 0)
            return -1;
        *end = child;
        end = &child->next;
        parent->n++;
        skip_space(r);
        if (peek(r) == close)
            break;
        if (peek(r) != ',')
            return fail(r, close == '}' ? "a ',' or '}' is missing" : "a ',' or ']' is missing");
        r->at++;
    }
    r->at++;
    r->depth--;
    return 0;
}

static int read_value(struct reader *r, struct json_node *node)
{
    skip_space(r);
    char c = peek(r);
    if (c == '{' || c == '[')
        return read_children(r, node, c == '{' ? '}' : ']');
    if (c == '"') {
        node->type = JSON_NODE_STRING;
        return read_string(r, &node->text, &node->text_len);
    }
    return c == '-' || is_digit(c) ? read_number(r, node) : read_word(r, node);
}

// -- the whole

// A value is the first, or follows one of these outside of a string. Where the text is not JSON
// this may count too much or too little; the reader does not get past that place.
static size_t count_values(const char *text, size_t len)
{
    size_t n = 1;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '"')
            in_string = !in_string;
        else if (in_string)
            i += text[i] == '\\';
        else
            n += text[i] == '[' || text[i] == '{' || text[i] == ',';
    }
    return n;
}

int json_read(const char *text, size_t len, struct json_doc **ret, struct err *err)
{
    size_t cap = count_values(text, len), size;
    if (__builtin_mul_overflow(cap, sizeof(struct json_node), &size) ||
        __builtin_add_overflow(size, sizeof(struct json_doc) + 1, &size) ||
        __builtin_add_overflow(size, len, &size))
        return err_set(err, ERR_EXHAUSTED, "no memory for a JSON text");
    struct json_doc *doc = calloc(1, size);
    if (doc == NULL)
        return err_set(err, ERR_EXHAUSTED, "no memory for a JSON text of %zu bytes", len);
    doc->cap = cap;
    struct reader r = {.text = text, .len = len, .doc = doc, .err = err};
    r.out = (char *)&doc->nodes[cap];
    int failed = read_value(&r, new_node(&r));
    skip_space(&r);
    if (failed == 0 && r.at < len)
        failed = fail(&r, "more follows the value");
    if (failed < 0) {
        free(doc);
        return -1;
    }
    assert(r.out <= (char *)doc + size);
    *ret = doc;
    return 0;
}

void json_doc_free(struct json_doc *doc)
{
    free(doc);
}

void json_doc_free_auto(struct json_doc **doc)
{
    json_doc_free(*doc);
}

// -- looking at it

const struct json_node *json_root(const struct json_doc *doc)
{
    return doc != NULL ? &doc->nodes[0] : NULL;
}

bool json_is(const struct json_node *node, enum json_node_type type)
{
    return node != NULL && node->type == type;
}

const struct json_node *json_first(const struct json_node *node)
{
    return node != NULL ? node->first : NULL;
}

const struct json_node *json_next(const struct json_node *node)
{
    return node != NULL ? node->next : NULL;
}

const struct json_node *json_get(const struct json_node *node, const char *key)
{
    const struct json_node *found = NULL;
    for (const struct json_node *n = json_first(node); n != NULL; n = n->next) {
        if (n->key != NULL && strcmp(n->key, key) == 0)
            found = n;
    }
    return found;
}

const char *json_text(const struct json_node *node)
{
    return json_is(node, JSON_NODE_STRING) ? node->text : NULL;
}

double json_double(const struct json_node *node, double fallback)
{
    if (!json_is(node, JSON_NODE_NUMBER))
        return fallback;
    double value = strtod(node->text, NULL);
    return isfinite(value) ? value : fallback;
}

int64_t json_int(const struct json_node *node, int64_t fallback)
{
    if (!json_is(node, JSON_NODE_NUMBER))
        return fallback;
    if (strpbrk(node->text, ".eE") == NULL) {
        errno = 0;
        long long value = strtoll(node->text, NULL, 10);
        return errno == 0 ? value : fallback;
    }
    // As far as a double counts in ones: 1e3, 1.0.
    const double most = 9007199254740992.0;
    double value = json_double(node, 0.5);
    bool fits = value >= -most && value <= most && value == (double)(int64_t)value;
    return fits ? (int64_t)value : fallback;
}

bool json_bool(const struct json_node *node, bool fallback)
{
    return json_is(node, JSON_NODE_BOOL) ? node->is_true : fallback;
}
