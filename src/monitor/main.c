// SPDX-License-Identifier: Apache-2.0
// cay-monitor: the live screen of `cay monitor`, which starts it with its own flags.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/cli.h"
#include "cli/monitor.h"
#include "monitor/screen.h"
#include "monitor/ui.h"

enum { EMPTY_READS_MAX = 50 };

// Signals are heard through a descriptor, so that they come at a moment that suits us. SIGTSTP is
// left to ncurses, which gives the terminal back meanwhile.
static int catch_signals(sigset_t *ret, struct err *err)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
    (void)sigemptyset(ret);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        (void)sigaddset(ret, numbers[i]);
    (void)signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, ret, NULL) < 0)
        return err_sys(err, errno, "block signals");
    int fd = signalfd(-1, ret, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? err_sys(err, errno, "hear of signals") : fd;
}

// The signal that ends us, or 0.
static int take_signals(int fd)
{
    struct signalfd_siginfo info;
    bool resized = false;
    int number = 0;
    while (read(fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGWINCH)
            resized = true;
        else
            number = (int)info.ssi_signo;
    }
    if (resized)
        screen_resized();
    return number;
}

// How many keys there were.
static unsigned take_keys(struct ui *ui)
{
    unsigned n = 0;
    for (int key; !ui->quit && (key = screen_key()) != SCREEN_NO_KEY; n++)
        ui_key(ui, key);
    return n;
}

// Until it is left; the signal that ended it, or 0.
static int loop(struct ui *ui, int signal_fd)
{
    struct pollfd fds[] = {
        {.fd = STDIN_FILENO,        .events = POLLIN},
        {.fd = fetch_fd(ui->fetch), .events = POLLIN},
        {.fd = signal_fd,           .events = POLLIN},
    };
    unsigned empty = 0;
    ui_draw(ui);
    while (!ui->quit) {
        if (poll(fds, 3, -1) < 0 && errno != EINTR)
            return SIGHUP;
        int number = fds[2].revents != 0 ? take_signals(signal_fd) : 0;
        if (number != 0)
            return number;
        bool any = take_keys(ui) > 0;
        // A terminal that is gone can be read for ever, and has nothing to say.
        empty = fds[0].revents != 0 && !any ? empty + 1 : 0;
        if ((fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0 || empty > EMPTY_READS_MAX)
            return SIGHUP;
        struct report *report = fds[1].revents != 0 ? fetch_take(ui->fetch) : NULL;
        if (report != NULL)
            ui_report(ui, report);
        ui_draw(ui);
    }
    return 0;
}

// As if nobody had caught it: whoever started us sees what it was.
static void end_by(int number, const sigset_t *blocked)
{
    (void)signal(number, SIG_DFL);
    (void)raise(number);
    (void)sigprocmask(SIG_UNBLOCK, blocked, NULL);
}

static int run(struct remote *remote, const struct monitor_options *options)
{
    static struct ui ui;
    struct err err = {0};
    sigset_t blocked;
    auto_fd signal_fd = catch_signals(&blocked, &err);
    if (signal_fd < 0)
        return cli_fail(&err);
    ui.server = remote->place.text;
    ui.fetch = fetch_start(remote, options->interval_ms, &err);
    if (ui.fetch == NULL)
        return cli_fail(&err);
    int number = 0, r = screen_open(&err);
    if (r == 0)
        number = loop(&ui, signal_fd);
    screen_close();
    fetch_stop(ui.fetch);
    report_free(ui.now);
    if (number != 0)
        end_by(number, &blocked);
    return r < 0 ? cli_fail(&err) : CLI_OK;
}

int main(int argc, char **argv)
{
    struct monitor_options options;
    int code;
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        (void)puts("cay-monitor " CAY_VERSION);
        return CLI_OK;
    }
    auto_remote remote;
    const struct command_line line = monitor_line(&options);
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    if (remote.n_words > 0 || options.once || remote.json)
        return remote_usage(&remote, "this is its screen: ask 'cay monitor' for the rest");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return remote_usage(&remote, "the live screen needs a terminal");
    return run(&remote, &options);
}
