// SPDX-License-Identifier: Apache-2.0
#include "saved/backup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "saved/errand-internal.h"

enum { BACKUPS_MAX = 1000, EVENT_MAX = 256 }; // of one sandbox

// -- making one

static void note(const struct errand *e, const char *type)
{
    char data[EVENT_MAX];
    (void)snprintf(data, sizeof data, "{\"backup\":\"%s\"}", e->row.id);
    sandbox_event(e->s, type, data);
}

static void tell_made(struct errand *e, const struct err *err)
{
    if (err != NULL)
        log_line(LOG_WARN, "backup failed", "sandbox", e->row.sandbox, "error", err->msg, NULL);
    e->on_backup(e->data, err == NULL ? &e->row : NULL, err);
}

static void on_made(struct errand *e, const struct err *err)
{
    if (err == NULL) {
        e->has_row = false; // it stays
        e->saved->stats.backups++;
        note(e, "backup_made");
    }
    errand_end(e, err);
}

static void on_turn(struct errand *e, const struct err *err)
{
    if (err != NULL)
        errand_end(e, err);
    else
        errand_pack(e, on_made);
}

static int count_one(void *data, const struct backup_row *row)
{
    unsigned *n = data;
    (void)row;
    ++*n;
    return 0;
}

static int check_room(struct saved *saved, const struct sandbox_row *s, struct err *err)
{
    unsigned n = 0;
    const struct backup_query query = {.tenant = s->tenant, .sandbox = s->id, .max = BACKUPS_MAX};
    if (db_backup_each(saved->config.db, &query, count_one, &n, err) < 0)
        return -1;
    if (n >= BACKUPS_MAX)
        return err_set(err, ERR_EXHAUSTED, "a sandbox has at most %d backups: delete some",
                       BACKUPS_MAX);
    return 0;
}

void backup_new_row(const struct saved *saved, const struct sandbox_row *s, const char *kind,
                    struct backup_row *ret)
{
    char id[SAVED_ID_MAX];
    saved_backup_id(id);
    *ret = (struct backup_row){
        .tenant = s->tenant,
        .id = mem_copy_text(id),
        .sandbox = mem_copy_text(s->id),
        .number = s->number,
        .kind = mem_copy_text(kind),
        .image = mem_copy_text(s->image),
        .state = BACKUP_MAKING,
        .run = saved->config.run,
        .created_ms = db_now_ms(),
    };
}

int backup_check_source(struct sandbox *s, struct err *err)
{
    if (sandbox_has_disk(s, err) < 0)
        return -1;
    if (sandbox_row(s)->archive != NULL)
        return err_set(err, ERR_CONFLICT, "the sandbox is archived: wake it first");
    return 0;
}

static int prepare(struct errand *e, const struct backup_request *request, struct err *err)
{
    struct backup_row row;
    const struct sandbox_row *s = sandbox_row(e->s);
    backup_new_row(e->saved, s, request->dir != NULL ? "tree" : "disk", &row);
    row.name = mem_copy_text(request->name);
    row.dir = mem_copy_text(request->dir);
    row.expires_ms = request->ttl_ms > 0 ? row.created_ms + request->ttl_ms : 0;
    if (errand_set_row(e, &row, err) < 0 || errand_pack_args(e, request, err) < 0 ||
        backup_check_source(e->s, err) < 0)
        return -1;
    return check_room(e->saved, s, err);
}

void backup_make(struct saved *saved, struct sandbox *s, const struct backup_request *request,
                 backup_fn fn, void *data)
{
    struct err err = {0};
    struct errand *e = errand_new(saved, s, tell_made);
    e->on_backup = fn;
    e->data = data;
    if (prepare(e, request, &err) < 0 || errand_wait_turn(e, LANE_OUT, on_turn, &err) < 0)
        errand_end(e, &err);
}

// -- deleting one

int backup_delete(struct saved *saved, int64_t tenant, const char *id, struct err *err)
{
    struct backup_row row = {0};
    int r = db_backup_get(saved->config.db, tenant, id, &row, err);
    if (r > 0 && strcmp(row.kind, "archive") == 0)
        r = err_set(err, ERR_CONFLICT,
                    "it is the only copy of the disk of sandbox '%s': it goes with that, or when "
                    "that is woken",
                    row.sandbox);
    else if (r > 0 && row.state != BACKUP_READY)
        r = err_set(err, ERR_CONFLICT, "it is being made: delete it when it is done");
    if (r > 0)
        r = db_backup_del(saved->config.db, tenant, id, err);
    backup_row_done(&row);
    if (r > 0)
        saved_doom_soon(saved);
    return r;
}
