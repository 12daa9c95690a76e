// SPDX-License-Identifier: Apache-2.0
// Each kind of row: what goes in comes out, and belongs to whom it should.
#include <errno.h>

#include "db_kit.h"

// Texts that mean something to SQL, JSON or a format, and must mean nothing here.
#define EVIL "x'; DROP TABLE sandboxes; -- %s \" \\ \xf0\x9f\x98\x80"

// -- tenants and tokens

CHECK_CASE(tenants)
{
    struct tenant_row row = {0}, again = {0};
    MUST_BE(db_tenant_by_number(kit_db, 1, &row, &err), 1);
    assert_string_equal(row.name, "admin");
    assert_true(row.created_ms > 0);
    assert_int_equal(row.sandboxes, -1);
    tenant_row_done(&row);
    MUST_BE(db_tenant_get(kit_db, EVIL, &row, &err), 0);
    MUST_BE(db_tenant_by_number(kit_db, 2, &row, &err), 0);

    row = (struct tenant_row){.name = (char[]){EVIL}, .sandboxes = 1, .running = 2, .memory = 3};
    row.disk = INT64_MAX;
    row.created_ms = 5;
    MUST(db_tenant_put(kit_db, &row, &err));
    assert_int_equal(row.number, 2);
    row.sandboxes = 10;
    row.created_ms = 6;
    row.number = 0;
    MUST(db_tenant_put(kit_db, &row, &err));
    assert_int_equal(row.number, 2);
    MUST_BE(db_tenant_get(kit_db, EVIL, &again, &err), 1);
    assert_int_equal(again.number, 2);
    assert_int_equal(again.sandboxes, 10);
    assert_int_equal(again.running, 2);
    assert_int_equal(again.memory, 3);
    assert_true(again.disk == INT64_MAX);
    assert_int_equal(again.created_ms, 5);
    tenant_row_done(&again);
    tenant_row_done(&again);
}

static int count_tokens(void *data, const struct token_row *row)
{
    char *ids = data;
    size_t len = strlen(ids);
    ids[len] = row->id[15];
    ids[len + 1] = '\0';
    return row->id[15] == '3';
}

static void add_token(char last, int64_t created_ms)
{
    struct token_row row = {.tenant = 1, .admin = last == '1', .rate = 60};
    row.created_ms = created_ms;
    row.name = (char[]){EVIL};
    (void)snprintf(row.id, sizeof row.id, "000000000000000%c", last);
    memset(row.hash, last, sizeof row.hash);
    MUST(db_token_add(kit_db, &row, &err));
    MUST_FAIL(db_token_add(kit_db, &row, &err), ERR_CONFLICT);
    memcpy(row.id, "new", 4);
    MUST_FAIL(db_token_add(kit_db, &row, &err), ERR_CONFLICT); // the hash
}

CHECK_CASE(tokens)
{
    uint8_t hash[DB_TOKEN_HASH];
    struct token_row row = {0};
    char ids[16] = "";
    add_token('2', 10);
    add_token('1', 20);
    memset(hash, '1', sizeof hash);
    MUST_BE(db_token_by_hash(kit_db, hash, &row, &err), 1);
    assert_string_equal(row.id, "0000000000000001");
    assert_string_equal(row.name, EVIL);
    assert_memory_equal(row.hash, hash, sizeof hash);
    assert_true(row.admin);
    assert_int_equal(row.tenant, 1);
    assert_int_equal(row.rate, 60);
    assert_int_equal(row.created_ms, 20);
    token_row_done(&row);
    hash[31]++;
    MUST_BE(db_token_by_hash(kit_db, hash, &row, &err), 0);

    add_token('3', 20);
    add_token('4', 30);
    MUST(db_token_each(kit_db, count_tokens, ids, &err));
    assert_string_equal(ids, "213"); // and stopped
    MUST_BE(db_token_revoke(kit_db, "0000000000000003", &err), 1);
    MUST_BE(db_token_revoke(kit_db, "0000000000000003", &err), 0);
    MUST_BE(db_token_revoke(kit_db, "%", &err), 0);
    ids[0] = '\0';
    MUST(db_token_each(kit_db, count_tokens, ids, &err));
    assert_string_equal(ids, "214");
    row = (struct token_row){.tenant = 77, .id = "x"};
    MUST_FAIL(db_token_add(kit_db, &row, &err), ERR_NOT_FOUND);
}

// -- sandboxes

static void assert_same_text(const char *a, const char *b) // NULL is not ""
{
    assert_int_equal(a == NULL, b == NULL);
    if (a != NULL)
        assert_string_equal(a, b);
}

static void assert_same(const struct sandbox_row *a, const struct sandbox_row *b)
{
    assert_int_equal(a->number, b->number);
    assert_int_equal(a->tenant, b->tenant);
    assert_string_equal(a->id, b->id);
    assert_string_equal(a->slug, b->slug);
    assert_int_equal(a->status, b->status);
    assert_string_equal(a->image, b->image);
    assert_true(a->memory == b->memory && a->disk == b->disk && a->pids == b->pids);
    assert_true(a->cpu_milli == b->cpu_milli && a->sleep_after_ms == b->sleep_after_ms);
    assert_int_equal(a->keep_alive, b->keep_alive);
    assert_int_equal(a->ephemeral, b->ephemeral);
    assert_string_equal(a->env, b->env);
    assert_string_equal(a->labels, b->labels);
    assert_same_text(a->user_id, b->user_id);
    assert_same_text(a->network, b->network);
    assert_same_text(a->secrets, b->secrets);
    assert_same_text(a->languages, b->languages);
    assert_int_equal(a->shared_zygote, b->shared_zygote);
    assert_true(a->box == b->box && a->run == b->run && a->boxes == b->boxes);
    assert_true(a->created_ms == b->created_ms && a->updated_ms == b->updated_ms);
    assert_true(a->active_ms == b->active_ms && a->destroy_after_ms == b->destroy_after_ms);
    assert_true(a->budget_cost == b->budget_cost && a->budget_tokens == b->budget_tokens);
    assert_true(a->spent_cost == b->spent_cost && a->spent_tokens == b->spent_tokens);
}

CHECK_CASE(a_sandbox)
{
    struct sandbox_row row = kit_row(1, (char[]){"Box.1"}, (char[]){"box-1"}), got = {0};
    MUST(db_sandbox_add(kit_db, &row, &err));
    assert_int_equal(row.number, 1);
    MUST_BE(db_sandbox_get(kit_db, 1, "Box.1", &got, &err), 1);
    assert_same(&got, &row);
    sandbox_row_done(&got);
    sandbox_row_done(&got);
    MUST_BE(db_sandbox_get(kit_db, 1, "box.1", &got, &err), 0); // bytes, not letters
    MUST_BE(db_sandbox_get(kit_db, 2, "Box.1", &got, &err), 0);

    row = (struct sandbox_row){
        .number = row.number,
        .tenant = 1,
        .id = row.id,
        .slug = row.slug,
        .status = SANDBOX_RUNNING,
        .image = (char[]){EVIL},
        .memory = INT64_MAX,
        .disk = 2,
        .pids = 3,
        .cpu_milli = 4,
        .sleep_after_ms = 5,
        .keep_alive = true,
        .ephemeral = true,
        .env = (char[]){"{}"},
        .labels = (char[]){"{\"a\":\"b\"}"},
        .user_id = (char[]){EVIL},
        .network = (char[]){"\"internet\""},
        .secrets = (char[]){"[\"a\",\"b\"]"},
        .languages = (char[]){"[\"bash\",\"python\"]"},
        .shared_zygote = true,
        .destroy_after_ms = 10,
        .budget_cost = INT64_MAX,
        .budget_tokens = -1,
        .box = 6,
        .run = INT64_MIN,
        .boxes = 7,
        .created_ms = 8,
        .updated_ms = 9,
        .active_ms = 10,
    };
    MUST(db_sandbox_update(kit_db, &row, &err));
    MUST(db_sandbox_touch(kit_db, row.number, 11, &err));
    row.active_ms = 11;
    kit_reopen();
    MUST_BE(db_sandbox_get(kit_db, 1, "Box.1", &got, &err), 1);
    assert_same(&got, &row);
    sandbox_row_done(&got);
    row.number = 99;
    MUST_FAIL(db_sandbox_update(kit_db, &row, &err), ERR_NOT_FOUND);
    MUST_FAIL(db_sandbox_touch(kit_db, 99, 1, &err), ERR_NOT_FOUND);
}

CHECK_CASE(two_with_one_name)
{
    int64_t other = kit_tenant("other");
    kit_sandbox("a");
    struct sandbox_row row = kit_row(1, (char[]){"a"}, (char[]){"other"});
    struct err err = {0};
    assert_int_equal(db_sandbox_add(kit_db, &row, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_int_equal(err.sys_errno, EEXIST);
    row = kit_row(other, (char[]){"a"}, (char[]){"a"}); // another's id may be the same
    assert_int_equal(db_sandbox_add(kit_db, &row, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_int_equal(err.sys_errno, EADDRINUSE);
    assert_int_equal(row.number, 0);
    row.slug = (char[]){"a-2"};
    assert_int_equal(db_sandbox_add(kit_db, &row, &err), 0);
    row = kit_row(77, (char[]){"b"}, (char[]){"b"});
    assert_int_equal(db_sandbox_add(kit_db, &row, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
}

CHECK_CASE(numbers_are_never_used_twice)
{
    int64_t last = 0;
    for (int i = 0; i < 4; i++) {
        int64_t number = kit_sandbox("a");
        struct process_row process = {.sandbox = number, .id = (char[]){"p"}};
        process.command = (char[]){"\"x\""};
        MUST(db_process_add(kit_db, &process, &err));
        struct event_row event = {.sandbox = number, .type = (char[]){"created"}};
        MUST(db_event_add(kit_db, &event, &err));
        assert_int_equal(number, last + 1);
        assert_int_equal(process.log, last + 1);
        assert_int_equal(event.seq, last + 1);
        last = number;
        MUST(db_sandbox_del(kit_db, number, &err));
        MUST(db_sandbox_del(kit_db, number, &err)); // again is no mistake
        if (i == 1)
            kit_reopen();
    }
}

CHECK_CASE(what_belongs_to_a_sandbox_goes_with_it)
{
    static const char *const tables[] = {"processes", "sessions", "events"};
    int64_t keep = kit_sandbox("keep"), gone = kit_sandbox("gone");
    for (int64_t n = keep; n <= gone; n++) {
        struct process_row process = {.sandbox = n, .id = (char[]){"p"}};
        process.command = (char[]){"\"x\""};
        struct session_row session = {.sandbox = n, .id = (char[]){"s"}};
        struct event_row event = {.sandbox = n, .type = (char[]){"created"}};
        MUST(db_process_add(kit_db, &process, &err));
        MUST(db_session_put(kit_db, &session, &err));
        MUST(db_event_add(kit_db, &event, &err));
    }
    MUST(db_sandbox_del(kit_db, gone, &err));
    for (int i = 0; i < 3; i++) {
        char query[64];
        (void)snprintf(query, sizeof query, "SELECT group_concat(sandbox) FROM %s", tables[i]);
        assert_string_equal(kit_ask(query), "1");
    }
    struct process_row process = {.sandbox = gone, .id = (char[]){"p"}};
    process.command = (char[]){"\"x\""};
    struct session_row session = {.sandbox = gone, .id = (char[]){"s"}};
    struct event_row event = {.sandbox = gone, .type = (char[]){"x"}};
    MUST_FAIL(db_process_add(kit_db, &process, &err), ERR_NOT_FOUND);
    MUST_FAIL(db_session_put(kit_db, &session, &err), ERR_NOT_FOUND);
    MUST_FAIL(db_event_add(kit_db, &event, &err), ERR_NOT_FOUND);
}

// -- lists

struct seen {
    char ids[4096];
    unsigned n, stop_after;
};

static int see(void *data, const struct sandbox_row *row)
{
    struct seen *seen = data;
    size_t len = strlen(seen->ids);
    if (len + 20 < sizeof seen->ids)
        (void)snprintf(seen->ids + len, sizeof seen->ids - len, "%s ", row->id);
    return ++seen->n == seen->stop_after;
}

static const char *list(struct sandbox_query query)
{
    static struct seen seen;
    seen = (struct seen){0};
    MUST(db_sandbox_each(kit_db, &query, see, &seen, &err));
    return seen.ids;
}

static void add(int64_t tenant, const char *name, enum sandbox_status status, const char *labels)
{
    char id[32], slug[32], text[128];
    (void)snprintf(id, sizeof id, "%s", name);
    (void)snprintf(slug, sizeof slug, "%d-%s", (int)tenant, name);
    (void)snprintf(text, sizeof text, "%s", labels);
    struct sandbox_row row = kit_row(tenant, id, slug);
    row.status = status;
    row.labels = text;
    MUST(db_sandbox_add(kit_db, &row, &err));
}

CHECK_CASE(lists_and_filters)
{
    int64_t other = kit_tenant("other");
    add(1, "c", SANDBOX_RUNNING, "{\"team\":\"red\",\"x\":\"\"}");
    add(1, "a", SANDBOX_SLEEPING, "{\"team\":\"blue\"}");
    add(1, "B", SANDBOX_RUNNING, "{\"a.b\\\"c$\":\"red\",\"caf\\u00e9\":\"1\"}");
    add(1, "d", SANDBOX_DESTROYING, "{}");
    add(other, "a", SANDBOX_RUNNING, "{\"team\":\"red\"}");

    assert_string_equal(list((struct sandbox_query){.tenant = 1}), "B a c d ");
    assert_string_equal(list((struct sandbox_query){.tenant = other}), "a ");
    assert_string_equal(list((struct sandbox_query){.tenant = 77}), "");
    assert_string_equal(list((struct sandbox_query){0}), "B a c d a ");
    assert_string_equal(list((struct sandbox_query){.tenant = 1, .after = "a"}), "c d ");
    assert_string_equal(list((struct sandbox_query){.tenant = 1, .after = "aa", .max = 1}), "c ");
    assert_string_equal(list((struct sandbox_query){.tenant = 1, .max = 2}), "B a ");
    assert_string_equal(list((struct sandbox_query){.max = 4}), "B a c d ");
    assert_string_equal(list((struct sandbox_query){.tenant = 1, .status = SANDBOX_RUNNING}),
                        "B c ");
    assert_string_equal(list((struct sandbox_query){.status = SANDBOX_RUNNING}), "B c a ");

    static const struct {
        const char *key, *value, *want;
    } cases[] = {
        {"team",        "red", "c "  },
        {"team",        NULL,  "a c "},
        {"team",        "RED", ""    },
        {"team",        "re%", ""    },
        {"x",           "",    "c "  },
        {"a.b\"c$",     "red", "B "  },
        {"caf\xc3\xa9", "1",   "B "  },
        {"$",           NULL,  ""    },
        {"' OR 1=1 --", NULL,  ""    },
        {"",            NULL,  ""    },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sandbox_query query = {.tenant = 1, .label_key = cases[i].key};
        query.label_value = cases[i].value;
        assert_string_equal(list(query), cases[i].want);
    }
    assert_string_equal(list((struct sandbox_query){.label_key = "team", .label_value = "red"}),
                        "c a ");
}

static int see_number(void *data, const struct sandbox_row *row)
{
    struct seen *seen = data;
    char want[16];
    (void)snprintf(want, sizeof want, "s%04u", seen->n);
    assert_string_equal(row->id, want);
    return ++seen->n == seen->stop_after;
}

// More than a page of them, each exactly once, whatever the callback does meanwhile.
static int see_and_delete(void *data, const struct sandbox_row *row)
{
    struct seen inner = {.stop_after = 3};
    struct sandbox_query query = {.tenant = 1, .after = row->id};
    MUST(db_sandbox_del(kit_db, row->number, &err));
    MUST(db_sandbox_each(kit_db, &query, see, &inner, &err));
    return see_number(data, row);
}

CHECK_CASE(long_lists)
{
    enum { MANY = 600 };
    MUST(db_begin(kit_db, &err));
    for (int i = 0; i < MANY; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "s%04d", i);
        kit_sandbox(id);
    }
    MUST(db_commit(kit_db, &err));
    static const unsigned maxes[] = {0, 1, 255, 256, 257, 511, 512, 513, 599, 600, 601};
    for (size_t i = 0; i < sizeof maxes / sizeof maxes[0]; i++) {
        struct sandbox_query query = {.tenant = i % 2, .max = maxes[i]};
        struct seen seen = {0};
        MUST(db_sandbox_each(kit_db, &query, see_number, &seen, &err));
        assert_int_equal(seen.n, maxes[i] == 0 || maxes[i] > MANY ? MANY : maxes[i]);
    }
    for (unsigned stop = 254; stop < 259; stop++) {
        struct sandbox_query query = {.tenant = 1};
        struct seen seen = {.stop_after = stop};
        MUST(db_sandbox_each(kit_db, &query, see_number, &seen, &err));
        assert_int_equal(seen.n, stop);
    }
    struct sandbox_query query = {.tenant = 1};
    struct seen seen = {0};
    MUST(db_sandbox_each(kit_db, &query, see_and_delete, &seen, &err));
    assert_int_equal(seen.n, MANY);
    assert_string_equal(kit_ask("SELECT count(*) FROM sandboxes"), "0");
}

static void assert_usage(int64_t tenant, int64_t sandboxes, int64_t disk)
{
    struct usage_row usage = {-1, -1};
    MUST(db_sandbox_usage(kit_db, tenant, &usage, &err));
    assert_int_equal(usage.sandboxes, sandboxes);
    assert_int_equal(usage.disk, disk);
}

CHECK_CASE(usage)
{
    int64_t other = kit_tenant("other");
    assert_usage(1, 0, 0);
    assert_usage(0, 0, 0);
    add(1, "a", SANDBOX_RUNNING, "{}");
    add(1, "b", SANDBOX_DESTROYING, "{}");
    add(other, "a", SANDBOX_RUNNING, "{}");
    assert_usage(1, 2, 10);
    assert_usage(other, 1, 5);
    assert_usage(0, 3, 15);
    struct sandbox_row row = {0};
    MUST_BE(db_sandbox_get(kit_db, 1, "a", &row, &err), 1);
    row.disk = 100;
    MUST(db_sandbox_update(kit_db, &row, &err));
    MUST(db_sandbox_update(kit_db, &row, &err));
    assert_usage(1, 2, 105);
    MUST(db_begin(kit_db, &err));
    MUST(db_sandbox_del(kit_db, row.number, &err));
    assert_usage(1, 1, 5);
    db_rollback(kit_db);
    assert_usage(1, 2, 105);
    MUST(db_sandbox_del(kit_db, row.number, &err));
    kit_reopen();
    assert_usage(1, 1, 5);
    assert_usage(0, 2, 10);
    sandbox_row_done(&row);
}

// -- processes and sessions

CHECK_CASE(a_process)
{
    int64_t sandbox = kit_sandbox("a");
    struct process_row row = {
        .sandbox = sandbox,
        .id = (char[]){"p1"},
        .command = (char[]){"[\"" EVIL "\"]"},
        .cwd = (char[]){"/tmp"},
        .keep_awake = true,
        .deadline_ms = 5,
        .exit_code = -1,
        .started_ms = 6,
    };
    struct process_row got = {0};
    MUST(db_process_add(kit_db, &row, &err));
    MUST_FAIL(db_process_add(kit_db, &row, &err), ERR_CONFLICT);
    row.box = 7;
    row.exec = 8;
    row.pid = 9;
    MUST(db_process_started(kit_db, &row, &err));
    MUST_BE(db_process_get(kit_db, sandbox, "p1", &got, &err), 1);
    assert_int_equal(got.sandbox, sandbox);
    assert_string_equal(got.id, "p1");
    assert_string_equal(got.command, row.command);
    assert_string_equal(got.cwd, "/tmp");
    assert_true(got.box == 7 && got.exec == 8 && got.pid == 9 && got.log == row.log);
    assert_true(got.keep_awake && got.deadline_ms == 5 && got.reason == END_NONE);
    assert_true(got.exit_code == -1 && got.signal == 0 && got.started_ms == 6);
    process_row_done(&got);
    row.reason = END_SIGNAL;
    row.signal = 9;
    row.limits = 10;
    row.cpu_usec = 11;
    row.memory_peak = 12;
    row.ended_ms = 13;
    MUST(db_process_end(kit_db, &row, &err));
    MUST_BE(db_process_get(kit_db, sandbox, "p1", &got, &err), 1);
    assert_true(got.reason == END_SIGNAL && got.signal == 9 && got.limits == 10);
    assert_true(got.cpu_usec == 11 && got.memory_peak == 12 && got.ended_ms == 13);
    assert_true(got.box == 7 && got.started_ms == 6 && got.deadline_ms == 5);
    process_row_done(&got);
    MUST_BE(db_process_get(kit_db, sandbox + 1, "p1", &got, &err), 0);
    MUST(db_process_del(kit_db, sandbox, "p1", &err));
    MUST_BE(db_process_get(kit_db, sandbox, "p1", &got, &err), 0);
    MUST_FAIL(db_process_end(kit_db, &row, &err), ERR_NOT_FOUND);
    MUST_FAIL(db_process_started(kit_db, &row, &err), ERR_NOT_FOUND);
}

static int see_process(void *data, const struct process_row *row)
{
    int *n = data;
    assert_int_equal(row->started_ms, (*n)++);
    return 0;
}

static int see_session(void *data, const struct session_row *row)
{
    char *ids = data;
    (void)snprintf(ids + strlen(ids), 8, "%s%s", row->id, row->cwd != NULL ? row->cwd : "");
    return 0;
}

CHECK_CASE(processes_oldest_first)
{
    int64_t sandbox = kit_sandbox("a"), other = kit_sandbox("b");
    int n = 0;
    MUST(db_begin(kit_db, &err));
    for (int i = 0; i < 600; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "%d", 1000 - i);
        struct process_row row = {.sandbox = sandbox, .id = id, .started_ms = i};
        row.command = (char[]){"\"x\""};
        MUST(db_process_add(kit_db, &row, &err));
        row.sandbox = other;
        MUST(db_process_add(kit_db, &row, &err));
    }
    MUST(db_commit(kit_db, &err));
    MUST(db_process_each(kit_db, sandbox, see_process, &n, &err));
    assert_int_equal(n, 600);
}

CHECK_CASE(sessions)
{
    int64_t sandbox = kit_sandbox("a");
    char ids[64] = "";
    struct session_row row = {
        .sandbox = sandbox,
        .id = (char[]){"s2"},
        .cwd = (char[]){"/"},
        .env = (char[]){"{\"A\":\"b\"}"},
        .box = 1,
        .exec = 2,
        .created_ms = 3,
        .used_ms = 4,
    };
    struct session_row got = {0};
    MUST(db_session_put(kit_db, &row, &err));
    row.id = (char[]){"s1"};
    row.cwd = NULL;
    row.env = NULL;
    MUST(db_session_put(kit_db, &row, &err));
    row.used_ms = 5;
    MUST(db_session_put(kit_db, &row, &err));
    MUST_BE(db_session_get(kit_db, sandbox, "s2", &got, &err), 1);
    assert_string_equal(got.cwd, "/");
    assert_string_equal(got.env, "{\"A\":\"b\"}");
    assert_true(got.sandbox == sandbox && got.box == 1 && got.exec == 2);
    assert_true(got.created_ms == 3 && got.used_ms == 4);
    session_row_done(&got);
    MUST_BE(db_session_get(kit_db, sandbox, "s1", &got, &err), 1);
    assert_true(got.cwd == NULL && got.used_ms == 5);
    assert_string_equal(got.env, "{}");
    session_row_done(&got);
    MUST(db_session_each(kit_db, sandbox, see_session, ids, &err));
    assert_string_equal(ids, "s1s2/");
    MUST_BE(db_session_del(kit_db, sandbox, "s1", &err), 1);
    MUST_BE(db_session_del(kit_db, sandbox, "s1", &err), 0);
    MUST_BE(db_session_get(kit_db, sandbox, "s1", &got, &err), 0);
}

CHECK_CASE(reasons)
{
    assert_string_equal(end_reason_name(END_NONE), "");
    assert_string_equal(end_reason_name(END_EXIT), "exit");
    assert_string_equal(end_reason_name(END_BOX_LOST), "box_lost");
    for (int i = 1; i < END_REASON_MAX; i++)
        assert_true(end_reason_name((enum end_reason)i)[0] != '\0');
    assert_string_equal(end_reason_name((enum end_reason)END_REASON_MAX), "");
    assert_string_equal(end_reason_name((enum end_reason) - 1), "");
}

// -- events

struct tail {
    int64_t first, last;
    unsigned n;
};

static int see_event(void *data, const struct event_row *row)
{
    struct tail *tail = data;
    assert_true(row->seq > tail->last);
    assert_string_equal(row->type, "tick");
    if (tail->n++ == 0)
        tail->first = row->seq;
    tail->last = row->seq;
    return 0;
}

CHECK_CASE(events_are_kept_and_trimmed)
{
    enum { MANY = 5000 };
    int64_t busy = kit_sandbox("busy"), quiet = kit_sandbox("quiet");
    struct event_row row = {.sandbox = quiet, .time_ms = 1, .type = (char[]){"tick"}};
    MUST(db_event_add(kit_db, &row, &err));
    int64_t last = row.seq;
    for (int i = 0; i < MANY; i++) {
        row = (struct event_row){.sandbox = busy, .time_ms = i, .type = (char[]){"tick"}};
        row.data = (char[]){"{\"a\":1}"};
        MUST(db_event_add(kit_db, &row, &err));
        assert_int_equal(row.seq, ++last);
    }
    struct tail tail = {0};
    MUST(db_event_each(kit_db, busy, 0, 0, see_event, &tail, &err));
    assert_true(tail.n >= DB_EVENTS_KEPT && tail.n < DB_EVENTS_KEPT + 1000);
    assert_int_equal(tail.last, last);
    assert_int_equal(tail.first, last - tail.n + 1); // the newest, without a gap
    tail = (struct tail){0};
    MUST(db_event_each(kit_db, busy, last - 10, 4, see_event, &tail, &err));
    assert_true(tail.n == 4 && tail.first == last - 9);
    tail = (struct tail){0};
    MUST(db_event_each(kit_db, quiet, 0, 0, see_event, &tail, &err));
    assert_true(tail.n == 1 && tail.first == 1);
}

// -- idempotency keys

static enum idem_state take(struct idem_row *row)
{
    enum idem_state state = (enum idem_state)99;
    MUST(db_idem_take(kit_db, row, &state, &err));
    return state;
}

CHECK_CASE(idempotency)
{
    struct idem_row row = {.tenant = 1, .key = EVIL, .request = {1}, .run = 10}, other = row;
    assert_int_equal(take(&row), IDEM_NEW);
    assert_int_equal(take(&row), IDEM_RUNNING);
    other.request[31] = 1;
    assert_int_equal(take(&other), IDEM_OTHER);
    other.run = 11;
    assert_int_equal(take(&other), IDEM_OTHER);
    other = row;
    other.tenant = 2;
    assert_int_equal(take(&other), IDEM_NEW);
    other = row;
    other.run = 11;
    kit_reopen();
    assert_int_equal(take(&other), IDEM_UNKNOWN);

    row.status = 201;
    row.body = (char[]){"a\0b"};
    row.body_len = 3;
    MUST(db_idem_done(kit_db, &row, &err));
    kit_reopen();
    other.body = NULL;
    assert_int_equal(take(&other), IDEM_DONE);
    assert_int_equal(other.status, 201);
    assert_int_equal(other.body_len, 3);
    assert_memory_equal(other.body, "a\0b", 4);
    free(other.body);
    other.request[0]++;
    other.body = NULL;
    assert_int_equal(take(&other), IDEM_OTHER);
    assert_null(other.body);
}

CHECK_CASE(an_empty_answer_is_an_answer)
{
    struct idem_row row = {.tenant = 1, .key = "k", .run = 1, .status = 204};
    assert_int_equal(take(&row), IDEM_NEW);
    MUST(db_idem_done(kit_db, &row, &err));
    assert_int_equal(take(&row), IDEM_DONE);
    assert_int_equal(row.body_len, 0);
    assert_string_equal(row.body, "");
    free(row.body);
}

CHECK_CASE(keys_are_dropped_and_expire)
{
    struct idem_row row = {.tenant = 1, .key = "k", .run = 1}, other = {0};
    assert_int_equal(take(&row), IDEM_NEW);
    other = row;
    other.request[0]++;
    MUST(db_idem_drop(kit_db, &other, &err)); // not its own
    assert_int_equal(take(&row), IDEM_RUNNING);
    MUST(db_idem_drop(kit_db, &row, &err));
    assert_int_equal(take(&row), IDEM_NEW);
    MUST(db_idem_done(kit_db, &row, &err));
    MUST(db_idem_drop(kit_db, &row, &err)); // answered: it stays
    MUST(db_idem_expire(kit_db, db_now_ms() - 60000, &err));
    assert_int_equal(take(&row), IDEM_DONE);
    free(row.body);
    MUST(db_idem_expire(kit_db, db_now_ms() + 1, &err));
    assert_int_equal(take(&row), IDEM_NEW);
}

// -- secrets

static int64_t put_secret(int64_t tenant, char *name, char *upstream, int64_t ms)
{
    uint8_t sealed[] = {0, 1, 2, 0xff, 0};
    struct secret_row row = {
        .tenant = tenant,
        .name = name,
        .upstream = upstream,
        .header = (char[]){"Authorization"},
        .format = (char[]){EVIL},
        .sealed = sealed,
        .sealed_len = sizeof sealed,
        .created_ms = ms,
        .updated_ms = ms,
    };
    struct err err = {0};
    int r = db_secret_put(kit_db, &row, &err);
    return r < 0 ? -(int64_t)err.code : r;
}

static int see_secret(void *data, const struct secret_row *row)
{
    char *seen = data;
    (void)strncat(seen, row->name, 60 - strlen(seen));
    return row->name[0] == 'y';
}

CHECK_CASE(secrets)
{
    int64_t other = kit_tenant("other");
    char seen[64] = "";
    struct secret_row got = {0};
    assert_int_equal(put_secret(1, (char[]){"b"}, (char[]){"https://one"}, 10), 1);
    assert_int_equal(put_secret(1, (char[]){"a"}, (char[]){"https://one"}, 11), 1);
    assert_int_equal(put_secret(other, (char[]){"a"}, (char[]){"https://other"}, 12), 1);
    assert_int_equal(put_secret(1, (char[]){"a"}, (char[]){"https://two"}, 20), 0);
    assert_int_equal(put_secret(77, (char[]){"a"}, (char[]){"https://two"}, 20), -ERR_NOT_FOUND);
    kit_reopen();
    MUST_BE(db_secret_get(kit_db, 1, "a", &got, &err), 1);
    assert_string_equal(got.upstream, "https://two");
    assert_string_equal(got.format, EVIL);
    assert_int_equal(got.sealed_len, 5);
    assert_memory_equal(got.sealed, "\0\1\2\xff\0", 5);
    assert_int_equal(got.created_ms, 11);
    assert_int_equal(got.updated_ms, 20);
    secret_row_done(&got);
    secret_row_done(&got);
    MUST(db_secret_each(kit_db, 1, see_secret, seen, &err));
    assert_string_equal(seen, "ab");
    seen[0] = '\0';
    MUST(db_secret_each(kit_db, 0, see_secret, seen, &err));
    assert_string_equal(seen, "aba");
    MUST_BE(db_secret_del(kit_db, 1, "a", &err), 1);
    MUST_BE(db_secret_del(kit_db, 1, "a", &err), 0);
    MUST_BE(db_secret_get(kit_db, 1, "a", &got, &err), 0);
    MUST_BE(db_secret_get(kit_db, other, "a", &got, &err), 1);
    secret_row_done(&got);
}

CHECK_MAIN(KIT_CASE(tenants), KIT_CASE(secrets), KIT_CASE(tokens), KIT_CASE(a_sandbox),
           KIT_CASE(two_with_one_name), KIT_CASE(numbers_are_never_used_twice),
           KIT_CASE(what_belongs_to_a_sandbox_goes_with_it), KIT_CASE(lists_and_filters),
           KIT_CASE(long_lists), KIT_CASE(usage), KIT_CASE(a_process),
           KIT_CASE(processes_oldest_first), KIT_CASE(sessions), cmocka_unit_test(reasons),
           KIT_CASE(events_are_kept_and_trimmed), KIT_CASE(idempotency),
           KIT_CASE(an_empty_answer_is_an_answer), KIT_CASE(keys_are_dropped_and_expire))
