// SPDX-License-Identifier: Apache-2.0
#include "agents/tool-work.h"

#include <stdlib.h>
#include <uv.h>

struct job {
    uv_work_t req;
    struct tool_call *call;
    void (*work)(void *state);
    void (*done)(struct tool_call *call, void *state);
    void *state;
};

static void on_thread(uv_work_t *req)
{
    const struct job *job = req->data;
    job->work(job->state);
}

static void on_done(uv_work_t *req, int status)
{
    struct job *job = req->data;
    (void)status;
    job->done(job->call, job->state);
    tool_unref(job->call);
    free(job);
}

void tool_work(struct tool_call *call, void (*work)(void *state),
               void (*done)(struct tool_call *call, void *state), void *state)
{
    struct job *job = calloc(1, sizeof *job);
    if (job == NULL)
        abort();
    *job = (struct job){.call = tool_ref(call), .work = work, .done = done, .state = state};
    job->req.data = job;
    if (uv_queue_work(call->loop, &job->req, on_thread, on_done) != 0)
        abort(); // only without a function to call
}
