// SPDX-License-Identifier: Apache-2.0
// Backups, restoring, archives; exports and imports, which are backups whose other end is a
// client's. Nothing here wakes a sandbox. A restore is all or nothing: it is unpacked onto a copy
// of the disk, its digest compared, and only then does the copy become the disk.
#pragma once

#include "saved/saved.h"

struct backup_request {
    const char *dir;             // absolute; NULL: the whole disk
    const char *name;            // may be NULL
    int64_t ttl_ms;              // 0: kept until it is deleted
    const char *const *excludes; // globs; ends with NULL; may be NULL
    bool gitignore;
};
typedef void (*backup_fn)(void *data, const struct backup_row *row, const struct err *err);
void backup_make(struct saved *saved, struct sandbox *s, const struct backup_request *request,
                 backup_fn fn, void *data);
// Any of the tenant's. Its box ends; the next use starts from it. `dir`: another directory than it
// was made of; NULL: the same. ERR_INVALID: of a whole disk, onto another image or a directory.
void backup_restore(struct saved *saved, struct sandbox *s, const char *id, const char *dir,
                    disk_fn fn, void *data);
int backup_delete(struct saved *saved, int64_t tenant, const char *id, struct err *err); // 1, 0

// Asleep, and its disk in the store alone. What wakes it brings it back.
void backup_archive(struct saved *saved, struct sandbox *s, disk_fn fn, void *data);

// An archive for whoever reads `fd` (a pipe's writing end, taken): fn is called when all of it was
// written, or it failed: then what was read is worth nothing.
void backup_export(struct saved *saved, struct sandbox *s, const struct backup_request *request,
                   int fd, disk_fn fn, void *data);
// What comes from `fd` (a pipe's reading end, taken) becomes the directory or, with dir NULL, the
// disk. `sha256`, hex, of all bytes; NULL: any. Nothing is touched unless all of it was right.
// The end of a pipe does not tell whether that was all there was: whoever writes to it says so by
// backup_import_over, exactly once, and fn is called after that.
struct importing;
enum import_over {
    IMPORT_WHOLE,   // all was written
    IMPORT_CUT,     // it was not
    IMPORT_REFUSED, // nobody read it any more: fn is told why
};
struct importing *backup_import(struct saved *saved, struct sandbox *s, const char *dir,
                                const char *sha256, int fd, disk_fn fn, void *data);
void backup_import_over(struct importing *importing, enum import_over how);
