// SPDX-License-Identifier: Apache-2.0
// box-bench --data DIR --cay PROGRAM [--quick] LINE...: measures lines of the benchmark. bench/run
// calls it and makes a table of what it prints.
#include <string.h>

#include "base/title.h"
#include "base/weaken.h"
#include "bench.h"

struct line {
    const char *name;
    void (*run)(const struct bench *b);
};

static const struct line lines[] = {
    {"claim",   line_claim  },
    {"cold",    line_cold   },
    {"exec",    line_exec   },
    {"command", line_command},
    {"version", line_version},
    {"rate",    line_rate   },
    {"memory",  line_memory },
    {"stream",  line_stream },
};

static void run_line(const struct bench *b, const char *name)
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

int main(int argc, char **argv)
{
    struct bench b = {.rounds = 400, .few = 20, .seconds = 10, .boxes = 1000};
    int i = 1;
    weaken_init();
    title_init(argc, argv);
    report_begin("box-bench");
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            b = (struct bench){b.data,       b.cay,      .rounds = 50, .few = 3,
                               .seconds = 2, .quick = 1, .boxes = 100};
        else if (strcmp(argv[i], "--data") == 0 && i + 1 < argc)
            b.data = argv[++i];
        else if (strcmp(argv[i], "--cay") == 0 && i + 1 < argc)
            b.cay = argv[++i];
        else
            die("usage: box-bench --data DIR --cay PROGRAM [--quick] LINE...");
    }
    if (b.data == NULL || b.cay == NULL)
        die("usage: box-bench --data DIR --cay PROGRAM [--quick] LINE...");
    for (; i < argc; i++)
        run_line(&b, argv[i]);
    return 0;
}
