// SPDX-License-Identifier: Apache-2.0
// A keeper that serves, with a stand-in for its daemon (stand-in.h), whose part the test plays:
// what a daemon is given, what the next one is told when it dies, and a change of programs. The
// program that takes over is this one: see main.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/title.h"
#include "kit.h"
#include "stand-in.h"

#define VOLUME (4ull << 30)
#define MIB    (1ull << 20)

enum { DAEMON_ID = 61500 };

static char self[256], stand_in[300];
static pid_t keeper = -1;
static int listener = -1, status_fd = -1;
static struct stand_in_hello hello; // of the daemon that the test plays now
static int control = -1;

// --- starting ---

static void find_programs(void)
{
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    (void)snprintf(stand_in, sizeof stand_in, "%.*s/stand-in", (int)(strrchr(self, '/') - self),
                   self);
}

static struct sockaddr_un address(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    (void)snprintf(a.sun_path, sizeof a.sun_path, "%s/control", kit_data());
    return a;
}

static void make_files(void)
{
    struct sockaddr_un a = address();
    char path[128];
    (void)unlink(a.sun_path);
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(listener, 64), 0);
    (void)snprintf(path, sizeof path, "%s/cay.pid", kit_data());
    status_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    assert_true(status_fd >= 0);
}

static int serve(struct keeper_serving *serving)
{
    struct err err = {0};
    int r = keeper_serve(serving, &err);
    if (r < 0)
        (void)fprintf(stderr, "keeper: %s\n", err.msg);
    return r < 0 ? 1 : 0;
}

static struct keeper_config small(void)
{
    return (struct keeper_config){
        .boxes = 8, .pool_ready = 2, .pool_blank = 1, .volume_bytes = VOLUME};
}

static void start_with(const struct keeper_config *config, const char *program, const char *own)
{
    make_files();
    (void)fflush(NULL);
    keeper = fork();
    assert_true(keeper >= 0);
    if (keeper > 0)
        return;
    struct keeper_serving serving = {
        .boxes = *config,
        .self = own,
        .daemon = program,
        .uid = DAEMON_ID,
        .gid = DAEMON_ID,
        .conf = memfd_create("conf", MFD_CLOEXEC),
        .status = status_fd,
        .n_listeners = 1,
        .listeners = {listener},
        .drain_ms = 1000,
        .resume = -1,
    };
    serving.boxes.data = kit_data();
    (void)fd_write_all(serving.conf, kit_data(), strlen(kit_data()));
    _exit(serve(&serving));
}

static void start(const struct keeper_config *config)
{
    start_with(config, stand_in, self);
}

// --- being the daemon ---

static int hear_hello(int sock)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } c;
    struct iovec iov = {.iov_base = &hello, .iov_len = sizeof hello};
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = &c,
        .msg_controllen = sizeof c,
    };
    struct pollfd p = {.fd = sock, .events = POLLIN};
    int fd = -1;
    assert_int_equal(poll(&p, 1, KIT_PATIENCE_MS), 1);
    if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof hello)
        return -1; // one that died before it had accepted
    struct cmsghdr *first = CMSG_FIRSTHDR(&msg);
    if (first != NULL)
        memcpy(&fd, CMSG_DATA(first), sizeof fd);
    return fd;
}

// Becomes the daemon that the keeper has started. Connecting never fails, whoever is there.
static void become_daemon(void)
{
    struct sockaddr_un a = address();
    int sock = -1;
    for (int tries = 0; sock < 0 && tries < 100; tries++) {
        fd_close(control);
        control = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(control, (const struct sockaddr *)&a, sizeof a), 0);
        sock = hear_hello(control);
    }
    assert_true(sock >= 0);
    kit_attach(sock, keeper);
}

static void hear_event(struct keeper_event *ret)
{
    struct err err = {0};
    struct pollfd p = {.fd = kit_sock(), .events = POLLIN};
    assert_int_equal(poll(&p, 1, KIT_PATIENCE_MS), 1);
    if (keeper_recv(kit_sock(), ret, MSG_DONTWAIT, &err) != 1)
        fail_msg("%s", err.msg);
}

struct met {
    unsigned n_live;
    struct keeper_live live[64];
    struct kit_box box[64];
    struct keeper_welcome welcome;
};

// Everything up to KEEPER_WELCOME, which must be KEEPER_LIVE.
static struct met meet(void)
{
    struct met met = {0};
    struct keeper_event ev;
    become_daemon();
    for (hear_event(&ev); ev.msg.head.type == KEEPER_LIVE; hear_event(&ev)) {
        assert_true(met.n_live < 64 && ev.guest >= 0);
        assert_int_equal(ev.msg.live.guest_version, WIRE_VERSION);
        met.box[met.n_live] =
            (struct kit_box){.number = ev.msg.live.box, .guest = ev.guest, .next_exec = 100};
        met.live[met.n_live++] = ev.msg.live;
    }
    assert_int_equal(ev.msg.head.type, KEEPER_WELCOME);
    met.welcome = ev.msg.welcome;
    return met;
}

static void say_serving(void)
{
    struct err err = {0};
    assert_int_equal(keeper_send_serving(kit_sock(), &err), 0);
    (void)kit_state(); // so it was heard
}

static void close_guests(struct met *met)
{
    for (unsigned i = 0; i < met->n_live; i++)
        fd_close(met->box[i].guest);
}

static void await_end_of(pid_t pid)
{
    KIT_AWAIT(kill(pid, 0) < 0 && errno == ESRCH);
}

static void kill_daemon(void)
{
    pid_t pid = hello.pid;
    kit_attach(-1, keeper); // it takes its end of the socket along
    assert_int_equal(kill(pid, SIGKILL), 0);
    await_end_of(pid);
}

static int await_keeper(void)
{
    int status = 0;
    pid_t r = 0;
    KIT_AWAIT((r = waitpid(keeper, &status, WNOHANG)) != 0);
    assert_int_equal(r, keeper);
    keeper = -1;
    return status;
}

static int case_end(void **state)
{
    (void)state;
    kit_attach(-1, -1);
    if (keeper > 0) {
        (void)kill(keeper, SIGKILL);
        (void)waitpid(keeper, NULL, 0);
        keeper = -1;
    }
    fd_close(TAKE_FD(control));
    fd_close(TAKE_FD(listener));
    fd_close(TAKE_FD(status_fd));
    return 0;
}

static void stop(void)
{
    kit_attach(-1, keeper);
    assert_int_equal(kill(keeper, SIGTERM), 0);
    assert_int_equal(await_keeper(), 0);
}

// --- the daemon ---

CHECK_CASE(daemon_has_nothing_but_what_it_is_given)
{
    struct keeper_config config = small();
    start(&config);
    for (int i = 0; i < 2; i++) { // the second as well as the first
        struct met met = meet();
        assert_int_equal(hello.uid, DAEMON_ID);
        assert_int_equal(hello.gid, DAEMON_ID);
        for (int c = 0; c < 4; c++)
            assert_int_equal(hello.caps[c], 0);
        assert_int_equal(hello.no_new_privs, 1);
        assert_int_equal(hello.n_groups, 0);
        assert_int_equal(hello.n_fds, 6); // 0 to 2, the keeper, settings, one listener
        assert_int_equal(hello.n_listeners, 1);
        assert_int_equal(hello.n_env, 2);
        assert_string_equal(hello.conf, kit_data());
        assert_int_equal(met.n_live, 0);
        assert_int_equal(met.welcome.boxes, 8);
        assert_int_equal(met.welcome.has_volume, 1);
        assert_int_equal(met.welcome.pool_ready, 2);
        assert_int_equal(met.welcome.restarts, i);
        kill_daemon();
    }
    (void)meet();
    stop();
}

CHECK_CASE(boxes_outlive_daemons)
{
    struct keeper_config config = small();
    struct guest_event started;
    const char *marker = kit_marker();
    char script[64];
    start(&config);
    struct met met = meet();
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
        kill_daemon();
        met = meet();
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
    stop();
}

CHECK_CASE(ready_boxes_are_handed_to_each_daemon)
{
    struct keeper_config config = small();
    struct box_limits limits = limits_default();
    start(&config);
    uint64_t first[2] = {0};
    (void)meet();
    kit_await_pool(2, 1);
    struct kit_box taken = kit_take_ready(&limits);
    first[0] = taken.number;
    kit_await_pool(2, 1);
    fd_close(taken.guest);
    kill_daemon();
    struct met met = meet();
    assert_int_equal(met.n_live, 1);
    assert_int_equal(met.live[0].box, first[0]);
    kit_await_pool(2, 1);
    struct kit_box again = kit_take_ready(&limits);
    assert_int_equal(kit_run(&again, "true").status, 0);
    (void)kit_destroy(&again);
    (void)kit_destroy(&met.box[0]);
    stop();
}

CHECK_CASE(what_a_dead_daemon_asked_for_is_nobodys)
{
    struct keeper_config config = {.boxes = 4, .volume_bytes = VOLUME};
    struct claim kept = kit_claim(DISK_KEPT, 8);
    struct err err = {0};
    start(&config);
    (void)meet();
    for (int i = 0; i < 10; i++) {
        say_serving();
        assert_int_equal(keeper_send_claim(kit_sock(), 77, &kept, &err), 0);
        if (i % 2 == 1)
            kit_sleep_ms((unsigned)i); // at various points of the making
        kill_daemon();
        struct met met = meet();
        // It was handed out before the death, and is here again; or it is gone, disk and all.
        assert_true(met.n_live <= 1);
        struct kit_box box = met.n_live == 1 ? met.box[0] : kit_take(&kept);
        (void)kit_destroy(&box);
    }
    stop();
}

CHECK_CASE(last_words_are_heard)
{
    struct keeper_config config = small();
    struct err err = {0};
    struct box_limits limits = limits_default();
    start(&config);
    (void)meet();
    struct kit_box ready = kit_next_ready();
    // The keeper stops, so that the message is still unread when the daemon dies.
    assert_int_equal(kill(keeper, SIGSTOP), 0);
    assert_int_equal(keeper_send_take(kit_sock(), 5, ready.number, &limits, 9, &err), 0);
    pid_t daemon = hello.pid;
    kit_attach(-1, keeper);
    assert_int_equal(kill(daemon, SIGKILL), 0);
    assert_int_equal(kill(keeper, SIGCONT), 0);
    await_end_of(daemon);
    struct met met = meet();
    assert_int_equal(met.n_live, 1);
    assert_int_equal(met.live[0].box, ready.number);
    assert_int_equal(met.live[0].disk, 9);
    fd_close(ready.guest);
    close_guests(&met);
    stop();
}

CHECK_CASE(box_that_dies_alone_is_not_told_of)
{
    struct keeper_config config = {.boxes = 4};
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    start(&config);
    (void)meet();
    struct kit_box box = kit_take(&claim), other = kit_take(&claim);
    struct guest_event started;
    char script[64];
    const char *marker = kit_marker();
    (void)snprintf(script, sizeof script, "exec sleep %s", marker);
    (void)kit_exec(&box, script, &started);
    fd_close(started.out);
    fd_close(started.err);
    pid_t daemon = hello.pid, guest = kit_child(2); // after the spawner and the daemon
    assert_int_equal(kit_child(1), daemon);
    assert_int_equal(kill(keeper, SIGSTOP), 0);
    kit_attach(-1, keeper);
    assert_int_equal(kill(daemon, SIGKILL), 0);
    assert_int_equal(kill(guest, SIGKILL), 0);
    assert_int_equal(kill(keeper, SIGCONT), 0);
    await_end_of(daemon);
    struct met met = meet();
    KIT_AWAIT(kit_state().live == 1);
    assert_true(met.n_live == 1 || met.n_live == 2);
    close_guests(&met);
    fd_close(box.guest);
    fd_close(other.guest);
    stop();
}

CHECK_CASE(daemon_that_talks_nonsense_is_replaced)
{
    struct keeper_config config = {.boxes = 2};
    start(&config);
    (void)meet();
    pid_t first = hello.pid;
    struct keeper_plain bad = {
        .head = {.version = WIRE_VERSION, .type = KEEPER_CLAIM, .id = 1}
    };
    assert_int_equal(wire_send(kit_sock(), &bad, sizeof bad, NULL, 0, NULL, 0), 0);
    await_end_of(first);
    struct met met = meet();
    assert_int_equal(met.welcome.restarts, 1);
    assert_int_not_equal(hello.pid, first);
    stop();
}

CHECK_CASE(daemon_that_exits_is_replaced)
{
    struct keeper_config config = {.boxes = 2};
    start(&config);
    (void)meet();
    pid_t first = hello.pid;
    assert_int_equal(write(control, (char[]){STAND_IN_EXIT_7}, 1), 1);
    await_end_of(first);
    (void)meet();
    first = hello.pid;
    assert_int_equal(write(control, (char[]){STAND_IN_EXIT_0}, 1), 1); // nobody asked it to
    await_end_of(first);
    assert_int_equal(meet().welcome.restarts, 2);
    stop();
}

CHECK_CASE(daemon_that_never_starts_is_given_up)
{
    struct keeper_config config = {.boxes = 2};
    start_with(&config, "/bin/false", self);
    int status = await_keeper();
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
}

CHECK_CASE(fifty_daemons_leave_nothing)
{
    struct keeper_config config = small();
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    start(&config);
    (void)meet();
    kit_await_pool(2, 1);
    struct kit_box box = kit_take(&claim);
    kit_await_pool(2, 1);
    unsigned fds = kit_count_fds(), children = kit_count_children(), mounts = kit_count_mounts();
    fd_close(box.guest);
    for (int i = 0; i < 50; i++) {
        say_serving();
        kill_daemon();
        struct met met = meet();
        assert_int_equal(met.n_live, 1);
        close_guests(&met);
        if (i % 10 == 0)
            kit_await_pool(2, 1);
    }
    kit_await_pool(2, 1);
    KIT_AWAIT(kit_count_fds() == fds);
    assert_int_equal(kit_count_children(), children);
    assert_int_equal(kit_count_mounts(), mounts);
    stop();
}

// --- requests ---

CHECK_CASE(taken_disk_is_kept)
{
    struct keeper_config config = small();
    struct box_limits limits = limits_default();
    struct keeper_event ev;
    struct err err = {0};
    start(&config);
    (void)meet();
    limits.disk = 16 * MIB;
    limits.pids = 77;
    struct kit_box box = kit_next_ready();
    assert_int_equal(keeper_send_take(kit_sock(), 5, box.number, &limits, 11, &err), 0);
    kit_expect(KEEPER_OK, &ev);
    assert_int_equal(kit_run(&box, "echo mine > /workspace/f").status, 0);
    // Its quota is the one asked for, while it runs.
    assert_int_not_equal(kit_run(&box, "head -c 20000000 /dev/urandom > big").status, 0);
    assert_int_equal(kit_run(&box, "rm big; sync -f .").status, 0);
    limits.disk = 64 * MIB;
    assert_int_equal(keeper_send_limit(kit_sock(), 6, box.number, &limits, &err), 0);
    kit_expect(KEEPER_OK, &ev);
    assert_int_equal(kit_run(&box, "head -c 20000000 /dev/urandom > big").status, 0);
    (void)kit_destroy(&box);
    struct claim kept = kit_claim(DISK_KEPT, 11);
    box = kit_take(&kept);
    assert_string_equal(kit_run(&box, "cat f; stat -c %s big").out, "mine\n20000000\n");
    // Another box cannot have it, nor one that exists without a user.
    struct kit_box ready = kit_next_ready();
    limits = limits_default();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(keeper_send_take(kit_sock(), 7, ready.number, &limits, 11, &err), 0);
        kit_expect(KEEPER_ERROR, &ev);
        assert_int_equal(ev.msg.error.code, ERR_CONFLICT);
        if (i == 0)
            (void)kit_destroy(&box);
    }
    assert_int_equal(keeper_send_take(kit_sock(), 8, ready.number, &limits, 12, &err), 0);
    kit_expect(KEEPER_OK, &ev);
    (void)kit_destroy(&ready);
    stop();
}

static struct keeper_disks list_disks(uint64_t above)
{
    struct keeper_event ev;
    struct err err = {0};
    assert_int_equal(keeper_send_disk_list(kit_sock(), 9, above, &err), 0);
    kit_expect(KEEPER_DISKS, &ev);
    assert_int_equal(ev.msg.head.id, 9);
    return ev.msg.disks;
}

CHECK_CASE(disks_are_listed)
{
    struct keeper_config config = {.boxes = 2, .volume_bytes = VOLUME};
    const uint64_t numbers[] = {9000, 10001, 10002, 1ull << 40};
    start(&config);
    (void)meet();
    for (unsigned i = 0; i < 4; i++) {
        struct claim kept = kit_claim(DISK_KEPT, numbers[3 - i]);
        struct kit_box box = kit_take(&kept);
        (void)kit_destroy(&box);
    }
    struct keeper_disks d = list_disks(8999);
    assert_int_equal(d.n, 4);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(d.disk[i], numbers[i]);
    d = list_disks(10001);
    assert_int_equal(d.n, 2);
    assert_int_equal(d.disk[0], 10002);
    assert_int_equal(list_disks(1ull << 40).n, 0);
    stop();
}

CHECK_CASE(usage_is_told)
{
    struct keeper_config config = {.boxes = 2, .volume_bytes = VOLUME};
    struct claim kept = kit_claim(DISK_KEPT, 21);
    struct keeper_event ev;
    struct err err = {0};
    struct guest_event started;
    char c;
    start(&config);
    (void)meet();
    struct kit_box box = kit_take(&kept);
    (void)kit_exec(&box,
                   "head -c 9000000 /dev/urandom > f; sync -f .; exec python3 -c 'import time\n"
                   "while time.process_time() < 0.3: pass\n"
                   "x = bytearray(50 << 20)\nprint(1, flush=True)\ntime.sleep(1000)'",
                   &started);
    assert_int_equal(read(started.out, &c, 1), 1);
    assert_int_equal(keeper_send_usage(kit_sock(), 3, box.number, &err), 0);
    kit_expect(KEEPER_USED, &ev);
    assert_int_equal(ev.msg.used.box, box.number);
    assert_true(ev.msg.used.cpu_usec > 300000);
    assert_true(ev.msg.used.memory > 50 * MIB && ev.msg.used.memory < 1024 * MIB);
    assert_true(ev.msg.used.memory_peak >= ev.msg.used.memory);
    assert_int_equal(ev.msg.used.pids, 2); // the guest, and that
    assert_true(ev.msg.used.disk >= 9000000 && ev.msg.used.disk < 20000000);
    assert_int_equal(keeper_send_usage(kit_sock(), 4, box.number + 1, &err), 0);
    kit_expect(KEEPER_ERROR, &ev);
    assert_int_equal(ev.msg.error.code, ERR_NOT_FOUND);
    fd_close(started.out);
    fd_close(started.err);
    (void)kit_destroy(&box);
    stop();
}

CHECK_CASE(daemon_that_sends_without_reading)
{
    enum { N = 4000 };
    struct keeper_config config = {.boxes = 2};
    struct claim bad = kit_claim(DISK_TMPFS, 0);
    struct keeper_event ev;
    struct err err = {0};
    start(&config);
    (void)meet();
    bad.image = "no-such-image";
    for (uint32_t i = 1; i <= N; i++)
        assert_int_equal(keeper_send_claim(kit_sock(), i, &bad, &err), 0);
    for (uint32_t i = 1; i <= N; i++) {
        kit_expect(KEEPER_ERROR, &ev);
        assert_int_equal(ev.msg.head.id, i);
    }
    assert_int_equal(kit_state().busy, 0);
    stop();
}

CHECK_CASE(more_claims_at_once_than_the_spawner_takes)
{
    enum { N = 150 };
    struct keeper_config config = {.boxes = N};
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    struct keeper_event ev;
    struct err err = {0};
    start(&config);
    (void)meet();
    for (uint32_t i = 1; i <= N; i++)
        assert_int_equal(keeper_send_claim(kit_sock(), i, &claim, &err), 0);
    for (uint32_t i = 1; i <= N; i++) {
        kit_expect(KEEPER_CLAIMED, &ev);
        fd_close(ev.guest);
    }
    assert_int_equal(kit_state().live, N);
    assert_int_equal(keeper_send_claim(kit_sock(), 1, &claim, &err), 0);
    kit_expect(KEEPER_ERROR, &ev);
    assert_int_equal(ev.msg.error.code, ERR_EXHAUSTED);
    stop();
}

// --- the end ---

CHECK_CASE(stop_ends_everything)
{
    struct keeper_config config = small();
    struct claim claim = kit_claim(DISK_BLANK, 0);
    const char *marker = kit_marker();
    char script[64];
    struct guest_event started;
    start(&config);
    (void)meet();
    pid_t daemon = hello.pid;
    struct kit_box box = kit_take(&claim);
    (void)snprintf(script, sizeof script, "exec sleep %s", marker);
    (void)kit_exec(&box, script, &started);
    KIT_AWAIT(kit_count_processes(marker) == 1);
    stop();
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
    start(&config);
    (void)meet();
    pid_t daemon = hello.pid;
    assert_int_equal(write(control, (char[]){STAND_IN_IGNORE_TERM}, 1), 1);
    assert_int_equal(read(control, &c, 1), 1);
    int64_t began = clock_ns();
    assert_int_equal(kill(keeper, SIGTERM), 0);
    kit_sleep_ms(300);
    assert_int_equal(kill(daemon, 0), 0); // it is being waited for
    assert_int_equal(kill(keeper, SIGTERM), 0);
    assert_int_equal(await_keeper(), 0);
    assert_int_equal(kill(daemon, 0), -1);
    assert_true(clock_ns() - began < 14 * NS_PER_S); // and not for its whole time
}

CHECK_CASE(killed_together_and_started_again)
{
    struct keeper_config config = small();
    struct claim kept = kit_claim(DISK_KEPT, 31), blank = kit_claim(DISK_BLANK, 0);
    start(&config);
    struct met met = meet();
    uint64_t run = met.welcome.run;
    struct kit_box a = kit_take(&kept), b = kit_take(&blank);
    assert_int_equal(kit_run(&a, "echo still here > f; sync").status, 0);
    kit_await_pool(2, 1);
    unsigned cgroups = kit_count_cgroups();
    assert_true(cgroups > 0);
    pid_t daemon = hello.pid;
    (void)kill(keeper, SIGKILL);
    (void)kill(daemon, SIGKILL);
    (void)await_keeper();
    fd_close(a.guest);
    fd_close(b.guest);
    (void)case_end(NULL);
    config.pool_ready = config.pool_blank = 0;
    start(&config);
    met = meet();
    assert_int_equal(met.n_live, 0);
    assert_int_not_equal(met.welcome.run, run);
    assert_int_equal(kit_count_cgroups(), 0);
    struct keeper_disks disks = list_disks(30);
    assert_int_equal(disks.disk[0], 31);
    assert_int_equal(kit_count_disks(), list_disks(0).n); // no blank one
    a = kit_take(&kept);
    assert_string_equal(kit_run(&a, "cat f").out, "still here\n");
    (void)kit_destroy(&a);
    stop();
}

// --- a new program ---

static struct keeper_status status(void)
{
    struct keeper_status s = {0};
    KIT_AWAIT(keeper_status_read(status_fd, &s) == 0);
    return s;
}

CHECK_CASE(program_changes_and_boxes_do_not_notice)
{
    struct keeper_config config = small();
    const char *marker = kit_marker();
    char script[64];
    struct guest_event started;
    start(&config);
    struct met met = meet();
    uint64_t run = met.welcome.run;
    say_serving();
    assert_int_equal(status().serving, 1);
    assert_int_equal(status().pid, keeper);
    struct claim kept = kit_claim(DISK_KEPT, 41), blank = kit_claim(DISK_BLANK, 0);
    kept.limits.pids = 99;
    struct kit_box a = kit_take(&kept), b = kit_take(&blank);
    (void)snprintf(script, sizeof script, "echo one > f; exec sleep %s", marker);
    (void)kit_exec(&a, script, &started);
    assert_int_equal(kit_run(&b, "echo two > f").status, 0);
    uint64_t numbers[2] = {a.number, b.number};
    unsigned fds = 0;
    for (unsigned i = 1; i <= 3; i++) {
        pid_t daemon = hello.pid;
        fd_close(TAKE_FD(a.guest));
        fd_close(TAKE_FD(b.guest));
        kit_await_pool(2, 1);
        kit_attach(-1, keeper);
        assert_int_equal(kill(keeper, SIGUSR2), 0);
        await_end_of(daemon);
        met = meet();
        assert_int_equal(status().generation, i);
        assert_int_equal(status().serving, 0);
        say_serving();
        assert_int_equal(status().serving, 1);
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
        fds = i == 1 ? kit_count_fds() : fds;
        assert_int_equal(kit_count_fds(), fds);
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
    stop();
}

CHECK_CASE(program_that_does_not_run_is_not_taken)
{
    struct keeper_config config = {.boxes = 2};
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    start_with(&config, stand_in, "/bin/false");
    (void)meet();
    say_serving();
    struct kit_box box = kit_take(&claim);
    pid_t daemon = hello.pid;
    assert_int_equal(kill(keeper, SIGUSR2), 0);
    KIT_AWAIT(status().refused == 1);
    assert_non_null(strstr(status().why, "/bin/false"));
    assert_int_equal(status().generation, 0);
    assert_int_equal(kill(daemon, 0), 0);
    assert_int_equal(kit_run(&box, "true").status, 0);
    (void)kit_destroy(&box);
    stop();
}

#define SERVE_CASE(name) cmocka_unit_test_setup_teardown(name, NULL, case_end)

static int run_all(void)
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
        SERVE_CASE(fifty_daemons_leave_nothing),
        SERVE_CASE(taken_disk_is_kept),
        SERVE_CASE(disks_are_listed),
        SERVE_CASE(usage_is_told),
        SERVE_CASE(daemon_that_sends_without_reading),
        SERVE_CASE(more_claims_at_once_than_the_spawner_takes),
        SERVE_CASE(stop_ends_everything),
        SERVE_CASE(second_signal_hurries),
        SERVE_CASE(killed_together_and_started_again),
        SERVE_CASE(program_changes_and_boxes_do_not_notice),
        SERVE_CASE(program_that_does_not_run_is_not_taken),
    };
    return cmocka_run_group_tests(tests, kit_begin, kit_end);
}

// In the place of the keeper before: `cay serve --resume N`.
static int resume(const char *number)
{
    static char data[128];
    struct keeper_serving serving = {0};
    struct err err = {0};
    if (keeper_resume((int)strtol(number, NULL, 10), &serving, &err) < 0) {
        (void)fprintf(stderr, "resume: %s\n", err.msg);
        return 1;
    }
    (void)pread(serving.conf, data, sizeof data - 1, 0);
    serving.boxes = small();
    serving.boxes.data = data;
    serving.self = self;
    serving.daemon = stand_in;
    serving.drain_ms = 1000;
    return serve(&serving);
}

int main(int argc, char **argv)
{
    find_programs();
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return 0;
    if (argc == 4 && strcmp(argv[2], "--resume") == 0)
        return resume(argv[3]);
    if (argc == 2)
        cmocka_set_test_filter(argv[1]);
    return run_all();
}
