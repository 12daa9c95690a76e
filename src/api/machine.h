// SPDX-License-Identifier: Apache-2.0
// The machine's processors and memory, as /proc tells. One of zeros has seen nothing yet. On the
// loop's thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct machine {
    int64_t seen_ns;
    uint64_t busy, all; // ticks of all processors, when it was looked last
    double cpu_percent; // between the last two looks; -1: there was one at most
};

struct machine_memory {
    uint64_t total, available; // bytes; 0: not known
};

// Looks at the processors, unless it did so a moment ago: less than that says nothing.
void machine_look(struct machine *machine);
unsigned machine_cpus(void);
void machine_memory(struct machine_memory *ret);

// From a text such as /proc/stat. 0, or -1 when it is none.
int machine_read_ticks(const char *text, uint64_t *ret_busy, uint64_t *ret_all);
// The bytes of a line of a text such as /proc/meminfo, "MemTotal"; 0: there is none.
uint64_t machine_read_memory(const char *text, const char *name);
