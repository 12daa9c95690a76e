// SPDX-License-Identifier: Apache-2.0
// Reads JSON (RFC 8259, strictly) into a tree, for a program without libraries; json.h writes it. A
// document owns its nodes and their texts, in one allocation, and none of the input; it does not
// change once read. All that take a node take NULL and nodes of another type, too, so that a path
// may be walked without looking at each step:
//
//     int64_t memory = json_int(json_get(json_get(json_root(doc), "limits"), "memory"), 0);
//     for (const struct json_node *n = json_first(list); n != NULL; n = json_next(n)) ...
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    JSON_READ_DEPTH_MAX = 64, // arrays and objects inside each other
};

enum json_node_type {
    JSON_NODE_NULL,
    JSON_NODE_BOOL,
    JSON_NODE_NUMBER,
    JSON_NODE_STRING,
    JSON_NODE_ARRAY,
    JSON_NODE_OBJECT,
};

struct json_node {
    enum json_node_type type;
    bool is_true;     // JSON_NODE_BOOL
    const char *key;  // of a member of an object, else NULL; one with a NUL is refused
    const char *text; // a string decoded to UTF-8, a number as it was written, else NULL
    size_t text_len;  // a string may hold NULs, one more follows it
    size_t n;         // elements or members
    const struct json_node *first, *next;
};

struct json_doc;

// The whole text must be one value. ERR_INVALID says what is wrong and where, ERR_EXHAUSTED that
// there is no memory.
int json_read(const char *text, size_t len, struct json_doc **ret, struct err *err);
void json_doc_free(struct json_doc *doc); // takes NULL
void json_doc_free_auto(struct json_doc **doc);
#define auto_json_doc __attribute__((cleanup(json_doc_free_auto))) struct json_doc
const struct json_node *json_root(const struct json_doc *doc); // NULL of NULL

const struct json_node *json_get(const struct json_node *node, const char *key); // the last, if two
const struct json_node *json_first(const struct json_node *node); // of an array or object, or NULL
const struct json_node *json_next(const struct json_node *node);  // its neighbour, or NULL

bool json_is(const struct json_node *node, enum json_node_type type); // NULL is of none
const char *json_text(const struct json_node *node);                  // of a string, else NULL
// Numbers: what is none, has a fraction, or does not fit, is the fallback.
int64_t json_int(const struct json_node *node, int64_t fallback);
double json_double(const struct json_node *node, double fallback);
bool json_bool(const struct json_node *node, bool fallback);
