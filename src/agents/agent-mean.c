// SPDX-License-Identifier: Apache-2.0
// What a line of JSON means, by one rule.
#include <stdlib.h>
#include <string.h>

#include "agents/agent-read-internal.h"
#include "base/text.h"

enum { NAME_VALUE_MAX = 200 };

// -- values

// A text of at most so many bytes, whole characters, without NULs. NULL: it is no text.
static char *text_value(const struct json_node *node, size_t max)
{
    if (!json_is(node, JSON_NODE_STRING))
        return NULL;
    size_t len = node->text_len, n = 0;
    if (len > max) {
        for (len = max; len > 0 && ((unsigned char)node->text[len] & 0xc0) == 0x80;)
            len--;
    }
    char *copy = malloc(len + 1);
    if (copy == NULL)
        abort();
    for (size_t i = 0; i < len; i++) {
        if (node->text[i] != '\0')
            copy[n++] = node->text[i];
    }
    copy[n] = '\0';
    return copy;
}

// Names of models and sessions, which others show and hand back. NULL: it is none.
static char *name_value(const struct json_node *node)
{
    bool fine = json_is(node, JSON_NODE_STRING) && node->text_len > 0 &&
                node->text_len <= NAME_VALUE_MAX && node->text[0] != '-';
    for (size_t i = 0; fine && i < node->text_len; i++)
        fine = node->text[i] > ' ' && node->text[i] < 0x7f;
    return fine ? text_value(node, NAME_VALUE_MAX) : NULL;
}

static void replace(char **to, char *with)
{
    free(*to);
    *to = with;
}

static int64_t count_value(const struct json_node *node)
{
    int64_t n = json_int(node, -1);
    return n >= 0 ? n : -1;
}

// Dollars. What is none, or more than anybody has, is no word.
static int64_t cost_value(const struct json_node *node)
{
    static const double most = 1e9;
    double dollars = json_double(node, -1.0);
    return dollars >= 0 && dollars <= most ? (int64_t)(dollars * 1e9 + 0.5) : -1;
}

static bool is_true(const struct json_node *node)
{
    return node != NULL && !(json_is(node, JSON_NODE_BOOL) && !node->is_true) &&
           !(json_is(node, JSON_NODE_STRING) && node->text_len == 0) &&
           !(json_is(node, JSON_NODE_NUMBER) && json_double(node, 1) == 0);
}

// -- on

static void begin_end(struct agent_reader *r)
{
    r->has_end = true;
    r->failed = false;
    r->code = NULL;
    replace(&r->error, NULL);
}

static void add_cost(struct agent_reader *r, int64_t more)
{
    int64_t sum;
    if (more >= 0 && !__builtin_add_overflow(r->cost_nano > 0 ? r->cost_nano : 0, more, &sum))
        r->cost_nano = sum;
}

static void apply_set(struct agent_reader *r, const struct agent_set *set,
                      const struct json_node *line)
{
    const struct json_node *node = set->from != NULL && set->what != WHAT_CODE
                                       ? agent_pick(line, set->from, strlen(set->from))
                                       : NULL;
    switch (set->what) {
    case WHAT_END:
        begin_end(r);
        break;
    case WHAT_FAILED:
        r->failed = set->from == NULL || is_true(node);
        break;
    case WHAT_TURN:
        r->turns = r->turns < 0 ? 1 : r->turns + 1;
        break;
    case WHAT_TEXT:
        replace(&r->text, text_value(node, AGENT_RESULT_MAX));
        break;
    case WHAT_ERROR:
        replace(&r->error, text_value(node, AGENT_ERROR_MAX));
        break;
    case WHAT_CODE:
        r->failed = true;
        r->code = set->from;
        break;
    case WHAT_MODEL:
        replace(&r->model, name_value(node));
        break;
    case WHAT_SESSION:
        replace(&r->session, name_value(node));
        break;
    case WHAT_TURNS:
        r->turns = count_value(node);
        break;
    case WHAT_COST:
        r->cost_nano = cost_value(node);
        break;
    case WHAT_COST_MORE:
        add_cost(r, cost_value(node));
        break;
    case WHAT_MAX:
        break;
    }
}

// -- log and warn

// One value among other words: its first line, and not too much of it.
static void show_short(const struct json_node *node, struct buf *ret)
{
    size_t len = strcspn(node->text, "\r\n"), all = len;
    if (len > SHOWN_VALUE_MAX) {
        for (len = SHOWN_VALUE_MAX; len > 0 && ((unsigned char)node->text[len] & 0xc0) == 0x80;)
            len--;
    }
    (void)buf_append(ret, node->text, len);
    if (len < all || all < node->text_len)
        (void)buf_append_str(ret, " ...");
}

static void show_value(const struct json_node *node, bool whole, struct buf *ret)
{
    if (json_is(node, JSON_NODE_BOOL))
        (void)buf_append_str(ret, node->is_true ? "true" : "false");
    else if (node != NULL && node->text != NULL && whole)
        (void)buf_append(ret, node->text, node->text_len);
    else if (node != NULL && node->text != NULL)
        show_short(node, ret);
}

static void fill_in(const char *text, const struct json_node *node, struct buf *ret)
{
    const char *end = strchr(text, '}');
    bool whole = strncmp(text, "{/", 2) == 0 && end != NULL && end[1] == '\0';
    for (const char *p = text; *p != '\0';) {
        end = strncmp(p, "{/", 2) == 0 ? strchr(p, '}') : NULL;
        if (end != NULL) {
            show_value(agent_pick(node, p + 1, (size_t)(end - p - 1)), whole, ret);
            p = end + 1;
        } else {
            (void)buf_append_char(ret, *p++);
        }
    }
    while (!whole && ret->len > 0 &&
           (ret->data[ret->len - 1] == ' ' || ret->data[ret->len - 1] == ':'))
        ret->data[--ret->len] = '\0';
}

// Each is told once.
static void add_warning(struct agent_reader *r, const char *text)
{
    for (unsigned i = 0; i < r->n_warnings; i++) {
        if (strcmp(r->warnings[i], text) == 0)
            return;
    }
    if (r->n_warnings == AGENT_WARNINGS_MAX)
        return;
    char *copy = strdup(text);
    if (copy == NULL)
        abort();
    r->warnings[r->n_warnings++] = copy;
}

static void say(struct agent_reader *r, const struct agent_rule *rule, const struct json_node *node)
{
    auto_buf text;
    buf_init(&text, AGENT_LINE_MAX);
    fill_in(rule->text, node, &text);
    if (text.len == 0)
        return;
    if (rule->kind == RULE_WARN) {
        add_warning(r, buf_str(&text));
        return;
    }
    if (text.data[text.len - 1] != '\n')
        (void)buf_append_char(&text, '\n');
    agent_log(r, text.data, text.len);
}

static bool conditions_hold(const struct agent_rule *rule, unsigned from, unsigned to,
                            const struct json_node *node)
{
    while (from < to && agent_condition_holds(&rule->conditions[from], node))
        from++;
    return from == to;
}

void agent_rule_apply(struct agent_reader *r, const struct agent_rule *rule,
                      const struct json_node *line)
{
    if (!conditions_hold(rule, 0, rule->n_outer, line))
        return;
    for (unsigned i = 0; i < rule->n_sets; i++)
        apply_set(r, &rule->sets[i], line);
    if (rule->kind == RULE_ON)
        return;
    if (rule->each == NULL) {
        say(r, rule, line);
        return;
    }
    const struct json_node *list = agent_pick(line, rule->each, strlen(rule->each));
    if (!json_is(list, JSON_NODE_ARRAY))
        return;
    for (const struct json_node *item = json_first(list); item != NULL; item = json_next(item)) {
        if (conditions_hold(rule, rule->n_outer, rule->n_conditions, item))
            say(r, rule, item);
    }
}
