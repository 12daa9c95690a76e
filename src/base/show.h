// SPDX-License-Identifier: Apache-2.0
// Members of a JSON object that is open: a key and its value in one call.
#pragma once

#include "base/json.h"

void show_str(struct json *j, const char *key, const char *text); // NULL becomes null
void show_int(struct json *j, const char *key, int64_t n);
void show_bool(struct json *j, const char *key, bool value);
void show_raw(struct json *j, const char *key, const char *json); // NULL becomes null
void show_ms(struct json *j, const char *key, double ms);
void show_time(struct json *j, const char *key, int64_t ms); // on the wall; 0 becomes null
