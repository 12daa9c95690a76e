// SPDX-License-Identifier: Apache-2.0
// AWS Signature, version 4, in a header, for S3: paths are encoded once and not normalised.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/buf.h"

// Percent-encoded as the signature wants it: all but letters, digits and "-._~" (and '/', of a
// path).
void s3_encode(struct buf *to, const char *text, bool is_path);

struct s3_field {
    const char *name, *value; // in lower case; no spaces around, none doubled within
};

struct s3_signed {
    const char *method;
    const char *path, *query;      // encoded; the query in the order of its names
    const struct s3_field *fields; // in the order of their names
    unsigned n_fields;
    const char *payload; // its SHA-256, in hexadecimal
    const char *region, *access_key, *secret_key;
    const char *when; // "20130524T000000Z"
};

// The value of the header Authorization.
void s3_sign(const struct s3_signed *request, struct buf *ret);
