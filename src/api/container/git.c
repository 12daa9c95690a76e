// SPDX-License-Identifier: Apache-2.0
// POST /api/git/checkout. Theirs takes credentials in the URL, which git then keeps in the clone's
// configuration. Here they are lent to the sandbox as a secret (egress/secret.h) while it clones:
// what is in the box, and what is told, is the URL without them.
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/container/files.h"
#include "api/show.h"
#include "egress/secret.h"
#include "egress/url.h"
#include "git/check.h"
#include "git/clone.h"

enum { LOGIN_MAX = 2048, CONTEXT_MAX = 64 * 1024 };

struct checkout_body {
    const char *url, *branch, *dir, *session;
    struct body_int depth, timeout;
};

#define AT(member) offsetof(struct checkout_body, member)
static const struct field checkout_fields[] = {
    FIELD("repoUrl", FIELD_STRING, AT(url), .required = true,
          .help = "http:// or https://; credentials in it are used for this clone alone"),
    FIELD("branch", FIELD_STRING, AT(branch),
          .help = "A branch or tag; the remote's own if not given"),
    FIELD("targetDir", FIELD_STRING, AT(dir), .help = "/workspace/NAME if not given"),
    FIELD("depth", FIELD_INT, AT(depth), .min = 1, .max = 1000000,
          .help = "Only so many of the newest commits"),
    FIELD("timeoutMs", FIELD_INT, AT(timeout), .min = 1, .max = GIT_CLONE_TIMEOUT_MAX,
          .help = "10 minutes if not given"),
    CONTAINER_SESSION(struct checkout_body),
};
#undef AT
static const struct schema checkout_schema =
    SCHEMA("ContainerGitCheckout", struct checkout_body, checkout_fields, .lenient = true);

struct checkout {
    struct git_work *work; // NULL: nothing is going on
    char url[GIT_URL_MAX]; // without credentials
    char dir[FILE_PATH_MAX + 1];
    char lent[SECRET_NAME_MAX]; // while it is; ""
    char secret[SECRET_NAME_MAX];
};

// -- credentials

// "%40" is "@". The length, or -1.
static ssize_t unescape(const char *text, size_t len, char *ret, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '%' &&
            (i + 2 >= len || sodium_hex2bin(&c, 1, text + i + 1, 2, NULL, NULL, NULL) < 0))
            return -1;
        i += text[i] == '%' ? 2 : 0;
        if (n == size)
            return -1;
        ret[n++] = (char)c;
    }
    return (ssize_t)n;
}

// "user:password" of the part before the '@'. The length, or -1.
static ssize_t read_login(const char *text, size_t len, char *ret, size_t size)
{
    const char *colon = memchr(text, ':', len);
    size_t user_len = colon != NULL ? (size_t)(colon - text) : len;
    ssize_t user = unescape(text, user_len, ret, size - 1);
    if (user < 0 || memchr(ret, ':', (size_t)user) != NULL)
        return -1; // Basic has no way to say such a name
    ret[user++] = ':';
    ssize_t rest = 0;
    if (colon != NULL)
        rest = unescape(colon + 1, len - user_len - 1, ret + user, size - (size_t)user);
    return rest < 0 ? -1 : user + rest;
}

static int lend(struct call *call, struct checkout *c, const char *login, size_t len)
{
    struct err err = {0};
    struct url parts;
    char canonical[GIT_URL_MAX], origin[URL_ORIGIN_MAX];
    uint8_t random[8];
    char hex[2 * sizeof random + 1];
    if (git_check_url(c->url, canonical, &parts, &err) < 0) {
        container_fail(call, CONTAINER_INVALID_GIT_URL, NULL, "repoUrl: %s", err.msg);
        return -1;
    }
    (void)url_origin(&parts, origin);
    randombytes_buf(random, sizeof random);
    (void)snprintf(c->lent, sizeof c->lent, "git-%s",
                   sodium_bin2hex(hex, sizeof hex, random, sizeof random));
    const struct secret_put put = {
        .name = c->lent,
        .value = login,
        .value_len = len,
        .upstream = origin,
        .format = "Basic {basic}",
        .sandbox = sandbox_row(call->sandbox)->number,
    };
    if (secrets_lend(call->api->secrets, call->tenant, &put, &err) == 0)
        return 0;
    c->lent[0] = '\0';
    container_fail(call, CONTAINER_INVALID_GIT_URL, NULL, "repoUrl: its credentials: %s", err.msg);
    return -1;
}

// The URL without credentials, which are lent. 0, or -1 when it was refused and answered.
static int read_url(struct call *call, struct checkout *c)
{
    const struct checkout_body *b = call->body.values;
    const char *host = strstr(b->url, "://");
    size_t before = host != NULL ? (size_t)(host + 3 - b->url) : 0;
    size_t authority = strcspn(b->url + before, "/?#");
    const char *at = before > 0 ? memrchr(b->url + before, '@', authority) : NULL;
    char login[LOGIN_MAX];
    int n = at == NULL ? snprintf(c->url, sizeof c->url, "%s", b->url)
                       : snprintf(c->url, sizeof c->url, "%.*s%s", (int)before, b->url, at + 1);
    if (n >= (int)sizeof c->url) {
        container_fail(call, CONTAINER_INVALID_GIT_URL, NULL, "repoUrl: is too long");
        return -1;
    }
    if (at == NULL)
        return 0;
    ssize_t len = read_login(b->url + before, (size_t)(at - b->url) - before, login, sizeof login);
    int r = -1;
    if (len < 0)
        container_fail(call, CONTAINER_INVALID_GIT_URL, NULL,
                       "repoUrl: its credentials cannot be read: escape them as %%XX, or PUT "
                       "/secrets/{name} and let the sandbox use that");
    else
        r = lend(call, c, login, (size_t)len);
    sodium_memzero(login, sizeof login);
    return r;
}

static void take_back(struct call *call)
{
    struct checkout *c = call->state;
    if (c->lent[0] != '\0')
        secrets_take_back(call->api->secrets, sandbox_row(call->sandbox)->number, c->lent);
    c->lent[0] = '\0';
}

// -- what went wrong

static bool says(const struct git_fault *fault, const char *words)
{
    return strstr(fault->said, words) != NULL;
}

static enum container_code code_of(const struct git_fault *fault)
{
    enum container_code code = container_code_of(fault->kind, SUBJECT_GIT);
    if (fault->kind == ERROR_FILE_EXISTS || code == CONTAINER_CODE_MAX)
        return CONTAINER_GIT_CLONE_FAILED;
    if (fault->kind == ERROR_INVALID_REQUEST && strncmp(fault->message, "repoUrl", 7) == 0)
        return CONTAINER_INVALID_GIT_URL;
    if (fault->kind == ERROR_GIT_CLONE_FAILED &&
        (says(fault, "Could not resolve host") || says(fault, "Failed to connect") ||
         says(fault, "Couldn't connect") || says(fault, "Connection timed out") ||
         says(fault, "502") || says(fault, "503") || says(fault, "504")))
        return CONTAINER_GIT_NETWORK_ERROR;
    return code;
}

static void fail(struct call *call, const struct git_fault *fault)
{
    const struct checkout *c = call->state;
    const struct checkout_body *b = call->body.values;
    enum container_code code = code_of(fault);
    auto_buf context;
    struct json j;
    if (code == CONTAINER_VALIDATION_FAILED) {
        char field[32];
        (void)snprintf(field, sizeof field, "%.*s", (int)strcspn(fault->message, ":"),
                       fault->message);
        container_invalid(call, field, "%s", fault->message);
        return;
    }
    if (code == CONTAINER_CONTAINER_UNAVAILABLE) {
        container_unavailable(call, fault->message, "%s", fault->message);
        return;
    }
    buf_init(&context, CONTEXT_MAX);
    json_init(&j, &context);
    json_open_object(&j);
    show_str(&j, "repository", c->url);
    if (b->branch != NULL)
        show_str(&j, "branch", b->branch);
    if (c->dir[0] != '\0')
        show_str(&j, "targetDir", c->dir);
    if (fault->said[0] != '\0')
        show_str(&j, "stderr", fault->said);
    json_close_object(&j);
    container_fail(call, code, json_finish(&j) == 0 ? buf_str(&context) : NULL, "%s",
                   fault->message);
}

// -- doing it

static void over(struct call *call)
{
    struct checkout *c = call->state;
    c->work = NULL;
    call->stop = NULL;
    take_back(call);
    call_unref(call);
}

static void stop(struct call *call)
{
    struct checkout *c = call->state;
    if (c->work == NULL)
        return;
    git_cancel(c->work);
    over(call);
}

static void reply(struct call *call, const struct git_cloned *cloned)
{
    const struct checkout_body *b = call->body.values;
    struct container_answer answer;
    container_begin(&answer, true);
    show_str(&answer.json, "repoUrl", cloned->url);
    show_str(&answer.json, "branch",
             cloned->head[0] != '\0' ? cloned->head
             : b->branch != NULL     ? b->branch
                                     : "unknown");
    show_str(&answer.json, "targetDir", cloned->dir);
    container_end(call, &answer);
}

static void on_cloned(void *data, const struct git_cloned *cloned, const struct git_fault *fault)
{
    struct call *call = data;
    if (fault != NULL)
        fail(call, fault);
    else
        reply(call, cloned);
    over(call);
}

static struct git_clone clone_of(const struct call *call)
{
    const struct checkout *c = call->state;
    const struct checkout_body *b = call->body.values;
    return (struct git_clone){
        .url = c->url,
        .branch = b->branch,
        .dir = c->dir[0] != '\0' ? c->dir : NULL,
        .secret = c->secret[0] != '\0' ? c->secret : NULL,
        .lent = c->lent[0] != '\0' ? c->lent : NULL,
        .depth = b->depth.value,
        .timeout_ms = b->timeout.value,
    };
}

static void on_awake(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct call *call = data;
    struct checkout *c = call->state;
    (void)s;
    (void)created;
    if (err != NULL && err->code != ERR_NONE) {
        call_fail(call, err);
        over(call);
    } else if (call->req == NULL) {
        over(call);
    } else {
        const struct git_clone clone = clone_of(call);
        (void)call_ref(call); // it may be over before this returns
        call->stop = stop;
        struct git_work *work =
            git_clone_start(call->api->db, call->sandbox, &clone, on_cloned, call);
        if (work != NULL)
            c->work = work;
        call_unref(call);
    }
}

static void handle_checkout(struct call *call)
{
    const struct checkout_body *b = call->body.values;
    struct git_fault fault;
    struct checkout *c = calloc(1, sizeof *c);
    if (c == NULL)
        abort();
    call->state = c;
    if (b->dir != NULL && container_path(call, b->session, "targetDir", b->dir, c->dir) < 0)
        return;
    if (read_url(call, c) < 0)
        return;
    const struct sandbox_row *row = sandbox_row(call->sandbox);
    if (c->lent[0] == '\0') // one that fits is as good as one in the URL
        (void)git_find_secret(call->api->db, row, c->url, c->secret);
    const struct git_clone clone = clone_of(call);
    if (git_clone_allowed(call->api->db, row, &clone, &fault) < 0) {
        fail(call, &fault);
        take_back(call);
    } else {
        sandbox_wake(call->sandbox, on_awake, call_ref(call));
    }
}

const struct route container_git[] = {
    CONTAINER_ROUTE(HTTP_POST, "/api/git/checkout", SUBJECT_GIT, handle_checkout,
                    .body = &checkout_schema),
};
const size_t n_container_git = sizeof container_git / sizeof *container_git;
