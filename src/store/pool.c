// SPDX-License-Identifier: Apache-2.0
#include "store/pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/queue.h>

struct job {
    void (*work)(void *data);
    void (*done)(void *data);
    void *data;
    TAILQ_ENTRY(job) next;
};
TAILQ_HEAD(jobs, job);

struct store_pool {
    uv_async_t *told; // its memory goes when the loop has closed it, maybe after the pool's
    pthread_t *threads;
    unsigned n_threads;
    pthread_mutex_t lock; // of what follows
    pthread_cond_t work_or_end;
    struct jobs waiting, finished;
    unsigned n_waiting;
    bool ends;
};

// --- threads ---

// The next one to do; NULL: it is over.
static struct job *next_job(struct store_pool *pool)
{
    (void)pthread_mutex_lock(&pool->lock);
    while (!pool->ends && TAILQ_EMPTY(&pool->waiting))
        (void)pthread_cond_wait(&pool->work_or_end, &pool->lock);
    struct job *job = pool->ends ? NULL : TAILQ_FIRST(&pool->waiting);
    if (job != NULL) {
        TAILQ_REMOVE(&pool->waiting, job, next);
        pool->n_waiting--;
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return job;
}

static void *run(void *data)
{
    struct store_pool *pool = data;
    struct job *job;
    (void)pthread_setname_np(pthread_self(), "store");
    while ((job = next_job(pool)) != NULL) {
        job->work(job->data);
        (void)pthread_mutex_lock(&pool->lock);
        TAILQ_INSERT_TAIL(&pool->finished, job, next);
        (void)pthread_mutex_unlock(&pool->lock);
        (void)uv_async_send(pool->told);
    }
    return NULL;
}

// --- the loop ---

static struct job *take_first(struct store_pool *pool, struct jobs *jobs)
{
    (void)pthread_mutex_lock(&pool->lock);
    struct job *job = TAILQ_FIRST(jobs);
    if (job != NULL)
        TAILQ_REMOVE(jobs, job, next);
    (void)pthread_mutex_unlock(&pool->lock);
    return job;
}

static void finish(struct job *job)
{
    job->done(job->data);
    free(job);
}

static unsigned n_finished(struct store_pool *pool)
{
    struct job *job;
    unsigned n = 0;
    (void)pthread_mutex_lock(&pool->lock);
    TAILQ_FOREACH(job, &pool->finished, next)
    n++;
    (void)pthread_mutex_unlock(&pool->lock);
    return n;
}

// Only what is finished now: `done` may start more, and others on the loop have their turn, too. It
// may also close the pool, of which `told` is left until the loop's next turn.
static void on_told(uv_async_t *told)
{
    struct store_pool *pool = told->data;
    struct job *job;
    for (unsigned n = pool != NULL ? n_finished(pool) : 0; n > 0 && told->data != NULL; n--) {
        if ((job = take_first(pool, &pool->finished)) != NULL)
            finish(job);
    }
}

void store_pool_run(struct store_pool *pool, void (*work)(void *data), void (*done)(void *data),
                    void *data)
{
    struct job *job = malloc(sizeof *job);
    if (job == NULL)
        abort();
    *job = (struct job){.work = work, .done = done, .data = data};
    (void)pthread_mutex_lock(&pool->lock);
    // After the end nothing is begun, but `done` is called all the same.
    TAILQ_INSERT_TAIL(&pool->waiting, job, next);
    pool->n_waiting++;
    (void)pthread_cond_signal(&pool->work_or_end);
    (void)pthread_mutex_unlock(&pool->lock);
}

unsigned store_pool_waiting(const struct store_pool *pool)
{
    struct store_pool *mine = (struct store_pool *)(uintptr_t)pool;
    (void)pthread_mutex_lock(&mine->lock);
    unsigned n = pool->n_waiting;
    (void)pthread_mutex_unlock(&mine->lock);
    return n;
}

// --- opening and closing ---

static void free_told(uv_handle_t *handle)
{
    free(handle);
}

static void end_threads(struct store_pool *pool)
{
    (void)pthread_mutex_lock(&pool->lock);
    pool->ends = true;
    (void)pthread_cond_broadcast(&pool->work_or_end);
    (void)pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->n_threads; i++)
        (void)pthread_join(pool->threads[i], NULL);
}

void store_pool_close(struct store_pool *pool)
{
    struct job *job;
    if (pool == NULL)
        return;
    end_threads(pool);
    while ((job = take_first(pool, &pool->finished)) != NULL ||
           (job = take_first(pool, &pool->waiting)) != NULL)
        finish(job);
    pool->told->data = NULL;
    uv_close((uv_handle_t *)pool->told, free_told);
    (void)pthread_cond_destroy(&pool->work_or_end);
    (void)pthread_mutex_destroy(&pool->lock);
    free(pool->threads);
    free(pool);
}

// Signals are the loop's.
static int start_threads(struct store_pool *pool, unsigned n)
{
    sigset_t all, before;
    int r = 0;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    while (r == 0 && pool->n_threads < n) {
        r = pthread_create(&pool->threads[pool->n_threads], NULL, run, pool);
        pool->n_threads += r == 0;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r;
}

int store_pool_open(uv_loop_t *loop, unsigned n_threads, struct store_pool **ret, struct err *err)
{
    struct store_pool *pool = calloc(1, sizeof *pool);
    pthread_t *threads = calloc(n_threads, sizeof *threads);
    uv_async_t *told = calloc(1, sizeof *told);
    if (pool == NULL || threads == NULL || told == NULL || uv_async_init(loop, told, on_told) < 0) {
        free(pool);
        free(threads);
        free(told);
        return err_sys(err, ENOMEM, "open the store's pool");
    }
    *pool = (struct store_pool){.told = told, .threads = threads};
    told->data = pool;
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_cond_init(&pool->work_or_end, NULL);
    TAILQ_INIT(&pool->waiting);
    TAILQ_INIT(&pool->finished);
    int r = start_threads(pool, n_threads);
    if (r != 0) {
        store_pool_close(pool);
        return err_sys(err, r, "start the store's threads");
    }
    *ret = pool;
    return 0;
}
