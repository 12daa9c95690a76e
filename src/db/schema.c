// SPDX-License-Identifier: Apache-2.0
// The tables, as a list of steps. A database remembers in user_version how many it has taken; steps
// are added at the end and never changed. Each runs in one transaction with its number.
#include <stdio.h>

#include "db/schema-internal.h"

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
