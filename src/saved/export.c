// SPDX-License-Identifier: Apache-2.0
// Archives whose other end is a client's pipe. They wait in no line, as they are as slow as their
// clients; there are so many at once.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "saved/errand-internal.h"
#include "store/sha256.h"

enum { STREAMS_MAX = 24, STREAMS_TENANT = 8 };

static void tell(struct errand *e, const struct err *err)
{
    e->on_disk(e->data, err);
}

static struct errand *new_stream(struct saved *saved, struct sandbox *s, int fd, disk_fn fn,
                                 void *data)
{
    struct errand *e = errand_new(saved, s, tell);
    e->on_disk = fn;
    e->data = data;
    e->pipe = fd;
    e->is_stream = true;
    saved->n_streams++;
    return e;
}

static unsigned streams_of(const struct saved *saved, int64_t tenant)
{
    unsigned n = 0;
    const struct errand *e;
    LIST_FOREACH(e, &saved->errands, all)
    {
        n += e->is_stream && sandbox_row(e->s)->tenant == tenant;
    }
    return n;
}

static int check_streams(const struct errand *e, struct err *err)
{
    const struct saved *saved = e->saved;
    if (saved->closing)
        return err_set(err, ERR_UNAVAILABLE, "the server ends");
    if (saved->n_streams > STREAMS_MAX)
        return err_set(err, ERR_UNAVAILABLE,
                       "%d exports and imports are under way already: try again later",
                       STREAMS_MAX);
    if (streams_of(saved, sandbox_row(e->s)->tenant) > STREAMS_TENANT)
        return err_set(err, ERR_UNAVAILABLE,
                       "%d exports and imports of yours are under way already: try again later",
                       STREAMS_TENANT);
    return 0;
}

// -- out

static void on_exported(void *data, const struct freight_result *result, const struct err *err)
{
    struct errand *e = data;
    (void)result;
    errand_end(e, err);
}

static void export_copy(struct errand *e, const struct err *err)
{
    if (err != NULL) {
        errand_end(e, err);
        return;
    }
    const struct freight_config config = {
        .making = e->making,
        .work = e->is_tree ? WORK_PACK_TREE : WORK_PACK_DISK,
        .image = e->is_tree ? sandbox_row(e->s)->image : NULL,
        .args = (const char *const *)e->args,
        .pipe = TAKE_FD(e->pipe),
    };
    (void)freight_start(e->saved, &config, on_exported, e);
}

void backup_export(struct saved *saved, struct sandbox *s, const struct backup_request *request,
                   int fd, disk_fn fn, void *data)
{
    struct err err = {0};
    struct errand *e = new_stream(saved, s, fd, fn, data);
    e->is_tree = request->dir != NULL;
    if (check_streams(e, &err) < 0 || errand_pack_args(e, request, &err) < 0 ||
        backup_check_source(s, &err) < 0)
        errand_end(e, &err);
    else
        errand_copy(e, export_copy);
}

// -- in

static const struct err cut = {ERR_UNAVAILABLE, ECANCELED,
                               "it was ended before all of the archive was there"};

// Whoever writes to the pipe sees that nobody reads any more, and says that it was not all.
static void import_end(struct errand *e, const struct err *err)
{
    if (err != NULL && e->err.code == ERR_NONE)
        e->err = *err;
    fd_close(TAKE_FD(e->pipe));
    e->has_ended = true;
    errand_give_back(e);
    if (e->was_said)
        errand_end(e, e->err.code != ERR_NONE ? &e->err : NULL);
}

static void on_replaced(struct errand *e, const struct err *err)
{
    if (err == NULL) {
        sandbox_event(e->s, "imported", NULL);
        archive_forget(e);
    }
    import_end(e, err);
}

static void replace(struct errand *e, const struct err *err)
{
    if (err != NULL) {
        import_end(e, err);
        return;
    }
    archive_remember(e);
    errand_replace(e, on_replaced);
}

static void finish_import(struct errand *e)
{
    if (!e->is_whole)
        import_end(e, &cut);
    else if (e->is_held)
        replace(e, NULL);
    else
        errand_hold(e, "import", replace);
}

static void on_unpacked(void *data, const struct freight_result *result, const struct err *err)
{
    struct errand *e = data;
    (void)result;
    e->freight = NULL;
    e->is_unpacked = err == NULL;
    if (err != NULL)
        import_end(e, err);
    else if (e->was_said)
        finish_import(e);
}

static void import_onto(struct errand *e, const struct err *err)
{
    if (err != NULL || (e->was_said && !e->is_whole)) {
        import_end(e, err != NULL ? err : &cut);
        return;
    }
    const struct freight_config config = {
        .making = e->making,
        .work = e->is_tree ? WORK_UNPACK_TREE : WORK_UNPACK_DISK,
        .image = e->is_tree ? sandbox_row(e->s)->image : NULL,
        .args = (const char *const *)e->args,
        .pipe = TAKE_FD(e->pipe),
        .sha256 = e->has_sha256 ? e->sha256 : NULL,
    };
    e->freight = freight_start(e->saved, &config, on_unpacked, e);
}

static void import_copy(struct errand *e, const struct err *err)
{
    if (err != NULL)
        import_end(e, err);
    else
        errand_copy(e, import_onto);
}

static int prepare_import(struct errand *e, const char *dir, const char *sha256, struct err *err)
{
    if (check_streams(e, err) < 0 || sandbox_has_disk(e->s, err) < 0 ||
        errand_check_dir(dir, err) < 0)
        return -1;
    e->has_sha256 = sha256 != NULL;
    if (sha256 != NULL && !sha256_from_hex(sha256, e->sha256))
        return err_set(err, ERR_INVALID, "sha256: must be 64 hexadecimal digits, small letters");
    return dir != NULL ? errand_arg(e, dir, err) : 0;
}

struct importing *backup_import(struct saved *saved, struct sandbox *s, const char *dir,
                                const char *sha256, int fd, disk_fn fn, void *data)
{
    struct err err = {0};
    struct errand *e = new_stream(saved, s, fd, fn, data);
    e->is_tree = dir != NULL;
    e->is_import = true;
    if (prepare_import(e, dir, sha256, &err) < 0)
        import_end(e, &err);
    else if (e->is_tree)
        errand_hold(e, "import", import_copy);
    else
        errand_make_disk(e, (uint64_t)sandbox_row(s)->disk, import_onto);
    return (struct importing *)e;
}

void backup_import_over(struct importing *importing, enum import_over how)
{
    struct errand *e = (struct errand *)importing;
    e->was_said = true;
    if (e->saved->closing) {
        how = IMPORT_CUT;
        errand_tell(e, &cut); // whoever asked does not last as long as this
    }
    e->is_whole = how == IMPORT_WHOLE;
    if (how == IMPORT_CUT && e->err.code == ERR_NONE)
        e->err = cut;
    if (e->has_ended)
        errand_end(e, e->err.code != ERR_NONE ? &e->err : NULL);
    else if (how == IMPORT_CUT && e->freight != NULL)
        freight_stop(e->freight);
    else if (e->is_unpacked)
        finish_import(e);
}
