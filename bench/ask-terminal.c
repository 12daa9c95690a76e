// SPDX-License-Identifier: Apache-2.0
// `cay ask` as a person starts it, on a terminal: how long until the first of the code is seen.
// Beside it, in turns, when the model's first byte comes to a client that does nothing else, and a
// Node that is started bare and does nothing.
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ask.h"
#include "base/clock.h"
#include "base/fd.h"

enum { WARM_UP = 3, SCREEN_MAX = 16 * 1024 };

static const char *const node[] = {"/usr/bin/node", "-e", "0", NULL};

static _Noreturn void be_ask(const struct ask_bench *b, const char *words)
{
    char home[512];
    (void)snprintf(home, sizeof home, "HOME=%s", b->data);
    const char *const argv[] = {b->cay, "ask", "--data", b->data, words, NULL};
    const char *const environment[] = {"PATH=/usr/bin:/bin", "TERM=xterm-256color", "LANG=C.UTF-8",
                                       home, NULL};
    (void)execve(b->cay, (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)environment);
    _exit(127);
}

// All that it writes, until it closes the terminal. When the first of the code was there, or 0.
static int64_t read_screen(int fd, char screen[SCREEN_MAX])
{
    size_t len = 0;
    int64_t seen = 0;
    for (ssize_t n; len < SCREEN_MAX - 1; len += (size_t)n) {
        n = read(fd, screen + len, SCREEN_MAX - 1 - len); // EIO: it is closed
        if (n <= 0)
            break;
        screen[len + (size_t)n] = '\0';
        if (seen == 0 && strstr(screen, ASK_CODE_SEEN) != NULL)
            seen = clock_ns();
    }
    return seen;
}

static int64_t ask(const struct ask_bench *b)
{
    static char screen[SCREEN_MAX];
    struct winsize size = {.ws_row = 24, .ws_col = 100};
    const char *words = ask_words();
    int fd = -1, status = 0;
    screen[0] = '\0';
    int64_t began = clock_ns();
    pid_t pid = forkpty(&fd, NULL, NULL, &size);
    if (pid < 0)
        die("forkpty: %m");
    if (pid == 0)
        be_ask(b, words);
    int64_t seen = read_screen(fd, screen);
    fd_close(fd);
    if (waitpid(pid, &status, 0) != pid || status != 0 || seen == 0 ||
        strstr(screen, ASK_OUTPUT) == NULL)
        die("cay ask ended with status 0x%x and this on the screen: %.1000s", (unsigned)status,
            screen);
    return seen - began;
}

// Questions leave their sandboxes, for whoever wants to go on.
static void clear(struct http_conn *c)
{
    struct http_answer answer = http_must(c, "GET", "/execute?limit=1", NULL);
    ask_clear(c, &answer);
}

struct sides {
    struct series ours, node, first;
};

static void one_round(const struct ask_bench *b, struct http_conn *c, struct model_conn *m,
                      struct sides *s)
{
    ask_prepare(c);
    series_add(&s->node, bare_command(node));
    ask_prepare(c);
    series_add(&s->first, model_call(m).first);
    ask_prepare(c);
    series_add(&s->ours, ask(b));
    clear(c);
}

static void init(struct sides *s, unsigned rounds)
{
    series_init(&s->ours, "cay ask", rounds);
    series_init(&s->node, "node", rounds);
    series_init(&s->first, "model's first byte", rounds);
}

void line_ask_terminal(const struct ask_bench *b)
{
    static struct http_conn c;
    struct model_conn m;
    struct sides s;
    http_open(&c, &b->http);
    model_open(&m, b, b->question);
    note("code on a terminal, %u rounds", b->starts);
    init(&s, b->starts);
    for (unsigned i = 0; i < WARM_UP; i++)
        one_round(b, &c, &m, &s);
    s.ours.n = s.node.n = s.first.n = 0;
    for (unsigned i = 0; i < b->starts; i++)
        one_round(b, &c, &m, &s);
    series_done(&s.ours, "terminal");
    series_done(&s.node, "terminal");
    series_done(&s.first, "terminal");
    model_close(&m);
    http_close(&c);
}
