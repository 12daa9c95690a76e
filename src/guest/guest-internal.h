// SPDX-License-Identifier: Apache-2.0
// What the guest's own files share. Descriptors have fixed numbers from boot on, so that whatever
// else the spawner left open can be closed in one call.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "wire/guest-msg.h"

enum guest_fd {
    FD_NULL = 0, // 0, 1 and 2 are /dev/null
    FD_SOCK = 3,
    FD_USERNS,
    FD_PTS,
    FD_CGROUP,       // the box's cgroup2 directory, delegated to our uid
    FD_ROOT,         // O_PATH of /, for statfs
    FD_GAUGE_MEMORY, // -1 behind a gauge that is not there is expressed by guest.gauges
    FD_GAUGE_PIDS,
    FD_GAUGE_DISK_USED,
    FD_GAUGE_DISK_MAX,
    FD_FIRST_FREE,
};

struct gauges {
    uint64_t oom_kills;
    uint64_t pids_refused;
};

enum exec_state {
    EXEC_FREE,      // the entry and its cgroup are unused
    EXEC_RUNNING,   // waits for its first process
    EXEC_KILLED,    // first process reaped after a kill, waits for the rest to go
    EXEC_ENDED,     // reported, and kept to be told again until it is forgotten
    EXEC_LINGERING, // reported, but processes it left behind may live in its cgroup
};

enum { EXEC_STREAMS = 5 }; // standard input, output, error; control in and out

struct exec {
    enum exec_state state;
    uint32_t id;
    pid_t pid;
    int cgroup; // directory e<index>, made on first use and kept; -1 before
    int killed;
    uint32_t flags; // enum guest_exec_flag: what it was started with; STDIN, while our end is kept
    uint64_t tag;
    unsigned n_kept; // ends of its streams, with GUEST_EXEC_KEEP, in the order of GUEST_STARTED
    int kept[EXEC_STREAMS];
    int status;
    uint32_t limits;
    uint64_t cpu_usec;
    uint64_t rss_peak;
    struct gauges before;
};

struct guest {
    uint32_t slot;
    uint32_t gauges; // enum guest_root_flag
    struct gauges
        gauges_seen; // when an exec ended last: what was felt since then is the next ones'
    int listens;     // the next two are there: kept for a client that comes later
    int listen_tcp, listen_udp;
    int listens_unix, listen_unix; // the same of the socket in the box's files
    int holds;                     // what the keeper gave to be held
    unsigned n_execs;              // entries ever used
    struct exec execs[GUEST_EXECS_MAX];
};

struct streams {
    int child[EXEC_STREAMS]; // ends for the child; 0 is never -1
    int ours[EXEC_STREAMS];  // ends for whoever asked, n of them
    unsigned n;
};

// Also of one that could not be opened wholly. 0 or -errno.
int streams_open(struct streams *s, const struct guest_exec *msg);
void streams_close(struct streams *s);

// What a child shall become, and why it did not.
struct plan {
    const struct guest_exec *msg;
    const char *cwd;
    char **argv, **envp;
    int streams[EXEC_STREAMS]; // what becomes 0, 1, 2 and, with GUEST_EXEC_CONTROL, its two
    enum guest_step step;
    int sys_errno;
};

struct guest_boot;

// Before the root is known: cgroups, network, /proc, /dev, /sys staged. Ends the guest on failure.
void guest_boot(const struct guest_boot *boot);
// Takes the root that the keeper sent, enters it, and becomes powerless.
void guest_take_root(struct guest *guest, const struct guest_root *msg, struct wire_fds *fds);
// The child of an exec, on a stack of its own in the guest's memory. `arg` is its plan.
int guest_run_child(void *arg);
// Starts what a GUEST_EXEC message asks for and answers it.
void guest_exec(struct guest *guest, const struct guest_exec *msg, size_t len,
                struct wire_fds *fds);
// Makes an exec of a process that has joined the box by itself.
void guest_adopt(struct guest *guest, const struct guest_adopt *msg, const struct wire_fds *fds);
// Starts a shell that ends at once. The first program in a box finds cold much that the second does
// not: the memory that the guest shares with the spawner until it writes to it, every name on the
// way to the C library. A box made in a quiet moment has its first program behind it when it is
// claimed.
void guest_rehearse(struct guest *guest);
// The exec of this id that has not been freed, or NULL.
struct exec *guest_find_exec(struct guest *guest, uint32_t id);
// Tells how it started or ended. 0 or -errno.
int guest_tell_started(const struct exec *exec, const int *fds, unsigned n);
int guest_tell_exited(const struct exec *exec);

// What is kept of execs for a client that comes later (keep.c). Takes over those of the n ends that
// its flags ask for; the rest stay the caller's, -1 where one was taken.
void guest_keep(struct exec *exec, int *ends, unsigned n);
void guest_drop_kept(struct exec *exec);
void guest_list(struct guest *guest, uint32_t request);
void guest_forget(struct guest *guest, const struct guest_forget *msg);

// Sockets and the hand, for whoever reaches into the box (reach.c).
void guest_hand(const struct guest_plain *msg);
void guest_dial(const struct guest_dial *msg);
void guest_listen(struct guest *guest, const struct guest_listen *msg);
void guest_listen_unix(struct guest *guest, const struct guest_listen_unix *msg);
void guest_hold(struct guest *guest, struct wire_fds *fds);
// Enters B, as root there without the powers that root in a box shall not have. 0, or -1 and errno.
int guest_enter_box(uint32_t uid, uint32_t gid);

void guest_signal(struct guest *guest, const struct guest_signal *msg);
// GUEST_SCOPE_SINCE (since.c).
void guest_signal_since(const struct exec *exec, const struct guest_signal *msg);
// Reaps whatever has ended and reports the execs among them.
void guest_reap(struct guest *guest);

// Moves a descriptor to a fixed number; a failed open (-1) ends the guest.
void guest_place_fd(int fd, int place);
// Makes sure that exec entry `i` has a cgroup directory. 0 or -errno.
int guest_exec_cgroup(struct guest *guest, unsigned i);
void guest_read_gauges(const struct guest *guest, struct gauges *ret);
int guest_disk_full(const struct guest *guest);

// Tells the other end what failed, and ends the guest.
_Noreturn void guest_die(const char *step, int sys_errno);
