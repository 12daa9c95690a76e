// SPDX-License-Identifier: Apache-2.0
// The database as a whole: opening and refusing, transactions, a full disk, syncs, checkpoints.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

#include "base/fd.h"
#include "db/db-internal.h"
#include "db_kit.h"

// -- opening

CHECK_CASE(opens_and_opens_again)
{
    char *value = NULL;
    struct stat st;
    assert_int_equal(stat(kit_path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_string_equal(kit_ask("PRAGMA journal_mode"), "wal");
    MUST(db_meta_set(kit_db, "name", "first", &err));
    MUST(db_meta_set(kit_db, "name", "it's \"this\"; --", &err));
    kit_reopen();
    MUST_BE(db_meta_get(kit_db, "name", &value, &err), 1);
    assert_string_equal(value, "it's \"this\"; --");
    free(value);
    value = NULL;
    MUST_BE(db_meta_get(kit_db, "NAME", &value, &err), 0);
    assert_null(value);
    assert_string_equal(kit_ask("SELECT count(*) FROM tenants"), "1");
}

CHECK_CASE(no_descriptor_stays_open)
{
    db_close(kit_db);
    kit_db = NULL;
    int before = check_fds();
    MUST(db_open(kit_path, &kit_db, &err));
    MUST(db_checkpoint(kit_path, &err));
    db_close(kit_db);
    kit_db = NULL;
    assert_int_equal(check_fds(), before);
}

static void write_file(const char *text, size_t len)
{
    int fd = open(kit_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, len), 0);
    fd_close(fd);
}

static void must_refuse(enum err_code code, const char *words)
{
    struct err err = {0};
    int before = check_fds();
    assert_int_equal(db_open(kit_path, &kit_db, &err), -1);
    assert_null(kit_db);
    assert_int_equal(err.code, code);
    if (strstr(err.msg, words) == NULL || strstr(err.msg, kit_path) == NULL)
        fail_msg("%s", err.msg);
    assert_int_equal(check_fds(), before);
}

CHECK_CASE(what_is_no_database)
{
    char junk[8192];
    memset(junk, 'x', sizeof junk);
    write_file(junk, sizeof junk);
    must_refuse(ERR_INVALID, "not a database");
    struct stat st;
    assert_int_equal(stat(kit_path, &st), 0);
    assert_int_equal(st.st_size, sizeof junk); // as it was
}

CHECK_CASE(somebody_elses)
{
    kit_exec("CREATE TABLE songs (title TEXT)");
    must_refuse(ERR_INVALID, "not one of Cay's");
    assert_string_equal(kit_ask("SELECT count(*) FROM sqlite_schema"), "1");
}

CHECK_CASE(a_newer_one)
{
    MUST(db_open(kit_path, &kit_db, &err));
    db_close(kit_db);
    kit_db = NULL;
    kit_exec("PRAGMA user_version = 99");
    must_refuse(ERR_UNSUPPORTED, "newer");
}

// As it was before there were results: with a sandbox that knows nothing of what came after.
CHECK_CASE(an_older_one)
{
    MUST(db_open(kit_path, &kit_db, &err));
    (void)kit_sandbox("a");
    db_close(kit_db);
    kit_db = NULL;
    kit_exec("DROP TABLE results; DROP TABLE held; DROP TABLE spend; DROP TABLE spend_hours;"
             "DROP TABLE codes; DROP TABLE opencode; DROP TRIGGER secrets_of_sandbox;"
             "DROP TRIGGER sandboxes_archived;"
             "DROP INDEX sandboxes_due;"
             "ALTER TABLE sandboxes DROP COLUMN destroy_after_ms;"
             "ALTER TABLE sandboxes DROP COLUMN budget_cost;"
             "ALTER TABLE sandboxes DROP COLUMN budget_tokens;"
             "ALTER TABLE sandboxes DROP COLUMN spent_cost;"
             "ALTER TABLE sandboxes DROP COLUMN spent_tokens;"
             "DROP TABLE snapshots; DROP TABLE backups; DROP TABLE syncs; DROP TABLE doomed;"
             "DROP INDEX sandboxes_idle; DROP TRIGGER urls_of_token; DROP TABLE urls;"
             "ALTER TABLE processes DROP COLUMN note;"
             "ALTER TABLE sessions DROP COLUMN timeout_ms;"
             "ALTER TABLE sandboxes DROP COLUMN sync; ALTER TABLE sandboxes DROP COLUMN durable;"
             "ALTER TABLE sandboxes DROP COLUMN archive_after_ms;"
             "ALTER TABLE sandboxes DROP COLUMN shared; ALTER TABLE sandboxes DROP COLUMN archive;"
             "ALTER TABLE sandboxes DROP COLUMN slept_ms; ALTER TABLE sandboxes DROP COLUMN disks;"
             "UPDATE sandboxes SET boxes = 3; PRAGMA user_version = 6");
    struct sandbox_row row = {0};
    MUST(db_open(kit_path, &kit_db, &err));
    MUST_BE(db_sandbox_get(kit_db, 1, "a", &row, &err), 1);
    assert_int_equal(row.destroy_after_ms, 0);
    assert_int_equal(row.budget_cost, -1);
    assert_int_equal(row.budget_tokens, -1);
    assert_int_equal(row.spent_cost, 0);
    assert_int_equal(row.disks, 1); // it has had boxes: it never gets a blank one
    sandbox_row_done(&row);
    struct spend_row spend = {.tenant = 1, .sandbox_number = 1, .cost = 5};
    MUST(db_spend_add(kit_db, &spend, &err));
    assert_string_equal(kit_ask("SELECT spent_cost FROM sandboxes"), "5");
}

// Backups from before there were numbers: of the sandbox that has the id now if it was there then.
CHECK_CASE(older_backups)
{
    char a[] = "bak-a", b[] = "bak-b", c[] = "bak-c", of[] = "a", gone[] = "b", kind[] = "tree";
    MUST(db_open(kit_path, &kit_db, &err));
    (void)kit_sandbox("a");
    struct sandbox_row s = {0};
    MUST_BE(db_sandbox_get(kit_db, 1, "a", &s, &err), 1);
    struct backup_row row = {.tenant = 1, .id = a, .sandbox = of, .kind = kind, .image = kind};
    row.created_ms = s.created_ms;
    MUST(db_backup_add(kit_db, &row, &err));
    row.id = b;
    row.created_ms--;
    MUST(db_backup_add(kit_db, &row, &err));
    row.id = c;
    row.sandbox = gone;
    MUST(db_backup_add(kit_db, &row, &err));
    sandbox_row_done(&s);
    db_close(kit_db);
    kit_db = NULL;
    kit_exec("ALTER TABLE backups DROP COLUMN number; PRAGMA user_version = 12");
    MUST(db_open(kit_path, &kit_db, &err));
    assert_string_equal(kit_ask("SELECT group_concat(number) FROM backups"), "1,0,0");
}

CHECK_CASE(a_damaged_one)
{
    MUST(db_open(kit_path, &kit_db, &err));
    db_close(kit_db);
    kit_db = NULL;
    int fd = open(kit_path, O_WRONLY | O_CLOEXEC);
    char junk[4096];
    memset(junk, 0xa5, sizeof junk);
    // The tree of the schema, behind a head that looks well.
    assert_int_equal(pwrite(fd, junk, sizeof junk - 100, 100), sizeof junk - 100);
    fd_close(fd);
    must_refuse(ERR_INTERNAL, "damaged");
}

CHECK_CASE(no_directory)
{
    struct err err = {0};
    assert_int_equal(db_open("/nonexistent/rows.db", &kit_db, &err), -1);
    assert_int_equal(err.sys_errno, ENOENT);
    assert_int_equal(db_checkpoint("/nonexistent/rows.db", &err), -1);
}

CHECK_CASE(an_empty_file_is_a_new_one)
{
    write_file("", 0);
    MUST(db_open(kit_path, &kit_db, &err));
    assert_int_equal(kit_sandbox("a"), 1);
}

// -- transactions

CHECK_CASE(all_or_nothing)
{
    MUST(db_begin(kit_db, &err));
    int64_t number = kit_sandbox("a");
    struct event_row event = {.sandbox = number, .type = (char[]){"created"}};
    MUST(db_event_add(kit_db, &event, &err));
    db_rollback(kit_db);
    db_rollback(kit_db); // nothing is open: nothing happens
    assert_string_equal(kit_ask("SELECT count(*) FROM sandboxes"), "0");
    MUST(db_begin(kit_db, &err));
    number = kit_sandbox("a");
    assert_string_equal(kit_ask("SELECT count(*) FROM sandboxes"), "0");
    MUST(db_commit(kit_db, &err));
    assert_string_equal(kit_ask("SELECT count(*) FROM sandboxes"), "1");
    MUST_FAIL(db_commit(kit_db, &err), ERR_INTERNAL);
}

static void begin_twice(void)
{
    struct err err;
    (void)db_begin(kit_db, &err);
    (void)db_begin(kit_db, &err);
}

CHECK_CASE(transactions_do_not_nest)
{
    assert_int_equal(check_signal(begin_twice), SIGABRT);
}

// Another connection has the right to write: we wait, and it is not our fault if that is in vain.
CHECK_CASE(somebody_writes)
{
    sqlite3 *sql = kit_raw();
    assert_int_equal(sqlite3_exec(sql, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_busy_timeout(kit_db->sql, 10);
    MUST_FAIL(db_meta_set(kit_db, "a", "b", &err), ERR_UNAVAILABLE);
    MUST_FAIL(db_begin(kit_db, &err), ERR_UNAVAILABLE);
    assert_int_equal(sqlite3_exec(sql, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    MUST(db_meta_set(kit_db, "a", "b", &err));
    assert_int_equal(sqlite3_close(sql), SQLITE_OK);
}

// -- a full disk

static void set_max_pages(const char *pages)
{
    char text[64];
    (void)snprintf(text, sizeof text, "PRAGMA max_page_count = %s", pages);
    assert_int_equal(sqlite3_exec(kit_db->sql, text, NULL, NULL, NULL), SQLITE_OK);
}

static int fill(struct err *err)
{
    static char big[3000];
    memset(big, 'x', sizeof big - 1);
    for (int i = 0; i < 1000; i++) {
        struct event_row event = {.sandbox = 1, .type = (char[]){"x"}, .data = big};
        if (db_event_add(kit_db, &event, err) < 0)
            return -1;
    }
    return 0;
}

CHECK_CASE(a_full_disk)
{
    kit_sandbox("a");
    set_max_pages("1"); // that is: as many as there are
    MUST_FAIL(fill(&err), ERR_UNAVAILABLE);
    // In a transaction, too, and its beginning is not half there.
    MUST(db_begin(kit_db, &err));
    MUST(db_meta_set(kit_db, "a", "1", &err));
    MUST_FAIL(fill(&err), ERR_UNAVAILABLE);
    db_rollback(kit_db);
    assert_string_equal(kit_ask("SELECT count(*) FROM meta"), "0");
    // Reading and deleting go on; with room, writing does.
    struct sandbox_row row = {0};
    MUST_BE(db_sandbox_get(kit_db, 1, "a", &row, &err), 1);
    sandbox_row_done(&row);
    set_max_pages("100000");
    MUST(fill(&err));
    assert_string_equal(kit_ask("PRAGMA integrity_check"), "ok");
}

// A real one: the log cannot grow past a limit on files.
static void fill_in_child(void)
{
    const struct rlimit limit = {.rlim_cur = 512 * 1024, .rlim_max = RLIM_INFINITY};
    struct err err = {0};
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)setrlimit(RLIMIT_FSIZE, &limit);
    if (fill(&err) == 0 || err.msg[0] == '\0')
        abort();
}

CHECK_CASE(a_file_that_cannot_grow)
{
    kit_sandbox("a");
    assert_int_equal(check_signal(fill_in_child), 0);
    assert_string_equal(kit_ask("PRAGMA integrity_check"), "ok");
    kit_reopen();
    MUST(fill(&err));
}

CHECK_CASE(a_database_that_cannot_be_written)
{
    assert_int_equal(sqlite3_exec(kit_db->sql, "PRAGMA query_only = 1", NULL, NULL, NULL),
                     SQLITE_OK);
    MUST_FAIL(db_meta_set(kit_db, "a", "b", &err), ERR_INTERNAL);
    assert_int_equal(sqlite3_exec(kit_db->sql, "PRAGMA query_only = 0", NULL, NULL, NULL),
                     SQLITE_OK);
}

// -- what is synced

// In the place of the C library's, for SQLite as for all that runs here.
static int syncs, syncs_fail;

static int count_sync(void)
{
    syncs++;
    errno = EIO;
    return syncs_fail ? -1 : 0;
}

__attribute__((visibility("default"))) int fsync(int fd __attribute__((unused)))
{
    return count_sync();
}

__attribute__((visibility("default"))) int fdatasync(int fd __attribute__((unused)))
{
    return count_sync();
}

static int syncs_of(int (*fn)(void))
{
    syncs = 0;
    assert_int_equal(fn(), 0);
    return syncs;
}

static int add_token(void)
{
    static uint8_t n;
    struct err err;
    struct token_row row = {.tenant = 1, .name = (char[]){"t"}, .hash = {++n}};
    (void)snprintf(row.id, sizeof row.id, "%016x", n);
    return db_token_add(kit_db, &row, &err);
}

static int revoke_token(void)
{
    struct err err;
    return db_token_revoke(kit_db, "0000000000000001", &err) == 1 ? 0 : -1;
}

static int write_ordinary_rows(void)
{
    static int n;
    char id[16];
    struct err err;
    (void)snprintf(id, sizeof id, "row-%d", n++);
    int64_t number = kit_sandbox(id);
    struct event_row event = {.sandbox = number, .type = (char[]){"created"}};
    struct idem_row idem = {.tenant = 1, .key = id};
    enum idem_state state;
    return db_event_add(kit_db, &event, &err) | db_sandbox_touch(kit_db, number, 5, &err) |
           db_idem_take(kit_db, &idem, &state, &err) | db_meta_set(kit_db, "a", "b", &err);
}

static int add_two_tokens_in_one(void)
{
    struct err err;
    return db_begin(kit_db, &err) | add_token() | add_token() | db_commit(kit_db, &err);
}

CHECK_CASE(tokens_are_synced_and_the_rest_is_not)
{
    assert_int_equal(syncs_of(add_token), 1);
    assert_int_equal(syncs_of(revoke_token), 1);
    assert_int_equal(syncs_of(write_ordinary_rows), 0);
    assert_int_equal(syncs_of(add_two_tokens_in_one), 1);
    assert_int_equal(syncs_of(write_ordinary_rows), 0); // nothing lingers
    kit_reopen();
    assert_int_equal(syncs_of(write_ordinary_rows), 0); // nor has the first one to wait
}

CHECK_CASE(a_sync_that_fails_is_told)
{
    struct err err = {0};
    struct token_row row = {.tenant = 1, .id = "x"};
    syncs_fail = 1;
    int r = db_token_add(kit_db, &row, &err);
    syncs_fail = 0;
    assert_int_equal(r, -1);
    assert_int_equal(err.code, ERR_INTERNAL);
}

// -- checkpoints

static off_t log_size(void)
{
    char name[96];
    struct stat st;
    (void)snprintf(name, sizeof name, "%s-wal", kit_path);
    assert_int_equal(stat(name, &st), 0);
    return st.st_size;
}

static void write_much(void)
{
    for (int i = 0; i < 4; i++)
        MUST(fill(&err));
}

CHECK_CASE(the_log_is_begun_anew)
{
    struct stat st;
    kit_sandbox("a");
    write_much();
    off_t before = log_size();
    assert_true(before > 12 << 20);
    MUST(db_checkpoint(kit_path, &err));
    assert_true(log_size() <= 8 << 20);
    assert_int_equal(stat(kit_path, &st), 0);
    assert_true(st.st_size > 2 << 20);
    off_t kept = log_size();
    assert_int_equal(syncs_of(write_ordinary_rows), 0);
    assert_int_equal(log_size(), kept);
    assert_string_equal(kit_ask("PRAGMA integrity_check"), "ok");
}

// With nothing new in the log there is nothing to sync, however often it is asked for.
static int checkpoint_twice(void)
{
    struct err err;
    return db_checkpoint(kit_path, &err) | db_checkpoint(kit_path, &err);
}

CHECK_CASE(a_quiet_database_is_left_alone)
{
    kit_sandbox("a");
    write_much();
    for (int i = 0; i < 3; i++)
        MUST(db_checkpoint(kit_path, &err));
    assert_int_equal(syncs_of(checkpoint_twice), 0);
}

// Checkpoints in another thread while this one writes: nothing fails, and the log does not grow
// without end.
static bool stop_checkpoints;
static void *checkpoints(void *arg)
{
    struct err *err = arg;
    while (!__atomic_load_n(&stop_checkpoints, __ATOMIC_ACQUIRE)) {
        if (db_checkpoint(kit_path, err) < 0)
            return err;
    }
    return NULL;
}

CHECK_CASE(checkpoints_beside_writes)
{
    struct err thread_err = {0};
    pthread_t thread;
    void *failed = NULL;
    kit_sandbox("a");
    stop_checkpoints = false;
    assert_int_equal(pthread_create(&thread, NULL, checkpoints, &thread_err), 0);
    for (int i = 0; i < 10; i++)
        MUST(fill(&err));
    __atomic_store_n(&stop_checkpoints, true, __ATOMIC_RELEASE);
    assert_int_equal(pthread_join(thread, &failed), 0);
    if (failed != NULL)
        fail_msg("%s", thread_err.msg);
    assert_true(log_size() < 140 << 20);
    MUST(db_checkpoint(kit_path, &err));
    assert_true(log_size() <= 8 << 20);
    assert_string_equal(kit_ask("PRAGMA integrity_check"), "ok");
}

// Nobody makes one: the log still has an end.
CHECK_CASE(no_checkpoints)
{
    kit_sandbox("a");
    off_t size = 0;
    for (int i = 0; i < 30 && size < 120 << 20; i++) {
        MUST(fill(&err));
        size = log_size();
    }
    assert_true(size >= 120 << 20);
    for (int i = 0; i < 3; i++)
        MUST(fill(&err));
    assert_true(log_size() < 140 << 20);
}

CHECK_MAIN(KIT_CASE(opens_and_opens_again), KIT_CASE(no_descriptor_stays_open),
           DIR_CASE(what_is_no_database), DIR_CASE(somebody_elses), DIR_CASE(a_newer_one),
           DIR_CASE(an_older_one), DIR_CASE(older_backups), DIR_CASE(a_damaged_one),
           DIR_CASE(no_directory), DIR_CASE(an_empty_file_is_a_new_one), KIT_CASE(all_or_nothing),
           KIT_CASE(transactions_do_not_nest), KIT_CASE(somebody_writes), KIT_CASE(a_full_disk),
           KIT_CASE(a_file_that_cannot_grow), KIT_CASE(a_database_that_cannot_be_written),
           KIT_CASE(tokens_are_synced_and_the_rest_is_not), KIT_CASE(a_sync_that_fails_is_told),
           KIT_CASE(the_log_is_begun_anew), KIT_CASE(a_quiet_database_is_left_alone),
           KIT_CASE(checkpoints_beside_writes), KIT_CASE(no_checkpoints))
