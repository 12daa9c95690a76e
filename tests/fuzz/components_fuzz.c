// SPDX-License-Identifier: Apache-2.0
// Whatever a request asks for, and whatever a repository has: files go nowhere but below .claude
// and to .mcp.json, what is merged is JSON, and merging it again changes nothing.
//
// An input is: the request, a NUL, .mcp.json, a NUL, the settings. All but the first may be
// missing.
#include <assert.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agents/components.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct made {
    struct component_file *files;
    size_t n;
};

static bool is_mcp(const char *path)
{
    return strcmp(path, ".mcp.json") == 0;
}

static bool is_merged(const char *path)
{
    return is_mcp(path) || strcmp(path, ".claude/settings.local.json") == 0;
}

static void check_file(const struct component_file *f)
{
    assert(is_mcp(f->path) || strncmp(f->path, ".claude/", strlen(".claude/")) == 0);
    assert(strstr(f->path, "..") == NULL || strstr(f->path, "/..") == NULL);
    assert(strlen(f->text) == f->len);
    if (!is_merged(f->path))
        return;
    json_t *root = json_loadb(f->text, f->len, JSON_ALLOW_NUL, NULL);
    assert(json_is_object(root));
    json_decref(root);
}

static int make(const struct components *c, const char *const *current, struct made *ret)
{
    struct err err = {0};
    if (components_files(c, current, &ret->files, &ret->n, &err) < 0) {
        assert(err.code == ERR_CONFLICT);
        return -1;
    }
    for (size_t i = 0; i < ret->n; i++)
        check_file(&ret->files[i]);
    return 0;
}

static const char *text_of(const struct made *made, const char *path)
{
    for (size_t i = 0; i < made->n; i++) {
        if (strcmp(made->files[i].path, path) == 0)
            return made->files[i].text;
    }
    return NULL;
}

static void check_same(const struct made *a, const struct made *b)
{
    assert(a->n == b->n);
    for (size_t i = 0; i < a->n; i++) {
        assert(strcmp(a->files[i].path, b->files[i].path) == 0);
        assert(strcmp(a->files[i].text, b->files[i].text) == 0);
        assert(a->files[i].executable == b->files[i].executable);
    }
}

static void check_again(const struct components *c, const struct made *first)
{
    struct made second;
    const char *current[2] = {0};
    for (unsigned i = 0; components_reads(c, i) != NULL; i++)
        current[i] = text_of(first, components_reads(c, i));
    int r = make(c, current, &second);
    assert(r == 0);
    check_same(first, &second);
    component_files_free(second.files, second.n);
}

static struct components *read_again(const struct components *c)
{
    struct err err = {0};
    struct components *again = NULL;
    char *text = components_text(c);
    json_t *from = json_loads(text, 0, NULL);
    assert(from != NULL);
    int r = components_parse(from, -1, &again, &err);
    assert(r == 0);
    json_decref(from);
    free(text);
    return again;
}

static void check(const struct components *c, const char *mcp, const char *settings)
{
    struct made first, other;
    const char *current[2] = {0};
    for (unsigned i = 0; components_reads(c, i) != NULL; i++)
        current[i] = is_mcp(components_reads(c, i)) ? mcp : settings;
    if (make(c, current, &first) < 0)
        return;
    check_again(c, &first);
    struct components *again = read_again(c);
    int r = make(again, current, &other);
    assert(r == 0);
    check_same(&first, &other);
    component_files_free(other.files, other.n);
    component_files_free(first.files, first.n);
    components_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    struct components *c = NULL;
    char *text = calloc(1, size + 3); // three texts, whatever there is
    assert(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    const char *mcp = text + strlen(text) + 1, *settings = mcp + strlen(mcp) + 1;
    settings = settings < text + size + 3 ? settings : "";
    json_t *from = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    if (from != NULL && components_parse(from, -1, &c, &err) == 0)
        check(c, mcp, settings);
    else
        assert(from == NULL || err.code == ERR_INVALID || err.code == ERR_NOT_FOUND);
    json_decref(from);
    components_free(c);
    free(text);
    return 0;
}
