// SPDX-License-Identifier: Apache-2.0
// What goes wrong: errors, retries, streams that break, time, cancelling, closing, guarded places.
#include <dirent.h>
#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "model/fault.h"
#include "model_kit.h"

#define ERROR_BODY(type, message)                                                                  \
    "{\"type\":\"error\",\"error\":{\"type\":\"" type "\",\"message\":\"" message "\"},"           \
    "\"request_id\":\"req_9\"}"
#define NO_WAIT "retry-after-ms: 1\r\n"

static void add_error(struct kit *kit, char **ret, const char *status, const char *headers,
                      const char *body)
{
    char *head = NULL;
    assert_true(asprintf(&head,
                         "HTTP/1.1 %s\r\nContent-Type: application/json\r\nrequest-id: req_7\r\n%s",
                         status, headers) > 0);
    *ret = kit_answer(head, body);
    kit_add(&kit->server, *ret);
    free(head);
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("'%s' is not in: %s", part, text);
}

// --- errors that are answered

CHECK_CASE(test_errors)
{
    static const struct {
        const char *status, *type;
        enum model_end end;
        unsigned attempts;
    } cases[] = {
        {"400 Bad Request",           "invalid_request_error", MODEL_INVALID,    1},
        {"401 Unauthorized",          "authentication_error",  MODEL_AUTH,       1},
        {"403 Forbidden",             "permission_error",      MODEL_AUTH,       1},
        {"404 Not Found",             "not_found_error",       MODEL_INVALID,    1},
        {"413 Too Large",             "request_too_large",     MODEL_INVALID,    1},
        {"422 Unprocessable",         "invalid_request_error", MODEL_INVALID,    1},
        {"408 Timeout",               "timeout_error",         MODEL_FAILED,     3},
        {"409 Conflict",              "api_error",             MODEL_FAILED,     3},
        {"429 Too Many",              "rate_limit_error",      MODEL_LIMITED,    3},
        {"500 Internal Server Error", "api_error",             MODEL_FAILED,     3},
        {"529 Overloaded",            "overloaded_error",      MODEL_OVERLOADED, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kit kit;
        struct kit_outcome out;
        char *answers[3], body[200];
        kit_open(&kit);
        (void)snprintf(body, sizeof body, ERROR_BODY("%s", "It is %s"), cases[i].type,
                       cases[i].status);
        for (unsigned n = 0; n < 3; n++)
            add_error(&kit, &answers[n], cases[i].status, NO_WAIT, body);
        kit_run(&kit, &out, &kit_streamed);
        assert_int_equal(out.end, cases[i].end);
        assert_int_equal(out.attempts, cases[i].attempts);
        assert_int_equal(out.n_again, cases[i].attempts - 1);
        assert_int_equal(out.status, strtoul(cases[i].status, NULL, 10));
        assert_string_equal(out.error_type, cases[i].type);
        assert_string_equal(out.request_id, "req_7");
        assert_has(out.message, "It is ");
        assert_string_equal(out.content, "[]");
        assert_string_equal(out.usage_json, "{}");
        assert_int_equal(out.retry_after_ms, 1);
        kit_outcome_done(&out);
        kit_close(&kit);
        for (unsigned n = 0; n < 3; n++)
            free(answers[n]);
    }
}

CHECK_CASE(test_retry_succeeds)
{
    struct kit kit;
    struct kit_outcome out;
    char *first = NULL, *second = NULL;
    kit_open(&kit);
    add_error(&kit, &first, "529 Overloaded", NO_WAIT, ERROR_BODY("overloaded_error", "x"));
    second = kit_answer(KIT_HEAD_STREAM, KIT_STREAM);
    kit_add(&kit.server, second);
    kit_run(&kit, &out, &kit_streamed);
    assert_int_equal(out.end, MODEL_DONE);
    assert_int_equal(out.attempts, 2);
    assert_int_equal(out.status, 200);
    assert_int_equal(out.again.attempt, 2);
    assert_int_equal(out.again.status, 529);
    assert_int_equal(out.again.delay_ms, 1);
    assert_string_equal(out.message, "");
    assert_int_equal(kit.server.n_conns, 1);
    kit_outcome_done(&out);
    kit_close(&kit);
    free(first);
    free(second);
}

// The server's word counts more than the status.
CHECK_CASE(test_should_retry)
{
    struct kit kit;
    struct kit_outcome out;
    char *answers[3];
    kit_open(&kit);
    add_error(&kit, &answers[0], "529 Overloaded", "x-should-retry: false\r\n", "");
    add_error(&kit, &answers[1], "400 Bad", "X-Should-Retry: true\r\n" NO_WAIT, "");
    answers[2] = kit_answer(KIT_HEAD_JSON, KIT_JSON);
    kit_add(&kit.server, answers[2]);
    kit_run(&kit, &out, &kit_plain);
    assert_int_equal(out.end, MODEL_OVERLOADED);
    assert_int_equal(out.attempts, 1);
    assert_has(out.message, "HTTP 529");
    kit_outcome_done(&out);
    kit_run(&kit, &out, &kit_plain);
    assert_int_equal(out.end, MODEL_DONE);
    assert_int_equal(out.attempts, 2);
    kit_outcome_done(&out);
    kit_close(&kit);
    for (unsigned i = 0; i < 3; i++)
        free(answers[i]);
}

CHECK_CASE(test_waits)
{
    struct fault fault;
    fault_set(&fault, MODEL_FAILED, "x");
    static const int64_t most[] = {500, 1000, 2000, 4000, 8000, 8000, 8000};
    for (unsigned n = 0; n < sizeof most / sizeof *most; n++) {
        for (unsigned i = 0; i < 200; i++)
            assert_in_range(fault_wait_ms(&fault, n), most[n] * 3 / 4, most[n]);
    }
    fault.retry_after_ms = 0;
    assert_int_equal(fault_wait_ms(&fault, 3), 0);
    fault.retry_after_ms = 123456;
    assert_int_equal(fault_wait_ms(&fault, 0), 123456);
}

// How long it says it waits, from each form of the header; too long is not waited for.
CHECK_CASE(test_retry_after)
{
    char date[64], headers[128];
    time_t at = time(NULL) + 3600;
    struct tm tm;
    assert_true(strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&at, &tm)) > 0);
    (void)snprintf(headers, sizeof headers, "Retry-After: %s\r\n", date);
    const struct {
        const char *headers;
        int64_t least, most;
    } cases[] = {
        {"retry-after: 1000\r\n",                        1000000, 1000000},
        {"retry-after: 700.5\r\n",                       700500,  700500 },
        {headers,                                        3590000, 3600000},
        {"retry-after: 5\r\nretry-after-ms: 650000\r\n", 650000,  650000 },
        {"retry-after-ms: 650000\r\nretry-after: 5\r\n", 650000,  650000 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kit kit;
        struct kit_outcome out;
        char *answer = NULL;
        kit_open(&kit);
        add_error(&kit, &answer, "429 Too Many", cases[i].headers,
                  ERROR_BODY("rate_limit_error", "x"));
        kit_run(&kit, &out, &kit_plain);
        assert_int_equal(out.end, MODEL_LIMITED);
        assert_int_equal(out.attempts, 1);
        assert_in_range(out.retry_after_ms, cases[i].least, cases[i].most);
        kit_outcome_done(&out);
        kit_close(&kit);
        free(answer);
    }
}

CHECK_CASE(test_foreign_answers)
{
    static const struct {
        const char *status, *headers, *body, *says;
        enum model_end end;
    } cases[] = {
        {"302 Found",       "Location: http://127.0.0.1:1/\r\n", "",               "redirects are not followed",
         MODEL_FAILED                                                                                                         },
        {"418 Teapot",      "",                                  "<html>\nmore",   "HTTP 418: <html>",           MODEL_INVALID},
        {"404 Not Found",   "",                                  "{\"detail\":1}", "HTTP 404",                   MODEL_INVALID},
        {"502 Bad Gateway", "x-should-retry: false\r\n",         "a\x01\xff b",    "HTTP 502: a   b",
         MODEL_FAILED                                                                                                         },
        {"200 OK",          "",                                  "{\"a\":1}",      "is none",                    MODEL_FAILED },
        {"200 OK",          "",                                  "no",             "is none",                    MODEL_FAILED },
        {"204 No Content",  "",                                  "",               "is none",                    MODEL_FAILED },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kit kit;
        struct kit_outcome out;
        char *answer = NULL;
        kit_open(&kit);
        add_error(&kit, &answer, cases[i].status, cases[i].headers, cases[i].body);
        kit_run(&kit, &out, &kit_plain);
        assert_int_equal(out.end, cases[i].end);
        assert_int_equal(out.attempts, 1);
        assert_has(out.message, cases[i].says);
        kit_outcome_done(&out);
        kit_close(&kit);
        free(answer);
    }
}

// --- secrets

CHECK_CASE(test_key_is_never_told)
{
    struct kit kit;
    struct kit_outcome out;
    struct buf body;
    char *answers[2];
    kit_open(&kit);
    buf_init(&body, 65536);
    (void)buf_printf(&body, "{\"error\":{\"type\":\"%s\",\"message\":\"bad key " KIT_KEY " and",
                     KIT_KEY);
    for (unsigned i = 0; i < 200; i++)
        (void)buf_append_str(&body, KIT_KEY);
    (void)buf_append_str(&body, "\"}}");
    add_error(&kit, &answers[0], "401 No", "request-id: x" KIT_KEY "\r\n", buf_str(&body));
    add_error(&kit, &answers[1], "401 No", "", "you sent " KIT_KEY);
    for (unsigned i = 0; i < 2; i++) {
        kit_run(&kit, &out, &kit_plain);
        assert_int_equal(out.end, MODEL_AUTH);
        assert_null(strstr(out.message, "secret"));
        assert_null(strstr(out.error_type, "secret"));
        assert_null(strstr(out.request_id, "secret"));
        assert_has(out.message, "***");
        kit_outcome_done(&out);
    }
    buf_done(&body);
    kit_close(&kit);
    free(answers[0]);
    free(answers[1]);
}

CHECK_CASE(test_hiding)
{
    static const struct {
        const char *header, *text, *want;
    } cases[] = {
        {"x-api-key: abcdef",               "abcdef, abcdefabcdef", "***, ******"  },
        {"x-api-key: abcdef",               "x abcd",               "x "           },
        {"x-api-key: abcdef",               "x abc",                "x abc"        },
        {"authorization: Bearer tok-12345", "tok-12345 Bearer",     "*** Bearer"   },
        {"authorization: Bearer tok-12345", "Bearer tok-12345",     "***"          },
        {"x-api-key: a",                    "banana",               "b*n*n*"       },
        {"x-api-key: ",                     "as it is",             "as it is"     },
        {"x-api-key: k",                    "t\xc3\xa4\xc3 \n\x7f", "t\xc3\xa4    "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        KIT_COPY(text, cases[i].text);
        fault_hide(text, cases[i].header);
        assert_string_equal(text, cases[i].want);
    }
}

// --- connections and streams that break

CHECK_CASE(test_no_connection)
{
    struct kit kit;
    struct kit_outcome out;
    kit_open(&kit);
    char url[64];
    // A port that was free a moment ago: bound, and not listened on.
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u", ntohs(at.sin_port));
    const struct model_access access = {.base_url = url, .header = kit.access.header};
    struct model_request more = kit_streamed;
    more.access = &access;
    more.retries = 1;
    kit_run(&kit, &out, &more);
    assert_int_equal(out.end, MODEL_NETWORK);
    assert_int_equal(out.status, 0);
    assert_int_equal(out.attempts, 2);
    assert_int_equal(out.again.status, 0);
    assert_in_range(out.again.delay_ms, 375, 500);
    assert_has(out.message, "was not reached");
    kit_outcome_done(&out);
    (void)close(fd);
    kit_close(&kit);
}

static void check_broken(const char *first, size_t first_len, bool reset, const char *says,
                         enum model_end end)
{
    struct kit kit;
    struct kit_outcome out;
    kit_open(&kit);
    char *whole = kit_answer(KIT_HEAD_STREAM, KIT_STREAM);
    for (unsigned i = 0; i < 3; i++) {
        struct kit_reply *reply = kit_add(&kit.server, i == 1 ? whole : first);
        reply->len = i == 1 ? 0 : first_len;
        reply->close = i != 1;
        reply->reset = i != 1 && reset;
    }
    kit_run(&kit, &out, &kit_streamed);
    assert_int_equal(out.end, MODEL_DONE);
    assert_int_equal(out.attempts, 2);
    assert_int_equal(out.n_again, 1);
    // What was told before is void, and what came then is all of it.
    assert_string_equal(buf_str(&out.text), "Hello, w\xc3\xb6rld");
    kit_outcome_done(&out);
    struct model_request more = kit_streamed;
    more.retries = 0;
    kit_run(&kit, &out, &more);
    assert_int_equal(out.end, end);
    assert_int_equal(out.n_again, 0);
    assert_has(out.message, says);
    assert_string_equal(out.content, "[]");
    kit_outcome_done(&out);
    kit_close(&kit);
    free(whole);
}

CHECK_CASE(test_streams_that_break)
{
    char *chunked = kit_chunked(KIT_HEAD_STREAM, KIT_STREAM, 50, true);
    char *open = kit_answer(KIT_HEAD_STREAM "X-Y: ", KIT_STREAM); // its length is no length
    size_t len = strlen(chunked), head = sizeof KIT_HEAD_STREAM - 1;
    // In the midst of a chunk; between head and body; before the last event is over.
    check_broken(chunked, head + 200, false, "broke off", MODEL_NETWORK);
    check_broken(chunked, head + 200, true, "the API", MODEL_NETWORK); // bytes may be lost by it
    check_broken(chunked, head + 28, false, "broke off", MODEL_NETWORK);
    check_broken(chunked, len - 20, false, "broke off", MODEL_NETWORK);
    check_broken(chunked, head / 2, false, "broke off", MODEL_NETWORK);
    // A body that ends with its connection, too early: only the missing end tells.
    check_broken(open, strlen(open) - 2, false, "broke off", MODEL_NETWORK);
    free(chunked);
    free(open);
    chunked = kit_chunked(KIT_HEAD_STREAM, KIT_START KIT_TEXT_START KIT_TEXT("Hel"), 50, true);
    check_broken(chunked, 0, false, "broke off", MODEL_NETWORK);
    free(chunked);
    chunked = kit_chunked(KIT_HEAD_STREAM, KIT_START "data: {\n\n", 50, true);
    check_broken(chunked, 0, false, "not JSON", MODEL_FAILED);
    free(chunked);
    chunked =
        kit_chunked(KIT_HEAD_STREAM,
                    KIT_START KIT_TEXT_START KIT_TEXT("Hel") "event: error\ndata: " ERROR_BODY(
                        "overloaded_error", "Busy") "\n\n",
                    50, true);
    check_broken(chunked, 0, false, "Busy (overloaded_error", MODEL_OVERLOADED);
    free(chunked);
}

// An error in a stream that asking again does not help.
CHECK_CASE(test_final_error_in_stream)
{
    struct kit kit;
    struct kit_outcome out;
    kit_open(&kit);
    char *answer = kit_answer(KIT_HEAD_STREAM,
                              KIT_START "data: " ERROR_BODY("invalid_request_error", "No") "\n\n");
    kit_add(&kit.server, answer);
    kit_run(&kit, &out, &kit_streamed);
    assert_int_equal(out.end, MODEL_INVALID);
    assert_int_equal(out.attempts, 1);
    assert_int_equal(out.usage.input, 10); // as far as it was told
    assert_int_equal(out.n_raw, 1);        // not the error
    kit_outcome_done(&out);
    kit_close(&kit);
    free(answer);
}

// A kept connection that the server has closed meanwhile costs no attempt.
CHECK_CASE(test_stale_connection)
{
    struct kit kit;
    struct kit_outcome out;
    kit_open(&kit);
    char *answer = kit_answer(KIT_HEAD_JSON, KIT_JSON);
    for (unsigned i = 0; i < 4; i++)
        kit_add(&kit.server, answer)->close = true;
    for (unsigned i = 0; i < 4; i++) {
        kit_run(&kit, &out, &kit_plain);
        assert_int_equal(out.end, MODEL_DONE);
        assert_int_equal(out.attempts, 1);
        kit_outcome_done(&out);
    }
    kit_close(&kit);
    free(answer);
}

// --- time

CHECK_CASE(test_timeout)
{
    static const char *const answers[] = {"HTTP/1.1 100 Continue\r\n\r\n",
                                          KIT_HEAD_STREAM "\r\n" KIT_START};
    for (unsigned i = 0; i < 2; i++) {
        struct kit kit;
        struct kit_outcome out;
        kit_open(&kit);
        kit_add(&kit.server, answers[i])->hang = true;
        struct model_request more = kit_streamed;
        more.timeout_ms = 300;
        int64_t before = clock_ns();
        kit_run(&kit, &out, &more);
        assert_int_equal(out.end, MODEL_TIMEOUT);
        assert_int_equal(out.attempts, 1);
        assert_true(clock_ns() - before >= 300 * NS_PER_MS);
        assert_has(out.message, "0.300 s");
        assert_int_equal(out.usage.input, i == 1 ? 10 : 0);
        kit_outcome_done(&out);
        kit_close(&kit);
    }
}

enum { LOOKUP_MS = 20 * 1000 }; // that a name without an answer takes
static atomic_bool is_slow, is_looking;

// What libcurl calls, on threads of its own.
__attribute__((visibility("default"))) int getaddrinfo(const char *restrict host,
                                                       const char *restrict service,
                                                       const struct addrinfo *restrict hints,
                                                       struct addrinfo **restrict ret)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = NULL;
    if (!atomic_load(&is_slow)) {
        *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
        return real(host, service, hints, ret);
    }
    int64_t until = clock_ns() + LOOKUP_MS * NS_PER_MS;
    atomic_store(&is_looking, true);
    while (atomic_load(&is_slow) && clock_ns() < until)
        (void)usleep(1000);
    return EAI_AGAIN;
}

static unsigned count_threads(void)
{
    unsigned n = 0;
    DIR *dir = opendir("/proc/self/task");
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    (void)closedir(dir);
    return n;
}

// Nobody waits for a name whose asker has gone, or has run out of his time.
CHECK_CASE(test_slow_names)
{
    for (unsigned i = 0; i < 2; i++) {
        struct kit kit;
        struct kit_outcome out;
        struct model_request more = kit_plain;
        static char url[] = "http://slow.invalid", header[] = "x-api-key: " KIT_KEY;
        const struct model_access access = {.base_url = url, .header = header};
        kit_open(&kit);
        kit_outcome_init(&out);
        unsigned threads = count_threads();
        atomic_store(&is_looking, false);
        atomic_store(&is_slow, true);
        more.access = &access;
        more.timeout_ms = i == 0 ? 0 : 300;
        kit_ask(&kit, &out, &more);
        while (!atomic_load(&is_looking))
            (void)uv_run(&kit.loop, UV_RUN_NOWAIT);
        int64_t before = clock_ns();
        if (i == 0)
            model_cancel(out.call);
        (void)uv_run(&kit.loop, UV_RUN_DEFAULT);
        assert_true(clock_ns() - before < LOOKUP_MS / 2 * NS_PER_MS);
        assert_int_equal(out.n_done, i);
        atomic_store(&is_slow, false);
        while (count_threads() > threads)
            (void)usleep(1000);
        kit_outcome_done(&out);
        kit_close(&kit);
    }
}

// No waiting beyond the end of the time there is.
CHECK_CASE(test_no_retry_beyond_timeout)
{
    struct kit kit;
    struct kit_outcome out;
    char *answer = NULL;
    kit_open(&kit);
    add_error(&kit, &answer, "429 Too Many", "retry-after: 30\r\n",
              ERROR_BODY("rate_limit_error", "Slow"));
    struct model_request more = kit_plain;
    more.timeout_ms = 20000;
    int64_t before = clock_ns();
    kit_run(&kit, &out, &more);
    assert_int_equal(out.end, MODEL_LIMITED);
    assert_int_equal(out.retry_after_ms, 30000);
    assert_true(clock_ns() - before < 15 * NS_PER_S);
    kit_outcome_done(&out);
    kit_close(&kit);
    free(answer);
}

CHECK_CASE(test_stall)
{
    struct kit kit;
    struct kit_outcome out;
    kit_open(&kit);
    model_set_patience(kit.model, 200);
    char *whole = kit_answer(KIT_HEAD_STREAM, KIT_STREAM);
    kit_add(&kit.server, KIT_HEAD_STREAM "\r\n" KIT_START)->hang = true;
    kit_add(&kit.server, KIT_HEAD_STREAM "\r\n")->hang = true;
    kit_add(&kit.server, whole);
    kit_run(&kit, &out, &kit_streamed);
    assert_int_equal(out.end, MODEL_DONE);
    assert_int_equal(out.attempts, 3);
    kit_outcome_done(&out);
    kit_close(&kit);
    free(whole);
}

// --- cancelling

static void cancel_now(struct kit_outcome *out, const struct model_event *event)
{
    if (event->type == MODEL_RAW)
        return;
    model_cancel(out->call);
    out->call = NULL;
}

// From inside a callback, at a piece of text and at the word that it is asked again.
CHECK_CASE(test_cancel_inside)
{
    struct kit kit;
    struct kit_outcome out;
    char *answers[2];
    kit_open(&kit);
    answers[0] = kit_answer(KIT_HEAD_STREAM, KIT_STREAM);
    kit_add(&kit.server, answers[0]);
    add_error(&kit, &answers[1], "529 Overloaded", "retry-after: 100\r\n", "");
    for (unsigned i = 0; i < 2; i++) {
        kit_outcome_init(&out);
        out.on_event = cancel_now;
        kit_ask(&kit, &out, &kit_streamed);
        (void)uv_run(&kit.loop, UV_RUN_DEFAULT);
        assert_int_equal(out.n_done, 0);
        assert_null(out.call);
        if (i == 0)
            assert_string_equal(buf_str(&out.text), "Hello, ");
        kit_outcome_done(&out);
    }
    kit_close(&kit);
    free(answers[0]);
    free(answers[1]);
}

// At every turn of the loop.
CHECK_CASE(test_cancel_anywhere)
{
    struct kit kit;
    struct kit_outcome out;
    kit_open(&kit);
    char *answer = kit_chunked(KIT_HEAD_STREAM, KIT_STREAM, 300, true);
    for (unsigned turns = 0; turns < 25; turns++) {
        kit_add(&kit.server, answer)->split = 300;
        kit_outcome_init(&out);
        kit_ask(&kit, &out, &kit_streamed);
        for (unsigned i = 0; i < turns && out.n_done == 0; i++)
            (void)uv_run(&kit.loop, UV_RUN_ONCE);
        if (out.n_done == 0)
            model_cancel(out.call);
        (void)uv_run(&kit.loop, UV_RUN_DEFAULT);
        assert_true(out.n_done == 0 || out.end == MODEL_DONE);
        kit_outcome_done(&out);
    }
    kit_close(&kit);
    free(answer);
}

static struct kit_outcome pair[2];

static void cancel_other(struct kit_outcome *out, const struct model_event *event)
{
    struct kit_outcome *other = out == &pair[0] ? &pair[1] : &pair[0];
    if (event->type != MODEL_TEXT || other->call == NULL)
        return;
    model_cancel(other->call);
    other->call = NULL;
}

// Whoever is first cancels the other one, from inside its callback.
CHECK_CASE(test_cancel_other)
{
    struct kit kit;
    kit_open(&kit);
    char *answer = kit_answer(KIT_HEAD_STREAM, KIT_STREAM);
    for (unsigned i = 0; i < 2; i++) {
        kit_add(&kit.server, answer);
        kit_outcome_init(&pair[i]);
        pair[i].on_event = cancel_other;
        kit_ask(&kit, &pair[i], &kit_streamed);
    }
    (void)uv_run(&kit.loop, UV_RUN_DEFAULT);
    assert_int_equal(pair[0].n_done + pair[1].n_done, 1);
    assert_true(pair[0].call == NULL || pair[1].call == NULL);
    kit_outcome_done(&pair[0]);
    kit_outcome_done(&pair[1]);
    kit_close(&kit);
    free(answer);
}

// --- closing

CHECK_CASE(test_close_with_calls)
{
    for (unsigned turns = 0; turns < 12; turns++) {
        struct kit kit;
        struct kit_outcome out[4];
        kit_open(&kit);
        for (unsigned i = 0; i < 4; i++) {
            kit_add(&kit.server, KIT_HEAD_STREAM "\r\n" KIT_START)->hang = true;
            kit_outcome_init(&out[i]);
            kit_ask(&kit, &out[i], &kit_streamed);
        }
        for (unsigned i = 0; i < turns; i++)
            (void)uv_run(&kit.loop, UV_RUN_NOWAIT);
        kit_close(&kit);
        for (unsigned i = 0; i < 4; i++) {
            assert_int_equal(out[i].n_done, 1);
            assert_int_equal(out[i].end, MODEL_CANCELLED);
            kit_outcome_done(&out[i]);
        }
    }
}

static void close_model(struct kit_outcome *out, const struct model_event *event)
{
    if (event->type != MODEL_TEXT || out->kit->model == NULL)
        return;
    struct model *model = out->kit->model;
    out->kit->model = NULL;
    model_close(model);
}

CHECK_CASE(test_close_inside)
{
    struct kit kit;
    struct kit_outcome out;
    kit_open(&kit);
    char *answer = kit_answer(KIT_HEAD_STREAM, KIT_STREAM);
    kit_add(&kit.server, answer);
    kit_outcome_init(&out);
    out.on_event = close_model;
    kit_ask(&kit, &out, &kit_streamed);
    (void)uv_run(&kit.loop, UV_RUN_DEFAULT);
    assert_int_equal(out.n_done, 1);
    assert_int_equal(out.end, MODEL_CANCELLED);
    kit_outcome_done(&out);
    kit_close(&kit);
    free(answer);
}

static void ask_again(struct kit_outcome *out)
{
    if (out->n_done < 5)
        out->call =
            model_ask(out->kit->model,
                      &(struct model_request){
                          .access = &out->kit->access, .body = "{}", .body_len = 2, .stream = true},
                      kit_on_event, kit_on_done, out);
}

// A conversation: the next question is asked from inside the answer, on the same connection.
CHECK_CASE(test_ask_inside)
{
    struct kit kit;
    struct kit_outcome out;
    kit_open(&kit);
    char *answer = kit_chunked(KIT_HEAD_STREAM, KIT_STREAM, 100, true);
    for (unsigned i = 0; i < 5; i++)
        kit_add(&kit.server, answer)->split = 150;
    kit_outcome_init(&out);
    out.on_done = ask_again;
    kit_ask(&kit, &out, &kit_streamed);
    (void)uv_run(&kit.loop, UV_RUN_DEFAULT);
    assert_int_equal(out.n_done, 5);
    assert_int_equal(out.end, MODEL_DONE);
    assert_int_equal(kit.server.n_conns, 1);
    kit_outcome_done(&out);
    kit_close(&kit);
    free(answer);
}

// --- guarded places

static unsigned n_asked;
static bool asked_tls;

static bool may_not(const struct sockaddr *address, bool tls)
{
    assert_true(address->sa_family == AF_INET || address->sa_family == AF_INET6);
    asked_tls = tls;
    n_asked++;
    return false;
}

static bool may(const struct sockaddr *address, bool tls)
{
    (void)address;
    (void)tls;
    n_asked++;
    return true;
}

CHECK_CASE(test_guarded)
{
    struct kit kit;
    struct kit_outcome out;
    kit_open(&kit);
    char *answer = kit_answer(KIT_HEAD_JSON, KIT_JSON);
    for (unsigned i = 0; i < 3; i++)
        kit_add(&kit.server, answer);
    struct model_access guarded = kit.access;
    guarded.guarded = true;
    struct model_request more = kit_plain;
    // An open connection to the same place is there, and not to be used.
    kit_run(&kit, &out, &more);
    assert_int_equal(out.end, MODEL_DONE);
    assert_int_equal(n_asked, 0);
    kit_outcome_done(&out);
    more.access = &guarded;
    kit.may = may_not;
    assert_int_equal(setenv("http_proxy", kit.url, 1), 0);
    kit_run(&kit, &out, &more);
    assert_int_equal(out.end, MODEL_NETWORK);
    assert_int_equal(out.attempts, 1);
    assert_has(out.message, "may be connected to");
    assert_true(n_asked > 0);
    assert_false(asked_tls);
    assert_int_equal(kit.server.n_served, 1);
    kit_outcome_done(&out);
    kit.may = may;
    n_asked = 0;
    kit_run(&kit, &out, &more);
    assert_int_equal(out.end, MODEL_DONE);
    assert_int_equal(n_asked, 1);
    assert_has(buf_str(&kit.server.requests[1]), "POST /v1/messages HTTP"); // no proxy's form
    kit_outcome_done(&out);
    (void)unsetenv("http_proxy");
    // Names are resolved before they are asked about.
    char url[64], https[64];
    (void)snprintf(url, sizeof url, "http://localhost:%u", kit.server.port);
    guarded.base_url = url;
    kit.may = may_not;
    n_asked = 0;
    kit_run(&kit, &out, &more);
    assert_int_equal(out.end, MODEL_NETWORK);
    assert_true(n_asked > 0);
    kit_outcome_done(&out);
    (void)snprintf(https, sizeof https, "https://127.0.0.1:%u", kit.server.port);
    guarded.base_url = https;
    kit_run(&kit, &out, &more);
    assert_true(asked_tls);
    kit_outcome_done(&out);
    kit_close(&kit);
    free(answer);
}

// What cannot be asked is told, later, and nothing is sent.
CHECK_CASE(test_cannot_be_asked)
{
    char *const urls[] = {(char[]){"ftp://127.0.0.1"},
                          (char[]){"127.0.0.1"},
                          (char[]){""},
                          (char[]){"http://a@127.0.0.1"},
                          (char[]){"http://127.0.0.1/?a"},
                          (char[]){"http://127.0.0.1/#a"},
                          (char[]){"http://127.0.0.1\r\nX"},
                          (char[]){"file:///etc/passwd"}};
    struct kit kit;
    struct kit_outcome out;
    kit_open(&kit);
    struct model_access access = kit.access;
    struct model_request more = kit_plain;
    more.access = &access;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        access.base_url = urls[i];
        kit_run(&kit, &out, &more);
        assert_int_equal(out.end, MODEL_INVALID);
        assert_int_equal(out.attempts, 0);
        kit_outcome_done(&out);
    }
    access.base_url = kit.url;
    char split[] = "x-api-key: a\r\nhost: b", bare[] = "x-api-key";
    char *const headers[] = {split, bare};
    for (size_t i = 0; i < 2; i++) {
        access.header = headers[i];
        kit_run(&kit, &out, &more);
        assert_int_equal(out.end, MODEL_INVALID);
        kit_outcome_done(&out);
    }
    more.access = &kit.access;
    more.beta = "a\nb";
    kit_run(&kit, &out, &more);
    assert_int_equal(out.end, MODEL_INVALID);
    kit_outcome_done(&out);
    assert_int_equal(kit.server.n_served, 0);
    kit_close(&kit);
}

// Many at once, some of which fail, on as many connections.
CHECK_CASE(test_many_at_once)
{
    enum { N = 40 };
    static struct kit_outcome out[N];
    struct kit kit;
    kit_open(&kit);
    char *good = kit_chunked(KIT_HEAD_STREAM, KIT_STREAM, 40, true);
    for (unsigned i = 0; i < N; i++)
        kit_add(&kit.server, good)->split = 100;
    for (unsigned i = 0; i < N; i++) {
        kit_outcome_init(&out[i]);
        kit_ask(&kit, &out[i], &kit_streamed);
    }
    (void)uv_run(&kit.loop, UV_RUN_DEFAULT);
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(out[i].n_done, 1);
        assert_int_equal(out[i].end, MODEL_DONE);
        kit_outcome_done(&out[i]);
    }
    kit_close(&kit);
    free(good);
}

CHECK_MAIN(cmocka_unit_test(test_errors), cmocka_unit_test(test_retry_succeeds),
           cmocka_unit_test(test_should_retry), cmocka_unit_test(test_waits),
           cmocka_unit_test(test_retry_after), cmocka_unit_test(test_foreign_answers),
           cmocka_unit_test(test_key_is_never_told), cmocka_unit_test(test_hiding),
           cmocka_unit_test(test_no_connection), cmocka_unit_test(test_streams_that_break),
           cmocka_unit_test(test_final_error_in_stream), cmocka_unit_test(test_stale_connection),
           cmocka_unit_test(test_timeout), cmocka_unit_test(test_slow_names),
           cmocka_unit_test(test_no_retry_beyond_timeout), cmocka_unit_test(test_stall),
           cmocka_unit_test(test_cancel_inside), cmocka_unit_test(test_cancel_anywhere),
           cmocka_unit_test(test_cancel_other), cmocka_unit_test(test_close_with_calls),
           cmocka_unit_test(test_close_inside), cmocka_unit_test(test_ask_inside),
           cmocka_unit_test(test_guarded), cmocka_unit_test(test_cannot_be_asked),
           cmocka_unit_test(test_many_at_once))
