// SPDX-License-Identifier: Apache-2.0
// What of workspaces is in the store, as rows; and which results are.
#include "db_kit.h"

static struct sync_row row_of(int64_t tenant, char *sandbox)
{
    return (struct sync_row){.tenant = tenant, .sandbox = sandbox, .state = SYNC_DONE, .run = 7};
}

CHECK_CASE(one)
{
    struct sync_row row = row_of(1, (char[]){"it's"}), got = {0};
    row.options = (char[]){"{\"gitignore\":true}"};
    row.files = 1, row.bytes = 2, row.put = 3, row.put_bytes = 4, row.deleted = 5;
    row.tries = 6, row.again_ms = 7, row.started_ms = 8, row.ended_ms = 9, row.synced_ms = 10;
    MUST(db_sync_put(kit_db, &row, &err));
    MUST_BE(db_sync_get(kit_db, 1, "it's", &got, &err), 1);
    assert_string_equal(got.options, row.options);
    assert_null(got.error);
    assert_true(got.files == 1 && got.bytes == 2 && got.put == 3 && got.put_bytes == 4);
    assert_true(got.deleted == 5 && got.tries == 6 && got.again_ms == 7 && got.started_ms == 8);
    assert_true(got.ended_ms == 9 && got.synced_ms == 10 && got.state == SYNC_DONE && got.run == 7);
    sync_row_done(&got);
    row.error = (char[]){"why"};
    row.options = NULL;
    MUST(db_sync_put(kit_db, &row, &err));
    MUST_BE(db_sync_get(kit_db, 1, "it's", &got, &err), 1);
    assert_string_equal(got.error, "why");
    assert_string_equal(got.options, "{}");
    sync_row_done(&got);
    MUST_BE(db_sync_get(kit_db, kit_tenant("red"), "it's", &got, &err), 0);
    row.tenant = 77;
    MUST_FAIL(db_sync_put(kit_db, &row, &err), ERR_NOT_FOUND);
    MUST_BE(db_sync_del(kit_db, 1, "it's", &err), 1);
    MUST_BE(db_sync_del(kit_db, 1, "it's", &err), 0);
}

static int note(void *data, const struct sync_row *row)
{
    char *list = data;
    size_t len = strlen(list);
    (void)snprintf(list + len, 256 - len, "%lld:%s ", (long long)row->tenant, row->sandbox);
    return 0;
}

static const char *each(struct sync_query query)
{
    static char list[256];
    list[0] = '\0';
    MUST(db_sync_each(kit_db, &query, note, list, &err));
    return list;
}

CHECK_CASE(many)
{
    int64_t red = kit_tenant("red");
    assert_int_equal(red, 2);
    struct sync_row a = row_of(1, (char[]){"a"}), b = row_of(1, (char[]){"b"}),
                    c = row_of(red, (char[]){"a"});
    a.state = SYNC_RUNNING;
    b.state = SYNC_FAILED, b.again_ms = 500;
    c.state = SYNC_RESTORING, c.again_ms = 900;
    MUST(db_sync_put(kit_db, &c, &err));
    MUST(db_sync_put(kit_db, &b, &err));
    MUST(db_sync_put(kit_db, &a, &err));
    assert_string_equal(each((struct sync_query){0}), "1:a 1:b 2:a ");
    assert_string_equal(each((struct sync_query){.tenant = 1}), "1:a 1:b ");
    assert_string_equal(each((struct sync_query){.tenant = red}), "2:a ");
    assert_string_equal(each((struct sync_query){.max = 1}), "1:a ");
    assert_string_equal(each((struct sync_query){.again_ms = 499}), "");
    assert_string_equal(each((struct sync_query){.again_ms = 500}), "1:b ");
    assert_string_equal(each((struct sync_query){.again_ms = 1000}), "1:b 2:a ");
    assert_string_equal(each((struct sync_query){.again_ms = 1000, .tenant = red}), "2:a ");
    assert_string_equal(each((struct sync_query){.not_run = 7}), "");
    assert_string_equal(each((struct sync_query){.not_run = 8}), "1:a 2:a ");
}

// -- results

static void add_result(const char *id, enum result_state state, const char *body)
{
    char copy[64], text[64], kind[] = "question";
    (void)snprintf(copy, sizeof copy, "%s", id);
    (void)snprintf(text, sizeof text, "%s", body);
    struct result_row row = {.tenant = 1, .id = copy, .kind = kind, .state = state, .run = 1};
    row.body = state == RESULT_DONE ? text : NULL;
    row.body_len = strlen(text);
    MUST(db_result_add(kit_db, &row, &err));
}

CHECK_CASE(results_to_store)
{
    struct result_row got = {0};
    int64_t seq = 0;
    MUST_BE(db_result_unstored(kit_db, 0, &got, &seq, &err), 0);
    add_result("r1", RESULT_RUNNING, "");
    add_result("r2", RESULT_DONE, "{\"a\":1}");
    add_result("r3", RESULT_DONE, "{}");
    MUST_BE(db_result_unstored(kit_db, 0, &got, &seq, &err), 1);
    assert_string_equal(got.id, "r2");
    assert_string_equal(got.body, "{\"a\":1}");
    assert_int_equal(got.body_len, 7);
    result_row_done(&got);
    int64_t first = seq;
    MUST_BE(db_result_unstored(kit_db, first, &got, &seq, &err), 1);
    assert_string_equal(got.id, "r3");
    result_row_done(&got);
    MUST(db_result_stored(kit_db, first, &err));
    MUST_BE(db_result_unstored(kit_db, seq, &got, &seq, &err), 0);
    MUST_FAIL(db_result_stored(kit_db, 999, &err), ERR_NOT_FOUND);
}

CHECK_CASE(what_is_removed_is_doomed)
{
    struct result_row got = {0};
    struct doomed_row doomed = {0};
    int64_t seq = 0;
    add_result("r1", RESULT_DONE, "{}");
    add_result("r2", RESULT_DONE, "{}");
    MUST_BE(db_result_unstored(kit_db, 0, &got, &seq, &err), 1);
    result_row_done(&got);
    MUST(db_result_stored(kit_db, seq, &err));
    MUST_BE(db_result_del(kit_db, 1, "r2", &err), 1); // was not in the store
    MUST_BE(db_doomed_next(kit_db, 0, &doomed, &err), 0);
    MUST_BE(db_result_del(kit_db, 1, "r1", &err), 1);
    MUST_BE(db_doomed_next(kit_db, 0, &doomed, &err), 1);
    assert_string_equal(doomed.key, "admin/results/r1/");
    doomed_row_done(&doomed);
}

CHECK_CASE(limits_of_results)
{
    struct result_row got = {0};
    db_result_limit(kit_db, 2, 1 << 20);
    for (int i = 0; i < 4; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "r%d", i);
        add_result(id, RESULT_DONE, "{}");
    }
    MUST_BE(db_result_head(kit_db, 1, "r1", &got, &err), 0);
    MUST_BE(db_result_head(kit_db, 1, "r2", &got, &err), 1);
    result_row_done(&got);
    db_result_limit(kit_db, 100, 49);
    add_result("big", RESULT_DONE, "0123456789012345678901234567890123456789012345");
    MUST_BE(db_result_head(kit_db, 1, "r2", &got, &err), 0);
    MUST_BE(db_result_head(kit_db, 1, "big", &got, &err), 1);
    result_row_done(&got);
}

CHECK_MAIN(KIT_CASE(one), KIT_CASE(many), KIT_CASE(results_to_store),
           KIT_CASE(what_is_removed_is_doomed), KIT_CASE(limits_of_results))
