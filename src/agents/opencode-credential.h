// SPDX-License-Identifier: Apache-2.0
// What in a configuration is a credential: by its name, by its form, by its place in a URL. It is
// better to refuse what is none than to let one through. No state, any thread.
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

enum { OPENCODE_PATH_MAX = 160 };  // of a place in the JSON, as it is told
#define OPENCODE_PLACEHOLDER "cay" // what stands where a credential was

bool opencode_is_credential_name(const char *name); // "X-Api-Key", "API_TOKEN", "clientSecret"
bool opencode_is_credential(const char *value);     // neither "", a placeholder nor a reference
bool opencode_looks_like_credential(const char *value);
bool opencode_url_has_credential(const char *value);
// ERR_INVALID: "config.a.b: why".
int opencode_refuse(struct err *err, const char *path, const char *why);
// Refuses one, wherever it stands.
int opencode_look_through(json_t *root, struct err *err);
