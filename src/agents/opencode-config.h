// SPDX-License-Identifier: Apache-2.0
// OpenCode's configuration as a caller gives it. What is a credential in it is taken out and
// becomes a secret of the sandbox: in its place stands the name by which the box reaches the same
// upstream, http://NAME.cay/. A credential that cannot be kept out of the box that way is refused,
// with its place in the JSON. No state, any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "egress/secret.h"

enum {
    OPENCODE_CONFIG_MAX = 64 * 1024, // bytes of JSON
    OPENCODE_SECRETS_MAX = 16,
    OPENCODE_UPSTREAM_MAX = 512,
};

struct opencode_secret {
    char name[SECRET_NAME_MAX];
    char *value; // wiped with it
    char upstream[OPENCODE_UPSTREAM_MAX];
    char header[64];
    const char *format; // a literal
};

struct opencode_config {
    char *text; // JSON without any credential, names in order
    struct opencode_secret secrets[OPENCODE_SECRETS_MAX];
    size_t n;
};

// ERR_INVALID names the place ("config.mcp.x.environment.TOKEN"), and nothing of its value.
int opencode_config_read(const char *json, struct opencode_config *ret, struct err *err);
void opencode_config_done(struct opencode_config *config); // takes zeros

// A sandbox's `secrets` with those of the configuration: as struct sandbox_settings has it. NULL:
// none. The caller frees it.
char *opencode_secret_names(const char *secrets, const struct opencode_config *config);
// With what Cay sets where the caller has said nothing: the model by http://anthropic.cay, nothing
// that waits for a person, nothing that calls home. `text` may be NULL. The caller frees it.
char *opencode_config_whole(const char *text, const char *default_model);
// The provider of the model that is asked where a message names none: "anthropic". In `ret`.
void opencode_config_provider(const char *text, char *ret, size_t size);
bool opencode_config_has_others(const char *text);            // providers beside Anthropic
bool opencode_config_says(const char *text, const char *key); // whether a top-level member is there
