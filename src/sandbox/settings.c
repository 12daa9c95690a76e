// SPDX-License-Identifier: Apache-2.0
// Changing the settings of a sandbox, and asking what its box uses.
#include <stdlib.h>
#include <string.h>

#include "box/limits.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox-internal.h"

// --- changing settings

struct patch {
    struct sandbox *s;
    struct box_limits limits;       // as in the row
    int64_t more_disk, more_memory; // counted for it while the keeper is asked
    struct sandbox_row row;         // its texts that are new, and what is plain
    unsigned which;
    sandbox_fn fn;
    void *data;
};

// What was there goes into p->row, so that a second swap undoes the first, and so that whichever
// is not wanted any more is freed with it.
static void swap_texts(struct patch *p)
{
    struct sandbox_row *row = &p->s->row;
    const struct {
        unsigned which;
        char **a, **b;
    } texts[] = {
        {PATCH_ENV,       &row->env,       &p->row.env      },
        {PATCH_LABELS,    &row->labels,    &p->row.labels   },
        {PATCH_NETWORK,   &row->network,   &p->row.network  },
        {PATCH_SECRETS,   &row->secrets,   &p->row.secrets  },
        {PATCH_LANGUAGES, &row->languages, &p->row.languages},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (p->which & texts[i].which) {
            char *text = *texts[i].a;
            *texts[i].a = *texts[i].b;
            *texts[i].b = text;
        }
    }
}

static void set_plain(const struct patch *p)
{
    struct sandbox_row *row = &p->s->row;
    if (p->which & PATCH_LIMITS) {
        row->memory = (int64_t)p->limits.memory;
        row->disk = (int64_t)p->limits.disk;
        row->pids = p->limits.pids;
        row->cpu_milli = p->limits.cpu_milli;
    }
    if (p->which & PATCH_SLEEP_AFTER)
        row->sleep_after_ms = p->row.sleep_after_ms;
    if (p->which & PATCH_KEEP_ALIVE)
        row->keep_alive = p->row.keep_alive;
    if (p->which & PATCH_ZYGOTE)
        row->shared_zygote = p->row.shared_zygote;
    if (p->which & PATCH_DESTROY_AFTER)
        row->destroy_after_ms = p->row.destroy_after_ms;
    if (p->which & PATCH_BUDGET) {
        row->budget_cost = p->row.budget_cost;
        row->budget_tokens = p->row.budget_tokens;
    }
    if (p->which & PATCH_SYNC)
        row->sync = p->row.sync;
    if (p->which & PATCH_DURABLE)
        row->durable = p->row.durable;
    if (p->which & PATCH_ARCHIVE_AFTER)
        row->archive_after_ms = p->row.archive_after_ms;
}

static int patch_rows(struct patch *p, struct err *err)
{
    struct sandbox *s = p->s;
    struct sandbox_row before = s->row;
    char **env = NULL;
    if (p->row.env != NULL && (env = env_parse(p->row.env, err)) == NULL)
        return -1;
    set_plain(p);
    swap_texts(p);
    if (lifecycle_store(s, err) < 0) {
        swap_texts(p);
        s->row = before;
        exec_env_free(env);
        return -1;
    }
    lifecycle_tenant(s)->disk += s->row.disk - before.disk;
    lifecycle_count_memory(s);
    if (env != NULL) {
        exec_env_free(s->env);
        s->env = env;
    }
    if (p->which & (PATCH_NETWORK | PATCH_SECRETS))
        reach_changed(s);
    return 0;
}

static void patch_finish(struct patch *p, const struct err *failed)
{
    struct err err = {0};
    if (failed != NULL)
        err = *failed;
    else if (p->s->state == STATE_GONE || p->s->destroy_wanted)
        (void)err_set(&err, ERR_NOT_FOUND, "sandbox '%.128s' was destroyed", p->s->row.id);
    else if (patch_rows(p, &err) == 0)
        sandbox_event(p->s, "changed", NULL);
    p->fn(p->data, err.code == ERR_NONE ? p->s : NULL, false, err.code == ERR_NONE ? NULL : &err);
    sandbox_unref(p->s);
    sandbox_row_done(&p->row);
    free(p);
}

// What is asked for counts already, so that many at once do not all find the last of a quota.
static void reserve(const struct patch *p, int by)
{
    struct tenant *tenant = lifecycle_tenant(p->s);
    tenant->disk += by * p->more_disk;
    tenant->memory += by * p->more_memory;
}

static void on_limited(void *data, const struct keeper_event *ev, const struct err *err)
{
    struct patch *p = data;
    (void)ev;
    p->s->limiting = false;
    reserve(p, -1);
    if (err == NULL || err->code == ERR_NOT_FOUND) { // the box is gone: the next one has them
        patch_finish(p, NULL);
    } else {
        struct err told = lifecycle_told(err);
        patch_finish(p, &told);
    }
}

static int check_patch(struct patch *p, struct err *err)
{
    struct sandbox *s = p->s;
    struct tenant *tenant = lifecycle_tenant(s);
    int64_t more_disk = (int64_t)p->limits.disk - s->row.disk;
    int64_t more_memory = (int64_t)p->limits.memory - s->row.memory;
    if (limits_check(&p->limits, err) < 0 ||
        lifecycle_check_shared((int64_t)p->limits.disk, s->row.shared, err) < 0)
        return -1;
    if (s->limiting && (p->which & PATCH_LIMITS))
        return err_set(err, ERR_CONFLICT, "its limits are being changed: try again");
    if (more_disk > 0 && tenant->max_disk > 0 && tenant->disk + more_disk > tenant->max_disk)
        return err_set(err, ERR_EXHAUSTED, "the disk quota of %lld MiB has no room for it",
                       (long long)(tenant->max_disk >> 20));
    if (s->memory_counted != 0 && more_memory > 0 && tenant->max_memory > 0 &&
        tenant->memory + more_memory > tenant->max_memory)
        return err_set(err, ERR_UNAVAILABLE, "the memory quota of %lld MiB has no room for it now",
                       (long long)(tenant->max_memory >> 20));
    p->more_disk = more_disk > 0 ? more_disk : 0;
    p->more_memory = more_memory > 0 ? more_memory : 0;
    return 0;
}

static char *copy_if(bool wanted, const char *text)
{
    char *made = wanted && text != NULL ? strdup(text) : NULL;
    if (made == NULL && wanted && text != NULL)
        abort();
    return made;
}

static struct patch *patch_new(struct sandbox *s, const struct sandbox_settings *settings,
                               unsigned which, sandbox_fn fn, void *data)
{
    struct patch *p = calloc(1, sizeof *p);
    if (p == NULL)
        abort();
    p->s = sandbox_ref(s);
    p->which = which;
    p->fn = fn;
    p->data = data;
    p->limits = lifecycle_limits(s);
    p->limits.disk = (uint64_t)s->row.disk;
    if (which & PATCH_LIMITS) {
        p->limits.memory =
            settings->limits.memory != 0 ? settings->limits.memory : p->limits.memory;
        p->limits.disk = settings->limits.disk != 0 ? settings->limits.disk : p->limits.disk;
        p->limits.pids = settings->limits.pids != 0 ? settings->limits.pids : p->limits.pids;
        p->limits.cpu_milli =
            settings->limits.cpu_milli != 0 ? settings->limits.cpu_milli : p->limits.cpu_milli;
    }
    p->row.sleep_after_ms =
        which & PATCH_SLEEP_AFTER ? settings->sleep_after_ms : s->row.sleep_after_ms;
    p->row.keep_alive = which & PATCH_KEEP_ALIVE ? settings->keep_alive : s->row.keep_alive;
    p->row.shared_zygote = !settings->own_zygote;
    p->row.destroy_after_ms = settings->destroy_after_ms;
    p->row.budget_cost = settings_budget(settings->budget_cost);
    p->row.budget_tokens = settings_budget(settings->budget_tokens);
    p->row.sync = settings->sync;
    p->row.durable = settings->durable;
    p->row.archive_after_ms = settings->archive_after_ms;
    p->row.env = copy_if(which & PATCH_ENV, settings->env);
    p->row.labels = copy_if(which & PATCH_LABELS, settings->labels);
    p->row.network = copy_if(which & PATCH_NETWORK, settings->network);
    p->row.secrets = copy_if(which & PATCH_SECRETS, settings->secrets);
    p->row.languages = copy_if(which & PATCH_LANGUAGES, settings->languages);
    return p;
}

static void patch_apply(struct patch *p)
{
    struct sandbox *s = p->s;
    struct box_limits now = lifecycle_limits(s), wanted = p->limits;
    wanted.disk -= (uint64_t)s->row.shared;
    bool changes = (p->which & PATCH_LIMITS) && memcmp(&now, &wanted, sizeof now) != 0;
    if (changes && s->box != NULL && s->state != STATE_STARTING) {
        s->limiting = true;
        reserve(p, 1);
        keeper_limit(s->fleet, box_link_number(s->box), &wanted, on_limited, p);
    } else {
        patch_finish(p, NULL);
    }
}

static void on_listeners(void *data, const struct err *err)
{
    struct patch *p = data;
    if (err != NULL)
        patch_finish(p, err);
    else
        patch_apply(p);
}

// A network for a box that has had none: programs may have taken the ports that it needs.
static bool wants_listeners(const struct patch *p)
{
    return (p->row.network != NULL || p->row.secrets != NULL) && p->s->state == STATE_RUNNING &&
           p->s->listen_tcp < 0;
}

void sandbox_patch(struct sandbox *s, const struct sandbox_settings *settings, unsigned which,
                   sandbox_fn fn, void *data)
{
    struct err err = {0};
    struct patch *p = patch_new(s, settings, which, fn, data);
    if (check_patch(p, &err) < 0)
        patch_finish(p, &err);
    else if (wants_listeners(p))
        reach_try(s, on_listeners, p);
    else
        patch_apply(p);
}

// --- usage

struct usage {
    int64_t shared;
    sandbox_usage_fn fn;
    void *data;
};

static void on_usage(void *data, const struct keeper_event *ev, const struct err *err)
{
    struct usage *u = data;
    struct keeper_used used = {0};
    if (ev != NULL) {
        used = ev->msg.used;
        used.disk += (uint64_t)u->shared; // others wrote it: the kernel counts it for them
    }
    u->fn(u->data, ev != NULL ? &used : NULL, err);
    free(u);
}

void sandbox_usage(struct sandbox *s, sandbox_usage_fn fn, void *data)
{
    struct err err = {0};
    if (s->box == NULL) {
        (void)err_set(&err, ERR_UNAVAILABLE, "the sandbox is not running");
        fn(data, NULL, &err);
        return;
    }
    struct usage *u = calloc(1, sizeof *u);
    if (u == NULL)
        abort();
    *u = (struct usage){.shared = s->row.shared, .fn = fn, .data = data};
    keeper_usage(s->fleet, box_link_number(s->box), on_usage, u);
}
