// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "saved/sync-internal.h"
#include "saved/sync-records.h"

enum { TOUCHED_MAX = 16 * 1024 * 1024 }; // bytes

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
    (void)pthread_mutex_init(&place->lock, NULL);
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
    place_untouch(place);
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

// -- what was written past sync

int place_touch(struct place *place, const char *path, struct err *err)
{
    size_t size = strlen(path) + 1;
    if (map_get(&place->touched, path) != NULL)
        return 0;
    if (place->touched_bytes + size > TOUCHED_MAX)
        return err_set(err, ERR_UNAVAILABLE, "a sync is under way: try again when it is done");
    char *own = mem_copy_text(path);
    map_put(&place->touched, own, own);
    place->touched_bytes += size;
    return 0;
}

bool place_is_touched(const struct place *place, const char *path)
{
    return map_get(&place->touched, path) != NULL;
}

void place_untouch(struct place *place)
{
    size_t at = 0;
    char *path;
    while ((path = map_next(&place->touched, &at)) != NULL)
        free(path);
    map_done(&place->touched);
    place->touched = (struct map){0};
    place->touched_bytes = 0;
}
