// SPDX-License-Identifier: Apache-2.0
#include "move/flow.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "move/flow-internal.h"

enum {
    SLICE_BYTES = 1024 * 1024, // of a file, in one call
    AHEAD_BYTES = 8 * 1024 * 1024,
    AHEAD_STEP = 1024 * 1024,
    PUZZLED_MAX = 8,
    SMALL_BYTES = BUFFER_BYTES, // known to be no more: a buffer does it in one go
    CHUNK_HEAD = 8,             // at most: a size in hexadecimal and CRLF
    CHUNK_TAIL = 2,
};

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void flow_init(struct flow *flow, struct end *from, struct end *to)
{
    *flow = (struct flow){
        .from = from, .to = to, .left = MOVE_TO_END, .room = UINT64_MAX, .duct = {-1, -1}
    };
    chunk_init(&flow->chunk);
}

void flow_done(struct flow *flow)
{
    fd_close(TAKE_FD(flow->duct.out));
    fd_close(TAKE_FD(flow->duct.in));
    free(flow->held);
    flow->held = NULL;
}

static void end(struct flow *flow, enum move_why why, int sys_errno)
{
    flow->over = true;
    flow->why = why;
    flow->sys_errno = sys_errno;
}

void flow_stop(struct flow *flow, struct works *works, enum move_why why, int sys_errno)
{
    if (!flow->over)
        end(flow, why, sys_errno);
    flow_return_duct(flow, works);
}

size_t flow_pending(const struct flow *flow)
{
    return flow->held_len - flow->held_at + flow->ducted;
}

int flow_hold(struct flow *flow, const void *data, size_t len)
{
    if (len == 0)
        return 0;
    flow->held = malloc(len);
    if (flow->held == NULL)
        return -ENOMEM;
    memcpy(flow->held, data, len);
    flow->held_len = len;
    flow->uncounted = len;
    return 0;
}

// --- what was read

// Counts it against what may come; false when that is too much.
static bool account(struct flow *flow, size_t len)
{
    if (flow->left != MOVE_TO_END) {
        flow->left -= len;
        return true;
    }
    if (flow->chunked ? flow->chunk.total > flow->room : len > flow->room) {
        end(flow, MOVE_FROM_FAILED, EFBIG);
        return false;
    }
    if (!flow->chunked && flow->room != UINT64_MAX)
        flow->room -= len;
    return true;
}

// Answers how many bytes of the body are at the beginning of `data`.
static size_t take_in(struct flow *flow, char *data, size_t len, size_t *ret_used)
{
    *ret_used = len;
    if (flow->chunked)
        *ret_used = chunk_decode(&flow->chunk, data, len, &len);
    else if (len > flow->left)
        *ret_used = len = (size_t)flow->left;
    if (flow->chunk.state == CHUNK_BAD)
        end(flow, MOVE_BAD_CHUNKS, 0);
    else if (!account(flow, len))
        len = 0;
    return len;
}

size_t flow_hold_body(struct flow *flow)
{
    size_t used = 0;
    flow->held_len = take_in(flow, flow->held, flow->held_len, &used);
    flow->uncounted = 0;
    return used;
}

// --- writing

void flow_wrote(struct flow *flow, size_t len)
{
    flow->moved = true;
    if (flow->to->kind == END_FILE)
        flow->to->offset += (int64_t)len;
    size_t not_body = (size_t)least(flow->uncounted, len);
    flow->uncounted -= not_body;
    (void)atomic_fetch_add_explicit(&flow->bytes, len - not_body, memory_order_relaxed);
}

void flow_write_failed(struct flow *flow, int sys_errno)
{
    if (sys_errno == EINTR)
        return;
    if (sys_errno == EAGAIN && flow->to->kind != END_FILE)
        flow->to->writable = false;
    else
        end(flow, MOVE_TO_FAILED, sys_errno);
}

// An answer's head goes in one packet with the file's beginning, which follows at once.
static int send_flags(const struct flow *flow)
{
    bool more = flow->from->kind == END_FILE && flow->left != MOVE_TO_END && flow->left > 0;
    return MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0);
}

static ssize_t put(const struct flow *flow, const char *data, size_t len)
{
    const struct end *to = flow->to;
    switch (to->kind) {
    case END_SOCKET:
        return send(to->fd, data, len, send_flags(flow));
    case END_PIPE:
        return write(to->fd, data, len);
    case END_FILE:
        return pwrite(to->fd, data, len, to->offset);
    case END_KIND_MAX:
        break;
    }
    errno = EINVAL;
    return -1;
}

// Answers how much of it went.
static size_t write_some(struct flow *flow, const char *data, size_t len)
{
    ssize_t n = put(flow, data, len);
    if (n > 0)
        flow_wrote(flow, (size_t)n);
    else
        flow_write_failed(flow, n < 0 ? errno : EIO);
    return n > 0 ? (size_t)n : 0;
}

static void flush_held(struct flow *flow)
{
    flow->held_at += write_some(flow, flow->held + flow->held_at, flow->held_len - flow->held_at);
    if (flow->held_at < flow->held_len)
        return;
    free(flow->held);
    flow->held = NULL;
    flow->held_at = flow->held_len = 0;
}

static void flush(struct flow *flow)
{
    if (flow->held_len > 0)
        flush_held(flow);
    else
        flow_drain_duct(flow);
}

// --- reading

void flow_read_failed(struct flow *flow, int sys_errno)
{
    if (sys_errno == EINTR)
        return;
    if (sys_errno == EAGAIN && flow->from->kind != END_FILE)
        flow->from->readable = false;
    else
        end(flow, MOVE_FROM_FAILED, sys_errno);
}

static ssize_t get(struct end *from, char *data, size_t len)
{
    switch (from->kind) {
    case END_SOCKET:
        return recv(from->fd, data, len, MSG_DONTWAIT);
    case END_PIPE:
        return read(from->fd, data, len);
    case END_FILE:
        return pread(from->fd, data, len, from->offset);
    case END_KIND_MAX:
        break;
    }
    errno = EINVAL;
    return -1;
}

// What the sink does not take now is kept.
static void hand_on(struct flow *flow, const char *data, size_t len)
{
    size_t done = len > 0 ? write_some(flow, data, len) : 0;
    if (done == len || flow->over)
        return;
    if (flow_hold(flow, data + done, len - done) < 0)
        end(flow, MOVE_TO_FAILED, ENOMEM);
    flow->uncounted = 0;
}

// A chunk around what is in the buffer behind the room that was left for its size.
static void hand_on_chunk(struct flow *flow, char *buffer, size_t len)
{
    char size[CHUNK_HEAD + 1];
    int n = snprintf(size, sizeof size, "%hx\r\n", (unsigned short)len);
    memcpy(buffer + CHUNK_HEAD - n, size, (size_t)n);
    memcpy(buffer + CHUNK_HEAD + len, "\r\n", CHUNK_TAIL);
    hand_on(flow, buffer + CHUNK_HEAD - n, (size_t)n + len + CHUNK_TAIL);
}

static uint64_t fill_chunk(struct flow *flow, struct works *works, uint64_t max)
{
    uint64_t want = least(least(max, BUFFER_BYTES - CHUNK_HEAD - CHUNK_TAIL), flow->left);
    ssize_t n = get(flow->from, works->buffer + CHUNK_HEAD, want);
    if (n < 0)
        flow_read_failed(flow, errno);
    flow->ended = n == 0;
    if (n <= 0)
        return 0;
    if (flow->from->kind == END_FILE)
        flow->from->offset += n;
    if (account(flow, (size_t)n))
        hand_on_chunk(flow, works->buffer, (size_t)n);
    return (uint64_t)n;
}

static uint64_t fill_copied(struct flow *flow, struct works *works, uint64_t max)
{
    if (flow->to_chunked)
        return fill_chunk(flow, works, max);
    uint64_t want = least(least(max, BUFFER_BYTES), flow->left);
    if (flow->chunked)
        want = least(want, chunk_need(&flow->chunk));
    else if (flow->room < want)
        want = flow->room + 1; // one too many is how too much is told from enough
    ssize_t n = get(flow->from, works->buffer, want);
    if (n < 0)
        flow_read_failed(flow, errno);
    flow->ended = n == 0;
    if (n <= 0)
        return 0;
    if (flow->from->kind == END_FILE)
        flow->from->offset += n;
    size_t used = 0;
    size_t len = take_in(flow, works->buffer, (size_t)n, &used);
    if (!flow->over)
        hand_on(flow, works->buffer, len);
    bool sockets = flow->from->kind == END_SOCKET && flow->to->kind == END_SOCKET;
    if (sockets && n == BUFFER_BYTES && !flow->chunked)
        flow->way = WAY_DUCTED; // it carries much
    return (uint64_t)n;
}

// Has the kernel fetch what is sent next while this is under way, whatever its own reading ahead
// is set to. In steps: it cuts off what it thinks too much.
static void read_ahead(struct flow *flow)
{
    const struct end *from = flow->from;
    if (flow->ahead < from->offset)
        flow->ahead = from->offset;
    uint64_t end = (uint64_t)from->offset + least(flow->left, AHEAD_BYTES);
    for (; (uint64_t)flow->ahead + AHEAD_STEP <= end; flow->ahead += AHEAD_STEP)
        (void)posix_fadvise(from->fd, flow->ahead, AHEAD_STEP, POSIX_FADV_WILLNEED);
}

static ssize_t pass(struct flow *flow, size_t len)
{
    struct end *from = flow->from;
    struct end *to = flow->to;
    unsigned flags = SPLICE_F_NONBLOCK | SPLICE_F_MOVE;
    if (from->kind != END_FILE)
        return splice(from->fd, NULL, to->fd, to->kind == END_FILE ? &(loff_t){to->offset} : NULL,
                      len, flags);
    read_ahead(flow);
    loff_t at = from->offset;
    ssize_t n = to->kind == END_SOCKET ? sendfile(to->fd, from->fd, &at, len)
                                       : splice(from->fd, &at, to->fd, NULL, len, flags);
    if (n > 0)
        from->offset += n;
    return n;
}

// Where neither is a file both may be what is waited for, and the kernel does not say which. Asking
// it also makes it tell when that changes.
static void find_who_waits(struct flow *flow)
{
    if (flow->from->kind == END_FILE || flow->to->kind == END_FILE) {
        *(flow->from->kind == END_FILE ? &flow->to->writable : &flow->from->readable) = false;
        return;
    }
    struct pollfd ends[2] = {
        {.fd = flow->from->fd, .events = POLLIN },
        {.fd = flow->to->fd,   .events = POLLOUT}
    };
    if (poll(ends, 2, 0) < 0)
        return;
    flow->from->readable = ends[0].revents != 0;
    flow->to->writable = ends[1].revents != 0;
    // Something may just have changed; but not again and again.
    if (flow->from->readable && flow->to->writable && ++flow->puzzled > PUZZLED_MAX)
        flow->way = WAY_COPIED;
}

// Which side of a call that has both it was.
static bool is_sinks_fault(const struct flow *flow, int sys_errno)
{
    if (flow->from->kind == END_PIPE || sys_errno == EPIPE)
        return true;
    bool of_network = sys_errno == ECONNRESET || sys_errno == ETIMEDOUT ||
                      sys_errno == ECONNABORTED || sys_errno == ENOTCONN ||
                      sys_errno == EHOSTUNREACH || sys_errno == ENETUNREACH ||
                      sys_errno == ENETDOWN || sys_errno == ENOBUFS;
    return of_network && flow->to->kind == END_SOCKET;
}

static void pass_failed(struct flow *flow, int sys_errno)
{
    if (sys_errno == EINTR)
        return;
    if (sys_errno == EAGAIN)
        find_who_waits(flow);
    else if (sys_errno == EINVAL || sys_errno == ENOSYS)
        flow->way = WAY_COPIED;
    else
        end(flow, is_sinks_fault(flow, sys_errno) ? MOVE_TO_FAILED : MOVE_FROM_FAILED, sys_errno);
}

static uint64_t fill_direct(struct flow *flow, uint64_t max)
{
    uint64_t want = least(least(max, SLICE_BYTES), least(flow->left, flow->room));
    ssize_t n = pass(flow, want);
    if (n < 0)
        pass_failed(flow, errno);
    flow->ended = n == 0;
    if (n <= 0)
        return 0;
    flow->puzzled = 0;
    (void)account(flow, (size_t)n);
    flow_wrote(flow, (size_t)n);
    return (uint64_t)n;
}

static uint64_t fill_ducted(struct flow *flow, uint64_t max)
{
    uint64_t want = least(least(max, DUCT_BYTES), least(flow->left, flow->room));
    size_t n = flow_fill_duct(flow, want);
    if (n > 0)
        (void)account(flow, n);
    else if (flow->to->kind == END_SOCKET)
        flow->way = WAY_COPIED; // it has run dry: back to what is quick for little
    return n;
}

static uint64_t fill(struct flow *flow, struct works *works, uint64_t max)
{
    bool last = flow->room == 0; // whether more comes is seen by reading it
    if (flow->way == WAY_DIRECT && !last)
        return fill_direct(flow, max);
    if (flow->way == WAY_DUCTED && !last && flow_lend_duct(flow, works))
        return fill_ducted(flow, max);
    return fill_copied(flow, works, max);
}

// --- turns

void flow_begin(struct flow *flow)
{
    enum end_kind from = flow->from->kind;
    enum end_kind to = flow->to->kind;
    flow->way = WAY_COPIED;
    if (flow->chunked || flow->to_chunked)
        return;
    if (from == END_PIPE || to == END_PIPE || (from == END_FILE && to == END_SOCKET))
        flow->way = WAY_DIRECT;
    else if (from == END_SOCKET && to == END_FILE && flow->left > SMALL_BYTES)
        flow->way = WAY_DUCTED;
    if (from == END_FILE)
        (void)posix_fadvise(flow->from->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
}

static bool is_all_read(const struct flow *flow)
{
    return flow->ended || (flow->chunked ? flow->chunk.state == CHUNK_DONE : flow->left == 0);
}

static void conclude(struct flow *flow)
{
    bool whole = flow->chunked ? flow->chunk.state == CHUNK_DONE
                               : flow->left == 0 || flow->left == MOVE_TO_END;
    end(flow, whole ? MOVE_COMPLETE : MOVE_ENDED_EARLY, 0);
    if (flow->passes_end)
        (void)shutdown(flow->to->fd, SHUT_WR);
}

enum flow_step flow_turn(struct flow *flow, struct works *works, uint64_t budget)
{
    enum flow_step step = FLOW_OVER;
    while (!flow->over && step == FLOW_OVER) {
        bool pending = flow_pending(flow) > 0;
        if (!pending && is_all_read(flow))
            conclude(flow);
        else if (!flow->to->writable || (!pending && !flow->from->readable))
            step = FLOW_WAITS;
        else if (pending)
            flush(flow);
        else if (budget == 0)
            step = FLOW_SPENT;
        else
            budget -= least(budget, fill(flow, works, budget));
    }
    flow_return_duct(flow, works);
    return step;
}
