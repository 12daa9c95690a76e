// SPDX-License-Identifier: Apache-2.0
#include "pack/index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { TEXT_SIZE = 256 * 1024 };

struct index_text {
    struct index_text *next;
    size_t len, size;
    char data[];
};

void index_done(struct index *index)
{
    for (struct index_text *text = index->texts, *next; text != NULL; text = next) {
        next = text->next;
        free(text);
    }
    free(index->entries);
    *index = (struct index){0};
}

// --- texts ---

// How many bytes at `at` are written as they are; 0 when the first is written as %XX.
static size_t plain_step(const char *at, size_t len)
{
    unsigned char c = (unsigned char)*at;
    if (c < ' ' || c == 0x7f || c == '%')
        return 0;
    if (c < 0x80)
        return 1;
    size_t step = utf8_step(at, len);
    if (step == 2 && c == 0xc2 && (unsigned char)at[1] < 0xa0)
        return 0; // control characters too
    return step;
}

void index_escape(struct buf *out, const char *text)
{
    for (size_t len = strlen(text); len > 0;) {
        size_t step = plain_step(text, len);
        if (step == 0)
            (void)buf_printf(out, "%%%02X", (unsigned char)*text);
        else
            (void)buf_append(out, text, step);
        step = step > 0 ? step : 1;
        text += step;
        len -= step;
    }
}

size_t index_escaped_len(const char *text)
{
    size_t n = 0;
    for (size_t len = strlen(text); len > 0;) {
        size_t step = plain_step(text, len);
        n += step > 0 ? step : 3;
        step = step > 0 ? step : 1;
        text += step;
        len -= step;
    }
    return n;
}

size_t index_escaped_part(const char *text)
{
    size_t longest = 0, n = 0;
    for (size_t len = strlen(text); len > 0;) {
        size_t step = plain_step(text, len);
        n = *text == '/' ? 0 : n + (step > 0 ? step : 3);
        longest = n > longest ? n : longest;
        step = step > 0 ? step : 1;
        text += step;
        len -= step;
    }
    return longest;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// In place. False for a '%' without its digits, and for a NUL.
static bool unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0';) {
        if (*from != '%') {
            *to++ = *from++;
            continue;
        }
        int high = hex_digit(from[1]), low = high < 0 ? -1 : hex_digit(from[2]);
        if (low < 0 || high + low == 0)
            return false;
        *to++ = (char)(unsigned char)(high * 16 + low);
        from += 3;
    }
    *to = '\0';
    return true;
}

bool index_is_path(const char *path)
{
    size_t all = strlen(path);
    if (all == 0 || all >= PACK_PATH_MAX)
        return false;
    for (const char *at = path;; at++) {
        size_t len = strcspn(at, "/");
        if (len == 0 || (len == 1 && at[0] == '.') || (len == 2 && at[0] == '.' && at[1] == '.'))
            return false;
        at += len;
        if (*at == '\0')
            return true;
    }
}

// --- reading ---

enum { F_KIND, F_SIZE, F_MTIME, F_MODE, F_UID, F_GID, F_HASH, F_PATH, F_TARGET, FIELDS };

static bool read_hash(const char *text, struct index_entry *e)
{
    if (strcmp(text, "-") == 0)
        return e->kind != 'f';
    if (strlen(text) != 2 * PACK_SHA256 || e->kind != 'f')
        return false;
    for (size_t i = 0; i < PACK_SHA256; i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        e->sha256[i] = (uint8_t)(high << 4 | low);
    }
    e->has_hash = true;
    return true;
}

static bool read_u32(const char *text, uint64_t max, uint32_t *ret)
{
    struct err ignored;
    uint64_t n;
    if (parse_u64(text, 0, max, &n, &ignored) < 0)
        return false;
    *ret = (uint32_t)n;
    return true;
}

static bool read_time(const char *text, int64_t *ret)
{
    struct err ignored;
    uint64_t n;
    bool is_negative = text[0] == '-';
    uint64_t max = is_negative ? UINT64_C(1) << 63 : INT64_MAX;
    if (parse_u64(text + is_negative, 0, max, &n, &ignored) < 0)
        return false;
    *ret = is_negative ? (int64_t)-n : (int64_t)n;
    return true;
}

static bool read_fields(char *const fields[FIELDS], struct index_entry *e)
{
    struct err ignored;
    if (strlen(fields[F_KIND]) != 1 || strchr("fld", fields[F_KIND][0]) == NULL)
        return false;
    e->kind = fields[F_KIND][0];
    e->path = fields[F_PATH];
    e->target = fields[F_TARGET];
    return parse_u64(fields[F_SIZE], 0, INT64_MAX, &e->size, &ignored) == 0 &&
           read_time(fields[F_MTIME], &e->mtime_ns) && read_u32(fields[F_MODE], 07777, &e->mode) &&
           read_u32(fields[F_UID], UINT32_MAX, &e->uid) &&
           read_u32(fields[F_GID], UINT32_MAX, &e->gid) && read_hash(fields[F_HASH], e) &&
           unescape(fields[F_PATH]) && index_is_path(e->path) && unescape(fields[F_TARGET]) &&
           (e->kind == 'l') == (e->target[0] != '\0') && strlen(e->target) < PACK_PATH_MAX;
}

static bool parse_line(char *line, struct index_entry *ret)
{
    char *fields[FIELDS];
    for (int i = 0; i < FIELDS; i++) {
        fields[i] = strsep(&line, "\t");
        if (fields[i] == NULL)
            return false;
    }
    return line == NULL && read_fields(fields, ret);
}

static struct index_entry *new_entry(struct index *index)
{
    if (index->n == index->room) {
        size_t room = index->room > 0 ? index->room * 2 : 256;
        struct index_entry *entries = reallocarray(index->entries, room, sizeof *entries);
        if (entries == NULL)
            return NULL;
        index->entries = entries;
        index->room = room;
    }
    return &index->entries[index->n];
}

static int take_line(struct index *index, char *line, struct err *err)
{
    struct index_entry *e = new_entry(index);
    if (e == NULL)
        return err_set(err, ERR_EXHAUSTED, "no memory for an index");
    *e = (struct index_entry){0};
    if (!parse_line(line, e))
        return err_set(err, ERR_INVALID, "line %zu of the index makes no sense", index->n + 2);
    if (index->n > 0 && strcmp(index->entries[index->n - 1].path, e->path) >= 0)
        return err_set(err, ERR_INVALID, "line %zu of the index is out of order", index->n + 2);
    index->n++;
    return 0;
}

int index_parse(struct index *index, char *text, size_t len, struct err *err)
{
    static const char head[] = PACK_INDEX_HEAD "\n";
    if (len == 0)
        return 0;
    if (len < sizeof head - 1 || memcmp(text, head, sizeof head - 1) != 0 ||
        text[len - 1] != '\n' || memchr(text, '\0', len) != NULL)
        return err_set(err, ERR_INVALID, "this is no index, or not all of one");
    for (char *at = text + sizeof head - 1; at < text + len;) {
        char *end = memchr(at, '\n', (size_t)(text + len - at));
        *end = '\0';
        if (take_line(index, at, err) < 0)
            return -1;
        at = end + 1;
    }
    return 0;
}

// --- finding, adding, writing ---

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct index_entry *)a)->path, ((const struct index_entry *)b)->path);
}

const struct index_entry *index_find(const struct index *index, const char *path)
{
    const struct index_entry key = {.path = path};
    return index->n > 0 ? bsearch(&key, index->entries, index->n, sizeof key, compare) : NULL;
}

static const char *keep_text(struct index *index, const char *text)
{
    size_t len = strlen(text) + 1;
    struct index_text *texts = index->texts;
    if (len == 1)
        return "";
    if (texts == NULL || texts->size - texts->len < len) {
        size_t size = len > TEXT_SIZE ? len : TEXT_SIZE;
        texts = malloc(sizeof *texts + size);
        if (texts == NULL)
            return NULL;
        *texts = (struct index_text){.next = index->texts, .size = size};
        index->texts = texts;
    }
    char *kept = texts->data + texts->len;
    memcpy(kept, text, len);
    texts->len += len;
    return kept;
}

int index_add(struct index *index, const struct index_entry *entry)
{
    struct index_entry *e = new_entry(index);
    if (e == NULL)
        return -ENOMEM;
    *e = *entry;
    e->path = keep_text(index, entry->path);
    e->target = keep_text(index, entry->target);
    if (e->path == NULL || e->target == NULL)
        return -ENOMEM;
    index->n++;
    return 0;
}

void index_sort(struct index *index)
{
    if (index->n > 1)
        qsort(index->entries, index->n, sizeof *index->entries, compare);
}

static void print_hash(const struct index_entry *e, char ret[2 * PACK_SHA256 + 1])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < PACK_SHA256; i++) {
        ret[2 * i] = digits[e->sha256[i] >> 4];
        ret[2 * i + 1] = digits[e->sha256[i] & 15];
    }
    ret[2 * PACK_SHA256] = '\0';
}

void index_print(const struct index *index, struct buf *out)
{
    (void)buf_append_str(out, PACK_INDEX_HEAD "\n");
    for (size_t i = 0; i < index->n; i++) {
        const struct index_entry *e = &index->entries[i];
        char hash[2 * PACK_SHA256 + 1] = "-";
        if (e->has_hash)
            print_hash(e, hash);
        (void)buf_printf(out, "%c\t%llu\t%lld\t%u\t%u\t%u\t%s\t", e->kind,
                         (unsigned long long)e->size, (long long)e->mtime_ns, e->mode, e->uid,
                         e->gid, hash);
        index_escape(out, e->path);
        (void)buf_append_char(out, '\t');
        index_escape(out, e->target);
        (void)buf_append_char(out, '\n');
    }
}
