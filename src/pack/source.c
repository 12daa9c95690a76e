// SPDX-License-Identifier: Apache-2.0
#include "pack/source.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "base/fd.h"

enum {
    BLOCKS = 8,
    BLOCK_SIZE = 512 * 1024,
    IN_SIZE = 256 * 1024,
    WINDOW_LOG_MAX = 27, // 128 MiB: what the format's own tool takes without being asked
};

static const unsigned char frame_magic[] = {0x28, 0xb5, 0x2f, 0xfd};

struct source {
    int fd;
    int wake[2];   // a pipe: closed at its other end when nobody wants more
    uint64_t left; // bytes that may come yet
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    // under the lock
    unsigned first, n; // blocks that are filled
    bool is_over;      // no more will be
    bool is_closed;    // nobody wants more
    bool is_taken;     // the first block is with the reader
    struct err err;    // why it is over
    // the thread's
    ZSTD_DCtx *zstd; // NULL: as it comes
    char in[IN_SIZE];
    size_t in_len, in_at;
    bool is_in_frame;
    // each one's, as `first` and `n` say
    size_t len[BLOCKS];
    char blocks[BLOCKS][BLOCK_SIZE];
};

// --- the thread ---

// Whoever sends may send nothing more, and not go either: closing must not wait for that.
static ssize_t read_unless_closed(struct source *s, char *data, size_t len)
{
    struct pollfd either[] = {
        {.fd = s->fd,      .events = POLLIN},
        {.fd = s->wake[0], .events = POLLIN},
    };
    if (poll(either, 2, -1) < 0)
        return -1;
    return either[1].revents != 0 ? 0 : read(s->fd, data, len);
}

static int fill_in(struct source *s, struct err *err)
{
    ssize_t n;
    do {
        n = read_unless_closed(s, s->in, sizeof s->in);
    } while (n < 0 && errno == EINTR);
    s->in_at = 0;
    s->in_len = n > 0 ? (size_t)n : 0;
    return n < 0 ? err_sys(err, errno, "read what comes in") : n > 0;
}

static int copy_plain(struct source *s, char *block, size_t *ret_len, struct err *err)
{
    size_t len = 0;
    while (len < BLOCK_SIZE) {
        int r = s->in_at < s->in_len ? 1 : fill_in(s, err);
        if (r < 0)
            return -1;
        if (r == 0)
            break;
        size_t n = s->in_len - s->in_at;
        n = n < BLOCK_SIZE - len ? n : BLOCK_SIZE - len;
        memcpy(block + len, s->in + s->in_at, n);
        s->in_at += n;
        len += n;
    }
    *ret_len = len;
    return 0;
}

// Enough of what comes to see how a frame begins, unless it ends before.
static int gather(struct source *s, size_t len, struct err *err)
{
    memmove(s->in, s->in + s->in_at, s->in_len - s->in_at);
    s->in_len -= s->in_at;
    s->in_at = 0;
    while (s->in_len < len) {
        ssize_t n = read_unless_closed(s, s->in + s->in_len, len - s->in_len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? err_sys(err, errno, "read what comes in") : 0;
        s->in_len += (size_t)n;
    }
    return 0;
}

// The library looks at the window only when it needs one: a frame that fits in where it goes it
// takes as it is. RFC 8878, 3.1.1.1: the descriptor, then the window's, unless it is of one
// segment.
static int check_window(struct source *s, struct err *err)
{
    enum { DESCRIPTOR = 4, WINDOW, HEAD_SIZE, IS_ONE_SEGMENT = 1 << 5, LOG_MIN = 10 };
    const unsigned char *in = (const unsigned char *)s->in;
    if (gather(s, HEAD_SIZE, err) < 0)
        return -1;
    if (s->in_len < HEAD_SIZE || memcmp(in, frame_magic, sizeof frame_magic) != 0 ||
        (in[DESCRIPTOR] & IS_ONE_SEGMENT) != 0)
        return 0;
    uint64_t base = UINT64_C(1) << (LOG_MIN + (in[WINDOW] >> 3));
    return base + base / 8 * (in[WINDOW] & 7) <= UINT64_C(1) << WINDOW_LOG_MAX
               ? 0
               : err_set(err, ERR_INVALID, "the archive needs too much memory to decompress");
}

static int unsqueeze(struct source *s, char *block, size_t *ret_len, struct err *err)
{
    ZSTD_outBuffer out = {.dst = block, .size = BLOCK_SIZE};
    while (out.pos < out.size) {
        int r = s->in_at < s->in_len ? 1 : fill_in(s, err);
        if (r < 0 || (r == 1 && !s->is_in_frame && check_window(s, err) < 0))
            return -1;
        ZSTD_inBuffer in = {.src = s->in, .size = s->in_len, .pos = s->in_at};
        size_t before = out.pos;
        size_t left = r == 0 && !s->is_in_frame ? 0 : ZSTD_decompressStream(s->zstd, &out, &in);
        s->in_at = in.pos;
        if (ZSTD_isError(left))
            return err_set(err, ERR_INVALID, "the archive is damaged: %s", ZSTD_getErrorName(left));
        s->is_in_frame = left != 0;
        if (r == 0 && left != 0 && out.pos == before)
            return err_set(err, ERR_INVALID, "the archive ends too early");
        if (r == 0 && left == 0)
            break;
    }
    *ret_len = out.pos;
    return 0;
}

// By the first bytes. Other compressions are left to libarchive.
static int choose(struct source *s, struct err *err)
{
    if (fill_in(s, err) < 0 || gather(s, sizeof frame_magic, err) < 0)
        return -1;
    if (s->in_len < sizeof frame_magic || memcmp(s->in, frame_magic, sizeof frame_magic) != 0)
        return 0;
    s->zstd = ZSTD_createDCtx();
    if (s->zstd == NULL)
        return err_set(err, ERR_EXHAUSTED, "no memory to decompress with");
    (void)ZSTD_DCtx_setParameter(s->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
    return 0;
}

static int fill(struct source *s, unsigned i, struct err *err)
{
    int r = s->zstd != NULL ? unsqueeze(s, s->blocks[i], &s->len[i], err)
                            : copy_plain(s, s->blocks[i], &s->len[i], err);
    if (r == 0 && s->len[i] > s->left)
        return err_set(err, ERR_EXHAUSTED, "the archive is larger than is allowed");
    s->left -= r == 0 ? s->len[i] : 0;
    return r;
}

// A block to fill, or -1 when nobody wants more.
static int wait_for_room(struct source *s)
{
    (void)pthread_mutex_lock(&s->lock);
    while (s->n == BLOCKS && !s->is_closed)
        (void)pthread_cond_wait(&s->changed, &s->lock);
    int i = s->is_closed ? -1 : (int)((s->first + s->n) % BLOCKS);
    (void)pthread_mutex_unlock(&s->lock);
    return i;
}

static void hand_over(struct source *s, bool is_filled, const struct err *err)
{
    (void)pthread_mutex_lock(&s->lock);
    s->n += is_filled;
    s->is_over = !is_filled;
    s->err = *err;
    (void)pthread_cond_signal(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
}

static void *work(void *arg)
{
    struct source *s = arg;
    struct err err = {0};
    int i, r = choose(s, &err);
    bool is_filled = true;
    while (is_filled && (i = wait_for_room(s)) >= 0) {
        if (r == 0)
            r = fill(s, (unsigned)i, &err);
        is_filled = r == 0 && s->len[i] > 0;
        hand_over(s, is_filled, &err);
    }
    return NULL;
}

// --- the reader ---

struct source *source_new(int fd, uint64_t max, struct err *err)
{
    struct source *s = calloc(1, sizeof *s);
    if (s == NULL) {
        (void)err_set(err, ERR_EXHAUSTED, "no memory to read with");
        return NULL;
    }
    s->fd = fd;
    s->left = max;
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_cond_init(&s->changed, NULL);
    int r = pipe2(s->wake, O_CLOEXEC) < 0 ? errno : pthread_create(&s->thread, NULL, work, s);
    if (r != 0) {
        (void)err_sys(err, r, "start a thread");
        free(s);
        return NULL;
    }
    return s;
}

void source_free(struct source *s)
{
    if (s == NULL)
        return;
    (void)pthread_mutex_lock(&s->lock);
    s->is_closed = true;
    (void)pthread_cond_signal(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
    fd_close(s->wake[1]);
    (void)pthread_join(s->thread, NULL);
    fd_close(s->wake[0]);
    (void)pthread_mutex_destroy(&s->lock);
    (void)pthread_cond_destroy(&s->changed);
    (void)ZSTD_freeDCtx(s->zstd);
    free(s);
}

int source_next(struct source *s, const void **ret, size_t *ret_len, struct err *err)
{
    (void)pthread_mutex_lock(&s->lock);
    if (s->is_taken) {
        s->first = (s->first + 1) % BLOCKS;
        s->n--;
        s->is_taken = false;
        (void)pthread_cond_signal(&s->changed);
    }
    while (s->n == 0 && !s->is_over)
        (void)pthread_cond_wait(&s->changed, &s->lock);
    int r = s->n > 0 ? 1 : s->err.code != ERR_NONE ? -1 : 0;
    s->is_taken = r == 1;
    if (r == 1) {
        *ret = s->blocks[s->first];
        *ret_len = s->len[s->first];
    } else if (r < 0) {
        *err = s->err;
    }
    (void)pthread_mutex_unlock(&s->lock);
    return r;
}
