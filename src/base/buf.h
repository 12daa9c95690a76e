// SPDX-License-Identifier: Apache-2.0
// A growable run of bytes, born with the most it may ever hold. Whoever inits it owns it and calls
// buf_done. An append that does not fit keeps what fits, answers -E2BIG, and the buffer remembers
// it in `failed`, so that a writer may append many times and look once at the end. The bytes are
// always followed by a NUL that does not count, so that text can be printed. One thread at a time.
#pragma once

#include <stdarg.h>
#include <stddef.h>

struct buf {
    char *data; // NULL until the first append
    size_t len;
    size_t cap; // allocated, without the NUL
    size_t max;
    int failed; // 0, or the first -E2BIG or -ENOMEM
};

void buf_init(struct buf *buf, size_t max);
void buf_done(struct buf *buf);  // takes NULL; the buffer is then empty and may be used again
void buf_reset(struct buf *buf); // empty and not failed, memory kept

#define auto_buf __attribute__((cleanup(buf_done))) struct buf

// All answer 0, -E2BIG or -ENOMEM; a format that printf refuses is -EINVAL.
int buf_append(struct buf *buf, const void *data, size_t len);
int buf_append_str(struct buf *buf, const char *text);
int buf_append_char(struct buf *buf, char c);
int buf_printf(struct buf *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int buf_vprintf(struct buf *buf, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

// Makes room for `want` more bytes, or for as many as the maximum leaves, and hands out where they
// go: for read(2) straight into the buffer. `ret_room` is how many fit; buf_commit counts what
// arrived.
int buf_reserve(struct buf *buf, size_t want, char **ret_at, size_t *ret_room);
void buf_commit(struct buf *buf, size_t len);

// Drops the first `len` bytes.
void buf_consume(struct buf *buf, size_t len);

// The bytes as text: never NULL, and ended by a NUL.
const char *buf_str(const struct buf *buf);
