// SPDX-License-Identifier: Apache-2.0
// The hand's loop: one request at a time from the socket, an answer to each, and a word about each
// worker that has ended. It waits for nothing else, so that a request is never behind a long one.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "hand/hand-internal.h"
#include "hand/hand.h"

static union {
    struct hand_request req;
    char bytes[WIRE_MSG_MAX];
} inbox;

typedef int (*quick_fn)(const struct hand_request *, const struct hand_texts *,
                        struct hand_reply *);

static const quick_fn quick[] = {
    [HAND_READ] = hand_read,     [HAND_STAT] = hand_stat,     [HAND_WRITE] = hand_write,
    [HAND_CREATE] = hand_create, [HAND_COMMIT] = hand_commit, [HAND_ABORT] = hand_abort,
    [HAND_MKDIR] = hand_mkdir,   [HAND_MOVE] = hand_move,     [HAND_CHMOD] = hand_chmod,
    [HAND_CHOWN] = hand_chown,   [HAND_DELETE] = hand_delete, [HAND_LINK] = hand_link,
};

static _Noreturn void end(int status)
{
    job_kill_all();
    hand_drop_files(); // some may have passing names
    _exit(status);
}

// --- answers

static int send_done(int sock, const struct hand_reply *reply, const int *fds, unsigned n_fds)
{
    return wire_send(sock, &reply->done, sizeof reply->done, reply->data, reply->done.data_len, fds,
                     n_fds);
}

// Descriptors may be refused (too many under way, by whoever in the box sends them too): then the
// answer is that. Nobody there any more: the end. -errno of the first try.
static int answer(int sock, const struct hand_reply *reply, const int *fds, unsigned n_fds)
{
    int r = send_done(sock, reply, fds, n_fds);
    if (r == 0)
        return 0;
    struct hand_reply failed = {
        .done = {.head = reply->done.head, .sys_errno = -r}
    };
    if (r == -EPIPE || r == -ECONNRESET || send_done(sock, &failed, NULL, 0) < 0)
        end(0);
    return r;
}

static struct hand_reply reply_to(const struct hand_request *req)
{
    return (struct hand_reply){
        .done.head = {.version = WIRE_VERSION, .type = HAND_DONE, .id = req->head.id},
        .fd = -1,
    };
}

static void refuse(int sock, const struct hand_request *req, int r)
{
    struct hand_reply reply = reply_to(req);
    reply.done.sys_errno = -r;
    (void)answer(sock, &reply, NULL, 0);
}

// --- requests

static void do_long(int sock, const struct hand_request *req, const struct hand_texts *texts)
{
    int fds[2] = {-1, -1};
    unsigned n = 0;
    int r = job_start(req, texts, fds, &n);
    if (r < 0) {
        refuse(sock, req, r);
        return;
    }
    struct hand_reply reply = reply_to(req);
    if (answer(sock, &reply, fds, n) < 0)
        job_forget(req->head.id);
    fd_close(fds[0]);
    fd_close(fds[1]);
}

static void do_quick(int sock, const struct hand_request *req, const struct hand_texts *texts)
{
    struct hand_reply reply = reply_to(req);
    int r = quick[req->head.type](req, texts, &reply);
    if (r < 0) {
        refuse(sock, req, r);
        return;
    }
    r = answer(sock, &reply, &reply.fd, reply.fd >= 0 ? 1 : 0);
    if (!reply.lent)
        fd_close(reply.fd);
    else if (r < 0)
        hand_drop_file(reply.done.handle);
}

static void do_request(int sock, size_t len)
{
    const struct hand_request *req = &inbox.req;
    struct hand_texts texts;
    int r = hand_check(req, len, &texts);
    if (req->head.type == HAND_CANCEL) {
        if (r == 0 && req->handle <= UINT32_MAX)
            job_cancel((uint32_t)req->handle);
    } else if (r < 0) {
        refuse(sock, req, r);
    } else if (hand_is_long(req->head.type)) {
        do_long(sock, req, &texts);
    } else {
        do_quick(sock, req, &texts);
    }
}

static void receive(int sock)
{
    struct wire_fds fds;
    ssize_t n = wire_recv(sock, &inbox, sizeof inbox, &fds, MSG_DONTWAIT);
    if (n > 0) {
        wire_fds_close(&fds); // none belong to any request
        do_request(sock, (size_t)n);
    } else if (n == 0 || (n != -EAGAIN && n != -EINTR && n != -EPROTO && n != -EMSGSIZE)) {
        end(0);
    } // else nobody whom an answer would reach: a message without a head
}

static void report(int sock)
{
    for (const struct hand_ended *e; (e = job_next_ended()) != NULL;)
        if (wire_send(sock, e, sizeof *e, NULL, 0, NULL, 0) < 0)
            end(0);
}

// --- the loop

static void on_child(int sig)
{
    (void)sig;
}

static void set_signals(void)
{
    static const int plain[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM};
    struct sigaction child = {.sa_handler = on_child, .sa_flags = SA_NOCLDSTOP};
    sigset_t mask;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        (void)signal(plain[i], SIG_DFL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigaction(SIGCHLD, &child, NULL);
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGCHLD); // heard only while we wait
    (void)sigprocmask(SIG_SETMASK, &mask, NULL);
}

static void raise_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

void hand_main(int sock)
{
    sigset_t none;
    (void)umask(0); // modes are what they are said to be
    (void)chdir("/");
    set_signals();
    raise_files();
    (void)fd_set_nonblock(sock, 0);
    hand_passing_init();
    if (job_init() < 0)
        _exit(1);
    (void)sigemptyset(&none);
    for (;;) {
        struct pollfd p = {.fd = sock, .events = POLLIN};
        int n = ppoll(&p, 1, NULL, &none);
        if (n < 0 && errno != EINTR)
            end(1);
        report(sock);
        if (n > 0)
            receive(sock);
    }
}
