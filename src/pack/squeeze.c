// SPDX-License-Identifier: Apache-2.0
#include "pack/squeeze.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <zstd.h>

#include "base/fd.h"

enum {
    LEVEL = 3,
    OUT_SIZE = 1024 * 1024,
};

struct squeeze {
    int fd;
    ZSTD_CCtx *zstd;
    ZSTD_outBuffer out;
    char block[OUT_SIZE];
};

struct squeeze *squeeze_new(int fd, unsigned threads, struct err *err)
{
    struct squeeze *s = calloc(1, sizeof *s);
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    if (s == NULL || zstd == NULL) {
        free(s);
        (void)ZSTD_freeCCtx(zstd);
        (void)err_set(err, ERR_EXHAUSTED, "no memory to compress with");
        return NULL;
    }
    *s = (struct squeeze){
        .fd = fd, .zstd = zstd, .out = {.dst = s->block, .size = OUT_SIZE}
    };
    (void)ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, LEVEL);
    (void)ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, 1);
    // A library without threads refuses this, and compresses all the same.
    (void)ZSTD_CCtx_setParameter(zstd, ZSTD_c_nbWorkers, (int)threads);
    return s;
}

void squeeze_free(struct squeeze *s)
{
    if (s == NULL)
        return;
    (void)ZSTD_freeCCtx(s->zstd);
    free(s);
}

static int flush(struct squeeze *s)
{
    int r = s->out.pos > 0 ? fd_write_all(s->fd, s->block, s->out.pos) : 0;
    s->out.pos = 0;
    return r;
}

static int feed(struct squeeze *s, ZSTD_inBuffer *in, ZSTD_EndDirective how)
{
    for (;;) {
        size_t left = ZSTD_compressStream2(s->zstd, &s->out, in, how);
        if (ZSTD_isError(left))
            return -EIO;
        bool is_done = how == ZSTD_e_end ? left == 0 : in->pos == in->size;
        if (s->out.pos == s->out.size || (how == ZSTD_e_end && is_done)) {
            int r = flush(s);
            if (r < 0)
                return r;
        }
        if (is_done)
            return 0;
    }
}

int squeeze_add(struct squeeze *s, const void *data, size_t len)
{
    ZSTD_inBuffer in = {.src = data, .size = len};
    return feed(s, &in, ZSTD_e_continue);
}

int squeeze_end(struct squeeze *s)
{
    ZSTD_inBuffer in = {0};
    return feed(s, &in, ZSTD_e_end);
}
