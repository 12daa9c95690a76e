// SPDX-License-Identifier: Apache-2.0
// Targets: whatever is sent, what comes out is UTF-8 without NUL, has no segment that means another
// place, and no parameter twice.
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "edge/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_segments(const struct target *target)
{
    for (size_t i = 0; i < target->n_segments; i++) {
        const char *s = target->segments[i];
        assert(*s != '\0' && strchr(s, '/') == NULL);
        assert(strcmp(s, ".") != 0 && strcmp(s, "..") != 0);
        assert(utf8_valid(s, strlen(s)));
    }
}

static void check_query(const struct target *target)
{
    for (size_t i = 0; i < target->n_query; i++) {
        const struct target_query *q = &target->query[i];
        assert(*q->name != '\0' && target_query(target, q->name) == q->value);
        assert(utf8_valid(q->name, strlen(q->name)) && utf8_valid(q->value, strlen(q->value)));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct target target;
    struct err err = {0};
    const char *params[TARGET_PARAMS_MAX];
    char *raw = strndup((const char *)data, size);
    if (raw == NULL)
        return 0;
    if (target_parse(&target, raw, &err) == 0) {
        check_segments(&target);
        check_query(&target);
        (void)target_match(&target, "/sandbox/{id}/sessions/{sid}", params);
        (void)target_match(&target, "/sandbox/{id}/files/{path*}", params);
        target_done(&target);
    } else {
        assert(err.code == ERR_INVALID || err.code == ERR_NOT_FOUND);
    }
    free(raw);
    return 0;
}
