// SPDX-License-Identifier: Apache-2.0
// Members of a request's body that are there only when something was said: the rest is for the
// server to decide. And lists of words from flags that may be repeated. One thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

void body_number(struct json *j, const char *key, uint64_t value);  // not of 0
void body_text(struct json *j, const char *key, const char *value); // not of NULL
void body_flag(struct json *j, const char *key, bool value);        // not of false

struct names {
    const char *items[256]; // as many as the server takes
    size_t n;
};
int names_add(struct names *names, const char *name, struct err *err);
void body_names(struct json *j, const char *key, const struct names *names); // not of none
