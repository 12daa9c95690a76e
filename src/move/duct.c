// SPDX-License-Identifier: Apache-2.0
// Pipes between two ends of a flow. A flow has one only while bytes are in it, so that a thread
// that writes files needs one for all its flows; a flow that finds none copies.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "move/flow-internal.h"

int works_init(struct works *works)
{
    *works = (struct works){.buffer = malloc(BUFFER_BYTES)};
    return works->buffer != NULL ? 0 : -ENOMEM;
}

void works_done(struct works *works)
{
    for (; works->n_spare > 0; works->n_spare--) {
        fd_close(works->spare[works->n_spare - 1].out);
        fd_close(works->spare[works->n_spare - 1].in);
    }
    free(works->buffer);
    works->buffer = NULL;
}

static bool make_duct(struct duct *ret)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return false;
    // A user's share of pipe memory may be used up: then it stays small.
    (void)fcntl(ends[1], F_SETPIPE_SZ, DUCT_BYTES);
    *ret = (struct duct){.out = ends[0], .in = ends[1]};
    return true;
}

bool flow_lend_duct(struct flow *flow, struct works *works)
{
    if (flow->duct.in >= 0)
        return true;
    if (works->n_spare > 0)
        flow->duct = works->spare[--works->n_spare];
    else if (works->n_lent >= DUCTS_MAX || !make_duct(&flow->duct))
        return false;
    works->n_lent++;
    return true;
}

void flow_return_duct(struct flow *flow, struct works *works)
{
    if (flow->duct.in < 0 || (flow->ducted > 0 && !flow->over))
        return;
    works->n_lent--;
    if (flow->ducted == 0 && works->n_spare < DUCTS_SPARE) {
        works->spare[works->n_spare++] = flow->duct;
    } else {
        fd_close(flow->duct.out);
        fd_close(flow->duct.in);
    }
    flow->ducted = 0;
    flow->duct = (struct duct){-1, -1};
}

// The duct is empty before, so that EAGAIN is the source's.
size_t flow_fill_duct(struct flow *flow, size_t max)
{
    ssize_t n =
        splice(flow->from->fd, NULL, flow->duct.in, NULL, max, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (n < 0 && errno == EINVAL)
        flow->way = WAY_COPIED;
    else if (n < 0)
        flow_read_failed(flow, errno);
    flow->ended = n == 0;
    flow->ducted = n > 0 ? (size_t)n : 0;
    return flow->ducted;
}

// The sink cannot be spliced to: what is in the duct already goes by memory.
static void empty_duct(struct flow *flow)
{
    flow->way = WAY_COPIED;
    flow->held = malloc(flow->ducted);
    ssize_t n =
        flow->held != NULL ? fd_read_all(flow->duct.out, flow->held, flow->ducted) : -ENOMEM;
    if (n != (ssize_t)flow->ducted) {
        flow_write_failed(flow, n < 0 ? (int)-n : EIO);
        return;
    }
    flow->held_len = flow->ducted;
    flow->ducted = 0;
}

void flow_drain_duct(struct flow *flow)
{
    const struct end *to = flow->to;
    loff_t at = to->offset;
    ssize_t n = splice(flow->duct.out, NULL, to->fd, to->kind == END_FILE ? &at : NULL,
                       flow->ducted, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (n > 0) {
        flow->ducted -= (size_t)n;
        flow_wrote(flow, (size_t)n);
    } else if (n < 0 && errno == EINVAL) {
        empty_duct(flow);
    } else {
        flow_write_failed(flow, n < 0 ? errno : EIO);
    }
}
