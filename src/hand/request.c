// SPDX-License-Identifier: Apache-2.0
// Is a request what it claims to be? Everything about it that does not depend on the files is
// decided here, once, from one table, so that those who do the work need not ask again.
#include <errno.h>
#include <string.h>

#include "hand/hand-internal.h"

enum shape {
    NO_PATH,   // both are empty
    ONE_PATH,  // path
    TWO_PATHS, // path, path2
    TEXT_PATH, // path is any text, path2 a path
};
enum data_shape { NO_DATA, BYTES, LIST_DATA, SEARCH_DATA, TAR_DATA, WATCH_DATA };

struct rule {
    uint32_t flags; // that it knows
    enum shape shape;
    enum data_shape data;
};

enum {
    WRITE_FLAGS =
        HAND_PARENTS | HAND_EXCLUSIVE | HAND_EXISTING | HAND_MODE | HAND_OWNER | HAND_ETAG_GIVEN,
    TREE_FLAGS = HAND_RECURSIVE | HAND_HIDDEN,
};

// clang-format off
static const struct rule quick_rules[] = {
    [HAND_READ]   = {HAND_NO_FOLLOW | HAND_NO_INLINE, ONE_PATH, NO_DATA},
    [HAND_STAT]   = {HAND_NO_FOLLOW, ONE_PATH, NO_DATA},
    [HAND_WRITE]  = {WRITE_FLAGS, ONE_PATH, BYTES},
    [HAND_CREATE] = {WRITE_FLAGS, ONE_PATH, NO_DATA},
    [HAND_COMMIT] = {0, NO_PATH, NO_DATA},
    [HAND_ABORT]  = {0, NO_PATH, NO_DATA},
    [HAND_MKDIR]  = {HAND_PARENTS | HAND_MODE | HAND_OWNER, ONE_PATH, NO_DATA},
    [HAND_MOVE]   = {HAND_PARENTS | HAND_NO_REPLACE, TWO_PATHS, NO_DATA},
    [HAND_CHMOD]  = {HAND_NO_FOLLOW | HAND_MODE, ONE_PATH, NO_DATA},
    [HAND_CHOWN]  = {HAND_NO_FOLLOW | HAND_OWNER, ONE_PATH, NO_DATA},
    [HAND_DELETE] = {HAND_NO_FOLLOW, ONE_PATH, NO_DATA},
    [HAND_LINK]   = {HAND_PARENTS, TEXT_PATH, NO_DATA},
    [HAND_CANCEL] = {0, NO_PATH, NO_DATA},
};
static const struct rule long_rules[] = {
    [HAND_LIST - HAND_LIST]        = {TREE_FLAGS | HAND_NO_FOLLOW, ONE_PATH, LIST_DATA},
    [HAND_DELETE_TREE - HAND_LIST] = {HAND_RECURSIVE, ONE_PATH, NO_DATA},
    [HAND_COPY - HAND_LIST]        = {HAND_RECURSIVE | HAND_PARENTS | HAND_NO_REPLACE, TWO_PATHS, NO_DATA},
    [HAND_SEARCH - HAND_LIST]      = {TREE_FLAGS, ONE_PATH, SEARCH_DATA},
    [HAND_REPLACE - HAND_LIST]     = {TREE_FLAGS, ONE_PATH, SEARCH_DATA},
    [HAND_TAR_OUT - HAND_LIST]     = {TREE_FLAGS | HAND_NO_FOLLOW | HAND_PLAIN, ONE_PATH, TAR_DATA},
    [HAND_TAR_IN - HAND_LIST]      = {HAND_PARENTS | HAND_OWNER | HAND_NO_REPLACE, ONE_PATH, NO_DATA},
    [HAND_WATCH - HAND_LIST]       = {TREE_FLAGS, ONE_PATH, WATCH_DATA},
};
// clang-format on

enum {
    N_QUICK = sizeof quick_rules / sizeof *quick_rules,
    N_LONG = sizeof long_rules / sizeof *long_rules,
};

bool hand_is_long(uint16_t type)
{
    return type >= HAND_LIST && type < HAND_LIST + N_LONG;
}

static const struct rule *find_rule(uint16_t type)
{
    if (hand_is_long(type))
        return &long_rules[type - HAND_LIST];
    return type > 0 && type < N_QUICK ? &quick_rules[type] : NULL;
}

// --- texts

static int check_components(const char *p)
{
    for (;;) {
        size_t len = strcspn(p, "/");
        if (len > NAME_MAX)
            return -ENAMETOOLONG;
        if (len == 0 || (len == 1 && p[0] == '.') || (len == 2 && p[0] == '.' && p[1] == '.'))
            return -EINVAL;
        if (p[len] == '\0')
            return 0;
        p += len + 1;
    }
}

static int check_path(const char *path)
{
    if (path[0] != '/')
        return -EINVAL;
    return path[1] == '\0' ? 0 : check_components(path + 1);
}

static int check_paths(const struct hand_request *req, const struct hand_texts *t, enum shape shape)
{
    int r = 0;
    if ((shape == NO_PATH) != (req->path_len == 0))
        return -EINVAL;
    if ((shape == TWO_PATHS || shape == TEXT_PATH) != (req->path2_len != 0))
        return -EINVAL;
    if (shape == ONE_PATH || shape == TWO_PATHS)
        r = check_path(t->path);
    if (r == 0 && req->path2_len != 0)
        r = check_path(t->path2);
    return r;
}

// Takes a text of `len` bytes and its NUL off what is left of the data.
static bool take_text(const char **at, size_t *left, uint32_t len)
{
    if (*left <= len || memchr(*at, '\0', (size_t)len + 1) != *at + len)
        return false;
    *at += (size_t)len + 1;
    *left -= (size_t)len + 1;
    return true;
}

static bool data_head(const struct hand_texts *t, void *head, size_t len, const char **ret_at,
                      size_t *ret_left)
{
    if (t->data_len < len)
        return false;
    memcpy(head, t->data, len); // it stands wherever the paths end
    *ret_at = t->data + len;
    *ret_left = t->data_len - len;
    return true;
}

static int check_list(const struct hand_texts *t)
{
    struct hand_list list;
    const char *at;
    size_t left;
    if (t->data_len == 0)
        return 0;
    if (!data_head(t, &list, sizeof list, &at, &left))
        return -EINVAL;
    const char *after = at;
    if (!take_text(&at, &left, list.after_len) || list.after_len >= HAND_PATH_MAX)
        return -EINVAL;
    if (left > 0 && (!take_text(&at, &left, (uint32_t)left - 1) || left != 0))
        return -EINVAL;
    return list.after_len == 0 ? 0 : check_components(after);
}

static int check_search(const struct hand_texts *t, uint16_t type)
{
    enum { KNOWN = HAND_SEARCH_NO_CASE | HAND_SEARCH_HIDDEN };
    struct hand_search s;
    const char *at;
    size_t left;
    if (!data_head(t, &s, sizeof s, &at, &left))
        return -EINVAL;
    if (!take_text(&at, &left, s.text_len) || !take_text(&at, &left, s.name_len) ||
        !take_text(&at, &left, s.with_len) || left != 0)
        return -EINVAL;
    if ((s.flags & ~(uint32_t)KNOWN) != 0 || s.name_len > HAND_GLOB_MAX)
        return -EINVAL;
    return type == HAND_REPLACE && s.text_len == 0 ? -EINVAL : 0;
}

static int check_tar(const struct hand_texts *t)
{
    struct hand_tar tar;
    const char *at;
    size_t left;
    if (t->data_len == 0)
        return 0;
    if (!data_head(t, &tar, sizeof tar, &at, &left) || tar.pad != 0)
        return -EINVAL;
    return take_text(&at, &left, tar.exclude_len) && left == 0 ? 0 : -EINVAL;
}

static int check_watch(const struct hand_texts *t)
{
    struct hand_watch w;
    const char *at;
    size_t left;
    if (t->data_len == 0)
        return 0;
    if (!data_head(t, &w, sizeof w, &at, &left) || !take_text(&at, &left, w.include_len) ||
        !take_text(&at, &left, w.exclude_len))
        return -EINVAL;
    return left == 0 ? 0 : -EINVAL;
}

static int check_data(const struct hand_texts *t, enum data_shape shape, uint16_t type)
{
    switch (shape) {
    case NO_DATA:
        return t->data_len == 0 ? 0 : -EINVAL;
    case BYTES:
        return 0;
    case LIST_DATA:
        return check_list(t);
    case SEARCH_DATA:
        return check_search(t, type);
    case TAR_DATA:
        return check_tar(t);
    case WATCH_DATA:
        return check_watch(t);
    }
    return -EINVAL;
}

static int find_texts(const struct hand_request *req, size_t len, struct hand_texts *ret)
{
    const char *at = (const char *)(req + 1);
    size_t left = len - sizeof *req;
    if (req->path_len >= HAND_PATH_MAX || req->path2_len >= HAND_PATH_MAX)
        return -ENAMETOOLONG;
    ret->path = at;
    if (!take_text(&at, &left, req->path_len))
        return -EINVAL;
    ret->path2 = at;
    if (!take_text(&at, &left, req->path2_len))
        return -EINVAL;
    ret->data = at;
    ret->data_len = left;
    return left == req->data_len && left <= HAND_DATA_MAX ? 0 : -EINVAL;
}

int hand_check(const struct hand_request *req, size_t len, struct hand_texts *ret)
{
    const struct rule *rule = find_rule(req->head.type);
    if (rule == NULL)
        return -ENOSYS;
    if (len < sizeof *req || req->head.id == 0 || req->pad != 0)
        return -EINVAL;
    if ((req->flags & ~rule->flags) != 0 || req->mode > 0777)
        return -EINVAL;
    if ((req->flags & HAND_EXCLUSIVE) && (req->flags & (HAND_EXISTING | HAND_ETAG_GIVEN)))
        return -EINVAL;
    if (memchr(req->etag, '\0', sizeof req->etag) == NULL)
        return -EINVAL;
    int r = find_texts(req, len, ret);
    if (r == 0)
        r = check_paths(req, ret, rule->shape);
    return r < 0 ? r : check_data(ret, rule->data, req->head.type);
}
