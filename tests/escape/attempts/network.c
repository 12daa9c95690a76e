// SPDX-License-Identifier: Apache-2.0
// 23 the network: packet filters, raw sockets, rare families, and the sockets of host and
// neighbour. What is configured is configured in the box's own network, never in the host's.
#include <arpa/inet.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "attempt.h"
#include "world.h"

struct packet {
    unsigned char data[512];
    unsigned used;
};

static struct nlmsghdr *add_message(struct packet *p, unsigned short type, unsigned short flags,
                                    const void *header, size_t size)
{
    struct nlmsghdr *message = (struct nlmsghdr *)(p->data + p->used);
    message->nlmsg_len = (unsigned)NLMSG_LENGTH(size);
    message->nlmsg_type = type;
    message->nlmsg_flags = NLM_F_REQUEST | flags;
    message->nlmsg_seq = p->used + 1;
    memcpy(NLMSG_DATA(message), header, size);
    p->used += NLMSG_ALIGN(message->nlmsg_len);
    return message;
}

static struct rtattr *add_attribute(struct packet *p, struct nlmsghdr *message, unsigned short type,
                                    const void *value, size_t size)
{
    struct rtattr *attribute = (struct rtattr *)(p->data + p->used);
    attribute->rta_type = type;
    attribute->rta_len = (unsigned short)RTA_LENGTH(size);
    if (size > 0)
        memcpy(RTA_DATA(attribute), value, size);
    p->used += RTA_ALIGN(attribute->rta_len);
    message->nlmsg_len = p->used - (unsigned)((unsigned char *)message - p->data);
    return attribute;
}

// Sends, and reads the kernel's acknowledgement: 0, or -1 with errno.
static int ask_kernel(int family, const struct packet *p)
{
    unsigned char answer[4096];
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, family);
    if (fd < 0)
        return -1;
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    int result = -1;
    if (send(fd, p->data, p->used, 0) >= 0 && poll(&pfd, 1, 3000) > 0) {
        ssize_t n = recv(fd, answer, sizeof(answer), 0);
        const struct nlmsghdr *head = (const struct nlmsghdr *)answer;
        if (n >= (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)) &&
            head->nlmsg_type == NLMSG_ERROR) {
            const struct nlmsgerr *error = NLMSG_DATA(head);
            result = error->error == 0 ? 0 : -1;
            errno = -error->error;
        }
    }
    int error = errno;
    close(fd);
    errno = error;
    return result;
}

static bool in_host_network(void)
{
    struct stat st;
    return stat("/proc/self/ns/net", &st) < 0 || st.st_ino == world.host_netns;
}

static enum outcome net_nf_tables(const struct attempt *self)
{
    static const char name[] = "cay";
    struct packet p = {0};
    struct nfgenmsg batch = {.res_id = htons(NFNL_SUBSYS_NFTABLES)};
    struct nfgenmsg table = {.nfgen_family = 2};
    (void)self;
    if (in_host_network())
        return cannot("this is the host's network");
    add_message(&p, NFNL_MSG_BATCH_BEGIN, 0, &batch, sizeof(batch));
    struct nlmsghdr *message = add_message(&p, (NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_NEWTABLE,
                                           NLM_F_CREATE | NLM_F_ACK, &table, sizeof(table));
    add_attribute(&p, message, NFTA_TABLE_NAME, name, sizeof(name));
    add_message(&p, NFNL_MSG_BATCH_END, 0, &batch, sizeof(batch));
    return judge_call("making a table", ask_kernel(NETLINK_NETFILTER, &p),
                      REFUSALS_AND(EPROTONOSUPPORT, EAFNOSUPPORT));
}

static enum outcome net_link(const struct attempt *self)
{
    static const char kind[] = "dummy", name[] = "cay0";
    struct packet p = {0};
    struct ifinfomsg link = {0};
    (void)self;
    if (in_host_network())
        return cannot("this is the host's network");
    struct nlmsghdr *message =
        add_message(&p, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &link, sizeof(link));
    add_attribute(&p, message, IFLA_IFNAME, name, sizeof(name));
    struct rtattr *info = add_attribute(&p, message, IFLA_LINKINFO, NULL, 0);
    struct rtattr *inner = add_attribute(&p, message, IFLA_INFO_KIND, kind, sizeof(kind) - 1);
    info->rta_len = (unsigned short)(info->rta_len + RTA_ALIGN(inner->rta_len));
    return judge_call("making an interface", ask_kernel(NETLINK_ROUTE, &p),
                      REFUSALS_AND(EPROTONOSUPPORT, EAFNOSUPPORT));
}

struct socket_kind {
    int family, type, protocol;
};

static enum outcome net_socket(const struct attempt *self)
{
    const struct socket_kind *kind = self->arg;
    int fd = socket(kind->family, kind->type | SOCK_CLOEXEC, kind->protocol);
    enum outcome outcome =
        judge_call("socket", fd, REFUSALS_AND(EAFNOSUPPORT, EPROTONOSUPPORT, ESOCKTNOSUPPORT));
    if (fd >= 0)
        close(fd);
    return outcome;
}

static enum outcome net_families(const struct attempt *self)
{
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET};
    int refused = 0;
    (void)self;
    for (int family = 0; family < 64; family++) {
        if (family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK)
            continue;
        for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
            int fd = socket(family, types[i] | SOCK_CLOEXEC, 0);
            if (fd >= 0) {
                close(fd);
                return escaped("a socket of family %d", family);
            }
        }
        refused++;
    }
    return held("%d families refused", refused);
}

// Whoever answers with the token is the witness itself and not somebody on the same number.
static bool says_token(int fd, const void *address, socklen_t size, const char *token)
{
    char text[TOKEN_MAX] = "";
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    return fd >= 0 && connect(fd, address, size) == 0 && poll(&pfd, 1, 3000) > 0 &&
           recv(fd, text, sizeof(text) - 1, 0) > 0 && strcmp(text, token) == 0;
}

static bool reaches_port(const struct peer *peer)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = htons((unsigned short)peer->port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool reached = says_token(fd, &to, sizeof(to), peer->token);
    if (fd >= 0)
        close(fd);
    return reached;
}

static bool reaches_abstract(const struct peer *peer)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int n = snprintf(to.sun_path + 1, sizeof(to.sun_path) - 1, "cay-%s", peer->token);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool reached = says_token(
        fd, &to, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n), peer->token);
    if (fd >= 0)
        close(fd);
    return reached;
}

static enum outcome judge_peers(bool (*reaches)(const struct peer *), const char *what)
{
    if (world.host.token[0] == '\0')
        return cannot("needs --host");
    if (reaches(&world.host))
        return escaped("spoke to %s of the host", what);
    if (world.neighbour.token[0] != '\0' && reaches(&world.neighbour))
        return escaped("spoke to %s of a neighbour", what);
    return held("%s of host and neighbour do not answer: %s", what, strerrorname_np(errno));
}

static enum outcome net_loopback(const struct attempt *self)
{
    (void)self;
    return judge_peers(reaches_port, "a port");
}

static enum outcome net_abstract(const struct attempt *self)
{
    (void)self;
    return judge_peers(reaches_abstract, "an abstract socket");
}

static const struct socket_kind raw = {AF_INET, SOCK_RAW, IPPROTO_ICMP},
                                packet = {AF_PACKET, SOCK_RAW, 0x300},
                                alg = {AF_ALG, SOCK_SEQPACKET, 0},
                                vsock = {AF_VSOCK, SOCK_STREAM, 0};

#define NET_HELD "no CAP_NET_ADMIN over a network that belongs to a user namespace above; filter"
#define RAW_HELD "no CAP_NET_RAW over a network that belongs to a user namespace above; filter"

// It would push the members far to the right.
// clang-format off
static const struct attempt attempts[] = {
    {.number = 23,
     .name = "net_nf_tables",
     .tries = "makes a table of nf_tables",
     .held_by = NET_HELD,
     .canary = ROOT_POWER,
     .run = net_nf_tables},
    {.number = 23,
     .name = "net_link",
     .tries = "makes a network interface",
     .held_by = NET_HELD,
     .canary = ROOT_POWER,
     .run = net_link},
    {.number = 23,
     .name = "net_raw",
     .tries = "opens a raw socket",
     .held_by = RAW_HELD,
     .canary = ROOT_POWER,
     .run = net_socket,
     .arg = &raw},
    {.number = 23,
     .name = "net_packet",
     .tries = "opens a packet socket",
     .held_by = RAW_HELD,
     .canary = ROOT_POWER,
     .run = net_socket,
     .arg = &packet},
    {.number = 23,
     .name = "net_alg",
     .tries = "opens a socket to the kernel's ciphers",
     .held_by = "filter",
     .canary = "seccomp",
     .needs = "af_alg",
     .run = net_socket,
     .arg = &alg},
    {.number = 23,
     .name = "net_vsock",
     .tries = "opens a socket to the hypervisor",
     .held_by = "filter",
     .canary = "seccomp",
     .needs = "af_vsock",
     .run = net_socket,
     .arg = &vsock},
    {.number = 23,
     .name = "net_families",
     .tries = "opens a socket of every other family",
     .held_by = "filter",
     .canary = "seccomp",
     .needs = "af_vsock",
     .run = net_families},
    {.number = 23,
     .name = "net_loopback",
     .tries = "connects to a port of the host and of a neighbour",
     .held_by = "network namespace",
     .canary = "net",
     .run = net_loopback},
    {.number = 23,
     .name = "net_abstract",
     .tries = "connects to an abstract socket of the host and of a neighbour",
     .held_by = "network namespace",
     .canary = "net",
     .run = net_abstract},
};
// clang-format on

const struct attempt_list network_attempts = ATTEMPTS(attempts);
