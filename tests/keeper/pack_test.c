// SPDX-License-Identifier: Apache-2.0
// cay-pack at work on real disks, by messages: what boxes wrote comes back as it was.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "kit.h"
#include "wire/pack-msg.h"

#define VOLUME (4ull << 30)
#define MIB    (1ull << 20)

static void start(uint32_t boxes)
{
    kit_start(&(struct keeper_config){
        .boxes = boxes, .volume_bytes = VOLUME, .pack = getenv("CAY_PACK")});
    (void)kit_state(); // it is up
}

static struct disk_ref disk_at(enum disk_place place, uint64_t number)
{
    return (struct disk_ref){.place = place, .number = number};
}

static void copy(struct disk_ref from, struct disk_ref to, uint64_t bytes)
{
    struct err err = {0};
    struct keeper_event ev;
    const struct copy_spec spec = {.from = from, .to = to, .bytes = bytes};
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

static int new_file(void)
{
    int fd = memfd_create("pack-test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static off_t rewind_file(int fd)
{
    off_t size = lseek(fd, 0, SEEK_END);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return size;
}

struct done {
    uint16_t type;
    uint32_t code;
    char verdict[PACK_VERDICT_MAX];
};

// The answer, whatever it is.
static void hear_work(struct keeper_event *ret)
{
    struct err err = {0};
    do {
        struct pollfd ready = {.fd = kit_sock(), .events = POLLIN};
        assert_int_equal(poll(&ready, 1, KIT_PATIENCE_MS), 1);
        assert_int_equal(keeper_recv(kit_sock(), ret, 0, &err), 1);
        fd_close(ret->guest);
    } while (ret->msg.head.id != 9);
}

// Runs a work to its end with files for pipes.
static struct done work(enum disk_work what, struct disk_ref disk, const char *const *args, int in,
                        int out)
{
    struct done done = {0};
    struct err err = {0};
    struct keeper_event ev;
    auto_fd verdict = new_file();
    const struct work_spec spec = {
        .disk = disk, .work = what, .image = "host", .args = args, .fds = {in, out, verdict}
    };
    assert_int_equal(keeper_send_disk_work(kit_sock(), 9, &spec, &err), 0);
    hear_work(&ev);
    done.type = ev.msg.head.type;
    if (done.type == KEEPER_ERROR)
        done.code = ev.msg.error.code;
    (void)rewind_file(verdict);
    ssize_t n = fd_read_all(verdict, done.verdict, sizeof done.verdict - 1);
    done.verdict[n > 0 ? n : 0] = '\0';
    return done;
}

static const char *const no_args[] = {NULL};

static void assert_done(const struct done *done)
{
    if (done->type != KEEPER_OK || strncmp(done->verdict, "ok ", 3) != 0)
        fail_msg("type %u, code %u: %s", done->type, done->code, done->verdict);
}

// A disk that a box of the image has written to; nothing of it is in use afterwards.
static void fill_disk(uint64_t number, const char *script)
{
    struct claim kept = kit_claim(DISK_KEPT, number);
    struct kit_box box = kit_take(&kept);
    struct kit_ended ended = kit_run(&box, script);
    if (ended.status != 0)
        fail_msg("%s%s", ended.out, ended.err);
    (void)kit_destroy(&box);
}

static void look_at(uint64_t number, const char *script, char ret[4096])
{
    struct claim kept = kit_claim(DISK_KEPT, number);
    struct kit_box box = kit_take(&kept);
    struct kit_ended ended = kit_run(&box, script);
    (void)snprintf(ret, 4096, "%.3000s%s", ended.out, ended.err);
    (void)kit_destroy(&box);
}

// Everything that a program in the box can see of its own files.
static const char listing[] =
    "cd /; for d in workspace etc home; do find $d -xdev -printf '%p %y %m %U %G %s %n %T@ %l\\n'; "
    "done | sort | sha256sum; find workspace -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum; "
    "python3 -c 'import os\n"
    "for d, ds, fs in sorted(os.walk(\"/workspace\")):\n"
    "  for n in sorted(ds + fs):\n"
    "    p = os.path.join(d, n)\n"
    "    if not os.path.islink(p): print(p, [(k, os.getxattr(p, k)) for k in sorted(os.listxattr(p))])'"
    "; ls /workspace /etc/apt 2>&1; stat -c %i /workspace/hard1 /workspace/hard2 | uniq | wc -l";

static const char writing[] =
    "set -e; cd /workspace; umask 022; mkdir -p deep/er/and/deeper; echo content > deep/er/file; "
    "head -c 3000000 /dev/urandom > large; echo a > hard1; ln hard1 hard2; ln -s deep/er/file link; "
    "mkfifo pipe; truncate -s 50M sparse; echo end >> sparse; chmod 6711 large; "
    "chown 1000:33 deep/er; touch -d '2001-02-03 04:05:06.123456789' deep deep/er/file; "
    "python3 -c 'import os; os.setxattr(\"hard1\", \"user.note\", bytes(range(256))); "
    "os.setxattr(\"deep\", \"user.a=b%41\", b\"\"); "
    "open(b\"bad\\xff\\nname\", \"w\").write(\"x\")'; "
    "rm -rf /etc/hostname /etc/apt; mkdir /etc/apt; echo mine > /etc/apt/mine; "
    "rm -r /home/* /home/.??* 2>/dev/null || true";

CHECK_CASE(disk_comes_back_as_it_was)
{
    char before[4096], after[4096];
    start(2);
    fill_disk(61, writing);
    look_at(61, listing, before);
    auto_fd archive = new_file();
    copy(disk_at(PLACE_KEPT, 61), disk_at(PLACE_SNAPSHOT, 5), 0);
    struct done done = work(WORK_PACK_DISK, disk_at(PLACE_SNAPSHOT, 5), no_args, -1, archive);
    assert_done(&done);
    assert_true(rewind_file(archive) > 3000000);
    // Onto a disk that was another's: nothing of that is left.
    fill_disk(62, "echo old > /workspace/old; rm /etc/passwd");
    copy(disk_at(PLACE_KEPT, 62), disk_at(PLACE_MAKING, 6), 1024 * MIB);
    done = work(WORK_UNPACK_DISK, disk_at(PLACE_MAKING, 6), no_args, archive, -1);
    assert_done(&done);
    move(disk_at(PLACE_MAKING, 6), disk_at(PLACE_KEPT, 62));
    look_at(62, listing, after);
    assert_string_equal(before, after);
    assert_non_null(strstr(after, "/etc/apt:\nmine\n"));
}

CHECK_CASE(tree_comes_back_as_it_was)
{
    static const char *const args[] = {"/workspace", "--threads", "1", NULL};
    static const char *const whole[] = {"/workspace", NULL};
    static const char *const elsewhere[] = {"/srv/made/for/it", NULL};
    char before[4096], after[4096];
    start(2);
    fill_disk(63, writing);
    look_at(63, "cd /workspace; find . -printf '%p %y %m %U %G %s %n %T@ %l\\n' | sort", before);
    auto_fd archive = new_file();
    struct done done = work(WORK_PACK_TREE, disk_at(PLACE_KEPT, 63), args, -1, archive);
    assert_done(&done);
    (void)rewind_file(archive);
    fill_disk(64, "echo old > /workspace/old; echo stays > /root/stays");
    copy(disk_at(PLACE_KEPT, 64), disk_at(PLACE_MAKING, 7), 1024 * MIB);
    done = work(WORK_UNPACK_TREE, disk_at(PLACE_MAKING, 7), whole, archive, -1);
    assert_done(&done);
    (void)rewind_file(archive);
    done = work(WORK_UNPACK_TREE, disk_at(PLACE_MAKING, 7), elsewhere, archive, -1);
    assert_done(&done);
    move(disk_at(PLACE_MAKING, 7), disk_at(PLACE_KEPT, 64));
    look_at(64, "cd /workspace; find . -printf '%p %y %m %U %G %s %n %T@ %l\\n' | sort", after);
    assert_string_equal(before, after);
    look_at(64, "cd /srv/made/for/it; find . -printf '%p %y %m %U %G %s %n %T@ %l\\n' | sort",
            after);
    assert_string_equal(before, after);
    look_at(64, "cat /root/stays; ls -A /srv/made/for", after);
    assert_string_equal(after, "stays\nit\n");
}

CHECK_CASE(disk_that_never_had_a_box)
{
    start(2);
    auto_fd archive = new_file();
    char after[4096];
    copy(disk_at(PLACE_KEPT, 999), disk_at(PLACE_MAKING, 8), 64 * MIB);
    struct done done = work(WORK_PACK_DISK, disk_at(PLACE_MAKING, 8), no_args, -1, archive);
    assert_done(&done);
    (void)rewind_file(archive);
    done = work(WORK_UNPACK_DISK, disk_at(PLACE_MAKING, 8), no_args, archive, -1);
    assert_done(&done);
    move(disk_at(PLACE_MAKING, 8), disk_at(PLACE_KEPT, 998));
    look_at(998, "echo works > /workspace/a; cat /workspace/a", after);
    assert_string_equal(after, "works\n");
    static const char *const args[] = {"/workspace", NULL};
    copy(disk_at(PLACE_KEPT, 997), disk_at(PLACE_MAKING, 9), 64 * MIB);
    (void)rewind_file(archive);
    done = work(WORK_PACK_TREE, disk_at(PLACE_MAKING, 9), args, -1, archive);
    assert_done(&done);
}

CHECK_CASE(what_makes_no_sense_is_refused)
{
    static const struct {
        enum disk_work work;
        enum disk_place place;
        const char *args[4];
    } asks[] = {
        {WORK_PACK_DISK,   PLACE_KEPT,     {"--top", "/"}                    },
        {WORK_PACK_DISK,   PLACE_KEPT,     {"/workspace"}                    },
        {WORK_PACK_DISK,   PLACE_KEPT,     {"--threads"}                     },
        {WORK_PACK_DISK,   PLACE_KEPT,     {"--threads", "-1"}               },
        {WORK_PACK_DISK,   PLACE_KEPT,     {"--gitignore"}                   },
        {WORK_PACK_TREE,   PLACE_KEPT,     {NULL}                            },
        {WORK_PACK_TREE,   PLACE_KEPT,     {"workspace"}                     },
        {WORK_PACK_TREE,   PLACE_KEPT,     {"/workspace/../.."}              },
        {WORK_PACK_TREE,   PLACE_KEPT,     {"/workspace", "--max-bytes", "1"}},
        {WORK_PACK_TREE,   PLACE_KEPT,     {"/workspace", "--top", "/"}      },
        {WORK_UNPACK_DISK, PLACE_KEPT,     {NULL}                            },
        {WORK_UNPACK_DISK, PLACE_SNAPSHOT, {NULL}                            },
        {WORK_UNPACK_TREE, PLACE_KEPT,     {"/workspace"}                    },
        {WORK_UNSYNC,      PLACE_KEPT,     {"/workspace"}                    },
        {WORK_MAX,         PLACE_KEPT,     {NULL}                            },
        {WORK_PACK_DISK,   PLACE_MAX,      {NULL}                            },
    };
    start(2);
    fill_disk(65, "true");
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        struct done done = work(asks[i].work, disk_at(asks[i].place, 65), asks[i].args, -1, -1);
        assert_int_equal(done.type, KEEPER_ERROR);
        assert_int_equal(done.code, ERR_INVALID);
        assert_string_equal(done.verdict, "");
    }
    struct claim kept = kit_claim(DISK_KEPT, 65);
    struct kit_box box = kit_take(&kept);
    struct done done = work(WORK_PACK_DISK, disk_at(PLACE_KEPT, 65), no_args, -1, -1);
    assert_int_equal(done.code, ERR_CONFLICT);
    (void)kit_destroy(&box);
}

static void fail_in_three_ways(void)
{
    static const char *const args[] = {"/workspace", NULL};
    static const char *const missing[] = {"/no/such/place", NULL};
    auto_fd junk = new_file();
    assert_int_equal(fd_write_all(junk, "this is no archive", 18), 0);
    (void)rewind_file(junk);
    struct done done = work(WORK_UNPACK_TREE, disk_at(PLACE_MAKING, 10), args, junk, -1);
    assert_int_equal(done.type, KEEPER_ERROR);
    assert_int_equal(done.code, ERR_INVALID);
    assert_int_equal(strncmp(done.verdict, "failed 1 ", 9), 0);
    done = work(WORK_PACK_TREE, disk_at(PLACE_MAKING, 10), missing, -1, -1);
    assert_int_equal(done.code, ERR_NOT_FOUND);
    done = work(WORK_PACK_DISK, disk_at(PLACE_SNAPSHOT, 12345), no_args, -1, -1);
    assert_int_equal(done.code, ERR_NOT_FOUND);
}

CHECK_CASE(failure_is_told_and_leaves_nothing)
{
    start(2);
    fill_disk(66, "echo old > /workspace/old");
    copy(disk_at(PLACE_KEPT, 66), disk_at(PLACE_MAKING, 10), 64 * MIB);
    fail_in_three_ways(); // what the keeper opens once and keeps, it has now
    unsigned fds = kit_count_fds(), mounts = kit_count_mounts();
    for (int i = 0; i < 25; i++)
        fail_in_three_ways();
    KIT_AWAIT(kit_count_fds() <= fds && kit_count_mounts() <= mounts);
}

// Nobody reads what it writes, so it would wait for ever.
CHECK_CASE(cancelled_work_ends)
{
    int ends[2];
    struct err err = {0};
    struct keeper_event ev;
    start(2);
    fill_disk(67, "head -c 30000000 /dev/urandom > /workspace/large");
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    const struct work_spec spec = {
        .disk = disk_at(PLACE_KEPT, 67),
        .work = WORK_PACK_DISK,
        .args = no_args,
        .fds = {-1, ends[1], -1}
    };
    assert_int_equal(keeper_send_disk_work(kit_sock(), 9, &spec, &err), 0);
    fd_close(ends[1]);
    char first[4];
    assert_int_equal(fd_read_all(ends[0], first, sizeof first), 4); // it is at work
    assert_int_equal(keeper_send_disk_cancel(kit_sock(), 9, &err), 0);
    assert_int_equal(keeper_send_disk_cancel(kit_sock(), 77, &err), 0); // nobody's
    hear_work(&ev);
    assert_int_equal(ev.msg.head.type, KEEPER_ERROR);
    assert_int_equal(ev.msg.error.code, ERR_UNAVAILABLE);
    fd_close(ends[0]);
    assert_int_equal(kit_count_processes("pack-disk"), 0);
}

// More than its disk takes: what is there says so, and the keeper goes on.
CHECK_CASE(full_disk_fails_the_work)
{
    static const char *const args[] = {"/workspace", NULL};
    start(2);
    fill_disk(68, "head -c 40000000 /dev/urandom > /workspace/large");
    auto_fd archive = new_file();
    struct done done = work(WORK_PACK_TREE, disk_at(PLACE_KEPT, 68), args, -1, archive);
    assert_done(&done);
    (void)rewind_file(archive);
    copy(disk_at(PLACE_KEPT, 996), disk_at(PLACE_MAKING, 11), 16 * MIB);
    done = work(WORK_UNPACK_TREE, disk_at(PLACE_MAKING, 11), args, archive, -1);
    assert_int_equal(done.code, ERR_EXHAUSTED);
}

KIT_MAIN(KIT_CASE(disk_comes_back_as_it_was), KIT_CASE(tree_comes_back_as_it_was),
         KIT_CASE(disk_that_never_had_a_box), KIT_CASE(what_makes_no_sense_is_refused),
         KIT_CASE(failure_is_told_and_leaves_nothing), KIT_CASE(cancelled_work_ends),
         KIT_CASE(full_disk_fails_the_work))
