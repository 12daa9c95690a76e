// SPDX-License-Identifier: Apache-2.0
// One thing that is done with the disk of a sandbox and an archive: what it holds, and the steps
// that backups, restores, archives, exports and imports are made of. Each step calls `next` exactly
// once, with an err when it has failed; whoever is at the end calls errand_end, which gives back
// all that is held and tells. On the loop.
#pragma once

#include "saved/freight-internal.h"

enum { ERRAND_ARGS_MAX = 280, ERRAND_ARGS_BYTES = 24 * 1024 };

struct errand;
typedef void (*errand_fn)(struct errand *e, const struct err *err);

struct errand {
    struct saved *saved;
    struct sandbox *s; // counted
    struct turn turn;
    bool is_held; // by this
    bool has_row; // a row of its own in BACKUP_MAKING
    bool is_told;
    bool only_asleep; // an archive that nobody has asked for
    uint64_t making;  // a disk of its own; 0: none
    int64_t shared;   // of that one
    struct backup_row row;
    char *tenant;  // name of the row's
    char *archive; // which its disk was in (archive_remember)
    char *args[ERRAND_ARGS_MAX + 1];
    size_t n_args, args_bytes;
    errand_fn next;
    errand_fn tell; // the last word, once
    void *data;     // of whoever asked
    union {
        backup_fn on_backup;
        disk_fn on_disk;
        void (*on_recall)(struct sandbox *s, const struct err *err);
    };
    // Of exports and imports.
    bool is_stream, is_import, is_tree, is_unpacked;
    int pipe;
    struct freight *freight;
    bool has_sha256;
    uint8_t sha256[STORE_SHA256];
    bool was_said, is_whole; // by backup_import_over
    bool has_ended;          // and waits for that
    struct err err;
    LIST_ENTRY(errand) all;
};

struct errand *errand_new(struct saved *saved, struct sandbox *s, errand_fn tell);
// Takes the row, in any case.
int errand_set_row(struct errand *e, struct backup_row *row, struct err *err);
void errand_end(struct errand *e, const struct err *err); // frees it
// Before the end: what is held goes back now.
void errand_give_back(struct errand *e);
// At the end of the server: those that still wait are told now. An import whose body is not over
// waits for that (errand_tell).
void errand_tell(struct errand *e, const struct err *err);
void errands_tell(struct saved *saved);

// Arguments for cay-pack. ERR_INVALID: too many.
int errand_arg(struct errand *e, const char *text, struct err *err);
// `dir` is refused unless it is absolute, plain, and not "/"; NULL: the whole disk.
int errand_check_dir(const char *dir, struct err *err);
int errand_pack_args(struct errand *e, const struct backup_request *request, struct err *err);

int errand_wait_turn(struct errand *e, enum saved_lane lane, errand_fn next, struct err *err);
void errand_hold(struct errand *e, const char *why, errand_fn next);
void errand_copy(struct errand *e, errand_fn next);                      // of its disk
void errand_make_disk(struct errand *e, uint64_t bytes, errand_fn next); // an empty one
// The copy, or the row's object onto the disk that was made: e->row, whole at the end.
void errand_pack(struct errand *e, errand_fn next);
void errand_unpack(struct errand *e, errand_fn next);
void errand_replace(struct errand *e, errand_fn next); // of one that is held

void errand_key(const struct errand *e, const char *name, char ret[STORE_KEY_MAX]);
bool errand_is_tree(const struct errand *e);

// Of backup.c: a row in BACKUP_MAKING, and whether there is something to make it of.
void backup_new_row(const struct saved *saved, const struct sandbox_row *s, const char *kind,
                    struct backup_row *ret);
int backup_check_source(struct sandbox *s, struct err *err);
// Of archive.c: the archive that a disk is in before it is replaced; it goes when it was.
void archive_remember(struct errand *e);
void archive_forget(struct errand *e);
