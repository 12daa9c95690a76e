// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "h1/exchange-internal.h"

void lane_init(struct lane *lane)
{
    *lane = (struct lane){.cap = LANE_SIZE};
    buf_init(&lane->lead, LEAD_MAX);
}

void lane_done(struct lane *lane)
{
    free(lane->data);
    buf_done(&lane->lead);
}

void lane_clear(struct lane *lane)
{
    lane->start = lane->end = lane->held = lane->ready = 0;
    lane->lead_at = 0;
    buf_reset(&lane->lead);
}

void lane_shrink(struct lane *lane)
{
    if (lane_len(lane) > 0 || lane_has_output(lane) || lane->data == NULL)
        return;
    free(lane->data);
    lane->data = NULL;
    lane->start = lane->end = 0;
    buf_done(&lane->lead);
    lane->lead_at = 0;
}

size_t lane_room(struct lane *lane, char **ret_at)
{
    if (lane->data == NULL) {
        lane->data = malloc(lane->cap + CHUNK_END);
        if (lane->data == NULL)
            abort(); // small and fixed
    }
    if (lane->start == lane->end)
        lane->start = lane->end = 0;
    // What is held is pointed into: it does not move.
    if (lane->end >= lane->cap && lane->start > 0 && lane->held == 0) {
        memmove(lane->data, lane->data + lane->start, lane_len(lane));
        lane->end -= lane->start;
        lane->start = 0;
    }
    *ret_at = lane->data + lane->end;
    return lane->end < lane->cap ? lane->cap - lane->end : 0;
}

void lane_skip(struct lane *lane, size_t n)
{
    lane->start += n;
    if (lane->start == lane->end)
        lane->start = lane->end = 0;
}

static void wrote(struct lane *lane, size_t n)
{
    size_t lead = lane->lead.len - lane->lead_at;
    size_t of_lead = n < lead ? n : lead;
    lane->lead_at += of_lead;
    if (lane->lead_at == lane->lead.len) {
        buf_reset(&lane->lead);
        lane->lead_at = 0;
    }
    n -= of_lead;
    lane->ready -= n;
    lane->start += n; // nothing is held once there is a body
}

ssize_t lane_write(struct lane *lane, struct side *to)
{
    struct iovec parts[2];
    int n = 0;
    if (lane->lead_at < lane->lead.len)
        parts[n++] =
            (struct iovec){lane->lead.data + lane->lead_at, lane->lead.len - lane->lead_at};
    if (lane->ready > 0)
        parts[n++] = (struct iovec){lane->data + lane->start, lane->ready};
    ssize_t sent = side_write(to, parts, n);
    if (sent > 0)
        wrote(lane, (size_t)sent);
    return sent;
}
