// SPDX-License-Identifier: Apache-2.0
#include "cli/host-tools.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct row {
    const char *name;
    const char *package;
    const char *const *places;
};

static const char *const programs[] = {"/usr/bin", "/usr/local/bin", NULL};
static const char *const modules[] = {
    "/usr/lib/python3/dist-packages",    "/usr/local/lib/python3*/dist-packages",
    "/usr/lib/python3*/site-packages",   "/usr/local/lib/python3*/site-packages",
    "/usr/lib64/python3*/site-packages", NULL,
};

static const struct row rows[] = {
    {"python3",    "python3",            programs},
    {"numpy",      "python3-numpy",      modules },
    {"pandas",     "python3-pandas",     modules },
    {"matplotlib", "python3-matplotlib", modules },
    {"node",       "nodejs",             programs},
};

enum { N_ROWS = sizeof rows / sizeof *rows };

static bool is_there(const char *root, const struct row *row)
{
    for (const char *const *place = row->places; *place != NULL; place++) {
        char pattern[PATH_MAX];
        glob_t found;
        (void)snprintf(pattern, sizeof pattern, "%s%s/%s", root, *place, row->name);
        if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0) {
            globfree(&found);
            return true;
        }
    }
    return false;
}

struct host_tools host_tools_find(const char *root)
{
    struct host_tools tools = {.present = 0};
    for (unsigned i = 0; i < N_ROWS; i++)
        tools.present |= is_there(root, &rows[i]) ? 1u << i : 0;
    return tools;
}

bool host_tools_complete(struct host_tools tools)
{
    return tools.present == (1u << N_ROWS) - 1;
}

static void list(unsigned which, struct buf *ret)
{
    for (unsigned i = 0; i < N_ROWS; i++) {
        if ((which & 1u << i) != 0)
            (void)buf_printf(ret, "%s%s", ret->len > 0 ? ", " : "", rows[i].name);
    }
}

void host_tools_present(struct host_tools tools, struct buf *ret)
{
    list(tools.present, ret);
}

void host_tools_missing(struct host_tools tools, struct buf *ret)
{
    list(~tools.present, ret);
}

void host_tools_command(struct host_tools tools, const char *root, struct buf *ret)
{
    char apt[PATH_MAX];
    (void)snprintf(apt, sizeof apt, "%s/usr/bin/apt-get", root);
    if (access(apt, X_OK) < 0)
        return;
    for (unsigned i = 0; i < N_ROWS; i++) {
        if ((tools.present & 1u << i) == 0)
            (void)buf_printf(ret, "%s%s", ret->len == 0 ? "apt-get install " : " ",
                             rows[i].package);
    }
}
