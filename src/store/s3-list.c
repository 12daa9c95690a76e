// SPDX-License-Identifier: Apache-2.0
// Lists, a page at a time, and what is done with all of one. What a store answers is not believed:
// keys are checked, and have to come in order, so that no list goes on for ever.
#include "store/s3-list.h"

#include <errno.h>
#include <limits.h>
#include <openssl/evp.h>
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
    DELETE_MAX = 1000,
    DELETE_BODY_MAX = DELETE_MAX * (STORE_KEY_MAX * 5 + 64),
    IDLE_PAGES_MAX = 1000, // one after the other that have nothing of ours
};

// --- a page ---

void s3_page_done(struct s3_page *page)
{
    for (unsigned i = 0; i < page->n; i++)
        free(page->items[i].key);
    free(page->items);
    free(page->token);
    *page = (struct s3_page){0};
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

// In place; false: it is not encoded.
static bool decode(char *text)
{
    char *to = text;
    for (const char *p = text; *p != '\0'; p++) {
        if (*p != '%') {
            *to++ = *p == '+' ? ' ' : *p;
            continue;
        }
        int high = hex(p[1]), low = high >= 0 ? hex(p[2]) : -1;
        if (low < 0 || high + low == 0)
            return false;
        *to++ = (char)(high << 4 | low);
        p += 2;
    }
    *to = '\0';
    return true;
}

static int end_item(struct s3_page *page)
{
    if (page->n == page->cap) {
        unsigned cap = page->cap == 0 ? 64 : 2 * page->cap;
        struct s3_item *items = reallocarray(page->items, cap, sizeof *items);
        if (items == NULL)
            return -ENOMEM;
        page->items = items;
        page->cap = cap;
    }
    if (page->n == S3_LIST_MAX || page->item.key == NULL || !page->item_has_size) {
        free(page->item.key);
        page->item = (struct s3_item){0};
        return -EBADMSG;
    }
    page->items[page->n++] = page->item;
    page->item = (struct s3_item){0};
    page->item_has_size = false;
    return 0;
}

static int set(char **at, const char *text)
{
    free(*at);
    *at = strdup(text);
    return *at != NULL ? 0 : -ENOMEM;
}

static int on_item(struct s3_page *page, const char *name, const char *text)
{
    struct err ignored;
    if (strcmp(name, "Key") == 0)
        return set(&page->item.key, text);
    if (strcmp(name, "LastModified") == 0 &&
        when_parse(text, &page->item.modified_ms, &ignored) < 0)
        page->item.modified_ms = 0;
    if (strcmp(name, "Size") == 0) {
        page->item_has_size = parse_u64(text, 0, INT64_MAX, &page->item.size, &ignored) == 0;
        return page->item_has_size ? 0 : -EBADMSG;
    }
    return 0;
}

static int on_element(void *data, const char *path, const char *text)
{
    static const char root[] = "ListBucketResult", item[] = "ListBucketResult/Contents";
    struct s3_page *page = data;
    if (strcmp(path, item) == 0)
        return end_item(page);
    if (strncmp(path, item, strlen(item)) == 0 && path[strlen(item)] == '/')
        return on_item(page, path + strlen(item) + 1, text);
    page->is_list |= strcmp(path, root) == 0;
    if (strcmp(path, "ListBucketResult/IsTruncated") == 0)
        page->has_more = strcmp(text, "true") == 0;
    if (strcmp(path, "ListBucketResult/EncodingType") == 0)
        page->is_encoded = strcmp(text, "url") == 0;
    return strcmp(path, "ListBucketResult/NextContinuationToken") == 0 ? set(&page->token, text)
                                                                       : 0;
}

int s3_page_read(struct s3_page *page, const char *text, size_t len)
{
    int r = xml_read(text, len, on_element, page);
    free(page->item.key); // of one that did not end
    page->item = (struct s3_item){0};
    if (r == 0 && (!page->is_list || (page->has_more && page->token == NULL)))
        r = -EBADMSG;
    for (unsigned i = 0; r == 0 && page->is_encoded && i < page->n; i++)
        r = decode(page->items[i].key) ? 0 : -EBADMSG;
    return r;
}

// --- the list ---

struct listing {
    struct s3 *s3;
    const char *after;
    unsigned left; // UINT_MAX: all
    store_list_fn fn;
    void *data;
    char full[2 * STORE_KEY_MAX + 2], start[2 * STORE_KEY_MAX + 2]; // with the store's own prefix
    char *token, last[STORE_KEY_MAX + 1];
    unsigned idle; // pages since the last key
    bool stopped;
};

static int ask(struct listing *l, struct s3_page *page, struct err *err)
{
    auto_s3_call call;
    char max[16];
    (void)snprintf(max, sizeof max, "%u", l->left < l->s3->page ? l->left : l->s3->page);
    s3_call_init(&call, "GET", NULL);
    if (l->token != NULL)
        s3_call_param(&call, "continuation-token", l->token);
    s3_call_param(&call, "encoding-type", "url");
    s3_call_param(&call, "list-type", "2");
    s3_call_param(&call, "max-keys", max);
    s3_call_param(&call, "prefix", l->full);
    if (l->token == NULL && l->after != NULL)
        s3_call_param(&call, "start-after", l->start);
    if (s3_perform(l->s3, &call, err) < 0)
        return -1;
    int r = s3_page_read(page, buf_str(&call.answer), call.answer.len);
    if (r == -ENOMEM)
        return err_sys(err, ENOMEM, "list the store");
    return r < 0 ? err_set(err, ERR_UNAVAILABLE, "the store's list makes no sense") : 0;
}

static int tell(struct listing *l, const struct s3_item *item, struct err *err)
{
    size_t own = strlen(l->s3->prefix);
    const char *key = item->key + own;
    // What others have put there, such as the "folders" of consoles, is not ours.
    if (strncmp(item->key, l->full, strlen(l->full)) != 0 || !store_key_valid(key) ||
        (l->after != NULL && strcmp(key, l->after) <= 0))
        return 0;
    if (strcmp(key, l->last) <= 0)
        return err_set(err, ERR_UNAVAILABLE, "the store's list is not in the order of its keys");
    (void)snprintf(l->last, sizeof l->last, "%s", key);
    l->idle = 0;
    const struct store_listed object = {
        .key = key, .size = item->size, .modified_ms = item->modified_ms};
    l->stopped = l->fn(l->data, &object) != 0;
    if (l->left != UINT_MAX)
        l->stopped |= --l->left == 0;
    return 0;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct s3_item *)a)->key, ((const struct s3_item *)b)->key);
}

// Some stores compare words of UTF-16, or file names: then a page is put in order here.
static int next_page(struct listing *l, struct err *err)
{
    struct s3_page page = {0};
    int r = ask(l, &page, err);
    l->idle++;
    if (page.n > 0)
        qsort(page.items, page.n, sizeof *page.items, by_key);
    for (unsigned i = 0; r == 0 && !l->stopped && i < page.n; i++)
        r = tell(l, &page.items[i], err);
    // A page without keys that has another one after it, for ever the same or ever another one.
    bool is_same =
        page.n == 0 && l->token != NULL && page.token != NULL && strcmp(l->token, page.token) == 0;
    if (r == 0 && page.has_more && (is_same || l->idle >= IDLE_PAGES_MAX))
        r = err_set(err, ERR_UNAVAILABLE, "the store's list does not go on");
    l->stopped |= !page.has_more;
    free(l->token);
    l->token = page.token;
    page.token = NULL;
    s3_page_done(&page);
    return r;
}

int s3_list(void *driver, const char *prefix, const char *after, unsigned max, store_list_fn fn,
            void *data, struct err *err)
{
    struct s3 *s3 = driver;
    struct listing l = {.s3 = s3, .after = after, .fn = fn, .data = data};
    l.left = max == 0 ? UINT_MAX : max;
    (void)snprintf(l.full, sizeof l.full, "%s%s", s3->prefix, prefix);
    (void)snprintf(l.start, sizeof l.start, "%s%s", s3->prefix, after != NULL ? after : "");
    int r = 0;
    while (r == 0 && !l.stopped)
        r = next_page(&l, err);
    free(l.token);
    return r;
}

// --- all of one ---

struct batch {
    struct s3 *s3;
    struct buf body;
    char *keys[DELETE_MAX];
    unsigned n;
};

static void append_escaped(struct buf *to, const char *text)
{
    for (; *text != '\0'; text++) {
        const char *as = *text == '&'   ? "&amp;"
                         : *text == '<' ? "&lt;"
                         : *text == '>' ? "&gt;"
                                        : NULL;
        if (as != NULL)
            (void)buf_append_str(to, as);
        else
            (void)buf_append_char(to, *text);
    }
}

static int add_to_batch(void *data, const struct store_listed *object)
{
    struct batch *batch = data;
    batch->keys[batch->n] = strdup(object->key);
    if (batch->keys[batch->n] == NULL)
        abort();
    batch->n++;
    (void)buf_append_str(&batch->body, "<Object><Key>");
    append_escaped(&batch->body, batch->s3->prefix);
    append_escaped(&batch->body, object->key);
    (void)buf_append_str(&batch->body, "</Key></Object>");
    return 0;
}

struct deleted {
    bool is_result, failed;
};

static int on_deleted(void *data, const char *path, const char *text)
{
    (void)text;
    struct deleted *deleted = data;
    deleted->failed |= strcmp(path, "DeleteResult/Error") == 0;
    deleted->is_result |= strcmp(path, "DeleteResult") == 0;
    return 0;
}

static int delete_together(struct batch *batch, struct err *err)
{
    unsigned char md5[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    struct deleted deleted = {0};
    auto_buf sum;
    auto_s3_call call;
    buf_init(&sum, 64);
    s3_call_init(&call, "POST", NULL);
    if (batch->body.failed < 0 ||
        EVP_Digest(batch->body.data, batch->body.len, md5, &len, EVP_md5(), NULL) != 1 ||
        base64_append(&sum, md5, len) < 0)
        return err_set(err, ERR_UNSUPPORTED, "no MD5 here"); // as some machines are set up
    s3_call_param(&call, "delete", "");
    s3_call_header(&call, "content-md5", buf_str(&sum));
    call.body = batch->body.data;
    call.body_len = batch->body.len;
    if (s3_perform(batch->s3, &call, err) < 0)
        return -1;
    if (xml_read(buf_str(&call.answer), call.answer.len, on_deleted, &deleted) < 0 ||
        !deleted.is_result || deleted.failed)
        return err_set(err, ERR_UNSUPPORTED, "some could not be deleted"); // which, is seen singly
    return 0;
}

static int delete_singly(struct batch *batch, struct err *err)
{
    int r = 0;
    for (unsigned i = 0; r == 0 && i < batch->n; i++) {
        auto_s3_call call;
        s3_call_init(&call, "DELETE", batch->keys[i]);
        r = s3_perform(batch->s3, &call, err);
        if (r == 0)
            r = s3_check_deleted(&call, err);
        if (r < 0 && err->code == ERR_NOT_FOUND)
            r = 0;
    }
    return r;
}

// 1: there may be more.
static int delete_batch(struct s3 *s3, const char *prefix, struct batch *batch, struct err *err)
{
    buf_reset(&batch->body);
    (void)buf_append_str(&batch->body, "<Delete><Quiet>true</Quiet>");
    int r = s3_list(s3, prefix, NULL, DELETE_MAX, add_to_batch, batch, err);
    (void)buf_append_str(&batch->body, "</Delete>");
    if (r == 0 && batch->n > 0) {
        r = delete_together(batch, err);
        if (r < 0 && err->code != ERR_UNAVAILABLE && err->code != ERR_DENIED)
            r = delete_singly(batch, err);
    }
    if (r == 0 && batch->n > 0)
        r = 1;
    for (; batch->n > 0; batch->n--)
        free(batch->keys[batch->n - 1]);
    return r;
}

// Until a list finds none: some stores' lists are behind.
int s3_remove_all(void *driver, const char *prefix, struct err *err)
{
    enum { ROUNDS_MAX = 100000 };
    auto_free struct batch *batch = calloc(1, sizeof *batch);
    if (batch == NULL)
        return err_sys(err, ENOMEM, "delete from the store");
    batch->s3 = driver;
    buf_init(&batch->body, DELETE_BODY_MAX);
    int r = 1;
    for (unsigned i = 0; r == 1 && i < ROUNDS_MAX; i++)
        r = delete_batch(driver, prefix, batch, err);
    buf_done(&batch->body);
    return r;
}
