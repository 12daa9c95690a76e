// SPDX-License-Identifier: Apache-2.0
#include "edge/error.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/json.h"

static const struct {
    unsigned status;
    const char *name;
    const char *meaning;
} kinds[ERROR_KIND_MAX] = {
    [ERROR_INVALID_REQUEST] = {400, "INVALID_REQUEST",
                               "The request makes no sense; the message names the field."                     },
    [ERROR_CANNOT_START] = {400, "CANNOT_START",           "The program of a process could not be started."},
    [ERROR_IS_DIRECTORY] = {400, "IS_DIRECTORY",           "A file is wanted, and this is a directory."    },
    [ERROR_NOT_DIRECTORY] = {400, "NOT_DIRECTORY",          "A directory is wanted, and this is none."      },
    [ERROR_UNAUTHORIZED] = {401, "UNAUTHORIZED",           "No token, or not one of ours."                 },
    [ERROR_MODEL_AUTH] = {401, "AUTH_ERROR",             "The model's API does not take the key."        },
    [ERROR_BUDGET_EXCEEDED] = {402, "BUDGET_EXCEEDED",        "The sandbox's `budget` is used up."            },
    [ERROR_FORBIDDEN] = {403, "FORBIDDEN",              "The token may not do this."                    },
    [ERROR_PERMISSION_DENIED] = {403, "PERMISSION_DENIED",
                               "The sandbox's own system does not allow it, even to its root."                },
    [ERROR_GIT_AUTH_FAILED] = {403, "GIT_AUTH_FAILED",
                               "The git server wants other credentials, or any."                              },
    [ERROR_GIT_NETWORK_DENIED] = {403, "GIT_NETWORK_DENIED",
                               "The sandbox's `network` does not allow that host."                            },
    [ERROR_QUOTA_EXCEEDED] = {403, "QUOTA_EXCEEDED",
                               "A quota is used up and frees itself by deleting only."                        },
    [ERROR_NOT_FOUND] = {404, "NOT_FOUND",              "What was named does not exist."                },
    [ERROR_GIT_REPO_NOT_FOUND] = {404, "GIT_REPO_NOT_FOUND",     "There is no git repository there."             },
    [ERROR_GIT_BRANCH_NOT_FOUND] = {404, "GIT_BRANCH_NOT_FOUND",
                               "The repository has no such branch or tag."                                    },
    [ERROR_INVALID_TOKEN] = {404, "INVALID_TOKEN",
                               "No preview has this name and token; its port may have been closed."           },
    [ERROR_METHOD_NOT_ALLOWED] = {405, "METHOD_NOT_ALLOWED",
                               "The path has other methods: the Allow header lists them."                     },
    [ERROR_REQUEST_TIMEOUT] = {408, "REQUEST_TIMEOUT",        "The request did not arrive in time."           },
    [ERROR_CONFLICT] = {409, "CONFLICT",               "It exists with other settings, or is in use."  },
    [ERROR_FILE_EXISTS] = {409, "FILE_EXISTS",            "Something has this path already."              },
    [ERROR_GIT_OPERATION_FAILED] = {409, "GIT_OPERATION_FAILED",
                               "Git refused; its words are in `details`."                                     },
    [ERROR_REQUEST_IN_PROGRESS] = {409, "REQUEST_IN_PROGRESS",
                               "The first request with this Idempotency-Key still runs."                      },
    [ERROR_OUTCOME_UNKNOWN] = {409, "OUTCOME_UNKNOWN",
                               "The first request with this Idempotency-Key was begun; its answer "
                               "is not there."                                                                },
    [ERROR_IDEMPOTENCY_KEY_REUSED] = {409, "IDEMPOTENCY_KEY_REUSED",
                               "The Idempotency-Key belongs to another request."                              },
    [ERROR_CONTEXT_DEAD] = {409, "CONTEXT_DEAD",
                               "The context's interpreter has ended: restart it, or use another."             },
    [ERROR_SESSION_TERMINATED] = {410, "SESSION_TERMINATED",
                               "The command ended its session's shell."                                       },
    [ERROR_RESULT_LOST] = {410, "RESULT_LOST",
                               "It was being worked on when the server was killed."                           },
    [ERROR_PRECONDITION_FAILED] =
        {412, "PRECONDITION_FAILED",
                               "The file is not in the state that If-Match or If-None-Match names."           },
    [ERROR_PAYLOAD_TOO_LARGE] = {413, "PAYLOAD_TOO_LARGE",      "The body is too large."                        },
    [ERROR_URI_TOO_LONG] = {414, "URI_TOO_LONG",           "Path and query are too long."                  },
    [ERROR_UNSUPPORTED_MEDIA_TYPE] = {415, "UNSUPPORTED_MEDIA_TYPE",
                               "A body in an encoding that is not taken here."                                },
    [ERROR_RANGE_NOT_SATISFIABLE] = {416, "RANGE_NOT_SATISFIABLE",
                               "The range lies behind the file's end."                                        },
    [ERROR_EXPECTATION_FAILED] = {417, "EXPECTATION_FAILED",     "An Expect header nobody can meet."             },
    [ERROR_MISDIRECTED_REQUEST] = {421, "MISDIRECTED_REQUEST",
                               "This connection is for another host: open one of its own."                    },
    [ERROR_UPGRADE_REQUIRED] = {426, "UPGRADE_REQUIRED",       "This is a WebSocket."                          },
    [ERROR_RATE_LIMITED] = {429, "RATE_LIMITED",
                               "Too many requests with this token, or to the model."                          },
    [ERROR_HEADERS_TOO_LARGE] = {431, "HEADERS_TOO_LARGE",      "Too many header lines or bytes."               },
    [ERROR_INTERNAL] = {500, "INTERNAL_ERROR",         "Cay misbehaved; its log has the request id."   },
    [ERROR_STORE_DAMAGED] =
        {500, "STORE_DAMAGED",
                               "What is in the store is not what was written; nothing was changed by it."     },
    [ERROR_NOT_IMPLEMENTED] = {501, "NOT_IMPLEMENTED",        "This machine or version cannot do it."         },
    [ERROR_LANGUAGE_MISSING] =
        {501, "LANGUAGE_MISSING",
                               "The sandbox's image has not got that language; the message says what to add." },
    [ERROR_GIT_CLONE_FAILED] = {502, "GIT_CLONE_FAILED",
                               "The git server did not answer as one does, or not in time."                   },
    [ERROR_BAD_GATEWAY] = {502, "BAD_GATEWAY",
                               "The program in the sandbox is not there, or does not speak HTTP."             },
    [ERROR_MODEL_FAILED] = {502, "API_ERROR",
                               "The model's API failed, also when it was asked again."                        },
    [ERROR_MODEL_TIMEOUT] = {504, "EXECUTION_TIMEOUT",      "The model did not answer in time."             },
    [ERROR_MISSING_API_KEY] =
        {503, "MISSING_API_KEY",
                               "There is no key for the model's API; the message says how to set one."        },
    [ERROR_UNAVAILABLE] = {503, "UNAVAILABLE",            "Not now: try again after Retry-After seconds." },
    [ERROR_STORE_UNAVAILABLE] =
        {503, "STORE_UNAVAILABLE",
                               "The store is down, full or does not take the credentials: try later."         },
    [ERROR_NO_SPACE] = {507, "NO_SPACE",
                               "The sandbox's disk is full: delete something, or give it more."               },
};

unsigned error_status(enum error_kind kind)
{
    assert(kind < ERROR_KIND_MAX);
    return kinds[kind].status;
}

const char *error_name(enum error_kind kind)
{
    assert(kind < ERROR_KIND_MAX);
    return kinds[kind].name;
}

const char *error_meaning(enum error_kind kind)
{
    assert(kind < ERROR_KIND_MAX);
    return kinds[kind].meaning;
}

enum error_kind error_of(enum err_code code)
{
    switch (code) {
    case ERR_INVALID:
        return ERROR_INVALID_REQUEST;
    case ERR_NOT_FOUND:
        return ERROR_NOT_FOUND;
    case ERR_CONFLICT:
        return ERROR_CONFLICT;
    case ERR_EXHAUSTED:
        return ERROR_QUOTA_EXCEEDED;
    case ERR_DENIED:
        return ERROR_FORBIDDEN;
    case ERR_UNSUPPORTED:
        return ERROR_NOT_IMPLEMENTED;
    case ERR_UNAVAILABLE:
        return ERROR_UNAVAILABLE;
    case ERR_NONE:
    case ERR_INTERNAL:
    case ERR_CODE_MAX:
        break;
    }
    return ERROR_INTERNAL;
}

enum error_kind error_of_err(const struct err *err)
{
    if (err->code == ERR_UNAVAILABLE && err->sys_errno == EREMOTEIO)
        return ERROR_STORE_UNAVAILABLE;
    if (err->code == ERR_INTERNAL && err->sys_errno == EBADMSG)
        return ERROR_STORE_DAMAGED;
    return error_of(err->code);
}

void error_write(struct buf *buf, enum error_kind kind, const char *message, const char *request_id,
                 const char *details)
{
    struct json j;
    json_init(&j, buf);
    json_open_object(&j);
    json_key(&j, "error");
    json_put_str(&j, message);
    json_key(&j, "error_code");
    json_put_str(&j, error_name(kind));
    if (request_id != NULL) {
        json_key(&j, "request_id");
        json_put_str(&j, request_id);
    }
    if (details != NULL) {
        json_key(&j, "details");
        json_put_raw(&j, details, strlen(details));
    }
    json_close_object(&j);
    (void)buf_append_char(buf, '\n');
}
