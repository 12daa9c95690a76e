// SPDX-License-Identifier: Apache-2.0
#include "move/job.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/clock.h"

enum {
    FILE_TURN_BYTES = 1024 * 1024, // in one turn; then it is others'
    TURN_BYTES = 256 * 1024,
    BURSTS_PER_SECOND = 10, // with a rate, no more than this part of a second's bytes in one turn
};
// Debts below what a timer can tell are not waited for, only added up.
#define SLACK_NS NS_PER_MS

// What is relayed is somebody's conversation: no small message waits for the answer to the one
// before it. Of other sockets than TCP's it is not true anyway.
static void hurry(const struct end *end)
{
    (void)setsockopt(end->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
}

void job_begin(struct job *job, int64_t now)
{
    job->moved_at = job->paid_until = now;
    for (unsigned i = 0; i < job->n_flows; i++) {
        flow_begin(&job->flows[i]);
        if (job->n_flows == 2)
            hurry(&job->ends[i]);
    }
}

// --- limits: the job's own, and those that it shares

static uint64_t shared(const _Atomic uint64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// All bytes that were read or given, whether they have been written or not: read is what is paid
// for, or else many that take nothing would together hold far more than a cap allows.
static uint64_t taken(const struct job *job)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < job->n_flows; i++) {
        const struct flow *flow = &job->flows[i];
        sum += flow->bytes + flow_pending(flow) - flow->uncounted;
    }
    return sum;
}

// What may be read yet.
static uint64_t cap_left(const struct job *job)
{
    uint64_t left = job->cap == UINT64_MAX ? UINT64_MAX : job->cap - taken(job);
    uint64_t max = job->share != NULL ? shared(&job->share->max_bytes) : 0;
    if (max == 0)
        return left;
    uint64_t counted = shared(&job->share->counted);
    return counted < max ? least(left, max - counted) : 0;
}

static uint64_t burst(uint64_t rate)
{
    uint64_t bytes = rate / BURSTS_PER_SECOND;
    return rate == 0 ? UINT64_MAX : (bytes == 0 ? 1 : bytes);
}

static uint64_t turn_budget(const struct job *job)
{
    bool file = job->ends[0].kind == END_FILE || job->ends[1].kind == END_FILE;
    uint64_t budget = least(file ? FILE_TURN_BYTES : TURN_BYTES, burst(job->rate));
    if (job->share != NULL)
        budget = least(budget, burst(shared(&job->share->rate)));
    return least(budget, cap_left(job));
}

static int64_t price_ns(uint64_t bytes, uint64_t rate)
{
    return (int64_t)((double)bytes / (double)rate * (double)NS_PER_S);
}

static void pay_shared(struct relay_share *share, uint64_t bytes, int64_t now)
{
    uint64_t rate = shared(&share->rate);
    (void)atomic_fetch_add_explicit(&share->counted, bytes, memory_order_relaxed);
    if (rate == 0)
        return;
    int64_t before = atomic_load(&share->paid_until_ns);
    int64_t after = 0;
    do
        after = (before > now ? before : now) + price_ns(bytes, rate);
    while (!atomic_compare_exchange_weak(&share->paid_until_ns, &before, after));
}

static void pay(struct job *job, int64_t now)
{
    uint64_t sum = taken(job);
    if (sum <= job->paid)
        return; // what was lost on the way has been paid for
    uint64_t bytes = sum - job->paid;
    job->paid = sum;
    if (job->rate > 0)
        job->paid_until =
            (job->paid_until > now ? job->paid_until : now) + price_ns(bytes, job->rate);
    if (job->share != NULL)
        pay_shared(job->share, bytes, now);
}

// When it may go on; now, if it may at once.
static int64_t free_at(const struct job *job, int64_t now)
{
    int64_t at = now;
    if (job->rate > 0 && job->paid_until > at)
        at = job->paid_until;
    if (job->share == NULL || shared(&job->share->rate) == 0)
        return at;
    int64_t theirs = atomic_load(&job->share->paid_until_ns);
    return theirs > at ? theirs : at;
}

static bool must_sleep(const struct job *job, int64_t now)
{
    return free_at(job, now) - now > SLACK_NS;
}

static enum job_turn sleep_until_free(struct job *job, int64_t now)
{
    job->wake_at = free_at(job, now);
    job->moved_at = job->wake_at; // it is we who hold it up
    return JOB_SLEEPS;
}

// --- turns

// The first failure is the job's. One that ended well does not hide it.
static void note_end(struct job *job, const struct flow *flow)
{
    if (!flow->over || job->why != MOVE_COMPLETE)
        return;
    job->why = flow->why;
    job->sys_errno = flow->sys_errno;
}

static enum flow_step turn_flow(struct job *job, struct flow *flow, struct works *works,
                                int64_t now)
{
    note_end(job, flow); // it may have ended between turns
    if (flow->over)
        return FLOW_OVER;
    if (must_sleep(job, now))
        return FLOW_SPENT;
    enum flow_step step = flow_turn(flow, works, turn_budget(job));
    pay(job, now);
    if (flow->moved)
        job->moved_at = now;
    flow->moved = false;
    note_end(job, flow);
    // What is left of the cap is in the other direction's hands: an event of its sink comes first.
    if (step == FLOW_SPENT && cap_left(job) == 0)
        step = FLOW_WAITS;
    return step;
}

// All that it may move has been moved.
static bool is_capped(const struct job *job)
{
    for (unsigned i = 0; i < job->n_flows; i++)
        if (flow_pending(&job->flows[i]) > 0)
            return false;
    return cap_left(job) == 0;
}

// A relay's other direction goes on when a write fails, for an answer may be under way from the
// side that takes no more; a read that fails is the end of a connection, and so of both.
static bool is_over(const struct job *job)
{
    bool all = true;
    for (unsigned i = 0; i < job->n_flows; i++) {
        if (job->flows[i].over && job->flows[i].why == MOVE_FROM_FAILED)
            return true;
        all = all && job->flows[i].over;
    }
    return all;
}

enum job_turn job_turn(struct job *job, struct works *works, int64_t now)
{
    bool spent = false;
    pay(job, now); // what it was given with its start
    job->swapped = !job->swapped;
    for (unsigned i = 0; i < job->n_flows; i++) {
        unsigned which = (i + job->swapped) % job->n_flows;
        spent |= turn_flow(job, &job->flows[which], works, now) == FLOW_SPENT;
    }
    if (is_over(job))
        return JOB_OVER;
    if (is_capped(job)) {
        job->why = MOVE_CAPPED;
        return JOB_OVER;
    }
    if (spent && must_sleep(job, now))
        return sleep_until_free(job, now);
    return spent ? JOB_AGAIN : JOB_WAITS;
}

void job_stop(struct job *job, struct works *works)
{
    for (unsigned i = 0; i < job->n_flows; i++)
        flow_stop(&job->flows[i], works, MOVE_STALLED, 0);
}

bool job_is_stalled(const struct job *job, int64_t now)
{
    return job->patience_ns > 0 && now - job->moved_at >= job->patience_ns;
}

static int error_of(const struct end *end)
{
    int error = 0;
    socklen_t len = sizeof error;
    if (end->kind == END_SOCKET && getsockopt(end->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = 0;
    return error;
}

void job_hung_up(struct job *job, struct end *end, struct works *works)
{
    for (unsigned i = 0; i < job->n_flows; i++) {
        struct flow *flow = &job->flows[i];
        if (flow->to != end || flow->over)
            continue;
        int error = error_of(end);
        // A relay's side that closed when nothing was under way to it has ended, not failed.
        bool fine = job->n_flows == 2 && error == 0 && flow_pending(flow) == 0;
        flow_stop(flow, works, fine ? MOVE_COMPLETE : MOVE_TO_FAILED,
                  fine ? 0 : (error != 0 ? error : EPIPE));
        note_end(job, flow);
    }
}
