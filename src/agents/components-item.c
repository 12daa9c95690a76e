// SPDX-License-Identifier: Apache-2.0
// One component: its name, where its text is, whether it makes sense, and what comes of it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/components-internal.h"
#include "base/mem.h"
#include "base/text.h"

enum { PATH_LEN_MAX = 32 + COMPONENT_NAME_MAX, FILES_MAX = 2 * COMPONENTS_MAX };

static const struct {
    const char *name;   // of the list, and of the folder
    const char *ending; // of the file that is looked for
    const char *into;   // where it goes; NULL: it is JSON, and merged
} kinds[COMPONENT_KIND_MAX] = {
    [COMPONENT_AGENT] = {"agents",   ".md",   ".claude/agents/"  },
    [COMPONENT_COMMAND] = {"commands", ".md",   ".claude/commands/"},
    [COMPONENT_MCP] = {"mcps",     ".json", NULL               },
    [COMPONENT_SETTING] = {"settings", ".json", NULL               },
    [COMPONENT_HOOK] = {"hooks",    ".json", NULL               },
};

const char *component_list(enum component_kind kind)
{
    return kinds[kind].name;
}

int component_no_memory(struct err *err)
{
    return err_set(err, ERR_EXHAUSTED, "no memory for components");
}

// -- files that are written as they are

static int count_bytes(struct components *c, size_t len, struct err *err)
{
    if (len > COMPONENT_TEXT_MAX)
        return err_set(err, ERR_INVALID, "one file has at most %d bytes", COMPONENT_TEXT_MAX);
    c->bytes += len;
    if (c->bytes > COMPONENTS_BYTES_MAX)
        return err_set(err, ERR_INVALID, "all together have at most %d bytes",
                       COMPONENTS_BYTES_MAX);
    return 0;
}

static struct component_file *find_file(const struct components *c, const char *path)
{
    for (size_t i = 0; i < c->n_files; i++) {
        if (strcmp(c->files[i].path, path) == 0)
            return &c->files[i];
    }
    return NULL;
}

char *component_copy(const char *text, size_t len)
{
    char *copy = malloc(len + 1);
    if (copy == NULL)
        return NULL;
    if (len > 0)
        memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

static int add_file(struct components *c, const char *path, const char *text, size_t len,
                    bool executable, struct err *err)
{
    const struct component_file *there = find_file(c, path);
    if (there != NULL && there->len == len && memcmp(there->text, text, len) == 0)
        return 0;
    if (there != NULL)
        return err_set(err, ERR_INVALID, "another one would be %s, too", path);
    if (c->n_files == FILES_MAX)
        return err_set(err, ERR_INVALID, "there are at most %d files", FILES_MAX);
    if (!utf8_valid(text, len) || memchr(text, '\0', len) != NULL)
        return err_set(err, ERR_INVALID, "%s is no text", path);
    if (count_bytes(c, len, err) < 0)
        return -1;
    struct component_file *files = reallocarray(c->files, c->n_files + 1, sizeof *files);
    if (files == NULL)
        return component_no_memory(err);
    c->files = files;
    char *copy = component_copy(text, len);
    if (copy == NULL)
        return component_no_memory(err);
    files[c->n_files++] = (struct component_file){mem_copy_text(path), copy, len, executable};
    return 0;
}

static int add_text(const struct component_item *item, const char *text, size_t len,
                    struct err *err)
{
    char path[PATH_LEN_MAX + 8];
    if (strspn(text, " \t\r\n") == len)
        return err_set(err, ERR_INVALID, "it is empty");
    (void)snprintf(path, sizeof path, "%s%s%s", kinds[item->kind].into, item->file,
                   kinds[item->kind].ending);
    return add_file(item->components, path, text, len, /*executable=*/false, err);
}

// -- scripts of hooks and settings

// "FILE" and ".claude/hooks/FILE" are among the hooks; ".claude/scripts/FILE" is where the scripts
// of settings are. Nothing else: a component writes nowhere but where Claude Code looks for it.
static int script_path(const char *name, char ret[PATH_LEN_MAX], struct err *err)
{
    static const char *const folders[] = {".claude/hooks/", ".claude/scripts/"};
    const char *folder = folders[0], *file = name;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        if (strncmp(name, folders[i], strlen(folders[i])) == 0) {
            folder = folders[i];
            file = name + strlen(folder);
        }
    }
    if (!component_name_ok(file, strlen(file)))
        return err_set(err, ERR_INVALID,
                       "'%.60s' is no place for a script: a name, or one below .claude/hooks/ or "
                       ".claude/scripts/",
                       name);
    (void)snprintf(ret, PATH_LEN_MAX, "%s%s", folder, file);
    return 0;
}

// {"FILE": "text"}, or {"FILE": {"content": "text"}} as it is in a component's own file.
static int add_scripts(const struct component_item *item, json_t *files, struct err *err)
{
    const char *name;
    json_t *value;
    char path[PATH_LEN_MAX];
    if (files == NULL || json_is_null(files))
        return 0;
    if (!json_is_object(files))
        return err_set(err, ERR_INVALID, "\"files\" is no object of names and texts");
    json_object_foreach(files, name, value)
    {
        const json_t *text = json_is_object(value) ? json_object_get(value, "content") : value;
        if (!json_is_string(text))
            return err_set(err, ERR_INVALID, "the file '%.60s' is no text", name);
        if (script_path(name, path, err) < 0 ||
            add_file(item->components, path, json_string_value(text), json_string_length(text),
                     /*executable=*/true, err) < 0)
            return -1;
    }
    return 0;
}

// -- JSON

json_t *component_json(const char *text, size_t len, size_t flags, struct err *err)
{
    json_error_t why;
    bool marked = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0; // as some editors do
    json_t *root = json_loadb(text + (marked ? 3 : 0), len - (marked ? 3 : 0), flags, &why);
    if (root == NULL)
        (void)err_set(err, ERR_INVALID, "it is no JSON: line %d, column %d", why.line, why.column);
    else if (!json_is_object(root))
        (void)err_set(err, ERR_INVALID, "it is no JSON object");
    if (json_is_object(root))
        return root;
    json_decref(root);
    return NULL;
}

static int check_servers(json_t *servers, struct err *err)
{
    const char *name;
    json_t *server;
    if (!json_is_object(servers) || json_object_size(servers) == 0)
        return err_set(err, ERR_INVALID, "it has no \"mcpServers\"");
    json_object_foreach(servers, name, server)
    {
        if (!json_is_object(server))
            return err_set(err, ERR_INVALID, "its server '%.60s' is no object", name);
    }
    return 0;
}

// What Claude Code cannot read as hooks makes it drop the whole of the settings.
static int check_hooks(json_t *hooks, bool must, struct err *err)
{
    const char *event;
    json_t *list;
    if (hooks == NULL && !must)
        return 0;
    if (!json_is_object(hooks))
        return err_set(err, ERR_INVALID, "it has no \"hooks\"");
    json_object_foreach(hooks, event, list)
    {
        if (!json_is_array(list) && !json_is_string(list))
            return err_set(err, ERR_INVALID, "its hooks of '%.60s' are no list", event);
    }
    return 0;
}

static int check_object(enum component_kind kind, json_t *content, struct err *err)
{
    if (kind == COMPONENT_MCP)
        return check_servers(json_object_get(content, "mcpServers"), err);
    return check_hooks(json_object_get(content, "hooks"), kind == COMPONENT_HOOK, err);
}

static int merge(json_t **into, json_t *from, int (*fn)(json_t *into, json_t *from),
                 struct err *err)
{
    if (*into == NULL)
        *into = json_object();
    return *into == NULL || fn(*into, from) < 0 ? component_no_memory(err) : 0;
}

// Of a hook only the hooks, as its installer does.
static int add_settings(const struct component_item *item, json_t *content, struct err *err)
{
    json_t *hooks = json_object_get(content, "hooks");
    json_t *from =
        item->kind == COMPONENT_HOOK ? json_pack("{s:O}", "hooks", hooks) : json_incref(content);
    int r = from == NULL ? component_no_memory(err)
                         : merge(&item->components->settings, from, component_merge_settings, err);
    json_decref(from);
    return r < 0 ? -1 : add_scripts(item, json_object_get(content, "files"), err);
}

static int add_object(const struct component_item *item, json_t *content, struct err *err)
{
    if (check_object(item->kind, content, err) < 0)
        return -1;
    if (item->kind == COMPONENT_MCP)
        return merge(&item->components->mcp, content, component_merge_servers, err);
    return add_settings(item, content, err);
}

static int count_json(struct components *c, size_t len, struct err *err)
{
    if (len > COMPONENT_JSON_MAX)
        return err_set(err, ERR_INVALID, "JSON has at most %d bytes", COMPONENT_JSON_MAX);
    c->json_bytes += len;
    if (c->json_bytes > COMPONENTS_JSON_MAX)
        return err_set(err, ERR_INVALID, "all JSON together has at most %d bytes",
                       COMPONENTS_JSON_MAX);
    return 0;
}

static int add_json_text(const struct component_item *item, const char *text, size_t len,
                         struct err *err)
{
    if (count_json(item->components, len, err) < 0)
        return -1;
    json_t *content = component_json(text, len, JSON_REJECT_DUPLICATES, err);
    int r = content != NULL ? add_object(item, content, err) : -1;
    json_decref(content);
    return r;
}

// As long as it would be in a file.
static int add_json_object(const struct component_item *item, json_t *content, struct err *err)
{
    size_t len = json_dumpb(content, NULL, 0, JSON_COMPACT);
    if (count_json(item->components, len, err) < 0)
        return -1;
    return add_object(item, content, err);
}

// -- an item

static int add_content(const struct component_item *item, json_t *content, struct err *err)
{
    bool is_text = kinds[item->kind].into != NULL;
    const char *text = json_string_value(content);
    if (text != NULL)
        return is_text ? add_text(item, text, json_string_length(content), err)
                       : add_json_text(item, text, json_string_length(content), err);
    if (json_is_object(content) && !is_text)
        return add_json_object(item, content, err);
    return err_set(err, ERR_INVALID, "\"content\" is to be %s",
                   is_text ? "its text" : "its text, or an object");
}

// A category before the name; each part is a plain name.
static int take_name(struct component_item *item, const json_t *name, struct err *err)
{
    const char *text = json_string_value(name), *at = text;
    if (text == NULL || strlen(text) != json_string_length(name) ||
        strlen(text) > COMPONENT_NAME_MAX)
        return err_set(err, ERR_INVALID, "\"name\" is to be a text of at most %d bytes",
                       COMPONENT_NAME_MAX);
    for (;;) {
        size_t len = strcspn(at, "/");
        if (!component_name_ok(at, len))
            return err_set(err, ERR_INVALID, "a name has letters, digits, '.', '_' and '-'");
        if (at[len] == '\0')
            break;
        at += len + 1;
    }
    item->name = text;
    item->file = at;
    return 0;
}

static int check_members(json_t *from, enum component_kind kind, struct err *err)
{
    const char *key;
    json_t *value;
    bool may_have_files = kind == COMPONENT_HOOK || kind == COMPONENT_SETTING;
    json_object_foreach(from, key, value)
    {
        if (strcmp(key, "name") != 0 && strcmp(key, "content") != 0 &&
            (strcmp(key, "files") != 0 || !may_have_files))
            return err_set(err, ERR_INVALID, "unknown member '%.60s': there are name, content%s",
                           key, may_have_files ? ", files" : "");
    }
    return 0;
}

static int add_whole(struct component_item *item, json_t *from, struct err *err)
{
    json_t *content = json_object_get(from, "content");
    if (content == NULL)
        return err_set(err, ERR_INVALID, "it has no \"content\"");
    if (add_content(item, content, err) < 0)
        return -1;
    return add_scripts(item, json_object_get(from, "files"), err);
}

// -- those of the folder

static int find_script(const struct component_item *item, const char *name, const char *ending,
                       const char *path, json_t *files, struct err *err)
{
    auto_buf text;
    buf_init(&text, COMPONENT_TEXT_MAX);
    int r = component_find(item->dir_fd, kinds[item->kind].name, name, ending, &text, err);
    if (r <= 0)
        return r;
    if (json_object_set_new(files, path, json_stringn(buf_str(&text), text.len)) < 0)
        return err_set(err, ERR_INVALID, "%s%s is no text", name, ending);
    return 0;
}

// What lies beside a hook: NAME.py, NAME.sh.
static int find_hook_scripts(const struct component_item *item, json_t *files, struct err *err)
{
    static const char *const endings[] = {".py", ".sh"};
    char path[PATH_LEN_MAX + 8];
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        (void)snprintf(path, sizeof path, ".claude/hooks/%s%s", item->file, endings[i]);
        if (find_script(item, item->name, endings[i], path, files, err) < 0)
            return -1;
    }
    return 0;
}

// What lies beside a setting with a status line: FILE, where its command has .claude/scripts/FILE.
static int find_status_script(const struct component_item *item, const char *text, json_t *files,
                              struct err *err)
{
    static const char folder[] = ".claude/scripts/";
    const char *at = strstr(text, folder);
    char beside[2 * COMPONENT_NAME_MAX + 2], path[PATH_LEN_MAX];
    if (at == NULL || strstr(text, "statusLine") == NULL)
        return 0;
    at += strlen(folder);
    size_t len = strcspn(at, " \t\\\"';|&<>()/");
    if (!component_name_ok(at, len))
        return 0;
    (void)snprintf(beside, sizeof beside, "%.*s%.*s", (int)(item->file - item->name), item->name,
                   (int)len, at);
    (void)snprintf(path, sizeof path, "%s%.*s", folder, (int)len, at);
    return find_script(item, beside, "", path, files, err);
}

static int find_scripts(const struct component_item *item, const char *text, json_t *files,
                        struct err *err)
{
    if (item->kind == COMPONENT_HOOK)
        return find_hook_scripts(item, files, err);
    return item->kind == COMPONENT_SETTING ? find_status_script(item, text, files, err) : 0;
}

static int find_text(const struct component_item *item, struct buf *ret, struct err *err)
{
    const char *folder = kinds[item->kind].name, *ending = kinds[item->kind].ending;
    int r = component_find(item->dir_fd, folder, item->name, ending, ret, err);
    if (r == 0 && item->dir_fd < 0)
        return err_set(
            err, ERR_NOT_FOUND,
            "it is no file or name here, and this server has no folder of components; give "
            "a file, or {\"name\", \"content\"} in a request");
    if (r == 0)
        return err_set(err, ERR_NOT_FOUND, "there is no %s/%s%s in the server's folder", folder,
                       item->name, ending);
    return r < 0 ? -1 : 0;
}

// With its scripts, if there are any.
static int add_found_scripts(const struct component_item *item, const char *text, json_t *whole,
                             struct err *err)
{
    json_t *files = json_object();
    int r = files == NULL ? component_no_memory(err) : find_scripts(item, text, files, err);
    if (r == 0 && json_object_size(files) > 0 && json_object_set(whole, "files", files) < 0)
        r = component_no_memory(err);
    json_decref(files);
    return r;
}

// As if it had been sent.
static json_t *find_whole(const struct component_item *item, struct err *err)
{
    auto_buf text;
    buf_init(&text, COMPONENT_TEXT_MAX);
    if (find_text(item, &text, err) < 0)
        return NULL;
    json_t *whole =
        json_pack("{s:s, s:s%}", "name", item->name, "content", buf_str(&text), text.len);
    if (whole == NULL) {
        (void)err_set(err, ERR_INVALID, "it is no text");
        return NULL;
    }
    if (add_found_scripts(item, buf_str(&text), whole, err) == 0)
        return whole;
    json_decref(whole);
    return NULL;
}

// -- one

static int take_item(struct component_item *item, json_t *from, json_t **ret, struct err *err)
{
    if (json_is_string(from)) {
        *ret = take_name(item, from, err) < 0 ? NULL : find_whole(item, err);
        return *ret == NULL ? -1 : 0;
    }
    if (!json_is_object(from))
        return err_set(err, ERR_INVALID, "it is neither a name nor {\"name\", \"content\"}");
    if (check_members(from, item->kind, err) < 0 ||
        take_name(item, json_object_get(from, "name"), err) < 0)
        return -1;
    *ret = json_incref(from);
    return 0;
}

int component_add(struct component_item *item, json_t *from, json_t *whole, struct err *err)
{
    json_t *taken = NULL;
    if (take_item(item, from, &taken, err) < 0)
        return -1;
    int r = add_whole(item, taken, err);
    if (r == 0 && json_array_append(whole, taken) < 0)
        r = component_no_memory(err);
    json_decref(taken);
    return r;
}
