// SPDX-License-Identifier: Apache-2.0
// How an entry is written.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "hand/tar-format.h"
#include "hand/tar-layout.h"

struct pax {
    char *at;
    size_t len;
};

static size_t digits(size_t n)
{
    size_t d = 1;
    for (; n >= 10; n /= 10)
        d++;
    return d;
}

// "LENGTH KEY=VALUE\n", where the length counts its own digits.
static void pax_put(struct pax *pax, const char *key, const char *value, size_t len)
{
    size_t rest = strlen(key) + len + 3;
    size_t total = rest + digits(rest);
    if (digits(total) > digits(rest))
        total = rest + digits(total);
    size_t n = (size_t)snprintf(pax->at + pax->len, TAR_HEAD_MAX - pax->len, "%zu %s=", total, key);
    memcpy(pax->at + pax->len + n, value, len);
    pax->len += total;
    pax->at[pax->len - 1] = '\n';
}

static void pax_put_number(struct pax *pax, const char *key, uint64_t value)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%" PRIu64, value);
    pax_put(pax, key, text, (size_t)len);
}

// Zero padded, with a NUL at the end. Whether it fits; if not the field says 0.
static bool put_octal(char *field, size_t size, uint64_t value)
{
    bool fits = value >> (3 * (size - 1)) == 0;
    (void)snprintf(field, size, "%0*" PRIo64, (int)size - 1, fits ? value : 0);
    return fits;
}

static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~')
            return false;
    return true;
}

// Into `name`, or cut at a slash into `prefix` and `name`. Whether it is all there.
static bool put_name(struct tar_layout *l, const char *name)
{
    size_t len = strlen(name);
    if (len <= sizeof l->name) {
        memcpy(l->name, name, len);
        return true;
    }
    const char *cut = NULL;
    for (const char *p = name; (p = strchr(p, '/')) != NULL && p[1] != '\0'; p++) {
        if ((size_t)(p - name) > sizeof l->last.posix.prefix)
            break;
        if (p > name && len - (size_t)(p - name) - 1 <= sizeof l->name) {
            cut = p;
            break;
        }
    }
    if (cut == NULL) {
        memcpy(l->name, name, sizeof l->name);
        return false;
    }
    memcpy(l->last.posix.prefix, name, (size_t)(cut - name));
    memcpy(l->name, cut + 1, len - (size_t)(cut - name) - 1);
    return true;
}

static void put_sum(struct tar_layout *l)
{
    memset(l->sum, ' ', sizeof l->sum);
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof *l; i++)
        sum += ((const uint8_t *)l)[i];
    (void)snprintf(l->sum, 7, "%06o", sum);
}

static void put_magic(struct tar_layout *l, char type)
{
    l->type = type;
    memcpy(l->magic, "ustar", sizeof l->magic);
    memcpy(l->version, "00", sizeof l->version);
}

static char type_of(enum tar_kind kind)
{
    static const char types[TAR_KIND_MAX] = {
        [TAR_FILE] = '0', [TAR_HARDLINK] = '1', [TAR_SYMLINK] = '2',
        [TAR_DIR] = '5',  [TAR_FIFO] = '6',
    };
    return types[kind];
}

static void put_numbers(struct tar_layout *l, struct pax *pax, const struct tar_head *head)
{
    (void)put_octal(l->mode, sizeof l->mode, head->mode);
    if (!put_octal(l->uid, sizeof l->uid, head->uid))
        pax_put_number(pax, "uid", head->uid);
    if (!put_octal(l->gid, sizeof l->gid, head->gid))
        pax_put_number(pax, "gid", head->gid);
    if (!put_octal(l->size, sizeof l->size, head->size))
        pax_put_number(pax, "size", head->size);
    if (head->mtime < 0 || !put_octal(l->mtime, sizeof l->mtime, (uint64_t)head->mtime)) {
        char text[24];
        int len = snprintf(text, sizeof text, "%" PRId64, head->mtime);
        (void)put_octal(l->mtime, sizeof l->mtime, 0);
        pax_put(pax, "mtime", text, (size_t)len);
    }
    (void)put_octal(l->major, sizeof l->major, 0);
    (void)put_octal(l->minor, sizeof l->minor, 0);
}

// Names in other letters than ASCII's are said in a record too, where they are UTF-8 by definition,
// so that no reader guesses; names that are no UTF-8 at all come after a record that says so.
static void put_names(struct tar_layout *l, struct pax *pax, const struct tar_head *head)
{
    const char *name_key = head->sparse ? "GNU.sparse.name" : "path";
    size_t name_len = strlen(head->name), link_len = strlen(head->link);
    bool name_in = put_name(l, head->name), link_in = link_len <= sizeof l->link;
    memcpy(l->link, head->link, link_in ? link_len : sizeof l->link);
    if (!utf8_valid(head->name, name_len) || !utf8_valid(head->link, link_len))
        pax_put(pax, "hdrcharset", "BINARY", 6);
    if (!name_in || !is_plain(head->name) || head->sparse)
        pax_put(pax, name_key, head->name, name_len);
    if (!link_in || !is_plain(head->link))
        pax_put(pax, "linkpath", head->link, link_len);
}

static void put_sparse(struct pax *pax, const struct tar_head *head)
{
    if (!head->sparse)
        return;
    pax_put(pax, "GNU.sparse.major", "1", 1);
    pax_put(pax, "GNU.sparse.minor", "0", 1);
    pax_put_number(pax, "GNU.sparse.realsize", head->real_size);
}

static void put_pax_head(struct tar_layout *l, const struct tar_head *head, size_t len)
{
    const char *slash = strrchr(head->name, '/');
    const char *base = slash == NULL || slash[1] == '\0' ? head->name : slash + 1;
    put_magic(l, 'x');
    (void)snprintf(l->name, sizeof l->name, "PaxHeaders/%.80s", base);
    (void)put_octal(l->mode, sizeof l->mode, 0644);
    (void)put_octal(l->uid, sizeof l->uid, 0);
    (void)put_octal(l->gid, sizeof l->gid, 0);
    (void)put_octal(l->size, sizeof l->size, len);
    (void)put_octal(l->mtime, sizeof l->mtime, 0);
    put_sum(l);
}

size_t tar_put_head(const struct tar_head *head, uint8_t out[static TAR_HEAD_MAX])
{
    struct tar_layout l = {0}, before = {0};
    struct pax pax = {.at = (char *)out + TAR_BLOCK};
    put_magic(&l, type_of(head->kind));
    put_sparse(&pax, head);
    put_names(&l, &pax, head);
    put_numbers(&l, &pax, head);
    put_sum(&l);
    if (pax.len == 0) {
        memcpy(out, &l, sizeof l);
        return sizeof l;
    }
    put_pax_head(&before, head, pax.len);
    memcpy(out, &before, sizeof before);
    size_t len = TAR_BLOCK + pax.len, pad = (size_t)tar_padding(pax.len);
    memset(out + len, 0, pad);
    memcpy(out + len + pad, &l, sizeof l);
    return len + pad + sizeof l;
}

size_t tar_put_map(const struct tar_extent *extents, size_t n, uint8_t out[static TAR_MAP_MAX])
{
    char *at = (char *)out;
    size_t len = (size_t)snprintf(at, TAR_MAP_MAX, "%zu\n", n);
    for (size_t i = 0; i < n; i++)
        len += (size_t)snprintf(at + len, TAR_MAP_MAX - len, "%" PRIu64 "\n%" PRIu64 "\n",
                                extents[i].at, extents[i].len);
    size_t pad = (size_t)tar_padding(len);
    memset(at + len, 0, pad);
    return len + pad;
}
