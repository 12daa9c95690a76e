// SPDX-License-Identifier: Apache-2.0
// Two hundred boxes later the keeper, and the machine, are as they were.
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "kit.h"

#define VOLUME (4ull << 30)

struct counts {
    unsigned fds, mounts, children, cgroups, disks, qgroups;
};

static struct counts look(void)
{
    return (struct counts){
        .fds = kit_count_fds(),
        .mounts = kit_count_mounts(),
        .children = kit_count_children(),
        .cgroups = kit_count_cgroups(),
        .disks = kit_count_disks(),
        .qgroups = kit_count_qgroups(),
    };
}

// Subvolumes are removed in the background, and their quota groups with them.
static struct counts look_settled(void)
{
    struct counts last, now = look();
    do {
        last = now;
        kit_sleep_ms(200);
        now = look();
    } while (memcmp(&now, &last, sizeof now) != 0);
    return now;
}

static void check_same(const struct counts *before)
{
    struct counts now = look();
    for (int i = 0; i < 1000 && memcmp(&now, before, sizeof now) != 0; i++) {
        kit_sleep_ms(10);
        now = look();
    }
    assert_int_equal(now.fds, before->fds);
    assert_int_equal(now.mounts, before->mounts);
    assert_int_equal(now.children, before->children);
    assert_int_equal(now.cgroups, before->cgroups);
    assert_int_equal(now.disks, before->disks);
    assert_int_equal(now.qgroups, before->qgroups);
}

static void one_box(unsigned i, int ahead)
{
    struct claim claim = kit_claim(i % 4 == 0   ? DISK_TMPFS
                                   : i % 4 == 1 ? DISK_KEPT
                                                : DISK_BLANK,
                                   i % 4 == 1 ? 90 + i % 3 : 0);
    struct kit_box box = ahead && i % 3 == 0 ? kit_take_ready(&claim.limits) : kit_take(&claim);
    if (i % 5 != 0)
        assert_int_equal(kit_run(&box, "echo x > file; setsid sleep 1000 >/dev/null 2>&1 &").status,
                         0);
    if (i % 7 == 0) {
        struct guest_event started;
        (void)kit_exec(&box, "sleep 1000", &started);
        fd_close(started.out);
        fd_close(started.err);
    }
    (void)kit_destroy(&box);
}

// A slot keeps the user namespace of its first box, so all must have had one before anything is
// counted.
static void use_every_slot(const struct keeper_config *config, uint32_t ready, uint32_t blank)
{
    struct kit_box boxes[8];
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    unsigned n = config->boxes - ready - blank;
    kit_await_pool(ready, blank);
    for (unsigned i = 0; i < n; i++)
        boxes[i] = kit_take(&claim);
    kit_await_pool(ready, blank);
    for (unsigned i = 0; i < n; i++)
        (void)kit_destroy(&boxes[i]);
}

static void cycle(const struct keeper_config *config, uint32_t ready, uint32_t blank)
{
    kit_start(config);
    for (unsigned i = 0; i < 12; i++) // every kept disk is there
        one_box(i, ready > 0);
    use_every_slot(config, ready, blank);
    kit_await_pool(ready, blank);
    struct counts before = look_settled();
    for (unsigned i = 0; i < 200; i++)
        one_box(i, ready > 0);
    kit_await_pool(ready, blank);
    check_same(&before);
}

CHECK_CASE(two_hundred_boxes_without_a_pool)
{
    cycle(&(struct keeper_config){.boxes = 1, .volume_bytes = VOLUME}, 0, 0);
}

CHECK_CASE(two_hundred_boxes_from_a_pool)
{
    cycle(
        &(struct keeper_config){
            .boxes = 6, .pool_ready = 2, .pool_blank = 2, .volume_bytes = VOLUME},
        2, 2);
}

CHECK_CASE(claims_that_fail_leave_nothing)
{
    kit_start(&(struct keeper_config){.boxes = 2, .volume_bytes = VOLUME});
    for (unsigned i = 0; i < 4; i++)
        one_box(i, 0);
    struct counts before = look_settled();
    struct claim bad = kit_claim(DISK_BLANK, 0), kept = kit_claim(DISK_KEPT, 90);
    for (int i = 0; i < 50; i++) {
        bad.image = i % 2 == 0 ? "no-such-image" : "../x";
        (void)kit_refused(&bad);
        struct kit_box box = kit_take(&kept);
        (void)kit_refused(&kept);
        (void)kit_destroy(&box);
    }
    check_same(&before);
}

// Boxes whose disk cannot be mounted, because somebody has put a file where a directory must be.
CHECK_CASE(boxes_that_fail_half_way_leave_nothing)
{
    kit_start(&(struct keeper_config){.boxes = 2, .volume_bytes = VOLUME});
    struct claim kept = kit_claim(DISK_KEPT, 95);
    struct kit_box box = kit_take(&kept);
    assert_int_equal(kit_run(&box, "rmdir /usr /proc 2>/dev/null; rm -rf /sys /dev 2>/dev/null; "
                                   "mv /proc /gone 2>/dev/null; true")
                         .status,
                     0);
    (void)kit_destroy(&box);
    struct counts before = look_settled();
    for (int i = 0; i < 10; i++) {
        struct keeper_event ev;
        struct err err = {0};
        assert_int_equal(keeper_send_claim(kit_sock(), 1, &kept, &err), 0);
        assert_int_equal(keeper_recv(kit_sock(), &ev, 0, &err), 1);
        if (ev.msg.head.type == KEEPER_CLAIMED) {
            box = (struct kit_box){.number = ev.msg.box.box, .guest = ev.guest};
            (void)kit_destroy(&box);
        }
    }
    check_same(&before);
}

// --- works on disks ---

static struct disk_ref at(enum disk_place place, uint64_t number)
{
    return (struct disk_ref){.place = place, .number = number};
}

static void send_copy(uint64_t from, struct disk_ref to, uint64_t box)
{
    struct err err = {0};
    const struct copy_spec spec = {
        .from = at(PLACE_KEPT, from), .to = to, .bytes = 1 << 20, .box = box};
    assert_int_equal(keeper_send_disk_copy(kit_sock(), 5, &spec, &err), 0);
}

// All kinds, half of which fail.
static void works(uint64_t disk)
{
    struct err err = {0};
    struct keeper_event ev;
    int sock = kit_sock();
    send_copy(disk, at(PLACE_MAKING, 1), 0);
    kit_expect(KEEPER_DISK_DONE, &ev);
    send_copy(disk, at(PLACE_MAKING, 1), 0); // it is there
    kit_expect(KEEPER_ERROR, &ev);
    assert_int_equal(keeper_send_disk_count(sock, 5, at(PLACE_MAKING, 1), &err), 0);
    kit_expect(KEEPER_DISK_DONE, &ev);
    assert_int_equal(keeper_send_disk_count(sock, 5, at(PLACE_MAKING, 2), &err), 0);
    kit_expect(KEEPER_ERROR, &ev);
    assert_int_equal(
        keeper_send_disk_move(sock, 5, at(PLACE_MAKING, 1), at(PLACE_KEPT, disk), &err), 0);
    kit_expect(KEEPER_OK, &ev);
    assert_int_equal(
        keeper_send_disk_move(sock, 5, at(PLACE_MAKING, 1), at(PLACE_KEPT, disk), &err), 0);
    kit_expect(KEEPER_ERROR, &ev);
    assert_int_equal(keeper_send_disk_drop(sock, 5, at(PLACE_SNAPSHOT, 77), &err), 0);
    kit_expect(KEEPER_OK, &ev);
}

CHECK_CASE(works_leave_nothing)
{
    kit_start(&(struct keeper_config){.boxes = 2, .volume_bytes = VOLUME});
    struct claim kept = kit_claim(DISK_KEPT, 96);
    struct kit_box box = kit_take(&kept);
    (void)kit_destroy(&box);
    works(96);
    struct counts before = look_settled();
    for (int i = 0; i < 30; i++)
        works(96);
    check_same(&before);
}

// The process that copies the disk, held fast: 0 when it was quicker than us.
static pid_t catch_copier(unsigned n_before)
{
    pid_t pid = 0;
    for (int i = 0; i < 100000 && pid == 0; i++)
        pid = kit_child(n_before);
    return pid != 0 && kill(pid, SIGSTOP) == 0 ? pid : 0;
}

// It is a fork of the keeper, and so has open what the keeper had.
CHECK_CASE(end_of_a_box_is_not_taken_for_that_of_the_next)
{
    kit_start(&(struct keeper_config){.boxes = 2, .volume_bytes = VOLUME});
    struct claim kept = kit_claim(DISK_KEPT, 97), blank = kit_claim(DISK_TMPFS, 0);
    struct kit_box source = kit_take(&kept);
    for (unsigned i = 0; i < 5; i++) {
        struct keeper_event ev;
        struct kit_box first = kit_take(&blank);
        unsigned n = kit_count_children();
        send_copy(97, at(PLACE_MAKING, 100 + i), source.number);
        pid_t copier = catch_copier(n);
        if (copier != 0) {
            (void)kit_destroy(&first);
            first = kit_take(&blank); // in the same slot
            assert_int_equal(kit_run(&first, "true").status, 0);
            (void)kit_state(); // and the keeper answers
            assert_int_equal(kill(copier, SIGCONT), 0);
        }
        kit_expect(KEEPER_DISK_DONE, &ev);
        (void)kit_destroy(&first);
    }
    assert_int_equal(kit_run(&source, "true").status, 0);
    (void)kit_destroy(&source);
}

KIT_MAIN(KIT_CASE(two_hundred_boxes_without_a_pool), KIT_CASE(two_hundred_boxes_from_a_pool),
         KIT_CASE(claims_that_fail_leave_nothing), KIT_CASE(boxes_that_fail_half_way_leave_nothing),
         KIT_CASE(works_leave_nothing), KIT_CASE(end_of_a_box_is_not_taken_for_that_of_the_next))
