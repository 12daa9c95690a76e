// SPDX-License-Identifier: Apache-2.0
// Taking a box apart: kill its PID 1 (the kernel kills the rest with it and lets us reap it last),
// tell the client, then remove mounts, cgroups and a disk that was not to be kept.
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/weaken.h"
#include "keeper/keeper-internal.h"

static void drop_disk(struct keeper *k, struct box *box)
{
    if (box->disk_kind == DISK_BLANK && box->disk != 0)
        work_drop_blank(k, box->disk);
}

// Everything but B, which the slot's next box takes over.
static void clear(struct keeper *k, struct box *box)
{
    const struct box was = *box;
    box_init(box, was.slot);
    box->place = was.place;
    if (was.foreign) {
        fd_close(was.userns);
    } else {
        box->userns = was.userns;
        box->userns_asked = was.userns_asked;
    }
    table_update(k, box);
}

// The namespaces, and with them the mounts, go last: nobody can reach them, nor has to wait for
// them.
static void finish(struct keeper *k, struct box *box)
{
    uint64_t number = box->number;
    int tell = box->asked && !box->mute;
    int is_durable = box->durable && k->volume != NULL;
    auto_fd mntns = TAKE_FD(box->mntns);
    keeper_unwatch(k, box->guest);
    keeper_unwatch(k, box->pidfd);
    fd_close(box->disk_fd);
    root_done(&box->root);
    if (box->has_cgroups && weaken(WEAKEN_CGROUPKILL))
        (void)cgroups_remove(k->cgroups, keeper_host_slot(k, box->slot));
    else if (box->has_cgroups)
        (void)cgroups_clear(k->cgroups, keeper_host_slot(k, box->slot));
    drop_disk(k, box);
    if (box->image != NULL)
        box->image->users--;
    uint32_t zygote = box->is_zygote ? box->slot : 0;
    clear(k, box);
    zygote_gone(k, zygote);
    if (is_durable)
        work_let_go(k, TAKE_FD(mntns), tell ? number : 0);
    else if (tell)
        reply_gone(k, number);
}

// Not while a zygote forks into it: the process that does so is in the box and would die with it,
// in the middle of the zygote's memory. Called again when that is done.
void end_kill(struct keeper *k, const struct box *box)
{
    if (plant_is_into(k, box->number))
        return;
    (void)pidfd_send_signal(box->pidfd, SIGKILL, NULL, 0);
    if (weaken(WEAKEN_PID) && !weaken(WEAKEN_CGROUPKILL))
        cgroups_kill(k->cgroups, keeper_host_slot(k, box->slot));
}

void end_begin(struct keeper *k, struct box *box)
{
    int spawning = box->guest >= 0 && box->pidfd < 0; // the spawner will still hand us its pidfd
    box->state = BOX_DYING;
    table_update(k, box);
    if (box->pidfd >= 0)
        end_kill(k, box);
    else if (!spawning)
        finish(k, box);
}

static void reap(struct keeper *k, struct box *box, struct keeper_ended *ret)
{
    siginfo_t info;
    struct rusage ru = {0};
    struct cgroup_stats stats;
    (void)syscall(SYS_waitid, P_PIDFD, box->pidfd, &info, WEXITED, &ru);
    cgroups_stats(k->cgroups, keeper_host_slot(k, box->slot), &stats);
    *ret = (struct keeper_ended){
        .head = {.version = WIRE_VERSION, .type = KEEPER_ENDED, .id = box->request},
        .box = box->number,
        .cpu_usec = (uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1000000u +
                    (uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec),
        .memory_peak = stats.memory_peak,
        .oom_kills = stats.oom_kills,
        .asked = box->asked != 0,
    };
}

static int is_alive(const struct box *box)
{
    siginfo_t info = {0};
    return waitid(P_PIDFD, (id_t)box->pidfd, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
}

void end_event(struct keeper *k, struct box *box)
{
    struct err err = {0};
    struct keeper_ended ended;
    // A client uses a box that is ready without waiting for us: it may be over before we have read
    // that it was taken.
    while (box->state == BOX_READY && !k->closing && request_event(k))
        ;
    if (box->pidfd < 0 || is_alive(box)) // reaping it would wait
        return;
    int was_live = box->state == BOX_LIVE || box->state == BOX_READY || box->asked;
    if (box->state == BOX_ROOTING || box->state == BOX_BLANK) {
        // The guest may have said why before it went.
        build_guest_event(k, box);
        if (box->state != BOX_DYING) {
            (void)err_set(&err, ERR_INTERNAL, "a box ended before it was ready");
            build_failed(k, box, &err);
        }
    }
    reap(k, box, &ended);
    if (was_live) {
        box->asked = 1; // so that its going is told, too, when it died alone
        if (!box->mute)
            reply_ended(k, &ended);
    }
    finish(k, box);
}

void end_unclaimed(struct keeper *k)
{
    for (uint32_t i = 1; i < k->slots.n; i++) {
        enum box_state state = k->boxes[i].state;
        if (state != BOX_NONE && state != BOX_LIVE && state != BOX_DYING)
            end_begin(k, &k->boxes[i]);
    }
}

void end_all(struct keeper *k)
{
    for (uint32_t i = 1; i < k->slots.n; i++) {
        if (k->boxes[i].state != BOX_NONE && k->boxes[i].state != BOX_DYING)
            end_begin(k, &k->boxes[i]);
    }
}
