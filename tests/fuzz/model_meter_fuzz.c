// SPDX-License-Identifier: Apache-2.0
// Answers that pass by: however they are cut the reading is the same, and never makes no sense. The
// first byte says how they are cut.
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "model/meter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(const char *type, const char *text, size_t len, size_t step,
                     struct meter_reading *ret)
{
    struct meter *meter = meter_new(200, type);
    for (size_t at = 0; at < len; at += step)
        meter_feed(meter, text + at, len - at < step ? len - at : step);
    memset(ret, 0, sizeof *ret);
    meter_read(meter, ret);
    meter_free(meter);
    assert(ret->usage.input >= 0 && ret->usage.output >= 0 && ret->usage.cache_write >= 0);
    assert(memchr(ret->model, '\0', sizeof ret->model) != NULL);
}

static void check(const char *type, const char *text, size_t len, size_t step)
{
    struct meter_reading one, other;
    read_all(type, text, len, len + 1, &one);
    read_all(type, text, len, step, &other);
    assert(strcmp(one.model, other.model) == 0 && one.is_final == other.is_final);
    assert(memcmp(&one.usage, &other.usage, sizeof one.usage) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;
    size_t step = data[0] % 16 + 1u;
    check("text/event-stream", text, size - 1, step);
    check("application/json", text, size - 1, step);
    return 0;
}
