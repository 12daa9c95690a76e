// SPDX-License-Identifier: Apache-2.0
// What was asked of a model, as rows; and the code that was generated for it.
#include "db_kit.h"

#define SERIES "WITH RECURSIVE series (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM series) "

#define EVIL "x'; DROP TABLE results; -- %s \" \\ \xf0\x9f\x98\x80"

static char question[] = "question", sdk[] = "sdk", title[] = EVIL;

static struct result_row running(int64_t tenant, char *id, int64_t run)
{
    return (struct result_row){.tenant = tenant,
                               .id = id,
                               .kind = question,
                               .state = RESULT_RUNNING,
                               .run = run,
                               .title = title,
                               .created_ms = 100};
}

static void add(int64_t tenant, const char *id, char *kind)
{
    char copy[64];
    (void)snprintf(copy, sizeof copy, "%s", id);
    struct result_row row = running(tenant, copy, 1);
    row.kind = kind;
    MUST(db_result_add(kit_db, &row, &err));
}

static int end(const char *id, int64_t ended_ms, size_t size, struct err *err)
{
    char copy[64];
    char *body = malloc(size + 1);
    (void)snprintf(copy, sizeof copy, "%s", id);
    memset(body, 'x', size);
    struct result_row row = running(1, copy, 1);
    row.state = RESULT_DONE;
    row.ended_ms = ended_ms;
    row.body = body;
    row.body_len = size;
    int r = db_result_end(kit_db, &row, err);
    free(body);
    return r;
}

// -- one

CHECK_CASE(as_it_was_asked)
{
    struct result_row row = running(1, (char[]){"r1"}, 7), got = {0};
    MUST(db_result_add(kit_db, &row, &err));
    MUST_FAIL(db_result_add(kit_db, &row, &err), ERR_CONFLICT);
    row.tenant = kit_tenant("red");
    MUST_FAIL(db_result_add(kit_db, &row, &err), ERR_CONFLICT); // ids are the machine's
    row.tenant = 77;
    row.id = (char[]){"r2"};
    MUST_FAIL(db_result_add(kit_db, &row, &err), ERR_NOT_FOUND);
    MUST_BE(db_result_get(kit_db, 1, "r1", &got, &err), 1);
    assert_string_equal(got.id, "r1");
    assert_string_equal(got.kind, "question");
    assert_string_equal(got.title, EVIL);
    assert_int_equal(got.state, RESULT_RUNNING);
    assert_int_equal(got.run, 7);
    assert_int_equal(got.created_ms, 100);
    assert_null(got.sandbox);
    assert_null(got.model);
    assert_null(got.error);
    assert_null(got.body);
    result_row_done(&got);
    result_row_done(&got);
}

CHECK_CASE(as_it_ended)
{
    static char body[] = "{\"a\":\0\"\xff\"}"; // whatever it is, it comes back
    struct result_row row = {.tenant = 1, .id = (char[]){"r1"}, .state = RESULT_DONE}, got = {0};
    add(1, "r1", question);
    row.run = 9;
    row.sandbox = (char[]){"sb-1"};
    row.model = (char[]){"claude"};
    row.success = true;
    row.status = 200;
    row.error = (char[]){"CODE_FAILED"};
    row.cost = INT64_MAX;
    row.input_tokens = 1;
    row.output_tokens = 2;
    row.generation_ms = 3;
    row.sandbox_ms = 4;
    row.total_ms = 5;
    row.ended_ms = 6;
    row.body = body;
    row.body_len = sizeof body;
    MUST(db_result_end(kit_db, &row, &err));
    kit_reopen();
    MUST_BE(db_result_get(kit_db, 1, "r1", &got, &err), 1);
    assert_string_equal(got.title, EVIL);
    assert_string_equal(got.kind, "question");
    assert_int_equal(got.created_ms, 100);
    assert_int_equal(got.state, RESULT_DONE);
    assert_int_equal(got.run, 9);
    assert_string_equal(got.sandbox, "sb-1");
    assert_string_equal(got.model, "claude");
    assert_string_equal(got.error, "CODE_FAILED");
    assert_true(got.success && got.status == 200 && got.cost == INT64_MAX);
    assert_true(got.input_tokens == 1 && got.output_tokens == 2 && got.generation_ms == 3);
    assert_true(got.sandbox_ms == 4 && got.total_ms == 5 && got.ended_ms == 6);
    assert_int_equal(got.body_len, sizeof body);
    assert_memory_equal(got.body, body, sizeof body);
    result_row_done(&got);
}

CHECK_CASE(large_answers)
{
    struct result_row got = {0};
    add(1, "r1", question);
    MUST(end("r1", 1, 8 << 20, &err));
    MUST_BE(db_result_get(kit_db, 1, "r1", &got, &err), 1);
    assert_int_equal(got.body_len, 8 << 20);
    assert_true(got.body[0] == 'x' && got.body[(8 << 20) - 1] == 'x');
    result_row_done(&got);
    MUST_FAIL(end("r1", 1, DB_RESULT_MAX + 1, &err), ERR_INVALID);
    assert_string_equal(kit_ask("SELECT bytes FROM held"), "8388608");
    MUST_BE(db_result_del(kit_db, 1, "r1", &err), 1);
    assert_string_equal(kit_ask("SELECT bytes + results FROM held"), "0");
}

CHECK_CASE(whose_it_is)
{
    struct result_row got = {0}, row = running(0, (char[]){"r1"}, 1);
    row.tenant = kit_tenant("red");
    add(1, "r1", question);
    MUST_BE(db_result_get(kit_db, row.tenant, "r1", &got, &err), 0);
    MUST_BE(db_result_del(kit_db, row.tenant, "r1", &err), 0);
    MUST_FAIL(db_result_end(kit_db, &row, &err), ERR_NOT_FOUND);
    MUST_BE(db_result_get(kit_db, 1, "r%", &got, &err), 0);
    MUST_BE(db_result_del(kit_db, 1, "r1", &err), 1);
    MUST_BE(db_result_del(kit_db, 1, "r1", &err), 0);
    MUST_FAIL(end("r1", 1, 1, &err), ERR_NOT_FOUND);
}

CHECK_CASE(what_a_dead_daemon_left)
{
    struct result_row row = running(1, (char[]){"mine"}, 5), got = {0};
    int64_t lost = 0;
    add(1, "a", question);
    add(1, "b", question);
    add(1, "done", question);
    MUST(end("done", 1, 1, &err));
    MUST(db_result_add(kit_db, &row, &err));
    MUST(db_result_lose(kit_db, 5, &lost, &err));
    assert_int_equal(lost, 2);
    MUST(db_result_lose(kit_db, 5, NULL, &err));
    assert_string_equal(kit_ask("SELECT group_concat(id || state) FROM results"),
                        "a3,b3,done2,mine1");
    MUST_BE(db_result_get(kit_db, 1, "a", &got, &err), 1);
    assert_true(got.ended_ms > 1000);
    result_row_done(&got);
}

CHECK_CASE(what_can_be_gone_on_with)
{
    int64_t lost = -1;
    struct result_row row = {0};
    add(1, "plain", question);
    add(1, "task", sdk);
    MUST(db_result_asked(kit_db, 1, "task", EVIL, &err));
    MUST_FAIL(db_result_asked(kit_db, 2, "task", "another's", &err), ERR_NOT_FOUND);
    MUST_FAIL(db_result_work(kit_db, 1, "none", "x", &err), ERR_NOT_FOUND);
    MUST_BE(db_result_left(kit_db, 1, &row, &err), 0); // it is this daemon's own
    MUST(db_result_lose(kit_db, 5, &lost, &err));
    assert_int_equal(lost, 1);
    MUST_BE(db_result_left(kit_db, 5, &row, &err), 1);
    assert_string_equal(row.id, "task");
    assert_string_equal(row.asked, EVIL);
    assert_null(row.work);
    result_row_done(&row);
    MUST_BE(db_result_left(kit_db, 5, &row, &err), 0); // nobody else gets it
    MUST(db_result_work(kit_db, 1, "task", "{}", &err));
    MUST_BE(db_result_left(kit_db, 6, &row, &err), 1);
    assert_string_equal(row.work, "{}");
    assert_int_equal(row.run, 6);
    result_row_done(&row);
    MUST(end("task", 10, 3, &err));
    MUST_BE(db_result_left(kit_db, 7, &row, &err), 0); // it has ended
}

// -- many

static int see(void *data, const struct result_row *row)
{
    char *ids = data;
    size_t len = strlen(ids);
    assert_null(row->body);
    assert_true(row->body_len == 0);
    (void)snprintf(ids + len, 64 - len, "%s ", row->id);
    return strcmp(row->id, "stop") == 0;
}

static const char *list(struct result_query query)
{
    static char ids[64];
    ids[0] = '\0';
    MUST(db_result_each(kit_db, &query, see, ids, &err));
    return ids;
}

CHECK_CASE(newest_first)
{
    int64_t red = kit_tenant("red");
    add(1, "a", question);
    add(red, "theirs", sdk);
    add(1, "b", sdk);
    add(1, "c", question);
    MUST(end("a", 1, 10, &err));
    assert_string_equal(list((struct result_query){.tenant = 1}), "c b a ");
    assert_string_equal(list((struct result_query){.tenant = 1, .max = 2}), "c b ");
    assert_string_equal(list((struct result_query){.tenant = 1, .before = "b"}), "a ");
    assert_string_equal(list((struct result_query){.tenant = 1, .before = "a"}), "");
    assert_string_equal(list((struct result_query){.tenant = 1, .kind = sdk}), "b ");
    assert_string_equal(list((struct result_query){.tenant = 0}), "c b theirs a ");
    assert_string_equal(list((struct result_query){.tenant = red}), "theirs ");
    // Nobody's place is told by another tenant's.
    assert_string_equal(list((struct result_query){.tenant = red, .before = "c"}), "");
    add(1, "stop", sdk);
    assert_string_equal(list((struct result_query){.tenant = 1}), "stop ");
}

static int count(void *data, const struct result_row *row)
{
    int *n = data;
    char want[16];
    (void)snprintf(want, sizeof want, "r%d", 599 - (*n)++);
    assert_string_equal(row->id, want);
    return 0;
}

CHECK_CASE(more_than_a_page)
{
    char id[16];
    int n = 0;
    MUST(db_begin(kit_db, &err));
    for (int i = 0; i < 600; i++) {
        (void)snprintf(id, sizeof id, "r%d", i);
        add(1, id, question);
    }
    MUST(db_commit(kit_db, &err));
    MUST(db_result_each(kit_db, &(struct result_query){.tenant = 1}, count, &n, &err));
    assert_int_equal(n, 600);
}

// -- room

CHECK_CASE(old_ones_go)
{
    add(1, "runs", question);
    add(1, "old", question);
    add(1, "new", question);
    MUST(end("old", 1000, 1, &err));
    MUST(end("new", 2000, 1, &err));
    MUST(db_result_expire(kit_db, 2000, &err));
    assert_string_equal(list((struct result_query){.tenant = 1}), "new runs ");
}

CHECK_CASE(not_too_much_at_once)
{
    for (char id[] = "a"; id[0] <= 'e'; id[0]++) {
        add(1, id, question);
        MUST(end(id, 1, 1, &err));
    }
    kit_exec("UPDATE results SET size = 30 << 20");
    MUST(db_result_expire(kit_db, 1000, &err));
    assert_string_equal(list((struct result_query){.tenant = 1}), "e d ");
    MUST(db_result_expire(kit_db, 1000, &err));
    assert_string_equal(list((struct result_query){.tenant = 1}), "");
}

CHECK_CASE(too_many_go)
{
    int64_t red = kit_tenant("red");
    add(red, "theirs", question);
    add(1, "runs", question);
    kit_exec(SERIES
             "INSERT INTO results (tenant, id, kind, state, run, title, success, status, cost,"
             " input_tokens, output_tokens, generation_ms, sandbox_ms, total_ms, created_ms,"
             " ended_ms, size)"
             " SELECT 1, 'r' || value, 'question', 2, 1, '', 1, 200, 0, 0, 0, 0, 0, 0, 1, 2, 0"
             " FROM series LIMIT 9999");
    assert_string_equal(kit_ask("SELECT results FROM held WHERE tenant = 1"), "10000");
    add(1, "one", question);
    add(1, "two", question);
    assert_string_equal(kit_ask("SELECT results FROM held WHERE tenant = 1"), "10000");
    assert_string_equal(
        kit_ask("SELECT group_concat(id) FROM (SELECT id FROM results WHERE id IN"
                " ('theirs', 'runs', 'r1', 'r2', 'r3', 'one', 'two') ORDER BY seq)"),
        "theirs,runs,r3,one,two");
}

CHECK_CASE(too_much_goes)
{
    add(1, "a", question);
    add(1, "b", question);
    add(1, "c", question);
    MUST(end("a", 1, 100, &err));
    MUST(end("b", 1, 100, &err));
    // As if they were so large: the room that one needs is taken from the oldest.
    kit_exec("UPDATE results SET size = 1 << 29 WHERE id < 'c'");
    MUST(end("c", 1, 100, &err));
    assert_string_equal(list((struct result_query){.tenant = 1}), "c b ");
    assert_string_equal(kit_ask("SELECT bytes - (1 << 29) FROM held"), "100");
}

// -- code

CHECK_CASE(code)
{
    uint8_t key[DB_CODE_KEY] = {1}, other[DB_CODE_KEY] = {2};
    char *code = NULL;
    MUST_BE(db_code_get(kit_db, key, &code, &err), 0);
    MUST(db_code_put(kit_db, key, 1, "print(1)", &err));
    MUST(db_code_put(kit_db, key, 1, EVIL, &err));
    MUST_BE(db_code_get(kit_db, key, &code, &err), 1);
    assert_string_equal(code, EVIL);
    free(code);
    MUST_BE(db_code_get(kit_db, other, &code, &err), 0);
    char *large = calloc(1, 70000);
    memset(large, 'x', 69999);
    MUST(db_code_put(kit_db, other, 1, large, &err)); // not worth its room
    free(large);
    MUST_BE(db_code_get(kit_db, other, &code, &err), 0);
    MUST(db_code_expire(kit_db, 1000, &err));
    assert_string_equal(kit_ask("SELECT count(*) FROM codes"), "1");
    MUST(db_code_expire(kit_db, INT64_MAX, &err));
    assert_string_equal(kit_ask("SELECT count(*) FROM codes"), "0");
}

CHECK_CASE(so_many_codes)
{
    uint8_t key[DB_CODE_KEY] = {1};
    kit_exec(SERIES "INSERT INTO codes (key, tenant, code, made_ms)"
                    " SELECT randomblob(32), 1, value, 5000 FROM series LIMIT 10002");
    MUST(db_code_expire(kit_db, 5000, &err));
    assert_string_equal(kit_ask("SELECT count(*) || min(CAST(code AS INTEGER)) FROM codes"),
                        "100003");
    for (int i = 0; i < 1000; i++) { // by chance, but never for long
        key[1] = (uint8_t)i, key[2] = (uint8_t)(i >> 8);
        MUST(db_code_put(kit_db, key, 1, "x", &err));
    }
    assert_true(strtol(kit_ask("SELECT count(*) FROM codes"), NULL, 10) < 10800);
}

CHECK_MAIN(KIT_CASE(as_it_was_asked), KIT_CASE(as_it_ended), KIT_CASE(large_answers),
           KIT_CASE(whose_it_is), KIT_CASE(what_a_dead_daemon_left),
           KIT_CASE(what_can_be_gone_on_with), KIT_CASE(newest_first), KIT_CASE(more_than_a_page),
           KIT_CASE(old_ones_go), KIT_CASE(not_too_much_at_once), KIT_CASE(too_many_go),
           KIT_CASE(too_much_goes), KIT_CASE(code), KIT_CASE(so_many_codes))
