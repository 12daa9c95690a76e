// SPDX-License-Identifier: Apache-2.0
// What a guest keeps for a client that comes later, control pipes, and signals to some of an exec's
// processes. A client's death is played by closing all that it has but the guest's socket.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fd.h"
#include "kit.h"

enum { KEEP = GUEST_EXEC_KEEP, KEEP_EXIT = GUEST_EXEC_KEEP | GUEST_EXEC_KEEP_EXIT };

static struct kit_box take_one(void)
{
    kit_start(&(struct keeper_config){.boxes = 1});
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    claim.limits.pids = 2000;
    return kit_take(&claim);
}

static struct guest_event start(struct kit_box *box, const char *script, uint32_t flags)
{
    struct guest_event ev;
    struct err err = {0};
    const struct exec_spec spec = {
        .cwd = "/",
        .argv = (const char *const[]){"bash", "-c", script, NULL},
        .envp = (const char *const[]){"PATH=/usr/bin:/bin",  NULL     },
        .files = 1024,
        .flags = flags,
        .tag = 0x1234567800000000u + box->next_exec + 1,
    };
    uint32_t id = ++box->next_exec;
    assert_int_equal(guest_send_exec(guest_fresh(box->guest), id, &spec, &err), 0);
    kit_expect_guest(box, GUEST_STARTED, &ev);
    assert_int_equal(ev.msg.head.id, id);
    assert_int_equal(ev.msg.started.flags, flags);
    assert_true(ev.msg.started.tag == spec.tag);
    return ev;
}

static void let_go(struct guest_event *ev)
{
    int *const fds[] = {&ev->out, &ev->err, &ev->in, &ev->control_in, &ev->control_out};
    for (unsigned i = 0; i < sizeof fds / sizeof *fds; i++) {
        fd_close(*fds[i]);
        *fds[i] = -1;
    }
}

static unsigned list(struct kit_box *box)
{
    static uint32_t request = 1000;
    struct guest_event ev;
    struct err err = {0};
    assert_int_equal(guest_send_list(guest_fresh(box->guest), ++request, &err), 0);
    kit_expect_guest(box, GUEST_LISTED, &ev);
    assert_int_equal(ev.msg.head.id, request);
    return ev.msg.listed.n;
}

static void forget(struct kit_box *box, uint32_t id, enum guest_forget_what what)
{
    struct err err = {0};
    assert_int_equal(guest_send_forget(guest_fresh(box->guest), id, what, &err), 0);
}

static void read_exactly(int fd, const char *want)
{
    char got[64] = "";
    size_t len = strlen(want);
    assert_true(len < sizeof got);
    assert_int_equal(fd_read_all(fd, got, len), (ssize_t)len);
    assert_string_equal(got, want);
}

CHECK_CASE(running_one_goes_on_for_the_next_client)
{
    struct kit_box box = take_one();
    struct guest_event ev =
        start(&box, "read -r -u 60 line; echo \"got $line\"; echo bad >&2; printf x >&61; exit 3",
              KEEP | GUEST_EXEC_CONTROL);
    assert_int_equal(fd_write_all(ev.control_in, "par", 3), 0);
    let_go(&ev);
    for (int round = 0; round < 3; round++) { // and dies again
        assert_int_equal(list(&box), 1);
        kit_expect_guest(&box, GUEST_STARTED, &ev);
        assert_int_equal(ev.msg.started.flags, KEEP | GUEST_EXEC_CONTROL);
        assert_true(ev.msg.started.tag == 0x1234567800000001u);
        if (round < 2)
            let_go(&ev);
    }
    assert_int_equal(fd_write_all(ev.control_in, "t\n", 2), 0);
    struct guest_event end;
    kit_expect_guest(&box, GUEST_EXITED, &end);
    assert_int_equal(end.msg.exited.status, 3 << 8);
    read_exactly(ev.out, "got part\n");
    read_exactly(ev.err, "bad\n");
    read_exactly(ev.control_out, "x");
    char rest;
    assert_int_equal(fd_read_all(ev.out, &rest, 1), 0); // the guest has none of the child's ends
    let_go(&ev);
    assert_int_equal(list(&box), 0); // it ended, and its end was not to be kept
    (void)kit_destroy(&box);
}

CHECK_CASE(end_is_kept_until_it_is_forgotten)
{
    struct kit_box box = take_one();
    struct guest_event ev = start(&box, "echo out; echo err >&2; exit 7", KEEP_EXIT), end;
    kit_expect_guest(&box, GUEST_EXITED, &end);
    let_go(&ev);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(list(&box), 1);
        kit_expect_guest(&box, GUEST_STARTED, &ev);
        assert_int_equal(ev.msg.started.flags, KEEP_EXIT);
        kit_expect_guest(&box, GUEST_EXITED, &end);
        assert_int_equal(end.msg.head.id, 1);
        assert_int_equal(end.msg.exited.status, 7 << 8);
        if (round == 0)
            let_go(&ev);
    }
    read_exactly(ev.out, "out\n");
    read_exactly(ev.err, "err\n");
    let_go(&ev);
    forget(&box, 1, GUEST_FORGET_ALL);
    assert_int_equal(list(&box), 0);
    // The entry is free again, also for the same id.
    box.next_exec = 0;
    ev = start(&box, "exit 1", 0);
    kit_expect_guest(&box, GUEST_EXITED, &end);
    let_go(&ev);
    (void)kit_destroy(&box);
}

// The id of one that is kept cannot be used.
CHECK_CASE(kept_id_is_taken)
{
    struct kit_box box = take_one();
    struct guest_event ev = start(&box, "exit 0", KEEP_EXIT), end;
    struct err err = {0};
    const struct exec_spec spec = {
        .cwd = "/",
        .argv = (const char *const[]){"/bin/true", NULL},
        .envp = (const char *const[]){NULL          },
        .files = 64,
    };
    kit_expect_guest(&box, GUEST_EXITED, &end);
    let_go(&ev);
    assert_int_equal(guest_send_exec(guest_fresh(box.guest), 1, &spec, &err), 0);
    kit_expect_guest(&box, GUEST_FAILED, &end);
    assert_int_equal(end.msg.failed.sys_errno, EEXIST);
    (void)kit_destroy(&box);
}

CHECK_CASE(forgotten_input_is_its_end)
{
    struct kit_box box = take_one();
    uint32_t flags = KEEP_EXIT | GUEST_EXEC_STDIN | GUEST_EXEC_KEEP_STDIN | GUEST_EXEC_CONTROL;
    struct guest_event ev = start(&box, "cat; printf end >&61", flags), end;
    assert_int_equal(fd_write_all(ev.in, "one ", 4), 0);
    let_go(&ev);
    assert_int_equal(list(&box), 1);
    kit_expect_guest(&box, GUEST_STARTED, &ev);
    assert_int_equal(ev.msg.started.flags, flags);
    assert_int_equal(fd_write_all(ev.in, "two", 3), 0);
    fd_close(ev.in);
    ev.in = -1;
    forget(&box, 1, GUEST_FORGET_STDIN);
    forget(&box, 1, GUEST_FORGET_STDIN);
    kit_expect_guest(&box, GUEST_EXITED, &end);
    read_exactly(ev.out, "one two");
    let_go(&ev);
    assert_int_equal(list(&box), 1);
    kit_expect_guest(&box, GUEST_STARTED, &ev);
    assert_int_equal(ev.msg.started.flags, flags & ~(uint32_t)GUEST_EXEC_STDIN);
    assert_int_equal(ev.in, -1);
    read_exactly(ev.control_out, "end"); // the right pipes have moved up
    kit_expect_guest(&box, GUEST_EXITED, &end);
    let_go(&ev);
    (void)kit_destroy(&box);
}

// Without KEEP_STDIN the client's own end is the only one.
CHECK_CASE(input_that_is_not_kept_ends_with_the_client)
{
    struct kit_box box = take_one();
    struct guest_event ev = start(&box, "cat", KEEP | GUEST_EXEC_STDIN), end;
    assert_int_equal(fd_write_all(ev.in, "abc", 3), 0);
    let_go(&ev);
    kit_expect_guest(&box, GUEST_EXITED, &end);
    assert_int_equal(end.msg.exited.status, 0);
    (void)kit_destroy(&box);
}

CHECK_CASE(forgetting_what_is_not_there)
{
    struct kit_box box = take_one();
    struct guest_event ev = start(&box, "read -r -u 60 line", KEEP_EXIT | GUEST_EXEC_CONTROL), end;
    for (uint32_t what = 0; what < 5; what++) {
        forget(&box, 4711, (enum guest_forget_what)what);
        forget(&box, 0, (enum guest_forget_what)what);
        if (what != GUEST_FORGET_ALL)
            forget(&box, 1, (enum guest_forget_what)what);
    }
    assert_int_equal(list(&box), 1);
    struct guest_event again;
    kit_expect_guest(&box, GUEST_STARTED, &again);
    let_go(&again);
    // One that runs: its end is still told, and nothing of it stays.
    forget(&box, 1, GUEST_FORGET_ALL);
    assert_int_equal(list(&box), 0);
    assert_int_equal(fd_write_all(ev.control_in, "\n", 1), 0);
    kit_expect_guest(&box, GUEST_EXITED, &end);
    assert_int_equal(list(&box), 0);
    let_go(&ev);
    (void)kit_destroy(&box);
}

CHECK_CASE(terminal_is_kept_and_has_no_control)
{
    struct kit_box box = take_one();
    struct guest_event ev = start(&box, "read -r line; exit 5", KEEP | GUEST_EXEC_TTY), end;
    let_go(&ev);
    assert_int_equal(list(&box), 1);
    kit_expect_guest(&box, GUEST_STARTED, &ev);
    assert_int_equal(fd_write_all(ev.out, "x\n", 2), 0);
    kit_expect_guest(&box, GUEST_EXITED, &end);
    assert_int_equal(end.msg.exited.status, 5 << 8);
    let_go(&ev);
    struct err err = {0};
    const struct exec_spec spec = {
        .cwd = "/",
        .argv = (const char *const[]){"/bin/true", NULL},
        .envp = (const char *const[]){NULL          },
        .files = 64,
        .flags = GUEST_EXEC_TTY | GUEST_EXEC_CONTROL,
    };
    assert_int_equal(guest_send_exec(guest_fresh(box.guest), 9, &spec, &err), 0);
    kit_expect_guest(&box, GUEST_FAILED, &end);
    assert_int_equal(end.msg.failed.step, STEP_ARGS);
    (void)kit_destroy(&box);
}

// Whatever number the guest's own ends have, the program finds them at 60 and 61 and nothing else.
CHECK_CASE(control_pipes_have_their_numbers)
{
    struct kit_box box = take_one();
    enum { N = 40 };
    struct guest_event ev[N], end;
    for (unsigned i = 0; i < N; i++) // each takes up some of the guest's descriptors
        ev[i] = start(&box,
                      "for f in /proc/self/fd/*; do [ -e $f ] && x+=\"${f##*/} \"; done; "
                      "printf \"$x\" >&61; read -r -u 60 line; printf \"$line\" >&61",
                      KEEP_EXIT | GUEST_EXEC_CONTROL);
    for (unsigned i = 0; i < N; i++) {
        read_exactly(ev[i].control_out, "0 1 2 60 61 ");
        assert_int_equal(fd_write_all(ev[i].control_in, "hi\n", 3), 0);
        kit_expect_guest(&box, GUEST_EXITED, &end);
        read_exactly(ev[i].control_out, "hi");
        let_go(&ev[i]);
    }
    (void)kit_destroy(&box);
}

CHECK_CASE(as_many_as_there_can_be)
{
    struct kit_box box = take_one();
    struct guest_event ev, end;
    uint32_t flags = KEEP_EXIT | GUEST_EXEC_CONTROL | GUEST_EXEC_STDIN | GUEST_EXEC_KEEP_STDIN;
    for (unsigned i = 0; i < GUEST_EXECS_MAX; i++) {
        ev = start(&box, "read -r -u 60 line; exit $line", flags);
        let_go(&ev);
    }
    struct err err = {0};
    const struct exec_spec spec = {
        .cwd = "/",
        .argv = (const char *const[]){"/bin/true", NULL},
        .envp = (const char *const[]){NULL          },
        .files = 64,
    };
    assert_int_equal(guest_send_exec(guest_fresh(box.guest), 9999, &spec, &err), 0);
    kit_expect_guest(&box, GUEST_FAILED, &end);
    assert_int_equal(end.msg.failed.sys_errno, EAGAIN);
    assert_int_equal(list(&box), GUEST_EXECS_MAX);
    for (unsigned i = 0; i < GUEST_EXECS_MAX; i++) {
        kit_expect_guest(&box, GUEST_STARTED, &ev);
        assert_int_equal(ev.msg.started.flags, flags);
        assert_int_equal(fd_write_all(ev.control_in, "4\n", 2), 0);
        let_go(&ev);
    }
    for (unsigned i = 0; i < GUEST_EXECS_MAX; i++) {
        kit_expect_guest(&box, GUEST_EXITED, &end);
        assert_int_equal(end.msg.exited.status, 4 << 8);
        forget(&box, end.msg.head.id, GUEST_FORGET_ALL);
    }
    assert_int_equal(list(&box), 0);
    (void)kit_destroy(&box);
}

// --- signals to some

static uint64_t boottime(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_BOOTTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void kill_since(struct kit_box *box, uint32_t id, uint64_t since, uint32_t pid)
{
    struct err err = {0};
    assert_int_equal(
        guest_send_signal_since(guest_fresh(box->guest), id, SIGKILL, since, pid, &err), 0);
    assert_int_equal(list(box), 1); // it has been done when this is answered
    struct guest_event ev;
    kit_expect_guest(box, GUEST_STARTED, &ev);
    let_go(&ev);
}

CHECK_CASE(first_process_alone)
{
    struct kit_box box = take_one();
    const char *word = kit_marker();
    char script[128];
    (void)snprintf(script, sizeof script, "trap 'exit 9' TERM; sleep %s & echo; wait", word);
    struct guest_event ev = start(&box, script, KEEP), end;
    struct err err = {0};
    read_exactly(ev.out, "\n");
    KIT_AWAIT(kit_count_processes(word) == 2); // the shell has it among its arguments too
    assert_int_equal(guest_send_signal_first(guest_fresh(box.guest), 1, SIGTERM, &err), 0);
    kit_expect_guest(&box, GUEST_EXITED, &end);
    assert_int_equal(end.msg.exited.status, 9 << 8);
    assert_int_equal(kit_count_processes(word), 1);
    let_go(&ev);
    (void)kit_destroy(&box);
}

// A shell that starts what it is told to, and says when it has.
static const char shell[] = "while read -r -u 60 line; do eval \"$line\"; echo >&61; done";

static void tell(struct guest_event *ev, const char *line)
{
    char text[512];
    (void)snprintf(text, sizeof text, "%s\n", line);
    assert_int_equal(fd_write_all(ev->control_in, text, strlen(text)), 0);
    read_exactly(ev->control_out, "\n");
}

CHECK_CASE(only_what_was_started_since)
{
    struct kit_box box = take_one();
    struct guest_event ev = start(&box, shell, KEEP | GUEST_EXEC_CONTROL);
    char old[32], young[32], orphan[32], line[256];
    (void)snprintf(old, sizeof old, "%s", kit_marker());
    (void)snprintf(young, sizeof young, "%s", kit_marker());
    (void)snprintf(orphan, sizeof orphan, "%s", kit_marker());
    (void)snprintf(line, sizeof line, "sleep %s & (sleep %s &)", old, old);
    tell(&ev, line);
    KIT_AWAIT(kit_count_processes(old) == 2);
    kit_sleep_ms(30);
    uint64_t since = boottime();
    (void)snprintf(line, sizeof line, "sleep %s & (setsid sleep %s &); (sleep %s & wait) &", young,
                   orphan, young);
    tell(&ev, line);
    KIT_AWAIT(kit_count_processes(young) == 2 && kit_count_processes(orphan) == 1);
    kill_since(&box, 1, since, 0);
    KIT_AWAIT(kit_count_processes(young) == 0 && kit_count_processes(orphan) == 0);
    assert_int_equal(kit_count_processes(old), 2);
    tell(&ev, "true"); // and the shell lives
    let_go(&ev);
    (void)kit_destroy(&box);
}

// What an old process starts is its own, however young.
CHECK_CASE(children_of_old_ones_are_spared)
{
    struct kit_box box = take_one();
    struct guest_event ev = start(&box, shell, KEEP | GUEST_EXEC_CONTROL);
    char young[32], line[256];
    (void)snprintf(young, sizeof young, "%s", kit_marker());
    tell(&ev, "mkfifo /tmp/f");
    (void)snprintf(line, sizeof line, "(read -r x < /tmp/f; bash -c 'sleep %s; :' & wait) &",
                   young);
    tell(&ev, line);
    kit_sleep_ms(30);
    uint64_t since = boottime();
    tell(&ev, "echo > /tmp/f");
    KIT_AWAIT(kit_count_processes(young) == 2);
    kill_since(&box, 1, since, 0);
    kit_sleep_ms(50);
    assert_int_equal(kit_count_processes(young), 2);
    let_go(&ev);
    (void)kit_destroy(&box);
}

// Within one tick of the clock the numbers decide.
CHECK_CASE(same_tick)
{
    struct kit_box box = take_one();
    struct guest_event ev = start(&box, shell, KEEP | GUEST_EXEC_CONTROL);
    const char *word = kit_marker();
    char line[256], text[32] = "";
    (void)snprintf(line, sizeof line, "sleep %s & echo $!", word);
    unsigned tries = 0;
    for (;;) { // until it was started in one tick
        uint64_t before = boottime();
        tell(&ev, line);
        uint64_t after = boottime();
        assert_true(read(ev.out, text, sizeof text - 1) > 0);
        uint32_t pid = (uint32_t)strtoul(text, NULL, 10);
        KIT_AWAIT(kit_count_processes(word) == 1);
        if (before / 10000000 == after / 10000000) {
            kill_since(&box, 1, after, pid);
            kit_sleep_ms(20);
            assert_int_equal(kit_count_processes(word), 1);
            kill_since(&box, 1, after, pid - 1);
            KIT_AWAIT(kit_count_processes(word) == 0);
            break;
        }
        kill_since(&box, 1, before - 20000000, 0);
        KIT_AWAIT(kit_count_processes(word) == 0);
        assert_true(tries++ < 1000);
    }
    let_go(&ev);
    (void)kit_destroy(&box);
}

CHECK_CASE(storm)
{
    struct kit_box box = take_one();
    struct guest_event ev = start(&box, shell, KEEP | GUEST_EXEC_CONTROL);
    char line[256];
    const char *word = kit_marker();
    uint64_t since = boottime();
    kit_sleep_ms(20);
    (void)snprintf(line, sizeof line,
                   "bash -c 'f() { while :; do (exec -a x%s sleep 1000) & f & done; }; f' "
                   ">/dev/null 2>&1 &",
                   word);
    tell(&ev, line);
    KIT_AWAIT(kit_count_processes(word) > 200);
    kill_since(&box, 1, since, 0);
    // Some rounds may be needed where the kernel could not freeze it in time.
    KIT_AWAIT(kit_count_processes(word) == 0 || (kill_since(&box, 1, since, 0), 0));
    tell(&ev, "true");
    let_go(&ev);
    (void)kit_destroy(&box);
}

KIT_MAIN(KIT_CASE(running_one_goes_on_for_the_next_client),
         KIT_CASE(end_is_kept_until_it_is_forgotten), KIT_CASE(kept_id_is_taken),
         KIT_CASE(forgotten_input_is_its_end),
         KIT_CASE(input_that_is_not_kept_ends_with_the_client),
         KIT_CASE(forgetting_what_is_not_there), KIT_CASE(terminal_is_kept_and_has_no_control),
         KIT_CASE(control_pipes_have_their_numbers), KIT_CASE(as_many_as_there_can_be),
         KIT_CASE(first_process_alone), KIT_CASE(only_what_was_started_since),
         KIT_CASE(children_of_old_ones_are_spared), KIT_CASE(same_tick), KIT_CASE(storm), )
