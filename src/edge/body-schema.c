// SPDX-License-Identifier: Apache-2.0
// A table of fields as a JSON Schema. Texts of units have their patterns in words: the parsers are
// the truth.
#include "base/json.h"
#include "edge/body.h"
#include "edge/limits.h"

static void put(struct json *j, const char *key, const char *text)
{
    json_key(j, key);
    json_put_str(j, text);
}

static void put_n(struct json *j, const char *key, int64_t n)
{
    json_key(j, key);
    json_put_int(j, n);
}

static void put_types(struct json *j, const char *a, const char *b)
{
    json_key(j, "type");
    json_open_array(j);
    json_put_str(j, a);
    json_put_str(j, b);
    json_close_array(j);
}

static void put_strings(struct json *j, const struct field *f)
{
    put(j, "type", "array");
    json_key(j, "items");
    json_open_object(j);
    put(j, "type", "string");
    json_close_object(j);
    if (f->min > 0)
        put_n(j, "minItems", f->min);
    if (f->max > 0)
        put_n(j, "maxItems", f->max);
}

static void put_map(struct json *j, const struct field *f)
{
    put(j, "type", "object");
    json_key(j, "additionalProperties");
    json_open_object(j);
    put(j, "type", "string");
    if (f->type == FIELD_LABELS)
        put_n(j, "maxLength", EDGE_LABEL_MAX);
    json_close_object(j);
    if (f->max > 0)
        put_n(j, "maxProperties", f->max);
}

static void put_string(struct json *j, const struct field *f)
{
    put(j, "type", "string");
    if (f->max > 0)
        put_n(j, "maxLength", f->max);
}

static void put_number(struct json *j, const struct field *f)
{
    if (f->type == FIELD_INT)
        put(j, "type", "integer");
    else if (f->type == FIELD_USD)
        put(j, "type", "number");
    else
        put_types(j, f->type == FIELD_SIZE || f->type == FIELD_SIGNAL ? "integer" : "number",
                  "string");
    int64_t scale = f->type == FIELD_SECONDS || f->type == FIELD_CPUS ? 1000 : 1;
    if (f->type == FIELD_USD)
        scale = 1000000000;
    json_key(j, "minimum");
    json_put_double(j, (double)f->min / (double)scale);
    if (f->max > 0) {
        json_key(j, "maximum");
        json_put_double(j, (double)f->max / (double)scale);
    }
}

static void put_fields(struct json *j, const struct schema *schema);

static void put_objects(struct json *j, const struct field *f)
{
    put(j, "type", "array");
    json_key(j, "items");
    json_open_object(j);
    put_fields(j, f->sub); // tables are not nested in themselves
    json_close_object(j);
    put_n(j, "minItems", f->min);
    if (f->max > 0)
        put_n(j, "maxItems", f->max);
}

static void put_type(struct json *j, const struct field *f)
{
    switch (f->type) {
    case FIELD_STRING:
    case FIELD_BYTES:
        put_string(j, f);
        break;
    case FIELD_BOOL:
        put(j, "type", "boolean");
        break;
    case FIELD_INT:
    case FIELD_SIZE:
    case FIELD_MS:
    case FIELD_SECONDS:
    case FIELD_CPUS:
    case FIELD_USD:
    case FIELD_SIGNAL:
        put_number(j, f);
        break;
    case FIELD_STRINGS:
        put_strings(j, f);
        break;
    case FIELD_ENV:
    case FIELD_LABELS:
        put_map(j, f);
        break;
    case FIELD_USER:
        put_types(j, "integer", "string");
        break;
    case FIELD_OBJECTS:
        put_objects(j, f);
        break;
    case FIELD_JSON: // no type: any
    case FIELD_TREE:
    case FIELD_OBJECT:
    case FIELD_LATER:
    case FIELD_FIXED:
    case FIELD_TYPE_MAX:
        break;
    }
}

static bool is_taken(const struct field *f)
{
    return f->type != FIELD_LATER && f->type != FIELD_FIXED;
}

static void put_required(struct json *j, const struct schema *schema)
{
    size_t n = 0;
    for (size_t i = 0; i < schema->n; i++)
        n += schema->fields[i].required;
    if (n == 0)
        return;
    json_key(j, "required");
    json_open_array(j);
    for (size_t i = 0; i < schema->n; i++) {
        if (schema->fields[i].required)
            json_put_str(j, schema->fields[i].name);
    }
    json_close_array(j);
}

static void put_fields(struct json *j, const struct schema *schema)
{
    put(j, "type", "object");
    json_key(j, "additionalProperties");
    json_put_bool(j, false);
    json_key(j, "properties");
    json_open_object(j);
    for (size_t i = 0; i < schema->n; i++) {
        const struct field *f = &schema->fields[i];
        if (!is_taken(f))
            continue;
        json_key(j, f->name);
        json_open_object(j);
        put_type(j, f);
        if (f->type == FIELD_OBJECT)
            put_fields(j, f->sub); // tables are not nested in themselves
        if (f->help != NULL)
            put(j, "description", f->help);
        json_close_object(j);
    }
    json_close_object(j);
    put_required(j, schema);
}

void body_write_schema(struct json *j, const struct schema *schema)
{
    json_open_object(j);
    put_fields(j, schema);
    json_close_object(j);
}
