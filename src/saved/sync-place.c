// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "saved/sync-internal.h"
#include "saved/sync-records.h"

static char *print(const char *a, const char *b, const char *c, const char *d)
{
    char *text;
    if (asprintf(&text, "%s%s%s%s", a, b, c, d) < 0)
        abort();
    return text;
}

static struct place *make(struct saved *saved, const struct tenant_row *tenant, const char *sandbox,
                          char *name)
{
    struct place *place = calloc(1, sizeof *place);
    if (place == NULL)
        abort();
    saved_ref(saved);
    place->saved = saved;
    place->tenant = tenant->number;
    place->name = name;
    place->sandbox = mem_copy_text(sandbox);
    place->prefix = print(tenant->name, "/workspaces/", sandbox, "/");
    place->index = print(tenant->name, "/indexes/", sandbox, "");
    place->marker = print(tenant->name, "/indexes/", sandbox, "~"); // no id ends so
    LIST_INIT(&place->next);
    TAILQ_INIT(&place->restores);
    TAILQ_INIT(&place->touches);
    (void)pthread_mutex_init(&place->lock, NULL);
    (void)pthread_mutex_init(&place->touched_lock, NULL);
    map_put(&saved->syncs->places, place->name, place);
    return place;
}

struct place *place_get(struct saved *saved, int64_t tenant, const char *sandbox, struct err *err)
{
    struct tenant_row row = {0};
    char *name;
    if (!sandbox_id_valid(sandbox)) {
        (void)err_set(err, ERR_INVALID, "'%.80s' is no sandbox's id", sandbox);
        return NULL;
    }
    if (asprintf(&name, "%lld/%s", (long long)tenant, sandbox) < 0)
        abort();
    struct place *place = map_get(&saved->syncs->places, name);
    if (place == NULL && db_tenant_by_number(saved->config.db, tenant, &row, err) > 0) {
        place = make(saved, &row, sandbox, name);
        name = NULL; // it has it
    } else if (place == NULL && err->code == ERR_NONE) {
        (void)err_set(err, ERR_NOT_FOUND, "there is no such tenant");
    }
    tenant_row_done(&row);
    free(name);
    return place != NULL ? place_ref(place) : NULL;
}

struct place *place_ref(struct place *place)
{
    place->refs++;
    return place;
}

void place_unref(struct place *place)
{
    if (--place->refs > 0)
        return;
    struct saved *saved = place->saved;
    if (saved->syncs != NULL)
        (void)map_del(&saved->syncs->places, place->name);
    (void)pthread_mutex_destroy(&place->lock);
    (void)pthread_mutex_destroy(&place->touched_lock);
    map_done(&place->touched); // empty: whoever writes has a reference
    free(place->name);
    free(place->sandbox);
    free(place->prefix);
    free(place->index);
    free(place->marker);
    free(place->next_options);
    free(place);
    saved_unref(saved);
}

int place_key(const struct place *place, const char *path, char ret[STORE_KEY_MAX + 1],
              struct err *err)
{
    auto_buf key;
    buf_init(&key, STORE_KEY_MAX);
    (void)buf_append_str(&key, place->prefix);
    path_escape(path, strlen(path), &key);
    if (key.failed != 0 || !store_key_valid(buf_str(&key))) {
        auto_buf shown;
        buf_init(&shown, 80);
        path_escape(path, strlen(path), &shown);
        return err_set(err, ERR_INVALID,
                       "'%s...' cannot be stored: its name is too long for a key (%d bytes, 255 a "
                       "part); exclude it",
                       buf_str(&shown), STORE_KEY_MAX);
    }
    memcpy(ret, key.data, key.len + 1);
    return 0;
}

int place_read_index(struct place *place, char **ret, size_t *ret_len, bool *ret_damaged,
                     struct err *err)
{
    struct index_sums sums;
    struct err failed = {0};
    char *text = NULL;
    size_t len = 0;
    *ret_damaged = false;
    int r = store_get_bytes(place->saved->config.store, place->index, SYNC_INDEX_MAX, &text, &len,
                            &failed);
    if (r < 0 && failed.code != ERR_NOT_FOUND && failed.code != ERR_EXHAUSTED &&
        failed.sys_errno != EBADMSG) {
        *err = failed;
        saved_blame_store(err);
        return -1;
    }
    *ret_damaged = (r < 0 && failed.code != ERR_NOT_FOUND) ||
                   (r >= 0 && index_check(text, len, &sums, &failed) < 0);
    if (r < 0 || *ret_damaged) {
        free(text);
        text = mem_copy_text("");
        len = 0;
    }
    *ret = text;
    *ret_len = len;
    return 0;
}

// -- what is written past sync

struct touched {
    unsigned writing; // so many do
    char path[];
};

static struct touched *add(struct place *place, const char *path, struct err *err)
{
    size_t size = strlen(path) + 1;
    if (place->touched_bytes + size > TOUCHED_MAX) {
        (void)err_set(err, ERR_UNAVAILABLE,
                      "too many stored files were written while a sync runs: try again later");
        return NULL;
    }
    struct touched *t = calloc(1, sizeof *t + size);
    if (t == NULL)
        abort();
    memcpy(t->path, path, size);
    map_put(&place->touched, t->path, t);
    place->touched_bytes += size;
    return t;
}

static void forget(struct place *place, struct touched *t)
{
    (void)map_del(&place->touched, t->path);
    place->touched_bytes -= strlen(t->path) + 1;
    free(t);
}

int place_touch(struct place *place, const char *path, struct err *err)
{
    (void)pthread_mutex_lock(&place->touched_lock);
    struct touched *t = map_get(&place->touched, path);
    if (t == NULL)
        t = add(place, path, err);
    if (t != NULL)
        t->writing++;
    (void)pthread_mutex_unlock(&place->touched_lock);
    return t != NULL ? 0 : -1;
}

void place_touched(struct place *place, const char *path)
{
    (void)pthread_mutex_lock(&place->touched_lock);
    struct touched *t = map_get(&place->touched, path);
    if (--t->writing == 0 && !place->has_job)
        forget(place, t);
    (void)pthread_mutex_unlock(&place->touched_lock);
}

bool place_is_touched(struct place *place, const char *path)
{
    (void)pthread_mutex_lock(&place->touched_lock);
    bool is_touched = map_get(&place->touched, path) != NULL;
    (void)pthread_mutex_unlock(&place->touched_lock);
    return is_touched;
}

void place_list_touched(struct place *place, struct buf *ret)
{
    size_t at = 0;
    const struct touched *t;
    (void)pthread_mutex_lock(&place->touched_lock);
    while ((t = map_next(&place->touched, &at)) != NULL)
        (void)buf_append(ret, t->path, strlen(t->path) + 1);
    (void)pthread_mutex_unlock(&place->touched_lock);
    if (ret->failed != 0)
        abort(); // there is room for all that there may be
}

void place_set_job(struct place *place, bool has_job)
{
    size_t at = 0;
    struct touched *t;
    (void)pthread_mutex_lock(&place->touched_lock);
    place->has_job = has_job;
    while ((t = map_next(&place->touched, &at)) != NULL) {
        if (t->writing == 0)
            forget(place, t);
    }
    (void)pthread_mutex_unlock(&place->touched_lock);
}
