// SPDX-License-Identifier: Apache-2.0
// Makes one attempt in a child of its own, so that neither a crash nor a hang ends the others.
#pragma once

#include "attempt.h"

struct result {
    enum outcome outcome;
    char detail[DETAIL_MAX];
};

void run_attempt(const struct attempt *attempt, struct result *ret);

// One line: {"n":..,"name":..,"outcome":..,"detail":..}
void print_result_json(const struct attempt *attempt, const struct result *result);
void print_result_text(const struct attempt *attempt, const struct result *result);
void print_json_string(const char *text);
