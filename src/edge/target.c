// SPDX-License-Identifier: Apache-2.0
#include "edge/target.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Decodes in place and answers the new length, or -1.
static int decode(char *text, bool is_query, struct err *err)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        char c = *from;
        if (c == '%') {
            int high = hex_digit(from[1]);
            int low = high < 0 ? -1 : hex_digit(from[2]);
            if (low < 0)
                return err_set(err, ERR_INVALID,
                               "the URL has a '%%' without two hexadecimal digits");
            c = (char)(high * 16 + low);
            from += 2;
            if (c == '\0' || (c == '/' && !is_query))
                return err_set(err, ERR_INVALID, "the URL has an encoded %s",
                               c == '\0' ? "NUL" : "slash in its path");
        } else if (c == '+' && is_query) {
            c = ' ';
        }
        *to++ = c;
    }
    *to = '\0';
    if (!utf8_valid(text, (size_t)(to - text)))
        return err_set(err, ERR_INVALID, "the URL is not UTF-8");
    return 0;
}

static int add_segment(struct target *target, char *segment, struct err *err)
{
    if (decode(segment, false, err) < 0)
        return -1;
    if (*segment == '\0')
        return err_set(err, ERR_INVALID, "the path has an empty segment ('//', or '/' at its end)");
    if (strcmp(segment, ".") == 0 || strcmp(segment, "..") == 0)
        return err_set(err, ERR_INVALID, "the path has a '%s' segment", segment);
    target->segments[target->n_segments++] = segment;
    return 0;
}

static int parse_path(struct target *target, char *path, struct err *err)
{
    if (*path == '\0') // the root
        return 0;
    while (path != NULL) {
        char *segment = strsep(&path, "/");
        if (add_segment(target, segment, err) < 0)
            return -1;
    }
    return 0;
}

static int add_query(struct target *target, char *pair, struct err *err)
{
    static char none[] = "";
    if (target->n_query == EDGE_QUERY_MAX)
        return err_set(err, ERR_INVALID, "the query has more than %d parameters", EDGE_QUERY_MAX);
    char *name = strsep(&pair, "=");
    char *value = pair != NULL ? pair : none;
    if (decode(name, true, err) < 0 || decode(value, true, err) < 0)
        return -1;
    if (*name == '\0')
        return err_set(err, ERR_INVALID, "the query has a parameter without a name");
    if (target_query(target, name) != NULL)
        return err_set(err, ERR_INVALID, "the query has '%.80s' twice", name);
    target->query[target->n_query++] = (struct target_query){.name = name, .value = value};
    return 0;
}

static int parse_query(struct target *target, char *query, struct err *err)
{
    if (query == NULL || *query == '\0')
        return 0;
    while (query != NULL) {
        char *pair = strsep(&query, "&");
        if (add_query(target, pair, err) < 0)
            return -1;
    }
    return 0;
}

static int parse(struct target *target, struct err *err)
{
    char *query = target->text;
    char *path = strsep(&query, "?");
    if (*path != '/')
        return err_set(err, ERR_INVALID, "the URL's path does not begin with '/'");
    return parse_path(target, path + 1, err) < 0 ? -1 : parse_query(target, query, err);
}

int target_parse(struct target *ret, const char *raw, struct err *err)
{
    struct target target = {0};
    size_t len = strlen(raw), slashes = 0;
    if (len > EDGE_TARGET_MAX)
        return err_set(err, ERR_INVALID, "the URL is longer than %d bytes", EDGE_TARGET_MAX);
    for (const char *p = raw; *p != '\0'; p++)
        slashes += *p == '/';
    target.segments = malloc(slashes * sizeof *target.segments + len + 1);
    if (target.segments == NULL)
        return err_set(err, ERR_EXHAUSTED, "out of memory");
    target.text = (char *)(target.segments + slashes);
    memcpy(target.text, raw, len + 1);
    if (parse(&target, err) < 0) {
        target_done(&target);
        return -1;
    }
    *ret = target;
    return 0;
}

void target_done(struct target *target)
{
    free(target->segments);
    free(target->rest);
    *target = (struct target){0};
}

const char *target_query(const struct target *target, const char *name)
{
    for (size_t i = 0; i < target->n_query; i++) {
        if (strcmp(target->query[i].name, name) == 0)
            return target->query[i].value;
    }
    return NULL;
}

// All segments from `at` on, with slashes between them again.
static const char *join(struct target *target, size_t at)
{
    size_t len = 0;
    if (target->rest != NULL && target->rest_at == at)
        return target->rest; // somebody may have it already
    for (size_t i = at; i < target->n_segments; i++)
        len += strlen(target->segments[i]) + 1;
    free(target->rest);
    target->rest = malloc(len);
    if (target->rest == NULL)
        abort();
    target->rest_at = at;
    char *p = target->rest;
    for (size_t i = at; i < target->n_segments; i++) {
        p = stpcpy(p, target->segments[i]);
        *p++ = i + 1 < target->n_segments ? '/' : '\0';
    }
    return target->rest;
}

bool target_match(struct target *target, const char *pattern, const char **ret_params)
{
    const char *params[TARGET_PARAMS_MAX];
    size_t n_params = 0;
    size_t at = 0;
    bool takes_rest = false;
    for (const char *p = pattern + 1; *p != '\0' && !takes_rest; at++) {
        size_t len = strcspn(p, "/");
        if (at == target->n_segments)
            return false;
        const char *segment = target->segments[at];
        takes_rest = p[0] == '{' && len > 2 && p[len - 2] == '*';
        if (p[0] == '{')
            params[n_params++] = segment;
        else if (strlen(segment) != len || memcmp(segment, p, len) != 0)
            return false;
        p += len + (p[len] == '/');
    }
    if (at != target->n_segments && !takes_rest)
        return false;
    if (takes_rest)
        params[n_params - 1] = join(target, at - 1);
    for (size_t i = 0; i < n_params; i++)
        ret_params[i] = params[i];
    return true;
}
