// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"

static const char *const names[LOG_LEVEL_MAX] = {"error", "warn", "info", "debug"};
static enum log_level current = LOG_INFO;

enum { LINE_MAX_BYTES = 4096 };

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

static void put_quoted(struct buf *line, const char *text)
{
    (void)buf_append_char(line, '"');
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            (void)buf_printf(line, "\\%c", c);
        else if (c < ' ' || c == 0x7f)
            (void)buf_printf(line, "\\x%02x", c);
        else
            (void)buf_append_char(line, (char)c);
    }
    (void)buf_append_char(line, '"');
}

static void put_value(struct buf *line, const char *text)
{
    if (is_plain(text))
        (void)buf_append_str(line, text);
    else
        put_quoted(line, text);
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
    buf_init(&line, LINE_MAX_BYTES - 1);
    put_time(&line);
    (void)buf_printf(&line, " level=%s msg=", names[level]);
    put_value(&line, msg);
    va_start(ap, msg);
    while ((key = va_arg(ap, const char *)) != NULL) {
        const char *value = va_arg(ap, const char *);
        if (value == NULL)
            continue;
        (void)buf_printf(&line, " %s=", key);
        put_value(&line, value);
    }
    va_end(ap);
    line.max = LINE_MAX_BYTES; // a line that was cut still ends
    (void)buf_append_char(&line, '\n');
    (void)!write(STDERR_FILENO, line.data, line.len);
}
