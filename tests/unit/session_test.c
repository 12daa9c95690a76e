// SPDX-License-Identifier: Apache-2.0
// Sessions with a real bash: what a command may do to the shell without spoiling it for the next.
#include "session_kit.h"

struct row {
    const char *command;
    int code;
    const char *out;
    const char *err; // part of it; NULL: nothing at all
};

// Every row in one session, one after the other.
static void check_rows(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct kit_answer *a = kit_run(rows[i].command);
        if (a->end.reason != END_EXIT || a->end.exit_code != rows[i].code || a->terminated)
            fail_msg("'%s': reason %d, code %d%s; %s", rows[i].command, (int)a->end.reason,
                     a->end.exit_code, a->terminated ? ", terminated" : "", a->err);
        if (strcmp(a->out, rows[i].out) != 0)
            fail_msg("'%s': printed '%s', not '%s'", rows[i].command, a->out, rows[i].out);
        if (rows[i].err == NULL ? a->err[0] != '\0' : strstr(a->err, rows[i].err) == NULL)
            fail_msg("'%s': complains '%s'", rows[i].command, a->err);
    }
}

#define CHECK_ROWS(...)                                                                            \
    do {                                                                                           \
        const struct row checked[] = {__VA_ARGS__};                                                \
        check_rows(checked, sizeof checked / sizeof *checked);                                     \
    } while (0)

CHECK_CASE(it_remembers)
{
    kit_make("a", "/", NULL);
    CHECK_ROWS({"x=5; export y=6", 0, ""}, {"f() { echo f$x; }", 0, ""}, {"f", 0, "f5\n"},
               {"cd /usr/bin", 0, ""}, {"pwd", 0, "/usr/bin\n"}, {"sh -c 'echo $y'", 0, "6\n"},
               {"alias ll='echo alias'; shopt -s expand_aliases", 0, ""}, {"ll", 0, "alias\n"},
               {"declare -A m=([k]=v)", 0, ""}, {"echo ${m[k]}", 0, "v\n"}, {"false", 1, ""},
               {"echo $?", 0, "1\n"}, {"(exit 42)", 42, ""}, {"set -- a 'b c'", 0, ""},
               {"echo \"$#$2\"", 0, "2b c\n"}, {"printf 'no newline'", 0, "no newline"},
               {"", 0, ""}, {"# nothing", 0, ""}, {"echo out; echo err >&2", 0, "out\n", "err\n"},
               {"cat <<E\nhere\nE", 0, "here\n"}, {"read -r l; echo \"<$l>\"", 0, "<>\n"});
    assert_int_equal(kit.starts, 1);
    assert_string_equal(kit_row("a")->cwd, "/usr/bin");
}

CHECK_CASE(it_is_not_poisoned)
{
    kit_make("a", "/", NULL);
    CHECK_ROWS(
        {"echo \"unbalanced", 2, "", "unexpected EOF"}, {"echo $(", 2, "", "unexpected EOF"},
        {"if true; then", 2, "", "syntax error"}, {")", 2, "", "syntax error"},
        {"cat <<E\nno end", 0, "no end\n", "here-document"}, {"echo ok", 0, "ok\n"},
        {"exec >/dev/null; echo lost", 0, ""}, {"echo ok", 0, "ok\n"}, {"exec >&- 2>&- <&-", 0, ""},
        {"echo ok", 0, "ok\n"}, {"IFS=/; cd /usr", 0, ""}, {"pwd", 0, "/usr\n"},
        {"unset IFS", 0, ""},
        {"read() { :; }; printf() { :; }; eval() { :; }; echo() { builtin echo no; }", 0, ""},
        {"echo ok", 0, "no\n"}, {"unset -f read printf eval echo", 0, ""}, {"set -u", 0, ""},
        {"echo ok", 0, "ok\n"}, {"set +u; set -f; set -o noclobber", 0, ""}, {"echo *", 0, "*\n"},
        {"set -x", 0, ""}, {"echo ok", 0, "ok\n", "echo ok"}, {"set +x", 0, "", "set +x"},
        {"echo ok", 0, "ok\n"}, {"trap 'echo debug' DEBUG", 0, ""}, {"echo ok", 0, "debug\nok\n"},
        {"trap - DEBUG", 0, "debug\n"}, {"trap 'echo err' ERR", 0, ""}, {"false", 1, "err\n"},
        {"trap - ERR", 0, ""}, {"shopt -s extdebug nullglob failglob", 0, ""},
        {"echo ok", 0, "ok\n"}, {"shopt -u extdebug nullglob failglob", 0, ""},
        {"mkdir /tmp/gone.$$; cd /tmp/gone.$$; rmdir /tmp/gone.$$", 0, ""}, {"echo ok", 0, "ok\n"},
        {"cd /", 0, ""}, {"return 3 2>/dev/null; true", 0, ""}, {"LC_ALL=C; PATH=/nowhere", 0, ""},
        {"echo ok", 0, "ok\n"});
    assert_int_equal(kit.starts, 1);
}

// What ends a shell: another one goes on where it was.
CHECK_CASE(it_survives_its_shell)
{
    static const struct row deaths[] = {
        {"set -e; false; echo never", 1,  ""                           },
        {"set -eu; echo $nothing",    1,  "",                            "unbound variable"},
        {"echo ${nothing:?is missing}",                           127, "", "is missing"},
        {"break 9",               0,                 ""                                     },
        {"exec 60<&-",                         0,           ""},
        {"exec 62>&-; echo lost",                         0,                 "lost\n"                                },
        {"exec 63>&- 59<&-",                   0,     ""},
        {"set -o posix; eval '('",                         2,                       "",                                             "syntax error"},
        {"kill -TERM $$; echo never",                         143,""},
    };
    char path[64];
    kit_make("a", "/", NULL);
    for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++) {
        (void)kit_run("cd /usr; v=\"it's $ v\"; arr=(1 '2 3'); export e=exported; umask 027");
        (void)kit_run("f() { echo \"f:$v\"; }; trap 'echo usr1' USR1; set -- p 'q r'; set +eu");
        unsigned before = kit.starts;
        check_rows(&deaths[i], 1);
        CHECK_ROWS({"f", 0, "f:it's $ v\n"}, {"echo \"${arr[1]}\"", 0, "2 3\n"},
                   {"sh -c 'echo $e; pwd; umask'", 0, "exported\n/usr\n0027\n"},
                   {"kill -USR1 $$", 0, "usr1\n"}, {"echo \"$2\"", 0, "q r\n"},
                   {"false; echo still", 0, "still\n"}, {"set +o posix", 0, ""});
        assert_int_equal(kit.starts, before + 1);
    }
    (void)snprintf(path, sizeof path, "%s", kit_row("a")->cwd);
    assert_string_equal(path, "/usr");
}

// No word from the shell: a fresh one, where the last was.
CHECK_CASE(it_begins_again)
{
    kit_make("a", "/", "{\"given\": \"yes\"}");
    CHECK_ROWS({"cd /usr; x=1", 0, ""});
    const struct kit_answer *a = kit_run("exec 61>&-");
    assert_int_equal(a->end.reason, END_EXIT);
    CHECK_ROWS({"echo $x; pwd; echo $given", 0, "\n/usr\nyes\n"});
    a = kit_run("kill -KILL $$");
    assert_int_equal(a->end.reason, END_SIGNAL);
    assert_int_equal(a->end.signal, SIGKILL);
    CHECK_ROWS({"pwd", 0, "/usr\n"});
    a = kit_run("builtin() { :; }; echo x");
    assert_string_equal(a->out, "x\n");
    CHECK_ROWS({"pwd", 0, "/usr\n"});
    (void)kit_run("ulimit -n 10");
    (void)kit_run("echo");
    CHECK_ROWS({"pwd", 0, "/usr\n"});
}

CHECK_CASE(exit_is_told)
{
    static const struct {
        const char *command;
        int code;
        const char *out;
    } rows[] = {
        {"exit",                         0, ""      },
        {"echo last; exit 7",            7, "last\n"},
        {"false; exit",                  1, ""      },
        {"f() { exit 9; }; f",           9, ""      },
        {"trap 'echo bye' EXIT; exit 3", 3, "bye\n" },
        {"set -e; exit 4",               4, ""      },
        {"exec sh -c 'exit 5'",          5, ""      },
    };
    kit_make("a", "/usr", "{\"given\": \"yes\"}");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (i < 6)
            (void)kit_run("cd /tmp; given=no; x=1");
        const struct kit_answer *a = kit_run(rows[i].command);
        assert_true(a->terminated);
        assert_int_equal(a->end.reason, END_EXIT);
        assert_int_equal(a->end.exit_code, rows[i].code);
        assert_string_equal(a->out, rows[i].out);
        CHECK_ROWS({"pwd; echo $given$x", 0, "/usr\nyes\n"});
    }
    CHECK_ROWS({"(exit 3); echo $?; exit() { echo mine; }; exit", 0, "3\nmine\n"});
}

CHECK_CASE(for_one_command_only)
{
    kit_make("a", "/", NULL);
    (void)kit_run("export kept=1; plain=2; cd /usr");
    const struct session_request request = {
        .command = "echo \"$kept,$plain,$new,$PWD\"; sh -c 'echo \"$kept,$plain,$new\"'; cd /",
        .cwd = "/tmp",
        .env = "{\"kept\": \"it's\", \"plain\": \"a\\nb\", \"new\": \"$x\"}",
    };
    const struct kit_answer *a = kit_ask(&request);
    assert_string_equal(a->out, "it's,a\nb,$x,/tmp\nit's,a\nb,$x\n");
    CHECK_ROWS({"echo \"$kept,$plain,${new-unset},$PWD\"; sh -c 'echo \"$kept,$plain,$new\"'", 0,
                "1,2,unset,/usr\n1,,\n"});
    a = kit_ask(&(struct session_request){.command = "echo never", .cwd = "/no where"});
    assert_int_equal(a->end.exit_code, 1);
    assert_string_equal(a->out, "");
    assert_non_null(strstr(a->err, "/no where: No such file"));
    CHECK_ROWS({"pwd", 0, "/usr\n"});
    // Also when the shell does not outlive it.
    a = kit_ask(&(struct session_request){
        .command = "set -e; false", .cwd = "/tmp", .env = "{\"new\": \"1\"}"});
    assert_int_equal(a->end.exit_code, 1);
    CHECK_ROWS({"echo ${new-unset}; pwd", 0, "unset\n/usr\n"});
    struct err err = {0};
    const struct session_request bad = {.command = "echo", .env = "{\"a b\": \"1\"}"};
    struct kit_answer answer = {0};
    (void)kit_run(":");
    assert_null(session_exec(&kit.s, "a", &bad, on_answer, &answer, &err));
    assert_int_equal(err.code, ERR_INVALID);
    assert_false(answer.done);
    CHECK_ROWS({"echo ok", 0, "ok\n"});
}

CHECK_CASE(standard_input)
{
    static char bytes[200000];
    kit_make("a", "/", NULL);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7 + i / 251);
    static const size_t sizes[] = {0, 1, 255, 4096, 65536, sizeof bytes};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char want[32];
        const struct kit_answer *a = kit_ask(&(struct session_request){
            .command = "wc -c", .stdin_data = bytes, .stdin_len = sizes[i]});
        (void)snprintf(want, sizeof want, "%zu\n", sizes[i]);
        assert_string_equal(a->out, want);
    }
    const struct kit_answer *a = kit_ask(
        &(struct session_request){.command = "cat", .stdin_data = bytes, .stdin_len = 60000});
    assert_int_equal(a->out_len, 60000);
    assert_memory_equal(a->out, bytes, 60000);
    // Nobody reads it.
    a = kit_ask(&(struct session_request){
        .command = "echo ok", .stdin_data = bytes, .stdin_len = sizeof bytes});
    assert_string_equal(a->out, "ok\n");
    CHECK_ROWS({"cat; echo ok", 0, "ok\n"});
}

CHECK_CASE(long_commands_and_output)
{
    enum { LONG = 300000 };
    char *command = malloc(LONG + 64);
    assert_non_null(command);
    kit_make("a", "/", NULL);
    static const size_t lengths[] = {500, 511, 512, 513, 4095, 4096, 65536, LONG};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t n = lengths[i];
        char want[32];
        (void)snprintf(command, 64, "x='%s", "");
        memset(command + 3, '\'' - 1, n);
        (void)snprintf(command + n, 64, "';echo ${#x}\n\n");
        (void)snprintf(want, sizeof want, "%zu\n", n - 3);
        assert_string_equal(kit_run(command)->out, want);
    }
    free(command);
    const struct kit_answer *a = kit_run("head -c 20000000 /dev/zero");
    assert_true(a->truncated);
    assert_int_equal(a->out_len, EXEC_OUTPUT_MAX);
    a = kit_run("printf 'a\\0b\\377'");
    assert_int_equal(a->out_len, 4);
    assert_memory_equal(a->out, "a\0b\377", 4);
    assert_false(a->truncated);
}

CHECK_CASE(a_timeout_ends_the_command)
{
    static const char *const commands[] = {
        "sleep 1000; echo after",
        "while :; do :; done; echo after",
        "while :; do sleep 0.01; done",
        "echo $(sleep 1000); echo after",
        "sleep 1000 | cat; echo after",
        "(while :; do :; done); echo after",
        "sleep 1000 & wait; echo after",
        "trap '' TERM INT; sleep 1000; echo after",
        "trap 'echo trapped' TERM; while :; do sleep 1000; done",
        "read -r x < <(sleep 1000); echo after",
        "cat /dev/zero >/dev/null; echo after",
    };
    kit_make("a", "/", NULL);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char command[128];
        (void)kit_run("x=kept; cd /usr; sleep 1001 & job=$!");
        kit_sleep_ms(20);
        (void)snprintf(command, sizeof command, "printf before; %s", commands[i]);
        const struct kit_answer *a =
            kit_ask(&(struct session_request){.command = command, .timeout_ms = 200});
        assert_int_equal(a->end.reason, END_TIMEOUT);
        assert_int_equal(a->end.exit_code, -1);
        assert_false(a->terminated);
        if (strncmp(a->out, "before", 6) != 0 || strstr(a->out, "after") != NULL)
            fail_msg("'%s' printed '%s'", commands[i], a->out);
        int fresh = strstr(commands[i], "trap") != NULL; // it could not be asked
        if (fresh)
            CHECK_ROWS({"echo $x; pwd", 0, "\n/usr\n"});
        else
            CHECK_ROWS({"echo $x; pwd; kill -0 $job && kill $job && echo lives", 0,
                        "kept\n/usr\nlives\n"});
    }
}

CHECK_CASE(background_output_comes_with_the_next)
{
    kit_make("a", "/", NULL);
    CHECK_ROWS({"(sleep 0.1; echo late) & echo now", 0, "now\n"},
               {"wait; echo then", 0, "late\nthen\n"},
               {"yes > /dev/stdout & p=$!; sleep 0.05", 0, kit_run("kill $p; wait $p; echo")->out});
}

CHECK_CASE(commands_wait_for_each_other)
{
    enum { N = 20 };
    static struct kit_answer answers[N];
    struct session_command *c[N];
    struct err err = {0};
    memset(answers, 0, sizeof answers);
    kit_make("a", "/", NULL);
    for (int i = 0; i < N; i++) {
        char command[64];
        (void)snprintf(command, sizeof command, "n=${n}%d; sleep 0.01; echo $n", i % 10);
        c[i] = session_exec(&kit.s, "a", &(struct session_request){.command = command}, on_answer,
                            &answers[i], &err);
        assert_non_null(c[i]);
    }
    session_cancel(c[5]);
    session_cancel(c[N - 2]);
    kit_await(&answers[N - 1].done);
    assert_string_equal(answers[N - 1].out, "012346789012345679\n");
    assert_string_equal(answers[6].out, "012346\n");
    assert_false(answers[5].done || answers[N - 2].done);
    for (int i = 0; i < SESSION_QUEUE_MAX; i++)
        (void)session_exec(&kit.s, "a", &(struct session_request){.command = "sleep 1000"},
                           on_answer, &(struct kit_answer){0}, &err);
    assert_null(session_exec(&kit.s, "a", &(struct session_request){.command = ":"}, on_answer,
                             &answers[0], &err));
    assert_int_equal(err.code, ERR_EXHAUSTED);
    // The answers on the stack above are gone.
    while (kit.s.sessions->first->commands->next != NULL)
        session_cancel(kit.s.sessions->first->commands->next);
    session_cancel(kit.s.sessions->first->commands);
    CHECK_ROWS({"echo ok", 0, "ok\n"});
}

// --- output that is told as it comes

struct told {
    struct kit_answer answer; // first: on_answer takes it
    struct session_command *command;
    size_t len[LOG_STREAMS];
    uint32_t sum;      // of the standard output
    size_t pause_each; // bytes after which it is paused; 0: never
    size_t pauses;
    bool for_good; // it is not resumed
    uv_timer_t timer;
};

static void on_resume(uv_timer_t *timer)
{
    struct told *told = timer->data;
    if (!told->answer.done) // else the command is gone
        session_pause(told->command, false);
}

static void on_told(void *data, enum log_stream stream, const char *bytes, size_t len)
{
    struct told *told = data;
    told->len[stream] += len;
    for (size_t i = 0; stream == LOG_STDOUT && i < len; i++)
        told->sum = told->sum * 31 + (unsigned char)bytes[i];
    if (told->pause_each == 0 || told->len[LOG_STDOUT] / told->pause_each <= told->pauses)
        return;
    told->pauses++;
    session_pause(told->command, true);
    if (!told->for_good)
        (void)uv_timer_start(&told->timer, on_resume, 1, 0);
}

static void ask_told(struct told *told, const char *command, int64_t timeout_ms)
{
    struct err err = {0};
    size_t pause_each = told->pause_each;
    bool for_good = told->for_good;
    memset(told, 0, sizeof *told);
    told->pause_each = pause_each;
    told->for_good = for_good;
    (void)uv_timer_init(&kit.loop, &told->timer);
    told->timer.data = told;
    told->command = session_exec(
        &kit.s, "a",
        &(struct session_request){.command = command, .output = on_told, .timeout_ms = timeout_ms},
        on_answer, told, &err);
    assert_non_null(told->command);
}

static void told_done(struct told *told)
{
    uv_close((uv_handle_t *)&told->timer, NULL);
    (void)uv_run(&kit.loop, UV_RUN_NOWAIT);
}

// More than is ever kept of collected output, through pauses, with the next command behind it.
CHECK_CASE(output_is_told)
{
    enum { BYTES = 20000000 };
    static struct told told, again;
    kit_make("a", "/", NULL);
    told.pause_each = 1024 * 1024;
    ask_told(&told,
             "head -c 20000000 /dev/zero | tr '\\0' x; echo e >&2; exit_code() { return 3; }; "
             "exit_code",
             0);
    ask_told(&again, "printf abc", 0);
    kit_await(&told.answer.done);
    assert_int_equal(told.len[LOG_STDOUT], BYTES);
    assert_int_equal(told.len[LOG_STDERR], 2);
    assert_int_equal(told.answer.out_len, 0);
    assert_false(told.answer.truncated);
    assert_int_equal(told.answer.end.exit_code, 3);
    assert_true(told.pauses > 10);
    kit_await(&again.answer.done);
    assert_int_equal(again.len[LOG_STDOUT], 3);
    assert_int_equal(again.sum, ('a' * 31 + 'b') * 31 + 'c');
    told_done(&told);
    told_done(&again);
    CHECK_ROWS({"echo ok", 0, "ok\n"});
}

// One that is paused for good ends at its deadline, and when nobody waits for it.
CHECK_CASE(paused_output_ends)
{
    static struct told told;
    kit_make("a", "/", NULL);
    (void)kit_run("x=kept");
    told.pause_each = 1;
    told.for_good = true;
    ask_told(&told, "yes", 300);
    kit_await(&told.answer.done);
    assert_int_equal(told.answer.end.reason, END_TIMEOUT);
    told_done(&told);
    CHECK_ROWS({"echo $x", 0, "kept\n"});
    ask_told(&told, "yes", 0);
    while (told.pauses == 0)
        (void)uv_run(&kit.loop, UV_RUN_ONCE);
    session_cancel(told.command);
    size_t before = told.len[LOG_STDOUT];
    CHECK_ROWS({"echo $x", 0, "kept\n"});
    assert_int_equal(told.len[LOG_STDOUT], before);
    assert_false(told.answer.done);
    told_done(&told);
}

CHECK_CASE(several_sessions)
{
    static struct kit_answer slow, quick;
    struct err err = {0};
    memset(&slow, 0, sizeof slow);
    memset(&quick, 0, sizeof quick);
    kit_make("a", "/", NULL);
    kit_make("b", "/usr", NULL);
    assert_non_null(session_exec(&kit.s, "a", &(struct session_request){.command = "sleep 1000"},
                                 on_answer, &slow, &err));
    assert_non_null(session_exec(&kit.s, "b", &(struct session_request){.command = "pwd"},
                                 on_answer, &quick, &err));
    kit_await(&quick.done);
    assert_false(slow.done);
    assert_string_equal(quick.out, "/usr\n");
    assert_int_equal(session_delete(&kit.s, "a", &err), 0);
    assert_true(slow.done);
    assert_int_equal(slow.end.reason, END_KILLED);
    assert_int_equal(session_delete(&kit.s, "a", &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_null(session_exec(&kit.s, "a", &(struct session_request){.command = "pwd"}, on_answer,
                             &quick, &err));
    assert_int_equal(err.code, ERR_NOT_FOUND);
}

CHECK_CASE(rows)
{
    struct session_row row = {0};
    struct err err = {0};
    kit_make("a", NULL, NULL);
    assert_string_equal(kit_row("a")->cwd, "/workspace");
    assert_int_equal(session_create(&kit.s, "a", NULL, NULL, &row, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_int_equal(session_create(&kit.s, "b", NULL, "{\"x\": 1}", &row, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_null(row.id);
    assert_int_equal(session_create(&kit.s, NULL, "/x", "{}", &row, &err), 0);
    assert_string_equal(row.id, "session-made");
    session_row_done(&row);
    for (int i = 2; i < SESSIONS_MAX; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "n%d", i);
        kit_make(id, NULL, NULL);
    }
    assert_int_equal(session_create(&kit.s, "more", NULL, NULL, &row, &err), -1);
    assert_int_equal(err.code, ERR_EXHAUSTED);
    assert_int_equal(kit.starts, 0);
}

CHECK_CASE(no_bash)
{
    kit_make("a", "/", NULL);
    kit.no_bash = true;
    const struct kit_answer *a = kit_run("echo");
    assert_int_equal(a->failure.code, ERR_UNSUPPORTED);
    kit.no_bash = false;
    CHECK_ROWS({"echo ok", 0, "ok\n"});
}

static void on_saved(void *data)
{
    *(bool *)data = true;
}

CHECK_CASE(it_is_saved)
{
    bool saved = false;
    sessions_save(&kit.s, on_saved, &saved);
    assert_true(saved);
    kit_make("a", "/", "{\"given\": \"1\"}");
    (void)kit_run("cd /usr; export new=\"it's\n\\\"2\\\"\"; given=3; plain=4; export -n LANG");
    saved = false;
    sessions_save(&kit.s, on_saved, &saved);
    kit_await(&saved);
    sessions_forget(&kit.s); // it sleeps
    assert_string_equal(kit_row("a")->cwd, "/usr");
    assert_string_equal(kit_row("a")->env, "{\"given\":\"3\",\"new\":\"it's\\n\\\"2\\\"\"}");
    CHECK_ROWS({"echo \"$new,$given,$plain,$PWD\"", 0, "it's\n\"2\",3,,/usr\n"});
    // One that does not answer is not waited for.
    struct err err = {0};
    struct kit_answer answer = {0};
    assert_int_equal(kill(kit.jobs->pid, SIGSTOP), 0);
    saved = false;
    sessions_save(&kit.s, on_saved, &saved);
    kit_await(&saved);
    assert_non_null(session_exec(&kit.s, "a", &(struct session_request){.command = "sleep 1000"},
                                 on_answer, &answer, &err));
    sessions_forget(&kit.s);
    assert_int_equal(answer.failure.code, ERR_UNAVAILABLE);
}

// The daemon's memory is gone; the shell, its pipes and the row are there.
static void die(void)
{
    struct session *session = kit.s.sessions->first;
    struct shell *shell = session->shell;
    struct job *job = kit.jobs;
    kit.jobs = NULL; // what is let go of is not the job
    struct job copy = *job;
    *job = (struct job){
        .state = JOB_ENDED, .streams = {-1, -1, -1, -1, -1}
    };
    struct job *kept = malloc(sizeof *kept);
    assert_non_null(kept);
    (void)shell;
    sessions_forget(&kit.s);
    *kept = copy;
    kept->next = NULL;
    kit.jobs = kept;
    (void)uv_run(&kit.loop, UV_RUN_NOWAIT);
}

CHECK_CASE(the_next_daemon_goes_on)
{
    struct err err = {0};
    static struct kit_answer lost;
    memset(&lost, 0, sizeof lost);
    kit_make("a", "/", NULL);
    (void)kit_run("x=kept; cd /usr");
    assert_int_equal(kit_row("a")->box, 7);
    die();
    sessions_adopt(&kit.s);
    CHECK_ROWS({"echo $x; pwd", 0, "kept\n/usr\n"});
    // In the middle of a command, whose result is nobody's.
    assert_non_null(session_exec(&kit.s, "a",
                                 &(struct session_request){.command = "echo old; sleep 0.2; y=set"},
                                 on_answer, &lost, &err));
    kit_sleep_ms(50);
    die();
    sessions_adopt(&kit.s);
    CHECK_ROWS({"echo $x$y", 0, "keptset\n"});
    assert_int_equal(kit.starts, 1);
    // One that would never end.
    memset(&lost, 0, sizeof lost);
    assert_non_null(session_exec(&kit.s, "a", &(struct session_request){.command = "sleep 1000"},
                                 on_answer, &lost, &err));
    kit_sleep_ms(50);
    die();
    sessions_adopt(&kit.s);
    const struct kit_answer *a =
        kit_ask(&(struct session_request){.command = "echo no", .timeout_ms = 100});
    assert_int_equal(a->end.reason, END_TIMEOUT);
    CHECK_ROWS({"echo $x", 0, "kept\n"});
    // A shell that is gone.
    kit_row("a")->exec = 4711;
    sessions_forget(&kit.s);
    sessions_adopt(&kit.s);
    CHECK_ROWS({"pwd", 0, "/usr\n"});
}

CHECK_CASE(records)
{
    static const struct {
        const char *text;
        int r;
        char type;
        uint32_t seq;
        int64_t number;
        const char *rest;
    } rows_[] = {
        {"R 1 0 /",                       0,  'R', 1,          0,     "/"   },
        {"R 4294967295 255 ",             0,  'R', UINT32_MAX, 255,   ""    },
        {"T 5 1 /a b",                    0,  'T', 5,          1,     "/a b"},
        {"M 7 32767",                     0,  'M', 7,          32767, ""    },
        {"X 3",                           0,  'X', 3,          0,     ""    },
        {"E 3",                           0,  'E', 3,          0,     ""    },
        {"",                              -1, 0,   0,          0,     NULL  },
        {"R",                             -1, 0,   0,          0,     NULL  },
        {"R 1",                           -1, 0,   0,          0,     NULL  },
        {"R 1 0",                         -1, 0,   0,          0,     NULL  },
        {"R 1 256 /",                     -1, 0,   0,          0,     NULL  },
        {"R -1 0 /",                      -1, 0,   0,          0,     NULL  },
        {"R 4294967296 0 /",              -1, 0,   0,          0,     NULL  },
        {"R  1 0 /",                      -1, 0,   0,          0,     NULL  },
        {"X 3 ",                          -1, 0,   0,          0,     NULL  },
        {"M 1 99999999999",               -1, 0,   0,          0,     NULL  },
        {"Q 1 0 /",                       -1, 0,   0,          0,     NULL  },
        {"R 99999999999999999999999 0 /", -1, 0,   0,          0,     NULL  },
    };
    for (size_t i = 0; i < sizeof rows_ / sizeof *rows_; i++) {
        struct script_record record = {0};
        assert_int_equal(script_parse(rows_[i].text, &record), rows_[i].r);
        if (rows_[i].r < 0)
            continue;
        assert_int_equal(record.type, rows_[i].type);
        assert_int_equal(record.seq, rows_[i].seq);
        assert_int_equal(record.number, rows_[i].number);
        assert_string_equal(record.text, rows_[i].rest);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, kit_begin, kit_end)
CHECK_MAIN(CASE(it_remembers), CASE(it_is_not_poisoned), CASE(it_survives_its_shell),
           CASE(it_begins_again), CASE(exit_is_told), CASE(for_one_command_only),
           CASE(standard_input), CASE(long_commands_and_output), CASE(a_timeout_ends_the_command),
           CASE(background_output_comes_with_the_next), CASE(commands_wait_for_each_other),
           CASE(output_is_told), CASE(paused_output_ends), CASE(several_sessions), CASE(rows),
           CASE(no_bash), CASE(it_is_saved), CASE(the_next_daemon_goes_on), CASE(records))
