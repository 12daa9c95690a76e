// SPDX-License-Identifier: Apache-2.0
// A restore on its thread: what is stored goes to cay-pack, the index first. What is in the index
// comes with the mode and time that it had; what was put there by others, or by a sync that was cut
// off, as the store has it. Every byte is checked: against the index where that is sure to be
// right, else against what the object knows of itself.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "saved/crew-internal.h"
#include "saved/sync-records.h"
#include "saved/sync-restore-internal.h"
#include "store/sha256.h"

enum {
    OTHERS_MODE = 0644,
    NS_PER_MS_INT = 1000000,
};

static int damaged(struct err *err, const char *path, const char *what)
{
    auto_buf shown;
    buf_init(&shown, 120);
    path_escape(path, strlen(path), &shown);
    (void)err_set(err, ERR_INTERNAL, "the stored file '%s' %s", buf_str(&shown), what);
    err->sys_errno = EBADMSG;
    return -1;
}

// -- what there is

static int see_object(void *data, const struct store_listed *object)
{
    struct restoring *r = data;
    char path[PACK_PATH_MAX];
    const char *rest = object->key + strlen(r->place->prefix);
    ssize_t len = path_unescape(rest, strlen(rest), path);
    if (len < 0) {
        r->err.code = ERR_INTERNAL;
        return damaged(&r->err, rest, "has a name that no file can have");
    }
    if (buf_append(&r->keys, &object->size, sizeof object->size) < 0 ||
        buf_append(&r->keys, path, (size_t)len + 1) < 0)
        return err_set(&r->err, ERR_EXHAUSTED, "too many files are stored to be restored at once");
    r->n_objects++;
    return 0;
}

static void index_objects(struct restoring *r)
{
    for (size_t at = 0; at < r->keys.len;) {
        char *path = r->keys.data + at + sizeof(uint64_t);
        map_put(&r->objects, path, r->keys.data + at);
        at += sizeof(uint64_t) + strlen(path) + 1;
    }
}

static int look(struct restoring *r, struct err *err)
{
    struct store_info info;
    struct place *place = r->place;
    bool is_damaged;
    (void)pthread_mutex_lock(&place->lock);
    int read = place_read_index(place, &r->index, &r->index_len, &is_damaged, err);
    (void)pthread_mutex_unlock(&place->lock);
    if (read < 0)
        return -1;
    if (is_damaged) {
        (void)err_set(err, ERR_INTERNAL,
                      "the index of the stored files is damaged; the files themselves can be had "
                      "one by one");
        err->sys_errno = EBADMSG;
        return -1;
    }
    int marked = store_head(r->store, place->marker, &info, err);
    if (marked < 0 || store_list(r->store, place->prefix, NULL, 0, see_object, r, err) < 0) {
        saved_blame_store(err);
        return -1;
    }
    r->is_marked = marked > 0;
    index_objects(r);
    return 0;
}

void restoring_look(void *data)
{
    struct restoring *r = data;
    struct err err = {0};
    if (look(r, &err) < 0 && r->err.code == ERR_NONE)
        r->err = err;
}

// -- one file

struct content {
    struct restoring *r;
    const char *path;
    uint64_t left;
    // Instead of sending it:
    struct sha256 *hash;
    struct buf *kept;
};

static int take_content(void *data, const void *buf, size_t size, struct err *err)
{
    struct content *c = data;
    if (size > c->left)
        return damaged(err, c->path, "is larger than it was");
    c->left -= size;
    if (c->kept != NULL)
        return buf_append(c->kept, buf, size) == 0 ? 0 : damaged(err, c->path, "is too large");
    if (c->hash == NULL)
        return records_write(c->r->to, &c->r->stop, buf, size, err);
    sha256_add(c->hash, buf, size);
    return 0;
}

static int get(struct content *content, const uint8_t *sha256, struct err *err)
{
    struct restoring *r = content->r;
    char key[STORE_KEY_MAX + 1];
    const struct store_get get = {
        .key = key,
        .sha256 = sha256,
        .write = take_content,
        .data = content,
        .stop = &r->stop,
    };
    if (place_key(r->place, content->path, key, err) < 0)
        return -1;
    if (store_get(r->store, &get, NULL, err) < 0) {
        saved_blame_store(err);
        return -1;
    }
    return content->left == 0 ? 0 : damaged(err, content->path, "is shorter than it was");
}

static int send_file(struct restoring *r, struct pack_record *head, const char *path,
                     struct err *err)
{
    struct content content = {.r = r, .path = path, .left = head->size};
    head->type = PACK_PUT;
    head->path_len = (uint32_t)strlen(path);
    if (records_write_head(r->to, &r->stop, head, path, err) < 0)
        return -1;
    return get(&content, head->sha256, err);
}

// -- small files of a store far away: fetched some at a time, and sent in their order

struct fetched {
    struct restoring *r;
    struct pack_record head;
    char path[PACK_PATH_MAX];
    struct buf bytes;
    struct err err;
};

static void fetch(void *data)
{
    struct fetched *f = data;
    struct err err = {0};
    struct content content = {.r = f->r, .path = f->path, .left = f->head.size, .kept = &f->bytes};
    if (get(&content, f->head.sha256, &err) < 0)
        f->err = err;
}

// 1: the first that was asked for is sent, 0: none was.
static int send_fetched(struct restoring *r, struct err *err)
{
    struct fetched *f = crew_take(r->crew);
    if (f == NULL)
        return 0;
    int failed = f->err.code != ERR_NONE ? -1 : 0;
    if (failed < 0)
        *err = f->err;
    else
        failed = records_write_head(r->to, &r->stop, &f->head, f->path, err) < 0 ||
                         records_write(r->to, &r->stop, f->bytes.data, f->bytes.len, err) < 0
                     ? -1
                     : 0;
    buf_done(&f->bytes);
    free(f);
    return failed < 0 ? -1 : 1;
}

static int send_all_fetched(struct restoring *r, struct err *err)
{
    int sent = 1;
    while (r->crew != NULL && sent > 0)
        sent = send_fetched(r, err);
    return sent < 0 ? -1 : 0;
}

static void drop_fetched(struct restoring *r)
{
    struct fetched *f;
    while (r->crew != NULL && (f = crew_take(r->crew)) != NULL) {
        buf_done(&f->bytes);
        free(f);
    }
    crew_free(r->crew);
    r->crew = NULL;
}

static int fetch_file(struct restoring *r, const struct pack_record *head, const char *path,
                      struct err *err)
{
    if (r->crew == NULL)
        r->crew = crew_new(fetch);
    if (crew_is_full(r->crew) && send_fetched(r, err) < 0)
        return -1;
    struct fetched *f = calloc(1, sizeof *f);
    if (f == NULL)
        abort();
    f->r = r;
    f->head = *head;
    f->head.type = PACK_PUT;
    f->head.path_len = (uint32_t)strlen(path);
    memcpy(f->path, path, f->head.path_len);
    buf_init(&f->bytes, CREW_BYTES);
    crew_give(r->crew, f);
    return 0;
}

// -- what the index knows

static uint64_t size_of(const char *object)
{
    uint64_t size;
    memcpy(&size, object, sizeof size);
    return size;
}

static int head_of(struct restoring *r, const char *path, struct store_info *ret, struct err *err)
{
    char key[STORE_KEY_MAX + 1];
    if (place_key(r->place, path, key, err) < 0)
        return -1;
    int found = store_head(r->store, key, ret, err);
    if (found < 0)
        saved_blame_store(err);
    return found;
}

// Whether the line is true: 1, 0, or -1. It must be, unless a sync was cut off.
static int check_line(struct restoring *r, const struct index_line *line, struct err *err)
{
    struct store_info info;
    const char *object = map_get(&r->objects, line->path);
    if (line->kind != 'f')
        return 1;
    if (r->is_marked) {
        int found = object != NULL ? head_of(r, line->path, &info, err) : 0;
        return found <= 0 ? found
                          : info.size == line->size &&
                                (!info.has_sha256 ||
                                 memcmp(info.sha256, line->sha256, sizeof info.sha256) == 0);
    }
    if (object == NULL)
        return damaged(err, line->path, "is not there any more");
    return size_of(object) == line->size ? 1 : damaged(err, line->path, "has another size");
}

// The index without what is not true of it.
static int trim_index(struct restoring *r, struct index_line *line, struct err *err)
{
    struct index_reader reader;
    if (r->index_len == 0 || index_open(&reader, r->index, r->index_len) < 0)
        return 0;
    char *to = r->index + (reader.at - r->index);
    while (index_next(&reader, line) > 0) {
        int is_true = check_line(r, line, err);
        if (is_true < 0)
            return -1;
        if (is_true == 0)
            continue;
        memmove(to, line->text, line->text_len);
        to += line->text_len;
    }
    r->index_len = (size_t)(to - r->index);
    return 0;
}

static int send_index(struct restoring *r, struct err *err)
{
    const struct pack_record head = {.type = PACK_INDEX, .size = r->index_len};
    if (records_write_head(r->to, &r->stop, &head, "", err) < 0)
        return -1;
    return records_write(r->to, &r->stop, r->index, r->index_len, err);
}

static int send_indexed(struct restoring *r, struct index_line *line, struct err *err)
{
    struct index_reader reader;
    bool is_far = strcmp(store_kind(r->store), "local") != 0;
    if (r->index_len == 0 || index_open(&reader, r->index, r->index_len) < 0)
        return 0;
    while (index_next(&reader, line) > 0) {
        struct pack_record head = {
            .size = line->size, .mode = line->mode, .mtime_ns = line->mtime_ns};
        if (line->kind != 'f')
            continue;
        memcpy(head.sha256, line->sha256, sizeof head.sha256);
        bool is_small = line->size > 0 && line->size <= CREW_BYTES;
        if (is_far && is_small
                ? fetch_file(r, &head, line->path, err) < 0
                : send_all_fetched(r, err) < 0 || send_file(r, &head, line->path, err) < 0)
            return -1;
        (void)map_del(&r->objects, line->path);
    }
    return send_all_fetched(r, err);
}

// -- what it does not

// One that does not know its own is read twice: what goes to a disk is checked on the way.
static int find_sha(struct restoring *r, const char *path, struct store_info *info, struct err *err)
{
    auto_sha256 hash = {0};
    struct content content = {.r = r, .path = path, .left = info->size, .hash = &hash};
    if (info->has_sha256)
        return 0;
    if (!sha256_init(&hash))
        return err_set(err, ERR_EXHAUSTED, "no memory for a hash");
    if (get(&content, NULL, err) < 0)
        return -1;
    sha256_end(&hash, info->sha256);
    return 0;
}

static int send_other(struct restoring *r, const char *path, struct err *err)
{
    struct store_info info;
    int found = head_of(r, path, &info, err);
    if (found <= 0 || find_sha(r, path, &info, err) < 0)
        return found < 0 ? -1 : found; // it went meanwhile: so be it
    struct pack_record head = {
        .size = info.size, .mode = OTHERS_MODE, .mtime_ns = info.modified_ms * NS_PER_MS_INT};
    memcpy(head.sha256, info.sha256, sizeof head.sha256);
    return send_file(r, &head, path, err);
}

static int send_others(struct restoring *r, struct err *err)
{
    for (size_t at = 0; at < r->keys.len;) {
        const char *path = r->keys.data + at + sizeof(uint64_t);
        at += sizeof(uint64_t) + strlen(path) + 1;
        if (map_get(&r->objects, path) != NULL && send_other(r, path, err) < 0)
            return -1;
    }
    return 0;
}

static int feed(struct restoring *r, struct err *err)
{
    auto_free struct index_line *line = malloc(sizeof *line);
    if (line == NULL)
        abort();
    if (trim_index(r, line, err) < 0 || send_index(r, err) < 0 || send_indexed(r, line, err) < 0)
        return -1;
    if (send_others(r, err) < 0)
        return -1;
    const struct pack_record end = {.type = PACK_END};
    return records_write_head(r->to, &r->stop, &end, "", err);
}

// What cay-pack says counts more than that it takes no more.
static int hear(struct restoring *r, struct err *err)
{
    struct freight_result result;
    char verdict[PACK_VERDICT_MAX];
    ssize_t n = records_read_text(r->verdict, &r->stop, verdict, sizeof verdict, err);
    return n < 0 ? -1 : freight_read_verdict(verdict, (size_t)n, &result, err);
}

void restoring_feed(void *data)
{
    struct restoring *r = data;
    struct err err = {0};
    int fed = feed(r, &err);
    drop_fetched(r);
    fd_close(TAKE_FD(r->to));
    if (fed == 0 || err.sys_errno == EPIPE)
        fed = hear(r, &err);
    fd_close(TAKE_FD(r->verdict));
    if (fed < 0)
        r->err = err;
}
