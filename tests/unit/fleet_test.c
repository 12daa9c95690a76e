// SPDX-License-Identifier: Apache-2.0
// The fleet between a keeper and guests that are sockets of the test: what comes in an order that
// the real ones show once in a thousand runs.
#include <poll.h>

#include "fleet_kit.h"

// --- taking a box of the pool

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

// A box that a daemon before this one had asked for, and no row knows, has the disk for a moment.
CHECK_CASE(a_disk_that_is_in_use_is_dropped_later)
{
    struct told made = {0}, gone = {0};
    create("a", BIG, &made);
    auto_fd guest = say_box(KEEPER_CLAIMED, hear(KEEPER_CLAIM, NULL), 4);
    turn();
    sandbox_destroy(find("a"), on_told, &gone);
    (void)hear(KEEPER_DESTROY, NULL);
    say_ended(4);
    say_error(hear(KEEPER_DISK_DROP, NULL), ERR_CONFLICT);
    assert_int_equal(gone.calls, 0);
    check_counts(1, 0, 0);
    struct pollfd asked = {.fd = kit.keeper, .events = POLLIN};
    while (poll(&asked, 1, 0) == 0)
        (void)uv_run(&kit.loop, UV_RUN_ONCE); // the ticker comes
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

CHECK_MAIN(READY_CASE(dies_while_it_is_taken), READY_CASE(is_refused_while_it_is_taken),
           READY_CASE(is_refused_after_it_was_used),
           READY_CASE(of_an_earlier_box_says_nothing_about_this_one),
           READY_CASE(sleep_is_answered_when_the_start_fails),
           READY_CASE(the_server_stops_when_the_last_start_fails),
           READY_CASE(changed_limits_reach_the_box), READY_CASE(limits_of_a_box_that_ends),
           READY_CASE(a_disk_that_is_in_use_is_dropped_later),
           READY_CASE(a_removal_stays_written_while_the_box_comes),
           READY_CASE(a_box_that_goes_before_it_has_told), READY_CASE(a_guest_that_tells_too_much),
           READY_CASE(a_removal_goes_on_with_the_box))
