// SPDX-License-Identifier: Apache-2.0
#include "box/host-copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/host-stamp.h"
#include "box/tree.h"

struct host_row {
    const char *path; // below /etc; * stands for any part of one name
    enum host_rule rule;
};

// Left out on purpose, though programs read them: everything where people put passwords or host
// names (environment, gitconfig, pip.conf, npmrc, wgetrc, maven/settings.xml, apt, ssh, hosts,
// profile.d).
static const struct host_row rows[] = {
  // the dynamic linker
    {"ld.so.cache",               HOST_CONFIG},
    {"ld.so.conf",                HOST_CONFIG},
    {"ld.so.conf.d",              HOST_CONFIG},
 // names in /usr/bin that lead through /etc
    {"alternatives",              HOST_LINKS },
 // who is trusted; Debian's layout, then Fedora's and Alpine's
    {"ssl/certs",                 HOST_CERTS },
    {"ssl/certs/java/cacerts",    HOST_CONFIG},
    {"ssl/openssl.cnf",           HOST_CONFIG},
    {"ssl/cert.pem",              HOST_CERTS },
    {"ca-certificates.conf",      HOST_CONFIG},
    {"pki/tls/certs",             HOST_CERTS },
    {"pki/tls/cert.pem",          HOST_CERTS },
    {"pki/tls/openssl.cnf",       HOST_CONFIG},
    {"pki/ca-trust/extracted",    HOST_CERTS },
    {"pki/java/cacerts",          HOST_CONFIG},
    {"crypto-policies/back-ends", HOST_CONFIG},
 // numbers and names
    {"services",                  HOST_CONFIG},
    {"protocols",                 HOST_CONFIG},
    {"rpc",                       HOST_CONFIG},
    {"debian_version",            HOST_CONFIG},
    {"mime.types",                HOST_CONFIG},
    {"magic",                     HOST_CONFIG},
    {"magic.mime",                HOST_CONFIG},
    {"locale.alias",              HOST_CONFIG},
    {"inputrc",                   HOST_CONFIG},
    {"terminfo",                  HOST_CONFIG},
    {"xattr.conf",                HOST_CONFIG},
    {"dpkg/origins",              HOST_CONFIG},
 // languages
    {"java",                      HOST_CONFIG},
    {"java-*-openjdk",            HOST_CONFIG},
    {"perl",                      HOST_CONFIG},
    {"python3",                   HOST_CONFIG},
    {"python3.*",                 HOST_CONFIG},
    {"R",                         HOST_CONFIG},
    {"php/*/cli",                 HOST_CONFIG},
    {"php/*/mods-available",      HOST_CONFIG},
    {"gnucobol",                  HOST_CONFIG},
    {"maven/m2.conf",             HOST_CONFIG},
    {"maven/logging",             HOST_CONFIG},
    {"julia",                     HOST_CONFIG},
    {"octave.conf",               HOST_CONFIG},
    {"matplotlibrc",              HOST_CONFIG},
 // pictures, documents, screens
    {"fonts",                     HOST_CONFIG},
    {"ImageMagick-*",             HOST_CONFIG},
    {"libreoffice",               HOST_CONFIG},
    {"ghostscript",               HOST_CONFIG},
    {"texmf",                     HOST_CONFIG},
    {"groff",                     HOST_CONFIG},
    {"papersize",                 HOST_CONFIG},
    {"xml",                       HOST_CONFIG},
    {"gtk-2.0",                   HOST_CONFIG},
    {"gtk-3.0",                   HOST_CONFIG},
    {"vim",                       HOST_CONFIG},
    {"OpenCL/vendors",            HOST_CONFIG},
    {"vulkan",                    HOST_CONFIG},
    {"glvnd",                     HOST_CONFIG},
};

uint64_t host_copy_rows(void)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325); // FNV-1a
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (const char *p = rows[i].path; *p != '\0'; p++)
            sum = (sum ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
        sum = (sum ^ (UINT64_C(256) + rows[i].rule)) * UINT64_C(0x100000001b3);
    }
    return sum;
}

// Certificates by their place, not by what they are for: made at install time with the machine's
// name.
static const char *const private_names[] = {"ssl-cert-snakeoil.pem"};

static const char *const cert_places[] = {
    "/etc/ssl/certs/", "/etc/pki/", "/usr/share/ca-certificates/",
    "/usr/local/share/ca-certificates/", // a machine's own CAs; boxes see the directory itself too
};

// -- rules

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

// Appends the components of `text` to the absolute path `path`, with "." and ".." worked out as
// words.
static bool walk_words(char path[PATH_MAX], const char *text)
{
    while (*text != '\0') {
        size_t len = strcspn(text, "/");
        if (len == 2 && strncmp(text, "..", 2) == 0) {
            char *slash = strrchr(path, '/');
            if (slash == NULL)
                return false; // above the root
            *slash = '\0';
        } else if (len > 0 && !(len == 1 && text[0] == '.')) {
            size_t at = strlen(path);
            if (at + 1 + len >= PATH_MAX)
                return false;
            path[at] = '/';
            memcpy(path + at + 1, text, len);
            path[at + 1 + len] = '\0';
        }
        text += len;
        text += strspn(text, "/");
    }
    return true;
}

bool host_link_allowed(enum host_rule rule, const char *row, const char *path, const char *target)
{
    char full[PATH_MAX] = "";
    if (target[0] != '/') {
        if (!walk_words(full, "etc") || !walk_words(full, path) || !walk_words(full, ".."))
            return false;
    }
    if (!walk_words(full, target))
        return false;
    if (rule == HOST_CERTS) {
        for (size_t i = 0; i < sizeof cert_places / sizeof cert_places[0]; i++) {
            if (starts_with(full, cert_places[i]))
                return true;
        }
        return strcmp(full, "/etc/pki/tls/certs") == 0; // where Fedora's /etc/ssl/certs leads
    }
    if (starts_with(full, "/usr/"))
        return true;
    if (!starts_with(full, "/etc/"))
        return false;
    const char *in_etc = full + strlen("/etc/");
    if (starts_with(in_etc, "alternatives/"))
        return true;
    // php/8.2/cli/conf.d leads to php/8.2/mods-available: what lies beside a row below /etc/NAME is
    // a row too, or it is missing in the box, and a link to nothing gives nothing away.
    size_t top = strcspn(row, "/");
    return strncmp(in_etc, row, top) == 0 && in_etc[top] == '/';
}

bool host_is_certificate(const char *text, size_t len)
{
    static const char *const marks[] = {"-----BEGIN CERTIFICATE-----",
                                        "-----BEGIN TRUSTED CERTIFICATE-----"};
    static const char key[] = "PRIVATE KEY";
    if (memmem(text, len, key, strlen(key)) != NULL)
        return false;
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        if (memmem(text, len, marks[i], strlen(marks[i])) != NULL)
            return true;
    }
    return false;
}

// -- copying

struct copy_place {
    struct host_copy *copy;
    const struct host_row *row;
    const char *row_path; // with the stars filled in
};

static bool within_budget(const struct host_copy *copy)
{
    return copy->entries < HOST_ENTRIES_MAX && copy->bytes < HOST_BYTES_MAX;
}

static bool is_private_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    for (size_t i = 0; i < sizeof private_names / sizeof private_names[0]; i++) {
        if (strcmp(name, private_names[i]) == 0)
            return true;
    }
    return false;
}

static int etc_path(const char *path, char ret[PATH_MAX])
{
    int len = snprintf(ret, PATH_MAX, "etc/%s", path);
    return len < 0 || len >= PATH_MAX ? -ENAMETOOLONG : 0;
}

static int copy_link(const struct copy_place *place, int dir_fd, const char *name, const char *path)
{
    char target[PATH_MAX], to[PATH_MAX];
    ssize_t len = readlinkat(dir_fd, name, target, sizeof target - 1);
    if (len <= 0)
        return 0;
    target[len] = '\0';
    if (!host_link_allowed(place->row->rule, place->row_path, path, target))
        return 0;
    int r = etc_path(path, to);
    return r < 0 ? r : tree_symlink(place->copy->to_fd, to, target);
}

static int copy_file(const struct copy_place *place, int dir_fd, const char *name, const char *path)
{
    if (place->row->rule == HOST_LINKS || is_private_name(path))
        return 0;
    // O_NONBLOCK: the name may have become a pipe since it was looked at.
    auto_fd fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_mode & 0004) == 0 ||
        st.st_size > HOST_FILE_MAX)
        return 0;
    size_t room = (size_t)st.st_size + 1; // one more shows whether it grew
    char *data = malloc(room);
    if (data == NULL)
        return -ENOMEM;
    int r = 0;
    ssize_t len = fd_read_all(fd, data, room);
    if (len >= 0 && (size_t)len < room &&
        (place->row->rule != HOST_CERTS || host_is_certificate(data, (size_t)len))) {
        char to[PATH_MAX];
        r = etc_path(path, to);
        if (r == 0)
            r = tree_write(place->copy->to_fd, to, data, (size_t)len,
                           (st.st_mode & 0001) != 0 ? 0755 : 0644);
        place->copy->bytes += (uint64_t)len;
    }
    free(data);
    return r;
}

static int copy_entry(const struct copy_place *place, int dir_fd, const char *name,
                      const char *path, unsigned depth);

static int copy_dir(const struct copy_place *place, int dir_fd, const char *name, const char *path,
                    unsigned depth)
{
    auto_fd fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || depth >= HOST_DEPTH_MAX || fstat(fd, &st) < 0 || (st.st_mode & 0005) != 0005)
        return 0;
    char child[PATH_MAX];
    int r = etc_path(path, child);
    if (r == 0)
        r = tree_mkdir(place->copy->to_fd, child, 0755, 0);
    if (r < 0)
        return r;
    DIR *dir = fdopendir(fd);
    if (dir == NULL)
        return -errno;
    int at = TAKE_FD(fd); // the DIR's now
    const struct dirent *entry;
    while (r == 0 && within_budget(place->copy) && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        int len = snprintf(child, sizeof child, "%s/%s", path, entry->d_name);
        if (len > 0 && (size_t)len < sizeof child)
            r = copy_entry(place, at, entry->d_name, child, depth + 1);
    }
    (void)closedir(dir);
    return r;
}

static int copy_entry(const struct copy_place *place, int dir_fd, const char *name,
                      const char *path, unsigned depth)
{
    struct stat st;
    if (!within_budget(place->copy) || fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    place->copy->entries++;
    if (S_ISLNK(st.st_mode))
        return copy_link(place, dir_fd, name, path);
    if (S_ISDIR(st.st_mode))
        return copy_dir(place, dir_fd, name, path, depth);
    if (S_ISREG(st.st_mode))
        return copy_file(place, dir_fd, name, path);
    return 0;
}

// -- rows

static int copy_row(struct host_copy *copy, const struct host_row *row, int dir_fd,
                    const char *name, const char *path)
{
    char to[PATH_MAX];
    int r = etc_path(path, to);
    if (r == 0)
        r = tree_mkparents(copy->to_fd, to);
    if (r < 0)
        return r;
    host_stamp_add(copy->stamp, copy->from_fd,
                   to); // before it is read, so that no change is missed
    const struct copy_place place = {.copy = copy, .row = row, .row_path = path};
    return copy_entry(&place, dir_fd, name, path, 0);
}

// Plain words only: the names of rows stand in lines of the stamp.
static bool is_plain(const char *name)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-";
    return name[0] != '.' && name[strspn(name, plain)] == '\0';
}

static int match_rest(struct host_copy *copy, const struct host_row *row, int dir_fd,
                      const char *done, const char *rest);

// One name in dir_fd matched; goes on below it, or copies it when the pattern ends here.
static int match_name(struct host_copy *copy, const struct host_row *row, int dir_fd,
                      const char *done, const char *name, const char *rest)
{
    char path[PATH_MAX];
    int len = snprintf(path, sizeof path, "%s%s%s", done, done[0] == '\0' ? "" : "/", name);
    struct stat st;
    if (len < 0 || (size_t)len >= sizeof path ||
        fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (rest == NULL)
        return copy_row(copy, row, dir_fd, name, path);
    auto_fd fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || (st.st_mode & 0005) != 0005)
        return 0;
    // A row that is missing now is noticed when it comes.
    char parent[PATH_MAX];
    if (etc_path(path, parent) == 0)
        host_stamp_add(copy->stamp, copy->from_fd, parent);
    return match_rest(copy, row, fd, path, rest);
}

static int match_rest(struct host_copy *copy, const struct host_row *row, int dir_fd,
                      const char *done, const char *rest)
{
    char pattern[NAME_MAX + 1];
    size_t len = strcspn(rest, "/");
    if (len >= sizeof pattern)
        return -ENAMETOOLONG;
    memcpy(pattern, rest, len);
    pattern[len] = '\0';
    const char *next = rest[len] == '/' ? rest + len + 1 : NULL;
    if (strchr(pattern, '*') == NULL)
        return match_name(copy, row, dir_fd, done, pattern, next);
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        fd_close(fd);
        return 0;
    }
    int r = 0;
    const struct dirent *entry;
    while (r == 0 && (entry = readdir(dir)) != NULL) {
        if (is_plain(entry->d_name) && fnmatch(pattern, entry->d_name, 0) == 0)
            r = match_name(copy, row, dir_fd, done, entry->d_name, next);
    }
    (void)closedir(dir);
    return r;
}

int host_copy_etc(struct host_copy *copy)
{
    auto_fd etc = openat(copy->from_fd, "etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (etc < 0)
        return -errno;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int r = match_rest(copy, &rows[i], etc, "", rows[i].path);
        if (r < 0)
            return r;
    }
    return 0;
}
