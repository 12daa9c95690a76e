// SPDX-License-Identifier: Apache-2.0
// The socket in a box's files by which its programs reach the model.
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "sandbox/reach.h"
#include "sandbox/sandbox-internal.h"

struct listen {
    struct sandbox *s;
    listen_model_fn fn; // NULL: nobody waits
    void *data;
};

// A stream of the unix family that was given its name and is listened on; nothing else is accepted
// from, nor taken for one that was handed over half-way.
static bool is_listener(int fd)
{
    static const struct {
        int option, value;
    } wants[] = {
        {SO_DOMAIN,     AF_UNIX    },
        {SO_TYPE,       SOCK_STREAM},
        {SO_ACCEPTCONN, 1          },
    };
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        int value = -1;
        socklen_t len = sizeof value;
        if (fd < 0 || getsockopt(fd, SOL_SOCKET, wants[i].option, &value, &len) < 0 ||
            value != wants[i].value)
            return false;
    }
    return true;
}

static void on_given(void *data, struct guest_event *ev, const struct err *err)
{
    struct listen *listen = data;
    struct err told = err != NULL ? *err : (struct err){0};
    int fd = -1;
    if (err == NULL && listen->fn != NULL && is_listener(ev->out)) {
        fd = TAKE_FD(ev->out);
        (void)fd_set_nonblock(fd, 1);
    } else if (err == NULL) {
        (void)err_set(&told, ERR_INTERNAL, "the box gave no listener");
    }
    if (listen->fn != NULL)
        listen->fn(listen->data, fd, fd >= 0 ? NULL : &told);
    sandbox_unref(listen->s);
    free(listen);
}

static int send_on(struct guest_peer guest, uint32_t id, void *data, struct err *err)
{
    const struct listen *listen = data;
    return guest_send_listen_unix(guest, id, listen->fn != NULL, err);
}

static void ask(struct sandbox *s, listen_model_fn fn, void *data)
{
    struct listen *listen = calloc(1, sizeof *listen);
    if (listen == NULL)
        abort();
    *listen = (struct listen){.s = sandbox_ref(s), .fn = fn, .data = data};
    reach_ask(s->box, send_on, on_given, listen);
}

void sandbox_listen_model(struct sandbox *s, listen_model_fn fn, void *data)
{
    struct err err = {0};
    if (s->box != NULL) {
        ask(s, fn, data);
        return;
    }
    (void)err_set(&err, ERR_UNAVAILABLE, "the sandbox is not running");
    fn(data, -1, &err);
}

void sandbox_unlisten_model(struct sandbox *s)
{
    if (s->box != NULL)
        ask(s, NULL, NULL);
}
