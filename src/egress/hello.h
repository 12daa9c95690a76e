// SPDX-License-Identifier: Apache-2.0
// Reads the first message of a TLS client (RFC 8446, 4.1.2) as it came from a stranger: which
// server does it ask for? Records may cut it anywhere. Pure, no allocation, any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HELLO_MAX = 16 * 1024 }; // more than any client sends

enum hello_verdict {
    HELLO_MORE,    // bytes are missing
    HELLO_NOT_TLS, // the first bytes are not those of a record
    HELLO_BAD,     // they are, and it is not a handshake's, or then it goes wrong
    HELLO_WHOLE,
};

struct hello {
    bool has_name;
    char name[256]; // of the server, as it was sent; without a NUL in it
    bool encrypted; // it has an encrypted_client_hello (0xfe0d): the true name may be another
};

// HELLO_MORE never comes for HELLO_MAX bytes.
enum hello_verdict hello_parse(const uint8_t *data, size_t len, struct hello *ret);
