// SPDX-License-Identifier: Apache-2.0
#include "api/container/gather.h"

#include <string.h>

#include "api/container/exec.h"
#include "api/show.h"

enum {
    ESCAPED_MAX = 6, // bytes of JSON for one of output
    ANSWER_MAX = 2 * ESCAPED_MAX * EXEC_OUTPUT_MAX + 16 * 1024 * 1024,
    PIECE = 1024 * 1024,
};

static void begin(struct gather *g)
{
    if (g->begun)
        return;
    g->begun = true;
    buf_init(&g->raw, EXEC_OUTPUT_MAX);
    buf_init(&g->err, EXEC_OUTPUT_MAX);
    buf_init(&g->answer.buf, ANSWER_MAX);
    json_init(&g->answer.json, &g->answer.buf);
    json_open_object(&g->answer.json);
    json_key(&g->answer.json, "stdout");
    if (!g->base64)
        json_open_text(&g->answer.json);
}

static void put(struct gather *g, const char *bytes, size_t len)
{
    if (g->base64)
        (void)buf_append(&g->raw, bytes, len);
    else
        json_more_text(&g->answer.json, bytes, len);
}

// Without NULs. A newline waits until something comes behind it.
static void put_trimmed(struct gather *g, const char *bytes, size_t len)
{
    if (len == 0)
        return;
    if (g->newline)
        put(g, "\n", 1);
    g->newline = bytes[len - 1] == '\n';
    put(g, bytes, len - g->newline);
}

static void on_piece(void *data, const char *bytes, size_t len)
{
    struct gather *g = data;
    if (!g->trims) {
        put(g, bytes, len);
        return;
    }
    for (const char *nul; (nul = memchr(bytes, '\0', len)) != NULL;) {
        put_trimmed(g, bytes, (size_t)(nul - bytes));
        len -= (size_t)(nul - bytes) + 1;
        bytes = nul + 1;
    }
    put_trimmed(g, bytes, len);
}

// Counts what is there, what becomes of it in the end, and `more`. False: there is no room for it.
static bool hold(struct gather *g, size_t more)
{
    return call_hold(g->call, g->answer.buf.len + 2 * g->raw.len + g->err_size + more);
}

void gather_output(struct gather *g, enum log_stream stream, const char *bytes, size_t len)
{
    begin(g);
    size_t room = EXEC_OUTPUT_MAX - (stream == LOG_STDERR ? g->err.len : g->taken);
    size_t n = len < room ? len : room, size = json_text_size(bytes, n);
    if (!hold(g, size))
        n = 0;
    g->truncated = g->truncated || n < len;
    if (n > 0 && stream == LOG_STDERR) {
        g->err_size += size;
        (void)buf_append(&g->err, bytes, n);
    } else if (n > 0) {
        g->taken += n;
        pieces_take(&g->pieces, bytes, n, PIECE, on_piece, g);
    }
}

static void drop_nuls(struct buf *b)
{
    size_t to = 0;
    for (size_t i = 0; i < b->len; i++) {
        if (b->data[i] != '\0')
            b->data[to++] = b->data[i];
    }
    b->len = to;
}

static void trim(struct buf *b)
{
    if (b->len > 0 && memchr(b->data, '\0', b->len) != NULL)
        drop_nuls(b);
    if (b->len > 0 && b->data[b->len - 1] == '\n')
        b->len--;
}

struct container_answer *gather_finish(struct gather *g)
{
    struct json *j = &g->answer.json;
    begin(g);
    pieces_end(&g->pieces, on_piece, g);
    if (g->base64)
        json_put_base64(j, g->raw.data, g->raw.len);
    else
        json_close_text(j);
    if (g->trims)
        trim(&g->err);
    json_key(j, "stderr");
    container_put_output(j, g->err.data, g->err.len, g->base64);
    if (g->base64)
        show_str(j, "encoding", "base64");
    if (g->truncated)
        show_bool(j, "truncated", true);
    return &g->answer;
}

void gather_drop(struct gather *g)
{
    buf_done(&g->raw);
    buf_done(&g->err);
    buf_done(&g->answer.buf);
    g->begun = false;
}
