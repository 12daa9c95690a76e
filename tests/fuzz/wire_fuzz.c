// SPDX-License-Identifier: Apache-2.0
// Whatever a peer sends, with whatever descriptors: wire_recv, keeper_recv and guest_recv end, hand
// over only what fits their lists, and leave nothing open.
//
// An input is: one byte that says who listens (0: wire_recv, 1: keeper_recv, 2: guest_recv, and 4:
// it has asked something that is never read), then messages. A message is: its length as 16 bits,
// how many descriptors it carries, of which kind, and its bytes, with the version put in unless the
// kind's highest bit is set.
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    MESSAGES_MAX = 6,
    MESSAGE_HEAD = 4,
    RAW_VERSION = 0x80,
    FDS_MAX = 40, // more than the wire takes
};

static int kinds[4]; // a pipe, a terminal, a directory, /dev/null

static void open_kinds(void)
{
    int ends[2];
    if (kinds[0] != 0)
        return;
    assert(pipe2(ends, O_CLOEXEC) == 0);
    kinds[0] = ends[0];
    kinds[1] = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    kinds[2] = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    kinds[3] = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert(kinds[2] >= 0 && kinds[3] >= 0);
    if (kinds[1] < 0) // no terminals here
        kinds[1] = kinds[3];
}

static int count_open(void)
{
    int n = 0;
    for (int fd = 0; fd < 4 * FDS_MAX; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

// As wire_send, with more descriptors than it would take.
static void send_one(int sock, void *bytes, size_t len, unsigned n, int fd)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * FDS_MAX)];
    } control;
    struct iovec iov = {.iov_base = bytes, .iov_len = len};
    struct msghdr hdr = {.msg_iov = &iov, .msg_iovlen = 1};
    memset(&control, 0, sizeof control);
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
    (void)sendmsg(sock, &hdr, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void send_all(int sock, const uint8_t *data, size_t size)
{
    for (int i = 0; i < MESSAGES_MAX && size >= MESSAGE_HEAD; i++) {
        size_t len = (size_t)data[0] | (size_t)data[1] << 8;
        unsigned n = data[2] % (FDS_MAX + 1), kind = data[3];
        data += MESSAGE_HEAD;
        size -= MESSAGE_HEAD;
        len = len < size ? len : size;
        uint8_t *bytes = malloc(len + 1);
        assert(bytes != NULL);
        memcpy(bytes, data, len);
        if (len >= 2 && !(kind & RAW_VERSION))
            memcpy(bytes, &(uint16_t){WIRE_VERSION}, 2);
        send_one(sock, bytes, len, n, kinds[kind % 4]);
        free(bytes);
        data += len;
        size -= len;
    }
}

static int hear_wire(int sock)
{
    char buf[512];
    struct wire_fds fds;
    ssize_t n = wire_recv(sock, buf, sizeof buf, &fds, MSG_DONTWAIT);
    assert(n <= (ssize_t)sizeof buf);
    assert(n > 0 ? fds.n <= WIRE_FDS_MAX : fds.n == 0);
    if (n > 0) {
        struct wire_head h;
        memcpy(&h, buf, sizeof h);
        assert(n >= (ssize_t)sizeof h && h.version >= WIRE_OLDEST && h.version <= WIRE_VERSION);
    }
    for (unsigned i = 0; i < fds.n; i++)
        assert(fcntl(fds.fd[i], F_GETFD) == FD_CLOEXEC);
    wire_fds_close(&fds);
    return n > 0 || n == -EMSGSIZE || n == -EPROTO || n == -ECONNRESET;
}

static int hear_keeper(int sock)
{
    struct keeper_event ev;
    struct err err = {0};
    int r = keeper_recv(sock, &ev, MSG_DONTWAIT, &err);
    if (r == 1) {
        int carries = ev.msg.head.type == KEEPER_CLAIMED || ev.msg.head.type == KEEPER_READY ||
                      ev.msg.head.type == KEEPER_LIVE;
        assert(ev.msg.head.type >= KEEPER_CLAIMED && ev.msg.head.type < KEEPER_TYPE_MAX);
        assert((ev.guest >= 0) == carries);
        fd_close(ev.guest);
        assert(ev.msg.head.type != KEEPER_DISKS || ev.msg.disks.n <= KEEPER_DISKS_MAX);
        if (ev.msg.head.type == KEEPER_ERROR) {
            assert(keeper_error_take(&ev.msg.error, &err) == -1);
            assert(err.code > ERR_NONE && err.code < ERR_CODE_MAX);
        }
        return 1;
    }
    return r < 0 && err.code == ERR_INTERNAL;
}

static int hear_guest(int sock)
{
    struct guest_event ev;
    struct err err = {0};
    int r = guest_recv(sock, &ev, MSG_DONTWAIT, &err);
    if (r != 1) {
        assert(ev.out == -1 && ev.err == -1 && ev.in == -1);
        assert(ev.control_in == -1 && ev.control_out == -1);
        return r < 0 && err.code == ERR_INTERNAL;
    }
    assert(ev.msg.head.type == GUEST_STARTED || ev.msg.head.type == GUEST_FAILED ||
           ev.msg.head.type == GUEST_EXITED || ev.msg.head.type == GUEST_LISTED);
    assert((ev.out >= 0) == (ev.msg.head.type == GUEST_STARTED));
    assert(ev.err >= 0 || ev.in < 0);
    assert(ev.err >= 0 || ev.out < 0 || isatty(ev.out));
    fd_close(ev.out);
    fd_close(ev.err);
    assert((ev.control_in >= 0) == (ev.control_out >= 0) && (ev.control_in < 0 || ev.err >= 0));
    fd_close(ev.in);
    fd_close(ev.control_in);
    fd_close(ev.control_out);
    if (ev.msg.head.type == GUEST_FAILED)
        assert(guest_failed_take(&ev.msg.failed, "program", "/", &err) == -1);
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int (*const hear[])(int) = {hear_wire, hear_keeper, hear_guest};
    int ends[2];
    struct err err;
    if (size == 0)
        return 0;
    open_kinds();
    int before = count_open();
    assert(wire_pair(ends) == 0);
    if (data[0] & 4)
        assert(keeper_send_status(ends[0], 1, &err) == 0);
    send_all(ends[1], data + 1, size - 1);
    fd_close(ends[1]);
    // The last message, the reset and the end of the stream are the most that there is to hear.
    int heard = 0;
    while (hear[(data[0] & 3) % 3](ends[0]))
        assert(heard++ <= MESSAGES_MAX + 1);
    fd_close(ends[0]);
    assert(count_open() == before);
    return 0;
}
