// SPDX-License-Identifier: Apache-2.0
// What a file about an agent says, taken apart. All texts point into `text`, the file's own copy;
// nothing changes once it is read.
#pragma once

#include "agents/agent-file.h"
#include "base/json-in.h"

enum {
    AGENT_ALLOWS_MAX = 8, // lines
    AGENT_CONDITIONS_MAX = 8,
    AGENT_SETS_MAX = 12,
};

// --- {name}: agent-start.c

enum agent_value {
    VALUE_TASK,
    VALUE_SYSTEM_PROMPT,
    VALUE_PERMISSION_MODE,
    VALUE_MODEL,
    VALUE_MAX_TURNS,
    VALUE_SESSION,
    VALUE_SETTINGS,
    VALUE_MAX,
};
enum agent_value agent_value_find(const char *name, size_t len); // VALUE_MAX: there is none
// Those that stand in a text, as bits. A {word} that is none of them is ERR_INVALID; any other
// brace is itself.
int agent_holes(const char *text, unsigned *ret_bits, struct err *err);

struct agent_word { // a part of the command line, or a line of what the agent reads
    const char *text;
    unsigned line;  // of the file: what stands on one line is left out together
    unsigned holes; // bits, 1u << enum agent_value
    bool plain;     // as it stands, braces too
};

struct agent_variable {
    const char *name;
    struct agent_word value;
};

struct agent_allow {
    enum agent_value value;
    const char *words; // between single blanks, the first one is what it is if nothing was said
};

// --- rules: agent-rule.c

enum agent_rule_kind { RULE_ON, RULE_LOG, RULE_WARN, RULE_KIND_MAX };

enum agent_what {
    WHAT_END,
    WHAT_FAILED,
    WHAT_TURN,
    WHAT_TEXT,
    WHAT_ERROR,
    WHAT_CODE,
    WHAT_MODEL,
    WHAT_SESSION,
    WHAT_TURNS,
    WHAT_COST,
    WHAT_COST_MORE,
    WHAT_MAX,
};

struct agent_set {
    enum agent_what what;
    const char *from; // "/a/b|/c", or a word; NULL: nothing
};

struct agent_condition {
    const char *pointer, *value;
};

struct agent_rule {
    enum agent_rule_kind kind;
    const char *each; // an array, whose items the rest is about; NULL: the line itself
    struct agent_condition conditions[AGENT_CONDITIONS_MAX];
    unsigned n_conditions, n_outer; // those before `each` are about the line
    struct agent_set sets[AGENT_SETS_MAX];
    unsigned n_sets;
    const char *text; // of RULE_LOG and RULE_WARN, with {/pointer}
};

// Takes `rest` apart, which is what follows on its line.
int agent_rule_parse(enum agent_rule_kind kind, char *rest, struct agent_rule *ret,
                     struct err *err);
// The first of "/a/b|/c" that is there and not null; NULL: none.
const struct json_node *agent_pick(const struct json_node *node, const char *from, size_t len);
bool agent_condition_holds(const struct agent_condition *c, const struct json_node *node);

// --- all of it: agent-file.c

struct agent_file {
    char *text;
    char name[AGENT_NAME_MAX + 1];
    const char *about, *program, *image;
    uint64_t memory;
    bool has_components, needs_model, has_output, output_is_lines;
    unsigned takes; // bits: values that stand somewhere
    struct agent_word args[AGENT_ARGS_MAX];
    unsigned n_args;
    struct agent_variable env[AGENT_ENV_MAX];
    unsigned n_env;
    struct agent_word inputs[AGENT_INPUTS_MAX];
    unsigned n_inputs;
    struct agent_allow allows[AGENT_ALLOWS_MAX];
    unsigned n_allows;
    struct agent_rule rules[AGENT_RULES_MAX];
    unsigned n_rules;
};
const struct agent_allow *agent_file_allow(const struct agent_file *file, enum agent_value value);

// Those that are part of the program: agent-known.c
struct agent_known {
    const char *name, *text;
    size_t len;
};
const struct agent_known *agent_known(unsigned index); // NULL: past the last
