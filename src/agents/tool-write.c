// SPDX-License-Identifier: Apache-2.0
// The tools Write and Edit. What is small goes to the hand in a message; of what is large the hand
// makes a file without a name, which is filled on a thread and then gets its name. Either way the
// file has all of it or what it had before. An edit is of the file that was read: when something
// else has changed it meanwhile it fails, and the model may look again.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agents/tool-work.h"
#include "agents/tool.h"
#include "base/fd.h"
#include "sandbox/hand.h"

enum {
    EDIT_MAX = 4 * 1024 * 1024,
    PLACES_MAX = 10000, // replaced at once: looking for them is done on the loop
    CHUNK = 64 * 1024,
};

struct writing {
    struct sandbox *sandbox; // counted: a draft is given up even when nobody waits
    struct tool_call *call;  // counted
    char path[TOOL_PATH_MAX];
    struct buf data;
    uint32_t flags;
    char etag[HAND_ETAG];
    uint64_t handle; // of the draft
    int fd;
    int sys_errno;
    size_t replaced; // places; 0: all of it was written
};

static struct writing *writing_new(struct tool_call *call, const char *path)
{
    struct writing *w = calloc(1, sizeof *w);
    if (w == NULL)
        abort();
    w->call = tool_ref(call);
    w->sandbox = sandbox_ref(call->sandbox);
    w->fd = -1;
    memcpy(w->path, path, strlen(path) + 1);
    buf_init(&w->data, 2 * EDIT_MAX);
    return w;
}

static void writing_free(struct writing *w)
{
    fd_close(w->fd);
    buf_done(&w->data);
    sandbox_unref(w->sandbox);
    tool_unref(w->call);
    free(w);
}

// --- writing

static void on_written(void *data, struct hand_answer *hand, const struct err *err)
{
    struct writing *w = data;
    struct tool_call *call = w->call;
    (void)hand;
    if (tool_is_over(call)) {
        writing_free(w);
        return;
    }
    if (err != NULL && err->sys_errno == ESTALE) {
        tool_fail(call, "%s was changed by something else meanwhile: read it again", w->path);
    } else if (err != NULL) {
        tool_fail(call, "%s", err->msg);
    } else {
        (void)buf_printf(&call->output, "%s is written: it has %zu bytes", w->path, w->data.len);
        if (w->replaced > 0)
            (void)buf_printf(&call->output, ", %zu place%s replaced", w->replaced,
                             w->replaced > 1 ? "s" : "");
        tool_done(call, /* is_error */ false);
    }
    writing_free(w);
}

static void ignore(void *data, struct hand_answer *hand, const struct err *err)
{
    (void)data;
    (void)hand;
    (void)err;
}

static void give_up(struct writing *w, const struct err *err)
{
    const struct hand_ask ask = {.type = HAND_ABORT, .handle = w->handle};
    if (sandbox_is_up(w->sandbox)) // else it went with the box
        (void)hand_ask(w->sandbox, &ask, ignore, NULL, NULL);
    on_written(w, NULL, err);
}

static void write_on_thread(void *state)
{
    struct writing *w = state;
    for (size_t at = 0; at < w->data.len;) {
        ssize_t n = pwrite(w->fd, w->data.data + at, w->data.len - at, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            w->sys_errno = n < 0 ? errno : EIO;
            return;
        }
        at += (size_t)n;
    }
}

static void on_filled(struct tool_call *call, void *state)
{
    struct writing *w = state;
    struct err err = {0};
    const struct hand_ask ask = {.type = HAND_COMMIT, .handle = w->handle};
    if (w->sys_errno != 0)
        (void)hand_error(w->sys_errno, w->path, &err);
    if (tool_is_over(call) || w->sys_errno != 0)
        give_up(w, &err);
    else
        (void)hand_ask(w->sandbox, &ask, on_written, NULL, w);
}

static void on_created(void *data, struct hand_answer *hand, const struct err *err)
{
    struct writing *w = data;
    struct err failed = {0};
    if (err != NULL) {
        on_written(w, NULL, err);
        return;
    }
    w->handle = hand->done.handle;
    w->fd = TAKE_FD(hand->fd);
    if (w->fd < 0 || tool_is_over(w->call)) {
        (void)err_set(&failed, ERR_UNAVAILABLE, "the file cannot be written");
        give_up(w, &failed);
        return;
    }
    tool_work(w->call, write_on_thread, on_filled, w);
}

static void begin(struct writing *w)
{
    bool is_small = w->data.len <= HAND_DATA_MAX;
    const struct hand_ask ask = {
        .type = is_small ? HAND_WRITE : HAND_CREATE,
        .flags = w->flags,
        .path = w->path,
        .data = is_small ? buf_str(&w->data) : NULL,
        .data_len = is_small ? w->data.len : 0,
        .etag = w->flags & HAND_ETAG_GIVEN ? w->etag : NULL,
    };
    (void)hand_ask(w->sandbox, &ask, is_small ? on_written : on_created, NULL, w);
}

void tool_write(struct tool_call *call)
{
    char path[TOOL_PATH_MAX];
    const char *content;
    size_t len;
    if (tool_path(call, "file_path", path) < 0 ||
        tool_text(call, "content", /* required */ true, &content, &len) < 0)
        return;
    struct writing *w = writing_new(call, path);
    w->flags = HAND_PARENTS;
    if (buf_append(&w->data, content, len) < 0) {
        tool_fail(call, "content: is longer than %d bytes", 2 * EDIT_MAX);
        writing_free(w);
        return;
    }
    begin(w);
}

// --- editing

struct edit { // what is replaced; lent by the input
    const char *old, *new;
    size_t old_len, new_len;
    bool all;
};

static int read_edit(struct tool_call *call, struct edit *e)
{
    if (tool_text(call, "old_string", /* required */ true, &e->old, &e->old_len) < 0 ||
        tool_text(call, "new_string", /* required */ true, &e->new, &e->new_len) < 0 ||
        tool_bool(call, "replace_all", false, &e->all) < 0)
        return -1;
    const char *wrong = NULL;
    if (e->old_len == 0)
        wrong = "old_string: must not be empty; use Write for a new file";
    else if (e->old_len == e->new_len && memcmp(e->old, e->new, e->old_len) == 0)
        wrong = "new_string: must be another one than old_string";
    if (wrong != NULL)
        tool_fail(call, "%s", wrong);
    return wrong != NULL ? -1 : 0;
}

// At most PLACES_MAX + 1.
static size_t count_places(const struct buf *text, const struct edit *e)
{
    size_t n = 0;
    const char *at = buf_str(text), *end = at + text->len;
    while (n <= PLACES_MAX && (at = memmem(at, (size_t)(end - at), e->old, e->old_len)) != NULL) {
        at += e->old_len;
        n++;
    }
    return n;
}

static void replace(struct buf *ret, const struct buf *text, const struct edit *e)
{
    const char *from = buf_str(text), *end = from + text->len, *at;
    while ((at = memmem(from, (size_t)(end - from), e->old, e->old_len)) != NULL) {
        (void)buf_append(ret, from, (size_t)(at - from));
        (void)buf_append(ret, e->new, e->new_len);
        from = at + e->old_len;
    }
    (void)buf_append(ret, from, (size_t)(end - from));
}

// The file is in w->data. Whether it now has what shall be there; else the model was told why not.
static bool apply(struct writing *w)
{
    struct edit e;
    struct buf edited;
    if (read_edit(w->call, &e) < 0)
        return false;
    size_t n = count_places(&w->data, &e);
    if (n == 0) {
        tool_fail(w->call, "old_string: is not in %s", w->path);
        return false;
    }
    if (n > PLACES_MAX) {
        tool_fail(w->call, "old_string: is in %s more than %d times", w->path, PLACES_MAX);
        return false;
    }
    if (n > 1 && !e.all) {
        tool_fail(w->call, "old_string: is in %s %zu times; say more of it, or use replace_all",
                  w->path, n);
        return false;
    }
    buf_init(&edited, 2 * EDIT_MAX);
    replace(&edited, &w->data, &e);
    buf_done(&w->data);
    w->data = edited;
    w->replaced = n;
    if (edited.failed == 0)
        return true;
    tool_fail(w->call, "%s would be longer than %d bytes", w->path, 2 * EDIT_MAX);
    return false;
}

static void edit_and_write(struct writing *w)
{
    if (!tool_is_over(w->call) && apply(w))
        begin(w);
    else
        writing_free(w);
}

static void load_on_thread(void *state)
{
    struct writing *w = state;
    for (;;) {
        char *at;
        size_t room;
        if (w->data.len > EDIT_MAX || buf_reserve(&w->data, CHUNK, &at, &room) < 0) {
            w->sys_errno = EFBIG;
            return;
        }
        ssize_t n = pread(w->fd, at, room, (off_t)w->data.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            w->sys_errno = errno;
        if (n <= 0)
            return;
        buf_commit(&w->data, (size_t)n);
    }
}

static void on_loaded(struct tool_call *call, void *state)
{
    struct writing *w = state;
    struct err err = {0};
    fd_close(TAKE_FD(w->fd));
    if (w->sys_errno == 0) {
        edit_and_write(w);
        return;
    }
    (void)hand_error(w->sys_errno, w->path, &err);
    if (w->sys_errno == EFBIG)
        tool_fail(call, "%s is larger than %d bytes", w->path, EDIT_MAX);
    else
        tool_fail(call, "%s", err.msg);
    writing_free(w);
}

static void on_read(void *data, struct hand_answer *hand, const struct err *err)
{
    struct writing *w = data;
    if (err != NULL || tool_is_over(w->call)) {
        tool_fail(w->call, "%s", err != NULL ? err->msg : "");
        writing_free(w);
        return;
    }
    memcpy(w->etag, hand->done.st.etag, sizeof w->etag);
    w->flags = HAND_EXISTING | (w->etag[0] != '\0' ? HAND_ETAG_GIVEN : 0u);
    if (hand->fd >= 0) {
        w->fd = TAKE_FD(hand->fd);
        tool_work(w->call, load_on_thread, on_loaded, w);
    } else {
        (void)buf_append(&w->data, hand->data, hand->done.data_len);
        edit_and_write(w);
    }
}

void tool_edit(struct tool_call *call)
{
    char path[TOOL_PATH_MAX];
    struct edit e;
    if (tool_path(call, "file_path", path) < 0 || read_edit(call, &e) < 0)
        return;
    struct writing *w = writing_new(call, path);
    const struct hand_ask ask = {.type = HAND_READ, .path = path};
    (void)hand_ask(call->sandbox, &ask, on_read, NULL, w);
}
