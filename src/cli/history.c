// SPDX-License-Identifier: Apache-2.0
// The file has a line for each entry, in which "\n" stands for a line's end and "\\" for a
// backslash. It is added to while it is used, and written anew when it has grown too long.
#include "cli/history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/text.h"
#include "cli/state.h"

void history_init(struct history *history)
{
    history->n = 0;
    history->path[0] = '\0';
}

void history_done(struct history *history)
{
    for (size_t i = 0; i < history->n; i++)
        free(history->entries[i]);
    history->n = 0;
}

const char *history_get(const struct history *history, size_t nth)
{
    return nth >= 1 && nth <= history->n ? history->entries[history->n - nth] : NULL;
}

static bool keep(struct history *history, const char *text, size_t len)
{
    const char *newest = history_get(history, 1);
    if (len == 0 || len > HISTORY_ENTRY_MAX || text[0] == ' ' || !utf8_valid(text, len) ||
        memchr(text, '\0', len) != NULL)
        return false;
    if (newest != NULL && strlen(newest) == len && memcmp(newest, text, len) == 0)
        return false;
    char *copy = strndup(text, len);
    if (copy == NULL)
        abort();
    if (history->n == HISTORY_MAX) {
        free(history->entries[0]);
        history->n--;
        memmove(history->entries, history->entries + 1, history->n * sizeof *history->entries);
    }
    history->entries[history->n++] = copy;
    return true;
}

// -- the file

static void write_entry(struct buf *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\n' || text[i] == '\\')
            (void)buf_append_str(out, text[i] == '\n' ? "\\n" : "\\\\");
        else
            (void)buf_append_char(out, text[i]);
    }
    (void)buf_append_char(out, '\n');
}

static void read_entry(struct history *history, const char *line, size_t len)
{
    auto_buf text;
    buf_init(&text, HISTORY_ENTRY_MAX);
    for (size_t i = 0; i < len; i++) {
        bool escaped = line[i] == '\\' && i + 1 < len;
        i += escaped;
        (void)buf_append_char(&text, escaped && line[i] == 'n' ? '\n' : line[i]);
    }
    if (text.failed == 0)
        (void)keep(history, buf_str(&text), text.len);
}

static void read_entries(struct history *history, int fd, off_t size)
{
    auto_buf bytes;
    char *at;
    size_t room;
    buf_init(&bytes, HISTORY_FILE_MAX);
    if (size > HISTORY_FILE_MAX && lseek(fd, size - HISTORY_FILE_MAX, SEEK_SET) < 0)
        return;
    if (buf_reserve(&bytes, HISTORY_FILE_MAX, &at, &room) < 0)
        return;
    ssize_t n = fd_read_all(fd, at, room);
    buf_commit(&bytes, n > 0 ? (size_t)n : 0);
    const char *line = buf_str(&bytes), *end = line + bytes.len;
    if (size > HISTORY_FILE_MAX) { // the first one is cut
        line += strcspn(line, "\n");
        line += line < end;
    }
    while (line < end) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop != NULL ? stop : end;
        read_entry(history, line, (size_t)(stop - line));
        line = stop + 1;
    }
}

// What is too old goes.
static void write_anew(const struct history *history)
{
    auto_buf out;
    buf_init(&out, 2 * HISTORY_FILE_MAX + 2);
    for (size_t i = 0; i < history->n; i++)
        write_entry(&out, history->entries[i], strlen(history->entries[i]));
    if (out.failed == 0)
        (void)state_write(history->path, buf_str(&out), out.len);
}

int history_open(struct history *history, struct err *err)
{
    struct stat st = {0};
    if (state_path(history->path, "history") < 0)
        return 0; // nobody's: it is kept for this conversation
    int r = state_make_directories(history->path);
    auto_fd fd = r < 0 ? r : state_open(history->path, O_RDWR | O_CREAT);
    if (fd < 0) {
        (void)err_sys(err, -fd, "keep what is typed in '%s'", history->path);
        history->path[0] = '\0';
        return -1;
    }
    (void)fstat(fd, &st);
    read_entries(history, fd, st.st_size);
    if (st.st_size > HISTORY_FILE_MAX)
        write_anew(history);
    return 0;
}

void history_add(struct history *history, const char *text, size_t len)
{
    if (!keep(history, text, len) || history->path[0] == '\0')
        return;
    auto_buf line;
    buf_init(&line, 2 * HISTORY_ENTRY_MAX + 1);
    write_entry(&line, text, len);
    auto_fd fd = state_open(history->path, O_WRONLY | O_APPEND | O_CREAT);
    if (fd >= 0)
        (void)fd_write_all(fd, line.data, line.len);
}
