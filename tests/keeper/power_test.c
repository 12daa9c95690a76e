// SPDX-License-Identifier: Apache-2.0
// What is on the machine's disk at a given moment, and so what a power cut would leave: the file of
// the volume, copied and mounted beside it. And how much of it belongs to whom.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "kit.h"

#define MIB (1ull << 20)

static void start(void)
{
    kit_start(&(struct keeper_config){
        .boxes = 2, .volume_bytes = 2048 * MIB, .pack = getenv("CAY_PACK")});
    (void)kit_state();
}

static struct disk_ref at(enum disk_place place, uint64_t number)
{
    return (struct disk_ref){.place = place, .number = number};
}

static void copy(struct disk_ref from, struct disk_ref to)
{
    struct err err = {0};
    struct keeper_event ev;
    const struct copy_spec spec = {
        .from = from, .to = to, .bytes = to.place == PLACE_SNAPSHOT ? 0 : 512 * MIB};
    assert_int_equal(keeper_send_disk_copy(kit_sock(), 7, &spec, &err), 0);
    kit_expect(KEEPER_DISK_DONE, &ev);
}

static void move(struct disk_ref from, struct disk_ref to)
{
    struct err err = {0};
    struct keeper_event ev;
    assert_int_equal(keeper_send_disk_move(kit_sock(), 8, from, to, &err), 0);
    kit_expect(KEEPER_OK, &ev);
}

static uint64_t count(struct disk_ref disk)
{
    struct err err = {0};
    struct keeper_event ev;
    assert_int_equal(keeper_send_disk_count(kit_sock(), 9, disk, &err), 0);
    kit_expect(KEEPER_DISK_DONE, &ev);
    return ev.msg.copied.bytes;
}

static void work(enum disk_work what, struct disk_ref disk, const char *const *args, int in,
                 int out)
{
    struct err err = {0};
    struct keeper_event ev;
    const struct work_spec spec = {
        .disk = disk, .work = what, .image = "host", .args = args, .fds = {in, out, -1}
    };
    assert_int_equal(keeper_send_disk_work(kit_sock(), 9, &spec, &err), 0);
    kit_expect(KEEPER_OK, &ev);
}

static void run_on(uint64_t disk, const char *script, char ret[256])
{
    struct claim claim = kit_claim(DISK_KEPT, disk);
    claim.limits.disk = 512 * MIB;
    struct kit_box box = kit_take(&claim);
    struct kit_ended ended = kit_run(&box, script);
    if (ended.status != 0)
        fail_msg("%s", ended.err);
    (void)snprintf(ret, 256, "%.255s", ended.out);
    (void)kit_destroy(&box);
}

static void shell(const char *line, char ret[256])
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)execl("/bin/sh", "sh", "-c", line, NULL);
        _exit(127);
    }
    fd_close(ends[1]);
    ssize_t n = fd_read_all(ends[0], ret, 255);
    ret[n > 0 ? n : 0] = '\0';
    fd_close(ends[0]);
    (void)waitpid(pid, NULL, 0);
}

// What the script prints in the directory of a kept disk, on the volume as a power cut would have
// left it now.
static void after_power_cut(uint64_t disk, const char *script, char ret[256])
{
    char line[768];
    (void)snprintf(line, sizeof line,
                   "cd %s && cp --sparse=always volume.btrfs cut.btrfs && mkdir -p cut && "
                   "mount -o loop cut.btrfs cut && (cd cut/kept/%llu/up/workspace && %s); "
                   "umount cut; rm -f cut.btrfs",
                   kit_data(), (unsigned long long)disk, script);
    shell(line, ret);
}

static const char sums[] = "find . -type f | sort | xargs sha256sum | sha256sum";
static const char writing[] =
    "cd /workspace; head -c 60000000 /dev/urandom > large; mkdir small; "
    "for i in $(seq 300); do head -c 6000 /dev/urandom > small/$i; done; cd /workspace; "
    "find . -type f | sort | xargs sha256sum | sha256sum";

static const char *const whole[] = {NULL};
static const char *const tree[] = {"/workspace", NULL};

static void restore_and_cut(int is_disk, uint64_t from, uint64_t to)
{
    char before[256], after[256];
    auto_fd archive = memfd_create("archive", MFD_CLOEXEC);
    const char *const *args = is_disk ? whole : tree;
    start();
    run_on(from, writing, before);
    work(is_disk ? WORK_PACK_DISK : WORK_PACK_TREE, at(PLACE_KEPT, from), args, -1, archive);
    assert_int_equal(lseek(archive, 0, SEEK_SET), 0);
    copy(at(PLACE_KEPT, to), at(PLACE_MAKING, to)); // an empty one
    work(is_disk ? WORK_UNPACK_DISK : WORK_UNPACK_TREE, at(PLACE_MAKING, to), args, archive, -1);
    move(at(PLACE_MAKING, to), at(PLACE_KEPT, to));
    after_power_cut(to, sums, after);
    assert_string_equal(before, after);
}

CHECK_CASE(a_disk_that_was_brought_back_is_there_after_a_power_cut)
{
    restore_and_cut(1, 31, 32);
}

CHECK_CASE(a_tree_that_was_brought_back_is_there_after_a_power_cut)
{
    restore_and_cut(0, 33, 34);
}

// --- what a disk holds ---

CHECK_CASE(what_a_disk_holds_is_counted_once_and_whole)
{
    char text[256];
    start();
    copy(at(PLACE_KEPT, 41), at(PLACE_MAKING, 41));
    assert_true(count(at(PLACE_MAKING, 41)) < MIB);
    run_on(41, "head -c 40M /dev/urandom > /workspace/a; sync", text);
    copy(at(PLACE_KEPT, 41), at(PLACE_MAKING, 42));
    assert_in_range(count(at(PLACE_MAKING, 42)), 40 * MIB, 42 * MIB);
    // A second name for the same bytes is nothing new; a block that is left of an extent is all.
    move(at(PLACE_MAKING, 42), at(PLACE_KEPT, 42));
    run_on(42,
           "cd /workspace; cp --reflink=always a b; fallocate -p -o 4096 -l 39M a; "
           "fallocate -p -o 4096 -l 39M b; sync",
           text);
    assert_in_range(count(at(PLACE_KEPT, 42)), 40 * MIB, 42 * MIB);
    run_on(42, "rm /workspace/?; sync", text);
    assert_true(count(at(PLACE_KEPT, 42)) < MIB);
}

KIT_MAIN(KIT_CASE(a_disk_that_was_brought_back_is_there_after_a_power_cut),
         KIT_CASE(a_tree_that_was_brought_back_is_there_after_a_power_cut),
         KIT_CASE(what_a_disk_holds_is_counted_once_and_whole))
