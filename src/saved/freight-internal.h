// SPDX-License-Identifier: Apache-2.0
// One archive on its way between a disk (which cay-pack reads or writes) and an object of the store
// or a client's pipe. It has arrived only when all agree: cay-pack's verdict and its end, the
// store's digest. On the loop; a thread of the pool moves the bytes.
#pragma once

#include "saved/saved-internal.h"

struct freight;

struct freight_result {
    uint64_t entries, raw; // by the verdict: what is in it
    uint64_t size;         // of the archive: with a store
    uint8_t sha256[STORE_SHA256];
};

struct freight_config {
    uint64_t making;
    enum disk_work work;     // WORK_PACK_*, WORK_UNPACK_*
    const char *image;       // of a tree, else NULL
    const char *const *args; // ends with NULL
    // With the store: its key. Of what comes from it, what it must be.
    const char *key;
    const struct freight_result *expect;
    // After what went into it, on the thread: the object is whole. May be NULL.
    int (*stored)(void *data, const struct freight_result *result, struct err *err);
    // With a client (key NULL): its pipe, taken in any case. What comes from it must have this
    // SHA-256, where that is not NULL.
    int pipe;
    const uint8_t *sha256;
};

typedef void (*freight_fn)(void *data, const struct freight_result *result, const struct err *err);

// fn is called exactly once, never before this returns.
struct freight *freight_start(struct saved *saved, const struct freight_config *config,
                              freight_fn fn, void *data);
void freight_stop(struct freight *freight); // it fails, soon
void freights_stop(struct saved *saved);

// "ok ENTRIES BYTES" or "failed CODE MESSAGE", `len` bytes of what a process wrote that may be an
// enemy's: 0, or -1 and err. Any thread.
int freight_read_verdict(const char *text, size_t len, struct freight_result *ret, struct err *err);
