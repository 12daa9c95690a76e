// SPDX-License-Identifier: Apache-2.0
#include "model/raw.h"

#include <string.h>

static void drop(struct raw *raw, size_t n)
{
    n = n < raw->len ? n : raw->len;
    raw->at += n;
    raw->len -= n;
}

static void skip(struct raw *raw, const char *what)
{
    size_t n = 0;
    while (n < raw->len && raw->at[n] != '\0' && strchr(what, raw->at[n]) != NULL)
        n++;
    drop(raw, n);
}

static size_t string_len(struct raw raw)
{
    for (size_t i = 1; i < raw.len; i++) {
        if (raw.at[i] == '"')
            return i + 1;
        if (raw.at[i] == '\\')
            i++;
    }
    return raw.len;
}

static size_t nested_len(struct raw raw)
{
    size_t depth = 0;
    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.at[i];
        if (c == '"')
            i += string_len((struct raw){raw.at + i, raw.len - i}) - 1;
        else if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && --depth == 0)
            return i + 1;
    }
    return raw.len;
}

static size_t value_len(struct raw raw)
{
    if (raw.len == 0)
        return 0;
    if (raw.at[0] == '"')
        return string_len(raw);
    if (raw.at[0] == '{' || raw.at[0] == '[')
        return nested_len(raw);
    size_t n = 0;
    while (n < raw.len && strchr(",]} \t\r\n", raw.at[n]) == NULL)
        n++;
    return n;
}

size_t raw_count(struct raw text)
{
    size_t n = 1;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (c == '"')
            i += string_len((struct raw){text.at + i, text.len - i}) - 1;
        else if (c == ',' || c == '{' || c == '[')
            n++;
    }
    return n;
}

int raw_read(struct raw text, struct json_doc **ret, struct err *err)
{
    if (raw_count(text) > RAW_VALUES_MAX)
        return err_set(err, ERR_EXHAUSTED, "it has too many values");
    return json_read(text.at, text.len, ret, err);
}

bool raw_next(struct raw *rest, struct raw *ret_key, struct raw *ret_value)
{
    skip(rest, "{, \t\r\n");
    if (rest->len == 0 || rest->at[0] != '"')
        return false;
    *ret_key = (struct raw){rest->at, string_len(*rest)};
    drop(rest, ret_key->len);
    skip(rest, ": \t\r\n");
    *ret_value = (struct raw){rest->at, value_len(*rest)};
    drop(rest, ret_value->len);
    return ret_value->len > 0;
}

bool raw_is(struct raw value, const char *text)
{
    return value.at != NULL && value.len == strlen(text) && memcmp(value.at, text, value.len) == 0;
}

struct raw raw_inside(struct raw value)
{
    return value.len >= 2 ? (struct raw){value.at + 1, value.len - 2} : (struct raw){value.at, 0};
}

bool raw_key_is(struct raw key, const char *name)
{
    return raw_is(raw_inside(key), name);
}

struct raw raw_get(struct raw object, const char *key)
{
    struct raw rest = object, name, value, found = {0};
    if (object.len == 0)
        return found;
    skip(&rest, " \t\r\n");
    if (rest.len == 0 || rest.at[0] != '{')
        return found;
    while (raw_next(&rest, &name, &value))
        if (raw_key_is(name, key))
            found = value;
    return found;
}
