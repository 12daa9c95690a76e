// SPDX-License-Identifier: Apache-2.0
#include "api/container/port-status.h"

#include <string.h>

bool probe_path_valid(const char *path)
{
    if (path[0] != '/' || strlen(path) >= PROBE_PATH_MAX)
        return false;
    for (; *path != '\0'; path++) {
        if ((unsigned char)*path <= ' ' || (unsigned char)*path >= 0x7f)
            return false;
    }
    return true;
}

int probe_status(const char *text, size_t len)
{
    static const char begin[] = "HTTP/1.";
    enum { VERSION = sizeof begin - 1, DIGITS = VERSION + 2, WHOLE = DIGITS + 3 };
    size_t seen = len < VERSION ? len : VERSION;
    if (memcmp(text, begin, seen) != 0)
        return 0;
    if (len < WHOLE)
        return memchr(text, '\n', len) != NULL ? 0 : -1;
    int status = 0;
    for (int i = DIGITS; i < WHOLE; i++) {
        if (text[i] < '0' || text[i] > '9')
            return 0;
        status = status * 10 + (text[i] - '0');
    }
    bool is_digit = text[VERSION] >= '0' && text[VERSION] <= '9';
    return is_digit && text[VERSION + 1] == ' ' && status >= 100 ? status : 0;
}
