// SPDX-License-Identifier: Apache-2.0
// Rules, which say what a line of JSON means:
//
//     on   /type=result : end text=/result failed=/is_error
//     log  /type=assistant /message/content/* /type=tool_use : {/name}
//     {/input/file_path|/input/command}
//
// A pointer is names and numbers between slashes; there is no way to write a name with a blank, or
// one of / | = { } in it.
#include <string.h>

#include "agents/agent-file-internal.h"
#include "base/text.h"

enum { SEGMENT_MAX = 64 };

// -- pointers

static int check_pointer(const char *p, size_t len, struct err *err)
{
    bool fine = len > 1 && p[0] == '/' && p[len - 1] != '/';
    for (size_t i = 0, start = 0; fine && i < len; i++) {
        start = p[i] == '/' ? i + 1 : start;
        fine = memchr("|={}*\"' \t", p[i], 9) == NULL && i - start + 1 < SEGMENT_MAX &&
               (p[i] != '/' || p[i + 1] != '/');
    }
    return fine ? 0
                : err_set(err, ERR_INVALID, "'%.*s' is no pointer such as /message/text",
                          len < 60 ? (int)len : 60, p);
}

// "/a/b|/c"
static int check_from(const char *from, size_t len, struct err *err)
{
    for (size_t at = 0; at <= len;) {
        const char *bar = memchr(from + at, '|', len - at);
        size_t n = bar != NULL ? (size_t)(bar - from) - at : len - at;
        if (check_pointer(from + at, n, err) < 0)
            return -1;
        at += n + 1;
    }
    return 0;
}

static const struct json_node *nth(const struct json_node *array, const char *number)
{
    uint64_t n;
    struct err ignored;
    if (parse_u64(number, 0, UINT32_MAX, &n, &ignored) < 0)
        return NULL;
    const struct json_node *item = json_first(array);
    for (; item != NULL && n > 0; n--)
        item = json_next(item);
    return item;
}

static const struct json_node *follow(const struct json_node *node, const char *p, size_t len)
{
    for (size_t at = 0; at < len && node != NULL;) {
        const char *slash = memchr(p + at + 1, '/', len - at - 1);
        size_t n = slash != NULL ? (size_t)(slash - p) - at - 1 : len - at - 1;
        char segment[SEGMENT_MAX + 1];
        if (n > SEGMENT_MAX)
            return NULL;
        memcpy(segment, p + at + 1, n);
        segment[n] = '\0';
        node = json_is(node, JSON_NODE_ARRAY) ? nth(node, segment) : json_get(node, segment);
        at += n + 1;
    }
    return node;
}

const struct json_node *agent_pick(const struct json_node *node, const char *from, size_t len)
{
    for (size_t at = 0; at < len;) {
        const char *bar = memchr(from + at, '|', len - at);
        size_t n = bar != NULL ? (size_t)(bar - from) - at : len - at;
        const struct json_node *found = follow(node, from + at, n);
        if (found != NULL && found->type != JSON_NODE_NULL)
            return found;
        at += n + 1;
    }
    return NULL;
}

bool agent_condition_holds(const struct agent_condition *c, const struct json_node *node)
{
    node = follow(node, c->pointer, strlen(c->pointer));
    if (node == NULL)
        return false;
    switch (node->type) {
    case JSON_NODE_NULL:
        return strcmp(c->value, "null") == 0;
    case JSON_NODE_BOOL:
        return strcmp(c->value, node->is_true ? "true" : "false") == 0;
    case JSON_NODE_NUMBER:
    case JSON_NODE_STRING:
        return strlen(c->value) == node->text_len &&
               memcmp(c->value, node->text, node->text_len) == 0;
    case JSON_NODE_ARRAY:
    case JSON_NODE_OBJECT:
        break;
    }
    return false;
}

// -- before the colon

static int add_condition(struct agent_rule *rule, char *word, char *equals, struct err *err)
{
    *equals = '\0';
    if (rule->n_conditions == AGENT_CONDITIONS_MAX)
        return err_set(err, ERR_INVALID, "at most %d conditions", AGENT_CONDITIONS_MAX);
    if (equals[1] == '\0')
        return err_set(err, ERR_INVALID, "'%.60s=' needs a value", word);
    rule->conditions[rule->n_conditions++] = (struct agent_condition){word, equals + 1};
    rule->n_outer += rule->each == NULL;
    return check_pointer(word, strlen(word), err);
}

static int take_where(struct agent_rule *rule, char *word, struct err *err)
{
    size_t len = strlen(word);
    char *equals = strchr(word, '=');
    if (equals != NULL)
        return add_condition(rule, word, equals, err);
    if (len < 3 || strcmp(word + len - 2, "/*") != 0)
        return err_set(err, ERR_INVALID, "'%.60s' is neither /pointer=value nor /pointer/*", word);
    if (rule->kind == RULE_ON || rule->each != NULL)
        return err_set(err, ERR_INVALID, "'%.60s': %s", word,
                       rule->kind == RULE_ON ? "/* is for 'log' and 'warn'"
                                             : "there is one before");
    word[len - 2] = '\0';
    rule->each = word;
    return check_pointer(word, len - 2, err);
}

// -- behind it

enum form { FORM_BARE, FORM_FROM, FORM_BOTH, FORM_WORD };

static const struct {
    const char *name;
    enum form form;
} whats[WHAT_MAX] = {
    [WHAT_END] = {"end",     FORM_BARE},
      [WHAT_FAILED] = {"failed",  FORM_BOTH},
    [WHAT_TURN] = {"turn",    FORM_BARE},
      [WHAT_TEXT] = {"text",    FORM_FROM},
    [WHAT_ERROR] = {"error",   FORM_FROM},
      [WHAT_CODE] = {"code",    FORM_WORD},
    [WHAT_MODEL] = {"model",   FORM_FROM},
      [WHAT_SESSION] = {"session", FORM_FROM},
    [WHAT_TURNS] = {"turns",   FORM_FROM},
      [WHAT_COST] = {"cost",    FORM_FROM},
    [WHAT_COST_MORE] = {"cost+",   FORM_FROM},
};

static int check_code(const char *word, struct err *err)
{
    size_t len = strlen(word);
    if (word[0] < 'A' || word[0] > 'Z' || len > 40 ||
        strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != len)
        return err_set(err, ERR_INVALID, "'%.60s' is no code such as MAX_TURNS", word);
    return 0;
}

static int check_form(enum form form, const char *name, const char *from, struct err *err)
{
    if (from == NULL && (form == FORM_FROM || form == FORM_WORD))
        return err_set(err, ERR_INVALID, "'%s' needs an = and something behind it", name);
    if (from != NULL && form == FORM_BARE)
        return err_set(err, ERR_INVALID, "'%s' stands alone", name);
    if (from == NULL)
        return 0;
    return form == FORM_WORD ? check_code(from, err) : check_from(from, strlen(from), err);
}

static int take_set(struct agent_rule *rule, char *word, struct err *err)
{
    char *equals = strchr(word, '=');
    const char *from = equals != NULL ? equals + 1 : NULL;
    enum agent_what what = WHAT_END;
    if (equals != NULL)
        *equals = '\0';
    while (what < WHAT_MAX && strcmp(whats[what].name, word) != 0)
        what++;
    if (what == WHAT_MAX)
        return err_set(err, ERR_INVALID, "'%.60s' is nothing that a line can tell", word);
    for (unsigned i = 0; i < rule->n_sets; i++) {
        if (rule->sets[i].what == what)
            return err_set(err, ERR_INVALID, "'%s' was said before", word);
    }
    // Each once, so that there is room for all of them.
    _Static_assert((int)WHAT_MAX <= (int)AGENT_SETS_MAX, "room for all");
    rule->sets[rule->n_sets++] = (struct agent_set){what, from};
    return check_form(whats[what].form, word, from, err);
}

// "{/" begins one; any other brace is itself.
static int check_template(const char *text, struct err *err)
{
    for (const char *p = text; (p = strstr(p, "{/")) != NULL; p++) {
        const char *end = strchr(p, '}');
        if (end == NULL)
            return err_set(err, ERR_INVALID, "'%.40s' has no end", p);
        if (check_from(p + 1, (size_t)(end - p - 1), err) < 0)
            return -1;
    }
    return 0;
}

static int take_sets(struct agent_rule *rule, char *rest, struct err *err)
{
    for (char *word; (word = strsep(&rest, " \t")) != NULL;) {
        if (word[0] != '\0' && take_set(rule, word, err) < 0)
            return -1;
    }
    return 0;
}

// The word ":" that stands between; NULL: there is none.
static char *find_colon(char *rest)
{
    for (char *p = rest; (p = strchr(p, ':')) != NULL; p++) {
        if ((p == rest || p[-1] == ' ' || p[-1] == '\t') && (p[1] == ' ' || p[1] == '\t'))
            return p;
    }
    return NULL;
}

int agent_rule_parse(enum agent_rule_kind kind, char *rest, struct agent_rule *ret, struct err *err)
{
    char *colon = find_colon(rest);
    *ret = (struct agent_rule){.kind = kind};
    if (colon == NULL)
        return err_set(err, ERR_INVALID, "it has no ' : ' with something on both sides");
    *colon = '\0';
    char *behind = colon + 1 + strspn(colon + 1, " \t");
    for (char *word; (word = strsep(&rest, " \t")) != NULL;) {
        if (word[0] != '\0' && take_where(ret, word, err) < 0)
            return -1;
    }
    if (ret->n_conditions == 0)
        return err_set(err, ERR_INVALID, "it needs a condition such as /type=result");
    if (kind == RULE_ON)
        return take_sets(ret, behind, err);
    ret->text = behind;
    return check_template(behind, err);
}
