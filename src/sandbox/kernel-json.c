// SPDX-License-Identifier: Apache-2.0
// The scanner is a loop with a bit for each open array or object, so that depth costs no stack.
#include "sandbox/kernel-json.h"

#include <string.h>

#include "base/text.h"

struct scan {
    char *at, *end;
    bool deep;
};

static bool is_digit(const struct scan *s)
{
    return s->at < s->end && *s->at >= '0' && *s->at <= '9';
}

static void skip_space(struct scan *s)
{
    while (s->at < s->end && memchr(" \t\r\n", *s->at, 4) != NULL)
        s->at++;
}

static bool take(struct scan *s, char c)
{
    if (s->at == s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

static bool take_word(struct scan *s, const char *word)
{
    size_t len = strlen(word);
    if ((size_t)(s->end - s->at) < len || memcmp(s->at, word, len) != 0)
        return false;
    s->at += len;
    return true;
}

static bool take_digits(struct scan *s)
{
    const char *first = s->at;
    while (is_digit(s))
        s->at++;
    return s->at > first;
}

static bool take_number(struct scan *s)
{
    (void)take(s, '-');
    if (!take(s, '0') && !take_digits(s))
        return false;
    if (take(s, '.') && !take_digits(s))
        return false;
    if (take(s, 'e') || take(s, 'E')) {
        if (!take(s, '+'))
            (void)take(s, '-');
        return take_digits(s);
    }
    return true;
}

// --- strings

static int hex_value(const char *at)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef";
        const char *found = memchr(digits, at[i] | 0x20, 16);
        if (found == NULL || (at[i] < '0'))
            return -1;
        value = value * 16 + (int)(found - digits);
    }
    return value;
}

static bool is_high(int unit)
{
    return unit >= 0xd800 && unit < 0xdc00;
}

static bool is_low(int unit)
{
    return unit >= 0xdc00 && unit < 0xe000;
}

// At the four digits.
static bool take_unit(struct scan *s)
{
    if (s->end - s->at < 4)
        return false;
    char *digits = s->at;
    int unit = hex_value(digits), second = -1;
    s->at += 4;
    if (is_high(unit) && s->end - s->at >= 6 && s->at[0] == '\\' && s->at[1] == 'u')
        second = hex_value(s->at + 2);
    if (is_high(unit) && is_low(second))
        s->at += 6;
    else if (is_high(unit) || is_low(unit))
        memcpy(digits, "fffd", 4);
    return unit >= 0;
}

// Plain characters, many at a time: most of a large payload is one string of base64.
static void skip_plain(struct scan *s)
{
    while (s->at < s->end && *s->at >= 0x20 && *s->at != '"' && *s->at != '\\' && *s->at < 0x7f)
        s->at++;
}

static bool take_string(struct scan *s)
{
    if (!take(s, '"'))
        return false;
    for (;;) {
        skip_plain(s);
        if (s->at == s->end)
            return false;
        if (take(s, '"'))
            return true;
        if (take(s, '\\')) {
            if (take(s, 'u')) {
                if (!take_unit(s))
                    return false;
            } else if (s->at == s->end || memchr("\"\\/bfnrt", *s->at, 8) == NULL) {
                return false;
            } else {
                s->at++;
            }
            continue;
        }
        size_t step = utf8_step(s->at, (size_t)(s->end - s->at));
        if (step == 0 || (unsigned char)*s->at < 0x20)
            return false;
        s->at += step;
    }
}

// --- values

struct nest {
    uint8_t is_object[KERNEL_JSON_DEPTH / 8];
    unsigned depth;
};

static bool in_object(const struct nest *nest)
{
    unsigned i = nest->depth - 1;
    return nest->is_object[i / 8] & (1u << (i % 8));
}

static bool push(struct scan *s, struct nest *nest, bool is_object)
{
    if (nest->depth == KERNEL_JSON_DEPTH) {
        s->deep = true;
        return false;
    }
    unsigned i = nest->depth++;
    uint8_t bit = (uint8_t)(1u << (i % 8));
    nest->is_object[i / 8] =
        (uint8_t)(is_object ? nest->is_object[i / 8] | bit : nest->is_object[i / 8] & ~bit);
    return true;
}

static bool take_key(struct scan *s)
{
    skip_space(s);
    if (!take_string(s))
        return false;
    skip_space(s);
    return take(s, ':');
}

static bool take_scalar(struct scan *s)
{
    if (s->at < s->end && *s->at == '"')
        return take_string(s);
    return take_word(s, "true") || take_word(s, "false") || take_word(s, "null") || take_number(s);
}

// Goes into arrays and objects as far as their first scalar. 1: at one that has been taken, 0: at
// an empty array or object that has been taken, -1.
static int descend(struct scan *s, struct nest *nest)
{
    for (;;) {
        skip_space(s);
        bool is_object = take(s, '{');
        if (!is_object && !take(s, '['))
            return take_scalar(s) ? 1 : -1;
        skip_space(s);
        if (take(s, is_object ? '}' : ']'))
            return 0;
        if (!push(s, nest, is_object) || (is_object && !take_key(s)))
            return -1;
    }
}

static bool take_value(struct scan *s)
{
    struct nest nest = {.depth = 0};
    for (;;) {
        if (descend(s, &nest) < 0)
            return false;
        for (;;) { // out of all that ends here
            if (nest.depth == 0)
                return true;
            skip_space(s);
            if (take(s, ','))
                break;
            if (!take(s, in_object(&nest) ? '}' : ']'))
                return false;
            nest.depth--;
        }
        if (in_object(&nest) && !take_key(s))
            return false;
    }
}

// --- the outermost object

static bool has_key(const struct kernel_object *object, const struct kernel_field *field)
{
    for (unsigned i = 0; i < object->n; i++) {
        if (object->fields[i].key_len == field->key_len &&
            memcmp(object->fields[i].key, field->key, field->key_len) == 0)
            return true;
    }
    return false;
}

static bool take_field(struct scan *s, struct kernel_object *ret)
{
    struct kernel_field field;
    skip_space(s);
    field.key = s->at;
    if (!take_string(s))
        return false;
    field.key_len = (size_t)(s->at - field.key);
    skip_space(s);
    if (!take(s, ':'))
        return false;
    skip_space(s);
    field.value = s->at;
    if (!take_value(s))
        return false;
    field.value_len = (size_t)(s->at - field.value);
    skip_space(s);
    if (has_key(ret, &field)) {
        ret->has_twice = true;
        return true;
    }
    if (ret->n == KERNEL_JSON_FIELDS)
        return false;
    ret->fields[ret->n++] = field;
    return true;
}

enum kernel_json_error kernel_json_scan(char *text, size_t len, struct kernel_object *ret)
{
    struct scan s = {.at = text, .end = text + len};
    ret->n = 0;
    ret->has_twice = false;
    skip_space(&s);
    bool good = take(&s, '{');
    skip_space(&s);
    if (good && !take(&s, '}')) {
        do
            good = take_field(&s, ret);
        while (good && take(&s, ','));
        good = good && take(&s, '}');
    }
    skip_space(&s);
    if (good && s.at == s.end)
        return KERNEL_JSON_OK;
    return s.deep ? KERNEL_JSON_DEEP : KERNEL_JSON_BAD;
}

// --- fields

const struct kernel_field *kernel_json_get(const struct kernel_object *object, const char *name)
{
    size_t len = strlen(name);
    for (unsigned i = 0; i < object->n; i++) {
        const struct kernel_field *field = &object->fields[i];
        if (field->key_len == len + 2 && memcmp(field->key + 1, name, len) == 0)
            return field;
    }
    return NULL;
}

bool kernel_json_bool(const struct kernel_object *object, const char *name)
{
    const struct kernel_field *field = kernel_json_get(object, name);
    return field != NULL && field->value[0] == 't';
}

int64_t kernel_json_number(const struct kernel_object *object, const char *name)
{
    const struct kernel_field *field = kernel_json_get(object, name);
    int64_t value = 0;
    if (field == NULL || field->value_len > 16)
        return -1;
    for (size_t i = 0; i < field->value_len; i++) {
        if (field->value[i] < '0' || field->value[i] > '9')
            return -1;
        value = value * 10 + (field->value[i] - '0');
    }
    return value <= (INT64_C(1) << 53) ? value : -1;
}
