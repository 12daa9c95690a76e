// SPDX-License-Identifier: Apache-2.0
#include "move/thread.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

enum { EVENTS_MAX = 64 };

// --- what the loop does

static void poke(struct mover_thread *thread)
{
    (void)eventfd_write(thread->wake, 1); // cannot fail: nobody counts to 2^64
}

void thread_start(struct mover_thread *thread, struct job *job)
{
    thread->load++;
    pthread_mutex_lock(&thread->lock);
    TAILQ_INSERT_TAIL(&thread->started, job, started);
    pthread_mutex_unlock(&thread->lock);
    poke(thread);
}

void thread_cancel(struct mover_thread *thread, struct job *job)
{
    pthread_mutex_lock(&thread->lock);
    if (!job->posted) {
        TAILQ_INSERT_TAIL(&thread->cancelled, job, cancelled);
        job->cancel_waits = true;
    }
    pthread_mutex_unlock(&thread->lock);
    poke(thread);
}

struct job *thread_next_finished(struct mover_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    struct job *job = TAILQ_FIRST(&thread->finished);
    if (job != NULL)
        TAILQ_REMOVE(&thread->finished, job, finished);
    pthread_mutex_unlock(&thread->lock);
    if (job != NULL)
        thread->load--;
    return job;
}

// --- queues

static void queue(struct mover_thread *thread, struct job *job)
{
    if (job->queued)
        return;
    if (job->asleep)
        TAILQ_REMOVE(&thread->asleep, job, turn);
    job->asleep = false;
    job->queued = true;
    TAILQ_INSERT_TAIL(&thread->ready, job, turn);
}

static void put_to_sleep(struct mover_thread *thread, struct job *job)
{
    job->asleep = true;
    TAILQ_INSERT_TAIL(&thread->asleep, job, turn);
    if (job->wake_at < thread->next_wake)
        thread->next_wake = job->wake_at;
}

static void wake_sleepers(struct mover_thread *thread)
{
    struct job *job = NULL;
    struct job *next = NULL;
    if (thread->now < thread->next_wake)
        return;
    thread->next_wake = INT64_MAX;
    for (job = TAILQ_FIRST(&thread->asleep); job != NULL; job = next) {
        next = TAILQ_NEXT(job, turn);
        if (job->wake_at <= thread->now)
            queue(thread, job);
        else if (job->wake_at < thread->next_wake)
            thread->next_wake = job->wake_at;
    }
}

static void expect_stall(struct mover_thread *thread, const struct job *job)
{
    int64_t due = job->moved_at + job->patience_ns;
    if (job->patience_ns > 0 && due < thread->next_stall)
        thread->next_stall = due;
}

// Those that moved since the last look are due later.
static void find_stalled(struct mover_thread *thread)
{
    struct job *job = NULL;
    if (thread->now < thread->next_stall)
        return;
    thread->next_stall = INT64_MAX;
    TAILQ_FOREACH(job, &thread->jobs, mine)
    {
        if (job_is_stalled(job, thread->now))
            queue(thread, job);
        else
            expect_stall(thread, job);
    }
}

// --- jobs

static int watch(struct mover_thread *thread, struct end *end, uint32_t events)
{
    struct epoll_event event = {.events = events | EPOLLET, .data.ptr = end};
    if (end->kind == END_FILE)
        return 0;
    if (epoll_ctl(thread->epoll, EPOLL_CTL_ADD, end->fd, &event) < 0)
        return -errno;
    end->watched = true;
    return 0;
}

static void unwatch(struct mover_thread *thread, struct end *end)
{
    if (end->watched)
        (void)epoll_ctl(thread->epoll, EPOLL_CTL_DEL, end->fd, NULL);
    end->watched = false;
}

static void begin(struct mover_thread *thread, struct job *job)
{
    bool both = job->n_flows == 2;
    TAILQ_INSERT_TAIL(&thread->jobs, job, mine);
    job_begin(job, thread->now);
    int r = watch(thread, &job->ends[0], EPOLLIN | EPOLLRDHUP | (both ? EPOLLOUT : 0));
    if (r < 0)
        flow_stop(&job->flows[0], &thread->works, MOVE_FROM_FAILED, -r);
    r = watch(thread, &job->ends[1], EPOLLOUT | (both ? EPOLLIN | EPOLLRDHUP : 0));
    if (r < 0)
        flow_stop(&job->flows[both ? 1 : 0], &thread->works,
                  both ? MOVE_FROM_FAILED : MOVE_TO_FAILED, -r);
    expect_stall(thread, job);
    queue(thread, job);
}

static void post(struct mover_thread *thread, struct job *job)
{
    job_stop(job, &thread->works);
    unwatch(thread, &job->ends[0]);
    unwatch(thread, &job->ends[1]);
    TAILQ_REMOVE(&thread->jobs, job, mine);
    pthread_mutex_lock(&thread->lock);
    if (job->cancel_waits) // it was over first; the loop knows what to do
        TAILQ_REMOVE(&thread->cancelled, job, cancelled);
    job->posted = true;
    TAILQ_INSERT_TAIL(&thread->finished, job, finished);
    pthread_mutex_unlock(&thread->lock);
    (void)uv_async_send(thread->told);
}

static void turn(struct mover_thread *thread, struct job *job)
{
    if (job->cancel_seen) {
        post(thread, job);
        return;
    }
    enum job_turn what = job_turn(job, &thread->works, thread->now);
    if (what == JOB_WAITS && job_is_stalled(job, thread->now)) {
        job->why = MOVE_STALLED;
        what = JOB_OVER;
    }
    if (what == JOB_OVER) {
        post(thread, job);
        return;
    }
    expect_stall(thread, job);
    if (what == JOB_SLEEPS)
        put_to_sleep(thread, job);
    else if (what == JOB_AGAIN)
        queue(thread, job);
}

// One turn for each that is in the queue now.
static void turn_all(struct mover_thread *thread)
{
    struct job_queue now = TAILQ_HEAD_INITIALIZER(now);
    struct job *job = NULL;
    TAILQ_CONCAT(&now, &thread->ready, turn);
    while ((job = TAILQ_FIRST(&now)) != NULL) {
        TAILQ_REMOVE(&now, job, turn);
        job->queued = false;
        turn(thread, job);
    }
}

// --- the thread's loop

// false: it shall end.
static bool take_commands(struct mover_thread *thread)
{
    struct job_queue started = TAILQ_HEAD_INITIALIZER(started);
    struct job *job = NULL;
    eventfd_t n = 0;
    (void)eventfd_read(thread->wake, &n);
    pthread_mutex_lock(&thread->lock);
    TAILQ_CONCAT(&started, &thread->started, started);
    while ((job = TAILQ_FIRST(&thread->cancelled)) != NULL) {
        TAILQ_REMOVE(&thread->cancelled, job, cancelled);
        job->cancel_waits = false;
        job->cancel_seen = true;
        queue(thread, job);
    }
    bool quits = thread->quits;
    pthread_mutex_unlock(&thread->lock);
    TAILQ_FOREACH(job, &started, started)
    begin(thread, job);
    return !quits;
}

static void on_event(struct mover_thread *thread, struct end *end, uint32_t events)
{
    struct job *job = end->job;
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        end->readable = true;
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
        end->writable = true;
    if (events & (EPOLLHUP | EPOLLERR))
        job_hung_up(job, end, &thread->works);
    if (!job->asleep)
        queue(thread, job);
}

static int timeout_ms(const struct mover_thread *thread)
{
    int64_t due = thread->next_wake < thread->next_stall ? thread->next_wake : thread->next_stall;
    if (!TAILQ_EMPTY(&thread->ready) || due <= thread->now)
        return 0;
    if (due == INT64_MAX)
        return -1;
    int64_t ms = (due - thread->now + NS_PER_MS - 1) / NS_PER_MS;
    return ms > 60000 ? 60000 : (int)ms;
}

static bool take_events(struct mover_thread *thread)
{
    struct epoll_event events[EVENTS_MAX];
    bool commands = false;
    int n = epoll_wait(thread->epoll, events, EVENTS_MAX, timeout_ms(thread));
    thread->now = clock_ns();
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr == NULL)
            commands = true;
        else
            on_event(thread, events[i].data.ptr, events[i].events);
    }
    return commands ? take_commands(thread) : true;
}

static void *run(void *data)
{
    struct mover_thread *thread = data;
    (void)pthread_setname_np(pthread_self(), "mover");
    thread->now = clock_ns();
    while (take_events(thread)) {
        wake_sleepers(thread);
        find_stalled(thread);
        turn_all(thread);
    }
    return NULL;
}

// --- opening and closing

static int open_descriptors(struct mover_thread *thread)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    thread->epoll = epoll_create1(EPOLL_CLOEXEC);
    thread->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (thread->epoll < 0 || thread->wake < 0 ||
        epoll_ctl(thread->epoll, EPOLL_CTL_ADD, thread->wake, &event) < 0)
        return -errno;
    return works_init(&thread->works);
}

static void close_descriptors(struct mover_thread *thread)
{
    fd_close(thread->epoll);
    fd_close(thread->wake);
    works_done(&thread->works);
    (void)pthread_mutex_destroy(&thread->lock);
}

// Signals are the loop's; and a SIGPIPE of splice or sendfile has nowhere to go.
static int start_thread(struct mover_thread *thread)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = pthread_create(&thread->id, NULL, run, thread);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -r;
}

int thread_open(struct mover_thread *thread, uv_async_t *told)
{
    *thread = (struct mover_thread){
        .epoll = -1, .wake = -1, .told = told, .next_wake = INT64_MAX, .next_stall = INT64_MAX};
    TAILQ_INIT(&thread->started);
    TAILQ_INIT(&thread->cancelled);
    TAILQ_INIT(&thread->finished);
    TAILQ_INIT(&thread->jobs);
    TAILQ_INIT(&thread->ready);
    TAILQ_INIT(&thread->asleep);
    (void)pthread_mutex_init(&thread->lock, NULL);
    int r = open_descriptors(thread);
    if (r == 0)
        r = start_thread(thread);
    if (r < 0)
        close_descriptors(thread);
    return r;
}

void thread_close(struct mover_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    thread->quits = true;
    pthread_mutex_unlock(&thread->lock);
    poke(thread);
    (void)pthread_join(thread->id, NULL);
    close_descriptors(thread);
}
