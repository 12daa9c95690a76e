// SPDX-License-Identifier: Apache-2.0
// Objects in a bucket of whoever speaks S3. All bodies that are sent lie in memory, a part at most,
// so that what fails for now can be sent again; what is received goes to its taker as it comes.
// Requests are signed here (s3-sign.c), not by libcurl: its versions differ in which paths, queries
// and headers they sign rightly.
#pragma once

#include <curl/curl.h>
#include <pthread.h>

#include "base/buf.h"
#include "store/store-internal.h"

enum {
    S3_PARAMS_MAX = 8,
    S3_PARTS_MAX = 10000, // of one object; all S3s agree
    S3_LIST_MAX = 1000,
    S3_ANSWER_MAX = 8 * 1024 * 1024, // a list of the longest keys, each byte as %XX
    S3_ETAG_MAX = 128,
};

struct s3 {
    char *origin; // "https://host:port"; with the bucket before the host in host style
    char *host;   // as in the header Host
    char *base;   // of paths: "/bucket", or ""
    char *bucket, *region, *prefix, *access_key, *secret_key, *ca_file;
    uint32_t part, page, tries, patience_ms;
    struct store_tally *tally;
    atomic_int_fast64_t bucket_seen_ns; // when something proved that there is the bucket; 0: never
    pthread_mutex_t lock;               // of what follows
    CURL *idle[32]; // with their connections, for whoever asks next; more are not kept
    unsigned n_idle;
};

struct s3_param {
    const char *name, *value;
};

struct s3_call {
    const char *method;
    const char *key;                            // NULL: the bucket itself
    struct s3_param params[S3_PARAMS_MAX + 1];  // ended by a NULL; in the order of their names
    struct s3_param headers[S3_PARAMS_MAX + 1]; // the same; in lower case
    const void *body;                           // NULL: none
    size_t body_len;
    store_write_fn sink; // takes the body of an answer that is good; NULL: it is kept
    void *sink_data;
    const atomic_bool *stop;
    unsigned tries; // 0: as the store is set
    // the answer
    long status;       // 0: none came
    struct buf answer; // what was kept
    char code[64];     // of an error
    char etag[S3_ETAG_MAX], range[64], sha256[80], mark[40];
    int64_t length;      // -1: unknown
    int64_t modified_ms; // 0: unknown
};

enum s3_end {
    S3_GOOD,
    S3_AGAIN, // for now; err says why
    S3_BAD,
};

void s3_call_init(struct s3_call *call, const char *method, const char *key);
void s3_call_done(struct s3_call *call);
#define auto_s3_call __attribute__((cleanup(s3_call_done))) struct s3_call
void s3_call_param(struct s3_call *call, const char *name, const char *value);
void s3_call_header(struct s3_call *call, const char *name, const char *value);

// Once. Forgets the answer before.
enum s3_end s3_try(struct s3 *s3, struct s3_call *call, struct err *err);
// Until it is good or bad, or has been tried often enough.
int s3_perform(struct s3 *s3, struct s3_call *call, struct err *err);
// Before the next try; `n` have failed. False: told to stop.
bool s3_wait(struct s3 *s3, unsigned n, const atomic_bool *stop);

// What an answer that is not good means.
enum s3_end s3_read_error(struct s3 *s3, struct s3_call *call, struct err *err);

// Of an answer that is good but not an S3's: of a page to log in at, for one.
int s3_say_no_s3(struct err *err);

int s3_put(void *driver, const struct store_put *put, struct store_info *ret, struct err *err);
int s3_get(void *driver, const struct store_get *get, struct store_info *ret, struct err *err);
int s3_head(void *driver, const char *key, struct store_info *ret, struct err *err);
int s3_list(void *driver, const char *prefix, const char *after, unsigned max, store_list_fn fn,
            void *data, struct err *err);
int s3_check_deleted(const struct s3_call *call, struct err *err);
int s3_remove_all(void *driver, const char *prefix, struct err *err);
void s3_abort(struct s3 *s3, const char *key, const char *upload); // as far as that can be done
int s3_abort_old(void *driver, struct err *err);
