// SPDX-License-Identifier: Apache-2.0
#include "serve_kit.h"

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

static char self[256], stand_in[300];
pid_t serve_keeper = -1;
static int listener = -1, status_fd = -1;
struct stand_in_hello serve_hello;
int serve_control = -1;

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

struct keeper_config serve_small(void)
{
    return (struct keeper_config){
        .boxes = 8, .pool_ready = 2, .pool_blank = 1, .volume_bytes = VOLUME};
}

void serve_start_with(const struct keeper_config *config, const char *program, const char *own)
{
    make_files();
    (void)fflush(NULL);
    serve_keeper = fork();
    assert_true(serve_keeper >= 0);
    if (serve_keeper > 0)
        return;
    struct keeper_serving serving = {
        .boxes = *config,
        .self = own != NULL ? own : self,
        .daemon = program != NULL ? program : stand_in,
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

void serve_start(const struct keeper_config *config)
{
    serve_start_with(config, NULL, NULL);
}

// --- being the daemon ---

static int hear_hello(int sock)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } c;
    struct iovec iov = {.iov_base = &serve_hello, .iov_len = sizeof serve_hello};
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = &c,
        .msg_controllen = sizeof c,
    };
    struct pollfd p = {.fd = sock, .events = POLLIN};
    int fd = -1;
    assert_int_equal(poll(&p, 1, KIT_PATIENCE_MS), 1);
    if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof serve_hello)
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
        fd_close(serve_control);
        serve_control = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(serve_control, (const struct sockaddr *)&a, sizeof a), 0);
        sock = hear_hello(serve_control);
    }
    assert_true(sock >= 0);
    kit_attach(sock, serve_keeper);
}

static void hear_event(struct keeper_event *ret)
{
    struct err err = {0};
    struct pollfd p = {.fd = kit_sock(), .events = POLLIN};
    assert_int_equal(poll(&p, 1, KIT_PATIENCE_MS), 1);
    if (keeper_recv(kit_sock(), ret, MSG_DONTWAIT, &err) != 1)
        fail_msg("%s", err.msg);
}

// Everything up to KEEPER_WELCOME, which must be KEEPER_LIVE.
struct met serve_meet(void)
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

void serve_say_serving(void)
{
    struct err err = {0};
    assert_int_equal(keeper_send_serving(kit_sock(), &err), 0);
    (void)kit_state(); // so it was heard
}

void serve_close_guests(struct met *met)
{
    for (unsigned i = 0; i < met->n_live; i++)
        fd_close(met->box[i].guest);
}

void serve_await_end_of(pid_t pid)
{
    KIT_AWAIT(kill(pid, 0) < 0 && errno == ESRCH);
}

void serve_kill_daemon(void)
{
    pid_t pid = serve_hello.pid;
    kit_attach(-1, serve_keeper); // it takes its end of the socket along
    assert_int_equal(kill(pid, SIGKILL), 0);
    serve_await_end_of(pid);
}

int serve_await_end(void)
{
    int status = 0;
    pid_t r = 0;
    KIT_AWAIT((r = waitpid(serve_keeper, &status, WNOHANG)) != 0);
    assert_int_equal(r, serve_keeper);
    serve_keeper = -1;
    return status;
}

int serve_case_end(void **state)
{
    (void)state;
    kit_attach(-1, -1);
    if (serve_keeper > 0) {
        (void)kill(serve_keeper, SIGKILL);
        (void)waitpid(serve_keeper, NULL, 0);
        serve_keeper = -1;
    }
    fd_close(TAKE_FD(serve_control));
    fd_close(TAKE_FD(listener));
    fd_close(TAKE_FD(status_fd));
    return 0;
}

void serve_stop(void)
{
    kit_attach(-1, serve_keeper);
    assert_int_equal(kill(serve_keeper, SIGTERM), 0);
    assert_int_equal(serve_await_end(), 0);
}

struct keeper_status serve_status(void)
{
    struct keeper_status s = {0};
    KIT_AWAIT(keeper_status_read(status_fd, &s) == 0);
    return s;
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
    serving.boxes = serve_small();
    serving.boxes.data = data;
    serving.self = self;
    serving.daemon = stand_in;
    serving.drain_ms = 1000;
    return serve(&serving);
}

int serve_main(int argc, char **argv, int (*run)(void))
{
    find_programs();
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return 0;
    if (argc == 4 && strcmp(argv[2], "--resume") == 0)
        return resume(argv[3]);
    if (argc == 2)
        cmocka_set_test_filter(argv[1]);
    return run();
}
