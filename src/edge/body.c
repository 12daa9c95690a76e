// SPDX-License-Identifier: Apache-2.0
#include "edge/body.h"

#include <assert.h>
#include <jansson.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "edge/body-internal.h"
#include "edge/limits.h"

// -- the text

// Before the parser sees it, which recurses, and takes its time for each of a million values. What
// is inside strings does not count.
static int check_shape(const char *data, size_t len, struct err *err)
{
    unsigned depth = 0, values = 1;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = data[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > EDGE_JSON_DEPTH_MAX)
                return err_set(err, ERR_INVALID, "the body is nested more than %d levels deep",
                               EDGE_JSON_DEPTH_MAX);
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        } else if (c == ',' && ++values > EDGE_JSON_VALUES_MAX) {
            return err_set(err, ERR_INVALID, "the body has more than %d values",
                           EDGE_JSON_VALUES_MAX);
        }
    }
    return 0;
}

static bool is_blank(const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (data[i] != ' ' && data[i] != '\t' && data[i] != '\r' && data[i] != '\n')
            return false;
    }
    return true;
}

static void wipe_and_free(void *p)
{
    if (p != NULL)
        explicit_bzero(p, malloc_usable_size(p));
    free(p);
}

void body_wipe_freed(void)
{
    json_set_alloc_funcs(malloc, wipe_and_free);
}

// The parser quotes what it stumbled over, which may be a part of a secret.
static void forget_quoted(json_error_t *why)
{
    char *at = strstr(why->text, " near '");
    if (at != NULL)
        *at = '\0';
}

static json_t *parse(const char *data, size_t len, struct err *err)
{
    json_error_t why;
    if (len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0) {
        (void)err_set(err, ERR_INVALID,
                      "the body begins with a byte order mark; send JSON without one");
        return NULL;
    }
    if (check_shape(data, len, err) < 0)
        return NULL;
    json_t *tree =
        json_loadb(data, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &why);
    if (tree == NULL) {
        forget_quoted(&why);
        (void)err_set(err, ERR_INVALID, "the body is not JSON: line %d, column %d: %s", why.line,
                      why.column, why.text);
    } else if (!json_is_object(tree)) {
        (void)err_set(err, ERR_INVALID, "the body must be a JSON object, as {...}");
        json_decref(tree);
        tree = NULL;
    }
    return tree;
}

// -- what the struct points to

static void *own(struct body *body, void *p)
{
    if (p == NULL)
        return NULL;
    void **owned = reallocarray(body->owned, body->n_owned + 1, sizeof *owned);
    if (owned == NULL) {
        free(p);
        return NULL;
    }
    body->owned = owned;
    body->owned[body->n_owned++] = p;
    return p;
}

void body_keep(struct body *body, void *p)
{
    if (p != NULL && own(body, p) == NULL)
        abort();
}

static int no_memory(struct err *err)
{
    return err_set(err, ERR_EXHAUSTED, "no memory for the body");
}

void body_done(struct body *body)
{
    for (size_t i = 0; i < body->n_owned; i++)
        free(body->owned[i]);
    free(body->owned);
    free(body->values);
    json_decref(body->tree);
    *body = (struct body){0};
}

// The field, from the inside out.
static void blame(struct body *body, enum body_wrong wrong, const char *name)
{
    struct body_fault *fault = &body->fault;
    char inner[sizeof fault->field];
    memcpy(inner, fault->field, sizeof inner);
    (void)snprintf(fault->field, sizeof fault->field, "%.40s%s%.50s", name,
                   inner[0] != '\0' ? "." : "", inner);
    if (fault->wrong == BODY_FINE)
        fault->wrong = wrong;
}

// -- one value

static int expected(struct err *err, const char *what)
{
    return err_set(err, ERR_INVALID, "must be %s", what);
}

// A text without NULs: what will become an argument, a name, a line in a file.
static const char *plain(const json_t *value)
{
    const char *text = json_string_value(value);
    return text != NULL && memchr(text, '\0', json_string_length(value)) == NULL ? text : NULL;
}

static int read_string(const struct field *f, const json_t *value, const char **ret,
                       struct err *err)
{
    if (!json_is_string(value))
        return expected(err, "a string");
    if (plain(value) == NULL)
        return err_set(err, ERR_INVALID, "must not contain a NUL character");
    if (f->max > 0 && json_string_length(value) > (size_t)f->max)
        return err_set(err, ERR_INVALID, "is longer than %lld bytes", (long long)f->max);
    *ret = json_string_value(value);
    return 0;
}

static int read_bytes(const struct field *f, const json_t *value, struct body_bytes *ret,
                      struct err *err)
{
    if (!json_is_string(value))
        return expected(err, "a string");
    if (f->max > 0 && json_string_length(value) > (size_t)f->max)
        return err_set(err, ERR_INVALID, "is longer than %lld bytes", (long long)f->max);
    *ret = (struct body_bytes){.data = json_string_value(value), .len = json_string_length(value)};
    return 0;
}

static int read_bool(const json_t *value, struct body_bool *ret, struct err *err)
{
    if (!json_is_boolean(value))
        return expected(err, "true or false");
    *ret = (struct body_bool){.value = json_is_true(value), .given = true};
    return 0;
}

// A number times `scale`. Parts round up: a short timeout must not turn into none.
static int scaled(const json_t *value, double scale, bool whole, int64_t *ret)
{
    if (json_is_integer(value) && scale == 1.0) {
        *ret = json_integer_value(value);
        return 0;
    }
    double number = json_number_value(value) * scale;
    if (!(number >= -9e15 && number <= 9e15))
        return -1;
    int64_t n = (int64_t)number;
    double rest = number - (double)n;
    if (whole && rest != 0.0)
        return -1;
    *ret = rest > 1e-6 ? n + 1 : n;
    return 0;
}

static int read_text_number(const struct field *f, const char *text, int64_t *ret, struct err *err)
{
    uint64_t bytes = 0;
    uint32_t cpus = 0;
    switch ((int)f->type) {
    case FIELD_SIZE:
        if (parse_size(text, &bytes, err) < 0)
            return -1;
        if (bytes > INT64_MAX)
            return err_set(err, ERR_INVALID, "'%s' is too large", text);
        *ret = (int64_t)bytes;
        return 0;
    case FIELD_MS: // a number is milliseconds, but parse_duration takes bare digits for seconds
        if (text[strspn(text, "0123456789.")] == '\0')
            return err_set(err, ERR_INVALID, "'%.40s' has no unit: write \"500ms\" or \"1s\"",
                           text);
        return parse_duration(text, ret, err);
    case FIELD_SECONDS:
        return parse_duration(text, ret, err);
    case FIELD_CPUS:
        if (parse_cpus(text, &cpus, err) < 0)
            return -1;
        *ret = cpus;
        return 0;
    case FIELD_SIGNAL:
        return body_signal(text, ret, err);
    default:
        return expected(err, "a whole number");
    }
}

static const struct {
    const char *wanted;
    double scale;
} numbers[FIELD_TYPE_MAX] = {
    [FIELD_INT] = {"a whole number",                                     1   },
    [FIELD_SIZE] = {"a number of bytes, or a text such as \"64m\"",       1   },
    [FIELD_MS] = {"a number of milliseconds, or a text such as \"1s\"", 1   },
    [FIELD_SECONDS] = {"a number of seconds, or a text such as \"10m\"",     1000},
    [FIELD_CPUS] = {"a number of cpus, such as 0.5",                      1000},
    [FIELD_USD] = {"a number of dollars, such as 1.5",                   1e9 },
    [FIELD_SIGNAL] = {"a signal's number, or its name such as \"SIGTERM\"", 1   },
};

static int check_range(const struct field *f, int64_t n, struct err *err)
{
    if (n >= f->min && (f->max == 0 || n <= f->max))
        return 0;
    double scale = numbers[f->type].scale;
    if (f->max == 0)
        return err_set(err, ERR_INVALID, "must be at least %g", (double)f->min / scale);
    return err_set(err, ERR_INVALID, "must be from %.15g to %.15g", (double)f->min / scale,
                   (double)f->max / scale);
}

static int read_number(const struct field *f, const json_t *value, struct body_int *ret,
                       struct err *err)
{
    int64_t n = 0;
    bool fraction_ok = f->type == FIELD_SECONDS || f->type == FIELD_CPUS || f->type == FIELD_MS ||
                       f->type == FIELD_USD;
    if (json_is_string(value) && f->type != FIELD_INT && f->type != FIELD_USD) {
        if (plain(value) == NULL)
            return expected(err, numbers[f->type].wanted);
        if (read_text_number(f, plain(value), &n, err) < 0)
            return -1;
    } else if (!json_is_number(value) ||
               scaled(value, numbers[f->type].scale, !fraction_ok, &n) < 0) {
        return expected(err, numbers[f->type].wanted);
    }
    if (check_range(f, n, err) < 0)
        return -1;
    *ret = (struct body_int){.value = n, .given = true};
    return 0;
}

static int read_strings(struct body *body, const struct field *f, const json_t *value,
                        struct body_strings *ret, struct err *err)
{
    if (!json_is_array(value))
        return expected(err, "an array of strings");
    size_t n = json_array_size(value);
    if (f->max > 0 && n > (size_t)f->max)
        return err_set(err, ERR_INVALID, "has more than %lld entries", (long long)f->max);
    if (n < (size_t)f->min)
        return err_set(err, ERR_INVALID, "must have at least %lld", (long long)f->min);
    const char **items = own(body, calloc(n + 1, sizeof *items));
    if (items == NULL)
        return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        items[i] = plain(json_array_get(value, i));
        if (items[i] == NULL)
            return err_set(err, ERR_INVALID,
                           "must be an array of strings without NULs; entry %zu is not one", i);
    }
    *ret = (struct body_strings){.items = items, .n = n};
    return 0;
}

static int check_pair(const struct field *f, const char *name, const json_t *value, struct err *err)
{
    const char *text = plain(value);
    if (text == NULL)
        return err_set(err, ERR_INVALID, "'%.80s' must be a string without NULs", name);
    if (name[0] == '\0')
        return err_set(err, ERR_INVALID, "has an empty name");
    if (f->type == FIELD_ENV && strchr(name, '=') != NULL)
        return err_set(err, ERR_INVALID, "'%.80s': a variable's name has no '='", name);
    if (f->type == FIELD_LABELS && (strlen(name) > EDGE_LABEL_MAX || strlen(text) > EDGE_LABEL_MAX))
        return err_set(err, ERR_INVALID, "'%.80s': names and values have at most %d bytes", name,
                       EDGE_LABEL_MAX);
    return 0;
}

static int read_map(struct body *body, const struct field *f, json_t *value, struct body_map *ret,
                    struct err *err)
{
    const char *name;
    json_t *entry;
    if (!json_is_object(value))
        return expected(err, "an object of strings");
    if (f->max > 0 && json_object_size(value) > (size_t)f->max)
        return err_set(err, ERR_INVALID, "has more than %lld entries", (long long)f->max);
    json_object_foreach(value, name, entry)
    {
        if (check_pair(f, name, entry, err) < 0)
            return -1;
    }
    char *text = own(body, json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS));
    if (text == NULL)
        return no_memory(err);
    if (f->type == FIELD_ENV && strlen(text) > EDGE_ENV_BYTES_MAX)
        return err_set(err, ERR_INVALID, "is longer than %d bytes", EDGE_ENV_BYTES_MAX);
    *ret = (struct body_map){.json = text, .n = json_object_size(value)};
    return 0;
}

static int read_json(struct body *body, const struct field *f, const json_t *value,
                     const char **ret, struct err *err)
{
    char *text = own(body, json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY));
    if (text == NULL)
        return no_memory(err);
    if (f->max > 0 && strlen(text) > (size_t)f->max)
        return err_set(err, ERR_INVALID, "is longer than %lld bytes", (long long)f->max);
    *ret = text;
    return 0;
}

static int read_object(struct body *body, const struct schema *schema, json_t *object, char *at,
                       struct err *err);

static void blame_entry(struct body *body, size_t i)
{
    char number[24];
    (void)snprintf(number, sizeof number, "%zu", i);
    blame(body, BODY_INVALID, number);
}

static int read_objects(struct body *body, const struct field *f, json_t *value,
                        struct body_objects *ret, struct err *err)
{
    if (!json_is_array(value))
        return expected(err, "an array of objects");
    size_t n = json_array_size(value), size = f->sub->size;
    if (n < (size_t)f->min || (f->max > 0 && n > (size_t)f->max))
        return err_set(err, ERR_INVALID, "must have from %lld to %lld entries", (long long)f->min,
                       (long long)f->max);
    char *items = own(body, calloc(n + 1, size));
    if (items == NULL)
        return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        json_t *item = json_array_get(value, i);
        int r = json_is_object(item) ? read_object(body, f->sub, item, items + i * size, err)
                                     : expected(err, "an object");
        if (r < 0) {
            blame_entry(body, i);
            return err_wrap(err, "entry %zu", i);
        }
    }
    *ret = (struct body_objects){.items = items, .n = n};
    return 0;
}

static int read_value(struct body *body, const struct field *f, json_t *value, void *at,
                      struct err *err)
{
    switch (f->type) {
    case FIELD_STRING:
        return read_string(f, value, at, err);
    case FIELD_BYTES:
        return read_bytes(f, value, at, err);
    case FIELD_BOOL:
        return read_bool(value, at, err);
    case FIELD_INT:
    case FIELD_SIZE:
    case FIELD_MS:
    case FIELD_SECONDS:
    case FIELD_CPUS:
    case FIELD_USD:
    case FIELD_SIGNAL:
        return read_number(f, value, at, err);
    case FIELD_STRINGS:
        return read_strings(body, f, value, at, err);
    case FIELD_ENV:
    case FIELD_LABELS:
        return read_map(body, f, value, at, err);
    case FIELD_USER:
        return body_read_user(value, at, err);
    case FIELD_JSON:
        return read_json(body, f, value, at, err);
    case FIELD_TREE:
        *(const void **)at = value;
        return 0;
    case FIELD_OBJECT:
        if (!json_is_object(value))
            return expected(err, "an object");
        return read_object(body, f->sub, value, at, err);
    case FIELD_OBJECTS:
        return read_objects(body, f, value, at, err);
    case FIELD_LATER:
        return err_set(err, ERR_INVALID, "is not supported by this version of Cay (%s)",
                       CAY_VERSION);
    case FIELD_FIXED:
        return err_set(err, ERR_INVALID, "cannot be changed");
    case FIELD_TYPE_MAX:
        break;
    }
    assert(!"a field of no type");
    return -1;
}

// -- the object

static const struct field *find(const struct schema *schema, const char *name)
{
    for (size_t i = 0; i < schema->n; i++) {
        if (strcmp(schema->fields[i].name, name) == 0)
            return &schema->fields[i];
    }
    return NULL;
}

// With what there is, where that is short.
static int refuse_unknown(const struct schema *schema, const char *name, struct err *err)
{
    enum { NAMES_MAX = 150 };
    auto_buf names;
    buf_init(&names, NAMES_MAX);
    for (size_t i = 0; i < schema->n; i++)
        (void)buf_printf(&names, "%s%s", i > 0 ? ", " : "", schema->fields[i].name);
    if (names.failed != 0)
        return err_set(err, ERR_INVALID, "unknown field '%.80s'", name);
    return err_set(err, ERR_INVALID, "unknown field '%.40s'; there are %s", name, buf_str(&names));
}

static int unknown(const struct schema *schema, const char *name, struct err *err)
{
    for (size_t i = 0; i < schema->n; i++) {
        const struct field *f = &schema->fields[i];
        if (f->type != FIELD_LATER && text_near(name, f->name))
            return err_set(err, ERR_INVALID, "unknown field '%.80s': did you mean '%s'?", name,
                           f->name);
    }
    return refuse_unknown(schema, name, err);
}

static void read_null(const struct field *f, char *at)
{
    if (f->type == FIELD_OBJECT) {
        for (size_t i = 0; i < f->sub->n; i++)
            read_null(&f->sub->fields[i], at + f->sub->fields[i].at);
    } else {
        memcpy(at, &(struct body_int){.value = 0, .given = true}, sizeof(struct body_int));
    }
}

static int check_required(struct body *body, const struct schema *schema, const json_t *object,
                          struct err *err)
{
    for (size_t i = 0; i < schema->n; i++) {
        const struct field *f = &schema->fields[i];
        const json_t *value = f->required ? json_object_get(object, f->name) : NULL;
        if (!f->required || (value != NULL && !json_is_null(value)))
            continue;
        blame(body, BODY_MISSING, f->name);
        return value != NULL ? err_set(err, ERR_INVALID, "%s: must not be null", f->name)
                             : err_set(err, ERR_INVALID, "field '%s' is missing", f->name);
    }
    return 0;
}

static int read_object(struct body *body, const struct schema *schema, json_t *object, char *at,
                       struct err *err)
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        const struct field *f = find(schema, name);
        if (f == NULL && schema->lenient)
            continue;
        if (f == NULL) {
            blame(body, BODY_UNKNOWN, name);
            return unknown(schema, name, err);
        }
        if (json_is_null(value) && f->type != FIELD_LATER && f->type != FIELD_FIXED) {
            if (f->nullable)
                read_null(f, at + f->at);
            continue;
        }
        if (read_value(body, f, value, at + f->at, err) < 0) {
            blame(body, BODY_INVALID, f->name);
            return err_wrap(err, "%s", f->name);
        }
    }
    return check_required(body, schema, object, err);
}

int body_read(struct body *body, const struct schema *schema, const char *data, size_t len,
              struct err *err)
{
    *body = (struct body){.values = calloc(1, schema->size + 1)};
    if (body->values == NULL)
        return no_memory(err);
    body->tree = is_blank(data, len) ? json_object() : parse(data, len, err);
    if (body->tree != NULL && read_object(body, schema, body->tree, body->values, err) == 0)
        return 0;
    struct body_fault fault = body->fault;
    if (body->tree == NULL)
        fault.wrong = BODY_UNREADABLE;
    body_done(body);
    body->fault = fault;
    return -1;
}

bool body_has(const struct body *body, const char *name)
{
    const json_t *value = json_object_get(body->tree, name);
    return value != NULL && !json_is_null(value);
}

int body_dump(const struct body *body, const char *without,
              int (*fn)(const char *text, size_t len, void *data), void *data)
{
    json_auto_t *copy = body->tree != NULL ? json_copy(body->tree) : json_object(); // not deep
    if (copy == NULL)
        abort();
    (void)json_object_del(copy, without);
    return json_dump_callback(copy, fn, data, JSON_COMPACT | JSON_SORT_KEYS);
}
