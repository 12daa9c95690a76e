// SPDX-License-Identifier: Apache-2.0
// POST .../git/commit.
#include <stdio.h>
#include <string.h>

#include "api/git.h"
#include "api/handlers.h"
#include "api/schemas.h"
#include "api/show.h"

struct author_body {
    const char *name, *email;
};
struct commit_body {
    const char *message, *path;
    struct author_body author;
    struct body_bool all;
};

#define AT_AUTHOR(member) offsetof(struct author_body, member)
static const struct field author_fields[] = {
    FIELD("name", FIELD_STRING, AT_AUTHOR(name), .required = true, .max = 200),
    FIELD("email", FIELD_STRING, AT_AUTHOR(email), .required = true, .max = 200),
};
static const struct schema author_schema = SCHEMA("GitAuthor", struct author_body, author_fields);

#define AT(member) offsetof(struct commit_body, member)
static const struct field commit_fields[] = {
    FIELD("message", FIELD_STRING, AT(message), .required = true, .max = 64 * 1024),
    FIELD("path", FIELD_STRING, AT(path), .max = GIT_PATH_MAX - 1,
          .help = "The repository's directory; /workspace if not given"),
    FIELD("author", FIELD_OBJECT, AT(author), .sub = &author_schema,
          .help = "Also the committer; that of the repository's configuration if not given"),
    FIELD("all", FIELD_BOOL, AT(all),
          .help = "Changed, new and deleted files too, not only what is staged; true if not given"),
};
const struct schema git_commit_schema = SCHEMA("GitCommit", struct commit_body, commit_fields);

// -- steps

static void answer(struct git *git, const struct git_problem *problem)
{
    struct buf buf;
    struct json j;
    if (problem != NULL) {
        git_reply_problem(git->call, problem);
        return;
    }
    buf_init(&buf, SHOW_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    show_str(&j, "path", git->dir);
    show_str(&j, "commit", git->commit);
    show_str(&j, "branch", git->head[0] != '\0' ? git->head : NULL);
    json_close_object(&j);
    call_reply_json(git->call, 200, &j);
}

static void on_committed(struct git *git, struct exec_result *result)
{
    struct git_problem problem = {0};
    int code = git_exit_code(result);
    if (code == 0) {
        git_find_head(git, git_finish);
    } else if (code == 1 && result->err->len == 0) { // it has said so on standard output
        git_fail(git, ERROR_CONFLICT, "there is nothing to commit");
    } else {
        git_problem(git, result, &problem);
        git_fail_with(git, &problem);
    }
}

static void run_commit(struct git *git)
{
    static const char *const args[] = {"commit",   "--no-verify",          "--no-gpg-sign",
                                       "--file=-", "--cleanup=whitespace", NULL};
    const struct commit_body *b = git->call->body.values;
    git->input = b->message;
    git->input_len = strlen(b->message);
    if (b->author.name != NULL) {
        git->name = b->author.name;
        git->email = b->author.email;
    } else if (!git->has_identity) {
        git->name = "Cay";
        git->email = "cay@localhost";
    }
    git_run(git, args, on_committed);
}

static void on_added(struct git *git, struct exec_result *result)
{
    struct git_problem problem = {0};
    if (git_exit_code(result) == 0) {
        run_commit(git);
        return;
    }
    git_problem(git, result, &problem);
    git_fail_with(git, &problem);
}

static void add_untracked(struct git *git)
{
    if (git->untracked.len > 0)
        git_add(git, "--all", &git->untracked, on_added);
    else
        run_commit(git);
}

static void on_tracked_added(struct git *git, struct exec_result *result)
{
    if (git_exit_code(result) == 0)
        add_untracked(git);
    else
        on_added(git, result);
}

static void on_list(struct git *git)
{
    const struct commit_body *b = git->call->body.values;
    bool all = !b->all.given || b->all.value;
    if (!git->is_staged && (!all || (git->tracked.len == 0 && git->untracked.len == 0)))
        git_fail(git, ERROR_CONFLICT, "there is nothing to commit%s",
                 all ? "" : ": nothing is staged, and 'all' is false");
    else if (!all)
        run_commit(git);
    else if (git->tracked.len > 0)
        git_add(git, "--all", &git->tracked, on_tracked_added);
    else
        add_untracked(git);
}

static void on_around(struct git *git)
{
    git_list(git, on_list);
}

static void begin(struct git *git)
{
    git_look_around(git, on_around);
}

// -- the route

static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == '<' || *text == '>' || *text == 0x7f)
            return false;
    }
    return true;
}

void handle_git_commit(struct call *call)
{
    struct err err = {0};
    const struct commit_body *b = call->body.values;
    const char *path = b->path != NULL ? b->path : "/workspace";
    const char *name = b->author.name, *email = b->author.email;
    if (git_check_dir(path, &err) < 0) {
        (void)err_wrap(&err, "path");
        call_fail(call, &err);
        return;
    }
    if (strspn(b->message, " \t\r\n") == strlen(b->message)) {
        call_error(call, ERROR_INVALID_REQUEST, NULL, "message: must not be empty");
        return;
    }
    if (name != NULL && (name[0] == '\0' || !is_plain(name) || !is_plain(email))) {
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "author: a name and an address without '<', '>' and control characters");
        return;
    }
    struct git *git = git_new(call, answer);
    (void)snprintf(git->dir, sizeof git->dir, "%s", path);
    git->in_dir = true;
    git_begin(call, git, begin);
}
