// SPDX-License-Identifier: Apache-2.0
// What OpenCode's server wrote last, for those who are told that it failed.
#include <stdio.h>
#include <string.h>

#include "agents/opencode-internal.h"

// The last lines of both streams, as one text.
static void last_of(struct process *p, enum log_stream stream, struct buf *ret)
{
    char piece[LAST_WORDS_MAX];
    struct bytelog *log = process_log(p, stream);
    uint64_t at, size = log != NULL ? bytelog_size(log) : 0;
    uint64_t from = size > sizeof piece ? size - sizeof piece : 0;
    ssize_t n = log != NULL ? bytelog_read(log, from, piece, sizeof piece, &at) : 0;
    opencode_plain_text(piece, n > 0 ? (size_t)n : 0, ret);
}

void opencode_words_of(struct process *p, char *ret, size_t size)
{
    auto_buf text;
    buf_init(&text, 4 * LAST_WORDS_MAX);
    last_of(p, LOG_STDOUT, &text);
    last_of(p, LOG_STDERR, &text);
    const char *words = buf_str(&text);
    size_t len = strlen(words);
    if (len >= size)
        words += len - size + 1; // the newest
    (void)snprintf(ret, size, "%s", words);
}

void opencode_last_words(struct sandbox *s, char *ret, size_t size)
{
    struct err err = {0};
    struct process *p = process_find(s, OPENCODE_NAME, &err);
    ret[0] = '\0';
    if (p != NULL)
        opencode_words_of(p, ret, size);
}
