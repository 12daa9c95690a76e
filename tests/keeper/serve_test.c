// SPDX-License-Identifier: Apache-2.0
// A keeper that serves: what a daemon is given, what the next one is told when it dies, how
// everything ends, and a change of programs.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "serve_kit.h"

// --- the daemon ---

CHECK_CASE(daemon_has_nothing_but_what_it_is_given)
{
    struct keeper_config config = serve_small();
    serve_start(&config);
    for (int i = 0; i < 2; i++) { // the second as well as the first
        struct met met = serve_meet();
        assert_int_equal(serve_hello.uid, DAEMON_ID);
        assert_int_equal(serve_hello.gid, DAEMON_ID);
        for (int c = 0; c < 4; c++)
            assert_int_equal(serve_hello.caps[c], 0);
        assert_int_equal(serve_hello.no_new_privs, 1);
        assert_int_equal(serve_hello.n_groups, 0);
        assert_int_equal(serve_hello.n_fds, 6); // 0 to 2, the serve_keeper, settings, one listener
        assert_int_equal(serve_hello.n_listeners, 1);
        assert_int_equal(serve_hello.n_env, 2);
        assert_string_equal(serve_hello.conf, kit_data());
        assert_int_equal(met.n_live, 0);
        assert_int_equal(met.welcome.boxes, 8);
        assert_int_equal(met.welcome.has_volume, 1);
        assert_int_equal(met.welcome.pool_ready, 2);
        assert_int_equal(met.welcome.restarts, i);
        serve_kill_daemon();
    }
    (void)serve_meet();
    serve_stop();
}

CHECK_CASE(boxes_outlive_daemons)
{
    struct keeper_config config = serve_small();
    struct guest_event started;
    const char *marker = kit_marker();
    char script[64];
    serve_start(&config);
    struct met met = serve_meet();
    uint64_t run = met.welcome.run;
    struct claim kept = kit_claim(DISK_KEPT, 7), tmpfs = kit_claim(DISK_TMPFS, 0);
    kept.limits.memory = 256 * MIB;
    struct kit_box a = kit_take(&kept), b = kit_take(&tmpfs);
    (void)snprintf(script, sizeof script, "echo kept > f; exec sleep %s", marker);
    (void)kit_exec(&a, script, &started);
    KIT_AWAIT(kit_count_processes(marker) == 1);
    for (unsigned i = 1; i <= 3; i++) {
        fd_close(TAKE_FD(a.guest));
        fd_close(TAKE_FD(b.guest));
        serve_kill_daemon();
        met = serve_meet();
        assert_int_equal(met.welcome.run, run);
        assert_int_equal(met.welcome.restarts, i);
        assert_int_equal(met.n_live, 2);
        unsigned ia = met.live[0].box == a.number ? 0 : 1;
        assert_int_equal(met.live[ia].box, a.number);
        assert_int_equal(met.live[ia].disk, 7);
        assert_int_equal(met.live[ia].disk_kind, DISK_KEPT);
        assert_int_equal(met.live[ia].limits.memory, 256 * MIB);
        assert_int_equal(met.live[1 - ia].box, b.number);
        assert_int_equal(met.live[1 - ia].disk_kind, DISK_TMPFS);
        a = met.box[ia];
        b = met.box[1 - ia];
        a.next_exec = 100 + 10 * i;
        assert_int_equal(kit_count_processes(marker), 1);
        assert_string_equal(kit_run(&a, "cat f").out, "kept\n");
    }
    fd_close(started.out);
    fd_close(started.err);
    (void)kit_destroy(&a);
    (void)kit_destroy(&b);
    assert_int_equal(kit_count_processes(marker), 0);
    serve_stop();
}

CHECK_CASE(ready_boxes_are_handed_to_each_daemon)
{
    struct keeper_config config = serve_small();
    struct box_limits limits = limits_default();
    serve_start(&config);
    uint64_t first[2] = {0};
    (void)serve_meet();
    kit_await_pool(2, 1);
    struct kit_box taken = kit_take_ready(&limits);
    first[0] = taken.number;
    kit_await_pool(2, 1);
    fd_close(taken.guest);
    serve_kill_daemon();
    struct met met = serve_meet();
    assert_int_equal(met.n_live, 1);
    assert_int_equal(met.live[0].box, first[0]);
    kit_await_pool(2, 1);
    struct kit_box again = kit_take_ready(&limits);
    assert_int_equal(kit_run(&again, "true").status, 0);
    (void)kit_destroy(&again);
    (void)kit_destroy(&met.box[0]);
    serve_stop();
}

CHECK_CASE(what_a_dead_daemon_asked_for_is_nobodys)
{
    struct keeper_config config = {.boxes = 4, .volume_bytes = VOLUME};
    struct claim kept = kit_claim(DISK_KEPT, 8);
    struct err err = {0};
    serve_start(&config);
    (void)serve_meet();
    for (int i = 0; i < 10; i++) {
        serve_say_serving();
        assert_int_equal(keeper_send_claim(kit_sock(), 77, &kept, &err), 0);
        if (i % 2 == 1)
            kit_sleep_ms((unsigned)i); // at various points of the making
        serve_kill_daemon();
        struct met met = serve_meet();
        // It was handed out before the death, and is here again; or it is gone, disk and all.
        assert_true(met.n_live <= 1);
        struct kit_box box = met.n_live == 1 ? met.box[0] : kit_take(&kept);
        (void)kit_destroy(&box);
    }
    serve_stop();
}

CHECK_CASE(last_words_are_heard)
{
    struct keeper_config config = serve_small();
    struct err err = {0};
    struct box_limits limits = limits_default();
    serve_start(&config);
    (void)serve_meet();
    struct kit_box ready = kit_next_ready();
    // The keeper stops, so that the message is still unread when the daemon dies.
    assert_int_equal(kill(serve_keeper, SIGSTOP), 0);
    assert_int_equal(keeper_send_take(kit_sock(), 5, ready.number, &limits, 9, &err), 0);
    pid_t daemon = serve_hello.pid;
    kit_attach(-1, serve_keeper);
    assert_int_equal(kill(daemon, SIGKILL), 0);
    assert_int_equal(kill(serve_keeper, SIGCONT), 0);
    serve_await_end_of(daemon);
    struct met met = serve_meet();
    assert_int_equal(met.n_live, 1);
    assert_int_equal(met.live[0].box, ready.number);
    assert_int_equal(met.live[0].disk, 9);
    fd_close(ready.guest);
    serve_close_guests(&met);
    serve_stop();
}

CHECK_CASE(box_that_dies_alone_is_not_told_of)
{
    struct keeper_config config = {.boxes = 4};
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    serve_start(&config);
    (void)serve_meet();
    struct kit_box box = kit_take(&claim), other = kit_take(&claim);
    struct guest_event started;
    char script[64];
    const char *marker = kit_marker();
    (void)snprintf(script, sizeof script, "exec sleep %s", marker);
    (void)kit_exec(&box, script, &started);
    fd_close(started.out);
    fd_close(started.err);
    pid_t daemon = serve_hello.pid, guest = kit_child(2); // after the spawner and the daemon
    assert_int_equal(kit_child(1), daemon);
    assert_int_equal(kill(serve_keeper, SIGSTOP), 0);
    kit_attach(-1, serve_keeper);
    assert_int_equal(kill(daemon, SIGKILL), 0);
    assert_int_equal(kill(guest, SIGKILL), 0);
    assert_int_equal(kill(serve_keeper, SIGCONT), 0);
    serve_await_end_of(daemon);
    struct met met = serve_meet();
    if (met.n_live == 2) { // its death was heard after the new daemon was told of it
        struct keeper_event ev;
        kit_expect(KEEPER_ENDED, &ev);
        kit_expect(KEEPER_GONE, &ev);
    }
    assert_int_equal(kit_state().live, 1);
    assert_int_equal(kit_count_processes(marker), 0);
    serve_close_guests(&met);
    fd_close(box.guest);
    fd_close(other.guest);
    serve_stop();
}

CHECK_CASE(daemon_that_talks_nonsense_is_replaced)
{
    struct keeper_config config = {.boxes = 2};
    serve_start(&config);
    (void)serve_meet();
    pid_t first = serve_hello.pid;
    struct keeper_plain bad = {
        .head = {.version = WIRE_VERSION, .type = KEEPER_CLAIM, .id = 1}
    };
    assert_int_equal(wire_send(kit_sock(), &bad, sizeof bad, NULL, 0, NULL, 0), 0);
    serve_await_end_of(first);
    struct met met = serve_meet();
    assert_int_equal(met.welcome.restarts, 1);
    assert_int_not_equal(serve_hello.pid, first);
    serve_stop();
}

CHECK_CASE(daemon_that_exits_is_replaced)
{
    struct keeper_config config = {.boxes = 2};
    serve_start(&config);
    (void)serve_meet();
    pid_t first = serve_hello.pid;
    assert_int_equal(write(serve_control, (char[]){STAND_IN_EXIT_7}, 1), 1);
    serve_await_end_of(first);
    (void)serve_meet();
    first = serve_hello.pid;
    assert_int_equal(write(serve_control, (char[]){STAND_IN_EXIT_0}, 1), 1); // nobody asked it to
    serve_await_end_of(first);
    assert_int_equal(serve_meet().welcome.restarts, 2);
    serve_stop();
}

CHECK_CASE(daemon_that_never_starts_is_given_up)
{
    struct keeper_config config = {.boxes = 2};
    serve_start_with(&config, "/bin/false", NULL);
    int status = serve_await_end();
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
}

// Asks until there is a spawner again.
static struct kit_box take_patiently(const struct claim *claim)
{
    struct keeper_event ev = {.guest = -1};
    struct err err = {0};
    for (int tries = 0; ev.guest < 0 && tries < 1000; tries++) {
        assert_int_equal(keeper_send_claim(kit_sock(), 55, claim, &err), 0);
        do
            assert_int_equal(keeper_recv(kit_sock(), &ev, 0, &err), 1);
        while (ev.msg.head.id != 55);
        if (ev.guest < 0)
            kit_sleep_ms(10);
    }
    assert_int_equal(ev.msg.head.type, KEEPER_CLAIMED);
    return (struct kit_box){.number = ev.msg.box.box, .guest = ev.guest};
}

CHECK_CASE(spawner_that_dies_is_replaced)
{
    struct keeper_config config = {.boxes = 2};
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    serve_start(&config);
    (void)serve_meet();
    struct kit_box old = kit_take(&claim);
    pid_t spawner = kit_child(0); // started first
    assert_int_equal(kill(spawner, SIGKILL), 0);
    struct kit_box new = take_patiently(&claim);
    serve_await_end_of(spawner);
    assert_int_equal(kit_run(&old, "true").status, 0);
    assert_int_equal(kit_run(&new, "true").status, 0);
    (void)kit_destroy(&old);
    old = kit_take(&claim); // in the slot of a box of the spawner before
    assert_int_equal(kit_run(&old, "true").status, 0);
    (void)kit_destroy(&new);
    (void)kit_destroy(&old);
    serve_stop();
}

CHECK_CASE(fifty_daemons_leave_nothing)
{
    struct keeper_config config = serve_small();
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    serve_start(&config);
    (void)serve_meet();
    kit_await_pool(2, 1);
    struct kit_box box = kit_take(&claim);
    kit_await_pool(2, 1);
    unsigned fds = kit_count_fds(), children = kit_count_children(), mounts = kit_count_mounts();
    fd_close(box.guest);
    for (int i = 0; i < 50; i++) {
        serve_say_serving();
        serve_kill_daemon();
        struct met met = serve_meet();
        assert_int_equal(met.n_live, 1);
        serve_close_guests(&met);
        if (i % 10 == 0)
            kit_await_pool(2, 1);
    }
    kit_await_pool(2, 1);
    KIT_AWAIT(kit_count_fds() == fds);
    assert_int_equal(kit_count_children(), children);
    assert_int_equal(kit_count_mounts(), mounts);
    serve_stop();
}

static struct keeper_disks list_disks(uint64_t above)
{
    struct keeper_event ev;
    struct err err = {0};
    const struct disk_ref from = {.place = PLACE_KEPT, .number = above};
    assert_int_equal(keeper_send_disk_list(kit_sock(), 9, from, &err), 0);
    kit_expect(KEEPER_DISKS, &ev);
    assert_int_equal(ev.msg.head.id, 9);
    return ev.msg.disks;
}

// --- the end ---

CHECK_CASE(stop_ends_everything)
{
    struct keeper_config config = serve_small();
    struct claim claim = kit_claim(DISK_BLANK, 0);
    const char *marker = kit_marker();
    char script[64];
    struct guest_event started;
    serve_start(&config);
    (void)serve_meet();
    pid_t daemon = serve_hello.pid;
    struct kit_box box = kit_take(&claim);
    (void)snprintf(script, sizeof script, "exec sleep %s", marker);
    (void)kit_exec(&box, script, &started);
    KIT_AWAIT(kit_count_processes(marker) == 1);
    serve_stop();
    assert_int_equal(kit_count_processes(marker), 0);
    assert_int_equal(kill(daemon, 0), -1);
    fd_close(started.out);
    fd_close(started.err);
    fd_close(box.guest);
}

CHECK_CASE(second_signal_hurries)
{
    struct keeper_config config = {.boxes = 2};
    char c;
    serve_start(&config);
    (void)serve_meet();
    pid_t daemon = serve_hello.pid;
    assert_int_equal(write(serve_control, (char[]){STAND_IN_IGNORE_TERM}, 1), 1);
    assert_int_equal(read(serve_control, &c, 1), 1);
    int64_t began = clock_ns();
    assert_int_equal(kill(serve_keeper, SIGTERM), 0);
    kit_sleep_ms(300);
    assert_int_equal(kill(daemon, 0), 0); // it is being waited for
    assert_int_equal(kill(serve_keeper, SIGTERM), 0);
    assert_int_equal(serve_await_end(), 0);
    assert_int_equal(kill(daemon, 0), -1);
    assert_true(clock_ns() - began < 14 * NS_PER_S); // and not for its whole time
}

CHECK_CASE(killed_together_and_started_again)
{
    struct keeper_config config = serve_small();
    struct claim kept = kit_claim(DISK_KEPT, 31), blank = kit_claim(DISK_BLANK, 0);
    serve_start(&config);
    struct met met = serve_meet();
    uint64_t run = met.welcome.run;
    struct kit_box a = kit_take(&kept), b = kit_take(&blank);
    assert_int_equal(kit_run(&a, "echo still here > f; sync").status, 0);
    kit_await_pool(2, 1);
    unsigned cgroups = kit_count_cgroups();
    assert_true(cgroups > 0);
    pid_t daemon = serve_hello.pid;
    (void)kill(serve_keeper, SIGKILL);
    (void)kill(daemon, SIGKILL);
    (void)serve_await_end();
    fd_close(a.guest);
    fd_close(b.guest);
    (void)serve_case_end(NULL);
    config.pool_ready = config.pool_blank = 0;
    serve_start(&config);
    met = serve_meet();
    assert_int_equal(met.n_live, 0);
    assert_int_not_equal(met.welcome.run, run);
    assert_int_equal(kit_count_cgroups(), 0);
    struct keeper_disks disks = list_disks(30);
    assert_int_equal(disks.disk[0], 31);
    assert_int_equal(kit_count_disks(), list_disks(0).n); // no blank one
    a = kit_take(&kept);
    assert_string_equal(kit_run(&a, "cat f").out, "still here\n");
    (void)kit_destroy(&a);
    serve_stop();
}

// --- a new program ---

// Without user namespaces, of which each slot keeps that of its last box.
static unsigned count_fds(void)
{
    char path[64], target[64];
    unsigned n = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/fd", serve_keeper);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        ssize_t len = readlinkat(dirfd(dir), e->d_name, target, sizeof target - 1);
        target[len > 0 ? len : 0] = '\0';
        n += len > 0 && strncmp(target, "user:", 5) != 0;
    }
    (void)closedir(dir);
    return n;
}

CHECK_CASE(program_changes_and_boxes_do_not_notice)
{
    struct keeper_config config = serve_small();
    const char *marker = kit_marker();
    char script[64];
    struct guest_event started;
    serve_start(&config);
    struct met met = serve_meet();
    uint64_t run = met.welcome.run;
    serve_say_serving();
    assert_int_equal(serve_status().serving, 1);
    assert_int_equal(serve_status().pid, serve_keeper);
    struct claim kept = kit_claim(DISK_KEPT, 41), blank = kit_claim(DISK_BLANK, 0);
    kept.limits.pids = 99;
    struct kit_box a = kit_take(&kept), b = kit_take(&blank);
    (void)snprintf(script, sizeof script, "echo one > f; exec sleep %s", marker);
    (void)kit_exec(&a, script, &started);
    assert_int_equal(kit_run(&b, "echo two > f").status, 0);
    uint64_t numbers[2] = {a.number, b.number};
    unsigned fds = 0;
    for (unsigned i = 1; i <= 3; i++) {
        pid_t daemon = serve_hello.pid;
        fd_close(TAKE_FD(a.guest));
        fd_close(TAKE_FD(b.guest));
        kit_await_pool(2, 1);
        kit_attach(-1, serve_keeper);
        assert_int_equal(kill(serve_keeper, SIGUSR2), 0);
        serve_await_end_of(daemon);
        met = serve_meet();
        assert_int_equal(serve_status().generation, i);
        assert_int_equal(serve_status().serving, 0);
        serve_say_serving();
        assert_int_equal(serve_status().serving, 1);
        assert_int_equal(met.welcome.run, run);
        assert_int_equal(met.welcome.restarts, i);
        assert_int_equal(met.n_live, 2);
        unsigned ia = met.live[0].box == numbers[0] ? 0 : 1;
        assert_int_equal(met.live[ia].disk, 41);
        assert_int_equal(met.live[ia].limits.pids, 99);
        assert_int_equal(met.live[1 - ia].box, numbers[1]);
        a = met.box[ia];
        b = met.box[1 - ia];
        a.next_exec = b.next_exec = 100 + 10 * i;
        assert_int_equal(kit_count_processes(marker), 1);
        assert_string_equal(kit_run(&a, "cat f").out, "one\n");
        assert_string_equal(kit_run(&b, "cat f").out, "two\n");
        // New boxes are made, also in the slots that others have left.
        struct claim claim = kit_claim(DISK_TMPFS, 0);
        struct kit_box new = kit_take(&claim);
        assert_true(new.number > numbers[1]);
        assert_int_equal(kit_run(&new, "true").status, 0);
        (void)kit_destroy(&new);
        kit_await_pool(2, 1);
        fds = i == 1 ? count_fds() : fds;
        assert_int_equal(count_fds(), fds);
    }
    struct keeper_ended ended = kit_destroy(&a);
    assert_true(ended.cpu_usec > 0);
    (void)kit_destroy(&b);
    assert_int_equal(kit_count_processes(marker), 0);
    a = kit_take(&kept);
    assert_string_equal(kit_run(&a, "cat f").out, "one\n");
    (void)kit_destroy(&a);
    fd_close(started.out);
    fd_close(started.err);
    serve_stop();
}

CHECK_CASE(program_that_does_not_run_is_not_taken)
{
    struct keeper_config config = {.boxes = 2};
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    serve_start_with(&config, NULL, "/bin/false");
    (void)serve_meet();
    serve_say_serving();
    struct kit_box box = kit_take(&claim);
    pid_t daemon = serve_hello.pid;
    assert_int_equal(kill(serve_keeper, SIGUSR2), 0);
    KIT_AWAIT(serve_status().refused == 1);
    assert_non_null(strstr(serve_status().why, "/bin/false"));
    assert_int_equal(serve_status().generation, 0);
    assert_int_equal(kill(daemon, 0), 0);
    assert_int_equal(kit_run(&box, "true").status, 0);
    (void)kit_destroy(&box);
    serve_stop();
}

static int run(void)
{
    const struct CMUnitTest tests[] = {
        SERVE_CASE(daemon_has_nothing_but_what_it_is_given),
        SERVE_CASE(boxes_outlive_daemons),
        SERVE_CASE(ready_boxes_are_handed_to_each_daemon),
        SERVE_CASE(what_a_dead_daemon_asked_for_is_nobodys),
        SERVE_CASE(last_words_are_heard),
        SERVE_CASE(box_that_dies_alone_is_not_told_of),
        SERVE_CASE(daemon_that_talks_nonsense_is_replaced),
        SERVE_CASE(daemon_that_exits_is_replaced),
        SERVE_CASE(daemon_that_never_starts_is_given_up),
        SERVE_CASE(spawner_that_dies_is_replaced),
        SERVE_CASE(fifty_daemons_leave_nothing),
        SERVE_CASE(stop_ends_everything),
        SERVE_CASE(second_signal_hurries),
        SERVE_CASE(killed_together_and_started_again),
        SERVE_CASE(program_changes_and_boxes_do_not_notice),
        SERVE_CASE(program_that_does_not_run_is_not_taken),
    };
    return cmocka_run_group_tests(tests, kit_begin, kit_end);
}

int main(int argc, char **argv)
{
    return serve_main(argc, argv, run);
}
