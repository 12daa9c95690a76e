// SPDX-License-Identifier: Apache-2.0
// What all long requests do: records into the pipe, signs of life, and a word about a failure.
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/fd.h"
#include "hand/hand-internal.h"

enum {
    GATHERED_MAX = 32 * 1024,
    TICK_MS = 200,
};

// Of the one request that this process works on.
static _Alignas(8) char gathered[GATHERED_MAX];
static size_t n_gathered;
static int64_t last_tick;

int work_flush(struct work *work)
{
    size_t len = n_gathered;
    n_gathered = 0;
    return fd_write_all(work->out, gathered, len);
}

int work_record(struct work *work, uint32_t type, void *rec, size_t rec_len,
                const struct work_text *texts, unsigned n_texts)
{
    size_t len = rec_len;
    for (unsigned i = 0; i < n_texts; i++)
        len += texts[i].len + 1;
    size_t padded = (len + 7) & ~(size_t)7;
    if (padded > HAND_RECORD_MAX)
        return -EMSGSIZE;
    if (n_gathered + padded > sizeof gathered) {
        int r = work_flush(work);
        if (r < 0)
            return r;
    }
    struct hand_record head = {.type = type, .len = (uint32_t)padded};
    char *at = gathered + n_gathered;
    memset(at, 0, padded);
    memcpy(at, rec, rec_len);
    memcpy(at, &head, sizeof head);
    at += rec_len;
    for (unsigned i = 0; i < n_texts; i++) {
        memcpy(at, texts[i].at, texts[i].len);
        at += texts[i].len + 1;
    }
    n_gathered += padded;
    return 0;
}

int work_tick(struct work *work)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    int64_t ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    if (last_tick == 0)
        last_tick = ms;
    if (ms - last_tick < TICK_MS)
        return 0;
    last_tick = ms;
    int r = 0;
    if (work->progress) {
        struct hand_progress rec = {.n = work->n, .bytes = work->bytes};
        r = work_record(work, HAND_REC_PROGRESS, &rec, sizeof rec, NULL, 0);
    }
    if (r == 0)
        r = work_flush(work);
    struct pollfd p = {.fd = work->out};
    if (r == 0 && poll(&p, 1, 0) > 0 && (p.revents & POLLERR))
        r = -EPIPE;
    return r;
}

int work_failed(struct work *work, const char *path, int sys_errno)
{
    (void)snprintf(work->path, sizeof work->path, "%s", path);
    return -sys_errno;
}
