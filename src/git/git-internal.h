// SPDX-License-Identifier: Apache-2.0
// Git in a box, for the files of this room: run.c (one program after the other), around.c (steps
// that several have), list.c (what is changed), fault.c (what git said), and those that use them:
// clone.c, status.c, diff.c, commit.c, snapshot.c, moment.c, changes.c.
//
// Git runs in the box with everything switched off by which a repository, or the configuration that
// lies in it, would have it start programs. Nothing goes through a shell. On the loop's thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "git/clone.h"
#include "sandbox/exec.h"

enum {
    GIT_TIMEOUT_MS = 120 * 1000,     // of everything but a clone
    GIT_FILES_MAX = 10000,           // of a status or diff
    GIT_NAMES_MAX = 8 * 1024 * 1024, // bytes of a list of them, as JSON
};

// A program has ended by itself; its exit code is in result->end.
typedef void (*git_step_fn)(struct git_work *work, struct exec_result *result);

// What one asks for. It is the first member of what each kind of work knows of itself.
struct git_work {
    struct sandbox *s; // counted
    unsigned refs;
    bool over; // it was told, or nobody wants to hear it
    // Tells the outcome, exactly once: fault NULL, all is done. Then releases what the kind has.
    void (*tell)(struct git_work *work, const struct git_fault *fault);
    void (*release)(struct git_work *work); // NULL: nothing
    git_step_fn next;
    void (*then)(struct git_work *work); // after the steps that several have
    struct exec *exec;
    unsigned step; // how many there were
    bool step_ended;
    int64_t start_ns, timeout_ms;
    enum error_kind late; // what it is when it takes too long
    const char *late_hint;
    // How git is started, which is looked at anew for each program:
    char dir[GIT_PATH_MAX];        // git -C; "": nowhere
    char own[GIT_PATH_MAX];        // git's own directory, once it was found
    bool apart;                    // `own` is not the one that `dir` has: --git-dir, --work-tree
    char rewrite[2 * GIT_URL_MAX]; // one more setting, "url.X.insteadOf=Y"; "": none
    char index[GIT_PATH_MAX + 32]; // GIT_INDEX_FILE; "": the repository's own
    const char *variable;          // one more, "NAME=VALUE"; NULL: none
    const char *excludes;          // core.excludesFile; NULL: none
    const char *name, *email;      // of author and committer; NULL: the repository's
    const char *input;             // standard input of the next program; NULL: none
    size_t input_len;
    struct buf filters; // names of the repository's filter drivers, NUL after each
    bool has_identity;  // the repository has user.name and user.email
    char commit[GIT_COMMIT_MAX], head[GIT_REF_MAX + 1]; // git_find_head; "": none
    char litter[3][GIT_PATH_MAX + 40];                  // removed in the end; "": nothing
    // git-list: paths, each with its NUL; whether anything waits in the index; there was more
    struct buf tracked, untracked;
    bool is_staged, list_truncated;
};

// --- run.c

// Of `size` bytes, which begin with a struct git_work. To be started with git_begin.
void *git_work_new(size_t size, struct sandbox *s, int64_t timeout_ms,
                   void (*tell)(struct git_work *work, const struct git_fault *fault));
// Takes the first step. NULL: it is over.
struct git_work *git_begin(struct git_work *work, void (*first)(struct git_work *work));
// git with `args` (ends with NULL).
void git_run(struct git_work *work, const char *const *args, git_step_fn next);
// Another program, as a tool beside it.
void git_run_tool(struct git_work *work, const char *const *argv, git_step_fn next);
void git_finish(struct git_work *work); // it went well
void git_fail(struct git_work *work, enum error_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void git_fail_with(struct git_work *work, const struct git_fault *fault);
// With what git said, as git_fault_read has it.
void git_fail_result(struct git_work *work, const struct exec_result *result);
int git_exit_code(const struct exec_result *result);

// --- around.c

// Finds the repository that work->dir is in (it becomes its top, work->own its .git), and what its
// configuration would have git start, so that the programs after it do not; and has_identity.
// First of all in a repository that exists.
void git_look_around(struct git_work *work, void (*then)(struct git_work *work));
// Commit and branch, into work->commit and work->head.
void git_find_head(struct git_work *work, void (*then)(struct git_work *work));

// --- list.c

struct git_entry {
    char kind;              // '1', '2', 'u', '?': as git has it; '#': a header
    char index, tree;       // how it differs: 'M', 'A', 'D', ...; '.': not
    const char *text, *old; // path, and where it came from; of a header all of it
};
// Of the output of status. False: there are no more.
bool git_next_entry(const struct buf *out, size_t *at, struct git_entry *ret);
const char *git_change_name(char c); // "modified" of 'M'
// Fills work->tracked (what differs from the index), untracked and is_staged.
void git_list(struct git_work *work, void (*then)(struct git_work *work));
// git add, of these alone.
void git_add(struct git_work *work, const char *option, const struct buf *paths, git_step_fn next);

// --- fault.c

void git_fault_set(struct git_fault *fault, enum error_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// What a clone's last words mean.
void git_fault_clone(const struct git_clone *clone, const char *dir,
                     const struct exec_result *result, struct git_fault *ret);
// What those of any other program mean, at work in `dir`.
void git_fault_read(const char *dir, const struct exec_result *result, struct git_fault *ret);
