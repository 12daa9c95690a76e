// SPDX-License-Identifier: Apache-2.0
// `cay monitor`: the live screen is a program of its own, cay-monitor, because it stands on shared
// libraries (ncurses) and cay on none. What needs no screen is done here.
#include "cli/monitor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

// Beside our own program, or where an installation keeps such.
static int find_screen(char *ret, size_t size, struct err *err)
{
    static const char *const places[] = {"cay-monitor", "../libexec/cay/cay-monitor"};
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return err_sys(err, errno, "find our own program");
    self[n] = '\0';
    const char *slash = strrchr(self, '/');
    int dir = slash != NULL ? (int)(slash - self) : 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        (void)snprintf(ret, size, "%.*s/%s", dir, self, places[i]);
        if (access(ret, X_OK) == 0)
            return 0;
    }
    return err_set(err, ERR_NOT_FOUND,
                   "the program 'cay-monitor' should lie beside cay: without it there is "
                   "'cay monitor --once'");
}

// The same flags once more, and the environment as it is: it finds the same server.
static int show_screen(char **argv)
{
    struct err err;
    char path[4200];
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        (void)err_set(&err, ERR_INVALID,
                      "the live screen needs a terminal: 'cay monitor --once' prints it once");
        return cli_fail(&err);
    }
    if (find_screen(path, sizeof path, &err) < 0)
        return cli_fail(&err);
    (void)execv(path, argv);
    (void)err_sys(&err, errno, "start '%.150s'", path);
    return cli_fail(&err);
}

int cmd_monitor(int argc, char **argv)
{
    struct monitor_options options;
    int code;
    auto_remote remote;
    const struct command_line line = monitor_line(&options);
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    if (remote.n_words > 0 && options.once)
        return remote_usage(&remote, "--once looks at the server, and takes no prompt");
    if (remote.n_words > 0)
        return monitor_prompt(&remote, &options);
    if (options.once)
        return monitor_once(&remote);
    if (remote.json)
        return remote_usage(&remote, "--json goes with --once, or with a prompt");
    return show_screen(argv);
}
