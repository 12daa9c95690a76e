// SPDX-License-Identifier: Apache-2.0
#include "git/clone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "egress/policy.h"
#include "git/check.h"
#include "git/git-internal.h"

struct clone_work {
    struct git_work work;
    git_cloned_fn fn;
    void *data;
    struct git_clone asked; // its texts are those below; `dir` and `secret` are not kept
    char branch[GIT_REF_MAX + 1];
    struct git_cloned cloned;
};

// What a clone is to become.
struct plan {
    struct git_cloned cloned; // url and dir
    struct url parts;
    char rewrite[sizeof((struct git_work *)0)->rewrite];
};

// -- what may be

static int refuse(struct git_fault *ret, enum error_kind kind, const char *field,
                  const struct err *err)
{
    git_fault_set(ret, kind, "%s%s%s", field, field[0] != '\0' ? ": " : "", err->msg);
    return -1;
}

static int check(const struct git_clone *clone, struct plan *plan, struct git_fault *ret)
{
    struct err err = {0};
    const char *field = clone->url_field != NULL ? clone->url_field : "repoUrl";
    *ret = (struct git_fault){0};
    if (git_check_url(clone->url, plan->cloned.url, &plan->parts, &err) < 0)
        return refuse(ret, ERROR_INVALID_REQUEST, field, &err);
    if (clone->branch != NULL && git_check_ref(clone->branch, &err) < 0)
        return refuse(ret, ERROR_INVALID_REQUEST, "branch", &err);
    if (clone->dir != NULL) {
        if (git_check_dir(clone->dir, &err) < 0)
            return refuse(ret, ERROR_INVALID_REQUEST, "targetDir", &err);
        (void)snprintf(plan->cloned.dir, sizeof plan->cloned.dir, "%s", clone->dir);
    } else if (git_default_dir(plan->cloned.url, plan->cloned.dir, &err) < 0) {
        git_fault_set(ret, ERROR_INVALID_REQUEST, "%s: %s%s", field, err.msg,
                      clone->url_field == NULL ? ": say 'targetDir'" : "");
        return -1;
    }
    return 0;
}

int git_clone_check(const struct git_clone *clone, struct git_fault *ret)
{
    struct plan plan = {0};
    return check(clone, &plan, ret);
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
static void put_rewrite(struct plan *plan, const char *secret, const char *upstream)
{
    (void)snprintf(plan->rewrite, sizeof plan->rewrite, "url.http://%s.cay/.insteadOf=%s/", secret,
                   upstream);
}

static int use_secret(struct db *db, const char *secret, const struct sandbox_row *row,
                      struct plan *plan, struct err *err)
{
    struct secret_row stored = {0};
    if (!secret_name_valid(secret) || !may_use(row, secret))
        return err_set(err, ERR_INVALID,
                       "secret: the sandbox may not use '%.40s': it has to be in its 'secrets'",
                       secret);
    int found = db_secret_get(db, row->tenant, secret, &stored, err);
    if (found == 0)
        (void)err_set(err, ERR_INVALID, "secret: there is no secret '%s' any more", secret);
    if (found > 0) {
        if (is_below(plan->cloned.url, stored.upstream))
            put_rewrite(plan, secret, stored.upstream);
        else
            found = err_set(err, ERR_INVALID,
                            "secret: '%s' is for %.120s, and the repository is not there", secret,
                            stored.upstream);
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

const char *git_find_secret(struct db *db, const struct sandbox_row *row, const char *url,
                            char ret[SECRET_NAME_MAX])
{
    struct err ignored; // then it is cloned without one, and says why it cannot be
    struct url parts;
    char canonical[GIT_URL_MAX];
    struct search search = {row, canonical, ret};
    ret[0] = '\0';
    if (row->secrets == NULL || git_check_url(url, canonical, &parts, &ignored) < 0)
        return NULL;
    (void)db_secret_each(db, row->tenant, see_secret, &search, &ignored);
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

static int check_for(struct db *db, const struct sandbox_row *row, const struct git_clone *clone,
                     struct plan *plan, struct git_fault *ret)
{
    struct err err = {0};
    if (check(clone, plan, ret) < 0)
        return -1;
    if (clone->secret != NULL && use_secret(db, clone->secret, row, plan, &err) < 0)
        return refuse(ret, error_of(err.code), "", &err);
    if (clone->secret == NULL && check_network(&plan->parts, row, &err) < 0)
        return refuse(ret, ERROR_GIT_NETWORK_DENIED, "", &err);
    if (clone->lent != NULL) {
        char origin[URL_ORIGIN_MAX];
        (void)url_origin(&plan->parts, origin);
        put_rewrite(plan, clone->lent, origin);
    }
    return 0;
}

int git_clone_allowed(struct db *db, const struct sandbox_row *row, const struct git_clone *clone,
                      struct git_fault *ret)
{
    struct plan plan = {0};
    return check_for(db, row, clone, &plan, ret);
}

// -- doing it

static void tell(struct git_work *work, const struct git_fault *fault)
{
    struct clone_work *c = (struct clone_work *)work;
    if (fault == NULL) {
        (void)snprintf(c->cloned.head, sizeof c->cloned.head, "%s", work->head);
        (void)snprintf(c->cloned.commit, sizeof c->cloned.commit, "%s", work->commit);
    }
    c->fn(c->data, fault == NULL ? &c->cloned : NULL, fault);
}

static void on_cloned(struct git_work *work, struct exec_result *result)
{
    struct clone_work *c = (struct clone_work *)work;
    struct git_fault fault = {0};
    if (git_exit_code(result) == 0) {
        (void)snprintf(work->dir, sizeof work->dir, "%s", c->cloned.dir);
        git_find_head(work, git_finish);
        return;
    }
    git_fault_clone(&c->asked, c->cloned.dir, result, &fault);
    git_fail_with(work, &fault);
}

static void run(struct git_work *work)
{
    const struct clone_work *c = (struct clone_work *)work;
    char branch[GIT_REF_MAX + 16], depth[40];
    const char *args[16] = {"clone", "--quiet", "--no-recurse-submodules"};
    size_t n = 3;
    if (c->asked.branch != NULL) {
        (void)snprintf(branch, sizeof branch, "--branch=%s", c->asked.branch);
        args[n++] = branch;
    }
    if (c->asked.depth > 0) {
        (void)snprintf(depth, sizeof depth, "--depth=%lld", (long long)c->asked.depth);
        args[n++] = depth;
    }
    args[n++] = "--";
    args[n++] = c->cloned.url;
    args[n++] = c->cloned.dir;
    git_run(work, args, on_cloned);
}

static struct git_work *prepare(struct sandbox *s, const struct git_clone *clone,
                                const struct plan *plan, git_cloned_fn fn, void *data)
{
    struct clone_work *c = git_work_new(
        sizeof *c, s, clone->timeout_ms > 0 ? clone->timeout_ms : GIT_CLONE_TIMEOUT_MS, tell);
    c->fn = fn;
    c->data = data;
    c->cloned = plan->cloned;
    c->asked = (struct git_clone){
        .url = c->cloned.url,
        .depth = clone->depth,
        .url_field = clone->url_field,
    };
    if (clone->branch != NULL) {
        (void)snprintf(c->branch, sizeof c->branch, "%s", clone->branch);
        c->asked.branch = c->branch;
    }
    c->work.late = ERROR_GIT_CLONE_FAILED;
    c->work.late_hint = clone->url_field == NULL
                            ? "; the directory may be there in part. 'timeout' gives it more, "
                              "'depth' makes it less"
                            : "; the directory may be there in part";
    (void)snprintf(c->work.rewrite, sizeof c->work.rewrite, "%s", plan->rewrite);
    return &c->work;
}

struct git_work *git_clone_start(struct db *db, struct sandbox *s, const struct git_clone *clone,
                                 git_cloned_fn fn, void *data)
{
    struct plan *plan = calloc(1, sizeof *plan);
    struct git_fault fault;
    struct git_work *work = NULL;
    if (plan == NULL)
        abort();
    if (check_for(db, sandbox_row(s), clone, plan, &fault) < 0)
        fn(data, NULL, &fault);
    else
        work = git_begin(prepare(s, clone, plan, fn, data), run);
    free(plan);
    return work;
}
