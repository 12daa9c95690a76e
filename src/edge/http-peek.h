// SPDX-License-Identifier: Apache-2.0
// As much of a request's head as tells who shall read its body.
#pragma once

#include <stdint.h>

#define HTTP_CHUNKED UINT64_MAX

struct http_peek {
    char method[8]; // each cut to what fits, ended by a NUL
    char target[256];
    char host[136];  // "" where there is none
    uint64_t length; // of the body; HTTP_CHUNKED
};
