// SPDX-License-Identifier: Apache-2.0
// Programs in a claimed box: how they start, end, are signalled and killed, several at once.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "kit.h"

static struct kit_box take_one(void)
{
    kit_start(&(struct keeper_config){.boxes = 1});
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    claim.limits.pids = 2000;
    return kit_take(&claim);
}

static struct exec_spec plain_spec(const char *const *argv)
{
    static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    return (struct exec_spec){.cwd = "/", .argv = argv, .envp = env, .files = 256};
}

static struct guest_failed refused(struct kit_box *box, uint32_t id, const struct exec_spec *spec)
{
    struct guest_event ev;
    struct err err = {0};
    assert_int_equal(guest_send_exec(guest_fresh(box->guest), id, spec, &err), 0);
    kit_expect_guest(box, GUEST_FAILED, &ev);
    assert_int_equal(ev.msg.head.id, id);
    return ev.msg.failed;
}

CHECK_CASE(exit_codes_and_signals)
{
    struct kit_box box = take_one();
    static const int codes[] = {0, 1, 2, 126, 127, 255};
    char script[64];
    for (unsigned i = 0; i < sizeof codes / sizeof *codes; i++) {
        (void)snprintf(script, sizeof script, "exit %d", codes[i]);
        struct kit_ended e = kit_run(&box, script);
        assert_true(WIFEXITED(e.status));
        assert_int_equal(WEXITSTATUS(e.status), codes[i]);
    }
    const int signals[] = {SIGTERM, SIGKILL, SIGSEGV, SIGPIPE, SIGRTMAX};
    for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++) {
        (void)snprintf(script, sizeof script, "kill -%d $$", signals[i]);
        struct kit_ended e = kit_run(&box, script);
        assert_true(WIFSIGNALED(e.status));
        assert_int_equal(WTERMSIG(e.status), signals[i]);
        assert_false(WCOREDUMP(e.status));
    }
    (void)kit_destroy(&box);
}

CHECK_CASE(what_cannot_start_says_why)
{
    struct kit_box box = take_one();
    struct exec_spec spec = plain_spec((const char *const[]){"no-such-program", NULL});
    struct guest_failed f = refused(&box, 1, &spec);
    assert_int_equal(f.step, STEP_EXEC);
    assert_int_equal(f.sys_errno, ENOENT);
    spec = plain_spec((const char *const[]){"/etc/passwd", NULL});
    f = refused(&box, 1, &spec);
    assert_int_equal(f.step, STEP_EXEC);
    assert_int_equal(f.sys_errno, EACCES);
    spec = plain_spec((const char *const[]){"true", NULL});
    spec.cwd = "/etc/passwd";
    f = refused(&box, 1, &spec);
    assert_int_equal(f.step, STEP_CWD);
    assert_int_equal(f.sys_errno, ENOTDIR);
    spec.cwd = "";
    f = refused(&box, 1, &spec);
    assert_int_equal(f.step, STEP_CWD);
    spec = plain_spec((const char *const[]){"true", NULL});
    spec.uid = 65535; // the guest's own, which the box does not have
    f = refused(&box, 1, &spec);
    assert_int_equal(f.step, STEP_SETUP);
    spec.uid = UINT32_MAX;
    f = refused(&box, 1, &spec);
    assert_int_equal(f.step, STEP_SETUP);
    spec.uid = 0;
    spec.gid = 70000;
    f = refused(&box, 1, &spec);
    assert_int_equal(f.step, STEP_SETUP);
    spec.gid = UINT32_MAX;
    f = refused(&box, 1, &spec);
    assert_int_equal(f.step, STEP_SETUP);
    // None of them is left, and none took anything with it.
    assert_string_equal(
        kit_run(&box, "set -- /proc/[0-9]*; echo $#; set -- $(ls /proc/self/fd); echo $#").out,
        "2\n4\n");
    (void)kit_destroy(&box);
}

CHECK_CASE(input_is_a_pipe_when_asked_for)
{
    struct kit_box box = take_one();
    struct exec_spec spec = plain_spec((const char *const[]){"cat", NULL});
    struct guest_event ev;
    struct err err = {0};
    char got[32] = "";
    spec.flags = GUEST_EXEC_STDIN;
    assert_int_equal(guest_send_exec(guest_fresh(box.guest), 4, &spec, &err), 0);
    kit_expect_guest(&box, GUEST_STARTED, &ev);
    assert_true(ev.in >= 0 && ev.out >= 0 && ev.err >= 0 && ev.msg.started.pid > 1);
    assert_int_equal(fd_write_all(ev.in, "through\0it", 10), 0);
    fd_close(ev.in);
    assert_int_equal(fd_read_all(ev.out, got, sizeof got), 10);
    assert_memory_equal(got, "through\0it", 10);
    fd_close(ev.out);
    fd_close(ev.err);
    kit_expect_guest(&box, GUEST_EXITED, &ev);
    assert_int_equal(ev.msg.exited.status, 0);
    assert_string_equal(kit_run(&box, "readlink /proc/self/fd/0; cat").out, "/dev/null\n");
    (void)kit_destroy(&box);
}

CHECK_CASE(terminal_when_asked_for)
{
    struct kit_box box = take_one();
    const char *script = "stty size; test -t 0 && test -t 1 && test -t 2 && tty; stat -c %a $(tty)";
    struct exec_spec spec = plain_spec((const char *const[]){"sh", "-c", script, NULL});
    struct guest_event ev;
    struct err err = {0};
    char text[256] = "";
    spec.flags = GUEST_EXEC_TTY;
    spec.uid = 1000;
    spec.rows = 44;
    spec.cols = 133;
    assert_int_equal(guest_send_exec(guest_fresh(box.guest), 4, &spec, &err), 0);
    kit_expect_guest(&box, GUEST_STARTED, &ev);
    assert_true(ev.in == -1 && ev.err == -1 && isatty(ev.out));
    struct guest_event end;
    kit_expect_guest(&box, GUEST_EXITED, &end);
    size_t have = 0;
    for (ssize_t n;
         have < sizeof text - 1 && (n = read(ev.out, text + have, sizeof text - 1 - have)) > 0;)
        have += (size_t)n;
    assert_string_equal(text, "44 133\r\n/dev/pts/0\r\n666\r\n");
    fd_close(ev.out);
    (void)kit_destroy(&box);
}

CHECK_CASE(arguments_of_every_size)
{
    struct kit_box box = take_one();
    // Around what fits in a message, and past it in a memfd.
    static const size_t sizes[] = {1, 60000, 65440, 65480, 65490, 65500, 65536, 100000, 131000};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *big = malloc(sizes[i] + 1);
        assert_non_null(big);
        memset(big, 'x', sizes[i]);
        big[sizes[i]] = '\0';
        struct exec_spec spec = plain_spec((const char *const[]){
            "sh", "-c", "printf '%s %s' ${#1} \"$2\"", "sh", big, "end", NULL});
        struct guest_event ev;
        struct err err = {0};
        char got[64] = "", want[64];
        assert_int_equal(guest_send_exec(guest_fresh(box.guest), 9 + i, &spec, &err), 0);
        kit_expect_guest(&box, GUEST_STARTED, &ev);
        assert_true(fd_read_all(ev.out, got, sizeof got - 1) > 0);
        (void)snprintf(want, sizeof want, "%zu end", sizes[i]);
        assert_string_equal(got, want);
        fd_close(ev.out);
        fd_close(ev.err);
        kit_expect_guest(&box, GUEST_EXITED, &ev);
        free(big);
    }
    (void)kit_destroy(&box);
}

// --- killing ---

static const char hiding_tree[] =
    "trap '' TERM INT HUP QUIT; "
    "setsid sh -c 'sleep %1$s & (setsid sleep %1$s &) ; sleep %1$s' & "
    "(setsid sh -c '(sleep %1$s & exec sleep %1$s) & exec sleep %1$s' &) ; "
    "sleep %1$s";

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void start_tree(struct kit_box *box, const char *word, struct guest_event *started)
{
    char script[512];
    (void)snprintf(script, sizeof script, hiding_tree, word);
    (void)kit_exec(box, script, started);
    KIT_AWAIT(kit_count_processes(word) >= 8);
}
#pragma GCC diagnostic pop

CHECK_CASE(kill_ends_all_of_an_exec)
{
    struct kit_box box = take_one();
    for (int i = 0; i < 3; i++) {
        const char *word = kit_marker(), *other = kit_marker();
        char script[64];
        struct guest_event started, bystander, ev;
        struct err err = {0};
        (void)snprintf(script, sizeof script, "setsid sleep %s & sleep %s", other, other);
        uint32_t second = kit_exec(&box, script, &bystander);
        start_tree(&box, word, &started);
        uint32_t id = box.next_exec;
        KIT_AWAIT(kit_count_processes(other) == 3);

        // First the gentle way, which the tree ignores.
        assert_int_equal(guest_send_signal(guest_fresh(box.guest), id, SIGTERM, &err), 0);
        kit_sleep_ms(50);
        assert_true(kit_count_processes(word) >= 8);
        assert_int_equal(guest_recv(box.guest, &ev, MSG_DONTWAIT, &err), 0);

        assert_int_equal(guest_send_signal(guest_fresh(box.guest), id, SIGKILL, &err), 0);
        kit_expect_guest(&box, GUEST_EXITED, &ev);
        assert_int_equal(ev.msg.head.id, id);
        assert_true(WIFSIGNALED(ev.msg.exited.status));
        assert_int_equal(WTERMSIG(ev.msg.exited.status), SIGKILL);
        // All of it, by the time it is told; and nothing else.
        assert_int_equal(kit_count_processes(word), 0);
        assert_int_equal(kit_count_processes(other), 3);

        assert_int_equal(guest_send_signal(guest_fresh(box.guest), second, SIGKILL, &err), 0);
        kit_expect_guest(&box, GUEST_EXITED, &ev);
        assert_int_equal(ev.msg.head.id, second);
        assert_int_equal(kit_count_processes(other), 0);
        fd_close(started.out);
        fd_close(started.err);
        fd_close(bystander.out);
        fd_close(bystander.err);
    }
    (void)kit_destroy(&box);
}

CHECK_CASE(kill_while_it_forks_without_end)
{
    struct kit_box box = take_one();
    const char *word = kit_marker();
    char script[160];
    struct guest_event started, ev;
    struct err err = {0};
    (void)snprintf(script, sizeof script,
                   "b() { sh -c 'setsid sleep %s & exit' ; b | b & }; b 2>/dev/null; sleep %s",
                   word, word);
    uint32_t id = kit_exec(&box, script, &started);
    KIT_AWAIT(kit_count_processes(word) >= 50);
    assert_int_equal(guest_send_signal(guest_fresh(box.guest), id, SIGKILL, &err), 0);
    kit_expect_guest(&box, GUEST_EXITED, &ev);
    assert_int_equal(kit_count_processes(word), 0);
    assert_string_equal(kit_run(&box, "echo still here").out, "still here\n");
    fd_close(started.out);
    fd_close(started.err);
    (void)kit_destroy(&box);
}

CHECK_CASE(left_behind_and_killed_by_id)
{
    struct kit_box box = take_one();
    const char *word = kit_marker();
    char script[160];
    struct err err = {0};
    (void)snprintf(
        script, sizeof script,
        "setsid sleep %s </dev/null >/dev/null 2>&1 & (setsid sleep %s >/dev/null 2>&1 &)", word,
        word);
    struct kit_ended e = kit_run(&box, script);
    assert_int_equal(e.status, 0);
    uint32_t id = box.next_exec;
    KIT_AWAIT(kit_count_processes(word) == 2);
    // Other execs come and go, and leave it alone.
    for (int i = 0; i < 5; i++)
        assert_int_equal(kit_run(&box, "true").status, 0);
    assert_int_equal(kit_count_processes(word), 2);
    assert_int_equal(guest_send_signal(guest_fresh(box.guest), id, SIGKILL, &err), 0);
    KIT_AWAIT(kit_count_processes(word) == 0);
    assert_int_equal(kit_run(&box, "true").status, 0);
    (void)kit_destroy(&box);
}

CHECK_CASE(signals_reach_the_whole_group)
{
    struct kit_box box = take_one();
    struct guest_event started, ev;
    struct err err = {0};
    const char *word = kit_marker();
    char script[160];
    (void)snprintf(script, sizeof script, "sleep %s & sleep %s & wait", word, word);
    uint32_t id = kit_exec(&box, script, &started);
    KIT_AWAIT(kit_count_processes(word) == 3);
    assert_int_equal(guest_send_signal(guest_fresh(box.guest), id, SIGTERM, &err), 0);
    kit_expect_guest(&box, GUEST_EXITED, &ev);
    assert_int_equal(WTERMSIG(ev.msg.exited.status), SIGTERM);
    KIT_AWAIT(kit_count_processes(word) == 0);
    // To nobody, and nonsense: no answer, no harm.
    assert_int_equal(guest_send_signal(guest_fresh(box.guest), id, SIGTERM, &err), 0);
    assert_int_equal(guest_send_signal(guest_fresh(box.guest), 4711, SIGKILL, &err), 0);
    assert_int_equal(guest_send_signal(guest_fresh(box.guest), 0, SIGKILL, &err), 0);
    assert_int_equal(guest_send_signal(guest_fresh(box.guest), id, -5, &err), 0);
    assert_int_equal(guest_send_signal(guest_fresh(box.guest), id, 100000, &err), 0);
    assert_int_equal(kit_run(&box, "true").status, 0);
    fd_close(started.out);
    fd_close(started.err);
    (void)kit_destroy(&box);
}

// --- many ---

CHECK_CASE(several_at_once)
{
    enum { N = 40 };
    struct kit_box box = take_one();
    struct guest_event started[N];
    int status[N];
    char script[64];
    struct err err = {0};
    for (unsigned i = 0; i < N; i++) {
        (void)snprintf(script, sizeof script, "echo this is %u; sleep 0.%u; exit %u", i, i % 10, i);
        struct exec_spec spec = plain_spec((const char *const[]){"sh", "-c", script, NULL});
        assert_int_equal(guest_send_exec(guest_fresh(box.guest), i + 1, &spec, &err), 0);
        started[i].out = -1;
        status[i] = -1;
    }
    for (unsigned n = 0; n < 2 * N; n++) { // the short ones end before the last has started
        struct guest_event ev;
        assert_int_equal(guest_recv(box.guest, &ev, 0, &err), 1);
        uint32_t at = ev.msg.head.id - 1;
        assert_true(at < N && status[at] == -1);
        if (ev.msg.head.type == GUEST_STARTED) {
            assert_int_equal(started[at].out, -1);
            started[at] = ev;
        } else {
            assert_int_equal(ev.msg.head.type, GUEST_EXITED);
            assert_true(started[at].out >= 0);
            status[at] = ev.msg.exited.status;
        }
    }
    for (unsigned i = 0; i < N; i++) {
        char got[64] = "", want[64];
        assert_int_equal(WEXITSTATUS(status[i]), i);
        assert_true(fd_read_all(started[i].out, got, sizeof got - 1) > 0);
        (void)snprintf(want, sizeof want, "this is %u\n", i);
        assert_string_equal(got, want);
        fd_close(started[i].out);
        fd_close(started[i].err);
    }
    (void)kit_destroy(&box);
}

CHECK_CASE(one_id_one_exec)
{
    struct kit_box box = take_one();
    struct guest_event started, ev;
    struct err err = {0};
    uint32_t id = kit_exec(&box, "sleep 1000", &started);
    struct exec_spec spec = plain_spec((const char *const[]){"true", NULL});
    struct guest_failed f = refused(&box, id, &spec);
    assert_int_equal(f.sys_errno, EEXIST);
    assert_int_equal(guest_send_signal(guest_fresh(box.guest), id, SIGKILL, &err), 0);
    kit_expect_guest(&box, GUEST_EXITED, &ev);
    assert_int_equal(ev.msg.head.id, id);
    // Free again once its end was told.
    box.next_exec = id - 1;
    assert_int_equal(kit_run(&box, "true").status, 0);
    box.next_exec = id - 1;
    assert_int_equal(kit_run(&box, "true").status, 0);
    fd_close(started.out);
    fd_close(started.err);
    (void)kit_destroy(&box);
}

CHECK_CASE(as_many_as_there_may_be)
{
    struct kit_box box = take_one();
    struct exec_spec spec = plain_spec((const char *const[]){"sleep", "1000", NULL});
    struct guest_event ev;
    struct err err = {0};
    for (uint32_t id = 1; id <= GUEST_EXECS_MAX; id++) {
        assert_int_equal(guest_send_exec(guest_fresh(box.guest), id, &spec, &err), 0);
        kit_expect_guest(&box, GUEST_STARTED, &ev);
        fd_close(ev.out);
        fd_close(ev.err);
    }
    struct guest_failed f = refused(&box, GUEST_EXECS_MAX + 1, &spec);
    assert_int_equal(f.step, STEP_SETUP);
    assert_int_equal(f.sys_errno, EAGAIN);
    assert_int_equal(guest_send_signal(guest_fresh(box.guest), 77, SIGKILL, &err), 0);
    kit_expect_guest(&box, GUEST_EXITED, &ev);
    assert_int_equal(ev.msg.head.id, 77);
    box.next_exec = GUEST_EXECS_MAX + 1;
    assert_int_equal(kit_run(&box, "true").status, 0);
    (void)kit_destroy(&box);
    assert_int_equal(kit_count_cgroups(), 0);
}

CHECK_CASE(many_one_after_the_other_take_no_more_than_one)
{
    struct kit_box box = take_one();
    struct exec_spec spec = plain_spec((const char *const[]){"true", NULL});
    struct guest_event ev;
    struct err err = {0};
    for (uint32_t id = 1; id <= GUEST_EXECS_MAX + 200; id++) {
        assert_int_equal(guest_send_exec(guest_fresh(box.guest), id, &spec, &err), 0);
        kit_expect_guest(&box, GUEST_STARTED, &ev);
        fd_close(ev.out);
        fd_close(ev.err);
        kit_expect_guest(&box, GUEST_EXITED, &ev);
        assert_int_equal(ev.msg.exited.status, 0);
    }
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/fd", kit_child(kit_count_children() - 1));
    assert_true(kit_count_entries(path) < 40);
    (void)kit_destroy(&box);
}

// --- messages that make no sense ---

static void send_raw(struct kit_box *box, const void *msg, size_t len, const char *tail, int fd)
{
    assert_int_equal(wire_send(box->guest, msg, len, tail, tail != NULL ? strlen(tail) + 1 : 0, &fd,
                               fd >= 0 ? 1 : 0),
                     0);
}

static struct guest_exec raw_exec(uint32_t argc, uint32_t envc, uint32_t args_len, uint32_t flags)
{
    return (struct guest_exec){
        .head = {.version = WIRE_VERSION, .type = GUEST_EXEC, .id = 500},
        .argc = argc,
        .envc = envc,
        .args_len = args_len,
        .files = 64,
        .flags = flags,
    };
}

CHECK_CASE(nonsense_is_refused_and_the_guest_lives_on)
{
    struct kit_box box = take_one();
    struct guest_event ev;
    auto_fd small = memfd_create("args", MFD_CLOEXEC);
    assert_int_equal(ftruncate(small, 10), 0);
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    const struct {
        struct guest_exec msg;
        const char *tail;
        int fd;
    } bad[] = {
        {raw_exec(1,          0,          0,          0),                  NULL, -1     },
        {raw_exec(1,          0,          7,          0),                  "/",  -1     }, // not as long as it says
        {raw_exec(0,          0,          2,          0),                  "/",  -1     }, // nothing to run
        {raw_exec(1,          0,          2,          0),                  "/",  -1     }, // fewer strings than it says
        {raw_exec(UINT32_MAX, UINT32_MAX, 2,          0),                  "/",  -1     }, // so many that the sum overflows
        {raw_exec(UINT32_MAX, 0,          2,          0),                  "/",  -1     },
        {raw_exec(1,          UINT32_MAX, 2,          0),                  "/",  -1     },
        {raw_exec(5000,       0,          2,          0),                  "/",  -1     },
        {raw_exec(1,          0,          10,         GUEST_EXEC_ARGS_FD), NULL, -1     }, // no memfd
        {raw_exec(1,          0,          11,         GUEST_EXEC_ARGS_FD), NULL, small  }, // past its end
        {raw_exec(1,          0,          0,          GUEST_EXEC_ARGS_FD), NULL, small  },
        {raw_exec(1,          0,          UINT32_MAX, GUEST_EXEC_ARGS_FD), NULL, small  },
        {raw_exec(1,          0,          10,         GUEST_EXEC_ARGS_FD), NULL, ends[0]}, // no file at all
        {raw_exec(1,          0,          10,         GUEST_EXEC_ARGS_FD), "/",  small  }, // both
    };
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        send_raw(&box, &bad[i].msg, sizeof bad[i].msg, bad[i].tail, bad[i].fd);
        kit_expect_guest(&box, GUEST_FAILED, &ev);
        assert_int_equal(ev.msg.head.id, 500);
        assert_int_equal(ev.msg.failed.step, STEP_ARGS);
    }
    // What it does not know, or is not as long as it must be, it does not answer.
    struct wire_head heads[] = {
        {.version = WIRE_VERSION, .type = GUEST_EXEC },
        {.version = WIRE_VERSION, .type = GUEST_ROOT },
        {.version = WIRE_VERSION, .type = GUEST_READY},
        {.version = WIRE_VERSION, .type = 999        },
        {.version = WIRE_VERSION, .type = 0          },
        {.version = 77,           .type = GUEST_EXEC },
    };
    for (unsigned i = 0; i < sizeof heads / sizeof *heads; i++)
        send_raw(&box, &heads[i], sizeof heads[i], NULL, small);
    send_raw(&box, "x", 1, NULL, ends[1]);
    struct guest_root root = {
        .head = {.version = WIRE_VERSION, .type = GUEST_ROOT},
          .slot = 1
    };
    send_raw(&box, &root, sizeof root, NULL, small); // it has one
    assert_string_equal(kit_run(&box, "echo fine").out, "fine\n");
    fd_close(ends[0]);
    fd_close(ends[1]);
    // Whatever came along with the nonsense was closed.
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/fd", kit_child(kit_count_children() - 1));
    assert_true(kit_count_entries(path) < 20);
    (void)kit_destroy(&box);
}

KIT_MAIN(KIT_CASE(exit_codes_and_signals), KIT_CASE(what_cannot_start_says_why),
         KIT_CASE(input_is_a_pipe_when_asked_for), KIT_CASE(terminal_when_asked_for),
         KIT_CASE(arguments_of_every_size), KIT_CASE(kill_ends_all_of_an_exec),
         KIT_CASE(kill_while_it_forks_without_end), KIT_CASE(left_behind_and_killed_by_id),
         KIT_CASE(signals_reach_the_whole_group), KIT_CASE(several_at_once),
         KIT_CASE(one_id_one_exec), KIT_CASE(as_many_as_there_may_be),
         KIT_CASE(many_one_after_the_other_take_no_more_than_one),
         KIT_CASE(nonsense_is_refused_and_the_guest_lives_on))
