// SPDX-License-Identifier: Apache-2.0
// One box, one program. A keeper is forked for it first; everything after that is what the daemon
// does with a claimed box, waited for step by step.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "cli/run.h"
#include "keeper/keeper.h"

enum {
    EXEC_ID = 1,
    REQUEST_CLAIM = 1,
    REQUEST_DESTROY = 2,
    // After a kill the guest answers in a few milliseconds. One that a hostile program has managed
    // to hold up is ended with its box instead.
    KILL_GRACE_MS = 2000,
};

struct run {
    const struct run_options *options;
    struct run_result *result;
    struct keeper_process keeper;
    int guest;
    uint64_t box;
    struct run_io io;
    int64_t deadline_ns; // 0: none
    int64_t give_up_ns;  // after a kill
    bool timed_out, killed, exited, lost;
};

static volatile sig_atomic_t pending_signals[NSIG];

static void on_signal(int sig)
{
    pending_signals[sig] = pending_signals[sig] + 1;
}

static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};

// Blocked, and let in only while we wait, so that none is missed between looking and waiting.
static void catch_signals(sigset_t *ret_waiting)
{
    sigset_t block;
    (void)sigemptyset(&block);
    struct sigaction act = {.sa_handler = on_signal};
    for (unsigned i = 0; i < sizeof forwarded / sizeof *forwarded; i++) {
        (void)sigaddset(&block, forwarded[i]);
        (void)sigaction(forwarded[i], &act, NULL);
    }
    (void)sigprocmask(SIG_BLOCK, &block, ret_waiting);
    for (unsigned i = 0; i < sizeof forwarded / sizeof *forwarded; i++)
        (void)sigdelset(ret_waiting, forwarded[i]);
    (void)signal(SIGPIPE, SIG_IGN);
}

// --- claiming ---

static int claim(struct run *run, struct err *err)
{
    struct keeper_event ev;
    // A keeper that could not start has said why, and is gone before it reads this.
    if (keeper_send_claim(run->keeper.sock, REQUEST_CLAIM, &run->options->claim, err) < 0 &&
        err->sys_errno != EPIPE)
        return -1;
    if (keeper_recv(run->keeper.sock, &ev, 0, err) < 0)
        return -1;
    if (ev.msg.head.type == KEEPER_ERROR)
        return keeper_error_take(&ev.msg.error, err);
    if (ev.msg.head.type != KEEPER_CLAIMED)
        return err_set(err, ERR_INTERNAL, "the keeper answered something else");
    run->guest = ev.guest;
    run->box = ev.msg.box.box;
    return 0;
}

static int start(struct run *run, struct err *err)
{
    const struct run_options *o = run->options;
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    if (o->tty)
        (void)ioctl(1, TIOCGWINSZ, &size);
    struct exec_spec spec = {
        .cwd = o->workdir,
        .argv = o->argv,
        .envp = o->env,
        .uid = o->uid,
        .gid = o->gid,
        .files = o->files,
        .flags = GUEST_EXEC_LAST | (o->tty ? GUEST_EXEC_TTY : GUEST_EXEC_STDIN),
        .rows = size.ws_row,
        .cols = size.ws_col,
    };
    struct guest_event ev;
    if (guest_send_exec(guest_fresh(run->guest), EXEC_ID, &spec, err) < 0 ||
        guest_recv(run->guest, &ev, 0, err) < 0)
        return -1;
    if (ev.msg.head.type == GUEST_FAILED) {
        (void)guest_failed_take(&ev.msg.failed, o->argv[0], o->workdir, err);
        if (ev.msg.failed.step == STEP_EXEC)
            run->result->start_failed = ev.msg.failed.sys_errno == ENOENT ? 127 : 126;
        return -1;
    }
    if (ev.msg.head.type != GUEST_STARTED)
        return err_set(err, ERR_INTERNAL, "the guest answered something else");
    io_init(&run->io, &ev, o, run->result);
    return 0;
}

// --- while it runs ---

static void kill_exec(struct run *run)
{
    struct err ignored;
    (void)guest_send_signal(guest_fresh(run->guest), EXEC_ID, SIGKILL, &ignored);
    run->give_up_ns = clock_ns() + KILL_GRACE_MS * NS_PER_MS;
}

static void pass_signals(struct run *run)
{
    struct err ignored;
    for (unsigned i = 0; i < sizeof forwarded / sizeof *forwarded; i++) {
        int sig = forwarded[i];
        int count = pending_signals[sig];
        pending_signals[sig] = 0;
        if (count == 0)
            continue;
        if (sig == SIGWINCH)
            io_resize(&run->io);
        else if (sig == SIGTERM && run->killed)
            kill_exec(run); // asked twice: no more patience
        else
            (void)guest_send_signal(guest_fresh(run->guest), EXEC_ID, sig, &ignored);
        run->killed = run->killed || sig == SIGTERM || sig == SIGINT;
    }
}

static void guest_event(struct run *run)
{
    struct guest_event ev;
    struct err ignored;
    int r = guest_recv(run->guest, &ev, MSG_DONTWAIT, &ignored);
    if (r < 0) {
        run->lost = true;
    } else if (r > 0 && ev.msg.head.type == GUEST_EXITED && ev.msg.head.id == EXEC_ID) {
        run->exited = true;
        run->result->status = ev.msg.exited.status;
        run->result->limits = ev.msg.exited.limits;
        run->result->cpu_usec = ev.msg.exited.cpu_usec;
    }
}

// How long to wait for the next thing, and what to do when that is over.
static struct timespec *time_left(const struct run *run, struct timespec *ts)
{
    int64_t until = run->give_up_ns != 0 ? run->give_up_ns : run->deadline_ns;
    if (until == 0)
        return NULL;
    int64_t left = until - clock_ns();
    left = left > 0 ? left : 0;
    *ts = (struct timespec){.tv_sec = left / NS_PER_S, .tv_nsec = left % NS_PER_S};
    return ts;
}

static void check_time(struct run *run)
{
    int64_t now = clock_ns();
    if (run->give_up_ns != 0 && now >= run->give_up_ns) {
        run->lost = true;
    } else if (run->give_up_ns == 0 && run->deadline_ns != 0 && now >= run->deadline_ns) {
        run->timed_out = true;
        kill_exec(run);
    }
}

static void follow(struct run *run, const sigset_t *waiting)
{
    while (!run->exited && !run->lost) {
        struct pollfd fds[2 + IO_POLL_MAX] = {
            {.fd = run->guest,       .events = POLLIN},
            {.fd = run->keeper.sock, .events = POLLIN},
        };
        struct timespec ts;
        unsigned n = io_poll(&run->io, fds + 2);
        int r = ppoll(fds, 2 + n, time_left(run, &ts), waiting);
        pass_signals(run);
        check_time(run);
        if (r <= 0)
            continue;
        io_move(&run->io, fds + 2, n);
        if (fds[0].revents != 0)
            guest_event(run);
        else if (fds[1].revents != 0)
            run->lost = true; // the keeper speaks unasked only when a box has died
    }
    io_drain(&run->io);
}

// --- the end ---

static enum run_reason reason(const struct run *run, bool oom)
{
    if (run->timed_out)
        return RUN_TIMEOUT;
    if (run->lost)
        return oom ? RUN_OOM : RUN_BOX_LOST;
    if (WIFEXITED(run->result->status))
        return RUN_EXIT;
    if (WTERMSIG(run->result->status) == SIGKILL && oom)
        return RUN_OOM;
    return run->killed ? RUN_KILLED : RUN_SIGNAL;
}

// Takes the box apart and learns what it used. Both messages may be on their way already if it
// died.
static void end_box(struct run *run)
{
    struct keeper_event ev;
    struct err ignored;
    bool oom = (run->result->limits & GUEST_LIMIT_OOM) != 0;
    if (!run->exited) // it was the box's last exec, else
        (void)keeper_send_destroy(run->keeper.sock, REQUEST_DESTROY, run->box, &ignored);
    while (keeper_recv(run->keeper.sock, &ev, 0, &ignored) > 0) {
        fd_close(ev.guest);
        if (ev.msg.head.type == KEEPER_ENDED) {
            run->result->cpu_usec = ev.msg.ended.cpu_usec;
            run->result->memory_peak = ev.msg.ended.memory_peak;
            oom = oom || ev.msg.ended.oom_kills > 0;
        } else if (ev.msg.head.type == KEEPER_GONE) {
            break;
        }
    }
    run->result->reason = reason(run, oom);
}

int run_in_box(const struct run_options *options, struct run_result *ret, struct err *err)
{
    struct run run = {
        .options = options,
        .result = ret,
        .guest = -1,
        .io = {.program = {-1, -1, -1}, .ours = {-1, -1, -1}},
    };
    struct keeper_config config = {.data = options->data, .boxes = 1, .once = 1};
    sigset_t waiting;
    if (keeper_start(&config, &run.keeper, err) < 0)
        return -1;
    catch_signals(&waiting);
    int r = claim(&run, err);
    int64_t began = clock_ns();
    if (r == 0)
        r = start(&run, err);
    if (r == 0) {
        if (options->timeout_ms > 0)
            run.deadline_ns = began + options->timeout_ms * NS_PER_MS;
        io_raw(options->tty);
        follow(&run, &waiting);
        io_raw(false);
        ret->wall_ns = clock_ns() - began;
        ret->truncated = run.io.truncated;
        end_box(&run);
    }
    io_done(&run.io);
    fd_close(run.guest);
    keeper_stop(&run.keeper);
    return r;
}
