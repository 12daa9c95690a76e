// SPDX-License-Identifier: Apache-2.0
// What came of a task: how it ended in words for people and for programs, what has changed, and
// what it cost by our own meter. An answer that would be too large is written again with less of
// its long texts.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/task-internal.h"
#include "base/clock.h"
#include "base/show.h"
#include "wire/guest-msg.h"

enum { ERROR_MAX = 4096 + 256 };

struct outcome {
    bool success;
    const char *code; // a literal, or the agent's file's; NULL: none
    char error[ERROR_MAX];
};

// --- how it ended

static void say(struct outcome *o, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void say(struct outcome *o, const char *code, const char *fmt, ...)
{
    va_list ap;
    o->code = code;
    va_start(ap, fmt);
    (void)vsnprintf(o->error, sizeof o->error, fmt, ap);
    va_end(ap);
}

// Somebody, or something, has ended it. Whether that was so.
static bool was_stopped(const struct task *t, struct outcome *o)
{
    if (t->stop == TASK_CANCELLED)
        say(o, "CANCELLED", "it was cancelled");
    else if (t->stop == TASK_TIMED_OUT || t->reason == END_TIMEOUT)
        say(o, "EXECUTION_TIMEOUT",
            "it was not done within %" PRId64 " ms, and everything in it was killed",
            t->asked.timeout_ms);
    else if (t->s == NULL || t->is_lost || !sandbox_is_up(t->s))
        say(o, "SANDBOX_LOST", "its sandbox was destroyed, put to sleep or lost while it ran");
    else if (t->reason == END_OOM)
        say(o, "OUT_OF_MEMORY", "it used up the sandbox's memory (%" PRId64 " MiB), and was killed",
            sandbox_row(t->s)->memory >> 20);
    else
        return false;
    return true;
}

// Why it failed, where it has not said so itself.
static void find_reason(const struct task *t, const struct agent_report *r, struct outcome *o)
{
    struct failure failure;
    const char *words = r->error != NULL ? r->error : r->text != NULL ? r->text : "";
    const struct sandbox_row *row = sandbox_row(t->s);
    if (r->error_code != NULL)
        say(o, r->error_code, "%s", words[0] != '\0' ? words : "the agent failed");
    else if (failure_of_budget(row, &failure))
        say(o, failure.error_code, "%s", failure.message);
    else if (t->limits & GUEST_LIMIT_DISK)
        say(o, "DISK_FULL", "the sandbox's disk (%" PRId64 " MiB) is full%s%s", row->disk >> 20,
            words[0] != '\0' ? ": " : "", words);
    else if (t->limits & GUEST_LIMIT_OOM)
        say(o, "OUT_OF_MEMORY",
            "the sandbox's memory (%" PRId64 " MiB) was used up, and something was killed%s%s",
            row->memory >> 20, words[0] != '\0' ? ": " : "", words);
    else if (words[0] != '\0')
        say(o, "AGENT_FAILED", "%s", words);
    else if (t->reason == END_EXIT && t->exit_code == 0)
        say(o, "AGENT_FAILED", "it ended without a result");
    else if (t->reason == END_EXIT)
        say(o, "AGENT_FAILED", "it ended with exit code %" PRId64, t->exit_code);
    else
        say(o, "AGENT_FAILED", "it was ended by signal %" PRId64, t->signal);
}

static void judge(struct task *t, const struct agent_report *r, struct outcome *o)
{
    *o = (struct outcome){0};
    if (was_stopped(t, o))
        return;
    bool is_well = t->reason == END_EXIT && t->exit_code == 0 && !r->failed &&
                   (r->has_result || !r->wants_result);
    if (!is_well) {
        find_reason(t, r, o);
        return;
    }
    o->success = true;
    if (t->limits & GUEST_LIMIT_DISK)
        task_warn(t, "the sandbox's disk is full");
    if (t->limits & GUEST_LIMIT_OOM)
        task_warn(t, "the sandbox's memory was used up, and something was killed");
    if (t->limits & GUEST_LIMIT_PIDS)
        task_warn(t, "the sandbox had as many processes as it may have");
}

// --- what it cost

static int see_spent(void *data, const struct spend_sum *sum)
{
    struct run *run = data;
    const struct model_usage usage = {
        .input = sum->input,
        .output = sum->output,
        .cache_write = sum->cache_write,
        .cache_write_1h = sum->cache_write_1h,
        .cache_read = sum->cache_read,
        .searches = sum->searches,
        .fetches = sum->fetches,
    };
    run_spent(run, &usage, sum->cost);
    return 0;
}

// All that the box has asked of models since it began; of a fresh one, all there ever was.
static void count_spent(struct task *t)
{
    struct err err = {0};
    if (t->s == NULL)
        return;
    const struct spend_query query = {
        .tenant = run_tenant(t->run),
        .by = SPEND_BY_NONE,
        .since_ms = run_created_ms(t->run),
        .sandbox = sandbox_row(t->s)->id,
        .by_calls = true,
    };
    if (db_spend_each(t->agents->config.db, &query, see_spent, t->run, &err) < 0)
        task_warn(t, "what it cost is not known: %s", err.msg);
}

static void write_usage(struct json *j, const struct model_usage *u)
{
    json_open_object(j);
    show_int(j, "input_tokens", u->input);
    show_int(j, "output_tokens", u->output);
    show_int(j, "cache_creation_input_tokens", u->cache_write + u->cache_write_1h);
    show_int(j, "cache_read_input_tokens", u->cache_read);
    json_close_object(j);
}

// --- the answer

struct caps { // bytes of the long ones
    size_t diff, files, logs, result;
};

static size_t whole_lines(const char *text, size_t len, size_t max)
{
    if (len <= max)
        return len;
    const char *end = memrchr(text, '\n', max);
    return end != NULL ? (size_t)(end - text) + 1 : 0;
}

static size_t whole_characters(const char *text, size_t len, size_t max)
{
    if (len <= max)
        return len;
    while (max > 0 && ((unsigned char)text[max] & 0xc0) == 0x80)
        max--;
    return max;
}

// Of an array of JSON objects, as many as fit: the bytes until the end of the last one.
static size_t whole_items(const char *json, size_t len, size_t max)
{
    unsigned depth = 0;
    bool in_text = false;
    size_t end = 0;
    for (size_t i = 0; i < len && i < max; i++) {
        if (in_text && json[i] == '\\')
            i++;
        else if (json[i] == '"')
            in_text = !in_text;
        else if (!in_text && (json[i] == '{' || json[i] == '['))
            depth++;
        else if (!in_text && (json[i] == '}' || json[i] == ']') && --depth == 1)
            end = i + 1;
    }
    return end;
}

static void write_diff(struct json *j, const struct git_changes *c, size_t max)
{
    size_t len = c != NULL && c->diff != NULL ? c->diff->len : 0;
    const char *text = len > 0 ? buf_str(c->diff) : "";
    size_t shown = whole_lines(text, len, max);
    json_key(j, "diff");
    json_put_strn(j, text, shown);
    show_bool(j, "diff_truncated", shown < len || (c != NULL && c->truncated));
}

static void write_files(struct json *j, const struct git_changes *c, size_t max)
{
    size_t len = c != NULL && c->files != NULL ? c->files->len : 0;
    bool is_cut = len > max;
    json_key(j, "files");
    if (!is_cut && len > 0) {
        json_put_raw(j, buf_str(c->files), len);
    } else {
        auto_buf cut;
        buf_init(&cut, max + 2);
        size_t shown = is_cut ? whole_items(buf_str(c->files), len, max) : 0;
        (void)buf_append(&cut, shown > 0 ? buf_str(c->files) : "[", shown > 0 ? shown : 1);
        (void)buf_append_char(&cut, ']');
        json_put_raw(j, buf_str(&cut), cut.len);
    }
    if (is_cut || (c != NULL && c->files_truncated))
        show_bool(j, "files_truncated", true);
}

static const char *reason_of(const struct task *t)
{
    switch (t->stop) {
    case TASK_CANCELLED:
        return "cancelled";
    case TASK_TIMED_OUT:
        return end_reason_name(END_TIMEOUT);
    case TASK_GOES_ON:
        break;
    }
    return t->reason != END_NONE ? end_reason_name(t->reason) : NULL;
}

static void write_metadata(struct json *j, const struct task *t, const struct agent_report *r,
                           bool logs_cut)
{
    bool has_repo = t->cloned.url[0] != '\0';
    const struct sandbox_row *row = t->s != NULL ? sandbox_row(t->s) : NULL;
    json_open_object(j);
    show_int(j, "execution_time_ms", (clock_ns() - t->start_ns) / NS_PER_MS);
    show_str(j, "sandbox_id", row != NULL ? row->id : NULL);
    show_bool(j, "kept", row != NULL && (!t->fresh || (t->asked.keep && t->has_run)));
    show_str(j, "repo", has_repo ? t->cloned.url : t->asked.repo);
    show_str(j, "branch", has_repo && t->cloned.head[0] != '\0' ? t->cloned.head : NULL);
    show_str(j, "commit", has_repo && t->cloned.commit[0] != '\0' ? t->cloned.commit : NULL);
    show_str(j, "agent", agent_file_name(t->file));
    json_key(j, "total_cost_usd");
    json_put_double(j, (double)run_cost(t->run) / 1e9);
    json_key(j, "num_turns");
    if (r->turns >= 0)
        json_put_int(j, r->turns);
    else
        json_put_null(j);
    show_str(j, "model", r->model != NULL ? r->model : t->asked.model);
    show_str(j, "session_id", r->session);
    json_key(j, "exit_code");
    if (t->exit_code >= 0)
        json_put_int(j, t->exit_code);
    else
        json_put_null(j);
    show_str(j, "reason", reason_of(t));
    json_key(j, "usage");
    write_usage(j, run_usage(t->run));
    show_int(j, "clone_ms", has_repo ? t->clone_ms : 0);
    show_int(j, "agent_ms", t->agent_ms);
    show_bool(j, "logs_truncated", logs_cut);
    if (t->resumed)
        show_bool(j, "resumed", true);
    json_close_object(j);
}

static void write_warnings(struct json *j, const struct task *t, const struct agent_report *r)
{
    json_key(j, "warnings");
    json_open_array(j);
    for (unsigned i = 0; i < t->n_warnings; i++)
        json_put_str(j, t->warnings[i]);
    for (unsigned i = 0; i < r->n_warnings; i++)
        json_put_str(j, r->warnings[i]);
    json_close_array(j);
}

static int write_body(const struct task *t, const struct agent_report *r, const struct outcome *o,
                      const struct git_changes *changes, const struct caps *caps, struct buf *ret)
{
    struct json j;
    size_t text_len = r->text != NULL ? strlen(r->text) : 0;
    size_t logs_len = whole_lines(r->logs, r->logs_len, caps->logs);
    json_init(&j, ret);
    json_open_object(&j);
    show_bool(&j, "success", o->success);
    show_str(&j, "request_id", run_id(t->run));
    show_time(&j, "timestamp", run_created_ms(t->run));
    json_key(&j, "logs");
    json_put_strn(&j, r->logs != NULL ? r->logs : "", logs_len);
    json_key(&j, "result");
    if (r->text != NULL)
        json_put_strn(&j, r->text, whole_characters(r->text, text_len, caps->result));
    else
        json_put_null(&j);
    show_str(&j, "error", o->success ? NULL : o->error);
    show_str(&j, "error_code", o->code);
    write_diff(&j, changes, caps->diff);
    write_files(&j, changes, caps->files);
    write_warnings(&j, t, r);
    json_key(&j, "metadata");
    write_metadata(&j, t, r, r->logs_truncated || logs_len < r->logs_len);
    json_close_object(&j);
    return json_finish(&j);
}

static void write_what_fits(const struct task *t, const struct agent_report *r,
                            const struct outcome *o, const struct git_changes *changes,
                            struct buf *ret)
{
    enum { K = 1024, M = 1024 * 1024 };
    static const struct caps caps[] = {
        {.diff = 8 * M,   .files = 2 * M,   .logs = 2 * M,   .result = 1 * M  },
        {.diff = 4 * M,   .files = 1 * M,   .logs = 512 * K, .result = 512 * K},
        {.diff = 512 * K, .files = 256 * K, .logs = 128 * K, .result = 128 * K},
        {.diff = 64 * K,  .files = 64 * K,  .logs = 64 * K,  .result = 64 * K },
    };
    for (unsigned i = 0; i < sizeof caps / sizeof *caps; i++) {
        buf_reset(ret);
        if (write_body(t, r, o, changes, &caps[i], ret) == 0)
            return;
    }
}

static void warn_of_flood(struct task *t)
{
    static const char *const names[LOG_STREAMS] = {"standard output", "standard error"};
    for (enum log_stream i = 0; i < LOG_STREAMS; i++) {
        if (t->skips[i])
            task_warn(t, "it wrote so much to %s that a part of it was not read", names[i]);
    }
}

void task_answer(struct task *t, const struct git_changes *changes)
{
    struct agent_report report = {.turns = -1, .cost_nano = -1};
    struct outcome outcome;
    auto_buf body;
    if (t->reader != NULL)
        agent_reader_report(t->reader, &report);
    if (t->agent_ms == 0 && t->agent_ns != 0)
        t->agent_ms = (clock_ns() - t->agent_ns) / NS_PER_MS;
    judge(t, &report, &outcome);
    warn_of_flood(t);
    count_spent(t);
    buf_init(&body, RUN_BODY_MAX);
    write_what_fits(t, &report, &outcome, changes, &body);
    const struct run_end end = {
        .status = 200,
        .success = outcome.success,
        .error_code = outcome.code,
        .sandbox = t->s != NULL ? sandbox_row(t->s)->id : NULL,
        .model = report.model != NULL ? report.model : t->asked.model,
        .generation_ms = t->agent_ms,
        .sandbox_ms = t->agent_ns != 0 ? (t->agent_ns - t->start_ns) / NS_PER_MS : 0,
        .total_ms = (clock_ns() - t->start_ns) / NS_PER_MS,
    };
    task_end(t, &end, &body);
}
