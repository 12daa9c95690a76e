// SPDX-License-Identifier: Apache-2.0
// Messages with descriptors over a unix SOCK_SEQPACKET socket: one send is one message, whole or
// not at all. Three closed lists of messages stand beside this file: keeper-msg.h (client and
// keeper), spawner-msg.h (keeper and spawner), guest-msg.h (keeper or client, and guest). A message
// is a fixed struct that begins with wire_head; only guest_exec carries a tail. Everybody checks
// the length of what arrives against its type before reading a field.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// A program that was upgraded speaks with boxes that an older one made: those of the version before
// are still understood. (Tests build a program of the next version.)
#ifndef CAY_WIRE_VERSION
#    define CAY_WIRE_VERSION 3
#endif

enum {
    WIRE_VERSION = CAY_WIRE_VERSION,
    WIRE_OLDEST = WIRE_VERSION > 1 ? WIRE_VERSION - 1 : 1,
    WIRE_FDS_MAX = 16,
    WIRE_MSG_MAX = 64 * 1024, // longer exec arguments travel in a memfd
};

struct wire_head {
    uint16_t version;
    uint16_t type;
    uint32_t id; // chosen by whoever asks, repeated in the answer
};

struct wire_fds {
    unsigned n;
    int fd[WIRE_FDS_MAX];
};

// Both ends close-on-exec, blocking. 0 or -errno.
int wire_pair(int ret_ends[2]);

// Sends head+tail as one message; tail may be NULL. The descriptors stay the caller's. 0 or -errno.
int wire_send(int sock, const void *msg, size_t len, const void *tail, size_t tail_len,
              const int *fds, unsigned n_fds);

// Receives one message; its descriptors (close-on-exec) become the caller's. Bytes, 0 at the end of
// the stream, or -errno: -EMSGSIZE for a message that did not fit, -EPROTO for one of another
// version or too short to have a head; no descriptor is kept then. `flags` as for recvmsg.
ssize_t wire_recv(int sock, void *buf, size_t size, struct wire_fds *fds, int flags);

void wire_fds_close(struct wire_fds *fds);
// Takes descriptor i out of the set, -1 if there is none.
int wire_fds_take(struct wire_fds *fds, unsigned i);
