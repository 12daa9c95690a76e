// SPDX-License-Identifier: Apache-2.0
#include "api/transfer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

struct transfer {
    struct call *call; // counted; NULL when it was told of
    struct move *move;
    struct follower *follower; // NULL when it was cut
    transfer_fn fn;
    LIST_ENTRY(transfer) all; // of api->transfers
};

// Tells of it. What is left is to be freed.
static void tell(struct transfer *t, const struct move_result *result)
{
    struct call *call = t->call;
    t->call = NULL;
    LIST_REMOVE(t, all);
    follower_free(t->follower);
    t->follower = NULL;
    sandbox_idle(call->sandbox);
    t->fn(call, result);
    call_unref(call);
}

static void finish(struct transfer *t, const struct move_result *result)
{
    if (t->call != NULL) // else it was dropped meanwhile
        tell(t, result);
    free(t);
}

static void on_done(void *data, const struct move_result *result)
{
    finish(data, result);
}

static void on_stopped(void *data)
{
    finish(data, NULL);
}

static void cut(struct transfer *t)
{
    if (t->follower == NULL)
        return; // it is being cut
    follower_free(t->follower);
    t->follower = NULL;
    move_cancel(t->move, on_stopped, t);
}

static void on_event(void *data, const struct event_row *row)
{
    if (row == NULL || strcmp(row->type, "slept") == 0 || strcmp(row->type, "lost") == 0)
        cut(data);
}

int transfer_start(struct call *call, struct move_config *config, transfer_fn fn, struct err *err)
{
    struct transfer *t = calloc(1, sizeof *t);
    if (t == NULL)
        abort();
    config->done = on_done;
    config->data = t;
    t->move = move_start(call->api->mover, config, err);
    if (t->move == NULL) {
        free(t);
        return -1;
    }
    t->call = call_ref(call);
    t->fn = fn;
    t->follower = sandbox_follow(call->sandbox, on_event, t);
    LIST_INSERT_HEAD(&call->api->transfers, t, all);
    sandbox_busy(call->sandbox);
    return 0;
}

void transfers_cut(struct api *api, const struct token *token)
{
    struct transfer *t;
    LIST_FOREACH(t, &api->transfers, all)
    {
        if (t->call->token == token)
            cut(t);
    }
}

void transfers_drop(struct api *api)
{
    while (!LIST_EMPTY(&api->transfers)) {
        struct transfer *t = LIST_FIRST(&api->transfers);
        bool is_cut = t->follower == NULL; // then the mover tells of it when it is freed
        tell(t, NULL);
        if (!is_cut)
            free(t);
    }
}
