// SPDX-License-Identifier: Apache-2.0
// The store in a directory: what is written comes back or an error says why not, in the order of
// keys, with others at work at the same time; and the threads it is used from.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <uv.h>

#include "base/fd.h"
#include "base/mem.h"
#include "check.h"
#include "store/pool.h"
#include "store/sha256.h"
#include "store/store.h"

// --- kit ---

struct kit {
    char path[64];
    int dir;
    struct store *store;
    struct err err;
};

static void kit_open(struct kit *kit)
{
    *kit = (struct kit){.path = "/tmp/cay-store-XXXXXX"};
    assert_non_null(mkdtemp(kit->path));
    kit->dir = open(kit->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(kit->dir >= 0);
    const struct store_config config = {.dir = kit->dir};
    assert_int_equal(store_open(&config, &kit->store, &kit->err), 0);
}

static void kit_reopen(struct kit *kit)
{
    store_close(kit->store);
    const struct store_config config = {.dir = kit->dir};
    assert_int_equal(store_open(&config, &kit->store, &kit->err), 0);
}

static int ignore(void *data, const struct store_listed *object)
{
    (void)data, (void)object;
    return 0;
}

static int delete_top(void *data, const struct store_listed *object)
{
    struct kit *kit = data;
    struct err err;
    return store_delete(kit->store, object->key, &err) < 0;
}

// Whoever has deleted everything leaves nothing but `.tmp`, which is empty.
static void kit_close(struct kit *kit)
{
    assert_int_equal(store_list(kit->store, "", NULL, 0, delete_top, kit, &kit->err), 0);
    store_close(kit->store);
    assert_int_equal(unlinkat(kit->dir, ".tmp", AT_REMOVEDIR), 0);
    fd_close(kit->dir);
    assert_int_equal(rmdir(kit->path), 0);
}

static int put(struct kit *kit, const char *key, const char *text)
{
    return store_put_bytes(kit->store, key, text, strlen(text), &kit->err);
}

static void assert_object(struct kit *kit, const char *key, const char *text)
{
    auto_free char *back = NULL;
    size_t len;
    assert_int_equal(store_get_bytes(kit->store, key, 1 << 20, &back, &len, &kit->err), 0);
    assert_int_equal(len, strlen(text));
    assert_string_equal(back, text);
}

static int get_code(struct kit *kit, const char *key)
{
    char *back = NULL;
    size_t len;
    if (store_get_bytes(kit->store, key, 1 << 20, &back, &len, &kit->err) == 0) {
        free(back);
        return 0;
    }
    return (int)kit->err.code;
}

struct told {
    char text[4096];
    unsigned n, stop_after;
};

static int tell(void *data, const struct store_listed *object)
{
    struct told *told = data;
    size_t len = strlen(told->text);
    (void)snprintf(told->text + len, sizeof told->text - len, "%s ", object->key);
    return ++told->n == told->stop_after;
}

static void assert_list(struct kit *kit, const char *prefix, const char *after, unsigned max,
                        const char *expected)
{
    struct told told = {.n = 0};
    assert_int_equal(store_list(kit->store, prefix, after, max, tell, &told, &kit->err), 0);
    assert_string_equal(told.text, expected);
}

// --- keys ---

CHECK_CASE(keys)
{
    static const char *const good[] = {
        "a",  "a/b", "a/.b", "..a",    "a b", "\xc3\xa4/\xe2\x82\xac",
        "a%", "a+b", ".tm",  "a/.tmp", "...", "a\\b"};
    static const char *const bad[] = {"",      "/",    "/a",       "a/",   "a//b",   ".",
                                      "..",    "a/..", "../a",     "a/./", "a/./b",  "a\nb",
                                      "a\x7f", "\xff", "\xc0\xaf", ".tmp", ".tmp/a", "a\xc2\x85"};
    char key[STORE_KEY_MAX + 2];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(store_key_valid(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(store_key_valid(bad[i]));
    for (size_t i = 0; i < sizeof key; i++)
        key[i] = i % 2 == 0 ? 'a' : '/';
    key[STORE_KEY_MAX + 1] = '\0';
    assert_false(store_key_valid(key));
    key[STORE_KEY_MAX - 1] = '\0';
    assert_true(store_key_valid(key));
    memset(key, 'a', 256);
    key[256] = '\0';
    assert_false(store_key_valid(key));
    key[255] = '\0';
    assert_true(store_key_valid(key));
}

CHECK_CASE(bad_keys_are_refused_everywhere)
{
    struct kit kit;
    struct store_info info;
    kit_open(&kit);
    assert_int_equal(put(&kit, "../a", "x"), -1);
    assert_int_equal(kit.err.code, ERR_INVALID);
    assert_int_equal(get_code(&kit, "a/../b"), ERR_INVALID);
    assert_int_equal(store_head(kit.store, "/a", &info, &kit.err), -1);
    assert_int_equal(store_delete(kit.store, ".tmp/a", &kit.err), -1);
    assert_int_equal(store_list(kit.store, "../", NULL, 0, ignore, NULL, &kit.err), -1);
    assert_int_equal(store_list(kit.store, "a//", NULL, 0, ignore, NULL, &kit.err), -1);
    assert_int_equal(store_list(kit.store, ".tmp/", NULL, 0, ignore, NULL, &kit.err), -1);
    assert_int_equal(store_delete_all(kit.store, "", &kit.err), -1);
    assert_int_equal(store_delete_all(kit.store, "a", &kit.err), -1);
    assert_int_equal(store_delete_all(kit.store, "../a/", &kit.err), -1);
    assert_int_equal(store_list(kit.store, "a/.", NULL, 0, ignore, NULL, &kit.err), 0);
    kit_close(&kit);
}

// --- one object ---

CHECK_CASE(put_get_head_delete)
{
    struct kit kit;
    struct store_info info;
    int fds = check_fds();
    uint8_t sha[32];
    kit_open(&kit);
    assert_int_equal(store_head(kit.store, "a/b/c", &info, &kit.err), 0);
    assert_int_equal(get_code(&kit, "a/b/c"), ERR_NOT_FOUND);
    assert_int_equal(put(&kit, "a/b/c", "one"), 0);
    assert_object(&kit, "a/b/c", "one");
    assert_int_equal(put(&kit, "a/b/c", "another"), 0);
    assert_object(&kit, "a/b/c", "another");
    assert_int_equal(put(&kit, "empty", ""), 0);
    assert_object(&kit, "empty", "");
    assert_int_equal(store_head(kit.store, "a/b/c", &info, &kit.err), 1);
    sha256_of("another", 7, sha);
    assert_int_equal(info.size, 7);
    assert_true(info.has_sha256);
    assert_memory_equal(info.sha256, sha, 32);
    assert_true(info.modified_ms > 1600000000000);
    assert_int_equal(store_delete(kit.store, "a/b/c", &kit.err), 1);
    assert_int_equal(store_delete(kit.store, "a/b/c", &kit.err), 0);
    assert_int_equal(faccessat(kit.dir, "a", F_OK, 0), -1); // its directories went, too
    kit_close(&kit);
    assert_int_equal(check_fds(), fds);
}

CHECK_CASE(an_object_is_no_directory)
{
    struct kit kit;
    struct store_info info;
    kit_open(&kit);
    assert_int_equal(put(&kit, "a/b", "x"), 0);
    assert_int_equal(put(&kit, "a", "y"), -1);
    assert_int_equal(kit.err.code, ERR_CONFLICT);
    assert_int_equal(put(&kit, "a/b/c", "y"), -1);
    assert_int_equal(kit.err.code, ERR_CONFLICT);
    assert_int_equal(get_code(&kit, "a"), ERR_NOT_FOUND);
    assert_int_equal(get_code(&kit, "a/b/c"), ERR_NOT_FOUND);
    assert_int_equal(store_head(kit.store, "a", &info, &kit.err), 0);
    assert_int_equal(store_delete(kit.store, "a", &kit.err), 0);
    assert_int_equal(store_delete(kit.store, "a/b/c", &kit.err), 0);
    assert_object(&kit, "a/b", "x");
    // Directories of somebody who died are in nobody's way.
    assert_int_equal(store_delete(kit.store, "a/b", &kit.err), 1);
    assert_int_equal(mkdirat(kit.dir, "a", 0700), 0);
    assert_int_equal(mkdirat(kit.dir, "a/b", 0700), 0);
    assert_int_equal(mkdirat(kit.dir, "a/c", 0700), 0);
    assert_int_equal(put(&kit, "a", "y"), 0);
    assert_object(&kit, "a", "y");
    kit_close(&kit);
}

// Hands out a pattern, a few bytes at a time, then ends or fails or stops.
struct source {
    size_t left, step, fail_at, done;
    atomic_bool *stop;
};

static ssize_t read_source(void *data, void *buf, size_t size, struct err *err)
{
    struct source *source = data;
    size_t n = source->step < size ? source->step : size;
    n = n < source->left ? n : source->left;
    if (source->fail_at > 0 && source->done >= source->fail_at)
        return err_set(err, ERR_DENIED, "the source is dry");
    for (size_t i = 0; i < n; i++)
        ((char *)buf)[i] = (char)((source->done + i) * 7 >> 3);
    source->left -= n;
    source->done += n;
    if (source->stop != NULL && source->done > 1000)
        *source->stop = true;
    return (ssize_t)n;
}

static int put_source(struct kit *kit, struct source *source, int64_t size, const uint8_t *sha)
{
    const struct store_put p = {.key = "big/one",
                                .read = read_source,
                                .data = source,
                                .size = size,
                                .sha256 = sha,
                                .stop = source->stop};
    return store_put(kit->store, &p, NULL, &kit->err);
}

CHECK_CASE(what_is_not_whole_is_not_there)
{
    struct kit kit;
    struct store_info info;
    atomic_bool stop = false;
    static const uint8_t other[32] = {1};
    kit_open(&kit);
    assert_int_equal(
        put_source(&kit, &(struct source){.left = 5000, .step = 9, .fail_at = 4000}, -1, NULL), -1);
    assert_int_equal(kit.err.code, ERR_DENIED);
    assert_int_equal(put_source(&kit, &(struct source){.left = 5000, .step = 9}, 5001, NULL), -1);
    assert_int_equal(kit.err.code, ERR_INVALID);
    assert_int_equal(kit.err.sys_errno, EBADMSG);
    assert_int_equal(put_source(&kit, &(struct source){.left = 5000, .step = 9}, 4999, NULL), -1);
    assert_int_equal(put_source(&kit, &(struct source){.left = 5000, .step = 9}, 5000, other), -1);
    assert_int_equal(kit.err.sys_errno, EBADMSG);
    assert_int_equal(
        put_source(&kit, &(struct source){.left = 5000, .step = 9, .stop = &stop}, -1, NULL), -1);
    assert_int_equal(kit.err.code, ERR_UNAVAILABLE);
    assert_int_equal(kit.err.sys_errno, ECANCELED);
    assert_int_equal(store_head(kit.store, "big/one", &info, &kit.err), 0);
    assert_list(&kit, "", NULL, 0, "");
    assert_int_equal(put_source(&kit, &(struct source){.left = 5000, .step = 9}, -1, NULL), 0);
    assert_int_equal(store_head(kit.store, "big/one", &info, &kit.err), 1);
    assert_int_equal(info.size, 5000);
    kit_close(&kit);
}

static int append(void *data, const void *bytes, size_t len, struct err *err)
{
    char *text = data;
    size_t have = strlen(text);
    (void)err;
    memcpy(text + have, bytes, len);
    text[have + len] = '\0';
    return 0;
}

CHECK_CASE(ranges)
{
    struct kit kit;
    kit_open(&kit);
    assert_int_equal(put(&kit, "r", "0123456789"), 0);
    for (uint64_t offset = 0; offset <= 11; offset++) {
        for (uint64_t length = 0; length <= 12; length++) {
            char text[32] = "", expected[32];
            const struct store_get get = {
                .key = "r", .offset = offset, .length = length, .write = append, .data = text};
            int r = store_get(kit.store, &get, NULL, &kit.err);
            (void)snprintf(expected, sizeof expected, "%.*s", length > 0 ? (int)length : 10,
                           offset < 10 ? &"0123456789"[offset] : "");
            assert_int_equal(r, offset < 10 ? 0 : -1);
            assert_string_equal(text, expected);
        }
    }
    assert_int_equal(kit.err.code, ERR_INVALID);
    kit_close(&kit);
}

static int refuse(void *data, const void *bytes, size_t len, struct err *err)
{
    (void)data, (void)bytes, (void)len;
    return err_set(err, ERR_EXHAUSTED, "full");
}

CHECK_CASE(readers_may_refuse_and_stop)
{
    struct kit kit;
    char *back;
    size_t len;
    atomic_bool stop = true;
    kit_open(&kit);
    assert_int_equal(put(&kit, "a", "0123456789"), 0);
    struct store_get get = {.key = "a", .write = refuse};
    assert_int_equal(store_get(kit.store, &get, NULL, &kit.err), -1);
    assert_int_equal(kit.err.code, ERR_EXHAUSTED);
    get.stop = &stop;
    assert_int_equal(store_get(kit.store, &get, NULL, &kit.err), -1);
    assert_int_equal(kit.err.sys_errno, ECANCELED);
    assert_int_equal(store_get_bytes(kit.store, "a", 9, &back, &len, &kit.err), -1);
    assert_int_equal(kit.err.code, ERR_EXHAUSTED);
    kit_close(&kit);
}

// --- damage ---

static void assert_damaged(struct kit *kit, const char *key)
{
    assert_int_equal(get_code(kit, key), ERR_INTERNAL);
    assert_int_equal(kit->err.sys_errno, EBADMSG);
}

CHECK_CASE(damage_is_seen)
{
    struct kit kit;
    uint8_t other[32] = {0};
    char text[128] = "";
    kit_open(&kit);
    assert_int_equal(put(&kit, "changed", "0123456789"), 0);
    auto_fd fd = openat(kit.dir, "changed", O_RDWR | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "x", 1, 5), 1);
    assert_damaged(&kit, "changed");
    assert_int_equal(put(&kit, "cut", "0123456789"), 0);
    assert_int_equal(truncate((snprintf(text, sizeof text, "%s/cut", kit.path), text), 9), 0);
    assert_damaged(&kit, "cut");
    assert_int_equal(put(&kit, "bare", "0123456789"), 0);
    (void)snprintf(text, sizeof text, "%s/bare", kit.path);
    assert_int_equal(removexattr(text, "user.cay.object"), 0);
    assert_damaged(&kit, "bare");
    assert_int_equal(symlinkat("/etc/hostname", kit.dir, "link"), 0);
    assert_damaged(&kit, "link");
    assert_int_equal(symlinkat("/etc", kit.dir, "links"), 0);
    assert_damaged(&kit, "links/hostname");
    assert_int_equal(put(&kit, "links/x", "y"), -1);
    assert_int_equal(put(&kit, "swapped", "0123456789"), 0);
    text[0] = '\0';
    const struct store_get get = {.key = "swapped", .write = append, .data = text, .sha256 = other};
    assert_int_equal(store_get(kit.store, &get, NULL, &kit.err), -1);
    assert_int_equal(kit.err.sys_errno, EBADMSG);
    assert_int_equal(unlinkat(kit.dir, "link", 0), 0);
    assert_int_equal(unlinkat(kit.dir, "links", 0), 0);
    kit_close(&kit);
}

CHECK_CASE(leftovers_go_when_it_is_opened)
{
    struct kit kit;
    kit_open(&kit);
    auto_fd fd = openat(kit.dir, ".tmp/left", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(mkdirat(kit.dir, ".tmp/tree", 0700), 0);
    assert_int_equal(mkdirat(kit.dir, ".tmp/tree/a", 0700), 0);
    assert_int_equal(mkdirat(kit.dir, ".tmp/tree/a/b", 0700), 0);
    assert_int_equal(mkdirat(kit.dir, ".tmp/tree/c", 0700), 0);
    // Not while somebody is at work there.
    struct store *second;
    const struct store_config config = {.dir = kit.dir};
    assert_int_equal(store_open(&config, &second, &kit.err), 0);
    assert_int_equal(faccessat(kit.dir, ".tmp/left", F_OK, 0), 0);
    store_close(second);
    kit_reopen(&kit);
    assert_int_equal(faccessat(kit.dir, ".tmp/left", F_OK, 0), -1);
    kit_close(&kit); // looks whether it is empty
}

CHECK_CASE(what_is_to_stay_free_stays_free)
{
    struct kit kit;
    kit_open(&kit);
    struct store *full;
    const struct store_config config = {.dir = kit.dir, .spare = UINT64_MAX};
    assert_int_equal(store_open(&config, &full, &kit.err), 0);
    assert_int_equal(store_put_bytes(full, "t/x", "x", 1, &kit.err), -1);
    assert_int_equal(kit.err.code, ERR_EXHAUSTED);
    assert_int_equal(store_put_bytes(kit.store, "t/x", "x", 1, &kit.err), 0);
    assert_int_equal(store_delete(full, "t/x", &kit.err), 1); // that makes room
    store_close(full);
    kit_close(&kit); // looks whether it is empty
}

CHECK_CASE(a_place_without_attributes_is_refused)
{
    struct err err;
    struct store *store;
    auto_fd dir = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const struct store_config config = {.dir = dir};
    assert_int_equal(store_open(&config, &store, &err), -1);
}

// --- lists ---

CHECK_CASE(lists_are_in_the_order_of_keys)
{
    static const char *const keys[] = {"a/b", "a-b", "a0", "a/b-c", "a/bc/d", "b", "B/x", "a/b0"};
    struct kit kit;
    kit_open(&kit);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        assert_int_equal(put(&kit, keys[i], "x"), 0);
    assert_list(&kit, "", NULL, 0, "B/x a-b a/b a/b-c a/b0 a/bc/d a0 b ");
    assert_list(&kit, "a", NULL, 0, "a-b a/b a/b-c a/b0 a/bc/d a0 ");
    assert_list(&kit, "a/", NULL, 0, "a/b a/b-c a/b0 a/bc/d ");
    assert_list(&kit, "a/b", NULL, 0, "a/b a/b-c a/b0 a/bc/d ");
    assert_list(&kit, "a/bc", NULL, 0, "a/bc/d ");
    assert_list(&kit, "a/bc/d", NULL, 0, "a/bc/d ");
    assert_list(&kit, "a/bc/d/", NULL, 0, "");
    assert_list(&kit, "none/", NULL, 0, "");
    assert_list(&kit, "", "a/b-c", 0, "a/b0 a/bc/d a0 b ");
    assert_list(&kit, "a/", "a/b", 2, "a/b-c a/b0 ");
    assert_list(&kit, "", "a", 1, "a-b ");
    assert_list(&kit, "", "a/", 1, "a/b ");
    assert_list(&kit, "", "b", 0, "");
    struct told told = {.stop_after = 3};
    assert_int_equal(store_list(kit.store, "", NULL, 0, tell, &told, &kit.err), 0);
    assert_string_equal(told.text, "B/x a-b a/b ");
    kit_close(&kit);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Against a plain model: sorted names, with every `after` and `max`.
CHECK_CASE(pages_of_lists_are_the_list)
{
    enum { N = 60 };
    struct kit kit;
    char *keys[N];
    unsigned seed = 7, n = 0;
    kit_open(&kit);
    while (n < N) {
        char key[32];
        size_t len = 0;
        for (unsigned parts = 1 + rand_r(&seed) % 3; parts > 0; parts--)
            len += (size_t)snprintf(key + len, sizeof key - len, "%c%s%s", "ab-"[rand_r(&seed) % 3],
                                    rand_r(&seed) % 2 ? "-" : "0", parts > 1 ? "/" : "");
        struct store_info info;
        if (store_head(kit.store, key, &info, &kit.err) == 0 && put(&kit, key, "x") == 0)
            keys[n++] = strdup(key);
        else if (rand_r(&seed) % 50 == 0)
            break;
    }
    qsort(keys, n, sizeof *keys, compare);
    for (unsigned max = 1; max < n; max += 3) {
        struct told all = {.n = 0};
        char expected[4096] = "";
        for (unsigned i = 0, len = 0; i < n; i++)
            len += (unsigned)snprintf(expected + len, sizeof expected - len, "%s ", keys[i]);
        for (unsigned at = 0; at < n; at += max)
            assert_int_equal(
                store_list(kit.store, "", at > 0 ? keys[at - 1] : NULL, max, tell, &all, &kit.err),
                0);
        assert_string_equal(all.text, expected);
    }
    for (unsigned i = 0; i < n; i++)
        free(keys[i]);
    kit_close(&kit);
}

// More than a window holds.
struct counted {
    unsigned n;
    char last[64];
    bool in_order;
};

static int count_one(void *data, const struct store_listed *object)
{
    struct counted *counted = data;
    counted->in_order &= strcmp(counted->last, object->key) < 0;
    (void)snprintf(counted->last, sizeof counted->last, "%s", object->key);
    counted->n++;
    return 0;
}

CHECK_CASE(large_directories)
{
    enum { N = 40000 };
    struct kit kit;
    char name[32];
    kit_open(&kit);
    assert_int_equal(mkdirat(kit.dir, "d", 0700), 0);
    for (int i = 0; i < N; i++) {
        (void)snprintf(name, sizeof name, "d/%d", i * 7919 % N);
        fd_close(openat(kit.dir, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    }
    struct counted counted = {.in_order = true};
    assert_int_equal(store_list(kit.store, "", NULL, 0, count_one, &counted, &kit.err), 0);
    assert_int_equal(counted.n, N);
    assert_true(counted.in_order);
    assert_int_equal(store_delete_all(kit.store, "d/", &kit.err), 0);
    assert_list(&kit, "", NULL, 0, "");
    kit_close(&kit);
}

CHECK_CASE(deep_trees)
{
    struct kit kit;
    char key[STORE_KEY_MAX + 1];
    int fds = check_fds();
    kit_open(&kit);
    for (int i = 0; i < STORE_KEY_MAX - 1; i++)
        key[i] = i % 2 == 0 ? 'a' : '/';
    key[STORE_KEY_MAX - 1] = '\0';
    assert_int_equal(put(&kit, key, "deep"), 0);
    assert_object(&kit, key, "deep");
    struct counted counted = {.in_order = true};
    assert_int_equal(store_list(kit.store, "a/a/", NULL, 0, count_one, &counted, &kit.err), 0);
    assert_int_equal(counted.n, 1);
    assert_int_equal(store_delete(kit.store, key, &kit.err), 1);
    assert_int_equal(faccessat(kit.dir, "a", F_OK, 0), -1);
    assert_int_equal(put(&kit, key, "deep"), 0);
    assert_int_equal(put(&kit, "a/b", "x"), 0);
    assert_int_equal(store_delete_all(kit.store, "a/a/", &kit.err), 0);
    assert_list(&kit, "", NULL, 0, "a/b ");
    kit_close(&kit);
    assert_int_equal(check_fds(), fds);
}

CHECK_CASE(delete_all_leaves_the_rest)
{
    struct kit kit;
    kit_open(&kit);
    assert_int_equal(put(&kit, "a/b/c", "x"), 0);
    assert_int_equal(put(&kit, "a/b/d/e", "x"), 0);
    assert_int_equal(put(&kit, "a/bc", "x"), 0);
    assert_int_equal(put(&kit, "z", "x"), 0);
    assert_int_equal(store_delete_all(kit.store, "a/b/", &kit.err), 0);
    assert_int_equal(store_delete_all(kit.store, "a/b/", &kit.err), 0);
    assert_int_equal(store_delete_all(kit.store, "z/", &kit.err), 0);
    assert_list(&kit, "", NULL, 0, "a/bc z ");
    assert_int_equal(store_delete_all(kit.store, "a/", &kit.err), 0);
    assert_int_equal(faccessat(kit.dir, "a", F_OK, 0), -1);
    kit_close(&kit);
}

CHECK_CASE(check_and_counts)
{
    struct kit kit;
    struct store_counts counts;
    kit_open(&kit);
    assert_string_equal(store_kind(kit.store), "local");
    assert_int_equal(store_check(kit.store, &kit.err), 0);
    assert_int_equal(store_sync(kit.store, &kit.err), 0);
    assert_list(&kit, "", NULL, 0, "");
    assert_int_equal(get_code(&kit, "none"), ERR_NOT_FOUND);
    store_counts(kit.store, &counts);
    assert_int_equal(counts.puts, 1);
    assert_int_equal(counts.gets, 2);
    assert_int_equal(counts.deletes, 1);
    assert_int_equal(counts.lists, 2);
    assert_int_equal(counts.failed, 0);
    assert_int_equal(counts.bytes_in, 32);
    assert_int_equal(counts.bytes_out, 32);
    kit_close(&kit);
}

// --- at the same time ---

// Some put and delete in the same few directories, so that these come and go all the time. Whoever
// reads finds a whole object or none.
struct racer {
    struct kit *kit;
    unsigned seed;
    int bad;
};

static void *race(void *data)
{
    struct racer *racer = data;
    static const char *const keys[] = {"r/a/b/1", "r/a/b/2", "r/a/c/3", "r/d/4", "r/5"};
    struct store *store = racer->kit->store;
    struct err err;
    for (int i = 0; i < 1500; i++) {
        const char *key = keys[rand_r(&racer->seed) % 5];
        int what = rand_r(&racer->seed) % 8;
        char text[64], *back = NULL;
        size_t len;
        (void)snprintf(text, sizeof text, "%s %d", key, i);
        if (what < 3)
            racer->bad += store_put_bytes(store, key, text, strlen(text), &err) < 0;
        else if (what < 6)
            racer->bad += store_delete(store, key, &err) < 0;
        else if (what == 6 && i % 16 == 0)
            racer->bad += store_delete_all(store, "r/a/", &err) < 0;
        else if (store_get_bytes(store, key, 64, &back, &len, &err) == 0)
            racer->bad += strncmp(back, key, strlen(key)) != 0;
        else
            racer->bad += err.code != ERR_NOT_FOUND;
        free(back);
    }
    return NULL;
}

CHECK_CASE(directories_come_and_go)
{
    enum { N = 4 };
    struct kit kit;
    pthread_t threads[N];
    struct racer racers[N];
    kit_open(&kit);
    for (unsigned i = 0; i < N; i++) {
        racers[i] = (struct racer){.kit = &kit, .seed = i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(racers[i].bad, 0);
    }
    kit_close(&kit);
}

// --- threads ---

struct task {
    struct store_pool *pool;
    atomic_int *worked;
    int *done, again;
};

static void work(void *data)
{
    struct task *task = data;
    (*task->worked)++;
}

static void done(void *data)
{
    struct task *task = data;
    (*task->done)++;
    if (task->again-- > 0)
        store_pool_run(task->pool, work, done, task);
}

CHECK_CASE(pool_does_all_of_it)
{
    enum { N = 200 };
    uv_loop_t loop;
    struct store_pool *pool;
    struct err err;
    struct task tasks[N];
    atomic_int worked = 0;
    int n_done = 0;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(store_pool_open(&loop, 3, &pool, &err), 0);
    for (int i = 0; i < N; i++) {
        tasks[i] = (struct task){.pool = pool, .worked = &worked, .done = &n_done, .again = i % 3};
        store_pool_run(pool, work, done, &tasks[i]);
    }
    assert_int_equal(n_done, 0); // never before it has returned
    while (n_done < N + 66 + 2 * 66)
        (void)uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(worked, n_done);
    assert_int_equal(store_pool_waiting(pool), 0);
    store_pool_close(pool);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void work_slowly(void *data)
{
    (void)usleep(50000);
    work(data);
}

CHECK_CASE(pool_closes_in_the_middle)
{
    enum { N = 10 };
    uv_loop_t loop;
    struct store_pool *pool;
    struct err err;
    struct task task = {0};
    atomic_int worked = 0;
    int n_done = 0;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(store_pool_open(&loop, 2, &pool, &err), 0);
    task = (struct task){.pool = pool, .worked = &worked, .done = &n_done};
    for (int i = 0; i < N; i++)
        store_pool_run(pool, work_slowly, done, &task);
    while (store_pool_waiting(pool) > N - 2)
        (void)usleep(1000);
    store_pool_close(pool);
    assert_int_equal(n_done, N);
    assert_in_range(worked, 2, N - 1);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
}

CHECK_MAIN(cmocka_unit_test(keys), cmocka_unit_test(bad_keys_are_refused_everywhere),
           cmocka_unit_test(put_get_head_delete), cmocka_unit_test(an_object_is_no_directory),
           cmocka_unit_test(what_is_not_whole_is_not_there), cmocka_unit_test(ranges),
           cmocka_unit_test(readers_may_refuse_and_stop), cmocka_unit_test(damage_is_seen),
           cmocka_unit_test(leftovers_go_when_it_is_opened),
           cmocka_unit_test(what_is_to_stay_free_stays_free),
           cmocka_unit_test(a_place_without_attributes_is_refused),
           cmocka_unit_test(lists_are_in_the_order_of_keys),
           cmocka_unit_test(pages_of_lists_are_the_list), cmocka_unit_test(large_directories),
           cmocka_unit_test(deep_trees), cmocka_unit_test(delete_all_leaves_the_rest),
           cmocka_unit_test(check_and_counts), cmocka_unit_test(directories_come_and_go),
           cmocka_unit_test(pool_does_all_of_it), cmocka_unit_test(pool_closes_in_the_middle))
