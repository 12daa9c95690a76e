// SPDX-License-Identifier: Apache-2.0
#include "api/container/files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/show.h"
#include "sandbox/session.h"

enum { PATH_MAX_GIVEN = 4096, ABOUT_MAX = 32 * 1024 };

// -- paths

// "/a/b" and "../c/./d" are "/a/c/d". Answers the new length.
static size_t append(char *to, size_t len, const char *path)
{
    while (*path != '\0') {
        size_t n = strcspn(path, "/");
        bool up = n == 2 && path[0] == '.' && path[1] == '.';
        if (up) {
            while (len > 0 && to[--len] != '/')
                ;
        } else if (n > 0 && !(n == 1 && path[0] == '.')) {
            to[len++] = '/';
            memcpy(to + len, path, n);
            len += n;
        }
        path += n;
        path += *path == '/';
    }
    return len;
}

int container_resolve(const char *dir, const char *path, char ret[FILE_PATH_MAX + 1],
                      struct err *err)
{
    char joined[2 * PATH_MAX_GIVEN + 4];
    size_t len = 0;
    if (*path == '\0')
        return err_set(err, ERR_INVALID, "must not be empty");
    if (strlen(path) > PATH_MAX_GIVEN)
        return err_set(err, ERR_INVALID, "is longer than %d bytes", PATH_MAX_GIVEN);
    if (*path != '/' && strlen(dir) <= PATH_MAX_GIVEN)
        len = append(joined, len, dir);
    len = append(joined, len, path);
    if (len > FILE_PATH_MAX)
        return err_set(err, ERR_INVALID, "is longer than %d bytes, as it is from the root",
                       FILE_PATH_MAX);
    if (len == 0)
        joined[len++] = '/';
    joined[len] = '\0';
    memcpy(ret, joined, len + 1);
    return 0;
}

// Where a session is, as far as is known: a command that runs may have left. One that was not used
// yet would begin in /workspace.
static int resolve_in(struct call *call, const char *session, const char *path,
                      char ret[FILE_PATH_MAX + 1], struct err *err)
{
    struct session_row row = {0};
    const char *id = session != NULL && *session != '\0' ? session : "default";
    bool asks = *path != '/' && strcmp(id, "__DISABLE_SESSION__") != 0;
    if (asks && session_get(call->sandbox, id, &row, err) < 0 && err->code != ERR_NOT_FOUND)
        return -1;
    int r = container_resolve(row.cwd != NULL ? row.cwd : "/workspace", path, ret, err);
    session_row_done(&row);
    return r;
}

int container_path(struct call *call, const char *session, const char *field, const char *path,
                   char ret[FILE_PATH_MAX + 1])
{
    struct err err = {0};
    if (resolve_in(call, session, path, ret, &err) == 0)
        return 0;
    if (err.code == ERR_INVALID)
        container_invalid(call, field, "%s: %s", field, err.msg);
    else
        call_fail(call, &err);
    return -1;
}

// -- calls

void *container_file_new(struct call *call, size_t size, const char *session, const char *field,
                         const char *path, const char *operation)
{
    auto_buf about;
    struct json j;
    struct file_call *f = calloc(1, size);
    if (f == NULL)
        abort();
    call->state = f;
    if (container_path(call, session, field, path, f->path) < 0)
        return NULL;
    buf_init(&about, ABOUT_MAX);
    json_init(&j, &about);
    json_open_object(&j);
    show_str(&j, "path", path);
    show_str(&j, "operation", operation);
    json_close_object(&j);
    if (json_finish(&j) == 0)
        call_about(call, buf_str(&about));
    return f;
}

enum container_code container_file_code(const struct err *err)
{
    static const struct {
        int sys_errno;
        enum container_code code;
    } codes[] = {
        {ENOENT,       CONTAINER_FILE_NOT_FOUND   },
        {EISDIR,       CONTAINER_IS_DIRECTORY     },
        {ENOTDIR,      CONTAINER_NOT_DIRECTORY    },
        {EEXIST,       CONTAINER_FILE_EXISTS      },
        {ENOTEMPTY,    CONTAINER_FILE_EXISTS      },
        {ENOSPC,       CONTAINER_NO_SPACE         },
        {EDQUOT,       CONTAINER_NO_SPACE         },
        {EACCES,       CONTAINER_PERMISSION_DENIED},
        {EPERM,        CONTAINER_PERMISSION_DENIED},
        {EROFS,        CONTAINER_READ_ONLY        },
        {EBUSY,        CONTAINER_RESOURCE_BUSY    },
        {ETXTBSY,      CONTAINER_RESOURCE_BUSY    },
        {ENAMETOOLONG, CONTAINER_NAME_TOO_LONG    },
        {EMFILE,       CONTAINER_TOO_MANY_FILES   },
        {ENFILE,       CONTAINER_TOO_MANY_FILES   },
        {EMLINK,       CONTAINER_TOO_MANY_LINKS   },
        {EFBIG,        CONTAINER_FILE_TOO_LARGE   },
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (codes[i].sys_errno == err->sys_errno)
            return codes[i].code;
    }
    if (err->code == ERR_NOT_FOUND) // of one of two paths
        return CONTAINER_FILE_NOT_FOUND;
    return err->code == ERR_UNAVAILABLE ? CONTAINER_CONTAINER_UNAVAILABLE
                                        : CONTAINER_FILESYSTEM_ERROR;
}

void container_change_fail(struct call *call, const char *operation, const struct err *err)
{
    bool is_gone = err->sys_errno == 0 || err->sys_errno == EBADF; // else it says why it did not
    if (err->code == ERR_UNAVAILABLE && is_gone)
        container_interrupted(call, operation, false,
                              "the sandbox's box, or what works on its files, ended in the middle "
                              "of it: look whether it was done");
    else
        container_file_fail(call, err);
}

void container_file_fail(struct call *call, const struct err *err)
{
    enum container_code code = container_file_code(err);
    if (code == CONTAINER_CONTAINER_UNAVAILABLE)
        call_fail(call, err);
    else
        // Their programs look for these words.
        container_fail(call, code, NULL, "%s%s",
                       code == CONTAINER_FILE_NOT_FOUND ? "file not found: " : "", err->msg);
}
