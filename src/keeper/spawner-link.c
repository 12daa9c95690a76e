// SPDX-License-Identifier: Apache-2.0
// Starting the spawner in its user namespace Z, and hearing from it.
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/weaken.h"
#include "box/stage.h"
#include "keeper/keeper-internal.h"
#include "spawner/spawner.h"

static int write_map(pid_t pid, const char *file, uint32_t host_id, uint32_t n)
{
    char path[48], map[48];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    (void)snprintf(map, sizeof map, "0 %u %u", host_id, n);
    return fd_write_file(AT_FDCWD, path, map);
}

// Closes all the keeper's descriptors but two; these move to 3 and 4.
static void keep_two(struct spawner_start *start)
{
    int *fds[2] = {&start->sock, &start->go};
    for (int i = 0; i < 2; i++)
        *fds[i] = fcntl(*fds[i], F_DUPFD_CLOEXEC, 600);
    for (int i = 0; i < 2; i++) {
        (void)dup3(*fds[i], 3 + i, O_CLOEXEC);
        *fds[i] = 3 + i;
    }
    (void)close_range(5, ~0u, 0);
}

// A terminal's signals, and those that a keeper which serves has blocked, are not for boxes.
static void leave_terminal(const struct keeper *k)
{
    sigset_t none;
    if (k->serve == NULL)
        return;
    (void)setsid();
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static int start_in_z(struct keeper *k, struct spawner_start *start, struct err *err)
{
    int go[2];
    if (pipe2(go, O_CLOEXEC) < 0)
        return err_sys(err, errno, "pipe");
    auto_fd go_read = go[0], go_write = go[1];
    struct clone_args args = {
        .flags = CLONE_NEWNS | (weaken(WEAKEN_USERNS) ? 0 : CLONE_NEWUSER),
        .exit_signal = SIGCHLD,
    };
    // What is used in Z counts against its owner's limits (inotify, for one): an id of ours, not
    // root. Only in effect, and with our securebits, so that no capability is lost.
    (void)syscall(SYS_setresuid, -1, weaken(WEAKEN_UCOUNTS) ? 0 : keeper_host_id(k, 0), -1);
    long pid = syscall(SYS_clone3, &args, sizeof args);
    int clone_errno = errno;
    (void)syscall(SYS_setresuid, -1, 0, -1);
    if (pid < 0)
        return err_sys(err, clone_errno, "make the spawner's user namespace");
    if (pid == 0) {
        leave_terminal(k);
        start->go = go_read;
        keep_two(start);
        spawner_main(start);
    }
    k->spawner_pid = (pid_t)pid;
    uint32_t n = k->slots.n * SLOT_IDS, base = SLOT_ID_BASE + k->slots.first * SLOT_IDS;
    int r = weaken(WEAKEN_USERNS) ? 0 : write_map((pid_t)pid, "gid_map", base, n);
    if (r == 0 && !weaken(WEAKEN_USERNS))
        r = write_map((pid_t)pid, "uid_map", base, n);
    if (r < 0)
        return err_sys(err, -r, "map the spawner's user namespace");
    return write(go_write, "g", 1) == 1 ? 0 : err_sys(err, errno, "start the spawner");
}

static int send_stage(struct keeper *k, struct err *err)
{
    struct spawner_plain msg = {
        .head = {.version = WIRE_VERSION, .type = SPAWNER_STAGE}
    };
    auto_fd stage = stage_make(err);
    if (stage < 0)
        return -1;
    int passed = stage;
    int r = wire_send(k->spawner, &msg, sizeof msg, NULL, 0, &passed, 1);
    return r < 0 ? err_sys(err, -r, "talk to the spawner") : 0;
}

// What takes the spawner long comes first, so that it works while we do: the user namespace of the
// only box there will be, then the stage.
static int give_work(struct keeper *k, struct err *err)
{
    if (k->config.once && spawner_link_userns(k, &k->boxes[1], err) < 0)
        return -1;
    return send_stage(k, err);
}

int spawner_link_start(struct keeper *k, struct err *err)
{
    int ends[2];
    int r = wire_pair(ends);
    if (r < 0)
        return err_sys(err, -r, "make the spawner's socket");
    struct spawner_start start = {.sock = ends[1]};
    r = start_in_z(k, &start, err);
    fd_close(ends[1]);
    k->spawner = ends[0];
    if (r < 0)
        return -1;
    r = keeper_watch(k, k->spawner, EVENT_SPAWNER, 0);
    return r < 0 ? err_sys(err, -r, "watch the spawner") : give_work(k, err);
}

int spawner_link_userns(struct keeper *k, struct box *box, struct err *err)
{
    struct spawner_slot msg = {
        .head = {.version = WIRE_VERSION, .type = SPAWNER_USERNS, .id = (uint32_t)box->number},
        .slot = box->slot,
    };
    // A box that failed may have left a question open; the spawner remembers only its last answer,
    // so that the next box in this slot asks again.
    if (box->userns >= 0 || (box->userns_asked && k->config.once))
        return 0;
    int r = wire_send(k->spawner, &msg, sizeof msg, NULL, 0, NULL, 0);
    if (r < 0)
        return err_sys(err, -r, "ask the spawner for a user namespace");
    box->userns_asked = 1;
    return 0;
}

// No pidfd will come for this box any more.
static void spawn_failed(struct keeper *k, struct box *box, const struct err *err)
{
    keeper_unwatch(k, TAKE_FD(box->guest));
    table_update(k, box);
    build_failed(k, box, err);
}

// Without it no box can be made, and it dies only by a bug or by somebody's hand.
static void lost(struct keeper *k, const struct err *err)
{
    for (uint32_t i = 1; i < k->slots.n; i++) {
        struct box *box = &k->boxes[i];
        if (box->state == BOX_USERNS || (box->guest >= 0 && box->pidfd < 0))
            spawn_failed(k, box, err);
    }
    spawner_link_end(k);
}

void spawner_link_end(struct keeper *k)
{
    keeper_unwatch(k, TAKE_FD(k->spawner));
}

void spawner_link_forget(struct keeper *k)
{
    spawner_link_end(k);
    if (k->spawner_pid > 0)
        (void)waitpid(k->spawner_pid, NULL, 0);
    k->spawner_pid = 0;
    for (uint32_t i = 1; i < k->slots.n; i++) {
        struct box *box = &k->boxes[i];
        box->userns_asked = 0;
        if (box->state != BOX_NONE) {
            box->foreign = 1;
        } else {
            fd_close(box->userns);
            box->userns = -1;
        }
    }
}

void spawner_link_event(struct keeper *k)
{
    union {
        struct wire_head head;
        struct spawner_slot slot;
        struct spawner_error error;
    } msg;
    struct wire_fds fds;
    struct err err = {0};
    ssize_t n = wire_recv(k->spawner, &msg, sizeof msg, &fds, MSG_DONTWAIT);
    if (n == -EAGAIN || n == -EINTR)
        return;
    if (n <= 0) {
        (void)err_set(&err, ERR_INTERNAL, "the spawner ended");
        lost(k, &err);
        return;
    }
    // One for a box that has failed meanwhile is about nobody.
    struct box *box = table_find_low(k, msg.head.id);
    if (msg.head.type == SPAWNER_ERROR && n == sizeof msg.error) {
        msg.error.step[sizeof msg.error.step - 1] = '\0';
        (void)err_sys(&err, msg.error.sys_errno, "%s", msg.error.step);
        if (msg.head.id == 0)
            lost(k, &err);
        else if (box != NULL)
            spawn_failed(k, box, &err);
    } else if (n == sizeof msg.slot && fds.n == 1 && msg.head.type == SPAWNER_USERNS_MADE &&
               msg.slot.slot > 0 && msg.slot.slot < k->slots.n) {
        build_userns_made(k, &k->boxes[msg.slot.slot], wire_fds_take(&fds, 0));
    } else if (n == sizeof(struct spawner_plain) && box != NULL && fds.n == 1 &&
               msg.head.type == SPAWNER_SPAWNED) {
        build_spawned(k, box, wire_fds_take(&fds, 0));
    }
    wire_fds_close(&fds);
}
