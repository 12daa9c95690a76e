// SPDX-License-Identifier: Apache-2.0
// What the commands about files share: paths in sandboxes, bytes sent and received as they come,
// and a line that says how far it is. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/remote.h"

// "ID:/path"
struct file_place {
    char id[132];
    const char *path; // absolute; within the word
};

bool file_place_is(const char *word); // has the form of one
int file_place_read(struct file_place *ret, const char *word, struct err *err);
const char *file_name(const char *path); // behind its last slash
// "/sandbox/ID/files/a/b"
void file_target(struct buf *target, const char *id, const char *path);

// On a terminal: bytes and how fast, now and then; the line is wiped in the end.
struct progress {
    bool on;
    uint64_t done;
    int64_t total; // -1: not known
    int64_t start_ns, shown_ns;
};
void progress_begin(struct progress *progress, bool on, int64_t total);
void progress_add(struct progress *progress, uint64_t bytes);
void progress_end(struct progress *progress);

// What comes from `fd`, as a request's body. The answer is JSON.
struct upload {
    const char *method; // NULL: PUT
    const char *target;
    const char *type; // media type
    int fd;
    bool progress;
    bool is_new; // only if there is nothing yet
};
int copy_upload(struct remote *remote, const struct upload *upload, struct answer *ret,
                struct err *err);
// GET, to `fd`. Answers how many bytes came, or -1.
int64_t copy_download(struct remote *remote, const char *target, int fd, bool progress,
                      struct err *err);
