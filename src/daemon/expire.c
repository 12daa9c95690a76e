// SPDX-License-Identifier: Apache-2.0
#include "daemon/expire.h"

#include "base/clock.h"
#include "base/log.h"

#define DAY_MS        (INT64_C(24) * 3600 * 1000)
#define SPEND_KEPT_MS (400 * DAY_MS)
#define CODE_KEPT_MS  (7 * DAY_MS)
#define EVERY_NS      (60 * NS_PER_S)

static void expire(const char *what, int (*fn)(struct db *, int64_t, struct err *), struct db *db,
                   int64_t kept_ms)
{
    struct err err = {0};
    if (fn(db, db_now_ms() - kept_ms, &err) < 0)
        log_line(LOG_WARN, "cannot expire rows, ignoring", "what", what, "error", err.msg, NULL);
}

void expire_rows(struct db *db, int64_t keep_results_ms)
{
    static int64_t last_ns;
    int64_t now = clock_ns();
    if (last_ns != 0 && now - last_ns < EVERY_NS)
        return;
    last_ns = now;
    expire("results", db_result_expire, db, keep_results_ms);
    expire("spend", db_spend_expire, db, SPEND_KEPT_MS);
    expire("code", db_code_expire, db, CODE_KEPT_MS);
    expire("urls", db_url_expire, db, 0);
}
