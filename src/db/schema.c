// SPDX-License-Identifier: Apache-2.0
// The tables, as a list of steps. A database remembers in user_version how many it has taken; steps
// are added at the end and never changed. Each runs in one transaction with its number.
#include <stdio.h>

#include "db/schema-internal.h"

// A sum of spend_hours: with what is new, and never beyond its bound.
#define ADDED(column) " " column " = min(" column " + excluded." column ", 4000000000000000000),"
#define ALL_ADDED                                                                                  \
    ADDED("input")                                                                                 \
    ADDED("output")                                                                                \
    ADDED("cache_write")                                                                           \
    ADDED("cache_write_1h") ADDED("cache_read") ADDED("searches") ADDED("fetches") ADDED("cost")

enum { APPLICATION_ID = 0x43617931 }; // "Cay1", which file(1) can tell

static const char *const steps[] = {
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE tenants ("
    " number INTEGER PRIMARY KEY AUTOINCREMENT,"
    " name TEXT NOT NULL UNIQUE,"
    " sandboxes INTEGER NOT NULL, running INTEGER NOT NULL,"
    " memory INTEGER NOT NULL, disk INTEGER NOT NULL,"
    " created_ms INTEGER NOT NULL"
    ") STRICT;"
    "INSERT INTO tenants VALUES (1, 'admin', -1, -1, -1, -1, unixepoch() * 1000);"
    "CREATE TABLE tokens ("
    " id TEXT PRIMARY KEY,"
    " hash BLOB NOT NULL UNIQUE,"
    " tenant INTEGER NOT NULL REFERENCES tenants (number),"
    " admin INTEGER NOT NULL,"
    " name TEXT NOT NULL,"
    " rate INTEGER NOT NULL,"
    " created_ms INTEGER NOT NULL"
    ") STRICT;"
    "CREATE TABLE sandboxes ("
    " number INTEGER PRIMARY KEY AUTOINCREMENT,"
    " tenant INTEGER NOT NULL REFERENCES tenants (number),"
    " id TEXT NOT NULL,"
    " slug TEXT NOT NULL UNIQUE,"
    " status INTEGER NOT NULL,"
    " image TEXT NOT NULL,"
    " memory INTEGER NOT NULL, disk INTEGER NOT NULL,"
    " pids INTEGER NOT NULL, cpu_milli INTEGER NOT NULL,"
    " sleep_after_ms INTEGER NOT NULL,"
    " keep_alive INTEGER NOT NULL, ephemeral INTEGER NOT NULL,"
    " env TEXT NOT NULL, labels TEXT NOT NULL, user_id TEXT,"
    " box INTEGER NOT NULL, run INTEGER NOT NULL, boxes INTEGER NOT NULL,"
    " created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL, active_ms INTEGER NOT NULL,"
    " UNIQUE (tenant, id)"
    ") STRICT;"
    // Counted as it changes: every create asks for it, and adding up thousands of rows takes longer
    // than all the rest of a create.
    "CREATE TABLE usage ("
    " tenant INTEGER PRIMARY KEY, sandboxes INTEGER NOT NULL, disk INTEGER NOT NULL"
    ") STRICT;"
    "CREATE TRIGGER usage_add AFTER INSERT ON sandboxes BEGIN"
    " INSERT INTO usage VALUES (new.tenant, 1, new.disk) ON CONFLICT (tenant) DO UPDATE"
    "  SET sandboxes = sandboxes + 1, disk = disk + new.disk;"
    " END;"
    "CREATE TRIGGER usage_del AFTER DELETE ON sandboxes BEGIN"
    " UPDATE usage SET sandboxes = sandboxes - 1, disk = disk - old.disk"
    "  WHERE tenant = old.tenant;"
    " END;"
    "CREATE TRIGGER usage_change AFTER UPDATE OF disk ON sandboxes"
    " WHEN new.disk <> old.disk BEGIN"
    " UPDATE usage SET disk = disk - old.disk + new.disk WHERE tenant = new.tenant;"
    " END;"
    "CREATE TABLE processes ("
    " log INTEGER PRIMARY KEY AUTOINCREMENT,"
    " sandbox INTEGER NOT NULL REFERENCES sandboxes (number) ON DELETE CASCADE,"
    " id TEXT NOT NULL,"
    " command TEXT NOT NULL, cwd TEXT,"
    " box INTEGER NOT NULL, exec INTEGER NOT NULL, pid INTEGER NOT NULL,"
    " keep_awake INTEGER NOT NULL, deadline_ms INTEGER NOT NULL,"
    " reason INTEGER NOT NULL, exit_code INTEGER NOT NULL, signal INTEGER NOT NULL,"
    " limits INTEGER NOT NULL, cpu_usec INTEGER NOT NULL, memory_peak INTEGER NOT NULL,"
    " started_ms INTEGER NOT NULL, ended_ms INTEGER NOT NULL,"
    " UNIQUE (sandbox, id)"
    ") STRICT;"
    "CREATE TABLE sessions ("
    " sandbox INTEGER NOT NULL REFERENCES sandboxes (number) ON DELETE CASCADE,"
    " id TEXT NOT NULL,"
    " cwd TEXT, env TEXT NOT NULL,"
    " box INTEGER NOT NULL, exec INTEGER NOT NULL,"
    " created_ms INTEGER NOT NULL, used_ms INTEGER NOT NULL,"
    " PRIMARY KEY (sandbox, id)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TABLE events ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    " sandbox INTEGER NOT NULL REFERENCES sandboxes (number) ON DELETE CASCADE,"
    " time_ms INTEGER NOT NULL,"
    " type TEXT NOT NULL, data TEXT NOT NULL"
    ") STRICT;"
    "CREATE INDEX events_of ON events (sandbox);" // and seq, as every index ends with it
    "CREATE TABLE idem ("
    " tenant INTEGER NOT NULL,"
    " key TEXT NOT NULL,"
    " request BLOB NOT NULL,"
    " run INTEGER NOT NULL,"
    " status INTEGER, body BLOB," // NULL: not answered yet
    " taken_ms INTEGER NOT NULL,"
    " PRIMARY KEY (tenant, key)"
    ") STRICT;"
    "CREATE INDEX idem_age ON idem (taken_ms);",

    "ALTER TABLE sandboxes ADD COLUMN network TEXT;"
    "ALTER TABLE sandboxes ADD COLUMN secrets TEXT;"
    "CREATE TABLE secrets ("
    " tenant INTEGER NOT NULL REFERENCES tenants (number),"
    " name TEXT NOT NULL,"
    " upstream TEXT NOT NULL, header TEXT NOT NULL, format TEXT NOT NULL,"
    " sealed BLOB NOT NULL," // the value, encrypted (egress/secret.c)
    " created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL,"
    " PRIMARY KEY (tenant, name)"
    ") STRICT, WITHOUT ROWID;",

    "ALTER TABLE processes ADD COLUMN tty TEXT;",

    "CREATE TABLE ports ("
    " sandbox INTEGER NOT NULL REFERENCES sandboxes (number) ON DELETE CASCADE,"
    " port INTEGER NOT NULL,"
    " name TEXT, token TEXT NOT NULL,"
    " created_ms INTEGER NOT NULL,"
    " PRIMARY KEY (sandbox, port)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX sandboxes_by_id ON sandboxes (id);", // of any tenant: previews by path

    "ALTER TABLE sandboxes ADD COLUMN languages TEXT;"
    "ALTER TABLE sandboxes ADD COLUMN shared_zygote INTEGER NOT NULL DEFAULT 1;",

    "CREATE TABLE contexts ("
    " sandbox INTEGER NOT NULL REFERENCES sandboxes (number) ON DELETE CASCADE,"
    " id TEXT NOT NULL,"
    " language TEXT NOT NULL, cwd TEXT NOT NULL, env TEXT NOT NULL,"
    " timeout_ms INTEGER NOT NULL, is_default INTEGER NOT NULL,"
    " box INTEGER NOT NULL, exec INTEGER NOT NULL, ended TEXT NOT NULL,"
    " numbers INTEGER NOT NULL, cell INTEGER NOT NULL, deadline_ms INTEGER NOT NULL,"
    " created_ms INTEGER NOT NULL, used_ms INTEGER NOT NULL,"
    " PRIMARY KEY (sandbox, id)"
    ") STRICT, WITHOUT ROWID;",

    // Columns first that are known when a question is asked; the answer, which may be large, last:
    // listing does not read it.
    "CREATE TABLE results ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    " tenant INTEGER NOT NULL REFERENCES tenants (number),"
    " id TEXT NOT NULL UNIQUE,"
    " kind TEXT NOT NULL,"
    " state INTEGER NOT NULL, run INTEGER NOT NULL,"
    " title TEXT NOT NULL, sandbox TEXT, model TEXT,"
    " success INTEGER NOT NULL, status INTEGER NOT NULL, error TEXT,"
    " cost INTEGER NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,"
    " generation_ms INTEGER NOT NULL, sandbox_ms INTEGER NOT NULL, total_ms INTEGER NOT NULL,"
    " created_ms INTEGER NOT NULL, ended_ms INTEGER NOT NULL,"
    " size INTEGER NOT NULL, body BLOB"
    ") STRICT;"
    "CREATE INDEX results_of ON results (tenant);" // and seq
    "CREATE INDEX results_running ON results (run) WHERE state = 1;"
    "CREATE INDEX results_age ON results (ended_ms) WHERE state <> 1;"
    // What a tenant has of them, counted as it changes.
    "CREATE TABLE held ("
    " tenant INTEGER PRIMARY KEY, results INTEGER NOT NULL, bytes INTEGER NOT NULL"
    ") STRICT;"
    "CREATE TRIGGER held_add AFTER INSERT ON results BEGIN"
    " INSERT INTO held VALUES (new.tenant, 1, new.size) ON CONFLICT (tenant) DO UPDATE"
    "  SET results = results + 1, bytes = bytes + new.size;"
    " END;"
    "CREATE TRIGGER held_del AFTER DELETE ON results BEGIN"
    " UPDATE held SET results = results - 1, bytes = bytes - old.size WHERE tenant = old.tenant;"
    " END;"
    "CREATE TRIGGER held_change AFTER UPDATE OF size ON results BEGIN"
    " UPDATE held SET bytes = bytes - old.size + new.size WHERE tenant = new.tenant;"
    " END;"

    "ALTER TABLE sandboxes ADD COLUMN destroy_after_ms INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sandboxes ADD COLUMN budget_cost INTEGER NOT NULL DEFAULT -1;"
    "ALTER TABLE sandboxes ADD COLUMN budget_tokens INTEGER NOT NULL DEFAULT -1;"
    "ALTER TABLE sandboxes ADD COLUMN spent_cost INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sandboxes ADD COLUMN spent_tokens INTEGER NOT NULL DEFAULT 0;"
    "CREATE INDEX sandboxes_due ON sandboxes (active_ms + destroy_after_ms)"
    " WHERE destroy_after_ms > 0;"

    // Each call to a model, the newest of each tenant; and the sums of all of them by the hour,
    // which stay small whatever is asked. Sums stop growing long before they could overflow.
    "CREATE TABLE spend ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    " tenant INTEGER NOT NULL,"
    " time_ms INTEGER NOT NULL,"
    " sandbox_number INTEGER NOT NULL, sandbox TEXT NOT NULL, request TEXT NOT NULL,"
    " source TEXT NOT NULL, model TEXT NOT NULL,"
    " input INTEGER NOT NULL, output INTEGER NOT NULL,"
    " cache_write INTEGER NOT NULL, cache_write_1h INTEGER NOT NULL,"
    " cache_read INTEGER NOT NULL,"
    " searches INTEGER NOT NULL, fetches INTEGER NOT NULL,"
    " cost INTEGER NOT NULL"
    ") STRICT;"
    "CREATE INDEX spend_of ON spend (tenant, time_ms);"
    "CREATE INDEX spend_age ON spend (time_ms);"
    "CREATE TABLE spend_hours ("
    " tenant INTEGER NOT NULL, hour INTEGER NOT NULL,"
    " source TEXT NOT NULL, model TEXT NOT NULL,"
    " requests INTEGER NOT NULL,"
    " input INTEGER NOT NULL, output INTEGER NOT NULL,"
    " cache_write INTEGER NOT NULL, cache_write_1h INTEGER NOT NULL,"
    " cache_read INTEGER NOT NULL,"
    " searches INTEGER NOT NULL, fetches INTEGER NOT NULL,"
    " cost INTEGER NOT NULL,"
    " first_ms INTEGER NOT NULL, last_ms INTEGER NOT NULL,"
    " PRIMARY KEY (tenant, hour, source, model)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX spend_hours_age ON spend_hours (hour);"
    // Who can make up names of models has so many of them an hour; the others are one.
    "CREATE TRIGGER spend_sum AFTER INSERT ON spend BEGIN"
    " INSERT INTO spend_hours SELECT new.tenant, new.time_ms / 3600000, new.source,"
    "  iif(EXISTS (SELECT 1 FROM spend_hours WHERE tenant = new.tenant"
    "       AND hour = new.time_ms / 3600000 AND source = new.source AND model = new.model)"
    "      OR (SELECT count(*) FROM spend_hours"
    "       WHERE tenant = new.tenant AND hour = new.time_ms / 3600000) < 100,"
    "      new.model, 'other'),"
    "  1, new.input, new.output, new.cache_write, new.cache_write_1h, new.cache_read,"
    "  new.searches, new.fetches, new.cost, new.time_ms, new.time_ms WHERE true"
    " ON CONFLICT DO UPDATE SET"
    "  requests = requests + 1," ALL_ADDED
    "  first_ms = min(first_ms, excluded.first_ms), last_ms = max(last_ms, excluded.last_ms);"
    " UPDATE sandboxes SET"
    "  spent_cost = min(spent_cost + new.cost, 4000000000000000000),"
    "  spent_tokens = min(spent_tokens + new.input + new.output + new.cache_write"
    "   + new.cache_write_1h + new.cache_read, 4000000000000000000)"
    "  WHERE number = new.sandbox_number AND tenant = new.tenant;"
    " END;"

    "CREATE TABLE codes ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    " key BLOB NOT NULL UNIQUE,"
    " tenant INTEGER NOT NULL,"
    " code TEXT NOT NULL,"
    " made_ms INTEGER NOT NULL"
    ") STRICT;"
    "CREATE INDEX codes_age ON codes (made_ms);",

    // Of those that a next daemon goes on with, while they run.
    "ALTER TABLE results ADD COLUMN asked TEXT;"
    "ALTER TABLE results ADD COLUMN work TEXT;",

    "CREATE TABLE opencode ("
    " sandbox INTEGER PRIMARY KEY REFERENCES sandboxes (number) ON DELETE CASCADE,"
    " config TEXT NOT NULL,"
    " log INTEGER NOT NULL" // of the process that was started with it
    ") STRICT;"
    // Secrets of one sandbox alone have names like '@42/anthropic'; '0' is what follows '/'.
    "CREATE TRIGGER secrets_of_sandbox AFTER DELETE ON sandboxes BEGIN"
    " DELETE FROM secrets WHERE tenant = old.tenant"
    "  AND name >= '@' || old.number || '/' AND name < '@' || old.number || '0';"
    " END;",

    "ALTER TABLE sandboxes ADD COLUMN sync INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sandboxes ADD COLUMN durable INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sandboxes ADD COLUMN archive_after_ms INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sandboxes ADD COLUMN shared INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sandboxes ADD COLUMN archive TEXT;" // the id of a backup
    "ALTER TABLE sandboxes ADD COLUMN slept_ms INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sandboxes ADD COLUMN disks INTEGER NOT NULL DEFAULT 0;"
    "UPDATE sandboxes SET disks = boxes > 0 AND NOT ephemeral, slept_ms = active_ms;"
    "CREATE INDEX sandboxes_idle ON sandboxes (slept_ms + archive_after_ms)"
    " WHERE archive_after_ms > 0 AND status = 1 AND archive IS NULL;"
    "CREATE TABLE snapshots ("
    " number INTEGER PRIMARY KEY AUTOINCREMENT," // the disk's, too
    " sandbox INTEGER NOT NULL REFERENCES sandboxes (number) ON DELETE CASCADE,"
    " id TEXT NOT NULL, name TEXT,"
    " state INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL, disk INTEGER NOT NULL, own INTEGER NOT NULL, env TEXT NOT NULL, sessions TEXT NOT NULL,"
    " created_ms INTEGER NOT NULL,"
    " UNIQUE (id)"
    ") STRICT;"
    "CREATE INDEX snapshots_of ON snapshots (sandbox);"
    // Outlive the sandbox that they are of: its id is a text here.
    "CREATE TABLE backups ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    " tenant INTEGER NOT NULL REFERENCES tenants (number),"
    " id TEXT NOT NULL UNIQUE,"
    " sandbox TEXT NOT NULL, kind TEXT NOT NULL, name TEXT, dir TEXT, image TEXT NOT NULL,"
    " state INTEGER NOT NULL, run INTEGER NOT NULL,"
    " size INTEGER NOT NULL, raw INTEGER NOT NULL, entries INTEGER NOT NULL, sha256 BLOB,"
    " created_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL"
    ") STRICT;"
    "CREATE INDEX backups_of ON backups (tenant, sandbox);"
    "CREATE INDEX backups_all ON backups (tenant);" // and seq
    "CREATE INDEX backups_age ON backups (expires_ms) WHERE expires_ms > 0;"
    "CREATE TABLE syncs ("
    " tenant INTEGER NOT NULL REFERENCES tenants (number),"
    " sandbox TEXT NOT NULL," // its id: it outlives it, too
    " state INTEGER NOT NULL, run INTEGER NOT NULL, options TEXT NOT NULL,"
    " files INTEGER NOT NULL, bytes INTEGER NOT NULL,"
    " put INTEGER NOT NULL, put_bytes INTEGER NOT NULL, deleted INTEGER NOT NULL,"
    " error TEXT, tries INTEGER NOT NULL, again_ms INTEGER NOT NULL,"
    " started_ms INTEGER NOT NULL, ended_ms INTEGER NOT NULL, synced_ms INTEGER NOT NULL,"
    " seen TEXT,"
    " PRIMARY KEY (tenant, sandbox)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX syncs_again ON syncs (again_ms) WHERE again_ms > 0;"
    // What is to go from the store: keys, or all below one that ends with '/'. Written together
    // with what made it useless, so that nothing is forgotten, whatever is down.
    "CREATE TABLE doomed ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL"
    ") STRICT;"
    "CREATE TRIGGER backups_gone AFTER DELETE ON backups BEGIN"
    " INSERT INTO doomed (key) SELECT name || '/backups/' || old.id || '/' FROM tenants"
    "  WHERE number = old.tenant;"
    " END;"
    // The only copy of a disk goes with the sandbox.
    "CREATE TRIGGER sandboxes_archived AFTER DELETE ON sandboxes WHEN old.archive IS NOT NULL BEGIN"
    " DELETE FROM backups WHERE tenant = old.tenant AND id = old.archive;"
    " END;"
    "ALTER TABLE results ADD COLUMN stored INTEGER NOT NULL DEFAULT 0;"
    "CREATE INDEX results_unstored ON results (seq) WHERE stored = 0 AND state = 2;"
    "CREATE TRIGGER results_gone AFTER DELETE ON results WHEN old.stored <> 0 BEGIN"
    " INSERT INTO doomed (key) SELECT name || '/results/' || old.id || '/' FROM tenants"
    "  WHERE number = old.tenant;"
    " END;",

    // Addresses that have their permission within. It ends with the sandbox, and with the token
    // that it was asked for with.
    "CREATE TABLE urls ("
    " id TEXT PRIMARY KEY,"
    " hash BLOB NOT NULL UNIQUE,"
    " sandbox INTEGER NOT NULL REFERENCES sandboxes (number) ON DELETE CASCADE,"
    " token TEXT," // NULL: no token was asked for
    " rate INTEGER NOT NULL,"
    " created_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL"
    ") STRICT;"
    "CREATE INDEX urls_of ON urls (sandbox);"
    "CREATE INDEX urls_by ON urls (token) WHERE token IS NOT NULL;"
    "CREATE INDEX urls_age ON urls (expires_ms) WHERE expires_ms > 0;"
    "CREATE TRIGGER urls_of_token AFTER DELETE ON tokens BEGIN"
    " DELETE FROM urls WHERE token = old.id;"
    " END;",

    "ALTER TABLE processes ADD COLUMN note TEXT;"
    "ALTER TABLE sessions ADD COLUMN timeout_ms INTEGER NOT NULL DEFAULT 0;",

    // Of which sandbox, among those that have had its id one after the other; 0: not known. Those
    // that are there are of the one that has it now, unless they are older than that.
    "ALTER TABLE backups ADD COLUMN number INTEGER NOT NULL DEFAULT 0;"
    "UPDATE backups SET number = ifnull((SELECT s.number FROM sandboxes AS s"
    " WHERE s.tenant = backups.tenant AND s.id = backups.sandbox"
    " AND s.created_ms <= backups.created_ms), 0);",
};

enum { VERSION = sizeof steps / sizeof steps[0] };

int schema_int(sqlite3 *sql, const char *query, int64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(sql, query, -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        *ret = sqlite3_column_int64(stmt, 0);
    (void)sqlite3_finalize(stmt);
    return rc == SQLITE_ROW ? 0 : db_error(sql, rc, err);
}

static int run(sqlite3 *sql, const char *text, struct err *err)
{
    int rc = sqlite3_exec(sql, text, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : db_error(sql, rc, err);
}

int schema_stamp(sqlite3 *sql, int64_t version, struct err *err)
{
    char text[96]; // numbers of our own: PRAGMA takes no bound values
    (void)snprintf(text, sizeof text, "PRAGMA application_id = %d; PRAGMA user_version = %lld",
                   APPLICATION_ID, (long long)version);
    return run(sql, text, err);
}

// Somebody else's database has tables and not our mark.
static int check_owner(sqlite3 *sql, int64_t version, struct err *err)
{
    int64_t mark, tables;
    if (schema_int(sql, "PRAGMA application_id", &mark, err) < 0 ||
        schema_int(sql, "SELECT count(*) FROM sqlite_schema", &tables, err) < 0)
        return -1;
    bool is_new = mark == 0 && version == 0 && tables == 0;
    if (mark != APPLICATION_ID && !is_new)
        return err_set(err, ERR_INVALID, "this is a database, but not one of Cay's");
    if (version > VERSION) {
        return err_set(err, ERR_UNSUPPORTED,
                       "it was written by a newer Cay (its tables are version %lld, this program "
                       "knows %d): start that one, or go back to a copy made before the upgrade",
                       (long long)version, VERSION);
    }
    return 0;
}

// All in one transaction would do, too; one each keeps what worked when a later one fails.
static int take_step(sqlite3 *sql, int64_t version, struct err *err)
{
    if (run(sql, "BEGIN IMMEDIATE", err) < 0)
        return -1;
    if (run(sql, steps[version], err) == 0 && schema_stamp(sql, version + 1, err) == 0 &&
        run(sql, "COMMIT", err) == 0)
        return 0;
    (void)sqlite3_exec(sql, "ROLLBACK", NULL, NULL, NULL);
    return err_wrap(err, "bring the tables to version %lld", (long long)version + 1);
}

int schema_migrate(sqlite3 *sql, struct err *err)
{
    int64_t version;
    if (schema_int(sql, "PRAGMA user_version", &version, err) < 0 ||
        check_owner(sql, version, err) < 0)
        return -1;
    for (; version < VERSION; version++) {
        if (take_step(sql, version, err) < 0)
            return -1;
    }
    return 0;
}
