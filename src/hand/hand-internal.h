// SPDX-License-Identifier: Apache-2.0
// What the hand's files share. Functions answer 0 (or a descriptor, or a count) or -errno.
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "wire/hand-msg.h"

struct hand_texts { // of a request that was checked
    const char *path, *path2;
    const char *data;
    size_t data_len;
};

// --- request.c

// Checks a message of `len` bytes, a head at least; ret points into it. Whoever works on a request
// may rely on: known flags, mode at most 0777, an ended etag, paths that are absolute and canonical
// (path is any text with HAND_LINK), and data that is what its struct says.
int hand_check(const struct hand_request *req, size_t len, struct hand_texts *ret);
bool hand_is_long(uint16_t type);
enum { HAND_GLOB_MAX = 1024 };

// --- path.c: paths are the box's, and what they lead to may change at any moment

void hand_fill_stat(struct hand_stat *ret, const struct stat *st);
// A descriptor, close-on-exec. Never through the links of /proc, which lead to our own descriptors.
int hand_open(int dirfd, const char *path, int flags);
// As hand_open, but through no link at all and not above dirfd: for walking trees.
int hand_open_beneath(int dirfd, const char *path, int flags);
// A directory on the same mount; one that something is mounted on: EBUSY.
int hand_open_inside(int dirfd, const char *name);
// For reading, if it is a regular file with content of its own; nothing else is ever opened, so
// that no FIFO or device notices. EISDIR, EINVAL.
int hand_open_file(int dirfd, const char *path, int flags, struct stat *ret_st);
bool hand_is_made_up(int fd); // by the kernel, as it is read: /proc, /sys and the like
// Opens the directory above a path (O_PATH) and points to the last component. With `make`, missing
// directories are made. "/" has none: EBUSY.
int hand_open_parent(const char *path, bool make, const char **ret_name);

// --- passing.c: names that something has for a moment, in the place of which it then gets its own

enum { HAND_PASSING_SIZE = sizeof ".cay-" + 16 };
void hand_passing_init(void); // before anything is started that is to know those of the others
void hand_passing_name(char ret[HAND_PASSING_SIZE]);
bool hand_is_passing(const char *name); // one of this hand's, or of what it has started
int hand_give_name(int fd, int dir, const char *name); // to a file that has none (O_TMPFILE)

// --- draft.c: a new file, in the directory where it will be but without a name until then

struct hand_place { // where a file is or will be
    int dir;
    char name[NAME_MAX + 1];
};
// Follows a last component that is a link, also one that dangles.
int hand_place(const char *path, bool make_parents, struct hand_place *ret);

struct hand_draft {
    struct hand_place place;
    int fd;                       // to write to
    char temp[HAND_PASSING_SIZE]; // its name, on file systems where it must have one; or ""
};
struct hand_terms {
    // EXCLUSIVE, EXISTING, MODE, OWNER, ETAG_GIVEN; with NO_FOLLOW a link that is there now is
    // replaced, else it is ELOOP.
    uint32_t flags;
    uint32_t mode, uid, gid;
    char etag[HAND_ETAG];
};
int hand_draft_open(struct hand_draft *draft, struct hand_place *take_place, // taken on success
                    const struct hand_terms *terms);
// Now it is there, whole, instead of what was. On failure it is still a draft.
int hand_draft_commit(struct hand_draft *draft, const struct hand_terms *terms, bool *ret_existed,
                      struct stat *ret_st);
void hand_draft_done(struct hand_draft *draft);

// --- quick requests: ops.c, write.c

struct hand_reply {
    struct hand_done done;
    const char *data; // done.data_len bytes
    int fd;           // sent along
    bool lent;        // it is not closed afterwards
};
int hand_read(const struct hand_request *req, const struct hand_texts *texts,
              struct hand_reply *ret);
int hand_stat(const struct hand_request *req, const struct hand_texts *texts,
              struct hand_reply *ret);
int hand_mkdir(const struct hand_request *req, const struct hand_texts *texts,
               struct hand_reply *ret);
int hand_move(const struct hand_request *req, const struct hand_texts *texts,
              struct hand_reply *ret);
int hand_chmod(const struct hand_request *req, const struct hand_texts *texts,
               struct hand_reply *ret);
int hand_chown(const struct hand_request *req, const struct hand_texts *texts,
               struct hand_reply *ret);
int hand_delete(const struct hand_request *req, const struct hand_texts *texts,
                struct hand_reply *ret);
int hand_link(const struct hand_request *req, const struct hand_texts *texts,
              struct hand_reply *ret);
int hand_write(const struct hand_request *req, const struct hand_texts *texts,
               struct hand_reply *ret);
int hand_create(const struct hand_request *req, const struct hand_texts *texts,
                struct hand_reply *ret);
int hand_commit(const struct hand_request *req, const struct hand_texts *texts,
                struct hand_reply *ret);
int hand_abort(const struct hand_request *req, const struct hand_texts *texts,
               struct hand_reply *ret);

// Files that are being written, when nobody will commit them any more.
void hand_drop_file(uint64_t handle);
void hand_drop_files(void);

// --- long requests: each is a process of its own with this in hand

struct work {
    const struct hand_request *req;
    struct hand_texts texts;
    int out; // the pipe to the daemon, blocking: a reader that stops stops us
    int in;  // HAND_TAR_IN
    uint64_t n, bytes;
    char path[256]; // where it failed
    bool progress;  // work_tick tells of n and bytes now and then
};
typedef int (*work_fn)(struct work *work); // they end when the pipe is closed (EPIPE)
int work_list(struct work *work);
int work_delete_tree(struct work *work);
int work_copy(struct work *work);
int work_search(struct work *work);
int work_replace(struct work *work);
int work_tar_out(struct work *work);
int work_tar_in(struct work *work);
int work_watch(struct work *work);

// Writes a record (head filled in) and its texts, padded. Records are gathered: they leave with
// work_flush, when they are many, with work_tick, and in the end.
struct work_text {
    const char *at;
    size_t len;
};
int work_record(struct work *work, uint32_t type, void *rec, size_t rec_len,
                const struct work_text *texts, unsigned n_texts);
int work_flush(struct work *work);
// To be called often: a few times a second it flushes, tells of progress, and notices a closed
// pipe.
int work_tick(struct work *work);
// Remembers where it failed and returns -sys_errno.
int work_failed(struct work *work, const char *path, int sys_errno);

// --- job.c: the table of long requests

int job_init(void);
// Answers in ret the daemon's ends of the pipes: n_fds of them, to be sent and closed.
int job_start(const struct hand_request *req, const struct hand_texts *texts, int ret_fds[2],
              unsigned *ret_n);
void job_cancel(uint32_t id);
void job_forget(uint32_t id); // it could not be told of: it is killed, and nothing is said
// The next one that has ended, or NULL. Never waits.
const struct hand_ended *job_next_ended(void);
void job_kill_all(void);

// --- copy.c

// Copies what is from `from` to `end` (or the end of the file, if that comes first) to where `out`
// stands; holes stay holes. Counts into work->bytes.
int work_copy_bytes(struct work *work, int in, int out, uint64_t from, uint64_t end);

// --- glob.c

// * ? [a-z] [!a-z] and a backslash before what is meant as it is. Time: their lengths multiplied.
bool hand_glob(const char *pattern, const char *name);
// A list of them by commas as texts one behind the other, the last one empty, in `to`, which has
// room for len + 2 bytes. NULL: there is none in it.
char *hand_globs_split(const char *list, size_t len, char *to);
bool hand_globs_have(const char *globs, const char *name); // takes NULL
