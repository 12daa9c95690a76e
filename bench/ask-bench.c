// SPDX-License-Identifier: Apache-2.0
// ask-bench --port PORT --keeper PID --model-port PORT --cay PROGRAM --data DIR --question FILE
// --talk FILE [--quick] LINE...: measures lines of the questions with a server that runs and asks
// the stand-in at the other port; its token is in CAY_TOKEN. bench/run calls it and makes a table
// of what it prints.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "ask.h"
#include "base/text.h"

#define USAGE                                                                                      \
    "usage: CAY_TOKEN=TOKEN ask-bench --port PORT --keeper PID --model-port PORT --cay PROGRAM "   \
    "--data DIR --question FILE --talk FILE [--quick] LINE..."

enum { PAUSE_MS = 100, ID_MAX = 64 };

struct line {
    const char *name;
    void (*run)(const struct ask_bench *b);
};

static const struct line lines[] = {
    {"question", line_ask_question},
    {"talk",     line_ask_talk    },
    {"burst",    line_ask_burst   },
    {"terminal", line_ask_terminal},
};

// --- what the lines ask for

static unsigned last;

const char *ask_words(void)
{
    static char words[ASK_WORDS_MAX];
    (void)snprintf(words, sizeof words, "number %u [[code: " ASK_CODE "]]", ++last);
    return words;
}

const char *ask_question(void)
{
    static char body[2 * ASK_WORDS_MAX];
    (void)snprintf(body, sizeof body,
                   "{\"question\":\"number %u [[code: " ASK_CODE_FIRST "\\n" ASK_CODE_LAST "]]\"}",
                   ++last);
    return body;
}

bool ask_good(const struct http_answer *answer)
{
    return answer->status == 200 && strstr(answer->body, "\"success\":true") != NULL &&
           strstr(answer->body, "\"output\":\"" ASK_OUTPUT "\\n\"") != NULL &&
           strstr(answer->body, "\"cached\":false") != NULL;
}

void ask_clear(struct http_conn *c, const struct http_answer *answer)
{
    static const char key[] = "\"sandboxId\":\"";
    char id[ID_MAX];
    const char *at = strstr(answer->body, key);
    if (at == NULL)
        return;
    at += strlen(key);
    (void)snprintf(id, sizeof id, "%.*s", (int)strcspn(at, "\""), at);
    http_destroy(c, id);
}

void ask_prepare(struct http_conn *c)
{
    watchdog("a question");
    http_settle(c);
    sleep_ms(PAUSE_MS);
}

// --- the program

static void run_line(const struct ask_bench *b, const char *name)
{
    for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (strcmp(lines[i].name, name) == 0) {
            lines[i].run(b);
            watchdog_off();
            return;
        }
    }
    die("there is no line '%s'", name);
}

static uint64_t number(const char *text, uint64_t max)
{
    struct err err = {0};
    uint64_t n;
    if (parse_u64(text, 1, max, &n, &err) < 0)
        die("'%s': %s", text, err.msg);
    return n;
}

static void take_flag(struct ask_bench *b, const char *name, const char *value)
{
    const struct {
        const char *name;
        const char **at;
    } texts[] = {
        {"--cay",      &b->cay     },
        {"--data",     &b->data    },
        {"--question", &b->question},
        {"--talk",     &b->talk    },
    };
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (strcmp(texts[i].name, name) == 0) {
            *texts[i].at = value;
            return;
        }
    }
    if (strcmp(name, "--port") == 0)
        b->http.port = (uint16_t)number(value, UINT16_MAX);
    else if (strcmp(name, "--model-port") == 0)
        b->model_port = (uint16_t)number(value, UINT16_MAX);
    else if (strcmp(name, "--keeper") == 0)
        b->http.keeper = (pid_t)number(value, INT32_MAX);
    else
        die(USAGE);
}

static int read_flags(struct ask_bench *b, int argc, char **argv)
{
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            b->rounds = 20, b->starts = 10, b->bursts = 2;
        else if (i + 1 < argc)
            take_flag(b, argv[i], argv[i + 1]), i++;
        else
            die(USAGE);
    }
    return i;
}

int main(int argc, char **argv)
{
    struct ask_bench b = {.rounds = 150, .starts = 60, .bursts = 7, .at_once = 50};
    struct rlimit files = {.rlim_cur = 8192, .rlim_max = 8192};
    report_begin("ask-bench");
    (void)setrlimit(RLIMIT_NOFILE, &files);
    int i = read_flags(&b, argc, argv);
    b.http.token = getenv("CAY_TOKEN");
    if (b.http.port == 0 || b.http.keeper == 0 || b.http.token == NULL || b.model_port == 0 ||
        b.cay == NULL || b.data == NULL || b.question == NULL || b.talk == NULL)
        die(USAGE);
    for (; i < argc; i++)
        run_line(&b, argv[i]);
    return 0;
}
