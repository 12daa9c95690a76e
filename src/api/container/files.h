// SPDX-License-Identifier: Apache-2.0
// What the file routes of the container family share. Their paths may be relative, to where the
// session of the request was when its last command ended, and written in any way; here they become
// absolute and canonical. File work waits behind no command of the session. On the loop's thread.
#pragma once

#include "api/container/container.h"
#include "api/files.h"

// A field of each of these bodies.
#define CONTAINER_SESSION(type)                                                                    \
    FIELD("sessionId", FIELD_STRING, offsetof(type, session), .max = EDGE_NAME_MAX,                \
          .help = "\"default\" if not given; \"__DISABLE_SESSION__\": none")

// As path.resolve of Node does: `path`, or if it is relative what it means in `dir`. 0, or -1 with
// ERR_INVALID: it is empty or too long.
int container_resolve(const char *dir, const char *path, char ret[FILE_PATH_MAX + 1],
                      struct err *err);
// The same, by the directory of the session. 0, or -1 when it was refused and answered: `field` is
// what the request calls it.
int container_path(struct call *call, const char *session, const char *field, const char *path,
                   char ret[FILE_PATH_MAX + 1]);

// Makes call->state of `size` bytes, which begin with a struct file_call, with the resolved path,
// and what every error from now on has as its context. NULL when it was refused and answered.
void *container_file_new(struct call *call, size_t size, const char *session, const char *field,
                         const char *path, const char *operation);
// What the hand said, as one of theirs.
enum container_code container_file_code(const struct err *err);
void container_file_fail(struct call *call, const struct err *err);
// The same of what must not be done twice: of a hand that is gone nobody knows what it still did.
void container_change_fail(struct call *call, const char *operation, const struct err *err);
