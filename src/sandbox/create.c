// SPDX-License-Identifier: Apache-2.0
// Making a sandbox: its names, its row, and whether it may be at all.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "box/limits.h"
#include "sandbox/sandbox-internal.h"

// --- names

bool sandbox_id_valid(const char *id)
{
    size_t len = strlen(id);
    static const char ends[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    if (len == 0 || len > 128 || strchr(ends, id[0]) == NULL || strchr(ends, id[len - 1]) == NULL)
        return false;
    for (; *id != '\0'; id++) {
        if (strchr(ends, *id) == NULL && strchr("._-", *id) == NULL)
            return false;
    }
    return true;
}

void name_make(char *ret, size_t size, const char *prefix)
{
    static const char letters[] = "abcdefghijkmnpqrstuvwxyz23456789";
    unsigned char bytes[12];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        abort();
    char text[sizeof bytes + 1];
    for (size_t i = 0; i < sizeof bytes; i++)
        text[i] = letters[bytes[i] % 32];
    text[sizeof bytes] = '\0';
    (void)snprintf(ret, size, "%s%s", prefix, text);
}

static uint64_t hash64(const char *text, uint64_t h)
{
    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdu;
    return h ^ h >> 33;
}

// A name for hosts: the id as far as it goes, and what tells it from all others.
char *slug_make(int64_t tenant, const char *id)
{
    enum { KEPT = 27 };
    char head[KEPT + 1];
    size_t n = 0;
    for (const char *p = id; *p != '\0' && n < KEPT; p++) {
        char c = *p >= 'A' && *p <= 'Z' ? (char)(*p + 32) : *p;
        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
            head[n++] = c;
        else if (n > 0 && head[n - 1] != '-')
            head[n++] = '-';
    }
    while (n > 0 && head[n - 1] == '-')
        n--;
    head[n] = '\0';
    return event_data("%s-%012llx", head,
                      (unsigned long long)hash64(id, (uint64_t)tenant * 0x9e3779b97f4a7c15u) >> 16);
}

// --- making

static int64_t or_default(uint64_t value, uint64_t fallback)
{
    return (int64_t)(value != 0 ? value : fallback);
}

int64_t settings_budget(int64_t given)
{
    if (given == BUDGET_NOTHING)
        return 0;
    return given > 0 ? given : -1;
}

static int check_settings(struct fleet *fleet, const struct sandbox_row *row, struct err *err)
{
    struct box_limits limits = {
        .memory = (uint64_t)row->memory,
        .disk = (uint64_t)row->disk,
        .pids = (uint32_t)row->pids,
        .cpu_milli = (uint32_t)row->cpu_milli,
    };
    if (!sandbox_id_valid(row->id))
        return err_set(
            err, ERR_INVALID,
            "'%.128s' cannot be an id: 1 to 128 letters, digits, '.', '_' and '-', with a letter or digit at both ends",
            row->id);
    if (!row->ephemeral && !fleet->welcome.has_volume)
        return err_set(
            err, ERR_UNSUPPORTED,
            "this machine keeps no disks (it has no Btrfs volume): ask for \"ephemeral\": true");
    return limits_check(&limits, err);
}

static void fill_row(struct fleet *fleet, int64_t tenant, const struct sandbox_settings *settings,
                     struct sandbox_row *row)
{
    struct box_limits d = limits_default();
    char made[40];
    name_make(made, sizeof made, "sb-");
    int64_t now = db_now_ms();
    *row = (struct sandbox_row){
        .tenant = tenant,
        .id = mem_copy_text(settings->id != NULL ? settings->id : made),
        .status = SANDBOX_SLEEPING,
        .image = mem_copy_text(settings->image != NULL ? settings->image : fleet->config.image),
        .memory = or_default(settings->limits.memory, d.memory),
        .disk = or_default(settings->limits.disk, d.disk),
        .pids = or_default(settings->limits.pids, d.pids),
        .cpu_milli = or_default(settings->limits.cpu_milli, d.cpu_milli),
        .sleep_after_ms =
            settings->sleep_after_ms >= 0 ? settings->sleep_after_ms : fleet->config.sleep_after_ms,
        .keep_alive = settings->keep_alive,
        .ephemeral = settings->ephemeral,
        .env = mem_copy_text(settings->env != NULL ? settings->env : "{}"),
        .labels = mem_copy_text(settings->labels != NULL ? settings->labels : "{}"),
        .user_id = mem_copy_text(settings->user_id),
        .network = mem_copy_text(settings->network),
        .secrets = mem_copy_text(settings->secrets),
        .languages = mem_copy_text(settings->languages),
        .shared_zygote = !settings->own_zygote,
        .destroy_after_ms = settings->destroy_after_ms,
        .budget_cost = settings_budget(settings->budget_cost),
        .budget_tokens = settings_budget(settings->budget_tokens),
        .sync = settings->sync,
        .durable = settings->durable,
        .archive_after_ms = settings->archive_after_ms,
        .created_ms = now,
        .updated_ms = now,
        .active_ms = now,
    };
    row->slug = slug_make(tenant, row->id);
}

static bool same_text(const char *a, const char *b)
{
    return strcmp(a != NULL ? a : "", b != NULL ? b : "") == 0;
}

static bool same_settings(const struct sandbox_row *a, const struct sandbox_row *b)
{
    return same_text(a->image, b->image) && a->memory == b->memory && a->disk == b->disk &&
           a->pids == b->pids && a->cpu_milli == b->cpu_milli &&
           a->sleep_after_ms == b->sleep_after_ms && a->keep_alive == b->keep_alive &&
           a->ephemeral == b->ephemeral && same_text(a->env, b->env) &&
           same_text(a->labels, b->labels) && same_text(a->user_id, b->user_id) &&
           same_text(a->network, b->network) && same_text(a->secrets, b->secrets) &&
           same_text(a->languages, b->languages) && a->shared_zygote == b->shared_zygote &&
           a->destroy_after_ms == b->destroy_after_ms && a->budget_cost == b->budget_cost &&
           a->budget_tokens == b->budget_tokens && a->sync == b->sync && a->durable == b->durable &&
           a->archive_after_ms == b->archive_after_ms;
}

static int use_existing(struct sandbox *s, const struct sandbox_row *wanted, struct err *err)
{
    if (s->destroy_wanted)
        return err_set(err, ERR_CONFLICT, "sandbox '%.128s' is being destroyed: try again",
                       wanted->id);
    if (!same_settings(&s->row, wanted))
        return err_set(err, ERR_CONFLICT,
                       "sandbox '%.128s' exists with other settings: PATCH changes them",
                       wanted->id);
    return 0;
}

// The row, the box if one is ready, and the event, as one write. 1: it runs; 0: it has a row.
static int add_rows(struct sandbox *s, struct err *err)
{
    struct db *db = s->fleet->config.db;
    if (db_begin(db, err) < 0)
        return -1;
    int r = bind_create_ready(s, err);
    if (r == 1)
        sandbox_event(s, "created", NULL);
    if (r == 0 && db_sandbox_add(db, &s->row, err) < 0)
        r = -1;
    if (r < 0) {
        db_rollback(db);
        return -1;
    }
    if (db_commit(db, err) < 0) {
        db_rollback(db);
        return -1;
    }
    if (r == 1)
        bind_created(s);
    return r;
}

static void create_new(struct fleet *fleet, struct tenant *tenant, struct sandbox_row *row,
                       sandbox_fn fn, void *data)
{
    struct err err = {0};
    int64_t since = clock_ns();
    struct sandbox *s = sandbox_ref(fleet_add(fleet, row));
    s->created_now = true;
    int r = add_rows(s, &err);
    if (r < 0) {
        bind_abandon(s);
        fn(data, NULL, false, &err);
    } else {
        tenant->sandboxes++;
        tenant->disk += s->row.disk;
        log_line(LOG_INFO, "sandbox created", "sandbox", s->row.id, NULL);
    }
    if (r == 1) {
        fleet->counted.created++;
        fleet_time(fleet, TIMING_CREATE, clock_ns() - since);
        fn(data, s, true, NULL);
    } else if (r == 0) {
        lifecycle_start(s, fn, data, /* created */ true, since);
    }
    sandbox_unref(s);
}

// What begins with a snapshot has of it what the caller does not say.
static int take_snapshot(struct fleet *fleet, int64_t tenant, struct sandbox_settings *settings,
                         struct snapshot_row *from, struct sandbox_row *source, struct err *err)
{
    if (settings->snapshot == NULL)
        return 0;
    return fork_fill_settings(fleet, tenant, settings, from, source, err);
}

void fleet_create(struct fleet *fleet, int64_t tenant, const struct sandbox_settings *settings,
                  sandbox_fn fn, void *data)
{
    struct err err = {0};
    struct sandbox_row row = {0}, source = {0};
    struct snapshot_row from = {0};
    struct sandbox_settings mine = *settings;
    struct sandbox *s = NULL;
    struct tenant *owner = fleet_tenant(fleet, tenant, &err);
    bool ok = owner != NULL && take_snapshot(fleet, tenant, &mine, &from, &source, &err) == 0;
    if (ok) {
        fill_row(fleet, tenant, &mine, &row);
        ok = check_settings(fleet, &row, &err) == 0;
    }
    if (ok) {
        s = fleet_look_up(fleet, tenant, row.id, &err);
        ok = err.code == ERR_NONE;
    }
    if (ok && s != NULL)
        ok = use_existing(s, &row, &err) == 0;
    else if (ok)
        ok = admit_sandbox(fleet, owner, (uint64_t)row.disk, &err) == 0;
    if (!ok) {
        fleet->counted.refused += err.code == ERR_EXHAUSTED;
        fn(data, NULL, false, &err);
    } else if (s != NULL) {
        sandbox_wake(s, fn, data);
    } else if (from.id != NULL) {
        fork_create(fleet, &row, &from, fn, data);
    } else {
        create_new(fleet, owner, &row, fn, data);
    }
    sandbox_row_done(&row);
    sandbox_row_done(&source);
    snapshot_row_done(&from);
}
