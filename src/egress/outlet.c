// SPDX-License-Identifier: Apache-2.0
// What one sandbox has while it runs: listeners in its box, its policy, its connections.
#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "egress/egress-internal.h"
#include "egress/secret.h"
#include "sandbox/reach.h"

enum { ACCEPTS_A_TURN = 64 };

const char *outlet_id(const struct outlet *outlet)
{
    return sandbox_row(outlet->s)->id;
}

bool outlet_is_used_up(const struct outlet *outlet)
{
    uint64_t most = outlet->share.max_bytes;
    return most > 0 && outlet->share.counted >= most;
}

bool outlet_is_limited(const struct outlet *outlet)
{
    return outlet->share.max_bytes > 0 || outlet->share.rate > 0;
}

bool outlet_may_use(const struct outlet *outlet, const char *secret)
{
    const struct secrets *secrets = outlet->egress->config.secrets;
    const char *list = sandbox_row(outlet->s)->secrets;
    if (secrets != NULL && secrets_is_lent(secrets, sandbox_row(outlet->s)->number, secret))
        return true;
    json_auto_t *names = list != NULL ? json_loads(list, 0, NULL) : NULL;
    size_t i;
    json_t *name;
    json_array_foreach(names, i, name)
    {
        if (json_is_string(name) && strcmp(json_string_value(name), secret) == 0)
            return true;
    }
    return false;
}

// --- listening

static void free_poll(uv_handle_t *handle)
{
    free(handle);
}

void outlet_drop_poll(uv_poll_t **poll)
{
    if (*poll != NULL)
        uv_close((uv_handle_t *)*poll, free_poll);
    *poll = NULL;
}

uv_poll_t *outlet_make_poll(struct outlet *outlet, int fd)
{
    uv_poll_t *poll = calloc(1, sizeof *poll);
    if (poll == NULL)
        abort();
    if (uv_poll_init(outlet->egress->config.loop, poll, fd) < 0) {
        free(poll);
        return NULL;
    }
    poll->data = outlet;
    return poll;
}

static void reset(int fd)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    fd_close(fd);
}

static void on_accept(uv_poll_t *poll, int status, int events);

static void accept_more(struct outlet *outlet)
{
    bool room = outlet->egress->serving && outlet->bound && outlet->n_conns < CONNS_MAX;
    model_socket_accept(outlet, room);
    if (outlet->tcp_poll == NULL || room == outlet->accepting)
        return;
    outlet->accepting = room; // others wait in the listener's queue
    if (room)
        (void)uv_poll_start(outlet->tcp_poll, UV_READABLE, on_accept);
    else
        (void)uv_poll_stop(outlet->tcp_poll);
}

int outlet_accept(struct outlet *outlet, int listener, void (*fn)(struct outlet *outlet, int fd))
{
    for (int i = 0; i < ACCEPTS_A_TURN && outlet->n_conns < CONNS_MAX; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && errno == ECONNABORTED)
            continue;
        if (fd < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        if (outlet->egress->stats.open >= CONNS_MAX_ALL || fd_is_scarce(fd))
            reset(fd);
        else
            fn(outlet, fd);
    }
    return 0;
}

static void on_accept(uv_poll_t *poll, int status, int events)
{
    struct outlet *outlet = poll->data;
    (void)status;
    (void)events;
    if (outlet_accept(outlet, outlet->tcp, conn_accept) < 0) { // no descriptor is left, say
        outlet->accepting = false;
        (void)uv_poll_stop(poll);
        return; // until the next tick
    }
    accept_more(outlet);
}

static void on_query(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    stub_readable(poll->data);
}

static void on_listening(void *data, int tcp, int udp, const struct err *err)
{
    struct outlet *outlet = data;
    int on = 1;
    if (err != NULL)
        return;
    outlet->tcp = tcp;
    outlet->udp = udp;
    (void)fd_set_nonblock(tcp, 1);
    (void)fd_set_nonblock(udp, 1);
    (void)setsockopt(udp, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
    outlet->tcp_poll = outlet_make_poll(outlet, tcp);
    outlet->udp_poll = outlet_make_poll(outlet, udp);
    if (outlet->udp_poll != NULL)
        (void)uv_poll_start(outlet->udp_poll, UV_READABLE, on_query);
    accept_more(outlet);
    model_socket_update(outlet);
}

void outlet_conn_ended(struct outlet *outlet)
{
    accept_more(outlet);
}

void outlet_tick(struct outlet *outlet)
{
    accept_more(outlet);
    notes_tick(outlet);
}

// --- settings

static void read_policy(struct outlet *outlet)
{
    struct err err = {0};
    struct policy *policy = NULL;
    const struct sandbox_row *row = sandbox_row(outlet->s);
    if (policy_parse(row->network, &policy, &err) < 0) {
        // It was checked before it was stored. What cannot be read allows nothing.
        log_line(LOG_ERROR, "a network setting cannot be read", "sandbox", row->id, "error",
                 err.msg, NULL);
        if (policy_parse(NULL, &policy, &err) < 0)
            abort();
    }
    policy_free(outlet->policy);
    outlet->policy = policy;
    outlet->share.max_bytes = policy_max_bytes(policy);
    outlet->share.rate = policy_rate(policy);
}

void outlet_changed(struct outlet *outlet)
{
    read_policy(outlet);
    for (struct conn *conn = outlet->conns, *next; conn != NULL; conn = next) {
        next = conn->next;
        conn_recheck(conn);
    }
    model_socket_update(outlet);
}

// --- beginning and end

struct outlet *outlet_open(struct egress *egress, struct sandbox *s)
{
    struct outlet *outlet = calloc(1, sizeof *outlet);
    if (outlet == NULL)
        abort();
    outlet->egress = egress;
    egress->refs++;
    outlet->s = sandbox_ref(s);
    outlet->refs = 1;
    outlet->bound = true;
    outlet->tcp = outlet->udp = outlet->socket = -1;
    outlet->names = names_new();
    outlet->line = resolve_line_new(egress->resolver);
    outlet->notes = calloc(1, sizeof *outlet->notes);
    if (outlet->notes == NULL)
        abort();
    outlet->notes->window_ms = uv_now(egress->config.loop);
    (void)snprintf(outlet->key, sizeof outlet->key, "%lld", (long long)sandbox_row(s)->number);
    read_policy(outlet);
    sandbox_listen(s, on_listening, outlet);
    return outlet;
}

void outlet_close(struct outlet *outlet)
{
    outlet->bound = false;
    outlet_drop_poll(&outlet->tcp_poll);
    outlet_drop_poll(&outlet->udp_poll);
    model_socket_close(outlet);
    fd_close(TAKE_FD(outlet->tcp));
    fd_close(TAKE_FD(outlet->udp));
    for (struct conn *conn = outlet->conns, *next; conn != NULL; conn = next) {
        next = conn->next;
        conn_end(conn);
    }
    paces_end(outlet);
    notes_flush(outlet);
    resolve_line_free(outlet->line); // nobody asks any more
    outlet->line = NULL;
    sandbox_unref(outlet->s); // what is still being stopped needs nothing of it
    outlet->s = NULL;
    outlet_unref(outlet);
}

void outlet_unref(struct outlet *outlet)
{
    if (--outlet->refs > 0)
        return;
    policy_free(outlet->policy);
    names_free(outlet->names);
    free(outlet->notes);
    egress_unref(outlet->egress);
    free(outlet);
}
