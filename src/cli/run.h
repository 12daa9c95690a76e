// SPDX-License-Identifier: Apache-2.0
// `cay run` in three parts: what was asked (run.c), the box and the program in it (run-box.c), the
// bytes between the program and us (run-io.c).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "box/client.h"

enum { RUN_ENV_MAX = 512 };

struct run_options {
    struct claim claim;
    const char *data;
    const char *workdir;
    uint32_t uid, gid;
    uint32_t files;
    uint64_t output;    // bytes kept with --json
    int64_t timeout_ms; // 0: none
    bool json;
    bool tty;
    const char *env[RUN_ENV_MAX + 1];
    unsigned n_env;
    const char *const *argv;
};

enum run_reason {
    RUN_EXIT,
    RUN_SIGNAL,
    RUN_TIMEOUT,
    RUN_KILLED,
    RUN_OOM,
    RUN_BOX_LOST,
};

struct run_result {
    enum run_reason reason;
    int status;          // as from waitpid, when there is one
    int start_failed;    // the program could not be started: exit code 126 or 127
    uint32_t limits;     // enum guest_limit
    bool truncated;      // more was printed than is kept
    struct buf out, err; // with --json
    int64_t wall_ns;
    uint64_t cpu_usec;
    uint64_t memory_peak;
};

// Runs the program and takes the box apart again. -1 only when Cay itself failed.
int run_in_box(const struct run_options *options, struct run_result *ret, struct err *err);

// --- run-io.c ---

// Bytes that go one way. `keep` instead of `to` where --json collects them.
struct channel {
    int from, to;
    struct buf *keep;
    bool ended;
    bool wants_room; // waits for `to`, not for `from`
    bool no_splice;
    size_t done, len; // of `pending`: read but not written yet
    char pending[4096];
};

struct run_io {
    int program[3]; // the program's input, output, error; with a terminal its master is the second
    int ours[3];
    bool tty;
    bool truncated;
    uint64_t keep_left;
    struct channel channels[3];
};

void io_init(struct run_io *io, struct guest_event *started, const struct run_options *options,
             struct run_result *result);
// Fills what to wait for; returns how many of at most IO_POLL_MAX.
enum { IO_POLL_MAX = 3 };
struct pollfd;
unsigned io_poll(struct run_io *io, struct pollfd *fds);
void io_move(struct run_io *io, const struct pollfd *fds, unsigned n);
// Moves what is there already, without waiting for those who still hold the other end.
void io_drain(struct run_io *io);
void io_resize(const struct run_io *io);
void io_done(struct run_io *io);
// Puts our terminal into raw mode, and back.
void io_raw(bool on);
