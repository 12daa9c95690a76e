// SPDX-License-Identifier: Apache-2.0
// Secrets of tenants: a credential that belongs to an upstream. Encrypted in the database with a
// key that lies beside it in a file of mode 0600; in memory a value is there only while a request
// is made with it. Names are [a-z][a-z0-9-]{0,30} without a last '-', since a box calls them
// http://NAME.cay/.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "db/db.h"

enum { SECRET_NAME_MAX = 32, SECRET_VALUE_MAX = 16 * 1024 };

struct secrets; // the store

// Makes the key file in `dir_fd` when there is none and no secret is stored; a database with
// secrets and no key (or another one's) is an error.
int secrets_open(struct db *db, int dir_fd, struct secrets **ret, struct err *err);
void secrets_close(struct secrets *secrets);

bool secret_name_valid(const char *name);

struct secret_put {
    const char *name, *value;
    size_t value_len;
    const char *upstream; // "https://api.example.com" with an optional port and path prefix
    const char *header;   // NULL: "Authorization"
    // Where the value goes: "{}", once, or "{basic}" for its base64 ("user:password"). NULL is
    // "Bearer {}" in an Authorization header and "{}" in any other.
    const char *format;
    // 0: of the tenant, for all of its sandboxes. Else the number of the one that it is for: used
    // there before the tenant's of the same name, nowhere else, and gone with it.
    int64_t sandbox;
};
int secrets_check(const struct secret_put *put, struct err *err); // without storing it
// Checks all of it: ERR_INVALID names the field, and never has anything of the value. Synced.
int secrets_put(struct secrets *secrets, int64_t tenant, const struct secret_put *put,
                bool *ret_new, struct err *err);
int secrets_delete(struct secrets *secrets, int64_t tenant, const char *name,
                   struct err *err); // 1, 0

// Lends one to a sandbox (put->sandbox), in memory alone and for a moment: it is as if it had one
// of that name of its own, and in its list. Checks as secrets_put does. Whoever lends takes it
// back.
int secrets_lend(struct secrets *secrets, int64_t tenant, const struct secret_put *put,
                 struct err *err);
void secrets_take_back(struct secrets *secrets, int64_t sandbox, const char *name);
bool secrets_is_lent(const struct secrets *secrets, int64_t sandbox, const char *name);

// One as it is used: where it goes and the whole header line's value, in memory that is wiped by
// secret_done and that a core dump does not have.
struct secret {
    char upstream_host[254];
    uint16_t upstream_port;
    char upstream_prefix[256]; // "" or "/v1"
    bool tls; // http:// upstreams are for hosts that the installation opens (egress-private) only
    char header[64];
    char *value; // the header's value with the credential in it
    size_t value_len;
    size_t credential_at, credential_len; // in `value`: the credential itself, or its base64
    bool basic;                           // the latter
};
// 1, 0 when there is none, -1.
int secrets_get(struct secrets *secrets, int64_t tenant, const char *name, struct secret *ret,
                struct err *err);
// As a sandbox uses it: its own, else its tenant's.
int secrets_get_for(struct secrets *secrets, int64_t tenant, int64_t sandbox, const char *name,
                    struct secret *ret, struct err *err);
void secret_done(struct secret *secret);
// Whether this sandbox has one of its own. 1, 0, -1.
int secrets_have_own(struct secrets *secrets, int64_t tenant, int64_t sandbox, const char *name,
                     struct err *err);
bool secret_row_is_own(const struct secret_row *row); // of a sandbox: not for lists
// Whether there is one of that name, without looking into it. 1, 0, -1.
int secrets_have(struct secrets *secrets, int64_t tenant, const char *name, struct err *err);
