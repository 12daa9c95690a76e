// SPDX-License-Identifier: Apache-2.0
// Contexts as rows.
#include "db_kit.h"

static int see(void *data, const struct context_row *row)
{
    char *list = data;
    size_t len = strlen(list);
    (void)snprintf(list + len, 256 - len,
                   "%s %s %s %s %lld/%lld %lld:%lld '%s' %lld %lld:%lld %lld-%lld|", row->id,
                   row->language, row->cwd, row->env, (long long)row->timeout_ms,
                   (long long)row->is_default, (long long)row->box, (long long)row->exec, row->end,
                   (long long)row->numbers, (long long)row->cell, (long long)row->deadline_ms,
                   (long long)row->created_ms, (long long)row->used_ms);
    return 0;
}

CHECK_CASE(contexts)
{
    int64_t sandbox = kit_sandbox("a"), other = kit_sandbox("b");
    char a[] = "a", b[] = "b", python[] = "python", cwd[] = "/w", env[] = "{}", none[] = "",
         slept[] = "sleep", list[256] = "";
    struct context_row row = {.sandbox = sandbox,
                              .id = b,
                              .language = python,
                              .cwd = cwd,
                              .env = env,
                              .timeout_ms = 1,
                              .is_default = 1,
                              .box = 2,
                              .exec = 3,
                              .end = none,
                              .numbers = 4,
                              .cell = 5,
                              .deadline_ms = 6,
                              .created_ms = 7,
                              .used_ms = 8};
    MUST(db_context_put(kit_db, &row, &err));
    row.id = a;
    MUST(db_context_put(kit_db, &row, &err));
    row.sandbox = other;
    MUST(db_context_put(kit_db, &row, &err));
    row.sandbox = sandbox;
    row.box = row.exec = row.cell = 0;
    row.end = slept;
    MUST(db_context_put(kit_db, &row, &err));
    kit_reopen();
    MUST(db_context_each(kit_db, sandbox, see, list, &err));
    assert_string_equal(list, "a python /w {} 1/1 0:0 'sleep' 4 0:6 7-8|"
                              "b python /w {} 1/1 2:3 '' 4 5:6 7-8|");
    MUST_BE(db_context_del(kit_db, sandbox, "a", &err), 1);
    MUST_BE(db_context_del(kit_db, sandbox, "a", &err), 0);
    // They go with their sandbox, and there are none without one.
    MUST(db_sandbox_del(kit_db, sandbox, &err));
    assert_string_equal(kit_ask("SELECT count(*) FROM contexts"), "1");
    MUST_FAIL(db_context_put(kit_db, &row, &err), ERR_NOT_FOUND);
}

CHECK_MAIN(KIT_CASE(contexts))
