// SPDX-License-Identifier: Apache-2.0
// Restoring a backup. A whole disk does not depend on the one that is there: it is made beside it,
// and the sandbox is held only while one takes the place of the other. Of a directory the rest of
// the disk must stay as it is, so the sandbox is held from the copy on.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "saved/errand-internal.h"

static void tell(struct errand *e, const struct err *err)
{
    if (err != NULL)
        log_line(LOG_WARN, "restore failed, nothing was changed", "sandbox", sandbox_row(e->s)->id,
                 "backup", e->row.id, "error", err->msg, NULL);
    e->on_disk(e->data, err);
}

static void on_replaced(struct errand *e, const struct err *err)
{
    char data[128];
    if (err == NULL) {
        e->saved->stats.restores++;
        (void)snprintf(data, sizeof data, "{\"backup\":\"%s\"}", e->row.id);
        sandbox_event(e->s, "restored", data);
        archive_forget(e);
    }
    errand_end(e, err);
}

static void replace(struct errand *e, const struct err *err)
{
    if (err == NULL)
        archive_remember(e);
    if (err != NULL)
        errand_end(e, err);
    else
        errand_replace(e, on_replaced);
}

static void say_too_large(struct errand *e, struct err *err)
{
    if (err->code == ERR_EXHAUSTED)
        (void)err_wrap(err,
                       "the backup does not fit on the sandbox's disk (limits.disk is %lld "
                       "bytes)",
                       (long long)sandbox_row(e->s)->disk);
}

static void on_unpacked(struct errand *e, const struct err *err)
{
    struct err own;
    if (err != NULL) {
        own = *err;
        say_too_large(e, &own);
        errand_end(e, &own);
    } else if (e->is_held) {
        replace(e, NULL);
    } else {
        errand_hold(e, "restore", replace);
    }
}

static void unpack(struct errand *e, const struct err *err)
{
    if (err != NULL)
        errand_end(e, err);
    else
        errand_unpack(e, on_unpacked);
}

static void copy(struct errand *e, const struct err *err)
{
    if (err != NULL)
        errand_end(e, err);
    else
        errand_copy(e, unpack);
}

static void on_turn(struct errand *e, const struct err *err)
{
    if (err != NULL)
        errand_end(e, err);
    else if (errand_is_tree(e))
        errand_hold(e, "restore", copy);
    else
        errand_make_disk(e, (uint64_t)sandbox_row(e->s)->disk, unpack);
}

static int find(struct errand *e, const char *id, struct err *err)
{
    struct backup_row row = {0};
    int r = db_backup_get(e->saved->config.db, sandbox_row(e->s)->tenant, id, &row, err);
    if (r < 0)
        return -1;
    bool is_there =
        r > 0 && row.state == BACKUP_READY && (row.expires_ms == 0 || row.expires_ms > db_now_ms());
    if (!is_there || strcmp(row.kind, "archive") == 0) {
        backup_row_done(&row);
        return err_set(err, ERR_NOT_FOUND, "there is no backup '%.60s'", id);
    }
    return errand_set_row(e, &row, err);
}

static int check_target(struct errand *e, const char *dir, struct err *err)
{
    const struct sandbox_row *s = sandbox_row(e->s);
    if (sandbox_has_disk(e->s, err) < 0 || errand_check_dir(dir, err) < 0)
        return -1;
    if (errand_is_tree(e))
        return errand_arg(e, dir != NULL ? dir : e->row.dir, err);
    if (dir != NULL)
        return err_set(err, ERR_INVALID, "dir: this backup is of a whole disk");
    if (strcmp(e->row.image, s->image) != 0)
        return err_set(err, ERR_INVALID,
                       "this backup is of a whole disk above the image '%s', and the sandbox has "
                       "'%s': restore it into one with the same image",
                       e->row.image, s->image);
    return 0;
}

void backup_restore(struct saved *saved, struct sandbox *s, const char *id, const char *dir,
                    disk_fn fn, void *data)
{
    struct err err = {0};
    struct errand *e = errand_new(saved, s, tell);
    e->on_disk = fn;
    e->data = data;
    if (find(e, id, &err) < 0 || check_target(e, dir, &err) < 0 ||
        errand_wait_turn(e, LANE_IN, on_turn, &err) < 0)
        errand_end(e, &err);
}
