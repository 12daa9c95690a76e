// SPDX-License-Identifier: Apache-2.0
#include "saved/sync-index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/text.h"
#include "saved/sync-records.h"
#include "store/sha256.h"

enum { FIELDS = 9, SHA256_HEX = 64, NUMBER_MAX = 24 };

// -- paths

static void escape_bytes(const char *bytes, size_t n, struct buf *ret)
{
    for (size_t i = 0; i < n; i++)
        (void)buf_printf(ret, "%%%02X", (unsigned char)bytes[i]);
}

void path_escape(const char *raw, size_t len, struct buf *ret)
{
    for (size_t i = 0, step; i < len; i += step) {
        step = utf8_step(raw + i, len - i);
        uint32_t c = step > 0 ? utf8_decode(raw + i, step) : 0;
        if (c < 0x20 || c == '%' || (c >= 0x7f && c < 0xa0)) {
            step = step > 0 ? step : 1;
            escape_bytes(raw + i, step, ret);
        } else {
            (void)buf_append(ret, raw + i, step);
        }
    }
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

ssize_t path_unescape(const char *text, size_t len, char ret[PACK_PATH_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '%' && i + 2 < len && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0) {
            c = (char)(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
            i += 2;
        }
        if (n == PACK_PATH_MAX - 1)
            return -1;
        ret[n++] = c;
    }
    ret[n] = '\0';
    return record_path_valid(ret, n) ? (ssize_t)n : -1;
}

ssize_t path_read(const char *text, char ret[PACK_PATH_MAX])
{
    auto_buf again;
    buf_init(&again, 3 * PACK_PATH_MAX);
    size_t len = strnlen(text, PACK_PATH_MAX);
    ssize_t n = path_unescape(text, len, ret);
    if (n >= 0)
        path_escape(ret, (size_t)n, &again);
    if (n >= 0 && again.len == len && memcmp(again.data, text, len) == 0)
        return n; // as it is shown
    if (!record_path_valid(text, len))
        return -1;
    memcpy(ret, text, len);
    ret[len] = '\0';
    return (ssize_t)len;
}

// -- lines

int index_open(struct index_reader *reader, const char *text, size_t len)
{
    static const char head[] = PACK_INDEX_HEAD "\n";
    size_t n = sizeof head - 1;
    if (len < n || memcmp(text, head, n) != 0)
        return -1;
    *reader = (struct index_reader){.at = text + n, .end = text + len};
    return 0;
}

struct span {
    const char *at;
    size_t len;
};

// 0, or -1: not so many fields.
static int split(const char *line, size_t len, struct span fields[FIELDS])
{
    const char *end = line + len;
    for (unsigned i = 0; i < FIELDS; i++) {
        const char *tab = memchr(line, '\t', (size_t)(end - line));
        if ((tab == NULL) != (i == FIELDS - 1))
            return -1;
        fields[i] = (struct span){line, (size_t)((tab != NULL ? tab : end) - line)};
        line = tab != NULL ? tab + 1 : end;
    }
    return 0;
}

static int read_number(struct span field, int base, bool is_signed, int64_t *ret)
{
    char text[NUMBER_MAX], *end;
    bool minus = is_signed && field.len > 0 && field.at[0] == '-';
    if (field.len <= minus || field.len >= sizeof text || hex_digit(field.at[minus]) < 0)
        return -1;
    memcpy(text, field.at, field.len);
    text[field.len] = '\0';
    errno = 0;
    *ret = strtoll(text, &end, base);
    return errno == 0 && *end == '\0' && (minus || *ret >= 0) ? 0 : -1;
}

static int read_sha(struct span field, char kind, uint8_t ret[PACK_SHA256])
{
    char hex[SHA256_HEX + 1];
    if (kind != 'f')
        return field.len == 1 && field.at[0] == '-' ? 0 : -1;
    if (field.len != SHA256_HEX)
        return -1;
    memcpy(hex, field.at, SHA256_HEX);
    hex[SHA256_HEX] = '\0';
    return sha256_from_hex(hex, ret) ? 0 : -1;
}

// `KIND SIZE MTIME_NS MODE UID GID SHA256 PATH TARGET`
static int read_line(const char *text, size_t len, struct index_line *ret)
{
    struct span f[FIELDS];
    int64_t size, mode, ignored;
    if (split(text, len, f) < 0 || f[0].len != 1 || strchr("fld", f[0].at[0]) == NULL)
        return -1;
    ret->kind = f[0].at[0];
    if (read_number(f[1], 10, false, &size) < 0 ||
        read_number(f[2], 10, true, &ret->mtime_ns) < 0 ||
        read_number(f[3], 10, false, &mode) < 0 || read_number(f[4], 10, false, &ignored) < 0 ||
        read_number(f[5], 10, false, &ignored) < 0 || read_sha(f[6], ret->kind, ret->sha256) < 0 ||
        mode > 07777)
        return -1;
    ssize_t n = path_unescape(f[7].at, f[7].len, ret->path);
    if (n < 0 || (f[8].len > 0) != (ret->kind == 'l'))
        return -1;
    ret->size = (uint64_t)size;
    ret->mode = (uint32_t)mode;
    ret->path_len = (size_t)n;
    return 0;
}

int index_next(struct index_reader *reader, struct index_line *ret)
{
    if (reader->at == reader->end)
        return 0;
    const char *end = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));
    if (end == NULL)
        return -1; // cut
    ret->text = reader->at;
    ret->text_len = (size_t)(end + 1 - reader->at);
    reader->at = end + 1;
    return read_line(ret->text, ret->text_len - 1, ret) < 0 ? -1 : 1;
}

int index_check(const char *text, size_t len, struct index_sums *ret, struct err *err)
{
    struct index_reader reader;
    struct index_line line;
    struct index_sums sums = {0};
    int r = index_open(&reader, text, len);
    while (r >= 0 && (r = index_next(&reader, &line)) > 0) {
        sums.files += line.kind == 'f';
        sums.bytes += line.kind == 'f' ? line.size : 0;
        if (sums.bytes > INT64_MAX)
            r = -1;
    }
    if (r < 0) {
        (void)err_set(err, ERR_INTERNAL, "the index of the stored files is damaged");
        err->sys_errno = EBADMSG;
        return -1;
    }
    *ret = sums;
    return 0;
}

// -- dropping

static bool is_below(const char *path, size_t len, const char *dir, size_t dir_len)
{
    return len > dir_len && path[dir_len] == '/' && memcmp(path, dir, dir_len) == 0;
}

static bool contradicts(const struct index_line *line, const char *path, size_t len)
{
    if (line->path_len == len && memcmp(line->path, path, len) == 0)
        return true;
    return is_below(line->path, line->path_len, path, len) ||
           (line->kind != 'd' && is_below(path, len, line->path, line->path_len));
}

bool index_drop(char *text, size_t *len, const char *path)
{
    struct index_reader reader;
    struct index_line line;
    size_t path_len = strlen(path);
    if (index_open(&reader, text, *len) < 0)
        return false;
    char *to = text + (reader.at - text);
    while (index_next(&reader, &line) > 0) {
        if (contradicts(&line, path, path_len))
            continue;
        memmove(to, line.text, line.text_len);
        to += line.text_len;
    }
    bool dropped = (size_t)(to - text) != *len;
    *len = (size_t)(to - text);
    return dropped;
}

// -- distrusting

// What no file has: none is so large, and a sum of zeros nobody has found content for.
#define NO_FILE                                                                                    \
    "f\t9223372036854775807\t0\t0\t0\t0\t"                                                         \
    "0000000000000000000000000000000000000000000000000000000000000000\t"

bool index_distrust(const char *text, size_t len, struct buf *ret)
{
    struct index_reader reader;
    struct index_line line;
    if (index_open(&reader, text, len) < 0)
        return true;
    (void)buf_append_str(ret, PACK_INDEX_HEAD "\n");
    while (index_next(&reader, &line) > 0) {
        if (line.kind != 'f') {
            (void)buf_append(ret, line.text, line.text_len);
            continue;
        }
        (void)buf_append_str(ret, NO_FILE);
        path_escape(line.path, line.path_len, ret);
        (void)buf_append_str(ret, "\t\n");
    }
    return ret->failed == 0;
}
