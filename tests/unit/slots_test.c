// SPDX-License-Identifier: Apache-2.0
// In a /run of its own: the machine's boxes shall not notice.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "box/slots.h"
#include "check.h"

static char no_place[128]; // why there is none, if so

static int enter_place(void **state)
{
    (void)state;
    const char *step = NULL;
    if (geteuid() != 0)
        step = "not root";
    else if (unshare(CLONE_NEWNS) < 0)
        step = "no mount namespace";
    else if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
             mount("slots_test", "/run", "tmpfs", 0, "mode=0755") < 0)
        step = "no file system for /run";
    if (step != NULL)
        (void)snprintf(no_place, sizeof no_place, "%s (%s)", step, strerrordesc_np(errno));
    return 0;
}

static int in_place(void)
{
    if (no_place[0] == '\0')
        return 1;
    print_message("slots cannot be tested: %s\n", no_place);
    return 0;
}

static void take(uint32_t n, struct slots *ret)
{
    struct err err = {0};
    assert_int_equal(slots_take(n, ret, &err), 0);
    assert_int_equal(ret->n, n);
    assert_true(ret->first + ret->n <= SLOTS_TOTAL);
}

// A child that takes slots the same way and keeps them until it is told to end.
struct taker {
    pid_t pid;
    int until;
    struct slots slots; // what it says that it has; lock_fd -1
};

static struct taker taker_start(uint32_t n)
{
    int told[2], until[2];
    assert_int_equal(pipe2(told, O_CLOEXEC), 0);
    assert_int_equal(pipe2(until, O_CLOEXEC), 0);
    (void)fflush(NULL);
    struct taker t = {.pid = fork(), .until = until[1]};
    if (t.pid == 0) {
        struct err err;
        (void)alarm(20); // so that a failed test ends
        char c;
        fd_close(until[1]);
        if (slots_take(n, &t.slots, &err) < 0)
            _exit(1);
        t.slots.lock_fd = -1;
        if (fd_write_all(told[1], &t.slots, sizeof t.slots) < 0)
            _exit(2);
        (void)fd_read_all(until[0], &c, 1);
        _exit(0);
    }
    fd_close(until[0]);
    fd_close(told[1]);
    assert_int_equal(fd_read_all(told[0], &t.slots, sizeof t.slots), sizeof t.slots);
    fd_close(told[0]);
    return t;
}

static void taker_end(struct taker *t, int sig)
{
    int status;
    if (sig != 0)
        assert_int_equal(kill(t->pid, sig), 0);
    else
        assert_int_equal(fd_write_all(t->until, "", 1), 0);
    fd_close(t->until);
    assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
    assert_int_equal(WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status), sig);
}

static int overlap(const struct slots *a, const struct slots *b)
{
    return a->first < b->first + b->n && b->first < a->first + a->n;
}

CHECK_CASE(takers_never_overlap)
{
    enum { TAKERS = 12 };
    if (!in_place())
        skip();
    static const uint32_t sizes[TAKERS] = {2, 3, 64, 1000, 7, 65, 500, 2, 129, 333, 11, 2};
    struct slots all[TAKERS];
    struct taker children[TAKERS];
    unsigned n_children = 0;
    for (unsigned i = 0; i < TAKERS; i++) {
        if (i % 2 == 0) {
            take(sizes[i], &all[i]);
        } else { // another process, whose first guess is another one too
            children[n_children] = taker_start(sizes[i]);
            all[i] = children[n_children++].slots;
        }
        for (unsigned j = 0; j < i; j++)
            assert_false(overlap(&all[i], &all[j]));
    }
    for (unsigned i = 0; i < TAKERS; i += 2)
        slots_done(&all[i]);
    for (unsigned i = 0; i < n_children; i++)
        taker_end(&children[i], 0);
}

CHECK_CASE(all_slots_run_out_and_come_back)
{
    if (!in_place())
        skip();
    int before = check_fds();
    struct slots first, second, third = {.lock_fd = -5, .first = 6, .n = 7};
    struct err err = {0};
    take(SLOTS_TOTAL / 2, &first);
    take(SLOTS_TOTAL / 2, &second);
    assert_false(overlap(&first, &second));
    assert_int_equal(slots_take(2, &third, &err), -1);
    assert_int_equal(err.code, ERR_EXHAUSTED);
    assert_non_null(strstr(err.msg, "no run of 2 free slots"));
    assert_int_equal(third.lock_fd, -5); // untouched
    assert_int_equal(third.first, 6);
    slots_done(&first);
    assert_int_equal(first.lock_fd, -1);
    slots_done(&first);
    take(2, &third);
    assert_false(overlap(&third, &second));
    slots_done(&third);
    slots_done(&second);
    take(SLOTS_TOTAL, &first);
    assert_int_equal(first.first, 0);
    slots_done(&first);
    assert_int_equal(check_fds(), before);
}

// One slot in the middle is taken: no run may go across it.
CHECK_CASE(runs_do_not_jump_over_a_held_slot)
{
    if (!in_place())
        skip();
    struct slots small, big;
    struct err err = {0};
    take(2, &small);
    assert_int_equal(slots_take(SLOTS_TOTAL, &big, &err), -1);
    assert_int_equal(err.code, ERR_EXHAUSTED);
    take(SLOTS_TOTAL / 2, &big);
    assert_false(overlap(&small, &big));
    slots_done(&big);
    slots_done(&small);
}

CHECK_CASE(numbers_that_make_no_sense)
{
    static const uint32_t bad[] = {0, 1, SLOTS_TOTAL + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct slots slots;
        struct err err = {0};
        assert_int_equal(slots_take(bad[i], &slots, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
    }
}

CHECK_CASE(the_dead_leave_their_slots)
{
    if (!in_place())
        skip();
    struct slots slots;
    struct err err = {0};
    struct taker taker = taker_start(SLOTS_TOTAL);
    assert_int_equal(slots_take(2, &slots, &err), -1);
    assert_int_equal(err.code, ERR_EXHAUSTED);
    taker_end(&taker, SIGKILL);
    take(SLOTS_TOTAL, &slots);
    slots_done(&slots);
}

CHECK_CASE(holding_one_for_a_moment)
{
    if (!in_place())
        skip();
    struct slots ours, theirs;
    take(8, &ours);
    take(8, &theirs);
    for (uint32_t i = 0; i < 8; i++) {
        assert_false(slots_hold(&ours, ours.first + i));
        assert_false(slots_hold(&ours, theirs.first + i));
    }
    assert_false(slots_hold(&ours, SLOTS_TOTAL));
    assert_false(slots_hold(&ours, UINT32_MAX));
    uint32_t free_slot = 0;
    const struct slots one = {.first = 0, .n = 1};
    for (struct slots at = one; overlap(&at, &ours) || overlap(&at, &theirs); at.first++)
        free_slot = at.first + 1;
    assert_true(slots_hold(&ours, free_slot));
    assert_false(slots_hold(&theirs, free_slot));
    slots_release(&ours, free_slot);
    assert_true(slots_hold(&theirs, free_slot));
    slots_release(&theirs, free_slot);
    // What was held and released above is nobody's; what was refused is still its owner's.
    slots_done(&theirs);
    assert_true(slots_hold(&ours, theirs.first));
    slots_release(&ours, theirs.first);
    struct slots all;
    struct err err;
    assert_int_equal(slots_take(SLOTS_TOTAL, &all, &err), -1);
    slots_done(&ours);
    take(SLOTS_TOTAL, &all);
    slots_done(&all);
}

// A held slot is out of reach of whoever comes meanwhile.
CHECK_CASE(a_held_slot_is_taken)
{
    if (!in_place())
        skip();
    struct slots holder, other;
    struct err err;
    take(2, &holder);
    uint32_t far = (holder.first + SLOTS_TOTAL / 2) % SLOTS_TOTAL;
    assert_true(slots_hold(&holder, far));
    assert_int_equal(slots_take(SLOTS_TOTAL / 2, &other, &err), -1);
    slots_release(&holder, far);
    take(SLOTS_TOTAL / 2, &other);
    slots_done(&other);
    slots_done(&holder);
}

// Others must be able neither to read nor to lock it: a lock of theirs would starve the machine.
CHECK_CASE(the_file_is_roots_alone)
{
    if (!in_place())
        skip();
    struct slots slots;
    struct err err = {0};
    struct stat st;
    take(2, &slots);
    slots_done(&slots);
    assert_int_equal(stat("/run/cay", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat("/run/cay/slots", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(unlink("/run/cay/slots"), 0);
    assert_int_equal(symlink("/etc/passwd", "/run/cay/slots"), 0);
    assert_int_equal(slots_take(2, &slots, &err), -1);
    assert_int_equal(err.sys_errno, ELOOP);
    assert_int_equal(unlink("/run/cay/slots"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takers_never_overlap),
        cmocka_unit_test(all_slots_run_out_and_come_back),
        cmocka_unit_test(runs_do_not_jump_over_a_held_slot),
        cmocka_unit_test(numbers_that_make_no_sense),
        cmocka_unit_test(the_dead_leave_their_slots),
        cmocka_unit_test(holding_one_for_a_moment),
        cmocka_unit_test(a_held_slot_is_taken),
        cmocka_unit_test(the_file_is_roots_alone),
    };
    return cmocka_run_group_tests(tests, enter_place, NULL);
}
