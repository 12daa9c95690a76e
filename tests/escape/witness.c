// SPDX-License-Identifier: Apache-2.0
#include "witness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "world.h"

enum {
    BEAT_MS = 100,
    SPEC_USER_KEYRING = -4,
    CTL_REVOKE = 3,
    CTL_UNLINK = 9,
};

struct witness {
    const char *token;
    int tcp, abstract; // listening
    int port;
    int shm, sem, msg; // System V ids
    char *shm_text;
    char mq_name[TOKEN_MAX + 8];
    int key;
    int pts, pts_fd;
};

static volatile sig_atomic_t stop;
static volatile sig_atomic_t strays; // signals nobody had a reason to send

static void on_stop(int sig)
{
    (void)sig;
    stop = 1;
}

static void on_stray(int sig)
{
    (void)sig;
    strays = strays + 1;
}

static int listen_on(int family, const void *addr, socklen_t len)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, addr, len) < 0 || listen(fd, 64) < 0) {
        perror("witness: listen");
        exit(1);
    }
    return fd;
}

static void open_sockets(struct witness *w)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    socklen_t len = sizeof(in);
    int name = snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "cay-%s", w->token);
    w->tcp = listen_on(AF_INET, &in, sizeof(in));
    getsockname(w->tcp, (struct sockaddr *)&in, &len);
    w->port = ntohs(in.sin_port);
    w->abstract = listen_on(AF_UNIX, &un,
                            (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)name));
}

static void write_token(int fd, const char *token)
{
    if (fd >= 0 && write(fd, token, strlen(token)) < 0)
        perror("witness: write");
    if (fd >= 0)
        close(fd);
}

static void open_ipc(struct witness *w)
{
    int key = peer_ipc_key(w->token);
    struct {
        long type;
        char text[TOKEN_MAX];
    } message = {.type = 1};
    w->shm = shmget(key, 4096, IPC_CREAT | 0666);
    w->shm_text = w->shm < 0 ? NULL : shmat(w->shm, NULL, 0);
    if (w->shm_text != NULL)
        snprintf(w->shm_text, TOKEN_MAX, "%s", w->token);
    w->sem = semget(key, 1, IPC_CREAT | 0666);
    semctl(w->sem, 0, SETVAL, 1);
    w->msg = msgget(key, IPC_CREAT | 0666);
    snprintf(message.text, sizeof(message.text), "%s", w->token);
    msgsnd(w->msg, &message, sizeof(message.text), IPC_NOWAIT);

    struct mq_attr attr = {.mq_maxmsg = 1, .mq_msgsize = TOKEN_MAX};
    snprintf(w->mq_name, sizeof(w->mq_name), "/cay-%s", w->token);
    umask(0);
    mqd_t mq = mq_open(w->mq_name, O_CREAT | O_RDWR, 0666, &attr);
    if (mq >= 0) {
        mq_send(mq, w->token, strlen(w->token), 0);
        mq_close(mq);
    }
    write_token(open(peer_path("/dev/shm", w->token), O_CREAT | O_WRONLY, 0666), w->token);
    write_token(open(peer_path("/tmp", w->token), O_CREAT | O_WRONLY, 0666), w->token);
}

static void open_key(struct witness *w)
{
    char name[TOKEN_MAX + 8];
    snprintf(name, sizeof(name), "cay-%s", w->token);
    long key = syscall(SYS_add_key, "user", name, w->token, strlen(w->token), SPEC_USER_KEYRING);
    w->key = key > 0 ? (int)key : 0;
}

static void open_terminal(struct witness *w)
{
    w->pts = -1;
    w->pts_fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (w->pts_fd < 0 || unlockpt(w->pts_fd) < 0)
        return;
    const char *name = ptsname(w->pts_fd);
    const char *number = name == NULL ? NULL : strrchr(name, '/');
    w->pts = number == NULL ? -1 : (int)strtol(number + 1, NULL, 10);
}

static void greet(int listener, const char *token)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    write_token(fd, token);
}

static bool intact(const struct witness *w)
{
    return (w->shm_text == NULL || strcmp(w->shm_text, w->token) == 0) &&
           (w->sem < 0 || semctl(w->sem, 0, GETVAL) == 1) &&
           holds_token(AT_FDCWD, peer_path("/dev/shm", w->token), w->token) &&
           holds_token(AT_FDCWD, peer_path("/tmp", w->token), w->token);
}

// What a neighbour could use up: each answers 0 or an errno.
static int can_watch(void)
{
    int fd = inotify_init1(IN_CLOEXEC);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

static int can_open_terminal(void)
{
    int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

static int can_make_queue(const struct witness *w)
{
    char name[TOKEN_MAX + 16];
    struct mq_attr attr = {.mq_maxmsg = 1, .mq_msgsize = TOKEN_MAX};
    snprintf(name, sizeof(name), "/cay-beat-%s", w->token);
    mqd_t queue = mq_open(name, O_CREAT | O_RDWR, 0600, &attr);
    if (queue < 0)
        return errno;
    mq_close(queue);
    mq_unlink(name);
    return 0;
}

static int can_set_timer(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGURG};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) < 0)
        return errno;
    timer_delete(timer);
    return 0;
}

// Another witness may hold it for an instant.
static int can_lock(void)
{
    int fd = open("/usr/bin/env", O_RDONLY | O_CLOEXEC);
    int error = fd < 0 ? errno : EWOULDBLOCK;
    for (int i = 0; i < 5 && error == EWOULDBLOCK; i++) {
        error = flock(fd, LOCK_EX | LOCK_NB) < 0 ? errno : 0;
        if (error != 0)
            usleep(2000);
    }
    if (fd >= 0)
        close(fd);
    return error;
}

static int can_fork(void)
{
    pid_t pid = fork();
    if (pid < 0)
        return errno;
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    return 0;
}

static void clean_up(struct witness *w)
{
    if (w->shm >= 0)
        shmctl(w->shm, IPC_RMID, NULL);
    if (w->sem >= 0)
        semctl(w->sem, 0, IPC_RMID);
    if (w->msg >= 0)
        msgctl(w->msg, IPC_RMID, NULL);
    mq_unlink(w->mq_name);
    unlink(peer_path("/dev/shm", w->token));
    unlink(peer_path("/tmp", w->token));
    if (w->key > 0) {
        syscall(SYS_keyctl, CTL_REVOKE, w->key, 0, 0, 0);
        syscall(SYS_keyctl, CTL_UNLINK, w->key, SPEC_USER_KEYRING, 0, 0);
    }
}

int witness_run(const char *token)
{
    struct witness w = {.token = token};
    setvbuf(stdout, NULL, _IOLBF, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGTERM, on_stop);
    signal(SIGINT, on_stop);
    signal(SIGURG, on_stray);
    signal(SIGUSR1, on_stray);
    signal(SIGPIPE, SIG_IGN);
    open_sockets(&w);
    open_ipc(&w);
    open_key(&w);
    open_terminal(&w);
    printf("PEER %s:%d:%d:%d:%d\n", token, (int)getpid(), w.port, w.key, w.pts);

    for (long beat = 1; !stop; beat++) {
        struct pollfd fds[2] = {
            {.fd = w.tcp,      .events = POLLIN},
            {.fd = w.abstract, .events = POLLIN},
        };
        poll(fds, 2, BEAT_MS);
        for (int i = 0; i < 2; i++) {
            if (fds[i].revents & POLLIN)
                greet(fds[i].fd, token);
        }
        if (printf("BEAT %ld intact=%d strays=%d watch=%d terminal=%d queue=%d timer=%d "
                   "lock=%d fork=%d\n",
                   beat, intact(&w), (int)strays, can_watch(), can_open_terminal(),
                   can_make_queue(&w), can_set_timer(), can_lock(), can_fork()) < 0)
            break;
    }
    clean_up(&w);
    return 0;
}
