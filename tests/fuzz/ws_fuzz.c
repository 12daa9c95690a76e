// SPDX-License-Identifier: Apache-2.0
// Frames from anybody: however the bytes are cut, the same messages come of them, and one end.
// The first byte says how they are cut.
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "edge/ws.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MESSAGE_MAX = 4096, SIZE_MOST = 64 * 1024, TURNS_MAX = 64 };

struct heard {
    unsigned messages, closes;
    uint64_t sum;
};

static void add(struct heard *heard, const void *data, size_t len, unsigned kind)
{
    assert(heard->closes == 0 && len <= MESSAGE_MAX);
    heard->messages++;
    heard->sum = heard->sum * 31 + kind;
    for (size_t i = 0; i < len; i++)
        heard->sum = heard->sum * 31 + ((const uint8_t *)data)[i];
}

static void on_text(void *data, const char *text, size_t len)
{
    add(data, text, len, 1);
}

static void on_binary(void *data, const void *bytes, size_t len)
{
    add(data, bytes, len, 2);
}

static void on_closed(void *data, unsigned code)
{
    struct heard *heard = data;
    heard->closes++;
    // Not compared: whether the library looks at a close's reason, and when, depends on the cut.
    (void)code;
}

static void turn(uv_loop_t *loop, int peer)
{
    static char nowhere[64 * 1024];
    (void)uv_run(loop, UV_RUN_NOWAIT);
    (void)!read(peer, nowhere, sizeof nowhere);
}

static struct heard hear(const uint8_t *data, size_t size, size_t step)
{
    static const struct ws_ops ops = {.text = on_text, .binary = on_binary, .closed = on_closed};
    struct heard heard = {0};
    uv_loop_t loop;
    struct buf early;
    int ends[2];
    if (uv_loop_init(&loop) < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
        abort();
    buf_init(&early, SIZE_MOST);
    (void)buf_append(&early, data, step == 0 ? size : 0);
    (void)ws_new(&loop, ends[0], &early, MESSAGE_MAX, &ops, &heard);
    for (size_t at = 0; step != 0 && at < size; at += step) {
        (void)!send(ends[1], data + at, size - at < step ? size - at : step, MSG_NOSIGNAL);
        turn(&loop, ends[1]);
    }
    for (int i = 0; i < 4; i++)
        turn(&loop, ends[1]);
    fd_close(ends[1]);
    for (int i = 0; i < TURNS_MAX && uv_run(&loop, UV_RUN_NOWAIT) != 0; i++)
        ;
    ws_end_all();
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    assert(uv_loop_close(&loop) == 0 && heard.closes == 1);
    return heard;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > SIZE_MOST)
        return 0;
    struct heard whole = hear(data + 1, size - 1, 0);
    struct heard cut = hear(data + 1, size - 1, data[0] % 64 + 1);
    assert(whole.messages == cut.messages && whole.sum == cut.sum);
    return 0;
}
