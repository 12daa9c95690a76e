// SPDX-License-Identifier: Apache-2.0
// Sockets from inside a box. A guest is asked for one and answers with GUEST_GIVEN; what it hands
// over is looked at before anybody uses it.
#include "sandbox/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/log.h"
#include "sandbox/sandbox-internal.h"

struct reach_wait {
    struct reach_wait *next;
    uint32_t id;
    reach_fn fn;
    void *data;
};

enum { WAITS_MAX = 4096 }; // of one box: a guest that does not answer costs no more

// --- asking

void reach_ask(struct box_link *box, reach_send_fn send, reach_fn fn, void *data)
{
    struct err err = {0};
    unsigned n = 0;
    struct reach_wait **waits = box_link_waits(box);
    for (struct reach_wait *w = *waits; w != NULL; w = w->next)
        n++;
    uint32_t id = box_link_next_id(box);
    int r = n < WAITS_MAX ? send(box_link_guest(box), id, data, &err)
                          : err_set(&err, ERR_UNAVAILABLE, "the box does not answer");
    if (r < 0) {
        fn(data, NULL, &err);
        return;
    }
    struct reach_wait *wait = calloc(1, sizeof *wait);
    if (wait == NULL)
        abort();
    *wait = (struct reach_wait){.next = *waits, .id = id, .fn = fn, .data = data};
    *waits = wait;
}

static void close_sockets(struct guest_event *ev)
{
    fd_close(TAKE_FD(ev->out));
    fd_close(TAKE_FD(ev->err));
}

void reach_given(struct box_link *box, struct guest_event *ev)
{
    struct reach_wait **p = box_link_waits(box);
    struct err err = {0};
    while (*p != NULL && (*p)->id != ev->msg.head.id)
        p = &(*p)->next;
    struct reach_wait *wait = *p;
    if (wait == NULL) { // asked by a daemon that died
        close_sockets(ev);
        return;
    }
    *p = wait->next;
    int e = ev->msg.given.sys_errno;
    if (e != 0)
        (void)err_sys(&err, e > 0 && e < 4096 ? e : EIO, "ask the box for a socket");
    wait->fn(wait->data, e == 0 ? ev : NULL, e == 0 ? NULL : &err);
    close_sockets(ev);
    free(wait);
}

void reach_lost(struct box_link *box)
{
    struct reach_wait **waits = box_link_waits(box);
    struct err err = {0};
    (void)err_set(&err, ERR_UNAVAILABLE, "the sandbox's box has ended");
    while (*waits != NULL) {
        struct reach_wait *wait = *waits;
        *waits = wait->next;
        wait->fn(wait->data, NULL, &err);
        free(wait);
    }
}

// --- dialling

struct dial {
    struct sandbox *s;
    uint16_t port;
    dial_fn fn;
    void *data;
};

static bool is_socket(int fd, int family, int type)
{
    int value = -1;
    socklen_t len = sizeof value;
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &len) < 0 || value != type)
        return false;
    len = sizeof value;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &value, &len) < 0)
        return false;
    return family == AF_UNSPEC ? value == AF_INET || value == AF_INET6 : value == family;
}

static int send_dial(struct guest_peer guest, uint32_t id, void *data, struct err *err)
{
    const struct dial *dial = data;
    return guest_send_dial(guest, id, dial->port, err);
}

static void on_dialled(void *data, struct guest_event *ev, const struct err *err)
{
    struct dial *dial = data;
    struct err told = err != NULL ? *err : (struct err){0};
    int fd = -1;
    if (err != NULL && err->sys_errno == ECONNREFUSED) {
        (void)err_set(&told, ERR_UNAVAILABLE, "nobody listens on port %u in this sandbox",
                      dial->port);
        told.sys_errno = ECONNREFUSED;
    } else if (err == NULL && !is_socket(ev->out, AF_UNSPEC, SOCK_STREAM)) {
        (void)err_set(&told, ERR_INTERNAL, "the box gave no socket");
    } else if (err == NULL && fd_is_scarce(ev->out)) {
        (void)err_set(&told, ERR_UNAVAILABLE, "there are too many connections");
    } else if (err == NULL) {
        fd = TAKE_FD(ev->out);
        (void)fd_set_nonblock(fd, 1);
    }
    dial->fn(dial->data, fd, fd >= 0 ? NULL : &told);
    sandbox_unref(dial->s);
    free(dial);
}

void sandbox_dial(struct sandbox *s, uint16_t port, dial_fn fn, void *data)
{
    struct err err = {0};
    if (s->box == NULL) {
        (void)err_set(&err, ERR_UNAVAILABLE, "the sandbox is not running");
        fn(data, -1, &err);
        return;
    }
    struct dial *dial = calloc(1, sizeof *dial);
    if (dial == NULL)
        abort();
    *dial = (struct dial){.s = sandbox_ref(s), .port = port, .fn = fn, .data = data};
    reach_ask(s->box, send_dial, on_dialled, dial);
}

// --- listening

bool reach_is_needed(const struct sandbox *s)
{
    return s->row.network != NULL || s->row.secrets != NULL;
}

static void drop_listeners(struct sandbox *s)
{
    fd_close(TAKE_FD(s->listen_tcp));
    fd_close(TAKE_FD(s->listen_udp));
}

static void tell_reach(struct sandbox *s, void (*fn)(void *data, struct sandbox *s))
{
    if (fn != NULL)
        fn(s->fleet->reach_data, s);
}

static void bound(struct sandbox *s)
{
    void (*done)(struct sandbox *) = s->reach_done;
    s->reach_done = NULL;
    if (s->fleet->reach != NULL)
        tell_reach(s, s->fleet->reach->bound);
    if (done != NULL)
        done(s);
}

static void cannot(struct sandbox *s, const struct err *err)
{
    char *text = event_data("{\"error\":\"no network: error %d\"}", err->sys_errno);
    log_line(LOG_WARN, "a sandbox has no network", "sandbox", s->row.id, "error", err->msg, NULL);
    sandbox_event(s, "network_failed", text);
    free(text);
}

static void nothing(struct sandbox *s)
{
    (void)s;
}

static void on_network(void *data, const struct keeper_event *ev, const struct err *err)
{
    struct sandbox *s = data;
    (void)ev;
    // Programs that use the proxy work without it; others find no route.
    if (err != NULL)
        log_line(LOG_WARN, "connections of a box cannot be steered to its proxy", "sandbox",
                 s->row.id, "error", err->msg, NULL);
    if (s->reach_done != NULL)
        bound(s);
    sandbox_unref(s);
}

static void on_listening(void *data, struct guest_event *ev, const struct err *err)
{
    struct sandbox *s = data;
    bool wanted = s->reach_done != NULL && s->box != NULL;
    if (wanted && err != NULL) {
        cannot(s, err);
        bound(s);
    } else if (wanted && is_socket(ev->out, AF_INET, SOCK_STREAM) &&
               is_socket(ev->err, AF_INET, SOCK_DGRAM)) {
        drop_listeners(s);
        s->listen_tcp = TAKE_FD(ev->out);
        s->listen_udp = TAKE_FD(ev->err);
        int copy = ev->msg.given.held ? -1 : fcntl(s->listen_tcp, F_DUPFD_CLOEXEC, 0);
        if (copy >= 0)
            keeper_network(s->fleet, box_link_number(s->box), copy, on_network, sandbox_ref(s));
        else
            bound(s);
    } else if (wanted) {
        bound(s);
    }
    sandbox_unref(s);
}

static int send_listen(struct guest_peer guest, uint32_t id, void *data, struct err *err)
{
    (void)data;
    return guest_send_listen(guest, id, REACH_PROXY_PORT, REACH_DNS_PORT, err);
}

void reach_bind(struct sandbox *s, void (*done)(struct sandbox *s))
{
    if (!reach_is_needed(s) || s->box == NULL) {
        if (done != NULL)
            done(s);
        return;
    }
    s->reach_done = done != NULL ? done : nothing;
    reach_ask(s->box, send_listen, on_listening, sandbox_ref(s));
}

struct attempt {
    void (*fn)(void *data, const struct err *err);
    void *data;
};

static void on_tried(void *data, struct guest_event *ev, const struct err *err)
{
    struct attempt *attempt = data;
    struct err told = {0};
    (void)ev; // the guest keeps them, and gives them again
    if (err != NULL && err->sys_errno == EADDRINUSE)
        (void)err_set(
            &told, ERR_CONFLICT,
            "a program in the sandbox has port %d or %d, which its network needs: end it, "
            "or put the sandbox to sleep first",
            REACH_PROXY_PORT, REACH_DNS_PORT);
    else if (err != NULL && err->code != ERR_UNAVAILABLE)
        told = *err;
    attempt->fn(attempt->data, told.code != ERR_NONE ? &told : NULL);
    free(attempt);
}

void reach_try(struct sandbox *s, void (*fn)(void *data, const struct err *err), void *data)
{
    struct attempt *attempt = calloc(1, sizeof *attempt);
    if (attempt == NULL)
        abort();
    *attempt = (struct attempt){.fn = fn, .data = data};
    reach_ask(s->box, send_listen, on_tried, attempt);
}

void reach_unbind(struct sandbox *s)
{
    bool was = s->listen_tcp >= 0;
    s->reach_done = NULL;
    if (was && s->fleet->reach != NULL)
        tell_reach(s, s->fleet->reach->unbound);
    drop_listeners(s);
}

void reach_changed(struct sandbox *s)
{
    if (s->box == NULL)
        return;
    if (s->listen_tcp >= 0 && s->fleet->reach != NULL)
        tell_reach(s, s->fleet->reach->changed);
    else if (s->listen_tcp < 0 && s->reach_done == NULL)
        reach_bind(s, NULL);
}

void sandbox_listen(struct sandbox *s, listen_fn fn, void *data)
{
    struct err err = {0};
    auto_fd tcp = s->listen_tcp >= 0 ? fcntl(s->listen_tcp, F_DUPFD_CLOEXEC, 0) : -1;
    auto_fd udp = s->listen_udp >= 0 ? fcntl(s->listen_udp, F_DUPFD_CLOEXEC, 0) : -1;
    if (tcp < 0 || udp < 0) {
        (void)err_set(&err, ERR_UNAVAILABLE, "the sandbox has no listeners");
        fn(data, -1, -1, &err);
        return;
    }
    fn(data, TAKE_FD(tcp), TAKE_FD(udp), NULL);
}

void fleet_on_reach(struct fleet *fleet, const struct reach_events *events, void *data)
{
    fleet->reach = events;
    fleet->reach_data = data;
}
