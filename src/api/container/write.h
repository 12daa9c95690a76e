// SPDX-License-Identifier: Apache-2.0
// What the two ways to write a file share: a small body in memory (files-write.c), and a large one
// that is left in the connection (write-large.c).
#pragma once

#include "api/container/files.h"

enum {
    CONTAINER_WRITE_SMALL = 256 * 1024,      // bytes of a body; reading JSON holds everybody up
    CONTAINER_WRITE_MAX = 128 * 1024 * 1024, // of one
    // Memory of all at once, bodies and what is decoded from them: the largest, and room beside it.
    CONTAINER_SPOOL_MAX = 3 * CONTAINER_WRITE_MAX,
};

struct container_write_body {
    const char *path, *encoding, *session;
    struct body_bytes content;
};
extern const struct schema container_write_schema;

bool container_is_raw(const struct http_peek *peek, const char *rest); // struct family
bool container_write_is_base64(const struct container_write_body *b);
// The encoding. 0, or -1 when it was refused and answered.
int container_write_check(struct call *call, const struct container_write_body *b);
// A files_fn: answers what became of it.
void container_written(struct call *call, struct hand_answer *done, const struct err *err);

void container_write_large(struct call *call);
