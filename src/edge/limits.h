// SPDX-License-Identifier: Apache-2.0
// What a stranger may send, and how much is kept for one: all of it in one place.
#pragma once

enum {
    EDGE_TARGET_MAX = 8 * 1024,        // bytes of path and query
    EDGE_HEADERS_MAX = 100,            // header lines
    EDGE_HEADER_BYTES_MAX = 32 * 1024, // all of them together
    EDGE_BODY_MAX = 32 * 1024 * 1024,  // of a JSON request
    EDGE_JSON_DEPTH_MAX = 32,
    EDGE_CONNECTIONS_MAX = 16 * 1024,
    EDGE_IDLE_SECONDS = 75,             // a connection without a request, or one half sent
    EDGE_STREAM_QUEUE_MAX = 256 * 1024, // of a stream whose reader is slow, before its writer waits
    EDGE_NAME_MAX = 128,                // ids of sandboxes, sessions, processes
    EDGE_ARGS_MAX = 1024,               // argv
    EDGE_ENV_MAX = 512,                 // variables of one sandbox or call
    EDGE_LABELS_MAX = 64,
    EDGE_LABEL_MAX = 256,           // bytes of a label's name or value
    EDGE_COMMAND_MAX = 1024 * 1024, // bytes of a command line
    EDGE_PAGE_MAX = 1000,           // entries of one page of a list
    EDGE_PAGE_DEFAULT = 100,
    EDGE_IDEMPOTENCY_KEY_MAX = 255,
    EDGE_REQUEST_ID_MAX = 128,
    EDGE_IDEMPOTENCY_BODY_MAX = 1024 * 1024, // an answer larger than this is not kept
};
