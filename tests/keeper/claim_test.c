// SPDX-License-Identifier: Apache-2.0
// Boxes claimed from an empty and from a full pool, used, ended by request, by a blow from outside,
// and by the end of the client.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "kit.h"

#define VOLUME (4ull << 30)

static void use_and_destroy_box(struct kit_box box)
{
    struct kit_ended e = kit_run(&box, "echo x > file; cat file; hostname; exit 7");
    assert_true(WIFEXITED(e.status));
    assert_int_equal(WEXITSTATUS(e.status), 7);
    assert_string_equal(e.out, "x\ncay\n");
    assert_string_equal(e.err, "");
    assert_int_equal(e.limits, 0);
    struct keeper_ended ended = kit_destroy(&box);
    assert_true(ended.cpu_usec > 0);
    assert_true(ended.memory_peak > 0);
    assert_int_equal(ended.oom_kills, 0);
}

static void use_and_destroy(const struct claim *claim)
{
    use_and_destroy_box(kit_take(claim));
}

CHECK_CASE(empty_pool_every_kind_of_disk)
{
    kit_start(&(struct keeper_config){.boxes = 3, .volume_bytes = VOLUME});
    const struct claim claims[] = {
        kit_claim(DISK_TMPFS, 0),
        kit_claim(DISK_BLANK, 0),
        kit_claim(DISK_KEPT, 11),
    };
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 3; i++)
            use_and_destroy(&claims[i]);
    }
    struct keeper_state s = kit_state();
    assert_int_equal(s.live + s.ready + s.blank + s.busy, 0);
}

CHECK_CASE(without_a_volume_only_tmpfs)
{
    kit_start(&(struct keeper_config){.boxes = 2});
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    use_and_destroy(&claim);
    claim = kit_claim(DISK_BLANK, 0);
    assert_int_equal(kit_refused(&claim).code, ERR_UNSUPPORTED);
    claim = kit_claim(DISK_KEPT, 1);
    assert_int_equal(kit_refused(&claim).code, ERR_UNSUPPORTED);
}

CHECK_CASE(full_pool_gives_ready_boxes)
{
    kit_start(&(struct keeper_config){.boxes = 8, .pool_ready = 3, .volume_bytes = VOLUME});
    kit_await_pool(3, 0);
    struct box_limits limits = limits_default();
    struct kit_box box = kit_take_ready(&limits);
    assert_int_equal(kit_state().live, 1);
    assert_string_equal(kit_run(&box, "echo it works").out, "it works\n");
    kit_await_pool(3, 0); // filled up again
    (void)kit_destroy(&box);
    for (int i = 0; i < 10; i++) // faster than it is filled
        use_and_destroy_box(kit_take_ready(&limits));
    kit_await_pool(3, 0);
}

CHECK_CASE(full_pool_of_ready_boxes_in_memory)
{
    kit_start(&(struct keeper_config){.boxes = 8, .pool_ready = 2});
    kit_await_pool(2, 0);
    struct box_limits limits = limits_default();
    use_and_destroy_box(kit_take_ready(&limits));
    kit_await_pool(2, 0);
}

// Clock ticks of processor time that the keeper has used.
static unsigned long keeper_ticks(void)
{
    char path[64], text[1024];
    unsigned long user = 0, system = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", kit_pid());
    assert_true(fd_read_file(AT_FDCWD, path, text, sizeof text) > 0);
    const char *after_name = strrchr(text, ')');
    assert_non_null(after_name);
    assert_int_equal(sscanf(after_name + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                            &user, &system),
                     2);
    return user + system;
}

// With a pool that is not full, and no way to fill it, it must not try without end.
static void check_keeper_sleeps(void)
{
    kit_sleep_ms(200);
    unsigned long before = keeper_ticks();
    kit_sleep_ms(1000);
    assert_true(keeper_ticks() - before < (unsigned long)sysconf(_SC_CLK_TCK) / 5);
}

CHECK_CASE(keeper_sleeps_when_every_slot_is_taken)
{
    kit_start(&(struct keeper_config){.boxes = 2, .pool_ready = 2});
    kit_await_pool(2, 0);
    struct box_limits limits = limits_default();
    struct kit_box one = kit_take_ready(&limits), other = kit_take_ready(&limits);
    check_keeper_sleeps();
    (void)kit_destroy(&one);
    (void)kit_destroy(&other);
    kit_await_pool(2, 0);
}

CHECK_CASE(keeper_sleeps_when_its_spawner_is_gone)
{
    kit_start(&(struct keeper_config){.boxes = 4, .pool_ready = 2});
    kit_await_pool(2, 0);
    assert_int_equal(kill(kit_child(0), SIGKILL), 0);
    struct box_limits limits = limits_default();
    struct kit_box box = kit_take_ready(&limits);
    check_keeper_sleeps();
    (void)kit_destroy(&box);
}

// The client may begin before the keeper has answered; with the limits that it asked for once it
// has.
CHECK_CASE(ready_box_is_used_before_it_is_taken)
{
    kit_start(&(struct keeper_config){.boxes = 4, .pool_ready = 1, .volume_bytes = VOLUME});
    struct keeper_event ev;
    struct err err = {0};
    assert_int_equal(keeper_recv(kit_sock(), &ev, 0, &err), 1);
    assert_int_equal(ev.msg.head.type, KEEPER_READY);
    struct kit_box box = {.number = ev.msg.box.box, .guest = ev.guest};
    assert_string_equal(kit_run(&box, "echo early").out, "early\n");
    struct box_limits limits = limits_default();
    assert_int_equal(keeper_send_take(kit_sock(), 5, box.number, &limits, 0, &err), 0);
    kit_expect(KEEPER_OK, &ev);
    assert_string_equal(kit_run(&box, "echo late").out, "late\n");
    (void)kit_destroy(&box);
}

CHECK_CASE(only_ready_boxes_are_taken)
{
    kit_start(&(struct keeper_config){.boxes = 4, .pool_ready = 1, .pool_blank = 1});
    kit_await_pool(1, 1);
    struct box_limits limits = limits_default(), bad = limits, larger = limits;
    struct kit_box box = kit_take_ready(&limits);
    struct keeper_event ev;
    struct err err = {0};
    const uint64_t wrong[] = {box.number, 0, 77, UINT64_MAX}; // the first has been taken
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(keeper_send_take(kit_sock(), 6, wrong[i], &limits, 0, &err), 0);
        kit_expect(KEEPER_ERROR, &ev);
        assert_int_equal(ev.msg.error.code, ERR_NOT_FOUND);
    }
    kit_await_pool(1, 1);
    // Nonsense leaves it in the pool.
    bad.pids = 0;
    larger.disk *= 2;
    struct kit_box other = kit_take_ready(&limits);
    kit_await_pool(1, 1);
    (void)kit_destroy(&other);
    (void)kit_destroy(&box);
    assert_int_equal(keeper_send_take(kit_sock(), 7, other.number + 1, &bad, 0, &err), 0);
    kit_expect(KEEPER_ERROR, &ev);
    assert_int_equal(ev.msg.error.code, ERR_INVALID);
    kit_await_pool(1, 1);
    box = kit_take_ready(&limits);
    (void)kit_destroy(&box);
}

CHECK_CASE(full_pool_gives_blank_boxes_their_root)
{
    kit_start(&(struct keeper_config){.boxes = 8, .pool_blank = 3, .volume_bytes = VOLUME});
    kit_await_pool(0, 3);
    struct claim claims[] = {kit_claim(DISK_TMPFS, 0), kit_claim(DISK_BLANK, 0),
                             kit_claim(DISK_KEPT, 21)};
    for (unsigned i = 0; i < 3; i++) {
        claims[i].limits.disk = 64u << 20;
        use_and_destroy(&claims[i]);
        kit_await_pool(0, 3);
    }
}

CHECK_CASE(box_that_does_not_fit_a_ready_one_is_made)
{
    kit_start(&(struct keeper_config){.boxes = 8, .pool_ready = 2, .volume_bytes = VOLUME});
    kit_await_pool(2, 0);
    struct claim claim = kit_claim(DISK_BLANK, 0);
    claim.limits.disk = 32u << 20;
    struct kit_box box = kit_take(&claim);
    struct keeper_state s = kit_state();
    assert_int_equal(s.live, 1);
    assert_int_equal(s.ready, 2);
    assert_int_equal(kit_run(&box, "true").status, 0);
    (void)kit_destroy(&box);
}

static void check_small(struct kit_box box)
{
    struct kit_ended e = kit_run(&box, "python3 -c 'x = bytearray(100 << 20)'");
    assert_int_equal(e.limits & GUEST_LIMIT_OOM, GUEST_LIMIT_OOM);
    e = kit_run(&box, "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 5 & done");
    assert_int_equal(e.limits & GUEST_LIMIT_PIDS, GUEST_LIMIT_PIDS);
    assert_int_equal(kit_destroy(&box).oom_kills, 1);
}

CHECK_CASE(limits_of_the_claim_count_in_a_pooled_box_too)
{
    kit_start(&(struct keeper_config){
        .boxes = 6, .pool_ready = 1, .pool_blank = 1, .volume_bytes = VOLUME});
    kit_await_pool(1, 1);
    struct claim claim = kit_claim(DISK_BLANK, 0);
    claim.limits.memory = 48u << 20;
    claim.limits.pids = 10;
    check_small(kit_take_ready(&claim.limits));
    check_small(kit_take(&claim)); // a blank one
}

CHECK_CASE(claims_sent_at_once_are_all_answered)
{
    enum { N = 12 };
    kit_start(&(struct keeper_config){.boxes = N, .pool_blank = 3, .volume_bytes = VOLUME});
    struct claim claim = kit_claim(DISK_BLANK, 0);
    struct kit_box boxes[N] = {0};
    struct err err = {0};
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(keeper_send_claim(kit_sock(), 1000 + i, &claim, &err), 0);
    for (unsigned i = 0; i < N; i++) {
        struct keeper_event ev;
        kit_expect(KEEPER_CLAIMED, &ev);
        uint32_t at = ev.msg.head.id - 1000;
        assert_true(at < N && boxes[at].number == 0);
        boxes[at] = (struct kit_box){.number = ev.msg.box.box, .guest = ev.guest};
    }
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(kit_run(&boxes[i], "true").status, 0);
    for (unsigned i = 0; i < N; i++) {
        for (unsigned j = 0; j < i; j++)
            assert_true(boxes[i].number != boxes[j].number);
        fd_close(boxes[i].guest);
    }
}

CHECK_CASE(all_slots_taken)
{
    kit_start(&(struct keeper_config){.boxes = 2});
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    struct kit_box a = kit_take(&claim), b = kit_take(&claim);
    assert_int_equal(kit_refused(&claim).code, ERR_EXHAUSTED);
    (void)kit_destroy(&a);
    struct kit_box c = kit_take(&claim);
    assert_true(c.number != a.number && c.number != b.number);
    (void)kit_destroy(&b);
    (void)kit_destroy(&c);
}

CHECK_CASE(ready_boxes_make_way)
{
    // They may fill every slot. They are the client's, who lets go of one for something that it
    // needs.
    kit_start(&(struct keeper_config){.boxes = 2, .pool_ready = 2, .volume_bytes = VOLUME});
    kit_await_pool(2, 0);
    struct claim claim = kit_claim(DISK_KEPT, 31);
    assert_int_equal(kit_refused(&claim).code, ERR_EXHAUSTED);
    struct kit_box box = kit_take_ready(&claim.limits);
    struct err err = {0};
    struct keeper_event ev;
    assert_int_equal(keeper_send_destroy(kit_sock(), 8, box.number, &err), 0);
    kit_expect(KEEPER_ENDED, &ev);
    kit_expect(KEEPER_GONE, &ev);
    fd_close(box.guest);
    box = kit_take(&claim); // before the pool takes the slot again
    assert_int_equal(kit_run(&box, "true").status, 0);
    (void)kit_destroy(&box);
}

// --- ends ---

CHECK_CASE(destroyed_while_it_runs)
{
    kit_start(&(struct keeper_config){.boxes = 2});
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    struct kit_box box = kit_take(&claim);
    const char *word = kit_marker();
    char script[256];
    (void)snprintf(script, sizeof script,
                   "trap '' TERM INT HUP; setsid sleep %s & (setsid sleep %s &); sleep %s", word,
                   word, word);
    struct guest_event started;
    (void)kit_exec(&box, script, &started);
    KIT_AWAIT(kit_count_processes(word) >= 4);
    struct keeper_event ev;
    struct err err = {0};
    assert_int_equal(keeper_send_destroy(kit_sock(), 5, box.number, &err), 0);
    kit_expect(KEEPER_ENDED, &ev);
    // That is what the message promises: all are reaped, not only about to be.
    assert_int_equal(kit_count_processes(word), 0);
    kit_expect(KEEPER_GONE, &ev);
    struct guest_event end;
    struct err lost = {0};
    assert_int_equal(guest_recv(box.guest, &end, 0, &lost), -1);
    assert_int_equal(lost.code, ERR_UNAVAILABLE);
    fd_close(box.guest);
    fd_close(started.out);
    fd_close(started.err);
}

CHECK_CASE(destroyed_twice)
{
    kit_start(&(struct keeper_config){.boxes = 2});
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    struct kit_box box = kit_take(&claim);
    struct err err = {0};
    assert_int_equal(keeper_send_destroy(kit_sock(), 5, box.number, &err), 0);
    assert_int_equal(keeper_send_destroy(kit_sock(), 6, box.number, &err), 0);
    unsigned ended = 0, refused = 0, gone = 0;
    for (int i = 0; i < 3; i++) {
        struct keeper_event ev;
        assert_int_equal(keeper_recv(kit_sock(), &ev, 0, &err), 1);
        ended += ev.msg.head.type == KEEPER_ENDED && ev.msg.head.id == 5;
        refused += ev.msg.head.type == KEEPER_ERROR && ev.msg.head.id == 6;
        gone += ev.msg.head.type == KEEPER_GONE;
    }
    assert_int_equal(ended, 1);
    assert_int_equal(refused, 1);
    assert_int_equal(gone, 1);
    fd_close(box.guest);
}

// The guest is the child of the keeper that came last.
static pid_t last_child(void)
{
    pid_t pid = 0;
    for (unsigned i = 0; kit_child(i) != 0; i++)
        pid = kit_child(i);
    return pid;
}

static void expect_lonely_end(struct kit_box *box)
{
    struct keeper_event ev;
    kit_expect(KEEPER_ENDED, &ev);
    assert_int_equal(ev.msg.head.id, 0);
    assert_int_equal(ev.msg.ended.box, box->number);
    assert_int_equal(ev.msg.ended.asked, 0);
    kit_expect(KEEPER_GONE, &ev);
    assert_int_equal(ev.msg.box.box, box->number);
    fd_close(box->guest);
}

CHECK_CASE(guest_killed_from_outside)
{
    kit_start(&(struct keeper_config){.boxes = 1});
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    for (int i = 0; i < 3; i++) {
        struct kit_box box = kit_take(&claim);
        const char *word = kit_marker();
        char script[64];
        (void)snprintf(script, sizeof script, "setsid sleep %s & sleep %s", word, word);
        struct guest_event started;
        (void)kit_exec(&box, script, &started);
        KIT_AWAIT(kit_count_processes(word) >= 3);
        assert_int_equal(kill(last_child(), SIGKILL), 0);
        expect_lonely_end(&box);
        assert_int_equal(kit_count_processes(word), 0);
        fd_close(started.out);
        fd_close(started.err);
    }
    assert_int_equal(kit_state().live, 0);
    use_and_destroy(&claim);
}

CHECK_CASE(ready_box_killed_from_outside)
{
    kit_start(&(struct keeper_config){.boxes = 2, .pool_ready = 1});
    struct keeper_event ev;
    struct err err = {0};
    assert_int_equal(keeper_recv(kit_sock(), &ev, 0, &err), 1);
    assert_int_equal(ev.msg.head.type, KEEPER_READY);
    struct kit_box box = {.number = ev.msg.box.box, .guest = ev.guest};
    assert_int_equal(kill(last_child(), SIGKILL), 0);
    expect_lonely_end(&box);
    kit_await_pool(1, 0); // another one
}

CHECK_CASE(last_exec_ends_the_box)
{
    kit_start(&(struct keeper_config){.boxes = 1});
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    const char *word = kit_marker();
    char script[96];
    (void)snprintf(script, sizeof script, "setsid sleep %s >/dev/null 2>&1 & exit 6", word);
    const struct exec_spec spec = {
        .cwd = "/",
        .argv = (const char *const[]){"sh",  "-c", script, NULL},
        .envp = (const char *const[]){"PATH=/usr/bin:/bin", NULL    },
        .files = 64,
        .flags = GUEST_EXEC_LAST,
    };
    for (int i = 0; i < 3; i++) {
        struct kit_box box = kit_take(&claim);
        struct guest_event ev;
        struct err err = {0};
        assert_int_equal(kit_run(&box, "exit 1").status, 0x100); // not the last
        assert_int_equal(guest_send_exec(guest_fresh(box.guest), 9, &spec, &err), 0);
        kit_expect_guest(&box, GUEST_STARTED, &ev);
        fd_close(ev.out);
        fd_close(ev.err);
        kit_expect_guest(&box, GUEST_EXITED, &ev);
        assert_int_equal(WEXITSTATUS(ev.msg.exited.status), 6);
        expect_lonely_end(&box);
        assert_int_equal(kit_count_processes(word), 0);
    }
}

CHECK_CASE(client_lets_go_of_the_guest)
{
    // The keeper holds the guest's socket as well, so the box lives on until it is destroyed.
    kit_start(&(struct keeper_config){.boxes = 1});
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    struct kit_box box = kit_take(&claim);
    fd_close(box.guest);
    box.guest = -1;
    assert_int_equal(kit_state().live, 1);
    (void)kit_destroy(&box);
}

CHECK_CASE(client_goes_away)
{
    kit_start(&(struct keeper_config){
        .boxes = 6, .pool_ready = 1, .pool_blank = 1, .volume_bytes = VOLUME});
    kit_await_pool(1, 1);
    const char *word = kit_marker();
    char script[64];
    (void)snprintf(script, sizeof script, "setsid sleep %s & sleep %s", word, word);
    struct claim claim = kit_claim(DISK_BLANK, 0);
    struct kit_box boxes[3];
    struct guest_event started[3];
    for (int i = 0; i < 3; i++) {
        boxes[i] = kit_take(&claim);
        (void)kit_exec(&boxes[i], script, &started[i]);
    }
    KIT_AWAIT(kit_count_processes(word) >= 9);
    struct err err = {0};
    assert_int_equal(keeper_send_claim(kit_sock(), 99, &claim, &err), 0); // in the middle of one
    kit_stop();
    assert_int_equal(kit_count_processes(word), 0);
    for (int i = 0; i < 3; i++) {
        fd_close(boxes[i].guest);
        fd_close(started[i].out);
        fd_close(started[i].err);
    }
    // A new one finds the data directory free and the slots' cgroups removed.
    kit_start(&(struct keeper_config){.boxes = 6, .volume_bytes = VOLUME});
    assert_int_equal(kit_state().live, 0);
    assert_int_equal(kit_count_cgroups(), 0);
    use_and_destroy(&claim);
}

KIT_MAIN(KIT_CASE(empty_pool_every_kind_of_disk), KIT_CASE(without_a_volume_only_tmpfs),
         KIT_CASE(full_pool_gives_ready_boxes), KIT_CASE(full_pool_of_ready_boxes_in_memory),
         KIT_CASE(keeper_sleeps_when_every_slot_is_taken),
         KIT_CASE(keeper_sleeps_when_its_spawner_is_gone),
         KIT_CASE(ready_box_is_used_before_it_is_taken), KIT_CASE(only_ready_boxes_are_taken),
         KIT_CASE(full_pool_gives_blank_boxes_their_root),
         KIT_CASE(box_that_does_not_fit_a_ready_one_is_made),
         KIT_CASE(limits_of_the_claim_count_in_a_pooled_box_too),
         KIT_CASE(claims_sent_at_once_are_all_answered), KIT_CASE(all_slots_taken),
         KIT_CASE(ready_boxes_make_way), KIT_CASE(destroyed_while_it_runs),
         KIT_CASE(destroyed_twice), KIT_CASE(guest_killed_from_outside),
         KIT_CASE(ready_box_killed_from_outside), KIT_CASE(last_exec_ends_the_box),
         KIT_CASE(client_lets_go_of_the_guest), KIT_CASE(client_goes_away))
