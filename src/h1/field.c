// SPDX-License-Identifier: Apache-2.0
#include <string.h>
#include <strings.h>

#include "h1/head.h"

bool h1_is(struct h1_text text, const char *word)
{
    return strlen(word) == text.len && strncasecmp(text.at, word, text.len) == 0;
}

bool h1_same(struct h1_text text, const char *exactly)
{
    return strlen(exactly) == text.len && memcmp(text.at, exactly, text.len) == 0;
}

const struct h1_field *h1_find(const struct h1_head *head, const char *name)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        if (h1_is(head->fields[i].name, name))
            return &head->fields[i];
    }
    return NULL;
}

unsigned h1_count(const struct h1_head *head, const char *name)
{
    unsigned n = 0;
    for (size_t i = 0; i < head->n_fields; i++)
        n += h1_is(head->fields[i].name, name);
    return n;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

// Takes the next word off a list; false at its end.
static bool next_word(struct h1_text *list, struct h1_text *ret)
{
    while (list->len > 0 && (is_blank(*list->at) || *list->at == ',')) {
        list->at++;
        list->len--;
    }
    if (list->len == 0)
        return false;
    const char *comma = memchr(list->at, ',', list->len);
    size_t len = comma == NULL ? list->len : (size_t)(comma - list->at);
    *ret = (struct h1_text){list->at, len};
    list->at += len;
    list->len -= len;
    while (ret->len > 0 && is_blank(ret->at[ret->len - 1]))
        ret->len--;
    return true;
}

bool h1_has_word(struct h1_text list, const char *word)
{
    struct h1_text one;
    while (next_word(&list, &one)) {
        if (h1_is(one, word))
            return true;
    }
    return false;
}

static bool has_text(struct h1_text list, struct h1_text word)
{
    struct h1_text one;
    while (next_word(&list, &one)) {
        if (one.len == word.len && strncasecmp(one.at, word.at, word.len) == 0)
            return true;
    }
    return false;
}

static bool begins_with(struct h1_text text, const char *word)
{
    size_t len = strlen(word);
    return text.len >= len && strncasecmp(text.at, word, len) == 0;
}

// Those that a sender could have Connection name to have them taken away from us, though they are
// for the other end.
static bool is_end_to_end(struct h1_text name)
{
    return h1_is(name, "Host") || h1_is(name, "Content-Length") || h1_is(name, "Authorization") ||
           h1_is(name, "Cookie") || h1_is(name, "Set-Cookie");
}

bool h1_is_hop_by_hop(const struct h1_head *head, struct h1_text name)
{
    static const char *const names[] = {"Connection", "Keep-Alive",        "TE",
                                        "Trailer",    "Transfer-Encoding", "Upgrade"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (h1_is(name, names[i]))
            return true;
    }
    if (begins_with(name, "Proxy-") || h1_is(name, "HTTP2-Settings"))
        return true;
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct h1_field *f = &head->fields[i];
        if (f->name.len == sizeof "Connection" - 1 && h1_is(f->name, "Connection") &&
            has_text(f->value, name))
            return !is_end_to_end(name);
    }
    return false;
}
