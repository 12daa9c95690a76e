// SPDX-License-Identifier: Apache-2.0
#include "cli/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

// -- characters

struct range {
    uint32_t from, to;
};

static bool in_ranges(uint32_t c, const struct range *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (c >= ranges[i].from && c <= ranges[i].to)
            return true;
    }
    return false;
}

#define IN(c, ranges) in_ranges((c), (ranges), sizeof(ranges) / sizeof *(ranges))

// C0 and C1, line and paragraph ends, marks that turn or isolate the direction of writing, tags.
static const struct range unsafe[] = {
    {0x00,    0x1f   },
    {0x7f,    0x9f   },
    {0x61c,   0x61c  },
    {0x200b,  0x200f },
    {0x2028,  0x202e },
    {0x2060,  0x206f },
    {0xfeff,  0xfeff },
    {0xfff9,  0xfffb },
    {0xe0000, 0xe007f},
};

static const struct range narrow[] = {
    {0x300,  0x36f },
    {0x483,  0x489 },
    {0x591,  0x5bd },
    {0x610,  0x61a },
    {0x64b,  0x65f },
    {0x1ab0, 0x1aff},
    {0x1dc0, 0x1dff},
    {0x20d0, 0x20ff},
    {0xfe00, 0xfe0f},
    {0xfe20, 0xfe2f},
};

static const struct range wide[] = {
    {0x1100,  0x115f },
    {0x2e80,  0x303e },
    {0x3041,  0xa4cf },
    {0xac00,  0xd7a3 },
    {0xf900,  0xfaff },
    {0xfe30,  0xfe6f },
    {0xff00,  0xff60 },
    {0xffe0,  0xffe6 },
    {0x1f300, 0x1f64f},
    {0x1f680, 0x1f6ff},
    {0x1f900, 0x1faff},
    {0x20000, 0x3fffd},
};

size_t text_width(const char *text)
{
    size_t width = 0, left = strlen(text);
    while (left > 0) {
        size_t n = utf8_step(text, left);
        uint32_t c = n > 0 ? utf8_decode(text, n) : 0xfffd;
        n = n > 0 ? n : 1;
        if (!IN(c, narrow))
            width += IN(c, wide) ? 2 : 1;
        text += n;
        left -= n;
    }
    return width;
}

int text_plain(struct buf *buf, const char *text, size_t len)
{
    int r = 0;
    while (len > 0 && r == 0) {
        size_t n = utf8_step(text, len);
        uint32_t c = n > 0 ? utf8_decode(text, n) : (unsigned char)*text;
        if (n == 0)
            r = buf_printf(buf, "\\x%02" PRIx32, c);
        else if (!IN(c, unsafe))
            r = buf_append(buf, text, n);
        else if (c < 0x80)
            r = buf_printf(buf, "\\x%02" PRIx32, c);
        else
            r = buf_printf(buf, "\\u%04" PRIx32, c);
        n = n > 0 ? n : 1;
        text += n;
        len -= n;
    }
    return r;
}

int text_plain_lines(struct buf *buf, const char *text, size_t len, bool *after_cr)
{
    const char *end = text + len;
    bool was_cr = after_cr != NULL && *after_cr;
    int r = 0;
    while (text < end && r == 0) {
        const char *from = text;
        while (text < end && *text != '\n' && *text != '\r' && *text != '\t')
            text++;
        r = text_plain(buf, from, (size_t)(text - from));
        bool is_second = was_cr && text == from && *text == '\n'; // of a CRLF
        was_cr = text < end && *text == '\r';
        if (r == 0 && text < end && !is_second)
            r = buf_append_char(buf, was_cr ? '\n' : *text);
        text += text < end;
    }
    if (after_cr != NULL)
        *after_cr = was_cr;
    return r;
}

// One character as JSON may write it, in two parts where it takes a pair of surrogates.
static int escape_json(struct buf *buf, uint32_t c)
{
    if (c < 0x10000)
        return buf_printf(buf, "\\u%04" PRIx32, c);
    c -= 0x10000;
    return buf_printf(buf, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd800 + (c >> 10),
                      0xdc00 + (c & 0x3ff));
}

int text_plain_json(struct buf *buf, const char *text, size_t len)
{
    int r = 0;
    while (len > 0 && r == 0) {
        size_t n = utf8_step(text, len);
        uint32_t c = n > 0 ? utf8_decode(text, n) : 0xfffd;
        bool space = c == ' ' || c == '\n' || c == '\t'; // between values
        n = n > 0 ? n : 1;
        if (IN(c, unsafe) && !space)
            r = c == '\r' ? buf_append_char(buf, ' ') : escape_json(buf, c);
        else
            r = c == 0xfffd ? buf_append_str(buf, "\xef\xbf\xbd") : buf_append(buf, text, n);
        text += n;
        len -= n;
    }
    return r;
}

bool text_colour(FILE *out)
{
    const char *no = getenv("NO_COLOR");
    return isatty(fileno(out)) && (no == NULL || no[0] == '\0');
}

const char *text_size(char *ret, size_t size, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    unsigned unit = 0;
    double value = (double)bytes;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    bool part = unit > 0 && value < 10 && value != (double)(uint64_t)value;
    (void)snprintf(ret, size, part ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return ret;
}

const char *text_ago(char *ret, size_t size, int64_t seconds)
{
    seconds = seconds < 0 ? 0 : seconds; // their clock is before ours
    if (seconds < 120)
        (void)snprintf(ret, size, "%" PRId64 "s", seconds);
    else if (seconds < 2 * 3600)
        (void)snprintf(ret, size, "%" PRId64 "m", seconds / 60);
    else if (seconds < 48 * 3600)
        (void)snprintf(ret, size, "%" PRId64 "h", seconds / 3600);
    else
        (void)snprintf(ret, size, "%" PRId64 "d", seconds / 86400);
    return ret;
}

// -- tables

void cli_table_init(struct table *table, const struct table_column *columns, unsigned n_columns)
{
    *table = (struct table){.columns = columns, .n_columns = n_columns};
    buf_init(&table->cells, TABLE_BYTES_MAX);
    for (unsigned i = 0; i < n_columns; i++)
        table->width[i] = text_width(columns[i].head);
}

void cli_table_done(struct table *table)
{
    buf_done(&table->cells);
}

void cli_table_cell(struct table *table, const char *text)
{
    size_t from = table->cells.len;
    if (text == NULL || text[0] == '\0')
        text = "-";
    if (table->cells.failed != 0)
        return;
    (void)text_plain(&table->cells, text, strlen(text));
    if (buf_append_char(&table->cells, '\0') < 0)
        return;
    size_t width = text_width(table->cells.data + from);
    if (width > table->width[table->at])
        table->width[table->at] = width;
    table->at = (table->at + 1) % table->n_columns;
}

void cli_table_cellf(struct table *table, const char *fmt, ...)
{
    auto_buf text;
    buf_init(&text, 4096);
    va_list ap;
    va_start(ap, fmt);
    (void)buf_vprintf(&text, fmt, ap);
    va_end(ap);
    cli_table_cell(table, buf_str(&text));
}

static void print_cell(const struct table *table, unsigned column, const char *text, FILE *out)
{
    size_t width = text_width(text), pad = table->width[column] - width;
    bool last = column + 1 == table->n_columns;
    if (table->columns[column].right)
        (void)fprintf(out, "%*s", (int)pad, "");
    (void)fputs(text, out);
    if (!table->columns[column].right && !last)
        (void)fprintf(out, "%*s", (int)pad, "");
    (void)fputs(last ? "\n" : "  ", out);
}

int cli_table_print(const struct table *table, FILE *out, bool colour)
{
    const char *at = table->cells.data;
    const char *end = at == NULL ? NULL : at + table->cells.len;
    if (colour)
        (void)fputs("\x1b[1m", out);
    for (unsigned i = 0; i < table->n_columns; i++)
        print_cell(table, i, table->columns[i].head, out);
    if (colour)
        (void)fputs("\x1b[0m", out);
    unsigned column = 0;
    while (at < end && memchr(at, '\0', (size_t)(end - at)) != NULL) {
        print_cell(table, column, at, out);
        column = (column + 1) % table->n_columns;
        at += strlen(at) + 1;
    }
    return table->cells.failed != 0 ? -1 : 0;
}
