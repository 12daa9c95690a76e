// SPDX-License-Identifier: Apache-2.0
// The program cay-pack: what its works share. It works on a tree that guests have made, with names,
// contents and archives that are theirs, so nothing here follows a link on its way, and whatever
// goes wrong ends the work. Nobody else writes to the tree meanwhile (it is a copy).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/pack-msg.h"

enum {
    JOB_NAME_MAX = 64 * 1024, // of a path in an archive, and so of how deep a tree may be
    JOB_IDS = 65536,          // users of a box: an archive's others become nobody
    JOB_NOBODY = 65534,
};

struct ignore;

struct job {
    int top;            // the disk or the tree: /t
    const char *dir;    // absolute, below it; NULL for the works on disks
    bool is_disk;       // whiteouts and opaque directories are what they are
    int in, out;        // descriptors
    unsigned threads;   // 0: as many as there are processors
    uint64_t max_bytes; // of what is unpacked
    uint64_t max_entries;
    bool gitignore;
    struct ignore *ignore; // of --exclude and --include; never NULL
    uint64_t entries, bytes, skipped;
};

int job_pack(struct job *job, struct err *err);   // pack.c
int job_unpack(struct job *job, struct err *err); // unpack.c
int job_sync(struct job *job, struct err *err);   // sync.c
int job_unsync(struct job *job, struct err *err); // unsync.c

// tree.c: places in the tree.
// The directory that is worked on, for reading; links on the way to it lead to where a box would
// get, the last name may be none.
int tree_open(const struct job *job, struct err *err);
// A new empty directory beside the one that is worked on, and the directory of both.
struct tree_new {
    int parent, fd;
    char name[256]; // of the old
};
int tree_begin(const struct job *job, struct tree_new *ret, struct err *err);
// The old one goes, the new one takes its name. Closes the descriptors.
int tree_commit(const struct job *job, struct tree_new *new, struct err *err);
void tree_abort(struct tree_new *new); // takes one that was committed
// Everything that is in the directory, however deep.
int tree_empty(int dir, struct err *err);

// write-early.c: of a file that is being written, `to` bytes by now, of which the first `from` are
// on their way to the disk. So many are it afterwards.
uint64_t write_early(int fd, uint64_t from, uint64_t to, bool is_whole);

// A name for a message: without bytes that are no text, shortened in front.
const char *shown(const char *path, char ret[100]);
