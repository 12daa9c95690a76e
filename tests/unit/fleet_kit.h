// SPDX-License-Identifier: Apache-2.0
// A fleet whose keeper and guests are sockets of the test.
#pragma once

#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "box/limits.h"
#include "db_kit.h"
#include "sandbox/sandbox-internal.h"

enum { RUN = 7, ROUNDS = 20 };
enum { BIG = 1 << 29 }; // of memory: not the default

static struct {
    uv_loop_t loop;
    struct fleet *fleet;
    int keeper; // the test's end
    bool ready;
} kit;

static inline void on_ready(void *data)
{
    (void)data;
    kit.ready = true;
}

static inline void on_lost(void *data)
{
    (void)data;
}

static inline void turn(void)
{
    for (int i = 0; i < ROUNDS; i++)
        (void)uv_run(&kit.loop, UV_RUN_NOWAIT);
}

// --- the keeper's part

static inline struct wire_head head(uint16_t type, uint32_t id)
{
    return (struct wire_head){.version = WIRE_VERSION, .type = type, .id = id};
}

static inline void say(const void *msg, size_t len, int fd)
{
    assert_int_equal(wire_send(kit.keeper, msg, len, NULL, 0, &fd, fd >= 0 ? 1 : 0), 0);
    fd_close(fd);
}

// Hands over a guest's socket; the other end is the test's.
static inline int say_box(uint16_t type, uint32_t id, uint64_t box)
{
    int pair[2];
    struct keeper_box msg = {.head = head(type, id), .box = box};
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    say(&msg, sizeof msg, pair[0]);
    return pair[1];
}

static inline int say_live(uint64_t box)
{
    int pair[2];
    struct keeper_live msg = {
        .head = head(KEEPER_LIVE, 0), .box = box, .guest_version = WIRE_VERSION};
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    say(&msg, sizeof msg, pair[0]);
    return pair[1];
}

static inline void say_welcome(void)
{
    struct keeper_welcome msg = {
        .head = head(KEEPER_WELCOME, 0), .run = RUN, .boxes = 10, .has_volume = 1};
    say(&msg, sizeof msg, -1);
    turn();
}

static inline void say_ended(uint64_t box)
{
    struct keeper_ended ended = {.head = head(KEEPER_ENDED, 0), .box = box};
    struct keeper_box gone = {.head = head(KEEPER_GONE, 0), .box = box};
    say(&ended, sizeof ended, -1);
    say(&gone, sizeof gone, -1);
}

static inline void say_ok(uint32_t id)
{
    struct keeper_plain msg = {.head = head(KEEPER_OK, id)};
    say(&msg, sizeof msg, -1);
    turn();
}

static inline void say_error(uint32_t id, enum err_code code)
{
    struct keeper_error msg = {.head = head(KEEPER_ERROR, id), .code = code, .msg = "no"};
    say(&msg, sizeof msg, -1);
    turn();
}

union request {
    struct wire_head head;
    struct keeper_claim claim;
    struct keeper_box box;
    struct keeper_limit limit;
    struct keeper_take take;
    struct keeper_disk_drop drop;
    struct keeper_disk_copy copy;
    struct keeper_disk_move move;
    char bytes[4096];
};

// The next request, which is of this type; its id.
static inline uint32_t hear(uint16_t type, union request *ret)
{
    union request mine;
    struct wire_fds fds;
    turn();
    ret = ret != NULL ? ret : &mine;
    do // boxes that are ready get an interpreter; this keeper has none
        assert_true(wire_recv(kit.keeper, ret, sizeof *ret, &fds, MSG_DONTWAIT) > 0);
    while (ret->head.type == KEEPER_PLANT);
    assert_int_equal(ret->head.type, type);
    return ret->head.id;
}

static inline void hear_nothing(void)
{
    union request msg;
    struct wire_fds fds;
    ssize_t n;
    turn();
    do
        n = wire_recv(kit.keeper, &msg, sizeof msg, &fds, MSG_DONTWAIT);
    while (n > 0 && msg.head.type == KEEPER_PLANT);
    assert_int_equal(n, -EAGAIN);
}

static inline void no_disks(void) // which a new daemon asks for: those of sandboxes, and snapshots
{
    for (int i = 0; i < 2; i++) {
        struct keeper_disks msg = {.head = head(KEEPER_DISKS, hear(KEEPER_DISK_LIST, NULL))};
        say(&msg, sizeof msg, -1);
        turn();
    }
}

// --- the client's part

struct told {
    int calls;
    bool ok, created;
    enum err_code code;
};

static inline void on_told(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct told *told = data;
    told->calls++;
    told->ok = s != NULL;
    told->created = created;
    told->code = err != NULL ? err->code : ERR_NONE;
}

static inline void create(const char *id, uint64_t memory, struct told *told)
{
    struct sandbox_settings settings = {
        .id = id, .limits = {.memory = memory}, .sleep_after_ms = -1};
    fleet_create(kit.fleet, 1, &settings, on_told, told);
}

static inline struct sandbox *find(const char *id)
{
    struct err err = {0};
    return fleet_find(kit.fleet, 1, id, &err);
}

static inline struct tenant *owner(void)
{
    struct err err = {0};
    return fleet_tenant(kit.fleet, 1, &err);
}

static inline void check_counts(int64_t sandboxes, int64_t running, int64_t memory)
{
    assert_int_equal(owner()->sandboxes, sandboxes);
    assert_int_equal(owner()->running, running);
    assert_int_equal(owner()->memory, memory);
    assert_int_equal(kit.fleet->running, running);
    assert_int_equal(kit.fleet->starting, 0);
}

// --- one daemon

static inline void open_fleet(void)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    struct fleet_config config = {
        .loop = &kit.loop,
        .db = kit_db,
        .keeper = pair[0],
        .logs_fd = -1,
        .sleep_after_ms = INT32_MAX,
    };
    kit.keeper = pair[1];
    kit.ready = false;
    MUST(fleet_open(&config, on_ready, on_lost, NULL, &kit.fleet, &err));
}

static inline void close_fleet(void)
{
    int ours = kit.fleet->config.keeper;
    fleet_free(kit.fleet);
    turn();
    fd_close(ours);
    fd_close(kit.keeper);
}

static inline int set_up(void **state)
{
    assert_int_equal(kit_start(state), 0);
    assert_int_equal(uv_loop_init(&kit.loop), 0);
    open_fleet();
    return 0;
}

static inline int set_up_ready(void **state)
{
    set_up(state);
    say_welcome();
    assert_true(kit.ready);
    no_disks();
    return 0;
}

static inline int tear_down(void **state)
{
    close_fleet();
    assert_int_equal(uv_loop_close(&kit.loop), 0);
    return kit_stop(state);
}

#define READY_CASE(name) cmocka_unit_test_setup_teardown(name, set_up_ready, tear_down)
