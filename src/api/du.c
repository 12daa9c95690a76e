// SPDX-License-Identifier: Apache-2.0
// GET /du: who holds what, on the volume and in the store. What the kernel counts is asked of the
// keeper, page after page, so that neither it nor the loop is kept by one who has many sandboxes;
// the rest is in rows. Sandboxes that are gone come last, as long as the store has something of
// them.
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/handlers.h"
#include "api/show.h"
#include "base/mem.h"
#include "sandbox/disk.h"
#include "saved/saved.h"

enum { HELD_MAX = 1000 * 1000 };

struct held { // in the store
    int64_t tenant;
    char *id;
    int64_t stored, backups, archived;
    bool told;
};

struct entry { // of the page that the keeper is asked about
    int64_t tenant;
    char *id;
    enum sandbox_status status;
    int64_t snapshots, shared;
};

struct du {
    struct call *call;
    int64_t tenant; // 0: all
    struct buf buf;
    struct json j;
    struct held *held;
    size_t n_held, room;
    struct entry page[KEEPER_USED_MAX];
    uint64_t numbers[KEEPER_USED_MAX];
    unsigned n;
    int64_t after_tenant;
    char *after;
    struct tenant_row name; // of the tenant that was told last
};

static void forget_page(struct du *du)
{
    for (unsigned i = 0; i < du->n; i++)
        free(du->page[i].id);
    du->n = 0;
}

// Answers, with the error if there is one, and frees it.
static void finish(struct du *du, const struct err *err)
{
    if (err != NULL)
        call_fail(du->call, err);
    else
        call_reply_json(du->call, 200, &du->j);
    if (err != NULL)
        buf_done(&du->buf);
    forget_page(du);
    for (size_t i = 0; i < du->n_held; i++)
        free(du->held[i].id);
    free(du->held);
    free(du->after);
    tenant_row_done(&du->name);
    call_unref(du->call);
    free(du);
}

// --- what the store has

static struct held *hold(struct du *du, int64_t tenant, const char *id)
{
    if (du->n_held == du->room) {
        size_t room = du->room > 0 ? 2 * du->room : 64;
        struct held *more = room <= HELD_MAX ? realloc(du->held, room * sizeof *more) : NULL;
        if (more == NULL)
            return NULL;
        du->held = more;
        du->room = room;
    }
    struct held *h = &du->held[du->n_held++];
    *h = (struct held){.tenant = tenant, .id = mem_copy_text(id)};
    return h;
}

static int see_sync(void *data, const struct sync_row *row)
{
    struct held *h = row->bytes > 0 ? hold(data, row->tenant, row->sandbox) : NULL;
    if (h != NULL)
        h->stored = row->bytes;
    return row->bytes > 0 && h == NULL;
}

static int see_backup(void *data, const struct backup_row *row)
{
    struct held *h = hold(data, row->tenant, row->sandbox);
    if (h != NULL && strcmp(row->kind, "archive") == 0)
        h->archived = row->size;
    else if (h != NULL)
        h->backups = row->size;
    return h == NULL;
}

static int compare(const void *a, const void *b)
{
    const struct held *x = a, *y = b;
    if (x->tenant != y->tenant)
        return x->tenant < y->tenant ? -1 : 1;
    return strcmp(x->id, y->id);
}

// Several of one sandbox become one.
static void add_up(struct du *du)
{
    size_t n = 0;
    qsort(du->held, du->n_held, sizeof *du->held, compare);
    for (size_t i = 0; i < du->n_held; i++) {
        struct held *h = &du->held[i];
        if (n > 0 && compare(&du->held[n - 1], h) == 0) {
            du->held[n - 1].stored += h->stored;
            du->held[n - 1].backups += h->backups;
            du->held[n - 1].archived += h->archived;
            free(h->id);
        } else {
            du->held[n++] = *h;
        }
    }
    du->n_held = n;
}

static int read_held(struct du *du, struct err *err)
{
    struct db *db = du->call->api->db;
    const struct sync_query syncs = {.tenant = du->tenant};
    const struct backup_query backups = {.tenant = du->tenant};
    if (db_sync_each(db, &syncs, see_sync, du, err) < 0 ||
        db_backup_each(db, &backups, see_backup, du, err) < 0)
        return -1;
    if (du->n_held > 0)
        add_up(du);
    return 0;
}

// --- one line

static const char *tenant_name(struct du *du, int64_t tenant)
{
    struct err ignored;
    if (du->name.number != tenant) {
        tenant_row_done(&du->name);
        du->name = (struct tenant_row){0};
        (void)db_tenant_by_number(du->call->api->db, tenant, &du->name, &ignored);
    }
    return du->name.name;
}

static void show_entry(struct du *du, const struct entry *e, const char *status, uint64_t disk)
{
    const struct held key = {.tenant = e->tenant, .id = e->id}, nothing = {0};
    struct held *h =
        du->n_held == 0 ? NULL : bsearch(&key, du->held, du->n_held, sizeof *du->held, compare);
    if (h != NULL)
        h->told = true;
    const struct held *has = h != NULL ? h : &nothing;
    json_open_object(&du->j);
    if (du->tenant == 0)
        show_str(&du->j, "tenant", tenant_name(du, e->tenant));
    show_str(&du->j, "sandboxId", e->id);
    show_str(&du->j, "status", status);
    show_int(&du->j, "disk", (int64_t)disk);
    show_int(&du->j, "shared", e->shared);
    show_int(&du->j, "snapshots", e->snapshots);
    show_int(&du->j, "stored", has->stored);
    show_int(&du->j, "backups", has->backups);
    show_int(&du->j, "archived", has->archived);
    json_close_object(&du->j);
}

// --- the end of it

static void show_volume(struct json *j, const struct keeper_spaced *space)
{
    json_key(j, "volume");
    if (space == NULL) {
        json_put_null(j);
        return;
    }
    json_open_object(j);
    show_int(j, "size", (int64_t)space->volume);
    show_int(j, "used", (int64_t)space->used);
    show_int(j, "writable", (int64_t)space->writable);
    show_int(j, "hostFree", (int64_t)space->host_free);
    json_close_object(j);
}

static int show_store(struct du *du, struct err *err)
{
    struct stored_sums sums = {0};
    struct saved *saved = du->call->api->saved;
    if (db_stored_sums(du->call->api->db, du->tenant, &sums, err) < 0)
        return -1;
    json_key(&du->j, "store");
    json_open_object(&du->j);
    show_str(&du->j, "kind", saved != NULL ? saved_store_kind(saved) : NULL);
    show_int(&du->j, "workspaces", sums.workspaces);
    show_int(&du->j, "backups", sums.backups);
    show_int(&du->j, "archives", sums.archives);
    show_int(&du->j, "results", sums.results);
    json_close_object(&du->j);
    return 0;
}

// How full the machine is, is for those who look after it.
static void on_space(void *data, const struct keeper_spaced *space, const struct err *err)
{
    struct du *du = data;
    struct err failed = {0};
    (void)err; // there is no volume
    json_close_array(&du->j);
    show_volume(&du->j, du->call->admin ? space : NULL);
    if (show_store(du, &failed) < 0) {
        finish(du, &failed);
        return;
    }
    json_close_object(&du->j);
    finish(du, NULL);
}

static void show_gone(struct du *du)
{
    for (size_t i = 0; i < du->n_held; i++) {
        const struct entry e = {.tenant = du->held[i].tenant, .id = du->held[i].id};
        if (!du->held[i].told)
            show_entry(du, &e, "gone", 0);
    }
}

// --- page after page

static void next_page(struct du *du);

static void on_used(void *data, const struct keeper_disks_used *used, const struct err *err)
{
    struct du *du = data;
    if (used == NULL) {
        finish(du, err);
        return;
    }
    for (unsigned i = 0; i < du->n; i++)
        show_entry(du, &du->page[i], show_status(du->page[i].status),
                   i < used->n ? used->bytes[i] : 0);
    forget_page(du);
    next_page(du);
}

static int see_snapshot(void *data, const struct snapshot_row *row)
{
    struct entry *e = data;
    e->snapshots += row->bytes;
    return 0;
}

static int see_sandbox(void *data, const struct sandbox_row *row)
{
    struct du *du = data;
    du->numbers[du->n] = (uint64_t)row->number;
    du->page[du->n++] = (struct entry){
        .tenant = row->tenant,
        .id = mem_copy_text(row->id),
        .status = row->status,
        .shared = row->shared,
    };
    return 0;
}

static int read_page(struct du *du, struct err *err)
{
    struct db *db = du->call->api->db;
    const struct sandbox_query query = {
        .tenant = du->tenant,
        .after = du->after,
        .after_tenant = du->after_tenant,
        .max = KEEPER_USED_MAX,
    };
    if (db_sandbox_each(db, &query, see_sandbox, du, err) < 0)
        return -1;
    for (unsigned i = 0; i < du->n; i++) {
        if (db_snapshot_each(db, (int64_t)du->numbers[i], see_snapshot, &du->page[i], err) < 0)
            return -1;
    }
    if (du->n > 0) {
        free(du->after);
        du->after = mem_copy_text(du->page[du->n - 1].id);
        du->after_tenant = du->page[du->n - 1].tenant;
    }
    return 0;
}

static void next_page(struct du *du)
{
    struct err err = {0};
    struct fleet *fleet = du->call->api->fleet;
    if (du->call->req == NULL) // nobody waits for it any more
        (void)err_set(&err, ERR_UNAVAILABLE, "the client is gone");
    if (err.code != ERR_NONE || read_page(du, &err) < 0) {
        finish(du, &err);
    } else if (du->n > 0) {
        fleet_disks_used(fleet, du->numbers, du->n, on_used, du);
    } else {
        show_gone(du);
        fleet_space(fleet, on_space, du);
    }
}

void handle_du(struct call *call)
{
    struct err err = {0};
    bool all;
    if (call_query_bool(call, "all", false, &all) < 0)
        return;
    if (all && !call->admin) {
        call_error(call, ERROR_FORBIDDEN, NULL,
                   "?all: is for administrators; without it this is your own");
        return;
    }
    struct du *du = calloc(1, sizeof *du);
    if (du == NULL)
        abort();
    du->call = call_ref(call);
    du->tenant = all ? 0 : call->tenant;
    buf_init(&du->buf, SHOW_MAX);
    json_init(&du->j, &du->buf);
    json_open_object(&du->j);
    show_bool(&du->j, "success", true);
    json_key(&du->j, "sandboxes");
    json_open_array(&du->j);
    if (read_held(du, &err) < 0)
        finish(du, &err);
    else
        next_page(du);
}
