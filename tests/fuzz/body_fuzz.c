// SPDX-License-Identifier: Apache-2.0
// Bodies as strangers send them, against a table with a field of every type; and their patterns.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/pattern.h"
#include "base/text.h"
#include "edge/body.h"
#include "edge/error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct inner {
    struct body_int n;
};
struct all {
    const char *string;
    struct body_bytes bytes;
    struct body_int number, size, ms, seconds, cpus, usd, signal;
    struct body_bool flag;
    struct body_strings strings;
    struct body_map env, labels;
    struct body_user user;
    struct inner inner;
};

#define AT(member) offsetof(struct all, member)
static const struct field inner_fields[] = {
    FIELD("n", FIELD_INT, offsetof(struct inner, n)),
};
static const struct schema inner_schema = SCHEMA("Inner", struct inner, inner_fields);
static const struct field fields[] = {
    FIELD("s", FIELD_STRING, AT(string), .max = 100),
    FIELD("b", FIELD_BYTES, AT(bytes)),
    FIELD("i", FIELD_INT, AT(number), .min = -5, .max = 500),
    FIELD("size", FIELD_SIZE, AT(size)),
    FIELD("ms", FIELD_MS, AT(ms)),
    FIELD("sec", FIELD_SECONDS, AT(seconds)),
    FIELD("cpus", FIELD_CPUS, AT(cpus)),
    FIELD("usd", FIELD_USD, AT(usd), .nullable = true),
    FIELD("sig", FIELD_SIGNAL, AT(signal), .min = 1, .max = 64),
    FIELD("flag", FIELD_BOOL, AT(flag)),
    FIELD("list", FIELD_STRINGS, AT(strings), .max = 10),
    FIELD("env", FIELD_ENV, AT(env), .max = 10),
    FIELD("labels", FIELD_LABELS, AT(labels), .max = 10),
    FIELD("user", FIELD_USER, AT(user)),
    FIELD("inner", FIELD_OBJECT, AT(inner), .sub = &inner_schema),
    FIELD("later", FIELD_LATER, 0),
    FIELD("fixed", FIELD_FIXED, 0),
};
static const struct schema schema = SCHEMA("All", struct all, fields);

static void check(const struct all *a)
{
    assert(a->string == NULL ||
           (strlen(a->string) <= 100 && utf8_valid(a->string, strlen(a->string))));
    assert(a->bytes.data == NULL || utf8_valid(a->bytes.data, a->bytes.len));
    assert(!a->number.given || (a->number.value >= -5 && a->number.value <= 500));
    assert(a->size.value >= 0 && a->ms.value >= 0 && a->seconds.value >= 0 && a->cpus.value >= 0);
    assert(!a->signal.given || (a->signal.value >= 1 && a->signal.value <= 64));
    assert(a->strings.n <= 10 &&
           (a->strings.items == NULL || a->strings.items[a->strings.n] == NULL));
    assert(a->env.n <= 10 && a->labels.n <= 10);
    assert(a->user.uid <= 65534 && a->user.gid <= 65534);
}

static void fuzz_body(const uint8_t *data, size_t size)
{
    struct body body;
    struct err err = {0};
    auto_buf answer;
    buf_init(&answer, 4096);
    if (body_read(&body, &schema, (const char *)data, size, &err) == 0) {
        check(body.values);
        body_done(&body);
        return;
    }
    assert(err.code == ERR_INVALID && err.msg[0] != '\0');
    error_write(&answer, error_of(err.code), err.msg, "r", NULL);
    assert(utf8_valid(answer.data, answer.len));
}

static void fuzz_pattern(const uint8_t *data, size_t size)
{
    struct err err;
    struct pattern *p = NULL;
    char *text = malloc(size + 1);
    if (text == NULL)
        return;
    memcpy(text, data, size);
    text[size] = '\0';
    if (pattern_new(text, &p, &err) == 0) {
        (void)pattern_found(p, text, size < 4096 ? size : 4096);
        pattern_free(p);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_body(data, size);
    fuzz_pattern(data, size);
    return 0;
}
