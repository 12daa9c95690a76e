// SPDX-License-Identifier: Apache-2.0
// The tool Read. A small file comes with the hand's answer; a large one is read from its descriptor
// on a thread, until what was asked for is there.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agents/lines.h"
#include "agents/tool-work.h"
#include "agents/tool.h"
#include "base/fd.h"
#include "sandbox/hand.h"

enum {
    CHUNK = 64 * 1024,
    SCAN_MAX = 256 * 1024 * 1024, // bytes looked through for a line
};
#define LINE_LAST INT64_C(1000000000000)

struct reading {
    int fd;
    struct lines lines;
    struct buf out;
    int sys_errno;
    bool is_long; // the rest was not looked at
};

static struct reading *reading_new(const struct tool_call *call)
{
    struct reading *r = calloc(1, sizeof *r);
    const int64_t *range = call->state;
    if (r == NULL)
        abort();
    r->fd = -1;
    buf_init(&r->out, TOOL_OUTPUT_MAX);
    lines_init(&r->lines, &r->out, (uint64_t)range[0], (uint64_t)range[1]);
    return r;
}

static void reading_free(struct reading *r)
{
    fd_close(r->fd);
    buf_done(&r->out);
    free(r);
}

// --- its answer

static void answer(struct tool_call *call, const struct reading *r)
{
    const struct lines *l = &r->lines;
    struct err err = {0};
    if (r->sys_errno != 0) {
        (void)hand_error(r->sys_errno, "the file", &err);
        tool_fail(call, "%s", err.msg);
    } else if (l->is_binary) {
        tool_fail(call, "the file is not text: it has NUL bytes");
    } else if (r->is_long) {
        tool_fail(call, "line %" PRIu64 " lies beyond the first %d bytes: use Bash to look for it",
                  l->first, SCAN_MAX);
    } else if (r->out.len == 0 && lines_seen(l) == 0) {
        (void)buf_append_str(&call->output, "(the file is empty)");
        tool_done(call, false);
    } else if (r->out.len == 0) {
        tool_fail(call, "offset: the file has %" PRIu64 " lines", lines_seen(l));
    } else {
        (void)buf_append(&call->output, r->out.data, r->out.len);
        if (l->stopped)
            (void)buf_printf(&call->output, "[there is more: go on with offset %" PRIu64 "]",
                             l->line);
        tool_done(call, false);
    }
}

// --- a large file

static void read_on_thread(void *state)
{
    struct reading *r = state;
    char chunk[CHUNK];
    bool wants_more = true;
    for (off_t at = 0; wants_more;) {
        ssize_t n = pread(r->fd, chunk, sizeof chunk, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            r->sys_errno = errno;
        if (n <= 0)
            return;
        wants_more = lines_feed(&r->lines, chunk, (size_t)n);
        at += n;
        r->is_long = wants_more && at >= SCAN_MAX;
        if (r->is_long)
            return;
    }
}

static void on_read(struct tool_call *call, void *state)
{
    struct reading *r = state;
    if (!tool_is_over(call))
        answer(call, r);
    reading_free(r);
}

// --- asking for it

static void on_hand(void *data, struct hand_answer *hand, const struct err *err)
{
    struct tool_call *call = data;
    if (tool_is_over(call)) {
        tool_unref(call);
        return;
    }
    if (err != NULL) {
        tool_fail(call, "%s", err->msg);
        tool_unref(call);
        return;
    }
    struct reading *r = reading_new(call);
    if (hand->fd >= 0) {
        r->fd = TAKE_FD(hand->fd);
        tool_work(call, read_on_thread, on_read, r);
    } else {
        (void)lines_feed(&r->lines, hand->data, hand->done.data_len);
        answer(call, r);
        reading_free(r);
    }
    tool_unref(call);
}

void tool_read(struct tool_call *call)
{
    char path[TOOL_PATH_MAX];
    int64_t *range = calloc(2, sizeof *range);
    if (range == NULL)
        abort();
    call->state = range;
    if (tool_path(call, "file_path", path) < 0 ||
        tool_int(call, "offset", 1, 0, LINE_LAST, &range[0]) < 0 ||
        tool_int(call, "limit", LINES_COUNT, 1, LINE_LAST, &range[1]) < 0)
        return;
    if (range[0] == 0) // some count from there
        range[0] = 1;
    const struct hand_ask ask = {.type = HAND_READ, .path = path};
    (void)hand_ask(call->sandbox, &ask, on_hand, NULL, tool_ref(call));
}
