// SPDX-License-Identifier: Apache-2.0
// Sandboxes that are held: asleep, and nobody gets a box until they are let go. By those who work
// on their disks, one after the other, or by whoever brings back a disk that is archived.
#include <stdlib.h>

#include "base/log.h"
#include "sandbox/hold-internal.h"

static void hold(struct sandbox *s)
{
    lifecycle_move(s, CHANGE_HOLD);
    s->fleet->held++;
    sandbox_ref(s); // as long as it is held
}

static void release(struct sandbox *s)
{
    lifecycle_move(s, CHANGE_LET_GO);
    s->fleet->held--;
    s->replacing = s->recalled = false;
    if (!s->destroy_wanted)
        lifecycle_tell(s, &s->copiers, NULL);
}

void sandbox_let_go(struct sandbox *s)
{
    struct fleet *fleet = s->fleet;
    release(s);
    lifecycle_settle(s);
    fleet_check_stopped(fleet);
    sandbox_unref(s); // that of the hold
}

void hold_for_next(struct sandbox *s)
{
    struct waiter *w = s->holders;
    s->holders = w->next;
    hold(s);
    w->fn(w->data, s, false, NULL);
    free(w);
}

void sandbox_hold(struct sandbox *s, const char *why, sandbox_fn fn, void *data)
{
    struct err err = {0};
    if (s->state == STATE_GONE || s->destroy_wanted)
        (void)err_set(&err, ERR_NOT_FOUND, "sandbox '%.128s' was destroyed", s->row.id);
    else if (s->fleet->stopping)
        (void)err_set(&err, ERR_UNAVAILABLE, "the server is stopping");
    if (err.code != ERR_NONE) {
        fn(data, NULL, false, &err);
        return;
    }
    log_line(LOG_INFO, "sandbox is held", "sandbox", s->row.id, "why", why, NULL);
    lifecycle_wait(&s->holders, fn, data);
    lifecycle_settle(s);
}

static void on_recalled(struct sandbox *s, const struct err *failed)
{
    struct err err = {0};
    if (failed != NULL)
        err = *failed;
    else if (s->row.archive != NULL)
        (void)err_set(&err, ERR_INTERNAL, "the disk of '%.128s' was not brought back", s->row.id);
    struct fleet *fleet = s->fleet;
    release(s);
    if (err.code != ERR_NONE && !s->destroy_wanted)
        lifecycle_tell(s, &s->wakers, &err);
    lifecycle_settle(s);
    fleet_check_stopped(fleet);
    sandbox_unref(s); // that of the hold
}

void hold_to_recall(struct sandbox *s)
{
    struct err err = {0};
    struct fleet *fleet = s->fleet;
    if (fleet->recall_fn == NULL)
        (void)err_set(&err, ERR_UNAVAILABLE,
                      "the disk of '%.128s' is archived, and there is no store to bring it back",
                      s->row.id);
    else if (fleet->stopping)
        (void)err_set(&err, ERR_UNAVAILABLE, "the server is stopping");
    if (err.code != ERR_NONE) {
        lifecycle_tell(s, &s->wakers, &err);
        return;
    }
    hold(s);
    s->recalled = true;
    fleet->recall_fn(fleet->recall_data, s, on_recalled);
}
