// SPDX-License-Identifier: Apache-2.0
// The name server of a box. It asks nobody: a name that may be reached gets a made-up address, and
// the name is looked up when a connection is made to that. So no question of a box leaves the
// machine, and nothing can be told to the world by asking for it.
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "egress/dns.h"
#include "egress/egress-internal.h"

enum { QUERIES_A_TURN = 32, QUERIES_A_SECOND = 500 };

struct query {
    uint8_t data[DNS_QUERY_MAX];
    size_t len;
    struct sockaddr_in from;
    struct in_addr to; // which of the box's addresses was asked
};

static struct in_addr asked_address(struct msghdr *msg)
{
    struct in_pktinfo info = {0};
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO)
            (void)memcpy(&info, CMSG_DATA(c), sizeof info);
    }
    return info.ipi_addr;
}

// 1, 0 when there is none, -1 for one that is no question.
static int receive(int fd, struct query *ret)
{
    char control[CMSG_SPACE(sizeof(struct in_pktinfo))];
    struct iovec part = {.iov_base = ret->data, .iov_len = sizeof ret->data};
    struct msghdr msg = {
        .msg_name = &ret->from,
        .msg_namelen = sizeof ret->from,
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = control,
        .msg_controllen = sizeof control,
    };
    ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT);
    if (n < 0)
        return errno == EINTR ? -1 : 0;
    if ((msg.msg_flags & MSG_TRUNC) != 0 || ret->from.sin_family != AF_INET)
        return -1;
    ret->len = (size_t)n;
    ret->to = asked_address(&msg);
    return 1;
}

// From the address that was asked: resolvers take no other's answer.
static void reply(int fd, const struct query *query, const uint8_t *data, size_t len)
{
    union {
        char room[CMSG_SPACE(sizeof(struct in_pktinfo))];
        struct cmsghdr align;
    } control = {0};
    struct sockaddr_in to = query->from;
    struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    struct msghdr msg = {
        .msg_name = &to,
        .msg_namelen = sizeof to,
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = control.room,
        .msg_controllen = sizeof control.room,
    };
    struct in_pktinfo info = {.ipi_spec_dst = query->to};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = IPPROTO_IP;
    c->cmsg_type = IP_PKTINFO;
    c->cmsg_len = CMSG_LEN(sizeof info);
    (void)memcpy(CMSG_DATA(c), &info, sizeof info);
    (void)sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

// Whether any port of it may be reached: which one is not known yet.
static bool is_reachable(const struct outlet *outlet, const char *name, const char **ret_why)
{
    char secret[SECRET_NAME_MAX];
    if (borrow_is_name(name, secret)) {
        *ret_why = "not in the sandbox's secrets";
        return outlet_may_use(outlet, secret);
    }
    return policy_allows_name(outlet->policy, name, ret_why);
}

static enum dns_code decide(struct outlet *outlet, const struct dns_query *query,
                            struct in_addr *address, bool *ret_has_address)
{
    const char *why;
    if (!is_reachable(outlet, query->name, &why)) {
        note_decision(outlet, query->name, 0, false, why, VIA_DNS);
        return DNS_NO_SUCH_NAME;
    }
    if (query->type == DNS_AAAA || query->type == DNS_HTTPS || query->type == DNS_SVCB)
        return DNS_FINE; // there is such a name, and nothing of that kind
    if (query->type != DNS_A)
        return DNS_NOT_IMPLEMENTED;
    if (names_give(outlet->names, query->name, address) < 0)
        return DNS_REFUSED;
    *ret_has_address = true;
    return DNS_FINE;
}

static void answer(struct outlet *outlet, const struct query *query)
{
    struct dns_query parsed;
    struct in_addr address;
    bool has_address = false;
    uint8_t data[DNS_ANSWER_MAX];
    int r = dns_parse(query->data, query->len, &parsed);
    if (r < 0)
        return;
    enum dns_code code = r > 0 ? (enum dns_code)r : decide(outlet, &parsed, &address, &has_address);
    size_t len = dns_answer(query->data, &parsed, code, has_address ? &address : NULL, data);
    reply(outlet->udp, query, data, len);
}

void stub_readable(struct outlet *outlet)
{
    uint64_t now = uv_now(outlet->egress->config.loop);
    struct query query;
    if (now - outlet->dns_window_ms >= 1000) {
        outlet->dns_window_ms = now;
        outlet->dns_asked = 0;
    }
    for (int i = 0; i < QUERIES_A_TURN; i++) {
        int r = receive(outlet->udp, &query);
        if (r == 0)
            return;
        if (r > 0 && outlet->dns_asked++ < QUERIES_A_SECOND) // others are dropped: they ask again
            answer(outlet, &query);
    }
}
