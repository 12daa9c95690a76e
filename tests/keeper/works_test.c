// SPDX-License-Identifier: Apache-2.0
// What becomes of works on disks when their client goes, and when the keeper makes way for another
// program.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "serve_kit.h"

enum { COPIES = 40 };

static struct disk_ref at(enum disk_place place, uint64_t number)
{
    return (struct disk_ref){.place = place, .number = number};
}

static void send_copies(enum disk_place place, uint64_t first, uint64_t box)
{
    struct err err = {0};
    for (uint32_t i = 0; i < COPIES; i++) {
        struct copy_spec spec = {
            .from = at(PLACE_KEPT, 7),
            .to = at(place, first + i),
            .bytes = place == PLACE_SNAPSHOT ? 0 : MIB,
            .box = box,
        };
        assert_int_equal(keeper_send_disk_copy(kit_sock(), 100 + i, &spec, &err), 0);
    }
}

static unsigned count(enum disk_place place)
{
    struct err err = {0};
    struct keeper_event ev;
    assert_int_equal(keeper_send_disk_list(kit_sock(), 99, at(place, 0), &err), 0);
    kit_expect(KEEPER_DISKS, &ev);
    return ev.msg.disks.n;
}

static struct kit_box start_box(void)
{
    struct keeper_config config = serve_small();
    struct claim kept = kit_claim(DISK_KEPT, 7);
    serve_start(&config);
    (void)serve_meet();
    struct kit_box box = kit_take(&kept);
    assert_int_equal(kit_run(&box, "echo kept > /workspace/f").status, 0);
    return box;
}

static void expect_well(struct met *met, uint64_t number)
{
    assert_int_equal(met->n_live, 1);
    assert_int_equal(met->box[0].number, number);
    met->box[0].next_exec = 100;
    assert_string_equal(kit_run(&met->box[0], "cat /workspace/f").out, "kept\n"); // it runs
    assert_int_equal(count(PLACE_MAKING), 0);
}

CHECK_CASE(a_client_that_goes_leaves_nothing)
{
    struct kit_box box = start_box();
    for (unsigned i = 0; i < 5; i++) {
        send_copies(PLACE_MAKING, 1000 * (i + 1), box.number);
        if (i > 1) { // in the middle, or at the very end
            struct keeper_event ev;
            for (unsigned n = 0; n < 10 * i - 10; n++)
                kit_expect(KEEPER_DISK_DONE, &ev);
        }
        fd_close(TAKE_FD(box.guest));
        serve_kill_daemon();
        struct met met = serve_meet();
        expect_well(&met, box.number);
        box = met.box[0];
    }
    (void)kit_destroy(&box);
    serve_stop();
}

// Of what was to stay there may be some, each whole.
CHECK_CASE(copies_that_were_to_stay_are_whole_or_not_there)
{
    struct kit_box box = start_box();
    struct keeper_event ev;
    send_copies(PLACE_KEPT, 1000, box.number);
    kit_expect(KEEPER_DISK_DONE, &ev);
    fd_close(TAKE_FD(box.guest));
    serve_kill_daemon();
    struct met met = serve_meet();
    expect_well(&met, box.number);
    struct err err = {0};
    assert_int_equal(keeper_send_disk_list(kit_sock(), 99, at(PLACE_KEPT, 999), &err), 0);
    kit_expect(KEEPER_DISKS, &ev);
    assert_in_range(ev.msg.disks.n, 1, COPIES);
    uint64_t last = ev.msg.disks.disk[ev.msg.disks.n - 1];
    struct claim claim = kit_claim(DISK_KEPT, last);
    struct kit_box copy = kit_take(&claim);
    assert_string_equal(kit_run(&copy, "cat /workspace/f").out, "kept\n");
    (void)kit_destroy(&copy);
    (void)kit_destroy(&met.box[0]);
    serve_stop();
}

CHECK_CASE(an_upgrade_waits_for_them_to_end)
{
    struct kit_box box = start_box();
    send_copies(PLACE_MAKING, 1000, box.number);
    fd_close(TAKE_FD(box.guest));
    pid_t daemon = serve_hello.pid;
    assert_int_equal(kill(serve_keeper, SIGUSR2), 0);
    serve_await_end_of(daemon);
    struct met met = serve_meet();
    assert_int_equal(serve_status().generation, 1);
    expect_well(&met, box.number);
    (void)kit_destroy(&met.box[0]);
    serve_stop();
}

static int run(void)
{
    const struct CMUnitTest tests[] = {
        SERVE_CASE(a_client_that_goes_leaves_nothing),
        SERVE_CASE(copies_that_were_to_stay_are_whole_or_not_there),
        SERVE_CASE(an_upgrade_waits_for_them_to_end),
    };
    return cmocka_run_group_tests(tests, kit_begin, kit_end);
}

int main(int argc, char **argv)
{
    return serve_main(argc, argv, run);
}
