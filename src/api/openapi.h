// SPDX-License-Identifier: Apache-2.0
// The description of a family's routes in OpenAPI 3.1, from its tables.
#pragma once

#include "api/family.h"

struct json;

struct openapi {
    const char *title, *description;
    const struct family *family;
    const struct shape *const *shapes;    // ends with NULL
    void (*put_error)(struct json *json); // the schema of an error's body
};

void openapi_write(struct buf *ret, const struct openapi *what);
void openapi_native(struct buf *ret); // of our own
