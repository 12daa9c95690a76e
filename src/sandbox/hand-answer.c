// SPDX-License-Identifier: Apache-2.0
// What a hand's words mean: its errors as ours, and the bytes of its pipes as records.
#include <errno.h>
#include <string.h>

#include "sandbox/hand.h"

// --- errors

int hand_error(int sys_errno, const char *path, struct err *err)
{
    static const struct {
        int sys_errno;
        enum err_code code;
        const char *text;
    } table[] = {
        {ENOENT,       ERR_NOT_FOUND,   "there is no '%.200s' in the sandbox"                            },
        {EISDIR,       ERR_INVALID,     "'%.200s' is a directory"                                        },
        {ENOTDIR,      ERR_INVALID,     "'%.200s': a part of the path is not a directory"                },
        {EEXIST,       ERR_CONFLICT,    "'%.200s' is there already"                                      },
        {ENOTEMPTY,    ERR_CONFLICT,    "'%.200s' is not empty"                                          },
        {ESTALE,       ERR_CONFLICT,    "'%.200s' has changed"                                           },
        {EINVAL,       ERR_INVALID,     "'%.200s' is not a file or directory that this can be done with" },
        {ELOOP,        ERR_INVALID,     "'%.200s' has too many symbolic links"                           },
        {ENAMETOOLONG, ERR_INVALID,     "'%.200s' is too long"                                           },
        {ENOSPC,       ERR_EXHAUSTED,   "no space is left on the sandbox's disk"                         },
        {EDQUOT,       ERR_EXHAUSTED,   "the sandbox's disk is full"                                     },
        {EFBIG,        ERR_EXHAUSTED,   "'%.200s' is too large"                                          },
        {EACCES,       ERR_DENIED,      "'%.200s' may not be used"                                       },
        {EPERM,        ERR_DENIED,      "'%.200s' may not be changed"                                    },
        {EROFS,        ERR_DENIED,      "'%.200s' is on a read-only part of the sandbox"                 },
        {EBADF,        ERR_UNAVAILABLE, "'%.200s': the sandbox's file helper was killed: try again"      },
        {EBUSY,        ERR_CONFLICT,    "'%.200s' is in use"                                             },
        {EXDEV,        ERR_UNSUPPORTED, "'%.200s' is on another file system"                             },
        {EAGAIN,       ERR_UNAVAILABLE,
         "'%.200s': too many file operations are under way in this sandbox, or it has too many processes"},
        {EMFILE,       ERR_UNAVAILABLE, "'%.200s': too many files are being written in this sandbox"     },
        {ETXTBSY,      ERR_CONFLICT,    "'%.200s' is being executed"                                     },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (table[i].sys_errno != sys_errno)
            continue;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)err_set(err, table[i].code, table[i].text, path);
#pragma GCC diagnostic pop
        err->sys_errno = sys_errno;
        return -1;
    }
    return err_sys(err, sys_errno > 0 && sys_errno < 4096 ? sys_errno : EIO, "'%.200s'", path);
}

// --- records

// Two texts of these lengths, each with its NUL, follow the fixed part and end within the record.
static bool texts_fit(const struct hand_record *rec, size_t fixed, uint64_t first, uint64_t second,
                      bool has_second)
{
    uint64_t need = fixed + first + 1 + (has_second ? second + 1 : 0);
    const char *at = (const char *)rec;
    if (need > rec->len || at[fixed + first] != '\0' || strlen(at + fixed) != first)
        return false;
    return !has_second || (at[need - 1] == '\0' && strlen(at + fixed + first + 1) == second);
}

static bool record_is_sound(const struct hand_record *rec)
{
    const struct hand_entry *entry = (const struct hand_entry *)rec;
    const struct hand_match *match = (const struct hand_match *)rec;
    const struct hand_change *change = (const struct hand_change *)rec;
    switch (rec->type) {
    case HAND_REC_ENTRY:
        return rec->len > sizeof *entry &&
               texts_fit(rec, sizeof *entry, entry->path_len, entry->link_len, true);
    case HAND_REC_PROGRESS:
        return rec->len == sizeof(struct hand_progress);
    case HAND_REC_MATCH: // the line may hold anything, a NUL too
        return rec->len > sizeof *match &&
               texts_fit(rec, sizeof *match, match->path_len, 0, false) &&
               sizeof *match + match->path_len + 1ull + match->text_len + 1ull <= rec->len;
    case HAND_REC_CHANGE:
        return rec->len > sizeof *change &&
               texts_fit(rec, sizeof *change, change->path_len, 0, false);
    default:
        return false;
    }
}

ssize_t hand_records(const void *data, size_t len, hand_record_fn fn, void *fn_data)
{
    const char *at = data;
    size_t used = 0;
    _Alignas(8) static char copy[HAND_RECORD_MAX];
    while (len - used >= sizeof(struct hand_record)) {
        struct hand_record rec;
        memcpy(&rec, at + used, sizeof rec);
        if (rec.len < sizeof rec || rec.len > HAND_RECORD_MAX || rec.len % 8 != 0)
            return -1;
        if (len - used < rec.len)
            break;
        memcpy(copy, at + used, rec.len);
        if (!record_is_sound((const struct hand_record *)copy))
            return -1;
        fn(fn_data, (const struct hand_record *)copy);
        used += rec.len;
    }
    return (ssize_t)used;
}
