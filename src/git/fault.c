// SPDX-License-Identifier: Apache-2.0
// What git says when it fails, as one of our errors. It runs with LC_ALL=C, so the words are known;
// those that are not are told as they are.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "git/git-internal.h"

void git_fault_set(struct git_fault *fault, enum error_kind kind, const char *fmt, ...)
{
    va_list ap;
    fault->kind = kind;
    fault->code = error_name(kind);
    fault->status = error_status(kind);
    va_start(ap, fmt);
    (void)vsnprintf(fault->message, sizeof fault->message, fmt, ap);
    va_end(ap);
}

// Its last words, without what could mean something to a terminal.
static void take_words(const struct buf *from, char *ret, size_t size)
{
    size_t at = from->len > size - 1 ? from->len - (size - 1) : 0, n = 0;
    for (; at < from->len; at++) {
        char c = from->data[at];
        if (c == '\r')
            c = '\n';
        if ((unsigned char)c >= ' ' && c != 0x7f)
            ret[n++] = c;
        else if (c == '\n' && n > 0 && ret[n - 1] != '\n')
            ret[n++] = '\n';
    }
    while (n > 0 && ret[n - 1] == '\n')
        n--;
    ret[n] = '\0';
}

// The line that says why, in the message.
static void say(struct git_fault *ret, enum error_kind kind, const char *what)
{
    const char *line = strstr(ret->said, "remote: cay: "), *fatal = strstr(ret->said, "fatal: ");
    if (line != NULL)
        line += 13;
    else
        line = fatal != NULL ? fatal + 7 : ret->said;
    git_fault_set(ret, kind, "%s: %.*s", what, (int)strcspn(line, "\n"), line);
}

struct meaning {
    const char *words;
    enum error_kind kind;
    const char *message;
};

static bool find(const struct meaning *table, size_t n, struct git_fault *ret)
{
    for (size_t i = 0; i < n; i++) {
        if (strstr(ret->said, table[i].words) == NULL)
            continue;
        git_fault_set(ret, table[i].kind, "%s", table[i].message);
        return true;
    }
    return false;
}

#define NO_AUTH                                                                                    \
    "the git server wants credentials: PUT /secrets/{name} with its upstream and format \"Basic "  \
    "{basic}\", let the sandbox use it, and name it as 'secret'"
#define DENIED "the sandbox's network does not allow this: its 'network' setting says what it does"

// Those that are told with what was asked for.
static void name_things(const struct git_clone *clone, const char *dir, struct git_fault *ret)
{
    if (ret->kind == ERROR_FILE_EXISTS)
        git_fault_set(ret, ret->kind, "'%.200s' is there already and is not empty%s", dir,
                      clone->url_field == NULL ? ": say another 'targetDir'" : "");
    else if (ret->kind == ERROR_GIT_REPO_NOT_FOUND)
        git_fault_set(ret, ret->kind,
                      "there is no repository at %.200s, or it is shown only to those who may see "
                      "it: then name a secret%s",
                      clone->url, clone->url_field != NULL ? " (options.secret)" : "");
    else if (ret->kind == ERROR_GIT_BRANCH_NOT_FOUND && clone->branch != NULL)
        git_fault_set(ret, ret->kind, "the repository has no branch or tag '%.200s'",
                      clone->branch);
}

void git_fault_clone(const struct git_clone *clone, const char *dir,
                     const struct exec_result *result, struct git_fault *ret)
{
    static const struct meaning meanings[] = {
        {"already exists and is not an empty directory", ERROR_FILE_EXISTS,          ""                                        },
        {"Remote branch ",                               ERROR_GIT_BRANCH_NOT_FOUND, "the repository has no such branch or tag"},
        {"from proxy after CONNECT",                     ERROR_GIT_NETWORK_DENIED,   DENIED                                    },
        {"CONNECT tunnel failed, response 403",          ERROR_GIT_NETWORK_DENIED,   DENIED                                    },
 // the words of our own proxy
        {"by this sandbox's network setting",            ERROR_GIT_NETWORK_DENIED,   DENIED                                    },
        {"is not reached from a sandbox",                ERROR_GIT_NETWORK_DENIED,
         "the git server's address is a private one, which sandboxes do not reach: whoever runs "
         "the server can open it (egress-private)"                                                                             },
        {"network.maxBytes",                             ERROR_GIT_NETWORK_DENIED,   "the sandbox has used up its 'maxBytes'"  },
        {"terminal prompts disabled",                    ERROR_GIT_AUTH_FAILED,      NO_AUTH                                   },
        {"could not read Username",                      ERROR_GIT_AUTH_FAILED,      NO_AUTH                                   },
        {"could not read Password",                      ERROR_GIT_AUTH_FAILED,      NO_AUTH                                   },
        {"Authentication failed",                        ERROR_GIT_AUTH_FAILED,
         "the git server does not take these credentials"                                                                      },
        {"returned error: 401",                          ERROR_GIT_AUTH_FAILED,      NO_AUTH                                   },
        {"returned error: 403",                          ERROR_GIT_AUTH_FAILED,
         "403: the git server does not allow it, or the sandbox's 'network' does not"                                          },
        {"returned error: 404",                          ERROR_GIT_REPO_NOT_FOUND,   ""                                        },
        {"not found",                                    ERROR_GIT_REPO_NOT_FOUND,   ""                                        },
        {"No space left on device",                      ERROR_NO_SPACE,             "the sandbox's disk is full"              },
        {"Disk quota exceeded",                          ERROR_NO_SPACE,             "the sandbox's disk is full"              },
    };
    take_words(result->err, ret->said, sizeof ret->said);
    if (find(meanings, sizeof meanings / sizeof *meanings, ret))
        name_things(clone, dir, ret);
    else
        say(ret, ERROR_GIT_CLONE_FAILED, "git cannot clone");
}

void git_fault_read(const char *dir, const struct exec_result *result, struct git_fault *ret)
{
    static const struct meaning meanings[] = {
        {"not a git repository",       ERROR_GIT_REPO_NOT_FOUND, ""                          },
        {"cannot use bare repository", ERROR_GIT_REPO_NOT_FOUND, ""                          },
        {"must be run in a work tree", ERROR_GIT_REPO_NOT_FOUND, ""                          },
        {"cannot change to",           ERROR_NOT_FOUND,          ""                          },
        {"No space left on device",    ERROR_NO_SPACE,           "the sandbox's disk is full"},
        {"Disk quota exceeded",        ERROR_NO_SPACE,           "the sandbox's disk is full"},
    };
    take_words(result->err, ret->said, sizeof ret->said);
    if (find(meanings, sizeof meanings / sizeof *meanings, ret)) {
        if (ret->kind == ERROR_GIT_REPO_NOT_FOUND || ret->kind == ERROR_NOT_FOUND)
            git_fault_set(ret, ret->kind, "there is no %s at '%.200s'",
                          ret->kind == ERROR_NOT_FOUND ? "directory" : "git repository", dir);
        return;
    }
    say(ret, ERROR_GIT_OPERATION_FAILED, "git refuses");
}
