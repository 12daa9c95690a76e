// SPDX-License-Identifier: Apache-2.0
// Disks of sandboxes between a keeper that is a socket of the test: holding and letting go, copies,
// snapshots, going back, forks; what happens when the keeper refuses, and what a daemon that died
// has left.
#include "fleet_kit.h"
#include "sandbox/snapshot.h"

#define GIB (INT64_C(1) << 30)
#define MIB (INT64_C(1) << 20)

static void say_copied(uint32_t id, uint64_t bytes)
{
    struct keeper_disk_done msg = {.head = head(KEEPER_DISK_DONE, id), .bytes = bytes};
    say(&msg, sizeof msg, -1);
    turn();
}

// A sandbox with box 4; the guest's end of it.
static int make_running(const char *id)
{
    struct told made = {0};
    create(id, BIG, &made);
    int guest = say_box(KEEPER_CLAIMED, hear(KEEPER_CLAIM, NULL), 4);
    turn();
    assert_true(made.calls == 1 && made.ok);
    return guest;
}

static void make_sleeping(const char *id)
{
    auto_fd guest = make_running(id);
    say_ended(4);
    turn();
    assert_int_equal(find(id)->state, STATE_SLEEPING);
}

static void end_box(uint64_t box)
{
    (void)hear(KEEPER_DESTROY, NULL);
    say_ended(box);
    turn();
}

struct heard {
    int calls;
    enum err_code code;
    uint64_t making;
    int64_t shared;
    char id[64];
    unsigned n;
};

static void on_done(void *data, const struct err *err)
{
    struct heard *h = data;
    h->calls++;
    h->code = err != NULL ? err->code : ERR_NONE;
}

static void on_copy(void *data, const struct disk_made *made, const struct err *err)
{
    struct heard *h = data;
    h->making = made != NULL ? made->making : 0;
    h->shared = made != NULL ? made->shared : 0;
    on_done(data, err);
}

static void on_snapshot(void *data, const struct snapshot_row *row, const struct err *err)
{
    struct heard *h = data;
    if (row != NULL)
        (void)snprintf(h->id, sizeof h->id, "%s", row->id);
    on_done(data, err);
}

static void on_fork(void *data, struct sandbox *const *children, unsigned n, const struct err *err)
{
    struct heard *h = data;
    h->n = n;
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(sandbox_row(children[i])->status, SANDBOX_SLEEPING);
    on_done(data, err);
}

// --- holding

CHECK_CASE(a_running_one_ends_before_it_is_held)
{
    struct told held = {0}, woken = {0}, second = {0};
    auto_fd guest = make_running("a");
    struct sandbox *s = sandbox_ref(find("a"));
    sandbox_hold(s, "test", on_told, &held);
    sandbox_wake(s, on_told, &woken);
    sandbox_hold(s, "test", on_told, &second);
    assert_int_equal(held.calls, 0);
    end_box(4);
    assert_true(held.calls == 1 && held.ok);
    assert_int_equal(s->state, STATE_HELD);
    assert_true(woken.calls == 0 && second.calls == 0);
    hear_nothing();
    sandbox_let_go(s);
    assert_true(second.calls == 1 && second.ok); // before those who want to use it
    assert_int_equal(woken.calls, 0);
    sandbox_let_go(s);
    auto_fd again = say_box(KEEPER_CLAIMED, hear(KEEPER_CLAIM, NULL), 5);
    turn();
    assert_true(woken.calls == 1 && woken.ok);
    sandbox_unref(s);
}

CHECK_CASE(one_that_is_held_is_destroyed_when_it_is_let_go)
{
    struct told held = {0}, gone = {0}, woken = {0}, late = {0};
    make_sleeping("a");
    struct sandbox *s = sandbox_ref(find("a"));
    sandbox_hold(s, "test", on_told, &held);
    sandbox_wake(s, on_told, &woken);
    sandbox_destroy(s, on_told, &gone);
    assert_true(woken.calls == 1 && !woken.ok);
    sandbox_hold(s, "test", on_told, &late);
    assert_true(late.calls == 1 && late.code == ERR_NOT_FOUND);
    hear_nothing();
    assert_int_equal(gone.calls, 0);
    sandbox_let_go(s);
    say_ok(hear(KEEPER_DISK_DROP, NULL));
    assert_true(gone.calls == 1 && gone.ok);
    sandbox_unref(s);
    check_counts(0, 0, 0);
}

static void on_stopped(void *data)
{
    ++*(int *)data;
}

CHECK_CASE(the_server_stops_when_all_are_let_go)
{
    struct told held = {0}, next = {0};
    int stopped = 0;
    make_sleeping("a");
    struct sandbox *s = sandbox_ref(find("a"));
    sandbox_hold(s, "test", on_told, &held);
    sandbox_hold(s, "test", on_told, &next);
    fleet_stop(kit.fleet, on_stopped, &stopped);
    assert_int_equal(stopped, 0);
    sandbox_let_go(s);
    assert_true(next.calls == 1 && next.code == ERR_UNAVAILABLE);
    assert_int_equal(stopped, 1);
    sandbox_unref(s);
}

// --- another disk

CHECK_CASE(a_replaced_disk_counts_what_it_shares)
{
    struct told held = {0}, woken = {0};
    struct heard done = {0};
    union request msg;
    make_sleeping("a");
    struct sandbox *s = sandbox_ref(find("a"));
    sandbox_hold(s, "test", on_told, &held);
    sandbox_replace_disk(s, 77, GIB, on_done, &done);
    uint32_t id = hear(KEEPER_DISK_MOVE, &msg);
    assert_true(msg.move.from.place == PLACE_MAKING && msg.move.from.number == 77);
    assert_true(msg.move.to.place == PLACE_KEPT && msg.move.to.number == (uint64_t)s->row.number);
    say_ok(id);
    assert_true(done.calls == 1 && done.code == ERR_NONE);
    assert_int_equal(s->row.shared, GIB);
    sandbox_let_go(s);
    sandbox_wake(s, on_told, &woken);
    id = hear(KEEPER_CLAIM, &msg);
    assert_int_equal(msg.claim.limits.disk, LIMIT_DISK_DEFAULT - (uint64_t)GIB);
    auto_fd guest = say_box(KEEPER_CLAIMED, id, 5);
    turn();
    assert_true(woken.ok);
    sandbox_unref(s);
}

CHECK_CASE(a_disk_that_is_too_full_is_not_taken)
{
    struct told held = {0};
    struct heard done = {0};
    make_sleeping("a");
    struct sandbox *s = sandbox_ref(find("a"));
    sandbox_hold(s, "test", on_told, &held);
    sandbox_replace_disk(s, 77, 2 * GIB, on_done, &done);
    assert_true(done.calls == 1 && done.code == ERR_EXHAUSTED);
    assert_int_equal(s->row.shared, 0);
    sandbox_replace_disk(s, 77, GIB, on_done, &done);
    say_error(hear(KEEPER_DISK_MOVE, NULL), ERR_NOT_FOUND);
    assert_true(done.calls == 2 && done.code == ERR_NOT_FOUND);
    assert_int_equal(s->row.shared, 0);
    sandbox_let_go(s);
    sandbox_unref(s);
}

CHECK_CASE(a_copy_waits_while_the_disk_is_replaced)
{
    struct told held = {0};
    struct heard done = {0}, copied = {0};
    make_sleeping("a");
    struct sandbox *s = sandbox_ref(find("a"));
    sandbox_hold(s, "test", on_told, &held);
    sandbox_replace_disk(s, 77, MIB, on_done, &done);
    uint32_t move = hear(KEEPER_DISK_MOVE, NULL);
    sandbox_copy_disk(s, on_copy, &copied);
    hear_nothing();
    say_ok(move);
    say_copied(hear(KEEPER_DISK_COPY, NULL), 5);
    assert_true(copied.calls == 1 && copied.making != 0);
    assert_int_equal(copied.shared, MIB + 5);
    sandbox_let_go(s);
    sandbox_unref(s);
}

// --- archived

static struct {
    int calls;
    struct sandbox *s;
    void (*done)(struct sandbox *s, const struct err *err);
} recalled;

static void on_recall(void *data, struct sandbox *s,
                      void (*done)(struct sandbox *s, const struct err *err))
{
    (void)data;
    recalled.calls++;
    recalled.s = s;
    recalled.done = done;
}

static struct sandbox *archive(const char *id)
{
    struct told held = {0};
    struct heard done = {0};
    make_sleeping(id);
    struct sandbox *s = sandbox_ref(find(id));
    sandbox_hold(s, "test", on_told, &held);
    sandbox_archive_disk(s, "bak-1", on_done, &done);
    say_ok(hear(KEEPER_DISK_DROP, NULL));
    assert_true(done.calls == 1 && done.code == ERR_NONE);
    sandbox_let_go(s);
    return s;
}

CHECK_CASE(who_wakes_an_archived_one_waits_for_its_disk)
{
    struct told woken = {0}, again = {0};
    struct heard copied = {0}, done = {0};
    memset(&recalled, 0, sizeof recalled);
    struct sandbox *s = archive("a");
    sandbox_copy_disk(s, on_copy, &copied);
    assert_true(copied.calls == 1 && copied.code == ERR_CONFLICT);
    sandbox_wake(s, on_told, &woken); // nobody can bring it back
    assert_true(woken.calls == 1 && woken.code == ERR_UNAVAILABLE);
    fleet_on_recall(kit.fleet, on_recall, NULL);
    sandbox_wake(s, on_told, &woken);
    sandbox_wake(s, on_told, &again);
    assert_int_equal(recalled.calls, 1);
    hear_nothing();
    sandbox_replace_disk(s, 78, 0, on_done, &done);
    say_ok(hear(KEEPER_DISK_MOVE, NULL));
    assert_null(s->row.archive);
    recalled.done(s, NULL);
    auto_fd guest = say_box(KEEPER_CLAIMED, hear(KEEPER_CLAIM, NULL), 5);
    turn();
    assert_true(woken.calls == 2 && woken.ok && again.calls == 1 && again.ok);
    sandbox_unref(s);
}

CHECK_CASE(a_disk_that_does_not_come_back_is_said)
{
    struct told woken = {0};
    struct err failed = {.code = ERR_UNAVAILABLE, .msg = "the store is down"};
    memset(&recalled, 0, sizeof recalled);
    struct sandbox *s = archive("a");
    fleet_on_recall(kit.fleet, on_recall, NULL);
    sandbox_wake(s, on_told, &woken);
    recalled.done(s, &failed);
    assert_true(woken.calls == 1 && woken.code == ERR_UNAVAILABLE);
    assert_int_equal(s->state, STATE_SLEEPING);
    sandbox_wake(s, on_told, &woken); // and is tried again
    assert_int_equal(recalled.calls, 2);
    recalled.done(s, NULL); // it says so, but it is not there
    assert_true(woken.calls == 2 && woken.code == ERR_INTERNAL);
    sandbox_unref(s);
}

// --- snapshots

// Its row is on the disk: a thread sees to that.
static void await_snapshot(const struct heard *heard)
{
    while (heard->calls == 0)
        (void)uv_run(&kit.loop, UV_RUN_ONCE);
    assert_true(heard->calls == 1 && heard->code == ERR_NONE);
}

static void take_snapshot(struct sandbox *s, uint64_t bytes, struct heard *ret)
{
    union request msg;
    *ret = (struct heard){0};
    snapshot_make(s, "name", on_snapshot, ret);
    uint32_t id = hear(KEEPER_DISK_COPY, &msg);
    assert_int_equal(msg.copy.to.place, PLACE_SNAPSHOT);
    assert_int_equal(msg.copy.bytes, 0);
    assert_int_equal(msg.copy.box, sandbox_box(s));
    say_copied(id, bytes);
    await_snapshot(ret);
}

static int count_one(void *data, const struct snapshot_row *row)
{
    (void)row;
    ++*(int *)data;
    return 0;
}

static int count_snapshots(int64_t sandbox)
{
    int n = 0;
    MUST(db_snapshot_each(kit_db, sandbox, count_one, &n, &err));
    return n;
}

CHECK_CASE(a_snapshot_of_a_running_one_names_its_box)
{
    struct heard made;
    auto_fd guest = make_running("a");
    take_snapshot(find("a"), 123, &made);
    assert_int_equal(count_snapshots(0), 1);
}

CHECK_CASE(a_snapshot_that_fails_leaves_nothing)
{
    struct heard made = {0};
    make_sleeping("a");
    snapshot_make(find("a"), NULL, on_snapshot, &made);
    say_error(hear(KEEPER_DISK_COPY, NULL), ERR_EXHAUSTED);
    assert_true(made.calls == 1 && made.code == ERR_UNAVAILABLE);
    say_ok(hear(KEEPER_DISK_DROP, NULL));
    assert_int_equal(count_snapshots(0), 0);
}

CHECK_CASE(a_box_that_ends_before_it_is_copied)
{
    struct heard made = {0};
    union request msg;
    auto_fd guest = make_running("a");
    snapshot_make(find("a"), NULL, on_snapshot, &made);
    uint32_t id = hear(KEEPER_DISK_COPY, &msg);
    assert_int_equal(msg.copy.box, 4);
    say_ended(4);
    say_error(id, ERR_NOT_FOUND);
    id = hear(KEEPER_DISK_COPY, &msg); // as it was left
    assert_int_equal(msg.copy.box, 0);
    say_copied(id, 1);
    await_snapshot(&made);
}

CHECK_CASE(snapshots_go_with_their_sandbox)
{
    struct heard made, late = {0};
    struct told gone = {0};
    union request msg;
    make_sleeping("a");
    take_snapshot(find("a"), 1, &made);
    struct sandbox *s = sandbox_ref(find("a"));
    snapshot_make(s, NULL, on_snapshot, &late);
    uint32_t copy = hear(KEEPER_DISK_COPY, NULL);
    sandbox_destroy(s, on_told, &gone);
    for (int i = 0; i < 2; i++) {
        uint32_t id = hear(KEEPER_DISK_DROP, &msg);
        assert_int_equal(msg.drop.disk.place, PLACE_SNAPSHOT);
        say_ok(id);
    }
    say_ok(hear(KEEPER_DISK_DROP, &msg));
    assert_int_equal(msg.drop.disk.place, PLACE_KEPT);
    assert_int_equal(gone.calls, 1);
    say_copied(copy, 1);
    assert_true(late.calls == 1 && late.code == ERR_NOT_FOUND);
    say_ok(hear(KEEPER_DISK_DROP, NULL));
    assert_int_equal(count_snapshots(0), 0);
    sandbox_unref(s);
}

static void roll_back(struct sandbox *s, const char *id, struct heard *ret)
{
    union request msg;
    *ret = (struct heard){0};
    snapshot_roll_back(s, id, on_done, ret);
    if (ret->calls > 0)
        return;
    uint32_t copy = hear(KEEPER_DISK_COPY, &msg);
    assert_int_equal(msg.copy.from.place, PLACE_SNAPSHOT);
    assert_int_equal(msg.copy.to.place, PLACE_MAKING);
    say_copied(copy, 0);
    say_ok(hear(KEEPER_DISK_MOVE, NULL));
}

CHECK_CASE(going_back_takes_sessions_and_environment)
{
    struct heard made, back;
    struct session_row session = {
        .id = strdup("main"), .cwd = strdup("/then"), .env = strdup("{}")};
    make_sleeping("a");
    struct sandbox *s = sandbox_ref(find("a"));
    session.sandbox = s->row.number;
    MUST(db_session_put(kit_db, &session, &err));
    take_snapshot(s, 9, &made);
    free(session.cwd);
    session.cwd = strdup("/now");
    MUST(db_session_put(kit_db, &session, &err));
    free(session.id);
    session.id = strdup("other");
    MUST(db_session_put(kit_db, &session, &err));
    session_row_done(&session);
    roll_back(s, made.id, &back);
    assert_true(back.calls == 1 && back.code == ERR_NONE);
    assert_int_equal(s->state, STATE_SLEEPING);
    assert_int_equal(s->row.shared, 9);
    assert_int_equal(s->row.disks, 2);
    MUST_BE(db_session_get(kit_db, s->row.number, "other", &session, &err), 0);
    MUST_BE(db_session_get(kit_db, s->row.number, "main", &session, &err), 1);
    assert_string_equal(session.cwd, "/then");
    session_row_done(&session);
    roll_back(s, "snap-none", &back);
    assert_int_equal(back.code, ERR_NOT_FOUND);
    sandbox_unref(s);
}

// What snapshots of disks that were left hold, over and over.
CHECK_CASE(going_back_is_no_way_around_a_limit)
{
    struct heard empty, full, back = {0};
    make_sleeping("a");
    struct sandbox *s = sandbox_ref(find("a"));
    take_snapshot(s, 0, &empty);
    take_snapshot(s, (uint64_t)(3 * GIB / 2), &full);
    roll_back(s, empty.id, &back);
    assert_int_equal(back.code, ERR_NONE);
    take_snapshot(s, (uint64_t)(3 * GIB / 2), &full);
    roll_back(s, empty.id, &back);
    assert_int_equal(back.code, ERR_EXHAUSTED);
    snapshot_delete(s, full.id, on_done, &back);
    say_ok(hear(KEEPER_DISK_DROP, NULL));
    roll_back(s, empty.id, &back);
    assert_int_equal(back.code, ERR_NONE);
    sandbox_unref(s);
}

// --- forks

CHECK_CASE(children_are_copies_of_the_first)
{
    struct heard forked = {0};
    union request msg;
    uint32_t rest[2];
    auto_fd guest = make_running("a");
    struct fork_request request = {.id = "c", .count = 3};
    fleet_fork(find("a"), &request, on_fork, &forked);
    uint32_t first = hear(KEEPER_DISK_COPY, &msg);
    assert_int_equal(msg.copy.box, 4);
    uint64_t number = msg.copy.to.number;
    assert_null(find("c-1")); // nobody sees it yet, and nobody gets its name
    struct told made = {0};
    create("c-1", 0, &made);
    assert_true(made.calls == 1 && made.code == ERR_CONFLICT);
    hear_nothing();
    say_copied(first, (uint64_t)GIB);
    for (int i = 0; i < 2; i++) {
        rest[i] = hear(KEEPER_DISK_COPY, &msg);
        assert_true(msg.copy.from.place == PLACE_KEPT && msg.copy.from.number == number);
        assert_int_equal(msg.copy.box, 0);
        assert_int_equal(msg.copy.bytes, LIMIT_DISK_DEFAULT - (uint64_t)GIB);
    }
    say_copied(rest[1], 0);
    assert_int_equal(forked.calls, 0);
    say_copied(rest[0], 0);
    assert_true(forked.calls == 1 && forked.n == 3);
    assert_int_equal(sandbox_row(find("c-3"))->shared, GIB);
    check_counts(4, 1, BIG);
}

// It has a disk: a box with another one, however ready, is not for it.
CHECK_CASE(a_child_takes_no_blank_disk)
{
    struct heard forked = {0};
    struct told woken = {0};
    union request msg;
    make_sleeping("a");
    auto_fd pooled = say_box(KEEPER_READY, 0, 9);
    turn();
    struct fork_request request = {.id = "c", .count = 1};
    fleet_fork(find("a"), &request, on_fork, &forked);
    say_copied(hear(KEEPER_DISK_COPY, NULL), 0);
    assert_int_equal(forked.calls, 1);
    sandbox_wake(find("c"), on_told, &woken);
    uint32_t claim = hear(KEEPER_CLAIM, &msg);
    assert_int_equal(msg.claim.disk_kind, DISK_KEPT);
    auto_fd guest = say_box(KEEPER_CLAIMED, claim, 10);
    turn();
    assert_true(woken.ok);
}

CHECK_CASE(all_children_or_none)
{
    struct heard forked = {0};
    union request msg;
    uint32_t rest[2];
    make_sleeping("a");
    struct fork_request request = {.id = "c", .count = 3};
    fleet_fork(find("a"), &request, on_fork, &forked);
    say_copied(hear(KEEPER_DISK_COPY, NULL), 0);
    for (int i = 0; i < 2; i++)
        rest[i] = hear(KEEPER_DISK_COPY, NULL);
    say_error(rest[0], ERR_EXHAUSTED);
    hear_nothing(); // until the other has come, too
    say_copied(rest[1], 0);
    for (int i = 0; i < 3; i++) {
        uint32_t id = hear(KEEPER_DISK_DROP, &msg);
        assert_int_equal(msg.drop.disk.place, PLACE_KEPT);
        say_ok(id);
    }
    assert_true(forked.calls == 1 && forked.code == ERR_UNAVAILABLE);
    assert_null(find("c-1"));
    check_counts(1, 0, 0);
    struct told made = {0};
    create("c-1", BIG, &made); // its name is free again
    auto_fd guest = say_box(KEEPER_CLAIMED, hear(KEEPER_CLAIM, NULL), 5);
    turn();
    assert_true(made.ok);
}

CHECK_CASE(quotas_are_for_all_of_them)
{
    struct heard forked = {0};
    make_sleeping("a");
    owner()->max_sandboxes = 3;
    struct fork_request request = {.count = 3};
    fleet_fork(find("a"), &request, on_fork, &forked);
    assert_true(forked.calls == 1 && forked.code == ERR_EXHAUSTED);
    hear_nothing();
    check_counts(1, 0, 0);
    find("a")->row.shared = 2 * GIB - MIB / 2;
    request.count = 1;
    fleet_fork(find("a"), &request, on_fork, &forked);
    say_copied(hear(KEEPER_DISK_COPY, NULL), 0);
    say_error(hear(KEEPER_DISK_COUNT, NULL), ERR_INTERNAL); // then it is what it was
    say_ok(hear(KEEPER_DISK_DROP, NULL));
    assert_true(forked.calls == 2 && forked.code == ERR_EXHAUSTED);
    check_counts(1, 0, 0);
}

// What a disk began with is not there for ever: it is counted before somebody is refused for it.
CHECK_CASE(what_is_not_there_any_more_does_not_count)
{
    struct heard made, back = {0}, forked = {0};
    union request msg;
    make_sleeping("a");
    struct sandbox *s = sandbox_ref(find("a"));
    s->row.shared = 2 * GIB - MIB / 2;
    take_snapshot(s, 0, &made);
    struct fork_request request = {.id = "c", .count = 1};
    fleet_fork(s, &request, on_fork, &forked);
    say_copied(hear(KEEPER_DISK_COPY, &msg), 0);
    uint64_t child = msg.copy.to.number;
    uint32_t id = hear(KEEPER_DISK_COUNT, &msg);
    assert_true(msg.drop.disk.place == PLACE_KEPT && msg.drop.disk.number == child);
    say_copied(id, (uint64_t)MIB);
    assert_true(forked.calls == 1 && forked.code == ERR_NONE);
    assert_int_equal(sandbox_row(find("c"))->shared, MIB);
    snapshot_roll_back(s, made.id, on_done, &back);
    id = hear(KEEPER_DISK_COUNT, &msg);
    assert_int_equal(msg.drop.disk.place, PLACE_SNAPSHOT);
    say_copied(id, (uint64_t)(3 * MIB));
    say_copied(hear(KEEPER_DISK_COPY, &msg), 0);
    assert_int_equal(msg.copy.bytes, LIMIT_DISK_DEFAULT - (uint64_t)(3 * MIB));
    say_ok(hear(KEEPER_DISK_MOVE, NULL));
    assert_true(back.calls == 1 && back.code == ERR_NONE);
    assert_int_equal(s->row.shared, 3 * MIB);
    sandbox_unref(s);
}

CHECK_CASE(who_falls_asleep_is_counted_if_it_is_worth_it)
{
    struct told asleep = {0};
    auto_fd guest = make_running("a");
    struct sandbox *s = sandbox_ref(find("a"));
    s->row.shared = GIB;
    say_ended(4);
    turn();
    uint32_t id = hear(KEEPER_DISK_COUNT, NULL);
    say_copied(id, (uint64_t)MIB);
    assert_int_equal(s->row.shared, MIB);
    sandbox_sleep(s, "test", on_told, &asleep);
    assert_int_equal(asleep.calls, 1);
    hear_nothing();
    sandbox_unref(s);
}

CHECK_CASE(a_child_has_what_is_left_of_the_budget)
{
    struct heard forked = {0};
    make_sleeping("a");
    struct sandbox_row *row = &find("a")->row;
    row->budget_cost = 100;
    row->spent_cost = 60;
    row->budget_tokens = 10;
    row->spent_tokens = 11;
    struct fork_request request = {.id = "c", .count = 1};
    fleet_fork(find("a"), &request, on_fork, &forked);
    say_copied(hear(KEEPER_DISK_COPY, NULL), 0);
    assert_int_equal(sandbox_row(find("c"))->budget_cost, 40);
    assert_int_equal(sandbox_row(find("c"))->budget_tokens, 0);
}

CHECK_CASE(what_a_daemon_left_is_forgotten)
{
    struct heard forked = {0}, made = {0};
    union request msg;
    make_sleeping("a");
    struct fork_request request = {.id = "c", .count = 1};
    fleet_fork(find("a"), &request, on_fork, &forked);
    snapshot_make(find("a"), NULL, on_snapshot, &made);
    (void)hear(KEEPER_DISK_COPY, &msg);
    uint64_t child = msg.copy.to.number;
    uint32_t first = msg.head.id, second = hear(KEEPER_DISK_COPY, NULL);
    int64_t number = find("a")->row.number;
    assert_int_equal(count_snapshots(number), 1);
    // As if it had been killed now: what it answers later is of no use.
    struct db *db = kit_db;
    MUST(db_open(kit_path, &kit_db, &err));
    struct fleet *dead = kit.fleet;
    int keeper = kit.keeper;
    open_fleet();
    say_welcome();
    uint32_t id = hear(KEEPER_DISK_DROP, &msg);
    assert_int_equal(msg.drop.disk.number, child);
    say_ok(id);
    no_disks();
    assert_null(find("c"));
    assert_int_equal(count_snapshots(number), 0);
    check_counts(1, 0, 0);
    close_fleet();
    db_close(kit_db);
    kit_db = db;
    kit.fleet = dead;
    kit.keeper = keeper;
    say_error(first, ERR_INTERNAL);
    say_error(second, ERR_INTERNAL);
    for (int i = 0; i < 2; i++)
        say_ok(hear(KEEPER_DISK_DROP, NULL));
    assert_true(forked.calls == 1 && made.calls == 1);
}

CHECK_MAIN(READY_CASE(a_running_one_ends_before_it_is_held),
           READY_CASE(one_that_is_held_is_destroyed_when_it_is_let_go),
           READY_CASE(the_server_stops_when_all_are_let_go),
           READY_CASE(a_replaced_disk_counts_what_it_shares),
           READY_CASE(a_disk_that_is_too_full_is_not_taken),
           READY_CASE(a_copy_waits_while_the_disk_is_replaced),
           READY_CASE(who_wakes_an_archived_one_waits_for_its_disk),
           READY_CASE(a_disk_that_does_not_come_back_is_said),
           READY_CASE(a_snapshot_of_a_running_one_names_its_box),
           READY_CASE(a_snapshot_that_fails_leaves_nothing),
           READY_CASE(a_box_that_ends_before_it_is_copied),
           READY_CASE(snapshots_go_with_their_sandbox),
           READY_CASE(going_back_takes_sessions_and_environment),
           READY_CASE(going_back_is_no_way_around_a_limit),
           READY_CASE(children_are_copies_of_the_first), READY_CASE(a_child_takes_no_blank_disk),
           READY_CASE(all_children_or_none), READY_CASE(quotas_are_for_all_of_them),
           READY_CASE(what_is_not_there_any_more_does_not_count),
           READY_CASE(who_falls_asleep_is_counted_if_it_is_worth_it),
           READY_CASE(a_child_has_what_is_left_of_the_budget),
           READY_CASE(what_a_daemon_left_is_forgotten))
