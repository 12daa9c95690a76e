// SPDX-License-Identifier: Apache-2.0
// What the hand's files share.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "wire/hand-msg.h"

struct hand_texts { // of a request that was checked
    const char *path, *path2;
    const char *data;
    size_t data_len;
};

void hand_fill_stat(struct hand_stat *ret, const struct stat *st);

// --- long requests: each is a process of its own with this in hand

struct work {
    const struct hand_request *req;
    struct hand_texts texts;
    int out; // the pipe to the daemon, blocking: a reader that stops stops us
    int in;  // HAND_TAR_IN
    uint64_t n, bytes;
    char path[256]; // where it failed
};
// 0 or -errno. They end when the pipe is closed (EPIPE).
int work_list(struct work *work);
int work_delete_tree(struct work *work);
int work_copy(struct work *work);
int work_search(struct work *work);
int work_replace(struct work *work);
int work_tar_out(struct work *work);
int work_tar_in(struct work *work);
int work_watch(struct work *work);

// Writes a record (head filled in) and its texts, padded. 0 or -errno.
struct work_text {
    const char *at;
    size_t len;
};
int work_record(struct work *work, uint32_t type, void *rec, size_t rec_len,
                const struct work_text *texts, unsigned n_texts);
// Remembers where it failed and returns -sys_errno.
int work_failed(struct work *work, const char *path, int sys_errno);
