// SPDX-License-Identifier: Apache-2.0
// What is done to files by POST, one by one or many in a row; and DELETE.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/file-op.h"
#include "api/handlers.h"
#include "api/schemas.h"
#include "api/show.h"

enum {
    BATCH_MAX = 256,
    ANSWER_MAX = 256 * 1024,
    // The longest result: a file of which every byte is escaped.
    RESULT_MAX = 6 * FILE_OP_READ_MAX + ANSWER_MAX,
};

struct one_call {
    struct file_call file; // first
    enum file_op_kind kind;
    struct file_op op;
};

struct batch_body {
    struct body_objects operations;
    struct body_bool go_on;
};

struct batch_call {
    struct file_call file; // first
    size_t at;             // of the operations
    bool failed;
    struct call_list list;
};

// -- the tables

#define AT(member) offsetof(struct file_op, member)
#define PATH_FIELD                                                                                 \
    FIELD("path", FIELD_STRING, AT(path), .required = true, .max = FILE_PATH_MAX,                  \
          .help = "Absolute, without '.', '..' or '//'")
#define MODE_FIELD                                                                                 \
    FIELD("mode", FIELD_STRING, AT(mode), .max = 8, .help = "Octal, such as \"0644\"")
#define PARENTS_FIELD                                                                              \
    FIELD("parents", FIELD_BOOL, AT(parents), .help = "Also the directories above it")
#define FROM_TO_FIELDS                                                                             \
    FIELD("from", FIELD_STRING, AT(from), .required = true, .max = FILE_PATH_MAX),                 \
        FIELD("to", FIELD_STRING, AT(to), .required = true, .max = FILE_PATH_MAX),                 \
        FIELD("replace", FIELD_BOOL, AT(replace), .help = "What is there is replaced")
#define RECURSIVE_FIELD                                                                            \
    FIELD("recursive", FIELD_BOOL, AT(recursive), .help = "With all that is in it")
#define USER_FIELD                                                                                 \
    FIELD("user", FIELD_USER, AT(user), .help = "\"root\", \"user\", a user id, or \"uid:gid\"")

static const struct field mkdir_fields[] = {PATH_FIELD, MODE_FIELD, PARENTS_FIELD};
static const struct field move_fields[] = {FROM_TO_FIELDS};
static const struct field chmod_fields[] = {PATH_FIELD, MODE_FIELD};
static const struct field chown_fields[] = {PATH_FIELD, USER_FIELD};
static const struct field delete_fields[] = {PATH_FIELD, RECURSIVE_FIELD};
const struct schema file_mkdir_schema = SCHEMA("MakeDirectory", struct file_op, mkdir_fields);
const struct schema file_move_schema = SCHEMA("MoveFile", struct file_op, move_fields);
const struct schema file_chmod_schema = SCHEMA("ChangeMode", struct file_op, chmod_fields);
const struct schema file_chown_schema = SCHEMA("ChangeOwner", struct file_op, chown_fields);
const struct schema file_delete_schema = SCHEMA("DeleteFile", struct file_op, delete_fields);

static const struct field operation_fields[] = {
    FIELD("op", FIELD_STRING, AT(op), .required = true, .max = 16,
          .help = "write, read, stat, mkdir, move, copy, chmod, chown or delete"),
    FIELD("path", FIELD_STRING, AT(path), .max = FILE_PATH_MAX),
    FIELD("from", FIELD_STRING, AT(from), .max = FILE_PATH_MAX),
    FIELD("to", FIELD_STRING, AT(to), .max = FILE_PATH_MAX),
    FIELD("content", FIELD_BYTES, AT(content), .help = "write: text, or base64"),
    FIELD("encoding", FIELD_STRING, AT(encoding), .max = 8,
          .help = "Of the content: \"utf-8\" or \"base64\""),
    MODE_FIELD,
    PARENTS_FIELD,
    FIELD("replace", FIELD_BOOL, AT(replace)),
    RECURSIVE_FIELD,
    USER_FIELD,
};
static const struct schema operation_schema =
    SCHEMA("FileOperation", struct file_op, operation_fields);
static const struct field batch_fields[] = {
    FIELD("operations", FIELD_OBJECTS, offsetof(struct batch_body, operations), .required = true,
          .min = 1, .max = BATCH_MAX, .sub = &operation_schema, .help = "Done in this order"),
    FIELD("continueOnError", FIELD_BOOL, offsetof(struct batch_body, go_on),
          .help = "Go on behind one that fails"),
};
const struct schema file_batch_schema = SCHEMA("FileBatch", struct batch_body, batch_fields);

// -- one

static void on_one(struct call *call, const struct file_op_result *result, const struct err *err)
{
    const struct one_call *one = call->state;
    struct buf buf;
    struct json j;
    if (err != NULL) {
        files_fail(call, err);
        return;
    }
    buf_init(&buf, ANSWER_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    file_op_show(&j, one->kind, &one->op, result);
    json_close_object(&j);
    call_reply_json(call, 200, &j);
}

static void start_one(struct call *call)
{
    struct one_call *one = call->state;
    file_op_start(call, one->kind, &one->op, on_one);
}

static void do_one(struct call *call, enum file_op_kind kind, const struct file_op *op)
{
    struct err err = {0};
    struct one_call *one = files_new(call, sizeof *one);
    if (one == NULL)
        return;
    one->kind = kind;
    one->op = *op;
    one->file.cleanup = file_op_drop;
    if (one->op.path == NULL && one->op.from == NULL)
        one->op.path = one->file.path; // of the URL
    if (file_op_check(kind, &one->op, &err) < 0)
        call_fail(call, &err);
    else
        files_wake(call, start_one);
}

void handle_file_mkdir(struct call *call)
{
    do_one(call, OP_MKDIR, call->body.values);
}

void handle_file_move(struct call *call)
{
    do_one(call, OP_MOVE, call->body.values);
}

void handle_file_copy(struct call *call)
{
    do_one(call, OP_COPY, call->body.values);
}

void handle_file_chmod(struct call *call)
{
    do_one(call, OP_CHMOD, call->body.values);
}

void handle_file_chown(struct call *call)
{
    do_one(call, OP_CHOWN, call->body.values);
}

void handle_file_delete(struct call *call)
{
    do_one(call, OP_DELETE, call->body.values);
}

void handle_file_remove(struct call *call)
{
    struct file_op op = {0};
    if (call_query_bool(call, "recursive", false, &op.recursive.value) < 0)
        return;
    if (http_header(call->req, "If-Match") != NULL || http_header(call->req, "If-None-Match")) {
        call_error(call, ERROR_INVALID_REQUEST, NULL, "DELETE takes no conditions");
        return;
    }
    op.recursive.given = true;
    do_one(call, OP_DELETE, &op);
}

// -- many

static const struct file_op *operation(const struct call *call, size_t i)
{
    const struct batch_body *body = call->body.values;
    return (const struct file_op *)body->operations.items + i;
}

static void batch_next(struct call *call);

static void batch_cleanup(struct call *call)
{
    struct batch_call *b = call->state;
    file_op_drop(call);
    buf_done(&b->list.buf);
}

static void batch_reply(struct call *call)
{
    struct batch_call *b = call->state;
    json_close_array(&b->list.json);
    show_bool(&b->list.json, "success", !b->failed);
    json_close_object(&b->list.json);
    if (call->req != NULL)
        call_reply_json(call, 200, &b->list.json);
    buf_done(&b->list.buf);
}

static void on_many(struct call *call, const struct file_op_result *result, const struct err *err)
{
    struct batch_call *b = call->state;
    const struct batch_body *body = call->body.values;
    const struct file_op *op = operation(call, b->at);
    struct json *j = &b->list.json;
    enum file_op_kind kind = OP_MAX;
    struct err ignored;
    (void)file_op_find(op->op, &kind, &ignored);
    json_open_object(j);
    show_str(j, "op", op->op);
    show_bool(j, "success", err == NULL);
    if (err == NULL) {
        file_op_show(j, kind, op, result);
    } else {
        b->failed = true;
        show_str(j, "error", err->msg);
        show_str(j, "error_code", error_name(files_kind(err)));
    }
    json_close_object(j);
    b->at++;
    if (call->req == NULL || b->at == body->operations.n || (b->failed && !body->go_on.value))
        batch_reply(call);
    else
        batch_next(call);
}

static void batch_next(struct call *call)
{
    struct batch_call *b = call->state;
    const struct file_op *op = operation(call, b->at);
    enum file_op_kind kind = OP_MAX;
    struct err err;
    (void)file_op_find(op->op, &kind, &err);
    if (kind != OP_READ || b->list.buf.len + RESULT_MAX <= SHOW_MAX) {
        file_op_start(call, kind, op, on_many);
        return;
    }
    b->at = ((const struct batch_body *)call->body.values)->operations.n - 1; // no more fits
    (void)err_set(&err, ERR_EXHAUSTED, "the answer is too large: read less in one batch");
    on_many(call, NULL, &err);
}

static void start_batch(struct call *call)
{
    struct batch_call *b = call->state;
    buf_init(&b->list.buf, SHOW_MAX);
    json_init(&b->list.json, &b->list.buf);
    json_open_object(&b->list.json);
    json_key(&b->list.json, "results");
    json_open_array(&b->list.json);
    b->file.cleanup = batch_cleanup;
    batch_next(call);
}

// All of it is looked at before any of it is done.
void handle_file_batch(struct call *call)
{
    const struct batch_body *body = call->body.values;
    for (size_t i = 0; i < body->operations.n; i++) {
        struct err err = {0};
        enum file_op_kind kind;
        const struct file_op *op = operation(call, i);
        if (file_op_find(op->op, &kind, &err) < 0 || file_op_check(kind, op, &err) < 0) {
            (void)err_wrap(&err, "operations: entry %zu", i);
            call_fail(call, &err);
            return;
        }
    }
    struct batch_call *b = files_new(call, sizeof *b);
    if (b != NULL)
        files_wake(call, start_batch);
}
