// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdlib.h>

#include "saved/crew-internal.h"

struct crew {
    void (*run)(void *item);
    pthread_t threads[CREW_MAX];
    unsigned n_threads;
    unsigned given, taken; // so far; `given` is written under the lock, by one thread
    pthread_mutex_t lock;  // of what follows
    pthread_cond_t changed;
    struct {
        void *item;
        bool is_done;
    } ring[CREW_MAX];
    unsigned begun;
    bool ends;
};

static void *work(void *data)
{
    struct crew *crew = data;
    (void)pthread_mutex_lock(&crew->lock);
    while (!crew->ends) {
        if (crew->begun == crew->given) {
            (void)pthread_cond_wait(&crew->changed, &crew->lock);
            continue;
        }
        unsigned at = crew->begun++ % CREW_MAX;
        (void)pthread_mutex_unlock(&crew->lock);
        crew->run(crew->ring[at].item);
        (void)pthread_mutex_lock(&crew->lock);
        crew->ring[at].is_done = true;
        (void)pthread_cond_broadcast(&crew->changed);
    }
    (void)pthread_mutex_unlock(&crew->lock);
    return NULL;
}

struct crew *crew_new(void (*run)(void *item))
{
    struct crew *crew = calloc(1, sizeof *crew);
    if (crew == NULL)
        abort();
    crew->run = run;
    (void)pthread_mutex_init(&crew->lock, NULL);
    (void)pthread_cond_init(&crew->changed, NULL);
    return crew;
}

bool crew_is_full(const struct crew *crew)
{
    return crew->given - crew->taken == CREW_MAX;
}

// One more for each that is given, up to all; where there are none it is done here.
void crew_give(struct crew *crew, void *item)
{
    unsigned at = crew->given % CREW_MAX;
    if (crew->n_threads < CREW_MAX &&
        pthread_create(&crew->threads[crew->n_threads], NULL, work, crew) == 0)
        crew->n_threads++;
    bool is_alone = crew->n_threads == 0;
    if (is_alone)
        crew->run(item);
    (void)pthread_mutex_lock(&crew->lock);
    crew->ring[at].item = item;
    crew->ring[at].is_done = is_alone;
    crew->given++;
    crew->begun += is_alone;
    (void)pthread_cond_broadcast(&crew->changed);
    (void)pthread_mutex_unlock(&crew->lock);
}

void *crew_take(struct crew *crew)
{
    unsigned at = crew->taken % CREW_MAX;
    if (crew->taken == crew->given)
        return NULL;
    (void)pthread_mutex_lock(&crew->lock);
    while (!crew->ring[at].is_done)
        (void)pthread_cond_wait(&crew->changed, &crew->lock);
    (void)pthread_mutex_unlock(&crew->lock);
    crew->taken++;
    return crew->ring[at].item;
}

void crew_free(struct crew *crew)
{
    if (crew == NULL)
        return;
    (void)pthread_mutex_lock(&crew->lock);
    crew->ends = true;
    (void)pthread_cond_broadcast(&crew->changed);
    (void)pthread_mutex_unlock(&crew->lock);
    for (unsigned i = 0; i < crew->n_threads; i++)
        (void)pthread_join(crew->threads[i], NULL);
    (void)pthread_cond_destroy(&crew->changed);
    (void)pthread_mutex_destroy(&crew->lock);
    free(crew);
}
