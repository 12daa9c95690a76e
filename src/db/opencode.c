// SPDX-License-Identifier: Apache-2.0
// What OpenCode is configured with in a sandbox, and the process that has it.
#include "db/db-internal.h"

int db_opencode_put(struct db *db, int64_t sandbox, const char *config, struct err *err)
{
    auto_call call = {0};
    if (call_start(&call, db, STMT_OPENCODE_PUT,
                   "INSERT INTO opencode (sandbox, config, log) VALUES (?, ?, 0)"
                   " ON CONFLICT (sandbox) DO UPDATE SET config = excluded.config, log = 0",
                   err) < 0)
        return -1;
    put_int(&call, sandbox);
    put_text(&call, config);
    if (call_run(&call, err) < 0)
        return call_is_orphan(&call) ? err_set(err, ERR_NOT_FOUND, "the sandbox is gone") : -1;
    return 0;
}

int db_opencode_get(struct db *db, int64_t sandbox, char **ret_config, int64_t *ret_log,
                    struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_OPENCODE_GET,
                   "SELECT config, log FROM opencode WHERE sandbox = ?", err) < 0)
        return -1;
    put_int(&call, sandbox);
    int r = call_step(&call, err);
    if (r <= 0)
        return r;
    char *config = get_text(&call);
    int64_t log = get_int(&call);
    if (call_check(&call, err) < 0)
        return -1;
    *ret_config = config;
    *ret_log = log;
    return 1;
}

int db_opencode_started(struct db *db, int64_t sandbox, const char *config, int64_t log,
                        struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_OPENCODE_STARTED,
                   "UPDATE opencode SET log = ? WHERE sandbox = ? AND config = ?", err) < 0)
        return -1;
    put_int(&call, log);
    put_int(&call, sandbox);
    put_text(&call, config);
    return call_run(&call, err);
}
