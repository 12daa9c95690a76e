// SPDX-License-Identifier: Apache-2.0
// Objects: names with bytes behind them, in a directory (`local`) or in any S3 (`s3`). All calls
// here wait: they are for threads (store/pool.h), never for the loop. A store may be used by many
// threads at once.
//
// An object is whole or not there: it is written under another name, or in parts that nobody sees,
// and gets its name when the last byte is in. Every object knows the SHA-256 of its content where
// that was known beforehand or can be kept (always, in `local`), and what is read is checked: bytes
// that were handed over before the end was seen are worth nothing unless the call returns 0.
//
// Keys: 1 to 1024 bytes of UTF-8, parts separated by '/', none of them empty, ".", "..", or longer
// than 255 bytes, no control characters; the first part is not ".tmp". No key may be the beginning
// of another up to a '/'
// (`local` has directories there: ERR_CONFLICT; s3 does not look).
//
// Errors: ERR_NOT_FOUND, ERR_INVALID (a key), ERR_DENIED (credentials), ERR_UNAVAILABLE (down,
// slow, failing, after some tries: later it may work), ERR_EXHAUSTED (no space), ERR_INTERNAL with
// sys_errno EBADMSG: the object is not what was written (cut, swapped, changed). ERR_INVALID with
// EBADMSG: what is being written is not what was announced (size, SHA-256). Whatever is wrong with
// the bucket itself is ERR_DENIED, never ERR_NOT_FOUND: no object is believed to be gone for that.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct store;

enum { STORE_SHA256 = 32, STORE_KEY_MAX = 1024 };

struct store_s3 {
    const char *endpoint; // "https://s3.eu-central-1.amazonaws.com", "http://127.0.0.1:4568"
    const char *bucket, *region;
    const char *prefix; // of all keys; "" or "cay/"
    const char *access_key, *secret_key;
    bool host_style;      // BUCKET.HOST/KEY, else HOST/BUCKET/KEY
    const char *ca_file;  // "": the machine's
    uint32_t part;        // bytes of a part of a large object; 0: 8 MiB
    uint32_t page;        // keys of a page of a list; 0: 1000
    uint32_t tries;       // of what fails for now; 0: 5
    uint32_t patience_ms; // without a byte moving; 0: 30 s
};

struct store_config {
    int dir;                   // `local`: the directory, lent until store_close; -1: s3
    uint64_t spare;            // `local`: bytes that stay free on its file system: ERR_EXHAUSTED
    const struct store_s3 *s3; // copied
};

int store_open(const struct store_config *config, struct store **ret, struct err *err);
void store_close(struct store *store);             // nobody uses it any more
const char *store_kind(const struct store *store); // "local", "s3"
bool store_key_valid(const char *key);

// Whether it works: that it can be listed, written to, read from and deleted from with these
// credentials. The error says what to do.
int store_check(struct store *store, struct err *err);

struct store_info {
    uint64_t size;
    bool has_sha256;
    uint8_t sha256[STORE_SHA256];
    int64_t modified_ms;
};

// Where bytes come from. As read(2), but waits: how many, 0 at the end, -1 and err: then the object
// is not written.
typedef ssize_t (*store_read_fn)(void *data, void *buf, size_t size, struct err *err);
struct store_put {
    const char *key;
    store_read_fn read;
    void *data;
    int64_t size;          // -1: until the end
    const uint8_t *sha256; // if it is known: then it is checked, and kept with the object
    const atomic_bool
        *stop; // may be NULL; true: gives up, ERR_UNAVAILABLE with sys_errno ECANCELED
};
// Replaces what is there. `ret` (may be NULL) has size and SHA-256 in any case. Of objects in
// `local`, a crash of the machine may lose them until store_sync; of no other.
int store_put(struct store *store, const struct store_put *put, struct store_info *ret,
              struct err *err);
int store_put_bytes(struct store *store, const char *key, const void *bytes, size_t len,
                    struct err *err);
int store_sync(struct store *store, struct err *err);

// Where bytes go. 0, or -1 and err: then nothing more is read.
typedef int (*store_write_fn)(void *data, const void *buf, size_t size, struct err *err);
struct store_get {
    const char *key;
    uint64_t offset, length; // length 0: to the end. A part is not checked against the SHA-256;
                             // one that begins at or behind the end is ERR_INVALID
    const uint8_t *sha256;   // what it must be; NULL: what the object knows, if it does
    store_write_fn write;
    void *data;
    const atomic_bool *stop;
};
int store_get(struct store *store, const struct store_get *get, struct store_info *ret,
              struct err *err);
// At most `max` bytes, in memory: ERR_EXHAUSTED when there are more. The caller frees them; a NUL
// follows.
int store_get_bytes(struct store *store, const char *key, size_t max, char **ret, size_t *ret_len,
                    struct err *err);
int store_head(struct store *store, const char *key, struct store_info *ret,
               struct err *err);                                         // 1, 0
int store_delete(struct store *store, const char *key, struct err *err); // 1, 0: it was not there

struct store_listed {
    const char *key;
    uint64_t size;
    int64_t modified_ms;
};
typedef int (*store_list_fn)(void *data, const struct store_listed *object); // not 0: stop
// Keys that begin with the prefix (which may end within a part, or be ""), above `after` (NULL:
// all), in the order of their bytes, at most `max` (0: all).
int store_list(struct store *store, const char *prefix, const char *after, unsigned max,
               store_list_fn fn, void *data, struct err *err);
// All that begin with the prefix, which ends with '/'.
int store_delete_all(struct store *store, const char *prefix, struct err *err);

// For /metrics: since the start; any thread.
struct store_counts {
    uint64_t puts, gets, deletes, lists, failed, retried;
    uint64_t bytes_in, bytes_out;
};
void store_counts(const struct store *store, struct store_counts *ret);
