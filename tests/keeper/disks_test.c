// SPDX-License-Identifier: Apache-2.0
// Disks by place: copied, moved, dropped, listed, while boxes run and clients come and go.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "kit.h"

#define VOLUME (4ull << 30)
#define MIB    (1ull << 20)

static void start(uint32_t boxes)
{
    kit_start(&(struct keeper_config){.boxes = boxes, .volume_bytes = VOLUME});
    (void)kit_state(); // it is up
}

static struct disk_ref at(enum disk_place place, uint64_t number)
{
    return (struct disk_ref){.place = place, .number = number};
}

static struct disk_ref kept(uint64_t number)
{
    return at(PLACE_KEPT, number);
}

static struct disk_ref snap(uint64_t number)
{
    return at(PLACE_SNAPSHOT, number);
}

static struct disk_ref making(uint64_t number)
{
    return at(PLACE_MAKING, number);
}

static void send_copy(uint32_t id, struct disk_ref from, struct disk_ref to, uint64_t box)
{
    struct err err = {0};
    struct copy_spec spec = {
        .from = from,
        .to = to,
        .bytes = to.place == PLACE_SNAPSHOT ? 0 : 100 * MIB,
        .box = box,
    };
    assert_int_equal(keeper_send_disk_copy(kit_sock(), id, &spec, &err), 0);
}

// Returns the bytes that count for `from`.
static uint64_t copy_of(struct disk_ref from, struct disk_ref to, uint64_t box)
{
    struct keeper_event ev;
    send_copy(81, from, to, box);
    kit_expect(KEEPER_DISK_DONE, &ev);
    assert_int_equal(ev.msg.head.id, 81);
    return ev.msg.copied.bytes;
}

static void copy(struct disk_ref from, struct disk_ref to)
{
    (void)copy_of(from, to, 0);
}

static void copy_fails(struct disk_ref from, struct disk_ref to, uint64_t box, enum err_code code)
{
    struct keeper_event ev;
    send_copy(82, from, to, box);
    kit_expect(KEEPER_ERROR, &ev);
    assert_int_equal(ev.msg.head.id, 82);
    assert_int_equal(ev.msg.error.code, code);
}

static void move(struct disk_ref from, struct disk_ref to, enum err_code code)
{
    struct keeper_event ev;
    struct err err = {0};
    assert_int_equal(keeper_send_disk_move(kit_sock(), 83, from, to, &err), 0);
    kit_expect(code == ERR_NONE ? KEEPER_OK : KEEPER_ERROR, &ev);
    assert_int_equal(ev.msg.head.id, 83);
    if (code != ERR_NONE)
        assert_int_equal(ev.msg.error.code, code);
}

static void drop(struct disk_ref disk, enum err_code code)
{
    struct keeper_event ev;
    struct err err = {0};
    assert_int_equal(keeper_send_disk_drop(kit_sock(), 84, disk, &err), 0);
    kit_expect(code == ERR_NONE ? KEEPER_OK : KEEPER_ERROR, &ev);
    if (code != ERR_NONE)
        assert_int_equal(ev.msg.error.code, code);
}

static unsigned list(enum disk_place place, uint64_t above, struct keeper_event *ret)
{
    struct err err = {0};
    assert_int_equal(keeper_send_disk_list(kit_sock(), 85, at(place, above), &err), 0);
    kit_expect(KEEPER_DISKS, ret);
    return ret->msg.disks.n;
}

static unsigned count(enum disk_place place)
{
    struct keeper_event ev;
    return list(place, 0, &ev);
}

static struct kit_box box_of(uint64_t disk)
{
    struct claim claim = kit_claim(DISK_KEPT, disk);
    return kit_take(&claim);
}

// Runs it in a box of that kept disk, and returns what it printed.
static struct kit_ended in_disk(uint64_t disk, const char *script)
{
    struct kit_box box = box_of(disk);
    struct kit_ended ended = kit_run(&box, script);
    (void)kit_destroy(&box);
    return ended;
}

// --- each by itself ---

CHECK_CASE(copies_are_of_one_moment_and_apart)
{
    start(2);
    (void)in_disk(1, "echo one > /workspace/file; chown 1000:1000 /workspace/file");
    copy(kept(1), snap(7));
    (void)in_disk(1, "echo two > /workspace/file");
    copy(snap(7), kept(2)); // a copy of a snapshot can be written to
    assert_string_equal(in_disk(2, "cat /workspace/file; stat -c %u /workspace/file").out,
                        "one\n1000\n");
    assert_int_equal(in_disk(2, "echo three > /workspace/file").status, 0);
    assert_string_equal(in_disk(1, "cat /workspace/file").out, "two\n");
    copy(snap(7), making(9));
    move(making(9), kept(1), ERR_NONE); // back to what it was
    assert_string_equal(in_disk(1, "cat /workspace/file").out, "one\n");
    assert_int_equal(count(PLACE_MAKING), 0);
    copy(kept(1), kept(3));
    copy(kept(3), making(4));
    move(making(4), kept(5), ERR_NONE); // where there was none
    assert_string_equal(in_disk(5, "cat /workspace/file").out, "one\n");
}

CHECK_CASE(a_disk_that_never_was_is_empty)
{
    start(1);
    assert_int_equal(copy_of(kept(999), snap(21), 0), 0);
    assert_int_equal(copy_of(kept(999), making(22), 0), 0);
    assert_int_equal(copy_of(kept(999), kept(23), 0), 0);
    assert_string_equal(in_disk(23, "ls /workspace").out, "");
    copy(snap(21), kept(24));
    assert_int_equal(in_disk(24, "echo x > /workspace/file").status, 0);
    copy_fails(snap(998), kept(25), 0, ERR_NOT_FOUND);
    copy_fails(making(998), kept(25), 0, ERR_NOT_FOUND);
}

CHECK_CASE(lists_by_place)
{
    struct keeper_event ev;
    start(1);
    for (uint64_t i = 1; i <= 40; i++)
        copy(kept(999), snap(i * 300));
    assert_int_equal(list(PLACE_SNAPSHOT, 299, &ev), 40);
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(ev.msg.disks.disk[i], (i + 1) * 300);
    assert_int_equal(list(PLACE_SNAPSHOT, 10000, &ev), 7);
    assert_int_equal(ev.msg.disks.disk[0], 10200);
    for (uint64_t i = 1; i <= 40; i++)
        drop(snap(i * 300), ERR_NONE);
    assert_int_equal(list(PLACE_SNAPSHOT, 299, &ev), 0);
    drop(snap(300), ERR_NONE); // one that is not there: good
}

// A path by which the keeper itself would reach a directory of the volume.
static void find_dir(const char *name, char *ret, size_t size)
{
    char path[64], target[64];
    for (int fd = 3; fd < 1024; fd++) {
        (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", kit_pid(), fd);
        ssize_t n = readlink(path, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        if (strcmp(target, name) == 0) {
            (void)snprintf(ret, size, "%s", path);
            return;
        }
    }
    fail_msg("the keeper has no directory %s", name);
}

CHECK_CASE(snapshot_is_read_only)
{
    char dir[64], path[128];
    start(1);
    (void)in_disk(31, "echo x > /workspace/file");
    copy(kept(31), snap(31));
    copy(kept(999), snap(47)); // an empty one, too
    find_dir("/snaps", dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/sf/31/up/new", dir);
    assert_int_equal(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600), -1);
    assert_int_equal(errno, EROFS);
    (void)snprintf(path, sizeof path, "%s/sf/47/new", dir);
    assert_int_equal(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600), -1);
    assert_int_equal(errno, EROFS);
    drop(snap(31), ERR_NONE);
    drop(snap(47), ERR_NONE);
}

CHECK_CASE(nonsense_is_refused)
{
    struct disk_ref odd = {.place = PLACE_KEPT, .pad = 1, .number = 3};
    start(3);
    (void)in_disk(51, "true");
    struct kit_box box = box_of(52);
    copy_fails(kept(51), at(0, 3), 0, ERR_INVALID);
    copy_fails(kept(51), at(PLACE_MAX, 3), 0, ERR_INVALID);
    copy_fails(kept(0), making(3), 0, ERR_INVALID);
    copy_fails(kept(51), making(0), 0, ERR_INVALID);
    copy_fails(odd, making(3), 0, ERR_INVALID);
    copy_fails(kept(51), kept(51), 0, ERR_INVALID);
    copy_fails(kept(51), kept(52), 0, ERR_CONFLICT); // in use
    copy(kept(51), kept(53));
    copy_fails(kept(51), kept(53), 0, ERR_CONFLICT); // exists
    copy(kept(51), making(53));
    copy_fails(kept(51), making(53), 0, ERR_CONFLICT);
    copy_fails(kept(51), making(54), box.number, ERR_INVALID); // another's disk
    copy_fails(kept(52), making(54), box.number + 1, ERR_NOT_FOUND);
    copy_fails(making(53), making(54), box.number, ERR_INVALID);
    move(kept(51), kept(52), ERR_CONFLICT);
    move(kept(52), kept(51), ERR_CONFLICT);
    move(making(99), kept(51), ERR_NOT_FOUND);
    move(kept(51), snap(51), ERR_INVALID);
    move(snap(51), kept(51), ERR_INVALID);
    move(kept(51), kept(51), ERR_INVALID);
    drop(kept(52), ERR_CONFLICT);
    drop(at(PLACE_MAX, 51), ERR_NOT_FOUND);
    drop(kept(0), ERR_NOT_FOUND);
    struct copy_spec unlimited = {.from = kept(51), .to = making(55)};
    struct copy_spec limited = {.from = kept(51), .to = snap(55), .bytes = 1};
    struct err err = {0};
    struct keeper_event ev;
    assert_int_equal(keeper_send_disk_copy(kit_sock(), 1, &unlimited, &err), 0);
    kit_expect(KEEPER_ERROR, &ev);
    assert_int_equal(keeper_send_disk_copy(kit_sock(), 1, &limited, &err), 0);
    kit_expect(KEEPER_ERROR, &ev);
    assert_int_equal(keeper_send_disk_list(kit_sock(), 1, at(PLACE_MAX, 0), &err), 0);
    kit_expect(KEEPER_ERROR, &ev);
    assert_int_equal(count(PLACE_MAKING), 1);
    (void)kit_destroy(&box);
}

CHECK_CASE(without_a_volume_there_are_none)
{
    struct keeper_event ev;
    struct err err = {0};
    kit_start(&(struct keeper_config){.boxes = 1});
    copy_fails(kept(1), snap(1), 0, ERR_UNSUPPORTED);
    move(making(1), kept(1), ERR_UNSUPPORTED);
    drop(kept(1), ERR_NOT_FOUND);
    assert_int_equal(count(PLACE_SNAPSHOT), 0);
    assert_int_equal(keeper_send_space(kit_sock(), 1, &err), 0);
    kit_expect(KEEPER_ERROR, &ev);
}

// --- many, and beside boxes ---

CHECK_CASE(many_at_once)
{
    enum { N = 64 };
    start(2);
    (void)in_disk(61, "echo source > /workspace/file");
    unsigned fds = kit_count_fds(), children = kit_count_children();
    unsigned seen[N] = {0};
    for (uint32_t i = 0; i < N; i++)
        send_copy(1000 + i, kept(61), kept(2000 + i), 0);
    for (uint32_t i = 0; i < N; i++) {
        struct keeper_event ev;
        kit_expect(KEEPER_DISK_DONE, &ev);
        assert_in_range(ev.msg.head.id, 1000, 1000 + N - 1);
        seen[ev.msg.head.id - 1000]++;
    }
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(seen[i], 1);
    assert_string_equal(in_disk(2000, "cat /workspace/file; echo mine > /workspace/file").out,
                        "source\n");
    assert_string_equal(in_disk(2063, "cat /workspace/file").out, "source\n");
    for (uint64_t i = 0; i < N; i++)
        drop(kept(2000 + i), ERR_NONE);
    // What the keeper did at its start may have been under way when they were counted.
    KIT_AWAIT(kit_count_fds() <= fds && kit_count_children() <= children);
}

// What is asked for one disk, one after the other without waiting, happens in that order.
CHECK_CASE(works_on_one_disk_do_not_overtake)
{
    struct err err = {0};
    struct keeper_event ev;
    uint64_t above = 0;
    start(1);
    (void)in_disk(71, "true");
    for (int i = 0; i < 20; i++) {
        send_copy(1, kept(71), making(72), 0);
        assert_int_equal(keeper_send_disk_move(kit_sock(), 2, making(72), kept(73), &err), 0);
        send_copy(3, kept(73), snap(74), 0);
        assert_int_equal(keeper_send_disk_drop(kit_sock(), 4, snap(74), &err), 0);
        assert_int_equal(keeper_send_disk_drop(kit_sock(), 5, kept(73), &err), 0);
        static const uint16_t answers[] = {KEEPER_DISK_DONE, KEEPER_OK, KEEPER_DISK_DONE, KEEPER_OK,
                                           KEEPER_OK};
        // The last two have nothing to do with each other.
        unsigned heard = 0;
        for (unsigned n = 0; n < 5; n++) {
            assert_int_equal(keeper_recv(kit_sock(), &ev, 0, &err), 1);
            assert_in_range(ev.msg.head.id, 1, 5);
            assert_int_equal(ev.msg.head.type, answers[ev.msg.head.id - 1]);
            if (n < 3)
                assert_int_equal(ev.msg.head.id, n + 1);
            heard |= 1u << ev.msg.head.id;
        }
        assert_int_equal(heard, 62);
    }
    assert_int_equal(list(PLACE_KEPT, above, &ev) > 0, 1);
    for (unsigned i = 0; i < ev.msg.disks.n; i++)
        assert_int_not_equal(ev.msg.disks.disk[i], 73);
}

CHECK_CASE(a_disk_at_work_is_not_claimed)
{
    struct err err = {0};
    struct keeper_event ev;
    unsigned conflicts = 0;
    start(2);
    (void)in_disk(75, "true");
    struct claim claim = kit_claim(DISK_KEPT, 76);
    for (int i = 0; i < 10; i++) {
        send_copy(1, kept(75), kept(76), 0);
        assert_int_equal(keeper_send_claim(kit_sock(), 2, &claim, &err), 0);
        uint64_t box = 0;
        for (int n = 0; n < 2; n++) {
            assert_int_equal(keeper_recv(kit_sock(), &ev, 0, &err), 1);
            conflicts += ev.msg.head.type == KEEPER_ERROR;
            if (ev.msg.head.type == KEEPER_ERROR)
                assert_int_equal(ev.msg.error.code, ERR_CONFLICT);
            if (ev.msg.head.type == KEEPER_CLAIMED)
                box = ev.msg.box.box;
        }
        if (box != 0) {
            struct kit_box got = {.number = box, .guest = ev.guest};
            (void)kit_destroy(&got);
        }
        drop(kept(76), ERR_NONE);
    }
    assert_int_equal(conflicts, 10);
}

CHECK_CASE(running_box_stands_still_and_goes_on)
{
    start(2);
    struct kit_box box = box_of(81);
    struct guest_event started;
    (void)kit_exec(&box,
                   "i=0; while :; do i=$((i+1)); "
                   "echo $i > /workspace/a; echo $i > /workspace/b; done",
                   &started);
    KIT_AWAIT(kit_run(&box, "test -s /workspace/b").status == 0);
    for (uint64_t i = 0; i < 10; i++) {
        (void)copy_of(kept(81), kept(8200 + i), box.number);
        assert_int_equal(kit_run(&box, "true").status, 0);
    }
    (void)kit_destroy(&box);
    fd_close(started.out);
    fd_close(started.err);
    for (uint64_t i = 0; i < 10; i++) { // one file is at most one step ahead
        assert_int_equal(in_disk(8200 + i, "a=$(cat /workspace/a); b=$(cat /workspace/b); "
                                           "[ -z \"$a\" ] || [ -z \"$b\" ] || "
                                           "[ $((a-b)) -eq 0 ] || [ $((a-b)) -eq 1 ]")
                             .status,
                         0);
        drop(kept(8200 + i), ERR_NONE);
    }
}

// --- how much ---

static struct keeper_spaced space(void)
{
    struct keeper_event ev;
    struct err err = {0};
    assert_int_equal(keeper_send_space(kit_sock(), 86, &err), 0);
    kit_expect(KEEPER_SPACED, &ev);
    return ev.msg.space;
}

CHECK_CASE(a_copy_costs_nothing_and_has_its_own_quota)
{
    start(2);
    struct claim large = kit_claim(DISK_KEPT, 91);
    large.limits.disk = 2048 * MIB;
    struct kit_box box = kit_take(&large);
    assert_int_equal(kit_run(&box, "fallocate -l 1G /workspace/large").status, 0);
    uint64_t bytes = copy_of(kept(91), snap(91), box.number);
    assert_in_range(bytes, 1024 * MIB, 1030 * MIB);
    uint64_t before = space().used;
    for (uint64_t i = 0; i < 8; i++)
        copy(snap(91), kept(9100 + i));
    assert_in_range(space().used, before, before + 2 * MIB);
    assert_in_range(copy_of(kept(9100), making(91), 0), 0, MIB); // what it has by itself
    struct claim claim = kit_claim(DISK_KEPT, 9101);
    claim.limits.disk = 16 * MIB;
    struct kit_box child = kit_take(&claim);
    assert_int_equal(kit_run(&child, "stat -c %s /workspace/large | grep 1073741824").status, 0);
    assert_int_not_equal(kit_run(&child, "head -c 20M /dev/zero > /workspace/more").status, 0);
    (void)kit_destroy(&child);
    (void)kit_destroy(&box);
    for (uint64_t i = 0; i < 8; i++)
        drop(kept(9100 + i), ERR_NONE);
    drop(snap(91), ERR_NONE);
    drop(making(91), ERR_NONE);
    drop(kept(91), ERR_NONE);
}

CHECK_CASE(a_limit_set_with_the_copy_holds)
{
    struct err err = {0};
    struct keeper_event ev;
    start(1);
    (void)in_disk(93, "true");
    struct copy_spec spec = {.from = kept(93), .to = making(94), .bytes = 8 * MIB};
    assert_int_equal(keeper_send_disk_copy(kit_sock(), 1, &spec, &err), 0);
    kit_expect(KEEPER_DISK_DONE, &ev);
    char dir[64], path[128];
    find_dir("/making", dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/se/94/file", dir);
    auto_fd fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    static char megabyte[MIB];
    int r = 0;
    for (int i = 0; r == 0 && i < 16; i++)
        r = fd_write_all(fd, megabyte, sizeof megabyte);
    assert_int_equal(r, -EDQUOT);
}

CHECK_CASE(quota_groups_do_not_pile_up)
{
    start(1);
    unsigned before = kit_count_qgroups();
    (void)in_disk(95, "head -c 3M /dev/urandom > /workspace/file");
    copy(kept(95), kept(96));
    drop(kept(95), ERR_NONE); // what it wrote is still there: 96 has it
    for (uint64_t i = 0; i < 8; i++) {
        copy(kept(96), snap(9500 + i));
        drop(snap(9500 + i), ERR_NONE);
    }
    assert_string_equal(in_disk(96, "stat -c %s /workspace/file").out, "3145728\n");
    drop(kept(96), ERR_NONE);
    // Looked for every so often, when the file system has committed.
    KIT_AWAIT(kit_count_qgroups() <= before);
}

CHECK_CASE(durable_means_it)
{
    start(2);
    struct claim claim = kit_claim(DISK_KEPT, 97);
    struct kit_box usual = kit_take(&claim);
    assert_int_equal(kit_run(&usual, "grep ' / / ' /proc/self/mountinfo | grep -q volatile").status,
                     0);
    (void)kit_destroy(&usual);
    claim.durable = 1;
    struct kit_box durable = kit_take(&claim);
    assert_int_not_equal(
        kit_run(&durable, "grep ' / / ' /proc/self/mountinfo | grep -q volatile").status, 0);
    (void)kit_destroy(&durable);
    drop(kept(97), ERR_NONE);
}

KIT_MAIN(KIT_CASE(copies_are_of_one_moment_and_apart), KIT_CASE(a_disk_that_never_was_is_empty),
         KIT_CASE(lists_by_place), KIT_CASE(snapshot_is_read_only), KIT_CASE(nonsense_is_refused),
         KIT_CASE(without_a_volume_there_are_none), KIT_CASE(many_at_once),
         KIT_CASE(works_on_one_disk_do_not_overtake), KIT_CASE(a_disk_at_work_is_not_claimed),
         KIT_CASE(running_box_stands_still_and_goes_on),
         KIT_CASE(a_copy_costs_nothing_and_has_its_own_quota),
         KIT_CASE(a_limit_set_with_the_copy_holds), KIT_CASE(quota_groups_do_not_pile_up),
         KIT_CASE(durable_means_it))
