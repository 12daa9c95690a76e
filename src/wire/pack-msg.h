// SPDX-License-Identifier: Apache-2.0
// How cay-pack is spoken to: the program that reads and writes the files of disks, confined by the
// keeper (KEEPER_DISK_WORK). It has three descriptors: 0 what goes in, 1 what comes out, 2 the
// verdict; the disk, or the tree that a box would see, is at /t; and nothing else. What it is given
// comes from guests (names, contents, archives), and so does what it writes: the daemon believes
// neither.
//
// Arguments, after the work's own name ("pack-disk", "pack-tree", "unpack-disk", "unpack-tree",
// "sync", "unsync"):
//   pack-tree, unpack-tree, sync, unsync: the directory, absolute, first
//   --exclude GLOB, --include GLOB (any number), --gitignore: pack-tree, sync; as .gitignore's
//   lines
//   --max-bytes N: unpack-*, sync (of all files); --max-entries N: unpack-*
//   --threads N: pack-*
//
// pack-*: 1 gets a tar in pax format, compressed with zstd (with its checksum).
// unpack-*: 0 has one, in any compression that libarchive knows or none. unpack-tree: the directory
//   consists of exactly that afterwards. unpack-disk: the disk does.
// sync: 0 has the index of the last time, or nothing; 1 gets records.
// unsync: 0 has records: PACK_INDEX first (perhaps empty), then PACK_PUT, PACK_END last; without
//   that it fails, and so does a content that is not its sha256 (all zeros: not looked at). The
//   directory consists of exactly that afterwards: files of the index that did not come are not
//   made, and what came without being in the index belongs to whom the directory does.
//
// An archive's names are relative to the directory, or to `up` of a disk; its first entry is ".".
#pragma once

#include <stdint.h>

enum pack_record_type {
    PACK_PUT = 1,  // path; `size` bytes of content follow. sha256 is theirs
    PACK_DELETE,   // path: was in the index, and is not in the directory any more
    PACK_PROGRESS, // `seen` entries so far, `size` bytes in them
    PACK_INDEX,    // `size` bytes follow: the new index, for the next time. The last record of sync
    PACK_END,      // of unsync: all has come
    PACK_RECORD_MAX,
};

enum {
    PACK_PATH_MAX = 4096, // with its NUL
    PACK_KEY_MAX = 900,   // bytes of an escaped path: what is longer is skipped by sync
    PACK_PART_MAX = 255,  // of what is between its slashes
    PACK_VERDICT_MAX = 512,
    PACK_SHA256 = 32,
};
#define PACK_INDEX_BYTES_MAX (UINT64_C(512) * 1024 * 1024)

// Followed by path_len bytes of the path, relative to the directory, without a NUL; any bytes but
// NUL, no component "", "." or "..". Then the content.
struct pack_record {
    uint32_t type;
    uint32_t path_len;
    uint64_t size;
    uint64_t seen;
    uint32_t mode; // 07777, of PACK_PUT
    uint32_t pad;
    int64_t mtime_ns;
    uint8_t sha256[PACK_SHA256];
};

// An index is text, one entry a line, sorted by path: `KIND SIZE MTIME_NS MODE UID GID SHA256 PATH
// TARGET`, separated by tabs. KIND is f, l or d; SHA256 is hex, '-' of what is no file; TARGET is
// of symbolic links, else empty. In PATH and TARGET every byte that is a control character, '%', or
// no part of valid UTF-8 is %XX: so are the names of objects. Its first line is PACK_INDEX_HEAD.
#define PACK_INDEX_HEAD "cay index 1"

// The verdict is one line: "ok ENTRIES BYTES" (of what was read or written, unpacked) as the last
// thing done, of sync followed by " skipped N" when names were too long to be stored; or "failed
// CODE MESSAGE" with an enum err_code in digits, and then the exit code is that too. Without such a
// line it was killed: nothing that came out is worth anything.
