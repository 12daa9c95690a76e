// SPDX-License-Identifier: Apache-2.0
// A repository brought into a sandbox that runs, by git in its box. The policy of the sandbox
// holds, and its secrets are put in outside. On the loop's thread.
#pragma once

#include <stdint.h>

#include "db/db.h"
#include "edge/error.h"
#include "egress/secret.h"
#include "sandbox/sandbox.h"

enum {
    GIT_PATH_MAX = 2048,
    GIT_URL_MAX = 2048,
    GIT_REF_MAX = 255,
    GIT_COMMIT_MAX = 80,
    GIT_SAID_MAX = 4096,               // of git's own words
    GIT_CLONE_TIMEOUT_MS = 600 * 1000, // unless told otherwise
    GIT_CLONE_TIMEOUT_MAX = 3600 * 1000,
};

struct git_fault {
    enum error_kind kind;
    const char *code;        // its name, a literal, as in docs/ERRORS.md: "GIT_REPO_NOT_FOUND"
    unsigned status;         // of HTTP, that goes with it
    char message[400];       // what happened, and what to do
    char said[GIT_SAID_MAX]; // what git wrote, made plain; "": nothing
};

struct git_clone {                           // texts are copied
    const char *url, *branch, *dir, *secret; // NULL but for url: not given
    // The name of one that was lent to the sandbox for this (secrets_lend), with the URL's origin
    // as its upstream; NULL: none. Not with `secret`.
    const char *lent;
    int64_t depth, timeout_ms; // 0: not given
    const char *url_field;     // a literal: what the request calls `url`; NULL: "repoUrl"
};

struct git_cloned {
    char url[GIT_URL_MAX];       // canonical
    char dir[GIT_PATH_MAX];      // where it is: /workspace/NAME unless told otherwise
    char head[GIT_REF_MAX + 1];  // the branch; "": none
    char commit[GIT_COMMIT_MAX]; // "": it is empty
};

// What is going on in a sandbox with git, for one who waits for it.
struct git_work;
void git_cancel(struct git_work *work); // takes NULL; what runs is killed, nobody is called

// What does not depend on a sandbox: URL, branch, directory. 0, or -1 and the fault.
int git_clone_check(const struct git_clone *clone, struct git_fault *ret);
// That, and what does: its network, its secrets. For one that need not run.
int git_clone_allowed(struct db *db, const struct sandbox_row *row, const struct git_clone *clone,
                      struct git_fault *ret);
// One of the sandbox's secrets whose upstream the repository is in, written to `ret`; or NULL.
const char *git_find_secret(struct db *db, const struct sandbox_row *row, const char *url,
                            char ret[SECRET_NAME_MAX]);

// Exactly one of cloned and fault, once, perhaps before git_clone_start returns: then it returns
// NULL.
typedef void (*git_cloned_fn)(void *data, const struct git_cloned *cloned,
                              const struct git_fault *fault);
struct git_work *git_clone_start(struct db *db, struct sandbox *s, const struct git_clone *clone,
                                 git_cloned_fn fn, void *data);
