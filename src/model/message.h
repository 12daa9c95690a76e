// SPDX-License-Identifier: Apache-2.0
// A message as the API answers it, and what the API says instead. Its JSON parts are kept as they
// were written.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/json-in.h"
#include "model/price.h"
#include "model/raw.h"

enum { MESSAGE_MAX = 32 * 1024 * 1024, MESSAGE_NAME_MAX = 1000 };

struct message { // owns its texts; none is NULL once it was read
    char *id, *model;
    char *content; // JSON array
    size_t content_len;
    char *stop_reason, *stop_details; // "": none, "null": none
    char *usage_json;
    struct model_usage usage;
};
void message_done(struct message *message); // takes zeros; is zeros then
// An answer that was not streamed, whole. ERR_INVALID: it is none.
int message_read(const char *body, size_t len, struct message *ret, struct err *err);

char *message_copy(struct raw raw, const char *otherwise);               // as it was written
char *message_text(const struct json_node *node, const char *otherwise); // of a string

struct api_error {
    char type[64];
    char message[1024];
};
// From {"error": {"type", "message"}}, or {"error": "...", "error_description": "..."} as token
// servers have it. False: it has none.
bool api_error_get(const struct json_node *root, struct api_error *ret);
bool api_error_read(const char *body, size_t len, struct api_error *ret);
