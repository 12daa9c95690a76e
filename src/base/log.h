// SPDX-License-Identifier: Apache-2.0
// The daemon's log: one line an event, key=value, to standard error. A value that is not plain is
// quoted and escaped, so that nothing a stranger sent can forge a line. Libraries do not log; the
// rooms edge/, sandbox/, api/ and the mains do, each failure once. Any thread; a line is one
// write(2).
//
//     log_line(LOG_INFO, "sandbox created", "req", id, "sandbox", name, NULL);
//     -> time=2026-01-02T03:04:05.678Z level=info msg="sandbox created" req=7f sandbox=a
#pragma once

#include <stdint.h>

enum log_level {
    LOG_ERROR,
    LOG_WARN,
    LOG_INFO,
    LOG_DEBUG,
    LOG_LEVEL_MAX,
};

void log_set_level(enum log_level level); // LOG_INFO until then
int log_is_on(enum log_level level);
int log_parse_level(const char *text, enum log_level *ret); // "info"; 0 or -EINVAL

// Pairs of key and value, then NULL. A pair whose value is NULL is left out. A value is cut ("...")
// after 1 KiB, and pairs that would make the line longer than 4 KiB are left out (cut=yes).
void log_line(enum log_level level, const char *msg, ...) __attribute__((sentinel));

// A number as text, for log_line: LOG_U64(n). Lives until the end of the enclosing block.
#define LOG_U64(n) log_u64((char[24]){0}, (n))
const char *log_u64(char *text, uint64_t n);
