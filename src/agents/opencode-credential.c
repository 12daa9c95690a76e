// SPDX-License-Identifier: Apache-2.0
#include "agents/opencode-credential.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 24, NAME_LEN_MAX = 64 };

int opencode_refuse(struct err *err, const char *path, const char *why)
{
    return err_set(err, ERR_INVALID, "%.*s: %s", OPENCODE_PATH_MAX, path, why);
}

// "X-Api-Key", "apiKey" and "API_KEY" are one.
static void plain_name(const char *name, char ret[NAME_LEN_MAX])
{
    size_t n = 0;
    for (; *name != '\0' && n < NAME_LEN_MAX - 1; name++) {
        if (isalnum((unsigned char)*name))
            ret[n++] = (char)tolower((unsigned char)*name);
    }
    ret[n] = '\0';
}

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), n = strlen(end);
    return len >= n && strcmp(text + len - n, end) == 0;
}

bool opencode_is_credential_name(const char *name)
{
    // "key" also of X-Subscription-Key and OPENAI_KEY.
    static const char *const ends[] = {"key",         "keyid",      "token",
                                       "secret",      "password",   "passphrase",
                                       "credentials", "credential", "passwd"};
    static const char *const whole[] = {
        "authorization", "proxyauthorization", "auth", "bearer", "cookie", "pat"};
    char plain[NAME_LEN_MAX];
    plain_name(name, plain);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (ends_with(plain, ends[i]))
            return true;
    }
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        if (strcmp(plain, whole[i]) == 0)
            return true;
    }
    return false;
}

// What OpenCode itself reads in the box: {env:NAME}, {file:PATH}. There is nothing secret in that.
static bool is_reference(const char *value)
{
    return (strncmp(value, "{env:", 5) == 0 || strncmp(value, "{file:", 6) == 0) &&
           value[strlen(value) - 1] == '}' && strchr(value, '}')[1] == '\0';
}

bool opencode_is_credential(const char *value)
{
    return value != NULL && value[0] != '\0' && strcmp(value, OPENCODE_PLACEHOLDER) != 0 &&
           !is_reference(value);
}

// Forms that well-known services give theirs, wherever they stand.
bool opencode_looks_like_credential(const char *value)
{
    static const char *const begins[] = {"sk-ant-", "sk-proj-",    "sk-or-",    "ghp_",  "gho_",
                                         "ghs_",    "github_pat_", "glpat-",    "xoxb-", "xoxp-",
                                         "AKIA",    "ASIA",        "AIza",      "gsk_",  "xai-",
                                         "Bearer ", "Basic ",      "eyJhbGciOi"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        size_t len = strlen(begins[i]);
        if (strncmp(value, begins[i], len) == 0 && strlen(value) >= len + 8 &&
            strchr(value + len, ' ') == NULL)
            return true;
    }
    return false;
}

// "?name=value&name=value", up to `end`.
static bool query_has_credential(const char *query, const char *end)
{
    while (query != NULL) {
        char name[NAME_LEN_MAX] = "";
        size_t left = (size_t)(end - query - 1), len = strcspn(query + 1, "=&");
        len = len < left ? len : left;
        memcpy(name, query + 1, len < sizeof name ? len : sizeof name - 1);
        if (opencode_is_credential_name(name))
            return true;
        query = memchr(query + 1, '&', left);
    }
    return false;
}

// "scheme://user:password@host", and "?api_key=..." behind it; a command may have it in its midst.
bool opencode_url_has_credential(const char *value)
{
    for (const char *p = value; (p = strstr(p, "://")) != NULL;) {
        p += 3;
        const char *end = p + strcspn(p, " \t\r\n\"'");
        if (p[strcspn(p, "/?#@ \t\r\n\"'")] == '@')
            return true;
        if (query_has_credential(memchr(p, '?', (size_t)(end - p)), end))
            return true;
    }
    return false;
}

// --- wherever it stands

static int look_through(json_t *node, const char *path, unsigned depth, struct err *err);

static int look_at(const char *name, json_t *value, const char *path, unsigned depth,
                   struct err *err)
{
    const char *text = json_string_value(value);
    if (text != NULL && opencode_is_credential_name(name) && opencode_is_credential(text))
        return opencode_refuse(
            err, path,
            "a credential here would lie in the sandbox, where its programs can read it; "
            "store it with PUT /secrets/NAME and use http://NAME.cay/ instead");
    if (text != NULL && (opencode_looks_like_credential(text) || opencode_url_has_credential(text)))
        return opencode_refuse(
            err, path,
            "this looks like a credential, which would lie in the sandbox; store it with "
            "PUT /secrets/NAME and use http://NAME.cay/ instead");
    return look_through(value, path, depth + 1, err);
}

static int look_through(json_t *node, const char *path, unsigned depth, struct err *err)
{
    char below[OPENCODE_PATH_MAX + 1];
    const char *name;
    json_t *value;
    size_t i;
    if (depth > DEPTH_MAX)
        return opencode_refuse(err, path, "is too deep");
    json_object_foreach(node, name, value)
    {
        (void)snprintf(below, sizeof below, "%s.%.60s", path, name);
        if (look_at(name, value, below, depth, err) < 0)
            return -1;
    }
    json_array_foreach(node, i, value)
    {
        (void)snprintf(below, sizeof below, "%s.%zu", path, i);
        if (look_at("", value, below, depth, err) < 0)
            return -1;
    }
    return 0;
}

int opencode_look_through(json_t *root, struct err *err)
{
    return look_through(root, "config", 0, err);
}
