// SPDX-License-Identifier: Apache-2.0
// A machine full of sandboxes, each used once a second whatever the others do: the next request of
// a sandbox is due a second after the last one was, not after it was answered, and its time is
// counted from then. So a server that falls behind shows it.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "http-client.h"

enum { EVENTS_MAX = 256, LATE_MAX_S = 60 };

struct user { // of one sandbox
    struct http_conn conn;
    char path[64];
    unsigned done; // requests that were answered, or have failed
    bool waiting;  // for an answer
};

struct load {
    const struct http_bench *b;
    struct user *users;
    int epoll;
    int64_t began;
    unsigned next, total; // requests by the time that they are due
    unsigned left, failed, told;
    struct series times;
};

// --- making them ---

static void open_user(struct load *l, unsigned i)
{
    struct user *u = &l->users[i];
    struct epoll_event ev = {.events = EPOLLIN, .data.u32 = i};
    http_open(&u->conn, l->b);
    (void)snprintf(u->path, sizeof u->path, "/sandbox/many-%u/exec", i);
    if (fd_set_nonblock(u->conn.fd, 1) < 0 ||
        epoll_ctl(l->epoll, EPOLL_CTL_ADD, u->conn.fd, &ev) < 0)
        die("watch a connection: %m");
}

static void make_sandboxes(const struct http_bench *b)
{
    static struct http_conn c;
    char id[32];
    int64_t began = clock_ns();
    http_open(&c, b);
    for (unsigned i = 0; i < b->many; i++) {
        watchdog("a sandbox");
        (void)snprintf(id, sizeof id, "many-%u", i);
        http_create(&c, id);
        http_exec(&c, id, HTTP_EXEC_TRUE);
    }
    print_value("many", "made_s", (double)(clock_ns() - began) / NS_PER_S);
    http_close(&c);
}

// --- using them ---

// Request number k of sandbox i.
static int64_t due(const struct load *l, unsigned i, unsigned k)
{
    return l->began + k * NS_PER_S + (int64_t)i * NS_PER_S / l->b->many;
}

static void fail(struct load *l, struct user *u, const char *why)
{
    l->failed++;
    l->left--;
    u->done++;
    u->waiting = false;
    if (l->told++ < 5)
        note("%s failed: %.200s", u->path, why);
}

static void send_request(struct load *l, unsigned i)
{
    struct user *u = &l->users[i];
    int r = u->conn.fd < 0 ? -ENOTCONN : http_begin(&u->conn, "POST", u->path, HTTP_EXEC_TRUE);
    u->waiting = true;
    if (r < 0)
        fail(l, u, strerrordesc_np(-r));
}

static void take_answer(struct load *l, unsigned i)
{
    struct user *u = &l->users[i];
    struct http_answer answer;
    int r = http_more(&u->conn, &answer);
    if (r == 0)
        return;
    if (r < 0) {
        http_close(&u->conn);
        if (u->waiting)
            fail(l, u, strerrordesc_np(-r));
    } else if (!http_exec_good(&answer)) {
        fail(l, u, answer.body);
    } else {
        series_add(&l->times, clock_ns() - due(l, i, u->done));
        u->waiting = false;
        u->done++;
        l->left--;
    }
    if (!u->waiting && u->done < l->b->seconds && due(l, i, u->done) <= clock_ns())
        send_request(l, i); // one that was due meanwhile
}

static void send_due(struct load *l)
{
    int64_t now = clock_ns();
    for (; l->next < l->total; l->next++) {
        unsigned i = l->next % l->b->many, k = l->next / l->b->many;
        if (due(l, i, k) > now)
            return;
        if (!l->users[i].waiting && l->users[i].done == k)
            send_request(l, i);
    }
}

static void wait_for_more(const struct load *l)
{
    struct pollfd fd = {.fd = l->epoll, .events = POLLIN};
    int64_t ns = NS_PER_S;
    if (l->next < l->total)
        ns = due(l, l->next % l->b->many, l->next / l->b->many) - clock_ns();
    ns = ns > 0 ? ns : 0;
    struct timespec ts = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
    (void)ppoll(&fd, 1, &ts, NULL);
}

static void run_load(struct load *l)
{
    struct epoll_event events[EVENTS_MAX];
    int64_t end = clock_ns() + (l->b->seconds + LATE_MAX_S) * NS_PER_S;
    l->began = clock_ns() + NS_PER_S / 10;
    while (l->left > 0 && clock_ns() < end) {
        watchdog("sandboxes at work");
        send_due(l);
        wait_for_more(l);
        int n = epoll_wait(l->epoll, events, EVENTS_MAX, 0);
        for (int i = 0; i < n; i++)
            take_answer(l, events[i].data.u32);
    }
    if (l->left > 0)
        note("%u requests have no answer after %d s", l->left, LATE_MAX_S);
    print_value("many", "per_second",
                (l->total - l->left) / ((double)(clock_ns() - l->began) / NS_PER_S));
    l->failed += l->left;
}

// --- memory ---

static void print_memory(pid_t pid, const char *who)
{
    static const char *const fields[] = {"Rss:", "Pss:", "Private_Dirty:"};
    char path[64], text[4096], label[64];
    (void)snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) < 0)
        die("%s: %m", path);
    for (unsigned i = 0; i < sizeof fields / sizeof *fields; i++) {
        const char *at = strstr(text, fields[i]);
        if (at == NULL)
            continue;
        (void)snprintf(label, sizeof label, "%s.%s", who, fields[i]);
        print_value("memory", label, strtod(at + strlen(fields[i]), NULL) / 1024);
    }
}

// --- all of it ---

void line_http_many(const struct http_bench *b)
{
    struct load l = {.b = b, .total = b->many * b->seconds, .left = b->many * b->seconds};
    l.users = calloc(b->many, sizeof *l.users);
    l.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (l.users == NULL || l.epoll < 0)
        die("no room for %u connections: %m", b->many);
    series_init(&l.times, "exec", l.total);
    note("%u sandboxes are made", b->many);
    make_sandboxes(b);
    for (unsigned i = 0; i < b->many; i++)
        open_user(&l, i);
    note("%u sandboxes, an exec a second in each, %u s", b->many, b->seconds);
    run_load(&l);
    series_done(&l.times, "many");
    print_value("many", "sandboxes", b->many);
    print_value("many", "seconds", b->seconds);
    print_value("many", "failed", l.failed);
    print_memory(http_daemon(b), "daemon");
    print_memory(b->keeper, "keeper");
    for (unsigned i = 0; i < b->many; i++)
        http_close(&l.users[i].conn);
    fd_close(l.epoll);
    free(l.users);
    measure_restart(b);
}
