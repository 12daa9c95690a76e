// SPDX-License-Identifier: Apache-2.0
#include "sandbox/kernel.h"

#include <string.h>

#include "sandbox/exec.h"
#include "sandbox/sandbox-internal.h"

// --- a program of its own

static int start_ordinary(struct sandbox *s, enum kernel_kind kind, const struct job_events *events,
                          void *data, struct kernel_begun *ret, struct err *err)
{
    char **env = exec_env(s, NULL, KERNEL_UID, err);
    if (env == NULL)
        return -1;
    struct exec_spec spec = {
        .cwd = "/",
        .argv = kernel_argv(kind),
        .envp = (const char *const *)env,
        .uid = KERNEL_UID,
        .gid = KERNEL_GID,
        .files = EXEC_FILES,
        // How it ended is kept until we forget it: the next daemon kills those that nobody owns.
        .flags = GUEST_EXEC_CONTROL | GUEST_EXEC_KEEP_EXIT,
    };
    *ret = (struct kernel_begun){.wants_boot = true, .is_ordinary = true};
    s->fleet->counted.kernels_started++;
    ret->job = job_start(s, &spec, 0, events, data, err);
    exec_env_free(env);
    return ret->job != NULL ? 0 : -1;
}

// --- one that was parked

// Variables that decide how an interpreter starts, and not only what it finds later.
static bool wants_own_start(const struct sandbox *s, enum kernel_kind kind)
{
    for (char **var = s->env; var != NULL && *var != NULL; var++) {
        if (kind == KERNEL_NODE && strncmp(*var, "NODE_", 5) == 0)
            return true;
    }
    return kind == KERNEL_PYTHON && !s->row.shared_zygote;
}

static bool take_parked(struct sandbox *s, enum kernel_kind kind, const struct job_events *events,
                        void *data, struct kernel_begun *ret)
{
    uint32_t id = PARKED_FIRST + kind;
    struct job *job = box_link_find(s->box, id);
    unsigned *parked = box_link_parked(s->box);
    bool expected = *parked >> kind & 1;
    *parked &= ~(1u << kind);
    if (job != NULL && job->is_parked)
        job_own(job, events, data);
    else if (job == NULL && expected)
        job = job_new_asked(s, id, events, data); // on its way
    else
        return false;
    job->is_fork = kind == KERNEL_PYTHON;
    *ret = (struct kernel_begun){.job = job, .is_started = job->state == JOB_RUNNING};
    s->fleet->counted.kernels_parked++;
    return true;
}

// --- a fork

static void on_planted(struct fleet *fleet, uint64_t box, uint32_t id, const struct err *err)
{
    if (err != NULL)
        kernel_plant_failed(fleet, box, id, err);
}

// Copying page tables is counted to the zygote, not to the box: about a mebibyte for each, of which
// a box shall not have any number.
enum { FORKS_MAX = 32 };

// It is nobody's until it has been asked for: one that is refused within that call is gone then,
// and whoever starts a kernel hears nothing before it has it.
static bool plant(struct sandbox *s, const struct job_events *events, void *data,
                  struct kernel_begun *ret)
{
    uint32_t id = box_link_next_id(s->box);
    if (box_link_forks(s->box) >= FORKS_MAX)
        return false;
    (void)job_new_asked(s, id, NULL, NULL);
    keeper_plant(s->fleet, box_link_number(s->box), id, on_planted);
    struct job *job = box_link_find(s->box, id);
    if (job == NULL)
        return false;
    job_own(job, events, data);
    job->is_fork = true;
    *ret = (struct kernel_begun){.job = job};
    s->fleet->counted.kernels_forked++;
    return true;
}

void kernel_plant_failed(struct fleet *fleet, uint64_t number, uint32_t id, const struct err *err)
{
    struct box_link *box = fleet_box(fleet, number);
    struct job *job = box != NULL ? box_link_find(box, id) : NULL;
    if (job != NULL && job->state == JOB_ASKED)
        job_on_refused(job, err);
    else if (box != NULL && id >= PARKED_FIRST)
        *box_link_parked(box) &= ~(1u << (id - PARKED_FIRST));
}

// --- the door

int kernel_start(struct sandbox *s, const struct kernel_start *start,
                 const struct job_events *events, void *data, struct kernel_begun *ret,
                 struct err *err)
{
    if (s->box == NULL || s->state != STATE_RUNNING)
        return err_set(err, ERR_UNAVAILABLE, "the sandbox is not running");
    bool own = start->ordinary || wants_own_start(s, start->kind);
    if (!own && take_parked(s, start->kind, events, data, ret))
        return 0;
    if (!own && start->kind == KERNEL_PYTHON && plant(s, events, data, ret))
        return 0;
    return start_ordinary(s, start->kind, events, data, ret, err);
}
