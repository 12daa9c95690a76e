// SPDX-License-Identifier: Apache-2.0
// The spawner: a small process, root in a user namespace Z and nobody on the host, from which boxes
// are forked. It keeps next to nothing between two requests.
#pragma once

#include <stdint.h>

struct spawner_start {
    int sock; // to the keeper
    int go;   // read one byte from it before anything else: Z is mapped then
};

// Runs in a child of the keeper that was born in Z and in a mount namespace of Z's. Never returns.
_Noreturn void spawner_main(const struct spawner_start *start);
