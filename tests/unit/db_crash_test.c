// SPDX-License-Identifier: Apache-2.0
// A writer that is killed at any moment: every row whose write had returned is there afterwards.
#include <signal.h>
#include <time.h>

#include "base/fd.h"
#include "db_kit.h"

enum { ROUNDS = 20, KILL_WITHIN_US = 20000 };

static _Noreturn void give_up(const struct err *err)
{
    (void)fprintf(stderr, "# writer: %s\n", err->msg);
    _exit(1);
}

// Writes rows and tells each number only when it is written. Checkpoints now and then, so that some
// are killed in one. It ends by itself should nobody kill it.
static _Noreturn void write_rows(int out, int round)
{
    struct db *db = NULL;
    struct err err = {0};
    if (db_open(kit_path, &db, &err) < 0)
        give_up(&err);
    for (int i = 0; i < 100000; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "r%d-%d", round, i);
        struct sandbox_row row = kit_row(1, id, id);
        if (db_begin(db, &err) < 0 || db_sandbox_add(db, &row, &err) < 0)
            give_up(&err);
        struct event_row event = {.sandbox = row.number, .type = (char[]){"created"}};
        if (db_event_add(db, &event, &err) < 0 || db_commit(db, &err) < 0)
            give_up(&err);
        if (fd_write_all(out, &row.number, sizeof row.number) < 0)
            _exit(2);
        if (i % 40 == 39 && db_checkpoint(kit_path, &err) < 0)
            give_up(&err);
    }
    _exit(0);
}

// The last number that a writer told before it was killed; 0: none.
static int64_t run_and_kill(int round, unsigned after_us)
{
    int ends[2], status = 0;
    int64_t number, last = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)close(ends[0]);
        write_rows(ends[1], round);
    }
    (void)close(ends[1]);
    // From the first row on: opening alone takes longer than some of these times.
    if (fd_read_all(ends[0], &number, sizeof number) == sizeof number)
        last = number;
    const struct timespec delay = {.tv_nsec = (long)after_us * 1000};
    (void)nanosleep(&delay, NULL);
    (void)kill(pid, SIGKILL);
    while (fd_read_all(ends[0], &number, sizeof number) == sizeof number) {
        assert_true(number > last);
        last = number;
    }
    (void)close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return last;
}

static void assert_complete(int64_t told)
{
    char query[160], want[32];
    (void)snprintf(query, sizeof query,
                   "SELECT count(*) FROM sandboxes JOIN events ON events.sandbox = number"
                   " WHERE number <= %lld",
                   (long long)told);
    (void)snprintf(want, sizeof want, "%lld", (long long)told);
    assert_string_equal(kit_ask(query), want);
    // What it had no time to tell may be there, but not in halves.
    assert_string_equal(kit_ask("SELECT count(*) FROM sandboxes WHERE NOT EXISTS"
                                " (SELECT 1 FROM events WHERE events.sandbox = number)"),
                        "0");
    assert_string_equal(kit_ask("SELECT (SELECT sandboxes FROM usage) = count(*) FROM sandboxes"),
                        "1");
    assert_string_equal(kit_ask("PRAGMA integrity_check"), "ok");
}

CHECK_CASE(nothing_told_is_lost)
{
    uint32_t dice = (uint32_t)getpid();
    int64_t told = 0;
    for (int round = 0; round < ROUNDS; round++) {
        dice = dice * 1664525 + 1013904223;
        int64_t last = run_and_kill(round, (dice >> 8) % KILL_WITHIN_US);
        if (last > 0)
            told = last;
        MUST(db_open(kit_path, &kit_db, &err));
        assert_complete(told);
        db_close(kit_db); // empties the log: each second round starts with one that is not
        kit_db = NULL;
        told = (int64_t)strtoll(kit_ask("SELECT max(number) FROM sandboxes"), NULL, 10);
        if (round % 2 == 0)
            told = run_and_kill(ROUNDS + round, 0);
    }
    assert_true(told > ROUNDS);
}

CHECK_MAIN(DIR_CASE(nothing_told_is_lost))
