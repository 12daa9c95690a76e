// SPDX-License-Identifier: Apache-2.0
// A hand at work for tests: hand_main in a child of ours, over a socket, on a directory of its own
// below /tmp. Asking and hearing, and reading what long requests write.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "check.h"
#include "hand/hand.h"
#include "wire/hand-msg.h"

enum { KIT_WAIT_MS = 60 * 1000 }; // longer than anything takes; a hang is seen

struct kit {
    char dir[64];
    int sock;
    pid_t pid;
    uint32_t last_id;
};

struct kit_ask {
    enum hand_type type;
    uint32_t flags, mode, uid, gid;
    uint64_t handle, limit;
    const char *path, *path2; // NULL: ""; others as they are
    const void *data;
    size_t data_len;
    const char *etag;
};

struct kit_answer {
    struct hand_done done;
    char data[HAND_INLINE + 1]; // with a NUL behind
    int fd[2];                  // -1 where there is none
};

static inline void kit_start(struct kit *kit)
{
    int ends[2];
    assert_int_equal(wire_pair(ends), 0);
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        int sock = dup2(ends[1], 3);
        (void)close_range(4, ~0u, 0);
        hand_main(sock);
    }
    (void)close(ends[1]);
    kit->sock = ends[0];
    kit->pid = pid;
}

static inline int kit_setup(void **state)
{
    struct kit *kit = calloc(1, sizeof *kit);
    assert_non_null(kit);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1); // whatever the hand leaves behind becomes ours: none may
    (void)snprintf(kit->dir, sizeof kit->dir, "/tmp/hand-test-XXXXXX");
    assert_non_null(mkdtemp(kit->dir));
    kit_start(kit);
    *state = kit;
    return 0;
}

// The hand ends by itself when its socket is closed, well, and with all that it has started.
static inline void kit_stop(struct kit *kit)
{
    int status = -1;
    (void)close(kit->sock);
    assert_int_equal(waitpid(kit->pid, &status, 0), kit->pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(waitpid(-1, &status, WNOHANG), -1); // no orphan
    assert_int_equal(errno, ECHILD);
}

static inline int kit_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    (void)remove(path);
    return 0;
}

static inline int kit_teardown(void **state)
{
    struct kit *kit = *state;
    kit_stop(kit);
    (void)nftw(kit->dir, kit_remove, 64, FTW_DEPTH | FTW_PHYS);
    free(kit);
    return 0;
}

#define KIT_CASE(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

// A path in the test's directory; a few live at a time.
static inline const char *kit_path(const struct kit *kit, const char *name)
{
    static char paths[8][HAND_PATH_MAX];
    static unsigned next;
    char *path = paths[next++ % 8];
    (void)snprintf(path, HAND_PATH_MAX, "%s%s%s", kit->dir, *name != '\0' ? "/" : "", name);
    return path;
}

// Sends, and answers the id.
static inline uint32_t kit_send(struct kit *kit, const struct kit_ask *ask)
{
    static char tail[WIRE_MSG_MAX];
    struct hand_request req = {
        .head = {.version = WIRE_VERSION, .type = (uint16_t)ask->type, .id = ++kit->last_id},
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
    assert_int_equal(wire_send(kit->sock, &req, sizeof req, tail, len, NULL, 0), 0);
    return req.head.id;
}

// The next message of the hand, of any kind: its length.
static inline size_t kit_recv(struct kit *kit, void *buf, size_t size, struct wire_fds *fds)
{
    struct pollfd p = {.fd = kit->sock, .events = POLLIN};
    assert_int_equal(poll(&p, 1, KIT_WAIT_MS), 1);
    ssize_t n = wire_recv(kit->sock, buf, size, fds, 0);
    assert_true(n > 0);
    return (size_t)n;
}

static inline void kit_take_answer(const void *msg, size_t len, struct wire_fds *fds,
                                   struct kit_answer *ret)
{
    assert_true(len >= sizeof ret->done);
    memcpy(&ret->done, msg, sizeof ret->done);
    assert_int_equal(ret->done.head.type, HAND_DONE);
    assert_int_equal(len, sizeof ret->done + ret->done.data_len);
    assert_true(ret->done.data_len < sizeof ret->data);
    memcpy(ret->data, (const char *)msg + sizeof ret->done, ret->done.data_len);
    ret->data[ret->done.data_len] = '\0';
    ret->fd[0] = wire_fds_take(fds, 0);
    ret->fd[1] = wire_fds_take(fds, 1);
    assert_true(fds->n <= 2);
}

// Asks and waits for HAND_DONE; nothing else may be under way. Its errno.
static inline int kit_ask(struct kit *kit, const struct kit_ask *ask, struct kit_answer *ret)
{
    static _Alignas(8) char buf[WIRE_MSG_MAX];
    struct wire_fds fds;
    uint32_t id = kit_send(kit, ask);
    size_t n = kit_recv(kit, buf, sizeof buf, &fds);
    kit_take_answer(buf, n, &fds, ret);
    assert_int_equal(ret->done.head.id, id);
    return ret->done.sys_errno;
}

// The same for those whose answer is the errno.
static inline int kit_do(struct kit *kit, const struct kit_ask *ask)
{
    static struct kit_answer answer;
    int r = kit_ask(kit, ask, &answer);
    fd_close(answer.fd[0]);
    fd_close(answer.fd[1]);
    return r;
}

// Waits for HAND_ENDED of a long request.
static inline int kit_ended(struct kit *kit, uint32_t id, struct hand_ended *ret)
{
    struct wire_fds fds;
    assert_int_equal(kit_recv(kit, ret, sizeof *ret, &fds), sizeof *ret);
    assert_int_equal(fds.n, 0);
    assert_int_equal(ret->head.type, HAND_ENDED);
    assert_int_equal(ret->head.id, id);
    return ret->sys_errno;
}

// Reads a pipe to its end and closes it. The bytes are the caller's to free.
static inline char *kit_drain(int fd, size_t *ret_len)
{
    size_t len = 0, cap = 1 << 16;
    char *bytes = malloc(cap);
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, KIT_WAIT_MS), 1);
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

// A whole long request: its output (the caller's) and how it ended.
static inline int kit_long(struct kit *kit, const struct kit_ask *ask, char **ret_bytes,
                           size_t *ret_len, struct hand_ended *ret_ended)
{
    static struct kit_answer answer;
    assert_int_equal(kit_ask(kit, ask, &answer), 0);
    assert_true(answer.fd[0] >= 0);
    *ret_bytes = kit_drain(answer.fd[0], ret_len);
    fd_close(answer.fd[1]);
    return kit_ended(kit, answer.done.head.id, ret_ended);
}

// The record behind `rec` (NULL: the first one), or NULL at the end. Dies of nonsense.
static inline const struct hand_record *kit_next(const char *bytes, size_t len,
                                                 const struct hand_record *rec)
{
    const char *at = rec == NULL ? bytes : (const char *)rec + rec->len;
    if (at == bytes + len)
        return NULL;
    const struct hand_record *next = (const void *)at;
    assert_true((size_t)(bytes + len - at) >= sizeof *next);
    assert_true(next->len >= sizeof *next && next->len <= HAND_RECORD_MAX && next->len % 8 == 0);
    assert_true(next->len <= (size_t)(bytes + len - at));
    assert_true(next->type > 0 && next->type < HAND_REC_MAX);
    return next;
}

static inline void kit_put(const struct kit *kit, const char *name, const void *data, size_t len)
{
    auto_fd fd = open(kit_path(kit, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, data, len), 0);
}
