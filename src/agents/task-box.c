// SPDX-License-Identifier: Apache-2.0
// The sandbox of a task. A fresh one may reach the repository's host, or use the secret that is for
// it, while it is cloned; both are taken away before the agent starts, whose work is the first
// thing in the box that is not ours.
#include <stdio.h>
#include <string.h>

#include "agents/fresh.h"
#include "agents/task-internal.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/show.h"
#include "egress/policy.h"
#include "egress/url.h"

enum {
    KEPT_MS = 24 * 60 * 60 * 1000, // one that was asked to be kept, after its last use
    // Agents start with several threads at once: on one core they take half as long again.
    CPU_MILLI = 2000,
    LEFT_MS = 60 * 60 * 1000, // one that is ours, if nobody ever destroys it
};
#define WORKSPACE "/workspace"

void task_box_hold(struct task *t, struct sandbox *s)
{
    t->s = sandbox_ref(s);
    sandbox_busy(s);
    sandbox_set_request(s, run_id(t->run));
}

void task_box_leave(struct task *t)
{
    struct sandbox *s = t->s;
    if (s == NULL)
        return;
    t->s = NULL;
    if (strcmp(sandbox_request(s), run_id(t->run)) == 0) // of a named one another may have begun
        sandbox_set_request(s, NULL);
    sandbox_idle(s);
    // What nothing was run in is of no use to anybody.
    if (t->fresh && !(t->asked.keep && t->has_run) && !t->is_left)
        sandbox_destroy(s, NULL, NULL);
    else if (t->fresh && !t->agents->closing && !t->is_left)
        fresh_left(t->agents, s);
    sandbox_unref(s);
}

// --- how it is before

static void on_moment(void *data, struct git_moment *moment, const struct git_fault *fault)
{
    struct task *t = data;
    t->work = NULL;
    if (fault != NULL)
        task_warn(t, "what changes cannot be told: %s", fault->message);
    t->moment = moment;
    task_agent_start(t);
}

// Nothing need be asked of a clone that nobody has touched, nor of an empty place.
void task_moment_take(struct task *t)
{
    bool is_touched = t->asked.components != NULL;
    t->phase = TASK_MOMENT;
    if (t->cloned.url[0] != '\0' && !is_touched) {
        t->moment = git_moment_clone(&t->cloned);
        task_agent_start(t);
    } else if (t->fresh && !is_touched) {
        t->moment = git_moment_empty(t->dir);
        task_agent_start(t);
    } else {
        struct git_work *work = git_moment_take(t->agents->config.db, t->s, t->dir, task_left_ms(t),
                                                on_moment, task_ref(t));
        if (work != NULL)
            t->work = work;
        task_unref(t);
    }
}

// --- the clone

static void emit_cloned(struct task *t)
{
    struct buf buf;
    struct json j;
    task_event(&j, &buf);
    show_str(&j, "repo", t->cloned.url);
    show_str(&j, "branch", t->cloned.head[0] != '\0' ? t->cloned.head : NULL);
    show_str(&j, "commit", t->cloned.commit[0] != '\0' ? t->cloned.commit : NULL);
    show_int(&j, "duration", t->clone_ms);
    task_emit(t, "cloned", &j);
}

static void on_shut(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct task *t = data;
    (void)s;
    (void)created;
    if (!t->over && err != NULL && err->code != ERR_NONE)
        task_fail_err(t, err);
    else if (!t->over)
        task_files_put(t);
    task_unref(t);
}

static const char *lasting_secrets(const struct task *t)
{
    return agent_file_needs_model(t->file) ? "[\"" MODEL_SECRET "\"]" : NULL;
}

static void shut(struct task *t)
{
    const struct sandbox_settings settings = {
        .network = t->asked.network,
        .secrets = lasting_secrets(t),
    };
    t->phase = TASK_SHUT;
    sandbox_patch(t->s, &settings, PATCH_NETWORK | PATCH_SECRETS, on_shut, task_ref(t));
}

static void on_cloned(void *data, const struct git_cloned *cloned, const struct git_fault *fault)
{
    struct task *t = data;
    t->work = NULL;
    if (fault != NULL) {
        task_fail_git(t, fault);
        return;
    }
    t->cloned = *cloned;
    t->clone_ms = (clock_ns() - t->start_ns) / NS_PER_MS - t->clone_ms;
    (void)snprintf(t->dir, sizeof t->dir, "%s", cloned->dir);
    emit_cloned(t);
    if (t->fresh)
        shut(t);
    else
        task_files_put(t);
}

static struct git_clone clone_of(const struct task *t)
{
    return (struct git_clone){
        .url = t->asked.repo,
        .url_field = "repo",
        .branch = t->asked.branch,
        .secret = t->asked.secret,
        .timeout_ms = t->start_ns != 0 ? task_left_ms(t) : 0,
    };
}

static void start_clone(struct task *t)
{
    const struct git_clone wanted = clone_of(t);
    t->phase = TASK_CLONE;
    t->clone_ms = (clock_ns() - t->start_ns) / NS_PER_MS; // when it began, until it has ended
    struct git_work *work =
        git_clone_start(t->agents->config.db, t->s, &wanted, on_cloned, task_ref(t));
    if (work != NULL)
        t->work = work;
    task_unref(t);
}

// --- the sandbox

static void emit_sandbox(struct task *t)
{
    struct buf buf;
    struct json j;
    show_str(task_event(&j, &buf), "sandboxId", sandbox_row(t->s)->id);
    task_emit(t, "sandbox", &j);
}

static void on_box(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct task *t = data;
    (void)created;
    if (t->over && s != NULL && t->fresh) {
        sandbox_destroy(s, NULL, NULL); // nobody will ever know of it
    } else if (!t->over && s == NULL) {
        task_fail_err(t, err);
    } else if (!t->over) {
        task_box_hold(t, s);
        emit_sandbox(t);
        (void)snprintf(t->dir, sizeof t->dir, WORKSPACE);
        if (t->asked.repo != NULL)
            start_clone(t);
        else
            task_files_put(t);
    }
    task_unref(t);
}

// What a clone needs of the network: its host alone. With a secret, nothing.
static int clone_policy(const struct task *t, char **ret, struct err *err)
{
    struct url url;
    struct policy *policy;
    char json[POLICY_HOST_MAX + 64];
    *ret = NULL;
    if (t->asked.secret != NULL)
        return 0;
    if (url_parse(t->asked.repo, &url, err) < 0)
        return -1;
    bool is_ipv6 = strchr(url.host, ':') != NULL;
    (void)snprintf(json, sizeof json, "{\"allow\":[\"%s%s%s:%u\"]}", is_ipv6 ? "[" : "", url.host,
                   is_ipv6 ? "]" : "", url.port);
    if (policy_parse(json, &policy, err) < 0)
        return -1;
    *ret = policy_text(policy);
    policy_free(policy);
    if (*ret == NULL)
        abort();
    return 0;
}

// In order and each once, as settings have them.
static void clone_secrets(const struct task *t, char ret[2 * SECRET_NAME_MAX + 16])
{
    const char *own = t->asked.secret, *model = MODEL_SECRET;
    int order = strcmp(own, model);
    if (order == 0 || !agent_file_needs_model(t->file))
        (void)snprintf(ret, 2 * SECRET_NAME_MAX + 16, "[\"%s\"]", own);
    else
        (void)snprintf(ret, 2 * SECRET_NAME_MAX + 16, "[\"%s\",\"%s\"]", order < 0 ? own : model,
                       order < 0 ? model : own);
}

static void make_fresh(struct task *t)
{
    struct err err = {0};
    auto_free char *policy = NULL;
    char secrets[2 * SECRET_NAME_MAX + 16] = "";
    bool clones = t->asked.repo != NULL;
    if (clones && clone_policy(t, &policy, &err) < 0) {
        (void)err_wrap(&err, "repo");
        task_fail_err(t, &err);
        return;
    }
    if (clones && t->asked.secret != NULL)
        clone_secrets(t, secrets);
    const char *image = agent_file_image(t->file);
    const struct fresh_wish wish = {
        .run = run_id(t->run),
        .image = t->asked.image != NULL ? t->asked.image : image,
        .any_image = t->asked.image == NULL,
        .memory = t->asked.memory > 0 ? (uint64_t)t->asked.memory : agent_file_memory(t->file),
        .cpu_milli = CPU_MILLI,
        .network = clones ? policy : t->asked.network,
        .secrets = secrets[0] != '\0' ? secrets : lasting_secrets(t),
        .budget_cost = t->asked.budget_cost,
        .budget_tokens = t->asked.budget_tokens,
        .destroy_after_ms = t->asked.keep ? KEPT_MS : LEFT_MS,
    };
    fresh_make_with(t->agents, run_tenant(t->run), &wish, on_box, task_ref(t));
}

static void wake_named(struct task *t)
{
    struct err err = {0};
    struct failure failure;
    struct sandbox *s =
        fleet_find(t->agents->config.fleet, run_tenant(t->run), t->asked.sandbox, &err);
    if (s == NULL)
        task_fail_err(t, &err);
    else if (failure_of_budget(sandbox_row(s), &failure))
        task_fail(t, &failure);
    else
        fresh_wake(t->agents, s, on_box, task_ref(t));
}

// Refused before anything is made, where that can be known. 0, or -1: it is over.
static int check(struct task *t)
{
    struct err err = {0};
    struct failure failure;
    struct git_fault fault;
    const struct agents_config *config = &t->agents->config;
    const struct git_clone wanted = clone_of(t);
    int has_key = agent_file_needs_model(t->file)
                      ? model_key_is_there(config->secrets, config->keys, run_tenant(t->run), &err)
                      : 1;
    if (has_key < 0) {
        task_fail_err(t, &err);
    } else if (has_key == 0) {
        failure_no_key(&failure);
        task_fail(t, &failure);
    } else if (t->asked.repo != NULL && git_clone_check(&wanted, &fault) < 0) {
        task_fail_git(t, &fault);
    } else {
        return 0;
    }
    return -1;
}

void task_box_get(struct task *t)
{
    t->phase = TASK_BOX;
    if (check(t) < 0)
        return;
    if (t->fresh)
        make_fresh(t);
    else
        wake_named(t);
}
