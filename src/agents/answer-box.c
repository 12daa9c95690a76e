// SPDX-License-Identifier: Apache-2.0
// The sandbox of a question: the one that was named, or one that is made for it.
#include <stdlib.h>

#include "agents/answer-internal.h"
#include "agents/fresh.h"

void answer_run_if_ready(struct answer *a)
{
    if (a->over || !a->has_code || !a->is_up || a->listing != NULL)
        return;
    a->has_code = false;
    answer_run_code(a);
}

static void on_before(void *data, struct written *list, const struct err *err)
{
    struct answer *a = data;
    (void)err; // then all that is there afterwards counts as written
    a->listing = NULL;
    a->before = list;
    answer_run_if_ready(a);
}

static void use_sandbox(struct answer *a)
{
    a->is_up = true;
    sandbox_busy(a->s);
    answer_emit_str(a, "sandbox", "sandboxId", sandbox_row(a->s)->id);
    if (!a->fresh)
        a->listing = written_list(a->agents->config.loop, a->s, on_before, a);
    answer_run_if_ready(a);
}

static void on_awake(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct answer *a = data;
    struct failure failure;
    (void)s;
    (void)created;
    if (err != NULL && err->code != ERR_NONE) {
        failure_of_err(err, &failure);
        if (!a->over)
            answer_fail(a, &failure);
    } else if (!a->over) {
        use_sandbox(a);
    }
    answer_unref(a);
}

static void on_made(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct answer *a = data;
    struct failure failure;
    (void)created;
    if (s == NULL) {
        failure_of_err(err, &failure);
        if (!a->over)
            answer_fail(a, &failure);
    } else if (a->over) {
        sandbox_destroy(s, NULL, NULL);
    } else {
        a->s = sandbox_ref(s);
        use_sandbox(a);
    }
    answer_unref(a);
}

static void free_timer(uv_handle_t *handle)
{
    free(handle);
}

void answer_stop_timer(struct answer *a)
{
    if (a->soon != NULL)
        uv_close((uv_handle_t *)a->soon, free_timer);
    a->soon = NULL;
}

static void on_soon(uv_timer_t *timer)
{
    struct answer *a = timer->data;
    answer_stop_timer(a);
    a->refs++;
    if (a->s != NULL)
        fresh_wake(a->agents, a->s, on_awake, a);
    else
        fresh_make(a->agents, run_tenant(a->run), run_id(a->run), a->language->name, on_made, a);
}

// In the loop's next round: it takes longer than anything else here, and whoever follows the code
// shall see its first words before.
void answer_want_sandbox(struct answer *a)
{
    if (a->asked_for)
        return;
    a->asked_for = true;
    a->soon = calloc(1, sizeof *a->soon);
    if (a->soon == NULL)
        abort();
    (void)uv_timer_init(a->agents->config.loop, a->soon);
    a->soon->data = a;
    (void)uv_timer_start(a->soon, on_soon, 0, 0);
}
