// SPDX-License-Identifier: Apache-2.0
// Programs of others that images are made with (tar, zstd, mmdebstrap), started as children. A
// child dies with us, whatever happens to us; one that was given a pid namespace takes all of its
// own children along. It gets three descriptors, a mask without signals and the environment that it
// is given, nothing more. For a process with one thread: the child is forked, and does work before
// it becomes the program.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    TOOL_BROKEN =
        127, // the exit code of a child that did not become the program; why is on its stderr
};

struct tool {
    const char *const *argv; // argv[0] is looked up in PATH
    const int *program;      // or this file is executed, by its descriptor
    const char *const *envp;
    int fds[3];          // become 0, 1 and 2; -1 is /dev/null. The caller keeps its own.
    uint64_t namespaces; // CLONE_NEW*
    void (*setup)(
        const void *arg); // in the child, before the program; may be NULL. tool_die on trouble
    const void *setup_arg;
};

// A pidfd, or -1.
int tool_start(const struct tool *tool, struct err *err);
// The exit code, or 128 + the signal that ended it. Waits; closes the descriptor.
int tool_wait(int pidfd);
// Ends it and waits. Takes negative numbers.
void tool_kill(int pidfd);

// For setup: says what went wrong, and ends the child.
_Noreturn void tool_die(const char *what, int sys_errno);

// Runs a small program that only answers: its output into `out`, its exit code back. -1 when it
// could not be started, or said more than the buffer takes.
int tool_ask(const char *const *argv, struct buf *out);
