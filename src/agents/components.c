// SPDX-License-Identifier: Apache-2.0
// What a request asks for becomes two things when it is read: files that are written as they are,
// and two JSON objects (of .mcp.json, of the settings) that are merged into what a project has.
// Merging is such that it does not matter whether components are merged one after the other, or
// first with each other: so it is done once, and what cannot be is refused before anything runs.
#include "agents/components.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agents/components-internal.h"
#include "base/mem.h"

#define MCP_FILE      ".mcp.json"
#define SETTINGS_FILE ".claude/settings.local.json"
#define ALONE_FILE    ".claude/settings.cay.json"

// -- all of them

static int add_list(struct components *c, enum component_kind kind, json_t *list, int dir_fd,
                    size_t *n, struct err *err)
{
    size_t i;
    json_t *from;
    if (list == NULL || json_is_null(list))
        return 0;
    if (!json_is_array(list))
        return err_set(err, ERR_INVALID, "%s is no list", component_list(kind));
    json_t *whole = json_array();
    if (json_object_set_new(c->whole, component_list(kind), whole) < 0)
        return component_no_memory(err);
    json_array_foreach(list, i, from)
    {
        struct component_item item = {.kind = kind, .dir_fd = dir_fd, .components = c};
        if (++*n > COMPONENTS_MAX)
            return err_set(err, ERR_INVALID, "there are at most %d components", COMPONENTS_MAX);
        if (component_add(&item, from, whole, err) < 0)
            return err_wrap(err, "%s[%zu]%s%s", component_list(kind), i,
                            item.name != NULL ? " " : "", item.name != NULL ? item.name : "");
    }
    return 0;
}

static int check_lists(const json_t *from, struct err *err)
{
    const char *key;
    json_t *value;
    if (!json_is_object(from))
        return err_set(err, ERR_INVALID, "it is no object");
    json_object_foreach((json_t *)(uintptr_t)from, key, value)
    {
        bool known = false;
        for (unsigned i = 0; i < COMPONENT_KIND_MAX; i++)
            known = known || strcmp(key, component_list((enum component_kind)i)) == 0;
        if (!known)
            return err_set(err, ERR_INVALID,
                           "there is no '%.60s', only agents, commands, mcps, settings, "
                           "hooks",
                           key);
    }
    return 0;
}

static int settle(struct components *c, struct err *err)
{
    unsigned n = 0;
    if (c->mcp != NULL) {
        if (c->settings == NULL)
            c->settings = json_object();
        if (c->settings == NULL ||
            component_enable_servers(c->settings, json_object_get(c->mcp, "mcpServers")) < 0)
            return component_no_memory(err);
        c->reads[n++] = MCP_FILE;
    }
    if (c->settings == NULL)
        return 0;
    c->reads[n++] = SETTINGS_FILE;
    return component_enable_hooks(c->settings) < 0 ? component_no_memory(err) : 0;
}

static struct components *new_components(void)
{
    struct components *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->refs = 1;
    c->whole = json_object();
    if (c->whole != NULL)
        return c;
    free(c);
    return NULL;
}

int components_parse(const json_t *from, int dir_fd, struct components **ret, struct err *err)
{
    size_t n = 0;
    if (check_lists(from, err) < 0)
        return -1;
    struct components *c = new_components();
    int r = c == NULL ? component_no_memory(err) : 0;
    for (unsigned i = 0; r == 0 && i < COMPONENT_KIND_MAX; i++) {
        enum component_kind kind = (enum component_kind)i;
        r = add_list(c, kind, json_object_get(from, component_list(kind)), dir_fd, &n, err);
    }
    if (r == 0)
        r = settle(c, err);
    if (r == 0)
        *ret = c;
    else
        components_free(c);
    return r;
}

struct components *components_ref(const struct components *components)
{
    struct components *c = (struct components *)(uintptr_t)components; // what it says is the same
    c->refs++;
    return c;
}

void components_free(struct components *components)
{
    if (components == NULL || --components->refs > 0)
        return;
    component_files_free(components->files, components->n_files);
    json_decref(components->whole);
    json_decref(components->mcp);
    json_decref(components->settings);
    free(components);
}

char *components_text(const struct components *components)
{
    return json_dumps(components->whole, JSON_COMPACT);
}

const char *components_settings(const struct components *components)
{
    return components->settings != NULL ? ALONE_FILE : NULL;
}

const char *components_reads(const struct components *components, unsigned n)
{
    return n < 2 ? components->reads[n] : NULL;
}

// -- what is written

void component_files_free(struct component_file *files, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(files[i].path);
        free(files[i].text);
    }
    free(files);
}

// What is there, or an empty object. It may be anything: it is a repository's.
static int read_current(const char *path, const char *current, json_t **ret, struct err *err)
{
    bool is_empty = current == NULL || current[strspn(current, " \t\r\n")] == '\0';
    if (!is_empty && strlen(current) > COMPONENTS_JSON_MAX)
        return err_set(err, ERR_CONFLICT,
                       "%s of the repository is too long to be merged with components", path);
    *ret = is_empty ? json_object() : component_json(current, strlen(current), JSON_ALLOW_NUL, err);
    if (*ret != NULL)
        return 0;
    if (is_empty)
        return component_no_memory(err);
    err->code = ERR_CONFLICT;
    return err_wrap(err, "%s of the repository cannot be merged with components", path);
}

typedef int (*merge_fn)(json_t *into, json_t *from);

static int write_merged(json_t *into, json_t *from, merge_fn merge, struct buf *ret)
{
    if (merge(into, from) < 0)
        return -1;
    char *text = json_dumps(into, JSON_INDENT(2));
    if (text == NULL)
        return -1;
    buf_init(ret, SIZE_MAX / 2);
    (void)buf_printf(ret, "%s\n", text);
    free(text);
    return ret->failed != 0 ? -1 : 0;
}

static int merge_file(json_t *from, merge_fn merge, const char *path, const char *current,
                      struct component_file *ret, struct err *err)
{
    json_t *root;
    struct buf text = {0};
    if (read_current(path, current, &root, err) < 0)
        return -1;
    int r = write_merged(root, from, merge, &text);
    json_decref(root);
    if (r < 0) {
        buf_done(&text);
        return component_no_memory(err);
    }
    *ret = (struct component_file){mem_copy_text(path), text.data, text.len, false};
    return 0;
}

static int merge_files(const struct components *c, const char *const *current,
                       struct component_file *files, size_t *n, struct err *err)
{
    for (unsigned i = 0; components_reads(c, i) != NULL; i++) {
        bool is_mcp = strcmp(c->reads[i], MCP_FILE) == 0;
        if (merge_file(is_mcp ? c->mcp : c->settings,
                       is_mcp ? component_merge_servers : component_merge_settings, c->reads[i],
                       current[i], &files[*n], err) < 0)
            return -1;
        ++*n;
    }
    return 0;
}

static int copy_files(const struct components *c, struct component_file *files, size_t *n,
                      struct err *err)
{
    for (size_t i = 0; i < c->n_files; i++) {
        const struct component_file *f = &c->files[i];
        char *text = component_copy(f->text, f->len);
        if (text == NULL)
            return component_no_memory(err);
        files[(*n)++] =
            (struct component_file){mem_copy_text(f->path), text, f->len, f->executable};
    }
    return 0;
}

// Without the hooks, which count wherever they are, and would run twice.
static int settings_alone(const struct components *c, struct component_file *files, size_t *n,
                          struct err *err)
{
    if (c->settings == NULL)
        return 0;
    json_t *alone = json_copy(c->settings);
    if (alone == NULL)
        return component_no_memory(err);
    (void)json_object_del(alone, "hooks");
    char *text = json_dumps(alone, JSON_INDENT(2));
    json_decref(alone);
    if (text == NULL)
        return component_no_memory(err);
    files[(*n)++] = (struct component_file){mem_copy_text(ALONE_FILE), text, strlen(text),
                                            /*executable=*/false};
    return 0;
}

int components_files(const struct components *components, const char *const *current,
                     struct component_file **ret, size_t *ret_n, struct err *err)
{
    size_t n = 0;
    struct component_file *files = calloc(components->n_files + 3, sizeof *files);
    if (files == NULL)
        return component_no_memory(err);
    if (copy_files(components, files, &n, err) < 0 ||
        settings_alone(components, files, &n, err) < 0 ||
        merge_files(components, current, files, &n, err) < 0) {
        component_files_free(files, n);
        return -1;
    }
    *ret = files;
    *ret_n = n;
    return 0;
}
