// SPDX-License-Identifier: Apache-2.0
#include "api/family-path.h"

#include <stddef.h>
#include <string.h>

// What is behind `begin`, if the target begins with it and its segment ends there.
static const char *behind(const char *target, const char *begin)
{
    size_t len = strlen(begin);
    if (strncmp(target, begin, len) != 0)
        return NULL;
    target += len;
    return *target == '\0' || *target == '/' || *target == '?' ? target : NULL;
}

// And behind the segment that follows, which may be empty.
static const char *behind_one_more(const char *target, const char *begin)
{
    const char *rest = behind(target, begin);
    return rest != NULL && *rest == '/' ? rest + 1 + strcspn(rest + 1, "/?") : NULL;
}

const char *path_of_container(const char *target)
{
    const char *rest = behind_one_more(target, "/sandbox");
    return rest != NULL ? behind(rest, "/container") : NULL;
}

const char *path_of_capability(const char *target)
{
    return behind_one_more(target, "/container");
}

const char *path_of_bridge(const char *target)
{
    return behind(target, "/v1");
}
