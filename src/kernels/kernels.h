// SPDX-License-Identifier: Apache-2.0
// The kernels: programs that run inside boxes and keep the state of a language (kernels/, and
// kernels/PROTOCOL.md for what they are told). They are part of our own programs and go into a box
// through a pipe, so that no file of ours lies there.
#pragma once

#include <stddef.h>

enum kernel_kind {
    KERNEL_PYTHON,
    KERNEL_NODE, // javascript, typescript
    KERNEL_BASH,
    KERNEL_ONCE, // compile and run, one cell a process
    KERNEL_KIND_MAX,
};

struct kernel_source {
    const char *bytes;
    size_t len;
};

struct kernel_source kernel_source(enum kernel_kind kind);
// What strips types from TypeScript, for a node that does not do it itself. len 0: this build has
// none.
struct kernel_source kernel_typescript_tool(void);

enum { KERNEL_ARGV_MAX = 8 };
// The command line that starts a kernel of this kind the ordinary way, ends with NULL. It reads its
// source from control in.
const char *const *kernel_argv(enum kernel_kind kind);
// A Node that is to wait in a box before anybody asks: it finds its source in the variable
// CAY_KERNEL, so that nothing has to be sent.
const char *const *kernel_parked_node(void);
