// SPDX-License-Identifier: Apache-2.0
// Files that get new content: at once (HAND_WRITE), or through a descriptor that the daemon writes
// to (HAND_CREATE, then HAND_COMMIT or HAND_ABORT).
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/fd.h"
#include "hand/hand-internal.h"

struct open_file {
    uint64_t handle; // 0: free
    struct hand_draft draft;
    struct hand_terms terms;
};

static struct open_file files[HAND_OPEN_MAX];
static uint64_t last_handle; // never used again, so that a late message hits nothing

static struct hand_terms terms_of(const struct hand_request *req)
{
    struct hand_terms terms = {
        .flags = req->flags,
        .mode = req->mode,
        .uid = req->uid,
        .gid = req->gid,
    };
    memcpy(terms.etag, req->etag, sizeof terms.etag);
    return terms;
}

static int open_draft(const struct hand_request *req, const char *path,
                      const struct hand_terms *terms, struct hand_draft *ret)
{
    struct hand_place place;
    int r = hand_place(path, req->flags & HAND_PARENTS, &place);
    if (r < 0) // what is not there has no etag
        return r == -ENOENT && (req->flags & HAND_ETAG_GIVEN) ? -ESTALE : r;
    r = hand_draft_open(ret, &place, terms);
    fd_close(place.dir);
    return r;
}

static int finish(struct hand_draft *draft, const struct hand_terms *terms, struct hand_reply *ret)
{
    struct stat st;
    bool existed = false;
    int r = hand_draft_commit(draft, terms, &existed, &st);
    if (r == 0) {
        ret->done.existed = existed;
        hand_fill_stat(&ret->done.st, &st);
    }
    return r;
}

static int try_write(const struct hand_request *req, const struct hand_texts *texts,
                     struct hand_reply *ret)
{
    struct hand_terms terms = terms_of(req);
    struct hand_draft draft;
    int r = open_draft(req, texts->path, &terms, &draft);
    if (r < 0)
        return r;
    r = fd_write_all(draft.fd, texts->data, texts->data_len);
    if (r == 0)
        r = finish(&draft, &terms, ret);
    hand_draft_done(&draft);
    return r;
}

int hand_write(const struct hand_request *req, const struct hand_texts *texts,
               struct hand_reply *ret)
{
    enum { TRIES_MAX = 8 }; // links may appear under our hands; or they lead nowhere after all
    int r = -ELOOP;
    for (int tries = 0; r == -ELOOP && tries < TRIES_MAX; tries++)
        r = try_write(req, texts, ret);
    return r;
}

static struct open_file *find(uint64_t handle)
{
    for (unsigned i = 0; i < HAND_OPEN_MAX; i++)
        if (files[i].handle == handle)
            return &files[i];
    return NULL;
}

// A hand that is killed has another one after it, to which what was begun with the first is still
// said: the numbers of one must not be those of the other.
static uint64_t next_handle(void)
{
    if (last_handle == 0 && getrandom(&last_handle, sizeof last_handle, GRND_NONBLOCK) < 0)
        last_handle = (uint64_t)getpid() << 32;
    return ++last_handle != 0 ? last_handle : ++last_handle;
}

int hand_create(const struct hand_request *req, const struct hand_texts *texts,
                struct hand_reply *ret)
{
    struct open_file *file = find(0);
    if (file == NULL)
        return -EMFILE;
    file->terms = terms_of(req);
    int r = open_draft(req, texts->path, &file->terms, &file->draft);
    if (r < 0)
        return r;
    file->handle = next_handle();
    file->terms.flags |= HAND_NO_FOLLOW; // the name was found: what is there in the end goes
    ret->done.handle = file->handle;
    ret->fd = file->draft.fd;
    ret->lent = true;
    return 0;
}

static void forget(struct open_file *file)
{
    hand_draft_done(&file->draft);
    file->handle = 0;
}

int hand_commit(const struct hand_request *req, const struct hand_texts *texts,
                struct hand_reply *ret)
{
    (void)texts;
    struct open_file *file = req->handle > 0 ? find(req->handle) : NULL;
    if (file == NULL)
        return -EBADF;
    int r = finish(&file->draft, &file->terms, ret);
    forget(file); // also when it failed: whoever wants to try again must write again
    return r;
}

int hand_abort(const struct hand_request *req, const struct hand_texts *texts,
               struct hand_reply *ret)
{
    (void)texts;
    (void)ret;
    struct open_file *file = req->handle > 0 ? find(req->handle) : NULL;
    if (file == NULL)
        return -EBADF;
    forget(file);
    return 0;
}

void hand_drop_file(uint64_t handle)
{
    struct open_file *file = find(handle);
    if (file != NULL)
        forget(file);
}

void hand_drop_files(void)
{
    for (unsigned i = 0; i < HAND_OPEN_MAX; i++)
        if (files[i].handle != 0)
            forget(&files[i]);
}
