// SPDX-License-Identifier: Apache-2.0
#include "pack/attr.h"

#include <errno.h>
#include <string.h>
#include <sys/xattr.h>

#include "pack/pack-internal.h"

enum { VALUE_MAX = 65536 }; // the kernel's XATTR_SIZE_MAX, and that of a list

enum { NAME_SIZE = 256 }; // the kernel's XATTR_NAME_MAX, and a NUL

#define OPAQUE "trusted.overlay.opaque"

enum verdict { PASS_OVER, TAKE, REFUSE };

// What overlayfs keeps beside: a rename or a file without data, which we could not bring back.
static bool is_lost(const char *name)
{
    return strcmp(name, "trusted.overlay.redirect") == 0 ||
           strcmp(name, "trusted.overlay.metacopy") == 0;
}

static enum verdict judge(const char *name, bool is_disk)
{
    // security.capability is not among them: it is of no use in a box, and means other ids in the
    // next.
    static const char *const taken[] = {"system.posix_acl_access", "system.posix_acl_default"};
    if (strncmp(name, "user.", 5) == 0 && name[5] != '\0')
        return TAKE;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        if (strcmp(name, taken[i]) == 0)
            return TAKE;
    }
    if (strncmp(name, "trusted.", 8) != 0)
        return PASS_OVER;
    return is_disk && strcmp(name, OPAQUE) == 0 ? TAKE : REFUSE;
}

static int hex(char c)
{
    const char *digits = "0123456789ABCDEF", *at = c != '\0' ? strchr(digits, c) : NULL;
    return at != NULL ? (int)(at - digits) : -1;
}

// libarchive writes odd bytes of a name as %XX, and does not undo it when it reads them: a keyword
// of pax ends at the first '='. NULL for one that is too long for any file system.
static const char *unescape(const char *name, char ret[NAME_SIZE])
{
    size_t n = 0;
    while (*name != '\0' && n < NAME_SIZE - 1) {
        int high = *name == '%' ? hex(name[1]) : -1, low = high >= 0 ? hex(name[2]) : -1;
        bool is_code = low >= 0 && high + low > 0;
        ret[n++] = is_code ? (char)(unsigned char)(high * 16 + low) : *name;
        name += is_code ? 3 : 1;
    }
    ret[n] = '\0';
    return *name == '\0' ? ret : NULL;
}

static int read_one(int fd, const char *name, bool is_disk, struct archive_entry *entry,
                    struct err *err)
{
    static char value[VALUE_MAX];
    if (is_disk && is_lost(name))
        return err_set(err, ERR_UNSUPPORTED, "an overlay has left '%s' on the disk", name);
    if (judge(name, is_disk) != TAKE)
        return 0;
    ssize_t len = fgetxattr(fd, name, value, sizeof value);
    if (len < 0)
        return err_sys(err, errno, "read an attribute");
    // What is in no opaque directory but in an opaque one's search path has "x" here: for the
    // kernel's own use.
    if (strcmp(name, OPAQUE) == 0 && (len != 1 || value[0] != 'y'))
        return 0;
    archive_entry_xattr_add_entry(entry, name, value, (size_t)len);
    return 0;
}

int attr_read(int fd, bool is_disk, struct archive_entry *entry, struct err *err)
{
    static char names[VALUE_MAX];
    ssize_t len = flistxattr(fd, names, sizeof names);
    if (len < 0)
        return errno == EOPNOTSUPP ? 0 : err_sys(err, errno, "list attributes");
    for (const char *name = names; name < names + len; name += strlen(name) + 1) {
        if (read_one(fd, name, is_disk, entry, err) < 0)
            return -1;
    }
    return 0;
}

static int check_one(const char *name, const void *value, size_t len, bool is_disk, struct err *err)
{
    char text[100];
    enum verdict verdict = judge(name, is_disk);
    if (verdict == REFUSE ||
        (strcmp(name, OPAQUE) == 0 && (len != 1 || memcmp(value, "y", 1) != 0)))
        return err_set(err, ERR_INVALID, "the archive has the attribute '%s'", shown(name, text));
    return verdict == TAKE;
}

// As far as the file system and our rights go: what no box can see the lack of is no reason to
// fail.
static int write_one(int fd, const char *name, const void *value, size_t len, struct err *err)
{
    char text[100];
    if (fsetxattr(fd, name, value, len, 0) == 0)
        return 0;
    bool is_user = strncmp(name, "user.", 5) == 0, is_opaque = strcmp(name, OPAQUE) == 0;
    if (!is_opaque && (errno == EOPNOTSUPP || (!is_user && (errno == EPERM || errno == EINVAL))))
        return 0;
    return err_sys(err, errno, "set the attribute '%s'", shown(name, text));
}

static int for_all(int fd, bool is_disk, struct archive_entry *entry, struct err *err)
{
    const char *name;
    const void *value;
    size_t len;
    char plain[NAME_SIZE];
    if (archive_entry_xattr_reset(entry) == 0)
        return 0;
    while (archive_entry_xattr_next(entry, &name, &value, &len) == ARCHIVE_OK) {
        if (name == NULL || (name = unescape(name, plain)) == NULL)
            continue;
        int r = check_one(name, value, len, is_disk, err);
        if (r == 1 && fd >= 0)
            r = write_one(fd, name, value, len, err);
        if (r < 0)
            return -1;
    }
    return 0;
}

int attr_write(int fd, bool is_disk, struct archive_entry *entry, struct err *err)
{
    return for_all(fd, is_disk, entry, err);
}

int attr_check(bool is_disk, struct archive_entry *entry, struct err *err)
{
    return for_all(-1, is_disk, entry, err);
}
