// SPDX-License-Identifier: Apache-2.0
#include "model/fault.h"

#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

enum { WAIT_MS = 500, WAIT_MAX_MS = 8000, SNIPPET_MAX = 200 };
enum { PART_OF_KEY_MIN = 4, BEGINNING_OF_KEY_MIN = 8 };

static const struct {
    unsigned status;
    enum model_end end;
} ends[] = {
    {400, MODEL_INVALID   },
    {401, MODEL_AUTH      },
    {402, MODEL_AUTH      },
    {403, MODEL_AUTH      },
    {408, MODEL_FAILED    },
    {409, MODEL_FAILED    },
    {429, MODEL_LIMITED   },
    {529, MODEL_OVERLOADED},
};

// Errors inside a stream have no status.
static const struct {
    const char *type;
    unsigned status;
} types[] = {
    {"invalid_request_error", 400},
    {"authentication_error",  401},
    {"billing_error",         402},
    {"permission_error",      403},
    {"not_found_error",       404},
    {"request_too_large",     413},
    {"rate_limit_error",      429},
    {"timeout_error",         504},
    {"overloaded_error",      529},
};

static enum model_end end_of(unsigned status)
{
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends[i].status == status)
            return ends[i].end;
    return status >= 400 && status < 500 ? MODEL_INVALID : MODEL_FAILED;
}

static bool is_passing(unsigned status)
{
    return status == 408 || status == 409 || status == 429 || status >= 500;
}

void fault_set(struct fault *fault, enum model_end end, const char *fmt, ...)
{
    va_list ap;
    *fault = (struct fault){.end = end, .retry_after_ms = -1};
    va_start(ap, fmt);
    (void)vsnprintf(fault->message, sizeof fault->message, fmt, ap);
    va_end(ap);
}

// An answer from something between us and the API: its first line may say what.
static void set_foreign(struct fault *fault, unsigned status, const char *body, size_t len)
{
    int n = 0;
    while (n < SNIPPET_MAX && (size_t)n < len && strchr("\r\n", body[n]) == NULL)
        n++;
    if (status >= 300 && status < 400)
        fault_set(fault, end_of(status), "the API answered HTTP %u: redirects are not followed",
                  status);
    else
        fault_set(fault, end_of(status), "the API answered HTTP %u%s%.*s", status,
                  n > 0 ? ": " : "", n, n > 0 ? body : "");
}

void fault_of_status(struct fault *fault, const struct fetch_head *head, const char *body,
                     size_t len)
{
    struct api_error error = {0};
    if (!api_error_read(body, len, &error))
        set_foreign(fault, head->status, body, len);
    else if (*error.message != '\0')
        fault_set(fault, end_of(head->status), "%s (HTTP %u%s%s)", error.message, head->status,
                  *error.type != '\0' ? ", " : "", error.type);
    else
        fault_set(fault, end_of(head->status), "the API answered HTTP %u %s", head->status,
                  error.type);
    memcpy(fault->type, error.type, sizeof fault->type);
    fault->may_ask_again =
        head->should_retry >= 0 ? head->should_retry == 1 : is_passing(head->status);
    fault->retry_after_ms = head->retry_after_ms;
}

static void set_stream_error(struct fault *fault, const struct api_error *error)
{
    unsigned status = 500;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].type, error->type) == 0)
            status = types[i].status;
    fault_set(fault, end_of(status), "%s (%s, in the midst of the answer)",
              *error->message != '\0' ? error->message : "the API failed",
              *error->type != '\0' ? error->type : "error");
    memcpy(fault->type, error->type, sizeof fault->type);
    fault->may_ask_again = is_passing(status);
}

void fault_of_stream(struct fault *fault, const struct stream *stream)
{
    const struct api_error *error = stream_error(stream);
    switch (stream_state(stream)) {
    case STREAM_ERROR:
        set_stream_error(fault, error);
        return;
    case STREAM_LARGE:
        fault_set(fault, MODEL_FAILED, "%s", error->message);
        return;
    case STREAM_BROKEN:
        fault_set(fault, MODEL_FAILED, "the API's answer is none: %s", error->message);
        break;
    case STREAM_OPEN:
    case STREAM_WHOLE:
    case STREAM_HALTED:
        fault_set(fault, MODEL_NETWORK, "the API's answer broke off before its end");
        break;
    }
    fault->may_ask_again = true;
}

void fault_of_network(struct fault *fault, const struct fetch_end *end, bool had_begun)
{
    fault_set(fault, MODEL_NETWORK, "%s: %s",
              had_begun ? "the API's answer broke off before its end" : "the API was not reached",
              *end->why != '\0' ? end->why : "nothing was answered");
    fault->may_ask_again = !end->is_pointless;
}

// --- secrets

static void replace_all(char *text, const char *what, const char *with)
{
    size_t n = strlen(what), m = strlen(with) < n ? strlen(with) : n;
    for (char *at = text; n > 0 && (at = strstr(at, what)) != NULL; at += m) {
        memcpy(at, with, m);
        memmove(at + m, at + n, strlen(at + n) + 1);
    }
}

static size_t count_same(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] != '\0' && a[n] == b[n])
        n++;
    return n;
}

// A text that was cut, and to which more was added then, has the beginning of it.
static void hide_beginnings(char *text, const char *what)
{
    static const char with[] = "***";
    for (char *at = text; *at != '\0'; at++) {
        size_t n = count_same(at, what);
        if (n < BEGINNING_OF_KEY_MIN)
            continue;
        memcpy(at, with, sizeof with - 1);
        memmove(at + sizeof with - 1, at + n, strlen(at + n) + 1);
        at += sizeof with - 2;
    }
}

// A text that was cut may end with the beginning of it.
static void cut_end(char *text, const char *what)
{
    size_t len = strlen(text), n = strlen(what);
    for (n = n < len ? n : len; n >= PART_OF_KEY_MIN; n--) {
        if (memcmp(text + len - n, what, n) == 0) {
            text[len - n] = '\0';
            return;
        }
    }
}

void fault_hide_secret(char *text, const char *secret)
{
    replace_all(text, secret, "***");
    hide_beginnings(text, secret);
    cut_end(text, secret);
}

static void clean(char *text)
{
    char *to = text;
    size_t left = strlen(text);
    for (size_t n; left > 0; text += n, left -= n) {
        n = utf8_step(text, left);
        if (n == 0 || (unsigned char)*text < ' ' || *text == '\x7f') {
            n = n > 0 ? n : 1;
            *to++ = ' ';
            continue;
        }
        memmove(to, text, n);
        to += n;
    }
    *to = '\0';
}

void fault_hide(char *text, const char *header)
{
    const char *value = header != NULL ? strchr(header, ':') : NULL;
    if (value != NULL) {
        value += 1 + strspn(value + 1, " ");
        const char *word = strrchr(value, ' ');
        replace_all(text, value, "***");
        fault_hide_secret(text, word != NULL ? word + 1 : value);
    }
    clean(text);
}

// --- waiting

int64_t fault_wait_ms(const struct fault *fault, unsigned n)
{
    int64_t ms = n < 5 ? (int64_t)WAIT_MS << n : WAIT_MAX_MS;
    if (fault->retry_after_ms >= 0)
        return fault->retry_after_ms;
    ms = ms < WAIT_MAX_MS ? ms : WAIT_MAX_MS;
    // Less up to a quarter, so that those who failed together do not come back together.
    return ms - (int64_t)randombytes_uniform((uint32_t)(ms / 4) + 1);
}
