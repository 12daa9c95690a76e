// SPDX-License-Identifier: Apache-2.0
// Which fields a kernel's representations and errors may have, and of what type.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sandbox/kernel-json.h"

enum value_type { VALUE_TEXT, VALUE_BASE64, VALUE_OBJECT, VALUE_ANY, VALUE_TEXTS, VALUE_LINE };

struct known {
    const char *name;
    enum value_type type;
    const char *fallback; // NULL: it may be missing
};

static const struct known representation[] = {
    {"text",       VALUE_TEXT,   NULL},
    {"html",       VALUE_TEXT,   NULL},
    {"markdown",   VALUE_TEXT,   NULL},
    {"svg",        VALUE_TEXT,   NULL},
    {"latex",      VALUE_TEXT,   NULL},
    {"javascript", VALUE_TEXT,   NULL},
    {"png",        VALUE_BASE64, NULL},
    {"jpeg",       VALUE_BASE64, NULL},
    {"json",       VALUE_ANY,    NULL},
    {"chart",      VALUE_OBJECT, NULL},
    {"data",       VALUE_OBJECT, NULL},
    {"metadata",   VALUE_OBJECT, NULL},
};

static const struct known failure[] = {
    {"name",       VALUE_TEXT,  "\"Error\""},
    {"message",    VALUE_TEXT,  "\"\""     },
    {"traceback",  VALUE_TEXTS, "[]"       },
    {"lineNumber", VALUE_LINE,  "null"     },
};

enum { FAILURE_FIELDS = sizeof failure / sizeof *failure };

static bool is_base64(const char *value, size_t len)
{
    if (len < 2 || value[0] != '"')
        return false;
    for (size_t i = 1; i < len - 1; i++) {
        char c = value[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '+' || c == '/' || c == '='))
            return false;
    }
    return true;
}

// Of an array that was scanned: whether every element is a string.
static bool is_texts(const char *value, size_t len)
{
    bool in_text = false;
    if (value[0] != '[')
        return false;
    for (size_t i = 1; i < len - 1; i++) {
        if (in_text && value[i] == '\\')
            i++;
        else if (value[i] == '"')
            in_text = !in_text;
        else if (!in_text && memchr(" \t\r\n,", value[i], 5) == NULL)
            return false;
    }
    return true;
}

static bool is_line(const char *value, size_t len)
{
    if (value[0] == 'n')
        return true;
    for (size_t i = 0; i < len; i++) {
        if (value[i] < '0' || value[i] > '9')
            return false;
    }
    return len < 10;
}

static bool fits(enum value_type type, const struct kernel_field *field)
{
    const char *value = field->value;
    switch (type) {
    case VALUE_TEXT:
        return value[0] == '"';
    case VALUE_BASE64:
        return is_base64(value, field->value_len);
    case VALUE_OBJECT:
        return value[0] == '{';
    case VALUE_ANY:
        return true;
    case VALUE_TEXTS:
        return is_texts(value, field->value_len);
    case VALUE_LINE:
        return is_line(value, field->value_len);
    }
    return false;
}

static const struct kernel_field *find(const struct kernel_object *object,
                                       const struct known *known)
{
    const struct kernel_field *field = kernel_json_get(object, known->name);
    return field != NULL && fits(known->type, field) ? field : NULL;
}

static void put_field(struct buf *ret, const char *name, const char *value, size_t len)
{
    (void)buf_append_str(ret, ret->len == 0 ? "{\"" : ",\"");
    (void)buf_append_str(ret, name);
    (void)buf_append_str(ret, "\":");
    (void)buf_append(ret, value, len);
}

static int put_end(struct buf *ret)
{
    (void)buf_append_str(ret, ret->len == 0 ? "{}" : "}");
    return ret->failed;
}

int kernel_json_representation(char *text, size_t len, struct buf *ret)
{
    enum { N = sizeof representation / sizeof *representation };
    struct kernel_object object;
    const struct kernel_field *found[N];
    unsigned n = 0;
    static const char too_deep[] = "\"(a value that goes too deep to be shown)\"";
    switch (kernel_json_scan(text, len, &object)) {
    case KERNEL_JSON_OK:
        break;
    case KERNEL_JSON_DEEP:
        put_field(ret, "text", too_deep, sizeof too_deep - 1);
        return put_end(ret);
    case KERNEL_JSON_BAD:
        return -EINVAL;
    }
    for (unsigned i = 0; i < N; i++) {
        found[i] = find(&object, &representation[i]);
        n += found[i] != NULL;
    }
    if (n == object.n && !object.has_twice)
        return 0;
    for (unsigned i = 0; i < N; i++) {
        if (found[i] != NULL)
            put_field(ret, representation[i].name, found[i]->value, found[i]->value_len);
    }
    return put_end(ret);
}

// As the languages call it: KeyboardInterrupt, Interrupted, InterruptError.
static bool is_interrupt(const struct kernel_field *name)
{
    return name != NULL && memmem(name->value, name->value_len, "nterrupt", 8) != NULL;
}

int kernel_json_failure(char *text, size_t len, const struct kernel_timeout *timeout,
                        struct buf *ret, bool *ret_interrupted)
{
    struct kernel_object object;
    char message[96];
    if (kernel_json_scan(text, len, &object) != KERNEL_JSON_OK)
        return -EINVAL;
    *ret_interrupted = is_interrupt(find(&object, &failure[0]));
    bool is_ours = timeout->after_ms > 0 && *ret_interrupted;
    (void)snprintf(message, sizeof message, "\"the cell ran for longer than %" PRId64 " ms\"",
                   timeout->after_ms);
    for (unsigned i = 0; i < FAILURE_FIELDS; i++) {
        const struct kernel_field *field = find(&object, &failure[i]);
        if (is_ours && i == 0)
            put_field(ret, "name", "\"TimeoutError\"", strlen("\"TimeoutError\""));
        else if (is_ours && i == 1)
            put_field(ret, "message", message, strlen(message));
        else if (field != NULL)
            put_field(ret, failure[i].name, field->value, field->value_len);
        else
            put_field(ret, failure[i].name, failure[i].fallback, strlen(failure[i].fallback));
    }
    return put_end(ret);
}

// --- texts, for messages of our own

static size_t decode_escape(const char *at, char *ret)
{
    static const char from[] = "nrtbf\"\\/", to[] = "\n\r\t  \"\\/";
    const char *found = strchr(from, at[1]);
    *ret = found != NULL ? to[found - from] : '?';
    return at[1] == 'u' ? 6 : 2;
}

void kernel_json_text(const struct kernel_object *object, const char *name, char *ret, size_t size)
{
    const struct kernel_field *field = kernel_json_get(object, name);
    size_t n = 0;
    ret[0] = '\0';
    if (field == NULL || field->value[0] != '"')
        return;
    for (size_t i = 1; i < field->value_len - 1 && n + 1 < size;) {
        if (field->value[i] == '\\')
            i += decode_escape(field->value + i, &ret[n++]);
        else
            ret[n++] = field->value[i++];
    }
    ret[n] = '\0';
}
