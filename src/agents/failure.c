// SPDX-License-Identifier: Apache-2.0
#include "agents/failure.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "egress/model-key.h"

static const struct {
    unsigned status;
    const char *error_code;
    const char *what; // before the API's own words
} kinds[MODEL_END_MAX] = {
    [MODEL_DONE] = {502, "API_ERROR",         "the model's answer was none"                          },
    [MODEL_INVALID] = {400, "INVALID_REQUEST",   "the model's API refused the request"                  },
    [MODEL_AUTH] =
        {401, "AUTH_ERROR",
                    "the model's API does not take the key (the server's, or the secret 'anthropic')"},
    [MODEL_LIMITED] = {429, "RATE_LIMITED",      "the model's API limits how often it is asked"         },
    [MODEL_OVERLOADED] = {502, "API_ERROR",         "the model's API is overloaded"                        },
    [MODEL_FAILED] = {502, "API_ERROR",         "the model's API failed"                               },
    [MODEL_NETWORK] = {502, "API_ERROR",         "the model's API cannot be reached"                    },
    [MODEL_TIMEOUT] = {504, "EXECUTION_TIMEOUT", "the model did not answer in time"                     },
    [MODEL_CANCELLED] = {503, "CANCELLED",         "it was cancelled"                                     },
};

void failure_set(struct failure *ret, unsigned status, const char *error_code, const char *fmt, ...)
{
    va_list ap;
    *ret = (struct failure){.status = status, .error_code = error_code};
    va_start(ap, fmt);
    (void)vsnprintf(ret->message, sizeof ret->message, fmt, ap);
    va_end(ap);
}

void failure_of(const struct model_result *result, struct failure *ret)
{
    if (result->error_type != NULL && strcmp(result->error_type, FAILURE_NO_KEY) == 0) {
        failure_no_key(ret);
        return;
    }
    const char *said = result->message != NULL ? result->message : "";
    failure_set(ret, kinds[result->end].status, kinds[result->end].error_code, "%s%s%s",
                kinds[result->end].what, said[0] != '\0' ? ": " : "", said);
    ret->retry_after_ms = result->retry_after_ms;
}

void failure_of_err(const struct err *err, struct failure *ret)
{
    static const struct {
        unsigned status;
        const char *error_code;
    } of[ERR_CODE_MAX] = {
        [ERR_NONE] = {500, "INTERNAL_ERROR"  },
          [ERR_INVALID] = {400, "INVALID_REQUEST" },
        [ERR_NOT_FOUND] = {404, "NOT_FOUND"       },
          [ERR_CONFLICT] = {409, "CONTEXT_DEAD"    },
        [ERR_EXHAUSTED] = {403, "QUOTA_EXCEEDED"  },
          [ERR_DENIED] = {403, "FORBIDDEN"       },
        [ERR_UNSUPPORTED] = {501, "LANGUAGE_MISSING"},
          [ERR_UNAVAILABLE] = {503, "UNAVAILABLE"     },
        [ERR_INTERNAL] = {500, "INTERNAL_ERROR"  },
    };
    failure_set(ret, of[err->code].status, of[err->code].error_code, "%s", err->msg);
    if (err->code == ERR_UNAVAILABLE)
        ret->retry_after_ms = 1000;
}

void failure_no_key(struct failure *ret)
{
    failure_set(ret, 503, "MISSING_API_KEY",
                "there is no key for the model's API: start `cay serve` with ANTHROPIC_API_KEY (or "
                "ANTHROPIC_AUTH_TOKEN) set, or store one of your own: cay secret set " MODEL_SECRET
                ", or PUT /secrets/" MODEL_SECRET);
}

void failure_timeout(struct failure *ret, int64_t timeout_ms)
{
    failure_set(ret, 504, "EXECUTION_TIMEOUT", "it was not done within %" PRId64 " ms", timeout_ms);
}

bool failure_of_budget(const struct sandbox_row *row, struct failure *ret)
{
    if (row->budget_cost >= 0 && row->spent_cost >= row->budget_cost)
        failure_set(ret, 402, "BUDGET_EXCEEDED",
                    "the budget of sandbox '%.128s' is used up: $%.6f of $%.6f", row->id,
                    (double)row->spent_cost / 1e9, (double)row->budget_cost / 1e9);
    else if (row->budget_tokens >= 0 && row->spent_tokens >= row->budget_tokens)
        failure_set(ret, 402, "BUDGET_EXCEEDED",
                    "the budget of sandbox '%.128s' is used up: %" PRId64 " of %" PRId64 " tokens",
                    row->id, row->spent_tokens, row->budget_tokens);
    else
        return false;
    return true;
}

void failure_write(const struct failure *failure, const char *request_id, struct buf *body)
{
    struct json j;
    json_init(&j, body);
    json_open_object(&j);
    json_key(&j, "error");
    json_put_str(&j, failure->message);
    json_key(&j, "error_code");
    json_put_str(&j, failure->error_code);
    json_key(&j, "request_id");
    json_put_str(&j, request_id);
    json_close_object(&j);
    (void)json_finish(&j);
}
