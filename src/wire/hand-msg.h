// SPDX-License-Identifier: Apache-2.0
// What the daemon asks the hand, and what it hears. The hand is a process in the box, root there,
// that does file work: user code may stop or kill it, and what it says is checked like any
// stranger's word. One SOCK_SEQPACKET socket; requests are answered in any order, by id.
//
// Quick requests are done at once and answered with HAND_DONE. Long ones (from HAND_LIST on) run in
// a process of their own: HAND_DONE brings the end of a pipe from which their output is read (and
// HAND_TAR_IN's to which its input is written), and HAND_ENDED comes when they have ended. Whoever
// closes the pipe ends them; HAND_CANCEL does too (a second one at once). HAND_DONE refuses what is
// no request (EINVAL, ENAMETOOLONG, ENOSYS) or too much (EAGAIN); all that has to do with files,
// also a path that is not there, is told by HAND_ENDED.
#pragma once

#include <stdint.h>

#include "wire/wire.h"

enum hand_type {
    HAND_READ = 1, // path: a regular file. Its content comes along when it is at most HAND_INLINE
                   // bytes long, else its descriptor
    HAND_STAT,     // path (not following a last symbolic link with HAND_NO_FOLLOW)
    HAND_WRITE,    // path, data: the file has this content afterwards, or what it had before
    HAND_CREATE,   // path: descriptor of a new file that has no name yet, and its number `handle`;
                   // conditions hold now and at HAND_COMMIT. EMFILE: too many
    HAND_COMMIT,   // handle: the new file replaces what has its name. EBADF: none of that number.
                   // Done or failed, the handle is gone
    HAND_ABORT,    // handle: it goes
    HAND_MKDIR,    // path; with HAND_PARENTS those above it too
    HAND_MOVE,     // path to path2: rename; between file systems EXDEV
    HAND_CHMOD,    // path, mode
    HAND_CHOWN,    // path, uid, gid
    HAND_DELETE,   // path: a file, a link, an empty directory
    HAND_LINK,     // path2 becomes a symbolic link to the text `path`
    HAND_CANCEL,   // handle: the id of a long request. No answer of its own
    // long
    HAND_LIST = 64,   // path: hand_entry records, in the order of their names
    HAND_DELETE_TREE, // path and all below it; hand_progress records
    HAND_COPY,        // path to path2, with all below it; hand_progress records
    HAND_SEARCH,      // path; data: hand_search. hand_match records
    HAND_REPLACE,     // path; data: hand_search with a replacement. hand_match records of the files
    HAND_TAR_OUT,     // path; data: hand_tar. A tar archive of it
    HAND_TAR_IN,      // path: a tar archive is unpacked below it; two pipes: output, input
    HAND_WATCH,       // path; data: hand_watch. hand_change records until it is cancelled
    // answers
    HAND_DONE = 128,
    HAND_ENDED,
    HAND_TYPE_MAX,
};

enum {
    HAND_INLINE = 32 * 1024, // bytes of a small file
    HAND_PATH_MAX = 4096,    // with its NUL
    HAND_DATA_MAX = 48 * 1024,
    HAND_OPEN_MAX = 256, // files being written, at once
    HAND_LONG_MAX = 64,  // long requests, at once
    HAND_ETAG = 48,      // with its NUL
};

enum hand_flag {
    HAND_PARENTS = 1u << 0,   // make missing directories above
    HAND_NO_FOLLOW = 1u << 1, // the path's last component is not followed
    HAND_EXCLUSIVE = 1u << 2, // it must not be there yet
    HAND_EXISTING = 1u << 3,  // it must be there
    HAND_RECURSIVE = 1u << 4,
    HAND_HIDDEN = 1u << 5,      // with names that begin with a dot
    HAND_MODE = 1u << 6,        // `mode` is given; else that of the file that is replaced, or 0644
    HAND_OWNER = 1u << 7,       // uid and gid are given; else those of the file that is replaced
    HAND_ETAG_GIVEN = 1u << 8,  // `etag` must be that of the file that is there: else ESTALE
    HAND_NO_INLINE = 1u << 9,   // HAND_READ: a descriptor, however small the file is
    HAND_NO_REPLACE = 1u << 10, // HAND_MOVE, HAND_COPY: what is at path2 stays, EEXIST
    HAND_PLAIN = 1u << 11,      // HAND_TAR_OUT: directories, files and symbolic links alone, for
                                // readers that know no more: hard links are files of their own,
                                // holes are zeros, FIFOs are left out
};

// Followed by path, NUL, path2, NUL (both always there; paths begin with '/' and have no ".."), and
// data_len bytes.
struct hand_request {
    struct wire_head head; // type, and an id above 0
    uint32_t flags;
    uint32_t mode; // at most 0777
    uint32_t uid, gid;
    uint64_t handle;
    uint64_t limit; // HAND_LIST, HAND_SEARCH: records at most; 0: any number
    char etag[HAND_ETAG];
    uint32_t path_len, path2_len; // without their NULs
    uint32_t data_len;
    uint32_t pad;
};

enum hand_kind { HAND_FILE = 1, HAND_DIR, HAND_SYMLINK, HAND_OTHER };

struct hand_stat {
    uint64_t size;
    int64_t mtime_ns;
    uint64_t ino;
    uint32_t kind; // enum hand_kind
    uint32_t mode; // 07777
    uint32_t uid, gid;
    uint32_t nlink;
    uint32_t dev;         // which file system, to tell hard links apart
    char etag[HAND_ETAG]; // made of the above: another one whenever the content may be
};

// With HAND_READ and HAND_CREATE perhaps one descriptor; with long requests one or two. Followed by
// data_len bytes: HAND_READ's content, HAND_STAT's link target.
struct hand_done {
    struct wire_head head;
    int32_t sys_errno; // 0: done. EISDIR, ENOTDIR, ENOENT, EEXIST, ESTALE, EFTYPE as EINVAL...
    uint32_t existed;  // HAND_WRITE, HAND_COMMIT: something was replaced
    uint64_t handle;
    struct hand_stat st; // as it is now, where there is one
    uint32_t data_len;
    uint32_t pad;
};

struct hand_ended {
    struct wire_head head;
    int32_t sys_errno; // 0: it did all of it. ECANCELED; ECHILD: it was killed
    uint32_t pad;
    uint64_t n; // entries, files
    uint64_t bytes;
    char path[256]; // where it failed, cut
};

// --- records in the pipes of long requests: a hand_record, `len` bytes of which the struct is the
// beginning and texts (NUL-ended) are the rest

enum hand_record_type {
    HAND_REC_ENTRY = 1, // hand_entry: path relative to the one asked for, link target
    HAND_REC_PROGRESS,  // hand_progress
    HAND_REC_MATCH,     // hand_match: path, the line
    HAND_REC_CHANGE,    // hand_change: path
    HAND_REC_MAX,
};
enum { HAND_RECORD_MAX = 16 * 1024 };

struct hand_record {
    uint32_t type;
    uint32_t len; // of all of it, a multiple of 8
};
struct hand_entry {
    struct hand_record rec;
    struct hand_stat st;
    uint32_t path_len, link_len; // without their NULs
    // path NUL link NUL
};
struct hand_progress {
    struct hand_record rec;
    uint64_t n, bytes;
};
struct hand_match {
    struct hand_record rec;
    uint64_t line;   // from 1; 0: only the name; HAND_REPLACE: how many were replaced in the file
    uint64_t column; // in bytes, from 1
    uint32_t path_len, text_len;
    // path NUL text NUL: the line, cut at 1 KiB around the match
};
enum hand_change_kind { // also as told over HTTP
    HAND_WATCHING = 1,  // the watches are set: from now on nothing is missed
    HAND_CREATED,
    HAND_MODIFIED,
    HAND_DELETED,
    HAND_MOVED_FROM,
    HAND_MOVED_TO,
    HAND_ATTRIB,
    HAND_OVERFLOW,  // changes were lost: look at all of it again
    HAND_ROOT_GONE, // what was watched is not there any more; the last one
};
struct hand_change {
    struct hand_record rec;
    uint32_t kind;
    uint32_t is_dir;
    uint32_t cookie; // pairs MOVED_FROM and MOVED_TO
    uint32_t path_len;
    // path NUL, relative to the one that is watched
};

// --- data of requests

struct hand_list { // data of HAND_LIST
    uint32_t after_len;
    // names above this relative path only, in the order of the listing: how pages are made.
    // NUL-ended. Perhaps behind it globs on names, separated by commas and NUL-ended: what one has
    // is left out, with all that is below it
};
struct hand_search { // data of HAND_SEARCH and HAND_REPLACE
    uint32_t flags;  // enum hand_search_flag
    uint32_t text_len, name_len, with_len;
    uint64_t max_file; // larger files are skipped; 0: 16 MiB
    // text NUL (what to look for in files; empty: names only), name NUL (a glob for file names;
    // empty: all), with NUL (what takes its place)
};
enum hand_search_flag {
    HAND_SEARCH_NO_CASE = 1u << 0,
    HAND_SEARCH_HIDDEN = 1u << 1,
};
struct hand_tar { // data of HAND_TAR_OUT; none: all of it
    uint32_t exclude_len;
    uint32_t pad;
    // globs on relative paths, in which * takes slashes too, separated by commas: what one has is
    // left out, with all that is below it. NUL-ended
};
struct hand_watch { // data of HAND_WATCH
    uint32_t include_len, exclude_len;
    // globs on names, each list separated by commas: include NUL exclude NUL
};
