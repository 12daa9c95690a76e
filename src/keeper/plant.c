// SPDX-License-Identifier: Apache-2.0
// Plants: forks that a zygote was asked for, until their guests have been told of them, or they
// come to nothing.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "keeper/keeper-internal.h"
#include "wire/guest-msg.h"
#include "wire/zygote-msg.h"

// --- which there are

int plant_waits(const struct keeper *k, uint32_t zygote)
{
    for (unsigned i = 0; i < PLANTS_MAX; i++) {
        if (k->plants[i].id != 0 && k->plants[i].zygote == zygote)
            return 1;
    }
    return 0;
}

int plant_is_into(const struct keeper *k, uint64_t box)
{
    for (unsigned i = 0; i < PLANTS_MAX; i++) {
        if (k->plants[i].id != 0 && k->plants[i].box == box)
            return 1;
    }
    return 0;
}

static void finish(struct keeper *k, struct plant *p, const struct err *err)
{
    struct box *box = table_find(k, p->box);
    if (p->request != 0 && err != NULL)
        reply_error(k, p->request, err);
    else if (p->request != 0)
        reply_ok(k, p->request);
    fd_close(p->seat);
    *p = (struct plant){.seat = -1};
    if (box != NULL && box->state == BOX_DYING && box->pidfd >= 0)
        end_kill(k, box); // which had to wait for us
}

// What it has asked for is nobody's: the next one numbers its requests anew.
void plant_client_lost(struct keeper *k)
{
    for (unsigned i = 0; i < PLANTS_MAX; i++)
        k->plants[i].request = 0;
}

void plant_lose(struct keeper *k, uint32_t slot)
{
    struct err err = {0};
    (void)err_set(&err, ERR_UNAVAILABLE, "the zygote has ended");
    for (unsigned i = 0; i < PLANTS_MAX; i++) {
        if (k->plants[i].id != 0 && k->plants[i].zygote == slot)
            finish(k, &k->plants[i], &err);
    }
}

// --- asking

static int open_namespaces(const struct box *box, int ret[6])
{
    static const char *const names[6] = {"pid", "mnt", "net", "ipc", "uts", "cgroup"};
    pid_t pid = pidfd_child(box->pidfd);
    for (int i = 0; i < 6; i++) {
        char path[48];
        (void)snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, names[i]);
        ret[i] = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (ret[i] < 0)
            return -1;
    }
    return 0;
}

static int send_plant(struct keeper *k, const struct box *box, const struct zygote *z,
                      const struct keeper_plant *msg, struct plant *p)
{
    const struct zygote_plant ask = {
        .head = {.version = WIRE_VERSION, .type = ZYGOTE_PLANT, .id = p->id},
        .uid = msg->uid,
        .gid = msg->gid,
        .files = msg->files,
    };
    int fds[ZYGOTE_PLANT_FDS] = {-1, -1, -1, -1, -1, -1, box->userns, -1}, ends[2];
    int r = wire_pair(ends);
    if (r < 0)
        return r;
    p->seat = ends[0];
    fds[ZYGOTE_PLANT_FDS - 1] = ends[1];
    r = open_namespaces(box, fds) < 0 ? -ESRCH : 0;
    if (r == 0)
        r = wire_send(k->boxes[z->slot].guest, &ask, sizeof ask, NULL, 0, fds, ZYGOTE_PLANT_FDS);
    for (int i = 0; i < 6; i++)
        fd_close(fds[i]);
    fd_close(ends[1]);
    return r;
}

static struct plant *free_plant(struct keeper *k)
{
    for (unsigned i = 0; i < PLANTS_MAX; i++) {
        if (k->plants[i].id == 0)
            return &k->plants[i];
    }
    return NULL;
}

// A fork moves into its box's cgroups, and the kernel asks only those who are born there whether
// there is room for one more.
static int is_full(const struct keeper *k, const struct box *box, struct err *err)
{
    struct cgroup_usage used;
    cgroups_usage(k->cgroups, keeper_host_slot(k, box->slot), &used);
    if (used.pids < box->limits.pids)
        return 0;
    (void)err_set(err, ERR_EXHAUSTED, "the box has as many processes as it may have");
    return 1;
}

void plant_ask(struct keeper *k, struct box *box, const struct keeper_plant *msg)
{
    struct err err = {0};
    struct zygote *z = zygote_of(k, box, &err);
    struct plant *p = z != NULL ? free_plant(k) : NULL;
    if (z != NULL && is_full(k, box, &err))
        p = NULL;
    else if (z != NULL && p == NULL)
        (void)err_set(&err, ERR_UNAVAILABLE, "the zygote has too much to do");
    if (p == NULL) {
        reply_error(k, msg->head.id, &err);
        return;
    }
    z->used_ns = clock_ns();
    *p = (struct plant){
        .id = ++k->next_plant != 0 ? k->next_plant : ++k->next_plant,
        .request = msg->head.id,
        .exec = msg->exec,
        .box = box->number,
        .zygote = z->slot,
        .seat = -1,
    };
    int r = send_plant(k, box, z, msg, p);
    if (r < 0) {
        (void)err_sys(&err, -r, "ask the zygote");
        finish(k, p, &err);
    }
    zygote_expect(k, z, /* anew */ false);
}

// --- what it answers

static struct plant *find_plant(struct keeper *k, uint32_t id, uint32_t slot)
{
    for (unsigned i = 0; i < PLANTS_MAX && id != 0; i++) {
        if (k->plants[i].id == id && k->plants[i].zygote == slot)
            return &k->plants[i];
    }
    return NULL;
}

static long status_number(const char *text, const char *name)
{
    const char *line = strstr(text, name);
    return line != NULL ? strtol(line + strlen(name), NULL, 10) : -1;
}

// The zygote runs an image's code and is not believed: what it hands us must be a child of this
// process. Its pid on the host, or -1.
static pid_t check_parent(int pidfd, pid_t parent)
{
    char path[48], text[4096];
    pid_t pid = pidfd_pid(pidfd);
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    (void)snprintf(path, sizeof path, "/proc/%d/status", pid);
    if (parent <= 0 || pid <= 0 || fd_read_file(AT_FDCWD, path, text, sizeof text) < 0 ||
        status_number(text, "\nPPid:") != parent)
        return -1;
    return poll(&ended, 1, 0) == 0 ? pid : -1; // so that it was that process we looked at
}

// It has not touched anything yet: what it writes to from here on is counted to its box.
static int let_go(struct keeper *k, struct box *box, const struct plant *p, int pidfd,
                  struct err *err)
{
    const struct zygote_plain go = {
        .head = {.version = WIRE_VERSION, .type = ZYGOTE_GO, .id = p->id}
    };
    // Its PID 1 being its parent, it is a process of that box.
    pid_t pid = check_parent(pidfd, pidfd_child(box->pidfd));
    if (pid <= 0)
        return err_set(err, ERR_INTERNAL, "the zygote's fork is not in its box");
    if (cgroups_join(k->cgroups, keeper_host_slot(k, box->slot), pid, err) < 0)
        return -1;
    int r = wire_send(p->seat, &go, sizeof go, NULL, 0, NULL, 0);
    return r < 0 ? err_sys(err, -r, "let a fork go on") : 0;
}

static void planted(struct keeper *k, struct plant *p, const struct zygote_planted *msg, int pidfd)
{
    struct err err = {0};
    struct box *box = table_find(k, p->box);
    struct guest_adopt adopt = {
        .head = {.version = WIRE_VERSION, .type = GUEST_ADOPT, .id = p->exec},
        .pid = msg->pid,
    };
    if (p->request == 0) { // it finds its seat empty, and ends
        finish(k, p, NULL);
        return;
    }
    if (box == NULL || (box->state != BOX_READY && box->state != BOX_LIVE)) {
        (void)err_set(&err, ERR_NOT_FOUND, "no such box");
        finish(k, p, &err);
        return;
    }
    // One that nobody has bound yet is read by nobody, and may not read any more itself.
    (void)fd_set_nonblock(box->guest, 1);
    int r = let_go(k, box, p, pidfd, &err);
    if (r == 0 && (r = wire_send(box->guest, &adopt, sizeof adopt, NULL, 0, &p->seat, 1)) < 0)
        (void)err_sys(&err, -r, "tell a box of a fork");
    finish(k, p, r < 0 ? &err : NULL);
}

int plant_heard(struct keeper *k, uint32_t zygote, union zygote_answer *msg, size_t len,
                const struct wire_fds *fds)
{
    struct err err = {0};
    struct plant *p = find_plant(k, msg->head.id, zygote);
    if (p == NULL)
        return 0;
    if (msg->head.type == ZYGOTE_PLANTED && len == sizeof msg->planted && fds->n == 1) {
        planted(k, p, &msg->planted, fds->fd[0]);
        return 1;
    }
    if (msg->head.type != ZYGOTE_FAILED || len != sizeof msg->failed)
        return 0;
    msg->failed.step[sizeof msg->failed.step - 1] = '\0';
    (void)err_sys(&err, msg->failed.sys_errno, "fork into a box: %s", msg->failed.step);
    finish(k, p, &err);
    return 1;
}
