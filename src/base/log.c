// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/text.h"

static const char *const names[LOG_LEVEL_MAX] = {"error", "warn", "info", "debug"};
static enum log_level current = LOG_INFO;

enum {
    LINE_MAX_BYTES = 4096,
    VALUE_MAX_BYTES = 1024,
};
static const char cut[] = " cut=yes\n";

void log_set_level(enum log_level level)
{
    current = level;
}

int log_is_on(enum log_level level)
{
    return level <= current;
}

int log_parse_level(const char *text, enum log_level *ret)
{
    for (unsigned i = 0; i < LOG_LEVEL_MAX; i++) {
        if (strcmp(names[i], text) == 0) {
            *ret = (enum log_level)i;
            return 0;
        }
    }
    return -EINVAL;
}

const char *log_u64(char *text, uint64_t n)
{
    (void)snprintf(text, 24, "%llu", (unsigned long long)n);
    return text;
}

static int is_plain(const char *text)
{
    if (*text == '\0')
        return 0;
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 0x7f || *text == '"' ||
            *text == '\\' || *text == '=')
            return 0;
    }
    return 1;
}

// Whether a reader, be it a terminal or a program that splits lines, takes the character that is
// here for more than a letter: controls, separators of lines, changes of direction.
static int is_active(const unsigned char *c, size_t len)
{
    if (len == 1)
        return *c < ' ' || *c == 0x7f;
    if (len == 2)
        return c[0] == 0xc2 && c[1] < 0xa0; // U+0080 to U+009F
    return len == 3 && c[0] == 0xe2 &&
           ((c[1] == 0x80 && c[2] >= 0xa8 && c[2] <= 0xae) || // U+2028 to U+202E
            (c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9));  // U+2066 to U+2069
}

static void put_quoted(struct buf *line, const char *text)
{
    const size_t end = line->len + VALUE_MAX_BYTES;
    size_t left = strlen(text);
    (void)buf_append_char(line, '"');
    for (size_t n; left > 0 && line->len < end; text += n, left -= n) {
        n = utf8_step(text, left);
        if (*text == '"' || *text == '\\') {
            (void)buf_printf(line, "\\%c", *text);
        } else if (n > 0 && !is_active((const unsigned char *)text, n)) {
            (void)buf_append(line, text, n);
        } else {
            n = n > 0 ? n : 1;
            for (size_t i = 0; i < n; i++)
                (void)buf_printf(line, "\\x%02x", (unsigned)(unsigned char)text[i]);
        }
    }
    (void)buf_append_str(line, left > 0 ? "...\"" : "\"");
}

static void put_value(struct buf *line, const char *text)
{
    if (is_plain(text) && strlen(text) <= VALUE_MAX_BYTES)
        (void)buf_append_str(line, text);
    else
        put_quoted(line, text);
}

// A pair that does not fit whole is left out, so that no quote stays open.
static void put_pair(struct buf *line, const char *key, const char *value)
{
    size_t len = line->len;
    if (line->failed != 0)
        return;
    (void)buf_printf(line, " %s=", key);
    put_value(line, value);
    if (line->failed != 0)
        line->len = len;
}

static void put_time(struct buf *line)
{
    struct timespec now;
    struct tm tm;
    char text[32];
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &tm);
    (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    (void)buf_printf(line, "time=%s.%03ldZ", text, now.tv_nsec / 1000000);
}

void log_line(enum log_level level, const char *msg, ...)
{
    va_list ap;
    auto_buf line;
    const char *key;
    if (!log_is_on(level))
        return;
    buf_init(&line, LINE_MAX_BYTES - sizeof cut);
    put_time(&line);
    (void)buf_printf(&line, " level=%s", names[level]);
    put_pair(&line, "msg", msg);
    va_start(ap, msg);
    while ((key = va_arg(ap, const char *)) != NULL) {
        const char *value = va_arg(ap, const char *);
        if (value != NULL)
            put_pair(&line, key, value);
    }
    va_end(ap);
    line.max = LINE_MAX_BYTES;
    (void)buf_append_str(&line, line.failed != 0 ? cut : "\n");
    (void)!write(STDERR_FILENO, line.data, line.len);
}
