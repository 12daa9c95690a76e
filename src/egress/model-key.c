// SPDX-License-Identifier: Apache-2.0
#include "egress/model-key.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "egress/secret-internal.h"
#include "egress/url.h"

// --- a tenant's own, as the client of the API takes it

static char *base_url_of(const struct secret *secret)
{
    char origin[URL_ORIGIN_MAX];
    char *text = NULL;
    struct url url = {.tls = secret->tls, .port = secret->upstream_port};
    (void)snprintf(url.host, sizeof url.host, "%s", secret->upstream_host);
    (void)url_origin(&url, origin);
    if (asprintf(&text, "%s%s", origin, secret->upstream_prefix) < 0)
        abort();
    return text;
}

// A line of its own: the value may have any byte but a NUL and line ends.
static char *header_of(const struct secret *secret)
{
    size_t name = strlen(secret->header);
    char *line = malloc(name + 2 + secret->value_len + 1);
    if (line == NULL)
        abort();
    (void)memcpy(line, secret->header, name);
    (void)memcpy(line + name, ": ", 2);
    (void)memcpy(line + name + 2, secret->value, secret->value_len);
    line[name + 2 + secret->value_len] = '\0';
    return line;
}

static void give_own(struct secret *secret, model_keys_fn fn, void *data)
{
    struct model_access access = {
        .base_url = base_url_of(secret), .header = header_of(secret), .guarded = true};
    secret_done(secret);
    fn(data, &access, NULL);
    model_access_done(&access);
}

void model_key_get(struct secrets *secrets, struct model_keys *keys, int64_t tenant,
                   model_keys_fn fn, void *data)
{
    struct secret secret;
    struct err err = {0};
    int r = secrets != NULL ? secrets_get(secrets, tenant, MODEL_SECRET, &secret, &err) : 0;
    if (r > 0) {
        give_own(&secret, fn, data);
    } else if (r == 0 && model_keys_has_any(keys)) {
        model_keys_get(keys, fn, data);
    } else {
        if (r == 0)
            (void)err_set(&err, ERR_NOT_FOUND, "there is no key for the Messages API");
        fn(data, NULL, &err);
    }
}

int model_key_is_there(struct secrets *secrets, const struct model_keys *keys, int64_t tenant,
                       struct err *err)
{
    return model_keys_has_any(keys)
               ? 1
               : (secrets != NULL ? secrets_have(secrets, tenant, MODEL_SECRET, err) : 0);
}

// --- the installation's, as a carrier takes it

static int take_header(const char *line, struct secret *ret, struct err *err)
{
    static const char bearer[] = "Bearer ";
    const char *colon = strchr(line, ':');
    size_t name = colon != NULL ? (size_t)(colon - line) : 0;
    if (name == 0 || name >= sizeof ret->header)
        return err_set(err, ERR_INTERNAL, "the key has no header");
    const char *value = colon + 1 + strspn(colon + 1, " ");
    (void)memcpy(ret->header, line, name);
    ret->header[name] = '\0';
    ret->value_len = strlen(value);
    ret->value = sodium_malloc(ret->value_len + 1);
    if (ret->value == NULL)
        return err_set(err, ERR_EXHAUSTED, "no memory for a secret");
    (void)memcpy(ret->value, value, ret->value_len + 1);
    if (strncasecmp(value, bearer, sizeof bearer - 1) == 0)
        ret->credential_at = sizeof bearer - 1;
    ret->credential_len = ret->value_len - ret->credential_at;
    return 0;
}

int model_key_secret(const struct model_access *access, struct secret *ret, struct err *err)
{
    char canonical[SECRET_UPSTREAM_MAX];
    struct secret made = {0};
    if (secret_upstream(access->base_url, canonical, &made, err) < 0 ||
        take_header(access->header, &made, err) < 0)
        return -1;
    *ret = made;
    return 0;
}
