// SPDX-License-Identifier: Apache-2.0
// The WebSocket of the benchmark, on both sides: the key is always the sample of RFC 6455, and
// frames are small ones.
#pragma once

#define WS_KEY    "dGhlIHNhbXBsZSBub25jZQ=="
#define WS_ACCEPT "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

enum {
    WS_SMALL = 125,   // the most that a frame with a short head carries
    WS_BINARY = 0x82, // first byte of such a frame: the last of its message
    WS_MASKED = 0x80, // in the second byte
};
