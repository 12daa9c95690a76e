// SPDX-License-Identifier: Apache-2.0
// POST /api/exists, /api/mkdir, /api/delete, /api/rename and /api/move.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/container/files.h"
#include "api/file-op.h"
#include "api/show.h"

// -- one path

struct path_body {
    const char *path, *session;
    struct body_bool recursive;
};

#define AT(member) offsetof(struct path_body, member)
static const struct field path_fields[] = {
    FIELD("path", FIELD_STRING, AT(path), .required = true),
    CONTAINER_SESSION(struct path_body),
};
static const struct field mkdir_fields[] = {
    FIELD("path", FIELD_STRING, AT(path), .required = true),
    FIELD("recursive", FIELD_BOOL, AT(recursive),
          .help = "Those above it too, and it may be there already"),
    CONTAINER_SESSION(struct path_body),
};
#undef AT
static const struct schema path_schema =
    SCHEMA("ContainerPath", struct path_body, path_fields, .lenient = true);
static const struct schema mkdir_schema =
    SCHEMA("ContainerMkdir", struct path_body, mkdir_fields, .lenient = true);

static void begin(struct call *call, const char *operation, void (*next)(struct call *call))
{
    const struct path_body *b = call->body.values;
    if (container_file_new(call, sizeof(struct file_call), b->session, "path", b->path,
                           operation) != NULL)
        files_wake(call, next);
}

static void reply_path(struct call *call)
{
    const struct path_body *b = call->body.values;
    struct container_answer answer;
    container_begin(&answer, true);
    show_str(&answer.json, "path", b->path);
    container_end(call, &answer);
}

// -- exists

static bool is_absence(const struct err *err)
{
    return err->sys_errno == ENOENT || err->sys_errno == ENOTDIR || err->sys_errno == ELOOP ||
           err->sys_errno == ENAMETOOLONG;
}

static void on_stat(struct call *call, struct hand_answer *found, const struct err *err)
{
    const struct path_body *b = call->body.values;
    struct container_answer answer;
    if (found == NULL && !is_absence(err)) {
        container_file_fail(call, err);
        return;
    }
    container_begin(&answer, true);
    show_str(&answer.json, "path", b->path);
    show_bool(&answer.json, "exists", found != NULL);
    container_end(call, &answer);
}

static void start_exists(struct call *call)
{
    const struct file_call *f = call->state;
    const struct hand_ask ask = {.type = HAND_STAT, .path = f->path};
    files_ask(call, &ask, on_stat);
}

static void handle_exists(struct call *call)
{
    begin(call, "file.stat", start_exists);
}

// -- mkdir

static void on_made(struct call *call, struct hand_answer *made, const struct err *err)
{
    const struct path_body *b = call->body.values;
    struct container_answer answer;
    if (made == NULL) {
        if (b->recursive.value) // done twice it is as done once
            container_file_fail(call, err);
        else
            container_change_fail(call, "directory.create", err);
        return;
    }
    container_begin(&answer, true);
    show_str(&answer.json, "path", b->path);
    show_bool(&answer.json, "recursive", b->recursive.value);
    container_end(call, &answer);
}

static void start_mkdir(struct call *call)
{
    const struct path_body *b = call->body.values;
    const struct file_call *f = call->state;
    const struct hand_ask ask = {
        .type = HAND_MKDIR,
        .path = f->path,
        .flags = b->recursive.value ? HAND_PARENTS : 0u,
    };
    files_ask(call, &ask, on_made);
}

static void handle_mkdir(struct call *call)
{
    begin(call, "directory.create", start_mkdir);
}

// -- delete

static void on_deleted(struct call *call, struct hand_answer *deleted, const struct err *err)
{
    if (deleted == NULL)
        container_change_fail(call, "file.delete", err);
    else
        reply_path(call);
}

// The hand removes empty directories as well, which is not what was asked for.
static void on_looked(struct call *call, struct hand_answer *found, const struct err *err)
{
    const struct file_call *f = call->state;
    const struct hand_ask ask = {.type = HAND_DELETE, .path = f->path};
    if (found == NULL)
        container_file_fail(call, err);
    else if (found->done.st.kind == HAND_DIR)
        container_fail(call, CONTAINER_IS_DIRECTORY, NULL,
                       "'%.200s' is a directory: remove it with a command, rm -r", f->path);
    else
        files_ask(call, &ask, on_deleted);
}

static void start_delete(struct call *call)
{
    const struct file_call *f = call->state;
    const struct hand_ask ask = {.type = HAND_STAT, .path = f->path, .flags = HAND_NO_FOLLOW};
    files_ask(call, &ask, on_looked);
}

static void handle_delete(struct call *call)
{
    begin(call, "file.delete", start_delete);
}

// -- rename and move, which are one, as mv has it: what is there is replaced, and into a directory
// that is there it goes under its own name

struct move_body {
    const char *from, *to, *session;
};

#define AT(member) offsetof(struct move_body, member)
static const struct field rename_fields[] = {
    FIELD("oldPath", FIELD_STRING, AT(from), .required = true),
    FIELD("newPath", FIELD_STRING, AT(to), .required = true),
    CONTAINER_SESSION(struct move_body),
};
static const struct field move_fields[] = {
    FIELD("sourcePath", FIELD_STRING, AT(from), .required = true),
    FIELD("destinationPath", FIELD_STRING, AT(to), .required = true),
    CONTAINER_SESSION(struct move_body),
};
#undef AT
static const struct schema rename_schema =
    SCHEMA("ContainerRename", struct move_body, rename_fields, .lenient = true);
static const struct schema move_schema =
    SCHEMA("ContainerMove", struct move_body, move_fields, .lenient = true);

struct move_call {
    struct file_call file; // first; its path is the source
    const char *operation;
    char to[FILE_PATH_MAX + 1];
    struct file_op op;
};

static void on_moved(struct call *call, const struct file_op_result *result, const struct err *err)
{
    const struct move_body *b = call->body.values;
    const struct move_call *m = call->state;
    struct container_answer answer;
    if (result == NULL) {
        container_change_fail(call, m->operation, err);
        return;
    }
    container_begin(&answer, true);
    show_str(&answer.json, "path", b->from);
    show_str(&answer.json, "newPath", b->to);
    container_end(call, &answer);
}

static void on_target(struct call *call, struct hand_answer *found, const struct err *err)
{
    struct move_call *m = call->state;
    char inside[2 * FILE_PATH_MAX];
    (void)err; // whatever it is, moving will tell
    if (found != NULL && found->done.st.kind == HAND_DIR) {
        (void)snprintf(inside, sizeof inside, "%s/%s", strcmp(m->to, "/") == 0 ? "" : m->to,
                       file_base_name(m->file.path));
        if (strlen(inside) > FILE_PATH_MAX) {
            container_fail(call, CONTAINER_NAME_TOO_LONG, NULL, "'%.200s' is too long", inside);
            return;
        }
        (void)snprintf(m->to, sizeof m->to, "%.*s", FILE_PATH_MAX, inside);
    }
    m->op = (struct file_op){.from = m->file.path, .to = m->to};
    m->op.replace = (struct body_bool){.value = true, .given = true};
    file_op_start(call, OP_MOVE, &m->op, on_moved);
}

static void start_move(struct call *call)
{
    const struct move_call *m = call->state;
    const struct hand_ask ask = {.type = HAND_STAT, .path = m->to};
    files_ask(call, &ask, on_target);
}

static void begin_move(struct call *call, const char *operation, const char *const names[2])
{
    const struct move_body *b = call->body.values;
    struct move_call *m =
        container_file_new(call, sizeof *m, b->session, names[0], b->from, operation);
    if (m == NULL || container_path(call, b->session, names[1], b->to, m->to) < 0)
        return;
    m->operation = operation;
    m->file.cleanup = file_op_drop;
    files_wake(call, start_move);
}

static void handle_rename(struct call *call)
{
    static const char *const names[] = {"oldPath", "newPath"};
    begin_move(call, "file.rename", names);
}

static void handle_move(struct call *call)
{
    static const char *const names[] = {"sourcePath", "destinationPath"};
    begin_move(call, "file.move", names);
}

// -- the table

const struct route container_files_ops[] = {
    CONTAINER_ROUTE(HTTP_POST, "/api/exists", SUBJECT_FILE, handle_exists, .body = &path_schema),
    CONTAINER_ROUTE(HTTP_POST, "/api/mkdir", SUBJECT_FILE, handle_mkdir, .body = &mkdir_schema),
    CONTAINER_ROUTE(HTTP_POST, "/api/delete", SUBJECT_FILE, handle_delete, .body = &path_schema),
    CONTAINER_ROUTE(HTTP_POST, "/api/rename", SUBJECT_FILE, handle_rename, .body = &rename_schema),
    CONTAINER_ROUTE(HTTP_POST, "/api/move", SUBJECT_FILE, handle_move, .body = &move_schema),
};
const size_t n_container_files_ops = sizeof container_files_ops / sizeof *container_files_ops;
