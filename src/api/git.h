// SPDX-License-Identifier: Apache-2.0
// Git in a box, for the files of this room: git-run.c (one program after the other), git-check.c
// (what may be asked for), git-error.c (what git said), git-list.c (what is changed), git-clone.c,
// git-look.c (status and diff), git-commit.c.
//
// Git runs in the box with everything switched off by which a repository, or the configuration that
// lies in it, would have it start programs. Nothing goes through a shell. On the loop's thread.
#pragma once

#include "api/call.h"
#include "egress/secret.h"
#include "egress/url.h"
#include "sandbox/exec.h"

enum {
    GIT_PATH_MAX = 2048,
    GIT_URL_MAX = 2048,
    GIT_REF_MAX = 255,
    GIT_TIMEOUT_MS = 120 * 1000,       // of everything but a clone
    GIT_CLONE_TIMEOUT_MS = 600 * 1000, // unless told otherwise
    GIT_CLONE_TIMEOUT_MAX = 3600 * 1000,
    GIT_FILES_MAX = 10000, // of a status or diff
    GIT_SAID_MAX = 4096,   // of git's own words in an error's details
};

struct git;

// A program has ended by itself; its exit code is in result->end.
typedef void (*git_step_fn)(struct git *git, struct exec_result *result);

struct git_problem {
    enum error_kind kind;
    char message[400];
    char said[GIT_SAID_MAX]; // what git wrote, made plain; "": nothing
};

// All is done (problem NULL), or nothing more will be. Answers the call.
typedef void (*git_done_fn)(struct git *git, const struct git_problem *problem);

// One request's work with git. It is the call's `state`.
struct git {
    struct call *call; // counted while it runs
    git_done_fn done;
    git_step_fn next;
    void (*then)(struct git *git); // after the steps that several have
    struct exec *exec;
    unsigned step; // how many there were
    bool step_ended;
    int64_t start_ns, timeout_ms;
    char dir[GIT_PATH_MAX];        // of the repository
    char own[GIT_PATH_MAX];        // git's own directory in it
    bool in_dir;                   // it is there: git -C
    char rewrite[2 * GIT_URL_MAX]; // one more setting, "url.X.insteadOf=Y"; "": none
    char index[GIT_PATH_MAX + 32]; // GIT_INDEX_FILE; "": the repository's own
    const char *name, *email;      // of author and committer; NULL: the repository's
    const char *input;             // standard input of the next program; NULL: none
    size_t input_len;
    struct buf filters; // names of the repository's filter drivers, NUL after each
    bool has_identity;  // the repository has user.name and user.email
    // git-list.c: paths, each with its NUL; and whether anything waits in the index
    struct buf tracked, untracked;
    bool is_staged;
    // git-look.c: what is changed, as JSON; what it is compared with; how it failed
    struct buf files;
    bool truncated;
    const char *base;
    struct git_problem *problem_kept;
    // what a clone is asked for and finds
    char url[GIT_URL_MAX];
    const char *branch;                     // NULL: the remote's own
    int64_t depth;                          // 0: all
    char commit[80], head[GIT_REF_MAX + 1]; // "": none
};

// --- git-run.c

// Wakes the sandbox, then calls `first`. Takes no path or name that was not checked.
void git_begin(struct call *call, struct git *git, void (*first)(struct git *git));
struct git *git_new(struct call *call, git_done_fn done); // the call's state from now on
// git with `args` (ends with NULL).
void git_run(struct git *git, const char *const *args, git_step_fn next);
// Another program, as a tool beside it.
void git_run_tool(struct git *git, const char *const *argv, git_step_fn next);
// Finds the repository that git->dir is in (it becomes its top, git->own its .git), and what its
// configuration would have git start, so that the programs after it do not; and git->has_identity.
// First of all in a repository that exists.
void git_look_around(struct git *git, void (*then)(struct git *git));
// Commit and branch, into git->commit and git->head.
void git_find_head(struct git *git, void (*then)(struct git *git));
void git_finish(struct git *git); // it went well
void git_fail(struct git *git, enum error_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void git_fail_with(struct git *git, const struct git_problem *problem);
int git_exit_code(const struct exec_result *result);
void git_reply_problem(struct call *call, const struct git_problem *problem);

// --- git-list.c

struct git_entry {
    char kind;              // '1', '2', 'u', '?': as git has it; '#': a header
    char index, tree;       // how it differs: 'M', 'A', 'D', ...; '.': not
    const char *text, *old; // path, and where it came from; of a header all of it
};
// Of the output of status. False: there are no more.
bool git_next_entry(const struct buf *out, size_t *at, struct git_entry *ret);
// Fills git->tracked (what differs from the index), git->untracked and git->is_staged.
void git_list(struct git *git, void (*then)(struct git *git));
// git add, of these alone.
void git_add(struct git *git, const char *option, const struct buf *paths, git_step_fn next);

// --- git-check.c: 0, or -1 and err

// http(s) alone, without credentials, in canonical form.
int git_check_url(const char *text, char ret[GIT_URL_MAX], struct url *ret_parts, struct err *err);
int git_check_ref(const char *name, struct err *err); // by git's own rules, and not an option
int git_check_dir(const char *dir, struct err *err);  // absolute, without . and ..
// /workspace/NAME of a checked URL.
int git_default_dir(const char *url, char ret[GIT_PATH_MAX], struct err *err);

// --- git-error.c

// What a clone's last words mean.
void git_clone_problem(const struct git *git, const struct exec_result *result,
                       struct git_problem *ret);
// What those of any other program mean.
void git_problem(const struct git *git, const struct exec_result *result, struct git_problem *ret);

// --- git-clone.c

struct git_clone {
    const char *url, *branch, *dir, *secret; // NULL but for url: not given
    int64_t depth, timeout_ms;               // 0: not given
};
// Checks all of it for a sandbox's settings, and fills `git`. 0, or -1 and the problem.
int git_clone_prepare(struct git *git, const struct git_clone *clone, const struct sandbox_row *row,
                      struct git_problem *ret);
void git_clone_run(struct git *git); // for git_begin
// One of the sandbox's secrets whose upstream the repository is in, written to `ret`; or NULL.
const char *git_find_secret(struct call *call, const char *url, const struct sandbox_row *row,
                            char ret[SECRET_NAME_MAX]);
void git_clone_show(struct json *j, const struct git *git, const struct git_problem *problem);
