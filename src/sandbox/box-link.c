// SPDX-License-Identifier: Apache-2.0
// A running box as the daemon sees it: the socket of its guest, and the jobs it was asked for. What
// a guest says is checked (box/client.c); one that talks nonsense has its box ended by whoever
// hears of it.
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/log.h"
#include "kernels/kernels.h"
#include "sandbox/sandbox-internal.h"

enum { ID_SHIFT = 22 }; // of a daemon's number in the ids that it begins with

struct box_link {
    struct sandbox *s;
    uint64_t number;
    struct guest_peer guest;
    uv_poll_t poll;
    struct job *jobs;
    struct reach_wait *waits;
    uint32_t next_id;
    unsigned parked;
    bool listing;     // GUEST_LIST was sent: what comes before its answer is for a dead daemon
    bool listed;      // and its answer came
    uint32_t to_come; // GUEST_STARTED messages of it
    bool broken;      // nothing more is to be heard
};

uint64_t box_link_number(const struct box_link *box)
{
    return box->number;
}

struct guest_peer box_link_guest(const struct box_link *box)
{
    return box->guest;
}

struct sandbox *box_link_sandbox(const struct box_link *box)
{
    return box->s;
}

unsigned box_link_forks(const struct box_link *box)
{
    unsigned n = 0;
    for (const struct job *job = box->jobs; job != NULL; job = job->next)
        n += job->is_fork && job->state != JOB_ENDED;
    return n;
}

unsigned *box_link_parked(struct box_link *box)
{
    return &box->parked;
}

struct reach_wait **box_link_waits(struct box_link *box)
{
    return &box->waits;
}

uint32_t box_link_next_id(struct box_link *box)
{
    do
        box->next_id = box->next_id % (PARKED_FIRST - 1) + 1;
    while (box_link_find(box, box->next_id) != NULL);
    return box->next_id;
}

void box_link_add(struct box_link *box, struct job *job)
{
    job->next = box->jobs;
    box->jobs = job;
    if (job->id > box->next_id && job->id < PARKED_FIRST)
        box->next_id = job->id;
}

struct job *box_link_find(const struct box_link *box, uint32_t id)
{
    struct job *job = box->jobs;
    while (job != NULL && job->id != id)
        job = job->next;
    return job;
}

void box_link_remove(struct box_link *box, struct job *job)
{
    for (struct job **p = &box->jobs; *p != NULL; p = &(*p)->next) {
        if (*p == job) {
            *p = job->next;
            break;
        }
    }
    job->next = NULL;
    job->box = NULL;
}

unsigned box_link_running(const struct box_link *box)
{
    unsigned n = 0;
    for (const struct job *job = box->jobs; job != NULL; job = job->next)
        n += job->state != JOB_ENDED && !job->exited;
    return n;
}

void box_link_signal_all(struct box_link *box, int signal)
{
    struct err ignored;
    for (const struct job *job = box->jobs; job != NULL; job = job->next) {
        if (job->state == JOB_RUNNING)
            (void)guest_send_signal(box->guest, job->id, signal, &ignored);
    }
}

// --- what the guest says

static void on_broken(struct box_link *box, const struct err *err);

static void on_listed(struct box_link *box, uint32_t n)
{
    struct err err = {0};
    if (!box->listing || box->listed)
        return;
    box->listed = true;
    box->to_come = n;
    if (n > GUEST_EXECS_MAX) { // each would cost us descriptors
        (void)err_set(&err, ERR_INTERNAL, "the guest has too many programs");
        on_broken(box, &err);
    }
}

// No others: a guest could make as many of them as it liked, and each has descriptors.
static bool is_parked_id(uint32_t id)
{
    return id >= PARKED_FIRST && id - PARKED_FIRST < KERNEL_KIND_MAX;
}

static void expect_no_more(struct box_link *box, uint32_t id)
{
    box->parked &= ~(1u << (id - PARKED_FIRST));
}

// A fork that a daemon before us asked for, and that came after its guest had told what there is.
static void end_stranger(struct box_link *box, uint32_t id)
{
    struct err ignored;
    (void)guest_send_signal(box->guest, id, SIGKILL, &ignored);
    (void)guest_send_forget(box->guest, id, GUEST_FORGET_ALL, &ignored);
}

static void on_started(struct box_link *box, struct guest_event *ev)
{
    struct job *job = box_link_find(box, ev->msg.head.id);
    if (box->listing && box->to_come > 0) {
        box->to_come--;
        if (job == NULL)
            job = job_new_listed(box, ev);
    } else if (job != NULL && job->state == JOB_ASKED) {
        job_on_started(job, ev);
    } else if (job == NULL && is_parked_id(ev->msg.head.id)) {
        expect_no_more(box, ev->msg.head.id); // it may end before anybody asks for it
        // A sandbox that shares no zygote has none of its forks lying about either.
        if (ev->msg.head.id == PARKED_FIRST + KERNEL_PYTHON && !box->s->row.shared_zygote)
            end_stranger(box, ev->msg.head.id);
        else
            job_park(job_new_listed(box, ev));
    } else if (job == NULL) {
        end_stranger(box, ev->msg.head.id);
    }
    fd_close(ev->out); // what nobody took
    fd_close(ev->err);
    fd_close(ev->in);
    fd_close(ev->control_in);
    fd_close(ev->control_out);
}

void box_link_exited(struct box_link *box, const struct guest_exited *msg)
{
    struct job *job = box_link_find(box, msg->head.id);
    if (job == NULL || job->state != JOB_RUNNING)
        return;
    if (job->listed) { // its owner comes later
        job->exited = true;
        job->ending = *msg;
        return;
    }
    job_on_exited(job, msg);
}

static void on_failed(struct box_link *box, const struct guest_failed *msg)
{
    struct job *job = box_link_find(box, msg->head.id);
    if (job == NULL && is_parked_id(msg->head.id))
        expect_no_more(box, msg->head.id);
    if (job == NULL || job->state != JOB_ASKED)
        return;
    job_on_failed(job, msg);
}

static void list_done(struct box_link *box)
{
    box->listing = false;
    adopt_listed(box->s);
}

static void on_message(struct box_link *box, struct guest_event *ev)
{
    if (box->listing && !box->listed && ev->msg.head.type != GUEST_LISTED) {
        fd_close(ev->out);
        fd_close(ev->err);
        fd_close(ev->in);
        fd_close(ev->control_in);
        fd_close(ev->control_out);
        return;
    }
    switch ((enum guest_type)ev->msg.head.type) {
    case GUEST_STARTED:
        on_started(box, ev);
        return;
    case GUEST_EXITED:
        box_link_exited(box, &ev->msg.exited);
        return;
    case GUEST_FAILED:
        on_failed(box, &ev->msg.failed);
        return;
    case GUEST_LISTED:
        on_listed(box, ev->msg.listed.n);
        return;
    case GUEST_GIVEN:
        reach_given(box, ev);
        return;
    case GUEST_ROOT:
    case GUEST_EXEC:
    case GUEST_SIGNAL:
    case GUEST_LIST:
    case GUEST_FORGET:
    case GUEST_READY:
    case GUEST_ERROR:
    case GUEST_HAND:
    case GUEST_DIAL:
    case GUEST_LISTEN:
    case GUEST_HOLD:
    case GUEST_ADOPT:
    case GUEST_SEATED:
    case GUEST_LISTEN_UNIX:
    case GUEST_TYPE_MAX:
        return;
    }
}

// A guest that ends shows in the keeper's KEEPER_ENDED too, which says more; one that talks
// nonsense does not end by itself.
static void on_broken(struct box_link *box, const struct err *err)
{
    if (box->broken)
        return;
    (void)uv_poll_stop(&box->poll);
    box->broken = true;
    if (err->code != ERR_UNAVAILABLE) {
        log_line(LOG_ERROR, "a guest misbehaves, ending its box", "sandbox", box->s->row.id,
                 "error", err->msg, NULL);
        keeper_destroy(box->s->fleet, box->number, NULL, NULL);
    }
    if (box->listing)
        list_done(box);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    enum { AT_ONCE = 64 };
    struct box_link *box = poll->data;
    struct sandbox *s = sandbox_ref(box->s);
    struct guest_event ev;
    struct err err = {0};
    (void)status;
    (void)events;
    for (int i = 0; i < AT_ONCE && s->box == box && !box->broken; i++) {
        int r = guest_recv(box->guest.sock, &ev, MSG_DONTWAIT, &err);
        if (r == 0)
            break;
        if (r < 0) {
            on_broken(box, &err);
            break;
        }
        on_message(box, &ev);
        // The ends of those that have ended come right behind; they are in the socket already.
        if (s->box == box && box->listing && box->listed && box->to_come == 0) {
            for (int n = 0;
                 n < GUEST_EXECS_MAX && guest_recv(box->guest.sock, &ev, MSG_DONTWAIT, &err) == 1;
                 n++)
                on_message(box, &ev);
            list_done(box);
        }
    }
    sandbox_unref(s);
}

void box_link_list(struct box_link *box)
{
    struct err err = {0};
    box->listing = true;
    // Numbers that the daemons before us gave out may still belong to what was left running, of
    // which a guest does not tell.
    box->next_id = box->s->fleet->welcome.restarts % (PARKED_FIRST >> ID_SHIFT) << ID_SHIFT;
    if (guest_send_list(box->guest, 1, &err) < 0)
        on_broken(box, &err);
}

void box_link_list_late(struct box_link *box)
{
    struct err err = {0};
    if (!box->listing)
        return;
    (void)err_set(&err, ERR_INTERNAL, "the guest does not tell what it runs");
    on_broken(box, &err);
}

// --- life

struct box_link *box_link_new(struct sandbox *s, uint64_t number, struct guest_peer guest)
{
    struct box_link *box = calloc(1, sizeof *box);
    if (box == NULL)
        abort();
    box->s = s;
    box->number = number;
    box->guest = guest;
    box->poll.data = box;
    // Shared with the keeper, which does not read or write it while we have it: a guest that does
    // not read must not stop the loop.
    (void)fd_set_nonblock(guest.sock, 1);
    if (uv_poll_init(s->fleet->config.loop, &box->poll, guest.sock) < 0 ||
        uv_poll_start(&box->poll, UV_READABLE, on_readable) < 0)
        abort();
    return box;
}

bool box_link_is_over(const struct box_link *box)
{
    struct pollfd p = {.fd = box->guest.sock};
    return box->broken || (poll(&p, 1, 0) > 0 && (p.revents & POLLHUP));
}

void box_link_lost(struct box_link *box, enum end_reason reason, uint32_t limits)
{
    while (box->jobs != NULL) {
        struct job *job = box->jobs;
        box_link_remove(box, job);
        if (job->state != JOB_ENDED)
            job_on_lost(job, reason, limits);
    }
}

void box_link_drop_orphans(struct box_link *box)
{
    struct job *next;
    for (struct job *job = box->jobs; job != NULL; job = next) {
        next = job->next;
        if (!job->listed)
            continue;
        job->listed = false;
        if (job->exited) {
            job->state = JOB_ENDED;
            job_forget(job);
        } else if (job->keeps_exit) {
            job_kill(
                job); // of a process or session whose row was never finished: nobody can reach it
        }
        job_free(job);
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct box_link *box = handle->data;
    fd_close(box->guest.sock);
    free(box);
}

void box_link_free(struct box_link *box)
{
    if (box == NULL)
        return;
    box_link_lost(box, END_BOX_LOST, 0);
    reach_lost(box);
    if (box->listing) {
        box->listing = false;
        adopt_unlisted(box->s);
    }
    uv_close((uv_handle_t *)&box->poll, on_closed);
}
