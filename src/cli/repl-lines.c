// SPDX-License-Identifier: Apache-2.0
// Cells that come line by line, from a pipe, a file or a terminal that can do no more: each is run
// when it is complete.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/repl.h"

enum { READ_SIZE = 64 * 1024 };

struct lines {
    struct repl *repl;
    struct buf read, cell;
    bool at_end;
};

static void prompt(const struct lines *lines)
{
    const struct lang *lang = lines->repl->lang;
    if (!lines->repl->is_tty)
        return;
    (void)fputs(lines->cell.len > 0 ? lang->more : lang->prompt, stdout);
    (void)fflush(stdout);
}

static void end_cell(struct lines *lines)
{
    while (lines->cell.len > 0 && lines->cell.data[lines->cell.len - 1] == '\n')
        lines->cell.data[--lines->cell.len] = '\0';
    if (lines->cell.len > 0)
        repl_take(lines->repl, lines->cell.data, lines->cell.len);
    buf_reset(&lines->cell);
}

static bool is_blank(const char *line)
{
    return line[strspn(line, " \t\r")] == '\0';
}

static void take_line(struct lines *lines, const char *line, size_t len)
{
    enum lang_rule rule = lines->repl->lang->rule;
    struct buf *cell = &lines->cell;
    if (cell->len > 0 && lang_begins_anew(rule, cell->data, cell->len, line))
        end_cell(lines);
    if (cell->len == 0 && is_blank(line))
        return;
    (void)buf_append(cell, line, len);
    if (line[0] == ':' && cell->len == len) {
        end_cell(lines);
        return;
    }
    if (!lang_incomplete(lines->repl->lang->rule, buf_str(cell), cell->len))
        end_cell(lines);
    else
        (void)buf_append_char(cell, '\n');
}

// A terminal's Ctrl-C drops what was begun; other signals end us.
static void see_signal(struct lines *lines)
{
    int number = lines->repl->run.take_signal();
    if (number == 0)
        return;
    if (number == SIGINT && lines->repl->is_tty) {
        buf_reset(&lines->cell);
        (void)fputc('\n', stdout);
        prompt(lines);
        return;
    }
    lines->repl->is_over = true;
    lines->repl->exit_code = 128 + number;
}

static void read_more(struct lines *lines)
{
    char *at;
    size_t room;
    struct pollfd fds[] = {
        {.fd = STDIN_FILENO,             .events = POLLIN},
        {.fd = lines->repl->run.wake_fd, .events = POLLIN},
    };
    if (poll(fds, 2, -1) < 0)
        return;
    if (fds[1].revents != 0)
        see_signal(lines);
    if (fds[0].revents == 0)
        return;
    ssize_t n =
        buf_reserve(&lines->read, READ_SIZE, &at, &room) < 0 ? -1 : read(STDIN_FILENO, at, room);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    lines->at_end = n <= 0;
    buf_commit(&lines->read, n > 0 ? (size_t)n : 0);
}

static void take_lines(struct lines *lines)
{
    char *end;
    while (!lines->repl->is_over && lines->read.len > 0 &&
           (end = memchr(lines->read.data, '\n', lines->read.len)) != NULL) {
        size_t len = (size_t)(end - lines->read.data);
        *end = '\0';
        take_line(lines, lines->read.data, len);
        buf_consume(&lines->read, len + 1);
        if (!lines->repl->is_over)
            prompt(lines);
    }
}

void repl_lines(struct repl *repl)
{
    struct lines lines = {.repl = repl};
    buf_init(&lines.read, CODE_MAX + READ_SIZE);
    buf_init(&lines.cell, CODE_MAX);
    prompt(&lines);
    while (!lines.at_end && !repl->is_over) {
        read_more(&lines);
        take_lines(&lines);
    }
    if (!repl->is_over) { // the last line needs no end
        if (lines.read.len > 0)
            take_line(&lines, buf_str(&lines.read), lines.read.len);
        end_cell(&lines);
    }
    buf_done(&lines.read);
    buf_done(&lines.cell);
}
