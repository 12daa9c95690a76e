// SPDX-License-Identifier: Apache-2.0
// What a guest is asked, first by the keeper (GUEST_ROOT), then by whoever claimed the box. A guest
// may be in the hands of hostile code for all we know: its answers are checked like any stranger's.
#pragma once

#include <stdint.h>

#include "wire/wire.h"

enum guest_type {
    GUEST_ROOT =
        1,      // guest_root + descriptors     -> GUEST_READY or GUEST_ERROR, then the guest ends
    GUEST_EXEC, // guest_exec + strings         -> GUEST_STARTED or GUEST_FAILED; later GUEST_EXITED
    GUEST_SIGNAL, // guest_signal, no answer
    GUEST_LIST,   // guest_plain -> GUEST_LISTED, then for each exec that is kept GUEST_STARTED with
                  // its descriptors again, and GUEST_EXITED if it has ended
    GUEST_FORGET, // guest_forget, no answer
    GUEST_READY,  // guest_plain
    GUEST_ERROR,  // guest_error, head.id 0
    GUEST_STARTED, // guest_started + descriptors
    GUEST_FAILED,  // guest_failed
    GUEST_EXITED,  // guest_exited
    GUEST_LISTED,  // guest_listed
    // since version 2
    GUEST_HAND,   // guest_plain -> GUEST_GIVEN + [socket]: a hand (hand-msg.h) at its other end
    GUEST_DIAL,   // guest_dial  -> GUEST_GIVEN + [socket]: connected, or about to be
    GUEST_LISTEN, // guest_listen -> GUEST_GIVEN + [TCP listener, UDP socket]; the same ones again
    GUEST_GIVEN,  // guest_given
    GUEST_HOLD,  // guest_plain + [any], from the keeper, no answer: kept open as long as the box is
    GUEST_ADOPT, // guest_adopt + [seat], from the keeper: a process that came into the box by
                 // another way becomes an exec -> as GUEST_EXEC
    GUEST_SEATED, // guest_plain + [4 ends], from the guest to the fork
    // since version 3
    GUEST_LISTEN_UNIX, // guest_listen_unix -> GUEST_GIVEN + [listener]; the same one again
    GUEST_TYPE_MAX,
};

enum {
    GUEST_BINDS_MAX = 8,
    GUEST_TARGET_MAX = 32,
    GUEST_EXECS_MAX = 512,    // at once in one box
    GUEST_STRINGS_MAX = 4096, // arguments and variables of one exec
    GUEST_ARGS_MAX = 2 * 1024 * 1024,
};

struct guest_plain {
    struct wire_head head;
};

enum guest_root_flag {
    GUEST_ROOT_GAUGE_MEMORY = 1u << 0, // a descriptor whose "oom_kill N" line counts kills
    GUEST_ROOT_GAUGE_PIDS = 1u << 1,   // a descriptor whose "max N" line counts refusals
    GUEST_ROOT_GAUGE_DISK = 1u << 2,   // two descriptors: bytes used, bytes allowed
    GUEST_ROOT_REHEARSE = 1u << 3,     // start a shell that does nothing before GUEST_READY
};

// Descriptors: the box's cgroup2 directory, the detached root mount, n_binds detached mounts, then
// the gauges of `flags` in order.
struct guest_root {
    struct wire_head head;
    uint32_t slot;
    uint32_t flags;
    uint32_t n_binds;
    uint32_t pad;
    char target[GUEST_BINDS_MAX][GUEST_TARGET_MAX]; // below the root, "usr"
};

enum guest_exec_flag {
    GUEST_EXEC_STDIN = 1u << 0,   // a pipe for standard input; /dev/null without
    GUEST_EXEC_TTY = 1u << 1,     // a terminal for all three
    GUEST_EXEC_ARGS_FD = 1u << 2, // the strings are in a memfd that comes along
    GUEST_EXEC_LAST = 1u << 3,    // the box ends with it, at once after GUEST_EXITED
    GUEST_EXEC_CONTROL = 1u << 4, // two more pipes: its GUEST_CONTROL_IN and GUEST_CONTROL_OUT
    GUEST_EXEC_KEEP = 1u << 5, // the guest keeps our ends too (but that of standard input), until
                               // the exec ends, for whoever comes after us
    GUEST_EXEC_KEEP_EXIT = 1u << 6,  // with KEEP: after its end as well, and how it ended, until
                                     // GUEST_FORGET
    GUEST_EXEC_KEEP_STDIN = 1u << 7, // with KEEP: standard input too, until GUEST_FORGET says so
};

enum { // descriptors of a program that was started with GUEST_EXEC_CONTROL
    GUEST_CONTROL_IN = 60,
    GUEST_CONTROL_OUT = 61,
};

// Followed by, or in the memfd: the working directory, argc arguments, envc variables, each ended
// by a NUL, args_len bytes in all.
struct guest_exec {
    struct wire_head
        head; // id names the exec as long as a process of it lives, so take another each time
    uint32_t flags;
    uint32_t uid, gid; // inside the box
    uint32_t files;    // RLIMIT_NOFILE
    uint32_t argc, envc;
    uint32_t args_len;
    uint16_t rows, cols; // of the terminal
    uint64_t tag;        // the asker's own, repeated in GUEST_STARTED
};

// Descriptors: with a terminal its master; else the ends of standard output, error, then of input
// if `flags` (as in guest_exec) has GUEST_EXEC_STDIN, then of control in and out if it has
// GUEST_EXEC_CONTROL. When it is told again after GUEST_LIST, what is not kept is not among them
// and not in `flags`.
struct guest_started {
    struct wire_head head;
    int32_t pid; // in the box
    uint32_t flags;
    uint64_t tag;
};

struct guest_listed {
    struct wire_head head;
    uint32_t n; // GUEST_STARTED messages that follow
    uint32_t pad;
};

enum guest_forget_what {
    GUEST_FORGET_STDIN = 1, // its end of standard input: the program reads the end of the file
    GUEST_FORGET_ALL,       // all that is kept of it; of one that runs, its end will not be kept
};

struct guest_forget {
    struct wire_head head; // the exec's id
    uint32_t what;
    uint32_t pad;
};

struct guest_dial {
    struct wire_head head;
    uint32_t port; // on the box's loopback
    uint32_t pad;
};

struct guest_listen { // on all addresses of the box
    struct wire_head head;
    uint32_t tcp_port, udp_port;
};

// A socket in the box's own files, made by root in the box with its own eyes: whatever lies in the
// way is the box's affair. One of a kind, and so is its path.
#define GUEST_SOCKET_DIR  "/run/cay"
#define GUEST_SOCKET_PATH GUEST_SOCKET_DIR "/anthropic.sock"
struct guest_listen_unix {
    struct wire_head head;
    uint32_t on; // 0: it is closed and removed, and GUEST_GIVEN has none
    uint32_t pad;
};

// A fork of a zygote, child of the guest's and in the box with all that keeps user code there,
// waits at the other end of the seat for the ends of its streams: GUEST_SEATED with standard
// output, error, control in and out.
struct guest_adopt {
    struct wire_head head; // as guest_exec's, whose flags are GUEST_EXEC_CONTROL and both KEEPs
    int32_t pid;           // in the box
    uint32_t pad;
};

struct guest_given {
    struct wire_head head;
    int32_t sys_errno; // 0: the descriptors are there
    uint32_t held;     // what came with GUEST_HOLD is held
};

enum guest_step {
    STEP_NONE,
    STEP_ARGS,  // the message makes no sense
    STEP_SETUP, // pipes, cgroup, identity
    STEP_CWD,
    STEP_EXEC,
    STEP_MAX,
};

struct guest_failed {
    struct wire_head head;
    uint32_t step;
    int32_t sys_errno;
};

enum guest_scope {
    GUEST_SCOPE_EXEC,  // the exec's process group; with SIGKILL every process of it
    GUEST_SCOPE_FIRST, // its first process alone
    GUEST_SCOPE_SINCE, // every process of it that was started after `since`, but for the first one
                       // and for descendants of older ones
};

struct guest_signal {
    struct wire_head head; // the exec's id
    int32_t signal;        // SIGKILL ends every process the exec has started, however it hides
    uint32_t scope;        // enum guest_scope
    uint64_t since;        // nanoseconds of CLOCK_BOOTTIME, with GUEST_SCOPE_SINCE
    // The kernel tells when a process was started in hundredths of a second: of those of the same
    // one as `since`, the ones with higher numbers than this. 0: all of them.
    uint32_t since_pid;
    uint32_t pad;
};

struct guest_exited {
    struct wire_head head;
    int32_t status;    // as from waitpid
    uint32_t limits;   // enum guest_limit
    uint64_t cpu_usec; // of the process and the children it waited for
    uint64_t rss_peak; // bytes, of its largest process
};

enum guest_limit { // felt while the exec ran
    GUEST_LIMIT_OOM = 1u << 0,
    GUEST_LIMIT_PIDS = 1u << 1,
    GUEST_LIMIT_DISK = 1u << 2,
};

struct guest_error {
    struct wire_head head;
    int32_t sys_errno;
    char step[60];
};
