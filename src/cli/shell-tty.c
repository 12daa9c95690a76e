// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "cli/shell.h"

enum {
    ESCAPE = 0x1d, // Ctrl-]
    READ_SIZE = 16 * 1024,
};

static struct termios saved;
static volatile sig_atomic_t is_raw;
static int wake[2] = {-1, -1};
static bool escaped;    // the last key was ESCAPE
static bool is_altered; // the program has switched to the other screen

// -- modes

// Also in a signal's handler: tcsetattr may be called there.
static void restore(void)
{
    if (is_raw)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &saved);
    is_raw = 0;
}

void tty_raw(bool on)
{
    struct termios raw = saved;
    if (!on) {
        restore();
        return;
    }
    cfmakeraw(&raw);
    is_raw = 1; // before it is: whoever ends us in between restores for nothing
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

// -- signals

static void note_signal(int number)
{
    int kept = errno;
    char byte = (char)number;
    (void)!write(wake[1], &byte, 1);
    errno = kept;
}

// For those that leave no time: the terminal first, then what they do by themselves.
static void die_restored(int number)
{
    restore();
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

int tty_open(struct err *err)
{
    static const int told[] = {SIGWINCH, SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGTSTP};
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    const struct sigaction note = {.sa_handler = note_signal, .sa_flags = SA_RESTART};
    const struct sigaction die = {.sa_handler = die_restored, .sa_flags = (int)SA_RESETHAND};
    if (tcgetattr(STDIN_FILENO, &saved) < 0)
        return err_sys(err, errno, "look at the terminal");
    if (pipe2(wake, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_sys(err, errno, "make a pipe");
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        (void)sigaction(told[i], &note, NULL);
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        (void)sigaction(fatal[i], &die, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)atexit(restore);
    return 0;
}

int tty_wake_fd(void)
{
    return wake[0];
}

static void pause_ourselves(void)
{
    bool was_raw = is_raw;
    restore();
    (void)kill(getpid(), SIGSTOP);
    if (was_raw)
        tty_raw(true);
}

int tty_signal(void)
{
    char number;
    if (read(wake[0], &number, 1) != 1)
        return 0;
    if (number != SIGTSTP)
        return number;
    pause_ourselves();
    return SIGWINCH;
}

void tty_size(unsigned *ret_cols, unsigned *ret_rows)
{
    struct winsize size;
    *ret_cols = 80;
    *ret_rows = 24;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
        *ret_cols = size.ws_col;
        *ret_rows = size.ws_row;
    }
}

// -- keys

static enum tty_keys take_key(char key, struct buf *ret)
{
    if (!escaped && key == ESCAPE) {
        escaped = true;
        return TTY_KEYS;
    }
    if (escaped && (key == 'd' || key == 'D'))
        return TTY_DETACH;
    if (escaped && key != ESCAPE)
        (void)buf_append_char(ret, ESCAPE); // it was not for us after all
    escaped = false;
    (void)buf_append_char(ret, key);
    return TTY_KEYS;
}

enum tty_keys tty_read(struct buf *ret)
{
    char keys[READ_SIZE];
    ssize_t n = read(STDIN_FILENO, keys, sizeof keys);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return TTY_KEYS;
    if (n <= 0)
        return TTY_GONE;
    for (ssize_t i = 0; i < n; i++) {
        if (take_key(keys[i], ret) == TTY_DETACH)
            return TTY_DETACH;
    }
    return TTY_KEYS;
}

// -- the screen

static void note_screen(const char *bytes, size_t len)
{
    static const char on[] = "\033[?1049h", off[] = "\033[?1049l";
    const char *last_on = NULL, *at = bytes;
    while ((at = memmem(at, len - (size_t)(at - bytes), on, sizeof on - 1)) != NULL)
        last_on = at++;
    const char *from = last_on != NULL ? last_on : bytes;
    if (last_on != NULL)
        is_altered = true;
    if (memmem(from, len - (size_t)(from - bytes), off, sizeof off - 1) != NULL)
        is_altered = false;
}

int tty_show(const char *bytes, size_t len)
{
    note_screen(bytes, len);
    while (len > 0) {
        ssize_t n = write(STDOUT_FILENO, bytes, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) { // somebody else's doing: it is shared
            struct pollfd wait = {.fd = STDOUT_FILENO, .events = POLLOUT};
            (void)poll(&wait, 1, -1);
            continue;
        }
        if (n < 0)
            return -1;
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}

void tty_calm(void)
{
    // Pasting, mouse, cursor, keypad, colours.
    static const char calm[] =
        "\033[?2004l\033[?1000l\033[?1002l\033[?1003l\033[?1006l\033[?25h\033>\033[0m";
    if (is_altered)
        (void)tty_show("\033[?1049l", 8);
    (void)tty_show(calm, sizeof calm - 1);
}
