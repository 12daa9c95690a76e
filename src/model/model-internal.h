// SPDX-License-Identifier: Apache-2.0
// What this room and its tests know of each other.
#pragma once

#include "model/fetch.h"
#include "model/model.h"

struct web *model_web(struct model *model);
// After how long a stream on which nothing comes is broken: 120 s.
void model_set_patience(struct model *model, int64_t ms);

// --- access.c

bool access_can_be_asked(const struct model_access *access, const char *beta);
char *access_url(const struct model_access *access); // of its messages; free(3) it
