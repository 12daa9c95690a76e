// SPDX-License-Identifier: Apache-2.0
// Answers that a preview gives itself.
#pragma once

#include <stdbool.h>

#include "api/preview.h"
#include "base/buf.h"
#include "base/err.h"
#include "edge/error.h"

struct preview_error {
    enum error_kind kind;
    const char *message;
    const char *id;  // of the request
    bool wants_html; // a person looks at it
};

// Appends the body; its media type.
const char *preview_write_error(const struct preview_error *error, struct buf *ret);
// What went wrong with the box, as an error for `message` (of `size` bytes).
enum error_kind preview_error_of(const struct err *err, uint16_t port, char *message, size_t size);
