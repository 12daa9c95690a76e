// SPDX-License-Identifier: Apache-2.0
// The fleet between a keeper and guests that are sockets of the test: what comes in an order that
// the real ones show once in a thousand runs.
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "box/limits.h"
#include "db_kit.h"
#include "sandbox/sandbox-internal.h"

enum { RUN = 7, ROUNDS = 20 };

static struct {
    uv_loop_t loop;
    struct fleet *fleet;
    int keeper; // the test's end
    bool ready;
} kit;

static void on_ready(void *data)
{
    (void)data;
    kit.ready = true;
}

static void on_lost(void *data)
{
    (void)data;
}

static void turn(void)
{
    for (int i = 0; i < ROUNDS; i++)
        (void)uv_run(&kit.loop, UV_RUN_NOWAIT);
}

// --- the keeper's part

static struct wire_head head(uint16_t type, uint32_t id)
{
    return (struct wire_head){.version = WIRE_VERSION, .type = type, .id = id};
}

static void say(const void *msg, size_t len, int fd)
{
    assert_int_equal(wire_send(kit.keeper, msg, len, NULL, 0, &fd, fd >= 0 ? 1 : 0), 0);
    fd_close(fd);
}

// Hands over a guest's socket; the other end is the test's.
static int say_box(uint16_t type, uint32_t id, uint64_t box)
{
    int pair[2];
    struct keeper_box msg = {.head = head(type, id), .box = box};
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    say(&msg, sizeof msg, pair[0]);
    return pair[1];
}

static int say_live(uint64_t box)
{
    int pair[2];
    struct keeper_live msg = {
        .head = head(KEEPER_LIVE, 0), .box = box, .guest_version = WIRE_VERSION};
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    say(&msg, sizeof msg, pair[0]);
    return pair[1];
}

static void say_welcome(void)
{
    struct keeper_welcome msg = {
        .head = head(KEEPER_WELCOME, 0), .run = RUN, .boxes = 10, .has_volume = 1};
    say(&msg, sizeof msg, -1);
    turn();
}

static void say_ended(uint64_t box)
{
    struct keeper_ended ended = {.head = head(KEEPER_ENDED, 0), .box = box};
    struct keeper_box gone = {.head = head(KEEPER_GONE, 0), .box = box};
    say(&ended, sizeof ended, -1);
    say(&gone, sizeof gone, -1);
}

static void say_ok(uint32_t id)
{
    struct keeper_plain msg = {.head = head(KEEPER_OK, id)};
    say(&msg, sizeof msg, -1);
    turn();
}

static void say_error(uint32_t id, enum err_code code)
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
    char bytes[4096];
};

// The next request, which is of this type; its id.
static uint32_t hear(uint16_t type, union request *ret)
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

static void hear_nothing(void)
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

static void no_disks(void) // which a new daemon asks for
{
    struct keeper_disks msg = {.head = head(KEEPER_DISKS, hear(KEEPER_DISK_LIST, NULL))};
    say(&msg, sizeof msg, -1);
    turn();
}

// --- the client's part

struct told {
    int calls;
    bool ok, created;
    enum err_code code;
};

static void on_told(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct told *told = data;
    told->calls++;
    told->ok = s != NULL;
    told->created = created;
    told->code = err != NULL ? err->code : ERR_NONE;
}

static void create(const char *id, uint64_t memory, struct told *told)
{
    struct sandbox_settings settings = {
        .id = id, .limits = {.memory = memory}, .sleep_after_ms = -1};
    fleet_create(kit.fleet, 1, &settings, on_told, told);
}

static struct sandbox *find(const char *id)
{
    struct err err = {0};
    return fleet_find(kit.fleet, 1, id, &err);
}

static struct tenant *owner(void)
{
    struct err err = {0};
    return fleet_tenant(kit.fleet, 1, &err);
}

static void check_counts(int64_t sandboxes, int64_t running, int64_t memory)
{
    assert_int_equal(owner()->sandboxes, sandboxes);
    assert_int_equal(owner()->running, running);
    assert_int_equal(owner()->memory, memory);
    assert_int_equal(kit.fleet->running, running);
    assert_int_equal(kit.fleet->starting, 0);
}

// --- one daemon

static void open_fleet(void)
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

static void close_fleet(void)
{
    int ours = kit.fleet->config.keeper;
    fleet_free(kit.fleet);
    turn();
    fd_close(ours);
    fd_close(kit.keeper);
}

static int set_up(void **state)
{
    assert_int_equal(kit_start(state), 0);
    assert_int_equal(uv_loop_init(&kit.loop), 0);
    open_fleet();
    return 0;
}

static int set_up_ready(void **state)
{
    set_up(state);
    say_welcome();
    assert_true(kit.ready);
    no_disks();
    return 0;
}

static int tear_down(void **state)
{
    close_fleet();
    assert_int_equal(uv_loop_close(&kit.loop), 0);
    return kit_stop(state);
}

// --- taking a box of the pool

enum { BIG = 1 << 29 }; // not the default

CHECK_CASE(dies_while_it_is_taken)
{
    struct told made = {0};
    auto_fd pooled = say_box(KEEPER_READY, 0, 3);
    turn();
    create("a", BIG, &made);
    uint32_t take = hear(KEEPER_TAKE, NULL);
    say_ended(3);
    turn();
    assert_int_equal(made.calls, 0);
    say_error(take, ERR_NOT_FOUND);
    uint32_t claim = hear(KEEPER_CLAIM, NULL); // another one
    auto_fd guest = say_box(KEEPER_CLAIMED, claim, 4);
    turn();
    assert_true(made.calls == 1 && made.ok && made.created);
    assert_int_equal(sandbox_box(find("a")), 4);
    check_counts(1, 1, BIG);
}

CHECK_CASE(is_refused_while_it_is_taken)
{
    struct told made = {0};
    auto_fd pooled = say_box(KEEPER_READY, 0, 3);
    turn();
    create("a", BIG, &made);
    say_error(hear(KEEPER_TAKE, NULL), ERR_DENIED);
    assert_true(made.calls == 1 && !made.ok);
    assert_int_equal(made.code, ERR_INTERNAL); // not the client's rights
    union request again;
    (void)hear(KEEPER_TAKE, &again); // what is in the pool cannot be ended
    assert_int_equal(again.take.disk, 0);
    (void)hear(KEEPER_DESTROY, NULL);
    say_ok(hear(KEEPER_DISK_DROP, NULL)); // there may be one
    assert_null(find("a"));
    check_counts(0, 0, 0);
}

CHECK_CASE(is_refused_after_it_was_used)
{
    struct told made = {0};
    auto_fd pooled = say_box(KEEPER_READY, 0, 3);
    turn();
    create("a", 0, &made);
    assert_true(made.calls == 1 && made.ok); // the answer is not waited for
    say_error(hear(KEEPER_TAKE, NULL), ERR_INTERNAL);
    (void)hear(KEEPER_TAKE, NULL);
    (void)hear(KEEPER_DESTROY, NULL);
    say_ended(3);
    turn();
    assert_int_equal(sandbox_row(find("a"))->status, SANDBOX_SLEEPING);
    check_counts(1, 0, 0);
}

CHECK_CASE(of_an_earlier_box_says_nothing_about_this_one)
{
    struct told made = {0}, woken = {0};
    auto_fd pooled = say_box(KEEPER_READY, 0, 3);
    turn();
    create("a", 0, &made);
    uint32_t take = hear(KEEPER_TAKE, NULL);
    say_ended(3);
    turn();
    sandbox_wake(find("a"), on_told, &woken);
    auto_fd guest = say_box(KEEPER_CLAIMED, hear(KEEPER_CLAIM, NULL), 4);
    say_error(take, ERR_NOT_FOUND);
    assert_true(woken.calls == 1 && woken.ok);
    hear_nothing();
    assert_int_equal(find("a")->state, STATE_RUNNING);
}

// --- while it starts

CHECK_CASE(sleep_is_answered_when_the_start_fails)
{
    struct told made = {0}, slept = {0}, woken = {0};
    create("a", BIG, &made);
    auto_fd guest = say_box(KEEPER_CLAIMED, hear(KEEPER_CLAIM, NULL), 4);
    turn();
    say_ended(4);
    turn();
    sandbox_wake(find("a"), on_told, &woken);
    sandbox_sleep(find("a"), "asked", on_told, &slept);
    uint32_t claim = hear(KEEPER_CLAIM, NULL);
    assert_int_equal(slept.calls, 0);
    say_error(claim, ERR_CONFLICT); // its disk is still being let go
    assert_true(woken.calls == 1 && !woken.ok && woken.code == ERR_UNAVAILABLE);
    assert_true(slept.calls == 1 && slept.ok);
    check_counts(1, 0, 0);
}

static void on_stopped(void *data)
{
    *(int *)data += 1;
}

CHECK_CASE(the_server_stops_when_the_last_start_fails)
{
    struct told made = {0};
    int stopped = 0;
    create("a", BIG, &made);
    uint32_t claim = hear(KEEPER_CLAIM, NULL);
    fleet_stop(kit.fleet, on_stopped, &stopped);
    assert_int_equal(stopped, 0);
    say_error(claim, ERR_INTERNAL);
    assert_int_equal(stopped, 1);
}

CHECK_CASE(changed_limits_reach_the_box)
{
    struct told made = {0}, changed = {0}, gone = {0};
    union request limit;
    create("a", BIG, &made);
    uint32_t claim = hear(KEEPER_CLAIM, NULL);
    struct sandbox_settings settings = {.limits = {.memory = BIG / 2}};
    sandbox_patch(find("a"), &settings, PATCH_LIMITS, on_told, &changed);
    assert_true(changed.calls == 1 && changed.ok);
    auto_fd guest = say_box(KEEPER_CLAIMED, claim, 4);
    uint32_t id = hear(KEEPER_LIMIT, &limit);
    assert_int_equal(limit.limit.limits.memory, BIG / 2);
    say_ok(id);
    check_counts(1, 1, BIG / 2);
    sandbox_destroy(find("a"), on_told, &gone);
    (void)hear(KEEPER_DESTROY, NULL);
    say_ended(4);
    say_ok(hear(KEEPER_DISK_DROP, NULL));
    assert_true(gone.calls == 1 && gone.code == ERR_NONE);
    check_counts(0, 0, 0);
}

CHECK_CASE(limits_of_a_box_that_ends)
{
    struct told made = {0}, changed = {0}, second = {0};
    create("a", BIG, &made);
    auto_fd guest = say_box(KEEPER_CLAIMED, hear(KEEPER_CLAIM, NULL), 4);
    turn();
    struct sandbox_settings settings = {.limits = {.memory = BIG / 2}, .keep_alive = true};
    sandbox_patch(find("a"), &settings, PATCH_LIMITS, on_told, &changed);
    sandbox_patch(find("a"), &settings, PATCH_LIMITS, on_told, &second);
    assert_true(second.calls == 1 && second.code == ERR_CONFLICT);
    sandbox_patch(find("a"), &settings, PATCH_KEEP_ALIVE, on_told, &second);
    assert_true(second.calls == 2 && second.ok);
    say_error(hear(KEEPER_LIMIT, NULL), ERR_NOT_FOUND);
    assert_true(changed.calls == 1 && changed.ok); // the next box has them
    assert_int_equal(sandbox_row(find("a"))->memory, BIG / 2);
    assert_true(sandbox_row(find("a"))->keep_alive);
    check_counts(1, 1, BIG / 2);
    say_ended(4);
    turn();
    check_counts(1, 0, 0);
}

CHECK_CASE(a_removal_stays_written_while_the_box_comes)
{
    struct told made = {0}, gone = {0};
    struct sandbox_row row = {0};
    create("a", BIG, &made);
    uint32_t claim = hear(KEEPER_CLAIM, NULL);
    sandbox_destroy(find("a"), on_told, &gone);
    auto_fd guest = say_box(KEEPER_CLAIMED, claim, 4);
    (void)hear(KEEPER_DESTROY, NULL);
    MUST_BE(db_sandbox_get(kit_db, 1, "a", &row, &err), 1);
    assert_int_equal(row.status, SANDBOX_DESTROYING);
    sandbox_row_done(&row);
}

// --- coming back

// A daemon that had a sandbox in box 4, and is no more.
static void leave_running(bool destroying)
{
    struct told made = {0}, gone = {0};
    create("a", BIG, &made);
    auto_fd guest = say_box(KEEPER_CLAIMED, hear(KEEPER_CLAIM, NULL), 4);
    turn();
    assert_true(made.ok);
    if (destroying)
        sandbox_destroy(find("a"), on_told, &gone);
    close_fleet();
    open_fleet();
}

CHECK_CASE(a_box_that_goes_before_it_has_told)
{
    leave_running(false);
    auto_fd guest = say_live(4);
    say_welcome();
    assert_false(kit.ready);
    say_ended(4);
    turn();
    assert_true(kit.ready);
    assert_int_equal(sandbox_row(find("a"))->status, SANDBOX_SLEEPING);
    check_counts(1, 0, 0);
}

CHECK_CASE(a_guest_that_tells_too_much)
{
    leave_running(false);
    auto_fd guest = say_live(4);
    say_welcome();
    struct guest_listed listed = {.head = head(GUEST_LISTED, 1), .n = UINT32_MAX};
    assert_int_equal(wire_send(guest, &listed, sizeof listed, NULL, 0, NULL, 0), 0);
    turn();
    assert_true(kit.ready);
    (void)hear(KEEPER_DESTROY, NULL);
}

CHECK_CASE(a_removal_goes_on_with_the_box)
{
    leave_running(true);
    auto_fd guest = say_live(4);
    say_welcome();
    assert_true(kit.ready);
    (void)hear(KEEPER_DESTROY, NULL); // it holds the disk
    no_disks();
    hear_nothing();
    say_ended(4);
    say_ok(hear(KEEPER_DISK_DROP, NULL));
    assert_null(find("a"));
    check_counts(0, 0, 0);
}

#define READY_CASE(name) cmocka_unit_test_setup_teardown(name, set_up_ready, tear_down)

CHECK_MAIN(READY_CASE(dies_while_it_is_taken), READY_CASE(is_refused_while_it_is_taken),
           READY_CASE(is_refused_after_it_was_used),
           READY_CASE(of_an_earlier_box_says_nothing_about_this_one),
           READY_CASE(sleep_is_answered_when_the_start_fails),
           READY_CASE(the_server_stops_when_the_last_start_fails),
           READY_CASE(changed_limits_reach_the_box), READY_CASE(limits_of_a_box_that_ends),
           READY_CASE(a_removal_stays_written_while_the_box_comes),
           READY_CASE(a_box_that_goes_before_it_has_told), READY_CASE(a_guest_that_tells_too_much),
           READY_CASE(a_removal_goes_on_with_the_box))
