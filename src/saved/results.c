// SPDX-License-Identifier: Apache-2.0
// Answers of models as objects: each is copied to the store when it is there, one after the other,
// oldest first. What the store does not take now is tried again later. A row that goes dooms its
// objects (a trigger of the database).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json-in.h"
#include "base/log.h"
#include "saved/saved-internal.h"

#define AGAIN_NS (15 * NS_PER_S)

struct result_keeper {
    bool busy;
    int64_t after;   // seq of the last that nobody can store
    int64_t next_ns; // nothing before this: the store has failed
};

struct copy {
    struct saved *saved;
    int64_t seq;
    struct result_row row;
    char *dir; // "TENANT/results/ID/"
    struct err err;
    bool is_bad; // it will never be stored
};

static void next(struct saved *saved);

// -- on a thread

static int put(struct copy *c, const char *name, const char *bytes, size_t len, struct err *err)
{
    char key[STORE_KEY_MAX + 1];
    if ((size_t)snprintf(key, sizeof key, "%s%s", c->dir, name) >= sizeof key ||
        !store_key_valid(key)) {
        c->is_bad = true;
        return err_set(err, ERR_INVALID, "its id is no name of an object");
    }
    return store_put_bytes(c->saved->config.store, key, bytes, len, err);
}

// What a task has changed, beside its answer: for git apply.
static int put_diff(struct copy *c, struct err *err)
{
    auto_json_doc *doc = NULL;
    struct err ignored;
    if (strcmp(c->row.kind, "task") != 0 ||
        json_read(c->row.body, c->row.body_len, &doc, &ignored) < 0)
        return 0;
    const struct json_node *diff = json_get(json_root(doc), "diff");
    if (json_text(diff) == NULL || diff->text_len == 0)
        return 0;
    return put(c, "changes.diff", diff->text, diff->text_len, err);
}

static void work(void *data)
{
    struct copy *c = data;
    const char *body = c->row.body != NULL ? c->row.body : "";
    size_t len = c->row.body != NULL ? c->row.body_len : 0;
    if (put(c, "answer.json", body, len, &c->err) < 0)
        return;
    if (c->row.body != NULL && put_diff(c, &c->err) < 0)
        return;
    // Its row is about to say that it is stored, and nobody looks again.
    if (store_sync(c->saved->config.store, &c->err) == 0)
        c->err = (struct err){0};
}

// -- on the loop

// One that was removed meanwhile leaves nothing.
static void note(struct copy *c)
{
    struct saved *saved = c->saved;
    struct err err = {0}, worse = {0};
    if (db_result_stored(saved->config.db, c->seq, &err) == 0)
        return;
    if (err.code != ERR_NOT_FOUND || db_doomed_add(saved->config.db, c->dir, &worse) < 0)
        log_line(LOG_WARN, "cannot write down that a result is stored, ignoring", "result",
                 c->row.id, "error", err.msg, NULL);
}

static void put_off(struct copy *c)
{
    struct result_keeper *keeper = c->saved->results;
    if (c->is_bad) {
        keeper->after = c->seq;
        return;
    }
    keeper->next_ns = clock_ns() + AGAIN_NS;
    log_line(LOG_WARN, "a result could not be stored, trying again later", "result", c->row.id,
             "error", c->err.msg, NULL);
}

static void done(void *data)
{
    struct copy *c = data;
    struct saved *saved = c->saved;
    saved->results->busy = false;
    if (c->err.code == ERR_NONE)
        note(c);
    else if (!saved->closing)
        put_off(c);
    result_row_done(&c->row);
    free(c->dir);
    free(c);
    next(saved);
    saved_unref(saved);
}

static char *dir_of(struct saved *saved, const struct result_row *row)
{
    struct tenant_row tenant = {0};
    struct err ignored;
    char *dir = NULL;
    if (db_tenant_by_number(saved->config.db, row->tenant, &tenant, &ignored) > 0 &&
        asprintf(&dir, "%s/results/%s/", tenant.name, row->id) < 0)
        abort();
    tenant_row_done(&tenant);
    return dir;
}

static void next(struct saved *saved)
{
    struct result_keeper *keeper = saved->results;
    struct err err = {0};
    struct copy found = {.saved = saved};
    if (keeper->busy || saved->closing || !saved->started || clock_ns() < keeper->next_ns)
        return;
    if (db_result_unstored(saved->config.db, keeper->after, &found.row, &found.seq, &err) <= 0)
        return;
    found.dir = dir_of(saved, &found.row);
    if (found.dir == NULL) {
        result_row_done(&found.row);
        return;
    }
    struct copy *c = calloc(1, sizeof *c);
    if (c == NULL)
        abort();
    c->saved = saved;
    c->seq = found.seq;
    c->row = found.row;
    c->dir = found.dir;
    (void)err_set(&c->err, ERR_UNAVAILABLE, "the server ends"); // should no thread take it
    keeper->busy = true;
    saved_ref(saved);
    store_pool_run(saved->pool, work, done, c);
}

int results_open(struct saved *saved, struct err *err)
{
    (void)err;
    saved->results = calloc(1, sizeof *saved->results);
    if (saved->results == NULL)
        abort();
    return 0;
}

void results_start(struct saved *saved)
{
    next(saved);
}

void results_tick(struct saved *saved)
{
    next(saved);
}

void results_close(struct saved *saved)
{
    free(saved->results);
    saved->results = NULL;
}
