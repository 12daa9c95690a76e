// SPDX-License-Identifier: Apache-2.0
#include "api/stored.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/handlers.h"
#include "api/show.h"
#include "base/fd.h"

enum { LIST_DEFAULT = 1000, LIST_MAX = 10000 };

struct stored_call *stored_new(struct call *call, const char *path)
{
    struct err err = {0};
    struct saved *saved = call->api->saved;
    struct stored_call *s = calloc(1, sizeof *s);
    if (s == NULL)
        abort();
    s->pipe = s->other = -1;
    buf_init(&s->bytes, SHOW_MAX);
    if (sync_key(saved, call->tenant, call->param[0], NULL, s->key, sizeof s->key, &err) == 0) {
        s->prefix_len = strlen(s->key);
        if (path != NULL)
            (void)sync_key(saved, call->tenant, call->param[0], path, s->key, sizeof s->key, &err);
    }
    if (err.code != ERR_NONE) {
        buf_done(&s->bytes);
        free(s);
        call_fail(call, &err);
        return NULL;
    }
    s->store = saved_store(saved);
    s->ending = saved_ending(saved);
    s->call = call_ref(call);
    return s;
}

void stored_over(struct stored_call *s)
{
    sync_touched(s->touch);
    if (s->is_stream)
        sync_stream_end(s->call->api->saved, s->call->tenant);
    fd_close(s->pipe);
    fd_close(s->other);
    buf_done(&s->bytes);
    call_unref(s->call);
    free(s);
}

// What the store says, as it concerns whoever asked for a file in it.
void stored_fail(struct call *call, const struct err *err)
{
    struct err blamed = *err;
    bool is_stores = err->code == ERR_DENIED || err->code == ERR_EXHAUSTED ||
                     (err->code == ERR_UNAVAILABLE && err->sys_errno != EPIPE);
    if (err->code == ERR_NOT_FOUND) {
        call_error(call, ERROR_NOT_FOUND, NULL, "there is no such stored file");
        return;
    }
    if (is_stores && err->sys_errno != EBADMSG) {
        blamed.code = ERR_UNAVAILABLE;
        blamed.sys_errno = EREMOTEIO;
    }
    call_fail(call, &blamed);
}

void stored_touch(struct stored_call *s, disk_fn fn)
{
    struct err err = {0};
    struct call *call = s->call;
    const struct sync_file file = {call->tenant, call->param[0], call->param[1]};
    s->touch = sync_touch(call->api->saved, &file, fn, s, &err);
    if (s->touch != NULL)
        return;
    stored_fail(call, &err);
    stored_over(s);
}

int stored_open_pipe(struct stored_call *s, bool out, struct err *err)
{
    int ends[2];
    struct call *call = s->call;
    if (sync_stream_begin(call->api->saved, call->tenant, err) < 0)
        return -1;
    s->is_stream = true;
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_sys(err, errno, "make a pipe");
    s->pipe = ends[out ? 1 : 0];
    s->other = ends[out ? 0 : 1];
    return 0;
}

// -- the list

static int see_file(void *data, const struct store_listed *object)
{
    struct stored_call *s = data;
    struct json j;
    if (s->n == s->max)
        return 1;
    if (s->n++ > 0)
        (void)buf_append_char(&s->bytes, ',');
    json_init(&j, &s->bytes);
    json_open_object(&j);
    show_str(&j, "path", object->key + s->prefix_len);
    show_int(&j, "size", (int64_t)object->size);
    show_time(&j, "modified", object->modified_ms);
    json_close_object(&j);
    (void)snprintf(s->last, sizeof s->last, "%s", object->key + s->prefix_len);
    return 0;
}

static int count_more(void *data, const struct store_listed *object)
{
    (void)object;
    *(bool *)data = true;
    return 1;
}

static int list(struct stored_call *s)
{
    char last[2 * STORE_KEY_MAX + 2];
    bool more = false;
    if (store_list(s->store, s->key, s->after[0] != '\0' ? s->after : NULL, s->max, see_file, s,
                   &s->err) < 0)
        return -1;
    if (s->n < s->max) {
        s->last[0] = '\0';
        return 0;
    }
    (void)snprintf(last, sizeof last, "%.*s%s", (int)s->prefix_len, s->key, s->last);
    if (store_list(s->store, s->key, last, 1, count_more, &more, &s->err) < 0)
        return -1;
    if (!more)
        s->last[0] = '\0';
    return 0;
}

static void list_work(void *data)
{
    struct stored_call *s = data;
    s->found = list(s);
}

static void on_listed(void *data)
{
    struct stored_call *s = data;
    struct buf buf;
    struct json j;
    if (s->found < 0) {
        stored_fail(s->call, &s->err);
        stored_over(s);
        return;
    }
    buf_init(&buf, SHOW_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    json_key(&j, "files");
    json_open_array(&j);
    if (s->bytes.len > 0)
        json_put_raw(&j, s->bytes.data, s->bytes.len);
    json_close_array(&j);
    show_str(&j, "next", s->last[0] != '\0' ? s->last : NULL);
    json_close_object(&j);
    call_reply_json(s->call, 200, &j);
    stored_over(s);
}

// What a key may begin with: no part of it is "." or "..", and none but the last is empty.
static bool is_beginning(const char *text)
{
    for (const char *part = text;; part++) {
        size_t n = strcspn(part, "/");
        bool is_last = part[n] == '\0';
        if ((n == 0 && !is_last) || (n == 1 && part[0] == '.') ||
            (n == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        part += n;
        if (is_last)
            return true;
    }
}

// 0, or -1 when it was refused and answered.
static int add_text(struct call *call, const char *name, const char *key, size_t len,
                    char ret[STORE_KEY_MAX + 1])
{
    const char *text = call_query(call, name);
    if (text == NULL || *text == '\0')
        return 0;
    int n = snprintf(ret, STORE_KEY_MAX + 1, "%.*s%s", (int)len, key, text);
    if (is_beginning(text) && n > 0 && n <= STORE_KEY_MAX)
        return 0;
    call_error(call, ERROR_INVALID_REQUEST, NULL,
               "?%s: no path of a stored file is or begins like that", name);
    return -1;
}

void handle_stored_list(struct call *call)
{
    uint64_t max;
    char prefix[STORE_KEY_MAX + 1] = "";
    struct stored_call *s = stored_new(call, NULL);
    if (s == NULL)
        return;
    if (call_query_u64(call, "limit", LIST_MAX, LIST_DEFAULT, &max) < 0 ||
        add_text(call, "prefix", s->key, s->prefix_len, prefix) < 0 ||
        add_text(call, "after", s->key, s->prefix_len, s->after) < 0) {
        stored_over(s);
        return;
    }
    if (prefix[0] != '\0')
        memcpy(s->key, prefix, sizeof s->key);
    s->max = max > 0 ? (unsigned)max : 1;
    store_pool_run(saved_streams(call->api->saved), list_work, on_listed, s);
}

// -- DELETE: the index forgets it before

static void delete_work(void *data)
{
    struct stored_call *s = data;
    s->found = store_delete(s->store, s->key, &s->err);
    if (s->found > 0 && store_sync(s->store, &s->err) < 0)
        s->found = -1;
}

static void on_deleted(void *data)
{
    struct stored_call *s = data;
    if (s->found == 0)
        (void)err_set(&s->err, ERR_NOT_FOUND, "there is no such stored file");
    if (s->found > 0)
        call_reply_ok(s->call);
    else
        stored_fail(s->call, &s->err);
    stored_over(s);
}

static void on_touched(void *data, const struct err *err)
{
    struct stored_call *s = data;
    if (err == NULL) {
        store_pool_run(saved_streams(s->call->api->saved), delete_work, on_deleted, s);
        return;
    }
    stored_fail(s->call, err);
    stored_over(s);
}

void handle_stored_delete(struct call *call)
{
    struct stored_call *s = stored_new(call, call->param[1]);
    if (s != NULL)
        stored_touch(s, on_touched);
}
