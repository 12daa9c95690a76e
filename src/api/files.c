// SPDX-License-Identifier: Apache-2.0
#include "api/files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/conditional.h"
#include "api/show.h"
#include "base/clock.h"
#include "base/text.h"

// -- the way of a call

static void on_stop(struct call *call)
{
    files_cancel(call);
}

void *files_new(struct call *call, size_t size)
{
    struct err err = {0};
    struct file_call *f = calloc(1, size);
    if (f == NULL)
        abort();
    call->state = f;
    if (file_path_of_param(call->param[1], f->path, &err) == 0)
        return f;
    call_fail(call, &err);
    return NULL;
}

static void on_awake(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct call *call = data;
    struct file_call *f = call->state;
    (void)s;
    (void)created;
    if (err != NULL && err->code != ERR_NONE) {
        call_fail(call, err);
    } else if (call->req != NULL) {
        call->stop = on_stop;
        call->is_at_work = true;
        f->next(call);
    }
    call_unref(call);
}

void files_wake(struct call *call, void (*next)(struct call *call))
{
    struct file_call *f = call->state;
    f->next = next;
    sandbox_wake(call->sandbox, on_awake, call_ref(call));
}

static void on_answer(void *data, struct hand_answer *answer, const struct err *err)
{
    struct call *call = data;
    struct file_call *f = call->state;
    f->on_answer(call, answer, err);
    call_unref(call);
}

void files_ask(struct call *call, const struct hand_ask *ask, files_fn fn)
{
    struct file_call *f = call->state;
    f->on_answer = fn;
    (void)hand_ask(call->sandbox, ask, on_answer, NULL, call_ref(call));
}

void files_work(struct call *call, const struct hand_ask *ask, const struct hand_long_ops *ops)
{
    struct file_call *f = call->state;
    f->work = hand_long_start(call->api->loop, call->sandbox, ask, ops, call_ref(call));
}

void files_work_over(struct call *call)
{
    struct file_call *f = call->state;
    f->work = NULL;
    call_unref(call);
}

void files_cancel(struct call *call)
{
    struct file_call *f = call->state;
    if (f->work == NULL)
        return;
    hand_long_cancel(f->work);
    if (f->cleanup != NULL)
        f->cleanup(call);
    files_work_over(call);
}

// -- what went wrong

enum error_kind files_kind(const struct err *err)
{
    switch (err->sys_errno) {
    case EISDIR:
        return ERROR_IS_DIRECTORY;
    case ENOTDIR:
        return ERROR_NOT_DIRECTORY;
    case EEXIST:
        return ERROR_FILE_EXISTS;
    case ESTALE:
        return ERROR_PRECONDITION_FAILED;
    case ENOSPC:
    case EDQUOT:
        return ERROR_NO_SPACE;
    case EFBIG:
        return ERROR_PAYLOAD_TOO_LARGE;
    case EACCES:
    case EPERM:
    case EROFS:
        return ERROR_PERMISSION_DENIED;
    case 0:
        return error_of(err->code);
    default: // a box may say anything: that is no failure of ours
        break;
    }
    enum error_kind kind = error_of(err->code);
    return kind == ERROR_INTERNAL || kind == ERROR_QUOTA_EXCEEDED ? ERROR_UNAVAILABLE : kind;
}

void files_fail(struct call *call, const struct err *err)
{
    enum error_kind kind = files_kind(err);
    if (kind == ERROR_INTERNAL)
        call_fail(call, err);
    else
        call_error(call, kind, NULL, "%s", err->msg);
}

int files_ended(const struct hand_ended *ended, const char *path, struct err *err)
{
    if (ended->sys_errno == 0)
        return 0;
    return hand_error(ended->sys_errno, ended->path[0] != '\0' ? ended->path : path, err);
}

// -- entries

const char *files_type(uint32_t kind)
{
    switch (kind) {
    case HAND_FILE:
        return "file";
    case HAND_DIR:
        return "directory";
    case HAND_SYMLINK:
        return "symlink";
    default:
        return "other";
    }
}

void files_show_text(struct json *j, const char *key, const char *text)
{
    char other[32];
    show_str(j, key, text); // bytes that are no text become U+FFFD
    if (utf8_valid(text, strlen(text)))
        return;
    (void)snprintf(other, sizeof other, "%sBase64", key);
    json_key(j, other);
    json_put_base64(j, text, strlen(text));
}

void files_show(struct json *j, const char *path, const struct hand_stat *st, const char *target)
{
    char mode[8];
    files_show_text(j, "name", file_base_name(path));
    files_show_text(j, "path", path);
    show_str(j, "type", files_type(st->kind));
    json_key(j, "size");
    json_put_uint(j, st->size);
    (void)snprintf(mode, sizeof mode, "%04o", st->mode & 07777);
    show_str(j, "mode", mode);
    show_int(j, "uid", st->uid);
    show_int(j, "gid", st->gid);
    show_time(j, "mtime", st->mtime_ns / NS_PER_MS);
    if (st->kind == HAND_SYMLINK && target != NULL)
        files_show_text(j, "target", target);
}

void files_etag(const struct hand_stat *st, char ret[HAND_ETAG + 2])
{
    if (etag_is_plain(st->etag, sizeof st->etag))
        (void)snprintf(ret, HAND_ETAG + 2, "\"%s\"", st->etag);
    else
        ret[0] = '\0';
}
