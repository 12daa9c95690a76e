// SPDX-License-Identifier: Apache-2.0
#include "cli/body.h"

void body_number(struct json *j, const char *key, uint64_t value)
{
    if (value == 0)
        return;
    json_key(j, key);
    json_put_uint(j, value);
}

void body_text(struct json *j, const char *key, const char *value)
{
    if (value == NULL)
        return;
    json_key(j, key);
    json_put_str(j, value);
}

void body_flag(struct json *j, const char *key, bool value)
{
    if (!value)
        return;
    json_key(j, key);
    json_put_bool(j, true);
}

int names_add(struct names *names, const char *name, struct err *err)
{
    if (names->n == sizeof names->items / sizeof *names->items)
        return err_set(err, ERR_INVALID, "'%.80s' is one too many", name);
    names->items[names->n++] = name;
    return 0;
}

void body_names(struct json *j, const char *key, const struct names *names)
{
    if (names->n == 0)
        return;
    json_key(j, key);
    json_open_array(j);
    for (size_t i = 0; i < names->n; i++)
        json_put_str(j, names->items[i]);
    json_close_array(j);
}
