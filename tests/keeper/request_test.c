// SPDX-License-Identifier: Apache-2.0
// What a daemon asks for that `cay run` does not: disks that are kept, how much is used, and more
// at once than sockets hold.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "serve_kit.h"

// --- requests ---

CHECK_CASE(taken_disk_is_kept)
{
    struct keeper_config config = serve_small();
    struct box_limits limits = limits_default();
    struct keeper_event ev;
    struct err err = {0};
    serve_start(&config);
    (void)serve_meet();
    limits.disk = 16 * MIB;
    limits.pids = 77;
    struct kit_box box = kit_next_ready();
    assert_int_equal(keeper_send_take(kit_sock(), 5, box.number, &limits, 11, &err), 0);
    kit_expect(KEEPER_OK, &ev);
    assert_int_equal(kit_run(&box, "echo mine > /workspace/f").status, 0);
    // Its quota is the one asked for, while it runs.
    assert_int_not_equal(kit_run(&box, "head -c 20000000 /dev/urandom > big").status, 0);
    assert_int_equal(kit_run(&box, "rm big; sync -f .").status, 0);
    limits.disk = 64 * MIB;
    assert_int_equal(keeper_send_limit(kit_sock(), 6, box.number, &limits, &err), 0);
    kit_expect(KEEPER_OK, &ev);
    assert_int_equal(kit_run(&box, "head -c 20000000 /dev/urandom > big").status, 0);
    (void)kit_destroy(&box);
    struct claim kept = kit_claim(DISK_KEPT, 11);
    box = kit_take(&kept);
    assert_string_equal(kit_run(&box, "cat f; stat -c %s big").out, "mine\n20000000\n");
    // Another box cannot have it, nor one that exists without a user.
    struct kit_box ready = kit_next_ready();
    limits = limits_default();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(keeper_send_take(kit_sock(), 7, ready.number, &limits, 11, &err), 0);
        kit_expect(KEEPER_ERROR, &ev);
        assert_int_equal(ev.msg.error.code, ERR_CONFLICT);
        if (i == 0)
            (void)kit_destroy(&box);
    }
    assert_int_equal(keeper_send_take(kit_sock(), 8, ready.number, &limits, 12, &err), 0);
    kit_expect(KEEPER_OK, &ev);
    (void)kit_destroy(&ready);
    serve_stop();
}

static struct keeper_disks list_disks(uint64_t above)
{
    struct keeper_event ev;
    struct err err = {0};
    const struct disk_ref from = {.place = PLACE_KEPT, .number = above};
    assert_int_equal(keeper_send_disk_list(kit_sock(), 9, from, &err), 0);
    kit_expect(KEEPER_DISKS, &ev);
    assert_int_equal(ev.msg.head.id, 9);
    return ev.msg.disks;
}

CHECK_CASE(disks_are_listed)
{
    struct keeper_config config = {.boxes = 2, .volume_bytes = VOLUME};
    const uint64_t numbers[] = {9000, 10001, 10002, 1ull << 40};
    serve_start(&config);
    (void)serve_meet();
    for (unsigned i = 0; i < 4; i++) {
        struct claim kept = kit_claim(DISK_KEPT, numbers[3 - i]);
        struct kit_box box = kit_take(&kept);
        (void)kit_destroy(&box);
    }
    struct keeper_disks d = list_disks(8999);
    assert_int_equal(d.n, 4);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(d.disk[i], numbers[i]);
    d = list_disks(10001);
    assert_int_equal(d.n, 2);
    assert_int_equal(d.disk[0], 10002);
    assert_int_equal(list_disks(1ull << 40).n, 0);
    serve_stop();
}

CHECK_CASE(usage_is_told)
{
    struct keeper_config config = {.boxes = 2, .volume_bytes = VOLUME};
    struct claim kept = kit_claim(DISK_KEPT, 21);
    struct keeper_event ev;
    struct err err = {0};
    struct guest_event started;
    char c;
    serve_start(&config);
    (void)serve_meet();
    struct kit_box box = kit_take(&kept);
    (void)kit_exec(&box,
                   "head -c 9000000 /dev/urandom > f; exec python3 -c 'import time\n"
                   "while time.process_time() < 0.3: pass\n"
                   "x = bytearray(50 << 20)\nprint(1, flush=True)\ntime.sleep(1000)'",
                   &started);
    assert_int_equal(read(started.out, &c, 1), 1);
    assert_int_equal(keeper_send_usage(kit_sock(), 3, box.number, &err), 0);
    kit_expect(KEEPER_USED, &ev);
    assert_int_equal(ev.msg.used.box, box.number);
    assert_true(ev.msg.used.cpu_usec > 300000);
    assert_true(ev.msg.used.memory > 50 * MIB && ev.msg.used.memory < 1024 * MIB);
    assert_true(ev.msg.used.memory_peak >= ev.msg.used.memory);
    assert_int_equal(ev.msg.used.pids, 2); // the guest, and that
    assert_in_range(ev.msg.used.disk, 9000000, 20000000);
    assert_int_equal(keeper_send_usage(kit_sock(), 4, box.number + 1, &err), 0);
    kit_expect(KEEPER_ERROR, &ev);
    assert_int_equal(ev.msg.error.code, ERR_NOT_FOUND);
    fd_close(started.out);
    fd_close(started.err);
    (void)kit_destroy(&box);
    serve_stop();
}

CHECK_CASE(daemon_that_sends_without_reading)
{
    enum { N = 4000 };
    struct keeper_config config = {.boxes = 2};
    struct claim bad = kit_claim(DISK_TMPFS, 0);
    struct keeper_event ev;
    struct err err = {0};
    serve_start(&config);
    (void)serve_meet();
    bad.image = "no-such-image";
    for (uint32_t i = 1; i <= N; i++)
        assert_int_equal(keeper_send_claim(kit_sock(), i, &bad, &err), 0);
    for (uint32_t i = 1; i <= N; i++) {
        kit_expect(KEEPER_ERROR, &ev);
        assert_int_equal(ev.msg.head.id, i);
    }
    assert_int_equal(kit_state().busy, 0);
    serve_stop();
}

CHECK_CASE(more_claims_at_once_than_the_spawner_takes)
{
    enum { N = 150 };
    struct keeper_config config = {.boxes = N};
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    struct keeper_event ev;
    struct err err = {0};
    serve_start(&config);
    (void)serve_meet();
    for (uint32_t i = 1; i <= N; i++)
        assert_int_equal(keeper_send_claim(kit_sock(), i, &claim, &err), 0);
    for (uint32_t i = 1; i <= N; i++) {
        kit_expect(KEEPER_CLAIMED, &ev);
        fd_close(ev.guest);
    }
    assert_int_equal(kit_state().live, N);
    assert_int_equal(keeper_send_claim(kit_sock(), 1, &claim, &err), 0);
    kit_expect(KEEPER_ERROR, &ev);
    assert_int_equal(ev.msg.error.code, ERR_EXHAUSTED);
    serve_stop();
}

static int run(void)
{
    const struct CMUnitTest tests[] = {
        SERVE_CASE(taken_disk_is_kept),
        SERVE_CASE(disks_are_listed),
        SERVE_CASE(usage_is_told),
        SERVE_CASE(daemon_that_sends_without_reading),
        SERVE_CASE(more_claims_at_once_than_the_spawner_takes),
    };
    return cmocka_run_group_tests(tests, kit_begin, kit_end);
}

int main(int argc, char **argv)
{
    return serve_main(argc, argv, run);
}
