// SPDX-License-Identifier: Apache-2.0
// What `cay ask` is put together from: ask.c (the command), ask-flags.c (its flags), ask-run.c (one
// question or task on its way to its answer), ask-show.c (what is seen of it), ask-task.c and
// ask-change.c (what is different of a task, and the change that comes of it), ask-components.c
// (what the agent is given), ask-files.c (what the code has written, fetched), ask-key.c (the key
// of the model's API), ask-server.c (a server, where there is none), ask-last.c (the sandbox of the
// last one). One thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/follow.h"
#include "cli/remote.h"
#include "cli/rich.h"
#include "cli/spinner.h"

enum {
    ASK_QUESTION_MAX = 100 * 1024, // as the server has it
    ASK_TASK_MAX = 1024 * 1024,    // as the server has it
    ASK_COMPONENTS_MAX = 256,      // as the server has it
    ASK_ALLOW_MAX = 64,
    ASK_ID_MAX = 132,
    ASK_KEY_MAX = 1024,
    ASK_URL_MAX = 512,
};

enum ask_kind { ASK_AGENT, ASK_COMMAND, ASK_SETTING, ASK_MCP, ASK_HOOK, ASK_KIND_MAX };
struct ask_component {
    enum ask_kind kind;
    const char *word; // of the command line: a file, or a name
    size_t len;
};
struct ask_task { // NULL, 0: not given
    const char *repo, *branch, *secret, *with, *permission_mode;
    const char *allow[ASK_ALLOW_MAX];
    size_t n_allow;
    uint64_t max_turns;
    bool keep, apply, internet;
    struct ask_component component[ASK_COMPONENTS_MAX];
    size_t n_components;
};

struct ask_options {
    bool is_task;
    struct ask_task task;
    uint64_t given;                         // flags, a bit each
    const char *language, *model, *context; // NULL: the server's own choice
    const char *sandbox;                    // NULL: a new one
    int64_t timeout_ms;                     // 0: as above
    uint64_t max_tokens;                    // 0: as above
    uint64_t retries;
    bool has_retries;
    bool no_cache, go_on, yes, quiet, no_files;
    const char *output; // where files go; NULL: a directory of their own
    const char *key, *key_file;
};

// --- flags (ask-flags.c)

extern const struct opt_spec ask_spec;
int ask_take_flag(void *data, unsigned flag, const char *value, struct err *err);
// What makes no sense together; and which of the two it is.
int ask_check(struct ask_options *options, const struct remote *remote, struct err *err);

// --- asking the person: 1, 0, or -1 when there is nobody to ask. `fallback`: what Enter says.

int ask_confirm(const struct ask_options *options, bool fallback, const char *question);

// --- files (ask-files.c)

struct ask_files {
    struct remote *remote;
    const char *output; // NULL: "cay-<time>"
    char dir[4096];     // its name, once it is made
    int fd;             // -1 before
    bool is_ours;       // made here
    unsigned saved;
    uint64_t bytes;
};
void ask_files_init(struct ask_files *files, struct remote *remote, const char *output);
// Makes the directory, if it is not there yet.
int ask_files_open(struct ask_files *files, struct err *err);
// Fetches what the answer lists under `files`. What cannot be kept is said, and no reason to stop;
// -1 when we were interrupted.
int ask_files_save(struct ask_files *files, const char *sandbox, const struct json_node *list);
// Removes the directory if nothing was put into it.
void ask_files_done(struct ask_files *files);

// --- what is seen (ask-show.c)

struct ask_show {
    bool tells;    // the code, and what is said besides the output
    bool terminal; // standard error is one
    bool colour;
    struct spinner spinner;
    int wake_fd; // readable on a signal, and when the spinner wants to be drawn
    struct rich rich;
    struct ask_files *files;
    struct buf held;
    struct buf code; // the pieces so far
    bool line_open;  // of the code
    bool code_cr;
    bool error_shown;
};
int ask_show_init(struct ask_show *show, const struct remote *remote,
                  const struct ask_options *options, struct ask_files *files, struct err *err);
void ask_show_done(struct ask_show *show);
void ask_show_wait(struct ask_show *show, const char *what); // a spinner, where one can be
// One line of ours, where it stands alone. `fmt` has no words of others that are not made plain.
void ask_show_say(struct ask_show *show, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void ask_show_start(struct ask_show *show, const struct remote *remote,
                    const struct json_node *start);
void ask_show_piece(struct ask_show *show, const struct json_node *event);
void ask_show_restart(struct ask_show *show, const struct json_node *event);
void ask_show_code(struct ask_show *show, const struct json_node *event);
// stdout, stderr, result, display, error. Not 0: err.
int ask_show_output(struct ask_show *show, const char *name, const struct json_node *event,
                    struct err *err);
void ask_show_repair(struct ask_show *show, const struct json_node *event, bool is_last);
// All of it at once, from the answer.
int ask_show_whole(struct ask_show *show, const struct json_node *answer, struct err *err);
// What there is to say in the end but for the last line; then that.
int ask_show_end(struct ask_show *show, const struct json_node *answer, struct err *err);
void ask_show_sum(struct ask_show *show, const struct json_node *answer, bool is_kept);

void ask_show_log(struct ask_show *show, const char *text, size_t len); // of an agent
void ask_show_seconds(struct buf *line, const char *before, const struct json_node *ms);
void ask_show_price(struct buf *line, int64_t in, int64_t out, double usd);
const char *ask_show_word(struct buf *buf, const struct json_node *node, const char *key);

// --- a task (ask-task.c)

struct ask;
int ask_task_body(const struct ask *ask, struct json *json, struct err *err);
// Whether it was one that only a task has.
bool ask_task_event(struct ask *ask, const char *name, const struct json_node *event);
int ask_task_whole(struct ask_show *show, const struct json_node *answer, struct err *err);
// Prints, saves, and says what there is to say. An exit code, or -1 with err.
int ask_task_finish(struct ask *ask, struct ask_files *files, struct err *err);

// "components": {...}, where there are any (ask-components.c). What is no file and no name in the
// folders here is sent as a name, for the server to find.
int ask_components_put(struct json *json, const struct ask_task *task, struct err *err);

// --- the change (ask-change.c)

void ask_change_list(struct ask_show *show, const struct json_node *files);
// As changes.diff. 1 when it is there, 0 when there is none.
int ask_change_save(struct ask_files *files, const struct json_node *diff, struct err *err);
// `git apply`, here; it says what it does if it `tells`.
int ask_change_apply(const struct ask_files *files, bool tells, struct err *err);
// What was saved is not wanted any more.
void ask_change_drop(const struct ask_files *files);

// --- one question (ask-run.c)

struct ask {
    struct remote *remote;
    const struct ask_options *options;
    const char *question;
    struct ask_show *show;
    // its way
    struct http_call call;
    struct follow follow;
    struct buf target, body;
    char key[40];
    char id[ASK_ID_MAX];
    uint64_t attempt; // from 0
    bool cancelled;
    int ended_by;         // the signal that made us give up on it, or 0
    struct answer answer; // the event "done", where it is an answer
};
void ask_init(struct ask *ask);
void ask_done(struct ask *ask);
// 0 with `ask->answer`. Else -1: err, and remote->error_code where the server has said it.
int ask_run(struct ask *ask, struct err *err);
// Whether the last ask_run failed because nobody listens.
bool ask_found_nobody(const struct ask *ask, const struct err *err);
int ask_exit_code(const struct json_node *answer);

// --- the key (ask-key.c)

struct ask_key {
    char value[ASK_KEY_MAX];
    char base_url[ASK_URL_MAX]; // "": the public one
    bool is_bearer;
    char from[64]; // where it was found, for messages
};
// 1, 0 when there is none, -1 with err when one was named that cannot be used.
int ask_key_find(struct ask_key *ret, const struct ask_options *options, struct err *err);
void ask_key_forget(struct ask_key *key);
// Stores it on the server, if that is wanted. 0 when it is there now.
int ask_key_give(struct remote *remote, const struct ask_options *options, struct err *err);

// --- a server (ask-server.c)

// Whether it would be the one that `remote` has looked for.
bool ask_server_fits(const struct remote *remote);
// Starts one for remote's data directory, if that is wanted, and waits until it answers.
int ask_server_start(struct remote *remote, const struct ask_options *options,
                     struct ask_show *show, struct err *err);

// --- the last one (ask-last.c): of this user, from this directory, on this server

int ask_last_get(const struct remote *remote, char ret[ASK_ID_MAX], struct err *err);
int ask_last_put(const struct remote *remote, const char *sandbox); // -1: it is not kept
