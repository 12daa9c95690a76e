// SPDX-License-Identifier: Apache-2.0
#include "api/language-read.h"

#include <stdlib.h>
#include <string.h>

const struct language *language_read(struct call *call, const char *field, const char *name)
{
    const struct language *found = language_find(name);
    if (found != NULL)
        return found;
    auto_buf known;
    buf_init(&known, 1024);
    for (unsigned i = 0; i < n_languages; i++)
        (void)buf_printf(&known, "%s%s", i > 0 ? ", " : "", languages[i].name);
    call_error(call, ERROR_INVALID_REQUEST, NULL, "%s: there is no language '%.40s', but %.300s",
               field, name, buf_str(&known));
    return NULL;
}

static bool is_named(const struct body_strings *names, const struct language *language)
{
    for (size_t i = 0; i < names->n; i++) {
        if (language_find(names->items[i]) == language)
            return true;
    }
    return false;
}

int languages_read(struct call *call, const struct body_strings *names, char **ret)
{
    auto_buf text;
    struct json j;
    for (size_t i = 0; i < names->n; i++) {
        if (language_read(call, "languages", names->items[i]) == NULL)
            return -1;
    }
    *ret = NULL;
    if (names->n == 0)
        return 0;
    buf_init(&text, 4096);
    json_init(&j, &text);
    json_open_array(&j);
    for (unsigned i = 0; i < n_languages; i++) {
        if (is_named(names, &languages[i]))
            json_put_str(&j, languages[i].name);
    }
    json_close_array(&j);
    *ret = json_finish(&j) == 0 ? strdup(buf_str(&text)) : NULL;
    if (*ret == NULL)
        abort();
    return 0;
}
