// SPDX-License-Identifier: Apache-2.0
// What cay-pack may ask of the kernel from now on: files, memory and threads. Before anything is
// read that a guest has written.
#pragma once

#include "base/err.h"

int guard_load(struct err *err);
