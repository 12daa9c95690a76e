// SPDX-License-Identifier: Apache-2.0
#include "api/restore-made.h"

#include <stdlib.h>

#include "base/log.h"
#include "saved/sync.h"

struct made {
    struct call *call;       // counted
    struct sandbox *sandbox; // counted
    void (*next)(struct call *call, struct sandbox *s, bool created);
    struct err err;
};

static void made_free(struct made *m)
{
    sandbox_unref(m->sandbox);
    call_unref(m->call);
    free(m);
}

static void on_destroyed(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct made *m = data;
    (void)s;
    (void)created;
    if (err != NULL && err->code != ERR_NONE)
        log_line(LOG_WARN, "cannot remove a sandbox that was not restored", "error", err->msg,
                 NULL);
    call_fail(m->call, &m->err);
    made_free(m);
}

static void give_up(struct made *m, const struct err *err)
{
    m->err = *err;
    sandbox_destroy(m->sandbox, on_destroyed, m);
}

static void on_awake(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct made *m = data;
    (void)created;
    if (err != NULL && err->code != ERR_NONE) {
        give_up(m, err);
        return;
    }
    m->next(m->call, s, /*created=*/true);
    made_free(m);
}

static void on_restored(void *data, const struct err *err)
{
    struct made *m = data;
    if (err != NULL)
        give_up(m, err);
    else
        sandbox_wake(m->sandbox, on_awake, m);
}

void restore_made(struct call *call, struct sandbox *s,
                  void (*next)(struct call *call, struct sandbox *s, bool created))
{
    struct made *m = calloc(1, sizeof *m);
    if (m == NULL)
        abort();
    *m = (struct made){.call = call_ref(call), .sandbox = sandbox_ref(s), .next = next};
    sync_restore(call->api->saved, s, on_restored, m);
}

int restore_announce(struct call *call, const char *id)
{
    struct err err = {0};
    if (id == NULL || fleet_find(call->api->fleet, call->tenant, id, &err) != NULL)
        return 0;
    err = (struct err){0};
    if (sync_restore_mark(call->api->saved, call->tenant, id, &err) < 0) {
        call_fail(call, &err);
        return -1;
    }
    call->has_marked = true;
    return 0;
}

void restore_unannounce(struct call *call, const char *id)
{
    if (call->has_marked)
        sync_restore_unmark(call->api->saved, call->tenant, id);
    call->has_marked = false;
}
