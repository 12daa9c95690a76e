// SPDX-License-Identifier: Apache-2.0
// Both kinds of peer played by a stranger: whatever it sends, what is handed on is sound, and
// nothing that it sent stays open.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/client.h"
#include "check.h"

struct pair {
    int us, them;
    int open_before;
};

static struct pair pair_open(void)
{
    struct pair p = {.open_before = check_fds()};
    int ends[2];
    assert_int_equal(wire_pair(ends), 0);
    p.us = ends[0];
    p.them = ends[1];
    return p;
}

static void pair_done(struct pair *p)
{
    fd_close(p->us);
    fd_close(p->them);
    assert_int_equal(check_fds(), p->open_before);
}

static void hang_up(struct pair *p)
{
    fd_close(TAKE_FD(p->them));
}

static struct wire_head head(unsigned type)
{
    return (struct wire_head){.version = WIRE_VERSION, .type = (uint16_t)type, .id = 77};
}

// `len` bytes of which all but the head are `fill`.
static void send_filled(int sock, unsigned type, size_t len, int fill, const int *fds, unsigned n)
{
    char bytes[1024];
    const struct wire_head h = head(type);
    assert_true(len >= sizeof h && len <= sizeof bytes);
    memset(bytes, fill, len);
    memcpy(bytes, &h, sizeof h);
    assert_int_equal(wire_send(sock, bytes, len, NULL, 0, fds, n), 0);
}

// -- descriptors of every kind

struct kinds {
    int pipe[2];
    int tty; // a terminal's master
    int file, dir, null, socket[2];
};

static struct kinds kinds_open(void)
{
    struct kinds k;
    assert_int_equal(pipe2(k.pipe, O_CLOEXEC), 0);
    k.tty = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    k.file = memfd_create("client_test", MFD_CLOEXEC);
    k.dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    k.null = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert_true(k.tty >= 0 && k.file >= 0 && k.dir >= 0 && k.null >= 0);
    assert_int_equal(wire_pair(k.socket), 0);
    return k;
}

static void kinds_close(const struct kinds *k)
{
    const int all[] = {k->pipe[0], k->pipe[1], k->tty,       k->file,
                       k->dir,     k->null,    k->socket[0], k->socket[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        fd_close(all[i]);
}

static ino_t inode(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    return st.st_ino;
}

// -- the keeper's answers

// 0 for what is not an answer.
static size_t keeper_want(unsigned type, unsigned *ret_fds)
{
    *ret_fds = type == KEEPER_CLAIMED || type == KEEPER_READY || type == KEEPER_LIVE;
    switch (type) {
    case KEEPER_CLAIMED:
    case KEEPER_READY:
    case KEEPER_GONE:
        return sizeof(struct keeper_box);
    case KEEPER_ENDED:
        return sizeof(struct keeper_ended);
    case KEEPER_STATE:
        return sizeof(struct keeper_state);
    case KEEPER_LIVE:
        return sizeof(struct keeper_live);
    case KEEPER_WELCOME:
        return sizeof(struct keeper_welcome);
    case KEEPER_USED:
        return sizeof(struct keeper_used);
    case KEEPER_OK:
        return sizeof(struct keeper_plain);
    case KEEPER_ERROR:
        return sizeof(struct keeper_error);
    case KEEPER_DISK_DONE:
        return sizeof(struct keeper_disk_done);
    case KEEPER_SPACED:
        return sizeof(struct keeper_spaced);
    default:
        return 0;
    }
}

static void check_keeper(struct pair *p, unsigned type, size_t len, const int *fds, unsigned n)
{
    struct keeper_event ev = {.guest = -9};
    struct err err = {0};
    unsigned want_fds;
    size_t want = keeper_want(type, &want_fds);
    send_filled(p->them, type, len, 0xa5, fds, n);
    int r = keeper_recv(p->us, &ev, MSG_DONTWAIT, &err);
    if (want == len && want_fds == n) {
        assert_int_equal(r, 1);
        assert_int_equal(ev.msg.head.type, type);
        assert_int_equal(ev.msg.head.id, 77);
        assert_int_equal(ev.guest >= 0, n == 1);
        if (n == 1)
            assert_int_equal(inode(ev.guest), inode(fds[0]));
        fd_close(ev.guest);
        return;
    }
    assert_int_equal(r, -1);
    assert_int_equal(err.code, ERR_INTERNAL);
    assert_string_equal(err.msg, len <= sizeof ev.msg ? "the keeper sent nonsense"
                                                      : "hear from the keeper: Message too long");
}

CHECK_CASE(keeper_answers_of_every_type_length_and_number)
{
    struct kinds k = kinds_open();
    struct pair p = pair_open();
    const int fds[] = {k.socket[0], k.pipe[0]};
    unsigned accepted = 0, unused;
    for (unsigned type = 0; type <= KEEPER_TYPE_MAX + 1; type++) {
        accepted += keeper_want(type, &unused) > 0;
        for (size_t len = sizeof(struct wire_head); len <= sizeof(struct keeper_error) + 2; len++) {
            for (unsigned n = 0; n <= 2; n++)
                check_keeper(&p, type, len, fds, n);
        }
    }
    assert_int_equal(accepted, 12); // the long KEEPER_DISKS has a case of its own
    check_keeper(&p, 0xffff, sizeof(struct keeper_box), fds, 0);
    check_keeper(&p, 0x0100 + KEEPER_OK, sizeof(struct keeper_plain), fds, 0);
    pair_done(&p);
    kinds_close(&k);
}

CHECK_CASE(lists_of_disks)
{
    struct pair p = pair_open();
    struct keeper_event ev;
    struct err err = {0};
    static struct keeper_disks msg;
    static const uint32_t counts[] = {0, 1, KEEPER_DISKS_MAX, KEEPER_DISKS_MAX + 1, UINT32_MAX};
    msg.head = head(KEEPER_DISKS);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        msg.n = counts[i];
        msg.disk[KEEPER_DISKS_MAX - 1] = 99;
        assert_int_equal(wire_send(p.them, &msg, sizeof msg, NULL, 0, NULL, 0), 0);
        int good = counts[i] <= KEEPER_DISKS_MAX;
        assert_int_equal(keeper_recv(p.us, &ev, MSG_DONTWAIT, &err), good ? 1 : -1);
        if (good)
            assert_true(ev.msg.disks.disk[KEEPER_DISKS_MAX - 1] == 99);
    }
    assert_int_equal(wire_send(p.them, &msg, sizeof msg - 8, NULL, 0, NULL, 0), 0);
    assert_int_equal(keeper_recv(p.us, &ev, MSG_DONTWAIT, &err), -1);
    pair_done(&p);
}

// -- a guest's answers

struct set {
    const char *name;
    int fds[6];
    unsigned n;
    uint32_t flags; // of GUEST_STARTED that these fit
    int good;
};

static size_t guest_want(unsigned type)
{
    switch (type) {
    case GUEST_STARTED:
        return sizeof(struct guest_started);
    case GUEST_FAILED:
        return sizeof(struct guest_failed);
    case GUEST_EXITED:
        return sizeof(struct guest_exited);
    case GUEST_LISTED:
        return sizeof(struct guest_listed);
    case GUEST_GIVEN:
        return sizeof(struct guest_given);
    default:
        return 0;
    }
}

// Where the descriptors went, in the order that they came in.
static void check_taken(const struct guest_event *ev, const struct set *set)
{
    const int all[] = {ev->out, ev->err, ev->in, ev->control_in, ev->control_out};
    unsigned at = 0;
    for (unsigned i = 0; i < 5; i++) {
        if (all[i] < 0)
            continue;
        assert_true(at < set->n);
        assert_int_equal(inode(all[i]), inode(set->fds[at++]));
        assert_int_equal(fcntl(all[i], F_GETFD), FD_CLOEXEC);
        fd_close(all[i]);
    }
    assert_int_equal(at, set->n);
    assert_int_equal(ev->in >= 0, set->n > 0 && (set->flags & GUEST_EXEC_STDIN) != 0);
    assert_int_equal(ev->control_in >= 0, set->n > 0 && (set->flags & GUEST_EXEC_CONTROL) != 0);
    assert_int_equal(ev->control_out >= 0, ev->control_in >= 0);
}

static void send_guest(struct pair *p, unsigned type, size_t len, const struct set *set,
                       uint32_t flags)
{
    char bytes[1024];
    const struct wire_head h = head(type);
    assert_true(len >= sizeof h && len <= sizeof bytes);
    memset(bytes, 0xa5, len);
    memcpy(bytes, &h, sizeof h);
    if (len >= sizeof(struct guest_started))
        memcpy(bytes + offsetof(struct guest_started, flags), &flags, sizeof flags);
    assert_int_equal(wire_send(p->them, bytes, len, NULL, 0, set->fds, set->n), 0);
}

static void check_guest(struct pair *p, unsigned type, size_t len, const struct set *set,
                        uint32_t flags)
{
    struct guest_event ev = {.out = -9, .err = -9, .in = -9, .control_in = -9, .control_out = -9};
    struct err err = {0};
    send_guest(p, type, len, set, flags);
    int r = guest_recv(p->us, &ev, MSG_DONTWAIT, &err);
    int good = len == guest_want(type) &&
               (type == GUEST_STARTED ? set->good && set->flags == flags : set->n == 0);
    if (good) {
        assert_int_equal(r, 1);
        assert_int_equal(ev.msg.head.type, type);
        check_taken(&ev, set);
        return;
    }
    if (r != -1)
        fail_msg("type %u, %zu bytes, flags %u, descriptors '%s' were taken", type, len, flags,
                 set->name);
    assert_int_equal(err.code, ERR_INTERNAL);
    assert_string_equal(err.msg, len <= sizeof ev.msg ? "the guest sent nonsense"
                                                      : "hear from the box: Message too long");
    assert_true(ev.out == -1 && ev.err == -1 && ev.in == -1 && ev.control_in == -1 &&
                ev.control_out == -1);
}

CHECK_CASE(guest_answers_of_every_type_length_and_kind)
{
    enum { TTY = GUEST_EXEC_TTY, IN = GUEST_EXEC_STDIN, CONTROL = GUEST_EXEC_CONTROL };
    struct kinds k = kinds_open();
    int other[2];
    assert_int_equal(pipe2(other, O_CLOEXEC), 0);
    const int p0 = k.pipe[0], p1 = k.pipe[1], q = other[0];
    const struct set sets[] = {
        {"none",                  {-1},                   0, 0,            0},
        {"a terminal",            {k.tty},                1, TTY,          1},
        {"a pipe for a terminal", {p0},                   1, TTY,          0},
        {"a file",                {k.file},               1, TTY,          0},
        {"a directory",           {k.dir},                1, TTY,          0},
        {"/dev/null",             {k.null},               1, TTY,          0},
        {"a socket",              {k.socket[0]},          1, TTY,          0},
        {"two pipes",             {p0, q},                2, 0,            1},
        {"a pipe and a file",     {p0, k.file},           2, 0,            0},
        {"a file and a pipe",     {k.file, p0},           2, 0,            0},
        {"a terminal and a pipe", {k.tty, p0},            2, 0,            0},
        {"two terminals",         {k.tty, k.tty},         2, TTY,          0},
        {"a socket and a pipe",   {k.socket[0], p0},      2, 0,            0},
        {"three pipes",           {p0, q, p1},            3, IN,           1},
        {"two and a directory",   {p0, q, k.dir},         3, IN,           0},
        {"two and a file",        {p0, q, k.file},        3, IN,           0},
        {"two and /dev/null",     {p0, q, k.null},        3, IN,           0},
        {"three terminals",       {k.tty, k.tty, k.tty},  3, IN,           0},
        {"four pipes",            {p0, q, p1, q},         4, CONTROL,      1},
        {"three and a file",      {p0, q, p1, k.file},    4, CONTROL,      0},
        {"five pipes",            {p0, q, p1, q, p0},     5, IN | CONTROL, 1},
        {"four and a terminal",   {p0, q, p1, q, k.tty},  5, IN | CONTROL, 0},
        {"six pipes",             {p0, q, p1, q, p0, p1}, 6, IN | CONTROL, 0},
    };
    static const uint32_t flags[] = {0, TTY, IN, CONTROL, IN | CONTROL};
    struct pair p = pair_open();
    for (unsigned type = 0; type <= GUEST_TYPE_MAX + 1; type++) {
        for (size_t len = sizeof(struct wire_head); len <= sizeof(struct guest_exited) + 2; len++) {
            for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
                size_t n = len == sizeof(struct guest_started) ? sizeof flags / sizeof *flags : 1;
                for (size_t f = 0; f < n; f++)
                    check_guest(&p, type, len, &sets[i], flags[f]);
            }
        }
    }
    check_guest(&p, 0xffff, sizeof(struct guest_started), &sets[0], 0);
    pair_done(&p);
    fd_close(other[0]);
    fd_close(other[1]);
    kinds_close(&k);
}

// An O_PATH descriptor can be neither read nor asked whether it is a terminal.
CHECK_CASE(guest_with_a_path_for_a_stream)
{
    auto_fd path = open("/dev/ptmx", O_PATH | O_CLOEXEC);
    struct pair p = pair_open();
    const struct set set = {.name = "a path", .fds = {path}, .n = 1, .flags = GUEST_EXEC_TTY};
    check_guest(&p, GUEST_STARTED, sizeof(struct guest_started), &set, GUEST_EXEC_TTY);
    pair_done(&p);
}

// -- what is no message at all

CHECK_CASE(garbage)
{
    static const struct {
        const char *bytes;
        size_t len;
        int sys_errno;
    } rows[] = {
        {"x",                                1,  EPROTO},
        {"\1\0\5\0\0\0\0",                   7,  EPROTO}, // one byte short of a head
        {"\0\0\5\0\0\0\0\0",                 8,  EPROTO}, // version 0
        {"\x7f\0\5\0\0\0\0\0",               8,  EPROTO}, // of tomorrow
        {"\0\1\5\0\0\0\0\0",                 8,  EPROTO}, // the other byte order
        {"GET / HTTP/1.1\r\n\r\n",           18, EPROTO},
        {"\xff\xff\xff\xff\xff\xff\xff\xff", 8,  EPROTO},
    };
    struct kinds k = kinds_open();
    struct pair p = pair_open();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct keeper_event kev;
        struct guest_event gev;
        struct err err = {0};
        assert_int_equal(wire_send(p.them, rows[i].bytes, rows[i].len, NULL, 0, &k.file, 1), 0);
        assert_int_equal(keeper_recv(p.us, &kev, MSG_DONTWAIT, &err), -1);
        assert_int_equal(err.sys_errno, rows[i].sys_errno);
        assert_int_equal(wire_send(p.them, rows[i].bytes, rows[i].len, NULL, 0, &k.file, 1), 0);
        assert_int_equal(guest_recv(p.us, &gev, MSG_DONTWAIT, &err), -1);
        assert_int_equal(err.sys_errno, rows[i].sys_errno);
        assert_true(gev.out == -1 && gev.err == -1 && gev.in == -1);
    }
    pair_done(&p);
    kinds_close(&k);
}

// -- ends

CHECK_CASE(nothing_yet)
{
    struct pair p = pair_open();
    struct keeper_event kev;
    struct guest_event gev;
    struct err err = {0};
    assert_int_equal(keeper_recv(p.us, &kev, MSG_DONTWAIT, &err), 0);
    assert_int_equal(guest_recv(p.us, &gev, MSG_DONTWAIT, &err), 0);
    assert_int_equal(err.code, ERR_NONE);
    pair_done(&p);
}

CHECK_CASE(a_peer_that_is_gone)
{
    struct pair p = pair_open();
    struct keeper_event kev;
    struct guest_event gev;
    struct err err = {0};
    hang_up(&p);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(keeper_recv(p.us, &kev, 0, &err), -1);
        assert_int_equal(err.code, ERR_UNAVAILABLE);
        assert_string_equal(err.msg, "the keeper is gone");
        assert_int_equal(guest_recv(p.us, &gev, 0, &err), -1);
        assert_int_equal(err.code, ERR_UNAVAILABLE);
        assert_string_equal(err.msg, "the box is gone");
    }
    assert_int_equal(keeper_send_status(p.us, 1, &err), -1);
    assert_int_equal(err.sys_errno, EPIPE);
    assert_int_equal(guest_send_signal(guest_fresh(p.us), 1, 9, &err), -1);
    assert_int_equal(err.sys_errno, EPIPE);
    pair_done(&p);
}

// A keeper that could not start says why and ends without having read what it was asked. The kernel
// then reports a reset before the words, once.
CHECK_CASE(last_words_of_a_keeper_that_read_nothing)
{
    for (int flags = 0; flags <= MSG_DONTWAIT; flags += MSG_DONTWAIT) {
        struct pair p = pair_open();
        struct keeper_event ev;
        struct err err = {0};
        struct keeper_error words = {
            .head = head(KEEPER_ERROR), .code = ERR_DENIED, .msg = "not root"};
        assert_int_equal(keeper_send_status(p.us, 1, &err), 0);
        assert_int_equal(keeper_send_status(p.us, 2, &err), 0);
        assert_int_equal(wire_send(p.them, &words, sizeof words, NULL, 0, NULL, 0), 0);
        send_filled(p.them, KEEPER_OK, sizeof(struct keeper_plain), 0, NULL, 0);
        hang_up(&p);
        assert_int_equal(keeper_recv(p.us, &ev, flags, &err), 1);
        assert_int_equal(ev.msg.head.type, KEEPER_ERROR);
        assert_string_equal(ev.msg.error.msg, "not root");
        assert_int_equal(keeper_recv(p.us, &ev, flags, &err), 1);
        assert_int_equal(ev.msg.head.type, KEEPER_OK);
        assert_int_equal(keeper_recv(p.us, &ev, flags, &err), -1);
        assert_int_equal(err.code, ERR_UNAVAILABLE);
        pair_done(&p);
    }
}

CHECK_CASE(last_words_of_a_guest_that_read_nothing)
{
    struct pair p = pair_open();
    struct guest_event ev;
    struct err err = {0};
    struct guest_exited words = {.head = head(GUEST_EXITED), .status = 0x0300, .rss_peak = 4096};
    assert_int_equal(guest_send_signal(guest_fresh(p.us), 77, 15, &err), 0);
    assert_int_equal(wire_send(p.them, &words, sizeof words, NULL, 0, NULL, 0), 0);
    hang_up(&p);
    assert_int_equal(guest_recv(p.us, &ev, 0, &err), 1);
    assert_memory_equal(&ev.msg.exited, &words, sizeof words);
    assert_int_equal(guest_recv(p.us, &ev, 0, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    pair_done(&p);
}

CHECK_CASE(gone_without_a_word_and_without_reading)
{
    struct pair p = pair_open();
    struct keeper_event ev;
    struct err err = {0};
    assert_int_equal(keeper_send_status(p.us, 1, &err), 0);
    hang_up(&p);
    assert_int_equal(keeper_recv(p.us, &ev, 0, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_string_equal(err.msg, "the keeper is gone");
    pair_done(&p);
}

// -- requests to the keeper

// The next message at the other end, which must be `len` long and carry nothing.
static void heard(const struct pair *p, void *msg, size_t len, unsigned type, uint32_t id)
{
    char bytes[1024];
    struct wire_fds fds;
    assert_int_equal(wire_recv(p->them, bytes, sizeof bytes, &fds, MSG_DONTWAIT), len);
    assert_int_equal(fds.n, 0);
    memcpy(msg, bytes, len);
    const struct wire_head *h = msg;
    assert_int_equal(h->version, WIRE_VERSION);
    assert_int_equal(h->type, type);
    assert_int_equal(h->id, id);
}

static void heard_nothing(const struct pair *p)
{
    char bytes[64];
    struct wire_fds fds;
    assert_int_equal(wire_recv(p->them, bytes, sizeof bytes, &fds, MSG_DONTWAIT), -EAGAIN);
}

CHECK_CASE(claims)
{
    struct pair p = pair_open();
    struct err err = {0};
    struct keeper_claim msg;
    char name[KEEPER_IMAGE_MAX + 1];
    memset(name, 'i', sizeof name);
    name[KEEPER_IMAGE_MAX] = '\0';
    struct claim claim = {
        .image = name,
        .limits = {.memory = 1ull << 40, .disk = 3ull << 33, .pids = 5, .cpu_milli = 7},
        .disk_kind = DISK_KEPT,
        .disk = 1ull << 60,
    };
    assert_int_equal(keeper_send_claim(p.us, 5, &claim, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    heard_nothing(&p);
    name[KEEPER_IMAGE_MAX - 1] = '\0'; // the longest that leaves room for the NUL
    assert_int_equal(keeper_send_claim(p.us, UINT32_MAX, &claim, &err), 0);
    heard(&p, &msg, sizeof msg, KEEPER_CLAIM, UINT32_MAX);
    assert_string_equal(msg.image, name);
    assert_memory_equal(&msg.limits, &claim.limits, sizeof claim.limits);
    assert_int_equal(msg.disk_kind, DISK_KEPT);
    assert_true(msg.disk == 1ull << 60);
    claim.image = "";
    assert_int_equal(keeper_send_claim(p.us, 6, &claim, &err), 0);
    heard(&p, &msg, sizeof msg, KEEPER_CLAIM, 6);
    for (size_t i = 0; i < sizeof msg.image; i++)
        assert_int_equal(msg.image[i], '\0'); // nothing of the stack goes out
    pair_done(&p);
}

CHECK_CASE(other_requests)
{
    struct pair p = pair_open();
    struct err err = {0};
    struct keeper_box box;
    struct keeper_limit limit;
    struct keeper_plain plain;
    struct keeper_disk_drop drop;
    struct guest_signal sig;
    const struct box_limits limits = {.memory = 11, .disk = 12, .pids = 13, .cpu_milli = 14};
    assert_int_equal(keeper_send_destroy(p.us, 3, UINT64_MAX, &err), 0);
    heard(&p, &box, sizeof box, KEEPER_DESTROY, 3);
    assert_true(box.box == UINT64_MAX);
    assert_int_equal(keeper_send_status(p.us, 4, &err), 0);
    heard(&p, &plain, sizeof plain, KEEPER_STATUS, 4);
    assert_int_equal(keeper_send_limit(p.us, 5, 1ull << 40, &limits, &err), 0);
    heard(&p, &limit, sizeof limit, KEEPER_LIMIT, 5);
    assert_true(limit.box == 1ull << 40);
    assert_memory_equal(&limit.limits, &limits, sizeof limits);
    struct keeper_take take;
    assert_int_equal(keeper_send_take(p.us, 6, 9, &limits, 1ull << 45, &err), 0);
    heard(&p, &take, sizeof take, KEEPER_TAKE, 6);
    assert_memory_equal(&take.limits, &limits, sizeof limits);
    assert_true(take.box == 9 && take.disk == 1ull << 45);
    struct keeper_disk_list list;
    const struct disk_ref high = {.place = PLACE_SNAPSHOT, .number = 1ull << 55};
    assert_int_equal(keeper_send_disk_list(p.us, 9, high, &err), 0);
    heard(&p, &list, sizeof list, KEEPER_DISK_LIST, 9);
    assert_true(list.place == PLACE_SNAPSHOT && list.above == 1ull << 55);
    assert_int_equal(keeper_send_usage(p.us, 10, 1ull << 41, &err), 0);
    heard(&p, &box, sizeof box, KEEPER_USAGE, 10);
    assert_true(box.box == 1ull << 41);
    assert_int_equal(keeper_send_serving(p.us, &err), 0);
    heard(&p, &plain, sizeof plain, KEEPER_SERVING, 0);
    assert_int_equal(keeper_send_disk_drop(p.us, 7, high, &err), 0);
    heard(&p, &drop, sizeof drop, KEEPER_DISK_DROP, 7);
    assert_memory_equal(&drop.disk, &high, sizeof high);
    assert_int_equal(guest_send_signal(guest_fresh(p.us), 8, 64, &err), 0);
    heard(&p, &sig, sizeof sig, GUEST_SIGNAL, 8);
    assert_int_equal(sig.signal, 64);
    assert_int_equal(sig.scope, GUEST_SCOPE_EXEC);
    assert_int_equal(guest_send_signal_first(guest_fresh(p.us), 8, 15, &err), 0);
    heard(&p, &sig, sizeof sig, GUEST_SIGNAL, 8);
    assert_int_equal(sig.scope, GUEST_SCOPE_FIRST);
    assert_int_equal(guest_send_signal_since(guest_fresh(p.us), 8, 9, 1ull << 50, 77, &err), 0);
    heard(&p, &sig, sizeof sig, GUEST_SIGNAL, 8);
    assert_int_equal(sig.scope, GUEST_SCOPE_SINCE);
    assert_true(sig.since == 1ull << 50 && sig.since_pid == 77);
    struct guest_plain ask;
    struct guest_forget forget;
    assert_int_equal(guest_send_list(guest_fresh(p.us), 12, &err), 0);
    heard(&p, &ask, sizeof ask, GUEST_LIST, 12);
    assert_int_equal(guest_send_forget(guest_fresh(p.us), 13, GUEST_FORGET_STDIN, &err), 0);
    heard(&p, &forget, sizeof forget, GUEST_FORGET, 13);
    assert_int_equal(forget.what, GUEST_FORGET_STDIN);
    pair_done(&p);
}

// -- disks

CHECK_CASE(requests_about_disks)
{
    struct pair p = pair_open();
    struct err err = {0};
    struct keeper_disk_copy copy;
    struct keeper_disk_move move;
    struct keeper_plain plain;
    const struct disk_ref a = {.place = PLACE_KEPT, .number = 1ull << 50};
    const struct disk_ref b = {.place = PLACE_MAKING, .number = 3};
    struct copy_spec spec = {.from = a, .to = b, .bytes = 1ull << 44, .box = 1ull << 43};
    assert_int_equal(keeper_send_disk_copy(p.us, 2, &spec, &err), 0);
    heard(&p, &copy, sizeof copy, KEEPER_DISK_COPY, 2);
    assert_memory_equal(&copy.from, &a, sizeof a);
    assert_memory_equal(&copy.to, &b, sizeof b);
    assert_true(copy.bytes == 1ull << 44 && copy.box == 1ull << 43);
    assert_int_equal(keeper_send_disk_move(p.us, 3, b, a, &err), 0);
    heard(&p, &move, sizeof move, KEEPER_DISK_MOVE, 3);
    assert_memory_equal(&move.from, &b, sizeof b);
    assert_memory_equal(&move.to, &a, sizeof a);
    assert_int_equal(keeper_send_space(p.us, 4, &err), 0);
    heard(&p, &plain, sizeof plain, KEEPER_SPACE, 4);
    assert_int_equal(keeper_send_disk_cancel(p.us, 5, &err), 0);
    heard(&p, &plain, sizeof plain, KEEPER_DISK_CANCEL, 5);
    pair_done(&p);
}

CHECK_CASE(work_has_its_arguments_and_three_descriptors)
{
    static char long_one[KEEPER_ARGS_MAX + 1];
    static struct {
        struct keeper_disk_work msg;
        char args[KEEPER_ARGS_MAX];
    } got;
    struct pair p = pair_open();
    struct err err = {0};
    struct wire_fds fds;
    const char *args[] = {"/workspace", "--exclude", "", NULL};
    struct work_spec spec = {
        .disk = {.place = PLACE_MAKING, .number = 9},
        .work = WORK_PACK_TREE,
        .image = "host",
        .args = args,
        .fds = { -1,                 p.us,          -1},
    };
    assert_int_equal(keeper_send_disk_work(p.us, 6, &spec, &err), 0);
    ssize_t n = wire_recv(p.them, &got, sizeof got, &fds, MSG_DONTWAIT);
    assert_int_equal(n, sizeof got.msg + 22);
    assert_int_equal(got.msg.n_args, 3);
    assert_int_equal(got.msg.args_len, 22);
    assert_memory_equal(got.args, "/workspace\0--exclude\0", 22);
    assert_string_equal(got.msg.image, "host");
    assert_int_equal(fds.n, 3);
    assert_int_equal(inode(fds.fd[1]), inode(p.us));
    wire_fds_close(&fds);
    memset(long_one, 'x', sizeof long_one - 1);
    args[2] = long_one;
    assert_int_equal(keeper_send_disk_work(p.us, 6, &spec, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    pair_done(&p);
}

// -- a program to start

static const char *const no_strings[] = {NULL};

// What the guest gets: the message, and its strings from wherever they are.
struct got_exec {
    struct guest_exec msg;
    char *bytes;
    int in_memfd;
};

static struct got_exec get_exec(const struct pair *p)
{
    char *all = malloc(WIRE_MSG_MAX);
    struct got_exec got = {0};
    struct wire_fds fds;
    assert_non_null(all);
    ssize_t n = wire_recv(p->them, all, WIRE_MSG_MAX, &fds, MSG_DONTWAIT);
    assert_true(n >= (ssize_t)sizeof got.msg);
    memcpy(&got.msg, all, sizeof got.msg);
    got.bytes = malloc(got.msg.args_len);
    assert_non_null(got.bytes);
    got.in_memfd = fds.n == 1;
    if (got.in_memfd) {
        struct stat st;
        assert_int_equal(n, sizeof got.msg);
        assert_int_equal(fstat(fds.fd[0], &st), 0);
        assert_int_equal(st.st_size, got.msg.args_len);
        assert_int_equal(pread(fds.fd[0], got.bytes, got.msg.args_len, 0), got.msg.args_len);
        wire_fds_close(&fds);
    } else {
        assert_int_equal(fds.n, 0);
        assert_int_equal(n, sizeof got.msg + got.msg.args_len);
        memcpy(got.bytes, all + sizeof got.msg, got.msg.args_len);
    }
    free(all);
    return got;
}

// Every byte of the strings must be what the spec says, and there must be no more.
static void check_strings(const struct got_exec *got, const struct exec_spec *spec)
{
    size_t at = 0;
    const char *const *lists[] = {&spec->cwd, spec->argv, spec->envp};
    const uint32_t counts[] = {1, got->msg.argc, got->msg.envc};
    for (int list = 0; list < 3; list++) {
        for (uint32_t i = 0; i < counts[list]; i++) {
            size_t len = strlen(lists[list][i]) + 1;
            assert_true(at + len <= got->msg.args_len);
            assert_memory_equal(got->bytes + at, lists[list][i], len);
            at += len;
        }
        if (list > 0)
            assert_null(lists[list][counts[list]]);
    }
    assert_int_equal(at, got->msg.args_len);
}

static void check_sent(const struct exec_spec *spec, int in_memfd)
{
    struct pair p = pair_open();
    struct err err = {0};
    assert_int_equal(guest_send_exec(guest_fresh(p.us), 4711, spec, &err), 0);
    struct got_exec got = get_exec(&p);
    assert_int_equal(got.in_memfd, in_memfd);
    assert_int_equal(got.msg.head.version, WIRE_VERSION);
    assert_int_equal(got.msg.head.type, GUEST_EXEC);
    assert_int_equal(got.msg.head.id, 4711);
    assert_int_equal(got.msg.flags, spec->flags | (in_memfd ? GUEST_EXEC_ARGS_FD : 0u));
    assert_int_equal(got.msg.uid, spec->uid);
    assert_int_equal(got.msg.gid, spec->gid);
    assert_int_equal(got.msg.files, spec->files);
    assert_int_equal(got.msg.rows, spec->rows);
    assert_int_equal(got.msg.cols, spec->cols);
    check_strings(&got, spec);
    free(got.bytes);
    pair_done(&p);
}

static void check_refused(const struct exec_spec *spec, const char *text)
{
    struct pair p = pair_open();
    struct err err = {0};
    assert_int_equal(guest_send_exec(guest_fresh(p.us), 1, spec, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_non_null(strstr(err.msg, text));
    heard_nothing(&p);
    pair_done(&p);
}

CHECK_CASE(exec_with_short_strings)
{
    const char *const argv[] = {"/bin/echo", "", "a b", "\xff\n", NULL};
    const char *const envp[] = {"PATH=/bin", "", "=", NULL};
    struct exec_spec spec = {
        .cwd = "/w", .argv = argv, .envp = envp, .uid = 1, .gid = 2, .files = 3};
    check_sent(&spec, 0);
    spec.envp = no_strings;
    spec.cwd = "";
    spec.flags = GUEST_EXEC_STDIN | GUEST_EXEC_LAST;
    check_sent(&spec, 0);
    spec.flags = GUEST_EXEC_TTY;
    spec.uid = spec.gid = spec.files = UINT32_MAX;
    spec.rows = UINT16_MAX;
    spec.cols = 1;
    check_sent(&spec, 0);
}

// An exec whose strings are `bytes` long in all: "/", one argument, one empty variable.
static void with_bytes(size_t bytes, void (*check)(const struct exec_spec *, int), int in_memfd)
{
    size_t len = bytes - 2 - 1 - 1; // "/" and its NUL, the argument's NUL, the variable's NUL
    char *arg = malloc(len + 1);
    assert_non_null(arg);
    for (size_t i = 0; i < len; i++)
        arg[i] = (char)('!' + i * 7 % 90);
    arg[len] = '\0';
    const char *const argv[] = {arg, NULL}, *const envp[] = {"", NULL};
    const struct exec_spec spec = {
        .cwd = "/", .argv = argv, .envp = envp, .flags = GUEST_EXEC_STDIN};
    check(&spec, in_memfd);
    free(arg);
}

static void check_too_long(const struct exec_spec *spec, int unused)
{
    (void)unused;
    check_refused(spec, "more than 2 MiB");
}

CHECK_CASE(exec_with_long_strings)
{
    const size_t most = WIRE_MSG_MAX - sizeof(struct guest_exec);
    with_bytes(5, check_sent, 0);
    with_bytes(most - 1, check_sent, 0);
    with_bytes(most, check_sent, 0);
    with_bytes(most + 1, check_sent, 1);
    with_bytes(WIRE_MSG_MAX, check_sent, 1);
    with_bytes(WIRE_MSG_MAX + 4096 + 1, check_sent, 1);
    with_bytes(GUEST_ARGS_MAX - 1, check_sent, 1);
    with_bytes(GUEST_ARGS_MAX, check_sent, 1);
    with_bytes(GUEST_ARGS_MAX + 1, check_too_long, 0);
}

CHECK_CASE(exec_with_no_argument)
{
    const char *const envp[] = {"A=b", NULL};
    const struct exec_spec spec = {.cwd = "/", .argv = no_strings, .envp = envp};
    check_refused(&spec, "no program to run");
}

CHECK_CASE(exec_with_many_strings)
{
    static const char *many[GUEST_STRINGS_MAX + 1];
    for (unsigned i = 0; i < GUEST_STRINGS_MAX; i++)
        many[i] = "x";
    struct exec_spec spec = {.cwd = "/", .argv = many, .envp = no_strings};
    check_refused(&spec, "4096"); // with the directory one too many
    many[GUEST_STRINGS_MAX - 1] = NULL;
    check_sent(&spec, 0);
    const char *const one[] = {"y", NULL};
    spec.envp = one;
    check_refused(&spec, "4096");
    spec.argv = one;
    spec.envp = many;
    check_refused(&spec, "4096");
    many[GUEST_STRINGS_MAX - 2] = NULL;
    check_sent(&spec, 0);
}

// -- what went wrong, in words

CHECK_CASE(keeper_errors)
{
    for (uint32_t code = ERR_NONE + 1; code < ERR_CODE_MAX; code++) {
        const struct keeper_error msg = {.code = code, .msg = "words"};
        struct err err = {.sys_errno = 5};
        assert_int_equal(keeper_error_take(&msg, &err), -1);
        assert_int_equal(err.code, code);
        assert_int_equal(err.sys_errno, 0);
        assert_string_equal(err.msg, "words");
    }
    static const uint32_t bad[] = {ERR_NONE, ERR_CODE_MAX, 1u << 31, UINT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct keeper_error msg = {.code = bad[i]};
        struct err err = {0};
        memset(msg.msg, '%', sizeof msg.msg); // no format, and no NUL at its end
        assert_int_equal(keeper_error_take(&msg, &err), -1);
        assert_int_equal(err.code, ERR_INTERNAL);
        assert_int_equal(strlen(err.msg), sizeof msg.msg - 1);
        assert_int_equal(strspn(err.msg, "%"), sizeof msg.msg - 1);
    }
}

#define FULL_TEXT                                                                                  \
    "start 'p%s': the box has as many processes as it may have; end some, or raise its limit "     \
    "(pids)"

CHECK_CASE(guest_failures)
{
    static const struct {
        uint32_t step;
        int32_t sys_errno;
        enum err_code code;
        const char *text;
    } rows[] = {
        {STEP_CWD,   ENOENT,    ERR_NOT_FOUND, "working directory '/w': No such file or directory" },
        {STEP_CWD,   EACCES,    ERR_DENIED,    "working directory '/w': Permission denied"         },
        {STEP_EXEC,  ENOENT,    ERR_NOT_FOUND, "'p%s' cannot be started: No such file or directory"},
        {STEP_EXEC,  ENOEXEC,   ERR_INTERNAL,  "'p%s' cannot be started: Exec format error"        },
        {STEP_SETUP, EAGAIN,    ERR_EXHAUSTED, FULL_TEXT                                           },
        {STEP_ARGS,  E2BIG,     ERR_INTERNAL,  "start 'p%s': Argument list too long"               },
        {STEP_NONE,  EPERM,     ERR_DENIED,    "start 'p%s': Operation not permitted"              },
        {STEP_MAX,   EPERM,     ERR_DENIED,    "start 'p%s': Operation not permitted"              },
        {99,         EPERM,     ERR_DENIED,    "start 'p%s': Operation not permitted"              },
        {UINT32_MAX, EPERM,     ERR_DENIED,    "start 'p%s': Operation not permitted"              },
        {STEP_EXEC,  0,         ERR_INTERNAL,  "'p%s' cannot be started: Input/output error"       },
        {STEP_EXEC,  -ENOENT,   ERR_INTERNAL,  "'p%s' cannot be started: Input/output error"       },
        {STEP_EXEC,  4096,      ERR_INTERNAL,  "'p%s' cannot be started: Input/output error"       },
        {STEP_EXEC,  INT32_MIN, ERR_INTERNAL,  "'p%s' cannot be started: Input/output error"       },
        {STEP_EXEC,  4095,      ERR_INTERNAL,  "'p%s' cannot be started: unknown error"            },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct guest_failed msg = {.step = rows[i].step, .sys_errno = rows[i].sys_errno};
        struct err err = {0};
        assert_int_equal(guest_failed_take(&msg, "p%s", "/w", &err), -1);
        assert_string_equal(err.msg, rows[i].text);
        assert_int_equal(err.code, rows[i].code);
    }
}

// -- guests of before an upgrade

// What they do not know is not sent to them, and whoever asks is told what helps.
static void an_older_guest(void **state)
{
    (void)state;
    struct pair p = pair_open();
    char byte;
    for (uint16_t version = 1; version <= WIRE_VERSION; version++) {
        const struct guest_peer guest = {.sock = p.us, .version = version};
        for (int i = 0; i < 4; i++) {
            struct err err = {0};
            int knows = version >= (i == 3 ? 3 : 2);
            int r = i == 0   ? guest_send_hand(guest, 1, &err)
                    : i == 1 ? guest_send_dial(guest, 1, 80, &err)
                    : i == 2 ? guest_send_listen(guest, 1, 1, 2, &err)
                             : guest_send_listen_unix(guest, 1, 1, &err);
            assert_int_equal(r, knows ? 0 : -1);
            ssize_t n = recv(p.them, &byte, sizeof byte, MSG_DONTWAIT);
            assert_int_equal(n >= 0, knows);
            if (knows)
                continue;
            assert_int_equal(err.code, ERR_UNSUPPORTED);
            assert_string_equal(err.msg, "this box was made by an older version: put the sandbox "
                                         "to sleep and wake it");
        }
    }
    pair_done(&p);
}

CHECK_MAIN(cmocka_unit_test(an_older_guest),
           cmocka_unit_test(keeper_answers_of_every_type_length_and_number),
           cmocka_unit_test(lists_of_disks),
           cmocka_unit_test(guest_answers_of_every_type_length_and_kind),
           cmocka_unit_test(guest_with_a_path_for_a_stream), cmocka_unit_test(garbage),
           cmocka_unit_test(nothing_yet), cmocka_unit_test(a_peer_that_is_gone),
           cmocka_unit_test(last_words_of_a_keeper_that_read_nothing),
           cmocka_unit_test(last_words_of_a_guest_that_read_nothing),
           cmocka_unit_test(gone_without_a_word_and_without_reading), cmocka_unit_test(claims),
           cmocka_unit_test(other_requests), cmocka_unit_test(requests_about_disks),
           cmocka_unit_test(work_has_its_arguments_and_three_descriptors),
           cmocka_unit_test(exec_with_short_strings), cmocka_unit_test(exec_with_long_strings),
           cmocka_unit_test(exec_with_no_argument), cmocka_unit_test(exec_with_many_strings),
           cmocka_unit_test(keeper_errors), cmocka_unit_test(guest_failures))
