// SPDX-License-Identifier: Apache-2.0
#include "kit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/btrfs.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/fd.h"

static char data[64];
static struct keeper_process keeper = {.sock = -1};
static uint32_t next_request;

// Handed out ahead by the keeper, not yet taken.
static struct kit_box ready[64];
static unsigned n_ready;

void kit_sleep_ms(unsigned ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

// --- the program's own ---

int kit_begin(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("boxes need root\n");
        return -1;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    (void)snprintf(data, sizeof data, "/tmp/cay-keeper-test.XXXXXX");
    return mkdtemp(data) != NULL && chmod(data, 0711) == 0 ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

int kit_end(void **state)
{
    (void)state;
    return nftw(data, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

int kit_case_end(void **state)
{
    (void)state;
    if (keeper.sock >= 0)
        kit_stop();
    return 0;
}

const char *kit_data(void)
{
    return data;
}

// --- the keeper ---

void kit_start(const struct keeper_config *config)
{
    struct keeper_config with_data = *config;
    struct err err = {0};
    if (with_data.data == NULL)
        with_data.data = data;
    (void)fflush(NULL); // what is buffered would be printed twice
    if (keeper_start(&with_data, &keeper, &err) < 0)
        fail_msg("%s", err.msg);
}

void kit_stop(void)
{
    int64_t until = clock_ns() + (int64_t)KIT_PATIENCE_MS * NS_PER_MS;
    fd_close(keeper.sock);
    keeper.sock = -1;
    while (n_ready > 0)
        fd_close(ready[--n_ready].guest);
    while (waitpid(keeper.pid, NULL, WNOHANG) == 0) {
        if (clock_ns() > until) {
            (void)kill(keeper.pid, SIGKILL);
            fail_msg("the keeper does not end");
        }
        kit_sleep_ms(1);
    }
}

void kit_attach(int sock, pid_t pid)
{
    fd_close(keeper.sock);
    while (n_ready > 0)
        fd_close(ready[--n_ready].guest);
    keeper = (struct keeper_process){.sock = sock, .pid = pid};
}

int kit_sock(void)
{
    return keeper.sock;
}

pid_t kit_pid(void)
{
    return keeper.pid;
}

static void wait_readable(int fd, const char *whom)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, KIT_PATIENCE_MS) != 1)
        fail_msg("the %s says nothing", whom);
}

static void hear(struct keeper_event *ret)
{
    struct err err = {0};
    wait_readable(keeper.sock, "keeper");
    if (keeper_recv(keeper.sock, ret, MSG_DONTWAIT, &err) != 1)
        fail_msg("%s", err.msg);
}

static void put_aside(const struct keeper_event *ev)
{
    assert_true(n_ready < sizeof ready / sizeof *ready);
    assert_int_equal(ev->msg.head.id, 0);
    ready[n_ready++] = (struct kit_box){.number = ev->msg.box.box, .guest = ev->guest};
}

void kit_expect(uint16_t type, struct keeper_event *ret)
{
    hear(ret);
    while (ret->msg.head.type == KEEPER_READY) {
        put_aside(ret);
        hear(ret);
    }
    if (ret->msg.head.type == KEEPER_ERROR && type != KEEPER_ERROR)
        fail_msg("the keeper refuses: %s", ret->msg.error.msg);
    assert_int_equal(ret->msg.head.type, type);
}

void kit_expect_closed(void)
{
    for (;;) {
        struct keeper_event ev;
        struct err err = {0};
        wait_readable(keeper.sock, "keeper");
        int r = keeper_recv(keeper.sock, &ev, MSG_DONTWAIT, &err);
        if (r < 0) {
            assert_int_equal(err.code, ERR_UNAVAILABLE);
            return;
        }
        fd_close(ev.guest);
    }
}

struct keeper_state kit_state(void)
{
    struct keeper_event ev;
    struct err err = {0};
    assert_int_equal(keeper_send_status(keeper.sock, ++next_request, &err), 0);
    kit_expect(KEEPER_STATE, &ev);
    assert_int_equal(ev.msg.head.id, next_request);
    return ev.msg.state;
}

void kit_await_pool(uint32_t n_ahead, uint32_t n_blank)
{
    struct keeper_state s = {0};
    KIT_AWAIT((s = kit_state(), s.ready == n_ahead && s.blank == n_blank && s.busy == 0));
    assert_int_equal(n_ready, n_ahead);
}

// --- boxes ---

struct claim kit_claim(enum disk_kind kind, uint64_t disk)
{
    return (struct claim){
        .image = "host",
        .limits = limits_default(),
        .disk_kind = kind,
        .disk = disk,
    };
}

struct kit_box kit_take(const struct claim *claim)
{
    struct keeper_event ev;
    struct err err = {0};
    assert_int_equal(keeper_send_claim(keeper.sock, ++next_request, claim, &err), 0);
    kit_expect(KEEPER_CLAIMED, &ev);
    assert_int_equal(ev.msg.head.id, next_request);
    assert_true(ev.guest >= 0);
    return (struct kit_box){.number = ev.msg.box.box, .guest = ev.guest};
}

struct kit_box kit_next_ready(void)
{
    struct keeper_event ev;
    while (n_ready == 0) {
        hear(&ev);
        assert_int_equal(ev.msg.head.type, KEEPER_READY);
        put_aside(&ev);
    }
    return ready[--n_ready];
}

struct kit_box kit_take_ready(const struct box_limits *limits)
{
    struct keeper_event ev;
    struct err err = {0};
    struct kit_box box = kit_next_ready();
    assert_int_equal(keeper_send_take(keeper.sock, ++next_request, box.number, limits, 0, &err), 0);
    kit_expect(KEEPER_OK, &ev);
    assert_int_equal(ev.msg.head.id, next_request);
    return box;
}

struct err kit_refused(const struct claim *claim)
{
    struct keeper_event ev;
    struct err err = {0};
    assert_int_equal(keeper_send_claim(keeper.sock, ++next_request, claim, &err), 0);
    kit_expect(KEEPER_ERROR, &ev);
    assert_int_equal(ev.msg.head.id, next_request);
    (void)keeper_error_take(&ev.msg.error, &err);
    assert_true(strlen(err.msg) > 0);
    return err;
}

struct keeper_ended kit_destroy(struct kit_box *box)
{
    struct keeper_event ended, gone;
    struct err err = {0};
    assert_int_equal(keeper_send_destroy(keeper.sock, ++next_request, box->number, &err), 0);
    kit_expect(KEEPER_ENDED, &ended);
    assert_int_equal(ended.msg.head.id, next_request);
    assert_int_equal(ended.msg.ended.box, box->number);
    assert_int_equal(ended.msg.ended.asked, 1);
    kit_expect(KEEPER_GONE, &gone);
    assert_int_equal(gone.msg.box.box, box->number);
    fd_close(box->guest);
    box->guest = -1;
    return ended.msg.ended;
}

void kit_expect_guest(struct kit_box *box, uint16_t type, struct guest_event *ret)
{
    struct err err = {0};
    wait_readable(box->guest, "guest");
    if (guest_recv(box->guest, ret, MSG_DONTWAIT, &err) != 1)
        fail_msg("%s", err.msg);
    if (ret->msg.head.type == GUEST_FAILED && type != GUEST_FAILED)
        fail_msg("the guest failed at step %u: errno %d", ret->msg.failed.step,
                 ret->msg.failed.sys_errno);
    assert_int_equal(ret->msg.head.type, type);
}

uint32_t kit_exec(struct kit_box *box, const char *script, struct guest_event *ret)
{
    struct err err = {0};
    uint32_t id = ++box->next_exec;
    const struct exec_spec spec = {
        .cwd = "/workspace",
        .argv = (const char *const[]){"sh",  "-c", script, NULL},
        .envp = (const char *const[]){"PATH=/usr/bin:/bin", NULL    },
        .files = 1024,
    };
    assert_int_equal(guest_send_exec(guest_fresh(box->guest), id, &spec, &err), 0);
    kit_expect_guest(box, GUEST_STARTED, ret);
    assert_int_equal(ret->msg.head.id, id);
    assert_int_equal(ret->in, -1);
    return id;
}

static void read_text(int fd, char *out, size_t size)
{
    ssize_t n = fd_read_all(fd, out, size - 1);
    out[n > 0 ? n : 0] = '\0';
    fd_close(fd);
}

void kit_collect(struct kit_box *box, uint32_t id, struct guest_event *started,
                 struct kit_ended *ret)
{
    struct guest_event ev;
    kit_expect_guest(box, GUEST_EXITED, &ev);
    assert_int_equal(ev.msg.head.id, id);
    ret->status = ev.msg.exited.status;
    ret->limits = ev.msg.exited.limits;
    ret->cpu_usec = ev.msg.exited.cpu_usec;
    // Those who were left behind may hold the ends: take what is there.
    (void)fd_set_nonblock(started->out, 1);
    (void)fd_set_nonblock(started->err, 1);
    read_text(started->out, ret->out, sizeof ret->out);
    read_text(started->err, ret->err, sizeof ret->err);
}

struct kit_ended kit_run(struct kit_box *box, const char *script)
{
    struct guest_event started;
    struct kit_ended ended;
    uint32_t id = kit_exec(box, script, &started);
    kit_collect(box, id, &started, &ended);
    return ended;
}

// --- the machine ---

const char *kit_marker(void)
{
    static char text[4][32];
    static unsigned n;
    n++;
    (void)snprintf(text[n % 4], sizeof text[0], "7%07d%04u", getpid() % 10000000, n % 10000);
    return text[n % 4];
}

static int is_number(const char *name)
{
    return name[0] != '\0' && strspn(name, "0123456789") == strlen(name);
}

static int has_word(const char *pid, const char *word)
{
    char path[64], text[4096];
    (void)snprintf(path, sizeof path, "/proc/%.20s/cmdline", pid);
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : fd_read_all(fd, text, sizeof text);
    return n > 0 && memmem(text, (size_t)n, word, strlen(word)) != NULL;
}

unsigned kit_count_processes(const char *word)
{
    unsigned n = 0;
    DIR *dir = opendir("/proc");
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        n += is_number(e->d_name) && has_word(e->d_name, word);
    (void)closedir(dir);
    return n;
}

unsigned kit_count_entries(const char *path)
{
    unsigned n = 0;
    DIR *dir = opendir(path);
    if (dir == NULL)
        return 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        n += e->d_name[0] != '.';
    (void)closedir(dir);
    return n;
}

unsigned kit_count_fds(void)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/fd", keeper.pid);
    return kit_count_entries(path);
}

static unsigned count_lines(const char *file)
{
    char path[64];
    unsigned n = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/%s", keeper.pid, file);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    for (int c; (c = getc(f)) != EOF;)
        n += c == '\n';
    (void)fclose(f);
    return n;
}

unsigned kit_count_mounts(void)
{
    return count_lines("mountinfo");
}

pid_t kit_child(unsigned i)
{
    char path[64], text[4096];
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", keeper.pid, keeper.pid);
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : fd_read_all(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    char *rest = text;
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL; i--) {
        if (i == 0)
            return (pid_t)strtol(word, NULL, 10);
    }
    return 0;
}

unsigned kit_count_children(void)
{
    unsigned n = 0;
    while (kit_child(n) != 0)
        n++;
    return n;
}

// The keeper's slots are the bytes that it has locked, as the kernel tells of its descriptor.
static void find_slots(unsigned *first, unsigned *last)
{
    char path[64], line[256];
    (void)snprintf(path, sizeof path, "/proc/%d/fdinfo", keeper.pid);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    *first = 1;
    *last = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char file[128];
        (void)snprintf(file, sizeof file, "%s/%.20s", path, e->d_name);
        FILE *f = is_number(e->d_name) ? fopen(file, "re") : NULL;
        while (f != NULL && fgets(line, sizeof line, f) != NULL) {
            if (strncmp(line, "lock:", 5) == 0 && strstr(line, "OFDLCK") != NULL) {
                char *range = strrchr(line, ' ');
                *range = '\0';
                *last = (unsigned)strtoul(range + 1, NULL, 10);
                *first = (unsigned)strtoul(strrchr(line, ' ') + 1, NULL, 10);
            }
        }
        if (f != NULL)
            (void)fclose(f);
    }
    (void)closedir(dir);
    assert_true(*first <= *last);
}

static unsigned count_below(const char *hierarchy, unsigned first, unsigned last)
{
    char path[256];
    unsigned n = 0;
    struct stat st;
    for (unsigned slot = first; slot <= last; slot++) {
        (void)snprintf(path, sizeof path, "%.200s/cay/%u", hierarchy, slot);
        n += stat(path, &st) == 0;
    }
    return n;
}

unsigned kit_count_cgroups(void)
{
    unsigned first, last, n = 0;
    char line[1024];
    find_slots(&first, &last);
    FILE *f = fopen("/proc/self/mountinfo", "re");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        char point[256];
        if (strstr(line, " - cgroup") != NULL && sscanf(line, "%*s %*s %*s %*s %255s", point) == 1)
            n += count_below(point, first, last);
    }
    (void)fclose(f);
    return n;
}

// The volume is mounted nowhere, but the keeper has its directories open: calls fn with the path to
// each.
static void each_volume_dir(void (*fn)(const char *path, unsigned *n), unsigned *n)
{
    char path[64], file[320], target[64];
    (void)snprintf(path, sizeof path, "/proc/%d/fd", keeper.pid);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        (void)snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        ssize_t len = readlink(file, target, sizeof target - 1);
        target[len > 0 ? len : 0] = '\0';
        if (strcmp(target, "/blank") == 0 || strcmp(target, "/kept") == 0)
            fn(file, n);
    }
    (void)closedir(dir);
}

static void add_entries(const char *path, unsigned *n)
{
    *n += kit_count_entries(path);
}

unsigned kit_count_disks(void)
{
    unsigned n = 0;
    each_volume_dir(add_entries, &n);
    return n;
}

static void sync_volume(const char *path, unsigned *n)
{
    auto_fd fd = *n == 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0 && ioctl(fd, BTRFS_IOC_SYNC) == 0) // unlike syncfs it wakes the cleaner too
        ++*n;
}

// Whether the file system of this directory in /sys/fs/btrfs lies on our volume's loop device.
static int is_ours(const char *id)
{
    char path[600], backing[256] = "";
    (void)snprintf(path, sizeof path, "/sys/fs/btrfs/%s/devices", id);
    DIR *dir = opendir(path);
    if (dir == NULL)
        return 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        (void)snprintf(path, sizeof path, "/sys/block/%s/loop/backing_file", e->d_name);
        (void)fd_read_file(AT_FDCWD, path, backing, sizeof backing);
    }
    (void)closedir(dir);
    return strncmp(backing, data, strlen(data)) == 0;
}

unsigned kit_count_qgroups(void)
{
    char path[300];
    unsigned n = 0, synced = 0;
    each_volume_dir(sync_volume, &synced);
    DIR *dir = opendir("/sys/fs/btrfs");
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (!is_ours(e->d_name))
            continue;
        (void)snprintf(path, sizeof path, "/sys/fs/btrfs/%s/qgroups", e->d_name);
        DIR *groups = opendir(path);
        for (struct dirent *g; groups != NULL && (g = readdir(groups)) != NULL;)
            n += strncmp(g->d_name, "0_", 2) == 0;
        if (groups != NULL)
            (void)closedir(groups);
    }
    (void)closedir(dir);
    return n;
}
