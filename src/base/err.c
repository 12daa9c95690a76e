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
    case ENODEV:
        return ERR_UNSUPPORTED;
    default:
        return ERR_INTERNAL;
    }
}

int err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
    err->code = code;
    err->sys_errno = 0;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    return -1;
}

int err_sys(struct err *err, int sys_errno, const char *fmt, ...)
{
    err->code = code_of(sys_errno);
    err->sys_errno = sys_errno;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof err->msg) {
        const char *text = strerrordesc_np(sys_errno);
        (void)snprintf(err->msg + n, sizeof err->msg - (size_t)n, ": %s",
                       text != NULL ? text : "unknown error");
    }
    return -1;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
    char old[sizeof err->msg];
    memcpy(old, err->msg, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof err->msg)
        (void)snprintf(err->msg + n, sizeof err->msg - (size_t)n, ": %s", old);
    return -1;
}
