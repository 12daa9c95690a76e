// SPDX-License-Identifier: Apache-2.0
// What a secret may be made of, for secret.c. No state.
#pragma once

#include "egress/secret.h"

enum {
    SECRET_HEADER_MAX = 63,
    SECRET_FORMAT_MAX = 256,
    SECRET_UPSTREAM_MAX = 600,
};

// An upstream in its canonical form, and in parts. Writes host, port, prefix and tls of `ret`.
int secret_upstream(const char *text, char canonical[SECRET_UPSTREAM_MAX], struct secret *ret,
                    struct err *err);
int secret_check_header(const char *header, struct err *err);
// Where the credential goes in a format: "{}", or "{basic}" for its base64.
struct secret_format {
    size_t head_len; // before it
    const char *tail;
    bool basic;
};
int secret_format(const char *format, struct secret_format *ret, struct err *err);
int secret_check_value(const struct secret_put *put, const struct secret_format *format,
                       struct err *err);
