// SPDX-License-Identifier: Apache-2.0
// What a watch and a check of the container family have in common: which files they are about.
#pragma once

#include "api/container/container.h"
#include "api/container/filter.h"
#include "api/files.h"

struct container_watch_body {
    const char *path, *since;
    struct body_bool recursive;
    struct body_strings include, exclude, events;
};

#define CONTAINER_WATCH_FIELDS                                                                     \
    FIELD("path", FIELD_STRING, offsetof(struct container_watch_body, path), .required = true,     \
          .help = "In /workspace"),                                                                \
        FIELD("recursive", FIELD_BOOL, offsetof(struct container_watch_body, recursive),           \
              .help = "true if not given"),                                                        \
        FIELD("include", FIELD_STRINGS, offsetof(struct container_watch_body, include),            \
              .max = FILTER_GLOBS_MAX, .help = "Only what one of these globs means"),              \
        FIELD("exclude", FIELD_STRINGS, offsetof(struct container_watch_body, exclude),            \
              .max = FILTER_GLOBS_MAX,                                                             \
              .help = "Not what one of these globs means; .git, node_modules and .DS_Store if "    \
                      "neither is given")

// Path and globs of the request, into call->state's file_call and the filter, which is in the state
// too. 0, or -1 when it was refused and answered.
int container_watch_read(struct call *call, struct file_call *file, struct filter *filter);
