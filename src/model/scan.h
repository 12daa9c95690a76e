// SPDX-License-Identifier: Apache-2.0
// Finds values in JSON that passes by, cut anywhere, and keeps nothing else of it: each value that
// is no object or array is told with the keys that lead to it, as long as these are few and short.
// It is lenient: what is not JSON is told wrongly or not at all, and harms nobody.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SCAN_KEYS_MAX = 4, SCAN_KEY_MAX = 40, SCAN_TEXT_MAX = 128, SCAN_DEPTH_MAX = 64 };

struct scan_value {
    unsigned n_keys;                 // 0 to SCAN_KEYS_MAX
    const char *keys[SCAN_KEYS_MAX]; // "" of an element of an array
    bool is_string;
    bool is_plain;    // `text` is all of it, without escapes
    const char *text; // not ended by a NUL where it is not plain
    uint64_t len;     // as it was written
};
typedef void (*scan_json_fn)(void *data, const struct scan_value *value);

enum scan_state {
    SCAN_BETWEEN,
    SCAN_STRING,
    SCAN_ESCAPE, // behind a backslash
    SCAN_WORD,   // a number, true, false, null
    SCAN_END,    // of the outermost value
    SCAN_LOST,   // not JSON, or too deep
};

struct scan_json {
    scan_json_fn value;
    void *data;
    enum scan_state state;
    unsigned depth;
    uint64_t is_object; // one bit a level
    bool wants_key, is_key, has_escape;
    char keys[SCAN_KEYS_MAX][SCAN_KEY_MAX];
    char text[SCAN_TEXT_MAX];
    uint64_t len;
};

void scan_json_init(struct scan_json *scan, scan_json_fn value, void *data);
void scan_json_feed(struct scan_json *scan, const char *bytes, size_t len);
