// SPDX-License-Identifier: Apache-2.0
#include "agents/written.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/show.h"
#include "sandbox/hand-long.h"

#define TOP "/workspace"

struct file {
    char *path; // below TOP
    uint64_t size;
    char etag[HAND_ETAG];
};

struct written {
    struct file *files;
    size_t n, cap;
    struct map by_path; // made when it is looked into
    bool is_cut;
};

struct written_call {
    struct hand_long *work;
    struct written *list;
    written_fn fn;
    void *data;
};

void written_free(struct written *w)
{
    if (w == NULL)
        return;
    map_done(&w->by_path);
    for (size_t i = 0; i < w->n; i++)
        free(w->files[i].path);
    free(w->files);
    free(w);
}

static void add(struct written *w, const char *path, const struct hand_stat *st)
{
    if (w->n == w->cap) {
        w->cap = w->cap > 0 ? 2 * w->cap : 16;
        struct file *more = reallocarray(w->files, w->cap, sizeof *more);
        if (more == NULL)
            abort();
        w->files = more;
    }
    struct file *f = &w->files[w->n++];
    *f = (struct file){.path = mem_copy_text(path), .size = st->size};
    (void)snprintf(f->etag, sizeof f->etag, "%.*s", (int)sizeof st->etag - 1, st->etag);
}

static bool is_of_tools(const char *path)
{
    static const char *const names[] = {"__pycache__", "node_modules"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *at = strstr(path, names[i]);
        size_t n = strlen(names[i]);
        if (at != NULL && (at == path || at[-1] == '/') && (at[n] == '/' || at[n] == '\0'))
            return true;
    }
    return false;
}

static void on_record(void *data, const struct hand_record *rec)
{
    struct written_call *call = data;
    struct written *w = call->list;
    if (rec->type != HAND_REC_ENTRY)
        return;
    const struct hand_entry *entry = (const struct hand_entry *)rec;
    const char *path = (const char *)(entry + 1);
    if (entry->st.kind != HAND_FILE || is_of_tools(path))
        return;
    if (w->n < WRITTEN_LOOKED_AT)
        add(w, path, &entry->st);
    else
        w->is_cut = true;
}

static void on_done(void *data, const struct hand_ended *ended, const struct err *err)
{
    struct written_call *call = data;
    struct written *list = call->list;
    struct err failed = {0};
    written_fn fn = call->fn;
    void *fn_data = call->data;
    free(call);
    // A workspace that is not there has nothing in it.
    if (err == NULL && ended->sys_errno != 0 && ended->sys_errno != ENOENT) {
        (void)hand_error(ended->sys_errno, TOP, &failed);
        err = &failed;
    }
    if (err != NULL) {
        written_free(list);
        list = NULL;
    }
    fn(fn_data, list, err);
}

struct written_call *written_list(uv_loop_t *loop, struct sandbox *s, written_fn fn, void *data)
{
    static const struct hand_long_ops ops = {.record = on_record, .done = on_done};
    const struct hand_ask ask = {
        .type = HAND_LIST,
        .path = TOP,
        .flags = HAND_RECURSIVE,
        .limit = 4 * WRITTEN_LOOKED_AT,
    };
    struct written_call *call = calloc(1, sizeof *call);
    struct written *list = calloc(1, sizeof *list);
    if (call == NULL || list == NULL)
        abort();
    *call = (struct written_call){.list = list, .fn = fn, .data = data};
    call->work = hand_long_start(loop, s, &ask, &ops, call);
    return call;
}

void written_cancel(struct written_call *call)
{
    if (call == NULL)
        return;
    hand_long_cancel(call->work);
    written_free(call->list);
    free(call);
}

// --- telling

static void index_paths(struct written *w)
{
    if (w->by_path.n > 0)
        return;
    for (size_t i = 0; i < w->n; i++)
        map_put(&w->by_path, w->files[i].path, &w->files[i]);
}

static bool is_new(const struct written *before, const struct file *f)
{
    const struct file *old = before != NULL ? map_get(&before->by_path, f->path) : NULL;
    return old == NULL || strcmp(old->etag, f->etag) != 0;
}

static void show_file(const struct file *f, struct json *j)
{
    char path[HAND_PATH_MAX + sizeof TOP];
    (void)snprintf(path, sizeof path, TOP "/%s", f->path);
    json_open_object(j);
    show_str(j, "path", path);
    show_int(j, "size", (int64_t)f->size);
    json_close_object(j);
}

void written_show(struct written *before, const struct written *after, struct json *j)
{
    size_t told = 0;
    bool is_cut = after != NULL && after->is_cut;
    if (before != NULL)
        index_paths(before);
    json_key(j, "files");
    json_open_array(j);
    for (size_t i = 0; after != NULL && i < after->n; i++) {
        if (!is_new(before, &after->files[i]))
            continue;
        if (told++ < WRITTEN_TOLD)
            show_file(&after->files[i], j);
        else
            is_cut = true;
    }
    json_close_array(j);
    if (is_cut)
        show_bool(j, "filesTruncated", true);
}
