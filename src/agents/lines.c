// SPDX-License-Identifier: Apache-2.0
#include "agents/lines.h"

#include <inttypes.h>
#include <string.h>

#define CUT_MARK " ... [the line is longer]"

void lines_init(struct lines *lines, struct buf *out, uint64_t first, uint64_t count)
{
    *lines = (struct lines){.out = out, .first = first, .count = count, .line = 1};
}

static bool is_shown(const struct lines *lines)
{
    return lines->line >= lines->first && lines->line - lines->first < lines->count;
}

static bool is_enough(const struct lines *lines)
{
    return lines->line >= lines->first && lines->column == 0 &&
           (!is_shown(lines) || lines->out->len >= LINES_OUTPUT_MAX);
}

// A piece of one line, without its end.
static void add_piece(struct lines *lines, const char *data, size_t len)
{
    size_t room = lines->column < LINES_WIDTH_MAX ? LINES_WIDTH_MAX - lines->column : 0;
    size_t shown = len < room ? len : room;
    if (is_shown(lines)) {
        if (lines->column == 0)
            (void)buf_printf(lines->out, "%6" PRIu64 "\t", lines->line);
        (void)buf_append(lines->out, data, shown);
        if (lines->column <= LINES_WIDTH_MAX && len > room)
            (void)buf_append_str(lines->out, CUT_MARK);
    }
    lines->column += len;
}

static void end_line(struct lines *lines)
{
    if (is_shown(lines)) {
        if (lines->column == 0)
            (void)buf_printf(lines->out, "%6" PRIu64 "\t", lines->line);
        (void)buf_append_char(lines->out, '\n');
    }
    lines->line++;
    lines->column = 0;
}

bool lines_feed(struct lines *lines, const char *data, size_t len)
{
    if (len > 0 && memchr(data, '\0', len) != NULL)
        lines->is_binary = true;
    while (len > 0 && !lines->is_binary && !lines->stopped) {
        if (is_enough(lines)) {
            lines->stopped = true;
            break;
        }
        const char *newline = memchr(data, '\n', len);
        size_t n = newline != NULL ? (size_t)(newline - data) : len;
        if (n > 0)
            add_piece(lines, data, n);
        if (newline != NULL)
            end_line(lines);
        n += newline != NULL;
        data += n;
        len -= n;
    }
    return !lines->is_binary && !lines->stopped;
}

uint64_t lines_seen(const struct lines *lines)
{
    return lines->line - 1 + (lines->column > 0);
}
