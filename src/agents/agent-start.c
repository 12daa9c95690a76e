// SPDX-License-Identifier: Apache-2.0
// {name} and what is put there. A value is never taken apart: it stays within its argument.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/agent-file-internal.h"
#include "base/mem.h"

enum { INPUT_MAX = 4 * 1024 * 1024 };

static const char *const names[VALUE_MAX] = {
    [VALUE_TASK] = "task",
    [VALUE_SYSTEM_PROMPT] = "system_prompt",
    [VALUE_PERMISSION_MODE] = "permission_mode",
    [VALUE_MODEL] = "model",
    [VALUE_MAX_TURNS] = "max_turns",
    [VALUE_SESSION] = "session",
    [VALUE_SETTINGS] = "settings",
};

enum agent_value agent_value_find(const char *name, size_t len)
{
    enum agent_value value = VALUE_TASK;
    while (value < VALUE_MAX &&
           (strlen(names[value]) != len || memcmp(names[value], name, len) != 0))
        value++;
    return value;
}

// The {word} that begins here: its length without the braces; 0: none does.
static size_t hole_at(const char *p)
{
    if (p[0] != '{')
        return 0;
    size_t len = strspn(p + 1, "abcdefghijklmnopqrstuvwxyz_");
    return len > 0 && p[1 + len] == '}' ? len : 0;
}

int agent_holes(const char *text, unsigned *ret_bits, struct err *err)
{
    unsigned bits = 0;
    for (const char *p = text; (p = strchr(p, '{')) != NULL; p++) {
        size_t len = hole_at(p);
        enum agent_value value = agent_value_find(p + 1, len);
        if (len > 0 && value == VALUE_MAX)
            return err_set(err, ERR_INVALID,
                           "'{%.*s}' is none of {task}, {system_prompt}, {permission_mode}, "
                           "{model}, {max_turns}, {session}, {settings}",
                           len < 40 ? (int)len : 40, p + 1);
        bits |= len > 0 ? 1u << value : 0;
    }
    *ret_bits = bits;
    return 0;
}

// -- what somebody asks for

static const char *value_of(const struct agent_values *values, enum agent_value value)
{
    const char *const all[VALUE_MAX] = {
        [VALUE_TASK] = values->task,
        [VALUE_SYSTEM_PROMPT] = values->system_prompt,
        [VALUE_PERMISSION_MODE] = values->permission_mode,
        [VALUE_MODEL] = values->model,
        [VALUE_MAX_TURNS] = values->max_turns,
        [VALUE_SESSION] = values->session,
        [VALUE_SETTINGS] = values->settings,
    };
    return all[value];
}

bool agent_file_takes(const struct agent_file *file, const char *name)
{
    enum agent_value value = agent_value_find(name, strlen(name));
    return value < VALUE_MAX && (file->takes & 1u << value) != 0;
}

static bool is_among(const char *words, const char *word)
{
    size_t len = strlen(word);
    for (const char *p = words; *p != '\0';) {
        size_t n = strcspn(p, " ");
        if (n == len && memcmp(p, word, n) == 0)
            return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

// A word that could be taken for an option, or for two, is none of these values; nor is one with
// quotes, which may stand among others in a file.
static int check_word(enum agent_value value, const char *word, struct err *err)
{
    bool fine = word[0] != '\0' && word[0] != '-' && strlen(word) <= 200;
    for (const char *p = word; fine && *p != '\0'; p++)
        fine = *p > ' ' && *p < 0x7f && strchr("\"'`\\$", *p) == NULL;
    return fine
               ? 0
               : err_set(err, ERR_INVALID, "%s: '%.60s' is not one plain word", names[value], word);
}

static int check_value(const struct agent_file *file, enum agent_value value, const char *given,
                       struct err *err)
{
    const struct agent_allow *allow = agent_file_allow(file, value);
    if ((file->takes & 1u << value) == 0)
        return err_set(err, ERR_INVALID, "%s: the agent '%s' has none", names[value], file->name);
    if (value == VALUE_TASK || value == VALUE_SYSTEM_PROMPT)
        return 0;
    if (allow != NULL && !is_among(allow->words, given))
        return err_set(err, ERR_INVALID, "%s: '%.40s' is none of: %.120s", names[value], given,
                       allow->words);
    return check_word(value, given, err);
}

int agent_file_check(const struct agent_file *file, const struct agent_values *values,
                     struct err *err)
{
    for (enum agent_value v = VALUE_TASK; v < VALUE_MAX; v++) {
        const char *given = value_of(values, v);
        if (given != NULL && check_value(file, v, given, err) < 0)
            return -1;
    }
    return 0;
}

// -- filling in

struct filling {
    const struct agent_file *file;
    const char *value[VALUE_MAX]; // NULL: not there
    unsigned there;               // bits
    char *first[VALUE_MAX];       // those that the file chooses; owned
};

static void filling_done(struct filling *f)
{
    for (enum agent_value v = VALUE_TASK; v < VALUE_MAX; v++)
        free(f->first[v]);
}

static int filling_init(struct filling *f, const struct agent_file *file,
                        const struct agent_values *values, struct err *err)
{
    *f = (struct filling){.file = file};
    if (values->task == NULL || values->task[0] == '\0')
        return err_set(err, ERR_INVALID, "task: there is nothing to do");
    for (enum agent_value v = VALUE_TASK; v < VALUE_MAX; v++) {
        const struct agent_allow *allow = agent_file_allow(file, v);
        f->value[v] = value_of(values, v);
        if (f->value[v] == NULL && allow != NULL) {
            f->first[v] = strndup(allow->words, strcspn(allow->words, " "));
            f->value[v] = f->first[v];
        }
        f->there |= f->value[v] != NULL ? 1u << v : 0;
    }
    return 0;
}

static void fill(const struct filling *f, const struct agent_word *word, struct buf *ret)
{
    for (const char *p = word->text; *p != '\0';) {
        size_t plain = 1 + strcspn(p + 1, "{");
        size_t len = word->plain ? 0 : hole_at(p);
        if (len > 0)
            (void)buf_append_str(ret, f->value[agent_value_find(p + 1, len)]);
        else
            (void)buf_append(ret, p, plain);
        p += len > 0 ? len + 2 : plain;
    }
}

// Whether anything on its line has no value.
static bool is_left_out(const struct filling *f, const struct agent_word *word)
{
    unsigned holes = word->holes;
    for (unsigned i = 0; i < f->file->n_args; i++) {
        if (f->file->args[i].line == word->line)
            holes |= f->file->args[i].holes;
    }
    return (holes & ~f->there) != 0;
}

static char *filled(const struct filling *f, const char *before, const struct agent_word *word,
                    struct err *err)
{
    auto_buf text;
    buf_init(&text, AGENT_WORD_MAX);
    (void)buf_append_str(&text, before);
    fill(f, word, &text);
    char *copy = text.failed == 0 ? strdup(buf_str(&text)) : NULL;
    if (copy == NULL)
        (void)err_set(err, ERR_INVALID,
                      "'%.40s' of the agent '%s': a command line takes %d bytes at most",
                      word->text, f->file->name, AGENT_WORD_MAX);
    return copy;
}

static int fill_args(const struct filling *f, struct agent_start *start, struct err *err)
{
    unsigned n = 0;
    start->argv = calloc(f->file->n_args + 2, sizeof *start->argv);
    if (start->argv == NULL || (start->argv[n++] = strdup(f->file->program)) == NULL)
        return err_sys(err, ENOMEM, "start an agent");
    for (unsigned i = 0; i < f->file->n_args; i++) {
        const struct agent_word *word = &f->file->args[i];
        if (is_left_out(f, word))
            continue;
        if ((start->argv[n++] = filled(f, "", word, err)) == NULL)
            return -1;
    }
    return 0;
}

static int fill_env(const struct filling *f, struct agent_start *start, struct err *err)
{
    unsigned n = 0;
    start->env = calloc(f->file->n_env + 1, sizeof *start->env);
    if (start->env == NULL)
        return err_sys(err, ENOMEM, "start an agent");
    for (unsigned i = 0; i < f->file->n_env; i++) {
        const struct agent_variable *variable = &f->file->env[i];
        char before[512];
        if ((variable->value.holes & ~f->there) != 0)
            continue;
        (void)snprintf(before, sizeof before, "%s=", variable->name);
        if ((start->env[n++] = filled(f, before, &variable->value, err)) == NULL)
            return -1;
    }
    return 0;
}

static int fill_input(const struct filling *f, struct agent_start *start, struct err *err)
{
    auto_buf text;
    buf_init(&text, INPUT_MAX);
    for (unsigned i = 0; i < f->file->n_inputs; i++) {
        const struct agent_word *line = &f->file->inputs[i];
        if ((line->holes & ~f->there) != 0)
            continue;
        fill(f, line, &text);
        (void)buf_append_char(&text, '\n');
    }
    if (text.failed != 0)
        return err_set(err, ERR_INVALID, "the agent '%s' would have to read more than %d MiB",
                       f->file->name, INPUT_MAX >> 20);
    start->input = text.data;
    start->input_len = text.len;
    text.data = NULL;
    return 0;
}

int agent_file_start(const struct agent_file *file, const struct agent_values *values,
                     struct agent_start *ret, struct err *err)
{
    struct filling f;
    struct agent_start start = {0};
    int r = filling_init(&f, file, values, err);
    if (r == 0 && (r = fill_args(&f, &start, err)) == 0 && (r = fill_env(&f, &start, err)) == 0)
        r = fill_input(&f, &start, err);
    filling_done(&f);
    if (r < 0) {
        agent_start_done(&start);
        return -1;
    }
    *ret = start;
    return 0;
}

static void free_texts(char **texts)
{
    for (char **p = texts; p != NULL && *p != NULL; p++)
        free(*p);
    free(texts);
}

void agent_start_done(struct agent_start *start)
{
    free_texts(start->argv);
    free_texts(start->env);
    free(start->input);
    *start = (struct agent_start){0};
}
