// SPDX-License-Identifier: Apache-2.0
// A keeper that serves. It holds the listening sockets, so that no connection is refused while
// there is no daemon, and the boxes, which do not notice; it starts a daemon, another when that
// dies, and on SIGUSR2 makes way for a new program in its own place (state.c).
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/title.h"
#include "keeper/keeper-internal.h"
#include "keeper/serve-internal.h"

enum {
    QUICK_MS = 1000, // a daemon that lived less was never well
    QUICK_FREE = 2,  // so many of these in a row may happen
    QUICK_MAX = 10,  // and after so many nobody believes in the next
    BACK_OFF_MS = 100,
    BACK_OFF_MAX_MS = 5000,
    GREET_PATIENCE_MS = 2000, // for boxes of the last daemon to be gone
    RESPAWN_MS = 1000,
    SILENCE_MS = 1000,     // from the end of its socket to its own
    DRAIN_MORE_MS = 15000, // beyond what it was told
    UPGRADE_PATIENCE_MS = 10000,
};

static int64_t after(int64_t ms)
{
    return clock_ns() + ms * NS_PER_MS;
}

static int is_due(int64_t when)
{
    return when != 0 && clock_ns() >= when;
}

int serve_is_ending(const struct keeper *k)
{
    return k->serve != NULL && (k->serve->stops > 0 || k->serve->upgrading);
}

// --- the daemon's life ---

static void signal_daemon(struct serve *s, int sig)
{
    if (s->daemon >= 0)
        (void)pidfd_send_signal(s->daemon, sig, NULL, 0);
}

void serve_misbehaved(struct keeper *k, const char *what)
{
    if (k->serve == NULL || k->serve->daemon < 0)
        return;
    log_line(LOG_ERROR, "the daemon is ended", "why", what, NULL);
    signal_daemon(k->serve, SIGKILL);
}

// As a rule it is dying, and that will be heard next.
void serve_fell_silent(struct keeper *k)
{
    if (k->serve->daemon >= 0 && k->serve->kill_due_ns == 0)
        k->serve->kill_due_ns = after(SILENCE_MS);
}

static void close_all(struct keeper *k)
{
    k->closing = 1;
    end_all(k);
}

static void give_up(struct keeper *k, const struct err *last)
{
    struct serve *s = k->serve;
    (void)err_set(&s->err, ERR_INTERNAL,
                  "gave up after the daemon failed %u times in a row, at last: %s (what it said "
                  "stands above)",
                  s->quick_deaths, last->msg);
    s->failed = 1;
    close_all(k);
}

static void start_again(struct keeper *k, int was_quick, const struct err *why)
{
    struct serve *s = k->serve;
    s->quick_deaths = was_quick ? s->quick_deaths + 1 : 0;
    if (s->quick_deaths >= QUICK_MAX) {
        give_up(k, why);
        return;
    }
    int64_t ms = 0;
    if (s->quick_deaths > QUICK_FREE) {
        ms = (int64_t)BACK_OFF_MS << (s->quick_deaths - QUICK_FREE - 1);
        ms = ms < BACK_OFF_MAX_MS ? ms : BACK_OFF_MAX_MS;
    }
    s->start_due_ns = after(ms);
}

static void start_daemon(struct keeper *k)
{
    struct serve *s = k->serve;
    struct err err = {0};
    s->start_due_ns = 0;
    s->serving = 0;
    s->started_ns = clock_ns();
    k->restarts = s->has_started ? k->restarts + 1 : k->restarts;
    s->has_started = 1;
    s->daemon = daemon_start(s->config, &k->client, &err);
    int r = s->daemon < 0 ? -1 : keeper_watch(k, s->daemon, EVENT_DAEMON, 0);
    if (r < 0 && s->daemon >= 0)
        (void)err_sys(&err, -r, "watch the daemon");
    if (r < 0) {
        log_line(LOG_ERROR, "cannot start the daemon", "why", err.msg, NULL);
        signal_daemon(s, SIGKILL);
        keeper_unwatch(k, TAKE_FD(s->daemon));
        client_lost(k);
        start_again(k, 1, &err);
        return;
    }
    s->greet_due_ns = after(GREET_PATIENCE_MS);
}

static int is_greeting_due(const struct keeper *k)
{
    return k->client >= 0 && !k->greeted && !k->client_over && !work_is_busy(k) &&
           (k->table.n[COUNT_MUTE] == 0 || is_due(k->serve->greet_due_ns));
}

static void describe_end(const siginfo_t *info, struct err *ret)
{
    if (info->si_code == CLD_EXITED)
        (void)err_set(ret, ERR_INTERNAL, "it exited with code %d", info->si_status);
    else
        (void)err_set(ret, ERR_INTERNAL, "signal %d ended it", info->si_status);
}

// One that was well and was killed by somebody is not at fault.
static int died_of_itself(const struct serve *s, const siginfo_t *info)
{
    int killed = info->si_code != CLD_EXITED && info->si_status == SIGKILL;
    return clock_ns() - s->started_ns < QUICK_MS * NS_PER_MS && !(s->serving && killed);
}

void serve_daemon_event(struct keeper *k)
{
    struct serve *s = k->serve;
    struct err why = {0};
    siginfo_t info = {0};
    if (s->daemon < 0 || waitid(P_PIDFD, (id_t)s->daemon, &info, WEXITED | WNOHANG) < 0 ||
        info.si_pid == 0)
        return;
    keeper_unwatch(k, TAKE_FD(s->daemon));
    s->kill_due_ns = 0;
    while (k->greeted && request_event(k)) // its last words: a disk that was to be kept
        ;
    client_lost(k);
    describe_end(&info, &why);
    if (s->stops > 0) {
        close_all(k);
    } else if (s->upgrading) {
        end_unclaimed(k);
    } else {
        log_line(LOG_WARN, "the daemon ended, starting another", "why", why.msg, NULL);
        start_again(k, died_of_itself(s, &info), &why);
    }
}

void serve_serving(struct keeper *k)
{
    struct serve *s = k->serve;
    if (s == NULL || s->serving)
        return;
    s->serving = 1;
    serve_tell_status(k);
    if (!s->told && s->config->on_serving != NULL)
        s->config->on_serving(s->config->arg);
    s->told = 1;
}

// --- signals ---

static void stop(struct keeper *k)
{
    struct serve *s = k->serve;
    s->stops++;
    if (s->daemon < 0) {
        if (!k->closing)
            close_all(k);
        return;
    }
    if (s->stops == 1)
        s->kill_due_ns = after(s->config->drain_ms + DRAIN_MORE_MS);
    signal_daemon(s, s->stops == 1 && !s->upgrading ? SIGTERM : SIGKILL);
}

static void begin_upgrade(struct keeper *k)
{
    struct serve *s = k->serve;
    struct err err = {0};
    if (s->stops > 0 || s->upgrading)
        return;
    if (daemon_try(s->config->self, &err) < 0 || daemon_try(s->config->daemon, &err) < 0) {
        serve_refuse_upgrade(k, &err);
        return;
    }
    log_line(LOG_INFO, "making way for a new program", "program", s->config->self, NULL);
    s->upgrading = 1;
    s->upgrade_due_ns = after(UPGRADE_PATIENCE_MS);
    s->start_due_ns = 0;
    // It may die at any moment, and draining would put every sandbox to sleep.
    signal_daemon(s, SIGKILL);
    if (s->daemon < 0)
        end_unclaimed(k);
}

void serve_signal_event(struct keeper *k)
{
    struct signalfd_siginfo info;
    if (read(k->serve->signals, &info, sizeof info) != sizeof info)
        return;
    if (info.ssi_signo == SIGUSR2)
        begin_upgrade(k);
    else
        stop(k);
}

static int catch_signals(struct keeper *k, struct err *err)
{
    static const int caught[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR2};
    sigset_t set;
    (void)sigemptyset(&set);
    for (unsigned i = 0; i < sizeof caught / sizeof *caught; i++)
        (void)sigaddset(&set, caught[i]);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    k->serve->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (k->serve->signals < 0)
        return err_sys(err, errno, "signalfd");
    int r = keeper_watch(k, k->serve->signals, EVENT_SIGNAL, 0);
    return r < 0 ? err_sys(err, -r, "watch signals") : 0;
}

// --- what is due ---

static int is_upgrade_possible(const struct keeper *k)
{
    return k->serve->upgrading && k->serve->stops == 0 && !k->closing && k->serve->daemon < 0 &&
           k->table.n[COUNT_USED] == k->table.n[COUNT_LIVE] && !work_is_busy(k);
}

static void respawn(struct keeper *k)
{
    struct err err = {0};
    k->serve->respawn_due_ns = after(RESPAWN_MS); // unless it goes well
    zygote_spawner_lost(k);
    spawner_link_forget(k);
    if (spawner_link_start(k, &err) < 0)
        log_line(LOG_ERROR, "cannot start the spawner", "why", err.msg, NULL);
    else
        log_line(LOG_WARN, "the spawner ended, started another", NULL);
}

static int wants_spawner(const struct keeper *k)
{
    return k->spawner < 0 && !serve_is_ending(k) && !k->closing;
}

void serve_work(struct keeper *k)
{
    struct serve *s = k->serve;
    struct err err = {0};
    if (s == NULL)
        return;
    if (is_due(s->start_due_ns) && !serve_is_ending(k) && !k->closing)
        start_daemon(k);
    if (is_greeting_due(k))
        client_greet(k);
    if (is_due(s->kill_due_ns)) {
        s->kill_due_ns = 0;
        log_line(LOG_WARN, "the daemon takes too long to end, killing it", NULL);
        signal_daemon(s, SIGKILL);
    }
    if (wants_spawner(k) && clock_ns() >= s->respawn_due_ns)
        respawn(k);
    if (is_upgrade_possible(k)) {
        serve_upgrade(k);
    } else if (s->upgrading && s->stops == 0 && is_due(s->upgrade_due_ns)) {
        (void)err_set(&err, ERR_UNAVAILABLE, "boxes that were being made do not end");
        serve_refuse_upgrade(k, &err);
    }
}

static void note_due(int64_t when, int64_t *at)
{
    if (when != 0 && (*at == 0 || when < *at))
        *at = when;
}

int serve_wait(const struct keeper *k)
{
    const struct serve *s = k->serve;
    int64_t at = 0;
    if (s == NULL)
        return -1;
    if (is_greeting_due(k) || is_upgrade_possible(k))
        return 0;
    if (!serve_is_ending(k) && !k->closing)
        note_due(s->start_due_ns, &at);
    if (k->client >= 0 && !k->greeted && !k->client_over && !work_is_busy(k))
        note_due(s->greet_due_ns, &at);
    note_due(s->kill_due_ns, &at);
    if (wants_spawner(k))
        note_due(s->respawn_due_ns != 0 ? s->respawn_due_ns : 1, &at);
    if (s->upgrading && s->stops == 0)
        note_due(s->upgrade_due_ns, &at);
    if (at == 0)
        return -1;
    int64_t left = at - clock_ns();
    return left > 0 ? (int)((left + NS_PER_MS - 1) / NS_PER_MS) : 0;
}

void serve_resume_work(struct keeper *k)
{
    struct serve *s = k->serve;
    s->upgrading = 0;
    s->upgrade_due_ns = 0;
    s->respawn_due_ns = 0;
    if (s->daemon < 0)
        s->start_due_ns = clock_ns();
}

// --- all of it ---

static int begin(struct keeper *k, struct err *err)
{
    if (getrandom(&k->run, sizeof k->run, 0) != sizeof k->run)
        return err_sys(err, errno, "getrandom");
    if (k->serve->config->resume >= 0 && state_load_early(k, k->serve->config->resume, err) < 0)
        return -1;
    if (keeper_begin(k, err) < 0 || catch_signals(k, err) < 0)
        return -1;
    if (k->resumed && state_load_boxes(k, k->serve->config->resume, err) < 0)
        return -1;
    pool_sweep(k);
    serve_tell_status(k);
    k->serve->start_due_ns = clock_ns();
    return 0;
}

int keeper_serve(const struct keeper_serving *serving, struct err *err)
{
    static struct keeper k;
    static struct serve s;
    s = (struct serve){
        .config = serving,
        .signals = -1,
        .daemon = -1,
        .told = serving->resume >= 0, // whoever started us has heard it from the program before
    };
    k = (struct keeper){
        .config = serving->boxes,
        .serve = &s,
        .client = -1,
        .spawner = -1,
        .epoll = -1,
        .data_fd = -1,
    };
    title_set("cay serve");
    int r = begin(&k, err);
    if (r == 0)
        keeper_loop(&k);
    keeper_finish(&k);
    fd_close(s.signals);
    fd_close(k.epoll);
    if (s.failed)
        *err = s.err;
    return s.failed ? -1 : r;
}
