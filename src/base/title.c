// SPDX-License-Identifier: Apache-2.0
#include "base/title.h"

#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

// The kernel lays arguments and environment out as one run of strings.
static char *area;
static size_t area_len;

void title_init(int argc, char **argv)
{
    if (argc < 1)
        return;
    area = argv[0];
    char *end = argv[0] + strlen(argv[0]) + 1;
    for (int i = 1; i < argc && argv[i] == end; i++)
        end += strlen(argv[i]) + 1;
    for (char **e = environ; *e != NULL && *e == end; e++)
        end += strlen(*e) + 1;
    area_len = (size_t)(end - area);
}

void title_set(const char *title)
{
    static char *nothing[] = {NULL};
    if (area == NULL)
        return;
    environ = nothing;
    explicit_bzero(area, area_len);
    size_t len = strlen(title);
    memcpy(area, title, len < area_len ? len : area_len - 1);
    (void)prctl(PR_SET_NAME, title, 0, 0, 0);
}
