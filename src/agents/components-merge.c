// SPDX-License-Identifier: Apache-2.0
// JSON into JSON, as the installer of npm's claude-code-templates has it, but for two things. Where
// it would ask, what comes wins: it is what somebody asked for, and what is there is a repository's
// that nobody need trust. And hooks of a setting are added to those there are, as those of a hook.
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agents/components-internal.h"

typedef int (*merge_fn)(json_t *into, const char *key, json_t *value);

static int set_copy(json_t *into, const char *key, json_t *value)
{
    return json_object_set_new(into, key, json_deep_copy(value));
}

// Each member by itself.
static int each_member(json_t *into, json_t *from, merge_fn merge)
{
    const char *key;
    json_t *value;
    json_object_foreach(from, key, value)
    {
        if (merge(into, key, value) < 0)
            return -1;
    }
    return 0;
}

// Two objects become one; what is no object gives way.
static int member_by_member(json_t *into, const char *key, json_t *value, merge_fn merge)
{
    json_t *there = json_object_get(into, key);
    if (!json_is_object(value))
        return set_copy(into, key, value);
    if (!json_is_object(there)) {
        there = json_object();
        if (json_object_set_new(into, key, there) < 0)
            return -1;
    }
    return each_member(there, value, merge);
}

// Whether it is a new one. Lists may be long, so what was seen is looked up by its text.
static int is_new(json_t *seen, const json_t *item)
{
    char *text = json_dumps(item, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
    int r = text == NULL ? -1 : json_object_get(seen, text) == NULL;
    if (r == 1 && json_object_set_new(seen, text, json_true()) < 0)
        r = -1;
    free(text);
    return r;
}

static int add_new_items(json_t *list, json_t *seen, const json_t *from)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        if (is_new(seen, item) < 0)
            return -1;
    }
    json_array_foreach(from, i, item)
    {
        int r = is_new(seen, item);
        if (r < 0 || (r == 1 && json_array_append_new(list, json_deep_copy(item)) < 0))
            return -1;
    }
    return 0;
}

// The items of both; none of those that come is there twice.
static int unite(json_t *into, const char *key, json_t *value)
{
    json_t *there = json_object_get(into, key);
    if (!json_is_array(value))
        return set_copy(into, key, value);
    if (!json_is_array(there)) {
        there = json_array();
        if (json_object_set_new(into, key, there) < 0)
            return -1;
    }
    json_t *seen = json_object();
    int r = seen != NULL ? add_new_items(there, seen, value) : -1;
    json_decref(seen);
    return r;
}

// -- .mcp.json

// Its description is for people who choose, and no member that Claude Code knows.
static int add_server(json_t *into, const char *key, json_t *value)
{
    json_t *copy = json_deep_copy(value);
    if (json_is_object(copy))
        (void)json_object_del(copy, "description");
    return json_object_set_new(into, key, copy);
}

static int add_mcp_member(json_t *into, const char *key, json_t *value)
{
    if (strcmp(key, "mcpServers") == 0)
        return member_by_member(into, key, value, add_server);
    return set_copy(into, key, value);
}

int component_merge_servers(json_t *into, json_t *from)
{
    return each_member(into, from, add_mcp_member);
}

// -- settings.local.json

static int add_permission(json_t *into, const char *key, json_t *value)
{
    bool is_list = strcmp(key, "allow") == 0 || strcmp(key, "deny") == 0 || strcmp(key, "ask") == 0;
    return is_list ? unite(into, key, value) : set_copy(into, key, value);
}

// A plain command was a whole event's hooks once.
static int add_hooks(json_t *into, const char *key, json_t *value)
{
    if (!json_is_string(value))
        return unite(into, key, value);
    json_t *list = json_pack("[{s:s, s:[{s:s, s:O}]}]", "matcher", "*", "hooks", "type", "command",
                             "command", value);
    int r = list != NULL ? unite(into, key, list) : -1;
    json_decref(list);
    return r;
}

static int add_setting(json_t *into, const char *key, json_t *value)
{
    static const struct {
        const char *key;
        merge_fn each;
    } objects[] = {
        {"permissions", add_permission},
        {"env",         set_copy      },
        {"hooks",       add_hooks     }
    };
    if (strcmp(key, "description") == 0 || strcmp(key, "files") == 0)
        return 0; // of the component, not of the settings
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
        if (strcmp(key, objects[i].key) == 0)
            return member_by_member(into, key, value, objects[i].each);
    }
    if (strcmp(key, "enabledMcpjsonServers") == 0)
        return unite(into, key, value);
    return set_copy(into, key, value);
}

int component_merge_settings(json_t *into, json_t *from)
{
    return each_member(into, from, add_setting);
}

// As Claude Code spells a server in the names of its tools: what is no letter, digit, '_' or '-' is
// '_', once for each unit of UTF-16.
static json_t *rule_of(const char *server)
{
    auto_buf rule;
    buf_init(&rule, 2 * strlen(server) + 16);
    (void)buf_append_str(&rule, "mcp__");
    for (const char *at = server; *at != '\0'; at++) {
        unsigned char c = (unsigned char)*at;
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || c == '_' || c == '-';
        if (is_plain)
            (void)buf_append_char(&rule, *at);
        else if (c < 0x80 || c >= 0xc0)
            (void)buf_append_str(&rule, c >= 0xf0 ? "__" : "_");
    }
    return rule.failed == 0 ? json_string(buf_str(&rule)) : NULL;
}

int component_enable_servers(json_t *settings, json_t *servers)
{
    const char *name;
    json_t *server, *names = json_array(), *rules = json_array();
    int r = names == NULL || rules == NULL ? -1 : 0;
    json_object_foreach(servers, name, server)
    {
        if (r == 0)
            r = json_array_append_new(names, json_string(name));
        if (r == 0)
            r = json_array_append_new(rules, rule_of(name));
    }
    json_t *from = r == 0 ? json_pack("{s:O, s:{s:O}}", "enabledMcpjsonServers", names,
                                      "permissions", "allow", rules)
                          : NULL;
    r = from != NULL ? component_merge_settings(settings, from) : -1;
    json_decref(from);
    json_decref(names);
    json_decref(rules);
    return r;
}

int component_enable_hooks(json_t *settings)
{
    if (json_object_size(json_object_get(settings, "hooks")) == 0 ||
        json_object_get(settings, "disableAllHooks") != NULL)
        return 0;
    return json_object_set_new(settings, "disableAllHooks", json_false());
}
