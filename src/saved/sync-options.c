// SPDX-License-Identifier: Apache-2.0
#include "saved/sync-options.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/show.h"
#include "saved/sync-internal.h"

enum {
    TEXT_MAX = 24 * 1024, // less than KEEPER_ARGS_MAX
    ARGS_FIXED = 5,       // the directory, --max-bytes N, --gitignore, NULL
};

static int write_list(struct json *j, const char *key, const char *const *list, struct err *err)
{
    if (list == NULL)
        return 0;
    json_key(j, key);
    json_open_array(j);
    for (size_t i = 0; list[i] != NULL; i++) {
        size_t len = strlen(list[i]);
        if (i == SYNC_PATTERNS_MAX)
            return err_set(err, ERR_INVALID, "%s: at most %d patterns", key, SYNC_PATTERNS_MAX);
        if (len == 0 || len > SYNC_PATTERN_MAX)
            return err_set(err, ERR_INVALID, "%s: a pattern has 1 to %d bytes", key,
                           SYNC_PATTERN_MAX);
        json_put_str(j, list[i]);
    }
    json_close_array(j);
    return 0;
}

int sync_options_write(const struct sync_options *options, char **ret, struct err *err)
{
    auto_buf buf;
    struct json j;
    buf_init(&buf, TEXT_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    if (write_list(&j, "include", options->include, err) < 0 ||
        write_list(&j, "exclude", options->exclude, err) < 0)
        return -1;
    if (options->gitignore)
        show_bool(&j, "gitignore", true);
    json_close_object(&j);
    if (json_finish(&j) < 0)
        return err_set(err, ERR_INVALID, "the patterns have more than %d bytes in all", TEXT_MAX);
    *ret = buf.data;
    buf.data = NULL;
    return 0;
}

static size_t add_list(const struct json_node *list, const char *flag, const char **to)
{
    size_t n = 0;
    for (const struct json_node *item = json_first(list); item != NULL; item = json_next(item)) {
        if (json_text(item) == NULL)
            continue;
        to[n++] = flag;
        to[n++] = json_text(item);
    }
    return n;
}

int sync_options_args(const char *text, const char *max_bytes, struct json_doc **ret_doc,
                      const char ***ret_args, struct err *err)
{
    struct json_doc *doc;
    if (json_read(text, strlen(text), &doc, err) < 0)
        return err_wrap(err, "options of a sync");
    const struct json_node *root = json_root(doc);
    const struct json_node *include = json_get(root, "include"),
                           *exclude = json_get(root, "exclude");
    size_t most = 2 * ((include != NULL ? include->n : 0) + (exclude != NULL ? exclude->n : 0));
    const char **args = calloc(most + ARGS_FIXED, sizeof *args);
    if (args == NULL)
        abort();
    size_t n = 0;
    args[n++] = SYNC_DIR;
    args[n++] = "--max-bytes";
    args[n++] = max_bytes;
    n += add_list(include, "--include", args + n);
    n += add_list(exclude, "--exclude", args + n);
    if (json_bool(json_get(root, "gitignore"), false))
        args[n++] = "--gitignore";
    *ret_doc = doc;
    *ret_args = args;
    return 0;
}
