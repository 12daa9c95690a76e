// SPDX-License-Identifier: Apache-2.0
// What GET of a path can be beside its bytes.
#pragma once

#include <stdbool.h>

struct call;

void files_list(struct call *call);
void files_stat(struct call *call);
bool files_list_asked(const struct call *call); // something that goes with ?list
