// SPDX-License-Identifier: Apache-2.0
// What the lines of the code interpreter share. code-bench is a client over HTTP, as server-bench;
// what it compares with are programs that it starts bare.
#pragma once

#include "http-client.h"

struct code_bench {
    struct http_bench http;
    const char *ipykernel; // bench/ipykernel-cells.py
    unsigned starts;       // rounds of what starts an interpreter
    unsigned slow_starts;  // the same with pandas
    unsigned cells;        // rounds of a further cell
    unsigned prints;       // rounds of what prints megabytes
    unsigned contexts;     // alive when memory is measured
};

// A name that no other sandbox of this server has.
void code_name(char *ret, size_t size, const char *kind);
// Runs code in a context; must succeed, and its answer have `text` in it.
void code_run(struct http_conn *c, const char *id, const char *body, const char *text);

// --- the lines ---

void line_code_first(const struct code_bench *b);
void line_code_pandas(const struct code_bench *b);
void line_code_node(const struct code_bench *b);
void line_code_cell(const struct code_bench *b);
void line_code_memory(const struct code_bench *b);
void line_code_print(const struct code_bench *b);
