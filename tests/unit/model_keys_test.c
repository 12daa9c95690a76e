// SPDX-License-Identifier: Apache-2.0
// The installation's credential: keys, tokens, tokens that are renewed.
#include <time.h>

#include "base/json-in.h"
#include "model/keys.h"
#include "model_kit.h"

struct got {
    unsigned n;
    char header[128], url[128];
    enum err_code code;
    char message[240];
};

static char saved[4096];
static unsigned n_saved;

static void on_key(void *data, const struct model_access *access, const struct err *err)
{
    struct got *got = data;
    assert_true((access != NULL) != (err != NULL));
    got->n++;
    got->code = err != NULL ? err->code : ERR_NONE;
    KIT_COPY(got->message, err != NULL ? err->msg : "");
    KIT_COPY(got->header, access != NULL ? access->header : "");
    KIT_COPY(got->url, access != NULL ? access->base_url : "");
    assert_true(access == NULL || !access->guarded);
}

static void on_save(void *data, const char *state)
{
    (void)data;
    n_saved++;
    KIT_COPY(saved, state);
}

struct setup {
    struct kit kit;
    char token_url[80];
    struct model_keys_config config;
};

static void set_up(struct setup *s)
{
    kit_open(&s->kit);
    (void)snprintf(s->token_url, sizeof s->token_url, "%s/oauth/token", s->kit.url);
    s->config = (struct model_keys_config){
        .model = s->kit.model,
        .base_url = "https://api.example",
        .api_key = "",
        .auth_token = "",
        .refresh_token = "",
        .token_url = s->token_url,
        .client_id = "client-1",
        .save = on_save,
    };
    n_saved = 0;
    *saved = '\0';
}

static struct model_keys *open_keys(const struct setup *s)
{
    struct model_keys *keys = NULL;
    struct err err = {0};
    assert_int_equal(model_keys_open(&s->config, &keys, &err), 0);
    return keys;
}

static void get(struct setup *s, struct model_keys *keys, struct got *got)
{
    *got = (struct got){0};
    model_keys_get(keys, on_key, got);
    (void)uv_run(&s->kit.loop, UV_RUN_DEFAULT);
    assert_int_equal(got->n, 1);
}

static void add_json(struct setup *s, char **ret, const char *status, const char *body)
{
    char head[128];
    (void)snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Type: application/json\r\n", status);
    *ret = kit_answer(head, body);
    kit_add(&s->kit.server, *ret);
}

CHECK_CASE(test_fixed)
{
    struct setup s;
    struct got got = {0};
    set_up(&s);
    struct model_keys *keys = open_keys(&s);
    assert_false(model_keys_has_any(keys));
    assert_false(model_keys_has_any(NULL));
    model_keys_get(keys, on_key, &got);
    assert_int_equal(got.code, ERR_NOT_FOUND);
    model_keys_close(keys);

    s.config.auth_token = "token-1";
    keys = open_keys(&s);
    assert_true(model_keys_has_any(keys));
    model_keys_get(keys, on_key, &got);
    assert_string_equal(got.header, "authorization: Bearer token-1");
    assert_string_equal(got.url, "https://api.example");
    const struct model_access access = {.header = got.header};
    assert_false(model_keys_refused(keys, &access));
    model_keys_close(keys);

    s.config.api_key = "key-1";
    s.config.refresh_token = "refresh-1";
    keys = open_keys(&s);
    model_keys_get(keys, on_key, &got);
    assert_string_equal(got.header, "x-api-key: key-1");
    assert_int_equal(got.n, 3);
    model_keys_close(keys);
    model_keys_close(NULL);
    kit_close(&s.kit);
}

CHECK_CASE(test_refused_settings)
{
    struct setup s;
    struct model_keys *keys = NULL;
    struct err err = {0};
    set_up(&s);
    static const char *const bad[] = {"a b", "a\r\nx: y", "a\n", "\xc3\xa4", "a\x01"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        s.config.api_key = bad[i];
        assert_int_equal(model_keys_open(&s.config, &keys, &err), -1);
        assert_null(strstr(err.msg, bad[i]));
    }
    s.config.api_key = "";
    s.config.refresh_token = "r";
    s.config.token_url = "";
    assert_int_equal(model_keys_open(&s.config, &keys, &err), -1);
    kit_close(&s.kit);
}

// Those who wait get what one renewal brought.
CHECK_CASE(test_renewed_once)
{
    struct setup s;
    struct got got[5] = {0};
    char *answer = NULL;
    set_up(&s);
    s.config.refresh_token = "refresh-1";
    add_json(&s, &answer, "200 OK",
             "{\"access_token\":\"access-2\",\"refresh_token\":\"refresh-2\",\"expires_in\":3600}");
    struct model_keys *keys = open_keys(&s);
    assert_true(model_keys_has_any(keys));
    for (unsigned i = 0; i < 5; i++)
        model_keys_get(keys, on_key, &got[i]);
    assert_int_equal(got[0].n, 0);
    (void)uv_run(&s.kit.loop, UV_RUN_DEFAULT);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(got[i].n, 1);
        assert_string_equal(got[i].header, "authorization: Bearer access-2");
    }
    assert_int_equal(s.kit.server.n_served, 1);
    const char *sent = buf_str(&s.kit.server.requests[0]);
    assert_non_null(strstr(sent, "POST /oauth/token HTTP/1.1\r\n"));
    assert_non_null(strcasestr(sent, "content-type: application/json\r\n"));
    assert_non_null(strstr(sent,
                           "{\"grant_type\":\"refresh_token\",\"refresh_token\":\"refresh-1\","
                           "\"client_id\":\"client-1\"}"));
    // The next one is there at once.
    model_keys_get(keys, on_key, &got[0]);
    assert_int_equal(got[0].n, 2);
    model_keys_close(keys);
    assert_int_equal(n_saved, 1);

    // What was stored is taken up again, but only by whom it belongs to.
    s.config.state = saved;
    keys = open_keys(&s);
    get(&s, keys, &got[0]);
    assert_string_equal(got[0].header, "authorization: Bearer access-2");
    model_keys_close(keys);
    s.config.refresh_token = "another";
    s.config.auth_token = "mine";
    keys = open_keys(&s);
    get(&s, keys, &got[0]);
    assert_string_equal(got[0].header, "authorization: Bearer mine");
    model_keys_close(keys);
    assert_int_equal(s.kit.server.n_served, 1);
    kit_close(&s.kit);
    free(answer);
}

CHECK_CASE(test_refused_then_renewed)
{
    struct setup s;
    struct got got;
    char *answers[2], old[128];
    set_up(&s);
    s.config.auth_token = "access-1";
    s.config.refresh_token = "refresh-1";
    add_json(&s, &answers[0], "200 OK", "{\"access_token\":\"access-2\"}");
    add_json(&s, &answers[1], "200 OK",
             "{\"access_token\":\"access-3\",\"refresh_token\":\"refresh-3\"}");
    struct model_keys *keys = open_keys(&s);
    get(&s, keys, &got);
    assert_string_equal(got.header, "authorization: Bearer access-1");
    KIT_COPY(old, got.header);
    const struct model_access first = {.header = old};
    assert_true(model_keys_refused(keys, &first));
    get(&s, keys, &got);
    assert_string_equal(got.header, "authorization: Bearer access-2");
    // A late word about the first one does not renew the second.
    assert_true(model_keys_refused(keys, &first));
    get(&s, keys, &got);
    assert_string_equal(got.header, "authorization: Bearer access-2");
    assert_int_equal(s.kit.server.n_served, 1);
    const struct model_access second = {.header = got.header};
    assert_true(model_keys_refused(keys, &second));
    get(&s, keys, &got);
    assert_string_equal(got.header, "authorization: Bearer access-3");
    // No new refresh token had come with it: the first one was used again.
    assert_non_null(strstr(buf_str(&s.kit.server.requests[1]), "\"refresh-1\""));
    assert_int_equal(n_saved, 2);
    assert_non_null(strstr(saved, "refresh-3"));
    model_keys_close(keys);
    kit_close(&s.kit);
    free(answers[1]);
    free(answers[0]);
}

// Before it expires, not when it has.
CHECK_CASE(test_expiring)
{
    struct setup s;
    struct got got;
    char *answers[3];
    set_up(&s);
    s.config.refresh_token = "refresh-1";
    add_json(&s, &answers[0], "200 OK", "{\"access_token\":\"short\",\"expires_in\":30}");
    add_json(&s, &answers[1], "503 No", "{\"error\":\"x\"}");
    add_json(&s, &answers[2], "200 OK", "{\"access_token\":\"long\",\"expires_in\":3600}");
    struct model_keys *keys = open_keys(&s);
    get(&s, keys, &got);
    assert_string_equal(got.header, "authorization: Bearer short");
    // It cannot be renewed now, but is good for a while.
    get(&s, keys, &got);
    assert_string_equal(got.header, "authorization: Bearer short");
    assert_int_equal(s.kit.server.n_served, 2);
    // And nobody asks again at once.
    get(&s, keys, &got);
    assert_int_equal(s.kit.server.n_served, 2);
    model_keys_close(keys);
    s.config.state = saved;
    keys = open_keys(&s);
    get(&s, keys, &got);
    assert_string_equal(got.header, "authorization: Bearer long");
    model_keys_close(keys);
    kit_close(&s.kit);
    for (unsigned i = 0; i < 3; i++)
        free(answers[i]);
}

CHECK_CASE(test_not_renewed)
{
    static const struct {
        const char *status, *body;
        enum err_code code;
    } cases[] = {
        {"400 Bad",   "{\"error\":\"invalid_grant\",\"error_description\":\"refresh-secret is old\"}",
         ERR_DENIED                                                                                                   },
        {"401 No",    "{\"error\":{\"type\":\"x\",\"message\":\"no refresh-secret\"}}",                ERR_DENIED     },
        {"500 No",    "refresh-secret",                                                                ERR_UNAVAILABLE},
        {"200 OK",    "{}",                                                                            ERR_UNAVAILABLE},
        {"200 OK",    "no",                                                                            ERR_UNAVAILABLE},
        {"200 OK",    "{\"access_token\":\"a\\r\\nx: y\"}",                                            ERR_UNAVAILABLE},
        {"200 OK",    "{\"access_token\":\"\"}",                                                       ERR_UNAVAILABLE},
        {"200 OK",    "{\"access_token\":5}",                                                          ERR_UNAVAILABLE},
        {"302 Found", "",                                                                              ERR_DENIED     },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct setup s;
        struct got got[2] = {0};
        char *answer = NULL;
        set_up(&s);
        s.config.refresh_token = "refresh-secret";
        add_json(&s, &answer, cases[i].status, cases[i].body);
        struct model_keys *keys = open_keys(&s);
        model_keys_get(keys, on_key, &got[0]);
        model_keys_get(keys, on_key, &got[1]);
        (void)uv_run(&s.kit.loop, UV_RUN_DEFAULT);
        for (unsigned n = 0; n < 2; n++) {
            assert_int_equal(got[n].n, 1);
            assert_int_equal(got[n].code, cases[i].code);
            assert_null(strstr(got[n].message, "refresh-secret"));
        }
        get(&s, keys, &got[0]); // the same, at once
        assert_int_equal(got[0].code, cases[i].code);
        assert_int_equal(s.kit.server.n_served, 1);
        assert_int_equal(n_saved, 0);
        model_keys_close(keys);
        kit_close(&s.kit);
        free(answer);
    }
}

static struct model_keys *to_close;

static void on_key_close(void *data, const struct model_access *access, const struct err *err)
{
    on_key(data, access, err);
    model_keys_close(to_close);
    to_close = NULL;
}

CHECK_CASE(test_closing)
{
    for (unsigned i = 0; i < 3; i++) {
        struct setup s;
        struct got got[2] = {0};
        char *answer = NULL;
        set_up(&s);
        s.config.refresh_token = "refresh-1";
        add_json(&s, &answer, "200 OK", "{\"access_token\":\"a\"}");
        to_close = open_keys(&s);
        model_keys_get(to_close, i == 2 ? on_key_close : on_key, &got[0]);
        model_keys_get(to_close, on_key, &got[1]);
        if (i == 0) { // while it waits
            model_keys_close(to_close);
            assert_int_equal(got[0].code, ERR_UNAVAILABLE);
        } else if (i == 1) { // what it waits for goes first
            model_close(s.kit.model);
            s.kit.model = NULL;
            assert_int_equal(got[1].code, ERR_UNAVAILABLE);
            model_keys_close(to_close);
        } else { // from inside
            (void)uv_run(&s.kit.loop, UV_RUN_DEFAULT);
            assert_null(to_close);
        }
        assert_int_equal(got[0].n, 1);
        assert_int_equal(got[1].n, 1);
        kit_close(&s.kit);
        free(answer);
    }
}

// States that somebody spoilt.
CHECK_CASE(test_bad_states)
{
    static const char *const states[] = {"", "{", "[]", "{\"from\":5}", "{\"access_token\":\"a\"}"};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        struct setup s;
        struct got got;
        set_up(&s);
        s.config.auth_token = "mine";
        s.config.refresh_token = "refresh-1";
        s.config.state = states[i];
        struct model_keys *keys = open_keys(&s);
        get(&s, keys, &got);
        assert_string_equal(got.header, "authorization: Bearer mine");
        model_keys_close(keys);
        kit_close(&s.kit);
    }
}

CHECK_MAIN(cmocka_unit_test(test_fixed), cmocka_unit_test(test_refused_settings),
           cmocka_unit_test(test_renewed_once), cmocka_unit_test(test_refused_then_renewed),
           cmocka_unit_test(test_expiring), cmocka_unit_test(test_not_renewed),
           cmocka_unit_test(test_closing), cmocka_unit_test(test_bad_states))
