// SPDX-License-Identifier: Apache-2.0
// The made-up addresses of one sandbox: 198.18.0.0/15, which no network routes, stands for names. A
// name keeps its address as long as it is asked for, and as long as a connection to it is open; the
// one that was not used for longest makes room. Which address it gets follows from the name, so
// that after a restart of the daemon it most likely gets the same. The loop's thread.
#pragma once

#include <netinet/in.h>
#include <stdbool.h>

enum { NAMES_MAX = 2048 };

struct names;

struct names *names_new(void);
void names_free(struct names *names); // takes NULL
// 0, or -ENOSPC when connections to as many names are open.
int names_give(struct names *names, const char *name, struct in_addr *ret);
const char *names_find(struct names *names, struct in_addr address); // NULL: nobody has it
// While it is held an address stays its name's.
void names_hold(struct names *names, struct in_addr address);
void names_release(struct names *names, struct in_addr address);
bool names_is_made_up(struct in_addr address);
