// SPDX-License-Identifier: Apache-2.0
// What a driver does. Keys have been checked, `ret` is never NULL; counting, reading into memory
// and what both do the same way is in store.c.
#pragma once

#include "store/store.h"

struct store_driver {
    const char *kind;
    void (*close)(void *driver);
    int (*check)(void *driver, struct err *err); // beside what store_check tries; may be NULL
    int (*put)(void *driver, const struct store_put *put, struct store_info *ret, struct err *err);
    int (*get)(void *driver, const struct store_get *get, struct store_info *ret, struct err *err);
    int (*head)(void *driver, const char *key, struct store_info *ret, struct err *err);
    int (*remove)(void *driver, const char *key, struct err *err);
    int (*list)(void *driver, const char *prefix, const char *after, unsigned max, store_list_fn fn,
                void *data, struct err *err);
    int (*remove_all)(void *driver, const char *prefix, struct err *err);
    int (*sync)(void *driver, struct err *err); // NULL: nothing to do
};

extern const struct store_driver store_local, store_s3;

// Counted where they happen, by any thread.
struct store_tally {
    atomic_uint_fast64_t retried, bytes_in, bytes_out;
};

int store_local_open(int dir, uint64_t spare, struct store_tally *tally, void **ret,
                     struct err *err);
int store_s3_open(const struct store_s3 *config, struct store_tally *tally, void **ret,
                  struct err *err);

static inline bool store_stopped(const atomic_bool *stop)
{
    return stop != NULL && atomic_load_explicit(stop, memory_order_relaxed);
}
int store_say_stopped(struct err *err);
// Of an object that is not what was written.
int store_say_bad(struct err *err, const char *key, const char *how);
// Of content that is not what its giver said it would be: its length, its SHA-256.
int store_say_unlike(struct err *err, const char *key, const char *how);
int store_random_name(char ret[33]); // 32 hexadecimal digits; 0 or -errno
