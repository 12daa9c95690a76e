// SPDX-License-Identifier: Apache-2.0
#include "git/changes.h"

#include <stdio.h>
#include <string.h>

#include "base/show.h"
#include "git/snapshot-internal.h"

enum { OF_MOMENT = 1 }; // litter: the first two that are the moment's; before them our own

struct changes_work {
    struct snapshot snapshot;
    git_changes_fn fn;
    void *data;
    bool diff, without_binaries;
    char excludes[GIT_PATH_MAX];
    struct buf files;
    struct git_changes found;
};

static void tell(struct git_work *work, const struct git_fault *fault)
{
    struct changes_work *w = (struct changes_work *)work;
    w->fn(w->data, fault == NULL ? &w->found : NULL, fault);
}

static void release(struct git_work *work)
{
    buf_done(&((struct changes_work *)work)->files);
    snapshot_release(work);
}

// -- what git has said: all changes, then as many counts of lines, then the text

struct counts {
    bool known; // else it is no text
    long long added, removed;
};

// "ADDED\tREMOVED\tpath" NUL, or with "-" twice; of a rename the path is empty, and two follow.
static bool counts_next(const struct buf *out, size_t *at, struct counts *ret)
{
    if (*at >= out->len)
        return false;
    const char *text = out->data + *at, *tab = strchr(text, '\t');
    const char *path = tab != NULL ? strchr(tab + 1, '\t') : NULL;
    if (path == NULL)
        return false;
    *ret = (struct counts){0};
    ret->known = sscanf(text, "%lld\t%lld\t", &ret->added, &ret->removed) == 2;
    size_t next = *at + strlen(text) + 1;
    for (int i = 0; path[1] == '\0' && i < 2 && next < out->len; i++)
        next += strlen(out->data + next) + 1;
    *at = next < out->len ? next : out->len; // the last one may be cut
    return true;
}

static void show_count(struct json *j, const char *key, const struct counts *c, long long n)
{
    if (c->known)
        show_int(j, key, n);
    else
        show_raw(j, key, NULL);
}

static void show_change(struct json *j, const struct change *c, const struct counts *counts)
{
    json_open_object(j);
    show_str(j, "path", c->path);
    show_str(j, "status", git_change_name(c->status == 'T' ? 'M' : c->status));
    if (c->old != NULL)
        show_str(j, "old", c->old);
    show_count(j, "added", counts, counts->added);
    show_count(j, "removed", counts, counts->removed);
    json_close_object(j);
}

// Whether one more surely fits: a byte takes six at most, and there is the rest of it.
static bool has_room(const struct buf *files, const struct change *c)
{
    size_t names = strlen(c->path) + (c->old != NULL ? strlen(c->old) : 0);
    return files->len + 6 * names + 256 < files->max;
}

// Where the text begins.
static size_t show_changes(struct changes_work *w, const struct buf *out)
{
    struct json j;
    struct change change;
    struct counts counts;
    size_t raw = 0, stats = 0;
    while (change_next(out, &stats, &change))
        ;
    json_init(&j, &w->files);
    json_open_array(&j);
    for (unsigned n = 0; change_next(out, &raw, &change);) {
        bool told = n < GIT_FILES_MAX && has_room(&w->files, &change);
        counts = (struct counts){0};
        (void)counts_next(out, &stats, &counts);
        if (told)
            show_change(&j, &change, &counts);
        else
            w->found.files_truncated = true;
        n += told;
    }
    json_close_array(&j);
    return stats + (stats < out->len); // a NUL between them
}

// So much of it as is kept, up to the end of a line.
static void cut(struct buf *diff, bool *truncated)
{
    if (diff->len > GIT_DIFF_MAX) {
        const char *end = memrchr(diff->data, '\n', GIT_DIFF_MAX);
        diff->len = end != NULL ? (size_t)(end + 1 - diff->data) : GIT_DIFF_MAX;
        diff->data[diff->len] = '\0';
        *truncated = true;
    }
}

#define WITH_DIFF "--find-renames", "--numstat", "--patch", "--src-prefix=a/", "--dst-prefix=b/"

static void on_compared(struct snapshot *snapshot)
{
    static const char *const without_binaries[] = {WITH_DIFF, NULL};
    struct changes_work *w = (struct changes_work *)snapshot;
    struct buf *out = &snapshot->out;
    bool too_long = snapshot->out_truncated || out->len > GIT_DIFF_MAX;
    if (w->diff && too_long && !w->without_binaries) { // so that the texts may fit
        w->without_binaries = true;
        snapshot_compare_again(snapshot, without_binaries);
        return;
    }
    buf_consume(out, show_changes(w, out));
    cut(out, &w->found.truncated);
    w->found.truncated |= w->diff && snapshot->out_truncated;
    w->found.files_truncated |= snapshot->out_truncated && out->len == 0;
    w->found.diff = out;
    w->found.files = &w->files;
    git_finish(&snapshot->work);
}

static void on_taken(struct snapshot *snapshot)
{
    static const char *const with_diff[] = {WITH_DIFF, "--binary", NULL}; // for `git apply`
    static const char *const without[] = {"--find-renames", "--numstat", NULL};
    bool diff = ((struct changes_work *)snapshot)->diff;
    snapshot_compare(snapshot, diff ? with_diff : without, on_compared);
}

static void take(struct git_work *work)
{
    snapshot_take((struct snapshot *)work, on_taken);
}

// What the moment's own repository has is read; a new one is made, as somebody may have been at it.
static void begin_at(struct changes_work *w, const struct git_moment *moment)
{
    struct snapshot *s = &w->snapshot;
    struct git_work *work = &s->work;
    (void)snprintf(s->top, sizeof s->top, "%s", moment->dir);
    (void)snprintf(s->base, sizeof s->base, "%s",
                   strcmp(moment->id, "empty") == 0 ? EMPTY_TREE : moment->id);
    (void)snprintf(s->objects[0], sizeof s->objects[0], "%s", moment->objects);
    if (moment->own[0] == '\0')
        return;
    (void)snprintf(s->objects[1], sizeof s->objects[1], "%s/objects", moment->own);
    moment_excludes(moment->own, w->excludes);
    work->excludes = w->excludes;
    (void)snprintf(work->litter[OF_MOMENT], sizeof *work->litter, "%s", moment->own);
    (void)snprintf(work->litter[OF_MOMENT + 1], sizeof *work->litter, "%s", w->excludes);
}

struct git_work *git_changes_since(struct db *db, struct sandbox *s,
                                   const struct git_moment *moment, bool diff, int64_t timeout_ms,
                                   git_changes_fn fn, void *data)
{
    struct changes_work *w = snapshot_new(sizeof *w, s, timeout_ms, tell);
    (void)db;
    w->snapshot.work.release = release;
    w->fn = fn;
    w->data = data;
    w->diff = diff;
    buf_init(&w->files, GIT_NAMES_MAX);
    begin_at(w, moment);
    return git_begin(&w->snapshot.work, take);
}

void git_changes_leave(struct git_work *work)
{
    if (work != NULL)
        work->litter[OF_MOMENT][0] = work->litter[OF_MOMENT + 1][0] = '\0';
    git_cancel(work);
}
