// SPDX-License-Identifier: Apache-2.0
// What this program becomes when an attempt executes it again under another name.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

// First thing in main. True: it was such a call and its work is done.
bool helper_main(int argc, char **argv);

// Executes this program again as a process that ignores every signal it can, keeps its standard
// descriptors open, and is found from outside by its name, cay-linger-TOKEN. Ends by itself after a
// while.
_Noreturn void become_lingerer(const char *token);

// argv[0] for a copy of this program that writes "euid effective-capabilities" to its standard
// output.
#define HELPER_IDENTITY "cay-identity"
