// SPDX-License-Identifier: Apache-2.0
// POST .../git/checkout and .../git/commit, GET .../git/status and .../git/diff.
#include "api/git.h"

#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/schemas.h"
#include "api/show.h"
#include "base/clock.h"
#include "git/check.h"
#include "git/commit.h"
#include "git/look.h"
#include "sandbox/exec.h"

enum { DIFF_ANSWER_MAX = 2 * EXEC_OUTPUT_MAX + 16 * 1024 * 1024 };

struct checkout_body {
    const char *url, *branch, *dir, *secret;
    struct body_int depth, timeout;
};

#define AT(member) offsetof(struct checkout_body, member)
static const struct field checkout_fields[] = {
    FIELD("repoUrl", FIELD_STRING, AT(url), .required = true, .max = GIT_URL_MAX - 1,
          .help = "http:// or https://, without credentials"),
    FIELD("branch", FIELD_STRING, AT(branch), .max = GIT_REF_MAX,
          .help = "A branch or tag; the remote's own if not given"),
    FIELD("targetDir", FIELD_STRING, AT(dir), .max = GIT_PATH_MAX - 1,
          .help = "An absolute path; /workspace/NAME if not given"),
    FIELD("depth", FIELD_INT, AT(depth), .min = 1, .max = 1000000,
          .help = "Only so many of the newest commits"),
    FIELD("timeout", FIELD_MS, AT(timeout), .min = 1, .max = GIT_CLONE_TIMEOUT_MAX,
          .help = "Milliseconds, or a text such as \"2m\"; 10 minutes if not given"),
    FIELD("secret", FIELD_STRING, AT(secret), .max = 64,
          .help = "One of the sandbox's secrets, whose upstream the repository is in"),
};
#undef AT
const struct schema git_checkout_schema =
    SCHEMA("GitCheckout", struct checkout_body, checkout_fields);

struct author_body {
    const char *name, *email;
};
struct commit_body {
    const char *message, *path;
    struct author_body author;
    struct body_bool all;
};

#define AT(member) offsetof(struct author_body, member)
static const struct field author_fields[] = {
    FIELD("name", FIELD_STRING, AT(name), .required = true, .max = GIT_NAME_MAX),
    FIELD("email", FIELD_STRING, AT(email), .required = true, .max = GIT_NAME_MAX),
};
#undef AT
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

// -- a call that has git at work

// Nobody waits any more. What a key can ask for again goes on.
static void stop(struct call *call)
{
    struct git_call *state = call->state;
    if (call->idem.active || state->work == NULL)
        return;
    git_cancel(state->work);
    git_call_done(call);
}

void git_call_done(struct call *call)
{
    struct git_call *state = call->state;
    state->work = NULL;
    call->stop = NULL;
    call_unref(call);
}

void git_call_fault(struct call *call, const struct git_fault *fault)
{
    auto_buf details;
    struct json j;
    buf_init(&details, 8 * GIT_SAID_MAX);
    json_init(&j, &details);
    json_open_object(&j);
    show_str(&j, "stderr", fault->said);
    json_close_object(&j);
    bool has = fault->said[0] != '\0' && json_finish(&j) == 0;
    call_error(call, fault->kind, has ? buf_str(&details) : NULL, "%s", fault->message);
}

struct beginning {
    struct call *call; // counted, until git_call_done
    struct git_work *(*begin)(struct call *call);
};

static void on_awake(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct beginning b = *(struct beginning *)data;
    free(data);
    (void)s;
    (void)created;
    if (err != NULL && err->code != ERR_NONE) {
        call_fail(b.call, err);
        git_call_done(b.call);
    } else if (b.call->req == NULL && !b.call->idem.active) {
        git_call_done(b.call);
    } else {
        struct git_call *state = b.call->state;
        (void)call_ref(b.call); // it may be over before begin returns
        b.call->stop = stop;
        state->start_ns = clock_ns();
        struct git_work *work = b.begin(b.call);
        if (work != NULL)
            state->work = work;
        call_unref(b.call);
    }
}

void git_call_begin(struct call *call, struct git_work *(*begin)(struct call *call))
{
    struct beginning *b = malloc(sizeof *b);
    struct git_call *state = calloc(1, sizeof *state);
    if (b == NULL || state == NULL)
        abort();
    state->start_ns = clock_ns();
    call->state = state;
    *b = (struct beginning){call_ref(call), begin};
    sandbox_wake(call->sandbox, on_awake, b);
}

static void reply_begin(struct json *j, struct buf *buf, size_t max, const char *dir)
{
    buf_init(buf, max);
    json_init(j, buf);
    json_open_object(j);
    show_bool(j, "success", true);
    show_str(j, "path", dir);
}

static void reply_end(struct call *call, struct json *j)
{
    json_close_object(j);
    call_reply_json(call, 200, j);
}

// -- checkout

void git_clone_show(struct json *j, const struct call *call, const struct git_cloned *cloned,
                    const struct git_fault *fault)
{
    const struct git_call *state = call->state;
    int64_t took = state != NULL ? clock_ns() - state->start_ns : 0;
    show_bool(j, "success", fault == NULL);
    show_str(j, "repoUrl", cloned->url);
    show_str(j, "branch", cloned->head[0] != '\0' ? cloned->head : NULL);
    show_str(j, "targetDir", cloned->dir);
    show_str(j, "commit", cloned->commit[0] != '\0' ? cloned->commit : NULL);
    show_ms(j, "duration", (double)took / 1e6);
    if (fault != NULL) {
        show_str(j, "error", fault->message);
        show_str(j, "error_code", fault->code);
    }
}

static struct git_clone clone_of(const struct call *call)
{
    const struct checkout_body *b = call->body.values;
    return (struct git_clone){
        .url = b->url,
        .branch = b->branch,
        .dir = b->dir,
        .secret = b->secret,
        .depth = b->depth.value,
        .timeout_ms = b->timeout.value,
    };
}

static void on_cloned(void *data, const struct git_cloned *cloned, const struct git_fault *fault)
{
    struct call *call = data;
    struct buf buf;
    struct json j;
    if (fault != NULL) {
        git_call_fault(call, fault);
    } else {
        buf_init(&buf, SHOW_MAX);
        json_init(&j, &buf);
        json_open_object(&j);
        git_clone_show(&j, call, cloned, NULL);
        reply_end(call, &j);
    }
    git_call_done(call);
}

static struct git_work *begin_checkout(struct call *call)
{
    const struct git_clone clone = clone_of(call);
    return git_clone_start(call->api->db, call->sandbox, &clone, on_cloned, call);
}

void handle_git_checkout(struct call *call)
{
    struct git_fault fault;
    const struct git_clone clone = clone_of(call);
    if (git_clone_allowed(call->api->db, sandbox_row(call->sandbox), &clone, &fault) < 0)
        git_call_fault(call, &fault);
    else
        git_call_begin(call, begin_checkout);
}

// -- status and diff

static const char *path_of(const struct call *call)
{
    const char *path = call_query(call, "path");
    return path != NULL ? path : "/workspace";
}

static int check_path(struct call *call, const char *field, const char *path)
{
    struct err err = {0};
    if (git_check_dir(path, &err) == 0)
        return 0;
    (void)err_wrap(&err, "%s", field);
    call_fail(call, &err);
    return -1;
}

static void reply_status(struct call *call, const struct git_status *s)
{
    struct buf buf;
    struct json j;
    reply_begin(&j, &buf, SHOW_MAX, s->dir);
    show_str(&j, "branch", s->branch);
    show_str(&j, "commit", s->commit);
    show_str(&j, "upstream", s->upstream);
    if (s->has_ahead) {
        show_int(&j, "ahead", s->ahead);
        show_int(&j, "behind", s->behind);
    }
    show_bool(&j, "clean", s->clean);
    json_key(&j, "files");
    json_put_raw(&j, s->files->data, s->files->len);
    show_bool(&j, "truncated", s->truncated);
    reply_end(call, &j);
}

static void on_status(void *data, const struct git_status *status, const struct git_fault *fault)
{
    struct call *call = data;
    if (fault != NULL)
        git_call_fault(call, fault);
    else
        reply_status(call, status);
    git_call_done(call);
}

static struct git_work *begin_status(struct call *call)
{
    return git_status_start(call->sandbox, path_of(call), on_status, call);
}

void handle_git_status(struct call *call)
{
    if (check_path(call, "?path", path_of(call)) == 0)
        git_call_begin(call, begin_status);
}

static void reply_diff(struct call *call, const struct git_diff *diff)
{
    struct buf buf;
    struct json j;
    reply_begin(&j, &buf, DIFF_ANSWER_MAX, diff->dir);
    json_key(&j, "files");
    json_put_raw(&j, diff->files->data, diff->files->len);
    show_output(&j, "diff", diff->diff);
    show_bool(&j, "truncated", diff->truncated);
    reply_end(call, &j);
}

static void on_diff(void *data, const struct git_diff *diff, const struct git_fault *fault)
{
    struct call *call = data;
    if (fault != NULL)
        git_call_fault(call, fault);
    else
        reply_diff(call, diff);
    git_call_done(call);
}

static struct git_work *begin_diff(struct call *call)
{
    return git_diff_start(call->sandbox, path_of(call), on_diff, call);
}

void handle_git_diff(struct call *call)
{
    if (check_path(call, "?path", path_of(call)) == 0)
        git_call_begin(call, begin_diff);
}

// -- commit

static void on_committed(void *data, const struct git_committed *done,
                         const struct git_fault *fault)
{
    struct call *call = data;
    struct buf buf;
    struct json j;
    if (fault != NULL) {
        git_call_fault(call, fault);
    } else {
        reply_begin(&j, &buf, SHOW_MAX, done->dir);
        show_str(&j, "commit", done->commit);
        show_str(&j, "branch", done->branch);
        reply_end(call, &j);
    }
    git_call_done(call);
}

static struct git_work *begin_commit(struct call *call)
{
    const struct commit_body *b = call->body.values;
    const struct git_commit commit = {
        .dir = b->path != NULL ? b->path : "/workspace",
        .message = b->message,
        .name = b->author.name,
        .email = b->author.email,
        .all = !b->all.given || b->all.value,
    };
    return git_commit_start(call->sandbox, &commit, on_committed, call);
}

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
    const struct commit_body *b = call->body.values;
    const char *name = b->author.name, *email = b->author.email;
    if (check_path(call, "path", b->path != NULL ? b->path : "/workspace") < 0)
        return;
    if (strspn(b->message, " \t\r\n") == strlen(b->message))
        call_error(call, ERROR_INVALID_REQUEST, NULL, "message: must not be empty");
    else if (name != NULL && (name[0] == '\0' || !is_plain(name) || !is_plain(email)))
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "author: a name and an address without '<', '>' and control characters");
    else
        git_call_begin(call, begin_commit);
}
