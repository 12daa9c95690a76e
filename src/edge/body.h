// SPDX-License-Identifier: Apache-2.0
// JSON bodies by table. A request type is a struct and a table of its fields; reading a body checks
// it against the table and fills the struct, and the OpenAPI description is written from the same
// table. Strict: one JSON object in UTF-8, no name twice, none unknown, each of its type; the error
// names the field and says what would do. Nothing of a body that is refused is used. A `lenient`
// table is one of somebody else's protocol, whose clients send more than is known here: other names
// are skipped.
//
//     struct make { const char *id; struct body_int memory; };
//     static const struct field make_fields[] = {
//         FIELD("id", FIELD_STRING, offsetof(struct make, id), .max = 128),
//         FIELD("memory", FIELD_SIZE, offsetof(struct make, memory)),
//     };
//
// One thread at a time.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum field_type {
    FIELD_STRING,  // const char *; without NULs. `max` bytes
    FIELD_BYTES,   // struct body_bytes; a string, NULs too. `max` bytes
    FIELD_INT,     // struct body_int; `min` to `max`
    FIELD_BOOL,    // struct body_bool
    FIELD_SIZE,    // struct body_int, bytes: a number, or "64m"
    FIELD_MS,      // struct body_int, milliseconds: a number of them, or "1s"
    FIELD_SECONDS, // struct body_int, milliseconds: a number of seconds, or "10m"
    FIELD_CPUS,    // struct body_int, thousandths: a number, or "0.5"
    FIELD_USD,     // struct body_int, billionths: a number of dollars
    FIELD_STRINGS, // struct body_strings; at most `max` of them, none with a NUL
    FIELD_ENV,     // struct body_map; at most `max` names without '=' or NUL
    FIELD_LABELS,  // struct body_map; names and values of at most EDGE_LABEL_MAX bytes
    FIELD_USER,    // struct body_user: "root", "user", a uid, "uid:gid"
    FIELD_SIGNAL,  // struct body_int: 15, "TERM", "SIGTERM"
    FIELD_JSON,    // const char *; any value, as text without spaces, names in order. `max` bytes
    FIELD_TREE,    // const void *, jansson's; any value, lent until body_done: of much text
    FIELD_OBJECT,  // a struct of its own, by the table `sub`
    FIELD_OBJECTS, // struct body_objects: an array of such; `min` to `max` of them
    FIELD_LATER,   // of a part that this version does not have: refused
    FIELD_FIXED,   // cannot be changed once it is set: refused
    FIELD_TYPE_MAX,
};

struct schema;

struct field {
    const char *name;
    enum field_type type;
    size_t at; // in the struct
    bool required;
    // Of a struct body_int, and of an object of such: null is given, and 0. Otherwise null is as if
    // the field were not there.
    bool nullable;
    int64_t min, max; // max 0: none but the body's own
    const struct schema *sub;
    const char *help;
};

struct schema {
    const char *name; // in OpenAPI: "CreateSandbox"
    const struct field *fields;
    size_t n;
    size_t size;  // of the struct
    bool lenient; // unknown fields are skipped; of the tables below it, `sub`, each says so itself
};

// A row of a table, FIELD("id", FIELD_STRING, offsetof(...), .max = 128). (A macro also because
// clang-format 14 crashes on arrays whose rows differ.)
#define FIELD(field_name, field_type, offset, ...)                                                 \
    {                                                                                              \
        .name = (field_name), .type = (field_type), .at = (offset), __VA_ARGS__                    \
    }

#define SCHEMA(schema_name, struct_type, table, ...)                                               \
    {                                                                                              \
        .name = (schema_name), .fields = (table), .n = sizeof(table) / sizeof *(table),            \
        .size = sizeof(struct_type), __VA_ARGS__                                                   \
    }

struct body_bytes {
    const char *data; // NULL: not given
    size_t len;
};
struct body_int {
    int64_t value;
    bool given;
};
struct body_bool {
    bool value, given;
};
struct body_strings {
    const char **items; // ends with NULL; NULL: not given
    size_t n;
};
struct body_objects {
    void *items; // n structs, each of sub->size bytes; NULL: not given
    size_t n;
};
struct body_map {
    const char *json; // the object, names in order, without spaces; NULL: not given
    size_t n;
};
struct body_user {
    uint32_t uid, gid;
    bool given;
};

// What is wrong with a body that was refused, for those who tell it in a form of their own.
enum body_wrong {
    BODY_FINE,
    BODY_UNREADABLE, // not a JSON object
    BODY_MISSING,    // a field that there must be
    BODY_UNKNOWN,    // one that there is not
    BODY_INVALID,    // one of another type, or out of its bounds
};
struct body_fault {
    enum body_wrong wrong;
    char field[96]; // "options.depth", "files.0.path"; "" when it is about the whole
};

// Owns what the struct points to.
struct body {
    void *values; // the struct; zeros where nothing was given
    void *tree;
    void **owned;
    size_t n_owned;
    struct body_fault fault; // of the last body_read; stays when it failed
};

// An empty body is {}. 0, or -1 with ERR_INVALID or ERR_EXHAUSTED; then nothing is owned.
int body_read(struct body *body, const struct schema *schema, const char *data, size_t len,
              struct err *err);
void body_done(struct body *body); // takes zeros
// Memory that is freed with it: of what a handler puts in the place of something in the struct.
void body_keep(struct body *body, void *p);
bool body_has(const struct body *body, const char *name); // it was sent, and not as null
// The body in canonical form (names in order, no spaces) without one of its members, in pieces. 0,
// or -1 when `fn` did not answer 0.
int body_dump(const struct body *body, const char *without,
              int (*fn)(const char *text, size_t len, void *data), void *data);

// From now on whatever the parser frees is wiped first, in the whole program: a body may have had a
// secret. Once, before the first body.
void body_wipe_freed(void);

// The table as a JSON Schema, for OpenAPI.
struct json;
void body_write_schema(struct json *json, const struct schema *schema);

int body_user(const char *text, struct body_user *ret, struct err *err); // "user", "1000:1000"
int body_signal(const char *name, int64_t *ret, struct err *err);        // "TERM", "SIGTERM", "15"
const char *body_signal_name(int signal);                                // "SIGTERM", or NULL
