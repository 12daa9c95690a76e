// SPDX-License-Identifier: Apache-2.0
// What is put into a project before its agent starts: its components, merged with what is there. By
// the hand in the box, one file after the other; large ones go through their descriptors, on a
// thread. And a look at the directory in which the agent shall start.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/task-internal.h"
#include "agents/tool.h"
#include "base/fd.h"

enum { READS_MAX = 8 };

struct task_files {
    struct task *task; // NULL: it is over
    uv_loop_t *loop;
    struct sandbox *s; // a reference: a draft is given up even when nobody waits
    struct hand_call *call;
    // what is there
    unsigned n_reads;
    char *texts[READS_MAX]; // NULL: it is not there
    // what shall be
    struct component_file *files;
    size_t n_files, at;
    // a large one, on a thread
    uv_fs_t fs;
    int fd; // -1: none
    uint64_t handle;
    char *data; // what is read
    bool at_work;
};

static void free_files(struct task_files *f)
{
    for (unsigned i = 0; i < READS_MAX; i++)
        free(f->texts[i]);
    component_files_free(f->files, f->n_files);
    fd_close(f->fd);
    free(f->data);
    sandbox_unref(f->s);
    free(f);
}

void task_files_drop(struct task *t)
{
    struct task_files *f = t->files;
    if (f == NULL)
        return;
    t->files = NULL;
    f->task = NULL;
    if (f->call != NULL)
        hand_cancel(f->call);
    f->call = NULL;
    if (!f->at_work) // else it goes when its thread is done
        free_files(f);
}

static void fail(struct task_files *f, const struct err *err, const char *what, const char *path)
{
    struct err said = *err;
    struct task *t = f->task;
    (void)err_wrap(&said, "%s %.100s", what, path);
    if (said.code == ERR_NOT_FOUND || said.code == ERR_DENIED)
        said.code = ERR_INVALID; // nothing that was asked for by its name is missing
    task_fail_err(t, &said);
}

// --- where the agent starts

static void look(struct task_files *f);

static void finish(struct task_files *f)
{
    struct task *t = f->task;
    task_files_drop(t);
    task_moment_take(t);
}

static void on_dir(void *data, struct hand_answer *answer, const struct err *err)
{
    struct task_files *f = data;
    struct err wrong = {0};
    f->call = NULL;
    if (err != NULL) {
        fail(f, err, "options.working_dir:", f->task->cwd);
    } else if (answer->done.st.kind != HAND_DIR) {
        (void)err_set(&wrong, ERR_INVALID, "is not a directory");
        fail(f, &wrong, "options.working_dir:", f->task->cwd);
    } else {
        finish(f);
    }
}

static bool is_below(const char *path, const char *top)
{
    size_t len = strlen(top);
    return strncmp(path, top, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

static int settle_cwd(struct task *t, struct err *err)
{
    char text[2 * GIT_PATH_MAX], clean[TOOL_PATH_MAX];
    const char *wanted = t->asked.working_dir;
    bool is_absolute = wanted[0] == '/';
    int n = snprintf(text, sizeof text, "%s%s%s", is_absolute ? "" : t->dir, is_absolute ? "" : "/",
                     wanted);
    if (n < 0 || (size_t)n >= sizeof text)
        return err_set(err, ERR_INVALID, "options.working_dir: is too long");
    if (tool_path_clean(text, clean, err) < 0)
        return err_wrap(err, "options.working_dir");
    if (!is_below(clean, is_absolute ? "/workspace" : t->dir) || strlen(clean) >= sizeof t->cwd)
        return err_set(err, ERR_INVALID,
                       "options.working_dir: must be below the repository, or absolute and below "
                       "/workspace");
    (void)snprintf(t->cwd, sizeof t->cwd, "%.*s", (int)sizeof t->cwd - 1, clean);
    // Somebody's own sandbox, without a repository: it is about this directory alone.
    if (t->asked.repo == NULL && !t->fresh)
        (void)snprintf(t->dir, sizeof t->dir, "%s", t->cwd);
    return 0;
}

static void look(struct task_files *f)
{
    struct err err = {0};
    struct task *t = f->task;
    if (t->asked.working_dir == NULL) {
        (void)snprintf(t->cwd, sizeof t->cwd, "%s", t->dir);
        finish(f);
        return;
    }
    if (settle_cwd(t, &err) < 0) {
        task_fail_err(t, &err);
        return;
    }
    const struct hand_ask ask = {.type = HAND_STAT, .path = t->cwd};
    f->call = hand_ask(f->s, &ask, on_dir, NULL, f);
}

// --- writing

static void write_next(struct task_files *f);

static void path_of(const struct task_files *f, const char *name, char ret[HAND_PATH_MAX])
{
    (void)snprintf(ret, HAND_PATH_MAX, "%s/%s", f->task->dir, name);
}

static void on_written(void *data, struct hand_answer *answer, const struct err *err)
{
    struct task_files *f = data;
    (void)answer;
    f->call = NULL;
    if (err != NULL) {
        fail(f, err, "the component", f->files[f->at].path);
        return;
    }
    f->at++;
    write_next(f);
}

static void ignore(void *data, struct hand_answer *answer, const struct err *err)
{
    (void)data;
    (void)answer;
    (void)err;
}

static void give_up(struct task_files *f)
{
    const struct hand_ask ask = {.type = HAND_ABORT, .handle = f->handle};
    if (sandbox_is_up(f->s)) // else it went with the box
        (void)hand_ask(f->s, &ask, ignore, NULL, NULL);
}

static void on_filled(uv_fs_t *fs)
{
    struct task_files *f = fs->data;
    struct err err = {0};
    ssize_t n = fs->result;
    uv_fs_req_cleanup(fs);
    f->at_work = false;
    fd_close(TAKE_FD(f->fd));
    bool is_whole = f->task != NULL && n == (ssize_t)f->files[f->at].len;
    if (is_whole) {
        const struct hand_ask ask = {.type = HAND_COMMIT, .handle = f->handle};
        f->call = hand_ask(f->s, &ask, on_written, NULL, f);
        return;
    }
    give_up(f);
    if (f->task == NULL) {
        free_files(f);
        return;
    }
    (void)hand_error(n < 0 ? (int)-n : ENOSPC, f->files[f->at].path, &err);
    fail(f, &err, "the component", f->files[f->at].path);
}

static void on_created(void *data, struct hand_answer *answer, const struct err *err)
{
    struct task_files *f = data;
    struct component_file *file = &f->files[f->at];
    struct err broken = {0};
    f->call = NULL;
    if (err != NULL) {
        fail(f, err, "the component", file->path);
        return;
    }
    f->handle = answer->done.handle;
    f->fd = TAKE_FD(answer->fd);
    const uv_buf_t buf = uv_buf_init(file->text, (unsigned)file->len);
    f->fs.data = f;
    f->at_work = f->fd >= 0 && uv_fs_write(f->loop, &f->fs, f->fd, &buf, 1, 0, on_filled) == 0;
    if (f->at_work)
        return;
    give_up(f);
    (void)err_set(&broken, ERR_UNAVAILABLE, "cannot be written");
    fail(f, &broken, "the component", file->path);
}

static void write_next(struct task_files *f)
{
    char path[HAND_PATH_MAX];
    if (f->at == f->n_files) {
        look(f);
        return;
    }
    const struct component_file *file = &f->files[f->at];
    bool is_small = file->len <= HAND_DATA_MAX;
    path_of(f, file->path, path);
    const struct hand_ask ask = {
        .type = is_small ? HAND_WRITE : HAND_CREATE,
        .flags = HAND_PARENTS | (file->executable ? HAND_MODE : 0u),
        .mode = file->executable ? 0755 : 0,
        .path = path,
        .data = is_small ? file->text : NULL,
        .data_len = is_small ? file->len : 0,
    };
    f->call = hand_ask(f->s, &ask, is_small ? on_written : on_created, NULL, f);
}

static void merge(struct task_files *f)
{
    struct err err = {0};
    const char *current[READS_MAX];
    for (unsigned i = 0; i < READS_MAX; i++)
        current[i] = f->texts[i];
    if (components_files(f->task->asked.components, current, &f->files, &f->n_files, &err) < 0) {
        (void)err_wrap(&err, "options.components");
        task_fail_err(f->task, &err);
        return;
    }
    write_next(f);
}

// --- reading

static void read_next(struct task_files *f);

// A text without NULs is one that ends where it ends.
static void take_text(struct task_files *f, const char *text, size_t len)
{
    f->texts[f->n_reads] = strndup(text, len);
    if (f->texts[f->n_reads] == NULL)
        abort();
    f->n_reads++;
    read_next(f);
}

static void on_loaded(uv_fs_t *fs)
{
    struct task_files *f = fs->data;
    struct err err = {0};
    ssize_t n = fs->result;
    uv_fs_req_cleanup(fs);
    f->at_work = false;
    fd_close(TAKE_FD(f->fd));
    if (f->task == NULL) {
        free_files(f);
        return;
    }
    if (n >= 0 && n <= COMPONENT_TEXT_MAX) {
        take_text(f, f->data, (size_t)n);
        return;
    }
    (void)hand_error(n < 0 ? (int)-n : EFBIG, "the file", &err);
    fail(f, &err, "options.components:", components_reads(f->task->asked.components, f->n_reads));
}

static void load(struct task_files *f, int fd)
{
    if (f->data == NULL)
        f->data = malloc(COMPONENT_TEXT_MAX + 1);
    if (f->data == NULL)
        abort();
    f->fd = fd;
    const uv_buf_t buf = uv_buf_init(f->data, COMPONENT_TEXT_MAX + 1);
    f->fs.data = f;
    f->at_work = true;
    if (uv_fs_read(f->loop, &f->fs, f->fd, &buf, 1, 0, on_loaded) < 0)
        abort();
}

static void on_read(void *data, struct hand_answer *answer, const struct err *err)
{
    struct task_files *f = data;
    f->call = NULL;
    if (err != NULL && err->code == ERR_NOT_FOUND) {
        f->n_reads++;
        read_next(f);
    } else if (err != NULL) {
        fail(f, err,
             "options.components:", components_reads(f->task->asked.components, f->n_reads));
    } else if (answer->fd >= 0) {
        load(f, TAKE_FD(answer->fd));
    } else {
        take_text(f, answer->data, answer->done.data_len);
    }
}

static void read_next(struct task_files *f)
{
    char path[HAND_PATH_MAX];
    const char *name = components_reads(f->task->asked.components, f->n_reads);
    if (name == NULL || f->n_reads == READS_MAX) {
        merge(f);
        return;
    }
    path_of(f, name, path);
    const struct hand_ask ask = {.type = HAND_READ, .path = path};
    f->call = hand_ask(f->s, &ask, on_read, NULL, f);
}

void task_files_put(struct task *t)
{
    struct task_files *f = calloc(1, sizeof *f);
    if (f == NULL)
        abort();
    *f = (struct task_files){
        .task = t, .loop = t->agents->config.loop, .s = sandbox_ref(t->s), .fd = -1};
    t->phase = TASK_FILES;
    t->files = f;
    if (t->asked.components != NULL)
        read_next(f);
    else
        look(f);
}
