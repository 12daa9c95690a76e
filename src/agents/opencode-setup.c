// SPDX-License-Identifier: Apache-2.0
// What OpenCode is given: its variables, its configuration, the secrets of that.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/agents-internal.h"
#include "agents/opencode-internal.h"
#include "base/json.h"
#include "base/mem.h"
#include "egress/model-key.h"

// --- variables

char *opencode_environment(const char *config, const char *default_model)
{
    static const char *const always[][2] = {
        {"OPENCODE_DISABLE_AUTOUPDATE",   "1"},
        {"OPENCODE_DISABLE_MODELS_FETCH", "1"},
        {"OPENCODE_DISABLE_LSP_DOWNLOAD", "1"},
        {"OPENCODE_DISABLE_SHARE",        "1"},
    };
    struct buf buf;
    struct json j;
    auto_free char *whole = opencode_config_whole(config, default_model);
    buf_init(&buf, 8 * (size_t)OPENCODE_CONFIG_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
        json_key(&j, always[i][0]);
        json_put_str(&j, always[i][1]);
    }
    if (opencode_config_has_others(config)) { // the image's list of models has only Anthropic's
        json_key(&j, "OPENCODE_MODELS_PATH");
        json_put_str(&j, "");
    }
    json_key(&j, "OPENCODE_CONFIG_CONTENT");
    json_put_str(&j, whole);
    if (!opencode_config_says(config, "permission")) { // nobody is there to be asked
        json_key(&j, "OPENCODE_PERMISSION");
        json_put_str(&j, "{\"*\":\"allow\",\"question\":\"deny\"}");
    }
    json_close_object(&j);
    char *text = mem_copy_text(buf_str(&buf));
    buf_done(&buf);
    return text;
}

// --- secrets

static bool is_listed(const struct sandbox_row *row, const char *secret)
{
    json_auto_t *list = row->secrets != NULL ? json_loads(row->secrets, 0, NULL) : NULL;
    size_t i;
    json_t *name;
    json_array_foreach(list, i, name)
    {
        if (json_is_string(name) && strcmp(json_string_value(name), secret) == 0)
            return true;
    }
    return false;
}

static int own_provider(struct agents *agents, const struct sandbox_row *row, char *ret,
                        size_t size, struct err *err)
{
    char *config = NULL;
    int64_t log;
    if (db_opencode_get(agents->config.db, row->number, &config, &log, err) < 0)
        return -1;
    opencode_config_provider(config, ret, size);
    free(config);
    return 0;
}

int opencode_may_ask(struct agents *agents, struct sandbox *s, const char *provider,
                     struct err *err)
{
    char own[64];
    const struct sandbox_row *row = sandbox_row(s);
    if (provider == NULL) {
        if (own_provider(agents, row, own, sizeof own, err) < 0)
            return -1;
        provider = own;
    }
    if (strcmp(provider, MODEL_SECRET) != 0 || is_listed(row, MODEL_SECRET))
        return 0;
    return err_set(err, ERR_DENIED,
                   "this sandbox may not ask a model: PATCH /sandbox/%.100s {\"secrets\": "
                   "[\"anthropic\"]}, or give a key in config.provider.anthropic.options.apiKey",
                   row->id);
}

// --- configuring it

static int store_secrets(struct agents *agents, const struct sandbox_row *row,
                         const struct opencode_config *config, struct err *err)
{
    for (size_t i = 0; i < config->n; i++) {
        const struct opencode_secret *secret = &config->secrets[i];
        bool is_new;
        const struct secret_put put = {
            .name = secret->name,
            .value = secret->value,
            .value_len = strlen(secret->value),
            .upstream = secret->upstream,
            .header = secret->header,
            .format = secret->format,
            .sandbox = row->number,
        };
        if (secrets_put(agents->config.secrets, row->tenant, &put, &is_new, err) < 0)
            return err_wrap(err, "config");
    }
    return 0;
}

static int store_config(struct agents *agents, struct sandbox *s, const char *text, struct err *err)
{
    int64_t number = sandbox_row(s)->number, log;
    auto_free char *old = NULL;
    int r = db_opencode_get(agents->config.db, number, &old, &log, err);
    if (r < 0)
        return -1;
    if (r > 0 && strcmp(old, text) == 0)
        return 0;
    if (db_opencode_put(agents->config.db, number, text, err) < 0)
        return -1;
    opencode_changed(agents, s);
    return 0;
}

void opencode_configure(struct agents *agents, struct sandbox *s,
                        const struct opencode_config *config, sandbox_fn fn, void *data)
{
    struct err err = {0};
    const struct sandbox_row *row = sandbox_row(s);
    if (store_secrets(agents, row, config, &err) < 0 ||
        store_config(agents, s, config->text, &err) < 0) {
        fn(data, NULL, false, &err);
        return;
    }
    auto_free char *names = opencode_secret_names(row->secrets, config);
    if (names == NULL || (row->secrets != NULL && strcmp(names, row->secrets) == 0)) {
        fn(data, s, false, NULL);
        return;
    }
    const struct sandbox_settings settings = {.secrets = names};
    sandbox_patch(s, &settings, PATCH_SECRETS, fn, data);
}
