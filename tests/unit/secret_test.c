// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sodium.h>

#include "base/fd.h"
#include "db_kit.h"
#include "egress/secret.h"

static struct secrets *store;
static int dir_fd = -1;

static void forget_key(void)
{
    (void)unlinkat(dir_fd, "secret.key", 0);
    (void)unlinkat(dir_fd, "secret.key.new", 0);
}

static int start(void **state)
{
    struct err err = {0};
    if (kit_start(state) < 0)
        return -1;
    dir_fd = open(kit_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return secrets_open(kit_db, dir_fd, &store, &err);
}

static int stop(void **state)
{
    secrets_close(store);
    store = NULL;
    forget_key();
    fd_close(dir_fd);
    return kit_stop(state);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, stop)

static const struct secret_put plain = {
    .name = "github", .value = "tok-123", .value_len = 7, .upstream = "https://api.github.com"};

static struct secret get(int64_t tenant, const char *name)
{
    struct secret got = {0};
    MUST_BE(secrets_get(store, tenant, name, &got, &err), 1);
    return got;
}

static bool put(const struct secret_put *what)
{
    bool is_new = false;
    MUST(secrets_put(store, 1, what, &is_new, &err));
    return is_new;
}

// -- what is stored

CHECK_CASE(comes_back_as_a_header)
{
    assert_true(put(&plain));
    struct secret got = get(1, "github");
    assert_string_equal(got.upstream_host, "api.github.com");
    assert_int_equal(got.upstream_port, 443);
    assert_string_equal(got.upstream_prefix, "");
    assert_true(got.tls);
    assert_string_equal(got.header, "Authorization");
    assert_string_equal(got.value, "Bearer tok-123");
    assert_int_equal(got.value_len, 14);
    assert_int_equal(got.credential_at, 7);
    assert_int_equal(got.credential_len, 7);
    assert_false(got.basic);
    secret_done(&got);
    secret_done(&got); // takes zeros
    MUST_BE(secrets_get(store, 2, "github", &got, &err), 0);
    MUST_BE(secrets_get(store, 1, "gitlab", &got, &err), 0);
}

CHECK_CASE(forms)
{
    static const struct {
        const char *header, *format, *value, *want;
        size_t at, len;
    } cases[] = {
        {NULL,            NULL,              "a b",       "Bearer a b",         7, 3 },
        {"authorization", NULL,              "x",         "Bearer x",           7, 1 },
        {"X-Api-Key",     NULL,              "x",         "x",                  0, 1 },
        {NULL,            "Basic {basic}",   "user:pass", "Basic dXNlcjpwYXNz", 6, 12},
        {NULL,            "Basic {basic}",   "u:p ",      "Basic dTpwIA==",     6, 8 },
        {NULL,            "token={}; v={1}", "x",         "token=x; v={1}",     6, 1 },
        {"Cookie",        "s={}",            "\xc3\xa9",  "s=\xc3\xa9",         2, 2 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct secret_put one = plain;
        one.header = cases[i].header;
        one.format = cases[i].format;
        one.value = cases[i].value;
        one.value_len = strlen(one.value);
        (void)put(&one);
        struct secret got = get(1, "github");
        assert_string_equal(got.value, cases[i].want);
        assert_int_equal(got.value_len, strlen(got.value));
        assert_int_equal(got.credential_at, cases[i].at);
        assert_int_equal(got.credential_len, cases[i].len);
        secret_done(&got);
    }
}

CHECK_CASE(replaced_and_deleted)
{
    assert_true(put(&plain));
    struct secret_put other = plain;
    other.value = "new";
    other.value_len = 3;
    assert_false(put(&other));
    struct secret got = get(1, "github");
    assert_string_equal(got.value, "Bearer new");
    secret_done(&got);
    MUST_BE(secrets_delete(store, 1, "github", &err), 1);
    MUST_BE(secrets_delete(store, 1, "github", &err), 0);
    MUST_BE(secrets_get(store, 1, "github", &got, &err), 0);
}

static void check_for(int64_t sandbox, const char *value)
{
    struct secret got = {0};
    MUST_BE(secrets_get_for(store, 1, sandbox, "github", &got, &err), 1);
    assert_string_equal(got.value, value);
    secret_done(&got);
}

CHECK_CASE(of_one_sandbox)
{
    int64_t a = kit_sandbox("a"), b = kit_sandbox("b");
    struct secret got = {0};
    struct secret_put own = plain;
    own.value = "tok-own";
    own.sandbox = a;
    assert_true(put(&own));
    assert_false(put(&own));
    check_for(a, "Bearer tok-own");
    MUST_BE(secrets_get_for(store, 1, b, "github", &got, &err), 0);
    MUST_BE(secrets_get_for(store, 2, a, "github", &got, &err), 0);
    assert_true(put(&plain));
    check_for(a, "Bearer tok-own");
    check_for(b, "Bearer tok-123");
    MUST_BE(secrets_have_own(store, 1, a, "github", &err), 1);
    MUST_BE(secrets_have_own(store, 1, b, "github", &err), 0);
    MUST(db_sandbox_del(kit_db, b, &err));
    check_for(a, "Bearer tok-own");
    MUST(db_sandbox_del(kit_db, a, &err));
    MUST_BE(secrets_have_own(store, 1, a, "github", &err), 0);
    MUST_BE(secrets_have(store, 1, "github", &err), 1);
}

CHECK_CASE(survives_a_restart)
{
    (void)put(&plain);
    secrets_close(store);
    store = NULL;
    kit_reopen();
    MUST(secrets_open(kit_db, dir_fd, &store, &err));
    struct secret got = get(1, "github");
    assert_string_equal(got.value, "Bearer tok-123");
    secret_done(&got);
}

static bool file_has(const char *path, const char *text)
{
    static char data[4 << 20];
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? fd_read_all(fd, data, sizeof data) : 0;
    return n > 0 && memmem(data, (size_t)n, text, strlen(text)) != NULL;
}

CHECK_CASE(not_in_the_files)
{
    char wal[96];
    struct secret_put one = plain;
    one.value = "plantedCredential";
    one.value_len = strlen(one.value);
    (void)put(&one);
    (void)snprintf(wal, sizeof wal, "%s-wal", kit_path);
    assert_true(file_has(wal, "api.github.com") || file_has(kit_path, "api.github.com"));
    assert_false(file_has(wal, one.value));
    assert_false(file_has(kit_path, one.value));
}

// -- rows that were tampered with

static void must_not_open(const char *name)
{
    struct secret got = {0};
    MUST_FAIL(secrets_get(store, 1, name, &got, &err), ERR_INTERNAL);
    assert_null(got.value);
}

CHECK_CASE(rows_cannot_be_exchanged)
{
    static const char *const changes[] = {
        "UPDATE secrets SET upstream = 'https://evil.example' WHERE name = 'github'",
        "UPDATE secrets SET header = 'X-Leak' WHERE name = 'github'",
        "UPDATE secrets SET format = '{}' WHERE name = 'github'",
        "UPDATE secrets SET name = 'github' WHERE name = 'other'",
        "UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE name = 'other')"
        " WHERE name = 'github'",
        "UPDATE secrets SET tenant = 1 WHERE tenant = 2",
        "UPDATE secrets SET sealed = substr(sealed, 1, length(sealed) - 1)",
        "UPDATE secrets SET sealed = x''",
        "UPDATE secrets SET sealed = zeroblob(100000)",
        "UPDATE secrets SET sealed = zeroblob(40)",
    };
    assert_int_equal(kit_tenant("second"), 2);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct secret_put other = plain;
        bool is_new;
        (void)put(&plain);
        other.name = "other";
        other.value = "another";
        (void)put(&other);
        MUST(secrets_put(store, 2, &plain, &is_new, &err));
        if (i == 3 || i == 5) // makes room for the one that moves in
            MUST_BE(secrets_delete(store, 1, "github", &err), 1);
        kit_exec(changes[i]);
        must_not_open("github");
        kit_exec("DELETE FROM secrets");
    }
}

CHECK_CASE(equal_values_are_not_equal_rows)
{
    struct secret_put other = plain;
    other.name = "other";
    (void)put(&plain);
    (void)put(&other);
    assert_string_equal(kit_ask("SELECT count(DISTINCT sealed) FROM secrets"), "2");
}

// -- the key

static void must_not_start(enum err_code code, const char *words)
{
    struct err err = {0};
    struct secrets *other = NULL;
    assert_int_equal(secrets_open(kit_db, dir_fd, &other, &err), -1);
    assert_int_equal(err.code, code);
    if (strstr(err.msg, words) == NULL)
        fail_msg("%s", err.msg);
    assert_null(other);
}

CHECK_CASE(the_key_file)
{
    struct stat st;
    char bytes[64];
    assert_int_equal(fstatat(dir_fd, "secret.key", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, 32);
    assert_int_equal(faccessat(dir_fd, "secret.key.new", F_OK, 0), -1);
    assert_int_equal(fchmodat(dir_fd, "secret.key", 0640, 0), 0);
    must_not_start(ERR_DENIED, "0600");
    forget_key();
    assert_int_equal(symlinkat("elsewhere", dir_fd, "secret.key"), 0);
    must_not_start(ERR_INTERNAL, "secret.key");
    forget_key();
    assert_int_equal(mkdirat(dir_fd, "secret.key", 0700), 0);
    must_not_start(ERR_DENIED, "must be a file");
    assert_int_equal(unlinkat(dir_fd, "secret.key", AT_REMOVEDIR), 0);
    auto_fd fd = openat(dir_fd, "secret.key", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(fd_write_all(fd, bytes, 31), 0);
    must_not_start(ERR_INVALID, "32 bytes");
    assert_int_equal(fd_write_all(fd, bytes, 2), 0);
    must_not_start(ERR_INVALID, "32 bytes");
}

CHECK_CASE(a_lost_key_and_another)
{
    (void)put(&plain);
    forget_key();
    must_not_start(ERR_INVALID, "is gone");
    assert_int_equal(faccessat(dir_fd, "secret.key", F_OK, 0), -1); // none was made in its place
    uint8_t key[32] = {7};
    auto_fd fd = openat(dir_fd, "secret.key", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(fd_write_all(fd, key, sizeof key), 0);
    must_not_start(ERR_INTERNAL, "not sealed with this key");
    MUST_BE(secrets_delete(store, 1, "github", &err), 1); // without secrets any key will do
    forget_key();
    struct secrets *other;
    MUST(secrets_open(kit_db, dir_fd, &other, &err));
    secrets_close(other);
}

CHECK_CASE(a_key_that_was_half_made)
{
    forget_key();
    fd_close(openat(dir_fd, "secret.key.new", O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    secrets_close(store);
    store = NULL;
    MUST(secrets_open(kit_db, dir_fd, &store, &err));
    assert_true(put(&plain));
}

// -- what is refused

static void refused(const struct secret_put *what, const char *words)
{
    struct err err = {0};
    bool is_new = true;
    assert_int_equal(secrets_put(store, 1, what, &is_new, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    if (strstr(err.msg, words) == NULL)
        fail_msg("'%s' has no '%s'", err.msg, words);
    if (what->value_len > 2 && memmem(err.msg, strlen(err.msg), what->value, what->value_len))
        fail_msg("'%s' has the value", err.msg);
    assert_string_equal(kit_ask("SELECT count(*) FROM secrets"), "0");
}

CHECK_CASE(names)
{
    static const char *const bad[] = {"",    "A",   "1a",  "-a",
                                      "a-",  "a_b", "a.b", "é",
                                      "a b", "a/b", "a\n", "abcdefghijklmnopqrstuvwxyz012345"};
    static const char *const good[] = {"a", "a1", "a-b", "abcdefghijklmnopqrstuvwxyz01234"};
    struct secret_put one = plain;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        one.name = bad[i];
        assert_false(secret_name_valid(bad[i]));
        refused(&one, "name");
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        one.name = good[i];
        assert_true(secret_name_valid(good[i]));
        assert_true(put(&one));
    }
}

CHECK_CASE(values)
{
    static char large[SECRET_VALUE_MAX + 1];
    static const struct {
        const char *value;
        size_t len;
        const char *words;
    } bad[] = {
        {"",                0,            "1 to 16384"       },
        {"line\nX-Evil: 1", 14,           "control character"},
        {"token\n",         6,            "control character"},
        {"to\rken",         6,            "control character"},
        {"to\0ken",         6,            "control character"},
        {"to\tken",         6,            "control character"},
        {"to\x7fken",       6,            "control character"},
        {"token ",          6,            "space"            },
        {large,             sizeof large, "1 to 16384"       },
    };
    struct secret_put one = plain;
    memset(large, 'x', sizeof large);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        one.value = bad[i].value;
        one.value_len = bad[i].len;
        refused(&one, bad[i].words);
    }
    one.value = " x";
    one.value_len = 2;
    one.format = "{}";
    refused(&one, "space");
    one.value = large;
    one.value_len = SECRET_VALUE_MAX;
    assert_true(put(&one));
    struct secret got = get(1, "github");
    assert_int_equal(got.value_len, SECRET_VALUE_MAX);
    assert_memory_equal(got.value, large, SECRET_VALUE_MAX);
    secret_done(&got);
}

CHECK_CASE(headers_and_formats)
{
    static const char *const headers[] = {
        "",
        "Host",
        "hOsT",
        "content-length",
        "a b",
        "a:",
        "a\r\nb",
        "Transfer-Encoding",
        "Upgrade",
        "Connection",
        "proxy-authorization",
        "é",
        "TE",
        "expect",
        "a123456789012345678901234567890123456789012345678901234567890123"};
    static const char *const formats[] = {
        "", "Bearer", "{} {}", "{}{basic}", "{basic}{basic}", "{}\r\nX: 1", "{}\n", "{ }", "{}\t"};
    struct secret_put one = plain;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        one.header = headers[i];
        refused(&one, "header");
    }
    one = plain;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        one.format = formats[i];
        refused(&one, "format");
    }
}

CHECK_CASE(upstreams)
{
    static const struct {
        const char *in, *host;
        uint16_t port;
        const char *prefix, *canonical;
    } good[] = {
        {"https://API.Example.COM",     "api.example.com", 443,  "",             "https://api.example.com"    },
        {"https://a.b:443/",            "a.b",             443,  "",             "https://a.b"                },
        {"https://a.b:8443/v1/",        "a.b",             8443, "/v1",          "https://a.b:8443/v1"        },
        {"http://127.0.0.1:80",         "127.0.0.1",       80,   "",             "http://127.0.0.1"           },
        {"https://[2001:db8::1]:444/x", "2001:db8::1",     444,  "/x",           "https://[2001:db8::1]:444/x"},
        {"https://a.b/A/b-c_d.e~f",     "a.b",             443,  "/A/b-c_d.e~f", "https://a.b/A/b-c_d.e~f"    },
    };
    static const char *const bad[] = {
        "",
        "a.b",
        "ftp://a.b",
        "HTTPS://a.b",
        "https:/a.b",
        "https://",
        "https:///x",
        "https://user@a.b",
        "https://user:pw@a.b",
        "https://a.b@evil/",
        "https://a.b?x=1",
        "https://a.b/#f",
        "https://a.b\\c",
        "https://a.b:0",
        "https://a.b:65536",
        "https://a.b:080",
        "https://a.b:+80",
        "https://a.b: 80",
        "https://a.b:",
        "https://a.b:80:80",
        "https://a b",
        "https://a.b/..",
        "https://a.b/x/../y",
        "https://a.b/./y",
        "https://a.b//y",
        "https://a.b/%2e",
        "https://a.b/a b",
        "https://a.b/a\nb",
        "https://0x7f.1",
        "https://2130706433",
        "https://127.1",
        "https://[::1",
        "https://::1",
        "https://[a.b]",
        "https://[127.0.0.1]",
        "https://[::1]x",
        "https://a..b",
        "https://*.a.b",
    };
    struct secret_put one = plain;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        one.upstream = bad[i];
        refused(&one, "upstream");
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        one.upstream = good[i].in;
        (void)put(&one);
        struct secret got = get(1, "github");
        assert_string_equal(got.upstream_host, good[i].host);
        assert_int_equal(got.upstream_port, good[i].port);
        assert_string_equal(got.upstream_prefix, good[i].prefix);
        assert_int_equal(got.tls, good[i].in[4] == 's');
        assert_string_equal(kit_ask("SELECT upstream FROM secrets"), good[i].canonical);
        secret_done(&got);
    }
}

CHECK_CASE(not_without_end)
{
    char name[16];
    struct secret_put one = plain;
    one.name = name;
    for (int i = 0; i < 256; i++) {
        (void)snprintf(name, sizeof name, "n%d", i);
        assert_true(put(&one));
    }
    bool is_new;
    MUST(secrets_put(store, 1, &one, &is_new, &err)); // one that is there may be replaced
    one.name = "more";
    MUST_FAIL(secrets_put(store, 1, &one, &is_new, &err), ERR_EXHAUSTED);
}

CHECK_MAIN(CASE(comes_back_as_a_header), CASE(forms), CASE(replaced_and_deleted),
           CASE(of_one_sandbox), CASE(survives_a_restart), CASE(not_in_the_files),
           CASE(rows_cannot_be_exchanged), CASE(equal_values_are_not_equal_rows),
           CASE(the_key_file), CASE(a_lost_key_and_another), CASE(a_key_that_was_half_made),
           CASE(names), CASE(values), CASE(headers_and_formats), CASE(upstreams),
           CASE(not_without_end))
