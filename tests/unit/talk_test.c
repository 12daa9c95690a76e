// SPDX-License-Identifier: Apache-2.0
// The pieces of a conversation that need no model: what a tool makes of its input, how long texts
// are cut, lines out of a file in any pieces, what a failed call means.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/failure.h"
#include "agents/lines.h"
#include "agents/tool.h"
#include "base/text.h"
#include "check.h"

static char told[512]; // what the last tool_fail said

void tool_fail(struct tool_call *call, const char *fmt, ...)
{
    va_list ap;
    (void)call;
    va_start(ap, fmt);
    (void)vsnprintf(told, sizeof told, fmt, ap);
    va_end(ap);
}

// --- paths

static void clean(const char *text, const char *want)
{
    char path[TOOL_PATH_MAX];
    struct err err = {0};
    assert_int_equal(tool_path_clean(text, path, &err), 0);
    assert_string_equal(path, want);
}

static void unclean(const char *text, const char *words)
{
    char path[TOOL_PATH_MAX];
    struct err err = {0};
    assert_int_equal(tool_path_clean(text, path, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_non_null(strstr(err.msg, words));
}

CHECK_CASE(test_paths)
{
    clean("/", "/");
    clean("//", "/");
    clean("/.", "/");
    clean("/a/b", "/a/b");
    clean("//a///b//", "/a/b");
    clean("/a/./b/.", "/a/b");
    clean("a", "/workspace/a");
    clean("./a/", "/workspace/a");
    clean(".", "/workspace");
    clean("...", "/workspace/...");
    clean("/..a/b..", "/..a/b..");
    unclean("", "empty");
    unclean("..", "'..'");
    unclean("/a/../b", "'..'");
    unclean("/a/..", "'..'");
    unclean("../../etc/passwd", "'..'");
}

CHECK_CASE(test_long_paths)
{
    char text[2 * TOOL_PATH_MAX];
    memset(text, 'a', sizeof text);
    text[0] = '/';
    text[256] = '\0';
    clean(text, text);
    text[256] = 'a';
    text[257] = '\0';
    unclean(text, "255");
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = i % 2 == 0 ? '/' : 'a';
    text[TOOL_PATH_MAX - 1] = '\0'; // an odd length: it ends with a slash, which goes
    char path[TOOL_PATH_MAX];
    struct err err = {0};
    assert_int_equal(tool_path_clean(text, path, &err), 0);
    assert_int_equal(strlen(path), TOOL_PATH_MAX - 2);
    text[TOOL_PATH_MAX - 1] = 'a';
    text[TOOL_PATH_MAX] = '\0';
    unclean(text, "longer");
}

// --- input

static struct json_doc *doc;
static struct tool_call call;

static void input(const char *text)
{
    struct err err = {0};
    json_doc_free(doc);
    doc = NULL;
    assert_int_equal(json_read(text, strlen(text), &doc, &err), 0);
    call.input = json_root(doc);
    told[0] = '\0';
}

CHECK_CASE(test_texts)
{
    const char *text = NULL;
    size_t len = 0;
    input("{\"a\":\"x\",\"n\":1,\"z\":\"a\\u0000b\",\"no\":null}");
    assert_int_equal(tool_text(&call, "a", true, &text, NULL), 0);
    assert_string_equal(text, "x");
    assert_int_equal(tool_text(&call, "no", false, &text, NULL), 0);
    assert_null(text);
    assert_int_equal(tool_text(&call, "no", true, &text, NULL), -1);
    assert_string_equal(told, "no: is needed");
    assert_int_equal(tool_text(&call, "n", false, &text, NULL), -1);
    assert_string_equal(told, "n: must be a string");
    assert_int_equal(tool_text(&call, "z", true, &text, NULL), -1);
    assert_string_equal(told, "z: must not contain NUL");
    assert_int_equal(tool_text(&call, "z", true, &text, &len), 0);
    assert_int_equal(len, 3);
    for (size_t i = 0; i < 4; i++) { // what is no object has nothing in it
        input(((const char *const[]){"[]", "1", "\"a\"", "null"})[i]);
        assert_int_equal(tool_text(&call, "a", true, &text, NULL), -1);
    }
    json_doc_free(doc);
    doc = NULL;
}

CHECK_CASE(test_numbers)
{
    int64_t n = 0;
    bool b = false;
    input("{\"a\":7,\"f\":1.5,\"s\":\"7\",\"big\":1e99,\"min\":-9223372036854775808,\"t\":true}");
    assert_int_equal(tool_int(&call, "a", 1, 1, 10, &n), 0);
    assert_int_equal(n, 7);
    assert_int_equal(tool_int(&call, "none", 3, 1, 10, &n), 0);
    assert_int_equal(n, 3);
    const char *const bad[] = {"f", "s", "big", "min", "t"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(tool_int(&call, bad[i], 1, 1, 10, &n), -1);
        assert_non_null(strstr(told, "whole number from 1 to 10"));
    }
    assert_int_equal(tool_bool(&call, "t", false, &b), 0);
    assert_true(b);
    assert_int_equal(tool_bool(&call, "none", true, &b), 0);
    assert_int_equal(tool_bool(&call, "a", true, &b), -1);
    json_doc_free(doc);
    doc = NULL;
}

// --- cutting

CHECK_CASE(test_cut)
{
    auto_buf text;
    buf_init(&text, 1024 * 1024);
    for (int i = 0; i < TOOL_OUTPUT_MAX; i++)
        (void)buf_append_char(&text, 'x');
    tool_cut(&text);
    assert_int_equal(text.len, TOOL_OUTPUT_MAX); // just fits
    (void)buf_append_char(&text, 'E');
    tool_cut(&text);
    assert_non_null(strstr(buf_str(&text), "[1 bytes are left out here]"));
    assert_int_equal(text.data[text.len - 1], 'E');
}

// Characters stay whole wherever the places lie, and bytes that are no text do no harm.
CHECK_CASE(test_cut_inside)
{
    for (int shift = 0; shift < 4; shift++) {
        auto_buf text;
        buf_init(&text, 1024 * 1024);
        (void)buf_append(&text, "abcd", (size_t)shift);
        while (text.len < 100000)
            (void)buf_append_str(&text, "\xf0\x9f\x8f\x9d");
        tool_cut(&text);
        assert_true(utf8_valid(text.data, text.len));
        assert_true(text.len < TOOL_OUTPUT_MAX + 100);
        buf_reset(&text);
        while (text.len < 100000)
            (void)buf_append_char(&text, (char)0x80);
        tool_cut(&text);
        assert_true(text.len < TOOL_OUTPUT_MAX + 100);
    }
}

// What did not fit into the buffer is cut as well.
CHECK_CASE(test_cut_failed)
{
    auto_buf text;
    buf_init(&text, 50000);
    for (int i = 0; i < 1000; i++)
        (void)buf_append(&text, told, 100);
    assert_int_not_equal(text.failed, 0);
    tool_cut(&text);
    assert_int_equal(text.failed, 0);
    assert_true(text.len < TOOL_OUTPUT_MAX + 100);
    buf_reset(&text);
    text.failed = -1;
    tool_cut(&text);
    assert_int_equal(text.len, 0);
}

// --- lines

static void feed_in(struct lines *l, const char *text, size_t len, size_t piece)
{
    for (size_t at = 0; at < len; at += piece) {
        if (!lines_feed(l, text + at, len - at < piece ? len - at : piece))
            return;
    }
}

// The same whatever the pieces are.
static void lines_are(const char *text, uint64_t first, uint64_t count, const char *want,
                      bool stopped, uint64_t seen)
{
    size_t len = strlen(text);
    for (size_t piece = 1; piece <= len + 1; piece++) {
        auto_buf out;
        struct lines l;
        buf_init(&out, TOOL_OUTPUT_MAX);
        lines_init(&l, &out, first, count);
        feed_in(&l, text, len, piece);
        assert_string_equal(buf_str(&out), want);
        assert_int_equal(l.stopped, stopped);
        assert_int_equal(lines_seen(&l), seen);
    }
}

CHECK_CASE(test_lines)
{
    lines_are("", 1, 10, "", false, 0);
    lines_are("a", 1, 10, "     1\ta", false, 1);
    lines_are("a\nb\n", 1, 10, "     1\ta\n     2\tb\n", false, 2);
    lines_are("\n\nx", 1, 10, "     1\t\n     2\t\n     3\tx", false, 3);
    lines_are("a\nb\nc\n", 2, 1, "     2\tb\n", true, 2);
    lines_are("a\nb\n", 2, 1, "     2\tb\n", false, 2); // nothing follows
    lines_are("a\nb\n", 3, 5, "", false, 2);
    lines_are("a\r\nb", 1, 1, "     1\ta\r\n", true, 1);
}

CHECK_CASE(test_long_lines)
{
    enum { LONG = 5000, N = 100 };
    auto_buf text, out, whole;
    buf_init(&text, 1024 * 1024);
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < LONG; k++)
            (void)buf_append_char(&text, 'y');
        (void)buf_append_char(&text, '\n');
    }
    buf_init(&whole, TOOL_OUTPUT_MAX);
    for (size_t piece = 1; piece < 10000; piece = 2 * piece + 1) {
        struct lines l;
        buf_init(&out, TOOL_OUTPUT_MAX);
        lines_init(&l, &out, 1, LINES_COUNT);
        feed_in(&l, text.data, text.len, piece);
        assert_int_equal(out.failed, 0);
        assert_true(l.stopped && l.line > 1 && l.line < N);
        if (whole.len == 0)
            (void)buf_append(&whole, out.data, out.len);
        assert_string_equal(buf_str(&out), buf_str(&whole));
        buf_done(&out);
    }
    const char *mark = strstr(buf_str(&whole), "longer]");
    assert_int_equal(mark != NULL ? mark[7] : 0, '\n');
}

CHECK_CASE(test_binary)
{
    auto_buf out;
    struct lines l;
    buf_init(&out, TOOL_OUTPUT_MAX);
    lines_init(&l, &out, 1, 10);
    assert_false(lines_feed(&l, "a\0b", 3));
    assert_true(l.is_binary);
    assert_false(lines_feed(&l, "c", 1));
}

// --- failures

static void fails_as(struct model_result r, unsigned status, const char *code, const char *words)
{
    struct failure f;
    failure_of(&r, &f);
    assert_int_equal(f.status, status);
    assert_string_equal(f.error_code, code);
    assert_non_null(strstr(f.message, words));
}

CHECK_CASE(test_failures)
{
    fails_as((struct model_result){.end = MODEL_INVALID, .message = "no such model"}, 400,
             "INVALID_REQUEST", "no such model");
    fails_as((struct model_result){.end = MODEL_INVALID, .error_type = FAILURE_NO_KEY}, 503,
             "MISSING_API_KEY", "ANTHROPIC_API_KEY");
    fails_as((struct model_result){.end = MODEL_AUTH}, 401, "AUTH_ERROR", "key");
    fails_as((struct model_result){.end = MODEL_LIMITED}, 429, "RATE_LIMITED", "often");
    fails_as((struct model_result){.end = MODEL_OVERLOADED}, 502, "API_ERROR", "overloaded");
    fails_as((struct model_result){.end = MODEL_FAILED}, 502, "API_ERROR", "failed");
    fails_as((struct model_result){.end = MODEL_NETWORK}, 502, "API_ERROR", "reached");
    fails_as((struct model_result){.end = MODEL_TIMEOUT}, 504, "EXECUTION_TIMEOUT", "time");
}

CHECK_CASE(test_failure_text)
{
    auto_buf body;
    struct failure f;
    char long_text[2 * FAILURE_MESSAGE_MAX];
    memset(long_text, 'm', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    failure_of(
        &(struct model_result){.end = MODEL_LIMITED, .message = long_text, .retry_after_ms = 1500},
        &f);
    assert_int_equal(f.retry_after_ms, 1500);
    assert_int_equal(strlen(f.message), FAILURE_MESSAGE_MAX - 1);
    failure_set(&f, 400, "A", "say \"%s\"", "x");
    buf_init(&body, 4096);
    failure_write(&f, "id-1", &body);
    assert_string_equal(
        buf_str(&body),
        "{\"error\":\"say \\\"x\\\"\",\"error_code\":\"A\",\"request_id\":\"id-1\"}");
}

CHECK_CASE(test_budget)
{
    char id[] = "a";
    struct failure f;
    struct sandbox_row row = {.id = id, .budget_cost = -1, .budget_tokens = -1, .spent_cost = 5};
    assert_false(failure_of_budget(&row, &f));
    row.budget_cost = 6;
    assert_false(failure_of_budget(&row, &f));
    row.spent_cost = 6;
    assert_true(failure_of_budget(&row, &f));
    assert_int_equal(f.status, 402);
    row.budget_cost = -1;
    row.budget_tokens = 0; // nothing may be spent
    assert_true(failure_of_budget(&row, &f));
    assert_string_equal(f.error_code, "BUDGET_EXCEEDED");
}

CHECK_MAIN(cmocka_unit_test(test_paths), cmocka_unit_test(test_long_paths),
           cmocka_unit_test(test_texts), cmocka_unit_test(test_numbers), cmocka_unit_test(test_cut),
           cmocka_unit_test(test_cut_inside), cmocka_unit_test(test_cut_failed),
           cmocka_unit_test(test_lines), cmocka_unit_test(test_long_lines),
           cmocka_unit_test(test_binary), cmocka_unit_test(test_failures),
           cmocka_unit_test(test_failure_text), cmocka_unit_test(test_budget))
