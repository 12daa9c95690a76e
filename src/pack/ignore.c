// SPDX-License-Identifier: Apache-2.0
#include "pack/ignore.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    RULES_MAX = 100 * 1000,
    FROM_COMMAND = UINT32_MAX, // as a depth
};

enum rule_kind { RULE_FILE, RULE_EXCLUDE, RULE_INCLUDE };

struct rule {
    enum rule_kind kind;
    unsigned depth;
    size_t base_len; // of the directory's path, and its slash
    bool negated, dir_only, by_name;
    size_t len;
    char *text; // base and pattern, one after the other
};

struct rules {
    struct rule *rules;
    size_t n, room;
};

struct ignore {
    struct rules files, command; // the second is stronger
    bool has_includes;
};

struct ignore *ignore_new(void)
{
    ignore_begin();
    return calloc(1, sizeof(struct ignore));
}

static void drop_last(struct rules *rules)
{
    free(rules->rules[--rules->n].text);
}

void ignore_free(struct ignore *ignore)
{
    if (ignore == NULL)
        return;
    while (ignore->files.n > 0)
        drop_last(&ignore->files);
    while (ignore->command.n > 0)
        drop_last(&ignore->command);
    free(ignore->files.rules);
    free(ignore->command.rules);
    free(ignore);
}

void ignore_leave(struct ignore *ignore, unsigned depth)
{
    while (ignore->files.n > 0 && ignore->files.rules[ignore->files.n - 1].depth > depth)
        drop_last(&ignore->files);
}

static struct rule *new_rule(struct rules *rules)
{
    if (rules->n == rules->room) {
        size_t room = rules->room > 0 ? rules->room * 2 : 32;
        struct rule *more = reallocarray(rules->rules, room, sizeof *more);
        if (more == NULL)
            return NULL;
        rules->rules = more;
        rules->room = room;
    }
    return &rules->rules[rules->n];
}

// Without spaces at the end, but for those behind a backslash.
static size_t trimmed(const char *line, size_t len)
{
    size_t kept = 0;
    for (size_t i = 0; i < len; i++) {
        if (line[i] == '\\' && i + 1 < len)
            i++;
        else if (line[i] == ' ')
            continue;
        kept = i + 1;
    }
    return kept;
}

static int add_text(struct rules *rules, struct rule rule, const char *base, const char *pattern)
{
    struct rule *to = rules->n < RULES_MAX ? new_rule(rules) : NULL;
    if (to == NULL)
        return rules->n < RULES_MAX ? -ENOMEM : -E2BIG;
    rule.text = malloc(rule.base_len + rule.len + 1);
    if (rule.text == NULL)
        return -ENOMEM;
    if (rule.base_len > 0) {
        memcpy(rule.text, base, rule.base_len - 1);
        rule.text[rule.base_len - 1] = '/';
    }
    memcpy(rule.text + rule.base_len, pattern, rule.len);
    rule.text[rule.base_len + rule.len] = '\0';
    *to = rule;
    rules->n++;
    return 0;
}

// One line, which is no comment.
static int add_line(struct rules *rules, struct rule rule, const char *base, const char *line,
                    size_t len)
{
    len = trimmed(line, len);
    if (len > 0 && line[0] == '!' && rule.kind != RULE_INCLUDE) {
        rule.negated = true;
        line++;
        len--;
    }
    if (len > 0 && line[len - 1] == '/') {
        rule.dir_only = true;
        len--;
    }
    rule.by_name = memchr(line, '/', len) == NULL;
    if (len > 0 && line[0] == '/') {
        line++;
        len--;
    }
    if (len == 0)
        return 0;
    rule.base_len = base[0] != '\0' ? strlen(base) + 1 : 0;
    rule.len = len;
    return add_text(rules, rule, base, line);
}

int ignore_add(struct ignore *ignore, const char *base, unsigned depth, const char *text,
               size_t len)
{
    static const char mark[] = "\xef\xbb\xbf";
    int r = 0;
    if (len >= 3 && memcmp(text, mark, 3) == 0) {
        text += 3;
        len -= 3;
    }
    for (const char *end = text + len; r == 0 && text < end;) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t size = (size_t)((newline != NULL ? newline : end) - text);
        size_t line = size > 0 && newline != NULL && text[size - 1] == '\r' ? size - 1 : size;
        struct rule rule = {.kind = RULE_FILE, .depth = depth};
        if (line > 0 && text[0] != '#' && memchr(text, '\0', line) == NULL)
            r = add_line(&ignore->files, rule, base, text, line);
        text += size + 1;
    }
    return r;
}

static int add_command(struct ignore *ignore, enum rule_kind kind, const char *glob)
{
    struct rule rule = {.kind = kind, .depth = FROM_COMMAND};
    return add_line(&ignore->command, rule, "", glob, strlen(glob));
}

int ignore_add_exclude(struct ignore *ignore, const char *glob)
{
    return add_command(ignore, RULE_EXCLUDE, glob);
}

int ignore_add_include(struct ignore *ignore, const char *glob)
{
    ignore->has_includes = true;
    return add_command(ignore, RULE_INCLUDE, glob);
}

static bool matches(const struct rule *rule, const char *path, bool is_dir)
{
    if (rule->dir_only && !is_dir)
        return false;
    if (strncmp(path, rule->text, rule->base_len) != 0)
        return false;
    const char *name = path + rule->base_len;
    if (rule->by_name) {
        const char *slash = strrchr(name, '/');
        name = slash != NULL ? slash + 1 : name;
        return ignore_match(rule->text + rule->base_len, rule->len, name);
    }
    return ignore_match(rule->text + rule->base_len, rule->len, name);
}

// 1 excluded, 0 taken back, -1 nothing was said.
static int decide(const struct rules *rules, const char *path, bool is_dir)
{
    ignore_spend(rules->n);
    for (size_t i = rules->n; i-- > 0 && !ignore_is_spent();) {
        const struct rule *rule = &rules->rules[i];
        if (rule->kind != RULE_INCLUDE && matches(rule, path, is_dir))
            return !rule->negated;
    }
    return -1;
}

static bool is_included(const struct rules *rules, const char *path, bool is_dir)
{
    ignore_spend(rules->n);
    for (size_t i = 0; i < rules->n && !ignore_is_spent(); i++) {
        if (rules->rules[i].kind == RULE_INCLUDE && matches(&rules->rules[i], path, is_dir))
            return true;
    }
    return false;
}

// Itself, or a directory that it is in.
static bool is_in_included(const struct ignore *ignore, const char *path, bool is_dir)
{
    if (is_included(&ignore->command, path, is_dir))
        return true;
    char *above = strdup(path);
    bool found = false;
    for (char *slash; !found && above != NULL && (slash = strrchr(above, '/')) != NULL;) {
        *slash = '\0';
        found = is_included(&ignore->command, above, true);
    }
    free(above);
    return found;
}

enum ignore_verdict ignore_check(const struct ignore *ignore, const char *path, bool is_dir)
{
    ignore_allow();
    int said = decide(&ignore->command, path, is_dir);
    if (said < 0)
        said = decide(&ignore->files, path, is_dir);
    if (said == 1)
        return IGNORE_YES;
    if (!ignore->has_includes || is_in_included(ignore, path, is_dir))
        return IGNORE_NO;
    return is_dir ? IGNORE_LOOK : IGNORE_YES;
}
