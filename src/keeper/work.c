// SPDX-License-Identifier: Apache-2.0
// The queue of works and the processes that do them: work.h. One list in the order of arrival; a
// work starts when no earlier one is in its way and its lane has a free place. A box that a work
// wants to stand still is frozen until the last such work has made its copy, or has ended: by us,
// so that it goes on whatever becomes of the process.
#include "keeper/work.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/tool.h"
#include "keeper/keeper-internal.h"

struct work *work_new(const struct work_kind *kind, uint32_t request)
{
    struct work *w = malloc(sizeof *w);
    if (w == NULL)
        return NULL;
    *w = (struct work){
        .kind = kind, .request = request, .pidfd = -1, .copied = -1, .fds = {-1, -1, -1}
    };
    return w;
}

static void close_fds(struct work *w)
{
    for (unsigned i = 0; i < WORK_FDS_MAX; i++)
        fd_close(TAKE_FD(w->fds[i]));
}

void work_free(struct work *w)
{
    if (w == NULL)
        return;
    close_fds(w);
    fd_close(w->pidfd);
    free(w->data);
    free(w);
}

// --- who is in whose way ---

static int is_same(struct disk_ref a, struct disk_ref b)
{
    return a.place != 0 && a.place == b.place && a.number == b.number;
}

static int has_for_itself(const struct work *w, struct disk_ref disk)
{
    return is_same(w->writes[0], disk) || is_same(w->writes[1], disk);
}

static int are_in_conflict(const struct work *a, const struct work *b)
{
    return has_for_itself(a, b->reads) || has_for_itself(b, a->reads) ||
           has_for_itself(a, b->writes[0]) || has_for_itself(a, b->writes[1]);
}

int work_writes(const struct keeper *k, struct disk_ref disk)
{
    const struct work *w = k->works.first;
    while (w != NULL && !has_for_itself(w, disk))
        w = w->next;
    return w != NULL;
}

int work_is_busy(const struct keeper *k)
{
    return k->works.n > 0;
}

struct work *work_find(const struct keeper *k, const struct work_kind *kind, uint32_t request)
{
    struct work *w = k->works.first;
    while (w != NULL && (w->kind != kind || w->request != request))
        w = w->next;
    return w;
}

static int must_wait(const struct keeper *k, const struct work *w)
{
    if (w->waits_for_all)
        return k->works.first != w;
    for (const struct work *o = k->works.first; o != w; o = o->next) {
        if (o->waits_for_all || are_in_conflict(o, w))
            return 1;
    }
    return 0;
}

// Of its lane, or -1.
static int free_place(const struct works *works, enum work_lane lane)
{
    int from = lane == LANE_DISK ? 0 : LANE_DISK_MAX;
    int to = lane == LANE_DISK ? LANE_DISK_MAX : WORK_PLACES;
    for (int i = from; i < to; i++) {
        if (works->at[i] == NULL)
            return i;
    }
    return -1;
}

// --- a box that stands still ---

static int is_still_for(const struct keeper *k, uint64_t box)
{
    for (unsigned i = 0; i < WORK_PLACES; i++) {
        if (k->works.at[i] != NULL && k->works.at[i]->box == box)
            return 1;
    }
    return 0;
}

static void set_still(struct keeper *k, uint64_t number, int on)
{
    struct box *box = number != 0 ? table_find(k, number) : NULL;
    if (box != NULL && box->has_cgroups && !is_still_for(k, number))
        cgroups_freeze(k->cgroups, keeper_host_slot(k, box->slot), on);
}

static void let_go_on(struct keeper *k, struct work *w)
{
    uint64_t box = w->box;
    w->box = 0;
    set_still(k, box, 0);
    keeper_unwatch(k, TAKE_FD(w->copied));
}

// Without it the box stands still to the end.
static void listen_for_copy(struct keeper *k, struct work *w)
{
    w->copied = w->box != 0 ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    if (w->copied >= 0)
        (void)keeper_watch(k, w->copied, EVENT_COPIED, w->place);
}

void work_copied(struct keeper *k, uint32_t place)
{
    struct work *w = place < WORK_PLACES ? k->works.at[place] : NULL;
    if (w != NULL)
        let_go_on(k, w);
}

// --- the process ---

static _Noreturn void child(struct keeper *k, struct work *w, pid_t parent)
{
    struct work_result *result = w->result;
    struct err err = {0};
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(1);
    if (w->kind->run(k, w, &err) < 0)
        result->err = err;
    result->is_done = 1;
    _exit(0);
}

static int fork_child(struct keeper *k, struct work *w, struct err *err)
{
    pid_t self = getpid(), pid = fork();
    if (pid < 0)
        return err_sys(err, errno, "fork for work on a disk");
    if (pid == 0)
        child(k, w, self);
    int pidfd = pidfd_open(pid, 0);
    if (pidfd < 0) {
        (void)err_sys(err, errno, "fork for work on a disk");
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
    return pidfd;
}

static int share_results(struct works *works, struct err *err)
{
    if (works->results != NULL)
        return 0;
    void *at = mmap(NULL, sizeof *works->results * WORK_PLACES, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return err_sys(err, errno, "memory for works");
    works->results = at;
    return 0;
}

static int start_process(struct keeper *k, struct work *w, struct err *err)
{
    if (share_results(&k->works, err) < 0)
        return -1;
    w->result = &k->works.results[w->place];
    *w->result = (struct work_result){0};
    w->pidfd = w->kind->start != NULL ? w->kind->start(k, w, err) : fork_child(k, w, err);
    if (w->pidfd < 0)
        return -1;
    int r = keeper_watch(k, w->pidfd, EVENT_WORK, w->place);
    if (r < 0) {
        tool_kill(TAKE_FD(w->pidfd));
        return err_sys(err, -r, "watch a work");
    }
    return 0;
}

// --- the end ---

static void unlink_work(struct works *works, struct work *w)
{
    struct work **at = &works->first, *before = NULL;
    for (; *at != w; at = &(*at)->next)
        before = *at;
    *at = w->next;
    if (works->last == w)
        works->last = before;
    works->n--;
}

static void finish(struct keeper *k, struct work *w, const struct err *err)
{
    unlink_work(&k->works, w);
    close_fds(w); // whoever is told finds nothing of ours left
    if (w->request != 0 && w->kind->answer != NULL)
        w->kind->answer(k, w, err);
    else if (w->request != 0 && err->code != ERR_NONE)
        reply_error(k, w->request, err);
    else if (w->request != 0)
        reply_ok(k, w->request);
    if (w->kind->over != NULL)
        w->kind->over(k, w);
    work_free(w);
}

// How the process came to its end.
static void describe(const struct work *w, struct err *ret)
{
    if (w->cancelled)
        (void)err_set(ret, ERR_UNAVAILABLE, "cancelled");
    else if (w->kind->start == NULL && w->result->is_done)
        *ret = w->result->err;
    else if (w->kind->start == NULL)
        (void)err_set(ret, ERR_INTERNAL, "work on a disk was ended");
    else if (w->exit_code != 0)
        (void)err_set(ret, ERR_INTERNAL, "work on a disk ended with code %d", w->exit_code);
}

void work_event(struct keeper *k, uint32_t place)
{
    struct work *w = place < WORK_PLACES ? k->works.at[place] : NULL;
    siginfo_t info = {0};
    struct err err = {0};
    if (w == NULL || waitid(P_PIDFD, (id_t)w->pidfd, &info, WEXITED | WNOHANG) < 0 ||
        info.si_pid == 0)
        return;
    w->exit_code = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
    k->works.at[place] = NULL;
    keeper_unwatch(k, TAKE_FD(w->pidfd));
    let_go_on(k, w);
    describe(w, &err);
    finish(k, w, &err);
    work_go(k);
}

void work_cancel(struct keeper *k, struct work *w)
{
    struct err err = {0};
    w->cancelled = 1;
    if (w->pidfd >= 0) {
        (void)pidfd_send_signal(w->pidfd, SIGKILL, NULL, 0);
        return;
    }
    describe(w, &err);
    finish(k, w, &err);
}

// --- the queue ---

static void start(struct keeper *k, struct work *w, int place)
{
    struct err err = {0};
    set_still(k, w->box, 1);
    w->place = (unsigned)place;
    k->works.at[place] = w;
    listen_for_copy(k, w);
    if (start_process(k, w, &err) == 0)
        return;
    k->works.at[place] = NULL;
    let_go_on(k, w);
    finish(k, w, &err);
}

void work_go(struct keeper *k)
{
    for (struct work *w = k->works.first, *next; w != NULL; w = next) {
        next = w->next;
        int place = w->pidfd < 0 ? free_place(&k->works, w->kind->lane) : -1;
        if (place >= 0 && !must_wait(k, w))
            start(k, w, place);
    }
}

void work_submit(struct keeper *k, struct work *w)
{
    struct err err = {0};
    struct works *works = &k->works;
    *(works->last != NULL ? &works->last->next : &works->first) = w;
    works->last = w;
    if (works->n++ < WORKS_MAX) {
        work_go(k);
        return;
    }
    (void)err_set(&err, ERR_EXHAUSTED, "too much work on disks waits already");
    finish(k, w, &err);
}

// What is in the making goes when all of them have ended.
void work_client_lost(struct keeper *k)
{
    for (struct work *w = k->works.first, *next; w != NULL; w = next) {
        next = w->next;
        w->request = 0;
        if (!w->kind->finishes)
            work_cancel(k, w);
    }
    if (k->works.has_copied)
        work_sweep(k);
    k->works.has_copied = 0;
}
