// SPDX-License-Identifier: Apache-2.0
// `cay upgrade`: asks the server of a data directory to go on as the program that lies in its place
// now, and waits until that serves. What runs in sandboxes does not notice.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/opt.h"
#include "box/data.h"
#include "cli/cli.h"
#include "keeper/keeper.h"

enum { FLAG_DATA, N_FLAGS };

static const struct opt opts[N_FLAGS] = {
    [FLAG_DATA] = {.name = "data",
                   .metavar = "DIR",
                   .help = "of the server (or CAY_DATA)",
                   .default_text = DATA_DEFAULT},
};

static const struct opt_spec spec = {
    .usage = "cay upgrade [--data DIR]",
    .summary =
        "Has the running server go on as the program that was installed in its place: first copy\n"
        "the new cay and cayd over the old (with mv or install), then say this. Sandboxes run on,\n"
        "no connection is refused. A program that does not start is not taken.",
    .opts = opts,
    .n_opts = N_FLAGS,
};

enum { PATIENCE_MS = 60000, LOOK_MS = 20 };

static void nap(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000}, NULL);
}

// A text that is just being written is read again.
static int read_status(int fd, struct keeper_status *ret, struct err *err)
{
    int r = -EAGAIN;
    for (int i = 0; r == -EAGAIN && i < 100; i++) {
        r = keeper_status_read(fd, ret);
        if (r == -EAGAIN)
            nap();
    }
    return r < 0 ? err_sys(err, -r, "read the server's pid file") : 0;
}

static int not_served(const char *data, struct err *err)
{
    return err_set(err, ERR_NOT_FOUND,
                   "no server uses the data directory '%s' (cay serve starts one, --data names "
                   "another)",
                   data);
}

// The pid file of a server that runs: it holds the lock on it.
static int open_status(const char *data, struct err *err)
{
    auto_fd dir = open(data, O_PATH | O_DIRECTORY | O_CLOEXEC);
    auto_fd fd = dir < 0 ? -1 : openat(dir, "cay.pid", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return not_served(data, err);
    if (flock(fd, LOCK_SH | LOCK_NB) == 0)
        return not_served(data, err);
    return TAKE_FD(fd);
}

static int await(int fd, int pidfd, const struct keeper_status *before, struct keeper_status *ret,
                 struct err *err)
{
    int64_t until = clock_ns() + PATIENCE_MS * NS_PER_MS;
    while (clock_ns() < until) {
        if (pidfd_send_signal(pidfd, 0, NULL, 0) < 0)
            return err_set(err, ERR_INTERNAL, "the server has ended; what it said is in its log");
        if (read_status(fd, ret, err) < 0)
            return -1;
        if (ret->refused != before->refused)
            return err_set(err, ERR_UNAVAILABLE, "the server goes on as it was: %s", ret->why);
        if (ret->generation != before->generation && ret->serving)
            return 0;
        nap();
    }
    return err_set(err, ERR_UNAVAILABLE, "the server does not answer again; its log may say why");
}

static int upgrade(const char *data, struct err *err)
{
    struct keeper_status before, now;
    if (geteuid() != 0)
        return err_set(err, ERR_DENIED, "only root may do this: sudo cay upgrade");
    auto_fd fd = open_status(data, err);
    if (fd < 0 || read_status(fd, &before, err) < 0)
        return -1;
    auto_fd pidfd = pidfd_open(before.pid, 0);
    if (pidfd < 0 || pidfd_send_signal(pidfd, SIGUSR2, NULL, 0) < 0)
        return err_sys(err, errno, "ask the server, process %d", before.pid);
    if (await(fd, pidfd, &before, &now, err) < 0)
        return -1;
    (void)printf("cay %s -> %s\n", before.version, now.version);
    return 0;
}

int cmd_upgrade(int argc, char **argv)
{
    struct opt_reader reader;
    struct err err = {0};
    const char *value, *data = NULL;
    int which;
    opt_start(&reader, &spec, argc, argv);
    while ((which = opt_next(&reader, &value, &err)) >= 0) {
        if (which == OPT_WORD) {
            (void)err_set(&err, ERR_INVALID, "'%.40s' is one word too many", value);
            return cli_usage("upgrade", &err);
        }
        data = value;
    }
    if (which == OPT_HELP)
        opt_print_help(stdout, &spec);
    if (which == OPT_FAILED)
        return cli_usage("upgrade", &err);
    if (which == OPT_HELP)
        return CLI_OK;
    return upgrade(data_path(data), &err) < 0 ? cli_fail(&err) : CLI_OK;
}
