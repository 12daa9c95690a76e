// SPDX-License-Identifier: Apache-2.0
#include "cli/lang.h"

#include <string.h>
#include <strings.h>

#define PY    LANG_PYTHON, false, ">>> ", "... "
#define JS    LANG_SCRIPT, false, "> ", "... "
#define SHELL LANG_SHELL, false, "$ ", "> "
#define ONCE  LANG_PLAIN, true, "> ", "... "

static const struct lang table[] = {
    {"python",     {"py", "python3"},     {"py"},               PY   },
    {"javascript", {"js", "node"},        {"js", "mjs", "cjs"}, JS   },
    {"typescript", {"ts"},                {"ts", "mts", "cts"}, JS   },
    {"bash",       {"sh", "shell"},       {"sh", "bash"},       SHELL},
    {"c",          {NULL},                {"c"},                ONCE },
    {"cpp",        {"c++", "cxx", "g++"}, {"cpp", "cc", "cxx"}, ONCE },
    {"go",         {"golang"},            {"go"},               ONCE },
    {"rust",       {"rs"},                {"rs"},               ONCE },
    {"java",       {NULL},                {"java"},             ONCE },
    {"ruby",       {"rb"},                {"rb"},               ONCE },
    {"php",        {NULL},                {"php"},              ONCE },
    {"perl",       {"pl"},                {"pl"},               ONCE },
    {"lua",        {NULL},                {"lua"},              ONCE },
    {"r",          {NULL},                {"r"},                ONCE },
};

static bool is_among(const char *const *names, const char *name)
{
    for (; *names != NULL; names++) {
        if (strcasecmp(*names, name) == 0)
            return true;
    }
    return false;
}

const struct lang *lang_find(const char *name)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcasecmp(table[i].name, name) == 0 || is_among(table[i].aliases, name))
            return &table[i];
    }
    return NULL;
}

const struct lang *lang_of_file(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && dot > name && i < sizeof table / sizeof *table; i++) {
        if (is_among(table[i].endings, dot + 1))
            return &table[i];
    }
    return NULL;
}
