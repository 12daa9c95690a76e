// SPDX-License-Identifier: Apache-2.0
// The calls by which boxes are used: those of a client of the keeper, and those of whoever holds
// the socket of a claimed box's guest. Sending never waits for an answer; receiving takes one
// message, checks its length, its descriptors' number and their kind, and hands over what is sound.
// So an event loop can use them as well as a plain program that waits.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/guest-msg.h"
#include "wire/keeper-msg.h"

// --- the keeper ---

struct claim {
    const char *image;
    struct box_limits limits;
    enum disk_kind disk_kind;
    uint64_t disk;
    int durable; // fsync in the box shall mean it
};

// `id` is the caller's, above 0, and comes back in the answer. All: 0 or -1.
int keeper_send_claim(int sock, uint32_t id, const struct claim *claim, struct err *err);
// Takes a box that came with KEEPER_READY. The answer need not be awaited to use it, unless the
// limits differ from the defaults, which it has.
// With `disk` above 0 its blank disk becomes the kept one of that number.
int keeper_send_take(int sock, uint32_t id, uint64_t box, const struct box_limits *limits,
                     uint64_t disk, struct err *err);
int keeper_send_destroy(int sock, uint32_t id, uint64_t box, struct err *err);
int keeper_send_status(int sock, uint32_t id, struct err *err);
int keeper_send_limit(int sock, uint32_t id, uint64_t box, const struct box_limits *limits,
                      struct err *err);
int keeper_send_disk_drop(int sock, uint32_t id, struct disk_ref disk, struct err *err);
// Those in that place with a higher number.
int keeper_send_disk_list(int sock, uint32_t id, struct disk_ref above, struct err *err);
// At most KEEPER_USED_MAX numbers.
int keeper_send_disk_used(int sock, uint32_t id, enum disk_place place, const uint64_t *numbers,
                          unsigned n, struct err *err);
// `to` becomes a copy of `from`; keeper_disk_copy has what `bytes` and `box` are.
struct copy_spec {
    struct disk_ref from, to;
    uint64_t bytes;
    uint64_t box;
};
int keeper_send_disk_copy(int sock, uint32_t id, const struct copy_spec *spec, struct err *err);
int keeper_send_disk_move(int sock, uint32_t id, struct disk_ref from, struct disk_ref to,
                          struct err *err);
int keeper_send_disk_count(int sock, uint32_t id, struct disk_ref disk, struct err *err);
// cay-pack at work (wire/pack-msg.h). The descriptors stay the caller's; -1: nothing goes in there,
// or what comes out is thrown away.
struct work_spec {
    struct disk_ref disk;
    enum disk_work work;
    const char *image;       // NULL where no tree is meant
    const char *const *args; // ends with NULL
    int fds[3];              // in, out, verdict
};
int keeper_send_disk_work(int sock, uint32_t id, const struct work_spec *spec, struct err *err);
int keeper_send_disk_cancel(int sock, uint32_t id, struct err *err); // the id of the work
int keeper_send_space(int sock, uint32_t id, struct err *err);
int keeper_send_usage(int sock, uint32_t id, uint64_t box, struct err *err);
// `listener` is the one that the box's guest has made (GUEST_LISTEN).
int keeper_send_network(int sock, uint32_t id, uint64_t box, int listener, struct err *err);
struct plant_spec { // a fork of a zygote as an exec of a box
    uint64_t box;
    uint32_t exec; // its id
    uint32_t uid, gid, files;
};
int keeper_send_plant(int sock, uint32_t id, const struct plant_spec *spec, struct err *err);
int keeper_send_serving(int sock, struct err *err);

struct keeper_event {
    union {
        struct wire_head head; // head.type says which
        struct keeper_plain plain;
        struct keeper_box box;
        struct keeper_ended ended;
        struct keeper_state state;
        struct keeper_error error;
        struct keeper_live live;
        struct keeper_welcome welcome;
        struct keeper_disks disks;
        struct keeper_used used;
        struct keeper_disk_done copied;
        struct keeper_spaced space;
        struct keeper_disks_used disks_used;
    } msg;
    int guest; // with KEEPER_CLAIMED, KEEPER_READY and KEEPER_LIVE: the guest's socket, now the
               // caller's; else -1
};

// Waits unless `flags` has MSG_DONTWAIT. 1, 0 when there is nothing (would block), or -1.
int keeper_recv(int sock, struct keeper_event *ret, int flags, struct err *err);
// Turns a KEEPER_ERROR into an err. Returns -1.
int keeper_error_take(const struct keeper_error *msg, struct err *err);

// --- a guest ---

struct exec_spec {
    const char *cwd;
    const char *const *argv; // ends with NULL
    const char *const *envp;
    uint32_t uid, gid;
    uint32_t files; // RLIMIT_NOFILE
    uint32_t flags; // enum guest_exec_flag but ARGS_FD, which comes by itself
    uint16_t rows, cols;
    uint64_t tag;
};

// A guest, and the version that it speaks: WIRE_VERSION unless KEEPER_LIVE said otherwise.
struct guest_peer {
    int sock;
    uint16_t version;
};

// One that was claimed just now, from a keeper of our own version.
static inline struct guest_peer guest_fresh(int sock)
{
    return (struct guest_peer){.sock = sock, .version = WIRE_VERSION};
}

int guest_send_exec(struct guest_peer guest, uint32_t id, const struct exec_spec *spec,
                    struct err *err);
int guest_send_signal(struct guest_peer guest, uint32_t id, int signal, struct err *err);
// To the exec's first process only.
int guest_send_signal_first(struct guest_peer guest, uint32_t id, int signal, struct err *err);
// To those that were started since; `since_pid` as in guest_signal.
int guest_send_signal_since(struct guest_peer guest, uint32_t id, int signal, uint64_t since,
                            uint32_t since_pid, struct err *err);
int guest_send_list(struct guest_peer guest, uint32_t id, struct err *err);
int guest_send_forget(struct guest_peer guest, uint32_t id, enum guest_forget_what what,
                      struct err *err);

// Since version 2 of the messages; an older guest is ERR_UNSUPPORTED.
int guest_send_hand(struct guest_peer guest, uint32_t id, struct err *err);
int guest_send_dial(struct guest_peer guest, uint32_t id, uint16_t port, struct err *err);
int guest_send_listen(struct guest_peer guest, uint32_t id, uint16_t tcp_port, uint16_t udp_port,
                      struct err *err);

// Since version 3; an older guest is ERR_UNSUPPORTED.
int guest_send_listen_unix(struct guest_peer guest, uint32_t id, int on, struct err *err);

struct guest_event {
    union {
        struct wire_head head;
        struct guest_started started;
        struct guest_failed failed;
        struct guest_exited exited;
        struct guest_listed listed;
        struct guest_given given;
    } msg;
    // With GUEST_STARTED, now the caller's: the terminal's master in `out`, or the streams. With
    // GUEST_GIVEN sockets in `out` and `err`. -1 each where there is none.
    int out, err, in;
    int control_in, control_out; // what we write to, what we read from
};

// As keeper_recv; the end of the guest is -1 with ERR_UNAVAILABLE.
int guest_recv(int guest, struct guest_event *ret, int flags, struct err *err);
// What a GUEST_FAILED means, in words; argv[0] and cwd as they were asked for. Returns -1.
int guest_failed_take(const struct guest_failed *msg, const char *program, const char *cwd,
                      struct err *err);
