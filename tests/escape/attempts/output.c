// SPDX-License-Identifier: Apache-2.0
// 6 output without end, without lines, without meaning; 24 output meant for a terminal. What is
// kept of it, and what it costs, is judged outside.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "attempt.h"
#include "world.h"

enum {
    BLOCK = 1 << 20,
    BLOCKS = 256, // far more than is kept
};

static enum outcome pour(const char *block)
{
    for (int i = 0; i < BLOCKS; i++) {
        size_t done = 0;
        while (done < BLOCK) {
            ssize_t n = write(STDOUT_FILENO, block + done, BLOCK - done);
            if (n <= 0)
                return held("a write failed after %d MiB: %s", i, strerrorname_np(errno));
            done += (size_t)n;
        }
    }
    return held("wrote %d MiB", BLOCKS);
}

static char block[BLOCK];

static enum outcome output_flood(const struct attempt *self)
{
    (void)self;
    for (size_t i = 0; i < BLOCK; i += 64)
        memcpy(block + i, "sixty-four bytes of output, and then sixty-four more of it ....\n", 64);
    return pour(block);
}

static enum outcome output_line(const struct attempt *self)
{
    (void)self;
    memset(block, 'x', sizeof(block));
    return pour(block);
}

static enum outcome output_binary(const struct attempt *self)
{
    unsigned state = 1;
    (void)self;
    for (size_t i = 0; i < BLOCK; i++) {
        state = state * 1664525u + 1013904223u;
        block[i] = (char)(state >> 24);
    }
    return pour(block);
}

// Titles, a bell, a colour, a terminal that is asked to answer, HTML, and bytes that are no UTF-8.
static enum outcome output_controls(const struct attempt *self)
{
    static const char text[] = "\033]0;title\007\033[31m\033[6n\033P+q544e\033\\\r\b\001"
                               "<script>alert(1)</script>\xff\xfe\xc0\xaf\xed\xa0\x80\n";
    (void)self;
    ssize_t n = write(STDOUT_FILENO, text, sizeof(text)); // the ending NUL too
    return held("wrote %zd bytes", n);
}

// It would push the members far to the right.
// clang-format off
static const struct attempt attempts[] = {
    {.number = 6,
     .name = "output_flood",
     .tries = "writes lines at full speed",
     .held_by = "limit of kept output",
     .canary = "output",
     .place = OUTSIDE,
     .run = output_flood},
    {.number = 6,
     .name = "output_line",
     .tries = "writes one line that never ends",
     .held_by = "limit of kept output",
     .canary = "output",
     .place = OUTSIDE,
     .run = output_line},
    {.number = 6,
     .name = "output_binary",
     .tries = "writes random bytes",
     .held_by = "limit of kept output, and an encoder that takes any byte",
     .canary = "output",
     .place = OUTSIDE,
     .run = output_binary},
    {.number = 24,
     .name = "output_controls",
     .tries = "writes control sequences and markup for whoever shows the output",
     .held_by = "the JSON encoder leaves no control byte raw",
     .no_canary = "quoting is how JSON is written, not a fence to take away",
     .place = OUTSIDE,
     .run = output_controls},
};
// clang-format on

const struct attempt_list output_attempts = ATTEMPTS(attempts);
