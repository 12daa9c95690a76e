// SPDX-License-Identifier: Apache-2.0
// What disks hold, asked for many at once.
#include <stdio.h>
#include <string.h>

#include "kit.h"

#define VOLUME (4ull << 30)
#define MIB    (1ull << 20)

static void start(void)
{
    kit_start(&(struct keeper_config){.boxes = 2, .volume_bytes = VOLUME});
    (void)kit_state(); // it is up
}

static void fill(uint64_t disk, const char *command)
{
    struct claim claim = kit_claim(DISK_KEPT, disk);
    struct kit_box box = kit_take(&claim);
    assert_int_equal(kit_run(&box, command).status, 0);
    (void)kit_destroy(&box);
}

static void ask(enum disk_place place, const uint64_t *numbers, unsigned n,
                struct keeper_event *ret)
{
    struct err err = {0};
    assert_int_equal(keeper_send_disk_used(kit_sock(), 7, place, numbers, n, &err), 0);
    kit_expect(KEEPER_DISKS_USED, ret);
    assert_int_equal(ret->msg.head.id, 7);
    assert_int_equal(ret->msg.disks_used.n, n);
}

static uint64_t used(uint64_t disk)
{
    struct keeper_event ev;
    ask(PLACE_KEPT, &disk, 1, &ev);
    return ev.msg.disks_used.bytes[0];
}

CHECK_CASE(each_has_its_own)
{
    static const uint64_t disks[] = {1, 3, 2};
    struct keeper_event ev;
    start();
    fill(1, "head -c 3M /dev/urandom > /workspace/file; sync");
    fill(2, "head -c 9M /dev/urandom > /workspace/file; sync");
    KIT_AWAIT(used(2) >= 9 * MIB && used(1) >= 3 * MIB); // the kernel counts when it commits
    ask(PLACE_KEPT, disks, 3, &ev);
    const uint64_t *bytes = ev.msg.disks_used.bytes;
    assert_in_range(bytes[0], 3 * MIB, 4 * MIB);
    assert_int_equal(bytes[1], 0); // there is none
    assert_in_range(bytes[2], 9 * MIB, 10 * MIB);
    ask(PLACE_KEPT, NULL, 0, &ev);
}

CHECK_CASE(as_many_as_fit)
{
    uint64_t disks[KEEPER_USED_MAX + 1];
    struct keeper_event ev;
    struct err err = {0};
    start();
    for (unsigned i = 0; i <= KEEPER_USED_MAX; i++)
        disks[i] = i + 1;
    ask(PLACE_SNAPSHOT, disks, KEEPER_USED_MAX, &ev);
    assert_int_equal(
        keeper_send_disk_used(kit_sock(), 7, PLACE_KEPT, disks, KEEPER_USED_MAX + 1, &err), -1);
}

static void refused(const struct keeper_disk_used *ask_for)
{
    struct keeper_event ev;
    struct keeper_disk_used msg = *ask_for;
    msg.head = (struct wire_head){.version = WIRE_VERSION, .type = KEEPER_DISK_USED, .id = 9};
    assert_int_equal(wire_send(kit_sock(), &msg, sizeof msg, NULL, 0, NULL, 0), 0);
    kit_expect(KEEPER_ERROR, &ev);
    assert_int_equal(ev.msg.error.code, ERR_INVALID);
}

CHECK_CASE(nonsense_is_refused)
{
    start();
    refused(&(struct keeper_disk_used){.place = 0, .n = 1, .disk = {1}});
    refused(&(struct keeper_disk_used){.place = PLACE_MAX, .n = 1, .disk = {1}});
    refused(&(struct keeper_disk_used){.place = PLACE_KEPT, .n = KEEPER_USED_MAX + 1, .disk = {1}});
    refused(&(struct keeper_disk_used){.place = PLACE_KEPT, .n = 2, .disk = {1}});
    refused(&(struct keeper_disk_used){
        .place = PLACE_KEPT, .n = 1, .disk = {1, 2}
    });
    refused(&(struct keeper_disk_used){.place = PLACE_KEPT, .n = UINT32_MAX, .disk = {1}});
}

KIT_MAIN(KIT_CASE(each_has_its_own), KIT_CASE(as_many_as_fit), KIT_CASE(nonsense_is_refused))
