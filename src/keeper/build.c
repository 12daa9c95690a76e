// SPDX-License-Identifier: Apache-2.0
// Making a box, in steps between which the keeper listens: cgroups and a socket, the spawner forks
// the guest, meanwhile disk and root are made and sent to the guest's socket, the guest says it is
// ready.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/weaken.h"
#include "box/root.h"
#include "keeper/keeper-internal.h"
#include "wire/guest-msg.h"

// --- images ---

struct keeper_image *build_image(struct keeper *k, const char *name, struct err *err)
{
    struct keeper_image *free_entry = NULL;
    for (unsigned i = 0; i < KEEPER_IMAGES_MAX; i++) {
        struct keeper_image *e = &k->images[i];
        if (e->is_open && strcmp(e->name, name) == 0)
            return e;
        if (e->users == 0 && (free_entry == NULL || !e->is_open))
            free_entry = e;
    }
    if (free_entry == NULL) {
        (void)err_set(err, ERR_EXHAUSTED, "boxes of %d images run already", KEEPER_IMAGES_MAX);
        return NULL;
    }
    struct image image;
    if (image_open(k->data_fd, name, &image, err) < 0)
        return NULL;
    if (free_entry->is_open)
        image_done(&free_entry->image);
    free_entry->is_open = 1;
    free_entry->image = image;
    (void)snprintf(free_entry->name, sizeof free_entry->name, "%s", name);
    return free_entry;
}

// --- disk and root ---

// The disk's top directory.
static int open_disk(struct keeper *k, struct box *box, struct err *err)
{
    switch (box->disk_kind) {
    case DISK_TMPFS:
        return tmpfs_make(box->limits.disk, keeper_host_id(k, box->slot), err);
    case DISK_BLANK:
        box->disk = box->number;
        return volume_make_blank(k->volume, box->disk, box->limits.disk, err);
    default:
        return volume_open_kept(k->volume, box->disk, box->limits.disk, err);
    }
}

struct root_message {
    struct guest_root msg;
    unsigned n;
    int fds[WIRE_FDS_MAX];
};

static void add_fd(struct root_message *m, int fd)
{
    m->fds[m->n++] = fd;
}

static int send_root(struct keeper *k, struct box *box, const struct root *root, int disk,
                     struct err *err)
{
    struct root_message m = {
        .msg = {.head = {.version = WIRE_VERSION, .type = GUEST_ROOT}, .slot = box->slot},
    };
    struct cgroup_gauges gauges;
    int disk_gauges[2] = {-1, -1};
    auto_fd cgroup = cgroups_open_dir(k->cgroups, keeper_host_slot(k, box->slot), err);
    if (cgroup < 0)
        return -1;
    add_fd(&m, cgroup);
    add_fd(&m, root->overlay);
    for (unsigned i = 0; i < root->n_binds; i++) {
        (void)snprintf(m.msg.target[i], sizeof m.msg.target[i], "%s", root->targets[i]);
        add_fd(&m, root->binds[i]);
    }
    m.msg.n_binds = root->n_binds;
    if (cgroups_gauges(k->cgroups, keeper_host_slot(k, box->slot), &gauges, err) < 0)
        return -1;
    m.msg.flags = GUEST_ROOT_GAUGE_MEMORY | GUEST_ROOT_GAUGE_PIDS;
    m.msg.flags |= box->rehearse ? GUEST_ROOT_REHEARSE : 0;
    add_fd(&m, gauges.memory);
    add_fd(&m, gauges.pids);
    if (box->disk_kind != DISK_TMPFS && volume_gauges(k->volume, disk, disk_gauges) == 0) {
        m.msg.flags |= GUEST_ROOT_GAUGE_DISK;
        add_fd(&m, disk_gauges[0]);
        add_fd(&m, disk_gauges[1]);
    }
    int r = wire_send(box->guest, &m.msg, sizeof m.msg, NULL, 0, m.fds, m.n);
    fd_close(gauges.memory);
    fd_close(gauges.pids);
    fd_close(disk_gauges[0]);
    fd_close(disk_gauges[1]);
    return r < 0 ? err_sys(err, -r, "send a box its root") : 0;
}

// A guest takes its root as the sign that it is in its cgroups, so it is sent when both are done.
static int send_root_if_due(struct keeper *k, struct box *box, struct err *err)
{
    if (!box->joined || box->root.overlay < 0)
        return 0;
    int r = send_root(k, box, &box->root, box->disk_fd, err);
    root_done(&box->root);
    fd_close(box->disk_fd);
    box->disk_fd = -1;
    if (r == 0) {
        box->state = BOX_ROOTING;
        table_update(k, box);
    }
    return r;
}

static int mount_root(struct keeper *k, struct box *box, struct err *err)
{
    struct root_disk options = {
        .fd = box->disk_fd,
        .idmap = box->disk_kind != DISK_TMPFS,
        .durable = box->durable,
    };
    int shift = weaken(WEAKEN_USERNS) ? -1 : box->userns;
    return root_make(&box->image->image, &options, shift, keeper_host_id(k, box->slot), &box->root,
                     err);
}

// Mounting writes a little, for which a full disk has no room: its limit is away meanwhile, and
// that of all disks a little higher. Nobody else writes to it then, and whoever filled it gets in
// to delete something.
static int mount_full_root(struct keeper *k, struct box *box, struct err *err)
{
    if (volume_limit(k->volume, box->disk_fd, UINT64_MAX, err) < 0)
        return -1;
    space_lift(k, 1);
    int r = mount_root(k, box, err);
    space_lift(k, 0);
    struct err other;
    if (volume_limit(k->volume, box->disk_fd, box->limits.disk, r < 0 ? &other : err) < 0)
        return -1;
    return r;
}

int build_root(struct keeper *k, struct box *box, struct err *err)
{
    box->disk_fd = open_disk(k, box, err);
    if (box->disk_fd < 0)
        return -1;
    int r = mount_root(k, box, err);
    if (r < 0 && box->disk_kind == DISK_KEPT &&
        (err->sys_errno == EROFS || err->sys_errno == EDQUOT || err->sys_errno == ENOSPC))
        r = mount_full_root(k, box, err);
    return r < 0 ? -1 : send_root_if_due(k, box, err);
}

// --- steps ---

static int send_spawn(struct keeper *k, struct box *box, int guest_end, struct err *err)
{
    struct spawner_spawn msg = {
        .head = {.version = WIRE_VERSION, .type = SPAWNER_SPAWN, .id = (uint32_t)box->number},
        .slot = box->slot,
        .has_userns = box->userns >= 0,
    };
    const int fds[] = {guest_end, box->userns};
    int r = wire_send(k->spawner, &msg, sizeof msg, NULL, 0, fds, msg.has_userns ? 2 : 1);
    return r < 0 ? err_sys(err, -r, "ask the spawner for a box") : 0;
}

static int spawn(struct keeper *k, struct box *box, struct err *err)
{
    int ends[2];
    int r = wire_pair(ends);
    if (r < 0)
        return err_sys(err, -r, "make the socket of a box");
    box->guest = ends[0];
    box->guest_version = WIRE_VERSION;
    table_update(k, box);
    r = keeper_watch(k, box->guest, EVENT_GUEST, box->slot);
    if (r < 0)
        (void)err_sys(err, -r, "watch the socket of a box");
    else
        r = send_spawn(k, box, ends[1], err);
    fd_close(ends[1]);
    if (r < 0) { // nobody was asked, so no pidfd will come that its end could wait for
        keeper_unwatch(k, TAKE_FD(box->guest));
        table_update(k, box);
        return -1;
    }
    return 0;
}

// With B in hand a box can be given its root, while the spawner still works on the rest.
static void continue_with_userns(struct keeper *k, struct box *box)
{
    struct err err = {0};
    box->state = BOX_BLANK;
    table_update(k, box);
    if (box->image != NULL && build_root(k, box, &err) < 0)
        build_failed(k, box, &err);
}

static int begin(struct keeper *k, struct box *box, struct err *err)
{
    uint32_t guest_uid =
        keeper_host_id(k, box->slot) + (weaken(WEAKEN_GUESTUID) ? 0 : SLOT_GUEST_ID);
    if (k->spawner < 0)
        return err_set(err, ERR_INTERNAL, "the spawner has ended: restart Cay");
    // The spawner first: it works while we go on.
    if (spawner_link_userns(k, box, err) < 0 || spawn(k, box, err) < 0)
        return -1;
    if (cgroups_make(k->cgroups, keeper_host_slot(k, box->slot), guest_uid, &box->limits, err) < 0)
        return -1;
    box->has_cgroups = 1;
    return 0;
}

void build_start(struct keeper *k, struct box *box)
{
    struct err err = {0};
    box->number = ++k->next_number;
    box->state = BOX_USERNS;
    table_update(k, box);
    if (begin(k, box, &err) < 0) {
        // One that is gone has said why in its stream, which fails this box with the reason.
        if (k->spawner >= 0)
            spawner_link_event(k);
        if (box->state == BOX_USERNS)
            build_failed(k, box, &err);
    } else if (box->userns >= 0) {
        continue_with_userns(k, box);
    }
}

void build_waiting(struct keeper *k)
{
    struct box *box;
    while (k->table.n[COUNT_SPAWNING] < KEEPER_SPAWNS_MAX &&
           (box = table_first(k, LIST_WAITING)) != NULL)
        build_start(k, box);
}

void build_userns_made(struct keeper *k, struct box *box, int fd)
{
    fd_close(box->userns);
    box->userns = fd;
    box->userns_asked = 0;
    if (box->state == BOX_USERNS)
        continue_with_userns(k, box);
}

#ifndef PIDFD_GET_MNT_NAMESPACE
#    define PIDFD_GET_MNT_NAMESPACE                                                                \
        _IO(0xFF, 3) // Linux 6.11; before it -1, and the end takes longer
#endif

pid_t pidfd_pid(int pidfd)
{
    char path[48], text[512];
    (void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) < 0)
        return -1;
    const char *line = strstr(text, "\nPid:");
    long pid = line != NULL ? strtol(line + 5, NULL, 10) : -1;
    return pid > 0 ? (pid_t)pid : -1;
}

pid_t pidfd_child(int pidfd)
{
    siginfo_t info;
    if (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
        return -1;
    return pidfd_pid(pidfd);
}

static int settle(struct keeper *k, struct box *box, struct err *err)
{
    pid_t pid = pidfd_child(box->pidfd);
    if (pid < 0)
        return err_set(err, ERR_INTERNAL, "a box ended before it was ready");
    if (cgroups_join(k->cgroups, keeper_host_slot(k, box->slot), pid, err) < 0)
        return -1;
    box->joined = 1;
    table_update(k, box);
    return send_root_if_due(k, box, err);
}

void build_spawned(struct keeper *k, struct box *box, int pidfd)
{
    struct err err = {0};
    if (box->is_zygote) {
        zygote_spawned(k, box, pidfd);
        return;
    }
    box->pidfd = pidfd;
    table_update(k, box);
    box->mntns = ioctl(pidfd, PIDFD_GET_MNT_NAMESPACE, 0);
    int r = keeper_watch(k, pidfd, EVENT_END, box->slot);
    if (r < 0)
        (void)err_sys(&err, -r, "watch a box");
    else if (box->state != BOX_DYING)
        r = settle(k, box, &err);
    if (box->state == BOX_DYING) // given up while it was made
        end_begin(k, box);
    else if (r < 0)
        build_failed(k, box, &err);
}

static void ready(struct keeper *k, struct box *box)
{
    box->state = box->in_pool ? BOX_READY : BOX_LIVE;
    table_update(k, box);
    if (box->in_pool)
        reply_ready(k, box);
    else
        reply_claimed(k, box);
}

void build_guest_event(struct keeper *k, struct box *box)
{
    union {
        struct wire_head head;
        struct guest_error error;
    } msg;
    struct wire_fds fds;
    struct err err = {0};
    ssize_t n = wire_recv(box->guest, &msg, sizeof msg, &fds, MSG_DONTWAIT);
    if (n == -EAGAIN)
        return;
    wire_fds_close(&fds);
    if (n == sizeof(struct guest_plain) && msg.head.type == GUEST_READY &&
        box->state == BOX_ROOTING) {
        ready(k, box);
        return;
    }
    if (n == sizeof msg.error && msg.head.type == GUEST_ERROR) {
        msg.error.step[sizeof msg.error.step - 1] = '\0';
        (void)err_sys(&err, msg.error.sys_errno, "%s", msg.error.step);
    } else {
        (void)err_set(&err, ERR_INTERNAL, "a box ended before it was ready");
    }
    build_failed(k, box, &err);
}

void build_failed(struct keeper *k, struct box *box, const struct err *err)
{
    if (box->is_zygote)
        ; // its end is heard
    else if (box->in_pool)
        pool_rest(k);
    else if (box->request != 0)
        reply_error(k, box->request, err);
    box->request = 0;
    end_begin(k, box);
}
