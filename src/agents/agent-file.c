// SPDX-License-Identifier: Apache-2.0
// A line begins with its word; what follows is that word's own. The text is copied once and taken
// apart in place.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agents/agent-file-internal.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/words.h"

enum { IMAGE_NAME_MAX = 64, VARIABLE_NAME_MAX = 128 };

static const char lower[] = "abcdefghijklmnopqrstuvwxyz0123456789";
static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

struct place { // where the reading is
    struct agent_file *file;
    unsigned line;
};

static int said_before(struct err *err)
{
    return err_set(err, ERR_INVALID, "it was said before");
}

// -- what it is and what it needs

static int take_about(struct place *at, char *rest, struct err *err)
{
    if (at->file->about != NULL)
        return said_before(err);
    at->file->about = rest;
    return 0;
}

static int take_program(struct place *at, char *rest, struct err *err)
{
    if (at->file->program != NULL)
        return said_before(err);
    if (strpbrk(rest, " \t") != NULL || rest[0] == '-')
        return err_set(err, ERR_INVALID, "'%.60s' is not one program, such as claude", rest);
    if (rest[0] != '/' && strchr(rest, '/') != NULL)
        return err_set(err, ERR_INVALID, "'%.60s': a name alone, or a path from /", rest);
    at->file->program = rest;
    return 0;
}

static int take_image(struct place *at, char *rest, struct err *err)
{
    bool fine = strspn(rest, lower) > 0 && strlen(rest) <= IMAGE_NAME_MAX;
    if (at->file->image != NULL)
        return said_before(err);
    for (const char *p = rest; fine && *p != '\0'; p++)
        fine = strchr(letters, *p) != NULL || strchr("._-", *p) != NULL;
    if (!fine)
        return err_set(err, ERR_INVALID, "'%.60s' is no name of an image", rest);
    at->file->image = rest;
    return 0;
}

static int take_memory(struct place *at, char *rest, struct err *err)
{
    uint64_t bytes;
    if (at->file->memory != 0)
        return said_before(err);
    if (parse_size(rest, &bytes, err) < 0)
        return -1;
    if (bytes == 0)
        return err_set(err, ERR_INVALID, "nothing runs in no memory");
    at->file->memory = bytes;
    return 0;
}

static int take_components(struct place *at, char *rest, struct err *err)
{
    if (at->file->has_components)
        return said_before(err);
    if (strcmp(rest, "claude") != 0)
        return err_set(err, ERR_INVALID, "'%.40s' are not known: only those of claude", rest);
    at->file->has_components = true;
    return 0;
}

static int take_needs(struct place *at, char *rest, struct err *err)
{
    if (at->file->needs_model)
        return said_before(err);
    if (strcmp(rest, "model") != 0)
        return err_set(err, ERR_INVALID, "'%.40s' is nothing to be needed: only model", rest);
    at->file->needs_model = true;
    return 0;
}

// -- how it is started

const struct agent_allow *agent_file_allow(const struct agent_file *file, enum agent_value value)
{
    for (unsigned i = 0; i < file->n_allows; i++) {
        if (file->allows[i].value == value)
            return &file->allows[i];
    }
    return NULL;
}

// The words stay where they are, moved together.
static char *join_words(char *rest)
{
    char *first = words_next(&rest), *end = first != NULL ? first + strlen(first) : NULL;
    for (char *word; first != NULL && (word = words_next(&rest)) != NULL;) {
        size_t len = strlen(word);
        *end++ = ' ';
        memmove(end, word, len + 1);
        end += len;
    }
    return first;
}

static int take_allow(struct place *at, char *rest, struct err *err)
{
    const char *name = words_next(&rest);
    char *words = join_words(rest);
    enum agent_value value = agent_value_find(name, strlen(name));
    if (value == VALUE_MAX || value == VALUE_TASK || value == VALUE_SYSTEM_PROMPT)
        return err_set(err, ERR_INVALID,
                       "'%.40s' is none of permission_mode, model, max_turns, session", name);
    if (words == NULL)
        return err_set(err, ERR_INVALID, "'%s' needs at least one word that is allowed", name);
    if (agent_file_allow(at->file, value) != NULL || at->file->n_allows == AGENT_ALLOWS_MAX)
        return said_before(err);
    at->file->allows[at->file->n_allows++] = (struct agent_allow){value, words};
    return 0;
}

static int find_holes(struct place *at, struct agent_word *word, struct err *err)
{
    if (agent_holes(word->text, &word->holes, err) < 0)
        return -1;
    at->file->takes |= word->holes;
    return 0;
}

static int take_env(struct place *at, char *rest, struct err *err)
{
    struct agent_file *file = at->file;
    char *name = words_next(&rest);
    bool fine = (name[0] < '0' || name[0] > '9') && strlen(name) <= VARIABLE_NAME_MAX;
    for (const char *p = name; fine && *p != '\0'; p++)
        fine = strchr(letters, *p) != NULL || *p == '_';
    if (!fine)
        return err_set(err, ERR_INVALID, "'%.60s' is no name of a variable", name);
    for (unsigned i = 0; i < file->n_env; i++) {
        if (strcmp(file->env[i].name, name) == 0)
            return said_before(err);
    }
    if (file->n_env == AGENT_ENV_MAX)
        return err_set(err, ERR_INVALID, "at most %d variables", AGENT_ENV_MAX);
    struct agent_variable *variable = &file->env[file->n_env++];
    *variable = (struct agent_variable){
        name, {rest + strspn(rest, " \t"), at->line, 0, false}
    };
    return find_holes(at, &variable->value, err);
}

static int add_arg(struct place *at, const char *text, bool plain, struct err *err)
{
    if (at->file->n_args == AGENT_ARGS_MAX)
        return err_set(err, ERR_INVALID, "at most %d arguments", AGENT_ARGS_MAX);
    struct agent_word *word = &at->file->args[at->file->n_args++];
    *word = (struct agent_word){text, at->line, 0, plain};
    return plain ? 0 : find_holes(at, word, err);
}

static int take_arg(struct place *at, char *rest, struct err *err)
{
    for (const char *word; (word = words_next(&rest)) != NULL;) {
        if (add_arg(at, word, /*plain=*/false, err) < 0)
            return -1;
    }
    return 0;
}

static int take_word(struct place *at, char *rest, struct err *err)
{
    return add_arg(at, rest, /*plain=*/true, err);
}

static int take_input(struct place *at, char *rest, struct err *err)
{
    if (at->file->n_inputs == AGENT_INPUTS_MAX)
        return err_set(err, ERR_INVALID, "at most %d lines", AGENT_INPUTS_MAX);
    struct agent_word *word = &at->file->inputs[at->file->n_inputs++];
    *word = (struct agent_word){rest, at->line, 0, false};
    return find_holes(at, word, err);
}

// -- how its output is read

static int take_output(struct place *at, char *rest, struct err *err)
{
    if (at->file->has_output)
        return said_before(err);
    if (strcmp(rest, "lines") != 0 && strcmp(rest, "text") != 0)
        return err_set(err, ERR_INVALID, "'%.40s' is neither lines nor text", rest);
    at->file->has_output = true;
    at->file->output_is_lines = rest[0] == 'l';
    return 0;
}

static int take_rule(struct place *at, enum agent_rule_kind kind, char *rest, struct err *err)
{
    if (at->file->n_rules == AGENT_RULES_MAX)
        return err_set(err, ERR_INVALID, "at most %d rules", AGENT_RULES_MAX);
    return agent_rule_parse(kind, rest, &at->file->rules[at->file->n_rules++], err);
}

static int take_on(struct place *at, char *rest, struct err *err)
{
    return take_rule(at, RULE_ON, rest, err);
}

static int take_log(struct place *at, char *rest, struct err *err)
{
    return take_rule(at, RULE_LOG, rest, err);
}

static int take_warn(struct place *at, char *rest, struct err *err)
{
    return take_rule(at, RULE_WARN, rest, err);
}

static const struct {
    const char *word;
    int (*take)(struct place *at, char *rest, struct err *err);
} words[] = {
    {"about",      take_about     },
    {"program",    take_program   },
    {"image",      take_image     },
    {"memory",     take_memory    },
    {"needs",      take_needs     },
    {"components", take_components},
    {"allow",      take_allow     },
    {"env",        take_env       },
    {"arg",        take_arg       },
    {"word",       take_word      },
    {"input",      take_input     },
    {"output",     take_output    },
    {"on",         take_on        },
    {"log",        take_log       },
    {"warn",       take_warn      },
};

// -- lines

static int take_line(struct place *at, char *line, struct err *err)
{
    char *rest = words_cut(line);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(line, words[i].word) != 0)
            continue;
        if (rest[0] == '\0')
            return err_set(err, ERR_INVALID, "'%s' needs something after it", line);
        return words[i].take(at, rest, err) < 0 ? err_wrap(err, "%s", words[i].word) : 0;
    }
    return err_set(err, ERR_INVALID, "'%.40s' is no word that a line may begin with", line);
}

static int check_name(const char *name, struct err *err)
{
    size_t len = strlen(name);
    bool fine = len > 0 && len <= AGENT_NAME_MAX && name[0] != '-';
    for (size_t i = 0; fine && i < len; i++)
        fine = strchr(lower, name[i]) != NULL || name[i] == '-';
    return fine ? 0
                : err_set(err, ERR_INVALID,
                          "'%.60s' is no name of an agent: a-z, 0-9 and -, at most %d", name,
                          AGENT_NAME_MAX);
}

static int check_whole(const struct agent_file *file, struct err *err)
{
    if (file->program == NULL)
        return err_set(err, ERR_INVALID, "there is no line 'program'");
    if ((file->takes & 1u << VALUE_TASK) == 0)
        return err_set(err, ERR_INVALID, "nowhere is {task}: in a line 'arg' or 'input'");
    for (unsigned i = 0; i < file->n_allows; i++) {
        if ((file->takes & 1u << file->allows[i].value) == 0)
            return err_set(err, ERR_INVALID, "what is allowed by '%.40s' is used nowhere",
                           file->allows[i].words);
    }
    if (!file->has_output)
        return err_set(err, ERR_INVALID, "there is no line 'output lines' or 'output text'");
    if (file->n_rules > 0 && !file->output_is_lines)
        return err_set(err, ERR_INVALID, "'on', 'log' and 'warn' are for 'output lines'");
    return 0;
}

static int parse_lines(struct agent_file *file, struct err *err)
{
    struct place at = {file, 0};
    char *rest = file->text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        at.line++;
        int r = words_line(line, err);
        if (r > 0)
            r = take_line(&at, line, err);
        if (r < 0)
            return err_wrap(err, "line %u", at.line);
    }
    return check_whole(file, err);
}

int agent_file_parse(const char *name, const char *text, size_t len, struct agent_file **ret,
                     struct err *err)
{
    if (check_name(name, err) < 0 || words_check(text, len, AGENT_TEXT_MAX, err) < 0)
        return -1;
    struct agent_file *file = calloc(1, sizeof *file);
    if (file == NULL || (file->text = strndup(text, len)) == NULL) {
        free(file);
        return err_sys(err, ENOMEM, "keep what is known of an agent");
    }
    memcpy(file->name, name, strlen(name) + 1);
    if (parse_lines(file, err) < 0) {
        agent_file_free(file);
        return -1;
    }
    *ret = file;
    return 0;
}

void agent_file_free(struct agent_file *file)
{
    if (file != NULL)
        free(file->text);
    free(file);
}

// -- what it says

const char *agent_file_name(const struct agent_file *file)
{
    return file->name;
}

const char *agent_file_about(const struct agent_file *file)
{
    return file->about != NULL ? file->about : file->name;
}

const char *agent_file_program(const struct agent_file *file)
{
    return file->program;
}

const char *agent_file_image(const struct agent_file *file)
{
    return file->image;
}

uint64_t agent_file_memory(const struct agent_file *file)
{
    return file->memory;
}

bool agent_file_has_components(const struct agent_file *file)
{
    return file->has_components;
}

bool agent_file_needs_model(const struct agent_file *file)
{
    return file->needs_model;
}
