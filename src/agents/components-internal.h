// SPDX-License-Identifier: Apache-2.0
// What components.c (all of them), components-item.c (one), components-find.c (the texts of names)
// and components-merge.c (JSON into JSON) share.
#pragma once

#include <stdbool.h>

#include "agents/components.h"
#include "base/buf.h"

enum { COMPONENT_NAME_MAX = 128 };

enum component_kind {
    COMPONENT_AGENT,
    COMPONENT_COMMAND,
    COMPONENT_MCP,
    COMPONENT_SETTING,
    COMPONENT_HOOK,
    COMPONENT_KIND_MAX,
};

struct components {
    unsigned refs;
    json_t *whole; // as it was asked for, but with the texts of those that were named
    struct component_file *files; // that are written as they are
    size_t n_files;
    json_t *mcp, *settings; // that are merged; NULL: nothing of it
    const char *reads[3];   // ends with NULL
    size_t bytes, json_bytes;
};

// One of them, while it is read.
struct component_item {
    enum component_kind kind;
    const char *name; // with its category; NULL: not read yet
    const char *file; // without
    int dir_fd;
    struct components *components;
};
// A name, or {"name", "content"}: what it brings is added to its components, and to the list
// `whole` in the second form. item->name is lent, by `from`.
int component_add(struct component_item *item, json_t *from, json_t *whole, struct err *err);
const char *component_list(enum component_kind kind); // "agents": of the list, and of the folder
int component_no_memory(struct err *err);
char *component_copy(const char *text, size_t len);
json_t *component_json(const char *text, size_t len, size_t flags, struct err *err); // an object

// Whether it may be a file's name anywhere: letters, digits, '.', '_', '-', and not one of the last
// three in front.
bool component_name_ok(const char *name, size_t len);

// The text of DIR/`folder`/`name``ending` (a name may have slashes), in a buffer whose maximum is
// what there is room for. 1, 0 when there is no such file, -1 with err.
int component_find(int dir_fd, const char *folder, const char *name, const char *ending,
                   struct buf *ret, struct err *err);

// Merge a whole component, or all of them, into `into`, where what is there gives way: what comes
// is what somebody asked for. Nothing of `from` is shared. -1: no memory.
int component_merge_servers(json_t *into, json_t *from);
int component_merge_settings(json_t *into, json_t *from);
// Nobody is there to say yes: that somebody asked for a server says that it may be started, and its
// tools used.
int component_enable_servers(json_t *settings, json_t *servers);
// A repository's own settings may switch off all hooks, but not if these say otherwise.
int component_enable_hooks(json_t *settings);
