// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <string.h>
#include <strings.h>

enum {
    WORD_MAX = 32, // longer words are not names of ours
    FRACTION_DIGITS = 9,
    FRACTION_ONE = 1000000000,
    CPUS_MAX = 1 << 20,
};

// -- UTF-8

static bool is_tail(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

size_t utf8_step(const void *data, size_t len)
{
    const unsigned char *p = data;
    if (len == 0)
        return 0;
    if (p[0] < 0x80)
        return 1;
    if (p[0] >= 0xc2 && p[0] <= 0xdf)
        return len >= 2 && is_tail(p[1]) ? 2 : 0;
    if (p[0] >= 0xe0 && p[0] <= 0xef) {
        if (len < 3 || !is_tail(p[1]) || !is_tail(p[2]))
            return 0;
        bool overlong = p[0] == 0xe0 && p[1] < 0xa0;
        bool surrogate = p[0] == 0xed && p[1] > 0x9f;
        return overlong || surrogate ? 0 : 3;
    }
    if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        if (len < 4 || !is_tail(p[1]) || !is_tail(p[2]) || !is_tail(p[3]))
            return 0;
        bool overlong = p[0] == 0xf0 && p[1] < 0x90;
        bool too_far = p[0] == 0xf4 && p[1] > 0x8f;
        return overlong || too_far ? 0 : 4;
    }
    return 0;
}

uint32_t utf8_decode(const void *data, size_t step)
{
    const unsigned char *c = data;
    switch (step) {
    case 1:
        return c[0];
    case 2:
        return (uint32_t)(c[0] & 0x1f) << 6 | (c[1] & 0x3f);
    case 3:
        return (uint32_t)(c[0] & 0x0f) << 12 | (uint32_t)(c[1] & 0x3f) << 6 | (c[2] & 0x3f);
    default:
        return (uint32_t)(c[0] & 0x07) << 18 | (uint32_t)(c[1] & 0x3f) << 12 |
               (uint32_t)(c[2] & 0x3f) << 6 | (c[3] & 0x3f);
    }
}

bool utf8_valid(const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        size_t n = utf8_step(p, len);
        if (n == 0)
            return false;
        p += n;
        len -= n;
    }
    return true;
}

size_t utf8_unfinished(const void *data, size_t len)
{
    const unsigned char *p = data;
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        unsigned char c = p[len - back];
        if (is_tail(c))
            continue;
        size_t want = c >= 0xf0 && c <= 0xf4 ? 4 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xc2 ? 2 : 1;
        return c <= 0xf4 && want > back ? back : 0;
    }
    return 0;
}

// -- base64

static void base64_group(char out[4], const unsigned char *in, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned bits = (unsigned)in[0] << 16;
    if (n > 1)
        bits |= (unsigned)in[1] << 8;
    if (n > 2)
        bits |= in[2];
    out[0] = digits[bits >> 18];
    out[1] = digits[bits >> 12 & 63];
    out[2] = n > 1 ? digits[bits >> 6 & 63] : '=';
    out[3] = n > 2 ? digits[bits & 63] : '=';
}

void shell_quote(struct buf *buf, const char *text)
{
    (void)buf_append_char(buf, '\'');
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            (void)buf_append_str(buf, "'\\''");
        else
            (void)buf_append_char(buf, *text);
    }
    (void)buf_append_char(buf, '\'');
}

int base64_append(struct buf *buf, const void *data, size_t len)
{
    const unsigned char *in = data;
    char out[1024];
    size_t filled = 0;
    while (len > 0) {
        size_t n = len < 3 ? len : 3;
        base64_group(out + filled, in, n);
        filled += 4;
        in += n;
        len -= n;
        if (filled == sizeof out || len == 0) {
            int r = buf_append(buf, out, filled);
            if (r < 0)
                return r;
            filled = 0;
        }
    }
    return 0;
}

// -- numbers

// A number with a fraction, exact: floating point would turn "1.1g" into something near it.
struct decimal {
    uint64_t whole;
    uint64_t billionths;
    bool has_fraction;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// Reads digits into *ret; NULL when there are none or the number does not fit.
static const char *read_digits(const char *p, uint64_t *ret)
{
    uint64_t value = 0;
    if (!is_digit(*p))
        return NULL;
    for (; is_digit(*p); p++) {
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
            return NULL;
    }
    *ret = value;
    return p;
}

// Returns what follows the number, or NULL: no digits, too large, too fine.
static const char *read_decimal(const char *text, struct decimal *ret)
{
    struct decimal d = {0};
    const char *p = read_digits(text, &d.whole);
    if (p == NULL)
        return NULL;
    if (*p == '.') {
        const char *start = p + 1;
        p = read_digits(start, &d.billionths);
        if (p == NULL || p - start > FRACTION_DIGITS)
            return NULL;
        for (ptrdiff_t n = p - start; n < FRACTION_DIGITS; n++)
            d.billionths *= 10;
        d.has_fraction = true;
    }
    *ret = d;
    return p;
}

enum rounding {
    ROUND_DOWN,
    ROUND_UP,
};

// value * unit in whole numbers; false when it is more than `max`.
static bool scale(const struct decimal *d, uint64_t unit, enum rounding rounding, uint64_t max,
                  uint64_t *ret)
{
    unsigned __int128 part = (unsigned __int128)d->billionths * unit;
    if (rounding == ROUND_UP)
        part += FRACTION_ONE - 1;
    unsigned __int128 all = (unsigned __int128)d->whole * unit + part / FRACTION_ONE;
    if (all > max)
        return false;
    *ret = (uint64_t)all;
    return true;
}

static int size_shift(const char *suffix)
{
    static const char units[] = "kmgt";
    if (*suffix == '\0' || strcasecmp(suffix, "b") == 0)
        return 0;
    const char *unit = strchr(units, *suffix | 0x20);
    if (unit == NULL || *unit == '\0')
        return -1;
    suffix++;
    if (*suffix != '\0' && strcasecmp(suffix, "b") != 0 && strcasecmp(suffix, "ib") != 0)
        return -1;
    return 10 * (int)(unit - units + 1);
}

int parse_size(const char *text, uint64_t *ret_bytes, struct err *err)
{
    struct decimal d;
    const char *suffix = read_decimal(text, &d);
    int shift = suffix != NULL ? size_shift(suffix) : -1;
    if (shift < 0 || (shift == 0 && d.has_fraction))
        return err_set(
            err, ERR_INVALID,
            "'%s' is not a size: write bytes, or a number with k, m, g or t (512m, 1.5g)", text);
    if (!scale(&d, UINT64_C(1) << shift, ROUND_DOWN, UINT64_MAX, ret_bytes))
        return err_set(err, ERR_INVALID, "'%s' is too large", text);
    return 0;
}

static uint64_t duration_unit_ms(const char *suffix)
{
    static const struct {
        const char *suffix;
        uint64_t ms;
    } units[] = {
        {"",   1000    },
        {"ms", 1       },
        {"s",  1000    },
        {"m",  60000   },
        {"h",  3600000 },
        {"d",  86400000},
    };
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcasecmp(suffix, units[i].suffix) == 0)
            return units[i].ms;
    }
    return 0;
}

int parse_duration(const char *text, int64_t *ret_ms, struct err *err)
{
    struct decimal d;
    const char *suffix = read_decimal(text, &d);
    uint64_t unit = suffix != NULL ? duration_unit_ms(suffix) : 0;
    if (unit == 0)
        return err_set(err, ERR_INVALID,
                       "'%s' is not a duration: write seconds, or a number with ms, s, m, h or d "
                       "(500ms, 1.5s)",
                       text);
    uint64_t ms;
    if (!scale(&d, unit, ROUND_UP, INT64_MAX, &ms))
        return err_set(err, ERR_INVALID, "'%s' is too long", text);
    *ret_ms = (int64_t)ms;
    return 0;
}

int parse_cpus(const char *text, uint32_t *ret_millicpus, struct err *err)
{
    struct decimal d;
    const char *rest = read_decimal(text, &d);
    if (rest == NULL || *rest != '\0')
        return err_set(err, ERR_INVALID, "'%s' is not a number of cpus: write 2 or 0.5", text);
    uint64_t millis;
    if (!scale(&d, 1000, ROUND_DOWN, UINT64_C(1000) * CPUS_MAX, &millis))
        return err_set(err, ERR_INVALID, "'%s' is more cpus than any machine has", text);
    if (millis == 0)
        return err_set(err, ERR_INVALID, "'%s' is too few cpus: the least is 0.001", text);
    *ret_millicpus = (uint32_t)millis;
    return 0;
}

int parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret, struct err *err)
{
    uint64_t value;
    const char *rest = read_digits(text, &value);
    if (rest == NULL || *rest != '\0' || value < min || value > max)
        return err_set(err, ERR_INVALID, "'%s' is not a whole number from %llu to %llu", text,
                       (unsigned long long)min, (unsigned long long)max);
    *ret = value;
    return 0;
}

// -- words that look alike

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;
    return ab < c ? ab : c;
}

// Optimal string alignment: rows are prefixes of a, and three of them are enough.
size_t text_distance(const char *a, const char *b)
{
    size_t a_len = strlen(a), b_len = strlen(b);
    if (a_len > WORD_MAX || b_len > WORD_MAX)
        return SIZE_MAX;
    size_t rows[3][WORD_MAX + 1];
    for (size_t j = 0; j <= b_len; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t *row = rows[i % 3], *above = rows[(i - 1) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            row[j] = min3(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && above2[j - 2] + 1 < row[j])
                row[j] = above2[j - 2] + 1;
        }
    }
    return rows[a_len % 3][b_len];
}

bool text_near(const char *word, const char *name)
{
    size_t len = strlen(word);
    // The beginning of a name is a good sign of it, from three letters on.
    if (len >= 3 && strncmp(word, name, len) == 0)
        return true;
    return text_distance(word, name) <= (len <= 3 ? 1 : 2);
}
