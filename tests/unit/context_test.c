// SPDX-License-Identifier: Apache-2.0
// Contexts and cells, with a kernel whose words the case itself chooses.
#include "context_kit.h"

static struct context *find(const char *id)
{
    struct err err = {0};
    return context_find(&kit.s, id, &err);
}

static struct context_info info(const char *id)
{
    struct context_info ret;
    struct context *c = find(id);
    assert_non_null(c);
    context_info(c, &ret);
    return ret;
}

#define CHECK_END(run, expected_reason, expected_died)                                             \
    do {                                                                                           \
        assert_true(cell_has_ended((run)->cell));                                                  \
        assert_string_equal(cell_end((run)->cell)->reason, expected_reason);                       \
        assert_int_equal(cell_end((run)->cell)->context_died, expected_died);                      \
    } while (0)

// --- the ordinary way

CHECK_CASE(the_first_cell_needs_one_round)
{
    struct kit_run *run = kit_cell(NULL, "1+1", 0);
    assert_false(run->told);
    const char *heard = kit_heard(0);
    assert_string_equal(heard + strlen(heard) - strlen("|run 1 1+1|"), "|run 1 1+1|");
    assert_non_null(strstr(heard, "boot 0 source|open 0 python /workspace "));
    assert_int_equal(info("default-python").status, CONTEXT_STARTING);
    kit_open(0);
    assert_true(run->told);
    assert_int_equal(info("default-python").status, CONTEXT_BUSY);
    assert_string_equal(info("default-python").cell, "default-python-1");
    kit_print(0, "hello\n");
    kit_say(0, "result", 1, "{\"text\":\"2\"}");
    kit_finish(0, 1, 1);
    KIT_EVENTS(run, "o(hello\n)r({\"text\":\"2\"}).");
    CHECK_END(run, "done", false);
    assert_true(cell_end(run->cell)->success);
    assert_int_equal(cell_end(run->cell)->count, 1);
    assert_true(cell_end(run->cell)->duration_ns > 0);
    assert_true(run->news > 0);
    assert_int_equal(info("default-python").status, CONTEXT_IDLE);
    assert_int_equal(info("default-python").count, 1);
    assert_int_equal(kit.s.busy, 0);
    assert_non_null(kit_row("default-python")); // after the answer
    assert_int_equal(kit_row("default-python")->exec, 1);
    kit_done(run);

    unsigned writes = kit.writes; // a quick cell costs no row
    run = kit_cell(NULL, "x", 0);
    assert_true(run->told);
    assert_string_equal(kit_heard(0), "run 2 x|");
    kit_finish(0, 2, 2);
    KIT_EVENTS(run, ".");
    assert_int_equal(kit.writes, writes);
    kit_done(run);
}

CHECK_CASE(all_said_at_once_is_in_order)
{
    struct kit_run *run = kit_cell(NULL, "x", 0);
    (void)kit_heard(0);
    kit_print(0, "before");
    kit_say_to(kit.kernels[0].err, "error", 5);
    // Everything before the daemon's next turn.
    static const char frames[] = "ready 0 2\n{}opened 0 2\n{}result 1 12\n{\"text\":\"a\"}done 1 11"
                                 "\n{\"count\":1}";
    assert_int_equal(write(kit.kernels[0].control, frames, sizeof frames - 1), sizeof frames - 1);
    KIT_AWAIT(run->told && cell_has_ended(run->cell));
    KIT_EVENTS(run, "o(before)e(error)r({\"text\":\"a\"}).");
    kit_done(run);
}

CHECK_CASE(displays_are_acknowledged_behind_output)
{
    struct kit_run *run = kit_cell(NULL, "x", 0);
    kit_open(0);
    (void)kit_heard(0);
    kit_print(0, "one");
    kit_say(0, "display", 1, "{\"text\":\"two\"}");
    assert_string_equal(kit_heard(0), "ack 1 |");
    kit_print(0, "three");
    kit_say(0, "display", 1, "{\"png\":\"aGk=\"}");
    assert_string_equal(kit_heard(0), "ack 1 |");
    kit_finish(0, 1, 1);
    KIT_EVENTS(run, "o(one)d({\"text\":\"two\"})o(three)d({\"png\":\"aGk=\"}).");
    kit_done(run);
}

CHECK_CASE(output_is_live_and_grows_until_it_is_read)
{
    struct kit_run *run = kit_cell(NULL, "x", 0);
    kit_open(0);
    kit_print(0, "a");
    KIT_AWAIT(run->news == 1);
    kit_print(0, "b");
    KIT_AWAIT(run->news == 2);
    KIT_EVENTS(run, "o(ab)");
    kit_print(0, "c");
    KIT_AWAIT(run->news == 3);
    KIT_EVENTS(run, "o(ab)o(c)");
    kit_finish(0, 1, 1);
    KIT_EVENTS(run, "o(ab)o(c).");
    kit_done(run);
}

CHECK_CASE(what_is_written_between_cells_is_the_next_ones)
{
    struct kit_run *run = kit_cell(NULL, "x", 0);
    kit_open(0);
    kit_finish(0, 1, 1);
    kit_done(run);
    kit_print(0, "late");
    for (int i = 0; i < 40; i++) { // far more than is kept, and than a pipe holds
        char many[8192];
        memset(many, 'm', sizeof many);
        kit_say_to(kit.kernels[0].err, many, sizeof many);
    }
    KIT_AWAIT(find("default-python")->idle_err.len == CELL_IDLE_MAX);
    run = kit_cell(NULL, "y", 0);
    kit_print(0, "!");
    kit_finish(0, 2, 2);
    assert_memory_equal(kit_events(run), "o(late)e(mmm", 12);
    struct cell_event event;
    struct err err = {0};
    assert_int_equal(cell_event(run->cell, 1, &event, &err), 1);
    assert_int_equal(event.len, CELL_IDLE_MAX);
    kit_done(run);
}

CHECK_CASE(cells_wait_for_each_other)
{
    struct kit_run *runs[CELL_QUEUE_MAX + 3];
    (void)kit_create("a", "python");
    (void)kit_heard(0);
    for (int i = 0; i < CELL_QUEUE_MAX + 3; i++)
        runs[i] = kit_cell("a", "code", 0);
    assert_int_equal(runs[CELL_QUEUE_MAX + 1]->err.code, ERR_EXHAUSTED);
    assert_int_equal(runs[CELL_QUEUE_MAX + 2]->err.code, ERR_EXHAUSTED);
    assert_int_equal(info("a").queued, CELL_QUEUE_MAX);
    assert_string_equal(kit_heard(0), "run 1 code|");
    cell_cancel(runs[1]->cell);
    CHECK_END(runs[1], "killed", false);
    assert_int_equal(cell_end(runs[1]->cell)->count, 0);
    kit_finish(0, 1, 1);
    assert_string_equal(kit_heard(0), "run 3 code|");
    assert_int_equal(context_delete(find("a"), &runs[0]->err), 0);
    CHECK_END(runs[2], "killed", true);
    CHECK_END(runs[CELL_QUEUE_MAX], "killed", true);
    assert_true(kit.kernels[0].killed);
    assert_int_equal(kit.s.contexts->asked, 0);
    assert_null(kit_row("a"));
    for (int i = 0; i < CELL_QUEUE_MAX + 3; i++)
        kit_done(runs[i]);
    assert_int_equal(kit.s.contexts->bytes, 0);
    assert_int_equal(kit.s.contexts->memory, 0);
}

// --- beginnings that fail

CHECK_CASE(a_fork_that_does_not_fit_is_replaced)
{
    kit.forked = true;
    struct kit_run *run = kit_cell(NULL, "x", 0);
    assert_null(strstr(kit_heard(0), "boot"));
    kit_say(0, "ready", 0, "{}");
    kit_say(0, "unfit", 0, "{\"message\":\"its own numpy\"}");
    kit_turns();
    assert_int_equal(kit.n, 2);
    assert_true(kit.kernels[1].asked.ordinary);
    assert_non_null(strstr(kit_heard(1), "|run 1 x|"));
    kit_open(1);
    kit_finish(1, 1, 1);
    CHECK_END(run, "done", false);
    kit_done(run);
}

CHECK_CASE(a_fork_that_cannot_be_had_is_replaced)
{
    struct err err = {.code = ERR_UNAVAILABLE, .msg = "no zygote"};
    kit.forked = kit.waits = true;
    struct kit_run *run = kit_cell(NULL, "x", 0);
    struct job *job = kit.kernels[0].job;
    job->state = JOB_ENDED;
    job->events->failed(job->data, &err);
    kit_turns();
    assert_int_equal(kit.n, 2);
    job = kit.kernels[1].job;
    (void)err_sys(&err, ENOENT, "start it");
    job->state = JOB_ENDED;
    job->events->failed(job->data, &err);
    assert_int_equal(run->err.code, ERR_UNSUPPORTED);
    assert_string_equal(run->err.msg, "add python");
    assert_null(find("default-python"));
    kit_done(run);
}

CHECK_CASE(one_that_fails_is_told_and_forgotten)
{
    struct kit_made made = {0};
    struct context_settings settings = {
        .id = "a", .language = language_find("python"), .cwd = "/no"};
    context_create(&kit.s, &settings, on_made, &made);
    struct kit_run *run = kit_cell("a", "x", 0); // while it begins
    assert_false(run->told);
    kit_say(0, "failed", 0, "{\"message\":\"no directory \\\"/no\\\"\"}");
    KIT_AWAIT(made.told);
    assert_int_equal(made.err.code, ERR_INVALID);
    assert_string_equal(made.err.msg, "no directory \"/no\"");
    assert_int_equal(run->err.code, ERR_INVALID);
    assert_null(find("a"));
    assert_null(kit_row("a"));
    assert_int_equal(kit.s.busy, 0);
    kit_done(run);
}

CHECK_CASE(one_that_ends_too_early_says_why)
{
    struct kit_run *run = kit_cell(NULL, "x", 0);
    kit_say_to(kit.kernels[0].err, "no module\n", 10);
    kit_exit(0, (struct job_end){.reason = END_EXIT, .exit_code = 1});
    assert_true(run->told);
    assert_non_null(strstr(run->err.msg, "exit code 1"));
    assert_non_null(strstr(run->err.msg, "no module"));
    kit_done(run);
}

CHECK_CASE(a_row_that_cannot_be_stored_fails_it)
{
    kit.rows_fail = true;
    assert_int_equal(kit_create("a", "python").err.code, ERR_EXHAUSTED);
    assert_null(find("a"));
    assert_true(kit.kernels[0].killed);
    kit.rows_fail = false;
}

CHECK_CASE(what_is_refused)
{
    struct kit_made made;
    assert_non_null(kit_create("a", "python").c);
    made = kit_create("a", "python");
    assert_int_equal(made.err.code, ERR_CONFLICT);
    made = kit_create("default-python", "python");
    assert_int_equal(made.err.code, ERR_INVALID);
    made = kit_create("/", "python");
    assert_int_equal(made.err.code, ERR_INVALID);
    made = kit_create("b", "c");
    assert_int_equal(made.err.code, ERR_INVALID);
    struct kit_run *run = kit_cell("nobody", "x", 0);
    assert_int_equal(run->err.code, ERR_NOT_FOUND);
    kit_done(run);
    run = kit_cell("a", "\xff", 0);
    assert_int_equal(run->err.code, ERR_INVALID);
    kit_done(run);
    struct err err = {0};
    assert_int_equal(context_interrupt(find("a"), &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_null(cell_find(&kit.s, "a-1", &err));
    for (int i = 1; i < CONTEXTS_MAX; i++)
        assert_non_null(kit_create(NULL, "python").c);
    made = kit_create("more", "python");
    assert_int_equal(made.err.code, ERR_EXHAUSTED);
}

CHECK_CASE(typescript_gets_its_tool)
{
    struct kit_made made = {0};
    struct context_settings settings = {.id = "t", .language = language_find("typescript")};
    context_create(&kit.s, &settings, on_made, &made);
    assert_string_equal(kit_heard(0), "boot 0 source|");
    kit_say(0, "ready", 0, "{\"stripsTypes\":false}");
    assert_memory_equal(kit_heard(0), "tool 0 strip|open 0 typescript ", 31);
    kit_say(0, "opened", 0, "{}");
    KIT_AWAIT(made.told);
    assert_non_null(made.c);

    made = (struct kit_made){0};
    settings.id = "u";
    context_create(&kit.s, &settings, on_made, &made);
    (void)kit_heard(1);
    kit_say(1, "ready", 0, "{\"stripsTypes\":true}");
    assert_memory_equal(kit_heard(1), "open 0 typescript ", 18);
    kit_say(1, "opened", 0, "{}");
    KIT_AWAIT(made.told);

    kit.no_tool = true;
    made = (struct kit_made){0};
    settings.id = "v";
    context_create(&kit.s, &settings, on_made, &made);
    kit_say(2, "ready", 0, "{\"stripsTypes\":false}");
    KIT_AWAIT(made.told);
    assert_int_equal(made.err.code, ERR_UNSUPPORTED);
}

// --- ends

CHECK_CASE(errors_are_complete)
{
    struct kit_run *run = kit_cell(NULL, "x", 0);
    kit_open(0);
    kit_say(0, "error", 1, "{\"name\":\"E\",\"traceback\":[1],\"lineNumber\":3,\"more\":{}}");
    kit_finish(0, 1, 1);
    KIT_EVENTS(run, "x({\"name\":\"E\",\"message\":\"\",\"traceback\":[],\"lineNumber\":3}).");
    CHECK_END(run, "error", false);
    assert_false(cell_end(run->cell)->success);
    kit_done(run);
}

CHECK_CASE(a_timeout_interrupts)
{
    struct kit_run *run = kit_cell(NULL, "x", 30);
    kit_open(0);
    KIT_AWAIT(kit.kernels[0].interrupts == 1);
    kit_say(0, "error", 1, "{\"name\":\"KeyboardInterrupt\",\"traceback\":[\"a\"]}");
    kit_finish(0, 1, 1);
    KIT_EVENTS(run,
               "x({\"name\":\"TimeoutError\",\"message\":\"the cell ran for longer than 30 ms\","
               "\"traceback\":[\"a\"],\"lineNumber\":null}).");
    CHECK_END(run, "timeout", false);
    kit_done(run);
    run = kit_cell(NULL, "y", 0);
    kit_finish(0, 2, 2);
    CHECK_END(run, "done", false);
    kit_done(run);
}

CHECK_CASE(a_timeout_kills_what_does_not_listen)
{
    struct kit_run *run = kit_cell(NULL, "x", 30);
    struct kit_run *next = kit_cell(NULL, "y", 30);
    kit_open(0);
    KIT_AWAIT(kit.kernels[0].interrupts == 1);
    kit_print(0, "last words");
    KIT_AWAIT(kit.kernels[0].killed);
    CHECK_END(run, "timeout", true);
    KIT_EVENTS(run, "o(last words).");
    assert_non_null(strstr(cell_end(run->cell)->err.msg, "ran out of time"));
    CHECK_END(next, "killed", true);
    assert_int_equal(info("default-python").status, CONTEXT_DEAD);
    assert_int_equal(info("default-python").end, END_TIMEOUT);
    assert_string_equal(kit_row("default-python")->end, "timeout");
    kit_done(run);
    kit_done(next);
    run = kit_cell(NULL, "z", 0); // begins anew, and its number was never used
    assert_int_equal(kit.n, 2);
    kit_open(1);
    assert_string_equal(cell_id(run->cell), "default-python-3");
    kit_finish(1, 3, 1);
    CHECK_END(run, "done", false);
    assert_string_equal(kit_row("default-python")->end, "");
    assert_int_equal(kit_row("default-python")->exec, 2);
    kit_done(run);
}

CHECK_CASE(an_interrupt_may_be_ignored)
{
    struct err err = {0};
    (void)kit_create("a", "python");
    struct kit_run *run = kit_cell("a", "x", 0);
    assert_int_equal(context_interrupt(find("a"), &err), 0);
    assert_int_equal(kit.kernels[0].interrupts, 0); // it may not have taken it up yet
    KIT_AWAIT(kit.kernels[0].interrupts == 1);
    (void)kit_heard(0);
    struct kit_run *next = kit_cell("a", "y", 0);
    kit_finish(0, 1, 1); // it has caught it
    CHECK_END(run, "done", false);
    assert_false(kit.kernels[0].killed);
    // The signal may still be on its way: the next one waits a moment.
    assert_int_equal(next->cell->state, CELL_WAITING);
    KIT_AWAIT(next->cell->state == CELL_RUNNING);
    assert_int_equal(context_interrupt(find("a"), &err), 0);
    kit_say(0, "error", 2, "{\"name\":\"KeyboardInterrupt\"}");
    kit_finish(0, 2, 2);
    CHECK_END(next, "interrupted", false);
    kit_done(run);
    kit_done(next);
}

CHECK_CASE(a_cancelled_cell_is_killed_in_the_end)
{
    (void)kit_create("a", "python");
    struct kit_run *run = kit_cell("a", "x", 0);
    cell_cancel(run->cell);
    cell_cancel(run->cell);
    KIT_AWAIT(kit.kernels[0].killed);
    assert_int_equal(kit.kernels[0].interrupts, 2); // it is asked twice
    CHECK_END(run, "killed", true);
    kit_done(run);
    run = kit_cell("a", "x", 0);
    assert_int_equal(run->err.code, ERR_CONFLICT);
    assert_non_null(strstr(run->err.msg, "contexts/a/restart"));
    kit_done(run);
    struct kit_made made = {0};
    context_restart(find("a"), on_made, &made);
    kit_open(1);
    assert_true(made.told && made.c != NULL);
    assert_int_equal(info("a").status, CONTEXT_IDLE);
}

CHECK_CASE(a_cell_is_cancelled_before_its_client_has_heard_of_it)
{
    struct err err = {0};
    struct kit_run *run = kit_cell(NULL, "x", 0), *next = kit_cell(NULL, "y", 0);
    cell_cancel(cell_find(&kit.s, "default-python-2", &err));
    assert_true(next->told);
    CHECK_END(next, "killed", false);
    kit_open(0);
    kit_finish(0, 1, 1);
    CHECK_END(run, "done", false);
    assert_int_equal(info("default-python").queued, 0);
    kit_done(run);
    kit_done(next);
}

CHECK_CASE(single_cells_that_wait_can_be_cancelled)
{
    struct err err = {0};
    struct kit_run *runs[ONCE_MAX + 2];
    for (int i = 0; i < ONCE_MAX + 2; i++)
        runs[i] = kit_cell("c", "int main;", 0);
    assert_int_equal(kit.s.contexts->n_once, ONCE_MAX + 2);
    const struct context *waits = kit.s.contexts->once;
    while (waits->link != NULL)
        waits = waits->next;
    cell_cancel(cell_find(&kit.s, waits->row.id, &err));
    assert_int_equal(kit.s.contexts->n_once, ONCE_MAX + 1);
    CHECK_END(runs[ONCE_MAX], "killed", false);
    kit_open(0);
    kit_finish(0, 1, 1);
    assert_int_equal(kit.n, ONCE_MAX + 1); // the one behind it has its turn
    kit_lose(STATE_STOPPING, END_KILLED);
    for (int i = 0; i < ONCE_MAX + 2; i++)
        kit_done(runs[i]);
}

CHECK_CASE(a_restart_ends_what_ran)
{
    struct kit_made made = {0}, second = {0};
    (void)kit_create("a", "python");
    struct kit_run *run = kit_cell("a", "x", 0), *next = kit_cell("a", "y", 0);
    context_restart(find("a"), on_made, &made);
    CHECK_END(run, "killed", true);
    CHECK_END(next, "killed", true);
    assert_int_equal(cell_end(next->cell)->count, 0);
    context_restart(find("a"), on_made, &second);
    assert_int_equal(second.err.code, ERR_CONFLICT);
    kit_open(1);
    assert_non_null(made.c);
    kit_done(run);
    kit_done(next);
}

CHECK_CASE(how_kernels_end)
{
    static const struct {
        struct job_end end;
        const char *reason, *detail;
    } rows[] = {
        {{.reason = END_EXIT, .exit_code = 3},                  "exit",   "exit code 3"},
        {{.reason = END_SIGNAL, .exit_code = -1, .signal = 11}, "signal", "signal 11"  },
        {{.reason = END_OOM, .exit_code = -1, .signal = 9},     "oom",    "oom"        },
        {{.reason = END_KILLED, .exit_code = -1, .signal = 9},  "killed", "killed"     },
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kit_run *run = kit_cell(NULL, "x", 0);
        kit_open(i);
        assert_int_equal(write(kit.kernels[i].out, "bye", 3), 3);
        kit_exit(i, rows[i].end);
        CHECK_END(run, rows[i].reason, true);
        KIT_EVENTS(run, "o(bye).");
        assert_int_equal(info("default-python").end, rows[i].end.reason);
        assert_string_equal(info("default-python").end_detail, rows[i].detail);
        kit_done(run);
    }
}

CHECK_CASE(a_kernel_that_ends_right_after_its_cell)
{
    struct kit_run *run = kit_cell(NULL, "x", 0);
    kit_open(0);
    static const char last[] = "done 1 11\n{\"count\":1}";
    assert_int_equal(write(kit.kernels[0].control, last, sizeof last - 1), sizeof last - 1);
    kit_exit(0, (struct job_end){.reason = END_EXIT});
    CHECK_END(run, "done", false);
    assert_int_equal(info("default-python").status, CONTEXT_DEAD);
    kit_done(run);
}

// --- a kernel that lies

CHECK_CASE(what_breaks_the_protocol)
{
    static const char *const lies[] = {
        "nonsense", // never a whole header: more follows
        "DONE 1 2\n{}",
        "done 01 2\n{}",
        "done 1 99999999999\n",
        "done 1 33554433\n",
        "opened 0 2\n{}",
        "failed 0 2\n{}",
        "ready 0 2\n{}",
        "hello 1 2\n{}",
        "done 1 2\n{}",
        "done 1 11\n{\"count\":0}",
        "done 1 12\n{\"count\":-1}",
        "result 1 1\n{",
        "result 1 2\n[]",
        "result 1 12\n{\"text\":\"\xff\"}",
        "display 1 0\n",
        "error 1 4\nnull",
        "error 1 2\n{}error 1 2\n{}",
    };
    static const char filler[128] = "";
    for (unsigned i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct kit_run *run = kit_cell(NULL, "x", 0);
        kit_open(i);
        ssize_t n = write(kit.kernels[i].control, lies[i], strlen(lies[i]));
        assert_int_equal(n, strlen(lies[i]));
        if (i == 0)
            (void)!write(kit.kernels[i].control, filler, sizeof filler);
        KIT_AWAIT(kit.kernels[i].killed);
        CHECK_END(run, "protocol", true);
        assert_string_equal(info("default-python").end_detail, "protocol");
        assert_int_equal(context_delete(find("default-python"), &run->err), 0); // numbers from 1
        kit_done(run);
    }
}

CHECK_CASE(lies_before_it_is_open)
{
    struct kit_run *run = kit_cell(NULL, "x", 0);
    kit_say(0, "done", 1, "{\"count\":1}");
    KIT_AWAIT(run->told);
    assert_int_equal(run->err.code, ERR_UNAVAILABLE);
    assert_true(kit.kernels[0].killed);
    kit_done(run);
}

CHECK_CASE(frames_of_other_cells_are_dropped)
{
    struct kit_run *run = kit_cell(NULL, "x", 0);
    kit_open(0);
    (void)kit_heard(0);
    kit_say(0, "done", 7, "not even json");
    kit_say(0, "result", 2, "{\"text\":\"a\"}");
    kit_say(0, "display", 9, "{}");
    assert_string_equal(kit_heard(0), "ack 9 |");
    kit_finish(0, 1, 1);
    kit_finish(0, 1, 1);
    KIT_EVENTS(run, ".");
    assert_false(kit.kernels[0].killed);
    kit_done(run);
}

CHECK_CASE(too_much_is_cut)
{
    enum { BIG = 3 * 1024 * 1024 };
    struct kit_run *run = kit_cell(NULL, "x", 0);
    kit_open(0);
    (void)kit_heard(0);
    auto_free char *payload = malloc(BIG + 16);
    memset(payload, 'a', BIG);
    memcpy(payload, "{\"text\":\"", 9);
    memcpy(payload + BIG - 2, "\"}", 3);
    for (int i = 0; i < 13; i++) {
        kit_say(0, "display", 1, payload);
        assert_string_equal(kit_heard(0), "ack 1 |");
    }
    kit_say(0, "error", 1, "{\"name\":\"E\"}");
    kit_finish(0, 1, 1);
    CHECK_END(run, "error", false);
    assert_true(cell_end(run->cell)->truncated);
    assert_true(kit.s.contexts->memory < 1024 * 1024);
    struct cell_event event;
    struct err err = {0};
    for (uint64_t n = 0; n < 10; n++) {
        assert_int_equal(cell_event(run->cell, n, &event, &err), 1);
        assert_int_equal(event.len, BIG);
        assert_memory_equal(event.bytes, payload, BIG);
    }
    assert_int_equal(cell_event(run->cell, 10, &event, &err), 1);
    assert_int_equal(event.type, CELL_ERROR);
    assert_int_equal(cell_event(run->cell, 11, &event, &err), 1);
    assert_int_equal(event.type, CELL_END);
    assert_int_equal(cell_event(run->cell, 12, &event, &err), 0);
    kit_done(run);
}

CHECK_CASE(the_last_ones_are_kept)
{
    struct err err = {0};
    char id[40];
    (void)kit_create("a", "python");
    for (unsigned i = 1; i <= CELLS_KEPT + 3; i++) {
        struct kit_run *run = kit_cell("a", "x", 0);
        kit_finish(0, i, i);
        kit_done(run);
    }
    for (unsigned i = 1; i <= CELLS_KEPT + 3; i++) {
        (void)snprintf(id, sizeof id, "a-%u", i);
        assert_int_equal(cell_find(&kit.s, id, &err) != NULL, i > 3);
    }
}

CHECK_CASE(all_contexts_together_are_bounded)
{
    enum { BIG = 8 * 1024 * 1024 };
    auto_free char *payload = malloc(BIG + 16);
    memset(payload, 'a', BIG);
    memcpy(payload, "{\"text\":\"", 9);
    memcpy(payload + BIG - 2, "\"}", 3);
    for (unsigned i = 0; i < 12; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "c%u", i);
        (void)kit_create(id, "python");
        struct kit_run *run = kit_cell(id, "x", 0);
        for (int k = 0; k < 3; k++)
            kit_say(i, "result", 1, payload);
        kit_finish(i, 1, 1);
        kit_done(run);
        assert_true(kit.s.contexts->bytes <= CELLS_BYTES_MAX);
    }
    struct err err = {0};
    assert_null(cell_find(&kit.s, "c0-1", &err));
    assert_non_null(cell_find(&kit.s, "c11-1", &err));
}

CHECK_CASE(code_is_bounded_also_while_it_runs)
{
    enum { N = CELLS_ASKED_MAX / CELL_CODE_MAX };
    auto_free char *code = malloc(CELL_CODE_MAX + 1);
    struct kit_run *runs[N + 1];
    memset(code, 'a', CELL_CODE_MAX);
    code[CELL_CODE_MAX] = '\0';
    for (unsigned i = 0; i <= N; i++) { // which no kernel reads
        char id[8];
        (void)snprintf(id, sizeof id, "c%u", i);
        (void)kit_create(id, "python");
        runs[i] = kit_cell(id, code, 0);
        assert_int_equal(runs[i]->err.code, i < N ? ERR_NONE : ERR_EXHAUSTED);
    }
    kit_exit(0, (struct job_end){.reason = END_EXIT, .exit_code = 1});
    struct kit_run *run = kit_cell("c1", code, 0);
    assert_int_equal(run->err.code, ERR_NONE);
    kit_done(run);
    for (unsigned i = 0; i <= N; i++)
        kit_done(runs[i]);
}

// --- languages of single cells

CHECK_CASE(single_cells_run_side_by_side)
{
    struct kit_run *runs[ONCE_MAX + 2];
    for (int i = 0; i < ONCE_MAX + 2; i++)
        runs[i] = kit_cell("c", "int main;", 0);
    assert_int_equal(kit.n, ONCE_MAX);
    assert_non_null(strstr(kit_heard(0), "open 0 c /workspace "));
    kit_open(0);
    assert_true(runs[0]->told);
    assert_null(cell_context(runs[0]->cell));
    assert_string_equal(cell_language(runs[0]->cell)->name, "c");
    kit_print(0, "out");
    kit_finish(0, 1, 1);
    CHECK_END(runs[0], "done", false);
    KIT_EVENTS(runs[0], "o(out).");
    assert_true(kit.kernels[0].killed);
    assert_int_equal(kit.n, ONCE_MAX + 1);
    struct err err = {0};
    assert_non_null(cell_find(&kit.s, cell_id(runs[0]->cell), &err));
    kit_say(1, "failed", 0, "{\"message\":\"no gcc\",\"missing\":true}");
    KIT_AWAIT(runs[1]->told);
    assert_int_equal(runs[1]->err.code, ERR_UNSUPPORTED);
    assert_int_equal(kit.n, ONCE_MAX + 2);
    kit_open(2);
    kit_exit(2, (struct job_end){.reason = END_SIGNAL, .exit_code = -1, .signal = 9});
    CHECK_END(runs[2], "signal", false);
    kit_lose(STATE_STOPPING, END_KILLED);
    assert_int_equal(runs[3]->err.code, ERR_UNAVAILABLE);
    for (int i = 0; i < ONCE_MAX + 2; i++)
        kit_done(runs[i]);
    assert_int_equal(kit.writes, 0);
}

// --- boxes that go, daemons that go

CHECK_CASE(sleep_is_remembered)
{
    (void)kit_create("a", "python");
    struct kit_run *run = kit_cell("a", "x", 0), *next = kit_cell("a", "y", 0);
    kit_lose(STATE_STOPPING, END_KILLED);
    CHECK_END(run, "killed", true);
    CHECK_END(next, "killed", true);
    assert_string_equal(cell_end(run->cell)->err.msg, "the sandbox fell asleep");
    assert_string_equal(kit_row("a")->end, "sleep");
    assert_int_equal(kit_row("a")->box, 0);
    kit_done(run);
    kit_done(next);
    assert_int_equal(info("a").status, CONTEXT_DEAD); // asleep, from its row
    assert_string_equal(info("a").end_detail, "sleep");
    kit.s.box = (struct box_link *)(void *)&kit.box;
    kit.s.state = STATE_RUNNING;
    struct kit_made made = {0};
    context_restart(find("a"), on_made, &made);
    kit_open(1);
    assert_non_null(made.c);
    kit_lose(STATE_STOPPING, END_BOX_LOST);
    assert_string_equal(kit_row("a")->end, "box_lost");
    assert_int_equal(info("a").end, END_BOX_LOST);
}

// As after a kill -9: nothing is told to anybody.
static void die_and_come_back(void)
{
    for (struct context *c = kit.s.contexts->first; c != NULL; c = c->next) {
        while (c->queue != NULL || c->current != NULL) {
            struct cell *cell = c->current != NULL ? c->current : c->queue;
            if (c->current != NULL)
                c->current = NULL;
            else
                c->queue = cell->next;
            cell_drop(cell);
        }
        c->n_queue = 0;
        if (c->link != NULL) { // its job stays
            struct kit_kernel *k = &kit.kernels[kernel_link_exec(c->link) - 1];
            struct job_streams streams = k->job->streams;
            struct kit_kernel far = *k;
            const int from[] = {streams.out, streams.err, streams.control_in, streams.control_out};
            int kept[4];
            for (int i = 0; i < 4; i++)
                kept[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 100);
            k->in = k->control = k->out = k->err = -1;
            kernel_link_release(c->link);
            struct job *job = calloc(1, sizeof *job);
            *job = (struct job){.id = (uint32_t)(k - kit.kernels) + 1, .pid = 100};
            job->state = JOB_RUNNING;
            job->streams = (struct job_streams){kept[0], kept[1], -1, kept[2], kept[3]};
            job->next = kit.jobs;
            kit.jobs = job;
            *k = far;
            k->job = job;
        }
    }
    contexts_forget(&kit.s);
    kit_turns();
    contexts_adopt(&kit.s);
}

CHECK_CASE(an_idle_kernel_goes_on)
{
    (void)kit_create("a", "python");
    struct kit_run *run = kit_cell("a", "x", 0);
    kit_finish(0, 1, 1);
    kit_done(run);
    (void)kit_heard(0);
    die_and_come_back();
    assert_string_equal(kit_heard(0), "ack 0 |ping 0 |");
    assert_int_equal(info("a").status, CONTEXT_BUSY); // until it says that it is not
    kit_say(0, "pong", 1, "{}");                      // to another
    assert_int_equal(info("a").status, CONTEXT_BUSY);
    kit_say(0, "pong", 0, "{}");
    KIT_AWAIT(info("a").status == CONTEXT_IDLE);
    die_and_come_back();
    kit_print(0, "of a cell nobody knows any more");
    kit_say(0, "done", 1, "{\"count\":2}");
    KIT_AWAIT(info("a").status == CONTEXT_IDLE);
    run = kit_cell("a", "y", 0);
    unsigned number = run->cell->number;
    assert_true(number > 1);
    kit_say(0, "display", 1, "{}");
    kit_say(0, "done", 1, "{\"count\":2}");
    kit_say(0, "result", number, "{\"text\":\"y\"}");
    kit_finish(0, number, 3);
    CHECK_END(run, "done", false);
    KIT_EVENTS(run, "r({\"text\":\"y\"}).");
    kit_done(run);
}

CHECK_CASE(a_long_cell_is_found_again)
{
    struct err err = {0};
    (void)kit_create("a", "python");
    struct kit_run *run = kit_cell("a", "x", 60000);
    KIT_AWAIT(kit_row("a")->cell == 1);
    assert_true(kit_row("a")->deadline_ms > db_now_ms() + 30000);
    (void)kit_heard(0);
    // Half of a frame has been read already.
    static const char half[] = "xt\":\"lost\"}display 1 14\n{\"text\":\"got\"}";
    assert_int_equal(write(kit.kernels[0].control, half, sizeof half - 1), sizeof half - 1);
    kit_done(run);
    die_and_come_back();
    assert_string_equal(kit_heard(0), "ack 1 |ping 0 |ack 1 |");
    assert_int_equal(info("a").status, CONTEXT_BUSY);
    struct cell *cell = cell_find(&kit.s, "a-1", &err);
    assert_non_null(cell);
    run = calloc(1, sizeof *run);
    run->cell = cell_ref(cell);
    kit_print(0, "rest");
    kit_finish(0, 1, 1);
    KIT_EVENTS(run, "d({\"text\":\"got\"})o(rest).");
    CHECK_END(run, "done", false);
    assert_true(cell_end(run->cell)->truncated);
    assert_int_equal(kit_row("a")->cell, 0);
    kit_done(run);
}

CHECK_CASE(the_deadline_of_a_long_cell_is_kept)
{
    (void)kit_create("a", "python");
    struct kit_run *run = kit_cell("a", "x", 60000);
    KIT_AWAIT(kit_row("a")->cell == 1);
    kit_done(run);
    kit.clock_skew = 70000;
    die_and_come_back();
    KIT_AWAIT(kit.kernels[0].interrupts == 1);
    KIT_AWAIT(kit.kernels[0].killed);
    assert_int_equal(info("a").end, END_TIMEOUT);
    kit.clock_skew = 0;
}

CHECK_CASE(a_kernel_that_is_gone_is_seen)
{
    (void)kit_create("a", "python");
    (void)kit_create("b", "python");
    kit_row("a")->exec = 99;
    kit_row("b")->box = 6;
    kit_exit(0, (struct job_end){.reason = END_EXIT});
    kit_exit(1, (struct job_end){.reason = END_EXIT});
    contexts_forget(&kit.s);
    kit_row("a")->box = 7;
    kit_row("b")->box = 6;
    contexts_adopt(&kit.s);
    assert_string_equal(info("a").end_detail, "exit");
    assert_string_equal(info("b").end_detail, "box_lost");
    assert_int_equal(kit_row("a")->box, 0);
}

// --- followers

static void on_news_cancel(void *data)
{
    struct kit_run *run = data;
    run->news++;
    cell_follower_free(run->follower);
    run->follower = NULL;
    cell_cancel(run->cell);
}

static void on_news_delete(void *data)
{
    struct kit_run *run = data;
    struct err err = {0};
    struct context *c = context_find(&kit.s, cell_context(run->cell), &err);
    run->news++;
    if (c != NULL)
        assert_int_equal(context_delete(c, &err), 0);
}

CHECK_CASE(whoever_is_told_may_do_anything)
{
    (void)kit_create("a", "python");
    struct kit_run *run = kit_cell("a", "x", 0), *next = kit_cell("a", "y", 0);
    cell_follower_free(run->follower);
    run->follower = cell_follow(run->cell, on_news_cancel, run);
    kit_print(0, "out");
    KIT_AWAIT(run->news == 1);
    KIT_AWAIT(kit.kernels[0].interrupts == 1);
    run->follower = cell_follow(run->cell, on_news_delete, run);
    kit_say(0, "result", 1, "{\"text\":\"x\"}");
    KIT_AWAIT(kit.kernels[0].killed);
    CHECK_END(run, "killed", true);
    CHECK_END(next, "killed", true);
    kit_done(run);
    kit_done(next);

    (void)kit_create("b", "python");
    run = kit_cell("b", "x", 0);
    cell_follower_free(run->follower);
    run->follower = cell_follow(run->cell, on_news_delete, run);
    kit_finish(1, 1, 1);
    CHECK_END(run, "done", false);
    assert_null(find("b"));
    kit_done(run);
}

CHECK_MAIN(KIT_CASE(the_first_cell_needs_one_round), KIT_CASE(all_said_at_once_is_in_order),
           KIT_CASE(displays_are_acknowledged_behind_output),
           KIT_CASE(output_is_live_and_grows_until_it_is_read),
           KIT_CASE(what_is_written_between_cells_is_the_next_ones),
           KIT_CASE(cells_wait_for_each_other), KIT_CASE(a_fork_that_does_not_fit_is_replaced),
           KIT_CASE(a_fork_that_cannot_be_had_is_replaced),
           KIT_CASE(one_that_fails_is_told_and_forgotten),
           KIT_CASE(one_that_ends_too_early_says_why),
           KIT_CASE(a_row_that_cannot_be_stored_fails_it), KIT_CASE(what_is_refused),
           KIT_CASE(typescript_gets_its_tool), KIT_CASE(errors_are_complete),
           KIT_CASE(a_timeout_interrupts), KIT_CASE(a_timeout_kills_what_does_not_listen),
           KIT_CASE(an_interrupt_may_be_ignored), KIT_CASE(a_cancelled_cell_is_killed_in_the_end),
           KIT_CASE(a_cell_is_cancelled_before_its_client_has_heard_of_it),
           KIT_CASE(single_cells_that_wait_can_be_cancelled), KIT_CASE(a_restart_ends_what_ran),
           KIT_CASE(how_kernels_end), KIT_CASE(a_kernel_that_ends_right_after_its_cell),
           KIT_CASE(what_breaks_the_protocol), KIT_CASE(lies_before_it_is_open),
           KIT_CASE(frames_of_other_cells_are_dropped), KIT_CASE(too_much_is_cut),
           KIT_CASE(the_last_ones_are_kept), KIT_CASE(all_contexts_together_are_bounded),
           KIT_CASE(code_is_bounded_also_while_it_runs), KIT_CASE(single_cells_run_side_by_side),
           KIT_CASE(sleep_is_remembered), KIT_CASE(an_idle_kernel_goes_on),
           KIT_CASE(a_long_cell_is_found_again), KIT_CASE(the_deadline_of_a_long_cell_is_kept),
           KIT_CASE(a_kernel_that_is_gone_is_seen), KIT_CASE(whoever_is_told_may_do_anything))
