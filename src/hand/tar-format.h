// SPDX-License-Identifier: Apache-2.0
// The bytes of a tar archive, and nothing but bytes: no descriptor is touched here. Written is
// POSIX ustar with pax records for what does not fit it, and sparse files in the "1.0" form of GNU;
// read is that, what GNU tar writes (long names, numbers in base 256, its old sparse files) and the
// plain tar of old. Not kept: extended attributes, ACLs, the names of owners (numbers are), parts
// of a second (read, but not written).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TAR_BLOCK = 512,
    TAR_NAME_MAX = 4096,                                // with its NUL
    TAR_HEAD_MAX = 24 * 512,                            // what tar_put_head writes at most
    TAR_EXTRA_MAX = 256 * 1024,                         // bytes of pax records before one entry
    TAR_EXTENTS_MAX = 16384,                            // pieces of one sparse file
    TAR_MAP_MAX = TAR_EXTENTS_MAX * 40 + 2 * TAR_BLOCK, // what tar_put_map writes at most
};

enum tar_kind {
    TAR_FILE = 1,
    TAR_HARDLINK,
    TAR_SYMLINK,
    TAR_DIR,
    TAR_FIFO,
    TAR_DEVICE,
    TAR_OLD_SPARSE, // a file; its map begins in the header
    TAR_LABEL,      // says something of the archive; not an entry
    // what follows says something of the next entry, or of all that come
    TAR_LONG_NAME,
    TAR_LONG_LINK,
    TAR_PAX,
    TAR_PAX_ALL,
    TAR_KIND_MAX,
};

struct tar_head {
    enum tar_kind kind;
    bool sparse;        // `size` bytes hold a map and the pieces of a file of real_size bytes
    uint32_t mode;      // 07777
    uint64_t uid, gid;  // as they were written: any number
    uint64_t size;      // bytes that follow
    uint64_t real_size; // of a sparse file
    int64_t mtime;
    uint32_t mtime_ns;
    char name[TAR_NAME_MAX], link[TAR_NAME_MAX];
};

struct tar_extent {
    uint64_t at, len;
};

static inline uint64_t tar_padding(uint64_t size)
{
    return (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK;
}

// --- writing

// The header, with the pax records before it where they are needed. How many bytes.
size_t tar_put_head(const struct tar_head *head, uint8_t out[static TAR_HEAD_MAX]);
// The map that a sparse file's data begins with: whole blocks. How many bytes.
size_t tar_put_map(const struct tar_extent *extents, size_t n, uint8_t out[static TAR_MAP_MAX]);

// --- reading: 0 or what is said, -EBADMSG for what no tar writes, -EPROTONOSUPPORT for what is not
// read here

bool tar_is_end(const uint8_t block[static TAR_BLOCK]); // nothing but zeros
// Whether an archive begins like a compressed one.
bool tar_is_compressed(const uint8_t *data, size_t len);
int tar_get_head(const uint8_t block[static TAR_BLOCK], struct tar_head *ret);

// What long names and pax records say of an entry.
enum tar_said {
    TAR_SAID_NAME = 1u << 0,
    TAR_SAID_LINK = 1u << 1,
    TAR_SAID_SIZE = 1u << 2,
    TAR_SAID_MTIME = 1u << 3,
    TAR_SAID_UID = 1u << 4,
    TAR_SAID_GID = 1u << 5,
    TAR_SAID_SPARSE = 1u << 6, // GNU.sparse.major: only 1 is read
    TAR_SAID_REAL_NAME = 1u << 7,
    TAR_SAID_REAL_SIZE = 1u << 8,
};
struct tar_extra {
    unsigned said; // enum tar_said
    uint64_t size, uid, gid, real_size;
    int64_t mtime;
    uint32_t mtime_ns;
    char name[TAR_NAME_MAX], link[TAR_NAME_MAX];
};
// The records of a TAR_PAX or TAR_PAX_ALL. What they say replaces what was said before.
int tar_get_pax(const char *records, size_t len, bool all, struct tar_extra *extra);
// Of a TAR_LONG_NAME or TAR_LONG_LINK.
int tar_get_long(const char *text, size_t len, enum tar_kind kind, struct tar_extra *extra);
// What was said of all entries and of this one takes its place in the header, which is then whole.
int tar_apply(struct tar_head *head, const struct tar_extra *all, const struct tar_extra *extra);

// Makes "./a//b/" into "a/b", "./" into "". Its length; -EINVAL when it is absolute, empty or has a
// "..".
int tar_clean_name(char *name);

// A sparse file's map, which is read a block at a time.
struct tar_map {
    struct tar_extent *extents; // room for TAR_EXTENTS_MAX
    size_t n;
    // of the text form
    bool counted, half, digits;
    uint64_t want, number;
};
// The next block of a map in the form 1.0. 1: there is more; 0: that was all.
int tar_map_text(struct tar_map *map, const uint8_t block[static TAR_BLOCK]);
// The part of an old map that is in a header, and the blocks after it. As above.
int tar_map_old_head(struct tar_map *map, const uint8_t block[static TAR_BLOCK]);
int tar_map_old_more(struct tar_map *map, const uint8_t block[static TAR_BLOCK]);
// Whether the pieces lie in order below real_size and are `data` bytes long together.
bool tar_map_fits(const struct tar_map *map, uint64_t real_size, uint64_t data);
