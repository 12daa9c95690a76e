// SPDX-License-Identifier: Apache-2.0
// What a kernel says, in JSON: scanned where it lies, without a tree, since a stranger's megabytes
// would make a far larger one. Strict (RFC 8259, UTF-8), and in place: an escape of half a
// character (a lone surrogate), which many readers refuse, becomes U+FFFD.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
    KERNEL_JSON_DEPTH = 1024,
    KERNEL_JSON_FIELDS = 32, // of the outermost object; one with more is refused
};

enum kernel_json_error {
    KERNEL_JSON_OK = 0,
    KERNEL_JSON_BAD = -1,  // not JSON, or not an object
    KERNEL_JSON_DEEP = -2, // as far as was looked it is, but it goes too deep
};

struct kernel_field {
    const char *key; // with its quotes
    size_t key_len;
    const char *value;
    size_t value_len;
};

struct kernel_object {
    struct kernel_field fields[KERNEL_JSON_FIELDS]; // of two with one name the first
    unsigned n;
    bool has_twice; // there were two with one name
};

// All of the text must be one object. The fields point into it.
enum kernel_json_error kernel_json_scan(char *text, size_t len, struct kernel_object *ret);
const struct kernel_field *kernel_json_get(const struct kernel_object *object, const char *name);
bool kernel_json_bool(const struct kernel_object *object, const char *name);
// -1: it is not there, or no whole number from 0 to 2^53.
int64_t kernel_json_number(const struct kernel_object *object, const char *name);
// A string, decoded, as the text of an error; "" when it is none.
void kernel_json_text(const struct kernel_object *object, const char *name, char *ret, size_t size);

// Representations and errors, as they are logged: what is not known or of another type is left out,
// field by field. `ret` gets the text, or nothing when the one there is as it should be.
int kernel_json_representation(char *text, size_t len, struct buf *ret);
struct kernel_timeout { // an error that says that it was interrupted, when we did it
    int64_t after_ms;   // 0: leave it as it is
};
// All four fields are there afterwards. *ret_interrupted: it is what an interrupt leaves.
int kernel_json_failure(char *text, size_t len, const struct kernel_timeout *timeout,
                        struct buf *ret, bool *ret_interrupted);
