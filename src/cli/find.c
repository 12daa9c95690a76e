// SPDX-License-Identifier: Apache-2.0
// `cay find ID[:/path]`: files of a sandbox by name and by what is in them.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/copy.h"
#include "cli/table.h"

enum find_flag { FLAG_NAME, FLAG_TEXT, FLAG_IGNORE_CASE, FLAG_HIDDEN, FLAG_LIMIT };

static const struct opt opts[] = {
    {"name",        'n', "GLOB", "names that fit: * ? [a-z]",            "*"   },
    {"text",        't', "TEXT", "files in which this is, line by line", NULL  },
    {"ignore-case", 'i', NULL,   "A is a, in the text",                  NULL  },
    {"hidden",      'a', NULL,   "also names that begin with a dot",     NULL  },
    {"limit",       0,   "N",    "stop after so many",                   "1000"},
    REMOTE_OPTS,
};

static const struct opt_spec spec = {
    .usage = "cay find ID[:/path] [flags]",
    .summary =
        "Lists files of a sandbox below a path by their names; with --text the lines in which\n"
        "it is, as path:line:column: line.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more = "Examples:\n"
            "  cay find build:/workspace --name '*.c'\n"
            "  cay find build:/workspace --text TODO --name '*.py'",
};

struct find {
    const char *name, *text;
    bool ignore_case, hidden;
    uint64_t limit;
};

static int take_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    struct find *f = data;
    switch ((enum find_flag)flag) {
    case FLAG_NAME:
        f->name = value;
        return 0;
    case FLAG_TEXT:
        f->text = value;
        return 0;
    case FLAG_IGNORE_CASE:
        f->ignore_case = true;
        return 0;
    case FLAG_HIDDEN:
        f->hidden = true;
        return 0;
    case FLAG_LIMIT:
        return parse_u64(value, 1, 10000, &f->limit, err);
    }
    return 0;
}

static void put_text(struct json *j, const char *key, const char *text)
{
    if (text == NULL)
        return;
    json_key(j, key);
    json_put_str(j, text);
}

static void write_body(const struct find *f, const char *path, struct buf *body)
{
    struct json j;
    json_init(&j, body);
    json_open_object(&j);
    put_text(&j, "path", path);
    put_text(&j, "name", f->name == NULL && f->text == NULL ? "*" : f->name);
    put_text(&j, "text", f->text);
    json_key(&j, "ignoreCase");
    json_put_bool(&j, f->ignore_case);
    json_key(&j, "hidden");
    json_put_bool(&j, f->hidden);
    if (f->limit > 0) {
        json_key(&j, "limit");
        json_put_uint(&j, f->limit);
    }
    json_close_object(&j);
    (void)json_finish(&j);
}

static void print(const struct answer *answer)
{
    const struct json_node *list = json_get(answer_root(answer), "matches");
    auto_buf text;
    buf_init(&text, REMOTE_ANSWER_MAX);
    for (const struct json_node *n = json_first(list); n != NULL; n = json_next(n)) {
        int64_t line = json_int(json_get(n, "line"), 0);
        (void)fputs(remote_text(&text, n, "path"), stdout);
        if (line > 0) {
            (void)printf(":%" PRId64 ":%" PRId64 ": ", line, json_int(json_get(n, "column"), 0));
            (void)fputs(remote_text(&text, n, "text"), stdout);
        }
        (void)fputc('\n', stdout);
    }
    if (json_bool(json_get(answer_root(answer), "truncated"), false))
        (void)fputs("cay: there are more: --limit shows up to 10000\n", stderr);
}

int cmd_find(int argc, char **argv)
{
    int code;
    struct find f = {0};
    struct err err = {0};
    struct file_place place = {.path = "/"};
    auto_remote remote;
    const struct command_line line = {"find", &spec, take_flag, &f, 1, 1, "one ID or ID:/path"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    if (strchr(remote.word[0], ':') == NULL && strlen(remote.word[0]) < sizeof place.id)
        (void)snprintf(place.id, sizeof place.id, "%s", remote.word[0]);
    else if (file_place_read(&place, remote.word[0], &err) < 0)
        return remote_usage(&remote, err.msg);
    auto_answer answer;
    auto_buf target, body;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    buf_init(&body, REMOTE_BODY_MAX);
    remote_target(&target, "sandbox", place.id);
    (void)buf_append_str(&target, "/files:search");
    write_body(&f, place.path, &body);
    if (remote_do(&remote, "POST", &target, &body, &answer, &err) < 0)
        return remote_fail(&remote, &err);
    if (remote.json)
        return remote_print(&remote, &answer);
    print(&answer);
    return remote_flush(&remote);
}
