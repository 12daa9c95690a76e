// SPDX-License-Identifier: Apache-2.0
// What a stranger may send, and how much is kept for one: all of it in one place.
#pragma once

enum {
    // These six are bounded by the memory of a connection (HTTP_POOL in edge/http-internal.h).
    EDGE_TARGET_MAX = 4 * 1024,       // bytes of path and query: 414
    EDGE_QUERY_MAX = 16,              // name=value pairs of a query: 400
    EDGE_HEADERS_MAX = 64,            // header lines: 431
    EDGE_HEADER_BYTES_MAX = 8 * 1024, // the target and all of them together: 431
    EDGE_COOKIE_BYTES = 64,           // what each cookie counts beside its text, which counts twice
    EDGE_REPLY_HEADERS_MAX = 2 * 1024,   // what an answer may add of its own
    EDGE_BODY_MAX = 32 * 1024 * 1024,    // of a JSON request: 413
    EDGE_BODY_FREE = 16 * 1024,          // more than this only from those who are known (401),
    EDGE_BODIES_MAX = 256 * 1024 * 1024, // and of all of these together, of one half of it: 503
    EDGE_STRANGER_MAX = 2 * 1024 * 1024, // of a body that has its token within: 401
    EDGE_STRANGERS_MAX = 8,              // bodies above EDGE_BODY_FREE that are read so at a time
    EDGE_JSON_DEPTH_MAX = 32,
    EDGE_JSON_VALUES_MAX = 16 * 1024, // all arrays and objects together, about
    EDGE_CONNECTIONS_MAX = 16 * 1024,
    EDGE_IDLE_SECONDS = 75,   // a connection without a request, or one whose bytes stop coming
    EDGE_RATE_MIN = 1024,     // bytes a second of a request that takes longer than that
    EDGE_WATCH_MS = 25,       // a request older than this is given up when its client leaves
    EDGE_LINGER_MS = 2000,    // a refused client may go on sending for so long, to hear why
    EDGE_LINGERING_MAX = 64,  // clients at a time
    EDGE_KEEPALIVE_IDLE = 30, // seconds of silence before TCP asks whether the other side is there
    EDGE_SMALL_BODY = 256 * 1024,       // of one that may be left in the socket: a smaller one is
                                        // collected in memory, which is faster, and keeps it simple
    EDGE_STREAM_QUEUE_MAX = 256 * 1024, // of a slow reader's stream, before its writer waits
    EDGE_STREAM_HARD_MAX = 4 * 1024 * 1024, // a writer that does not wait loses the stream here
    EDGE_NAME_MAX = 128,                    // ids of sandboxes, sessions, processes
    EDGE_ARGS_MAX = 1024,                   // argv
    EDGE_ENV_MAX = 512,                     // variables of one sandbox or call
    EDGE_ENV_BYTES_MAX = 1024 * 1024,       // of all of them as JSON: a program takes 2 MiB
    EDGE_LABELS_MAX = 64,
    EDGE_LABEL_MAX = 256,           // bytes of a label's name or value
    EDGE_COMMAND_MAX = 1024 * 1024, // bytes of a command line
    EDGE_PAGE_MAX = 1000,           // entries of one page of a list
    EDGE_PAGE_DEFAULT = 100,
    EDGE_IDEMPOTENCY_KEY_MAX = 255,
    EDGE_REQUEST_ID_MAX = 128,
    EDGE_IDEMPOTENCY_BODY_MAX = 1024 * 1024, // an answer larger than this is not kept
};
