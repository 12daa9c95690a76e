// SPDX-License-Identifier: Apache-2.0
// Pictures: as files, and drawn in place by terminals that can. Terminals tell what they are by
// variables; asking them would mean waiting for those that do not answer.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "cli/rich.h"
#include "cli/table.h"

enum {
    KITTY_PIECE = 4096, // of base64, as its protocol wants it
    NUMBERS_MAX = 1000, // tried for a free name
};

// -- in place

static bool variable_is(const char *name, const char *value)
{
    const char *ours = getenv(name);
    return ours != NULL && strcmp(ours, value) == 0;
}

static bool variable_begins(const char *name, const char *value)
{
    const char *ours = getenv(name);
    return ours != NULL && strncmp(ours, value, strlen(value)) == 0;
}

enum picture_way picture_way(void)
{
    static const char *const kitty[] = {"ghostty"};
    static const char *const iterm[] = {"iTerm.app", "WezTerm"};
    if (!isatty(STDOUT_FILENO))
        return PICTURE_NONE;
    // One that stands between us and the terminal would take the sequence for text.
    if (getenv("TMUX") != NULL || variable_begins("TERM", "screen") ||
        variable_begins("TERM", "tmux"))
        return PICTURE_NONE;
    for (size_t i = 0; i < sizeof iterm / sizeof *iterm; i++) {
        if (variable_is("TERM_PROGRAM", iterm[i]))
            return PICTURE_ITERM;
    }
    for (size_t i = 0; i < sizeof kitty / sizeof *kitty; i++) {
        if (variable_is("TERM_PROGRAM", kitty[i]))
            return PICTURE_KITTY;
    }
    return getenv("KITTY_WINDOW_ID") != NULL || variable_is("TERM", "xterm-kitty") ? PICTURE_KITTY
                                                                                   : PICTURE_NONE;
}

// q=2: it answers nothing, which we would read as keys.
static void write_kitty(struct buf *out, const char *base64, size_t len)
{
    for (size_t at = 0; at < len; at += KITTY_PIECE) {
        size_t n = len - at < KITTY_PIECE ? len - at : KITTY_PIECE;
        (void)buf_printf(out, "\x1b_G%sm=%d;", at == 0 ? "a=T,f=100,q=2," : "q=2,", at + n < len);
        (void)buf_append(out, base64 + at, n);
        (void)buf_append_str(out, "\x1b\\");
    }
}

static void write_iterm(struct buf *out, const char *base64, size_t len)
{
    (void)buf_append_str(out, "\x1b]1337;File=inline=1:");
    (void)buf_append(out, base64, len);
    (void)buf_append_char(out, '\a');
}

int picture_draw(struct rich *rich, enum picture_way way, const char *base64, size_t len,
                 struct err *err)
{
    auto_buf out;
    buf_init(&out, 2 * len + 4096);
    if (way == PICTURE_KITTY)
        write_kitty(&out, base64, len);
    else
        write_iterm(&out, base64, len);
    (void)buf_append_char(&out, '\n');
    if (out.failed != 0) // it is in its file
        return 0;
    return rich_write(rich, STDOUT_FILENO, out.data, out.len, err);
}

// -- as files

// The server's word for the cell becomes part of a file's name: letters, digits, '-' and '_' of it.
static void write_name(const struct rich *rich, unsigned number, const char *ending,
                       struct buf *ret)
{
    buf_reset(ret);
    (void)buf_printf(ret, "%s/cay-", rich->dir);
    size_t before = ret->len;
    for (const char *c = rich->cell; *c != '\0'; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
        if (letter || (*c >= '0' && *c <= '9') || *c == '-' || *c == '_')
            (void)buf_append_char(ret, *c);
    }
    (void)buf_printf(ret, "%s%u.%s", ret->len > before ? "-" : "", number, ending);
}

// What is there already is never written over, nor is a link followed.
static int open_free(struct rich *rich, const char *ending, struct buf *name, struct err *err)
{
    for (unsigned i = 0; i < NUMBERS_MAX; i++) {
        write_name(rich, ++rich->files, ending, name);
        int fd = open(buf_str(name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (fd >= 0)
            return fd;
        if (errno != EEXIST)
            return err_sys(err, errno, "make '%s'", buf_str(name));
    }
    return err_set(err, ERR_EXHAUSTED, "all names up to '%s' are taken", buf_str(name));
}

// The cell's work is not lost because a picture could not be kept: that is said, and all goes on.
static int say_failure(const struct err *err)
{
    auto_buf text;
    buf_init(&text, 8 * sizeof err->msg);
    (void)text_plain(&text, err->msg, strlen(err->msg));
    (void)fprintf(stderr, "cay: %s\n", buf_str(&text));
    return 0;
}

int picture_save(struct rich *rich, const char *ending, const void *bytes, size_t len,
                 struct err *err)
{
    char size[24];
    auto_buf name, shown;
    buf_init(&name, 4096);
    buf_init(&shown, 16384);
    if (rich->no_files) {
        (void)fprintf(stderr, "cay: %s of %s, not kept\n", ending,
                      text_size(size, sizeof size, len));
        return 0;
    }
    auto_fd fd = rich_end_line(rich, err) < 0 ? -1 : open_free(rich, ending, &name, err);
    if (fd < 0)
        return say_failure(err);
    int r = fd_write_all(fd, bytes, len);
    if (r < 0) {
        (void)unlink(buf_str(&name));
        (void)err_sys(err, -r, "write '%s'", buf_str(&name));
        return say_failure(err);
    }
    (void)text_plain(&shown, buf_str(&name), name.len);
    (void)fprintf(stderr, "cay: wrote %s (%s)\n", buf_str(&shown),
                  text_size(size, sizeof size, len));
    return 0;
}
