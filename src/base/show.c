// SPDX-License-Identifier: Apache-2.0
#include "base/show.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

void show_str(struct json *j, const char *key, const char *text)
{
    json_key(j, key);
    json_put_str(j, text);
}

void show_int(struct json *j, const char *key, int64_t n)
{
    json_key(j, key);
    json_put_int(j, n);
}

void show_bool(struct json *j, const char *key, bool value)
{
    json_key(j, key);
    json_put_bool(j, value);
}

void show_raw(struct json *j, const char *key, const char *json)
{
    json_key(j, key);
    if (json != NULL && *json != '\0')
        json_put_raw(j, json, strlen(json));
    else
        json_put_null(j);
}

void show_ms(struct json *j, const char *key, double ms)
{
    json_key(j, key);
    json_put_double(j, ms);
}

void show_time(struct json *j, const char *key, int64_t ms)
{
    char text[40];
    struct tm tm;
    time_t seconds = ms / 1000;
    json_key(j, key);
    if (ms <= 0 || gmtime_r(&seconds, &tm) == NULL) {
        json_put_null(j);
        return;
    }
    size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(text + n, sizeof text - n, ".%03dZ", (int)(ms % 1000));
    json_put_str(j, text);
}
