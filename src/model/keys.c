// SPDX-License-Identifier: Apache-2.0
// What is stored of a renewed token: {"from", "access_token", "refresh_token", "expires_at"}, the
// last in milliseconds since 1970, 0 when nobody said. "from" is a hash of what was configured:
// somebody who configures another token does not get the successors of the one before.
#include "model/keys.h"

#include <assert.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json-in.h"
#include "base/json.h"
#include "base/mem.h"
#include "model/fault.h"
#include "model/fetch.h"
#include "model/message.h"
#include "model/model-internal.h"

enum {
    RENEW_BEFORE_MS = 60 * 1000,
    RENEW_TIMEOUT_MS = 30 * 1000,
    FAILED_FOR_MS = 3000, // who asks so soon after a renewal that failed gets the same answer
    ANSWER_MAX = 64 * 1024,
    TOKEN_MAX = 16 * 1024,
    CLIENT_MAX = 1024,
    FROM_BYTES = 16,
};

struct waiting {
    struct waiting *next;
    model_keys_fn fn;
    void *data;
};

struct model_keys {
    struct model_keys_config config; // texts: see below
    struct model_access access;      // header NULL: there is no token yet
    char *refresh, *token_url, *client_id;
    char from[2 * FROM_BYTES + 1];
    int64_t expires_ms; // 0: unknown
    bool is_refused;
    struct err failure; // of the last renewal
    int64_t failed_ns;
    struct fetch *fetch; // a renewal is under way
    char *body;
    struct buf answer;
    struct waiting *first, **end;
};

static void wipe(char **text)
{
    if (*text != NULL)
        sodium_memzero(*text, strlen(*text));
    free(*text);
    *text = NULL;
}

static void set_header(struct model_keys *keys, const char *name, const char *value)
{
    wipe(&keys->access.header);
    if (asprintf(&keys->access.header, "%s%s", name, value) < 0)
        abort();
}

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / NS_PER_MS;
}

static bool is_set(const char *text)
{
    return text != NULL && *text != '\0';
}

// Goes into a line of a head.
static bool is_token(const char *text)
{
    if (!is_set(text) || strlen(text) > TOKEN_MAX)
        return false;
    for (; *text != '\0'; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

// --- what is stored

static void make_from(struct model_keys *keys, const struct model_keys_config *config)
{
    unsigned char hash[FROM_BYTES];
    crypto_generichash_state state;
    (void)crypto_generichash_init(&state, NULL, 0, sizeof hash);
    const char *const parts[] = {config->auth_token, config->refresh_token};
    for (unsigned i = 0; i < 2; i++)
        if (parts[i] != NULL)
            (void)crypto_generichash_update(&state, (const unsigned char *)parts[i],
                                            strlen(parts[i]) + 1);
    (void)crypto_generichash_final(&state, hash, sizeof hash);
    (void)sodium_bin2hex(keys->from, sizeof keys->from, hash, sizeof hash);
}

// The texts of a document that were tokens go before its memory does.
static void wipe_node(const struct json_node *node)
{
    if (json_is(node, JSON_NODE_STRING))
        sodium_memzero((void *)(uintptr_t)node->text, node->text_len);
}

static void wipe_tokens(const struct json_node *root)
{
    wipe_node(json_get(root, "access_token"));
    wipe_node(json_get(root, "refresh_token"));
}

static void take_tokens(struct model_keys *keys, const struct json_node *root, int64_t expires_ms)
{
    const char *refresh = json_text(json_get(root, "refresh_token"));
    set_header(keys, "authorization: Bearer ", json_text(json_get(root, "access_token")));
    if (is_token(refresh)) {
        wipe(&keys->refresh);
        keys->refresh = mem_copy_text(refresh);
    }
    keys->expires_ms = expires_ms;
    keys->is_refused = false;
}

static void load_state(struct model_keys *keys, const char *state)
{
    auto_json_doc *doc = NULL;
    struct err err = {0};
    if (!is_set(state) || json_read(state, strlen(state), &doc, &err) < 0)
        return;
    const struct json_node *root = json_root(doc);
    const char *from = json_text(json_get(root, "from"));
    if (from != NULL && strcmp(from, keys->from) == 0 &&
        is_token(json_text(json_get(root, "access_token"))))
        take_tokens(keys, root, json_int(json_get(root, "expires_at"), 0));
    wipe_tokens(root);
}

static void put(struct json *json, const char *key, const char *value)
{
    json_key(json, key);
    json_put_str(json, value);
}

static void save_state(struct model_keys *keys)
{
    struct buf text;
    struct json json;
    char *at = NULL;
    size_t room = 0;
    if (keys->config.save == NULL)
        return;
    buf_init(&text, 4 * TOKEN_MAX);
    (void)buf_reserve(&text, 4 * TOKEN_MAX, &at, &room); // so that it leaves no copies behind
    json_init(&json, &text);
    json_open_object(&json);
    put(&json, "from", keys->from);
    put(&json, "access_token", strrchr(keys->access.header, ' ') + 1);
    put(&json, "refresh_token", keys->refresh);
    json_key(&json, "expires_at");
    json_put_int(&json, keys->expires_ms);
    json_close_object(&json);
    if (json_finish(&json) == 0)
        keys->config.save(keys->config.data, buf_str(&text));
    if (text.data != NULL)
        sodium_memzero(text.data, text.len);
    buf_done(&text);
}

// --- renewing

// Whoever is told may do anything, also close us: nothing of ours is looked at on the way.
static void tell_waiting(struct model_keys *keys, const struct err *err)
{
    struct waiting *list = keys->first;
    struct model_access access = {0};
    struct err failure = {0};
    keys->first = NULL;
    keys->end = &keys->first;
    if (err != NULL)
        failure = *err;
    else
        (void)model_access_copy(&keys->access, &access);
    while (list != NULL) {
        struct waiting *one = list;
        list = one->next;
        one->fn(one->data, err == NULL ? &access : NULL, err != NULL ? &failure : NULL);
        free(one);
    }
    model_access_done(&access);
}

static bool is_expired(const struct model_keys *keys, int64_t before_ms)
{
    return keys->expires_ms != 0 && keys->expires_ms - now_ms() < before_ms;
}

// Whether it may be used as it is, if need be.
static bool is_usable(const struct model_keys *keys)
{
    return keys->access.header != NULL && !keys->is_refused && !is_expired(keys, 0);
}

static void drop_renewal(struct model_keys *keys)
{
    fetch_free(keys->fetch);
    keys->fetch = NULL;
    wipe(&keys->body);
    if (keys->answer.data != NULL)
        sodium_memzero(keys->answer.data, keys->answer.len);
    buf_done(&keys->answer);
}

static void end_renewal(struct model_keys *keys, const struct err *err)
{
    drop_renewal(keys);
    if (err != NULL) {
        keys->failure = *err;
        keys->failed_ns = clock_ns();
    }
    tell_waiting(keys, is_usable(keys) ? NULL : err);
}

static int take_answer(struct model_keys *keys, struct err *err)
{
    auto_json_doc *doc = NULL;
    struct err bad = {0};
    int r = -1;
    if (json_read(buf_str(&keys->answer), keys->answer.len, &doc, &bad) < 0)
        return err_set(err, ERR_UNAVAILABLE, "renewing the token: the answer is not JSON");
    const struct json_node *root = json_root(doc);
    int64_t seconds = json_int(json_get(root, "expires_in"), 0);
    if (is_token(json_text(json_get(root, "access_token")))) {
        bool is_told = seconds > 0 && seconds < INT32_MAX;
        take_tokens(keys, root, is_told ? now_ms() + seconds * 1000 : 0);
        r = 0;
    } else {
        (void)err_set(err, ERR_UNAVAILABLE, "renewing the token: the answer has no access_token");
    }
    wipe_tokens(root);
    return r;
}

static void set_refusal(struct model_keys *keys, unsigned status, struct err *err)
{
    struct api_error error = {0};
    (void)api_error_read(buf_str(&keys->answer), keys->answer.len, &error);
    fault_hide_secret(error.message, keys->refresh);
    fault_hide_secret(error.type, keys->refresh);
    if (keys->access.header != NULL)
        fault_hide(error.message, keys->access.header);
    // A server in trouble may take it later; one that knows it no longer will not.
    (void)err_set(err, status >= 500 || status == 429 ? ERR_UNAVAILABLE : ERR_DENIED,
                  "renewing the token: HTTP %u %s %s", status, error.type, error.message);
}

static void on_bytes(void *data, const char *bytes, size_t len)
{
    struct model_keys *keys = data;
    (void)buf_append(&keys->answer, bytes, len);
}

static void on_end(void *data, const struct fetch_end *end)
{
    struct model_keys *keys = data;
    unsigned status = fetch_head(keys->fetch)->status;
    struct err err = {0};
    int r = -1;
    if (!end->is_whole)
        (void)err_set(&err, ERR_UNAVAILABLE, "renewing the token: %s", end->why);
    else if (status != 200)
        set_refusal(keys, status, &err);
    else if (keys->answer.failed != 0)
        (void)err_set(&err, ERR_UNAVAILABLE, "renewing the token: the answer is too long");
    else
        r = take_answer(keys, &err);
    if (r == 0)
        save_state(keys);
    end_renewal(keys, r == 0 ? NULL : &err);
}

static void make_body(struct model_keys *keys)
{
    struct buf text;
    struct json json;
    char *at = NULL;
    size_t room = 0;
    buf_init(&text, 4 * TOKEN_MAX);
    (void)buf_reserve(&text, 4 * TOKEN_MAX, &at, &room);
    json_init(&json, &text);
    json_open_object(&json);
    put(&json, "grant_type", "refresh_token");
    put(&json, "refresh_token", keys->refresh);
    if (is_set(keys->client_id))
        put(&json, "client_id", keys->client_id);
    json_close_object(&json);
    if (json_finish(&json) < 0)
        abort();
    keys->body = text.data; // with room for more, but only this is written
}

static void renew(struct model_keys *keys)
{
    static const struct fetch_ops ops = {on_bytes, on_end};
    static const char *const headers[] = {"content-type: application/json",
                                          "accept: application/json", NULL};
    char *at = NULL;
    size_t room = 0;
    make_body(keys);
    const struct fetch_request request = {
        .url = keys->token_url,
        .headers = headers,
        .body = keys->body,
        .body_len = strlen(keys->body),
        .timeout_ms = RENEW_TIMEOUT_MS,
    };
    buf_init(&keys->answer, ANSWER_MAX);
    (void)buf_reserve(&keys->answer, ANSWER_MAX, &at, &room);
    keys->fetch = fetch_start(model_web(keys->config.model), &request, &ops, keys);
}

// --- asking

static bool can_renew(const struct model_keys *keys)
{
    return keys->refresh != NULL && is_set(keys->token_url);
}

static bool should_renew(const struct model_keys *keys)
{
    return can_renew(keys) &&
           (keys->access.header == NULL || keys->is_refused || is_expired(keys, RENEW_BEFORE_MS));
}

static bool has_just_failed(const struct model_keys *keys)
{
    return keys->failed_ns != 0 && clock_ns() - keys->failed_ns < FAILED_FOR_MS * NS_PER_MS;
}

static void wait_for_renewal(struct model_keys *keys, model_keys_fn fn, void *data)
{
    struct waiting *one = calloc(1, sizeof *one);
    if (one == NULL)
        abort();
    *one = (struct waiting){.fn = fn, .data = data};
    *keys->end = one;
    keys->end = &one->next;
    if (keys->fetch == NULL)
        renew(keys);
}

void model_keys_get(struct model_keys *keys, model_keys_fn fn, void *data)
{
    struct err err = {0};
    if (!model_keys_has_any(keys)) {
        (void)err_set(&err, ERR_NOT_FOUND, "there is no key for the Messages API");
        fn(data, NULL, &err);
    } else if (!should_renew(keys) || (has_just_failed(keys) && is_usable(keys))) {
        struct model_access access;
        (void)model_access_copy(&keys->access, &access);
        fn(data, &access, NULL);
        model_access_done(&access);
    } else if (has_just_failed(keys) && keys->fetch == NULL) {
        err = keys->failure;
        fn(data, NULL, &err);
    } else {
        wait_for_renewal(keys, fn, data);
    }
}

bool model_keys_refused(struct model_keys *keys, const struct model_access *access)
{
    if (keys == NULL || !can_renew(keys) || access->header == NULL)
        return false;
    // If it is another one by now, that one is worth a try.
    if (keys->access.header != NULL && strcmp(keys->access.header, access->header) == 0)
        keys->is_refused = true;
    return true;
}

bool model_keys_has_any(const struct model_keys *keys)
{
    return keys != NULL && (keys->access.header != NULL || can_renew(keys));
}

// --- opening and closing

static int check(const struct model_keys_config *config, struct err *err)
{
    const struct {
        const char *name, *value;
    } all[] = {
        {"API key",       config->api_key      },
        {"token",         config->auth_token   },
        {"refresh token", config->refresh_token},
    };
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        if (is_set(all[i].value) && !is_token(all[i].value))
            return err_set(err, ERR_INVALID,
                           "the %s for the Messages API has characters that none has", all[i].name);
    if (config->client_id != NULL && strlen(config->client_id) > CLIENT_MAX)
        return err_set(err, ERR_INVALID, "the client id for renewing tokens is too long");
    if (is_set(config->refresh_token) && !is_set(config->api_key) && !is_set(config->token_url))
        return err_set(err, ERR_INVALID,
                       "a refresh token for the Messages API needs the address that renews it");
    return 0;
}

int model_keys_open(const struct model_keys_config *config, struct model_keys **ret,
                    struct err *err)
{
    if (check(config, err) < 0)
        return -1;
    struct model_keys *keys = calloc(1, sizeof *keys);
    if (keys == NULL)
        abort();
    keys->config = (struct model_keys_config){
        .model = config->model, .save = config->save, .data = config->data};
    keys->end = &keys->first;
    keys->access.base_url = mem_copy_text(config->base_url);
    if (is_set(config->api_key)) {
        set_header(keys, "x-api-key: ", config->api_key);
    } else {
        if (is_set(config->auth_token))
            set_header(keys, "authorization: Bearer ", config->auth_token);
        if (is_set(config->refresh_token))
            keys->refresh = mem_copy_text(config->refresh_token);
        keys->token_url = mem_copy_text(config->token_url);
        keys->client_id = mem_copy_text(config->client_id);
        make_from(keys, config);
        if (keys->refresh != NULL)
            load_state(keys, config->state);
    }
    *ret = keys;
    return 0;
}

void model_keys_close(struct model_keys *keys)
{
    struct err err = {0};
    if (keys == NULL)
        return;
    (void)err_set(&err, ERR_UNAVAILABLE, "the server is stopping");
    drop_renewal(keys);
    tell_waiting(keys, &err);
    model_access_done(&keys->access);
    wipe(&keys->refresh);
    free(keys->token_url);
    free(keys->client_id);
    free(keys);
}
