// SPDX-License-Identifier: Apache-2.0
// Rows, in SQLite with a write-ahead log. A call returns when its row is in the log's file: it
// survives any crash of ours, and a power cut only where `synced` is said. Writing that far takes
// tens of microseconds, so the loop's own thread does it; what waits for a disk (moving the log
// into the database, db_checkpoint) is for another thread. Calls are 0, or -1 with err; those that
// look for one row answer 1 when it is there and 0 when not; those that change one that is gone, or
// add to one, say ERR_NOT_FOUND; a full disk is ERR_EXHAUSTED. Row structs own their texts:
// *_row_done frees them (and takes zeros). The rows that *_each lends to its callback are read
// beforehand, so that it may call anything here.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct db;

int db_open(const char *path, struct db **ret, struct err *err); // makes and migrates it
void db_close(struct db *db);
int db_checkpoint(const char *path, struct err *err); // any thread, with a connection of its own
// The log's descriptor, lent: for whoever syncs it on another thread (fdatasync).
int db_log_fd(const struct db *db);
int db_begin(struct db *db, struct err *err); // several writes as one
int db_commit(struct db *db, struct err *err);
void db_rollback(struct db *db);

// --- settings of the installation itself

int db_meta_get(struct db *db, const char *key, char **ret, struct err *err); // 1, 0, -1; free it
int db_meta_set(struct db *db, const char *key, const char *value, struct err *err);

// --- tenants and tokens

struct tenant_row {
    int64_t number; // 1 is "admin", which is always there
    char *name;
    int64_t sandboxes, running, memory, disk; // quotas; -1: the configured default; 0: none
    int64_t created_ms;
};
int db_tenant_get(struct db *db, const char *name, struct tenant_row *ret, struct err *err);
int db_tenant_by_number(struct db *db, int64_t number, struct tenant_row *ret, struct err *err);
int db_tenant_put(struct db *db, struct tenant_row *row,
                  struct err *err); // makes or changes; sets number
void tenant_row_done(struct tenant_row *row);

enum { DB_TOKEN_HASH = 32, DB_TOKEN_ID = 17 };
struct token_row {
    char id[DB_TOKEN_ID]; // 16 hex digits, not secret
    uint8_t hash[DB_TOKEN_HASH];
    int64_t tenant;
    bool admin; // may manage tokens and see all tenants
    char *name;
    int64_t rate; // requests a minute; -1: the configured default; 0: no limit
    int64_t created_ms;
};
int db_token_add(struct db *db, const struct token_row *row, struct err *err); // synced
int db_token_by_hash(struct db *db, const uint8_t *hash, struct token_row *ret, struct err *err);
int db_token_by_id(struct db *db, const char *id, struct token_row *ret, struct err *err);
int db_token_revoke(struct db *db, const char *id,
                    struct err *err); // synced; 1, 0 if there is none
typedef int (*db_token_fn)(void *data, const struct token_row *row); // not 0: stop
int db_token_each(struct db *db, db_token_fn fn, void *data, struct err *err);
void token_row_done(struct token_row *row);

// --- sandboxes

enum sandbox_status { // as stored: never renumber
    SANDBOX_SLEEPING = 1,
    SANDBOX_RUNNING = 2,
    SANDBOX_DESTROYING = 3,
    SANDBOX_MAKING = 4, // a fork whose disk is not there yet: forgotten at the next start
};

struct sandbox_row {
    int64_t number; // also the disk's; never used twice
    int64_t tenant;
    char *id;
    char *slug; // unique on the machine, DNS-safe, at most 40 characters
    enum sandbox_status status;
    char *image;
    int64_t memory, disk, pids, cpu_milli;
    int64_t sleep_after_ms;
    bool keep_alive, ephemeral;
    bool sync;                // its workspace goes to the store whenever it falls asleep
    bool durable;             // fsync in it reaches the disk
    int64_t archive_after_ms; // asleep for so long its disk goes to the store; 0: never
    int64_t shared;           // bytes on its disk that were others' before: of its limit
    char *archive;            // the id of the backup that its disk is in; NULL: it has it here
    int64_t slept_ms;         // since when it sleeps
    int64_t disks;            // how many it has been given, one after the other; above 0: it has
                              // one, here or archived, and never gets a blank one again
    char *env;                // JSON object of strings
    char *labels;             // JSON object of strings
    char *user_id;            // the caller's own name for whom it is for; may be NULL
    char *network;            // JSON, canonical (egress/policy.h); NULL: "none"
    char *secrets;            // JSON array of their names, in order; NULL: none
    char *languages; // JSON array of names, in order: what it will be asked for; NULL: none
    int64_t destroy_after_ms;           // idle for so long it is destroyed; 0: never
    int64_t budget_cost, budget_tokens; // for models, while it exists; nano-dollars; -1: no limit
    int64_t spent_cost, spent_tokens;   // of these; changed by db_spend_add alone
    bool shared_zygote; // its interpreters may be forks of one that others' are forks of, too
    int64_t box;        // 0: none
    int64_t run;        // of the keeper that made it
    int64_t boxes;      // how many it has had
    int64_t created_ms, updated_ms, active_ms;
};
// Sets number. ERR_CONFLICT with sys_errno EEXIST for the id, EADDRINUSE for the slug.
int db_sandbox_add(struct db *db, struct sandbox_row *row, struct err *err);
int db_sandbox_get(struct db *db, int64_t tenant, const char *id, struct sandbox_row *ret,
                   struct err *err);
int db_sandbox_by_number(struct db *db, int64_t number, struct sandbox_row *ret, struct err *err);
int db_sandbox_by_slug(struct db *db, const char *slug, struct sandbox_row *ret, struct err *err);
int db_sandbox_update(struct db *db, const struct sandbox_row *row,
                      struct err *err); // all but identity and what is spent
int db_sandbox_update_synced(struct db *db, const struct sandbox_row *row, struct err *err);
int db_sandbox_touch(struct db *db, int64_t number, int64_t active_ms, struct err *err);
int db_sandbox_del(struct db *db, int64_t number, struct err *err); // with all that belongs to it

typedef int (*db_sandbox_fn)(void *data, const struct sandbox_row *row); // not 0: stop
struct sandbox_query {
    int64_t tenant;                      // 0: all
    enum sandbox_status status;          // 0: all
    const char *label_key, *label_value; // NULL: all; a key alone: any value
    const char *after;                   // ids above this one
    int64_t after_tenant;                // of all tenants: goes on behind this one's `after`
    unsigned max;                        // 0: all
    bool making;                         // with status 0: those in SANDBOX_MAKING, too
};
int db_sandbox_each(struct db *db, const struct sandbox_query *query, db_sandbox_fn fn, void *data,
                    struct err *err); // by id

// Of all tenants: those with this id.
int db_sandbox_each_by_id(struct db *db, const char *id, db_sandbox_fn fn, void *data,
                          struct err *err);

// Those whose destroy_after_ms has passed since active_ms, longest ago first; none that is kept
// alive or being destroyed.
int db_sandbox_each_due(struct db *db, int64_t now_ms, unsigned max, db_sandbox_fn fn, void *data,
                        struct err *err);

// Those that sleep, and whose archive_after_ms has passed since slept_ms; none that is archived.
int db_sandbox_each_idle(struct db *db, int64_t now_ms, unsigned max, db_sandbox_fn fn, void *data,
                         struct err *err);

struct usage_row {
    int64_t sandboxes, disk; // count and sum of limits, those being destroyed too
};
int db_sandbox_usage(struct db *db, int64_t tenant, struct usage_row *ret,
                     struct err *err); // 0: all

// --- snapshots of a sandbox; go with it

enum snapshot_state {    // as stored: never renumber
    SNAPSHOT_MAKING = 1, // its disk is not there yet: forgotten at the next start
    SNAPSHOT_READY = 2,
};
struct snapshot_row {
    int64_t number; // also the disk's, in PLACE_SNAPSHOT; never used twice
    int64_t sandbox;
    char *id, *name; // name may be NULL
    enum snapshot_state state;
    int64_t bytes;  // of the disk, as it counts for a copy's limit
    int64_t disk;   // which of the sandbox's disks it is of (sandbox_row.disks)
    int64_t own;    // of bytes: written by that disk
    char *env;      // of the sandbox, as in its row
    char *sessions; // JSON array: [{"id", "cwd", "env"}]
    int64_t created_ms;
};
int db_snapshot_add(struct db *db, struct snapshot_row *row, struct err *err); // sets number
int db_snapshot_ready(struct db *db, const struct snapshot_row *row,
                      struct err *err); // bytes, disk and own; not synced
int db_snapshot_get(struct db *db, int64_t sandbox, const char *id, struct snapshot_row *ret,
                    struct err *err);
// Of any sandbox of the tenant, ready ones only.
int db_snapshot_find(struct db *db, int64_t tenant, const char *id, struct snapshot_row *ret,
                     struct err *err);
int db_snapshot_del(struct db *db, int64_t number, struct err *err);       // synced; 1, 0
typedef int (*db_snapshot_fn)(void *data, const struct snapshot_row *row); // not 0: stop
int db_snapshot_each(struct db *db, int64_t sandbox, db_snapshot_fn fn, void *data,
                     struct err *err); // oldest first; sandbox 0: all of the machine
int db_snapshot_count(struct db *db, int64_t sandbox, int64_t *ret, struct err *err);
// What all of them hold at most, whatever the sandbox's disk is now.
int db_snapshot_held(struct db *db, int64_t sandbox, int64_t *ret, struct err *err);
int db_snapshot_forget_making(struct db *db, struct err *err); // at the start
void snapshot_row_done(struct snapshot_row *row);

// --- backups: of a tenant, outlive the sandbox

enum backup_state {    // as stored: never renumber
    BACKUP_MAKING = 1, // of `run`; of a daemon that is gone: it failed
    BACKUP_READY = 2,
};
struct backup_row {
    int64_t tenant;
    char *id;
    char *sandbox;  // the id of the one it was made of
    int64_t number; // and which of that id it was; 0: not known any more
    char *kind; // "tree": of a directory; "disk": all that was written; "archive": the only copy
    char *name, *dir; // may be NULL
    char *image;
    enum backup_state state;
    int64_t run;                    // of the daemon that makes it
    int64_t size, raw, entries;     // bytes of the object; of what is in it; files and so on
    uint8_t sha256[32];             // of the object
    int64_t created_ms, expires_ms; // 0: never
};
int db_backup_add(struct db *db, const struct backup_row *row, struct err *err);
int db_backup_ready(struct db *db, const struct backup_row *row,
                    struct err *err); // size, raw, entries, sha256; synced
int db_backup_get(struct db *db, int64_t tenant, const char *id, struct backup_row *ret,
                  struct err *err);
// The row goes, and its objects are doomed. Synced; 1, 0.
int db_backup_del(struct db *db, int64_t tenant, const char *id, struct err *err);
struct backup_query {
    int64_t tenant;      // 0: all
    const char *sandbox; // NULL: all
    int64_t expired_ms;  // not 0: only those that have expired by then
    int64_t not_run;     // not 0: only those in BACKUP_MAKING of other daemons than this
    bool orphans;        // alone, with `before` and `max`: archives that no sandbox has its disk in
    const char *before;  // older than the one with this id; NULL: from the newest
    unsigned max;        // 0: all
};
typedef int (*db_backup_fn)(void *data, const struct backup_row *row); // not 0: stop
int db_backup_each(struct db *db, const struct backup_query *query, db_backup_fn fn, void *data,
                   struct err *err); // newest first
void backup_row_done(struct backup_row *row);

// --- what of a sandbox's workspace is in the store; of a tenant and an id, outlives the sandbox

enum sync_state { // as stored: never renumber
    SYNC_NEVER = 0,
    SYNC_RUNNING = 1, // of `run`
    SYNC_DONE = 2,
    SYNC_FAILED = 3,    // `error`; tried again at again_ms, unless that is 0
    SYNC_RESTORING = 4, // of `run`: a sandbox that is being made is given what is stored
};
struct sync_row {
    int64_t tenant;
    char *sandbox; // id
    enum sync_state state;
    int64_t run;
    char *options;                   // JSON: {"include", "exclude", "gitignore", "dir"}
    int64_t files, bytes;            // in the store, after the last that was done
    int64_t put, put_bytes, deleted; // by the last one
    char *error;                     // NULL: none
    int64_t tries, again_ms;
    int64_t started_ms, ended_ms, synced_ms; // synced_ms: of the last that was done
    char *seen; // what it went by (sync-run.c); NULL: unknown, or the last was not done
};
int db_sync_put(struct db *db, const struct sync_row *row, struct err *err); // makes or replaces
int db_sync_get(struct db *db, int64_t tenant, const char *sandbox, struct sync_row *ret,
                struct err *err);
int db_sync_del(struct db *db, int64_t tenant, const char *sandbox, struct err *err); // 1, 0
// A restore has ended: the row is what it was before, if it was. Not lost by a power cut.
int db_sync_restored(struct db *db, const struct sync_row *row, bool was_there, struct err *err);
struct sync_query {
    int64_t tenant;   // 0: all
    int64_t again_ms; // not 0: only those to be tried again by then
    int64_t not_run;  // not 0: only those in SYNC_RUNNING or _RESTORING of other daemons
    unsigned max;     // 0: all
};
typedef int (*db_sync_fn)(void *data, const struct sync_row *row); // not 0: stop
int db_sync_each(struct db *db, const struct sync_query *query, db_sync_fn fn, void *data,
                 struct err *err);
void sync_row_done(struct sync_row *row);

// --- what is to go from the store

struct doomed_row {
    int64_t seq;
    char *key; // all below it when it ends with '/'
};
int db_doomed_add(struct db *db, const char *key, struct err *err);
// 1, 0. Whoever deletes what it names syncs the log before (db_log_fd).
int db_doomed_next(struct db *db, int64_t after, struct doomed_row *ret, struct err *err);
int db_doomed_del(struct db *db, int64_t seq, struct err *err);
void doomed_row_done(struct doomed_row *row);

// What the rows say is in the store, of a tenant (0: all): bytes.
struct stored_sums {
    int64_t workspaces, backups, archives, results;
};
int db_stored_sums(struct db *db, int64_t tenant, struct stored_sums *ret, struct err *err);

// --- secrets of a tenant

struct secret_row {
    int64_t tenant;
    char *name;
    char *upstream, *header, *format;
    uint8_t *sealed; // the value, encrypted: only egress/secret.h can read it
    size_t sealed_len;
    int64_t created_ms, updated_ms;
};
// Makes it (1) or replaces all but created_ms (0). Synced. ERR_NOT_FOUND: no such tenant.
int db_secret_put(struct db *db, const struct secret_row *row, struct err *err);
int db_secret_get(struct db *db, int64_t tenant, const char *name, struct secret_row *ret,
                  struct err *err);
int db_secret_del(struct db *db, int64_t tenant, const char *name, struct err *err); // synced; 1, 0
typedef int (*db_secret_fn)(void *data, const struct secret_row *row);               // not 0: stop
int db_secret_each(struct db *db, int64_t tenant, db_secret_fn fn, void *data,
                   struct err *err); // by name; tenant 0: all
void secret_row_done(struct secret_row *row);

// --- ports of a sandbox that others may reach

struct port_row {
    int64_t sandbox, port;
    char *name;  // may be NULL
    char *token; // whoever has it may come in; part of URLs, so it is stored as it is
    int64_t created_ms;
};
int db_port_put(struct db *db, const struct port_row *row,
                struct err *err); // makes, or replaces name and token; synced
int db_port_get(struct db *db, int64_t sandbox, int64_t port, struct port_row *ret,
                struct err *err);
int db_port_del(struct db *db, int64_t sandbox, int64_t port, struct err *err); // synced; 1, 0
typedef int (*db_port_fn)(void *data, const struct port_row *row);              // not 0: stop
int db_port_each(struct db *db, int64_t sandbox, db_port_fn fn, void *data,
                 struct err *err); // by port
void port_row_done(struct port_row *row);

// --- addresses of a sandbox that have their permission within; go with it, and with the token that
// they were made with

#define DB_URL_SOCKET                                                                              \
    "socket" // no token's id, which is hexadecimal: of who may use the unix socket
struct url_row {
    char id[DB_TOKEN_ID]; // 16 hex digits, not secret
    uint8_t hash[DB_TOKEN_HASH];
    int64_t sandbox;
    char token[DB_TOKEN_ID];        // its id; DB_URL_SOCKET; "": nobody's, none was asked for
    int64_t rate;                   // requests a minute; 0: no limit
    int64_t created_ms, expires_ms; // 0: never
};
int db_url_add(struct db *db, const struct url_row *row, struct err *err); // synced
int db_url_by_hash(struct db *db, const uint8_t *hash, struct url_row *ret, struct err *err);
int db_url_del(struct db *db, int64_t sandbox, const char *id, struct err *err); // synced; 1, 0
typedef int (*db_url_fn)(void *data, const struct url_row *row);                 // not 0: stop
int db_url_each(struct db *db, int64_t sandbox, db_url_fn fn, void *data,
                struct err *err); // oldest first
int db_url_expire(struct db *db, int64_t now_ms, struct err *err);
int db_url_forget_nobodys(struct db *db, struct err *err); // synced

// --- what OpenCode is configured with in a sandbox; goes with it

int db_opencode_put(struct db *db, int64_t sandbox, const char *config, struct err *err);
// 1, 0. The caller frees *ret_config. *ret_log: of the process that has it; 0: none has.
int db_opencode_get(struct db *db, int64_t sandbox, char **ret_config, int64_t *ret_log,
                    struct err *err);
// Unless it was changed meanwhile.
int db_opencode_started(struct db *db, int64_t sandbox, const char *config, int64_t log,
                        struct err *err);

// --- processes and sessions of a sandbox

enum end_reason { // as stored and as told: never renumber
    END_NONE = 0, // it runs
    END_EXIT = 1,
    END_SIGNAL = 2,
    END_TIMEOUT = 3,
    END_KILLED = 4,
    END_OOM = 5,
    END_BOX_LOST = 6,
    END_REASON_MAX,
};
const char *end_reason_name(enum end_reason reason); // "exit"; "" for END_NONE

struct process_row {
    int64_t sandbox;
    char *id;
    char *command; // JSON: the string or the array it was started with
    char *cwd;
    int64_t box;
    int64_t exec; // its id in that box
    int64_t pid;  // in the box
    int64_t log;  // number of its log files; never used twice
    char *tty;    // the name of the terminal that it runs on; NULL: none
    char *note;   // of whoever started it, a JSON object; NULL: none
    bool keep_awake;
    int64_t deadline_ms; // of the clock on the wall; 0: none
    enum end_reason reason;
    int64_t exit_code; // -1: none
    int64_t signal;    // 0: none
    int64_t limits;    // enum guest_limit
    int64_t cpu_usec, memory_peak;
    int64_t started_ms, ended_ms;
};
int db_process_add(struct db *db, struct process_row *row,
                   struct err *err); // sets log; ERR_CONFLICT
int db_process_get(struct db *db, int64_t sandbox, const char *id, struct process_row *ret,
                   struct err *err);
int db_process_started(struct db *db, const struct process_row *row,
                       struct err *err); // box, exec, pid, started_ms
int db_process_end(struct db *db, const struct process_row *row, struct err *err);
typedef int (*db_process_fn)(void *data, const struct process_row *row);
int db_process_each(struct db *db, int64_t sandbox, db_process_fn fn, void *data,
                    struct err *err); // oldest first
int db_process_del(struct db *db, int64_t sandbox, const char *id, struct err *err);
void process_row_done(struct process_row *row);

struct session_row {
    int64_t sandbox;
    char *id;
    char *cwd; // last known
    char *env; // JSON object: what the caller gave it, and what it has exported as last known
    int64_t box, exec;  // 0: no shell runs
    int64_t timeout_ms; // of commands that bring none; 0: none
    int64_t created_ms, used_ms;
};
int db_session_put(struct db *db, const struct session_row *row,
                   struct err *err); // makes or replaces
int db_session_get(struct db *db, int64_t sandbox, const char *id, struct session_row *ret,
                   struct err *err);
typedef int (*db_session_fn)(void *data, const struct session_row *row);
int db_session_each(struct db *db, int64_t sandbox, db_session_fn fn, void *data, struct err *err);
int db_session_del(struct db *db, int64_t sandbox, const char *id, struct err *err); // 1, 0
void session_row_done(struct session_row *row);

// --- contexts

struct context_row {
    int64_t sandbox;
    char *id;
    char *language;
    char *cwd, *env; // as it was made; env is a JSON object
    int64_t timeout_ms;
    int64_t is_default;
    int64_t box, exec; // of its kernel; 0: none runs
    char *end;         // why none does: "sleep", "oom", ...; "" while one runs
    int64_t numbers;   // of its cells: all up to this one may have been used
    int64_t cell,
        deadline_ms; // one that has run for a while: its number, and when its time is over
    int64_t created_ms, used_ms;
};
int db_context_put(struct db *db, const struct context_row *row,
                   struct err *err); // makes or replaces
typedef int (*db_context_fn)(void *data, const struct context_row *row);
int db_context_each(struct db *db, int64_t sandbox, db_context_fn fn, void *data, struct err *err);
int db_context_del(struct db *db, int64_t sandbox, const char *id, struct err *err); // 1, 0
void context_row_done(struct context_row *row);

// --- what was asked of a model, and what came of it

enum result_state { // as stored: never renumber
    RESULT_RUNNING = 1,
    RESULT_DONE = 2, // it has an answer, good or bad
    RESULT_LOST = 3, // it ran when a daemon died
};

struct result_row {
    int64_t tenant;
    char *id;   // of the request: unique on the machine
    char *kind; // "question", "sdk", "task"
    enum result_state state;
    int64_t run;                               // of the daemon that works on it
    char *title;                               // the question or prompt, or its beginning
    char *sandbox;                             // id; NULL: none was needed
    char *model;                               // may be NULL
    bool success;                              // what follows: of one that is done
    int64_t status;                            // of HTTP
    char *error;                               // its error_code; NULL: none
    int64_t cost, input_tokens, output_tokens; // nano-dollars; tokens
    int64_t generation_ms, sandbox_ms, total_ms;
    int64_t created_ms, ended_ms;
    char *body; // the answer as it was sent, JSON; not read by db_result_each
    size_t body_len;
    char *asked, *work; // read by db_result_left alone
};
int db_result_add(struct db *db, const struct result_row *row, struct err *err); // ERR_CONFLICT: id
int db_result_end(struct db *db, const struct result_row *row,
                  struct err *err); // all but tenant, id, kind, title, created; not synced
int db_result_get(struct db *db, int64_t tenant, const char *id, struct result_row *ret,
                  struct err *err); // 1, 0
// Without its body, however long that is; body_len says it.
int db_result_head(struct db *db, int64_t tenant, const char *id, struct result_row *ret,
                   struct err *err);                                               // 1, 0
int db_result_del(struct db *db, int64_t tenant, const char *id, struct err *err); // synced; 1, 0
// What has to be known to go on with one when its daemon is gone: what was asked, once, and how far
// it has come, as often as that changes. Both go when it ends. Not synced.
int db_result_asked(struct db *db, int64_t tenant, const char *id, const char *asked,
                    struct err *err);
int db_result_work(struct db *db, int64_t tenant, const char *id, const char *work,
                   struct err *err);
// One that another daemon than this has left with its `asked`; from now on it is this one's. 1, 0.
int db_result_left(struct db *db, int64_t run, struct result_row *ret, struct err *err);
// All others that run, of other daemons than this, are lost. How many in ret (may be NULL).
int db_result_lose(struct db *db, int64_t run, int64_t *ret, struct err *err);
struct result_query {
    int64_t tenant;     // 0: all
    const char *kind;   // NULL: all
    const char *before; // older than the one with this id; NULL: from the newest
    unsigned max;       // 0: all
};
typedef int (*db_result_fn)(void *data, const struct result_row *row); // not 0: stop
int db_result_each(struct db *db, const struct result_query *query, db_result_fn fn, void *data,
                   struct err *err); // newest first
// Answers that are not in the store yet, oldest first, with their bodies; and that one is now.
int db_result_unstored(struct db *db, int64_t after_seq, struct result_row *ret, int64_t *ret_seq,
                       struct err *err); // 1, 0
int db_result_stored(struct db *db, int64_t seq,
                     struct err *err); // ERR_NOT_FOUND: it went meanwhile
// Of one tenant: so many, and so many bytes of answers; _add and _end remove the oldest beyond.
void db_result_limit(struct db *db, int64_t kept, int64_t bytes);
// What that is unless it was said, and the most of one answer: ERR_INVALID above.
enum {
    DB_RESULTS_KEPT = 10000,
    DB_RESULTS_BYTES = 1 << 30,
    DB_RESULT_MAX = 9 * 1024 * 1024,
};
// Some of those that ended before: called again and again it comes to the end of them.
int db_result_expire(struct db *db, int64_t before_ms, struct err *err);
void result_row_done(struct result_row *row);

// --- what was spent on models

struct spend_row {
    int64_t tenant;
    int64_t sandbox_number; // whose counters (struct sandbox_row) it is added to; 0: none
    char *sandbox;          // id, which outlives it; NULL: none
    char *request;          // the id of the result it belongs to, or of the call; NULL: none
    char *source;           // "execute", "sdk", "box"
    char *model;
    int64_t input, output, cache_write, cache_write_1h, cache_read, searches, fetches;
    int64_t cost; // nano-dollars
    int64_t time_ms;
};
int db_spend_add(struct db *db, const struct spend_row *row, struct err *err);
// Sums by sandbox, by request, and of one sandbox know the newest DB_SPEND_KEPT calls of a tenant;
// all others know every call, and take since_ms and until_ms as whole hours: those they lie in.
enum { DB_SPEND_KEPT = 20000 };
enum spend_by {
    SPEND_BY_NONE,
    SPEND_BY_TENANT,
    SPEND_BY_SANDBOX,
    SPEND_BY_REQUEST,
    SPEND_BY_MODEL,
    SPEND_BY_SOURCE,
    SPEND_BY_DAY
};
struct spend_query {
    int64_t tenant; // 0: all
    enum spend_by by;
    int64_t since_ms, until_ms; // 0: no bound
    const char *sandbox;        // NULL: all
    bool by_calls;              // from the calls, also where the hours would tell
    unsigned max;               // 0: 1000, as many as there are at most
};
struct spend_sum {
    const char *key; // a name, an id, "2026-11-16"; "" of SPEND_BY_NONE, and where there is none
    int64_t requests;
    int64_t input, output, cache_write, cache_write_1h, cache_read, searches, fetches, cost;
    int64_t first_ms, last_ms;
};
typedef int (*db_spend_fn)(void *data, const struct spend_sum *sum); // not 0: stop
int db_spend_each(struct db *db, const struct spend_query *query, db_spend_fn fn, void *data,
                  struct err *err); // dearest first; days in order
int db_spend_expire(struct db *db, int64_t before_ms, struct err *err); // some, as above

// --- code that was generated before and has worked

enum { DB_CODE_KEY = 32, DB_CODES_KEPT = 10000 };
// The key is a hash of everything the code follows from, the tenant too. free(3) what is returned.
int db_code_get(struct db *db, const uint8_t key[DB_CODE_KEY], char **ret, struct err *err); // 1, 0
int db_code_put(struct db *db, const uint8_t key[DB_CODE_KEY], int64_t tenant, const char *code,
                struct err *err);
int db_code_expire(struct db *db, int64_t before_ms, struct err *err); // and above DB_CODES_KEPT

// --- events

struct event_row {
    int64_t seq; // over all sandboxes, ascending
    int64_t sandbox;
    int64_t time_ms;
    char *type; // "created", "woke", "slept", "exec_end", ...
    char *data; // a JSON object
};
enum { DB_EVENTS_KEPT = 1000 }; // of one sandbox; older ones go
int db_event_add(struct db *db, struct event_row *row, struct err *err); // sets seq
typedef int (*db_event_fn)(void *data, const struct event_row *row);
int db_event_each(struct db *db, int64_t sandbox, int64_t after, unsigned max, db_event_fn fn,
                  void *data, struct err *err);

// --- idempotency keys

enum idem_state {
    IDEM_NEW,     // the key is ours now: do it, then db_idem_done
    IDEM_RUNNING, // the first request with it is not answered yet, in this run of the daemon
    IDEM_UNKNOWN, // it was running when a daemon died
    IDEM_DONE,    // here is its answer
    IDEM_OTHER,   // the key was used with another request
};
struct idem_row {
    int64_t tenant;
    const char *key;
    uint8_t request[32]; // hash of method, target and body
    int64_t run;         // of the daemon that takes it
    unsigned status;     // with IDEM_DONE, as the body
    char *body;          // what db_idem_take gives is the caller's to free
    size_t body_len;
};
int db_idem_take(struct db *db, struct idem_row *row, enum idem_state *ret, struct err *err);
int db_idem_done(struct db *db, const struct idem_row *row, struct err *err);
int db_idem_drop(struct db *db, const struct idem_row *row,
                 struct err *err); // refused before it began
int db_idem_expire(struct db *db, int64_t before_ms, struct err *err);

void sandbox_row_done(struct sandbox_row *row);
int64_t db_now_ms(void); // the clock on the wall
