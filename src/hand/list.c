// SPDX-License-Identifier: Apache-2.0
// HAND_LIST: a record for each entry of a directory, or of a tree.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "hand/hand-internal.h"
#include "hand/walk.h"

static int tell(struct work *work, const struct walk_entry *e)
{
    char target[HAND_PATH_MAX];
    struct hand_entry rec = {.path_len = (uint32_t)e->path_len};
    struct work_text texts[] = {
        {e->path, e->path_len},
        {target,  0          },
    };
    hand_fill_stat(&rec.st, &e->st);
    if (rec.st.kind == HAND_SYMLINK) {
        ssize_t n = readlinkat(e->dir, e->name, target, sizeof target);
        texts[1].len = n > 0 ? (size_t)n : 0;
    }
    rec.link_len = (uint32_t)texts[1].len;
    work->n++;
    return work_record(work, HAND_REC_ENTRY, &rec, sizeof rec, texts, 2);
}

static uint64_t still_wanted(const struct work *work)
{
    enum { SLACK = 64 }; // some may vanish before they are looked at
    uint64_t limit = work->req->limit;
    return limit == 0 || limit > UINT32_MAX ? UINT64_MAX : limit - work->n + SLACK;
}

// What is left out, of a request that was checked.
static const char *excluded(const struct hand_texts *t)
{
    static char globs[HAND_DATA_MAX + 2];
    struct hand_list head;
    if (t->data_len == 0)
        return NULL;
    memcpy(&head, t->data, sizeof head);
    size_t before = sizeof head + head.after_len + 1;
    if (t->data_len <= before || t->data_len - before > HAND_DATA_MAX)
        return NULL;
    return hand_globs_split(t->data + before, t->data_len - before - 1, globs);
}

int work_list(struct work *work)
{
    const struct hand_request *req = work->req;
    struct walk_how how = {
        .recursive = req->flags & HAND_RECURSIVE,
        .hidden = req->flags & HAND_HIDDEN,
        .after = work->texts.data_len > 0 ? work->texts.data + sizeof(struct hand_list) : "",
    };
    int follow = req->flags & HAND_NO_FOLLOW ? O_NOFOLLOW : 0;
    int dir = hand_open(AT_FDCWD, work->texts.path, O_RDONLY | O_DIRECTORY | follow);
    if (dir < 0)
        return work_failed(work, work->texts.path, -dir);
    const char *exclude = excluded(&work->texts);
    walk_need(exclude == NULL ? still_wanted(work) : UINT64_MAX);
    int r = walk_begin(dir, &how);
    while (r == 0 && (req->limit == 0 || work->n < req->limit)) {
        struct walk_entry entry;
        walk_need(exclude == NULL ? still_wanted(work) : UINT64_MAX);
        r = walk_next(&entry);
        if (r <= 0)
            break;
        if (hand_globs_have(exclude, entry.name)) {
            walk_pass();
            r = 0;
            continue;
        }
        r = tell(work, &entry);
        if (r == 0)
            r = work_tick(work);
    }
    const char *missed = work->texts.path;
    if (r == 0 && (r = -walk_missed(&missed)) == 0)
        return 0;
    return work_failed(work, missed, -r);
}
