// SPDX-License-Identifier: Apache-2.0
// What pax records and GNU's long names say: "LENGTH KEY=VALUE\n", one after the other.
#include <errno.h>
#include <string.h>

#include "hand/tar-format.h"

struct value {
    const char *at;
    size_t len;
};

static int get_text(const struct value *v, char *ret)
{
    if (v->len >= TAR_NAME_MAX)
        return -ENAMETOOLONG;
    if (memchr(v->at, '\0', v->len) != NULL)
        return -EBADMSG;
    memcpy(ret, v->at, v->len);
    ret[v->len] = '\0';
    return 0;
}

// Digits, at most INT64_MAX. How many there were.
static int get_digits(const struct value *v, uint64_t *ret)
{
    uint64_t n = 0;
    size_t i = 0;
    for (; i < v->len && v->at[i] >= '0' && v->at[i] <= '9'; i++) {
        if (n > (INT64_MAX - 9) / 10)
            return -EBADMSG;
        n = n * 10 + (uint64_t)(v->at[i] - '0');
    }
    *ret = n;
    return (int)i;
}

static int get_number(const struct value *v, uint64_t *ret)
{
    int n = get_digits(v, ret);
    return n > 0 && (size_t)n == v->len ? 0 : -EBADMSG;
}

static uint32_t get_fraction(const char *at, size_t len)
{
    uint32_t ns = 0;
    for (size_t i = 0; i < 9; i++)
        ns = ns * 10 + (i < len ? (uint32_t)(at[i] - '0') : 0);
    return ns;
}

// "-12.5" is 13 seconds before 1970, and half a second after that.
static int get_time(const struct value *v, struct tar_extra *extra)
{
    bool negative = v->len > 0 && v->at[0] == '-';
    struct value rest = {v->at + negative, v->len - negative};
    uint64_t whole, part;
    int n = get_digits(&rest, &whole);
    if (n <= 0)
        return -EBADMSG;
    rest.at += n;
    rest.len -= (size_t)n;
    extra->mtime = negative ? -(int64_t)whole : (int64_t)whole;
    extra->mtime_ns = 0;
    if (rest.len == 0)
        return 0;
    struct value digits = {rest.at + 1, rest.len > 10 ? 9 : rest.len - 1};
    if (rest.at[0] != '.' || (size_t)get_digits(&digits, &part) != digits.len)
        return -EBADMSG;
    extra->mtime_ns = get_fraction(digits.at, digits.len);
    if (negative && extra->mtime_ns > 0) {
        extra->mtime--;
        extra->mtime_ns = 1000000000 - extra->mtime_ns;
    }
    return 0;
}

static int get_version(const struct value *v, struct tar_extra *extra __attribute__((unused)))
{
    return v->len == 1 && v->at[0] == '1' ? 0 : -EPROTONOSUPPORT;
}

static int get_minor(const struct value *v, struct tar_extra *extra __attribute__((unused)))
{
    return v->len == 1 && v->at[0] == '0' ? 0 : -EPROTONOSUPPORT;
}

static int get_older(const struct value *v __attribute__((unused)),
                     struct tar_extra *extra __attribute__((unused)))
{
    return -EPROTONOSUPPORT;
}

static int get_name(const struct value *v, struct tar_extra *extra)
{
    // The name beside a sparse file's real one is made up.
    return extra->said & TAR_SAID_REAL_NAME ? 0 : get_text(v, extra->name);
}

static int get_real_name(const struct value *v, struct tar_extra *extra)
{
    return get_text(v, extra->name);
}

static int get_link(const struct value *v, struct tar_extra *extra)
{
    return get_text(v, extra->link);
}

static int get_size(const struct value *v, struct tar_extra *extra)
{
    return get_number(v, &extra->size);
}

static int get_real_size(const struct value *v, struct tar_extra *extra)
{
    return get_number(v, &extra->real_size);
}

static int get_uid(const struct value *v, struct tar_extra *extra)
{
    return get_number(v, &extra->uid);
}

static int get_gid(const struct value *v, struct tar_extra *extra)
{
    return get_number(v, &extra->gid);
}

static const struct key {
    const char *key;
    unsigned said;
    bool for_all; // also makes sense for every entry of an archive
    int (*get)(const struct value *, struct tar_extra *);
} keys[] = {
    {"path",                TAR_SAID_NAME,      false, get_name     },
    {"linkpath",            TAR_SAID_LINK,      false, get_link     },
    {"size",                TAR_SAID_SIZE,      false, get_size     },
    {"mtime",               TAR_SAID_MTIME,     true,  get_time     },
    {"uid",                 TAR_SAID_UID,       true,  get_uid      },
    {"gid",                 TAR_SAID_GID,       true,  get_gid      },
    {"GNU.sparse.major",    TAR_SAID_SPARSE,    false, get_version  },
    {"GNU.sparse.minor",    0,                  false, get_minor    },
    {"GNU.sparse.name",     TAR_SAID_REAL_NAME, false, get_real_name},
    {"GNU.sparse.realsize", TAR_SAID_REAL_SIZE, false, get_real_size},
    {"GNU.sparse.size",     0,                  false, get_older    },
    {"GNU.sparse.map",      0,                  false, get_older    },
    {"GNU.sparse.offset",   0,                  false, get_older    },
};

// Keys that are not known say things that are not kept.
static int take_record(const char *key, size_t key_len, const struct value *v, bool all,
                       struct tar_extra *extra)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct key *k = &keys[i];
        if (strlen(k->key) != key_len || memcmp(k->key, key, key_len) != 0)
            continue;
        if (all && !k->for_all)
            return -EBADMSG; // the same name or size for every entry
        if (v->len == 0) {
            extra->said &= ~k->said;
            return 0;
        }
        int r = k->get(v, extra);
        extra->said |= r == 0 ? k->said : 0;
        return r;
    }
    return 0;
}

int tar_get_pax(const char *records, size_t len, bool all, struct tar_extra *extra)
{
    while (len > 0) {
        uint64_t total;
        int n = get_digits(&(struct value){records, len < 8 ? len : 8}, &total);
        if (n <= 0 || total > len || (size_t)n >= len || records[n] != ' ')
            return -EBADMSG;
        const char *key = records + n + 1, *end = records + total;
        if (key >= end || end[-1] != '\n')
            return -EBADMSG;
        const char *equals = memchr(key, '=', (size_t)(end - key));
        if (equals == NULL || equals == key)
            return -EBADMSG;
        struct value v = {equals + 1, (size_t)(end - equals) - 2};
        int r = take_record(key, (size_t)(equals - key), &v, all, extra);
        if (r < 0)
            return r;
        records = end;
        len -= (size_t)total;
    }
    return 0;
}

int tar_get_long(const char *text, size_t len, enum tar_kind kind, struct tar_extra *extra)
{
    struct value v = {text, strnlen(text, len)};
    if (v.len == 0)
        return -EBADMSG;
    int r = get_text(&v, kind == TAR_LONG_NAME ? extra->name : extra->link);
    extra->said |= kind == TAR_LONG_NAME ? TAR_SAID_NAME : TAR_SAID_LINK;
    return r;
}
