// SPDX-License-Identifier: Apache-2.0
// Background processes over a fake box whose programs are real: pipes, signals and exits are the
// kernel's.
#include <sys/stat.h>

#include "fake_job.h"

enum { KIB = 1024, MIB = 1024 * KIB, TURNS_MAX = 150000 }; // half a minute at least

static const char *const environment[] = {"PATH=/usr/bin:/bin", NULL};

// --- starting one, and waiting for it

struct started {
    int calls;
    struct process *p; // a reference
    struct err err;
};

static void on_start(void *data, struct process *p, const struct err *err)
{
    struct started *started = data;
    started->calls++;
    started->p = p != NULL ? process_ref(p) : NULL;
    started->err = err != NULL ? *err : (struct err){0};
}

static struct process_request request_of(const char *id, const char *const *argv)
{
    return (struct process_request){
        .id = id,
        .command = "\"it\"",
        .exec = {.argv = argv, .envp = environment, .cwd = "/"},
    };
}

static struct process *start_request(const struct process_request *request)
{
    struct started started = {0};
    process_start(&fake.sandbox, request, on_start, &started);
    for (int i = 0; i < TURNS_MAX && started.calls == 0; i++)
        fake_turn();
    assert_int_equal(started.calls, 1);
    assert_non_null(started.p);
    return started.p;
}

#define SHELL(text, arg)                                                                           \
    (const char *const[])                                                                          \
    {                                                                                              \
        "/bin/bash", "-c", text, arg, NULL                                                         \
    }

static struct process *start(const char *id, const char *command, const char *arg)
{
    const struct process_request request = request_of(id, SHELL(command, arg));
    return start_request(&request);
}

static struct err start_refused(const struct process_request *request)
{
    struct started started = {0};
    process_start(&fake.sandbox, request, on_start, &started);
    for (int i = 0; i < TURNS_MAX && started.calls == 0; i++)
        fake_turn();
    assert_int_equal(started.calls, 1);
    assert_null(started.p);
    return started.err;
}

static void wait_end(struct process *p)
{
    for (int i = 0; i < TURNS_MAX && process_row(p)->reason == END_NONE; i++)
        fake_turn();
    assert_int_not_equal(process_row(p)->reason, END_NONE);
}

static uint64_t log_size(struct process *p, enum log_stream stream)
{
    struct bytelog *log = process_log(p, stream);
    return log != NULL ? bytelog_size(log) : 0; // it is made with its first byte
}

static void wait_size(struct process *p, enum log_stream stream, uint64_t size)
{
    for (int i = 0; i < TURNS_MAX && log_size(p, stream) < size; i++)
        fake_turn();
    assert_int_equal(log_size(p, stream), size);
}

static void assert_log(struct process *p, enum log_stream stream, const char *want)
{
    char data[4096];
    uint64_t at;
    ssize_t n = bytelog_read(process_log(p, stream), 0, data, sizeof data - 1, &at);
    assert_true(n >= 0);
    data[n] = '\0';
    assert_string_equal(data, want);
}

static size_t in_memory(void)
{
    fake_turn();
    return fake.sandbox.processes != NULL ? fake.sandbox.processes->by_id.n : 0;
}

static const char *path_in(const char *name)
{
    static char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", fake.dir, name);
    return path;
}

// --- life

static void count_watch(void *data, struct process *p)
{
    int *counts = data; // of bytes, ends, deletions
    counts[p == NULL ? 2 : process_row(p)->reason != END_NONE]++;
}

CHECK_CASE(from_start_to_end)
{
    fake_init(MIB);
    fake_done(); // what libuv opens once for all is open now
    int fds = check_fds();
    int counts[3] = {0};
    fake_init(MIB);
    struct process *p = start("one", "printf out; printf err >&2; exit 3", NULL);
    struct process_watch *watch = process_watch(p, count_watch, counts);
    const struct process_row *row = fake_row("one");
    assert_int_equal(row->box, FAKE_BOX);
    assert_int_equal(row->exec, 1);
    assert_true(row->pid > 0);
    wait_end(p);
    assert_int_equal(row->reason, END_EXIT);
    assert_int_equal(row->exit_code, 3);
    assert_true(row->ended_ms >= row->started_ms);
    assert_true(process_duration_ms(p) >= 0);
    assert_log(p, LOG_STDOUT, "out");
    assert_log(p, LOG_STDERR, "err");
    assert_true(fake.execs[1].forgotten);
    assert_int_equal(fake.counted[END_EXIT], 1);
    assert_int_equal(fake.events, 1);
    assert_non_null(
        strstr(fake.event, "process_exited {\"id\":\"one\",\"reason\":\"exit\",\"exitCode\":3"));
    assert_int_equal(counts[1], 1);
    process_watch_free(watch);
    process_unref(p);
    assert_int_equal(in_memory(), 0);
    assert_int_equal(fake.sandbox.refs, 1);
    struct err err = {0};
    p = process_find(&fake.sandbox, "one", &err); // from its row
    assert_non_null(p);
    assert_log(p, LOG_STDOUT, "out");
    assert_int_equal(process_signal(p, SIGTERM, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_int_equal(in_memory(), 0);
    assert_null(process_find(&fake.sandbox, "two", &err));
    assert_int_equal(err.code, ERR_NOT_FOUND);
    fake_done();
    assert_int_equal(check_fds(), fds);
}

// The log is what the program wrote, byte for byte, whatever happens to the daemon meanwhile.
static void compare_with_reference(struct process *p)
{
    static uint8_t mine[64 * KIB], theirs[64 * KIB];
    struct bytelog *log = process_log(p, LOG_STDOUT);
    uint64_t at, offset = 0, from, to;
    struct stat st;
    int fd = open(path_in("ref"), O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(bytelog_size(log), st.st_size);
    bytelog_gap(log, &from, &to);
    for (ssize_t n; (n = bytelog_read(log, offset, mine, sizeof mine, &at)) > 0;) {
        assert_int_equal(pread(fd, theirs, (size_t)n, (off_t)at), n);
        assert_memory_equal(mine, theirs, n);
        assert_true(at == offset || (offset == from && at == to));
        offset = at + (uint64_t)n;
    }
    assert_int_equal(offset, st.st_size);
    fd_close(fd);
}

static const char writer[] =
    "for i in {1..60}; do head -c $((RANDOM * 4 + 1)) /dev/urandom; head -c $((RANDOM / 8)) "
    "/dev/zero; done | tee \"$0\"";

static void restarts(uint64_t cap, int every)
{
    int fds = check_fds();
    fake_init(cap);
    struct err err = {0};
    struct process *p = start("w", writer, path_in("ref"));
    process_unref(p);
    int restarted = 0;
    for (int i = 0; i < TURNS_MAX && fake_row("w")->reason == END_NONE; i++) {
        if (i % every == 0) {
            processes_forget(&fake.sandbox); // all that the daemon knew
            assert_int_equal(fake.sandbox.refs, 1);
            if (i % (2 * every) == 0) { // the program goes on alone, and may even end
                const struct timespec pause = {.tv_nsec = 3000000};
                (void)nanosleep(&pause, NULL);
            }
            processes_adopt(&fake.sandbox);
            restarted++;
        }
        fake_turn();
    }
    assert_int_equal(fake_row("w")->reason, END_EXIT);
    assert_int_equal(fake_row("w")->exit_code, 0);
    assert_true(restarted > 3);
    p = process_find(&fake.sandbox, "w", &err);
    compare_with_reference(p);
    fake_done();
    assert_int_equal(check_fds(), fds);
}

CHECK_CASE(nothing_lost_or_doubled_over_restarts)
{
    restarts(64 * MIB, 1);
    restarts(64 * MIB, 7);
}

CHECK_CASE(restarts_past_the_cap)
{
    restarts(256 * KIB, 3);
}

// It ended while there was no daemon: its end and the rest of its output wait in the guest.
CHECK_CASE(ended_while_nobody_looked)
{
    fake_init(MIB);
    struct err err = {0};
    process_unref(start("w", "head -c 50000 /dev/urandom | tee \"$0\"; exit 9", path_in("ref")));
    processes_forget(&fake.sandbox);
    int status;
    assert_int_equal(waitpid(fake.execs[1].pid, &status, 0), fake.execs[1].pid);
    fake.execs[1].ended = true;
    fake.execs[1].status = status;
    processes_adopt(&fake.sandbox);
    struct process *p = process_ref(process_find(&fake.sandbox, "w", &err));
    wait_end(p);
    assert_int_equal(process_row(p)->exit_code, 9);
    compare_with_reference(p);
    process_unref(p);
    fake_done();
}

CHECK_CASE(children_write_on_after_its_end)
{
    fake_init(MIB);
    assert_int_equal(mkfifo(path_in("fifo"), 0600), 0);
    struct process *p = start("o", "(cat \"$0\"; printf late) & printf early", path_in("fifo"));
    wait_end(p);
    assert_log(p, LOG_STDOUT, "early");
    assert_int_equal(in_memory(), 1);
    process_unref(p);
    assert_int_equal(in_memory(), 1); // its pipe is open
    int fd = open(path_in("fifo"), O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    fd_close(fd);
    for (int i = 0; i < TURNS_MAX && in_memory() > 0; i++)
        ;
    assert_int_equal(in_memory(), 0);
    assert_int_equal(fake.sandbox.refs, 1);
    struct err err = {0};
    p = process_find(&fake.sandbox, "o", &err);
    assert_log(p, LOG_STDOUT, "earlylate");
    fake_done();
}

// A child that never stops writing does not keep its end from being told.
CHECK_CASE(flood_after_the_end)
{
    fake_init(64 * KIB);
    struct process *p = start("f", "yes & exit 0", NULL);
    wait_end(p);
    assert_int_equal(process_row(p)->exit_code, 0);
    uint64_t size = log_size(p, LOG_STDOUT);
    for (int i = 0; i < TURNS_MAX && log_size(p, LOG_STDOUT) < size + MIB; i++)
        fake_turn();
    assert_true(log_size(p, LOG_STDOUT) >= size + MIB);
    (void)kill(-fake.execs[1].pid, SIGKILL);
    process_unref(p);
    for (int i = 0; i < TURNS_MAX && in_memory() > 0; i++)
        ;
    assert_int_equal(in_memory(), 0);
    fake_done();
}

// --- input

CHECK_CASE(input)
{
    enum { BIG = 900 * KIB };
    fake_init(4 * MIB);
    struct err err = {0};
    struct process_request request =
        request_of("i", SHELL("read -r first; echo \"<$first>\"; read -r go <\"$0\"; exec cat",
                              path_in("fifo")));
    assert_int_equal(mkfifo(path_in("fifo"), 0600), 0);
    request.keep_stdin = true;
    request.exec.stdin_data = "given\n";
    request.exec.stdin_len = 6;
    struct process *p = start_request(&request);
    wait_size(p, LOG_STDOUT, 8);
    assert_log(p, LOG_STDOUT, "<given>\n");
    char *big = malloc(BIG);
    memset(big, 'b', BIG);
    assert_int_equal(process_stdin(p, big, BIG, false, &err), 0);
    assert_int_equal(process_stdin(p, big, BIG, true, &err), -1); // it does not read yet
    assert_int_equal(err.code, ERR_EXHAUSTED);
    int fd = open(path_in("fifo"), O_WRONLY | O_CLOEXEC);
    assert_int_equal(write(fd, "\n", 1), 1);
    fd_close(fd);
    wait_size(p, LOG_STDOUT, 8 + BIG);
    assert_int_equal(process_stdin(p, big, BIG, true, &err), 0);
    assert_int_equal(process_stdin(p, "x", 1, false, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    wait_end(p);
    assert_int_equal(process_row(p)->exit_code, 0);
    assert_int_equal(log_size(p, LOG_STDOUT), 8 + 2 * BIG);
    assert_int_equal(process_stdin(p, "x", 1, false, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    free(big);
    process_unref(p);
    fake_done();
}

CHECK_CASE(input_nobody_reads)
{
    fake_init(MIB);
    struct err err = {0};
    struct process_request request =
        request_of("i", SHELL("exec <&-; echo; exec sleep 1000", NULL));
    request.keep_stdin = true;
    struct process *p = start_request(&request);
    wait_size(p, LOG_STDOUT, 1);
    assert_int_equal(process_stdin(p, "x", 1, false, &err), 0);
    assert_int_equal(process_stdin(p, "x", 1, false, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    process_unref(p);
    p = start("n", "cat; exec sleep 1000", NULL); // none was asked for
    assert_int_equal(process_stdin(p, "x", 1, false, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    process_unref(p);
    request = request_of("g", SHELL("cat", NULL)); // given once, and then its end
    request.exec.stdin_data = "all of it";
    request.exec.stdin_len = 9;
    p = start_request(&request);
    wait_end(p);
    assert_log(p, LOG_STDOUT, "all of it");
    process_unref(p);
    fake_done();
}

// A kept input outlives the daemon: the program does not read an end.
CHECK_CASE(input_over_a_restart)
{
    fake_init(MIB);
    struct err err = {0};
    struct process_request request = request_of("i", SHELL("exec cat", NULL));
    request.keep_stdin = true;
    struct process *p = start_request(&request);
    assert_int_equal(process_stdin(p, "one ", 4, false, &err), 0);
    wait_size(p, LOG_STDOUT, 4);
    process_unref(p);
    processes_forget(&fake.sandbox);
    processes_adopt(&fake.sandbox);
    p = process_ref(process_find(&fake.sandbox, "i", &err));
    assert_int_equal(process_row(p)->reason, END_NONE);
    assert_int_equal(process_stdin(p, "two", 3, true, &err), 0);
    wait_end(p);
    assert_int_equal(process_row(p)->exit_code, 0);
    assert_log(p, LOG_STDOUT, "one two");
    process_unref(p);
    fake_done();
}

// --- signals and deleting

CHECK_CASE(signals)
{
    fake_init(MIB);
    struct err err = {0};
    struct process *p =
        start("s", "trap 'echo usr1' USR1; echo; while :; do sleep 0.01; done", NULL);
    wait_size(p, LOG_STDOUT, 1);
    assert_int_equal(process_signal(p, 0, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_int_equal(process_signal(p, 65, &err), -1);
    assert_int_equal(process_signal(p, -9, &err), -1);
    assert_int_equal(process_signal(p, SIGUSR1, &err), 0);
    wait_size(p, LOG_STDOUT, 6);
    assert_int_equal(process_signal(p, SIGTERM, &err), 0);
    wait_end(p);
    assert_int_equal(process_row(p)->reason, END_SIGNAL);
    assert_int_equal(process_row(p)->signal, SIGTERM);
    assert_int_equal(process_row(p)->exit_code, -1);
    process_unref(p);
    fake_done();
}

struct watcher {
    struct process *p; // a reference, given back when it is deleted
    struct process_watch *watch, *other;
    int told, deleted;
};

static void free_all_when_deleted(void *data, struct process *p)
{
    struct watcher *w = data;
    w->told++;
    if (p != NULL)
        return;
    w->deleted++;
    process_watch_free(w->watch);
    process_watch_free(w->other);
    process_unref(w->p);
}

static void never_told_of_deletion(void *data, struct process *p)
{
    (void)data;
    assert_non_null(p);
}

CHECK_CASE(deleting)
{
    fake_init(MIB);
    struct err err = {0};
    struct watcher w = {.p = start("d", "echo; exec sleep 1000", NULL)};
    w.other = process_watch(w.p, never_told_of_deletion, NULL);
    w.watch = process_watch(w.p, free_all_when_deleted, &w); // told before the other
    assert_int_equal(process_delete(w.p, &err), 0);
    wait_end(w.p);
    assert_int_equal(process_row(w.p)->reason, END_KILLED);
    assert_int_equal(fake.n_rows, 1);
    struct process *p = process_find(&fake.sandbox, "d", &err);
    assert_int_equal(process_delete(p, &err), 0);
    assert_int_equal(w.deleted, 1);
    assert_int_equal(fake.n_rows, 0);
    assert_int_equal(fake_log_files(), 0);
    assert_string_equal(process_row(p)->id, "d"); // lent until the loop turns
    assert_int_equal(process_delete(p, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_null(process_find(&fake.sandbox, "d", &err));
    p = start("d", "echo again", NULL); // the id is free
    wait_end(p);
    assert_log(p, LOG_STDOUT, "again\n");
    process_unref(p);
    fake_done();
}

static void free_itself(void *data, struct process *p)
{
    struct watcher *w = data;
    (void)p;
    w->told++;
    process_watch_free(w->watch);
    process_unref(w->p);
}

static void delete_it(void *data, struct process *p)
{
    struct watcher *w = data;
    struct err err = {0};
    w->told++;
    if (p != NULL && process_row(p)->reason != END_NONE)
        assert_int_equal(process_delete(p, &err), 0);
    if (p == NULL)
        process_watch_free(w->watch);
}

CHECK_CASE(watchers_that_free_and_delete)
{
    fake_init(MIB);
    struct watcher self = {.p = start("w", "echo; exec sleep 1000", NULL)};
    self.watch = process_watch(self.p, free_itself, &self);
    for (int i = 0; i < TURNS_MAX && self.told == 0; i++)
        fake_turn();
    assert_int_equal(self.told, 1);
    struct process *p = start("x", "exit 0", NULL);
    struct watcher late = {.p = p}, first = {0};
    int counts[3] = {0};
    struct process_watch *last = process_watch(p, count_watch, counts);
    late.watch = process_watch(p, free_all_when_deleted, &late);
    first.watch = process_watch(p, delete_it, &first); // told before the other
    for (int i = 0; i < TURNS_MAX && late.deleted == 0; i++)
        fake_turn();
    assert_int_equal(late.deleted, 1);
    assert_int_equal(late.told, 1); // not once more, as if it still were there
    assert_int_equal(first.told, 2);
    assert_int_equal(counts[1], 0);
    assert_int_equal(counts[2], 1);
    process_watch_free(last);
    assert_null(fake_row("x"));
    fake_done();
}

// --- refusals and failures

CHECK_CASE(ids)
{
    fake_init(MIB);
    struct process *p = start("a", "exit", NULL);
    struct process_request request = request_of("a", SHELL("exit", NULL));
    assert_int_equal(start_refused(&request).code, ERR_CONFLICT);
    wait_end(p);
    assert_int_equal(start_refused(&request).code, ERR_CONFLICT); // its row is there
    request.id = "../a";
    assert_int_equal(start_refused(&request).code, ERR_INVALID);
    process_unref(p);
    request.id = NULL;
    p = start_request(&request);
    const char *id = process_row(p)->id;
    assert_int_equal(strlen(id), 10);
    assert_memory_equal(id, "p-", 2);
    assert_true(sandbox_id_valid(id));
    process_unref(p);
    fake_done();
}

CHECK_CASE(starts_that_fail)
{
    int fds = check_fds();
    fake_init(MIB);
    struct process_request request =
        request_of("m", (const char *const[]){"/nowhere/program", NULL});
    request.keep_awake = request.keep_stdin = true;
    assert_int_equal(start_refused(&request).code, ERR_NOT_FOUND);
    assert_int_equal(fake.n_rows, 0);
    assert_int_equal(fake_log_files(), 0);
    assert_int_equal(fake.sandbox.busy, 0);
    request.exec.argv = SHELL("exec sleep 1000", NULL);
    fake.fail_add = true;
    assert_int_equal(start_refused(&request).code, ERR_INTERNAL);
    fake.fail_add = false;
    fake.fail_started = true; // it runs, but the row cannot say so: it must not go on
    assert_int_equal(start_refused(&request).code, ERR_INTERNAL);
    fake.fail_started = false;
    assert_int_equal(fake.n_rows, 0);
    int status;
    assert_int_equal(waitpid(fake.execs[2].pid, &status, 0), fake.execs[2].pid);
    assert_true(WIFSIGNALED(status));
    fake.execs[2].ended = true;
    struct box_link *box = fake.sandbox.box;
    fake.sandbox.box = NULL; // cannot even be asked for
    assert_int_equal(start_refused(&request).code, ERR_UNAVAILABLE);
    fake.sandbox.box = box;
    assert_int_equal(fake_log_files(), 0);
    assert_int_equal(in_memory(), 0);
    assert_int_equal(fake.sandbox.processes->running, 0);
    fake_done();
    assert_int_equal(check_fds(), fds);
}

CHECK_CASE(end_that_cannot_be_stored)
{
    fake_init(MIB);
    struct process *p = start("e", "exit 1", NULL);
    fake.fail_end = true;
    wait_end(p);
    assert_int_equal(process_row(p)->exit_code, 1);
    assert_false(fake.execs[1].forgotten); // a later daemon finds it there
    fake.fail_end = false;
    process_unref(p);
    processes_forget(&fake.sandbox);
    processes_adopt(&fake.sandbox);
    for (int i = 0; i < TURNS_MAX && fake_row("e")->reason == END_NONE; i++)
        fake_turn();
    assert_int_equal(fake_row("e")->exit_code, 1);
    assert_true(fake.execs[1].forgotten);
    fake_done();
}

CHECK_CASE(as_many_as_may_run)
{
    fake_init(MIB);
    struct process_request request = request_of(NULL, SHELL("exec sleep 1000", NULL));
    struct process *last = NULL;
    for (int i = 0; i < PROCESS_RUNNING_MAX; i++) {
        process_unref(last);
        last = start_request(&request);
    }
    assert_int_equal(start_refused(&request).code, ERR_EXHAUSTED);
    struct err err = {0};
    assert_int_equal(process_delete(last, &err), 0);
    wait_end(last);
    process_unref(last);
    process_unref(start_request(&request));
    fake_done();
}

static void count_each(void *data, struct process *p)
{
    (void)p;
    ++*(int *)data;
}

CHECK_CASE(ended_ones_are_kept_and_the_oldest_go)
{
    fake_init(MIB);
    struct err err = {0};
    struct process *runs = start("runs", "echo x; echo y >&2; exec sleep 1000", NULL);
    struct process *first = start("first", "exit 0", NULL);
    int counts[3] = {0};
    struct process_watch *watch = process_watch(first, count_watch, counts);
    wait_end(first);
    const struct timespec pause = {.tv_nsec = 5000000};
    (void)nanosleep(&pause, NULL); // the others end at another millisecond
    for (int i = 0; i < PROCESS_KEPT; i++) {
        struct process *p = start(NULL, "echo x; echo y >&2", NULL);
        wait_end(p);
        process_unref(p);
    }
    wait_size(runs, LOG_STDERR, 2);
    fake_turn(); // then the oldest goes
    assert_int_equal(fake.n_rows, PROCESS_KEPT + 1);
    assert_int_equal(fake_log_files(), 2 * (PROCESS_KEPT + 1));
    assert_null(fake_row("first"));
    assert_int_equal(counts[2], 1);
    int n = 0;
    assert_int_equal(process_each(&fake.sandbox, count_each, &n, &err), 0);
    assert_int_equal(n, PROCESS_KEPT + 1);
    assert_int_equal(in_memory(), 1);
    // The one that ran longest is the newest of those that have ended.
    assert_int_equal(process_delete(runs, &err), 0);
    wait_end(runs);
    fake_turn();
    assert_non_null(fake_row("runs"));
    assert_int_equal(fake.n_rows, PROCESS_KEPT);
    process_unref(runs);
    process_watch_free(watch);
    process_unref(first);
    fake_done();
}

// --- boxes that are gone

CHECK_CASE(rows_whose_process_is_gone)
{
    fake_init(MIB);
    struct process_row rows[] = {
        {.id = strdup("cut")},
        { .id = strdup("other"),   .box = FAKE_BOX - 1, .exec = 1},
        {          .id = strdup("unknown"), .box = FAKE_BOX, .exec = 77},
    };
    struct err err = {0};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(db_process_add(NULL, &rows[i], &err), 0);
        process_row_done(&rows[i]);
    }
    processes_adopt(&fake.sandbox);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(fake.rows[i].reason, END_BOX_LOST);
        assert_int_equal(fake.rows[i].exit_code, -1);
    }
    assert_int_equal(fake.counted[END_BOX_LOST], 3);
    assert_int_equal(fake.events, 3);
    assert_int_equal(in_memory(), 0);
    for (size_t i = 0; i < 3; i++)
        fake.rows[i].reason = END_NONE;
    processes_lost(&fake.fleet, 1);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(fake.rows[i].reason, END_BOX_LOST);
    fake_done();
}

CHECK_CASE(what_it_left_behind)
{
    fake_init(MIB);
    struct process *p = start("r", "read", NULL);
    wait_end(p);
    process_end_rest(p);
    assert_int_equal(fake.told, process_row(p)->exec);
    struct process *runs = start("s", "exec sleep 1000", NULL);
    fake.told = 0;
    process_end_rest(runs); // that is for a signal
    process_unref(runs);
    assert_int_equal(fake.told, 0);
    struct box_link *box = fake.sandbox.box;
    fake.sandbox.box = NULL; // it sleeps
    process_end_rest(p);
    assert_int_equal(fake.told, 0);
    fake.sandbox.box = box;
    process_unref(p);
    fake_done();
}

CHECK_CASE(box_lost)
{
    fake_init(MIB);
    struct process_request request = request_of("k", SHELL("printf last; exec sleep 1000", NULL));
    request.keep_awake = true;
    struct process *p = start_request(&request);
    assert_int_equal(fake.sandbox.busy, 1);
    wait_size(p, LOG_STDOUT, 4);
    struct started cut = {0};
    request.id = "cut";
    fake.hold = true; // it is lost while it starts
    process_start(&fake.sandbox, &request, on_start, &cut);
    assert_int_equal(fake.sandbox.busy, 2);
    fake_turn();
    assert_int_equal(cut.calls, 0);
    fake_lose_box();
    assert_int_equal(cut.calls, 1);
    assert_int_equal(cut.err.code, ERR_UNAVAILABLE);
    assert_null(fake_row("cut"));
    assert_int_equal(fake_row("k")->reason, END_BOX_LOST);
    assert_log(p, LOG_STDOUT, "last");
    assert_int_equal(fake.sandbox.busy, 0);
    process_unref(p);
    fake_done();
}

// Somebody still holds a process of a sandbox that was destroyed, or left memory.
CHECK_CASE(held_longer_than_its_sandbox)
{
    fake_init(MIB);
    struct err err = {0};
    int counts[3] = {0};
    struct process *p = start("h", "echo; exec sleep 1000", NULL);
    struct process_watch *watch = process_watch(p, count_watch, counts);
    wait_size(p, LOG_STDOUT, 1);
    struct started cut = {0};
    struct process_request request = request_of("cut", SHELL("exec sleep 1000", NULL));
    fake.hold = true;
    process_start(&fake.sandbox, &request, on_start, &cut);
    processes_destroy(&fake.sandbox);
    assert_int_equal(cut.calls, 1);
    assert_int_equal(counts[2], 1);
    assert_int_equal(fake.sandbox.refs, 1);
    assert_int_equal(fake.n_rows, 0);
    assert_int_equal(fake_log_files(), 0);
    assert_int_equal(process_signal(p, SIGTERM, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_int_equal(process_stdin(p, "x", 1, false, &err), -1);
    assert_int_equal(process_delete(p, &err), -1);
    assert_log(p, LOG_STDOUT, "\n"); // it is open
    process_unref(p);
    process_watch_free(watch);
    fake_done();
}

CHECK_CASE(deadline_over_a_restart)
{
    fake_init(MIB);
    struct process_request request = request_of("t", SHELL("exec sleep 1000", NULL));
    request.exec.timeout_ms = 500000;
    process_unref(start_request(&request));
    assert_int_equal(fake.deadline, 500000);
    int64_t at = fake_row("t")->deadline_ms;
    assert_true(at > db_now_ms() + 400000 && at <= db_now_ms() + 500000);
    processes_forget(&fake.sandbox);
    fake_row("t")->deadline_ms -= 300000;
    processes_adopt(&fake.sandbox);
    assert_true(fake.deadline > 100000 && fake.deadline <= 200000);
    processes_forget(&fake.sandbox);
    fake_row("t")->deadline_ms = 1; // long ago
    processes_adopt(&fake.sandbox);
    assert_int_equal(fake.deadline, 1);
    fake_done();
}

CHECK_MAIN(cmocka_unit_test(from_start_to_end),
           cmocka_unit_test(nothing_lost_or_doubled_over_restarts),
           cmocka_unit_test(restarts_past_the_cap), cmocka_unit_test(ended_while_nobody_looked),
           cmocka_unit_test(children_write_on_after_its_end), cmocka_unit_test(flood_after_the_end),
           cmocka_unit_test(input), cmocka_unit_test(input_nobody_reads),
           cmocka_unit_test(input_over_a_restart), cmocka_unit_test(signals),
           cmocka_unit_test(deleting), cmocka_unit_test(watchers_that_free_and_delete),
           cmocka_unit_test(ids), cmocka_unit_test(starts_that_fail),
           cmocka_unit_test(end_that_cannot_be_stored), cmocka_unit_test(as_many_as_may_run),
           cmocka_unit_test(ended_ones_are_kept_and_the_oldest_go),
           cmocka_unit_test(rows_whose_process_is_gone), cmocka_unit_test(what_it_left_behind),
           cmocka_unit_test(box_lost), cmocka_unit_test(held_longer_than_its_sandbox),
           cmocka_unit_test(deadline_over_a_restart))
