// SPDX-License-Identifier: Apache-2.0
// 26 memory, semaphores and queues that processes share, and limits that boxes might.
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "attempt.h"
#include "world.h"

static bool reaches_shm(const struct peer *peer)
{
    int id = shmget(peer_ipc_key(peer->token), 0, 0);
    const char *text = id < 0 ? (char *)-1 : shmat(id, NULL, SHM_RDONLY);
    if (text == (char *)-1)
        return false;
    bool found = strcmp(text, peer->token) == 0;
    shmdt(text);
    return found;
}

static bool reaches_sem(const struct peer *peer)
{
    int id = semget(peer_ipc_key(peer->token), 0, 0);
    return id >= 0 && semctl(id, 0, GETVAL) == 1;
}

static bool reaches_msg(const struct peer *peer)
{
    struct msqid_ds state;
    int id = msgget(peer_ipc_key(peer->token), 0);
    return id >= 0 && msgctl(id, IPC_STAT, &state) == 0 && state.msg_qnum > 0;
}

static bool reaches_mqueue(const struct peer *peer)
{
    char name[TOKEN_MAX + 8];
    snprintf(name, sizeof(name), "/cay-%s", peer->token);
    mqd_t queue = mq_open(name, O_RDONLY);
    if (queue < 0)
        return false;
    struct mq_attr attr = {0};
    mq_getattr(queue, &attr);
    mq_close(queue);
    return attr.mq_curmsgs > 0;
}

// A futex in such a file would be shared as well.
static bool reaches_shm_file(const struct peer *peer)
{
    return holds_token(AT_FDCWD, peer_path("/dev/shm", peer->token), peer->token) ||
           holds_token(AT_FDCWD, peer_path("/oldroot/dev/shm", peer->token), peer->token);
}

struct shared_thing {
    const char *what;
    bool (*reaches)(const struct peer *peer);
};

static enum outcome ipc_reach(const struct attempt *self)
{
    const struct shared_thing *thing = self->arg;
    if (world.host.token[0] == '\0')
        return cannot("needs --host");
    if (thing->reaches(&world.host))
        return escaped("found %s of the host", thing->what);
    int error = errno;
    if (world.neighbour.token[0] != '\0' && thing->reaches(&world.neighbour))
        return escaped("found %s of a neighbour", thing->what);
    return held("%s of host and neighbour: %s", thing->what, strerrorname_np(error));
}

// The kernel counts these per user, and per owner of each user namespace on the way up.
static enum outcome ipc_inotify(const struct attempt *self)
{
    int made = 0;
    (void)self;
    while (made < 4000 && inotify_init1(IN_CLOEXEC) >= 0)
        made++;
    int error = errno;
    sleep(2); // the witnesses ask for one meanwhile
    return held("holds %d watchers, then %s", made, strerrorname_np(error));
}

static enum outcome ipc_queues(const struct attempt *self)
{
    char name[32];
    int made = 0;
    (void)self;
    // Large ones first, then smaller ones into what is left.
    static const struct mq_attr sizes[] = {
        {.mq_maxmsg = 10, .mq_msgsize = 8192},
        {.mq_maxmsg = 10, .mq_msgsize = 512 },
        {.mq_maxmsg = 1,  .mq_msgsize = 512 },
        {.mq_maxmsg = 1,  .mq_msgsize = 1   },
    };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        mqd_t queue = 0;
        while (queue >= 0 && made < 4000) {
            struct mq_attr attr = sizes[i];
            snprintf(name, sizeof(name), "/cay-hog-%d", made);
            queue = mq_open(name, O_CREAT | O_RDWR, 0600, &attr);
            made += queue >= 0;
        }
    }
    int error = errno;
    sleep(1);
    return held("holds %d queues, then %s", made, strerrorname_np(error));
}

// Each timer keeps a signal in reserve, of which a user has so many.
static enum outcome ipc_timers(const struct attempt *self)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_t timer;
    int made = 0;
    (void)self;
    while (made < 400000 && syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) == 0)
        made++;
    int error = errno;
    sleep(1);
    return held("holds %d timers, then %s", made, strerrorname_np(error));
}

static const struct shared_thing shm = {"memory", reaches_shm}, sem = {"a semaphore", reaches_sem},
                                 msg = {"a message queue", reaches_msg},
                                 mqueue = {"a POSIX queue", reaches_mqueue},
                                 shm_file = {"a file in /dev/shm", reaches_shm_file};

#define IPC(called, what, thing, because, without)                                                 \
    {                                                                                              \
        .number = 26, .name = called, .tries = what, .held_by = because, .canary = without,        \
        .run = ipc_reach, .arg = &thing                                                            \
    }

// The witnesses open this file ten times a second, each by its own /usr.
static const char *const common_files[] = {"/usr/bin/env", "/oldroot/usr/bin/env"};

static enum outcome ipc_watch(const struct attempt *self)
{
    char events[4096];
    (void)self;
    if (world.host.token[0] == '\0')
        return cannot("needs --host");
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    for (int i = 0; i < 2; i++)
        (void)inotify_add_watch(fd, common_files[i], IN_ALL_EVENTS);
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    int ready = poll(&pfd, 1, 2000);
    if (ready > 0 && read(fd, events, sizeof(events)) > 0)
        return escaped("saw somebody else open %s", common_files[0]);
    return held("saw nothing of what others do with %s", common_files[0]);
}

static enum outcome ipc_lock(const struct attempt *self)
{
    int locked = 0;
    (void)self;
    for (int i = 0; i < 2; i++) {
        int fd = open(common_files[i], O_RDONLY | O_CLOEXEC);
        locked += fd >= 0 && flock(fd, LOCK_EX) == 0;
    }
    sleep(1); // the witnesses lock it meanwhile
    return held("holds %d locks", locked);
}

#define UCOUNTS_HELD                                                                               \
    "what a box uses is counted for users of its own, and for no one's namespaces above"

// It would push the members far to the right.
// clang-format off
static const struct attempt attempts[] = {
    IPC("ipc_shm", "attaches System V memory of host and neighbour", shm, "ipc namespace", "ipc"),
    IPC("ipc_sem", "reads a System V semaphore of theirs", sem, "ipc namespace", "ipc"),
    IPC("ipc_msg", "looks into a System V queue of theirs", msg, "ipc namespace", "ipc"),
    IPC("ipc_mqueue", "opens a POSIX queue of theirs", mqueue, "ipc namespace", "ipc"),
    IPC("ipc_shm_file", "opens POSIX memory of theirs, where a futex could be", shm_file,
        "a /dev/shm of its own", "mnt"),
    {.number = 26,
     .name = "ipc_inotify",
     .tries = "takes every inotify instance its user may have",
     .held_by = UCOUNTS_HELD,
     .canary = "ucounts",
     .place = OUTSIDE,
     .run = ipc_inotify},
    {.number = 26,
     .name = "ipc_watch",
     .tries = "watches what host and neighbour do with a file of /usr",
     .held_by = "files of the image are a box's own inodes",
     .canary = "mnt",
     .run = ipc_watch},
    {.number = 26,
     .name = "ipc_lock",
     .tries = "locks a file of /usr against host and neighbour",
     .held_by = "files of the image are a box's own inodes",
     .canary = "mnt",
     .place = OUTSIDE,
     .run = ipc_lock},
    {.number = 26,
     .name = "ipc_queues",
     .tries = "takes all the bytes of message queues its user may have",
     .held_by = UCOUNTS_HELD,
     .canary = "ucounts",
     .place = OUTSIDE,
     .run = ipc_queues},
    {.number = 26,
     .name = "ipc_timers",
     .tries = "takes all the signals its user may keep in reserve",
     .held_by = UCOUNTS_HELD,
     .canary = "ucounts",
     .place = OUTSIDE,
     .run = ipc_timers},
};
// clang-format on

const struct attempt_list ipc_attempts = ATTEMPTS(attempts);
