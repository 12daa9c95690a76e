// SPDX-License-Identifier: Apache-2.0
// What the parts of ways-end share. See ways-end.c.
#pragma once

#include <stdint.h>

int end_listen(uint16_t port); // on loopback; a blocking socket. Ends the process

// --- ways-serve.c ---

_Noreturn void end_serve(uint16_t port);
