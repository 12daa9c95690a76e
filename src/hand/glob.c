// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "hand/hand-internal.h"

// A set that begins at p, behind its bracket: does it have c? ret_end is behind it, or NULL if it
// does not end; then the bracket is meant as it is.
static bool in_set(const char *p, char c, const char **ret_end)
{
    bool not = *p == '!' || *p == '^', found = false;
    p += not ;
    for (bool first = true; *p != '\0' && (*p != ']' || first); first = false) {
        unsigned char low, high;
        p += *p == '\\' && p[1] != '\0';
        low = high = (unsigned char)*p++;
        if (p[0] == '-' && p[1] != '\0' && p[1] != ']') {
            p += p[1] == '\\' && p[2] != '\0' ? 2 : 1;
            high = (unsigned char)*p++;
        }
        found |= low <= (unsigned char)c && (unsigned char)c <= high;
    }
    *ret_end = *p == ']' ? p + 1 : NULL;
    return found != not ;
}

// Does the first part of the pattern take the character? ret_rest is what is behind that part.
static bool takes(const char *pattern, char c, const char **ret_rest)
{
    const char *end;
    *ret_rest = pattern + 1;
    switch (*pattern) {
    case '?':
        return true;
    case '\\':
        if (pattern[1] == '\0')
            return c == '\\';
        *ret_rest = pattern + 2;
        return c == pattern[1];
    case '[': {
        bool found = in_set(pattern + 1, c, &end);
        if (end == NULL)
            return c == '[';
        *ret_rest = end;
        return found;
    }
    default:
        return c == *pattern;
    }
}

// Only the last star is ever tried again: what an earlier one took can stay, because whatever the
// last one may begin with it may begin with later too.
bool hand_glob(const char *pattern, const char *name)
{
    const char *star = NULL, *star_name = NULL, *rest;
    while (*name != '\0') {
        if (*pattern == '*') {
            star = ++pattern;
            star_name = name;
        } else if (*pattern != '\0' && takes(pattern, *name, &rest)) {
            pattern = rest;
            name++;
        } else if (star != NULL) {
            pattern = star;
            name = ++star_name;
        } else {
            return false;
        }
    }
    return pattern[strspn(pattern, "*")] == '\0';
}

char *hand_globs_split(const char *list, size_t len, char *to)
{
    char *begin = to;
    for (size_t i = 0; i < len; i++) {
        if (list[i] != ',')
            *to++ = list[i];
        else if (to > begin && to[-1] != '\0')
            *to++ = '\0';
    }
    *to++ = '\0';
    *to = '\0';
    return *begin == '\0' ? NULL : begin;
}

bool hand_globs_have(const char *globs, const char *name)
{
    for (; globs != NULL && *globs != '\0'; globs += strlen(globs) + 1)
        if (hand_glob(globs, name))
            return true;
    return false;
}
