// SPDX-License-Identifier: Apache-2.0
// One connection that a program in a box has made. Where it was connected to tells what it is: the
// proxy's address, one of the made-up ones, or any other.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "egress/egress-internal.h"
#include "sandbox/reach.h"

// --- life

static struct conn *conn_new(struct outlet *outlet, int fd)
{
    struct conn *conn = calloc(1, sizeof *conn);
    if (conn == NULL)
        abort();
    *conn = (struct conn){.outlet = outlet, .client = fd, .up = -1, .next = outlet->conns};
    buf_init(&conn->early, EARLY_MAX);
    outlet->refs++;
    if (outlet->conns != NULL)
        outlet->conns->prev = conn;
    outlet->conns = conn;
    outlet->n_conns++;
    outlet->egress->stats.open++;
    return conn;
}

void conn_free(struct conn *conn)
{
    struct outlet *outlet = conn->outlet;
    bill_end(conn);
    borrow_forget(conn);
    hop_cancel(conn->hop);
    fd_close(TAKE_FD(conn->client));
    fd_close(TAKE_FD(conn->up));
    buf_done(&conn->early);
    carrier_unref(conn->carrier);
    if (conn->held.s_addr != 0)
        names_release(outlet->names, conn->held);
    *(conn->prev != NULL ? &conn->prev->next : &outlet->conns) = conn->next;
    if (conn->next != NULL)
        conn->next->prev = conn->prev;
    if (conn->has_target && outlet->bound)
        note_end(outlet, conn->host, conn->port, conn->bytes, NULL);
    outlet->n_conns--;
    outlet->egress->stats.open--;
    outlet_conn_ended(outlet);
    free(conn);
    outlet_unref(outlet);
}

void conn_end(struct conn *conn)
{
    if (conn->ending)
        return;
    conn->ending = true;
    if (conn->x != NULL)
        exchange_stop(conn->x); // frees it, by `closed`
    else
        tunnel_stop(conn);
}

// The program sees a reset, as from a host that wants nothing of it.
static void reset(struct conn *conn)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(conn->client, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    conn_end(conn);
}

// --- deciding

void conn_set_target(struct conn *conn, const char *host, uint16_t port)
{
    bool same = conn->has_target && conn->port == port && strcmp(conn->host, host) == 0;
    if (conn->has_target && !same) {
        note_end(conn->outlet, conn->host, conn->port, conn->bytes, NULL);
        conn->bytes = 0;
    }
    conn->has_target = true;
    conn->secret[0] = '\0';
    if (host != conn->host)
        (void)snprintf(conn->host, sizeof conn->host, "%s", host);
    conn->port = port;
}

bool conn_decide(struct conn *conn, const char *host, uint16_t port, const char **ret_why)
{
    struct outlet *outlet = conn->outlet;
    bool yes = policy_allows_host(outlet->policy, host, port, ret_why);
    if (yes && outlet_is_used_up(outlet)) {
        *ret_why = "network.maxBytes is used up";
        yes = false;
    }
    if (!yes)
        note_decision(outlet, host, port, false, *ret_why, conn->via);
    return yes;
}

void conn_recheck(struct conn *conn)
{
    const struct outlet *outlet = conn->outlet;
    const char *why;
    bool stays = !outlet_is_used_up(outlet) && conn->kind != CONN_DENIED;
    if (conn->ending)
        return;
    if (conn->secret[0] != '\0')
        stays &= outlet_may_use(outlet, conn->secret);
    else if (conn->has_target)
        stays &= policy_allows_host(outlet->policy, conn->host, conn->port, &why);
    // A list was made of "internet": what was not looked at then is now.
    if (conn->kind == CONN_TUNNEL && !conn->by_name &&
        policy_mode(outlet->policy) == POLICY_ALLOW) {
        struct sockaddr_storage address;
        stays &= policy_address(conn->host, &address) == 1;
    }
    if (conn->x != NULL && conn->has_target && outlet_is_limited(outlet) && !conn->paced)
        stays = false;
    if (!stays)
        conn_end(conn);
}

void conn_hop(struct conn *conn, const char *host, uint16_t port, enum conn_trust trust, hop_fn fn)
{
    struct egress *egress = conn->outlet->egress;
    struct hop_rules rules = egress->rules;
    rules.only_opened = trust == TRUST_OPENED;
    rules.trusted = trust == TRUST_UPSTREAM;
    conn->hop = hop_start(egress->config.loop, conn->outlet->line, &rules, host, port, fn, conn);
}

void conn_note_hop(struct conn *conn, const struct err *err)
{
    bool denied = err != NULL && err->code == ERR_DENIED;
    const char *why = denied ? err->msg : "network is internet";
    if (!denied)
        (void)policy_allows_host(conn->outlet->policy, conn->host, conn->port, &why);
    if (!denied && conn->secret[0] != '\0')
        why = "its secret";
    note_decision(conn->outlet, conn->host, conn->port, !denied, why, conn->via);
}

int conn_moved(void *data, uint64_t to_upstream, uint64_t to_client)
{
    struct conn *conn = data;
    if (!conn->forwarded)
        return 0; // an answer of our own
    conn->bytes += to_upstream + to_client;
    if (conn->paced)
        return 0; // its relay counts
    conn->outlet->share.counted += to_upstream + to_client;
    conn->outlet->egress->stats.bytes += to_upstream + to_client;
    return outlet_is_used_up(conn->outlet);
}

// --- connections that know nothing of a proxy

static void on_hop(void *data, int fd, const struct err *err)
{
    struct conn *conn = data;
    conn->hop = NULL;
    conn_note_hop(conn, err);
    if (fd < 0) {
        reset(conn);
        return;
    }
    conn->up = fd;
    tunnel_start(conn);
}

static void deny(struct conn *conn, const char *host, uint16_t port, const char *why)
{
    conn_set_target(conn, host, port);
    if (port != 80) {
        reset(conn);
        return;
    }
    conn->kind = CONN_DENIED;
    conn->why = why;
    proxy_start(conn, NULL, 0);
}

static void go(struct conn *conn, const char *host, uint16_t port)
{
    const char *why;
    char secret[SECRET_NAME_MAX];
    if (port == 80 && borrow_is_name(host, secret)) {
        conn_set_target(conn, host, port);
        conn->kind = CONN_FIXED;
        proxy_start(conn, NULL, 0);
        return;
    }
    if (!conn_decide(conn, host, port, &why)) {
        deny(conn, host, port, why);
        return;
    }
    struct sockaddr_storage address;
    conn->kind = CONN_TUNNEL;
    conn->by_name =
        policy_mode(conn->outlet->policy) == POLICY_ALLOW && policy_address(host, &address) == 0;
    conn_set_target(conn, host, port);
    conn_hop(conn, host, port, TRUST_POLICY, on_hop);
}

static void go_transparent(struct conn *conn, struct in_addr address, uint16_t port)
{
    struct outlet *outlet = conn->outlet;
    char text[INET_ADDRSTRLEN] = "";
    conn->via = VIA_TRANSPARENT;
    (void)inet_ntop(AF_INET, &address, text, sizeof text);
    if (!names_is_made_up(address)) {
        go(conn, text, port);
        return;
    }
    const char *name = names_find(outlet->names, address);
    if (name == NULL) {
        const char *why = "nobody has asked for a name with this address";
        note_decision(outlet, text, port, false, why, conn->via);
        deny(conn, text, port, why);
        return;
    }
    conn->held = address;
    names_hold(outlet->names, address);
    char host[POLICY_HOST_MAX];
    (void)snprintf(host, sizeof host, "%s", name);
    go(conn, host, port);
}

void conn_accept(struct outlet *outlet, int fd)
{
    struct sockaddr_storage here = {0};
    socklen_t len = sizeof here;
    int on = 1;
    struct conn *conn = conn_new(outlet, fd);
    struct sockaddr_in v4;
    if (getsockname(fd, (struct sockaddr *)&here, &len) < 0 || here.ss_family != AF_INET) {
        reset(conn);
        return;
    }
    (void)memcpy(&v4, &here, sizeof v4);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    uint16_t port = ntohs(v4.sin_port);
    if (ntohl(v4.sin_addr.s_addr) >> 24 != IN_LOOPBACKNET) {
        go_transparent(conn, v4.sin_addr, port);
    } else if (port == REACH_PROXY_PORT) {
        conn->kind = CONN_PROXY;
        conn->via = VIA_HTTP;
        proxy_start(conn, NULL, 0);
    } else {
        reset(conn);
    }
}

void conn_accept_model(struct outlet *outlet, int fd)
{
    struct conn *conn = conn_new(outlet, fd);
    conn->kind = CONN_MODEL;
    conn->via = VIA_SECRET;
    proxy_start(conn, NULL, 0);
}
