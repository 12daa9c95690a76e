// SPDX-License-Identifier: Apache-2.0
// Those who want to hear of a process. One may be freed, made, or be the last to hold the process
// while they are being told: a freed one stays in the list, deaf, until the telling is over, and a
// new one is put before those that are still to be told.
#include <stdlib.h>

#include "sandbox/process-internal.h"

struct process_watch {
    struct process *process; // a reference
    process_watch_fn fn;     // NULL: freed meanwhile
    void *data;
    struct process_watch *next;
};

struct process_watch *process_watch(struct process *p, process_watch_fn fn, void *data)
{
    struct process_watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL)
        abort();
    watch->process = process_ref(p);
    watch->fn = fn;
    watch->data = data;
    watch->next = p->watches;
    p->watches = watch;
    return watch;
}

// The caller holds a reference of its own, or is done with the process.
static void remove_deaf(struct process *p)
{
    unsigned removed = 0;
    for (struct process_watch **at = &p->watches; *at != NULL;) {
        struct process_watch *watch = *at;
        if (watch->fn != NULL) {
            at = &watch->next;
            continue;
        }
        *at = watch->next;
        free(watch);
        removed++;
    }
    for (; removed > 0; removed--)
        process_unref(p);
}

void process_watch_free(struct process_watch *watch)
{
    if (watch == NULL)
        return;
    struct process *p = watch->process;
    watch->fn = NULL;
    if (p->telling == 0)
        remove_deaf(p);
}

void process_tell(struct process *p, bool deleted)
{
    if (p->watches == NULL)
        return;
    (void)process_ref(p);
    p->telling++;
    for (struct process_watch *watch = p->watches; watch != NULL; watch = watch->next) {
        if (p->s == NULL && !deleted)
            break; // deleted by one of them: all have heard that already
        if (watch->fn != NULL)
            watch->fn(watch->data, deleted ? NULL : p);
    }
    p->telling--;
    if (p->telling == 0)
        remove_deaf(p);
    process_unref(p);
}
