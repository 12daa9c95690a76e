// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "store/sha256.h"
#include "store/store-internal.h"

enum { PART_MAX = 255 };

// Where `local` keeps what has no name yet; no key begins with it in any store, so that objects may
// be carried from one to another.
#define RESERVED ".tmp"

struct store {
    const struct store_driver *driver;
    void *data; // of the driver
    struct store_tally tally;
    atomic_uint_fast64_t puts, gets, deletes, lists, failed;
};

// --- keys ---

static bool part_valid(const char *part, size_t len)
{
    bool is_dots = (len == 1 && part[0] == '.') || (len == 2 && part[0] == '.' && part[1] == '.');
    return len > 0 && len <= PART_MAX && !is_dots;
}

static bool has_control(const char *text, size_t len)
{
    for (size_t i = 0, step; i < len; i += step) {
        step = utf8_step(text + i, len - i);
        uint32_t c = utf8_decode(text + i, step);
        if (c < 0x20 || (c >= 0x7f && c < 0xa0))
            return true;
    }
    return false;
}

bool store_key_valid(const char *key)
{
    size_t len = strnlen(key, STORE_KEY_MAX + 1), first = strcspn(key, "/");
    if (len == 0 || len > STORE_KEY_MAX || !utf8_valid(key, len) || has_control(key, len))
        return false;
    if (first == strlen(RESERVED) && memcmp(key, RESERVED, first) == 0)
        return false;
    for (const char *part = key;; part++) {
        size_t n = strcspn(part, "/");
        if (!part_valid(part, n))
            return false;
        part += n;
        if (*part == '\0')
            return true;
    }
}

static int check_key(const char *key, struct err *err)
{
    return store_key_valid(key) ? 0 : err_set(err, ERR_INVALID, "'%.80s' is no key", key);
}

// A prefix is the beginning of some key: of "a/", "a/x"; of "a", itself.
static int check_prefix(const char *prefix, struct err *err)
{
    char key[STORE_KEY_MAX + 2];
    size_t len = strnlen(prefix, STORE_KEY_MAX + 1);
    if (len == 0)
        return 0;
    if (len > STORE_KEY_MAX)
        return err_set(err, ERR_INVALID, "the prefix is too long");
    (void)snprintf(key, sizeof key, "%s%s", prefix, prefix[len - 1] == '/' ? "x" : "");
    key[STORE_KEY_MAX] = '\0';
    // "a/." may become "a/.x"
    bool dots = len >= 1 && key[len - 1] == '.' && len < STORE_KEY_MAX;
    if (dots)
        (void)snprintf(key, sizeof key, "%sx", prefix);
    return check_key(key, err);
}

// --- errors ---

int store_say_stopped(struct err *err)
{
    (void)err_set(err, ERR_UNAVAILABLE, "stopped");
    err->sys_errno = ECANCELED;
    return -1;
}

int store_say_bad(struct err *err, const char *key, const char *how)
{
    (void)err_set(err, ERR_INTERNAL, "the stored object '%.100s' is damaged: %s", key, how);
    err->sys_errno = EBADMSG;
    return -1;
}

int store_say_unlike(struct err *err, const char *key, const char *how)
{
    (void)err_set(err, ERR_INVALID, "the content for '%.100s' is not what was announced: %s", key,
                  how);
    err->sys_errno = EBADMSG;
    return -1;
}

int store_random_name(char ret[33])
{
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return -errno;
    (void)snprintf(ret, 33, "%016llx%016llx", (unsigned long long)random[0],
                   (unsigned long long)random[1]);
    return 0;
}

// What the caller got wrong, or asked for in vain, is no failure of the store.
static int count(struct store *store, atomic_uint_fast64_t *what, int r, const struct err *err)
{
    (*what)++;
    if (r < 0 && err->code != ERR_NOT_FOUND && err->code != ERR_INVALID)
        store->failed++;
    return r;
}

// --- opening ---

int store_open(const struct store_config *config, struct store **ret, struct err *err)
{
    struct store *store = calloc(1, sizeof *store);
    if (store == NULL)
        return err_sys(err, ENOMEM, "open the store");
    int r;
    if (config->dir >= 0) {
        store->driver = &store_local;
        r = store_local_open(config->dir, config->spare, &store->tally, &store->data, err);
    } else {
        store->driver = &store_s3;
        r = store_s3_open(config->s3, &store->tally, &store->data, err);
    }
    if (r < 0) {
        free(store);
        return -1;
    }
    *ret = store;
    return 0;
}

void store_close(struct store *store)
{
    if (store == NULL)
        return;
    store->driver->close(store->data);
    free(store);
}

const char *store_kind(const struct store *store)
{
    return store->driver->kind;
}

// --- one object ---

int store_put(struct store *store, const struct store_put *put, struct store_info *ret,
              struct err *err)
{
    struct store_info info = {0};
    int r = check_key(put->key, err);
    if (r == 0)
        r = store->driver->put(store->data, put, &info, err);
    if (r == 0 && ret != NULL)
        *ret = info;
    return count(store, &store->puts, r, err);
}

struct bytes {
    const char *at;
    size_t left;
};

static ssize_t read_bytes(void *data, void *buf, size_t size, struct err *err)
{
    struct bytes *bytes = data;
    size_t n = bytes->left < size ? bytes->left : size;
    (void)err;
    if (n > 0)
        memcpy(buf, bytes->at, n);
    bytes->at += n;
    bytes->left -= n;
    return (ssize_t)n;
}

int store_put_bytes(struct store *store, const char *key, const void *bytes, size_t len,
                    struct err *err)
{
    uint8_t sha[STORE_SHA256];
    struct bytes source = {.at = bytes, .left = len};
    sha256_of(bytes, len, sha);
    const struct store_put put = {
        .key = key, .read = read_bytes, .data = &source, .size = (int64_t)len, .sha256 = sha};
    return store_put(store, &put, NULL, err);
}

int store_get(struct store *store, const struct store_get *get, struct store_info *ret,
              struct err *err)
{
    struct store_info info = {0};
    int r = check_key(get->key, err);
    if (r == 0 && get->offset + get->length < get->offset)
        r = err_set(err, ERR_INVALID, "a range beyond all objects");
    if (r == 0)
        r = store->driver->get(store->data, get, &info, err);
    if (r == 0 && ret != NULL)
        *ret = info;
    return count(store, &store->gets, r, err);
}

struct kept {
    struct buf buf;
    size_t max;
};

static int keep_bytes(void *data, const void *bytes, size_t len, struct err *err)
{
    struct kept *kept = data;
    if (kept->buf.len + len > kept->max)
        return err_set(err, ERR_EXHAUSTED, "the object has more than %zu bytes", kept->max);
    int r = buf_append(&kept->buf, bytes, len);
    return r < 0 ? err_sys(err, -r, "keep an object") : 0;
}

int store_get_bytes(struct store *store, const char *key, size_t max, char **ret, size_t *ret_len,
                    struct err *err)
{
    struct kept kept = {.max = max};
    buf_init(&kept.buf, max);
    const struct store_get get = {.key = key, .write = keep_bytes, .data = &kept};
    int r = store_get(store, &get, NULL, err);
    // An empty buffer has no memory, but the caller gets some in any case.
    char *copy = r == 0 && kept.buf.data == NULL ? calloc(1, 1) : kept.buf.data;
    if (r == 0 && copy == NULL)
        r = err_sys(err, ENOMEM, "keep an object");
    if (r < 0) {
        buf_done(&kept.buf);
        return -1;
    }
    *ret = copy;
    *ret_len = kept.buf.len;
    return 0;
}

int store_head(struct store *store, const char *key, struct store_info *ret, struct err *err)
{
    struct store_info info = {0};
    if (check_key(key, err) < 0)
        return -1;
    int r = store->driver->head(store->data, key, &info, err);
    if (r == 1 && ret != NULL)
        *ret = info;
    if (r < 0)
        store->failed++;
    return r;
}

int store_delete(struct store *store, const char *key, struct err *err)
{
    int r = check_key(key, err);
    if (r == 0)
        r = store->driver->remove(store->data, key, err);
    return count(store, &store->deletes, r, err);
}

int store_sync(struct store *store, struct err *err)
{
    return store->driver->sync != NULL ? store->driver->sync(store->data, err) : 0;
}

// --- many ---

int store_list(struct store *store, const char *prefix, const char *after, unsigned max,
               store_list_fn fn, void *data, struct err *err)
{
    int r = check_prefix(prefix, err);
    if (r == 0 && after != NULL && strnlen(after, STORE_KEY_MAX + 1) > STORE_KEY_MAX)
        r = err_set(err, ERR_INVALID, "what to list after is no key");
    if (r == 0)
        r = store->driver->list(store->data, prefix, after, max, fn, data, err);
    return count(store, &store->lists, r, err);
}

int store_delete_all(struct store *store, const char *prefix, struct err *err)
{
    size_t len = strnlen(prefix, STORE_KEY_MAX + 1);
    int r = check_prefix(prefix, err);
    if (r == 0 && (len == 0 || prefix[len - 1] != '/'))
        r = err_set(err, ERR_INVALID, "the prefix of what is deleted does not end with '/'");
    if (r == 0)
        r = store->driver->remove_all(store->data, prefix, err);
    return count(store, &store->deletes, r, err);
}

// --- whether it works ---

static int ignore_listed(void *data, const struct store_listed *object)
{
    (void)data, (void)object;
    return 1;
}

static int try_read(struct store *store, const char *key, const char *text, struct err *err)
{
    auto_free char *back = NULL;
    size_t len = 0;
    if (store_get_bytes(store, key, 64, &back, &len, err) < 0)
        return err_wrap(err, "read from the store");
    if (len != strlen(text) || memcmp(back, text, len) != 0)
        return store_say_bad(err, key, "what was just written comes back otherwise");
    return 0;
}

int store_check(struct store *store, struct err *err)
{
    char name[33], key[64];
    int r = store_random_name(name);
    if (r < 0)
        return err_sys(err, -r, "getrandom");
    (void)snprintf(key, sizeof key, "health/%s", name);
    if (store_list(store, "health/", NULL, 1, ignore_listed, NULL, err) < 0)
        return err_wrap(err, "list the store");
    if (store_put_bytes(store, key, name, strlen(name), err) < 0)
        return err_wrap(err, "write to the store");
    struct err ignored;
    r = try_read(store, key, name, err);
    if (store_delete(store, key, r == 0 ? err : &ignored) < 0 && r == 0)
        r = err_wrap(err, "delete from the store");
    if (r == 0 && store->driver->check != NULL)
        r = store->driver->check(store->data, err);
    return r;
}

void store_counts(const struct store *store, struct store_counts *ret)
{
    *ret = (struct store_counts){
        .puts = store->puts,
        .gets = store->gets,
        .deletes = store->deletes,
        .lists = store->lists,
        .failed = store->failed,
        .retried = store->tally.retried,
        .bytes_in = store->tally.bytes_in,
        .bytes_out = store->tally.bytes_out,
    };
}
