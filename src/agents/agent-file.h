// SPDX-License-Identifier: Apache-2.0
// What there is to know about a command-line agent: how it is started, what it needs, and how its
// output is read. A text of lines (docs/AGENTS.md, "An agent of one's own"). Some are part of the
// program (agents/); those in the directory that the setting `agents` names are beside them, and
// before them. The struct owns its texts.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    AGENT_TEXT_MAX = 64 * 1024, // of a file
    AGENT_NAME_MAX = 40,        // [a-z0-9][a-z0-9-]*
    AGENT_ARGS_MAX = 64,
    AGENT_ENV_MAX = 64,
    AGENT_INPUTS_MAX = 16,
    AGENT_RULES_MAX = 64,
    AGENT_WORD_MAX = 128 * 1024 - 1, // bytes of an argument: the kernel takes no more (execve(2))
};

struct agent_file;
int agent_file_parse(const char *name, const char *text, size_t len, struct agent_file **ret,
                     struct err *err);         // ERR_INVALID names the line
void agent_file_free(struct agent_file *file); // takes NULL

// All that are known. Read once, when the daemon starts; `dir` may be NULL.
struct agent_files;
int agent_files_open(const char *dir, struct agent_files **ret, struct err *err);
void agent_files_free(struct agent_files *files); // takes NULL
const struct agent_file *agent_files_find(const struct agent_files *files, const char *name);
const struct agent_file *agent_files_at(const struct agent_files *files, unsigned n); // NULL: past
const char *agent_files_names(const struct agent_files *files); // "claude, opencode", for messages

const char *agent_file_name(const struct agent_file *file);
const char *agent_file_about(const struct agent_file *file);
const char *agent_file_program(const struct agent_file *file); // that must be in the box
const char *agent_file_image(const struct agent_file *file);   // that has it; NULL: any
uint64_t agent_file_memory(const struct agent_file *file);     // bytes it wants; 0: no word
bool agent_file_has_components(const struct agent_file *file); // Claude Code's kinds
bool agent_file_needs_model(const struct agent_file *file);    // there has to be a key for one

// What is filled in where a line says {name}: task, system_prompt, permission_mode, model,
// max_turns, session, settings (the path of a file of them). NULL: not given; then it is the first
// of those that the file allows, and without such a line whatever has the {name} in it is left out.
struct agent_values {
    const char *task, *system_prompt, *permission_mode, *model, *max_turns, *session;
    const char *settings;
};
// Whether the file has a use for the value of this name.
bool agent_file_takes(const struct agent_file *file, const char *name);
// What somebody asks for: each that is given must be one that the file has a use for, and allows
// (`allow permission_mode acceptEdits plan`). ERR_INVALID says what would do. A value that is
// not asked for, such as the server's model, needs no check: who has no use for it leaves it out.
int agent_file_check(const struct agent_file *file, const struct agent_values *values,
                     struct err *err);
// argv and the agent's own variables ("NAME=value"), each ends with NULL; and what it reads.
struct agent_start {
    char **argv, **env;
    char *input; // NULL: nothing
    size_t input_len;
};
// ERR_INVALID: without a task, or what does not fit onto a command line.
int agent_file_start(const struct agent_file *file, const struct agent_values *values,
                     struct agent_start *ret, struct err *err);
void agent_start_done(struct agent_start *start);
