// SPDX-License-Identifier: Apache-2.0
// Disks that leave the machine, and come back when somebody wants to use their sandbox. At every
// moment the disk is in one place or both: the object is whole and its row synced before the
// sandbox's says so, and that before the disk goes; the way back is the same in reverse.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "saved/errand-internal.h"

enum { ARCHIVES_AT_ONCE = 2, PUT_OFF_MAX = 10000 };
#define PUT_OFF_NS  (15 * 60 * NS_PER_S)
#define SLACK_BYTES (UINT64_C(256) * 1024 * 1024)

// -- away

static void tell_archived(struct errand *e, const struct err *err)
{
    if (err != NULL)
        log_line(LOG_WARN, "archiving failed, the disk stays", "sandbox", sandbox_row(e->s)->id,
                 "error", err->msg, NULL);
    e->on_disk(e->data, err);
}

static void on_gone(void *data, const struct err *err)
{
    struct errand *e = data;
    char text[128];
    if (err == NULL && !e->saved->closing) {
        e->has_row = false; // it is the disk now
        e->saved->stats.archived++;
        (void)snprintf(text, sizeof text, "{\"backup\":\"%s\"}", e->row.id);
        sandbox_event(e->s, "archived", text);
    }
    errand_end(e, err);
}

static void on_packed(struct errand *e, const struct err *err)
{
    if (err != NULL)
        errand_end(e, err);
    else
        sandbox_archive_disk(e->s, e->row.id, on_gone, e);
}

static int count_snapshot(void *data, const struct snapshot_row *row)
{
    unsigned *n = data;
    (void)row;
    ++*n;
    return 1;
}

// Held: nothing of it changes any more.
static int check_held(struct errand *e, struct err *err)
{
    unsigned n = 0;
    const struct sandbox_row *s = sandbox_row(e->s);
    if (backup_check_source(e->s, err) < 0 ||
        db_snapshot_each(e->saved->config.db, s->number, count_snapshot, &n, err) < 0)
        return -1;
    if (n > 0)
        return err_set(err, ERR_CONFLICT,
                       "the sandbox has snapshots, which would stay here: delete them first");
    return 0;
}

static void on_held(struct errand *e, const struct err *err)
{
    struct err own = {0};
    if (err == NULL && check_held(e, &own) < 0)
        err = &own;
    if (err != NULL)
        errand_end(e, err);
    else
        errand_pack(e, on_packed);
}

static void on_turn(struct errand *e, const struct err *err)
{
    static const struct err awake = {ERR_CONFLICT, 0, "it has been woken"};
    if (err != NULL)
        errand_end(e, err);
    else if (e->only_asleep && sandbox_box(e->s) != 0)
        errand_end(e, &awake); // meanwhile
    else
        errand_hold(e, "archive", on_held);
}

static void archive(struct saved *saved, struct sandbox *s, bool only_asleep, disk_fn fn,
                    void *data)
{
    static const struct backup_request whole = {0};
    struct err err = {0};
    struct backup_row row;
    struct errand *e = errand_new(saved, s, tell_archived);
    e->on_disk = fn;
    e->data = data;
    e->only_asleep = only_asleep;
    backup_new_row(saved, sandbox_row(s), "archive", &row);
    if (errand_set_row(e, &row, &err) < 0 || errand_pack_args(e, &whole, &err) < 0 ||
        check_held(e, &err) < 0 || errand_wait_turn(e, LANE_OUT, on_turn, &err) < 0)
        errand_end(e, &err);
}

void backup_archive(struct saved *saved, struct sandbox *s, disk_fn fn, void *data)
{
    archive(saved, s, false, fn, data);
}

// -- an archive that is nobody's disk any more

void archive_remember(struct errand *e)
{
    free(e->archive);
    e->archive = mem_copy_text(sandbox_row(e->s)->archive);
}

void archive_forget(struct errand *e)
{
    struct err err = {0};
    if (e->archive == NULL)
        return;
    if (db_backup_del(e->saved->config.db, sandbox_row(e->s)->tenant, e->archive, &err) < 0)
        log_line(LOG_WARN, "cannot forget an archive, it goes at the next start", "backup",
                 e->archive, "error", err.msg, NULL);
    saved_doom_soon(e->saved);
}

// -- back

static void tell_recalled(struct errand *e, const struct err *err)
{
    if (err != NULL)
        log_line(LOG_WARN, "an archived disk does not come back", "sandbox", sandbox_row(e->s)->id,
                 "backup", e->archive, "error", err->msg, NULL);
    e->on_recall(e->s, err);
}

static void on_back(struct errand *e, const struct err *err)
{
    if (err == NULL) {
        e->saved->stats.recalled++;
        sandbox_event(e->s, "recalled", NULL);
        archive_forget(e);
    }
    errand_end(e, err);
}

static void on_unpacked(struct errand *e, const struct err *err)
{
    if (err != NULL)
        errand_end(e, err);
    else
        errand_replace(e, on_back);
}

static void unpack(struct errand *e, const struct err *err)
{
    if (err != NULL)
        errand_end(e, err);
    else
        errand_unpack(e, on_unpacked);
}

// What was on it must fit, however it lies there; its own limit holds again when it gets a box.
static void make_room(struct errand *e, const struct err *err)
{
    uint64_t limit = (uint64_t)sandbox_row(e->s)->disk, raw = (uint64_t)e->row.raw;
    if (err != NULL)
        errand_end(e, err);
    else
        errand_make_disk(e, (limit > raw ? limit : raw) + limit / 8 + SLACK_BYTES, unpack);
}

static int find(struct errand *e, struct err *err)
{
    struct backup_row row = {0};
    const struct sandbox_row *s = sandbox_row(e->s);
    archive_remember(e);
    int r = e->archive == NULL
                ? 0
                : db_backup_get(e->saved->config.db, s->tenant, e->archive, &row, err);
    if (r < 0)
        return -1;
    if (r == 0 || row.state != BACKUP_READY) {
        backup_row_done(&row);
        (void)err_set(err, ERR_INTERNAL, "the archive of its disk is not known any more");
        err->sys_errno = EBADMSG;
        return -1;
    }
    return errand_set_row(e, &row, err);
}

void archive_recall(void *data, struct sandbox *s,
                    void (*done)(struct sandbox *s, const struct err *err))
{
    struct saved *saved = data;
    struct err err = {0};
    struct errand *e = errand_new(saved, s, tell_recalled);
    e->on_recall = done;
    if (find(e, &err) < 0 || errand_wait_turn(e, LANE_IN, make_room, &err) < 0)
        errand_end(e, &err);
}

// -- those that have slept for long enough

struct put_off { // one that could not be archived: not tried again before
    char key[24];
    int64_t until_ns;
};

static void forget_put_off(struct saved *saved)
{
    size_t at = 0;
    struct put_off *p;
    while ((p = map_next(&saved->put_off, &at)) != NULL)
        free(p);
    map_done(&saved->put_off);
    saved->put_off = (struct map){0};
}

static void put_off(struct saved *saved, int64_t number)
{
    struct put_off *p = calloc(1, sizeof *p);
    if (p == NULL)
        abort();
    if (saved->put_off.n >= PUT_OFF_MAX)
        forget_put_off(saved);
    (void)snprintf(p->key, sizeof p->key, "%lld", (long long)number);
    p->until_ns = clock_ns() + PUT_OFF_NS;
    free(map_del(&saved->put_off, p->key));
    map_put(&saved->put_off, p->key, p);
}

static void take_up(struct saved *saved, int64_t number)
{
    char key[24];
    (void)snprintf(key, sizeof key, "%lld", (long long)number);
    free(map_del(&saved->put_off, key));
}

static bool is_put_off(struct saved *saved, int64_t number)
{
    char key[24];
    (void)snprintf(key, sizeof key, "%lld", (long long)number);
    const struct put_off *p = map_get(&saved->put_off, key);
    return p != NULL && clock_ns() < p->until_ns;
}

struct idle {
    struct saved *saved;
    int64_t number;
};

static void on_archived(void *data, const struct err *err)
{
    struct idle *idle = data;
    idle->saved->n_archiving--;
    if (err == NULL)
        take_up(idle->saved, idle->number);
    saved_unref(idle->saved);
    free(idle);
}

// What is archived cannot be synced: that comes first.
static bool is_to_be_synced(struct saved *saved, const struct sandbox_row *row)
{
    struct sync_row sync = {0};
    struct err ignored;
    int found = db_sync_get(saved->config.db, row->tenant, row->id, &sync, &ignored);
    bool is_pending = found > 0 && (sync.state == SYNC_RUNNING || sync.again_ms > 0);
    sync_row_done(&sync);
    return is_pending;
}

static int archive_one(void *data, const struct sandbox_row *row)
{
    struct saved *saved = data;
    struct err err = {0};
    if (saved->n_archiving >= ARCHIVES_AT_ONCE)
        return 1;
    if (is_put_off(saved, row->number) || is_to_be_synced(saved, row))
        return 0;
    struct sandbox *s = fleet_find(saved->config.fleet, row->tenant, row->id, &err);
    if (s == NULL || sandbox_has_disk(s, &err) < 0) {
        put_off(saved, row->number);
        return 0;
    }
    put_off(saved, row->number); // also so that it is not begun twice
    struct idle *idle = calloc(1, sizeof *idle);
    if (idle == NULL)
        abort();
    *idle = (struct idle){saved, row->number};
    saved_ref(saved);
    saved->n_archiving++;
    archive(saved, s, true, on_archived, idle);
    return 0;
}

void archive_tick(struct saved *saved)
{
    struct err err = {0};
    if (!saved->health.ok || saved->n_archiving >= ARCHIVES_AT_ONCE)
        return;
    if (db_sandbox_each_idle(saved->config.db, db_now_ms(), 0, archive_one, saved, &err) < 0)
        log_line(LOG_WARN, "cannot look for sandboxes to archive, ignoring", "error", err.msg,
                 NULL);
}

void archive_close(struct saved *saved)
{
    forget_put_off(saved);
}
