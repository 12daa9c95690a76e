// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static enum err_code code_of(int sys_errno)
{
    switch (sys_errno) {
    case ENOENT:
        return ERR_NOT_FOUND;
    case EEXIST:
    case EBUSY:
        return ERR_CONFLICT;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EAGAIN:
        return ERR_EXHAUSTED;
    case EPERM:
    case EACCES:
    case EROFS:
        return ERR_DENIED;
    case ENOSYS:
    case EOPNOTSUPP:
    case EAFNOSUPPORT:
    case EPROTONOSUPPORT:
    case ENODEV:
        return ERR_UNSUPPORTED;
    default:
        return ERR_INTERNAL;
    }
}

// By way of a copy: an argument may be the very message that is being replaced.
static __attribute__((format(printf, 2, 0))) size_t print_msg(struct err *err, const char *fmt,
                                                              va_list ap)
{
    char text[sizeof err->msg];
    int n = vsnprintf(text, sizeof text, fmt, ap);
    if (n < 0)
        text[n = 0] = '\0';
    size_t len = (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    memcpy(err->msg, text, len + 1);
    return len;
}

int err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)print_msg(err, fmt, ap);
    va_end(ap);
    err->code = code;
    err->sys_errno = 0;
    return -1;
}

int err_sys(struct err *err, int sys_errno, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    size_t len = print_msg(err, fmt, ap);
    va_end(ap);
    err->code = code_of(sys_errno);
    err->sys_errno = sys_errno;
    const char *text = strerrordesc_np(sys_errno);
    (void)snprintf(err->msg + len, sizeof err->msg - len, ": %s",
                   text != NULL ? text : "unknown error");
    return -1;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
    char old[sizeof err->msg];
    memcpy(old, err->msg, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    size_t len = print_msg(err, fmt, ap);
    va_end(ap);
    (void)snprintf(err->msg + len, sizeof err->msg - len, ": %s", old);
    return -1;
}
