// SPDX-License-Identifier: Apache-2.0
// The key of the model's API: where one is found on this side, and how it gets to a server that has
// none. A .env file in a directory that others may write to could be theirs, and so could the key
// in it and the place that it sends questions to: only a file of our own is read.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "cli/ask.h"
#include "cli/env-file.h"

enum { ENV_FILE_MAX = 64 * 1024 };

#define ENV_FILE   ".env"
#define PUBLIC_URL "https://api.anthropic.com"
#define SECRET     "anthropic"

// The variables that hold one, in the order in which they count; and how it is sent.
static const struct {
    const char *name;
    bool is_bearer;
} variables[] = {
    {"ANTHROPIC_API_KEY",    false},
    {"ANTHROPIC_AUTH_TOKEN", true },
};
#define N_VARIABLES (sizeof variables / sizeof *variables)
#define BASE_URL    "ANTHROPIC_BASE_URL"

void ask_key_forget(struct ask_key *key)
{
    explicit_bzero(key, sizeof *key);
}

// It becomes part of a header.
static int take_value(struct ask_key *key, const char *value, bool is_bearer, const char *from,
                      struct err *err)
{
    size_t n = strlen(value);
    bool good = n > 0 && n < sizeof key->value;
    for (size_t i = 0; good && i < n; i++)
        good = value[i] > ' ' && value[i] < 0x7f;
    if (!good)
        return err_set(err, ERR_INVALID, "%s holds nothing that could be a key", from);
    (void)snprintf(key->value, sizeof key->value, "%s", value);
    (void)snprintf(key->from, sizeof key->from, "%s", from);
    key->is_bearer = is_bearer;
    return 0;
}

static int take_url(struct ask_key *key, const char *url, const char *from, struct err *err)
{
    if (strlen(url) >= sizeof key->base_url)
        return err_set(err, ERR_INVALID, "%s: " BASE_URL " is too long", from);
    (void)snprintf(key->base_url, sizeof key->base_url, "%s", url);
    return 0;
}

// -- files

static int from_key_file(struct ask_key *key, const char *path, struct err *err)
{
    char text[ASK_KEY_MAX + 2];
    ssize_t n = fd_read_file(AT_FDCWD, path, text, sizeof text);
    if (n < 0)
        return err_sys(err, (int)-n, "read the key from '%s'", path);
    text[strcspn(text, "\r\n")] = '\0';
    int r = take_value(key, text, false, "--key-file", err);
    explicit_bzero(text, sizeof text);
    return r < 0 ? -1 : 1;
}

// Ours: of this user, or, under sudo, of the one who has called it.
static bool is_ours(uid_t owner)
{
    struct err ignored;
    uint64_t caller;
    const char *sudo = getenv("SUDO_UID");
    if (owner == geteuid())
        return true;
    return geteuid() == 0 && sudo != NULL &&
           parse_u64(sudo, 0, UINT32_MAX, &caller, &ignored) == 0 && owner == (uid_t)caller;
}

// A link is followed if it is ours, too. -1: there is none to be read; it is said why.
static int open_env_file(void)
{
    const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    struct stat st;
    auto_fd fd = open(ENV_FILE, flags | O_NOFOLLOW);
    if (fd < 0 && errno == ELOOP && lstat(ENV_FILE, &st) == 0 && is_ours(st.st_uid))
        fd = open(ENV_FILE, flags);
    if (fd < 0 && errno == ENOENT)
        return -1;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !is_ours(st.st_uid) ||
        (st.st_mode & S_IWOTH) != 0) {
        (void)fprintf(stderr, "cay: " ENV_FILE " is not read: it is not a file of yours alone\n");
        return -1;
    }
    return TAKE_FD(fd);
}

static void wipe(struct buf *buf)
{
    if (buf->data != NULL)
        explicit_bzero(buf->data, buf->cap);
    buf_done(buf);
}

// 1 with `value`, 0, -1.
static int get(const char *text, size_t len, const char *name, struct buf *value, struct err *err)
{
    int r = env_file_get(text, len, name, value, err);
    if (r > 0 && (value->len == 0 || memchr(value->data, '\0', value->len) != NULL))
        r = 0; // set to nothing
    return r < 0 ? err_wrap(err, ENV_FILE) : r;
}

// The place that it belongs to stands beside it, or is the public one: never that of another key.
static int from_text(struct ask_key *key, const char *text, size_t len, struct buf *value,
                     struct err *err)
{
    int r = 0;
    for (size_t i = 0; i < N_VARIABLES && r == 0; i++) {
        r = get(text, len, variables[i].name, value, err);
        if (r > 0 && take_value(key, buf_str(value), variables[i].is_bearer, ENV_FILE, err) < 0)
            return -1;
    }
    if (r <= 0)
        return r;
    r = get(text, len, BASE_URL, value, err);
    return r < 0 || (r > 0 && take_url(key, buf_str(value), ENV_FILE, err) < 0) ? -1 : 1;
}

static int from_env_file(struct ask_key *key, struct err *err)
{
    static char text[ENV_FILE_MAX + 1];
    struct buf value;
    auto_fd fd = open_env_file();
    if (fd < 0)
        return 0;
    ssize_t n = fd_read_all(fd, text, sizeof text);
    if (n < 0)
        return err_sys(err, (int)-n, "read " ENV_FILE);
    if (n > ENV_FILE_MAX)
        return err_set(err, ERR_INVALID, ENV_FILE " is larger than %d KiB", ENV_FILE_MAX >> 10);
    buf_init(&value, ASK_KEY_MAX);
    int r = from_text(key, text, (size_t)n, &value, err);
    wipe(&value);
    explicit_bzero(text, sizeof text);
    return r;
}

// -- finding it

static int from_environment(struct ask_key *key, struct err *err)
{
    for (size_t i = 0; i < N_VARIABLES; i++) {
        const char *value = getenv(variables[i].name);
        if (value != NULL && value[0] != '\0')
            return take_value(key, value, variables[i].is_bearer, variables[i].name, err) < 0 ? -1
                                                                                              : 1;
    }
    return 0;
}

int ask_key_find(struct ask_key *ret, const struct ask_options *options, struct err *err)
{
    const char *url = getenv(BASE_URL);
    int r;
    *ret = (struct ask_key){.value = ""};
    if (options->key != NULL)
        r = take_value(ret, options->key, false, "--key", err) < 0 ? -1 : 1;
    else if (options->key_file != NULL)
        r = from_key_file(ret, options->key_file, err);
    else
        r = from_environment(ret, err);
    if (r != 0)
        return r > 0 && url != NULL && take_url(ret, url, "the environment", err) < 0 ? -1 : r;
    return from_env_file(ret, err);
}

// -- giving it

static void write_body(const struct ask_key *key, const char *upstream, struct buf *body)
{
    const char *const fields[][2] = {
        {"value",    key->value                                    },
        {"upstream", upstream                                      },
        {"header",   key->is_bearer ? "Authorization" : "x-api-key"},
        {"format",   key->is_bearer ? "Bearer {}" : "{}"           },
    };
    struct json j;
    json_init(&j, body);
    json_open_object(&j);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        json_key(&j, fields[i][0]);
        json_put_str(&j, fields[i][1]);
    }
    json_close_object(&j);
    (void)json_finish(&j);
}

static int send_key(struct remote *remote, const struct ask_key *key, const char *upstream,
                    struct err *err)
{
    struct buf body;
    auto_answer answer;
    auto_buf target;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    buf_init(&body, REMOTE_TARGET_MAX);
    remote_target(&target, "secrets", SECRET);
    write_body(key, upstream, &body);
    int r = remote_do(remote, "PUT", &target, &body, &answer, err);
    wipe(&body);
    return r < 0 ? err_wrap(err, "give the key to the server") : 0;
}

// A socket is of this machine; what goes to a host goes over a network, and wants a clear word.
static int give(struct remote *remote, const struct ask_options *options, const struct ask_key *key,
                struct err *err)
{
    char question[1024];
    const char *upstream = key->base_url[0] != '\0' ? key->base_url : PUBLIC_URL;
    auto_buf where;
    buf_init(&where, 512);
    (void)text_plain(&where, upstream, strlen(upstream));
    (void)snprintf(question, sizeof question,
                   "The server at %s has no key for the model. Store the one from %s there, as the "
                   "secret '" SECRET "' for %s?",
                   remote->place.text, key->from, buf_str(&where));
    int answer = ask_confirm(options, remote->place.socket[0] != '\0', question);
    if (answer < 0)
        return err_set(err, ERR_UNAVAILABLE,
                       "the server at %s has no key for the model: with -y it gets the one from %s",
                       remote->place.text, key->from);
    if (answer == 0)
        return err_set(err, ERR_UNAVAILABLE,
                       "the server has no key for the model: 'cay secret set " SECRET
                       "' stores one");
    if (send_key(remote, key, upstream, err) < 0)
        return -1;
    (void)fprintf(stderr,
                  "cay: stored the key from %s on the server, as the secret '" SECRET
                  "' for %s ('cay secret rm " SECRET "' removes it)\n",
                  key->from, buf_str(&where));
    return 0;
}

int ask_key_give(struct remote *remote, const struct ask_options *options, struct err *err)
{
    struct ask_key key;
    int r = ask_key_find(&key, options, err);
    if (r == 0)
        r = err_set(err, ERR_UNAVAILABLE,
                    "the server has no key for the model: set ANTHROPIC_API_KEY, here or for 'cay "
                    "serve', write it to .env, or say --key-file FILE");
    else if (r > 0)
        r = give(remote, options, &key, err);
    ask_key_forget(&key);
    return r;
}
