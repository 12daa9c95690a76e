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

static int open_file(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    struct stat st;
    if (fd < 0)
        return -errno;
    // Somebody else's file, or no file at all, gets nothing of ours.
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid()) {
        fd_close(fd);
        return -EPERM;
    }
    if ((st.st_mode & 077) != 0)
        (void)fchmod(fd, 0600);
    return fd;
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

// What is too old goes. Written beside it and moved over it, so that there is always a whole one.
static void write_anew(const struct history *history)
{
    char path[sizeof history->path + 8];
    auto_buf out;
    buf_init(&out, 2 * HISTORY_FILE_MAX + 2);
    for (size_t i = 0; i < history->n; i++)
        write_entry(&out, history->entries[i], strlen(history->entries[i]));
    (void)snprintf(path, sizeof path, "%s.new", history->path);
    (void)unlink(path);
    auto_fd fd = open_file(path, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0)
        return;
    if (out.failed != 0 || fd_write_all(fd, buf_str(&out), out.len) < 0 ||
        rename(path, history->path) < 0)
        (void)unlink(path);
}

// Makes the directories of a path that are not there.
static int make_directories(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int r = mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
        *slash = '/';
        if (r < 0)
            return r;
    }
    return 0;
}

static int find_path(struct history *history)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n = 0;
    if (state != NULL && state[0] == '/')
        n = snprintf(history->path, sizeof history->path, "%s/cay/history", state);
    else if (home != NULL && home[0] == '/')
        n = snprintf(history->path, sizeof history->path, "%s/.local/state/cay/history", home);
    if (n <= 0 || (size_t)n >= sizeof history->path)
        history->path[0] = '\0';
    return history->path[0] != '\0' ? 0 : -1;
}

int history_open(struct history *history, struct err *err)
{
    struct stat st = {0};
    if (find_path(history) < 0)
        return 0; // nobody's: it is kept for this conversation
    int r = make_directories(history->path);
    auto_fd fd = r < 0 ? r : open_file(history->path, O_RDWR | O_CREAT);
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
    auto_fd fd = open_file(history->path, O_WRONLY | O_APPEND | O_CREAT);
    if (fd >= 0)
        (void)fd_write_all(fd, line.data, line.len);
}
