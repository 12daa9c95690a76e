// SPDX-License-Identifier: Apache-2.0
#include "api/container/filter.h"

#include <limits.h>
#include <string.h>

static const char *const usual[] = {".git", "node_modules", ".DS_Store", NULL};

// -- one glob

// A set of places in a glob, each between two of its parts: it has been followed up to these. All
// ways at once, and all places of a word at once: a path is looked at by the loop's thread, and
// globs are whatever somebody sends.
enum { WORDS = (FILTER_GLOB_MAX + 64) / 64 };
struct places {
    uint64_t words[WORDS];
};

static void add(struct places *places, size_t at)
{
    places->words[at / 64] |= UINT64_C(1) << at % 64;
}

static bool has(const struct places *places, size_t at)
{
    return places->words[at / 64] >> at % 64 & 1;
}

// Parts: a byte, '?', or a run of stars, which is one.
struct parts {
    size_t n;
    struct places stars, deep, any; // '*' of any kind, those that go across names, '?'
    struct places byte[UCHAR_MAX + 1];
};

static void read_parts(const char *glob, struct parts *ret)
{
    memset(ret, 0, sizeof *ret);
    for (; *glob != '\0'; ret->n++) {
        size_t stars = strspn(glob, "*");
        if (stars > 0)
            add(&ret->stars, ret->n);
        if (stars > 1)
            add(&ret->deep, ret->n);
        if (stars == 0)
            add(*glob == '?' ? &ret->any : &ret->byte[(unsigned char)*glob], ret->n);
        glob += stars > 0 ? stars : 1;
    }
}

// Behind a star is one of them whenever the star is. (No star is behind another.)
static void pass_stars(struct places *now, const struct parts *parts)
{
    uint64_t carry = 0;
    for (size_t i = 0; i < WORDS; i++) {
        uint64_t stars = now->words[i] & parts->stars.words[i];
        now->words[i] |= stars << 1 | carry;
        carry = stars >> 63;
    }
}

static void follow(struct places *now, const struct parts *parts, char c)
{
    uint64_t carry = 0;
    const struct places *stays = c == '/' ? &parts->deep : &parts->stars;
    for (size_t i = 0; i < WORDS; i++) {
        uint64_t fits =
            parts->byte[(unsigned char)c].words[i] | (c != '/' ? parts->any.words[i] : 0);
        uint64_t taken = now->words[i] & fits;
        now->words[i] = (now->words[i] & stays->words[i]) | taken << 1 | carry;
        carry = taken >> 63;
    }
    pass_stars(now, parts);
}

bool filter_glob(const char *glob, const char *path)
{
    struct places now = {0};
    struct parts parts;
    read_parts(glob, &parts);
    for (const char *p = path;; p++) {
        if (p == path || p[-1] == '/') {
            add(&now, 0);
            pass_stars(&now, &parts);
        }
        if (has(&now, parts.n) && (*p == '/' || *p == '\0'))
            return true;
        if (*p == '\0')
            return false;
        follow(&now, &parts, *p);
    }
}

// -- lists

static int check(const char *name, const struct body_strings *list, struct err *err)
{
    for (size_t i = 0; i < list->n; i++) {
        const char *glob = list->items[i];
        if (glob[strspn(glob, " \t\r\n")] == '\0')
            return err_set(err, ERR_INVALID, "%s: has an empty pattern", name);
        if (strpbrk(glob, "[]{}") != NULL)
            return err_set(err, ERR_INVALID,
                           "%s: '%.100s': patterns have *, ** and ?, and no brackets", name, glob);
        if (strlen(glob) > FILTER_GLOB_MAX)
            return err_set(err, ERR_INVALID, "%s: a pattern is longer than %d bytes", name,
                           FILTER_GLOB_MAX);
    }
    return 0;
}

int filter_init(struct filter *filter, const char *root, const struct body_strings *include,
                const struct body_strings *exclude, struct err *err)
{
    if (include->n > 0 && exclude->n > 0)
        return err_set(err, ERR_INVALID, "include: either 'include' or 'exclude', not both");
    if (check("include", include, err) < 0 || check("exclude", exclude, err) < 0)
        return -1;
    *filter = (struct filter){.root = root, .root_len = strlen(root)};
    if (include->n > 0)
        filter->include = include->items;
    else
        filter->exclude = exclude->n > 0 ? exclude->items : usual;
    for (size_t i = 0; filter->exclude != NULL && filter->exclude[i] != NULL; i++) {
        if (filter_glob(filter->exclude[i], root))
            filter->in_root |= UINT64_C(1) << i;
    }
    return 0;
}

bool filter_takes(const struct filter *filter, const char *path)
{
    for (size_t i = 0; filter->exclude != NULL && filter->exclude[i] != NULL; i++) {
        bool in_root = filter->in_root & UINT64_C(1) << i;
        if (filter_glob(filter->exclude[i], in_root ? path + filter->root_len : path))
            return false;
    }
    for (size_t i = 0; filter->include != NULL && filter->include[i] != NULL; i++) {
        if (filter_glob(filter->include[i], path))
            return true;
    }
    return filter->include == NULL;
}

void filter_names(const struct filter *filter, struct buf *ret)
{
    bool is_first = true;
    for (size_t i = 0; filter->exclude != NULL && filter->exclude[i] != NULL; i++) {
        const char *glob = filter->exclude[i];
        if (strpbrk(glob, "/,\\") != NULL || strstr(glob, "**") != NULL)
            continue; // not about a name alone, or another thing to the hand
        if (!is_first)
            (void)buf_append_char(ret, ',');
        (void)buf_append_str(ret, glob);
        is_first = false;
    }
}
