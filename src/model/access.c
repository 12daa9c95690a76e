// SPDX-License-Identifier: Apache-2.0
// Where the API is and as whom it is asked.
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/model-internal.h"

int model_access_copy(const struct model_access *access, struct model_access *ret)
{
    *ret = (struct model_access){
        .base_url = mem_copy_text(access->base_url),
        .header = mem_copy_text(access->header),
        .guarded = access->guarded,
    };
    return 0;
}

void model_access_done(struct model_access *access)
{
    if (access->header != NULL)
        sodium_memzero(access->header, strlen(access->header));
    free(access->header);
    free(access->base_url);
    *access = (struct model_access){0};
}

static bool is_line(const char *text)
{
    return text != NULL && strpbrk(text, "\r\n") == NULL;
}

// What libcurl would take apart differently than whoever checked it does not go there.
bool access_can_be_asked(const struct model_access *access, const char *beta)
{
    const char *url = access->base_url;
    if (url == NULL || (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0) ||
        strpbrk(url, "@?#\\ \t\r\n") != NULL)
        return false;
    return is_line(access->header) && strchr(access->header, ':') != NULL &&
           (beta == NULL || is_line(beta));
}

char *access_url(const struct model_access *access)
{
    const char *base = access->base_url;
    size_t len = base != NULL ? strlen(base) : 0;
    char *url = NULL;
    while (len > 0 && base[len - 1] == '/')
        len--;
    if (asprintf(&url, "%.*s/v1/messages", (int)len, base != NULL ? base : "") < 0)
        abort();
    return url;
}
