// SPDX-License-Identifier: Apache-2.0
// A row's value is sealed with XChaCha20-Poly1305: a random nonce, then the text and its mark.
// Whose it is, its name, where it goes and in which form are under the same mark, so that a row
// whose parts were exchanged for another's is none.
#include "egress/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "egress/secret-internal.h"

enum {
    KEY_LEN = crypto_aead_xchacha20poly1305_ietf_KEYBYTES,
    NONCE_LEN = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES,
    MARK_LEN = crypto_aead_xchacha20poly1305_ietf_ABYTES,
    OF_TENANT_MAX = 256,
    OWN_NAME_MAX = SECRET_NAME_MAX + 24,
    CONTEXT_MAX = 2048,
};

#define KEY_FILE     "secret.key"
#define KEY_FILE_NEW "secret.key.new"

struct loan {
    struct loan *next;
    int64_t sandbox;
    char name[SECRET_NAME_MAX];
    struct secret_row row; // sealed, as if it were stored
};

struct secrets {
    struct db *db;
    uint8_t *key; // in guarded memory that is locked and not dumped, as far as the machine lets us
    struct loan *loans;
};

// -- the key

static int read_key(int fd, uint8_t *key, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return err_sys(err, errno, "look at " KEY_FILE);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0)
        return err_set(err, ERR_DENIED,
                       KEY_FILE " must be a file of the daemon's user with mode 0600");
    uint8_t more;
    if (fd_read_all(fd, key, KEY_LEN) != KEY_LEN || fd_read_all(fd, &more, 1) != 0)
        return err_set(err, ERR_INVALID, KEY_FILE " does not have %d bytes", KEY_LEN);
    return 0;
}

// Whole under its name, or not there at all, whenever the machine stops.
static int make_key(int dir_fd, uint8_t *key, struct err *err)
{
    (void)unlinkat(dir_fd, KEY_FILE_NEW, 0);
    auto_fd fd =
        openat(dir_fd, KEY_FILE_NEW, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(err, errno, "make " KEY_FILE);
    crypto_aead_xchacha20poly1305_ietf_keygen(key);
    int r = fd_write_all(fd, key, KEY_LEN);
    if (r < 0)
        return err_sys(err, -r, "write " KEY_FILE);
    if (fsync(fd) < 0 || renameat2(dir_fd, KEY_FILE_NEW, dir_fd, KEY_FILE, RENAME_NOREPLACE) < 0 ||
        fsync(dir_fd) < 0)
        return err_sys(err, errno, "keep " KEY_FILE);
    return 0;
}

static int see_one(void *data, const struct secret_row *row)
{
    (void)row;
    *(bool *)data = true;
    return 1;
}

static int open_key(struct secrets *secrets, int dir_fd, struct err *err)
{
    bool is_used = false;
    auto_fd fd = openat(dir_fd, KEY_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0)
        return read_key(fd, secrets->key, err);
    if (errno != ENOENT)
        return err_sys(err, errno, "open " KEY_FILE);
    if (db_secret_each(secrets->db, 0, see_one, &is_used, err) < 0)
        return -1;
    if (is_used)
        return err_set(err, ERR_INVALID,
                       "secrets are stored, but the key that they were sealed with is gone: bring "
                       "back daemon/" KEY_FILE " of the data directory");
    return make_key(dir_fd, secrets->key, err);
}

// -- sealing

// Each part with its length, so that no two can be cut in another place.
static size_t write_context(uint8_t *to, const struct secret_row *row)
{
    const char *const parts[] = {row->name, row->upstream, row->header, row->format};
    size_t n = 0;
    memcpy(to, "cay1", 4);
    n += 4;
    for (unsigned i = 0; i < 8; i++)
        to[n++] = (uint8_t)((uint64_t)row->tenant >> (8 * i));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t len = strlen(parts[i]);
        if (n + len + 2 > CONTEXT_MAX)
            return 0;
        to[n++] = (uint8_t)(len & 0xff);
        to[n++] = (uint8_t)(len >> 8);
        memcpy(to + n, parts[i], len);
        n += len;
    }
    return n;
}

// Writes row->sealed, of value_len + NONCE_LEN + MARK_LEN bytes.
static void seal(const struct secrets *secrets, const char *value, size_t value_len,
                 struct secret_row *row)
{
    uint8_t context[CONTEXT_MAX];
    size_t n = write_context(context, row);
    unsigned long long len;
    row->sealed = malloc(value_len + NONCE_LEN + MARK_LEN);
    if (row->sealed == NULL || n == 0)
        abort();
    randombytes_buf(row->sealed, NONCE_LEN);
    (void)crypto_aead_xchacha20poly1305_ietf_encrypt(row->sealed + NONCE_LEN, &len,
                                                     (const uint8_t *)value, value_len, context, n,
                                                     NULL, row->sealed, secrets->key);
    row->sealed_len = (size_t)len + NONCE_LEN;
}

// The value, for sodium_free. NULL and err.
static char *unseal(const struct secrets *secrets, const struct secret_row *row, size_t *ret_len,
                    struct err *err)
{
    uint8_t context[CONTEXT_MAX];
    size_t n = write_context(context, row);
    bool ok = n > 0 && row->sealed_len >= NONCE_LEN + MARK_LEN &&
              row->sealed_len <= NONCE_LEN + MARK_LEN + SECRET_VALUE_MAX;
    unsigned long long len = 0;
    char *value = ok ? sodium_malloc(row->sealed_len) : NULL;
    if (ok && value == NULL) {
        (void)err_set(err, ERR_EXHAUSTED, "no memory for a secret");
        return NULL;
    }
    ok = ok && crypto_aead_xchacha20poly1305_ietf_decrypt(
                   (uint8_t *)value, &len, NULL, row->sealed + NONCE_LEN,
                   row->sealed_len - NONCE_LEN, context, n, row->sealed, secrets->key) == 0;
    if (!ok) {
        sodium_free(value);
        (void)err_set(err, ERR_INTERNAL, "secret '%.40s' was not sealed with this key, or changed",
                      row->name);
        return NULL;
    }
    *ret_len = (size_t)len;
    return value;
}

// -- opening

struct probe {
    const struct secrets *secrets;
    struct err *err;
    int result;
};

static int try_one(void *data, const struct secret_row *row)
{
    struct probe *probe = data;
    size_t len;
    char *value = unseal(probe->secrets, row, &len, probe->err);
    probe->result = value != NULL ? 0 : -1;
    sodium_free(value);
    return 1;
}

int secrets_open(struct db *db, int dir_fd, struct secrets **ret, struct err *err)
{
    if (sodium_init() < 0)
        return err_set(err, ERR_INTERNAL, "libsodium does not start");
    struct secrets *secrets = calloc(1, sizeof *secrets);
    if (secrets == NULL)
        abort();
    secrets->db = db;
    secrets->key = sodium_malloc(KEY_LEN);
    if (secrets->key == NULL)
        abort();
    struct probe probe = {.secrets = secrets, .err = err};
    if (open_key(secrets, dir_fd, err) < 0 || db_secret_each(db, 0, try_one, &probe, err) < 0 ||
        probe.result < 0) {
        secrets_close(secrets);
        return err_wrap(err, "open the secrets");
    }
    (void)sodium_mprotect_readonly(secrets->key);
    *ret = secrets;
    return 0;
}

static void loan_end(struct loan **at)
{
    struct loan *loan = *at;
    *at = loan->next;
    secret_row_done(&loan->row);
    free(loan);
}

void secrets_close(struct secrets *secrets)
{
    if (secrets == NULL)
        return;
    while (secrets->loans != NULL)
        loan_end(&secrets->loans);
    sodium_free(secrets->key); // wipes it
    free(secrets);
}

// -- of one sandbox

// A name that nobody can give a secret: "@42/anthropic". The row goes with sandbox 42 (schema.c).
static void own_name(int64_t sandbox, const char *name, char ret[OWN_NAME_MAX])
{
    (void)snprintf(ret, OWN_NAME_MAX, "@%lld/%s", (long long)sandbox, name);
}

bool secret_row_is_own(const struct secret_row *row)
{
    return row->name[0] == '@';
}

// -- changing

static int count_one(void *data, const struct secret_row *row)
{
    *(size_t *)data += !secret_row_is_own(row);
    return 0;
}

static int check_room(struct secrets *secrets, int64_t tenant, const char *name, struct err *err)
{
    size_t n = 0;
    struct secret_row row = {0};
    int found = db_secret_get(secrets->db, tenant, name, &row, err);
    secret_row_done(&row);
    if (found != 0)
        return found < 0 ? -1 : 0;
    if (db_secret_each(secrets->db, tenant, count_one, &n, err) < 0)
        return -1;
    return n < OF_TENANT_MAX
               ? 0
               : err_set(err, ERR_EXHAUSTED, "there are %d secrets already: delete one first",
                         OF_TENANT_MAX);
}

// Checks all of it; the row has everything but the value.
static int fill_row(const struct secret_put *put, struct secret_row *row, struct err *err)
{
    char upstream[SECRET_UPSTREAM_MAX];
    struct secret parts;
    struct secret_format format;
    if (!secret_name_valid(put->name))
        return err_set(err, ERR_INVALID,
                       "a secret's name is a letter, then letters, digits and '-', all lower "
                       "case, %d at most",
                       SECRET_NAME_MAX - 1);
    const char *header = put->header != NULL ? put->header : "Authorization";
    bool is_usual = strcasecmp(header, "Authorization") == 0;
    struct secret_put whole = *put;
    if (whole.format == NULL)
        whole.format = is_usual ? "Bearer {}" : "{}";
    if (secret_upstream(put->upstream, upstream, &parts, err) < 0 ||
        secret_check_header(header, err) < 0 || secret_format(whole.format, &format, err) < 0 ||
        secret_check_value(&whole, &format, err) < 0)
        return -1;
    char own[OWN_NAME_MAX];
    own_name(put->sandbox, put->name, own);
    row->name = mem_copy_text(put->sandbox > 0 ? own : put->name);
    row->upstream = mem_copy_text(upstream);
    row->header = mem_copy_text(header);
    row->format = mem_copy_text(whole.format);
    row->created_ms = row->updated_ms = db_now_ms();
    return 0;
}

int secrets_check(const struct secret_put *put, struct err *err)
{
    struct secret_row row = {0};
    int r = fill_row(put, &row, err);
    secret_row_done(&row);
    return r;
}

int secrets_put(struct secrets *secrets, int64_t tenant, const struct secret_put *put,
                bool *ret_new, struct err *err)
{
    struct secret_row row = {.tenant = tenant};
    int r = fill_row(put, &row, err);
    if (r == 0 && put->sandbox == 0)
        r = check_room(secrets, tenant, put->name, err);
    if (r == 0) {
        seal(secrets, put->value, put->value_len, &row);
        r = db_secret_put(secrets->db, &row, err);
    }
    if (r >= 0)
        *ret_new = r == 1;
    secret_row_done(&row);
    return r < 0 ? -1 : 0;
}

int secrets_delete(struct secrets *secrets, int64_t tenant, const char *name, struct err *err)
{
    return db_secret_del(secrets->db, tenant, name, err);
}

// -- lending

static struct loan **find_loan(struct secrets *secrets, int64_t sandbox, const char *name)
{
    struct loan **at = &secrets->loans;
    while (*at != NULL && ((*at)->sandbox != sandbox || strcmp((*at)->name, name) != 0))
        at = &(*at)->next;
    return at;
}

int secrets_lend(struct secrets *secrets, int64_t tenant, const struct secret_put *put,
                 struct err *err)
{
    struct secret_row row = {.tenant = tenant};
    if (fill_row(put, &row, err) < 0) {
        secret_row_done(&row);
        return -1;
    }
    struct loan *loan = calloc(1, sizeof *loan);
    if (loan == NULL)
        abort();
    seal(secrets, put->value, put->value_len, &row);
    *loan = (struct loan){.next = secrets->loans, .sandbox = put->sandbox, .row = row};
    (void)snprintf(loan->name, sizeof loan->name, "%s", put->name);
    secrets->loans = loan;
    return 0;
}

void secrets_take_back(struct secrets *secrets, int64_t sandbox, const char *name)
{
    struct loan **at = find_loan(secrets, sandbox, name);
    if (*at != NULL)
        loan_end(at);
}

bool secrets_is_lent(const struct secrets *secrets, int64_t sandbox, const char *name)
{
    for (const struct loan *loan = secrets->loans; loan != NULL; loan = loan->next) {
        if (loan->sandbox == sandbox && strcmp(loan->name, name) == 0)
            return true;
    }
    return false;
}

// -- using

static size_t base64_len(size_t n)
{
    return sodium_base64_encoded_len(n, sodium_base64_VARIANT_ORIGINAL) - 1;
}

// The whole header line's value, in memory of its own.
static int assemble(const struct secret_row *row, const char *value, size_t value_len,
                    struct secret *ret, struct err *err)
{
    struct secret_format format;
    if (secret_format(row->format, &format, err) < 0)
        return -1;
    size_t tail_len = strlen(format.tail);
    ret->basic = format.basic;
    ret->credential_at = format.head_len;
    ret->credential_len = format.basic ? base64_len(value_len) : value_len;
    ret->value_len = format.head_len + ret->credential_len + tail_len;
    ret->value = sodium_malloc(ret->value_len + 1);
    if (ret->value == NULL)
        return err_set(err, ERR_EXHAUSTED, "no memory for a secret");
    char *at = ret->value + format.head_len;
    memcpy(ret->value, row->format, format.head_len);
    if (format.basic)
        (void)sodium_bin2base64(at, ret->credential_len + 1, (const uint8_t *)value, value_len,
                                sodium_base64_VARIANT_ORIGINAL);
    else
        memcpy(at, value, value_len);
    memcpy(at + ret->credential_len, format.tail, tail_len + 1);
    return 0;
}

static int open_row(const struct secrets *secrets, const struct secret_row *row, struct secret *ret,
                    struct err *err)
{
    char upstream[SECRET_UPSTREAM_MAX];
    size_t len;
    struct secret made = {0};
    if (secret_upstream(row->upstream, upstream, &made, err) < 0)
        return -1;
    char *value = unseal(secrets, row, &len, err);
    if (value == NULL)
        return -1;
    (void)snprintf(made.header, sizeof made.header, "%s", row->header);
    int r = assemble(row, value, len, &made, err);
    sodium_free(value);
    if (r == 0)
        *ret = made;
    return r;
}

int secrets_get(struct secrets *secrets, int64_t tenant, const char *name, struct secret *ret,
                struct err *err)
{
    struct secret_row row = {0};
    int r = db_secret_get(secrets->db, tenant, name, &row, err);
    if (r > 0 && open_row(secrets, &row, ret, err) < 0)
        r = -1;
    secret_row_done(&row);
    return r;
}

int secrets_get_for(struct secrets *secrets, int64_t tenant, int64_t sandbox, const char *name,
                    struct secret *ret, struct err *err)
{
    char own[OWN_NAME_MAX];
    const struct loan *loan = *find_loan(secrets, sandbox, name);
    if (loan != NULL)
        return open_row(secrets, &loan->row, ret, err) < 0 ? -1 : 1;
    own_name(sandbox, name, own);
    int r = secrets_get(secrets, tenant, own, ret, err);
    return r != 0 ? r : secrets_get(secrets, tenant, name, ret, err);
}

int secrets_have_own(struct secrets *secrets, int64_t tenant, int64_t sandbox, const char *name,
                     struct err *err)
{
    char own[OWN_NAME_MAX];
    own_name(sandbox, name, own);
    return secrets_have(secrets, tenant, own, err);
}

void secret_done(struct secret *secret)
{
    sodium_free(secret->value); // wipes it
    *secret = (struct secret){0};
}

int secrets_have(struct secrets *secrets, int64_t tenant, const char *name, struct err *err)
{
    struct secret_row row = {0};
    int r = db_secret_get(secrets->db, tenant, name, &row, err);
    secret_row_done(&row);
    return r;
}
