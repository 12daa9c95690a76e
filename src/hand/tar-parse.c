// SPDX-License-Identifier: Apache-2.0
// How an entry is read. Every byte is a stranger's: numbers are checked before they are used, and
// what two readers could take in two ways is refused.
#include <errno.h>
#include <string.h>

#include "hand/tar-format.h"
#include "hand/tar-layout.h"

enum { BASE_256 = 0x80, NEGATIVE_256 = 0xff };

bool tar_is_end(const uint8_t block[static TAR_BLOCK])
{
    for (size_t i = 0; i < TAR_BLOCK; i++)
        if (block[i] != 0)
            return false;
    return true;
}

bool tar_is_compressed(const uint8_t *data, size_t len)
{
    static const struct {
        size_t len;
        const char *magic;
    } known[] = {
        {2, "\x1f\x8b"          }, // gzip
        {2, "\x1f\x9d"          }, // compress
        {4, "\x28\xb5\x2f\xfd"  }, // zstd
        {3, "BZh"               },
        {6, "\xfd\x37zXZ\0"     },
        {4, "\x04\x22\x4d\x18"  }, // lz4
        {4, "PK\3\4"            },
        {6, "7z\xbc\xaf\x27\x1c"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (len >= known[i].len && memcmp(data, known[i].magic, known[i].len) == 0)
            return true;
    return false;
}

// Two's complement, most significant byte first, of which the first bit only says that it is this.
static int get_256(const uint8_t *field, size_t size, int64_t *ret)
{
    bool negative = field[0] == NEGATIVE_256;
    uint64_t value = negative ? UINT64_MAX : 0;
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = i == 0 && !negative ? field[0] & 0x7f : field[i];
        if (value >> 56 != (negative ? 0xff : 0))
            return -EBADMSG;
        value = value << 8 | byte;
    }
    if (value >> 63 != negative)
        return -EBADMSG;
    *ret = (int64_t)value;
    return 0;
}

// Octal digits after spaces, to the end of the field or a space or a NUL; nothing at all is 0.
static int get_number(const char *field, size_t size, int64_t *ret)
{
    const uint8_t *p = (const uint8_t *)field;
    uint64_t value = 0;
    size_t i = 0;
    if (p[0] & BASE_256)
        return get_256(p, size, ret);
    while (i < size && p[i] == ' ')
        i++;
    for (; i < size && p[i] >= '0' && p[i] <= '7'; i++)
        value = value << 3 | (uint64_t)(p[i] - '0');
    if (i < size && p[i] != ' ' && p[i] != '\0')
        return -EBADMSG;
    *ret = (int64_t)value; // at most 12 digits: 36 bits
    return 0;
}

static int get_count(const char *field, size_t size, uint64_t *ret)
{
    int64_t value;
    int r = get_number(field, size, &value);
    if (r < 0 || value < 0)
        return -EBADMSG;
    *ret = (uint64_t)value;
    return 0;
}

// Some old ones added bytes as signed ones.
static bool sum_fits(const struct tar_layout *l)
{
    struct tar_layout copy = *l;
    unsigned sum = 0;
    int signed_sum = 0;
    uint64_t said;
    if (get_count(l->sum, sizeof l->sum, &said) < 0)
        return false;
    memset(copy.sum, ' ', sizeof copy.sum);
    for (size_t i = 0; i < sizeof copy; i++) {
        sum += ((const uint8_t *)&copy)[i];
        signed_sum += ((const int8_t *)&copy)[i];
    }
    return said == sum || (signed_sum >= 0 && said == (unsigned)signed_sum);
}

static int kind_of(char type)
{
    static const struct {
        char type;
        enum tar_kind kind;
    } kinds[] = {
        {'0',  TAR_FILE      },
        {'\0', TAR_FILE      },
        {'7',  TAR_FILE      },
        {'1',  TAR_HARDLINK  },
        {'2',  TAR_SYMLINK   },
        {'3',  TAR_DEVICE    },
        {'4',  TAR_DEVICE    },
        {'5',  TAR_DIR       },
        {'6',  TAR_FIFO      },
        {'S',  TAR_OLD_SPARSE},
        {'V',  TAR_LABEL     },
        {'L',  TAR_LONG_NAME },
        {'K',  TAR_LONG_LINK },
        {'x',  TAR_PAX       },
        {'g',  TAR_PAX_ALL   },
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].type == type)
            return (int)kinds[i].kind;
    return -EPROTONOSUPPORT;
}

static size_t copy_field(char *to, const char *field, size_t size)
{
    size_t len = strnlen(field, size);
    memcpy(to, field, len);
    to[len] = '\0';
    return len;
}

static void get_names(const struct tar_layout *l, struct tar_head *ret)
{
    size_t len = 0;
    // With GNU's magic there are other things in place of the prefix.
    if (memcmp(l->magic, "ustar", sizeof l->magic) == 0 && l->last.posix.prefix[0] != '\0') {
        len = copy_field(ret->name, l->last.posix.prefix, sizeof l->last.posix.prefix);
        ret->name[len++] = '/';
    }
    len += copy_field(ret->name + len, l->name, sizeof l->name);
    (void)copy_field(ret->link, l->link, sizeof l->link);
    // Before there was a type for directories.
    if (l->type == '\0' && len > 0 && ret->name[len - 1] == '/')
        ret->kind = TAR_DIR;
}

static int get_numbers(const struct tar_layout *l, struct tar_head *ret)
{
    uint64_t mode;
    if (get_count(l->mode, sizeof l->mode, &mode) < 0 ||
        get_count(l->uid, sizeof l->uid, &ret->uid) < 0 ||
        get_count(l->gid, sizeof l->gid, &ret->gid) < 0 ||
        get_count(l->size, sizeof l->size, &ret->size) < 0 ||
        get_number(l->mtime, sizeof l->mtime, &ret->mtime) < 0)
        return -EBADMSG;
    ret->mode = mode & 07777;
    return 0;
}

int tar_get_head(const uint8_t block[static TAR_BLOCK], struct tar_head *ret)
{
    struct tar_layout l;
    memcpy(&l, block, sizeof l);
    if (!sum_fits(&l))
        return -EBADMSG;
    int kind = kind_of(l.type);
    if (kind < 0)
        return kind;
    ret->kind = (enum tar_kind)kind;
    ret->sparse = kind == TAR_OLD_SPARSE;
    ret->real_size = 0;
    ret->mtime_ns = 0;
    get_names(&l, ret);
    int r = get_numbers(&l, ret);
    if (r == 0 && ret->sparse)
        r = get_count(l.last.gnu.real_size, sizeof l.last.gnu.real_size, &ret->real_size);
    return r;
}

static bool holds_data(enum tar_kind kind)
{
    return kind == TAR_FILE || kind == TAR_OLD_SPARSE || kind >= TAR_LABEL;
}

static void apply_one(struct tar_head *head, const struct tar_extra *extra)
{
    if (extra->said & TAR_SAID_UID)
        head->uid = extra->uid;
    if (extra->said & TAR_SAID_GID)
        head->gid = extra->gid;
    if (extra->said & TAR_SAID_MTIME) {
        head->mtime = extra->mtime;
        head->mtime_ns = extra->mtime_ns;
    }
    if (extra->said & (TAR_SAID_NAME | TAR_SAID_REAL_NAME))
        memcpy(head->name, extra->name, strlen(extra->name) + 1);
    if (extra->said & TAR_SAID_LINK)
        memcpy(head->link, extra->link, strlen(extra->link) + 1);
    if (extra->said & TAR_SAID_SIZE)
        head->size = extra->size;
}

int tar_apply(struct tar_head *head, const struct tar_extra *all, const struct tar_extra *extra)
{
    apply_one(head, all);
    apply_one(head, extra);
    if (extra->said & TAR_SAID_SPARSE) {
        if (head->kind != TAR_FILE || !(extra->said & TAR_SAID_REAL_SIZE))
            return -EBADMSG;
        head->sparse = true;
        head->real_size = extra->real_size;
    } else if (extra->said & (TAR_SAID_REAL_NAME | TAR_SAID_REAL_SIZE)) {
        return -EPROTONOSUPPORT; // one of the older forms
    }
    // Some writers put the file's size into the header of a hard link, and no data after it.
    if (head->kind == TAR_HARDLINK)
        head->size = 0;
    // Whether anything follows such an entry is answered in two ways: what one reader skips,
    // another unpacks.
    return head->size == 0 || holds_data(head->kind) ? 0 : -EBADMSG;
}

int tar_clean_name(char *name)
{
    char *to = name;
    if (name[0] == '\0' || name[0] == '/')
        return -EINVAL;
    for (const char *from = name; *from != '\0';) {
        size_t len = strcspn(from, "/");
        if (len == 2 && from[0] == '.' && from[1] == '.')
            return -EINVAL;
        if (len > 0 && !(len == 1 && from[0] == '.')) {
            if (to != name)
                *to++ = '/';
            memmove(to, from, len);
            to += len;
        }
        from += len + (from[len] == '/');
    }
    *to = '\0';
    return (int)(to - name);
}

// --- maps of sparse files

static int map_digit(struct tar_map *map, uint8_t c)
{
    if (c < '0' || c > '9' || map->number > (INT64_MAX - 9) / 10)
        return -EBADMSG;
    map->number = map->number * 10 + (uint64_t)(c - '0');
    map->digits = true;
    return 0;
}

// A line has ended. 1: there is more; 0: that was all.
static int map_line(struct tar_map *map)
{
    uint64_t number = map->number;
    if (!map->digits)
        return -EBADMSG;
    map->number = 0;
    map->digits = false;
    if (!map->counted) {
        map->counted = true;
        map->want = number;
        return number > TAR_EXTENTS_MAX ? -EFBIG : number > 0;
    }
    if (!map->half) {
        map->extents[map->n].at = number;
    } else {
        map->extents[map->n++].len = number;
    }
    map->half = !map->half;
    return map->n < map->want;
}

int tar_map_text(struct tar_map *map, const uint8_t block[static TAR_BLOCK])
{
    for (size_t i = 0; i < TAR_BLOCK; i++) {
        int r = block[i] == '\n' ? map_line(map) : map_digit(map, block[i]);
        if (r < 0 || (r == 0 && block[i] == '\n'))
            return r;
    }
    return 1;
}

static int map_old(struct tar_map *map, const uint8_t *at, size_t n)
{
    for (size_t i = 0; i < n; i++, at += 24) {
        struct tar_extent e;
        if (at[0] == '\0' && at[12] == '\0')
            return 0;
        if (get_count((const char *)at, 12, &e.at) < 0 ||
            get_count((const char *)at + 12, 12, &e.len) < 0)
            return -EBADMSG;
        if (map->n == TAR_EXTENTS_MAX)
            return -EFBIG;
        map->extents[map->n++] = e;
    }
    return 0;
}

int tar_map_old_head(struct tar_map *map, const uint8_t block[static TAR_BLOCK])
{
    int r = map_old(map, block + offsetof(struct tar_layout, last.gnu.map), 4);
    return r < 0 ? r : block[offsetof(struct tar_layout, last.gnu.more)] != 0;
}

int tar_map_old_more(struct tar_map *map, const uint8_t block[static TAR_BLOCK])
{
    int r = map_old(map, block, 21);
    return r < 0 ? r : block[504] != 0;
}

bool tar_map_fits(const struct tar_map *map, uint64_t real_size, uint64_t data)
{
    uint64_t end = 0, sum = 0;
    for (size_t i = 0; i < map->n; i++) {
        const struct tar_extent *e = &map->extents[i];
        if (e->at < end || e->at > real_size || e->len > real_size - e->at)
            return false;
        end = e->at + e->len;
        sum += e->len; // below real_size: cannot run over
    }
    return sum == data;
}
