// SPDX-License-Identifier: Apache-2.0
// What an idle context that has used pandas costs beyond the zygote: what its process alone has
// written to (private dirty); and, for information, what else comes with each: page tables, kernel
// stack, and what the daemon has grown by. The processes are those of guests that have several:
// what is parked in a box of the pool is alone there.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "code.h"

enum { PER_SANDBOX = 25, SETTLE_MS = 2000, PIDS_MAX = 64 * 1024 };

#define CODE                                                                                       \
    "{\"context\":\"c%u\",\"code\":\"import pandas as pd\\n"                                       \
    "df = pd.DataFrame({'a':[1,2,3]})\\ndf['a'].sum()\"}"

// --- making them

static void make_context(struct http_conn *c, const char *sandbox, unsigned i)
{
    char path[96], body[256];
    watchdog("a context");
    (void)snprintf(path, sizeof path, "/sandbox/%s/contexts", sandbox);
    (void)snprintf(body, sizeof body, "{\"id\":\"c%u\"}", i);
    (void)http_must(c, "POST", path, body);
    (void)snprintf(body, sizeof body, CODE, i);
    code_run(c, sandbox, body, "\"text\":\"6\"");
}

static void name_sandbox(char *ret, size_t size, unsigned context)
{
    (void)snprintf(ret, size, "memory-%u", context / PER_SANDBOX);
}

static void make_all(struct http_conn *c, unsigned n)
{
    char id[32];
    for (unsigned i = 0; i < n; i++) {
        name_sandbox(id, sizeof id, i);
        if (i % PER_SANDBOX == 0)
            http_create(c, id);
        make_context(c, id, i);
    }
}

static void remove_all(struct http_conn *c, unsigned n)
{
    char id[32];
    for (unsigned i = 0; i < n; i += PER_SANDBOX) {
        name_sandbox(id, sizeof id, i);
        http_destroy(c, id);
    }
}

// --- one process

// KiB behind a name in a file of a process; 0 when it is not there.
static double kib_of(long pid, const char *file, const char *name)
{
    char path[64], text[8192];
    (void)snprintf(path, sizeof path, "/proc/%ld/%s", pid, file);
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) < 0)
        die("%s: %m", path);
    const char *at = strstr(text, name);
    return at != NULL ? strtod(at + strlen(name), NULL) : 0;
}

struct cost {
    double dirty, most, tables, shared; // KiB: private dirty, the largest of them, page tables, PSS
    unsigned n;
};

static void add(struct cost *cost, long pid)
{
    double dirty = kib_of(pid, "smaps_rollup", "Private_Dirty:");
    cost->dirty += dirty;
    cost->most = dirty > cost->most ? dirty : cost->most;
    cost->tables += kib_of(pid, "status", "VmPTE:");
    cost->shared += kib_of(pid, "smaps_rollup", "Pss:");
    cost->n++;
}

// --- finding them

static bool is_python(long pid)
{
    char path[64], name[32];
    (void)snprintf(path, sizeof path, "/proc/%ld/comm", pid);
    return fd_read_file(AT_FDCWD, path, name, sizeof name) > 0 && strncmp(name, "python", 6) == 0;
}

// How many of the children, which the text names one after the other, are Pythons; these come first
// in `ret`.
static unsigned pythons_of(long parent, long ret[], unsigned max)
{
    static char text[PIDS_MAX * 8];
    char path[64];
    unsigned n = 0;
    (void)snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", parent, parent);
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) < 0)
        return 0; // it has gone
    char *rest = text;
    for (char *word; (word = strsep(&rest, " ")) != NULL && n < max;) {
        long pid = strtol(word, NULL, 10);
        if (pid > 0 && is_python(pid))
            ret[n++] = pid;
    }
    return n;
}

static void add_guest(struct cost *cost, long guest)
{
    long found[2 * PER_SANDBOX];
    unsigned n = pythons_of(guest, found, 2 * PER_SANDBOX);
    for (unsigned i = 0; n > 1 && i < n; i++)
        add(cost, found[i]);
}

static struct cost look(const struct code_bench *b)
{
    static char text[PIDS_MAX * 8];
    char path[64];
    struct cost cost = {0};
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", b->http.keeper, b->http.keeper);
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) < 0)
        die("%s: %m", path);
    char *rest = text;
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        long pid = strtol(word, NULL, 10);
        if (pid > 0)
            add_guest(&cost, pid);
    }
    if (cost.n != b->contexts)
        die("%u contexts were made, and %u processes found", b->contexts, cost.n);
    return cost;
}

// --- all of it

void line_code_memory(const struct code_bench *b)
{
    static struct http_conn c;
    double n = b->contexts;
    http_open(&c, &b->http);
    note("%u contexts that have used pandas", b->contexts);
    double before = kib_of(http_daemon(&b->http), "smaps_rollup", "Private_Dirty:");
    make_all(&c, b->contexts);
    sleep_ms(SETTLE_MS);
    struct cost cost = look(b);
    double after = kib_of(http_daemon(&b->http), "smaps_rollup", "Private_Dirty:");
    print_value("memory", "contexts", n);
    print_value("memory", "per sandbox", PER_SANDBOX);
    print_value("memory", "dirty", cost.dirty / n / 1024);
    print_value("memory", "most", cost.most / 1024);
    print_value("memory", "tables", cost.tables / n);
    print_value("memory", "proportional", cost.shared / n / 1024);
    print_value("memory", "daemon", (after - before) / n);
    remove_all(&c, b->contexts);
    http_close(&c);
}
