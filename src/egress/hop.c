// SPDX-License-Identifier: Apache-2.0
#include "egress/hop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

enum { TRY_MS = 4000, LAST_TRY_MS = 15000 };

struct hop {
    uv_loop_t *loop;
    struct resolve *resolve; // while the name is being asked for
    struct hop_rules rules;
    struct addresses addresses;
    unsigned at;
    uint16_t port;
    int fd;
    int last_errno;
    uv_poll_t *poll; // of `fd`; frees itself
    uv_timer_t timer;
    char host[POLICY_HOST_MAX];
    hop_fn fn; // NULL: cancelled or done
    void *data;
};

// --- which addresses

static void set_port(struct sockaddr_storage *address, uint16_t port)
{
    if (address->ss_family == AF_INET)
        ((struct sockaddr_in *)(void *)address)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)(void *)address)->sin6_port = htons(port);
}

static uint16_t get_port(const struct sockaddr_storage *address)
{
    return ntohs(address->ss_family == AF_INET
                     ? ((const struct sockaddr_in *)(const void *)address)->sin_port
                     : ((const struct sockaddr_in6 *)(const void *)address)->sin6_port);
}

// ::ffff:1.2.3.4 is 1.2.3.4.
static struct sockaddr_storage plain(const struct sockaddr_storage *address)
{
    const struct sockaddr_in6 *v6 = (const void *)address;
    struct sockaddr_storage ret = *address;
    if (address->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
        struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = v6->sin6_port};
        (void)memcpy(&v4.sin_addr, v6->sin6_addr.s6_addr + 12, 4);
        ret = (struct sockaddr_storage){0};
        (void)memcpy(&ret, &v4, sizeof v4);
    }
    return ret;
}

static bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    if (a->ss_family != b->ss_family)
        return false;
    if (a->ss_family == AF_INET)
        return ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)(const void *)b)->sin_addr.s_addr;
    return memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
                  &((const struct sockaddr_in6 *)(const void *)b)->sin6_addr, 16) == 0;
}

static bool is_any(const struct sockaddr_storage *address)
{
    static const struct sockaddr_storage zero;
    struct sockaddr_storage any = zero;
    any.ss_family = address->ss_family;
    return same_address(address, &any);
}

static socklen_t size_of(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

// Only the machine's own addresses can be bound.
static bool is_of_this_machine(const struct sockaddr_storage *address)
{
    struct sockaddr_storage any_port = *address;
    auto_fd fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    set_port(&any_port, 0);
    return fd < 0 || bind(fd, (const struct sockaddr *)&any_port, size_of(&any_port)) == 0;
}

// What is sent to an address of one's own comes from that address. Nothing is sent here.
static bool is_interface_of_ours(const struct sockaddr_storage *address)
{
    struct sockaddr_storage to = plain(address), from = {0};
    socklen_t len = sizeof from;
    auto_fd fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno != EAFNOSUPPORT;
    set_port(&to, 9);
    return connect(fd, (const struct sockaddr *)&to, size_of(&to)) == 0 &&
           getsockname(fd, (struct sockaddr *)&from, &len) == 0 && same_address(&from, &to);
}

// A public address of this machine is no way around its firewall: what listens here for others does
// not listen for sandboxes, unless the installation says so.
static bool is_closed_as_ours(const struct hop_rules *rules, const struct sockaddr_storage *address)
{
    return !networks_have(rules->opened, (const struct sockaddr *)address) &&
           is_interface_of_ours(address);
}

// Whatever the installation opens: the way back into this very daemon is none.
static bool is_own(const struct hop_rules *rules, const struct sockaddr_storage *address,
                   uint16_t port)
{
    if (rules->own.ss_family == 0 || get_port(&rules->own) != port)
        return false;
    struct sockaddr_storage own = plain(&rules->own), asked = plain(address);
    return is_any(&own) ? is_of_this_machine(&asked) : same_address(&own, &asked);
}

unsigned hop_filter(struct addresses *addresses, const struct hop_rules *rules, uint16_t port,
                    const char **ret_why)
{
    unsigned n = 0;
    for (unsigned i = 0; i < addresses->n; i++) {
        const struct sockaddr_storage *a = &addresses->list[i];
        const char *why;
        if (!rules->trusted &&
            !policy_address_is_open(rules->opened, (const struct sockaddr *)a, &why)) {
            *ret_why = why;
        } else if (rules->only_opened &&
                   policy_address_is_open(NULL, (const struct sockaddr *)a, &why)) {
            *ret_why = "an address to which nothing secret goes without TLS";
        } else if (is_own(rules, a, port)) {
            *ret_why = "the address of the server itself";
        } else if (!rules->trusted && is_closed_as_ours(rules, a)) {
            *ret_why = "an address of this very machine";
        } else {
            struct sockaddr_storage keep = *a;
            addresses->list[n++] = keep;
        }
    }
    addresses->n = n;
    return n;
}

// --- connecting

static void free_poll(uv_handle_t *handle)
{
    free(handle);
}

static void drop_poll(struct hop *hop)
{
    if (hop->poll != NULL)
        uv_close((uv_handle_t *)hop->poll, free_poll);
    hop->poll = NULL;
}

static void free_hop(uv_handle_t *handle)
{
    free(handle->data);
}

static void finish(struct hop *hop, int fd, const struct err *err)
{
    hop_fn fn = hop->fn;
    hop->fn = NULL;
    drop_poll(hop);
    if (fn != NULL)
        fn(hop->data, fd, err);
    uv_close((uv_handle_t *)&hop->timer, free_hop);
}

static void try_next(struct hop *hop);

static void give_up(struct hop *hop)
{
    struct err err = {0};
    const char *what = hop->last_errno == ECONNREFUSED ? "it refuses the connection"
                       : hop->last_errno == ETIMEDOUT  ? "it does not answer"
                                                       : strerrordesc_np(hop->last_errno);
    (void)err_set(&err, ERR_UNAVAILABLE, "%s", what != NULL ? what : "it cannot be reached");
    err.sys_errno = hop->last_errno;
    finish(hop, -1, &err);
}

static void failed(struct hop *hop, int sys_errno)
{
    hop->last_errno = sys_errno;
    drop_poll(hop);
    fd_close(TAKE_FD(hop->fd));
    hop->at++;
    try_next(hop);
}

static void on_writable(uv_poll_t *poll, int status, int events)
{
    struct hop *hop = poll->data;
    int error = 0;
    socklen_t len = sizeof error;
    (void)events;
    // A status is libuv's word for an error that the socket knows better.
    if (getsockopt(hop->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || (error == 0 && status < 0))
        error = EIO;
    if (error != 0)
        failed(hop, error);
    else
        finish(hop, TAKE_FD(hop->fd), NULL);
}

static int watch(struct hop *hop)
{
    hop->poll = calloc(1, sizeof *hop->poll);
    if (hop->poll == NULL)
        abort();
    if (uv_poll_init(hop->loop, hop->poll, hop->fd) < 0) {
        free(hop->poll);
        hop->poll = NULL;
        return -EIO;
    }
    hop->poll->data = hop;
    return uv_poll_start(hop->poll, UV_WRITABLE, on_writable);
}

static void on_timer(uv_timer_t *timer)
{
    struct hop *hop = timer->data;
    if (hop->fd >= 0)
        failed(hop, ETIMEDOUT);
    else
        try_next(hop);
}

static void try_next(struct hop *hop)
{
    if (hop->at >= hop->addresses.n) {
        give_up(hop);
        return;
    }
    struct sockaddr_storage *to = &hop->addresses.list[hop->at];
    bool last = hop->at + 1 == hop->addresses.n;
    int on = 1;
    set_port(to, hop->port);
    hop->fd = socket(to->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int r = hop->fd < 0 ? -errno : fd_is_scarce(hop->fd) ? -EMFILE : 0;
    // What a program sends at once goes on at once.
    (void)setsockopt(hop->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (r == 0 && connect(hop->fd, (const struct sockaddr *)to, size_of(to)) < 0)
        r = errno == EINPROGRESS ? 0 : -errno;
    if (r == 0)
        r = watch(hop);
    if (r < 0) {
        // By the timer: a list of dead ends is no recursion.
        hop->last_errno = -r;
        drop_poll(hop);
        fd_close(TAKE_FD(hop->fd));
        hop->at++;
        (void)uv_timer_start(&hop->timer, on_timer, 0, 0);
        return;
    }
    (void)uv_timer_start(&hop->timer, on_timer, last ? LAST_TRY_MS : TRY_MS, 0);
}

static void check_and_connect(struct hop *hop)
{
    const char *why = "not an internet address";
    struct err err = {0};
    if (hop_filter(&hop->addresses, &hop->rules, hop->port, &why) > 0) {
        try_next(hop);
        return;
    }
    (void)err_set(&err, ERR_DENIED, "%s", why);
    finish(hop, -1, &err);
}

static void on_resolved(void *data, const struct addresses *addresses, const struct err *err)
{
    struct hop *hop = data;
    hop->resolve = NULL;
    if (addresses == NULL) {
        finish(hop, -1, err);
        return;
    }
    hop->addresses = *addresses;
    check_and_connect(hop);
}

static void on_begin(uv_timer_t *timer)
{
    struct hop *hop = timer->data;
    struct err err = {0};
    if (hop->addresses.n > 0) {
        check_and_connect(hop);
        return;
    }
    (void)err_set(&err, ERR_UNAVAILABLE, "too many names are being looked up");
    finish(hop, -1, &err);
}

struct hop *hop_start(uv_loop_t *loop, struct resolve_line *line, const struct hop_rules *rules,
                      const char *host, uint16_t port, hop_fn fn, void *data)
{
    struct hop *hop = calloc(1, sizeof *hop);
    if (hop == NULL)
        abort();
    *hop =
        (struct hop){.loop = loop, .rules = *rules, .port = port, .fd = -1, .fn = fn, .data = data};
    (void)snprintf(hop->host, sizeof hop->host, "%s", host);
    (void)uv_timer_init(loop, &hop->timer);
    hop->timer.data = hop;
    if (policy_address(host, &hop->addresses.list[0]) == 1)
        hop->addresses.n = 1;
    else
        hop->resolve = resolve_start(line, host, on_resolved, hop);
    if (hop->resolve == NULL)
        (void)uv_timer_start(&hop->timer, on_begin, 0, 0);
    return hop;
}

void hop_cancel(struct hop *hop)
{
    if (hop == NULL)
        return;
    if (hop->resolve != NULL)
        resolve_cancel(hop->resolve);
    hop->fn = NULL;
    drop_poll(hop); // before its descriptor
    fd_close(TAKE_FD(hop->fd));
    finish(hop, -1, NULL);
}
