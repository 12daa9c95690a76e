// SPDX-License-Identifier: Apache-2.0
// How the container family writes what goes wrong: between its own files.
#pragma once

#include "api/container/container.h"

unsigned container_write_error(const struct refusal *refusal, struct buf *ret);
