// SPDX-License-Identifier: Apache-2.0
// Where the last question of a directory has ended: a line for each, "server<tab>directory<tab>
// sandbox", the newest first, in a file of the user's own. It is a convenience: where it cannot
// be written, all else goes on.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/ask.h"
#include "cli/state.h"

enum { LAST_MAX = 200, LAST_FILE_MAX = 1024 * 1024 };

#define LAST_NAME "ask"

// What its line begins with; -1 where there can be no such line.
static int write_place(const struct remote *remote, struct buf *ret)
{
    char here[PATH_MAX];
    const struct http_place *place = &remote->place;
    if (getcwd(here, sizeof here) == NULL || strpbrk(here, "\t\n") != NULL ||
        strpbrk(place->text, "\t\n") != NULL)
        return -1;
    (void)buf_printf(ret, "%s%s\t%s\t", place->text, place->prefix, here);
    return ret->failed != 0 ? -1 : 0;
}

static int read_lines(char path[STATE_PATH_MAX], struct buf *ret)
{
    char *at;
    size_t room;
    if (state_path(path, LAST_NAME) < 0)
        return -1;
    auto_fd fd = state_open(path, O_RDONLY);
    if (fd < 0)
        return fd == -ENOENT ? 0 : -1;
    if (buf_reserve(ret, LAST_FILE_MAX, &at, &room) < 0)
        return -1;
    ssize_t n = fd_read_all(fd, at, room);
    buf_commit(ret, n > 0 ? (size_t)n : 0);
    return 0;
}

static bool begins(const char *line, size_t len, const struct buf *place)
{
    return len > place->len && memcmp(line, place->data, place->len) == 0;
}

int ask_last_get(const struct remote *remote, char ret[ASK_ID_MAX], struct err *err)
{
    char path[STATE_PATH_MAX];
    auto_buf place, lines;
    buf_init(&place, 2 * PATH_MAX);
    buf_init(&lines, LAST_FILE_MAX);
    if (write_place(remote, &place) == 0 && read_lines(path, &lines) == 0) {
        for (const char *line = buf_str(&lines); *line != '\0';) {
            size_t n = strcspn(line, "\n");
            size_t id = n - place.len;
            if (begins(line, n, &place) && id < ASK_ID_MAX) {
                (void)snprintf(ret, ASK_ID_MAX, "%.*s", (int)id, line + place.len);
                return 0;
            }
            line += n;
            line += *line == '\n';
        }
    }
    return err_set(err, ERR_NOT_FOUND,
                   "nothing was asked from this directory yet, so there is nothing to go on with");
}

int ask_last_put(const struct remote *remote, const char *sandbox)
{
    char path[STATE_PATH_MAX];
    auto_buf place, lines, out;
    buf_init(&place, 2 * PATH_MAX);
    buf_init(&lines, LAST_FILE_MAX);
    buf_init(&out, 2 * LAST_FILE_MAX);
    if (strlen(sandbox) >= ASK_ID_MAX || strpbrk(sandbox, "\t\n") != NULL ||
        write_place(remote, &place) < 0 || read_lines(path, &lines) < 0)
        return -1;
    (void)buf_printf(&out, "%s%s\n", buf_str(&place), sandbox);
    unsigned kept = 1;
    for (const char *line = buf_str(&lines); *line != '\0' && kept < LAST_MAX;) {
        size_t n = strcspn(line, "\n");
        if (line[n] == '\n' && !begins(line, n, &place)) {
            (void)buf_append(&out, line, n + 1);
            kept++;
        }
        line += n;
        line += *line == '\n';
    }
    if (out.failed != 0 || state_make_directories(path) < 0)
        return -1;
    return state_write(path, buf_str(&out), out.len) < 0 ? -1 : 0;
}
