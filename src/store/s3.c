// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/text.h"
#include "base/when.h"
#include "store/s3-internal.h"
#include "store/s3-xml.h"

enum {
    PART = 8 * 1024 * 1024,
    PART_LEAST = 64 * 1024, // stores want 5 MiB; tests' stores do not
    TRIES = 5,
    PATIENCE_MS = 30000,
    FIELD_MAX = 128, // of what is signed
};

// --- delete ---

int s3_check_deleted(const struct s3_call *call, struct err *err)
{
    return call->status == 204 ? 0 : s3_say_no_s3(err);
}

// The store does not say whether it was there: it is asked before.
static int s3_remove(void *driver, const char *key, struct err *err)
{
    struct store_info info;
    auto_s3_call call;
    int there = s3_head(driver, key, &info, err);
    if (there <= 0)
        return there;
    s3_call_init(&call, "DELETE", key);
    if (s3_perform(driver, &call, err) < 0)
        return err->code == ERR_NOT_FOUND ? 0 : -1;
    return s3_check_deleted(&call, err) < 0 ? -1 : 1;
}

// --- uploads of those who died ---

struct upload {
    char key[STORE_KEY_MAX + 1], id[1024];
    int64_t began_ms;
};

struct uploads {
    struct upload *items;
    struct upload now;
    unsigned n;
};

enum { UPLOADS_MAX = 100, OLD_MS = 24 * 3600 * 1000 };

static int on_upload(void *data, const char *path, const char *text)
{
    static const char item[] = "ListMultipartUploadsResult/Upload";
    struct uploads *uploads = data;
    struct upload *now = &uploads->now;
    struct err ignored;
    if (strncmp(path, item, strlen(item)) != 0)
        return 0;
    const char *name = path + strlen(item);
    if (strcmp(name, "/Key") == 0 && strlen(text) < sizeof now->key) {
        (void)snprintf(now->key, sizeof now->key, "%s", text);
    } else if (strcmp(name, "/UploadId") == 0 && strlen(text) < sizeof now->id) {
        (void)snprintf(now->id, sizeof now->id, "%s", text);
    } else if (strcmp(name, "/Initiated") == 0) {
        if (when_parse(text, &now->began_ms, &ignored) < 0)
            now->began_ms = INT64_MAX;
    } else if (*name == '\0') {
        if (uploads->n < UPLOADS_MAX && now->key[0] != '\0' && now->id[0] != '\0' &&
            now->began_ms > 0)
            uploads->items[uploads->n++] = *now;
        *now = (struct upload){0};
    }
    return 0;
}

// A store that does not know how to list them has none to show.
int s3_abort_old(void *driver, struct err *err)
{
    struct s3 *s3 = driver;
    auto_free struct upload *items = calloc(UPLOADS_MAX, sizeof *items);
    auto_free struct uploads *uploads = calloc(1, sizeof *uploads);
    auto_s3_call call;
    struct err ignored;
    s3_call_init(&call, "GET", NULL);
    s3_call_param(&call, "prefix", s3->prefix);
    s3_call_param(&call, "uploads", "");
    if (items == NULL || uploads == NULL)
        return err_sys(err, ENOMEM, "check the store");
    uploads->items = items;
    if (s3_perform(s3, &call, &ignored) < 0 ||
        xml_read(buf_str(&call.answer), call.answer.len, on_upload, uploads) < 0)
        return 0;
    int64_t old = (int64_t)time(NULL) * 1000 - OLD_MS;
    for (unsigned i = 0; i < uploads->n; i++) {
        const char *key = items[i].key + strlen(s3->prefix);
        bool ours = strncmp(items[i].key, s3->prefix, strlen(s3->prefix)) == 0;
        if (ours && items[i].began_ms < old && store_key_valid(key))
            s3_abort(s3, key, items[i].id);
    }
    return 0;
}

// --- opening ---

static void s3_close(void *driver)
{
    struct s3 *s3 = driver;
    for (unsigned i = 0; i < s3->n_idle; i++)
        curl_easy_cleanup(s3->idle[i]);
    (void)pthread_mutex_destroy(&s3->lock);
    explicit_bzero(s3->secret_key, strlen(s3->secret_key));
    explicit_bzero(s3->access_key, strlen(s3->access_key));
    char *const owned[] = {s3->origin, s3->host,       s3->base,       s3->bucket, s3->region,
                           s3->prefix, s3->access_key, s3->secret_key, s3->ca_file};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
    free(s3);
}

static bool is_word(const char *text, const char *allowed)
{
    size_t len = strnlen(text, FIELD_MAX + 1);
    if (len == 0 || len > FIELD_MAX)
        return false;
    for (const char *p = text; *p != '\0'; p++) {
        bool alnum =
            (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');
        if (!alnum && strchr(allowed, *p) == NULL)
            return false;
    }
    return true;
}

// They go into headers, so nothing that ends one.
static bool is_credential(const char *text)
{
    size_t len = strnlen(text, FIELD_MAX + 1);
    for (const char *p = text; *p != '\0'; p++) {
        if (*p <= ' ' || *p >= 0x7f)
            return false;
    }
    return len > 0 && len <= FIELD_MAX;
}

static int check_prefix(const char *prefix, struct err *err)
{
    char key[STORE_KEY_MAX + 2];
    size_t len = strnlen(prefix, STORE_KEY_MAX / 2);
    (void)snprintf(key, sizeof key, "%sx", prefix);
    if (len == STORE_KEY_MAX / 2 || !store_key_valid(key))
        return err_set(err, ERR_INVALID, "s3-prefix: '%.80s' is no beginning of a key", prefix);
    return 0;
}

static int check_config(const struct store_s3 *config, struct err *err)
{
    if (strncmp(config->endpoint, "http://", 7) != 0 &&
        strncmp(config->endpoint, "https://", 8) != 0)
        return err_set(err, ERR_INVALID,
                       "s3-endpoint: it begins with neither http:// nor https://");
    if (strpbrk(config->endpoint, "?#@ ") != NULL)
        return err_set(err, ERR_INVALID, "s3-endpoint: it has a user, a query or a fragment");
    if (!is_word(config->bucket, "-._"))
        return err_set(err, ERR_INVALID, "s3-bucket: '%.80s' is no name for a bucket",
                       config->bucket);
    if (!is_word(config->region, "-_"))
        return err_set(err, ERR_INVALID, "s3-region: '%.80s' is no region", config->region);
    if (!is_credential(config->access_key))
        return err_set(err, ERR_INVALID, "s3-access-key: it is not set, or holds what no key does");
    if (!is_credential(config->secret_key))
        return err_set(err, ERR_INVALID, "s3-secret-key: it is not set, or holds what no key does");
    return check_prefix(config->prefix, err);
}

static char *print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static char *print(const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0)
        abort();
    return text;
}

// "https://host:port/path" is cut up; a path of the endpoint's own comes before the bucket.
static void set_address(struct s3 *s3, const struct store_s3 *config)
{
    const char *host = strstr(config->endpoint, "://") + 3;
    int scheme = (int)(host - config->endpoint), host_len = (int)strcspn(host, "/");
    const char *path = host + host_len;
    int path_len = (int)strlen(path);
    while (path_len > 0 && path[path_len - 1] == '/')
        path_len--;
    s3->host = config->host_style ? print("%s.%.*s", config->bucket, host_len, host)
                                  : print("%.*s", host_len, host);
    s3->origin = print("%.*s%s", scheme, config->endpoint, s3->host);
    s3->base = config->host_style ? print("%.*s", path_len, path)
                                  : print("%.*s/%s", path_len, path, config->bucket);
}

// What is signed is what libcurl sends, which leaves out a port that goes without saying.
static void cut_default_port(struct s3 *s3)
{
    const char *port = strncmp(s3->origin, "https:", 6) == 0 ? ":443" : ":80";
    size_t len = strlen(s3->host), n = strlen(port);
    if (len > n && strcmp(s3->host + len - n, port) == 0)
        s3->host[len - n] = '\0';
}

int store_s3_open(const struct store_s3 *config, struct store_tally *tally, void **ret,
                  struct err *err)
{
    if (check_config(config, err) < 0)
        return -1;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) // counted by libcurl
        return err_set(err, ERR_INTERNAL, "libcurl cannot be set up");
    struct s3 *s3 = calloc(1, sizeof *s3);
    if (s3 == NULL)
        return err_sys(err, ENOMEM, "open the store");
    (void)pthread_mutex_init(&s3->lock, NULL);
    set_address(s3, config);
    cut_default_port(s3);
    s3->bucket = mem_copy_text(config->bucket);
    s3->region = mem_copy_text(config->region);
    s3->prefix = mem_copy_text(config->prefix);
    s3->access_key = mem_copy_text(config->access_key);
    s3->secret_key = mem_copy_text(config->secret_key);
    s3->ca_file = mem_copy_text(config->ca_file != NULL ? config->ca_file : "");
    s3->part = config->part == 0 ? PART : config->part < PART_LEAST ? PART_LEAST : config->part;
    s3->page = config->page > 0 && config->page < S3_LIST_MAX ? config->page : S3_LIST_MAX;
    s3->tries = config->tries > 0 ? config->tries : TRIES;
    s3->patience_ms = config->patience_ms > 0 ? config->patience_ms : PATIENCE_MS;
    s3->tally = tally;
    *ret = s3;
    return 0;
}

const struct store_driver store_s3 = {
    .kind = "s3",
    .close = s3_close,
    .check = s3_abort_old,
    .put = s3_put,
    .get = s3_get,
    .head = s3_head,
    .remove = s3_remove,
    .list = s3_list,
    .remove_all = s3_remove_all,
};
