// SPDX-License-Identifier: Apache-2.0
// POST /api/backup/create and /api/backup/restore. Theirs makes a squashfs file in the container,
// which others then carry to a bucket. Here it is a backup in the store (saved/backup.h), whose
// name is what the file would be called; there is no such file, and so nothing that could be
// uploaded.
#include "saved/backup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/auth.h"
#include "api/container/files.h"
#include "api/show.h"
#include "base/mem.h"

enum { EXCLUDES_MAX = 100, ABOUT_MAX = 64 * 1024, ID_MAX = 64 };
#define ARCHIVES "/var/backups/"

struct backup_body {
    const char *dir, *archive, *session;
    struct body_strings excludes;
    struct body_bool gitignore;
};

#define AT(member) offsetof(struct backup_body, member)
static const struct field create_fields[] = {
    FIELD("dir", FIELD_STRING, AT(dir), .required = true),
    FIELD("archivePath", FIELD_STRING, AT(archive), .required = true,
          .help = "Below " ARCHIVES ": the name of the backup"),
    FIELD("excludes", FIELD_STRINGS, AT(excludes), .max = EXCLUDES_MAX,
          .help = "Patterns as in .gitignore"),
    FIELD("gitignore", FIELD_BOOL, AT(gitignore),
          .help = "Also leave out what .gitignore files in it name"),
    CONTAINER_SESSION(struct backup_body),
};
static const struct field restore_fields[] = {
    FIELD("dir", FIELD_STRING, AT(dir), .required = true),
    FIELD("archivePath", FIELD_STRING, AT(archive), .required = true,
          .help = "What a backup of this tenant was called when it was made; by an address "
                  "of one sandbox, of that sandbox alone, and of no earlier one of its id"),
    CONTAINER_SESSION(struct backup_body),
};
#undef AT
static const struct schema create_schema =
    SCHEMA("ContainerBackup", struct backup_body, create_fields, .lenient = true);
static const struct schema restore_schema =
    SCHEMA("ContainerRestore", struct backup_body, restore_fields, .lenient = true);

// -- the request

static void tell_about(struct call *call, const char *dir, const char *archive)
{
    auto_buf about;
    struct json j;
    buf_init(&about, ABOUT_MAX);
    json_init(&j, &about);
    json_open_object(&j);
    show_str(&j, "dir", dir);
    show_str(&j, "archivePath", archive);
    json_close_object(&j);
    if (json_finish(&j) == 0)
        call_about(call, buf_str(&about));
}

static bool is_archive(const char *path)
{
    size_t len = sizeof ARCHIVES - 1;
    return strncmp(path, ARCHIVES, len) == 0 && path[len] != '\0' && strstr(path, "..") == NULL &&
           strlen(path) <= FILE_NAME_MAX;
}

// The directory, resolved, into call->state. 0, or -1 when it was refused and answered.
static int read_request(struct call *call)
{
    const struct backup_body *b = call->body.values;
    char *dir = calloc(1, FILE_PATH_MAX + 1);
    if (dir == NULL)
        abort();
    call->state = dir;
    if (container_path(call, b->session, "dir", b->dir, dir) < 0)
        return -1;
    tell_about(call, dir, b->archive);
    if (is_archive(b->archive))
        return 0;
    container_fail(call, CONTAINER_INVALID_BACKUP_CONFIG, NULL,
                   "archivePath: must be a path below " ARCHIVES " of at most %d bytes, without "
                   "'..'",
                   FILE_NAME_MAX);
    return -1;
}

// What has to do with us is told as ever; the rest is that it failed.
static void fail(struct call *call, enum container_code code, const struct err *err)
{
    if (err->code == ERR_UNAVAILABLE || err->code == ERR_INTERNAL)
        call_fail(call, err);
    else if (err->code == ERR_INVALID)
        container_fail(call, CONTAINER_INVALID_BACKUP_CONFIG, NULL, "%s", err->msg);
    else if (err->code == ERR_EXHAUSTED && err->sys_errno == EDQUOT)
        container_fail(call, CONTAINER_NO_SPACE, NULL, "%s", err->msg);
    else
        container_fail(call, code, NULL, "%s", err->msg);
}

// -- making

static void on_made(void *data, const struct backup_row *row, const struct err *err)
{
    struct call *call = data;
    const struct backup_body *b = call->body.values;
    struct container_answer answer;
    if (row == NULL) {
        fail(call, CONTAINER_BACKUP_CREATE_FAILED, err);
    } else {
        container_begin(&answer, true);
        show_int(&answer.json, "sizeBytes", row->size);
        show_str(&answer.json, "archivePath", b->archive);
        show_str(&answer.json, "backupId", row->id);
        container_end(call, &answer);
    }
    call_unref(call);
}

static void handle_create(struct call *call)
{
    const struct backup_body *b = call->body.values;
    if (read_request(call) < 0)
        return;
    const struct backup_request request = {
        .dir = call->state,
        .name = b->archive,
        .excludes = b->excludes.items,
        .gitignore = b->gitignore.value,
    };
    backup_make(call->api->saved, call->sandbox, &request, on_made, call_ref(call));
}

// -- restoring

struct search {
    const char *name;
    int64_t number; // of the only sandbox that it may be of; 0: any of them
    char id[ID_MAX];
};

static int see_backup(void *data, const struct backup_row *row)
{
    struct search *search = data;
    bool has_expired = row->expires_ms != 0 && row->expires_ms <= db_now_ms();
    if (row->state != BACKUP_READY || has_expired || row->name == NULL ||
        strcmp(row->name, search->name) != 0 ||
        (search->number != 0 && row->number != search->number))
        return 0;
    (void)snprintf(search->id, sizeof search->id, "%s", row->id);
    return 1; // the newest
}

static void on_restored(void *data, const struct err *err)
{
    struct call *call = data;
    const struct backup_body *b = call->body.values;
    struct container_answer answer;
    if (err != NULL) {
        fail(call, CONTAINER_BACKUP_RESTORE_FAILED, err);
    } else {
        container_begin(&answer, true);
        show_str(&answer.json, "dir", b->dir);
        container_end(call, &answer);
    }
    call_unref(call);
}

static void handle_restore(struct call *call)
{
    const struct backup_body *b = call->body.values;
    const struct sandbox_row *row = sandbox_row(call->sandbox);
    const struct backup_query query = {
        .tenant = row->tenant,
        .sandbox = call->token->sandbox != 0 ? row->id : NULL,
    };
    // Whoever has one sandbox's address has no part in the others, nor in an earlier one of its id.
    struct search search = {.name = b->archive, .number = call->token->sandbox};
    struct err err = {0};
    if (read_request(call) < 0)
        return;
    if (db_backup_each(call->api->db, &query, see_backup, &search, &err) < 0)
        call_fail(call, &err);
    else if (search.id[0] == '\0')
        container_fail(call, CONTAINER_BACKUP_NOT_FOUND, NULL,
                       "no backup was made as '%.200s': squashfs files from elsewhere are not "
                       "read; PUT /sandbox/{id}/archive takes a tar",
                       b->archive);
    else
        backup_restore(call->api->saved, call->sandbox, search.id, call->state, on_restored,
                       call_ref(call));
}

// -- uploads

static void handle_upload(struct call *call)
{
    container_fail(call, CONTAINER_NOT_IMPLEMENTED, NULL,
                   "there is no archive file in the sandbox to upload: backups are in Cay's own "
                   "store, local or S3, as soon as they are made; GET /sandbox/{id}/export has one "
                   "as a file");
}

const struct route container_backup[] = {
    CONTAINER_ROUTE(HTTP_POST, "/api/backup/create", SUBJECT_BACKUP, handle_create,
                    .body = &create_schema),
    CONTAINER_ROUTE(HTTP_POST, "/api/backup/restore", SUBJECT_BACKUP, handle_restore,
                    .body = &restore_schema),
    CONTAINER_ROUTE(HTTP_POST, "/api/backup/upload-parts", SUBJECT_BACKUP, handle_upload),
};
const size_t n_container_backup = sizeof container_backup / sizeof *container_backup;
