// SPDX-License-Identifier: Apache-2.0
// The network of a box that may reach something. Its namespace has loopback and nothing else, and
// stays so: every IPv4 address becomes one of its own (a local route for all of them), and a
// program of the kernel (BPF sk_lookup) hands each TCP connection that does not go to 127.0.0.0/8
// to the listener which the daemon accepts from. No interface, no packet filter, no connection
// tracking: nothing of a box ever leaves it but through that listener.
//
// The program lives as long as a descriptor of its link; the guest is given that, so it goes with
// the box and the keeper need not remember it.
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "keeper/keeper-internal.h"
#include "wire/guest-msg.h"

#ifndef SO_NETNS_COOKIE
#    define SO_NETNS_COOKIE 71
#endif

enum { LOOPBACK = 1 }; // index of the interface, in every namespace

static int bpf(int what, union bpf_attr *attr)
{
    return (int)syscall(SYS_bpf, what, attr, sizeof *attr);
}

// --- the program

#define INSN(code_, dst, src, off_, imm_)                                                          \
    {                                                                                              \
        .code = (code_), .dst_reg = (dst), .src_reg = (src), .off = (off_), .imm = (imm_)          \
    }
#define LOAD(dst, field)                                                                           \
    INSN(BPF_LDX | BPF_MEM | BPF_W, dst, BPF_REG_6, offsetof(struct bpf_sk_lookup, field), 0)
#define COPY(dst, src)             INSN(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0)
#define SET(dst, value)            INSN(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, value)
#define CALL(function)             INSN(BPF_JMP | BPF_CALL, 0, 0, 0, function)
#define JUMP_IF(op, reg, value, n) INSN(BPF_JMP | (op) | BPF_K, reg, 0, n, value)

// The first byte of an address as it is in memory: 127 for loopback, on little and big endian.
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
enum { FIRST_BYTE = 0xff, NET_127 = 127 };
#else
enum { FIRST_BYTE = (int)0xff000000, NET_127 = 127 << 24 };
#endif

static int load_program(int map)
{
    const struct bpf_insn insns[] = {
        COPY(BPF_REG_6, BPF_REG_1),
        LOAD(BPF_REG_2, family),
        JUMP_IF(BPF_JNE, BPF_REG_2, AF_INET, 19),
        LOAD(BPF_REG_2, protocol),
        JUMP_IF(BPF_JNE, BPF_REG_2, IPPROTO_TCP, 17),
        LOAD(BPF_REG_2, local_ip4),
        INSN(BPF_ALU64 | BPF_AND | BPF_K, BPF_REG_2, 0, 0, FIRST_BYTE),
        JUMP_IF(BPF_JEQ, BPF_REG_2, NET_127, 14),
        INSN(BPF_ST | BPF_MEM | BPF_W, BPF_REG_10, 0, -4, 0), // the map's key: 0
        COPY(BPF_REG_2, BPF_REG_10),
        INSN(BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_2, 0, 0, -4),
        INSN(BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map),
        INSN(0, 0, 0, 0, 0),
        CALL(BPF_FUNC_map_lookup_elem),
        JUMP_IF(BPF_JEQ, BPF_REG_0, 0, 7), // the listener is closed: nobody answers
        COPY(BPF_REG_7, BPF_REG_0),
        COPY(BPF_REG_1, BPF_REG_6),
        COPY(BPF_REG_2, BPF_REG_7),
        SET(BPF_REG_3, 0),
        CALL(BPF_FUNC_sk_assign),
        COPY(BPF_REG_1, BPF_REG_7),
        CALL(BPF_FUNC_sk_release),
        SET(BPF_REG_0, SK_PASS),
        INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
    };
    union bpf_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.prog_type = BPF_PROG_TYPE_SK_LOOKUP;
    attr.expected_attach_type = BPF_SK_LOOKUP;
    attr.insns = (uintptr_t)insns;
    attr.insn_cnt = sizeof insns / sizeof *insns;
    attr.license = (uintptr_t) "Apache-2.0";
    return bpf(BPF_PROG_LOAD, &attr);
}

static int make_map(int listener)
{
    union bpf_attr attr;
    uint32_t key = 0;
    uint64_t value = (uint64_t)listener;
    memset(&attr, 0, sizeof attr);
    attr.map_type = BPF_MAP_TYPE_SOCKMAP;
    attr.key_size = sizeof key;
    attr.value_size = sizeof value;
    attr.max_entries = 1;
    auto_fd map = bpf(BPF_MAP_CREATE, &attr);
    if (map < 0)
        return -errno;
    memset(&attr, 0, sizeof attr);
    attr.map_fd = (uint32_t)map;
    attr.key = (uintptr_t)&key;
    attr.value = (uintptr_t)&value;
    if (bpf(BPF_MAP_UPDATE_ELEM, &attr) < 0)
        return -errno;
    return TAKE_FD(map);
}

// The link's descriptor, or -errno. In the box's network namespace.
static int attach(int listener)
{
    union bpf_attr attr;
    auto_fd map = make_map(listener);
    if (map < 0)
        return map;
    auto_fd program = load_program(map);
    auto_fd netns = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (program < 0 || netns < 0)
        return -errno;
    memset(&attr, 0, sizeof attr);
    attr.link_create.prog_fd = (uint32_t)program;
    attr.link_create.target_fd = (uint32_t)netns;
    attr.link_create.attach_type = BPF_SK_LOOKUP;
    int link = bpf(BPF_LINK_CREATE, &attr);
    return link < 0 ? -errno : link;
}

// --- the route

// An address for nobody (RFC 7600). Resolvers ask whether the machine has IPv4 at all, and
// loopback's own addresses do not count.
#define DUMMY_ADDRESS 0xc0000008u

// Asks the kernel and waits for its word. 0 or -errno; what is there already is fine.
static int ask(const struct nlmsghdr *msg)
{
    struct {
        struct nlmsghdr head;
        struct nlmsgerr error;
        char rest[256];
    } answer;
    auto_fd sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (sock < 0 || send(sock, msg, msg->nlmsg_len, 0) < 0)
        return -errno;
    ssize_t n = recv(sock, &answer, sizeof answer, 0);
    if (n < (ssize_t)(sizeof answer.head + sizeof answer.error.error))
        return n < 0 ? -errno : -EPROTO;
    if (answer.head.nlmsg_type != NLMSG_ERROR)
        return -EPROTO;
    return answer.error.error == -EEXIST ? 0 : answer.error.error;
}

#define ATTR(type)                                                                                 \
    {                                                                                              \
        .rta_len = RTA_LENGTH(sizeof(uint32_t)), .rta_type = (type)                                \
    }

enum { MAKE = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL };

// "local 0.0.0.0/0 dev lo src 127.0.0.1"
static int add_route(void)
{
    const struct {
        struct nlmsghdr head;
        struct rtmsg route;
        struct rtattr out_attr;
        uint32_t out;
        struct rtattr source_attr;
        uint32_t source;
    } msg = {
        .head = {.nlmsg_len = sizeof msg,       .nlmsg_type = RTM_NEWROUTE, .nlmsg_flags = MAKE},
        .route = { .rtm_family = AF_INET,
                 .rtm_table = RT_TABLE_LOCAL,
                 .rtm_protocol = RTPROT_STATIC,
                 .rtm_scope = RT_SCOPE_HOST,
                 .rtm_type = RTN_LOCAL},
        .out_attr = ATTR(RTA_OIF),
        .out = LOOPBACK,
        .source_attr = ATTR(RTA_PREFSRC),
        .source = htonl(INADDR_LOOPBACK),
    };
    return ask(&msg.head);
}

static int add_address(void)
{
    const struct {
        struct nlmsghdr head;
        struct ifaddrmsg address;
        struct rtattr local_attr;
        uint32_t local;
    } msg = {
        .head = {.nlmsg_len = sizeof msg, .nlmsg_type = RTM_NEWADDR, .nlmsg_flags = MAKE  },
        .address = {.ifa_family = AF_INET,   .ifa_prefixlen = 32,       .ifa_index = LOOPBACK},
        .local_attr = ATTR(IFA_LOCAL),
        .local = htonl(DUMMY_ADDRESS),
    };
    return ask(&msg.head);
}

// --- all of it

// A listener of this namespace and of no other: our client hands it to us.
static int is_listener_here(int listener)
{
    int listening = 0, family = 0;
    uint64_t theirs = 0, ours = 0;
    socklen_t len = sizeof listening;
    if (getsockopt(listener, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) < 0 || !listening)
        return 0;
    len = sizeof family;
    if (getsockopt(listener, SOL_SOCKET, SO_DOMAIN, &family, &len) < 0 || family != AF_INET)
        return 0;
    auto_fd sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    len = sizeof theirs;
    if (sock < 0 || getsockopt(listener, SOL_SOCKET, SO_NETNS_COOKIE, &theirs, &len) < 0)
        return 0;
    len = sizeof ours;
    return getsockopt(sock, SOL_SOCKET, SO_NETNS_COOKIE, &ours, &len) == 0 && theirs == ours;
}

static int open_here(int listener, struct err *err)
{
    if (!is_listener_here(listener))
        return err_set(err, ERR_INVALID, "this is no listener of that box");
    int link = attach(listener);
    if (link < 0)
        return err_sys(err, -link, "steer a box's connections");
    int r = add_address();
    if (r == 0)
        r = add_route();
    if (r == 0)
        return link;
    fd_close(link);
    return err_sys(err, -r, "give a box a route");
}

static int hold(const struct box *box, int link, struct err *err)
{
    const struct guest_plain msg = {
        .head = {.version = (uint16_t)box->guest_version, .type = GUEST_HOLD}
    };
    int r = wire_send(box->guest, &msg, sizeof msg, NULL, 0, &link, 1);
    return r < 0 ? err_sys(err, -r, "give a box its network") : 0;
}

int net_open(const struct box *box, int listener, struct err *err)
{
    auto_fd home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (listener < 0)
        return err_set(err, ERR_INVALID, "no listener came along");
    if (home < 0 || setns(box->pidfd, CLONE_NEWNET) < 0)
        return err_sys(err, errno, "enter a box's network");
    auto_fd link = open_here(listener, err);
    if (setns(home, CLONE_NEWNET) < 0)
        abort(); // what we do next would be done in a box
    return link < 0 ? -1 : hold(box, link, err);
}
