// SPDX-License-Identifier: Apache-2.0
// The loop's side: makes jobs, gives each to the thread that has fewest, and tells of their ends.
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "move/thread.h"

struct mover {
    uv_async_t told;
    struct mover_thread *threads;
    unsigned n_threads;
    unsigned running;
    bool closing;
    struct job_queue all; // not yet told of
};

struct move {
    struct job job; // first: deliver_move gets back from it
    void (*done)(void *data, const struct move_result *result);
    void *data;
};

struct relay {
    struct job job;
    void (*done)(void *data, const struct relay_result *result);
    void *data;
};

// --- telling

static void free_job(struct job *job)
{
    for (unsigned i = 0; i < job->n_flows; i++)
        flow_done(&job->flows[i]);
    free(job); // the move or relay that it begins
}

static void tell(struct job *job)
{
    if (!job->is_cancelled)
        job->deliver(job);
    else if (job->stopped != NULL)
        job->stopped(job->stopped_data);
}

// The loop lives on because of what runs, not because of a mover that has nothing to do.
static void forget(struct job *job)
{
    struct mover *mover = job->mover;
    TAILQ_REMOVE(&mover->all, job, all);
    if (--mover->running == 0 && !mover->closing)
        uv_unref((uv_handle_t *)&mover->told);
}

static void on_told(uv_async_t *told)
{
    struct mover *mover = told->data;
    for (unsigned i = 0; i < mover->n_threads; i++) {
        struct job *job = NULL;
        // Whoever is told may close the mover.
        while (!mover->closing && (job = thread_next_finished(&mover->threads[i])) != NULL) {
            forget(job);
            tell(job);
            free_job(job);
        }
    }
}

// --- opening and closing

static void close_threads(struct mover *mover)
{
    for (; mover->n_threads > 0; mover->n_threads--)
        thread_close(&mover->threads[mover->n_threads - 1]);
}

static void on_closed(uv_handle_t *handle)
{
    struct mover *mover = handle->data;
    struct job *job = NULL;
    while ((job = TAILQ_FIRST(&mover->all)) != NULL) {
        forget(job);
        if (job->is_cancelled)
            tell(job);
        free_job(job);
    }
    free(mover->threads);
    free(mover);
}

int mover_open(uv_loop_t *loop, unsigned n_threads, struct mover **ret, struct err *err)
{
    struct mover *mover = calloc(1, sizeof *mover);
    if (mover == NULL)
        return err_sys(err, ENOMEM, "make a mover");
    if (n_threads == 0)
        n_threads = 1;
    mover->threads = calloc(n_threads, sizeof *mover->threads);
    int r = mover->threads != NULL ? uv_async_init(loop, &mover->told, on_told) : -ENOMEM;
    if (r < 0) {
        free(mover->threads);
        free(mover);
        return err_sys(err, -r, "make a mover");
    }
    mover->told.data = mover;
    uv_unref((uv_handle_t *)&mover->told);
    TAILQ_INIT(&mover->all);
    for (; r == 0 && mover->n_threads < n_threads; mover->n_threads += r == 0)
        r = thread_open(&mover->threads[mover->n_threads], &mover->told);
    if (r < 0) {
        mover_close(mover);
        return err_sys(err, -r, "start a mover's thread");
    }
    *ret = mover;
    return 0;
}

void mover_close(struct mover *mover)
{
    if (mover == NULL || mover->closing)
        return;
    mover->closing = true;
    close_threads(mover);
    uv_close((uv_handle_t *)&mover->told, on_closed);
}

unsigned mover_running(const struct mover *mover)
{
    return mover->running;
}

// --- starting and cancelling

// Descriptors of any other kind have no place here: one that blocks would stop the whole thread.
static int end_init(struct end *end, struct job *job, int fd, int64_t offset, struct err *err)
{
    struct stat st;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fstat(fd, &st) < 0)
        return err_sys(err, errno, "look at a descriptor to be moved");
    bool file = S_ISREG(st.st_mode);
    bool stream = S_ISSOCK(st.st_mode) || S_ISFIFO(st.st_mode);
    if (file ? offset < 0 : !stream || offset != MOVE_NO_OFFSET || (flags & O_NONBLOCK) == 0)
        return err_set(err, ERR_INVALID, "a descriptor that cannot be moved from or to");
    *end = (struct end){
        .job = job,
        .fd = fd,
        .kind = file ? END_FILE : (S_ISSOCK(st.st_mode) ? END_SOCKET : END_PIPE),
        .offset = offset,
        .readable = true,
        .writable = true,
    };
    return 0;
}

static struct mover_thread *idlest(const struct mover *mover)
{
    struct mover_thread *best = &mover->threads[0];
    for (unsigned i = 1; i < mover->n_threads; i++)
        if (mover->threads[i].load < best->load)
            best = &mover->threads[i];
    return best;
}

static void start(struct mover *mover, struct job *job)
{
    job->mover = mover;
    job->thread = idlest(mover);
    TAILQ_INSERT_TAIL(&mover->all, job, all);
    if (mover->running++ == 0)
        uv_ref((uv_handle_t *)&mover->told);
    thread_start(job->thread, job);
}

static void cancel(struct job *job, void (*stopped)(void *data), void *data)
{
    if (job->is_cancelled)
        return;
    job->is_cancelled = true;
    job->stopped = stopped;
    job->stopped_data = data;
    thread_cancel(job->thread, job);
}

static uint64_t bytes_of(const struct flow *flow)
{
    return atomic_load_explicit(&flow->bytes, memory_order_relaxed);
}

// --- moves

static void deliver_move(struct job *job)
{
    struct move *move = (struct move *)job;
    struct move_result result = {
        .why = job->why,
        .sys_errno = job->sys_errno,
        .bytes = bytes_of(&job->flows[0]),
        .first_used = job->first_used,
    };
    move->done(move->data, &result);
}

static int fill_move(struct job *job, const struct move_config *config, struct err *err)
{
    struct flow *flow = &job->flows[0];
    if (end_init(&job->ends[0], job, config->from, config->from_offset, err) < 0 ||
        end_init(&job->ends[1], job, config->to, config->to_offset, err) < 0)
        return -1;
    flow->chunked = config->chunked;
    flow->to_chunked = config->to_chunked;
    if (!config->chunked)
        flow->left = config->length;
    if (flow->left == MOVE_TO_END && config->max_bytes > 0)
        flow->room = config->max_bytes;
    if (flow_hold(flow, config->first, config->first_len) < 0)
        return err_sys(err, ENOMEM, "start a move");
    if (config->first_is_body && config->first_len > 0)
        job->first_used = flow_hold_body(flow);
    job->rate = config->rate;
    job->patience_ns = config->stall_ms * NS_PER_MS;
    return 0;
}

struct move *move_start(struct mover *mover, const struct move_config *config, struct err *err)
{
    struct move *move = calloc(1, sizeof *move);
    if (move == NULL) {
        (void)err_sys(err, ENOMEM, "start a move");
        return NULL;
    }
    struct job *job = &move->job;
    job->n_flows = 1;
    job->cap = UINT64_MAX;
    job->deliver = deliver_move;
    flow_init(&job->flows[0], &job->ends[0], &job->ends[1]);
    move->done = config->done;
    move->data = config->data;
    if (fill_move(job, config, err) < 0) {
        free_job(job);
        return NULL;
    }
    start(mover, job);
    return move;
}

uint64_t move_bytes(const struct move *move)
{
    return bytes_of(&move->job.flows[0]);
}

void move_cancel(struct move *move, void (*stopped)(void *data), void *data)
{
    cancel(&move->job, stopped, data);
}

// --- relays

static void deliver_relay(struct job *job)
{
    struct relay *relay = (struct relay *)job;
    struct relay_result result = {
        .why = job->why,
        .sys_errno = job->sys_errno,
        .a_to_b = bytes_of(&job->flows[0]),
        .b_to_a = bytes_of(&job->flows[1]),
    };
    relay->done(relay->data, &result);
}

// Early bytes count like all others, and end where the cap ends.
static int hold_early(struct flow *flow, const void *data, size_t len, uint64_t cap)
{
    int r = flow_hold(flow, data, len < cap ? len : (size_t)cap);
    if (r == 0 && len > 0)
        (void)flow_hold_body(flow);
    return r;
}

static int fill_relay(struct job *job, const struct relay_config *config, struct err *err)
{
    if (end_init(&job->ends[0], job, config->a, MOVE_NO_OFFSET, err) < 0 ||
        end_init(&job->ends[1], job, config->b, MOVE_NO_OFFSET, err) < 0)
        return -1;
    if (job->ends[0].kind != END_SOCKET || job->ends[1].kind != END_SOCKET)
        return err_set(err, ERR_INVALID, "only sockets can be relayed");
    job->cap = config->max_bytes > 0 ? config->max_bytes : UINT64_MAX;
    struct flow *flows = job->flows;
    if (hold_early(&flows[0], config->from_a, config->from_a_len, job->cap) < 0 ||
        hold_early(&flows[1], config->from_b, config->from_b_len,
                   job->cap - flow_pending(&flows[0])) < 0)
        return err_sys(err, ENOMEM, "start a relay");
    flows[0].passes_end = flows[1].passes_end = true;
    job->rate = config->rate;
    job->patience_ns = config->stall_ms * NS_PER_MS;
    job->share = config->share;
    return 0;
}

struct relay *relay_start(struct mover *mover, const struct relay_config *config, struct err *err)
{
    struct relay *relay = calloc(1, sizeof *relay);
    if (relay == NULL) {
        (void)err_sys(err, ENOMEM, "start a relay");
        return NULL;
    }
    struct job *job = &relay->job;
    job->n_flows = 2;
    job->deliver = deliver_relay;
    flow_init(&job->flows[0], &job->ends[0], &job->ends[1]);
    flow_init(&job->flows[1], &job->ends[1], &job->ends[0]);
    relay->done = config->done;
    relay->data = config->data;
    if (fill_relay(job, config, err) < 0) {
        free_job(job);
        return NULL;
    }
    start(mover, job);
    return relay;
}

uint64_t relay_bytes(const struct relay *relay)
{
    return bytes_of(&relay->job.flows[0]) + bytes_of(&relay->job.flows[1]);
}

void relay_cancel(struct relay *relay, void (*stopped)(void *data), void *data)
{
    cancel(&relay->job, stopped, data);
}
