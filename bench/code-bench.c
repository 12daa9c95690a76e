// SPDX-License-Identifier: Apache-2.0
// code-bench --port PORT --keeper PID --ipykernel PROGRAM [--quick] LINE...: measures lines of the
// code interpreter with a server that runs; its token is in CAY_TOKEN. bench/run calls it and makes
// a table of what it prints.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/text.h"
#include "code.h"

#define USAGE                                                                                      \
    "usage: CAY_TOKEN=TOKEN code-bench --port PORT --keeper PID --ipykernel PROGRAM [--quick] "    \
    "LINE..."

struct line {
    const char *name;
    void (*run)(const struct code_bench *b);
};

static const struct line lines[] = {
    {"first",  line_code_first },
    {"pandas", line_code_pandas},
    {"cell",   line_code_cell  },
    {"node",   line_code_node  },
    {"memory", line_code_memory},
    {"print",  line_code_print },
};

void code_name(char *ret, size_t size, const char *kind)
{
    static unsigned last;
    (void)snprintf(ret, size, "%s-%u", kind, ++last);
}

void code_run(struct http_conn *c, const char *id, const char *body, const char *text)
{
    char path[96];
    (void)snprintf(path, sizeof path, "/sandbox/%s/code", id);
    struct http_answer answer = http_call(c, "POST", path, body);
    if (answer.status != 200 || strstr(answer.body, "\"success\":true") == NULL ||
        strstr(answer.body, text) == NULL)
        die("%s: %d %.300s", path, answer.status, answer.body);
}

static void run_line(const struct code_bench *b, const char *name)
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

static void be_quick(struct code_bench *b)
{
    b->starts = 20, b->slow_starts = 5, b->cells = 200, b->prints = 2, b->contexts = 20;
}

static int read_flags(struct code_bench *b, int argc, char **argv)
{
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            be_quick(b);
        else if (strcmp(argv[i], "--port") == 0 && i + 1 < argc)
            b->http.port = (uint16_t)number(argv[++i], UINT16_MAX);
        else if (strcmp(argv[i], "--keeper") == 0 && i + 1 < argc)
            b->http.keeper = (pid_t)number(argv[++i], INT32_MAX);
        else if (strcmp(argv[i], "--ipykernel") == 0 && i + 1 < argc)
            b->ipykernel = argv[++i];
        else
            die(USAGE);
    }
    return i;
}

int main(int argc, char **argv)
{
    struct code_bench b = {
        .starts = 100, .slow_starts = 25, .cells = 1000, .prints = 9, .contexts = 100};
    struct rlimit files = {.rlim_cur = 8192, .rlim_max = 8192};
    report_begin("code-bench");
    (void)setrlimit(RLIMIT_NOFILE, &files);
    int i = read_flags(&b, argc, argv);
    b.http.token = getenv("CAY_TOKEN");
    if (b.http.port == 0 || b.http.keeper == 0 || b.http.token == NULL || b.ipykernel == NULL)
        die(USAGE);
    for (; i < argc; i++)
        run_line(&b, argv[i]);
    return 0;
}
