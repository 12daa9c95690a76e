// SPDX-License-Identifier: Apache-2.0
#include "cli/templates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char template_bundle[], template_bundle_end[];

// The bundle is ours and ends with a NUL behind it, so that it is read as text.
bool template_next(const char **at, struct template_file *ret)
{
    const char *head = *at != NULL ? *at : template_bundle;
    if (head >= template_bundle_end)
        return false;
    const char *space = strchr(head, ' ');
    char *line_end;
    (void)snprintf(ret->path, sizeof ret->path, "%.*s", (int)(space - head), head);
    ret->len = strtoul(space + 1, &line_end, 10);
    ret->data = line_end + 1;
    *at = ret->data + ret->len + 1;
    return true;
}

bool template_find(const char *path, struct template_file *ret)
{
    size_t len = strlen(path);
    bool below = path[len - 1] == '/';
    for (const char *at = NULL; template_next(&at, ret);) {
        if (strncmp(ret->path, path, len) == 0 && (below || ret->path[len] == '\0'))
            return true;
    }
    return false;
}
