// SPDX-License-Identifier: Apache-2.0
// Against a made-up cgroup file system, so that both versions are tested on every machine, and
// exactly what is written is seen.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/weaken.h"
#include "box/tree.h"
#include "check.h"
#include "fake_cgroup.h"

// clang-format off
#define mkdirat fake_mkdirat
#define unlinkat fake_unlinkat
#define fchownat fake_fchownat
#define fd_write_file fake_write
#include "box/cgroup.c"
#undef mkdirat
#undef unlinkat
#undef fchownat
#undef fd_write_file
// clang-format on

// -- setting it up

static int fake_start(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof fake);
    fake.open_before = check_fds();
    (void)snprintf(fake.top, sizeof fake.top, "/tmp/cgroup_test.XXXXXX");
    assert_non_null(mkdtemp(fake.top));
    static const char *const roots[] = {"unified", "memory", "pids", "cpu"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(mkdir(full(roots[i]).text, 0755), 0);
        put(join(roots[i], "cgroup.procs").text, "1\n");
    }
    put("unified/cgroup.subtree_control", "");
    put("unified/cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma misc\n");
    return 0;
}

static int fake_end(void **state)
{
    (void)state;
    auto_fd tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(tree_remove(tmp, fake.top + strlen("/tmp/")), 0);
    fd_close(TAKE_FD(tmp));
    assert_int_equal(check_fds(), fake.open_before);
    return 0;
}

static int open_root(const char *name)
{
    int fd = open(full(name).text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static int try_v2(struct cgroups **ret, struct err *err)
{
    int unified = open_root("unified");
    const int control[CGROUP_CONTROL_MAX] = {unified, unified, unified};
    return cgroups_open_at(unified, control, ret, err);
}

static struct cgroups *open_v2(void)
{
    struct cgroups *c = NULL;
    struct err err = {0};
    assert_int_equal(try_v2(&c, &err), 0);
    assert_true(cgroups_is_v2(c));
    fake.log[0] = '\0';
    return c;
}

static int try_v1(struct cgroups **ret, struct err *err)
{
    const int control[CGROUP_CONTROL_MAX] = {
        [CGROUP_MEMORY] = open_root("memory"),
        [CGROUP_PIDS] = open_root("pids"),
        [CGROUP_CPU] = open_root("cpu"),
    };
    return cgroups_open_at(open_root("unified"), control, ret, err);
}

static struct cgroups *open_v1(void)
{
    struct cgroups *c = NULL;
    struct err err = {0};
    put("unified/cgroup.controllers", "hugetlb\n");
    assert_int_equal(try_v1(&c, &err), 0);
    assert_false(cgroups_is_v2(c));
    return c;
}

static const struct box_limits half = {.memory = 512u << 20, .pids = 64, .cpu_milli = 500};

static void make(struct cgroups *c, uint32_t slot)
{
    struct err err = {0};
    assert_int_equal(cgroups_make(c, slot, 70000, &half, &err), 0);
    fake.log[0] = '\0';
}

static const char *const v1_dirs[] = {"unified/cay/7", "memory/cay/7", "pids/cay/7", "cpu/cay/7"};

// -- version 2

CHECK_CASE(v2_hands_the_controllers_down_twice)
{
    struct cgroups *c = NULL;
    struct err err = {0};
    assert_int_equal(try_v2(&c, &err), 0);
    assert_int_equal(err.code, ERR_NONE);
    wrote("unified/cgroup.subtree_control +memory\nunified/cay/cgroup.subtree_control +memory\n"
          "unified/cgroup.subtree_control +pids\nunified/cay/cgroup.subtree_control +pids\n"
          "unified/cgroup.subtree_control +cpu\nunified/cay/cgroup.subtree_control +cpu\n");
    cgroups_free(c);
    // A second keeper finds it there.
    assert_int_equal(try_v2(&c, &err), 0);
    cgroups_free(c);
    cgroups_free(NULL);
}

CHECK_CASE(v2_with_a_controller_missing)
{
    static const struct {
        const char *have, *missing;
    } rows[] = {
        {"cpuset cpu io hugetlb pids\n",    "memory"},
        {"cpuset cpu io memory\n",          "pids"  },
        {"cpuset io memory pids cpuacct\n", "cpu"   },
        {"cpu memorypids pids\n",           "memory"},
        {"xmemory memoryx cpu pids\n",      "memory"},
        {"memory pids\n",                   "cpu"   },
        {"memory pids cp",                  "cpu"   },
        {"\n",                              "memory"},
        {"",                                "memory"},
        {"misc\nmemory pids cpu\n",         "memory"}, // only the first line is the list
        {NULL,                              "memory"}, // no such file: not a cgroup2 at all
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct cgroups *c = NULL;
        struct err err = {0};
        if (rows[i].have != NULL)
            put("unified/cgroup.controllers", rows[i].have);
        else
            assert_int_equal(unlink(full("unified/cgroup.controllers").text), 0);
        assert_int_equal(try_v2(&c, &err), -1);
        assert_null(c);
        assert_int_equal(err.code, ERR_UNSUPPORTED);
        assert_non_null(strstr(err.msg, text("'%s'", rows[i].missing).text));
        assert_non_null(strstr(err.msg, text("cgroup_enable=%s", rows[i].missing).text));
        assert_int_equal(check_fds(), fake.open_before); // the roots were taken all the same
    }
}

CHECK_CASE(v2_with_the_list_in_any_order)
{
    static const char *const lists[] = {"memory pids cpu", "cpu memory pids\n",
                                        "pids cpu io memory\n"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct cgroups *c = NULL;
        struct err err = {0};
        put("unified/cgroup.controllers", lists[i]);
        assert_int_equal(try_v2(&c, &err), 0);
        cgroups_free(c);
    }
}

// Processes in the parent, for example, when Cay runs in a container.
CHECK_CASE(v2_that_refuses_to_hand_down)
{
    static const char *const files[] = {"unified/cgroup.subtree_control",
                                        "unified/cay/cgroup.subtree_control"};
    for (int i = 0; i < 2; i++) {
        struct cgroups *c = NULL;
        struct err err = {0};
        fake.refuse_path = files[i];
        fake.refuse_errno = EBUSY;
        assert_int_equal(try_v2(&c, &err), -1);
        assert_null(c);
        assert_int_equal(err.sys_errno, EBUSY);
        assert_non_null(strstr(err.msg, "'memory'"));
        assert_int_equal(check_fds(), fake.open_before);
    }
}

CHECK_CASE(a_link_in_place_of_our_directory)
{
    struct cgroups *c = NULL;
    struct err err = {0};
    assert_int_equal(symlink("/tmp", full("unified/cay").text), 0);
    assert_int_equal(try_v2(&c, &err), -1);
    assert_non_null(strstr(err.msg, "'cay'"));
    assert_int_equal(unlink(full("unified/cay").text), 0);
    assert_int_equal(symlink("/tmp", full("cpu/cay").text), 0);
    assert_int_equal(try_v1(&c, &err), -1);
    assert_null(c);
    assert_int_equal(check_fds(), fake.open_before);
}

CHECK_CASE(v2_box)
{
    struct cgroups *c = open_v2();
    struct err err = {0};
    assert_int_equal(cgroups_make(c, 7, 70000, &half, &err), 0);
    wrote("unified/cay/7 owner 70000 70000\n"
          "unified/cay/7/cgroup.procs owner 70000 70000\n"
          "unified/cay/7/memory.max 536870912\n"
          "unified/cay/7/memory.swap.max 0\n"
          "unified/cay/7/pids.max 64\n"
          "unified/cay/7/cpu.max 50000 100000\n");
    assert_int_equal(cgroups_join(c, 7, 4711, &err), 0);
    wrote("unified/cay/7/cgroup.procs 4711\n");
    cgroups_kill(c, 7);
    wrote("unified/cay/7/cgroup.kill 1\n");
    assert_false(exists("memory/cay")); // nothing of version 1 is touched
    assert_int_equal(cgroups_remove(c, 7), 0);
    assert_false(exists("unified/cay/7"));
    cgroups_free(c);
}

CHECK_CASE(v2_limits_from_least_to_most)
{
    struct cgroups *c = open_v2();
    struct err err = {0};
    make(c, 4095);
    const struct box_limits least = {.memory = 4u << 20, .pids = 2, .cpu_milli = 10};
    assert_int_equal(cgroups_limit(c, 4095, &least, &err), 0);
    wrote("unified/cay/4095/memory.max 4194304\n"
          "unified/cay/4095/memory.swap.max 0\n"
          "unified/cay/4095/pids.max 2\n"
          "unified/cay/4095/cpu.max 1000 100000\n");
    const struct box_limits most = {.memory = 1ull << 46, .pids = 4194304, .cpu_milli = 1024000};
    assert_int_equal(cgroups_limit(c, 4095, &most, &err), 0);
    wrote("unified/cay/4095/memory.max 70368744177664\n"
          "unified/cay/4095/memory.swap.max 0\n"
          "unified/cay/4095/pids.max 4194304\n"
          "unified/cay/4095/cpu.max 102400000 100000\n");
    assert_int_equal(cgroups_limit(c, 5, &half, &err), -1); // there is no such box
    assert_int_equal(err.sys_errno, ENOENT);
    wrote("");
    cgroups_free(c);
}

CHECK_CASE(v2_without_swap)
{
    struct cgroups *c = open_v2();
    struct err err = {0};
    make(c, 7);
    assert_int_equal(unlink(full("unified/cay/7/memory.swap.max").text), 0);
    assert_int_equal(cgroups_limit(c, 7, &half, &err), 0);
    wrote("unified/cay/7/memory.max 536870912\n"
          "unified/cay/7/pids.max 64\n"
          "unified/cay/7/cpu.max 50000 100000\n");
    cgroups_free(c);
}

// A box whose limits cannot be set does not come to be.
CHECK_CASE(v2_limit_that_cannot_be_set)
{
    static const char *const files[] = {"unified/cay/7/memory.max", "unified/cay/7/memory.swap.max",
                                        "unified/cay/7/pids.max", "unified/cay/7/cpu.max"};
    struct cgroups *c = open_v2();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct err err = {0};
        fake.refuse_path = files[i];
        fake.refuse_errno = EIO;
        assert_int_equal(cgroups_make(c, 7, 70000, &half, &err), -1);
        assert_int_equal(err.sys_errno, EIO);
        assert_false(exists("unified/cay/7"));
    }
    cgroups_free(c);
}

// Somebody took a controller away meanwhile: its files are missing, and that is not overlooked.
CHECK_CASE(v2_controller_taken_away)
{
    static const char *const handed[] = {"pids cpu", "memory cpu", "memory pids", ""};
    struct cgroups *c = open_v2();
    for (size_t i = 0; i < sizeof handed / sizeof *handed; i++) {
        struct err err = {0};
        put("unified/cay/cgroup.subtree_control", handed[i]);
        assert_int_equal(cgroups_make(c, 7, 70000, &half, &err), -1);
        assert_int_equal(err.sys_errno, ENOENT);
        assert_false(exists("unified/cay/7"));
    }
    cgroups_free(c);
}

// -- version 1

CHECK_CASE(v1_box)
{
    struct cgroups *c = open_v1();
    struct err err = {0};
    wrote(""); // nothing to hand down
    assert_int_equal(cgroups_make(c, 7, 70000, &half, &err), 0);
    wrote("unified/cay/7 owner 70000 70000\n"
          "unified/cay/7/cgroup.procs owner 70000 70000\n"
          "memory/cay/7/memory.limit_in_bytes 536870912\n"
          "memory/cay/7/memory.memsw.limit_in_bytes 536870912\n"
          "pids/cay/7/pids.max 64\n"
          "cpu/cay/7/cpu.cfs_quota_us 50000\n");
    assert_int_equal(cgroups_join(c, 7, 4711, &err), 0);
    wrote("unified/cay/7/cgroup.procs 4711\n"
          "memory/cay/7/cgroup.procs 4711\n"
          "pids/cay/7/cgroup.procs 4711\n"
          "cpu/cay/7/cgroup.procs 4711\n");
    cgroups_kill(c, 7);
    wrote("unified/cay/7/cgroup.kill 1\n");
    cgroups_free(c);
}

CHECK_CASE(v1_memory_up_and_down)
{
    static const uint64_t steps[] = {4u << 20, 1u << 30, 1ull << 46, 512u << 20, 512u << 20};
    struct cgroups *c = open_v1();
    make(c, 7);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct err err = {0};
        struct box_limits l = half;
        struct path want = text("%" PRIu64, steps[i]);
        l.memory = steps[i];
        assert_int_equal(cgroups_limit(c, 7, &l, &err), 0);
        assert_string_equal(get("memory/cay/7/memory.limit_in_bytes").text, want.text);
        assert_string_equal(get("memory/cay/7/memory.memsw.limit_in_bytes").text, want.text);
    }
    cgroups_free(c);
}

CHECK_CASE(v1_without_swap)
{
    struct cgroups *c = open_v1();
    struct err err = {0};
    make(c, 7);
    assert_int_equal(unlink(full("memory/cay/7/memory.memsw.limit_in_bytes").text), 0);
    assert_int_equal(cgroups_limit(c, 7, &half, &err), 0);
    wrote("memory/cay/7/memory.limit_in_bytes 536870912\n"
          "pids/cay/7/pids.max 64\n"
          "cpu/cay/7/cpu.cfs_quota_us 50000\n");
    cgroups_free(c);
}

CHECK_CASE(v1_limit_that_cannot_be_set)
{
    static const char *const files[] = {
        "memory/cay/7/memory.limit_in_bytes",
        "memory/cay/7/memory.memsw.limit_in_bytes",
        "pids/cay/7/pids.max",
        "cpu/cay/7/cpu.cfs_quota_us",
    };
    struct cgroups *c = open_v1();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct err err = {0};
        fake.refuse_path = files[i];
        fake.refuse_errno = i % 2 == 0 ? EINVAL : EBUSY;
        assert_int_equal(cgroups_make(c, 7, 70000, &half, &err), -1);
        assert_int_equal(err.sys_errno, fake.refuse_errno);
        for (int j = 0; j < 4; j++)
            assert_false(exists(v1_dirs[j]));
    }
    cgroups_free(c);
}

CHECK_CASE(join_that_is_refused)
{
    struct cgroups *c = open_v1();
    make(c, 7);
    for (int i = 0; i < 4; i++) {
        struct err err = {0};
        struct path procs = join(v1_dirs[i], "cgroup.procs");
        fake.refuse_path = procs.text;
        fake.refuse_errno = ESRCH;
        assert_int_equal(cgroups_join(c, 7, 4711, &err), -1);
        assert_int_equal(err.sys_errno, ESRCH);
    }
    cgroups_free(c);
}

// -- counters

CHECK_CASE(v2_stats)
{
    struct cgroups *c = open_v2();
    struct cgroup_stats stats;
    make(c, 7);
    cgroups_stats(c, 7, &stats);
    assert_true(stats.memory_peak == 0 && stats.oom_kills == 0);
    put("unified/cay/7/memory.peak", "70368744177664\n");
    put("unified/cay/7/memory.events",
        "low 1\nhigh 2\nmax 31\noom 4\noom_kill 5\noom_group_kill 6\n");
    cgroups_stats(c, 7, &stats);
    assert_true(stats.memory_peak == 1ull << 46);
    assert_int_equal(stats.oom_kills, 5); // not `oom`, not `oom_group_kill`
    put("unified/cay/7/memory.events", "low 1\noom 4\noom_group_kill 6\n");
    assert_int_equal(unlink(full("unified/cay/7/memory.peak").text), 0); // before Linux 5.19
    cgroups_stats(c, 7, &stats);
    assert_true(stats.memory_peak == 0 && stats.oom_kills == 0);
    memset(&stats, 0xff, sizeof stats);
    cgroups_stats(c, 8, &stats); // no such box
    assert_true(stats.memory_peak == 0 && stats.oom_kills == 0);
    cgroups_free(c);
}

CHECK_CASE(v1_stats)
{
    struct cgroups *c = open_v1();
    struct cgroup_stats stats;
    make(c, 7);
    put("memory/cay/7/memory.max_usage_in_bytes", "12345678901\n");
    put("memory/cay/7/memory.oom_control",
        "oom_kill_disable 1\nunder_oom 2\noom_kill 4294967295\n");
    cgroups_stats(c, 7, &stats);
    assert_true(stats.memory_peak == 12345678901);
    assert_true(stats.oom_kills == UINT32_MAX);
    put("memory/cay/7/memory.oom_control",
        "oom_kill_disable 1\nunder_oom 2\n"); // before Linux 4.13
    cgroups_stats(c, 7, &stats);
    assert_int_equal(stats.oom_kills, 0);
    cgroups_free(c);
}

static void reads(int fd, const char *want)
{
    char got[128];
    ssize_t n = pread(fd, got, sizeof got - 1, 0);
    assert_true(n >= 0);
    got[n] = '\0';
    assert_string_equal(got, want);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    fd_close(fd);
}

CHECK_CASE(gauges_of_both_versions)
{
    for (int v2 = 0; v2 < 2; v2++) {
        struct cgroups *c = v2 ? open_v2() : open_v1();
        const char *memory = v2 ? "unified/cay/7/memory.events" : "memory/cay/7/memory.oom_control";
        const char *pids = v2 ? "unified/cay/7/pids.events" : "pids/cay/7/pids.events";
        struct cgroup_gauges gauges = {-9, -9};
        struct err err = {0};
        make(c, 7);
        put(memory, "oom_kill 3\n");
        put(pids, "max 9\n");
        assert_int_equal(cgroups_gauges(c, 7, &gauges, &err), 0);
        reads(gauges.memory, "oom_kill 3\n");
        reads(gauges.pids, "max 9\n");
        int before = check_fds();
        gauges = (struct cgroup_gauges){-9, -9};
        assert_int_equal(unlink(full(pids).text), 0);
        assert_int_equal(cgroups_gauges(c, 7, &gauges, &err), -1);
        assert_int_equal(err.sys_errno, ENOENT);
        put(pids, "max 9\n");
        assert_int_equal(unlink(full(memory).text), 0);
        assert_int_equal(cgroups_gauges(c, 7, &gauges, &err), -1);
        assert_true(gauges.memory == -9 && gauges.pids == -9);
        assert_int_equal(check_fds(), before);
        cgroups_free(c);
        assert_int_equal(fake_end(NULL), 0);
        assert_int_equal(fake_start(NULL), 0);
    }
}

CHECK_CASE(directory_of_a_box)
{
    struct cgroups *c = open_v1();
    struct err err = {0};
    make(c, 7);
    int fd = cgroups_open_dir(c, 7, &err);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_string_equal(path_at(fd, "x").text, "unified/cay/7/x");
    fd_close(fd);
    assert_int_equal(cgroups_open_dir(c, 8, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    cgroups_free(c);
}

// -- the end of a box

// As the guest makes them, one for each exec.
static void make_exec(struct cgroups *c, uint32_t slot, unsigned i)
{
    assert_int_equal(fake_mkdirat(c->unified, text("%u/e%u", slot, i).text, 0755), 0);
}

CHECK_CASE(removing_with_the_directories_of_execs)
{
    static const unsigned counts[] = {0, 1, 2, 12};
    for (int v2 = 0; v2 < 2; v2++) {
        struct cgroups *c = v2 ? open_v2() : open_v1();
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            make(c, 7);
            make(c, 70);
            for (unsigned e = 0; e < counts[i]; e++)
                make_exec(c, 7, e);
            make_exec(c, 70, 0);
            assert_int_equal(cgroups_remove(c, 7), 0);
            for (int j = 0; j < 4; j++)
                assert_false(exists(v1_dirs[j]));
            assert_true(exists("unified/cay/70/e0"));  // its neighbour's are left alone
            assert_int_equal(cgroups_remove(c, 7), 0); // nothing is left to do
            assert_int_equal(cgroups_remove(c, 70), 0);
        }
        cgroups_free(c);
        assert_int_equal(fake_end(NULL), 0);
        assert_int_equal(fake_start(NULL), 0);
    }
}

// An exec's directory is replaced after a kill, and a guest may end between the two steps.
CHECK_CASE(removing_across_a_gap)
{
    struct cgroups *c = open_v2();
    make(c, 7);
    make_exec(c, 7, 1);
    make_exec(c, 7, 3);
    assert_int_equal(cgroups_remove(c, 7), 0);
    assert_false(exists("unified/cay/7"));
    cgroups_free(c);
}

CHECK_CASE(removing_while_somebody_is_inside)
{
    struct cgroups *c = open_v1();
    make(c, 7);
    make_exec(c, 7, 0);
    put("unified/cay/7/e0/cgroup.procs", "99\n");
    assert_int_equal(cgroups_remove(c, 7), -EBUSY);
    put("unified/cay/7/e0/cgroup.procs", "");
    put("unified/cay/7/cgroup.procs", "99\n");
    assert_int_equal(cgroups_remove(c, 7), -EBUSY);
    put("unified/cay/7/cgroup.procs", "");
    assert_int_equal(cgroups_remove(c, 7), 0);
    make(c, 7);
    put("pids/cay/7/cgroup.procs", "99\n");
    assert_int_equal(cgroups_remove(c, 7), -EBUSY);
    assert_true(exists("pids/cay/7"));
    assert_false(exists("unified/cay/7")); // what can go does
    assert_false(exists("memory/cay/7"));
    assert_false(exists("cpu/cay/7"));
    put("pids/cay/7/cgroup.procs", "");
    assert_int_equal(cgroups_remove(c, 7), 0);
    for (int i = 0; i < 4; i++)
        assert_false(exists(v1_dirs[i]));
    cgroups_free(c);
}

CHECK_CASE(v2_stale_box_goes_first)
{
    struct cgroups *c = open_v2();
    struct err err = {0};
    make(c, 7);
    make_exec(c, 7, 0);
    make_exec(c, 7, 1);
    put("unified/cay/7/e1/cgroup.procs", "99\n"); // and somebody lives on in it
    put("unified/cay/7/memory.events", "low 0\noom_kill 8\n");
    assert_int_equal(cgroups_make(c, 7, 80000, &half, &err), 0);
    wrote("unified/cay/7/cgroup.kill 1\n"
          "unified/cay/7 owner 80000 80000\n"
          "unified/cay/7/cgroup.procs owner 80000 80000\n"
          "unified/cay/7/memory.max 536870912\n"
          "unified/cay/7/memory.swap.max 0\n"
          "unified/cay/7/pids.max 64\n"
          "unified/cay/7/cpu.max 50000 100000\n");
    assert_false(exists("unified/cay/7/e0"));
    struct cgroup_stats stats;
    cgroups_stats(c, 7, &stats);
    assert_int_equal(stats.oom_kills, 0); // counters begin anew
    cgroups_free(c);
}

// Whichever of the four a crash has left.
CHECK_CASE(v1_stale_box_goes_first)
{
    struct cgroups *c = open_v1();
    for (int left = 1; left < 16; left++) {
        struct err err = {0};
        make(c, 7);
        for (int i = 0; i < 4; i++) {
            auto_fd top = open(fake.top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            if (!(left >> i & 1))
                assert_int_equal(fake_unlinkat(top, v1_dirs[i], AT_REMOVEDIR), 0);
        }
        assert_int_equal(cgroups_make(c, 7, 70000, &half, &err), 0);
        for (int i = 0; i < 4; i++)
            assert_true(exists(v1_dirs[i]));
        assert_int_equal(cgroups_remove(c, 7), 0);
        fake.log[0] = '\0';
    }
    cgroups_free(c);
}

static int compare_slots(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

CHECK_CASE(listing)
{
    uint32_t slots[16];
    struct cgroups *c = open_v2();
    assert_int_equal(cgroups_list(c, slots, 16), 0);
    make(c, 4095);
    make(c, 0);
    make(c, 17);
    static const char *const others[] = {"x", "7x", "x7", "4294967296", "99999999999999999999999"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(fake_mkdirat(c->unified, others[i], 0755), 0);
    put("unified/cay/12", "a file");
    unsigned n = cgroups_list(c, slots, 16);
    assert_int_equal(n, 3);
    qsort(slots, n, sizeof *slots, compare_slots);
    assert_int_equal(slots[0], 0);
    assert_int_equal(slots[1], 17);
    assert_int_equal(slots[2], 4095);
    slots[2] = 111;
    assert_int_equal(cgroups_list(c, slots, 2), 2);
    assert_int_equal(slots[2], 111); // nothing behind the end
    assert_int_equal(cgroups_list(c, slots, 0), 0);
    cgroups_free(c);
}

// In version 1 a crash may have left a directory in one hierarchy only.
CHECK_CASE(listing_of_every_hierarchy)
{
    uint32_t slots[8];
    struct cgroups *c = open_v1();
    assert_int_equal(fake_mkdirat(c->control[CGROUP_CPU], "31", 0755), 0);
    assert_int_equal(cgroups_list(c, slots, 8), 1);
    assert_int_equal(slots[0], 31);
    make(c, 5);
    assert_int_equal(cgroups_list(c, slots, 8), 5);
    for (unsigned max = 0; max < 5; max++) {
        slots[max] = 111;
        assert_int_equal(cgroups_list(c, slots, max), max);
        assert_int_equal(slots[max], 111);
    }
    cgroups_free(c);
}

// -- finding the hierarchies

CHECK_CASE(which_version_a_controller_is_in)
{
    static const char v1[] = "12:cpu,cpuacct:/a\n5:cpuset:/memory\n4:memory:/x:y\n3:pids:/\n"
                             "1:name=systemd:/\n0::/init.scope\n";
    static const char v2[] = "0::/user.slice/memory,cpu:memory:/pids\n";
    for (int i = 0; i < CGROUP_CONTROL_MAX; i++) {
        assert_true(is_in_v1(v1, control_names[i]));
        assert_false(is_in_v1(v2, control_names[i]));
    }
    assert_false(is_in_v1("5:cpuset:/cpu\n3:cpuacct:/\n", "cpu"));
    assert_false(is_in_v1("", "cpu"));
    assert_false(is_in_v1("cpu", "cpu"));
    assert_false(is_in_v1("1:cpu", "cpu")); // cut off
    assert_true(is_in_v1("1:cpu:", "cpu"));
    assert_true(is_in_v1("2:net\n1:a,cpu:/", "cpu"));
}

// The mount of `type` that a made-up machine has, as the path below fake.top, or "-ERRNO".
static struct path found(const char *mountinfo, const char *type, const char *controller)
{
    int fd = find_mount(mountinfo, type, controller);
    if (fd < 0)
        return text("%d", fd);
    struct path path = path_at(fd, "");
    path.text[strlen(path.text) - 1] = '\0';
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    fd_close(fd);
    return path;
}

static struct path mount_line(const char *where, const char *tail)
{
    return text("35 24 0:30 / %s/%s rw,nosuid,relatime shared:9 master:1 - %s\n", fake.top, where,
                tail);
}

CHECK_CASE(mounts_of_a_machine_with_version_2_only)
{
    struct path none = text("%d", -ENOENT);
    struct path info =
        text("%s%s%s%s", "22 1 8:1 / / rw,relatime - ext4 /dev/cgroup2 rw,memory,cpu\n",
             mount_line("memory", "tmpfs cgroup2 rw,cpu").text, // a name, not a type
             mount_line("pids", "cgroup2x cgroup2 rw").text,
             mount_line("unified", "cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot").text);
    assert_string_equal(found(info.text, "cgroup2", NULL).text, "unified");
    assert_string_equal(found(info.text, "cgroup", "memory").text, none.text);
    assert_string_equal(found("", "cgroup2", NULL).text, none.text);
    assert_string_equal(found("35 24 0:30 / /tmp rw", "cgroup2", NULL).text, none.text);
    assert_string_equal(found("- cgroup2 - cgroup2 x\n", "cgroup2", NULL).text, none.text);
    assert_string_equal(found(" - cgroup2", "cgroup2", NULL).text, none.text);
}

CHECK_CASE(mounts_of_a_machine_with_version_1)
{
    struct path none = text("%d", -ENOENT);
    struct path info = text("%s%s%s%s%s", mount_line("gone", "cgroup cgroup rw,pids").text,
                            mount_line("unified", "cgroup2 cgroup2 rw").text,
                            mount_line("cpu", "cgroup cgroup rw,cpu,cpuacct").text,
                            mount_line("memory", "cgroup cgroup rw,memory").text,
                            mount_line("pids", "cgroup cgroup rw,pids").text);
    assert_string_equal(found(info.text, "cgroup", "cpu").text, "cpu");
    assert_string_equal(found(info.text, "cgroup", "cpuacct").text, "cpu");
    assert_string_equal(found(info.text, "cgroup", "memory").text, "memory");
    assert_string_equal(found(info.text, "cgroup", "pids").text,
                        "pids"); // the first cannot be opened
    assert_string_equal(found(info.text, "cgroup", "cpuset").text, none.text);
    assert_string_equal(found(info.text, "cgroup2", NULL).text, "unified");
    // A place with a space in its name is written with an escape, and is not taken.
    info = mount_line("a\\040b", "cgroup2 cgroup2 rw");
    assert_string_equal(found(info.text, "cgroup2", NULL).text, none.text);
}

CHECK_CASE(controls_of_a_machine)
{
    int control[CGROUP_CONTROL_MAX];
    struct err err = {0};
    struct path info = text("%s%s%s%s", mount_line("unified", "cgroup2 cgroup2 rw").text,
                            mount_line("cpu", "cgroup cgroup rw,cpu,cpuacct").text,
                            mount_line("memory", "cgroup cgroup rw,memory").text,
                            mount_line("pids", "cgroup cgroup rw,pids").text);
    assert_int_equal(open_controls(info.text, "0::/\n", 99, control, &err), 0);
    for (int i = 0; i < CGROUP_CONTROL_MAX; i++)
        assert_int_equal(control[i], 99);
    assert_int_equal(
        open_controls(info.text, "3:memory:/\n2:cpu:/\n1:pids:/\n0::/\n", 99, control, &err), 0);
    assert_string_equal(path_at(control[CGROUP_MEMORY], "x").text, "memory/x");
    assert_string_equal(path_at(control[CGROUP_PIDS], "x").text, "pids/x");
    assert_string_equal(path_at(control[CGROUP_CPU], "x").text, "cpu/x");
    for (int i = 0; i < CGROUP_CONTROL_MAX; i++)
        fd_close(control[i]);
    // Mixed: named, and nothing left open.
    static const struct {
        const char *text, *other;
    } mixed[] = {
        {"3:memory:/\n1:pids:/\n0::/\n", "cpu" },
        {"3:memory:/\n1:cpu:/\n0::/\n",  "pids"},
        {"3:pids:/\n0::/\n",             "pids"},
        {"3:cpu,cpuacct:/\n0::/\n",      "cpu" },
    };
    for (size_t i = 0; i < sizeof mixed / sizeof *mixed; i++) {
        assert_int_equal(open_controls(info.text, mixed[i].text, 99, control, &err), -1);
        assert_int_equal(err.code, ERR_UNSUPPORTED);
        assert_non_null(strstr(err.msg, text("memory and %s ", mixed[i].other).text));
        assert_int_equal(check_fds(), fake.open_before);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fake_start, fake_end)

CHECK_MAIN(CASE(v2_hands_the_controllers_down_twice), CASE(v2_with_a_controller_missing),
           CASE(v2_with_the_list_in_any_order), CASE(v2_that_refuses_to_hand_down),
           CASE(a_link_in_place_of_our_directory), CASE(v2_box), CASE(v2_limits_from_least_to_most),
           CASE(v2_without_swap), CASE(v2_limit_that_cannot_be_set), CASE(v2_controller_taken_away),
           CASE(v1_box), CASE(v1_memory_up_and_down), CASE(v1_without_swap),
           CASE(v1_limit_that_cannot_be_set), CASE(join_that_is_refused), CASE(v2_stats),
           CASE(v1_stats), CASE(gauges_of_both_versions), CASE(directory_of_a_box),
           CASE(removing_with_the_directories_of_execs), CASE(removing_across_a_gap),
           CASE(removing_while_somebody_is_inside), CASE(v2_stale_box_goes_first),
           CASE(v1_stale_box_goes_first), CASE(listing), CASE(listing_of_every_hierarchy),
           CASE(which_version_a_controller_is_in), CASE(mounts_of_a_machine_with_version_2_only),
           CASE(mounts_of_a_machine_with_version_1), CASE(controls_of_a_machine))
