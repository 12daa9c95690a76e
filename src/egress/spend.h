// SPDX-License-Identifier: Apache-2.0
// What was used of a model, written down.
#pragma once

#include "db/db.h"
#include "model/price.h"
#include "sandbox/sandbox.h"

// `row` says who has asked, for what, and which model; counts, price and time are filled in. Its
// sandbox, if it has one, is told. A row that cannot be written is logged.
void spend_write(struct fleet *fleet, struct spend_row *row, const struct model_usage *usage);
