// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/show.h"
#include "saved/errand-internal.h"
#include "store/sha256.h"

enum { DIR_MAX = 4096, MANIFEST_MAX = 64 * 1024 };

static const struct err ending = {ERR_UNAVAILABLE, ECANCELED, "the server ends"};

// -- life

struct errand *errand_new(struct saved *saved, struct sandbox *s, errand_fn tell)
{
    struct errand *e = calloc(1, sizeof *e);
    if (e == NULL)
        abort();
    e->saved = saved;
    e->s = sandbox_ref(s);
    e->tell = tell;
    e->pipe = -1;
    saved_ref(saved);
    LIST_INSERT_HEAD(&saved->errands, e, all);
    return e;
}

int errand_set_row(struct errand *e, struct backup_row *row, struct err *err)
{
    struct tenant_row tenant = {0};
    e->row = *row;
    *row = (struct backup_row){0};
    int r = db_tenant_by_number(e->saved->config.db, e->row.tenant, &tenant, err);
    if (r > 0)
        e->tenant = mem_copy_text(tenant.name);
    tenant_row_done(&tenant);
    return r == 0 ? err_set(err, ERR_NOT_FOUND, "there is no such tenant") : r < 0 ? -1 : 0;
}

void errand_tell(struct errand *e, const struct err *err)
{
    if (e->is_told)
        return;
    e->is_told = true;
    e->tell(e, err);
}

// A row that did not become a backup; what is in the store of it goes.
static void drop_row(struct errand *e)
{
    struct err err = {0};
    if (!e->has_row)
        return;
    e->has_row = false;
    if (db_backup_del(e->saved->config.db, e->row.tenant, e->row.id, &err) < 0)
        log_line(LOG_WARN, "cannot forget a backup that failed, it goes at the next start",
                 "backup", e->row.id, "error", err.msg, NULL);
    saved_doom_soon(e->saved);
}

// When the server ends its keeper drops what is being made, and lets go of all.
void errand_give_back(struct errand *e)
{
    if (e->saved->closing)
        return;
    drop_row(e);
    if (e->making != 0)
        fleet_drop_making(e->saved->config.fleet, e->making);
    e->making = 0;
    if (e->is_held)
        sandbox_let_go(e->s);
    e->is_held = false;
}

static void release(struct errand *e)
{
    struct saved *saved = e->saved;
    LIST_REMOVE(e, all);
    turn_over(saved, &e->turn);
    if (e->is_stream)
        saved->n_streams--;
    fd_close(e->pipe);
    for (size_t i = 0; i < e->n_args; i++)
        free(e->args[i]);
    backup_row_done(&e->row);
    free(e->tenant);
    free(e->archive);
    sandbox_unref(e->s);
    free(e);
    saved_unref(saved);
}

void errand_end(struct errand *e, const struct err *err)
{
    errand_give_back(e);
    errand_tell(e, err);
    release(e);
}

void errands_tell(struct saved *saved)
{
    struct errand *e;
    LIST_FOREACH(e, &saved->errands, all)
    {
        if (!e->is_import || e->was_said)
            errand_tell(e, &ending);
    }
}

// -- arguments

int errand_arg(struct errand *e, const char *text, struct err *err)
{
    size_t len = strlen(text) + 1;
    if (e->n_args == ERRAND_ARGS_MAX || e->args_bytes + len > ERRAND_ARGS_BYTES)
        return err_set(err, ERR_INVALID, "too many patterns: give fewer, or shorter ones");
    e->args[e->n_args++] = mem_copy_text(text);
    e->args_bytes += len;
    return 0;
}

static bool is_plain(const char *dir)
{
    for (const char *at = dir; *at != '\0';) {
        size_t n = strcspn(++at, "/");
        if (n == 0 || (n == 1 && *at == '.') || (n == 2 && memcmp(at, "..", 2) == 0))
            return false;
        at += n;
    }
    return true;
}

int errand_check_dir(const char *dir, struct err *err)
{
    if (dir == NULL)
        return 0;
    if (strcmp(dir, "/") == 0)
        return err_set(err, ERR_INVALID, "dir: of all there is, leave it out");
    if (dir[0] != '/' || strlen(dir) >= DIR_MAX || !is_plain(dir))
        return err_set(err, ERR_INVALID,
                       "dir: must be absolute, without '.', '..' or a '/' too many");
    return 0;
}

static int pattern_args(struct errand *e, const struct backup_request *request, struct err *err)
{
    for (size_t i = 0; request->excludes != NULL && request->excludes[i] != NULL; i++) {
        if (errand_arg(e, "--exclude", err) < 0 || errand_arg(e, request->excludes[i], err) < 0)
            return -1;
    }
    return request->gitignore ? errand_arg(e, "--gitignore", err) : 0;
}

int errand_pack_args(struct errand *e, const struct backup_request *request, struct err *err)
{
    char n[16];
    bool has_patterns =
        request->gitignore || (request->excludes != NULL && request->excludes[0] != NULL);
    if (errand_check_dir(request->dir, err) < 0)
        return -1;
    if (request->dir == NULL && has_patterns)
        return err_set(err, ERR_INVALID,
                       "something can be left out of a directory only: give `dir`, too");
    if (request->dir != NULL &&
        (errand_arg(e, request->dir, err) < 0 || pattern_args(e, request, err) < 0))
        return -1;
    (void)snprintf(n, sizeof n, "%u", e->saved->n_cores);
    return errand_arg(e, "--threads", err) < 0 ? -1 : errand_arg(e, n, err);
}

bool errand_is_tree(const struct errand *e)
{
    return strcmp(e->row.kind, "tree") == 0;
}

void errand_key(const struct errand *e, const char *name, char ret[STORE_KEY_MAX])
{
    (void)snprintf(ret, STORE_KEY_MAX, "%s/backups/%s/%s", e->tenant, e->row.id, name);
}

// -- steps

static void go_on(struct errand *e, const struct err *err)
{
    errand_fn next = e->next;
    e->next = NULL;
    assert(next != NULL);
    if (e->saved->closing && err == NULL)
        err = &ending;
    next(e, err);
}

static void set_next(struct errand *e, errand_fn next)
{
    assert(e->next == NULL);
    e->next = next;
}

static void on_turn(void *data)
{
    go_on(data, NULL);
}

int errand_wait_turn(struct errand *e, enum saved_lane lane, errand_fn next, struct err *err)
{
    const struct turn_config config = {
        .lane = lane, .tenant = sandbox_row(e->s)->tenant, .run = on_turn, .data = e};
    set_next(e, next);
    return turn_take(e->saved, &e->turn, &config, err);
}

static void on_held(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct errand *e = data;
    (void)s;
    (void)created;
    e->is_held = err == NULL;
    go_on(e, err);
}

void errand_hold(struct errand *e, const char *why, errand_fn next)
{
    set_next(e, next);
    sandbox_hold(e->s, why, on_held, e);
}

static void on_disk(void *data, const struct disk_made *made, const struct err *err)
{
    struct errand *e = data;
    if (err == NULL) {
        e->making = made->making;
        e->shared = made->shared;
    }
    go_on(e, err);
}

void errand_copy(struct errand *e, errand_fn next)
{
    set_next(e, next);
    sandbox_copy_disk(e->s, on_disk, e);
}

void errand_make_disk(struct errand *e, uint64_t bytes, errand_fn next)
{
    set_next(e, next);
    fleet_make_disk(e->saved->config.fleet, bytes, on_disk, e);
}

static void on_replaced(void *data, const struct err *err)
{
    struct errand *e = data;
    if (err == NULL)
        e->making = 0; // it is the sandbox's
    go_on(e, err);
}

void errand_replace(struct errand *e, errand_fn next)
{
    set_next(e, next);
    sandbox_replace_disk(e->s, e->making, e->shared, on_replaced, e);
}

// -- to the store

static void show_manifest(struct json *j, const struct backup_row *row,
                          const struct freight_result *result)
{
    char hex[2 * STORE_SHA256 + 1];
    sha256_hex(result->sha256, hex);
    json_open_object(j);
    show_str(j, "id", row->id);
    show_str(j, "sandbox", row->sandbox);
    show_str(j, "kind", row->kind);
    show_str(j, "name", row->name);
    show_str(j, "dir", row->dir);
    show_str(j, "image", row->image);
    show_str(j, "object", "data.tar.zst");
    show_int(j, "size", (int64_t)result->size);
    show_str(j, "sha256", hex);
    show_int(j, "bytes", (int64_t)result->raw);
    show_int(j, "entries", (int64_t)result->entries);
    show_time(j, "createdAt", row->created_ms);
    show_time(j, "expiresAt", row->expires_ms);
    json_close_object(j);
}

// On the thread, which alone has the errand then. The manifest says that the object is whole also
// to somebody who has lost the rows.
static int write_manifest(void *data, const struct freight_result *result, struct err *err)
{
    const struct errand *e = data;
    char key[STORE_KEY_MAX];
    struct json j;
    auto_buf buf;
    buf_init(&buf, MANIFEST_MAX);
    json_init(&j, &buf);
    show_manifest(&j, &e->row, result);
    if (json_finish(&j) < 0)
        return err_set(err, ERR_INTERNAL, "the manifest is too long");
    errand_key(e, "manifest.json", key);
    if (store_put_bytes(e->saved->config.store, key, buf.data, buf.len, err) == 0 &&
        store_sync(e->saved->config.store, err) == 0)
        return 0;
    if (err->code == ERR_NOT_FOUND)
        err->code = ERR_UNAVAILABLE;
    saved_blame_store(err);
    return -1;
}

static void on_packed(void *data, const struct freight_result *result, const struct err *err)
{
    struct errand *e = data;
    struct err own = {0};
    if (err == NULL && !e->saved->closing) {
        e->row.size = (int64_t)result->size;
        e->row.raw = (int64_t)result->raw;
        e->row.entries = (int64_t)result->entries;
        memcpy(e->row.sha256, result->sha256, sizeof e->row.sha256);
        if (db_backup_ready(e->saved->config.db, &e->row, &own) < 0)
            err = &own;
        else
            e->row.state = BACKUP_READY;
    }
    go_on(e, err);
}

static void pack_copy(struct errand *e, const struct err *err)
{
    char key[STORE_KEY_MAX];
    if (err != NULL) {
        go_on(e, err);
        return;
    }
    errand_key(e, "data.tar.zst", key);
    const struct freight_config config = {
        .making = e->making,
        .work = errand_is_tree(e) ? WORK_PACK_TREE : WORK_PACK_DISK,
        .image = errand_is_tree(e) ? e->row.image : NULL,
        .args = (const char *const *)e->args,
        .key = key,
        .stored = write_manifest,
        .pipe = -1,
    };
    (void)freight_start(e->saved, &config, on_packed, e);
}

// The copy's own step, with `next` being the one after the packing.
static void on_copied(void *data, const struct disk_made *made, const struct err *err)
{
    struct errand *e = data;
    if (err == NULL) {
        e->making = made->making;
        e->shared = made->shared;
    }
    pack_copy(e, err == NULL && e->saved->closing ? &ending : err);
}

void errand_pack(struct errand *e, errand_fn next)
{
    struct err err = {0};
    set_next(e, next);
    if (db_backup_add(e->saved->config.db, &e->row, &err) < 0) {
        go_on(e, &err);
        return;
    }
    e->has_row = true;
    sandbox_copy_disk(e->s, on_copied, e);
}

// -- from the store

static void on_unpacked(void *data, const struct freight_result *result, const struct err *err)
{
    struct errand *e = data;
    (void)result;
    e->freight = NULL;
    go_on(e, err);
}

void errand_unpack(struct errand *e, errand_fn next)
{
    char key[STORE_KEY_MAX];
    struct freight_result expect = {.size = (uint64_t)e->row.size};
    memcpy(expect.sha256, e->row.sha256, sizeof expect.sha256);
    set_next(e, next);
    errand_key(e, "data.tar.zst", key);
    const struct freight_config config = {
        .making = e->making,
        .work = errand_is_tree(e) ? WORK_UNPACK_TREE : WORK_UNPACK_DISK,
        .image = errand_is_tree(e) ? sandbox_row(e->s)->image : NULL,
        .args = (const char *const *)e->args,
        .key = key,
        .expect = &expect,
        .pipe = -1,
    };
    e->freight = freight_start(e->saved, &config, on_unpacked, e);
}
