// SPDX-License-Identifier: Apache-2.0
// Backups of a sandbox, restoring them, and sending its disk to the archive.
#include <errno.h>
#include <string.h>

#include "api/call.h"
#include "api/handlers.h"
#include "api/page.h"
#include "api/saved-fail.h"
#include "api/schemas.h"
#include "api/show.h"
#include "saved/backup.h"
#include "store/sha256.h"

enum { BACKUP_NAME_MAX = 128, BACKUP_ID_MAX = 40, EXCLUDES_MAX = 100, DIR_MAX = 4095 };
enum { LIST_MAX = 1000, LIST_DEFAULT = 100 };
#define TTL_MAX_MS (INT64_C(10) * 366 * 24 * 3600 * 1000)

struct backup_body {
    const char *dir, *name;
    struct body_int ttl;
    struct body_strings excludes;
    struct body_bool gitignore;
};

#define AT(member) offsetof(struct backup_body, member)
static const struct field backup_fields[] = {
    FIELD("dir", FIELD_STRING, AT(dir), .max = DIR_MAX,
          .help = "The directory, absolute; all that was ever written in the sandbox if not given"),
    FIELD("name", FIELD_STRING, AT(name), .max = BACKUP_NAME_MAX,
          .help = "The caller's own name for it"),
    FIELD("ttl", FIELD_SECONDS, AT(ttl), .min = 1000, .max = TTL_MAX_MS,
          .help = "It is deleted after so many seconds, or \"7d\"; never if not given"),
    FIELD("excludes", FIELD_STRINGS, AT(excludes), .max = EXCLUDES_MAX,
          .help = "What of the directory is left out: patterns as in .gitignore"),
    FIELD("gitignore", FIELD_BOOL, AT(gitignore),
          .help = "Also leave out what .gitignore files in it name; false if not given"),
};
const struct schema backup_schema = SCHEMA("MakeBackup", struct backup_body, backup_fields);

struct restore_body {
    const char *backup, *dir;
};
static const struct field restore_fields[] = {
    FIELD("backup", FIELD_STRING, offsetof(struct restore_body, backup), .required = true,
          .max = BACKUP_ID_MAX, .help = "The id of one of the tenant's backups"),
    FIELD("dir", FIELD_STRING, offsetof(struct restore_body, dir), .max = DIR_MAX,
          .help = "Another directory than it was made of, absolute; the same if not given"),
};
const struct schema restore_schema = SCHEMA("Restore", struct restore_body, restore_fields);

void saved_fail(struct call *call, const struct err *err)
{
    if (err->code == ERR_EXHAUSTED && err->sys_errno == EDQUOT)
        call_error(call, ERROR_NO_SPACE, NULL, "%s", err->msg);
    else
        call_fail(call, err);
}

// -- showing

static void show_backup(struct json *j, const struct backup_row *row)
{
    char hex[2 * sizeof row->sha256 + 1];
    bool is_ready = row->state == BACKUP_READY;
    sha256_hex(row->sha256, hex);
    show_str(j, "id", row->id);
    show_str(j, "sandboxId", row->sandbox);
    show_str(j, "kind", row->kind);
    show_str(j, "name", row->name);
    show_str(j, "dir", row->dir);
    show_str(j, "image", row->image);
    show_str(j, "state", is_ready ? "ready" : "making");
    show_int(j, "size", row->size);
    show_int(j, "bytes", row->raw);
    show_int(j, "entries", row->entries);
    show_str(j, "sha256", is_ready ? hex : NULL);
    show_time(j, "createdAt", row->created_ms);
    show_time(j, "expiresAt", row->expires_ms);
}

static void reply_backup(struct call *call, unsigned status, const struct backup_row *row)
{
    struct buf buf;
    struct json j;
    buf_init(&buf, SHOW_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    show_backup(&j, row);
    json_close_object(&j);
    call_reply_json(call, status, &j);
}

static bool has_expired(const struct backup_row *row)
{
    return row->expires_ms != 0 && row->expires_ms <= db_now_ms();
}

static void missing(struct call *call, const char *id)
{
    call_error(call, ERROR_NOT_FOUND, NULL, "there is no backup '%.60s'", id);
}

// -- making

static void on_made(void *data, const struct backup_row *row, const struct err *err)
{
    struct call *call = data;
    if (row == NULL)
        saved_fail(call, err);
    else
        reply_backup(call, 201, row);
    call_unref(call);
}

void handle_backup_make(struct call *call)
{
    const struct backup_body *b = call->body.values;
    const struct backup_request request = {
        .dir = b->dir,
        .name = b->name,
        .ttl_ms = b->ttl.value,
        .excludes = b->excludes.items,
        .gitignore = b->gitignore.value,
    };
    backup_make(call->api->saved, call->sandbox, &request, on_made, call_ref(call));
}

// -- looking

static int see_backup(void *data, const struct backup_row *row)
{
    struct page *page = data;
    if (has_expired(row))
        return 0;
    if (!page_open(page, row->id))
        return 1;
    show_backup(page->j, row);
    json_close_object(page->j);
    return 0;
}

static int each_backup(struct page *page, const void *query, struct err *err)
{
    return db_backup_each(page->call->api->db, query, see_backup, page, err);
}

// A place in the list that is gone would be its end: better said.
static int check_before(struct call *call, int64_t tenant, const char *before)
{
    struct err err = {0};
    struct backup_row row = {0};
    if (before == NULL)
        return 0;
    int r = db_backup_get(call->api->db, tenant, before, &row, &err);
    backup_row_done(&row);
    if (r < 0)
        call_fail(call, &err);
    else if (r == 0)
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "?before: there is no backup '%.60s' (any more): begin anew without it", before);
    return r > 0 ? 0 : -1;
}

static void list(struct call *call, int64_t tenant, const char *sandbox)
{
    uint64_t max;
    const struct backup_query query = {
        .tenant = tenant,
        .sandbox = sandbox,
        .before = call_query(call, "before"),
    };
    if (call_query_u64(call, "limit", LIST_MAX, LIST_DEFAULT, &max) < 0 ||
        check_before(call, tenant, query.before) < 0)
        return;
    page_reply(call, "backups", (unsigned)max, each_backup, &query);
}

void handle_backup_list(struct call *call)
{
    const struct sandbox_row *row = sandbox_row(call->sandbox);
    list(call, row->tenant, row->id);
}

void handle_backup_list_all(struct call *call)
{
    list(call, call->tenant, call_query(call, "sandbox"));
}

// One of this sandbox, or of the tenant when `sandbox` is NULL.
static int find(struct call *call, int64_t tenant, const char *sandbox, const char *id,
                struct backup_row *ret)
{
    struct err err = {0};
    int r = db_backup_get(call->api->db, tenant, id, ret, &err);
    if (r > 0 && !has_expired(ret) && (sandbox == NULL || strcmp(ret->sandbox, sandbox) == 0))
        return 0;
    if (r < 0)
        call_fail(call, &err);
    else
        missing(call, id);
    backup_row_done(ret);
    return -1;
}

static void get(struct call *call, int64_t tenant, const char *sandbox, const char *id)
{
    struct backup_row row = {0};
    if (find(call, tenant, sandbox, id, &row) < 0)
        return;
    reply_backup(call, 200, &row);
    backup_row_done(&row);
}

void handle_backup_get(struct call *call)
{
    const struct sandbox_row *row = sandbox_row(call->sandbox);
    get(call, row->tenant, row->id, call->param[1]);
}

void handle_backup_get_any(struct call *call)
{
    get(call, call->tenant, NULL, call->param[0]);
}

static void forget(struct call *call, int64_t tenant, const char *sandbox, const char *id)
{
    struct err err = {0};
    struct backup_row row = {0};
    if (find(call, tenant, sandbox, id, &row) < 0)
        return;
    backup_row_done(&row);
    int r = backup_delete(call->api->saved, tenant, id, &err);
    if (r < 0)
        call_fail(call, &err);
    else if (r == 0)
        missing(call, id);
    else
        call_reply_ok(call);
}

void handle_backup_delete(struct call *call)
{
    const struct sandbox_row *row = sandbox_row(call->sandbox);
    forget(call, row->tenant, row->id, call->param[1]);
}

void handle_backup_delete_any(struct call *call)
{
    forget(call, call->tenant, NULL, call->param[0]);
}

// -- restoring

static void on_restored(void *data, const struct err *err)
{
    struct call *call = data;
    const struct restore_body *b = call->body.values;
    struct buf buf;
    struct json j;
    if (err != NULL) {
        saved_fail(call, err);
    } else {
        buf_init(&buf, SHOW_MAX);
        json_init(&j, &buf);
        json_open_object(&j);
        show_bool(&j, "success", true);
        show_str(&j, "sandboxId", call->param[0]);
        show_str(&j, "backup", b->backup);
        json_close_object(&j);
        call_reply_json(call, 200, &j);
    }
    call_unref(call);
}

void handle_restore(struct call *call)
{
    const struct restore_body *b = call->body.values;
    backup_restore(call->api->saved, call->sandbox, b->backup, b->dir, on_restored, call_ref(call));
}

// -- archives

static void reply_archived(struct call *call)
{
    struct err err = {0};
    struct backup_row row = {0};
    struct buf buf;
    struct json j;
    const struct sandbox_row *s = sandbox_row(call->sandbox);
    if (s->archive != NULL && db_backup_get(call->api->db, s->tenant, s->archive, &row, &err) < 0) {
        call_fail(call, &err);
        return;
    }
    buf_init(&buf, SHOW_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    show_str(&j, "sandboxId", s->id);
    show_str(&j, "backup", row.id);
    show_int(&j, "bytes", row.size);
    json_close_object(&j);
    call_reply_json(call, 200, &j);
    backup_row_done(&row);
}

static void on_archived(void *data, const struct err *err)
{
    struct call *call = data;
    if (err != NULL)
        saved_fail(call, err);
    else
        reply_archived(call);
    call_unref(call);
}

void handle_archive_disk(struct call *call)
{
    if (sandbox_row(call->sandbox)->archive != NULL)
        reply_archived(call); // it is already
    else
        backup_archive(call->api->saved, call->sandbox, on_archived, call_ref(call));
}
