// SPDX-License-Identifier: Apache-2.0
// Single stored files: their keys, and how the index forgets them.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "saved/sync-internal.h"

struct touch {
    struct place *place; // counted
    char path[PACK_PATH_MAX];
    disk_fn fn;
    void *data;
    TAILQ_ENTRY(touch) next;
};
TAILQ_HEAD(touches, touch);

static int read_path(const char *path, char ret[PACK_PATH_MAX], struct err *err)
{
    if (path_read(path, ret) >= 0)
        return 0;
    return err_set(err, ERR_INVALID,
                   "'%.80s' is no path of a stored file: relative, without empty parts, '.' and "
                   "'..'",
                   path);
}

int sync_key(struct saved *saved, int64_t tenant, const char *sandbox, const char *path, char *ret,
             size_t size, struct err *err)
{
    char raw[PACK_PATH_MAX], key[STORE_KEY_MAX + 1];
    struct place *place = place_get(saved, tenant, sandbox, err);
    if (place == NULL)
        return -1;
    int r = 0;
    if (path == NULL) // of all
        (void)snprintf(key, sizeof key, "%s", place->prefix);
    else
        r = read_path(path, raw, err) < 0 ? -1 : place_key(place, raw, key, err);
    place_unref(place);
    if (r == 0 && (size_t)snprintf(ret, size, "%s", key) >= size)
        return err_set(err, ERR_INVALID, "the path is too long");
    return r;
}

// -- the index forgets them. It is read once for all that wait, and one thread at a time works on a
// place: more would only wait for its lock, and others would have none.

struct pass {
    struct place *place; // counted
    struct touches touches;
    struct err err;
};

static int forget(struct pass *pass, struct err *err)
{
    struct place *place = pass->place;
    struct store *store = place->saved->config.store;
    struct touch *t;
    auto_free char *index = NULL;
    size_t len;
    bool damaged, changed = false;
    if (place_read_index(place, &index, &len, &damaged, err) < 0)
        return -1;
    TAILQ_FOREACH(t, &pass->touches, next)
    {
        changed = index_drop(index, &len, t->path) || changed;
    }
    if (damaged || !changed)
        return 0;
    // A power cut is not to leave an index that names a file which it was too late for.
    if (store_put_bytes(store, place->index, index, len, err) == 0 && store_sync(store, err) == 0)
        return 0;
    saved_blame_store(err);
    return -1;
}

static void work(void *data)
{
    struct pass *pass = data;
    (void)pthread_mutex_lock(&pass->place->lock);
    if (forget(pass, &pass->err) == 0)
        pass->err = (struct err){0};
    (void)pthread_mutex_unlock(&pass->place->lock);
}

static void next_pass(struct place *place);

static void done(void *data)
{
    struct pass *pass = data;
    struct touch *t;
    pass->place->is_touching = false;
    next_pass(pass->place);
    while ((t = TAILQ_FIRST(&pass->touches)) != NULL) {
        TAILQ_REMOVE(&pass->touches, t, next);
        t->fn(t->data, pass->err.code == ERR_NONE ? NULL : &pass->err);
    }
    place_unref(pass->place);
    free(pass);
}

static void next_pass(struct place *place)
{
    if (place->is_touching || TAILQ_EMPTY(&place->touches))
        return;
    struct pass *pass = calloc(1, sizeof *pass);
    if (pass == NULL)
        abort();
    pass->place = place_ref(place);
    TAILQ_INIT(&pass->touches);
    TAILQ_CONCAT(&pass->touches, &place->touches, next);
    place->is_touching = true;
    (void)err_set(&pass->err, ERR_UNAVAILABLE, "the server ends"); // should no thread take it
    // It may wait for the place's lock, and is not to keep others from their backups meanwhile.
    store_pool_run(saved_streams(place->saved), work, done, pass);
}

struct touch *sync_touch(struct saved *saved, const struct sync_file *file, disk_fn fn, void *data,
                         struct err *err)
{
    struct touch *t = calloc(1, sizeof *t);
    if (t == NULL)
        abort();
    t->fn = fn;
    t->data = data;
    if (read_path(file->path, t->path, err) == 0)
        t->place = place_get(saved, file->tenant, file->sandbox, err);
    if (t->place == NULL || place_touch(t->place, t->path, err) < 0) {
        if (t->place != NULL)
            place_unref(t->place);
        free(t);
        return NULL;
    }
    TAILQ_INSERT_TAIL(&t->place->touches, t, next);
    next_pass(t->place);
    return t;
}

void sync_touched(struct touch *t)
{
    if (t == NULL)
        return;
    place_touched(t->place, t->path);
    place_unref(t->place);
    free(t);
}

// -- those that take as long as their clients

int sync_stream_begin(struct saved *saved, int64_t tenant, struct err *err)
{
    int64_t *free_one = NULL;
    unsigned own = 0;
    for (unsigned i = 0; i < SYNC_STREAMS_MAX; i++) {
        int64_t *at = &saved->syncs->streaming[i];
        own += *at == tenant;
        free_one = *at == 0 ? at : free_one;
    }
    if (free_one != NULL && own < SYNC_STREAMS_TENANT) {
        *free_one = tenant;
        return 0;
    }
    (void)err_set(err, ERR_UNAVAILABLE,
                  "too many stored files are on their way already: try again later");
    err->sys_errno = EPIPE; // not the store's fault
    return -1;
}

void sync_stream_end(struct saved *saved, int64_t tenant)
{
    for (unsigned i = 0; saved->syncs != NULL && i < SYNC_STREAMS_MAX; i++) {
        if (saved->syncs->streaming[i] == tenant) {
            saved->syncs->streaming[i] = 0;
            return;
        }
    }
}
