// SPDX-License-Identifier: Apache-2.0
// A cell typed at a terminal: keys into the editor, what it draws onto the screen.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "cli/repl.h"
#include "cli/shell.h"

#define PASTE_ON  "\x1b[?2004h"
#define PASTE_OFF "\x1b[?2004l"

enum {
    READ_SIZE = 16 * 1024,
    TYPED_MAX = 64 * 1024,
    SCREEN_MAX = 32 * 1024 * 1024,
};

void prompt_init(struct prompt *prompt, const struct history *history)
{
    *prompt = (struct prompt){
        .view = {.cols = 80, .rows = 24}
    };
    line_init(&prompt->line, history);
    buf_init(&prompt->typed, TYPED_MAX);
}

void prompt_done(struct prompt *prompt)
{
    line_done(&prompt->line);
    buf_done(&prompt->typed);
}

static bool is_incomplete(void *data, const char *text, size_t len)
{
    const struct lang *lang = data;
    return text[0] != ':' && lang_incomplete(lang->rule, text, len);
}

static void show(struct prompt *prompt, const char *first, bool whole, const char *last)
{
    auto_buf out;
    buf_init(&out, SCREEN_MAX);
    tty_size(&prompt->view.cols, &prompt->view.rows);
    (void)buf_append_str(&out, first);
    line_draw(&prompt->line, &prompt->view, whole, &out);
    (void)buf_append_str(&out, last);
    (void)tty_show(buf_str(&out), out.len);
}

// The terminal's other ends: a signal, and nobody there any more. Not 0: it is over.
static int see_signals(struct prompt *prompt)
{
    for (int number; (number = tty_signal()) != 0;) {
        if (number == SIGWINCH)
            show(prompt, "", /* whole */ false, "");
        else if (number != SIGINT && number != SIGQUIT)
            return -1;
    }
    return 0;
}

// More keys, or 0 for none now. -1: nobody is there.
static int read_keys(struct prompt *prompt)
{
    char *at;
    size_t room;
    struct pollfd fds[] = {
        {.fd = STDIN_FILENO,  .events = POLLIN},
        {.fd = tty_wake_fd(), .events = POLLIN},
    };
    if (poll(fds, 2, -1) < 0)
        return errno == EINTR ? 0 : -1;
    if (fds[1].revents != 0 && see_signals(prompt) < 0)
        return -1;
    if (fds[0].revents == 0)
        return 0;
    if (buf_reserve(&prompt->typed, READ_SIZE, &at, &room) < 0)
        return -1;
    ssize_t n = read(STDIN_FILENO, at, room);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (n <= 0)
        return -1;
    buf_commit(&prompt->typed, (size_t)n);
    return 0;
}

// Feeds keys up to one that ends something; the others stay for the next cell.
static enum line_state feed(struct prompt *prompt)
{
    enum line_state state = LINE_EDITING;
    size_t at = 0;
    while (at < prompt->typed.len && state == LINE_EDITING)
        state = line_feed(&prompt->line, prompt->typed.data[at++]);
    buf_consume(&prompt->typed, at);
    return state;
}

static void stop_ourselves(struct prompt *prompt)
{
    show(prompt, PASTE_OFF, /* whole */ true, "\r\n");
    (void)raise(SIGTSTP); // noted; tty_signal sees to it, and we are drawn again
    prompt->view.cursor_row = 0;
    if (see_signals(prompt) == 0)
        (void)tty_show(PASTE_ON, sizeof PASTE_ON - 1);
}

static enum line_state edit(struct prompt *prompt)
{
    for (;;) {
        enum line_state state = feed(prompt);
        switch (state) {
        case LINE_EDITING:
            show(prompt, "", /* whole */ false, "");
            if (read_keys(prompt) < 0)
                return LINE_ENDED;
            break;
        case LINE_CLEARED:
            prompt->view.cursor_row = 0;
            show(prompt, "\x1b[H\x1b[2J", /* whole */ false, "");
            break;
        case LINE_STOPPED:
            stop_ourselves(prompt);
            break;
        case LINE_ENTERED:
        case LINE_CANCELLED:
        case LINE_ENDED:
            return state;
        }
    }
}

enum line_state prompt_read(struct prompt *prompt, const struct lang *lang)
{
    line_restart(&prompt->line);
    prompt->line.is_incomplete = is_incomplete;
    prompt->line.data = (void *)(uintptr_t)lang;
    prompt->view.prompt = lang->prompt;
    prompt->view.more = lang->more;
    prompt->view.cursor_row = 0;
    tty_raw(true);
    (void)tty_show(PASTE_ON, sizeof PASTE_ON - 1);
    enum line_state state = edit(prompt);
    prompt->line.searching = false;
    show(prompt, "", /* whole */ true, state == LINE_CANCELLED ? "^C\r\n" : "\r\n");
    (void)tty_show(PASTE_OFF, sizeof PASTE_OFF - 1);
    tty_raw(false);
    return state;
}
