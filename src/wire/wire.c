// SPDX-License-Identifier: Apache-2.0
#include "wire/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/fd.h"

int wire_pair(int ret_ends[2])
{
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret_ends) < 0 ? -errno : 0;
}

int wire_send(int sock, const void *msg, size_t len, const void *tail, size_t tail_len,
              const int *fds, unsigned n_fds)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * WIRE_FDS_MAX)];
    } control;
    struct iovec iov[2] = {
        {.iov_base = (void *)(uintptr_t)msg,  .iov_len = len     },
        {.iov_base = (void *)(uintptr_t)tail, .iov_len = tail_len},
    };
    struct msghdr hdr = {.msg_iov = iov, .msg_iovlen = tail_len > 0 ? 2 : 1};
    if (n_fds > WIRE_FDS_MAX)
        return -EINVAL;
    if (n_fds > 0) {
        memset(&control, 0, sizeof control);
        hdr.msg_control = control.space;
        hdr.msg_controllen = (socklen_t)CMSG_SPACE(sizeof(int) * n_fds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&hdr);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = (socklen_t)CMSG_LEN(sizeof(int) * n_fds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
    }
    ssize_t n;
    do
        n = sendmsg(sock, &hdr, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

static void collect_fds(struct msghdr *hdr, struct wire_fds *fds)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(hdr); c != NULL; c = CMSG_NXTHDR(hdr, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n && fds->n < WIRE_FDS_MAX; i++)
            memcpy(&fds->fd[fds->n++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
    }
}

ssize_t wire_recv(int sock, void *buf, size_t size, struct wire_fds *fds, int flags)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * WIRE_FDS_MAX)];
    } control;
    struct iovec iov = {.iov_base = buf, .iov_len = size};
    struct msghdr hdr = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.space,
        .msg_controllen = sizeof control.space,
    };
    fds->n = 0;
    ssize_t n = recvmsg(sock, &hdr, flags | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return -errno;
    collect_fds(&hdr, fds);
    int r = 0;
    if (n == 0)
        r = fds->n > 0 ? -EPROTO : 0; // an empty message that carries something, or the end
    else if (hdr.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
        r = -EMSGSIZE;
    else if ((size_t)n < sizeof(struct wire_head) ||
             ((const struct wire_head *)buf)->version < WIRE_OLDEST ||
             ((const struct wire_head *)buf)->version > WIRE_VERSION)
        r = -EPROTO;
    if (r < 0)
        wire_fds_close(fds);
    return r < 0 ? r : n;
}

void wire_fds_close(struct wire_fds *fds)
{
    for (unsigned i = 0; i < fds->n; i++)
        fd_close(fds->fd[i]);
    fds->n = 0;
}

int wire_fds_take(struct wire_fds *fds, unsigned i)
{
    if (i >= fds->n)
        return -1;
    return TAKE_FD(fds->fd[i]);
}
