// SPDX-License-Identifier: Apache-2.0
// A git that says anything: whoever is root in a box may have put his own in its place. All that is
// asked of one ends, is told once, and what is told is JSON. The first byte says what is asked.
#include <assert.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "git/changes.h"
#include "git/check.h"
#include "git/commit.h"
#include "git/look.h"
#include "sandbox/exec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sandbox {
    int refs;
};
static struct sandbox sandbox;
static const uint8_t *left;
static size_t n_left;
static unsigned told;

// -- the box: each program has the next two records for its output, after a byte for how it ends

static void take(struct buf *buf)
{
    size_t len = n_left < 2 ? 0 : (size_t)left[0] * 256 + left[1], skip = n_left < 2 ? n_left : 2;
    left += skip;
    n_left -= skip;
    if (len > n_left)
        len = n_left;
    buf_init(buf, EXEC_OUTPUT_MAX);
    (void)buf_append(buf, left, len);
    left += len;
    n_left -= len;
}

struct exec *exec_start(struct sandbox *s, const struct exec_request *request, exec_fn fn,
                        void *data, struct err *err)
{
    struct buf out, errors;
    assert(s == &sandbox && request->argv[0] != NULL);
    if (n_left == 0) {
        (void)err_set(err, ERR_UNAVAILABLE, "it is gone");
        return NULL;
    }
    uint8_t how = *left++;
    n_left--;
    take(&out);
    take(&errors);
    struct exec_result result = {
        .end = {.reason = END_EXIT, .exit_code = how % 4 == 3 ? 128 : how % 4},
        .out = &out,
        .err = &errors,
        .truncated = how >= 0xf0,
    };
    fn(data, &result, NULL);
    buf_done(&out);
    buf_done(&errors);
    return (struct exec *)&sandbox;
}

void exec_cancel(struct exec *exec)
{
    (void)exec;
    abort(); // all is over before exec_start returns
}

char **exec_env(const struct sandbox *s, const char *extra, uint32_t uid, struct err *err)
{
    (void)s;
    (void)extra;
    (void)uid;
    (void)err;
    return calloc(1, sizeof(char *));
}

void exec_env_free(char **env)
{
    free(env);
}

const char *end_reason_name(enum end_reason reason)
{
    (void)reason;
    return "ended";
}

struct sandbox *sandbox_ref(struct sandbox *s)
{
    s->refs++;
    return s;
}

void sandbox_unref(struct sandbox *s)
{
    s->refs--;
}

// -- what is told

static void must_be_json(const struct buf *buf)
{
    json_t *json = json_loadb(buf_str(buf), buf->len, JSON_ALLOW_NUL, NULL);
    assert(json_is_array(json));
    json_decref(json);
}

static void must_be_fault(const void *outcome, const struct git_fault *fault)
{
    told++;
    assert((outcome == NULL) != (fault == NULL));
    assert(fault == NULL || (fault->status >= 400 && fault->message[0] != '\0'));
}

static void on_status(void *data, const struct git_status *status, const struct git_fault *fault)
{
    (void)data;
    must_be_fault(status, fault);
    if (status != NULL)
        must_be_json(status->files);
}

static void on_diff(void *data, const struct git_diff *diff, const struct git_fault *fault)
{
    (void)data;
    must_be_fault(diff, fault);
    if (diff != NULL)
        must_be_json(diff->files);
}

static void on_committed(void *data, const struct git_committed *done,
                         const struct git_fault *fault)
{
    (void)data;
    must_be_fault(done, fault);
}

static void on_changes(void *data, const struct git_changes *changes, const struct git_fault *fault)
{
    (void)data;
    must_be_fault(changes, fault);
    if (changes == NULL)
        return;
    must_be_json(changes->files);
    assert(changes->diff->len <= GIT_DIFF_MAX);
}

static void on_moment(void *data, struct git_moment *moment, const struct git_fault *fault)
{
    (void)data;
    must_be_fault(moment, fault);
    if (moment == NULL)
        return;
    struct git_moment *again = git_moment_parse(git_moment_text(moment));
    assert(again != NULL && strcmp(git_moment_text(again), git_moment_text(moment)) == 0);
    git_moment_free(again);
    git_moment_free(moment);
}

static void ask(uint8_t what)
{
    static const char text[] =
        "1,4b825dc642cb6eb9a060e54bf8d69288fbee4904,/tmp/o,/w/.git/objects,/w";
    const struct git_commit commit = {.dir = "/w", .message = "m", .all = true};
    struct git_moment *moment = git_moment_parse(text);
    assert(moment != NULL);
    struct git_work *work = NULL;
    if (what == 0)
        work = git_status_start(&sandbox, "/w", on_status, NULL);
    else if (what == 1)
        work = git_diff_start(&sandbox, "/w", on_diff, NULL);
    else if (what == 2)
        work = git_commit_start(&sandbox, &commit, on_committed, NULL);
    else if (what == 3)
        work = git_moment_take(NULL, &sandbox, "/w", 0, on_moment, NULL);
    else
        work = git_changes_since(NULL, &sandbox, moment, what % 2 == 0, 0, on_changes, NULL);
    assert(work == NULL && told == 1 && sandbox.refs == 0);
    git_moment_free(moment);
}

static void parse(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);
    struct url parts;
    struct err err = {0};
    char url[GIT_URL_MAX], again[GIT_URL_MAX], dir[GIT_PATH_MAX];
    assert(text != NULL);
    struct git_moment *moment = git_moment_parse(text);
    assert(moment == NULL || strcmp(git_moment_text(moment), text) == 0);
    git_moment_free(moment);
    if (git_check_url(text, url, &parts, &err) == 0) {
        assert(git_check_url(url, again, &parts, &err) == 0 && strcmp(url, again) == 0);
        if (git_default_dir(url, dir, &err) == 0)
            assert(git_check_dir(dir, &err) == 0);
    }
    (void)git_check_ref(text, &err);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    parse(data + 1, size - 1);
    left = data + 1;
    n_left = size - 1;
    told = 0;
    ask(data[0] % 6);
    return 0;
}
