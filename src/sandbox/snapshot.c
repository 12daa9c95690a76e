// SPDX-License-Identifier: Apache-2.0
// Snapshots: a row that says it is being made, a copy of the disk in PLACE_SNAPSHOT, the row that
// says it is there. What a crash leaves of the first two is forgotten at the next start.
//
// What a disk has written is of its quota, also while only a snapshot has it. A sandbox that went
// back has another disk, with a quota of its own: what snapshots of its earlier disks hold may be
// as much as its limit once more, so that going back again and again is no way around it.
#include "sandbox/snapshot.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/session.h"

// --- sessions as a text

static int dump_one(void *data, const struct session_row *row)
{
    json_t *env = json_loads(row->env != NULL ? row->env : "{}", 0, NULL);
    (void)json_array_append_new(data, json_pack("{s:s, s:s?, s:o}", "id", row->id, "cwd", row->cwd,
                                                "env", env != NULL ? env : json_object()));
    return 0;
}

char *sessions_dump(struct sandbox *s, struct err *err)
{
    json_t *list = json_array();
    int r = db_session_each(s->fleet->config.db, s->row.number, dump_one, list, err);
    char *text = r == 0 ? json_dumps(list, JSON_COMPACT) : NULL;
    json_decref(list);
    if (r == 0 && text == NULL)
        abort();
    return text;
}

struct old_sessions {
    struct db *db;
    struct err *err;
    int r;
};

static int remove_one(void *data, const struct session_row *row)
{
    struct old_sessions *old = data;
    old->r = db_session_del(old->db, row->sandbox, row->id, old->err) < 0 ? -1 : 0;
    return old->r;
}

static int put_one(struct fleet *fleet, int64_t sandbox, const json_t *entry, struct err *err)
{
    const char *id = json_string_value(json_object_get(entry, "id"));
    const char *cwd = json_string_value(json_object_get(entry, "cwd"));
    if (id == NULL)
        return 0;
    struct session_row row = {
        .sandbox = sandbox,
        .id = mem_copy_text(id),
        .cwd = mem_copy_text(cwd),
        .env = json_dumps(json_object_get(entry, "env"), JSON_COMPACT | JSON_SORT_KEYS),
        .created_ms = db_now_ms(),
        .used_ms = db_now_ms(),
    };
    int r = db_session_put(fleet->config.db, &row, err);
    session_row_done(&row);
    return r;
}

int sessions_undump(struct fleet *fleet, int64_t sandbox, const char *json, struct err *err)
{
    struct old_sessions old = {.db = fleet->config.db, .err = err};
    size_t i;
    json_t *entry;
    json_t *list = json_loads(json, 0, NULL);
    int r = db_session_each(fleet->config.db, sandbox, remove_one, &old, err);
    if (r == 0)
        r = old.r;
    json_array_foreach(list, i, entry)
    {
        if (r == 0)
            r = put_one(fleet, sandbox, entry, err);
    }
    json_decref(list);
    return r;
}

void snapshot_save_sessions(struct sandbox *s, void (*done)(void *data), void *data)
{
    if (s->state == STATE_RUNNING && s->box != NULL)
        sessions_save(s, done, data);
    else
        done(data);
}

// --- making

struct making_snapshot {
    struct sandbox *s;
    struct snapshot_row row;
    snapshot_fn fn;
    void *data;
    // Until its row is on the disk, which others need not wait for.
    uv_work_t work;
    int log;
    int failed; // 0 or -errno
};

static void make_end(struct making_snapshot *m, const struct err *err)
{
    struct fleet *fleet = m->s->fleet;
    m->fn(m->data, err == NULL ? &m->row : NULL, err);
    sandbox_unref(m->s);
    snapshot_row_done(&m->row);
    free(m);
    fleet->forking--;
    fleet_check_stopped(fleet);
}

static void make_failed(struct making_snapshot *m, const struct err *err)
{
    struct err ignored;
    (void)db_snapshot_del(m->s->fleet->config.db, m->row.number, &ignored);
    keeper_disk_drop(m->s->fleet, disk_snapshot((uint64_t)m->row.number), NULL, NULL);
    make_end(m, err);
}

static void on_written(uv_work_t *work, int status)
{
    struct making_snapshot *m = work->data;
    struct err err = {0};
    int r = m->failed < 0 ? err_sys(&err, -m->failed, "write the snapshot's row")
                          : disk_check(m->s, &err); // it may have gone meanwhile
    (void)status;
    if (r < 0) {
        make_failed(m, &err);
        return;
    }
    char *text =
        event_data("{\"snapshot\":\"%s\",\"bytes\":%lld}", m->row.id, (long long)m->row.bytes);
    sandbox_event(m->s, "snapshot", text);
    free(text);
    make_end(m, NULL);
}

static void write_down(uv_work_t *work)
{
    struct making_snapshot *m = work->data;
    m->failed = fdatasync(m->log) < 0 ? -errno : 0;
}

static void on_copied(void *data, const struct disk_copied *copied, const struct err *failed)
{
    struct making_snapshot *m = data;
    struct sandbox *s = m->s;
    struct db *db = s->fleet->config.db;
    struct err err = {0};
    if (failed != NULL) {
        make_failed(m, failed);
        return;
    }
    m->row.bytes = copied->shared;
    m->row.own = copied->own;
    m->row.disk = copied->disk;
    m->row.state = SNAPSHOT_READY;
    // It may have been destroyed meanwhile, with its rows: then that fails.
    if (disk_check(s, &err) < 0 || db_snapshot_ready(db, &m->row, &err) < 0) {
        make_failed(m, &err);
        return;
    }
    m->work.data = m;
    m->log = db_log_fd(db);
    if (uv_queue_work(fleet_loop(s->fleet), &m->work, write_down, on_written) != 0)
        abort();
}

static int check_room(struct sandbox *s, struct err *err)
{
    int64_t n = 0;
    if (disk_check(s, err) < 0 ||
        db_snapshot_count(s->fleet->config.db, s->row.number, &n, err) < 0)
        return -1;
    if (n >= SNAPSHOTS_MAX)
        return err_set(err, ERR_EXHAUSTED, "a sandbox has at most %d snapshots: delete one",
                       SNAPSHOTS_MAX);
    return 0;
}

static void on_saved(void *data)
{
    struct making_snapshot *m = data;
    struct sandbox *s = m->s;
    struct err err = {0};
    if (check_room(s, &err) < 0 || (m->row.sessions = sessions_dump(s, &err)) == NULL) {
        make_end(m, &err);
        return;
    }
    m->row.sandbox = s->row.number;
    m->row.disk = s->row.disks;
    m->row.env = mem_copy_text(s->row.env);
    m->row.created_ms = db_now_ms();
    if (db_snapshot_add(s->fleet->config.db, &m->row, &err) < 0)
        make_end(m, &err);
    else
        disk_copy(s, disk_snapshot((uint64_t)m->row.number), 0, on_copied, m);
}

void snapshot_make(struct sandbox *s, const char *name, snapshot_fn fn, void *data)
{
    struct err err = {0};
    char id[40];
    if (check_room(s, &err) < 0) {
        fn(data, NULL, &err);
        return;
    }
    struct making_snapshot *m = calloc(1, sizeof *m);
    if (m == NULL)
        abort();
    name_make(id, sizeof id, "snap-");
    *m = (struct making_snapshot){
        .s = sandbox_ref(s),
        .row = {.id = mem_copy_text(id), .name = mem_copy_text(name), .state = SNAPSHOT_MAKING},
        .fn = fn,
        .data = data,
    };
    s->fleet->forking++;
    snapshot_save_sessions(s, on_saved, m);
}

// --- looking, deleting

struct seeing {
    db_snapshot_fn fn;
    void *data;
};

static int see_ready(void *data, const struct snapshot_row *row)
{
    struct seeing *seeing = data;
    return row->state == SNAPSHOT_READY ? seeing->fn(seeing->data, row) : 0;
}

int snapshot_each(struct sandbox *s, db_snapshot_fn fn, void *data, struct err *err)
{
    struct seeing seeing = {fn, data};
    return db_snapshot_each(s->fleet->config.db, s->row.number, see_ready, &seeing, err);
}

int snapshot_get(struct sandbox *s, const char *id, struct snapshot_row *ret, struct err *err)
{
    int r = db_snapshot_get(s->fleet->config.db, s->row.number, id, ret, err);
    if (r < 0)
        return -1;
    if (r > 0 && ret->state == SNAPSHOT_READY)
        return 0;
    snapshot_row_done(ret);
    return err_set(err, ERR_NOT_FOUND, "sandbox '%.128s' has no snapshot '%.64s'", s->row.id, id);
}

struct deleting {
    disk_fn fn;
    void *data;
};

// Its row is gone: if its disk is not, the next start sees to that.
static void on_deleted(void *data, const struct keeper_event *ev, const struct err *err)
{
    struct deleting *d = data;
    (void)ev;
    if (err != NULL)
        log_line(LOG_WARN,
                 "cannot remove the disk of a snapshot; it is tried again at the next start",
                 "error", err->msg, NULL);
    d->fn(d->data, NULL);
    free(d);
}

void snapshot_delete(struct sandbox *s, const char *id, disk_fn fn, void *data)
{
    struct err err = {0};
    struct snapshot_row row = {0};
    int r = snapshot_get(s, id, &row, &err);
    uint64_t number = (uint64_t)row.number;
    if (r == 0)
        r = db_snapshot_del(s->fleet->config.db, row.number, &err) < 0 ? -1 : 0;
    snapshot_row_done(&row);
    if (r < 0) {
        fn(data, &err);
        return;
    }
    struct deleting *d = calloc(1, sizeof *d);
    if (d == NULL)
        abort();
    *d = (struct deleting){.fn = fn, .data = data};
    keeper_disk_drop(s->fleet, disk_snapshot(number), on_deleted, d);
}

static int drop_one(void *data, const struct snapshot_row *row)
{
    keeper_disk_drop(data, disk_snapshot((uint64_t)row->number), NULL, NULL);
    return 0;
}

void snapshots_drop(struct sandbox *s)
{
    struct err err = {0};
    if (s->row.ephemeral || !s->fleet->welcome.has_volume)
        return;
    if (db_snapshot_each(s->fleet->config.db, s->row.number, drop_one, s->fleet, &err) < 0)
        log_line(LOG_WARN, "cannot read snapshots; their disks go at the next start", "sandbox",
                 s->row.id, "error", err.msg, NULL);
}

// --- going back

struct going_back {
    struct sandbox *of; // counted
    struct sandbox *s;  // NULL: not held
    struct snapshot_row row;
    struct copy_spec copy;
    disk_fn fn;
    void *data;
};

static void back_end(struct going_back *b, const struct err *err)
{
    if (b->s != NULL)
        sandbox_let_go(b->s);
    b->fn(b->data, err);
    snapshot_row_done(&b->row);
    sandbox_unref(b->of);
    free(b);
}

// Its environment and its sessions, as one write. The box that it gets next has them.
static int take_state(struct sandbox *s, const struct snapshot_row *row, struct err *err)
{
    struct db *db = s->fleet->config.db;
    char **env = env_parse(row->env, err);
    if (env == NULL || db_begin(db, err) < 0) {
        exec_env_free(env);
        return -1;
    }
    char *before = s->row.env;
    s->row.env = mem_copy_text(row->env);
    if (lifecycle_store(s, err) < 0 ||
        sessions_undump(s->fleet, s->row.number, row->sessions, err) < 0 ||
        db_commit(db, err) < 0) {
        db_rollback(db);
        free(s->row.env);
        s->row.env = before;
        exec_env_free(env);
        return -1;
    }
    free(before);
    exec_env_free(s->env);
    s->env = env;
    sessions_forget(s); // as they are in memory, if somebody has looked at them
    return 0;
}

static void on_replaced(void *data, const struct err *failed)
{
    struct going_back *b = data;
    struct err err = {0};
    if (failed != NULL) {
        err = *failed;
        fleet_drop_making(b->s->fleet, b->copy.to.number);
    } else if (!b->s->destroy_wanted && take_state(b->s, &b->row, &err) == 0) {
        char *text = event_data("{\"snapshot\":\"%s\"}", b->row.id);
        sandbox_event(b->s, "rollback", text);
        free(text);
    }
    back_end(b, err.code != ERR_NONE ? &err : NULL);
}

static void on_back_copied(void *data, const struct keeper_event *ev, const struct err *err)
{
    struct going_back *b = data;
    if (ev != NULL) {
        sandbox_replace_disk(b->s, b->copy.to.number, b->row.bytes, on_replaced, b);
    } else {
        struct err told = lifecycle_told(err);
        back_end(b, &told);
    }
}

// What there is to be said against it, before anything ends.
static int check_back(struct sandbox *s, const struct snapshot_row *row, struct err *err)
{
    int64_t held = 0;
    if (disk_check(s, err) < 0 || lifecycle_check_shared(s->row.disk, row->bytes, err) < 0 ||
        db_snapshot_held(s->fleet->config.db, s->row.number, &held, err) < 0)
        return -1;
    if (held > s->row.disk)
        return err_set(err, ERR_EXHAUSTED,
                       "the snapshots of '%.128s' hold %lld MiB, more than its disk's limit of "
                       "%lld MiB: delete some, or give it a larger disk",
                       s->row.id, (long long)(held >> 20), (long long)(s->row.disk >> 20));
    return 0;
}

static void on_held(void *data, struct sandbox *s, bool created, const struct err *failed)
{
    struct going_back *b = data;
    struct err err = {0};
    (void)created;
    b->s = s;
    if (s == NULL) {
        back_end(b, failed);
    } else if (check_back(s, &b->row, &err) < 0) {
        back_end(b, &err);
    } else {
        b->copy.bytes = (uint64_t)(s->row.disk - b->row.bytes);
        keeper_disk_copy(s->fleet, &b->copy, on_back_copied, b);
    }
}

static void begin_back(void *data, int64_t shared)
{
    struct going_back *b = data;
    struct err err = {0};
    b->row.bytes = shared;
    if (check_back(b->of, &b->row, &err) < 0) {
        back_end(b, &err);
        return;
    }
    b->copy.from = disk_snapshot((uint64_t)b->row.number);
    b->copy.to = disk_making(disk_number_make());
    sandbox_hold(b->of, "it goes back to a snapshot", on_held, b);
}

void snapshot_count(struct sandbox *s, const struct snapshot_row *row, recounted_fn fn, void *data)
{
    struct err ignored;
    if (lifecycle_check_shared(s->row.disk, row->bytes, &ignored) == 0)
        fn(data, row->bytes);
    else
        disk_recount(s->fleet, disk_snapshot((uint64_t)row->number), row->bytes, fn, data);
}

void snapshot_roll_back(struct sandbox *s, const char *id, disk_fn fn, void *data)
{
    struct err err = {0};
    struct going_back *b = calloc(1, sizeof *b);
    if (b == NULL)
        abort();
    b->of = sandbox_ref(s);
    b->fn = fn;
    b->data = data;
    if (disk_check(s, &err) < 0 || snapshot_get(s, id, &b->row, &err) < 0)
        back_end(b, &err);
    else
        snapshot_count(s, &b->row, begin_back, b);
}
