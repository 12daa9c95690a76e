// SPDX-License-Identifier: Apache-2.0
// What agents write, as Claude Code 2.1.325 and OpenCode 1.18.33 have written it (shortened), and
// what nobody should write. Everything is read in pieces of several sizes.
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "agents/agent-read.h"
#include "base/buf.h"
#include "check.h"

static struct agent_files *files;

struct heard {
    unsigned n_messages;
    struct buf log;
};

static void on_message(void *data, const char *json, size_t len)
{
    struct heard *h = data;
    assert_true(len > 1 && json[0] == '{' && json[len - 1] == '}');
    h->n_messages++;
}

static void on_log(void *data, const char *text, size_t len)
{
    struct heard *h = data;
    assert_true(len > 0);
    (void)buf_append(&h->log, text, len);
}

static struct agent_reader *new_reader(const struct agent_file *file, struct heard *heard)
{
    static const struct agent_reader_fns fns = {.message = on_message, .log = on_log};
    buf_init(&heard->log, 64 << 20);
    return agent_reader_new(file, &fns, heard);
}

static void feed(struct agent_reader *r, const char *text, size_t len, size_t piece)
{
    for (size_t at = 0; at < len; at += piece)
        agent_reader_stdout(r, text + at, len - at < piece ? len - at : piece);
}

// -- what they say

#define C_INIT                                                                                     \
    "{\"type\":\"system\",\"subtype\":\"init\",\"cwd\":\"/workspace/x\",\"session_id\":\"s-1\","   \
    "\"tools\":[\"Bash\",\"Write\"],\"model\":\"claude-opus-5-5\",\"permissionMode\":\"acceptEdits\"}\n"
#define C_RETRY                                                                                    \
    "{\"type\":\"system\",\"subtype\":\"api_retry\",\"attempt\":1,\"max_retries\":2,"              \
    "\"retry_delay_ms\":535,\"error_status\":401,\"error\":\"authentication_failed\"}\n"
#define C_USE(name, input)                                                                         \
    "{\"type\":\"assistant\",\"message\":{\"role\":\"assistant\",\"content\":[{\"type\":"          \
    "\"tool_use\",\"id\":\"t1\",\"name\":\"" name "\",\"input\":" input                            \
    "}],\"stop_reason\":null}}\n"
#define C_TEXT(text)                                                                               \
    "{\"type\":\"assistant\",\"message\":{\"role\":\"assistant\",\"content\":[{\"type\":\"text\"," \
    "\"text\":\"" text "\"}],\"stop_reason\":null}}\n"
#define C_THINK                                                                                    \
    "{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"thinking\",\"thinking\":"       \
    "\"hm\",\"signature\":\"x\"}]}}\n"
#define C_USER                                                                                     \
    "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","    \
    "\"content\":\"File created\",\"is_error\":false}]}}\n"
#define C_DONE                                                                                     \
    "{\"stop_reason\":\"end_turn\",\"session_id\":\"s-1\",\"total_cost_usd\":0.09354000000000001," \
    "\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"api_error_status\":null,"    \
    "\"result\":\"Done it.\",\"num_turns\":2,\"terminal_reason\":\"completed\","                   \
    "\"permission_denials\":[]}\n"
#define C_API_ERROR(status, words)                                                                 \
    "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"api_error_status\":" status  \
    ",\"result\":\"" words "\",\"num_turns\":1,\"total_cost_usd\":0,\"session_id\":\"s-1\","       \
    "\"stop_reason\":\"stop_sequence\",\"terminal_reason\":\"api_error\"}\n"
#define C_LIMIT(subtype, words)                                                                    \
    "{\"type\":\"result\",\"subtype\":\"" subtype                                                  \
    "\",\"is_error\":true,\"api_error_status\":null,"                                              \
    "\"num_turns\":2,\"total_cost_usd\":4.2,\"stop_reason\":\"tool_use\",\"session_id\":\"s-1\","  \
    "\"errors\":[\"" words "\"]}\n"
#define C_DENIED                                                                                   \
    "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"Done it.\","     \
    "\"num_turns\":2,\"total_cost_usd\":0.09,\"permission_denials\":[{\"tool_name\":\"Bash\","     \
    "\"tool_use_id\":\"t\",\"tool_input\":{\"command\":\"python3 -c 1\"}},{\"tool_name\":"         \
    "\"Bash\",\"tool_input\":{\"command\":\"python3 -c 1\"}},{\"tool_name\":\"Odd\"}]}\n"

#define O_START                                                                                    \
    "{\"type\":\"step_start\",\"sessionID\":\"ses_1\",\"part\":{\"type\":\"step-start\"}}\n"
#define O_TEXT(text)                                                                               \
    "{\"type\":\"text\",\"sessionID\":\"ses_1\",\"part\":{\"type\":\"text\",\"text\":\"" text      \
    "\"}}\n"
#define O_USE(tool, input)                                                                         \
    "{\"type\":\"tool_use\",\"sessionID\":\"ses_1\",\"part\":{\"type\":\"tool\",\"tool\":\"" tool  \
    "\",\"state\":{\"status\":\"completed\",\"input\":" input ",\"title\":\"T\"}}}\n"
#define O_FINISH(reason, cost)                                                                     \
    "{\"type\":\"step_finish\",\"sessionID\":\"ses_1\",\"part\":{\"reason\":\"" reason             \
    "\",\"type\":\"step-finish\",\"tokens\":{\"total\":7677},\"cost\":" cost "}}\n"
#define O_ERROR(name, data)                                                                        \
    "{\"type\":\"error\",\"sessionID\":\"ses_1\",\"error\":{\"name\":\"" name "\",\"data\":{" data \
    "}}}\n"

struct expected {
    bool has_result, failed;
    const char *text, *code, *error;
    int64_t turns, cost;
    const char *log;     // NULL: not looked at
    const char *warning; // NULL: none
};

// Not in columns.
// clang-format off
static const struct {
    const char *name, *agent, *output;
    struct expected e;
} cases[] = {
    {"success", "claude",
     C_INIT C_USE("Write", "{\"file_path\":\"/workspace/x/a\",\"content\":\"hi\"}")
         C_USER C_THINK C_TEXT("Done it.") C_DONE,
     {.has_result = true,
      .text = "Done it.",
      .turns = 2,
      .cost = 93540000,
      .log = "Write /workspace/x/a\nDone it.\n"}},
    {"no end of line behind the last", "claude",
     "{\"type\":\"result\",\"is_error\":false,\"result\":\"x\"}",
     {.has_result = true, .text = "x", .turns = -1, .cost = -1, .log = ""}},
    {"a command of two lines", "claude",
     C_USE("Bash", "{\"command\":\"npm test\\nrm x\",\"description\":\"d\"}")
         C_USE("Todo", "{\"todos\":[]}") C_DONE,
     {.has_result = true,
      .text = "Done it.",
      .turns = 2,
      .cost = 93540000,
      .log = "Bash npm test ...\nTodo\n"}},
    {"401", "claude",
     C_INIT C_RETRY C_API_ERROR("401", "Failed to authenticate."),
     {true, true, "Failed to authenticate.", "AUTH_ERROR", "Failed to authenticate.", 1, 0,
      "the model's API: 401 authentication_failed, asking again (1 of 2)\n", NULL}},
    {"402", "claude",
     C_API_ERROR("402", "cay: used up"),
     {true, true, "cay: used up", "BUDGET_EXCEEDED", "cay: used up", 1, 0, "", NULL}},
    {"403", "claude",
     C_API_ERROR("403", "no"),
     {true, true, "no", "AUTH_ERROR", "no", 1, 0, "", NULL}},
    {"404", "claude",
     C_API_ERROR("404", "There's an issue with the selected model (gpt-9)."),
     {true, true, "There's an issue with the selected model (gpt-9).", "INVALID_REQUEST",
      "There's an issue with the selected model (gpt-9).", 1, 0, "", NULL}},
    {"429", "claude",
     C_API_ERROR("429", "slow"),
     {true, true, "slow", "RATE_LIMITED", "slow", 1, 0, "", NULL}},
    {"529", "claude",
     C_API_ERROR("529", "full"),
     {true, true, "full", "API_ERROR", "full", 1, 0, "", NULL}},
    {"no connection", "claude",
     C_API_ERROR("null", "ECONNREFUSED"),
     {true, true, "ECONNREFUSED", "API_ERROR", "ECONNREFUSED", 1, 0, "", NULL}},
    {"refusal", "claude",
     "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"stop_reason\":\"refusal\","
     "\"terminal_reason\":\"api_error\",\"result\":\"flagged\"}\n",
     {true, true, "flagged", "MODEL_REFUSED", "flagged", -1, -1, "", NULL}},
    {"turns", "claude",
     C_INIT C_LIMIT("error_max_turns", "Reached maximum number of turns (1)"),
     {true, true, NULL, "MAX_TURNS", "Reached maximum number of turns (1)", 2, 4200000000, "",
      NULL}},
    {"budget", "claude",
     C_LIMIT("error_max_budget_usd", "Reached maximum budget ($0.01)"),
     {true, true, NULL, "BUDGET_EXCEEDED", "Reached maximum budget ($0.01)", 2, 4200000000, "",
      NULL}},
    {"another trouble", "claude",
     C_LIMIT("error_during_execution", "oops"),
     {true, true, NULL, NULL, "oops", 2, 4200000000, "", NULL}},
    {"killed", "claude",
     C_INIT C_TEXT("I'll"),
     {.turns = -1, .cost = -1, .log = "I'll\n"}},
    {"two results, the second good", "claude",
     C_LIMIT("error_max_turns", "Reached") C_DONE,
     {.has_result = true, .text = "Done it.", .turns = 2, .cost = 93540000, .log = ""}},
    {"two results, the second bad", "claude",
     C_DONE C_API_ERROR("529", "full"),
     {true, true, "full", "API_ERROR", "full", 1, 0, "", NULL}},
    {"two results, the second bad in another way", "claude",
     C_LIMIT("error_max_turns", "Reached") C_LIMIT("error_during_execution", "oops"),
     {true, true, NULL, NULL, "oops", 2, 4200000000, "", NULL}},
    {"denied", "claude",
     C_DENIED,
     {.has_result = true,
      .text = "Done it.",
      .turns = 2,
      .cost = 90000000,
      .log = "",
      .warning = "Bash was not allowed: python3 -c 1|Odd was not allowed"}},

    {"success", "opencode",
     O_START O_TEXT("First.") O_USE("write", "{\"filePath\":\"/workspace/x/a\"}")
         O_FINISH("tool-calls", "0.015458") O_START O_TEXT("Done it.") O_FINISH("stop", "0.015516"),
     {.has_result = true,
      .text = "Done it.",
      .turns = 2,
      .cost = 30974000,
      .log = "First.\nwrite /workspace/x/a\nDone it.\n"}},
    {"402 on the way", "opencode",
     O_START O_USE("bash", "{\"command\":\"echo a\"}") O_FINISH("tool-calls", "0.5")
         O_ERROR("APIError", "\"message\":\"cay: used up\",\"statusCode\":402"),
     {true, true, NULL, "BUDGET_EXCEEDED", "cay: used up", 1, 500000000,
      "bash echo a\nAPIError: cay: used up\n", NULL}},
    {"401", "opencode",
     O_ERROR("APIError", "\"message\":\"no\",\"statusCode\":401"),
     {true, true, NULL, "AUTH_ERROR", "no", -1, -1, "APIError: no\n", NULL}},
    {"429", "opencode",
     O_ERROR("APIError", "\"message\":\"no\",\"statusCode\":429"),
     {true, true, NULL, "RATE_LIMITED", "no", -1, -1, NULL, NULL}},
    {"no connection, and then one", "opencode",
     O_ERROR("APIError", "\"message\":\"Connection reset\"") O_TEXT("x") O_FINISH("stop", "0"),
     {.has_result = true, .text = "x", .turns = 1, .cost = 0}},
    {"refusal", "opencode",
     O_START O_FINISH("content-filter", "0") O_ERROR("ContentFilterError", "\"message\":\"no\""),
     {true, true, NULL, "MODEL_REFUSED", "no", 1, 0, NULL, NULL}},
    {"too long", "opencode",
     O_START O_TEXT("some long ") O_FINISH("length", "0"),
     {true, true, "some long ", NULL, "length", 1, 0, NULL, NULL}},
    {"no such model", "opencode",
     O_ERROR("UnknownError", "\"message\":\"Unexpected\""),
     {true, true, NULL, NULL, "Unexpected", -1, -1, NULL, NULL}},
    {"killed", "opencode",
     O_START O_TEXT("x"),
     {.text = "x", .turns = -1, .cost = -1, .log = "x\n"}},
};
// clang-format on

static void check_text(const char *name, const char *what, const char *is, const char *should)
{
    if ((is == NULL) != (should == NULL) || (is != NULL && strcmp(is, should) != 0))
        fail_msg("%s: %s is '%s', not '%s'", name, what, is != NULL ? is : "NULL",
                 should != NULL ? should : "NULL");
}

static void check_report(const char *name, const struct agent_report *p, const struct expected *e)
{
    char warnings[1000] = "";
    for (unsigned i = 0; i < p->n_warnings; i++) {
        (void)strncat(warnings, i > 0 ? "|" : "", 2);
        (void)strncat(warnings, p->warnings[i], 200);
    }
    check_text(name, "text", p->text, e->text);
    check_text(name, "code", p->error_code, e->code);
    check_text(name, "error", p->error, e->error);
    check_text(name, "warnings", warnings, e->warning != NULL ? e->warning : "");
    if (e->log != NULL)
        check_text(name, "log", p->logs, e->log);
    assert_true(p->wants_result);
    assert_int_equal(p->has_result, e->has_result);
    assert_int_equal(p->failed, e->failed);
    assert_int_equal(p->turns, e->turns);
    assert_int_equal(p->cost_nano, e->cost);
    assert_int_equal(p->logs_len, strlen(p->logs));
    assert_false(p->logs_truncated);
}

CHECK_CASE(seen)
{
    static const size_t pieces[] = {1, 7, 1 << 20};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t k = 0; k < sizeof pieces / sizeof *pieces; k++) {
            struct heard heard = {0};
            struct agent_report report;
            struct agent_reader *r = new_reader(agent_files_find(files, cases[i].agent), &heard);
            feed(r, cases[i].output, strlen(cases[i].output), pieces[k]);
            agent_reader_end(r);
            agent_reader_report(r, &report);
            check_report(cases[i].name, &report, &cases[i].e);
            check_text(cases[i].name, "live log", buf_str(&heard.log), report.logs);
            assert_true(heard.n_messages > 0);
            agent_reader_free(r);
            buf_done(&heard.log);
        }
    }
}

CHECK_CASE(who)
{
    struct agent_report report;
    struct agent_reader *r = agent_reader_new(agent_files_find(files, "claude"), NULL, NULL);
    static const char odd[] = "{\"type\":\"system\",\"subtype\":\"init\",\"model\":\"-x\","
                              "\"session_id\":\"a b\"}\n";
    feed(r, C_INIT, strlen(C_INIT), 100);
    agent_reader_report(r, &report);
    assert_string_equal(report.model, "claude-opus-5-5");
    assert_string_equal(report.session, "s-1");
    feed(r, odd, strlen(odd), 100);
    agent_reader_report(r, &report);
    assert_null(report.model);
    assert_null(report.session);
    agent_reader_free(r);
    agent_reader_free(NULL);
}

// An end without words forgets those of an earlier one, and nothing else.
CHECK_CASE(ends_anew)
{
    static const char text[] = "program x\n"
                               "input {task}\n"
                               "output lines\n"
                               "on /a=1 : end failed error=/e text=/t code=ONE\n"
                               "on /a=2 : end failed\n";
    static const char said[] = "{\"a\":1,\"e\":\"why\",\"t\":\"what\"}\n";
    struct agent_file *file;
    struct agent_report report;
    struct err err;
    assert_int_equal(agent_file_parse("x", text, strlen(text), &file, &err), 0);
    struct agent_reader *r = agent_reader_new(file, NULL, NULL);
    feed(r, said, strlen(said), 5);
    agent_reader_report(r, &report);
    assert_string_equal(report.error, "why");
    assert_string_equal(report.error_code, "ONE");
    feed(r, "{\"a\":2}\n", 8, 8);
    agent_reader_report(r, &report);
    assert_true(report.failed);
    assert_null(report.error);
    assert_null(report.error_code);
    assert_string_equal(report.text, "what");
    agent_reader_free(r);
    agent_file_free(file);
}

// -- what nobody should say

static void check_numbers(const char *turns, const char *cost, int64_t n_turns, int64_t nano)
{
    char line[400];
    struct agent_report report;
    struct agent_reader *r = agent_reader_new(agent_files_find(files, "claude"), NULL, NULL);
    (void)snprintf(line, sizeof line,
                   "{\"type\":\"result\",\"num_turns\":%s,\"total_cost_usd\":%s}\n", turns, cost);
    feed(r, line, strlen(line), sizeof line);
    agent_reader_report(r, &report);
    assert_true(report.has_result && !report.failed);
    assert_int_equal(report.turns, n_turns);
    assert_int_equal(report.cost_nano, nano);
    agent_reader_free(r);
}

CHECK_CASE(numbers)
{
    check_numbers("0", "0", 0, 0);
    check_numbers("3.0", "1e0", 3, 1000000000);
    check_numbers("1e999", "1e999", -1, -1);
    check_numbers("-1", "-0.5", -1, -1);
    check_numbers("1.5", "-0", -1, 0);
    check_numbers("\"3\"", "\"3\"", -1, -1);
    check_numbers("true", "null", -1, -1);
    check_numbers("[1]", "{}", -1, -1);
    check_numbers("99999999999999999999", "1e9", -1, 1000000000000000000);
    check_numbers("9223372036854775807", "1000000001", INT64_MAX, -1);
    check_numbers("1", "4e-10", 1, 0);
}

CHECK_CASE(sums_stay_sums)
{
    struct agent_report report;
    struct agent_reader *r = agent_reader_new(agent_files_find(files, "opencode"), NULL, NULL);
    for (int i = 0; i < 20; i++)
        feed(r, O_FINISH("x", "1e9"), strlen(O_FINISH("x", "1e9")), 1000);
    feed(r, O_FINISH("x", "-5"), strlen(O_FINISH("x", "-5")), 1000);
    agent_reader_report(r, &report);
    assert_int_equal(report.turns, 21);
    assert_int_equal(report.cost_nano, 9000000000000000000);
    agent_reader_free(r);
}

// No JSON, another kind of value, too deep, too many: text for people, and nothing else.
CHECK_CASE(no_json)
{
    static const char *const lines[] = {
        "hello", "[1,2]", "\"x\"", "{\"type\":\"result\"", "{\"type\":\"result\"} x", "{'a':1}",
    };
    struct agent_report report;
    struct heard heard = {0};
    struct agent_reader *r = new_reader(agent_files_find(files, "claude"), &heard);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        agent_reader_stdout(r, "  ", 2);
        feed(r, lines[i], strlen(lines[i]), 3);
        agent_reader_stdout(r, "\r\n\n", 3);
    }
    agent_reader_report(r, &report);
    assert_string_equal(report.logs, "hello\n[1,2]\n\"x\"\n{\"type\":\"result\"\n{\"type\":\"result"
                                     "\"} x\n{'a':1}\n");
    assert_false(report.has_result);
    assert_int_equal(heard.n_messages, 0);
    agent_reader_free(r);
    buf_done(&heard.log);
}

static void check_big(const char *before, const char *each, const char *behind, size_t n,
                      unsigned n_messages)
{
    auto_buf text;
    struct heard heard = {0};
    struct agent_report report;
    struct agent_reader *r = new_reader(agent_files_find(files, "claude"), &heard);
    buf_init(&text, 32 << 20);
    (void)buf_append_str(&text, before);
    for (size_t i = 0; i < n; i++)
        (void)buf_append_str(&text, each);
    (void)buf_append_str(&text, behind);
    (void)buf_append_str(&text, "\n" C_DONE);
    assert_int_equal(text.failed, 0);
    feed(r, text.data, text.len, 65536);
    agent_reader_report(r, &report);
    assert_int_equal(heard.n_messages, n_messages + 1);
    assert_true(report.has_result && report.logs_len <= AGENT_LOG_MAX + 100);
    assert_string_equal(report.text, "Done it.");
    agent_reader_free(r);
    buf_done(&heard.log);
}

CHECK_CASE(big_lines)
{
    check_big("{\"a\":", "[", "", 100000, 0);
    check_big("{\"a\":[1", ",1", "]}", 60000, 1);
    check_big("{\"a\":[1", ",1", "]}", 70000, 0);
    check_big("{\"a\":\"", ",{[", "\"}", 1000000, 1); // in a text they are none
    check_big("{\"a\":\"", "0123456789abcdef", "\"}", AGENT_LINE_MAX / 16 - 1, 1);
    check_big("{\"a\":\"", "0123456789abcdef", "\"}", AGENT_LINE_MAX / 16, 0);
    check_big("", "x", "", 20 << 20, 0);
}

// Half a surrogate pair is no reason to lose a result.
CHECK_CASE(half_pairs)
{
    static const struct {
        const char *json, *text; // NULL: it is no JSON whatever one does
    } halves[] = {
        {"a\\ud83d",              "a\xef\xbf\xbd"               },
        {"\\uDE00b",              "\xef\xbf\xbd"
                     "b"                    },
        {"\\ud83d\\ud83d\\ude00", "\xef\xbf\xbd\xf0\x9f\x98\x80"},
        {"\\ud83d\\ude00\\ud83d", "\xf0\x9f\x98\x80\xef\xbf\xbd"},
        {"\\\\ud83d\\ud83d",      "\\ud83d\xef\xbf\xbd"         },
        {"\\ud83",                NULL                          },
        {"\\ud83dx\\",            NULL                          },
    };
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
        char line[200];
        struct agent_report report;
        struct agent_reader *r = agent_reader_new(agent_files_find(files, "claude"), NULL, NULL);
        (void)snprintf(line, sizeof line, "{\"type\":\"result\",\"result\":\"%s\"}\n",
                       halves[i].json);
        feed(r, line, strlen(line), sizeof line);
        agent_reader_report(r, &report);
        check_text(halves[i].json, "text", report.text, halves[i].text);
        assert_int_equal(report.has_result, halves[i].text != NULL);
        agent_reader_free(r);
    }
}

CHECK_CASE(long_texts)
{
    auto_buf line;
    struct agent_report report;
    struct agent_reader *r = agent_reader_new(agent_files_find(files, "claude"), NULL, NULL);
    buf_init(&line, 8 << 20);
    (void)buf_append_str(&line, "{\"type\":\"result\",\"is_error\":true,\"result\":\"x\\u0000");
    for (int i = 0; i < AGENT_RESULT_MAX / 2 + 5; i++)
        (void)buf_append_str(&line, "\xc3\xa4");
    (void)buf_append_str(&line, "\"}\n");
    feed(r, line.data, line.len, line.len);
    agent_reader_report(r, &report);
    assert_int_equal(report.text[0], 'x');
    assert_int_equal(strlen(report.text), AGENT_RESULT_MAX - 1); // no NUL, whole characters
    assert_true(strlen(report.error) <= AGENT_ERROR_MAX);
    assert_int_equal((unsigned char)report.text[strlen(report.text) - 1], 0xa4);
    agent_reader_free(r);
}

CHECK_CASE(warnings_end)
{
    char line[300];
    struct agent_report report;
    struct agent_reader *r = agent_reader_new(agent_files_find(files, "claude"), NULL, NULL);
    for (int i = 0; i < 100; i++) {
        (void)snprintf(line, sizeof line,
                       "{\"type\":\"result\",\"permission_denials\":[{\"tool_name\":\"%d\"}]}\n",
                       i);
        feed(r, line, strlen(line), sizeof line);
    }
    agent_reader_report(r, &report);
    assert_int_equal(report.n_warnings, AGENT_WARNINGS_MAX);
    agent_reader_free(r);
}

// Lines of stderr stay together, whatever comes between.
CHECK_CASE(errors)
{
    struct agent_report report;
    struct agent_reader *r = agent_reader_new(agent_files_find(files, "claude"), NULL, NULL);
    agent_reader_stderr(r, "it is ", 6);
    feed(r, C_TEXT("Hello."), strlen(C_TEXT("Hello.")), 1000);
    agent_reader_stderr(r, "late\nthe ", 9);
    agent_reader_stderr(r, "end", 3);
    agent_reader_end(r);
    agent_reader_report(r, &report);
    assert_string_equal(report.logs, "Hello.\nit is late\nthe end");
    agent_reader_free(r);
}

// -- logs

CHECK_CASE(floods)
{
    struct agent_report report;
    struct agent_reader *r = agent_reader_new(agent_files_find(files, "claude"), NULL, NULL);
    char line[64];
    for (int i = 0; i < 200000; i++) {
        (void)snprintf(line, sizeof line, "line %06d \xc3\xa4\xe2\x82\xac\n", i);
        agent_reader_stdout(r, line, strlen(line));
    }
    agent_reader_report(r, &report);
    assert_true(report.logs_truncated);
    assert_true(report.logs_len > AGENT_LOG_MAX - 100 && report.logs_len < AGENT_LOG_MAX + 100);
    assert_memory_equal(report.logs, "line 000000 ", 12);
    assert_non_null(strstr(report.logs, "line 199999 "));
    assert_non_null(strstr(report.logs, "\n... [1502"));
    assert_non_null(strstr(report.logs, " bytes are left out here] ...\n"));
    agent_reader_free(r);
}

// -- agents that are files, and nothing else

// Runs it as it says, in a directory of its own.
static int run(const char *name, const struct agent_values *values, struct agent_reader **ret)
{
    const struct agent_file *file = agent_files_find(files, name);
    struct agent_start start;
    struct err err = {0};
    int in[2], out[2], error[2], status;
    char piece[100];
    assert_non_null(file);
    assert_int_equal(agent_file_check(file, values, &err), 0);
    assert_int_equal(agent_file_start(file, values, &start, &err), 0);
    assert_true(pipe(in) == 0 && pipe(out) == 0 && pipe(error) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (dup2(in[0], 0) < 0 || dup2(out[1], 1) < 0 || dup2(error[1], 2) < 0)
            _exit(126);
        (void)close(in[1]);
        (void)execvpe(start.argv[0], start.argv, start.env);
        _exit(127);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    (void)close(error[1]);
    assert_int_equal(write(in[1], start.input, start.input_len), start.input_len);
    (void)close(in[1]);
    *ret = agent_reader_new(file, NULL, NULL);
    for (ssize_t n; (n = read(out[0], piece, sizeof piece)) > 0;)
        agent_reader_stdout(*ret, piece, (size_t)n);
    for (ssize_t n; (n = read(error[0], piece, sizeof piece)) > 0;)
        agent_reader_stderr(*ret, piece, (size_t)n);
    agent_reader_end(*ret);
    (void)close(out[0]);
    (void)close(error[0]);
    agent_start_done(&start);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

CHECK_CASE(scribe)
{
    char dir[] = "/tmp/scribe-XXXXXX", noted[100] = "";
    struct agent_reader *r;
    struct agent_report report;
    const struct agent_values values = {
        .task = "note $(this); \"and\" '{task}'", .model = "m1", .max_turns = "2"};
    assert_true(mkdtemp(dir) != NULL && chdir(dir) == 0);
    assert_int_equal(run("scribe", &values, &r), 0);
    agent_reader_report(r, &report);
    assert_true(report.wants_result && report.has_result && !report.failed);
    assert_string_equal(report.text, "It is noted.");
    assert_int_equal(report.turns, 1);
    assert_string_equal(report.logs, "noted in NOTES.md\nscribe: m1, --turns=2 --loud\n");
    agent_reader_free(r);
    FILE *file = fopen("NOTES.md", "re");
    assert_non_null(file);
    assert_non_null(fgets(noted, sizeof noted, file));
    (void)fclose(file);
    assert_string_equal(noted, "note $(this); \"and\" '{task}'\n");
    assert_int_equal(remove("NOTES.md"), 0);

    const struct agent_values bad = {.task = "fail here", .permission_mode = "look"};
    assert_int_equal(WEXITSTATUS(run("scribe", &bad, &r)), 3);
    agent_reader_report(r, &report);
    assert_true(report.has_result && report.failed);
    assert_string_equal(report.error_code, "NO_INK");
    assert_string_equal(report.error, "fail here");
    assert_null(report.text);
    agent_reader_free(r);
    assert_true(chdir("/") == 0 && rmdir(dir) == 0);
}

CHECK_CASE(parrot)
{
    struct agent_reader *r;
    struct agent_report report;
    const struct agent_values values = {.task = "{\"type\":\"result\"}\nand more"};
    assert_int_equal(run("parrot", &values, &r), 0);
    agent_reader_report(r, &report);
    assert_false(report.wants_result || report.has_result || report.failed);
    assert_string_equal(report.text, "{\"type\":\"result\"}\nand more\n");
    assert_string_equal(report.logs, report.text);
    agent_reader_free(r);

    // A text without an end, in pieces that cut its characters: both ends are kept.
    r = agent_reader_new(agent_files_find(files, "parrot"), NULL, NULL);
    for (int i = 0; i < 2 << 20; i++)
        agent_reader_stdout(r, &"\xe2\x82\xac"[i % 3], 1);
    agent_reader_end(r);
    agent_reader_report(r, &report);
    assert_true(strlen(report.text) > AGENT_RESULT_MAX - 10);
    assert_true(strlen(report.text) < AGENT_RESULT_MAX + 100);
    assert_non_null(strstr(report.text, "\xac\n... [1048"));
    assert_false(report.logs_truncated);
    agent_reader_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seen),
        cmocka_unit_test(ends_anew),
        cmocka_unit_test(who),
        cmocka_unit_test(numbers),
        cmocka_unit_test(sums_stay_sums),
        cmocka_unit_test(no_json),
        cmocka_unit_test(big_lines),
        cmocka_unit_test(half_pairs),
        cmocka_unit_test(long_texts),
        cmocka_unit_test(warnings_end),
        cmocka_unit_test(errors),
        cmocka_unit_test(floods),
        cmocka_unit_test(scribe),
        cmocka_unit_test(parrot),
    };
    struct err err = {0};
    if (agent_files_open(getenv("CAY_AGENTS"), &files, &err) < 0) {
        print_error("%s\n", err.msg);
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    agent_files_free(files);
    return failed;
}
