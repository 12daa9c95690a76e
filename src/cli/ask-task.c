// SPDX-License-Identifier: Apache-2.0
// A task for an agent: what it does is shown as it does it, on standard error; its last words go to
// standard output, and what it changed is saved as a diff.
#include "cli/ask.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/code.h"

enum { LINE_MAX_LEN = 4096, WARNINGS_MAX = 20 };

// -- the request

static void put_text(struct json *j, const char *key, const char *text)
{
    if (text == NULL)
        return;
    json_key(j, key);
    json_put_str(j, text);
}

static void put_number(struct json *j, const char *key, uint64_t value)
{
    if (value == 0)
        return;
    json_key(j, key);
    json_put_uint(j, value);
}

static void put_bool(struct json *j, const char *key, bool is_set, bool value)
{
    if (!is_set)
        return;
    json_key(j, key);
    json_put_bool(j, value);
}

static void put_network(struct json *j, const struct ask_task *t)
{
    put_text(j, "network", t->internet ? "internet" : NULL);
    if (t->n_allow == 0)
        return;
    json_key(j, "network");
    json_open_object(j);
    json_key(j, "allow");
    json_open_array(j);
    for (size_t i = 0; i < t->n_allow; i++)
        json_put_str(j, t->allow[i]);
    json_close_array(j);
    json_close_object(j);
}

int ask_task_body(const struct ask *ask, struct json *j, struct err *err)
{
    const struct ask_options *o = ask->options;
    const struct ask_task *t = &o->task;
    put_text(j, "task", ask->question);
    put_text(j, "repo", t->repo);
    put_text(j, "branch", t->branch);
    json_key(j, "options");
    json_open_object(j);
    put_text(j, "agent", t->with);
    put_text(j, "model", o->model);
    put_text(j, "sandbox_id", o->sandbox);
    put_text(j, "secret", t->secret);
    put_text(j, "permission_mode", t->permission_mode);
    put_network(j, t);
    put_number(j, "max_turns", t->max_turns);
    put_number(j, "timeout", o->timeout_ms > 0 ? (uint64_t)o->timeout_ms : 0);
    put_bool(j, "keep", t->keep, true);
    put_bool(j, "include_diff", o->no_files && !ask->remote->json, false);
    if (ask_components_put(j, t, err) < 0)
        return -1;
    json_close_object(j);
    return 0;
}

// -- its events

static void show_start(struct ask *ask)
{
    auto_buf repo;
    const struct ask_task *t = &ask->options->task;
    buf_init(&repo, LINE_MAX_LEN / 4);
    if (t->repo != NULL)
        (void)text_plain(&repo, t->repo, strlen(t->repo));
    ask_show_say(ask->show, "%s works%s%s; server %s", t->with != NULL ? t->with : "claude",
                 t->repo != NULL ? " on " : "", buf_str(&repo), ask->remote->place.text);
    ask_show_wait(ask->show, t->repo != NULL ? "the repository is cloned" : "the agent works");
}

static void show_cloned(struct ask *ask, const struct json_node *event)
{
    auto_buf line, branch, commit;
    buf_init(&line, LINE_MAX_LEN);
    const char *on = ask_show_word(&branch, event, "branch");
    const char *at = ask_show_word(&commit, event, "commit");
    (void)buf_printf(&line, "-- cloned%s%s", on[0] != '\0' ? ", branch " : "", on);
    (void)buf_printf(&line, "%s%.12s", at[0] != '\0' ? " at " : "", at);
    ask_show_seconds(&line, ", ", json_get(event, "duration"));
    ask_show_say(ask->show, "%s", buf_str(&line));
    ask_show_wait(ask->show, "the agent works");
}

static void show_log(struct ask *ask, const struct json_node *event)
{
    const struct json_node *text = json_get(event, "text");
    if (!json_is(text, JSON_NODE_STRING))
        return;
    ask_show_log(ask->show, text->text, text->text_len);
    ask_show_wait(ask->show, "the agent works");
}

bool ask_task_event(struct ask *ask, const char *name, const struct json_node *event)
{
    if (strcmp(name, "log") == 0)
        show_log(ask, event);
    else if (strcmp(name, "cloned") == 0)
        show_cloned(ask, event);
    else if (strcmp(name, "start") == 0)
        show_start(ask);
    return strcmp(name, "start") != 0 && strcmp(name, "done") != 0;
}

int ask_task_whole(struct ask_show *show, const struct json_node *answer, struct err *err)
{
    const struct json_node *logs = json_get(answer, "logs");
    (void)err;
    ask_show_say(show, "-- the stream is gone; all of what it said:");
    if (json_is(logs, JSON_NODE_STRING))
        ask_show_log(show, logs->text, logs->text_len);
    return 0;
}

// -- its end

static size_t trimmed(const char *text, size_t len)
{
    while (len > 0 && strchr(" \t\r\n", text[len - 1]) != NULL)
        len--;
    return len;
}

// Whether the answer stands right above, as the last that the agent said.
static bool was_seen(const struct ask_show *show, const struct json_node *result)
{
    size_t n = trimmed(result->text, result->text_len);
    return show->tells && isatty(STDERR_FILENO) && isatty(STDOUT_FILENO) && show->code.len >= n &&
           trimmed(buf_str(&show->code), show->code.len) == n &&
           memcmp(buf_str(&show->code), result->text, n) == 0;
}

static int show_result(struct ask_show *show, const struct json_node *answer, struct err *err)
{
    const struct json_node *result = json_get(answer, "result");
    if (!json_is(result, JSON_NODE_STRING) || result->text_len == 0 || was_seen(show, result))
        return 0;
    if (rich_text(&show->rich, false, result->text, result->text_len, err) < 0 ||
        rich_text(&show->rich, false, "\n", result->text[result->text_len - 1] != '\n', err) < 0)
        return -1;
    return 0;
}

static void show_warnings(const struct json_node *answer)
{
    unsigned n = 0;
    for (const struct json_node *w = json_first(json_get(answer, "warnings")); w != NULL;
         w = json_next(w)) {
        auto_buf text;
        const char *words = json_text(w);
        buf_init(&text, LINE_MAX_LEN);
        if (words == NULL || n++ == WARNINGS_MAX)
            continue;
        (void)text_plain(&text, words, strlen(words));
        (void)fprintf(stderr, "cay: %s\n", buf_str(&text));
    }
}

static void show_sum(struct ask *ask, const struct json_node *answer)
{
    const struct json_node *meta = json_get(answer, "metadata"), *usage = json_get(meta, "usage");
    int64_t turns = json_int(json_get(meta, "num_turns"), 0);
    auto_buf line, id;
    buf_init(&line, LINE_MAX_LEN);
    (void)buf_append_str(&line, "--");
    ask_show_seconds(&line, " ", json_get(meta, "execution_time_ms"));
    bool cloned = json_is(json_get(meta, "repo"), JSON_NODE_STRING);
    if (cloned)
        ask_show_seconds(&line, ": clone ", json_get(meta, "clone_ms"));
    ask_show_seconds(&line, cloned ? ", agent " : ": agent ", json_get(meta, "agent_ms"));
    if (turns > 0)
        (void)buf_printf(&line, ", %" PRId64 " turn%s", turns, turns == 1 ? "" : "s");
    ask_show_price(&line, json_int(json_get(usage, "input_tokens"), 0),
                   json_int(json_get(usage, "output_tokens"), 0),
                   json_double(json_get(meta, "total_cost_usd"), 0));
    const char *sandbox = ask_show_word(&id, meta, "sandbox_id");
    if (sandbox[0] != '\0' && json_bool(json_get(meta, "kept"), false))
        (void)buf_printf(&line, "; kept: cay shell %s", sandbox);
    ask_show_say(ask->show, "%s", buf_str(&line));
}

// Saves the change, and applies it if that is wanted: not where the agent failed. One that was
// applied is in the repository, and need not lie beside it, too.
static int take_change(struct ask *ask, struct ask_files *files, const struct json_node *answer,
                       struct err *err)
{
    const struct ask_options *o = ask->options;
    bool well = json_bool(json_get(answer, "success"), false);
    if (o->no_files || (ask->remote->json && o->output == NULL && !o->task.apply))
        return 0;
    int saved = ask_change_save(files, json_get(answer, "diff"), err);
    if (saved <= 0)
        return saved;
    bool cut = json_bool(json_get(answer, "diff_truncated"), false),
         apply = o->task.apply && well && !cut;
    int applied = apply ? ask_change_apply(files, ask->show->tells, err) : -1;
    if (applied == 0 && o->output == NULL) {
        ask_change_drop(files);
        return 0;
    }
    (void)fprintf(stderr, "cay: saved %s/changes.diff%s\n", files->dir,
                  cut ? ", of which the end is missing: it was too long" : "");
    if (apply)
        return applied;
    if (!ask->remote->json && !o->quiet && !cut)
        (void)fprintf(stderr, "cay: to have it here: git apply %s/changes.diff\n", files->dir);
    return 0;
}

static void keep_in_mind(struct ask *ask, const struct json_node *answer)
{
    const struct json_node *meta = json_get(answer, "metadata");
    const char *sandbox = json_text(json_get(meta, "sandbox_id"));
    bool stays = ask->options->sandbox != NULL || json_bool(json_get(meta, "kept"), false);
    if (stays && sandbox != NULL && sandbox[0] != '\0')
        (void)ask_last_put(ask->remote, sandbox);
}

// An agent that fails is told from all that is not its doing: the clone, the model, the server.
static int exit_code(const struct json_node *answer)
{
    static const char *const agents[] = {"AGENT_FAILED", "MAX_TURNS", "BUDGET_EXCEEDED",
                                         "OUT_OF_MEMORY", "DISK_FULL"};
    const char *code = json_text(json_get(answer, "error_code"));
    int r = ask_exit_code(answer);
    for (size_t i = 0; code != NULL && i < sizeof agents / sizeof *agents; i++) {
        if (strcmp(agents[i], code) == 0)
            return CODE_CELL_FAILED;
    }
    return r == CODE_CELL_FAILED ? CLI_FAILED : r;
}

int ask_task_finish(struct ask *ask, struct ask_files *files, struct err *err)
{
    const struct json_node *answer = answer_root(&ask->answer);
    bool json = ask->remote->json;
    int code = exit_code(answer), printed = json ? remote_print(ask->remote, &ask->answer) : 0;
    spinner_stop(&ask->show->spinner);
    if (!json &&
        (show_result(ask->show, answer, err) < 0 || ask_show_end(ask->show, answer, err) < 0))
        return -1;
    if (!json)
        show_warnings(answer);
    ask_change_list(ask->show, json_get(answer, "files"));
    keep_in_mind(ask, answer);
    int r = take_change(ask, files, answer, err);
    show_sum(ask, answer);
    if (r < 0)
        return -1;
    return printed != CLI_OK ? printed : code;
}
