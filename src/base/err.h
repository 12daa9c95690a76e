// SPDX-License-Identifier: Apache-2.0
// One error, on the caller's stack. A function that can fail for a reason worth telling takes
// `struct err *err` last, returns -1 and fills it; on success it leaves it untouched. Nothing is
// allocated, so there is nothing to release. Any thread may use its own.
#pragma once

enum err_code {
    ERR_NONE = 0,
    ERR_INVALID,     // the request makes no sense
    ERR_NOT_FOUND,   // what was named does not exist
    ERR_CONFLICT,    // exists already, or is in use
    ERR_EXHAUSTED,   // a limit or a resource ran out
    ERR_DENIED,      // not allowed
    ERR_UNSUPPORTED, // this machine cannot do it
    ERR_UNAVAILABLE, // not now, try again
    ERR_INTERNAL,    // Cay or the kernel misbehaved
    ERR_CODE_MAX,
};

struct err {
    enum err_code code;
    int sys_errno; // 0 when no system call was at fault
    char msg[240];
};

// All three return -1, so that `return err_set(...)` reads well.
int err_set(struct err *err, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// Takes errno's value and appends its text; the code follows from the errno.
int err_sys(struct err *err, int sys_errno, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// Puts "what: " before the message that is there.
int err_wrap(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
