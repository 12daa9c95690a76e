// SPDX-License-Identifier: Apache-2.0
// The socket in a box by which programs reach the model without a network (ANTHROPIC_UNIX_SOCKET):
// the guest makes and keeps it, we accept. It is there as long as the sandbox's secrets have the
// model's.
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "egress/egress-internal.h"
#include "sandbox/reach.h"

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct outlet *outlet = poll->data;
    (void)status;
    (void)events;
    if (outlet_accept(outlet, outlet->socket, conn_accept_model) < 0) {
        outlet->socket_accepting = false;
        (void)uv_poll_stop(poll); // until the next tick
        return;
    }
    outlet_conn_ended(outlet); // looks whether there is still room
}

void model_socket_accept(struct outlet *outlet, bool room)
{
    if (outlet->socket_poll == NULL || room == outlet->socket_accepting)
        return;
    outlet->socket_accepting = room;
    if (room)
        (void)uv_poll_start(outlet->socket_poll, UV_READABLE, on_readable);
    else
        (void)uv_poll_stop(outlet->socket_poll);
}

void model_socket_close(struct outlet *outlet)
{
    outlet_drop_poll(&outlet->socket_poll);
    fd_close(TAKE_FD(outlet->socket));
    outlet->socket_accepting = false;
}

static void on_socket(void *data, int fd, const struct err *err)
{
    struct outlet *outlet = data;
    auto_fd socket = fd;
    bool wanted = outlet->bound && outlet->wants_socket;
    if (wanted && err != NULL)
        log_line(LOG_WARN, "a box has no socket for the model", "sandbox", outlet_id(outlet),
                 "error", err->msg, NULL);
    if (wanted && socket >= 0) {
        model_socket_close(outlet); // an older one: it was asked for twice
        outlet->socket = TAKE_FD(socket);
        outlet->socket_poll = outlet_make_poll(outlet, outlet->socket);
        outlet_conn_ended(outlet);
    }
    outlet_unref(outlet);
}

void model_socket_update(struct outlet *outlet)
{
    bool wants = outlet_may_use(outlet, MODEL_SECRET);
    if (wants == outlet->wants_socket)
        return;
    outlet->wants_socket = wants;
    if (wants) {
        outlet->refs++;
        sandbox_listen_model(outlet->s, on_socket, outlet);
    } else {
        model_socket_close(outlet);
        sandbox_unlisten_model(outlet->s);
    }
}
