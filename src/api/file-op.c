// SPDX-License-Identifier: Apache-2.0
#include "api/file-op.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/file-put.h"
#include "api/show.h"
#include "api/transfer.h"
#include "base/fd.h"
#include "base/text.h"

// -- what each takes

enum field_bit {
    HAS_PATH = 1u << 0,
    HAS_FROM_TO = 1u << 1,
    HAS_MODE = 1u << 2,
    HAS_CONTENT = 1u << 3,
    HAS_ENCODING = 1u << 4,
    HAS_PARENTS = 1u << 5,
    HAS_REPLACE = 1u << 6,
    HAS_RECURSIVE = 1u << 7,
    HAS_USER = 1u << 8,
};

static const struct {
    const char *name;
    unsigned must, may;
} kinds[OP_MAX] = {
    [OP_WRITE] = {"write",  HAS_PATH | HAS_CONTENT, HAS_ENCODING | HAS_MODE | HAS_PARENTS},
    [OP_READ] = {"read",   HAS_PATH,               HAS_ENCODING                         },
    [OP_STAT] = {"stat",   HAS_PATH,               0                                    },
    [OP_MKDIR] = {"mkdir",  HAS_PATH,               HAS_MODE | HAS_PARENTS               },
    [OP_MOVE] = {"move",   HAS_FROM_TO,            HAS_REPLACE                          },
    [OP_COPY] = {"copy",   HAS_FROM_TO,            HAS_REPLACE                          },
    [OP_CHMOD] = {"chmod",  HAS_PATH | HAS_MODE,    0                                    },
    [OP_CHOWN] = {"chown",  HAS_PATH | HAS_USER,    0                                    },
    [OP_DELETE] = {"delete", HAS_PATH,               HAS_RECURSIVE                        },
};

int file_op_find(const char *name, enum file_op_kind *ret, struct err *err)
{
    for (int i = 0; i < OP_MAX; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            *ret = (enum file_op_kind)i;
            return 0;
        }
    }
    return err_set(err, ERR_INVALID,
                   "op: must be write, read, stat, mkdir, move, copy, chmod, chown or delete");
}

static int check_fields(enum file_op_kind kind, const struct file_op *op, struct err *err)
{
    const struct {
        const char *name;
        unsigned bit;
        bool given;
    } fields[] = {
        {"path",      HAS_PATH,      op->path != NULL        },
        {"from",      HAS_FROM_TO,   op->from != NULL        },
        {"to",        HAS_FROM_TO,   op->to != NULL          },
        {"mode",      HAS_MODE,      op->mode != NULL        },
        {"content",   HAS_CONTENT,   op->content.data != NULL},
        {"encoding",  HAS_ENCODING,  op->encoding != NULL    },
        {"parents",   HAS_PARENTS,   op->parents.given       },
        {"replace",   HAS_REPLACE,   op->replace.given       },
        {"recursive", HAS_RECURSIVE, op->recursive.given     },
        {"user",      HAS_USER,      op->user.given          },
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (!fields[i].given && (kinds[kind].must & fields[i].bit))
            return err_set(err, ERR_INVALID, "field '%s' is missing", fields[i].name);
        if (fields[i].given && !((kinds[kind].must | kinds[kind].may) & fields[i].bit))
            return err_set(err, ERR_INVALID, "'%s' does not go with %s", fields[i].name,
                           kinds[kind].name);
    }
    return 0;
}

static int check_path(const char *name, const char *path, struct err *err)
{
    if (path != NULL && file_path_check(path, err) < 0)
        return err_wrap(err, "%s", name);
    return 0;
}

static bool is_base64(const struct file_op *op)
{
    return op->encoding != NULL && strcmp(op->encoding, "base64") == 0;
}

// How many bytes the content has; -1 when it is not base64. `ret` may be NULL.
static ssize_t decode(const struct file_op *op, char *ret)
{
    size_t len = 0, max = op->content.len / 4 * 3 + 3;
    char *to = ret != NULL ? ret : malloc(max);
    if (to == NULL)
        return -1;
    int r = sodium_base642bin((unsigned char *)to, max, op->content.data, op->content.len, NULL,
                              &len, NULL, sodium_base64_VARIANT_ORIGINAL);
    if (ret == NULL)
        free(to);
    return r == 0 ? (ssize_t)len : -1;
}

int file_op_check(enum file_op_kind kind, const struct file_op *op, struct err *err)
{
    uint32_t mode;
    if (check_fields(kind, op, err) < 0 || check_path("path", op->path, err) < 0 ||
        check_path("from", op->from, err) < 0 || check_path("to", op->to, err) < 0)
        return -1;
    if (op->mode != NULL && file_mode_read(op->mode, &mode, err) < 0)
        return err_wrap(err, "mode");
    if (op->encoding != NULL && strcmp(op->encoding, "utf-8") != 0 && !is_base64(op))
        return err_set(err, ERR_INVALID, "encoding: must be \"utf-8\" or \"base64\"");
    if (kind == OP_WRITE && is_base64(op) && decode(op, NULL) < 0)
        return err_set(err, ERR_INVALID, "content: is not base64");
    return 0;
}

// -- doing it

struct op_run {
    enum file_op_kind kind;
    const struct file_op *op;
    file_op_fn fn;
    char *bytes_owned;       // content that was decoded, or read
    int from, to;            // OP_READ of a larger file, and memory that it is copied to
    struct hand_done done;   // with it: what the hand said of it
    bool is_copy, is_copied; // OP_MOVE between file systems
    uint64_t n, bytes;       // that were copied
};

void file_op_drop(struct call *call)
{
    struct file_call *f = call->state;
    struct op_run *run = f->run;
    if (run == NULL)
        return;
    f->run = NULL;
    fd_close(run->from);
    fd_close(run->to);
    free(run->bytes_owned);
    free(run);
}

// What fails between two paths is told of the first, and may be about the second.
static struct err named(const struct file_op *op, const struct err *err)
{
    struct err better = *err;
    if (op->to == NULL)
        return better;
    if (err->sys_errno == EEXIST || err->sys_errno == ENOTEMPTY)
        (void)hand_error(err->sys_errno, op->to, &better);
    else if (err->sys_errno == ENOENT)
        (void)err_set(&better, ERR_NOT_FOUND, "there is no '%.90s', or no directory for '%.90s'",
                      op->from, op->to);
    return better;
}

static void finish(struct call *call, const struct file_op_result *result, const struct err *err)
{
    struct file_call *f = call->state;
    char *bytes = f->run->bytes_owned; // the result may be in it
    file_op_fn fn = f->run->fn;
    struct err better = {0};
    if (err != NULL)
        better = named(f->run->op, err);
    f->run->bytes_owned = NULL;
    file_op_drop(call);
    fn(call, result, err != NULL ? &better : NULL);
    free(bytes);
}

static void on_answer(struct call *call, struct hand_answer *answer, const struct err *err)
{
    if (err != NULL) {
        finish(call, NULL, err);
        return;
    }
    const struct file_op_result result = {.done = &answer->done, .data = answer->data};
    finish(call, &result, NULL);
}

static void start_work(struct call *call, enum hand_type type, const char *path, const char *path2);

static void on_work_done(void *data, const struct hand_ended *ended, const struct err *err)
{
    struct call *call = data;
    struct file_call *f = call->state;
    struct op_run *run = f->run;
    struct err failed = {0};
    const char *path = run->op->path != NULL ? run->op->path : run->op->from;
    call_ref(call);
    files_work_over(call);
    if (err != NULL || files_ended(ended, path, &failed) < 0) {
        finish(call, NULL, err != NULL ? err : &failed);
    } else if (run->is_copy && !run->is_copied) {
        run->is_copied = true;
        run->n = ended->n;
        run->bytes = ended->bytes;
        start_work(call, HAND_DELETE_TREE, run->op->from, NULL);
    } else {
        const struct file_op_result result = {.n = run->is_copy ? run->n : ended->n,
                                              .bytes = run->is_copy ? run->bytes : ended->bytes};
        finish(call, &result, NULL);
    }
    call_unref(call);
}

static void start_work(struct call *call, enum hand_type type, const char *path, const char *path2)
{
    static const struct hand_long_ops ops = {.done = on_work_done};
    const struct file_call *f = call->state;
    const struct hand_ask ask = {
        .type = type,
        .path = path,
        .path2 = path2,
        .flags = path2 != NULL && !f->run->op->replace.value ? HAND_NO_REPLACE : 0u,
    };
    files_work(call, &ask, &ops);
}

// Between file systems a move is a copy, and then the end of the original.
static void on_moved(struct call *call, struct hand_answer *answer, const struct err *err)
{
    struct file_call *f = call->state;
    if (err == NULL || err->sys_errno != EXDEV || call->req == NULL) {
        on_answer(call, answer, err);
        return;
    }
    f->run->is_copy = true;
    start_work(call, HAND_COPY, f->run->op->from, f->run->op->to);
}

// -- reading what does not come in one message

static void on_copied(struct call *call, const struct move_result *result)
{
    struct file_call *f = call->state;
    struct op_run *run = f->run;
    struct err err;
    size_t size = run->done.data_len;
    run->bytes_owned = malloc(size + 1);
    if (run->bytes_owned == NULL)
        abort();
    if (result == NULL || result->why != MOVE_COMPLETE ||
        pread(run->to, run->bytes_owned, size, 0) != (ssize_t)size) {
        (void)err_set(&err, ERR_UNAVAILABLE, "'%.200s' changed while it was read", run->op->path);
        finish(call, NULL, &err);
        return;
    }
    const struct hand_done done = run->done; // the run goes before its result is told
    const struct file_op_result all = {.done = &done, .data = run->bytes_owned};
    finish(call, &all, NULL);
}

static int start_copy(struct call *call, struct op_run *run, struct err *err)
{
    struct stat st;
    if (fstat(run->from, &st) < 0 || !S_ISREG(st.st_mode))
        return err_set(err, ERR_UNAVAILABLE, "the file cannot be read");
    if (st.st_size > FILE_OP_READ_MAX) {
        (void)err_set(err, ERR_EXHAUSTED,
                      "'%.100s' has more than %d bytes: GET it from /sandbox/{id}/files/...",
                      run->op->path, FILE_OP_READ_MAX);
        err->sys_errno = EFBIG;
        return -1;
    }
    run->done.data_len = (uint32_t)st.st_size;
    run->to = memfd_create("file", MFD_CLOEXEC);
    if (run->to < 0)
        return err_sys(err, errno, "make a file in memory");
    struct move_config config = {
        .from = run->from,
        .to = run->to,
        .length = (uint64_t)st.st_size,
    };
    return transfer_start(call, &config, on_copied, err);
}

static void on_read(struct call *call, struct hand_answer *answer, const struct err *err)
{
    struct file_call *f = call->state;
    struct err failed = {0};
    if (err != NULL || answer->fd < 0) {
        on_answer(call, answer, err);
        return;
    }
    f->run->from = TAKE_FD(answer->fd);
    f->run->done = answer->done;
    if (start_copy(call, f->run, &failed) < 0)
        finish(call, NULL, &failed);
}

// -- each kind

static void start_write(struct call *call, struct op_run *run)
{
    const struct file_op *op = run->op;
    struct file_put put = {.path = op->path, .data = op->content.data, .len = op->content.len};
    if (is_base64(op)) {
        run->bytes_owned = malloc(op->content.len / 4 * 3 + 3);
        if (run->bytes_owned == NULL)
            abort();
        put.data = run->bytes_owned;
        put.len = (size_t)decode(op, run->bytes_owned);
    }
    put.terms.flags = !op->parents.given || op->parents.value ? HAND_PARENTS : 0u;
    if (op->mode != NULL)
        put.terms.flags |= HAND_MODE;
    struct err ignored;
    if (op->mode != NULL)
        (void)file_mode_read(op->mode, &put.terms.mode, &ignored);
    file_put(call, &put, on_answer);
}

static void ask(struct call *call, enum hand_type type, unsigned flags, files_fn fn)
{
    const struct file_call *f = call->state;
    const struct file_op *op = f->run->op;
    struct err ignored;
    struct hand_ask ask = {
        .type = type,
        .path = op->path != NULL ? op->path : op->from,
        .path2 = op->to,
        .flags = flags | (op->mode != NULL ? HAND_MODE : 0u),
        .uid = op->user.uid,
        .gid = op->user.gid,
    };
    if (op->mode != NULL)
        (void)file_mode_read(op->mode, &ask.mode, &ignored);
    files_ask(call, &ask, fn);
}

static void begin(struct call *call, struct op_run *run)
{
    const struct file_op *op = run->op;
    switch (run->kind) {
    case OP_WRITE:
        start_write(call, run);
        break;
    case OP_READ:
        ask(call, HAND_READ, 0, on_read);
        break;
    case OP_STAT:
        ask(call, HAND_STAT, HAND_NO_FOLLOW, on_answer);
        break;
    case OP_MKDIR:
        ask(call, HAND_MKDIR, op->parents.value ? HAND_PARENTS : 0u, on_answer);
        break;
    case OP_MOVE:
        ask(call, HAND_MOVE, op->replace.value ? 0u : HAND_NO_REPLACE, on_moved);
        break;
    case OP_COPY:
        start_work(call, HAND_COPY, op->from, op->to);
        break;
    case OP_CHMOD:
        ask(call, HAND_CHMOD, 0, on_answer);
        break;
    case OP_CHOWN:
        ask(call, HAND_CHOWN, HAND_OWNER, on_answer);
        break;
    case OP_DELETE:
        if (op->recursive.value)
            start_work(call, HAND_DELETE_TREE, op->path, NULL);
        else
            ask(call, HAND_DELETE, 0, on_answer);
        break;
    case OP_MAX:
        break;
    }
}

void file_op_start(struct call *call, enum file_op_kind kind, const struct file_op *op,
                   file_op_fn fn)
{
    struct file_call *f = call->state;
    f->run = calloc(1, sizeof *f->run);
    if (f->run == NULL)
        abort();
    *f->run = (struct op_run){.kind = kind, .op = op, .fn = fn, .from = -1, .to = -1};
    begin(call, f->run);
}

// -- telling

static void show_etag(struct json *j, const struct hand_stat *st)
{
    char etag[HAND_ETAG + 2];
    files_etag(st, etag);
    show_str(j, "etag", etag);
}

static void show_content(struct json *j, const struct file_op *op, const struct file_op_result *r)
{
    size_t len = r->done->data_len;
    bool text = !is_base64(op) && utf8_valid(r->data, len);
    json_key(j, "content");
    if (text)
        json_put_strn(j, r->data, len);
    else
        json_put_base64(j, r->data, len);
    show_str(j, "encoding", text ? "utf-8" : "base64");
    show_int(j, "size", (int64_t)len);
    show_etag(j, &r->done->st);
}

static void show_count(struct json *j, const struct file_op_result *r)
{
    if (r->done != NULL)
        return; // one thing, at once
    show_int(j, "entries", (int64_t)r->n);
    show_int(j, "bytes", (int64_t)r->bytes);
}

void file_op_show(struct json *j, enum file_op_kind kind, const struct file_op *op,
                  const struct file_op_result *r)
{
    if (kind == OP_STAT) {
        files_show(j, op->path, &r->done->st, r->data);
        show_etag(j, &r->done->st);
        return;
    }
    if (op->path != NULL)
        show_str(j, "path", op->path);
    if (op->from != NULL) {
        show_str(j, "from", op->from);
        show_str(j, "to", op->to);
    }
    if (kind == OP_READ)
        show_content(j, op, r);
    if (kind == OP_WRITE) {
        json_key(j, "size");
        json_put_uint(j, r->done->st.size);
        show_etag(j, &r->done->st);
        show_bool(j, "created", r->done->existed == 0);
    }
    if (kind == OP_COPY || kind == OP_MOVE || kind == OP_DELETE)
        show_count(j, r);
}
