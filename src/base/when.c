// SPDX-License-Identifier: Apache-2.0
#include "base/when.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

#define WHEN_MAX INT64_C(253402300799999) // the end of 9999

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// Exactly `n` digits, from `min` to `max`.
static bool take(const char **at, unsigned n, int min, int max, int *ret)
{
    int value = 0;
    for (; n > 0; n--, (*at)++) {
        if (!is_digit(**at))
            return false;
        value = value * 10 + (**at - '0');
    }
    *ret = value;
    return value >= min && value <= max;
}

static bool take_char(const char **at, char c)
{
    if (**at != c)
        return false;
    (*at)++;
    return true;
}

// As many digits as there are; those below a millisecond do not count.
static bool take_fraction(const char **at, int64_t *ret_ms)
{
    int64_t unit = 100;
    if (!is_digit(**at))
        return false;
    for (*ret_ms = 0; is_digit(**at); (*at)++, unit /= 10)
        *ret_ms += unit * (**at - '0');
    return true;
}

// ":30" of "10:30", and maybe seconds with parts.
static bool take_clock(const char **at, struct tm *tm, int64_t *ret_ms)
{
    *ret_ms = 0;
    if (!take(at, 2, 0, 23, &tm->tm_hour) || !take_char(at, ':') ||
        !take(at, 2, 0, 59, &tm->tm_min))
        return false;
    if (!take_char(at, ':'))
        return true;
    if (!take(at, 2, 0, 60, &tm->tm_sec))
        return false;
    return !take_char(at, '.') || take_fraction(at, ret_ms);
}

static bool take_zone(const char **at, int64_t *ret_minutes)
{
    int hours, minutes, sign = **at == '-' ? -1 : 1;
    *ret_minutes = 0;
    if (**at == '\0' || take_char(at, 'Z'))
        return true;
    if (**at != '+' && **at != '-')
        return false;
    (*at)++;
    if (!take(at, 2, 0, 23, &hours))
        return false;
    (void)take_char(at, ':');
    if (!take(at, 2, 0, 59, &minutes))
        return false;
    *ret_minutes = sign * (hours * 60 + minutes);
    return true;
}

static bool parse_date(const char *at, int64_t *ret_ms)
{
    struct tm tm = {0};
    int64_t ms = 0, minutes = 0;
    if (!take(&at, 4, 1970, 9999, &tm.tm_year) || !take_char(&at, '-') ||
        !take(&at, 2, 1, 12, &tm.tm_mon) || !take_char(&at, '-') ||
        !take(&at, 2, 1, 31, &tm.tm_mday))
        return false;
    const int day = tm.tm_mday;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    if (take_char(&at, 'T') || take_char(&at, ' ')) {
        if (!take_clock(&at, &tm, &ms) || !take_zone(&at, &minutes))
            return false;
    }
    bool is_leap_second = tm.tm_sec == 60;
    int64_t seconds = timegm(&tm);
    if (*at != '\0' || (tm.tm_mday != day && !is_leap_second)) // the 31st of February
        return false;
    *ret_ms = (seconds - minutes * 60) * 1000 + ms;
    return *ret_ms >= 0 && *ret_ms <= WHEN_MAX;
}

static bool parse_ms(const char *text, int64_t *ret_ms)
{
    int64_t n = 0;
    for (; is_digit(*text) && n <= WHEN_MAX; text++)
        n = n * 10 + (*text - '0');
    *ret_ms = n;
    return *text == '\0' && n <= WHEN_MAX;
}

int when_parse(const char *text, int64_t *ret_ms, struct err *err)
{
    int64_t ms = 0;
    bool is_plain = *text != '\0' && text[strspn(text, "0123456789")] == '\0';
    if (is_plain ? parse_ms(text, &ms) : parse_date(text, &ms)) {
        *ret_ms = ms;
        return 0;
    }
    return err_set(err, ERR_INVALID,
                   "'%.40s' is no time: write \"2026-11-16T10:30:00Z\", \"2026-11-16\" or "
                   "milliseconds since 1970",
                   text);
}
