// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "git/check.h"
#include "git/snapshot-internal.h"

// -- as text: "1,ID,OWN,OBJECTS,DIR"

static bool is_plain(char c)
{
    return c != '\0' &&
           strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-", c) != NULL;
}

static void put_word(struct buf *buf, const char *word)
{
    (void)buf_append_char(buf, ',');
    for (; *word != '\0'; word++) {
        if (is_plain(*word))
            (void)buf_append_char(buf, *word);
        else
            (void)buf_printf(buf, "%%%02x", (unsigned)(unsigned char)*word);
    }
}

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int take_word(const char **p, char *ret, size_t size)
{
    size_t n = 0;
    if (*(*p)++ != ',')
        return -1;
    for (; **p != '\0' && **p != ','; (*p)++) {
        char c = **p;
        if (c == '%') {
            int high = hex((*p)[1]), low = high < 0 ? -1 : hex((*p)[2]);
            c = (char)(high * 16 + low);
            if (low < 0 || is_plain(c) || c == '\0')
                return -1;
            *p += 2;
        } else if (!is_plain(c)) {
            return -1;
        }
        if (n + 1 >= size)
            return -1;
        ret[n++] = c;
    }
    ret[n] = '\0';
    return 0;
}

static bool is_id(const char *text)
{
    size_t len = strlen(text);
    return strcmp(text, "empty") == 0 ||
           ((len == 40 || len == 64) && strspn(text, "0123456789abcdef") == len);
}

static bool is_dir_or_none(const char *dir)
{
    struct err ignored;
    return dir[0] == '\0' || git_check_dir(dir, &ignored) == 0;
}

static struct git_moment *moment_new(void)
{
    struct git_moment *moment = calloc(1, sizeof *moment);
    if (moment == NULL)
        abort();
    return moment;
}

void git_moment_free(struct git_moment *moment)
{
    if (moment != NULL)
        free(moment->text);
    free(moment);
}

static struct git_moment *moment_write(struct git_moment *moment)
{
    struct buf buf;
    buf_init(&buf, 16 * GIT_PATH_MAX);
    (void)buf_append_char(&buf, '1');
    put_word(&buf, moment->id);
    put_word(&buf, moment->own);
    put_word(&buf, moment->objects);
    put_word(&buf, moment->dir);
    if (buf.failed != 0)
        abort(); // each has its most, three times of which is less
    moment->text = buf.data;
    return moment;
}

const char *git_moment_text(const struct git_moment *moment)
{
    return moment->text;
}

struct git_moment *git_moment_parse(const char *text)
{
    struct git_moment *m = moment_new();
    const char *p = text;
    if (*p++ == '1' && take_word(&p, m->id, sizeof m->id) == 0 &&
        take_word(&p, m->own, sizeof m->own) == 0 &&
        take_word(&p, m->objects, sizeof m->objects) == 0 &&
        take_word(&p, m->dir, sizeof m->dir) == 0 && *p == '\0' && is_id(m->id) &&
        is_dir_or_none(m->own) && is_dir_or_none(m->objects) && is_dir_or_none(m->dir) &&
        m->dir[0] == '/')
        return moment_write(m);
    git_moment_free(m);
    return NULL;
}

void moment_excludes(const char *own, char ret[GIT_PATH_MAX])
{
    (void)snprintf(ret, GIT_PATH_MAX, "%.*s-exclude", GIT_PATH_MAX - 16, own);
}

// -- those that cost nothing

struct git_moment *git_moment_empty(const char *dir)
{
    struct git_moment *moment = moment_new();
    (void)snprintf(moment->id, sizeof moment->id, "empty");
    (void)snprintf(moment->dir, sizeof moment->dir, "%s", dir);
    return moment_write(moment);
}

struct git_moment *git_moment_clone(const struct git_cloned *cloned)
{
    struct git_moment *moment = git_moment_empty(cloned->dir);
    if (cloned->commit[0] == '\0')
        return moment;
    (void)snprintf(moment->id, sizeof moment->id, "%s", cloned->commit);
    (void)snprintf(moment->objects, sizeof moment->objects, "%s/.git/objects", cloned->dir);
    free(moment->text);
    return moment_write(moment);
}

// -- any other

struct moment_work {
    struct snapshot snapshot;
    git_moment_fn fn;
    void *data;
    char exclude[GIT_PATH_MAX]; // the repository's own; "": none
    char kept[GIT_PATH_MAX];    // a copy of it
    struct git_moment *moment;
};

static void tell(struct git_work *work, const struct git_fault *fault)
{
    struct moment_work *w = (struct moment_work *)work;
    struct git_moment *moment = w->moment;
    w->moment = NULL;
    w->fn(w->data, moment, fault);
}

static void on_tree(struct git_work *work, struct exec_result *result)
{
    struct moment_work *w = (struct moment_work *)work;
    const char *text = buf_str(result->out);
    size_t len = strcspn(text, "\n");
    struct git_moment *moment = moment_new();
    if (len < sizeof moment->id)
        (void)snprintf(moment->id, sizeof moment->id, "%.*s", (int)len, text);
    if (git_exit_code(result) != 0 || !is_id(moment->id)) {
        git_moment_free(moment);
        git_fail_result(work, result);
        return;
    }
    (void)snprintf(moment->own, sizeof moment->own, "%s", work->own);
    (void)snprintf(moment->objects, sizeof moment->objects, "%s", w->snapshot.objects[0]);
    (void)snprintf(moment->dir, sizeof moment->dir, "%s", w->snapshot.top);
    w->moment = moment_write(moment);
    work->litter[0][0] = work->litter[1][0] = '\0'; // it has what the tree is made of
    git_finish(work);
}

static void write_tree(struct snapshot *snapshot)
{
    static const char *const args[] = {"write-tree", NULL};
    git_run(&snapshot->work, args, on_tree);
}

static void on_taken(struct snapshot *snapshot)
{
    static const char *const options[] = {"--no-renames", NULL};
    if (snapshot->base[0] != '\0')
        snapshot_compare(snapshot, options, write_tree);
    else
        write_tree(snapshot);
}

static void take(struct git_work *work)
{
    snapshot_take(&((struct moment_work *)work)->snapshot, on_taken);
}

static void on_excludes(struct git_work *work, struct exec_result *result)
{
    (void)result; // there need not be any
    take(work);
}

// What the repository leaves out beside .gitignore, as it is now: it may be changed before the end.
static void keep_excludes(struct git_work *work)
{
    struct moment_work *w = (struct moment_work *)work;
    moment_excludes(work->own, w->kept);
    (void)snprintf(work->litter[1], sizeof work->litter[1], "%s", w->kept);
    work->excludes = w->kept;
    const char *const argv[] = {"cp", "--", w->exclude, w->kept, NULL};
    git_run_tool(work, argv, on_excludes);
}

// Four lines: top, objects, exclusions, commit.
static bool read_place(struct moment_work *w, const char *text)
{
    struct snapshot *snapshot = &w->snapshot;
    struct err ignored;
    struct {
        char *to;
        size_t size;
    } lines[] = {
        {snapshot->top,        sizeof snapshot->top },
        {snapshot->objects[0], GIT_PATH_MAX         },
        {w->exclude,           sizeof w->exclude    },
        {snapshot->base,       sizeof snapshot->base},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        size_t len = strcspn(text, "\n");
        if (text[len] != '\n' || len >= lines[i].size)
            return false;
        (void)snprintf(lines[i].to, lines[i].size, "%.*s", (int)len, text);
        if (i < 3 && git_check_dir(lines[i].to, &ignored) < 0) {
            lines[i].to[0] = '\0';
            return false;
        }
        text += len + 1;
    }
    return is_id(snapshot->base);
}

// In no repository, or in one that git cannot read: then it is a directory like any other.
static void on_place(struct git_work *work, struct exec_result *result)
{
    struct moment_work *w = (struct moment_work *)work;
    struct snapshot *snapshot = &w->snapshot;
    char dir[GIT_PATH_MAX];
    (void)snprintf(dir, sizeof dir, "%s", snapshot->top);
    if (strstr(buf_str(result->err), "cannot change to") != NULL) {
        git_fail_result(work, result);
    } else if (read_place(w, buf_str(result->out))) {
        keep_excludes(work);
    } else {
        if (w->exclude[0] == '\0')
            (void)snprintf(snapshot->top, sizeof snapshot->top, "%s", dir);
        snapshot->objects[0][0] = snapshot->base[0] = '\0';
        if (w->exclude[0] != '\0') // it has no commit yet
            keep_excludes(work);
        else
            take(work);
    }
}

static void find_place(struct git_work *work)
{
    static const char *const args[] = {"rev-parse",
                                       "--path-format=absolute",
                                       "--show-toplevel",
                                       "--git-path",
                                       "objects",
                                       "--git-path",
                                       "info/exclude",
                                       "HEAD",
                                       NULL};
    git_run(work, args, on_place);
}

struct git_work *git_moment_take(struct db *db, struct sandbox *s, const char *dir,
                                 int64_t timeout_ms, git_moment_fn fn, void *data)
{
    struct moment_work *w = snapshot_new(sizeof *w, s, timeout_ms, tell);
    (void)db;
    w->fn = fn;
    w->data = data;
    (void)snprintf(w->snapshot.top, sizeof w->snapshot.top, "%s", dir);
    (void)snprintf(w->snapshot.work.dir, sizeof w->snapshot.work.dir, "%s", dir);
    return git_begin(&w->snapshot.work, find_place);
}

void git_moment_drop(struct sandbox *s, const struct git_moment *moment)
{
    if (moment->own[0] == '\0')
        return;
    struct git_work *work = git_work_new(sizeof *work, s, 0, NULL);
    char excludes[GIT_PATH_MAX];
    moment_excludes(moment->own, excludes);
    (void)snprintf(work->litter[0], sizeof work->litter[0], "%s", moment->own);
    (void)snprintf(work->litter[1], sizeof work->litter[1], "%s", excludes);
    git_cancel(work); // which removes them
}
