// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "base/fd.h"
#include "check.h"
#include "wire/wire.h"

enum {
    KERNEL_FDS_MAX = 253, // of one message, by the kernel
};

// -- two ends, and a set of descriptors that can be told apart

struct pair {
    int us, them;
    int open_before; // without the pair
};

static struct pair pair_open(void)
{
    struct pair p = {.open_before = check_fds()};
    int ends[2];
    assert_int_equal(wire_pair(ends), 0);
    p.us = ends[0];
    p.them = ends[1];
    return p;
}

// Everything that was opened since pair_open must be closed by now.
static void pair_done(struct pair *p)
{
    fd_close(p->us);
    fd_close(p->them);
    assert_int_equal(check_fds(), p->open_before);
}

static void files_open(int *fds, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        fds[i] = memfd_create("wire_test", MFD_CLOEXEC);
        assert_true(fds[i] >= 0);
        assert_int_equal(ftruncate(fds[i], 100 + (off_t)i), 0);
    }
}

static void files_close(const int *fds, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        fd_close(fds[i]);
}

static struct wire_head head(uint16_t type)
{
    return (struct wire_head){.version = WIRE_VERSION, .type = type, .id = 0x01020304};
}

// As wire_send, but with what it would refuse: `n` copies of one descriptor, any length.
static void send_raw(int sock, const void *bytes, size_t len, int fd, unsigned n)
{
    static union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * KERNEL_FDS_MAX)];
    } control;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
    struct msghdr hdr = {.msg_iov = &iov, .msg_iovlen = 1};
    if (n > 0) {
        hdr.msg_control = control.space;
        hdr.msg_controllen = CMSG_SPACE(sizeof(int) * n);
        struct cmsghdr *c = CMSG_FIRSTHDR(&hdr);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * n);
        for (unsigned i = 0; i < n; i++)
            memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof fd);
    }
    assert_int_equal(sendmsg(sock, &hdr, MSG_NOSIGNAL), len);
}

// What wire_recv says to these bytes with `n` descriptors. Nothing may stay open and the stream
// must go on.
static ssize_t refusal(const void *bytes, size_t len, unsigned n, size_t size)
{
    char buf[256];
    struct wire_fds fds = {.n = 7};
    struct pair p = pair_open();
    int file;
    files_open(&file, 1);
    send_raw(p.them, bytes, len, file, n);
    fd_close(file);
    int before = check_fds();
    assert_true(size <= sizeof buf);
    ssize_t r = wire_recv(p.us, buf, size, &fds, MSG_DONTWAIT);
    assert_int_equal(fds.n, 0);
    assert_int_equal(check_fds(), before);

    const struct wire_head next = head(9);
    assert_int_equal(wire_send(p.them, &next, sizeof next, NULL, 0, NULL, 0), 0);
    assert_int_equal(wire_recv(p.us, buf, sizeof buf, &fds, MSG_DONTWAIT), sizeof next);
    pair_done(&p);
    return r;
}

// -- what arrives

CHECK_CASE(pair_is_a_closed_pair_of_packets)
{
    struct pair p = pair_open();
    const int ends[] = {p.us, p.them};
    for (int i = 0; i < 2; i++) {
        int type = 0;
        socklen_t len = sizeof type;
        assert_int_equal(getsockopt(ends[i], SOL_SOCKET, SO_TYPE, &type, &len), 0);
        assert_int_equal(type, SOCK_SEQPACKET);
        assert_int_equal(fcntl(ends[i], F_GETFD), FD_CLOEXEC);
        assert_int_equal(fcntl(ends[i], F_GETFL) & O_NONBLOCK, 0);
    }
    pair_done(&p);
}

CHECK_CASE(every_number_of_descriptors_in_order)
{
    int files[WIRE_FDS_MAX];
    files_open(files, WIRE_FDS_MAX);
    for (unsigned n = 0; n <= WIRE_FDS_MAX; n++) {
        struct pair p = pair_open();
        struct wire_head msg = head((uint16_t)n), got = {0};
        struct wire_fds fds;
        assert_int_equal(wire_send(p.them, &msg, sizeof msg, NULL, 0, files, n), 0);
        assert_int_equal(wire_recv(p.us, &got, sizeof got, &fds, MSG_DONTWAIT), sizeof got);
        assert_memory_equal(&got, &msg, sizeof msg);
        assert_int_equal(fds.n, n);
        for (unsigned i = 0; i < n; i++) {
            struct stat st;
            assert_int_equal(fstat(fds.fd[i], &st), 0);
            assert_int_equal(st.st_size, 100 + i);
            assert_int_equal(fcntl(fds.fd[i], F_GETFD), FD_CLOEXEC);
            assert_int_equal(fcntl(files[i], F_GETFD), FD_CLOEXEC); // the sender still has its own
        }
        wire_fds_close(&fds);
        assert_int_equal(fds.n, 0);
        pair_done(&p);
    }
    files_close(files, WIRE_FDS_MAX);
}

CHECK_CASE(one_descriptor_too_many_is_not_sent)
{
    int files[WIRE_FDS_MAX + 1];
    files_open(files, WIRE_FDS_MAX + 1);
    struct pair p = pair_open();
    struct wire_head msg = head(1);
    struct wire_fds fds;
    assert_int_equal(wire_send(p.them, &msg, sizeof msg, NULL, 0, files, WIRE_FDS_MAX + 1),
                     -EINVAL);
    assert_int_equal(wire_recv(p.us, &msg, sizeof msg, &fds, MSG_DONTWAIT), -EAGAIN);
    assert_int_equal(fds.n, 0);
    pair_done(&p);
    files_close(files, WIRE_FDS_MAX + 1);
}

CHECK_CASE(closed_descriptor_is_not_sent)
{
    struct pair p = pair_open();
    struct wire_head msg = head(1);
    struct wire_fds fds;
    const int bad[] = {p.us, 987654};
    assert_int_equal(wire_send(p.them, &msg, sizeof msg, NULL, 0, bad, 2), -EBADF);
    assert_int_equal(wire_recv(p.us, &msg, sizeof msg, &fds, MSG_DONTWAIT), -EAGAIN);
    pair_done(&p);
}

// A message is its struct and its tail in one, whatever the tail's length, up to the longest there
// is.
CHECK_CASE(tail_follows_at_once)
{
    static const size_t tails[] = {0, 1, 2, 7, 8, 4095, WIRE_MSG_MAX - sizeof(struct wire_head)};
    char *tail = malloc(WIRE_MSG_MAX), *got = malloc(WIRE_MSG_MAX);
    assert_non_null(tail);
    assert_non_null(got);
    for (size_t i = 0; i < WIRE_MSG_MAX; i++)
        tail[i] = (char)(i * 31 + i / 255);
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        struct pair p = pair_open();
        struct wire_head msg = head(3);
        struct wire_fds fds;
        ssize_t whole = (ssize_t)(sizeof msg + tails[i]);
        assert_int_equal(wire_send(p.them, &msg, sizeof msg, tail, tails[i], NULL, 0), 0);
        assert_int_equal(wire_recv(p.us, got, WIRE_MSG_MAX, &fds, MSG_DONTWAIT), whole);
        assert_memory_equal(got, &msg, sizeof msg);
        assert_memory_equal(got + sizeof msg, tail, tails[i]);
        pair_done(&p);
    }
    free(tail);
    free(got);
}

CHECK_CASE(messages_keep_their_bounds_and_their_descriptors)
{
    int files[3];
    files_open(files, 3);
    struct pair p = pair_open();
    for (unsigned i = 0; i < 3; i++) {
        struct wire_head msg = head((uint16_t)i);
        assert_int_equal(wire_send(p.them, &msg, sizeof msg, "abc", i, files + i, 1), 0);
    }
    for (unsigned i = 0; i < 3; i++) {
        char got[64];
        struct wire_fds fds;
        struct stat st;
        assert_int_equal(wire_recv(p.us, got, sizeof got, &fds, MSG_DONTWAIT),
                         sizeof(struct wire_head) + i);
        assert_int_equal(fds.n, 1);
        assert_int_equal(fstat(fds.fd[0], &st), 0);
        assert_int_equal(st.st_size, 100 + i);
        wire_fds_close(&fds);
    }
    pair_done(&p);
    files_close(files, 3);
}

// -- what is refused

CHECK_CASE(message_that_does_not_fit)
{
    char msg[64] = {0};
    const struct wire_head h = head(1);
    memcpy(msg, &h, sizeof h);
    for (unsigned n = 0; n <= WIRE_FDS_MAX; n += 8) {
        assert_int_equal(refusal(msg, 33, n, 32), -EMSGSIZE);
        assert_int_equal(refusal(msg, 64, n, sizeof h), -EMSGSIZE);
        assert_int_equal(refusal(msg, sizeof h, n, sizeof h - 1), -EMSGSIZE);
    }
}

CHECK_CASE(too_short_for_a_head)
{
    const struct wire_head h = head(1);
    for (size_t len = 1; len < sizeof h; len++) {
        for (unsigned n = 0; n <= WIRE_FDS_MAX; n += 16)
            assert_int_equal(refusal(&h, len, n, 256), -EPROTO);
    }
}

CHECK_CASE(another_version)
{
    static const uint16_t versions[] = {0, WIRE_VERSION + 1, WIRE_VERSION << 8, 0xffff};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        struct wire_head h = head(1);
        h.version = versions[i];
        assert_int_equal(refusal(&h, sizeof h, 0, 256), -EPROTO);
        assert_int_equal(refusal(&h, sizeof h, 2, 256), -EPROTO);
    }
}

CHECK_CASE(more_descriptors_than_there_is_room_for)
{
    const struct wire_head h = head(1);
    assert_int_equal(refusal(&h, sizeof h, WIRE_FDS_MAX + 1, 256), -EMSGSIZE);
    assert_int_equal(refusal(&h, sizeof h, WIRE_FDS_MAX + 2, 256), -EMSGSIZE);
    assert_int_equal(refusal(&h, sizeof h, KERNEL_FDS_MAX, 256), -EMSGSIZE);
}

// An empty message looks like the end of the stream. Its descriptors must not stay behind.
CHECK_CASE(empty_message)
{
    assert_int_equal(refusal("", 0, 0, 256), 0);
    assert_int_equal(refusal("", 0, 1, 256), -EPROTO);
    assert_int_equal(refusal("", 0, WIRE_FDS_MAX, 256), -EPROTO);
    assert_true(refusal("", 0, WIRE_FDS_MAX + 1, 256) < 0);
    assert_true(refusal("", 0, KERNEL_FDS_MAX, 256) < 0);
}

// The kernel hands over as many as the table holds and marks the rest as cut off.
CHECK_CASE(table_of_descriptors_is_full)
{
    struct pair p = pair_open();
    int files[8];
    files_open(files, 8);
    struct wire_head msg = head(1);
    assert_int_equal(wire_send(p.them, &msg, sizeof msg, NULL, 0, files, 8), 0);
    files_close(files, 8);
    int before = check_fds();
    int next = fcntl(p.us, F_DUPFD, 0); // the lowest that is free
    fd_close(next);
    struct rlimit old, tight;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    tight = old;
    tight.rlim_cur = (rlim_t)next + 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    struct wire_fds fds;
    ssize_t r = wire_recv(p.us, &msg, sizeof msg, &fds, MSG_DONTWAIT);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(r, -EMSGSIZE);
    assert_int_equal(fds.n, 0);
    assert_int_equal(check_fds(), before);
    pair_done(&p);
}

// Other control messages are stepped over; where they take the room of descriptors, none is lost.
CHECK_CASE(foreign_control_messages)
{
    int on = 1, files[WIRE_FDS_MAX];
    struct pair p = pair_open();
    files_open(files, WIRE_FDS_MAX);
    assert_int_equal(setsockopt(p.us, SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
    struct wire_head msg = head(1);
    struct wire_fds fds;
    struct stat st;
    int before = check_fds();
    assert_int_equal(wire_send(p.them, &msg, sizeof msg, NULL, 0, files + 5, 1), 0);
    assert_int_equal(wire_recv(p.us, &msg, sizeof msg, &fds, MSG_DONTWAIT), sizeof msg);
    assert_int_equal(fds.n, 1);
    assert_int_equal(fstat(fds.fd[0], &st), 0);
    assert_int_equal(st.st_size, 105);
    wire_fds_close(&fds);
    assert_int_equal(wire_send(p.them, &msg, sizeof msg, NULL, 0, files, WIRE_FDS_MAX), 0);
    assert_int_equal(wire_recv(p.us, &msg, sizeof msg, &fds, MSG_DONTWAIT), -EMSGSIZE);
    assert_int_equal(check_fds(), before);
    files_close(files, WIRE_FDS_MAX);
    pair_done(&p);
}

// -- ends

CHECK_CASE(nothing_yet_and_the_end)
{
    struct pair p = pair_open();
    struct wire_head msg = head(1);
    struct wire_fds fds = {.n = 3};
    assert_int_equal(wire_recv(p.us, &msg, sizeof msg, &fds, MSG_DONTWAIT), -EAGAIN);
    assert_int_equal(fds.n, 0);
    assert_int_equal(wire_send(p.them, &msg, sizeof msg, NULL, 0, NULL, 0), 0);
    fd_close(TAKE_FD(p.them));
    assert_int_equal(wire_recv(p.us, &msg, sizeof msg, &fds, 0), sizeof msg);
    fds.n = 3;
    assert_int_equal(wire_recv(p.us, &msg, sizeof msg, &fds, 0), 0);
    assert_int_equal(fds.n, 0);
    assert_int_equal(wire_send(p.us, &msg, sizeof msg, NULL, 0, NULL, 0), -EPIPE); // and no signal
    assert_int_equal(wire_send(-1, &msg, sizeof msg, NULL, 0, NULL, 0), -EBADF);
    assert_int_equal(wire_recv(-1, &msg, sizeof msg, &fds, 0), -EBADF);
    assert_int_equal(fds.n, 0);
    pair_done(&p);
}

// -- the set

CHECK_CASE(taking_out_of_the_set)
{
    int before = check_fds();
    struct wire_fds fds = {.n = 3};
    files_open(fds.fd, 3);
    int second = fds.fd[1];
    assert_int_equal(wire_fds_take(&fds, 3), -1);
    assert_int_equal(wire_fds_take(&fds, WIRE_FDS_MAX), -1);
    assert_int_equal(wire_fds_take(&fds, ~0u), -1);
    assert_int_equal(wire_fds_take(&fds, 1), second);
    assert_int_equal(wire_fds_take(&fds, 1), -1);
    assert_int_equal(fds.n, 3); // the others keep their places
    wire_fds_close(&fds);
    assert_int_equal(check_fds(), before + 1);
    assert_int_equal(fcntl(second, F_GETFD), FD_CLOEXEC);
    fd_close(second);
    wire_fds_close(&fds); // nothing is left that a second time could close
    assert_int_equal(wire_fds_take(&fds, 0), -1);
    assert_int_equal(check_fds(), before);
}

CHECK_MAIN(cmocka_unit_test(pair_is_a_closed_pair_of_packets),
           cmocka_unit_test(every_number_of_descriptors_in_order),
           cmocka_unit_test(one_descriptor_too_many_is_not_sent),
           cmocka_unit_test(closed_descriptor_is_not_sent), cmocka_unit_test(tail_follows_at_once),
           cmocka_unit_test(messages_keep_their_bounds_and_their_descriptors),
           cmocka_unit_test(message_that_does_not_fit), cmocka_unit_test(too_short_for_a_head),
           cmocka_unit_test(another_version),
           cmocka_unit_test(more_descriptors_than_there_is_room_for),
           cmocka_unit_test(empty_message), cmocka_unit_test(table_of_descriptors_is_full),
           cmocka_unit_test(foreign_control_messages), cmocka_unit_test(nothing_yet_and_the_end),
           cmocka_unit_test(taking_out_of_the_set))
