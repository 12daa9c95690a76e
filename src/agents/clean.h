// SPDX-License-Identifier: Apache-2.0
// Code out of what a model wrote: fences are taken off, and the sentences around it. Once for a
// whole text, which is what counts, and once for a text that is still being written, which is for
// showing it. No state but the stream's, any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

// Appends the code of this language ("python", "javascript") to `ret`. Fenced blocks of the
// language, one below the other; those of none where there are none of the language; without any
// fence, the text but for the sentences before and after it. Whether there was any code.
bool clean_code(const char *text, size_t len, const char *language, struct buf *ret);

// Takes pieces as they come, hands out pieces of code. It says `again` when what it handed out
// turns out to have been no code.
struct clean_stream;
struct clean_stream_ops {
    void (*code)(void *data, const char *text, size_t len);
    void (*again)(void *data);
};
struct clean_stream *clean_stream_new(const struct clean_stream_ops *ops, void *data);
void clean_stream_feed(struct clean_stream *stream, const char *text, size_t len);
void clean_stream_end(struct clean_stream *stream);
void clean_stream_free(struct clean_stream *stream); // takes NULL
