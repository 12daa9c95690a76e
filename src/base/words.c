// SPDX-License-Identifier: Apache-2.0
#include "base/words.h"

#include <stdbool.h>
#include <string.h>

#include "base/text.h"

#define BLANKS " \t"

int words_check(const char *text, size_t len, size_t max, struct err *err)
{
    if (len > max)
        return err_set(err, ERR_INVALID, "longer than the %zu KiB that it may have", max / 1024);
    bool plain = utf8_valid(text, len);
    for (size_t i = 0; plain && i < len; i++)
        plain = ((unsigned char)text[i] >= ' ' && text[i] != 0x7f) || text[i] == '\n' ||
                text[i] == '\t';
    return plain ? 0 : err_set(err, ERR_INVALID, "it is plain text, and this is not");
}

int words_line(const char *line, struct err *err)
{
    size_t blanks = strspn(line, BLANKS);
    if (line[blanks] == '\0' || line[0] == '#')
        return 0;
    return blanks == 0 ? 1
                       : err_set(err, ERR_INVALID, "a line begins with its word, not with blanks");
}

char *words_cut(char *line)
{
    size_t len = strcspn(line, BLANKS);
    char *rest = line + len + strspn(line + len, BLANKS);
    line[len] = '\0';
    for (size_t end = strlen(rest); end > 0 && strchr(BLANKS, rest[end - 1]) != NULL;)
        rest[--end] = '\0';
    return rest;
}

char *words_next(char **rest)
{
    char *word = *rest + strspn(*rest, BLANKS);
    size_t len = strcspn(word, BLANKS);
    *rest = word + len + (word[len] != '\0');
    word[len] = '\0';
    return len > 0 ? word : NULL;
}
