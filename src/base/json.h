// SPDX-License-Identifier: Apache-2.0
// Writes JSON into a buffer, front to back. Commas and colons come by themselves; text that is not
// UTF-8 gets U+FFFD for each bad byte, so that the result always parses. Nothing here fails on the
// way: what the buffer could not take shows in json_finish. Misuse (a value without a key, a wrong
// end) is a bug and asserts. One thread at a time; the buffer stays the caller's.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
    JSON_DEPTH_MAX = 32,
};

struct json {
    struct buf *buf;
    unsigned depth;
    uint32_t is_object; // one bit a level
    uint32_t has_items;
    bool after_key;
};

void json_init(struct json *json, struct buf *buf);
// 0 when one whole value was written, else the buffer's -E2BIG or -ENOMEM.
int json_finish(struct json *json);

void json_open_object(struct json *json);
void json_close_object(struct json *json);
void json_open_array(struct json *json);
void json_close_array(struct json *json);
void json_key(struct json *json, const char *key);

void json_put_str(struct json *json, const char *text); // NULL becomes null
void json_put_strn(struct json *json, const void *data, size_t len);
// A text in pieces, none of which ends within a character: open, any number of them, close.
void json_open_text(struct json *json);
void json_more_text(struct json *json, const void *data, size_t len);
void json_close_text(struct json *json);
size_t json_text_size(const char *data, size_t len); // what it would take, at most; no state
void json_put_int(struct json *json, int64_t value);
void json_put_uint(struct json *json, uint64_t value);
void json_put_double(struct json *json, double value); // not a number and infinity become null
void json_put_bool(struct json *json, bool value);
void json_put_null(struct json *json);
void json_put_base64(struct json *json, const void *data, size_t len);
// One value that is JSON already, and known to be.
void json_put_raw(struct json *json, const char *text, size_t len);
