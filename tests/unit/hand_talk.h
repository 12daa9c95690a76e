// SPDX-License-Identifier: Apache-2.0
// A hand at work for tests: hand_main in a child of ours, over a socket, and a directory of its own
// below /tmp. Asking and hearing, and reading what long requests write.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "check.h"
#include "hand/hand.h"
#include "wire/hand-msg.h"

enum { TALK_WAIT_MS = 60 * 1000 }; // longer than anything takes; a hang is seen

struct talk {
    char dir[64];
    int sock;
    pid_t pid;
    uint32_t last_id;
    int fds;    // we had open before
    bool boxed; // dir is the hand's root, and something is mounted on its "mnt"
};

struct ask {
    enum hand_type type;
    uint32_t flags, mode, uid, gid;
    uint64_t handle, limit;
    const char *path, *path2; // NULL: ""
    const void *data;
    size_t data_len;
    const char *etag;
};

struct answer {
    struct hand_done done;
    char data[HAND_INLINE + 1]; // with a NUL behind
    int fd[2];                  // -1 where there is none
};

static inline void talk_box(const struct talk *talk)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        chdir(talk->dir) < 0 || mount("box", "mnt", "tmpfs", 0, NULL) < 0 ||
        mkdir("mnt/stays", 0755) < 0 || chroot(".") < 0)
        _exit(77);
}

static inline void talk_start(struct talk *talk)
{
    int ends[2];
    assert_int_equal(wire_pair(ends), 0);
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (talk->boxed)
            talk_box(talk);
        int sock = dup2(ends[1], 3);
        (void)close_range(4, ~0u, 0);
        hand_main(sock);
    }
    (void)close(ends[1]);
    talk->sock = ends[0];
    talk->pid = pid;
}

static inline int talk_setup(void **state)
{
    struct talk *talk = calloc(1, sizeof *talk);
    assert_non_null(talk);
    talk->fds = check_fds();
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1); // what the hand leaves behind becomes ours: none may
    (void)snprintf(talk->dir, sizeof talk->dir, "%s/hand-test-XXXXXX", check_scratch());
    assert_non_null(mkdtemp(talk->dir));
    talk_start(talk);
    *state = talk;
    return 0;
}

// The hand ends by itself when its socket is closed, well, and with all that it has started.
static inline void talk_stop(struct talk *talk)
{
    int status = -1;
    (void)close(talk->sock);
    assert_int_equal(waitpid(talk->pid, &status, 0), talk->pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    pid_t left = waitpid(-1, &status, WNOHANG); // 0: also what a case that failed left running
    assert_int_equal(left, -1);
    assert_int_equal(errno, ECHILD);
}

// Runs a program of the machine and waits for it.
#define talk_run(...)                                                                              \
    do {                                                                                           \
        char *argv_[] = {__VA_ARGS__, NULL};                                                       \
        pid_t pid_;                                                                                \
        int status_ = -1;                                                                          \
        assert_int_equal(posix_spawnp(&pid_, argv_[0], NULL, NULL, argv_, environ), 0);            \
        assert_int_equal(waitpid(pid_, &status_, 0), pid_);                                        \
        assert_int_equal(status_, 0);                                                              \
    } while (0)

static inline int talk_teardown(void **state)
{
    struct talk *talk = *state;
    talk_stop(talk);
    talk_run((char[]){"rm"}, (char[]){"-rf"}, talk->dir);
    assert_int_equal(check_fds(), talk->fds);
    free(talk);
    return 0;
}

#define TALK_CASE(name) cmocka_unit_test_setup_teardown(name, talk_setup, talk_teardown)

// A path in the test's directory; a few live at a time.
static inline const char *talk_path(const struct talk *talk, const char *name)
{
    static char paths[8][HAND_PATH_MAX];
    static unsigned next;
    char *path = paths[next++ % 8];
    (void)snprintf(path, HAND_PATH_MAX, "%s%s%s", talk->dir, *name != '\0' ? "/" : "", name);
    return path;
}

// Sends, and answers the id.
static inline uint32_t talk_send(struct talk *talk, const struct ask *ask)
{
    static char tail[WIRE_MSG_MAX];
    struct hand_request req = {
        .head = {.version = WIRE_VERSION, .type = (uint16_t)ask->type, .id = ++talk->last_id},
        .flags = ask->flags,
        .mode = ask->mode,
        .uid = ask->uid,
        .gid = ask->gid,
        .handle = ask->handle,
        .limit = ask->limit,
        .path_len = ask->path != NULL ? (uint32_t)strlen(ask->path) : 0,
        .path2_len = ask->path2 != NULL ? (uint32_t)strlen(ask->path2) : 0,
        .data_len = (uint32_t)ask->data_len,
    };
    size_t len = req.path_len + 1 + req.path2_len + 1 + ask->data_len;
    assert_true(sizeof req + len <= WIRE_MSG_MAX);
    if (ask->etag != NULL)
        (void)snprintf(req.etag, sizeof req.etag, "%s", ask->etag);
    memset(tail, 0, len);
    if (ask->path != NULL)
        memcpy(tail, ask->path, req.path_len);
    if (ask->path2 != NULL)
        memcpy(tail + req.path_len + 1, ask->path2, req.path2_len);
    if (ask->data_len > 0)
        memcpy(tail + len - ask->data_len, ask->data, ask->data_len);
    assert_int_equal(wire_send(talk->sock, &req, sizeof req, tail, len, NULL, 0), 0);
    return req.head.id;
}

// The next message of the hand, of any kind: its length.
static inline size_t talk_recv(struct talk *talk, void *buf, size_t size, struct wire_fds *fds)
{
    struct pollfd p = {.fd = talk->sock, .events = POLLIN};
    assert_int_equal(poll(&p, 1, TALK_WAIT_MS), 1);
    ssize_t n = wire_recv(talk->sock, buf, size, fds, 0);
    assert_true(n > 0);
    return (size_t)n;
}

// Waits for HAND_DONE; nothing else may be under way. Its errno.
static inline int talk_done(struct talk *talk, uint32_t id, struct answer *ret)
{
    static _Alignas(8) char buf[WIRE_MSG_MAX];
    struct wire_fds fds;
    size_t len = talk_recv(talk, buf, sizeof buf, &fds);
    assert_true(len >= sizeof ret->done);
    memcpy(&ret->done, buf, sizeof ret->done);
    assert_int_equal(ret->done.head.type, HAND_DONE);
    assert_int_equal(ret->done.head.id, id);
    assert_int_equal(len, sizeof ret->done + ret->done.data_len);
    assert_true(ret->done.data_len < sizeof ret->data);
    memcpy(ret->data, buf + sizeof ret->done, ret->done.data_len);
    ret->data[ret->done.data_len] = '\0';
    ret->fd[0] = wire_fds_take(&fds, 0);
    ret->fd[1] = wire_fds_take(&fds, 1);
    assert_true(fds.n <= 2 && (fds.n == 0 || ret->done.sys_errno == 0));
    return ret->done.sys_errno;
}

static inline int talk_ask(struct talk *talk, const struct ask *ask, struct answer *ret)
{
    return talk_done(talk, talk_send(talk, ask), ret);
}

// Those whose answer is the errno.
static inline int talk_do(struct talk *talk, const struct ask *ask)
{
    static struct answer answer;
    int r = talk_ask(talk, ask, &answer);
    fd_close(answer.fd[0]);
    fd_close(answer.fd[1]);
    return r;
}

static inline int talk_ended(struct talk *talk, uint32_t id, struct hand_ended *ret)
{
    struct wire_fds fds;
    assert_int_equal(talk_recv(talk, ret, sizeof *ret, &fds), sizeof *ret);
    assert_int_equal(fds.n, 0);
    assert_int_equal(ret->head.type, HAND_ENDED);
    assert_int_equal(ret->head.id, id);
    return ret->sys_errno;
}

// Reads a pipe to its end and closes it. The bytes are the caller's to free.
static inline char *talk_drain(int fd, size_t *ret_len)
{
    size_t len = 0, cap = 1 << 16;
    char *bytes = malloc(cap);
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, TALK_WAIT_MS), 1);
        if (cap - len < 1 << 15)
            bytes = realloc(bytes, cap *= 2);
        assert_non_null(bytes);
        ssize_t n = read(fd, bytes + len, cap - len);
        assert_true(n >= 0);
        if (n == 0)
            break;
        len += (size_t)n;
    }
    (void)close(fd);
    *ret_len = len;
    return bytes;
}

struct output { // of a long request
    char *bytes;
    size_t len;
    struct hand_ended ended;
};

// A whole long request. Its errno; bytes are the caller's to free.
static inline int talk_long(struct talk *talk, const struct ask *ask, struct output *ret)
{
    static struct answer answer;
    assert_int_equal(talk_ask(talk, ask, &answer), 0);
    assert_true(answer.fd[0] >= 0);
    ret->bytes = talk_drain(answer.fd[0], &ret->len);
    fd_close(answer.fd[1]);
    return talk_ended(talk, answer.done.head.id, &ret->ended);
}

// The same where only the errno is of interest.
static inline int talk_long_do(struct talk *talk, const struct ask *ask)
{
    struct output out;
    int r = talk_long(talk, ask, &out);
    free(out.bytes);
    return r;
}

// The record behind `rec` (NULL: the first one), or NULL at the end. Dies of nonsense.
static inline const void *talk_next(const struct output *out, const void *rec)
{
    const struct hand_record *last = rec;
    const char *at = last == NULL ? out->bytes : (const char *)last + last->len;
    if (at == out->bytes + out->len)
        return NULL;
    const struct hand_record *next = (const void *)at;
    size_t left = (size_t)(out->bytes + out->len - at);
    assert_true(left >= sizeof *next && next->len <= left);
    assert_true(next->len >= sizeof *next && next->len <= HAND_RECORD_MAX && next->len % 8 == 0);
    assert_true(next->type > 0 && next->type < HAND_REC_MAX);
    return next;
}

static inline void talk_put(const struct talk *talk, const char *name, const void *data, size_t len)
{
    auto_fd fd = open(talk_path(talk, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, data, len), 0);
}

static inline void talk_put_text(const struct talk *talk, const char *name, const char *text)
{
    talk_put(talk, name, text, strlen(text));
}

static inline void talk_mkdir(const struct talk *talk, const char *name)
{
    assert_int_equal(mkdir(talk_path(talk, name), 0755), 0);
}

static inline bool talk_is_there(const struct talk *talk, const char *name)
{
    struct stat st;
    return lstat(talk_path(talk, name), &st) == 0;
}
