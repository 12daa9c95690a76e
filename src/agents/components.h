// SPDX-License-Identifier: Apache-2.0
// Components of Claude Code: agents, commands, settings, MCP servers and hooks, put where it looks
// for them below a project's directory, and merged with what is there, as its users' installers do:
//   .claude/agents/NAME.md  .claude/commands/NAME.md  .mcp.json  .claude/settings.local.json
// (and .claude/hooks/FILE for the scripts of hooks). Names are plain file names; a category before
// a slash is dropped.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum {
    COMPONENTS_MAX = 256,
    COMPONENT_TEXT_MAX = 1024 * 1024,
    COMPONENTS_BYTES_MAX = 4 * 1024 * 1024,
    // What is merged is read and written on the loop's thread; it has some hundred bytes usually.
    COMPONENT_JSON_MAX = 64 * 1024,
    COMPONENTS_JSON_MAX = 256 * 1024, // also of a file that is there
};

struct components;
// {"agents": [...], "commands": [...], "mcps": [...], "settings": [...], "hooks": [...]}, each item
// a name, looked up below `dir` (agents/NAME.md, commands/NAME.md, mcps/NAME.json, ...; dir_fd -1:
// there is no such folder), or {"name", "content"}: the text of a file, or, of JSON kinds, an
// object; hooks may have "files": {"FILE": "text"}. ERR_INVALID and ERR_NOT_FOUND name the item.
int components_parse(const json_t *from, int dir_fd, struct components **ret, struct err *err);
// Counted: a task keeps them while it works. components_free gives one reference back.
struct components *components_ref(const struct components *components);
void components_free(struct components *components); // takes NULL
// All of it as JSON for components_parse, nothing by name alone: what a new daemon goes on with.
// free(3) it.
char *components_text(const struct components *components);

// Where, below the project, its settings are alone: a file that a repository has in its history is
// not trusted to allow anything, also after a merge, so an agent is told of this one. NULL: none.
const char *components_settings(const struct components *components);

// Which files have to be read before they are merged, below the project: NULL past the last.
const char *components_reads(const struct components *components, unsigned n);
// What is to be written. `current` has, for each of components_reads, the file's text or NULL. What
// is there and cannot be read as JSON, or is too long, is ERR_CONFLICT: it is not replaced.
struct component_file {
    char *path; // below the project
    char *text;
    size_t len;
    bool executable;
};
int components_files(const struct components *components, const char *const *current,
                     struct component_file **ret, size_t *ret_n, struct err *err);
void component_files_free(struct component_file *files, size_t n);
