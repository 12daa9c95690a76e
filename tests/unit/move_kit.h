// SPDX-License-Identifier: Apache-2.0
// For the tests of src/move: a mover on a loop, ends of all kinds, and threads that feed them and
// read from them with blocking calls, cut into odd pieces.
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "check.h"
#include "move/move.h"

static struct {
    uv_loop_t loop;
    struct mover *mover;
    int n_fds;
    uint32_t seed;
} kit;

static inline uint32_t roll(void)
{
    kit.seed = kit.seed * 1664525u + 1013904223u;
    return kit.seed >> 8;
}

// --- bytes

// The same for everybody; no two places within it look alike.
static inline const char *pattern(size_t len)
{
    enum { PATTERN_MAX = 8 * 1024 * 1024 };
    static char *bytes;
    assert_true(len <= PATTERN_MAX);
    if (bytes == NULL) {
        uint32_t x = 7;
        bytes = malloc(PATTERN_MAX);
        for (size_t i = 0; i < PATTERN_MAX; i++) {
            x = x * 1664525u + 1013904223u;
            bytes[i] = (char)(x >> 24);
        }
    }
    return bytes;
}

// --- the mover

static inline int kit_setup(void **state)
{
    struct err err;
    (void)state;
    kit.seed = 1;
    kit.n_fds = check_fds();
    assert_int_equal(uv_loop_init(&kit.loop), 0);
    assert_int_equal(mover_open(&kit.loop, 2, &kit.mover, &err), 0);
    return 0;
}

// Before there are threads, and before descriptors are counted: libuv keeps two for ever.
static inline int kit_prepare(void **state)
{
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)pattern(0);
    assert_int_equal(uv_loop_init(&kit.loop), 0);
    return uv_loop_close(&kit.loop);
}

// Also looks that everything has been given back.
static inline int kit_teardown(void **state)
{
    (void)state;
    assert_int_equal(mover_running(kit.mover), 0);
    mover_close(kit.mover);
    (void)uv_run(&kit.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&kit.loop), 0);
    assert_int_equal(check_fds(), kit.n_fds);
    return 0;
}

// --- ends

static inline void tcp_pair(int pair[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    auto_fd listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(pair[0], (struct sockaddr *)&at, len), 0);
    pair[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(pair[1] >= 0);
}

static inline void unix_pair(int pair[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
}

static inline int temp_file(void)
{
    char path[] = "/tmp/move_test.XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    return fd;
}

enum kind { KIND_FILE, KIND_PIPE, KIND_UNIX, KIND_TCP, KIND_MAX };

// [0] is written to and [1] read from; of a file both are the same.
static inline void make_pair(enum kind kind, int pair[2])
{
    switch (kind) {
    case KIND_FILE:
        pair[0] = pair[1] = temp_file();
        return;
    case KIND_PIPE:
        assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
        int turned = pair[0];
        pair[0] = pair[1];
        pair[1] = turned;
        return;
    case KIND_UNIX:
        unix_pair(pair);
        return;
    case KIND_TCP:
        tcp_pair(pair);
        return;
    case KIND_MAX:
        break;
    }
    fail();
}

static inline void close_pair(const int pair[2])
{
    fd_close(pair[0]);
    if (pair[1] != pair[0])
        fd_close(pair[1]);
}

// --- peers

struct peer {
    pthread_t id;
    int fd;
    char *data; // to be written, or what was read
    size_t len, max;
    uint32_t seed;
    bool ends; // the writer shuts down or closes (a pipe) when it is through
    int failed;
};

static inline size_t piece(struct peer *peer, size_t left)
{
    peer->seed = peer->seed * 1103515245u + 12345u;
    size_t most = (peer->seed >> 16) % 4 == 0 ? 100 : 60000;
    size_t n = (peer->seed >> 8) % most + 1;
    return n < left ? n : left;
}

static inline void *run_writer(void *data)
{
    struct peer *peer = data;
    for (size_t at = 0; at < peer->len && peer->failed == 0;) {
        size_t n = piece(peer, peer->len - at);
        peer->failed = -fd_write_all(peer->fd, peer->data + at, n);
        at += n;
    }
    if (peer->ends && shutdown(peer->fd, SHUT_WR) < 0 && errno == ENOTSOCK)
        fd_close(TAKE_FD(peer->fd));
    return NULL;
}

// Until the end, or until there is no room.
static inline void *run_reader(void *data)
{
    struct peer *peer = data;
    ssize_t n = 1;
    while (n > 0 && peer->len < peer->max) {
        n = read(peer->fd, peer->data + peer->len, piece(peer, peer->max - peer->len));
        if (n > 0)
            peer->len += (size_t)n;
    }
    peer->failed = n < 0 ? errno : 0;
    return NULL;
}

static inline void start_writer(struct peer *peer, int fd, const char *data, size_t len, bool ends)
{
    *peer = (struct peer){.fd = fd, .len = len, .seed = roll(), .ends = ends};
    peer->data = malloc(len + 1);
    memcpy(peer->data, data, len);
    assert_int_equal(pthread_create(&peer->id, NULL, run_writer, peer), 0);
}

static inline void start_reader(struct peer *peer, int fd, size_t max)
{
    *peer = (struct peer){.fd = fd, .max = max, .seed = roll(), .data = malloc(max + 1)};
    assert_int_equal(pthread_create(&peer->id, NULL, run_reader, peer), 0);
}

static inline void join_peer(struct peer *peer)
{
    assert_int_equal(pthread_join(peer->id, NULL), 0);
}

static inline void free_peer(struct peer *peer)
{
    free(peer->data);
}

// --- moves

struct told {
    unsigned times;
    struct move_result result;
};

static inline void on_move(void *data, const struct move_result *result)
{
    struct told *told = data;
    told->times++;
    told->result = *result;
}

// Runs the loop until nothing moves any more.
static inline void settle(void)
{
    (void)uv_run(&kit.loop, UV_RUN_DEFAULT);
    assert_int_equal(mover_running(kit.mover), 0);
}

static inline struct move *start_move(struct move_config config, struct told *told)
{
    struct err err;
    *told = (struct told){0};
    config.done = on_move;
    config.data = told;
    struct move *move = move_start(kit.mover, &config, &err);
    assert_non_null(move);
    return move;
}

static inline struct move_result run_move(struct move_config config)
{
    struct told told;
    (void)start_move(config, &told);
    settle();
    assert_int_equal(told.times, 1);
    return told.result;
}

static inline void assert_result(struct move_result got, enum move_why why, int sys_errno,
                                 uint64_t bytes)
{
    assert_int_equal(got.why, why);
    assert_int_equal(got.sys_errno, sys_errno);
    assert_int_equal(got.bytes, bytes);
}

// Text that comes by a socket that is closed behind it, with nothing given with the start or all.
static inline struct move_result move_text(const char *text, bool with_start,
                                           struct move_config config)
{
    int from[2];
    auto_fd to = temp_file();
    unix_pair(from);
    assert_int_equal(fd_set_nonblock(from[1], 1), 0);
    if (!with_start)
        assert_int_equal(fd_write_all(from[0], text, strlen(text)), 0);
    fd_close(TAKE_FD(from[0]));
    config.from = from[1];
    config.to = to;
    config.from_offset = MOVE_NO_OFFSET;
    config.first = with_start ? text : NULL;
    config.first_len = with_start ? strlen(text) : 0;
    config.first_is_body = true;
    struct move_result result = run_move(config);
    close_pair(from);
    return result;
}

#define KIT_CASE(f) cmocka_unit_test_setup_teardown(f, kit_setup, kit_teardown)
