// SPDX-License-Identifier: Apache-2.0
// Disks: what stays and what goes, quotas, limits that change while a box runs.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "kit.h"

#define VOLUME (4ull << 30)
#define MIB    (1ull << 20)

static void start(uint32_t boxes)
{
    kit_start(&(struct keeper_config){.boxes = boxes, .volume_bytes = VOLUME});
    (void)kit_state(); // it is up
}

CHECK_CASE(kept_disk_keeps)
{
    start(3);
    struct claim kept = kit_claim(DISK_KEPT, 41), other = kit_claim(DISK_TMPFS, 0);
    struct kit_box box = kit_take(&kept);
    assert_int_equal(kit_run(&box, "echo first > /workspace/file; mkdir /tmp/dir; "
                                   "chown 1000:2000 /workspace/file; chmod 4751 /workspace/file; "
                                   "ln -s file /workspace/link; rm /etc/hostname")
                         .status,
                     0);
    (void)kit_destroy(&box);
    // In another slot, that is with other ids on the host, nothing has changed.
    struct kit_box filler = kit_take(&other);
    box = kit_take(&kept);
    assert_string_equal(kit_run(&box, "cat /workspace/link; stat -c '%u %g %a' /workspace/file; "
                                      "ls -d /tmp/dir; ls /etc/hostname 2>/dev/null")
                            .out,
                        "first\n1000 2000 4751\n/tmp/dir\n");
    assert_int_equal(kit_run(&box, "echo second >> /workspace/file").status, 0);
    (void)kit_destroy(&filler);
    (void)kit_destroy(&box);
    // By another keeper, and after one that had no time to say goodbye.
    kit_stop();
    for (int i = 0; i < 2; i++) {
        start(1);
        box = kit_take(&kept);
        assert_string_equal(kit_run(&box, "cat /workspace/file").out, "first\nsecond\n");
        (void)kill(kit_pid(), SIGKILL);
        fd_close(box.guest);
        kit_stop();
    }
}

CHECK_CASE(kept_disk_has_one_user)
{
    start(4);
    struct claim kept = kit_claim(DISK_KEPT, 51), second = kit_claim(DISK_KEPT, 52);
    struct kit_box box = kit_take(&kept);
    assert_int_equal(kit_refused(&kept).code, ERR_CONFLICT);
    struct kit_box other = kit_take(&second); // another disk is another matter
    assert_int_equal(kit_run(&box, "echo mine > /workspace/file").status, 0);
    assert_string_equal(kit_run(&other, "ls /workspace").out, "");
    (void)kit_destroy(&box);
    box = kit_take(&kept);
    assert_string_equal(kit_run(&box, "cat /workspace/file").out, "mine\n");
    (void)kit_destroy(&box);
    (void)kit_destroy(&other);
}

CHECK_CASE(kept_disk_is_in_use_until_the_box_is_gone)
{
    start(2);
    struct claim kept = kit_claim(DISK_KEPT, 53);
    for (int i = 0; i < 20; i++) { // asked for again at once, in whatever state it is
        struct kit_box box = kit_take(&kept);
        struct err err = {0};
        struct keeper_event ev;
        assert_int_equal(keeper_send_destroy(kit_sock(), 1, box.number, &err), 0);
        assert_int_equal(keeper_send_claim(kit_sock(), 2, &kept, &err), 0);
        unsigned answers = 0;
        uint64_t second = 0;
        while (answers < 3) {
            assert_int_equal(keeper_recv(kit_sock(), &ev, 0, &err), 1);
            answers++;
            if (ev.msg.head.type == KEEPER_ERROR)
                assert_int_equal(ev.msg.error.code, ERR_CONFLICT);
            else if (ev.msg.head.type == KEEPER_CLAIMED)
                second = ev.msg.box.box;
            if (ev.msg.head.type == KEEPER_CLAIMED)
                fd_close(ev.guest);
        }
        fd_close(box.guest);
        if (second != 0) {
            box = (struct kit_box){.number = second, .guest = -1};
            (void)kit_destroy(&box);
        }
    }
}

static void drop(uint64_t disk, uint16_t answer, enum err_code code)
{
    struct keeper_event ev;
    struct err err = {0};
    struct disk_ref ref = {.place = PLACE_KEPT, .number = disk};
    assert_int_equal(keeper_send_disk_drop(kit_sock(), 70, ref, &err), 0);
    kit_expect(answer, &ev);
    assert_int_equal(ev.msg.head.id, 70);
    if (answer == KEEPER_ERROR)
        assert_int_equal(ev.msg.error.code, code);
}

CHECK_CASE(dropped_disk_is_gone)
{
    start(2);
    unsigned before = kit_count_disks();
    struct claim kept = kit_claim(DISK_KEPT, 61);
    struct kit_box box = kit_take(&kept);
    assert_int_equal(kit_run(&box, "echo x > /workspace/file").status, 0);
    assert_int_equal(kit_count_disks(), before + 1);
    drop(61, KEEPER_ERROR, ERR_CONFLICT);
    (void)kit_destroy(&box);
    assert_int_equal(kit_count_disks(), before + 1);
    drop(61, KEEPER_OK, ERR_NONE);
    assert_int_equal(kit_count_disks(), before);
    drop(0, KEEPER_ERROR, ERR_NOT_FOUND);
    box = kit_take(&kept);
    assert_string_equal(kit_run(&box, "ls /workspace").out, "");
    (void)kit_destroy(&box);
    drop(61, KEEPER_OK, ERR_NONE);
}

CHECK_CASE(blank_disk_goes_with_its_box)
{
    start(4);
    unsigned before = kit_count_disks();
    struct claim blank = kit_claim(DISK_BLANK, 0);
    struct kit_box a = kit_take(&blank), b = kit_take(&blank);
    assert_int_equal(kit_count_disks(), before + 2);
    assert_int_equal(kit_run(&a, "head -c 3000000 /dev/zero > /workspace/file").status, 0);
    assert_string_equal(kit_run(&b, "ls /workspace").out, "");
    (void)kit_destroy(&a);
    assert_int_equal(kit_count_disks(), before + 1);
    // The other one's keeper is killed; the next removes what it finds.
    (void)kill(kit_pid(), SIGKILL);
    fd_close(b.guest);
    kit_stop();
    start(1);
    assert_int_equal(kit_count_disks(), before);
}

// --- how much ---

static const char fill[] =
    "python3 -c 'import errno, os\n"
    "fd = os.open(\"/workspace/big\", os.O_CREAT | os.O_WRONLY | os.O_APPEND)\n"
    "n = 0\n"
    "try:\n"
    "    while n < 1 << 30: n += os.write(fd, os.urandom(65536))\n"
    "    print(\"no end\")\n"
    "except OSError as e:\n"
    "    print(n, errno.errorcode[e.errno])'";

static void check_full(struct kit_box *box, uint64_t limit, const char *name)
{
    struct kit_ended e = kit_run(box, fill);
    char *rest;
    uint64_t n = strtoull(e.out, &rest, 10);
    assert_string_equal(rest, name);
    assert_in_range(n, limit - 2 * MIB, limit);
    assert_int_equal(e.limits, GUEST_LIMIT_DISK);
}

CHECK_CASE(quota_is_exact)
{
    start(2);
    struct claim claims[] = {kit_claim(DISK_BLANK, 0), kit_claim(DISK_KEPT, 71)};
    for (int i = 0; i < 2; i++) {
        claims[i].limits.disk = 16 * MIB;
        struct kit_box box = kit_take(&claims[i]);
        check_full(&box, 16 * MIB, " EDQUOT\n");
        // Full is not broken: what is removed can be written again.
        assert_int_equal(kit_run(&box, "rm /workspace/big && sync -f /workspace").status, 0);
        struct kit_ended e = kit_run(&box, "head -c 8000000 /dev/zero > /workspace/again");
        assert_int_equal(e.status, 0);
        assert_int_equal(e.limits, 0);
        (void)kit_destroy(&box);
    }
    // A larger claim of the same disk has more room.
    claims[1].limits.disk = 32 * MIB;
    struct kit_box box = kit_take(&claims[1]);
    assert_int_equal(kit_run(&box, "rm /workspace/again && sync -f /workspace").status, 0);
    check_full(&box, 32 * MIB, " EDQUOT\n");
    (void)kit_destroy(&box);
}

CHECK_CASE(quota_of_one_is_not_anothers)
{
    start(2);
    struct claim claim = kit_claim(DISK_BLANK, 0);
    claim.limits.disk = 16 * MIB;
    struct kit_box a = kit_take(&claim), b = kit_take(&claim);
    check_full(&a, 16 * MIB, " EDQUOT\n");
    struct kit_ended e = kit_run(&b, "head -c 10000000 /dev/zero > /workspace/file");
    assert_int_equal(e.status, 0);
    assert_int_equal(e.limits, 0);
    (void)kit_destroy(&a);
    (void)kit_destroy(&b);
}

CHECK_CASE(tmpfs_is_exact)
{
    kit_start(&(struct keeper_config){.boxes = 1});
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    claim.limits.disk = 16 * MIB;
    struct kit_box box = kit_take(&claim);
    check_full(&box, 16 * MIB, " ENOSPC\n");
    (void)kit_destroy(&box);
}

// --- limits of a running box ---

static void set_limits(const struct kit_box *box, const struct box_limits *limits, uint16_t answer,
                       enum err_code code)
{
    struct keeper_event ev;
    struct err err = {0};
    assert_int_equal(keeper_send_limit(kit_sock(), 80, box->number, limits, &err), 0);
    kit_expect(answer, &ev);
    assert_int_equal(ev.msg.head.id, 80);
    if (answer == KEEPER_ERROR)
        assert_int_equal(ev.msg.error.code, code);
}

CHECK_CASE(limits_change_while_it_runs)
{
    kit_start(&(struct keeper_config){.boxes = 1});
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    struct kit_box box = kit_take(&claim);
    struct box_limits l = claim.limits;
    const char *eat = "python3 -c 'x = bytearray(100 << 20)'";
    const char *fork = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1 & done; wait";
    assert_int_equal(kit_run(&box, eat).limits, 0);
    assert_int_equal(kit_run(&box, fork).limits, 0);
    l.memory = 64 * MIB;
    l.pids = 8;
    l.cpu_milli = 200;
    set_limits(&box, &l, KEEPER_OK, ERR_NONE);
    // A fifth of a core: 0.3 s of work take more than a second.
    struct kit_ended e = kit_run(&box, "python3 -c 'import time\n"
                                       "b = time.monotonic()\n"
                                       "while time.process_time() < 0.3: pass\n"
                                       "print(time.monotonic() - b > 0.9)'");
    assert_string_equal(e.out, "True\n");
    assert_int_equal(kit_run(&box, eat).limits, GUEST_LIMIT_OOM);
    assert_int_equal(kit_run(&box, fork).limits, GUEST_LIMIT_PIDS);
    l = claim.limits;
    set_limits(&box, &l, KEEPER_OK, ERR_NONE);
    assert_int_equal(kit_run(&box, eat).limits, 0);
    assert_int_equal(kit_run(&box, fork).limits, 0);
    (void)kit_destroy(&box);
}

CHECK_CASE(limits_that_cannot_be)
{
    kit_start(&(struct keeper_config){.boxes = 1});
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    struct kit_box box = kit_take(&claim), nobody = {.number = box.number + 1};
    struct box_limits l = claim.limits;
    set_limits(&nobody, &l, KEEPER_ERROR, ERR_NOT_FOUND);
    l.disk *= 2;
    set_limits(&box, &l, KEEPER_ERROR, ERR_UNSUPPORTED);
    const struct box_limits bad[] = {
        {.memory = 0,          .disk = l.disk, .pids = 10,         .cpu_milli = 100       },
        {.memory = UINT64_MAX, .disk = l.disk, .pids = 10,         .cpu_milli = 100       },
        {.memory = 64 * MIB,   .disk = 0,      .pids = 10,         .cpu_milli = 100       },
        {.memory = 64 * MIB,   .disk = l.disk, .pids = 0,          .cpu_milli = 100       },
        {.memory = 64 * MIB,   .disk = l.disk, .pids = UINT32_MAX, .cpu_milli = 100       },
        {.memory = 64 * MIB,   .disk = l.disk, .pids = 10,         .cpu_milli = 0         },
        {.memory = 64 * MIB,   .disk = l.disk, .pids = 10,         .cpu_milli = UINT32_MAX},
    };
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
        set_limits(&box, &bad[i], KEEPER_ERROR, ERR_INVALID);
    assert_int_equal(kit_run(&box, "true").status, 0);
    (void)kit_destroy(&box);
}

CHECK_CASE(memory_below_what_is_used)
{
    // The kernel may refuse or kill; either way the box and its keeper stay in order.
    kit_start(&(struct keeper_config){.boxes = 1});
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    struct kit_box box = kit_take(&claim);
    struct box_limits l = claim.limits;
    struct guest_event started;
    struct keeper_event ev;
    struct err err = {0};
    (void)kit_exec(
        &box,
        "exec python3 -c 'import time\nx = bytearray(200 << 20)\nprint(1, flush=True)\ntime.sleep(1000)'",
        &started);
    char c;
    assert_int_equal(read(started.out, &c, 1), 1);
    l.memory = 32 * MIB;
    assert_int_equal(keeper_send_limit(kit_sock(), 81, box.number, &l, &err), 0);
    assert_int_equal(keeper_recv(kit_sock(), &ev, 0, &err), 1);
    assert_true(ev.msg.head.type == KEEPER_OK || ev.msg.head.type == KEEPER_ERROR);
    assert_int_equal(kit_state().live, 1);
    fd_close(started.out);
    fd_close(started.err);
    (void)kit_destroy(&box);
}

KIT_MAIN(KIT_CASE(kept_disk_keeps), KIT_CASE(kept_disk_has_one_user),
         KIT_CASE(kept_disk_is_in_use_until_the_box_is_gone), KIT_CASE(dropped_disk_is_gone),
         KIT_CASE(blank_disk_goes_with_its_box), KIT_CASE(quota_is_exact),
         KIT_CASE(quota_of_one_is_not_anothers), KIT_CASE(tmpfs_is_exact),
         KIT_CASE(limits_change_while_it_runs), KIT_CASE(limits_that_cannot_be),
         KIT_CASE(memory_below_what_is_used))
