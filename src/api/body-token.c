// SPDX-License-Identifier: Apache-2.0
#include "api/body-token.h"

#include <stdbool.h>
#include <string.h>

struct walk {
    const char *at, *end;
};

static void skip_spaces(struct walk *w)
{
    while (w->at < w->end && memchr(" \t\r\n", *w->at, 4) != NULL)
        w->at++;
}

// From behind a string's first quote to behind its last. What was between them.
static const char *take_string(struct walk *w, size_t *ret_len)
{
    const char *start = w->at;
    while (w->at < w->end && *w->at != '"')
        w->at += *w->at == '\\' && w->at + 1 < w->end ? 2 : 1;
    *ret_len = (size_t)(w->at - start);
    if (w->at < w->end)
        w->at++;
    return start;
}

static bool take_colon(struct walk *w)
{
    skip_spaces(w);
    if (w->at == w->end || *w->at != ':')
        return false;
    w->at++;
    skip_spaces(w);
    return true;
}

static bool is_plain(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~' || text[i] == '\\' || text[i] == ',')
            return false;
    }
    return len > 0;
}

static int take_value(struct walk *w, char ret[BODY_TOKEN_MAX])
{
    size_t len;
    if (w->end - w->at >= 4 && memcmp(w->at, "null", 4) == 0)
        return 0;
    if (w->at == w->end || *w->at++ != '"')
        return -1;
    const char *text = take_string(w, &len);
    if (len >= BODY_TOKEN_MAX || !is_plain(text, len))
        return -1;
    memcpy(ret, text, len);
    ret[len] = '\0';
    return 1;
}

int body_token_find(const char *body, size_t len, char ret[BODY_TOKEN_MAX])
{
    struct walk w = {body, body + len};
    unsigned depth = 0;
    while (w.at < w.end) {
        size_t n;
        char c = *w.at++;
        if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && depth > 0)
            depth--;
        if (c != '"')
            continue;
        const char *name = take_string(&w, &n);
        bool is_it =
            depth == 1 && n == strlen(BODY_TOKEN_NAME) && memcmp(name, BODY_TOKEN_NAME, n) == 0;
        if (is_it && take_colon(&w)) // else it is a value
            return take_value(&w, ret);
    }
    return 0;
}
