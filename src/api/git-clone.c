// SPDX-License-Identifier: Apache-2.0
// POST .../git/checkout, and gitUrl of a new sandbox.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/git.h"
#include "api/handlers.h"
#include "api/schemas.h"
#include "api/show.h"
#include "base/clock.h"
#include "egress/policy.h"
#include "egress/secret.h"

struct checkout_body {
    const char *url, *branch, *dir, *secret;
    struct body_int depth, timeout;
};

#define AT(member) offsetof(struct checkout_body, member)
static const struct field checkout_fields[] = {
    FIELD("repoUrl", FIELD_STRING, AT(url), .required = true, .max = GIT_URL_MAX - 1,
          .help = "http:// or https://, without credentials"),
    FIELD("branch", FIELD_STRING, AT(branch), .max = GIT_REF_MAX,
          .help = "A branch or tag; the remote's own if not given"),
    FIELD("targetDir", FIELD_STRING, AT(dir), .max = GIT_PATH_MAX - 1,
          .help = "An absolute path; /workspace/NAME if not given"),
    FIELD("depth", FIELD_INT, AT(depth), .min = 1, .max = 1000000,
          .help = "Only so many of the newest commits"),
    FIELD("timeout", FIELD_MS, AT(timeout), .min = 1, .max = GIT_CLONE_TIMEOUT_MAX,
          .help = "Milliseconds, or a text such as \"2m\"; 10 minutes if not given"),
    FIELD("secret", FIELD_STRING, AT(secret), .max = 64,
          .help = "One of the sandbox's secrets, whose upstream the repository is in"),
};
const struct schema git_checkout_schema =
    SCHEMA("GitCheckout", struct checkout_body, checkout_fields);

// -- what may be

static int refuse(struct git_problem *ret, enum error_kind kind, const struct err *err)
{
    ret->kind = kind;
    (void)snprintf(ret->message, sizeof ret->message, "%s", err->msg);
    return -1;
}

static bool may_use(const struct sandbox_row *row, const char *secret)
{
    char quoted[80];
    (void)snprintf(quoted, sizeof quoted, "\"%s\"", secret); // names are plain
    return row->secrets != NULL && strstr(row->secrets, quoted) != NULL;
}

static bool is_below(const char *url, const char *upstream)
{
    size_t len = strlen(upstream);
    return strncmp(url, upstream, len) == 0 && url[len] == '/';
}

// Git asks NAME.cay in the upstream's place, where the credential is put in on the way; what it
// writes down is the URL as it was given.
static int use_secret(struct git *git, const char *secret, const struct sandbox_row *row,
                      struct err *err)
{
    struct secret_row stored = {0};
    if (!secret_name_valid(secret) || !may_use(row, secret))
        return err_set(err, ERR_INVALID,
                       "secret: the sandbox may not use '%.40s': it has to be in its 'secrets'",
                       secret);
    int found = db_secret_get(git->call->api->db, row->tenant, secret, &stored, err);
    if (found == 0)
        (void)err_set(err, ERR_INVALID, "secret: there is no secret '%s' any more", secret);
    if (found > 0) {
        if (is_below(git->url, stored.upstream))
            (void)snprintf(git->rewrite, sizeof git->rewrite, "url.http://%s.cay/.insteadOf=%s/",
                           secret, stored.upstream);
        else
            found =
                err_set(err, ERR_INVALID, "secret: '%s' is for %.120s, and repoUrl is not there",
                        secret, stored.upstream);
    }
    secret_row_done(&stored);
    return found > 0 ? 0 : -1;
}

struct search {
    const struct sandbox_row *row;
    const char *url;
    char *found;
};

static int see_secret(void *data, const struct secret_row *stored)
{
    const struct search *search = data;
    if (!may_use(search->row, stored->name) || !is_below(search->url, stored->upstream))
        return 0;
    (void)snprintf(search->found, SECRET_NAME_MAX, "%s", stored->name);
    return 1;
}

const char *git_find_secret(struct call *call, const char *url, const struct sandbox_row *row,
                            char ret[SECRET_NAME_MAX])
{
    struct err ignored; // then it is cloned without one, and says why it cannot be
    struct url parts;
    char canonical[GIT_URL_MAX];
    struct search search = {row, canonical, ret};
    ret[0] = '\0';
    if (row->secrets == NULL || git_check_url(url, canonical, &parts, &ignored) < 0)
        return NULL;
    (void)db_secret_each(call->api->db, row->tenant, see_secret, &search, &ignored);
    return ret[0] != '\0' ? ret : NULL;
}

// Said at once, and with the setting's name, what git would only hear as a number.
static int check_network(const struct url *url, const struct sandbox_row *row, struct err *err)
{
    struct policy *policy;
    const char *why = "";
    if (policy_parse(row->network, &policy, err) < 0)
        return -1;
    bool ok = policy_allows_host(policy, url->host, url->port, &why);
    policy_free(policy);
    return ok ? 0
              : err_set(err, ERR_DENIED,
                        "the sandbox's 'network' does not let it reach %.100s:%u: %s", url->host,
                        url->port, why);
}

int git_clone_prepare(struct git *git, const struct git_clone *clone, const struct sandbox_row *row,
                      struct git_problem *ret)
{
    struct err err = {0};
    struct url parts;
    *ret = (struct git_problem){0};
    if (git_check_url(clone->url, git->url, &parts, &err) < 0)
        return refuse(ret, ERROR_INVALID_REQUEST, &err);
    if (clone->branch != NULL && git_check_ref(clone->branch, &err) < 0) {
        (void)err_wrap(&err, "branch");
        return refuse(ret, ERROR_INVALID_REQUEST, &err);
    }
    if (clone->dir != NULL && git_check_dir(clone->dir, &err) < 0) {
        (void)err_wrap(&err, "targetDir");
        return refuse(ret, ERROR_INVALID_REQUEST, &err);
    }
    if (clone->dir == NULL && git_default_dir(git->url, git->dir, &err) < 0)
        return refuse(ret, ERROR_INVALID_REQUEST, &err);
    if (clone->dir != NULL)
        (void)snprintf(git->dir, sizeof git->dir, "%s", clone->dir);
    if (clone->secret != NULL && use_secret(git, clone->secret, row, &err) < 0)
        return refuse(ret, error_of(err.code), &err);
    if (clone->secret == NULL && check_network(&parts, row, &err) < 0)
        return refuse(ret, ERROR_GIT_NETWORK_DENIED, &err);
    git->branch = clone->branch;
    git->depth = clone->depth;
    git->timeout_ms = clone->timeout_ms > 0 ? clone->timeout_ms : GIT_CLONE_TIMEOUT_MS;
    return 0;
}

// -- doing it

static void on_cloned(struct git *git, struct exec_result *result)
{
    struct git_problem problem = {0};
    if (git_exit_code(result) == 0) {
        git->in_dir = true;
        git_find_head(git, git_finish);
        return;
    }
    git_clone_problem(git, result, &problem);
    if (problem.kind == ERROR_GIT_BRANCH_NOT_FOUND && git->branch != NULL)
        (void)snprintf(problem.message, sizeof problem.message,
                       "the repository has no branch or tag '%.200s'", git->branch);
    git_fail_with(git, &problem);
}

void git_clone_run(struct git *git)
{
    char branch[GIT_REF_MAX + 16], depth[40];
    const char *args[16] = {"clone", "--quiet", "--no-recurse-submodules"};
    size_t n = 3;
    if (git->branch != NULL) {
        (void)snprintf(branch, sizeof branch, "--branch=%s", git->branch);
        args[n++] = branch;
    }
    if (git->depth > 0) {
        (void)snprintf(depth, sizeof depth, "--depth=%lld", (long long)git->depth);
        args[n++] = depth;
    }
    args[n++] = "--";
    args[n++] = git->url;
    args[n++] = git->dir;
    git_run(git, args, on_cloned);
}

void git_clone_show(struct json *j, const struct git *git, const struct git_problem *problem)
{
    show_bool(j, "success", problem == NULL);
    show_str(j, "repoUrl", git->url);
    show_str(j, "branch", git->head[0] != '\0' ? git->head : NULL);
    show_str(j, "targetDir", git->dir);
    show_str(j, "commit", git->commit[0] != '\0' ? git->commit : NULL);
    show_ms(j, "duration", (double)(clock_ns() - git->start_ns) / 1e6);
    if (problem != NULL) {
        show_str(j, "error", problem->message);
        show_str(j, "error_code", error_name(problem->kind));
    }
}

// -- the route

static void answer(struct git *git, const struct git_problem *problem)
{
    struct buf buf;
    struct json j;
    if (problem != NULL) {
        git_reply_problem(git->call, problem);
        return;
    }
    buf_init(&buf, SHOW_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    git_clone_show(&j, git, NULL);
    json_close_object(&j);
    call_reply_json(git->call, 200, &j);
}

void handle_git_checkout(struct call *call)
{
    struct git_problem problem;
    const struct checkout_body *b = call->body.values;
    const struct git_clone clone = {
        .url = b->url,
        .branch = b->branch,
        .dir = b->dir,
        .secret = b->secret,
        .depth = b->depth.value,
        .timeout_ms = b->timeout.value,
    };
    struct git *git = git_new(call, answer);
    if (git_clone_prepare(git, &clone, sandbox_row(call->sandbox), &problem) < 0)
        git_reply_problem(call, &problem);
    else
        git_begin(call, git, git_clone_run);
}
