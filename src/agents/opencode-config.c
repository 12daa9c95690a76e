// SPDX-License-Identifier: Apache-2.0
#include "agents/opencode-config.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agents/opencode-credential.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "egress/url.h"
#include "model/price.h"

void opencode_config_done(struct opencode_config *config)
{
    for (size_t i = 0; i < config->n; i++) {
        if (config->secrets[i].value != NULL)
            explicit_bzero(config->secrets[i].value, strlen(config->secrets[i].value));
        free(config->secrets[i].value);
    }
    free(config->text);
    *config = (struct opencode_config){0};
}

// --- taking one out

struct found {
    const char *header; // NULL: the provider's own way
    const char *value;
    char path[OPENCODE_PATH_MAX + 1];
};

static int add_secret(struct opencode_config *config, const struct opencode_secret *secret,
                      const char *value, const char *path, struct err *err)
{
    static const char bearer[] = "Bearer ";
    if (config->n >= OPENCODE_SECRETS_MAX)
        return opencode_refuse(err, path, "there are too many credentials");
    if (!secret_name_valid(secret->name))
        return opencode_refuse(
            err, path, "this name cannot be a secret's: lower-case letters, digits and '-'");
    struct opencode_secret made = *secret;
    if (made.format == NULL) {
        bool has_bearer = strncasecmp(value, bearer, sizeof bearer - 1) == 0;
        made.format = has_bearer ? "Bearer {}" : "{}";
        value += has_bearer ? sizeof bearer - 1 : 0;
    }
    const struct secret_put put = {.name = made.name,
                                   .value = value,
                                   .value_len = strlen(value),
                                   .upstream = made.upstream,
                                   .header = made.header,
                                   .format = made.format};
    if (secrets_check(&put, err) < 0)
        return err_wrap(err, "%.*s", OPENCODE_PATH_MAX, path);
    made.value = mem_copy_text(value);
    config->secrets[config->n++] = made;
    return 0;
}

// The one header that has a credential; 0: none has.
static int find_header(json_t *headers, const char *path, struct found *ret, struct err *err)
{
    const char *name;
    json_t *value;
    int n = 0;
    json_object_foreach(headers, name, value)
    {
        const char *text = json_string_value(value);
        if (text == NULL ||
            !(opencode_is_credential_name(name) || opencode_looks_like_credential(text)) ||
            !opencode_is_credential(text))
            continue;
        *ret = (struct found){.header = name, .value = text};
        (void)snprintf(ret->path, sizeof ret->path, "%s.%.60s", path, name);
        if (++n > 1)
            return opencode_refuse(err, ret->path,
                                   "one credential for an upstream is possible, not two");
    }
    return n;
}

static void set_text(json_t *object, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void set_text(json_t *object, const char *key, const char *fmt, ...)
{
    char text[OPENCODE_UPSTREAM_MAX + 64];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (json_object_set_new(object, key, json_string(text)) < 0)
        abort();
}

// --- providers

static const struct known {
    const char *id, *npm;
    const char *upstream, *header, *format;
} known_providers[] = {
    {"anthropic",    "@ai-sdk/anthropic", "https://api.anthropic.com/v1",                     "x-api-key",     "{}"       },
    {"openai",       NULL,                "https://api.openai.com/v1",                        "Authorization", "Bearer {}"},
    {"openrouter",   NULL,                "https://openrouter.ai/api/v1",                     "Authorization", "Bearer {}"},
    {"groq",         NULL,                "https://api.groq.com/openai/v1",                   "Authorization", "Bearer {}"},
    {"mistral",      NULL,                "https://api.mistral.ai/v1",                        "Authorization", "Bearer {}"},
    {"google",       "@ai-sdk/google",    "https://generativelanguage.googleapis.com/v1beta",
     "x-goog-api-key",                                                                                         "{}"       },
    {"xai",          NULL,                "https://api.x.ai/v1",                              "Authorization", "Bearer {}"},
    {"deepseek",     NULL,                "https://api.deepseek.com/v1",                      "Authorization", "Bearer {}"},
    {"togetherai",   NULL,                "https://api.together.xyz/v1",                      "Authorization", "Bearer {}"},
    {"fireworks-ai", NULL,                "https://api.fireworks.ai/inference/v1",            "Authorization", "Bearer {}"},
    {"cerebras",     NULL,                "https://api.cerebras.ai/v1",                       "Authorization", "Bearer {}"},
    {"perplexity",   NULL,                "https://api.perplexity.ai",                        "Authorization", "Bearer {}"},
    {"azure",        "@ai-sdk/azure",     NULL,                                               "api-key",       "{}"       },
};

static const struct known *provider_of(const char *id, const char *npm)
{
    for (size_t i = 0; i < sizeof known_providers / sizeof *known_providers; i++) {
        if (strcmp(known_providers[i].id, id) == 0)
            return &known_providers[i];
    }
    for (size_t i = 0; npm != NULL && i < sizeof known_providers / sizeof *known_providers; i++) {
        if (known_providers[i].npm != NULL && strcmp(known_providers[i].npm, npm) == 0)
            return &known_providers[i];
    }
    return NULL;
}

// The model's own name has its own rules outside (egress/gate.c): the upstream is without "/v1".
static int name_upstream(const char *id, const char *base, const char *path,
                         struct opencode_secret *ret, const char **ret_tail, struct err *err)
{
    static const char tail[] = "/v1";
    size_t len = strlen(base);
    bool model = strcmp(id, "anthropic") == 0;
    while (len > 0 && base[len - 1] == '/')
        len--;
    if (len >= sizeof ret->upstream)
        return opencode_refuse(err, path, "is too long");
    if (model && (len < sizeof tail || strncmp(base + len - 3, tail, 3) != 0))
        return opencode_refuse(err, path, "must end with /v1");
    (void)snprintf(ret->upstream, sizeof ret->upstream, "%.*s", (int)(model ? len - 3 : len), base);
    (void)snprintf(ret->name, sizeof ret->name, "%s%s", model ? "" : "oc-", id);
    *ret_tail = model ? tail : "";
    return strlen(id) + sizeof "oc-" > sizeof ret->name
               ? opencode_refuse(err, path, "the provider's name is too long for a secret's")
               : 0;
}

static int take_provider(struct opencode_config *config, const char *id, json_t *options,
                         const struct known *known, const struct found *found, struct err *err)
{
    char path[OPENCODE_PATH_MAX + 1];
    const char *tail = "", *base = json_string_value(json_object_get(options, "baseURL"));
    struct opencode_secret secret = {.format = known != NULL ? known->format : "Bearer {}"};
    (void)snprintf(path, sizeof path, "config.provider.%.40s.options.baseURL", id);
    if (base == NULL && known != NULL && strcmp(known->id, id) == 0)
        base = known->upstream;
    if (base == NULL)
        return opencode_refuse(err, path, "is needed, since it is not known where the key belongs");
    if (name_upstream(id, base, path, &secret, &tail, err) < 0)
        return -1;
    if (found->header != NULL)
        secret.format = NULL;
    (void)snprintf(secret.header, sizeof secret.header, "%s",
                   found->header != NULL ? found->header
                   : known != NULL       ? known->header
                                         : "Authorization");
    if (add_secret(config, &secret, found->value, found->path, err) < 0)
        return -1;
    if (found->header != NULL)
        (void)json_object_del(json_object_get(options, "headers"), found->header);
    set_text(options, "baseURL", "http://%s.cay%s", secret.name, tail);
    set_text(options, "apiKey", OPENCODE_PLACEHOLDER);
    return 0;
}

static int read_provider(struct opencode_config *config, const char *id, json_t *provider,
                         struct err *err)
{
    char path[OPENCODE_PATH_MAX + 1];
    json_t *options = json_object_get(provider, "options");
    const char *npm = json_string_value(json_object_get(provider, "npm"));
    const char *key = json_string_value(json_object_get(options, "apiKey"));
    struct found found = {0};
    (void)snprintf(path, sizeof path, "config.provider.%.40s.options.headers", id);
    int n = find_header(json_object_get(options, "headers"), path, &found, err);
    if (n < 0)
        return -1;
    if (opencode_is_credential(key)) {
        if (n > 0)
            return opencode_refuse(err, found.path,
                                   "one credential for an upstream is possible, not two");
        found = (struct found){.value = key};
        (void)snprintf(found.path, sizeof found.path, "config.provider.%.40s.options.apiKey", id);
        n = 1;
    }
    return n == 0 ? 0 : take_provider(config, id, options, provider_of(id, npm), &found, err);
}

// --- servers of tools

// The directory of the URL is the upstream, so that what the server says lies beside it works.
static int read_mcp(struct opencode_config *config, const char *id, json_t *mcp, struct err *err)
{
    char path[OPENCODE_PATH_MAX + 1];
    struct found found = {0};
    struct opencode_secret secret = {0};
    const char *url = json_string_value(json_object_get(mcp, "url"));
    (void)snprintf(path, sizeof path, "config.mcp.%.40s.headers", id);
    int n = find_header(json_object_get(mcp, "headers"), path, &found, err);
    if (n <= 0)
        return n;
    (void)snprintf(path, sizeof path, "config.mcp.%.40s.url", id);
    const char *host = url != NULL ? strstr(url, "://") : NULL;
    if (host == NULL || opencode_url_has_credential(url))
        return opencode_refuse(err, path, "must be an http(s) URL without a credential in it");
    const char *end = host + 3 + strcspn(host + 3, "?#");
    const char *slash = end;
    while (slash > host + 3 && *slash != '/')
        slash--;
    size_t len = (size_t)((*slash == '/' && slash > host + 3 ? slash : end) - url);
    if (len >= sizeof secret.upstream || strlen(url) >= sizeof secret.upstream ||
        strlen(id) + sizeof "mcp-" > sizeof secret.name)
        return opencode_refuse(err, path, "is too long");
    (void)snprintf(secret.upstream, sizeof secret.upstream, "%.*s", (int)len, url);
    (void)snprintf(secret.name, sizeof secret.name, "mcp-%s", id);
    (void)snprintf(secret.header, sizeof secret.header, "%s", found.header);
    if (add_secret(config, &secret, found.value, found.path, err) < 0)
        return -1;
    (void)json_object_del(json_object_get(mcp, "headers"), found.header);
    auto_free char *rest = mem_copy_text(url + len);
    set_text(mcp, "url", "http://%s.cay%s", secret.name, rest);
    return 0;
}

// --- all of it

static int clean(json_t *root, struct opencode_config *config, struct err *err)
{
    const char *id;
    json_t *value;
    void *next;
    json_object_foreach_safe(json_object_get(root, "provider"), next, id, value)
    {
        if (read_provider(config, id, value, err) < 0)
            return -1;
    }
    json_object_foreach_safe(json_object_get(root, "mcp"), next, id, value)
    {
        if (read_mcp(config, id, value, err) < 0)
            return -1;
    }
    return opencode_look_through(root, err);
}

static char *dump(json_t *root)
{
    char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
    if (text == NULL)
        abort();
    return text;
}

int opencode_config_read(const char *json, struct opencode_config *ret, struct err *err)
{
    struct opencode_config made = {0};
    json_auto_t *root = json_loads(json, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(root))
        return err_set(err, ERR_INVALID, "config: must be an object, as opencode.json has it");
    if (clean(root, &made, err) < 0) {
        opencode_config_done(&made);
        return -1;
    }
    made.text = dump(root);
    *ret = made;
    return 0;
}

// --- the names of its secrets

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// In order and each once, as the API itself writes them.
char *opencode_secret_names(const char *secrets, const struct opencode_config *config)
{
    json_auto_t *list = secrets != NULL ? json_loads(secrets, 0, NULL) : NULL;
    size_t n = 0, had = json_array_size(list);
    if (had + config->n == 0)
        return NULL;
    const char **names = calloc(had + config->n, sizeof *names);
    if (names == NULL)
        abort();
    for (size_t i = 0; i < had; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (name != NULL)
            names[n++] = name;
    }
    for (size_t i = 0; i < config->n; i++)
        names[n++] = config->secrets[i].name;
    qsort(names, n, sizeof *names, by_text);
    struct buf buf;
    struct json j;
    buf_init(&buf, (n + 1) * (SECRET_NAME_MAX + 4));
    json_init(&j, &buf);
    json_open_array(&j);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || strcmp(names[i], names[i - 1]) != 0)
            json_put_str(&j, names[i]);
    }
    json_close_array(&j);
    char *text = mem_copy_text(buf_str(&buf));
    buf_done(&buf);
    free(names);
    return text;
}

// --- with Cay's own

static json_t *object_in(json_t *parent, const char *key)
{
    json_t *child = json_object_get(parent, key);
    if (!json_is_object(child)) {
        child = json_object();
        if (json_object_set_new(parent, key, child) < 0)
            abort();
    }
    return child;
}

static void default_text(json_t *object, const char *key, const char *text)
{
    if (json_object_get(object, key) == NULL)
        set_text(object, key, "%s", text);
}

static json_t *parse(const char *text)
{
    json_t *root = text != NULL ? json_loads(text, 0, NULL) : NULL;
    if (root == NULL)
        root = json_object();
    if (root == NULL)
        abort();
    return root;
}

// So that they are known also where its own list of models is older than they are.
static void add_models(json_t *anthropic, const char *default_model)
{
    const char *const names[] = {default_model, "sonnet", "opus", "haiku"};
    json_t *models = object_in(anthropic, "models");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        (void)object_in(models, model_resolve(names[i]));
}

char *opencode_config_whole(const char *text, const char *default_model)
{
    char model[160];
    json_auto_t *root = parse(text);
    json_t *anthropic = object_in(object_in(root, "provider"), "anthropic");
    json_t *options = object_in(anthropic, "options");
    add_models(anthropic, default_model);
    default_text(options, "baseURL", "http://anthropic.cay/v1");
    default_text(options, "apiKey", OPENCODE_PLACEHOLDER);
    default_text(root, "share", "disabled");
    if (json_object_get(root, "autoupdate") == NULL &&
        json_object_set_new(root, "autoupdate", json_false()) < 0)
        abort();
    (void)snprintf(model, sizeof model, "anthropic/%.120s", model_resolve(default_model));
    bool own_model = json_object_get(root, "model") == NULL;
    default_text(root, "model", model);
    (void)snprintf(model, sizeof model, "anthropic/%.120s", model_resolve("haiku"));
    if (own_model)
        default_text(root, "small_model", model);
    return dump(root);
}

void opencode_config_provider(const char *text, char *ret, size_t size)
{
    json_auto_t *root = parse(text);
    const char *model = json_string_value(json_object_get(root, "model"));
    size_t len = model != NULL ? strcspn(model, "/") : 0;
    if (len > 0 && model[len] == '/')
        (void)snprintf(ret, size, "%.*s", (int)len, model);
    else
        (void)snprintf(ret, size, "anthropic");
}

bool opencode_config_has_others(const char *text)
{
    json_auto_t *root = parse(text);
    json_t *providers = json_object_get(root, "provider");
    return json_object_size(providers) > (json_object_get(providers, "anthropic") != NULL);
}

bool opencode_config_says(const char *text, const char *key)
{
    json_auto_t *root = parse(text);
    return json_object_get(root, key) != NULL;
}
