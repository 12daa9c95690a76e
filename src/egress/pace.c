// SPDX-License-Identifier: Apache-2.0
// An exchange knows neither a rate nor when to stop; a relay does both, to the byte, for all that a
// sandbox has open. So, only where there are such limits, the exchange's upstream is a relay's end.
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "egress/egress-internal.h"

struct pace {
    struct outlet *outlet; // a reference
    struct pace *prev, *next;
    struct relay *relay;
    int near, far;
};

static void free_pace(struct pace *pace)
{
    struct outlet *outlet = pace->outlet;
    *(pace->prev != NULL ? &pace->prev->next : &outlet->paces) = pace->next;
    if (pace->next != NULL)
        pace->next->prev = pace->prev;
    fd_close(pace->near);
    fd_close(pace->far);
    free(pace);
    outlet_unref(outlet);
}

static void on_done(void *data, const struct relay_result *result)
{
    struct pace *pace = data;
    pace->outlet->egress->stats.bytes += result->a_to_b + result->b_to_a;
    free_pace(pace);
}

static void on_stopped(void *data)
{
    free_pace(data);
}

static struct pace *make(struct outlet *outlet, int near, int far)
{
    struct err err = {0};
    struct pace *pace = calloc(1, sizeof *pace);
    if (pace == NULL)
        abort();
    *pace = (struct pace){.outlet = outlet, .near = near, .far = far, .next = outlet->paces};
    const struct relay_config config = {.a = near,
                                        .b = far,
                                        .stall_ms = IDLE_MS,
                                        .share = &outlet->share,
                                        .done = on_done,
                                        .data = pace};
    outlet->refs++;
    if (outlet->paces != NULL)
        outlet->paces->prev = pace;
    outlet->paces = pace;
    pace->relay = relay_start(outlet->egress->config.mover, &config, &err);
    if (pace->relay == NULL) {
        free_pace(pace);
        return NULL;
    }
    return pace;
}

int pace_wrap(struct conn *conn, int fd)
{
    int pair[2];
    conn->paced = outlet_is_limited(conn->outlet);
    if (!conn->paced)
        return fd;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0) {
        fd_close(fd);
        return -1;
    }
    if (make(conn->outlet, pair[0], fd) == NULL) {
        fd_close(pair[1]);
        return -1;
    }
    return pair[1];
}

void paces_end(struct outlet *outlet)
{
    for (struct pace *pace = outlet->paces; pace != NULL; pace = pace->next) {
        if (pace->relay == NULL)
            continue;
        relay_cancel(pace->relay, on_stopped, pace);
        pace->relay = NULL;
    }
}
