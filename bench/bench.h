// SPDX-License-Identifier: Apache-2.0
// What the lines of the benchmark share. box-bench is one small static process without threads: it
// forks what it compares with and is a client of the keeper like any other; server-bench is one
// that is a client over HTTP. A line prints its results as records, words separated by tabs, which
// bench/run reads:
//   time   LINE SERIES ROUNDS P10 MEDIAN P90 P99     nanoseconds
//   value  LINE NAME NUMBER
// Whatever goes wrong ends the process with a message; the keeper then cleans up by itself.
#pragma once

#include <stdint.h>

struct bench {
    const char *data; // the keepers' data directory
    const char *cay;  // the program, for the lines that start it
    unsigned rounds;  // of what takes milliseconds
    unsigned few;     // of what takes a good part of a second
    unsigned seconds; // that the rate is sustained
    int quick;        // only for a look
    unsigned boxes;   // alive at once when memory is measured
};

// --- report.c ---

void report_begin(const char *name); // of the program, for its messages
_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
// Says what is about to be waited for; without another call within a minute the process ends.
void watchdog(const char *what);
void watchdog_off(void);
void note(const char *fmt, ...)
    __attribute__((format(printf, 1, 2))); // progress, on standard error
void sleep_ms(unsigned ms);

// --- series.c ---

struct series {
    const char *name;
    int64_t *ns;
    unsigned n, max;
};

void series_init(struct series *s, const char *name, unsigned max);
void series_add(struct series *s, int64_t ns);
// Prints the record and frees it.
void series_done(struct series *s, const char *line);
void print_value(const char *line, const char *name, double value);

// --- bare.c ---

// The yardstick: fork, execve of /bin/true, waitpid. Nanoseconds.
int64_t bare_true(void);
// The same with any program, its standard streams at /dev/null.
int64_t bare_command(const char *const *argv);
extern char *const bare_environment[]; // of all of them, as boxes have it

// --- the lines ---

void line_claim(const struct bench *b);
void line_cold(const struct bench *b);
void line_exec(const struct bench *b);
void line_command(const struct bench *b);
void line_version(const struct bench *b);
void line_rate(const struct bench *b);
void line_memory(const struct bench *b);
void line_stream(const struct bench *b);
