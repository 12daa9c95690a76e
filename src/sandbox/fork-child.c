// SPDX-License-Identifier: Apache-2.0
// What the children of a fork are given of their source's settings, and their names.
#include <jansson.h>
#include <string.h>

#include "base/mem.h"
#include "sandbox/fork-internal.h"

// What a secret of the sandbox's own is called by stays behind with it: the tenant's of the same
// name is another one, which the sandbox did not have.
static char *shared_secrets(struct sandbox *s)
{
    struct err ignored;
    size_t i;
    json_t *name;
    json_t *list = s->row.secrets != NULL ? json_loads(s->row.secrets, 0, NULL) : NULL;
    json_t *kept = json_array();
    json_array_foreach(list, i, name)
    {
        struct secret_row row = {0};
        char *own = event_data("@%lld/%s", (long long)s->row.number, json_string_value(name));
        if (db_secret_get(s->fleet->config.db, s->row.tenant, own, &row, &ignored) == 0)
            (void)json_array_append(kept, name);
        secret_row_done(&row);
        free(own);
    }
    char *text = json_array_size(kept) > 0 ? json_dumps(kept, JSON_COMPACT) : NULL;
    json_decref(kept);
    json_decref(list);
    return text;
}

// What is left: a chain of forks does not make more of it.
static int64_t left_of(int64_t budget, int64_t spent)
{
    if (budget < 0)
        return budget;
    return spent < budget ? budget - spent : 0;
}

static void fill_child(struct sandbox_row *row, struct sandbox *s, const char *env,
                       const char *secrets, char *id)
{
    const struct sandbox_row *of = &s->row;
    int64_t now = db_now_ms();
    *row = *of;
    row->number = row->box = row->run = row->boxes = row->disks = row->shared = 0;
    row->archive = NULL;
    row->id = id;
    row->slug = slug_make(of->tenant, id);
    row->image = mem_copy_text(of->image);
    row->env = mem_copy_text(env);
    row->labels = mem_copy_text(of->labels);
    row->user_id = mem_copy_text(of->user_id);
    row->network = mem_copy_text(of->network);
    row->secrets = mem_copy_text(secrets);
    row->languages = mem_copy_text(of->languages);
    row->budget_cost = left_of(of->budget_cost, of->spent_cost);
    row->budget_tokens = left_of(of->budget_tokens, of->spent_tokens);
    row->spent_cost = row->spent_tokens = 0;
    row->created_ms = row->updated_ms = row->active_ms = now;
    row->slept_ms = now;
}

static char *child_id(const struct fork_request *request, unsigned i)
{
    char made[40];
    name_make(made, sizeof made, "sb-");
    if (request->id == NULL)
        return mem_copy_text(made);
    return request->count == 1 ? mem_copy_text(request->id)
                               : event_data("%s-%u", request->id, i + 1);
}

static int check_id(struct sandbox *s, const char *id, struct err *err)
{
    struct err found = {0};
    if (!sandbox_id_valid(id))
        return err_set(
            err, ERR_INVALID,
            "'%.140s' cannot be an id: 1 to 128 letters, digits, '.', '_' and '-', with a letter or digit at both ends",
            id);
    if (fleet_look_up(s->fleet, s->row.tenant, id, &found) != NULL)
        return err_set(err, ERR_CONFLICT, "there is a sandbox '%.128s' already", id);
    if (found.code == ERR_NONE)
        return 0;
    *err = found;
    return -1;
}

int fork_fill_rows(struct sandbox *s, const struct fork_request *request, const char *env,
                   struct sandbox_row *rows, struct err *err)
{
    auto_free char *secrets = shared_secrets(s);
    for (unsigned i = 0; i < request->count; i++) {
        fill_child(&rows[i], s, env, secrets, child_id(request, i));
        if (request->id != NULL && check_id(s, rows[i].id, err) < 0)
            return -1;
    }
    return 0;
}
