// SPDX-License-Identifier: Apache-2.0
// A volume on a file system that is much smaller than it: boxes are told that there is no room, the
// volume stays well, and what is deleted comes back to the machine.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "kit.h"

#define MIB   (1ull << 20)
#define SPARE (64 * MIB)

static char host[96]; // the small file system

static int shell(const char *script)
{
    char line[512];
    (void)snprintf(line, sizeof line, "H=%s; D=%s; %s", host, kit_data(), script);
    pid_t pid = fork();
    if (pid == 0) {
        (void)execl("/bin/sh", "sh", "-c", line, NULL);
        _exit(127);
    }
    int status = -1;
    (void)waitpid(pid, &status, 0);
    return status;
}

static int begin(void **state)
{
    if (kit_begin(state) < 0)
        return -1;
    (void)snprintf(host, sizeof host, "%s/host", kit_data());
    return shell("mkdir $H && truncate -s 1100M $D/ext4 && mkfs.ext4 -q -m 0 $D/ext4 && "
                 "mount -o loop $D/ext4 $H && chmod 711 $H");
}

static int end(void **state)
{
    (void)shell("umount $H");
    return kit_end(state);
}

static int case_end(void **state)
{
    (void)shell("rm -f $H/other $H/less");
    return kit_case_end(state);
}

static uint64_t host_free(void)
{
    struct statvfs st;
    assert_int_equal(statvfs(host, &st), 0);
    return (uint64_t)st.f_bavail * st.f_frsize;
}

static struct keeper_spaced space(void)
{
    struct keeper_event ev;
    struct err err = {0};
    assert_int_equal(keeper_send_space(kit_sock(), 86, &err), 0);
    kit_expect(KEEPER_SPACED, &ev);
    return ev.msg.space;
}

static void start(void)
{
    kit_start(&(struct keeper_config){
        .data = host, .boxes = 4, .volume_bytes = 4096 * MIB, .disk_spare = SPARE});
    (void)kit_state();
    KIT_AWAIT(host_free() < 700 * MIB); // the volume has what it needs for itself
}

static void start_with_less(void)
{
    start();
    assert_int_equal(shell("fallocate -l 240M $H/less"), 0); // so that the rest is soon full
    (void)space();                                           // which is looked at now
}

static void drop(uint64_t disk)
{
    struct keeper_event ev;
    struct err err = {0};
    struct disk_ref ref = {.place = PLACE_KEPT, .number = disk};
    assert_int_equal(keeper_send_disk_drop(kit_sock(), 84, ref, &err), 0);
    kit_expect(KEEPER_OK, &ev);
}

static struct kit_box box_of(uint64_t disk)
{
    struct claim claim = kit_claim(DISK_KEPT, disk);
    claim.limits.disk = 2048 * MIB;
    return kit_take(&claim);
}

static const char fill[] = "head -c 1G /dev/urandom > /workspace/large; sync; echo";

CHECK_CASE(boxes_get_no_more_than_the_machine_has)
{
    start_with_less();
    struct kit_box a = box_of(1), b = box_of(2);
    uint64_t before = host_free();
    assert_int_equal(kit_run(&b, "echo small > /workspace/small; sync").status, 0);
    struct kit_ended ended = kit_run(&a, fill);
    if (strstr(ended.err, "quota") == NULL && strstr(ended.err, "No space") == NULL)
        fail_msg("neither quota nor space: status %d, '%s'", ended.status, ended.err);
    assert_true(host_free() > SPARE / 2);
    // What there is can be read, and deleted.
    assert_string_equal(kit_run(&b, "cat /workspace/small").out, "small\n");
    struct claim another = kit_claim(DISK_KEPT, 3);
    // What is on its way counts twice for a moment: several times, then.
    KIT_AWAIT((kit_run(&a, "head -c 100M /dev/urandom >> /workspace/large; sync"),
               space().writable < 32 * MIB));
    struct err refused = kit_refused(&another);
    assert_int_equal(refused.code, ERR_EXHAUSTED);
    assert_non_null(strstr(refused.msg, "disk-spare"));
    // One that sleeps can be woken, which is how it gets to delete something.
    (void)kit_destroy(&a);
    a = box_of(1);
    assert_int_equal(kit_run(&a, "rm /workspace/large && sync").status, 0);
    KIT_AWAIT(host_free() + 48 * MIB > before); // it has come back to the machine
    KIT_AWAIT(space().writable > 64 * MIB);
    assert_int_equal(kit_run(&b, "head -c 50M /dev/urandom > /workspace/more && sync").status, 0);
    struct kit_box c = kit_take(&another);
    assert_int_equal(kit_run(&c, "echo x > /workspace/file").status, 0);
    (void)kit_destroy(&a);
    (void)kit_destroy(&b);
    (void)kit_destroy(&c);
    for (uint64_t i = 1; i <= 3; i++)
        drop(i);
}

CHECK_CASE(a_disk_can_be_dropped_when_all_is_full)
{
    start_with_less();
    struct kit_box box = box_of(4);
    KIT_AWAIT((kit_run(&box, "head -c 1G /dev/urandom >> /workspace/large; sync"),
               space().writable < 32 * MIB));
    (void)kit_destroy(&box);
    drop(4);
    KIT_AWAIT(space().writable > 64 * MIB);
}

CHECK_CASE(somebody_else_fills_the_machine)
{
    start();
    struct kit_box box = box_of(5);
    assert_int_equal(kit_run(&box, "echo first > /workspace/file; sync").status, 0);
    (void)shell("head -c 1G /dev/zero > $H/other 2>/dev/null"); // until it is full
    KIT_AWAIT(space().writable == 0);
    assert_int_not_equal(kit_run(&box, "head -c 20M /dev/urandom > /workspace/large").status, 0);
    assert_string_equal(kit_run(&box, "cat /workspace/file").out, "first\n");
    (void)kit_run(&box, "sync; rm -f /workspace/large; sync");
    assert_int_equal(shell("rm $H/other"), 0);
    KIT_AWAIT(space().writable > 64 * MIB);
    assert_string_equal(kit_run(&box, "echo second > /workspace/file && sync").err, "");
    (void)kit_destroy(&box);
    box = box_of(5);
    assert_string_equal(kit_run(&box, "cat /workspace/file").out, "second\n");
    (void)kit_destroy(&box);
    drop(5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(boxes_get_no_more_than_the_machine_has, NULL, case_end),
        cmocka_unit_test_setup_teardown(a_disk_can_be_dropped_when_all_is_full, NULL, case_end),
        cmocka_unit_test_setup_teardown(somebody_else_fills_the_machine, NULL, case_end),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
