// SPDX-License-Identifier: Apache-2.0
// Command-line flags from a table. A command describes itself once in a static struct opt_spec;
// reading its flags, its errors and its --help all come from that. Nothing is allocated: values
// point into argv.
//
//     struct opt_reader reader;
//     opt_start(&reader, &spec, argc, argv);
//     while ((which = opt_next(&reader, &value, &err)) >= 0) {
//         switch (which) {
//         case FLAG_MEMORY: ...    (index into the table)
//         case OPT_WORD: ...       (an argument that is no flag)
//         }
//     }
//     if (which == OPT_HELP) ... if (which == OPT_FAILED) ...
//     the rest is argv[reader.next] up to argv[argc]
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"

struct opt {
    const char *name;         // "memory" for --memory
    char letter;              // 'm' for -m, or 0
    const char *metavar;      // "SIZE"; NULL for a flag without a value
    const char *help;         // one line
    const char *default_text; // "1g"; NULL when there is none to show
};

struct opt_spec {
    const char *usage;   // "cay run [flags] [--] COMMAND [ARG...]"
    const char *summary; // a sentence or more
    const struct opt *opts;
    size_t n_opts;
    const char *more;  // shown last: examples. May be NULL
    bool stop_at_word; // the first argument that is no flag ends the flags
};

enum {
    OPT_END = -1,    // no more flags
    OPT_FAILED = -2, // err says why
    OPT_HELP = -3,   // --help or -h was asked for
    OPT_WORD = 1000, // an argument that is no flag; not when stop_at_word is set
};

struct opt_reader {
    const struct opt_spec *spec;
    int argc;
    char **argv;
    int next;            // the first argument not read yet
    const char *cluster; // the letters left in "-abc"
    bool only_words;     // "--" was passed
};

// argv[0] is the command's own name and is skipped.
void opt_start(struct opt_reader *reader, const struct opt_spec *spec, int argc, char **argv);
// The next flag's index, OPT_WORD, or one of the ends. `ret_value` is NULL for a flag without a
// value.
int opt_next(struct opt_reader *reader, const char **ret_value, struct err *err);
void opt_print_help(FILE *out, const struct opt_spec *spec);
