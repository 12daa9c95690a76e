// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/data.h"
#include "box/host-copy.h"
#include "box/host-stamp.h"
#include "box/image-internal.h"
#include "box/image-make.h"
#include "box/image.h"
#include "box/tree.h"
#include "check.h"

// -- a place to work in: a data directory, and a machine that is not this one

struct place {
    char path[64];
    int fd;      // the place itself
    int data;    // its data directory
    int machine; // the root of a made-up machine
};

static void put_at(int fd, const char *path, const char *text, mode_t mode)
{
    assert_int_equal(tree_mkparents(fd, path), 0);
    assert_int_equal(tree_write(fd, path, text, strlen(text), mode), 0);
}

static void link_at(int fd, const char *path, const char *target)
{
    assert_int_equal(tree_mkparents(fd, path), 0);
    assert_int_equal(tree_symlink(fd, path, target), 0);
}

static const char some_certificate[] =
    "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n";
static const char some_key[] =
    "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n"
    "-----BEGIN RSA PRIVATE KEY-----\nMII=\n-----END RSA PRIVATE KEY-----\n";

static void furnish(int machine)
{
    put_at(machine, "usr/bin/python3", "", 0755);
    put_at(machine, "usr/lib/os-release", "ID=test\n", 0644);
    link_at(machine, "bin", "usr/bin");
    link_at(machine, "lib", "usr/lib");
    put_at(machine, "etc/ld.so.cache", "cache", 0644);
    put_at(machine, "etc/shadow", "root:secret", 0640);
    put_at(machine, "etc/hostname", "secret-name\n", 0644);
    put_at(machine, "etc/ssh/ssh_host_key", "secret", 0644);
    put_at(machine, "etc/environment", "TOKEN=secret\n", 0644);
    link_at(machine, "etc/alternatives/awk", "/usr/bin/mawk");
    link_at(machine, "etc/alternatives/chain", "/etc/alternatives/awk");
    link_at(machine, "etc/alternatives/out", "/etc/shadow");
    link_at(machine, "etc/alternatives/far", "/usr/../etc/shadow");
    put_at(machine, "etc/alternatives/README", "text", 0644);
    put_at(machine, "etc/ssl/certs/ca-certificates.crt", some_certificate, 0644);
    put_at(machine, "etc/ssl/certs/with-key.pem", some_key, 0644);
    put_at(machine, "etc/ssl/certs/closed.pem", some_certificate, 0600);
    put_at(machine, "etc/ssl/certs/notes.txt", "not a certificate", 0644);
    put_at(machine, "etc/ssl/certs/ssl-cert-snakeoil.pem", some_certificate, 0644);
    link_at(machine, "etc/ssl/certs/0a1b.0", "ca-certificates.crt");
    link_at(machine, "etc/ssl/certs/ca.pem", "/usr/share/ca-certificates/ca.crt");
    link_at(machine, "etc/ssl/certs/leak.pem", "/etc/ssl/private/key.pem");
    link_at(machine, "etc/ssl/certs/leak2.pem", "../private/key.pem");
    put_at(machine, "etc/ssl/private/key.pem", some_key, 0644);
    put_at(machine, "etc/fonts/conf.avail/10.conf", "font", 0644);
    link_at(machine, "etc/fonts/conf.d/10.conf", "../conf.avail/10.conf");
    link_at(machine, "etc/fonts/conf.d/20.conf", "/usr/share/fontconfig/20.conf");
    link_at(machine, "etc/fonts/conf.d/30.conf", "../../shadow");
    put_at(machine, "etc/java-17-openjdk/security/java.security", "x", 0644);
    put_at(machine, "etc/java-17-openjdk/management/jmxremote.password", "secret", 0600);
    put_at(machine, "etc/php/8.2/cli/php.ini", "x", 0644);
    put_at(machine, "etc/php/8.2/apache2/php.ini", "x", 0644);
    link_at(machine, "etc/php/8.2/cli/conf.d/a.ini", "/etc/php/8.2/mods-available/a.ini");
    put_at(machine, "etc/R/closed/x", "x", 0644);
    assert_int_equal(tree_mkdir(machine, "etc/R/closed", 0700, geteuid()), 0);
    put_at(machine, "etc/perl/Net/x", "x", 0644);
}

static int set_up(void **state)
{
    if (geteuid() != 0)
        return 0;
    struct place *place = calloc(1, sizeof *place);
    (void)snprintf(place->path, sizeof place->path, "/tmp/cay-image-XXXXXX");
    assert_non_null(mkdtemp(place->path));
    place->fd = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(place->fd, "data", 0711), 0);
    assert_int_equal(mkdirat(place->fd, "machine", 0755), 0);
    place->data = openat(place->fd, "data", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    place->machine = openat(place->fd, "machine", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    furnish(place->machine);
    *state = place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;
    if (place == NULL)
        return 0;
    fd_close(place->machine);
    fd_close(place->data);
    fd_close(place->fd);
    auto_fd above = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(tree_remove(above, place->path + strlen("/tmp/")), 0);
    free(place);
    return 0;
}

static bool is_there(int fd, const char *path)
{
    struct stat st;
    return fstatat(fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static unsigned count_names(int data, const char *prefix)
{
    unsigned n = 0;
    struct err err = {0};
    auto_fd images = images_open(data, /* create= */ true, &err);
    assert_true(images >= 0);
    DIR *dir = fdopendir(TAKE_FD(images));
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        n += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    (void)closedir(dir);
    return n;
}

static int open_host(const struct place *place, struct image *ret)
{
    struct err err = {0};
    int r = host_image_open(place->data, place->machine, ret, &err);
    if (r < 0)
        print_error("%s\n", err.msg);
    return r;
}

static ino_t inode_of(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    return st.st_ino;
}

// -- names

CHECK_CASE(names)
{
    static const char *const good[] = {"a", "0", "host", "debian-12", "py3.11", "a_b", "a."};
    static const char *const bad[] = {"",     ".",   "..",  ".a",       "-a",    "_a", "A",
                                      "ab/c", "a b", "a\n", "\xc3\xa9", "a\x7f", "a*"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(image_name_valid(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(image_name_valid(bad[i]));
    char name[IMAGE_NAME_MAX + 1];
    memset(name, 'a', sizeof name);
    name[IMAGE_NAME_MAX] = '\0';
    assert_false(image_name_valid(name));
    name[IMAGE_NAME_MAX - 1] = '\0';
    assert_true(image_name_valid(name));
}

CHECK_CASE(what_to_build)
{
    struct err err = {0};
    assert_int_equal(image_from_check("debian:bookworm", &err), 0);
    assert_int_equal(image_from_check("debian:bookworm-backports", &err), 0);
    static const char *const bad[] = {"",         "debian",     "debian:",      "debian:-x",
                                      "debian:A", "debian:a/b", "ubuntu:noble", "debian:a b"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(image_from_check(bad[i], &err), -1);
    auto_buf list;
    buf_init(&list, IMAGE_PACKAGES_MAX);
    assert_int_equal(image_packages_add(&list, "python3, git,,libc6:i386", &err), 0);
    assert_int_equal(image_packages_add(&list, "g++=4:12.2.0-3", &err), 0);
    assert_string_equal(buf_str(&list), ",python3,git,libc6:i386,g++=4:12.2.0-3");
    assert_int_equal(image_packages_add(&list, "ok,--option", &err), -1);
    assert_int_equal(image_packages_add(&list, "/tmp/a.deb", &err), -1);
}

// -- rules of copying

CHECK_CASE(links)
{
    assert_true(host_link_allowed(HOST_LINKS, "alternatives", "alternatives/awk", "/usr/bin/mawk"));
    assert_true(host_link_allowed(HOST_LINKS, "alternatives", "alternatives/x", "awk"));
    assert_true(host_link_allowed(HOST_LINKS, "alternatives", "alternatives/x", "../../usr/bin/x"));
    assert_false(host_link_allowed(HOST_LINKS, "alternatives", "alternatives/x", "/etc/shadow"));
    assert_false(host_link_allowed(HOST_LINKS, "alternatives", "alternatives/x", "../shadow"));
    assert_false(host_link_allowed(HOST_LINKS, "alternatives", "alternatives/x", "/usr/../root/x"));
    assert_false(host_link_allowed(HOST_LINKS, "alternatives", "alternatives/x", "/usr"));
    assert_false(host_link_allowed(HOST_LINKS, "alternatives", "alternatives/x", "/usrx/y"));
    assert_false(
        host_link_allowed(HOST_LINKS, "alternatives", "alternatives/x", "/etc/alternativesx"));
    assert_false(host_link_allowed(HOST_LINKS, "alternatives", "alternatives/x", "../../../../x"));
    assert_false(host_link_allowed(HOST_CONFIG, "fonts", "fonts/a", "/opt/x"));
    assert_true(host_link_allowed(HOST_CONFIG, "fonts", "fonts/conf.d/a", "../conf.avail/a"));
    assert_true(host_link_allowed(HOST_CERTS, "ssl/certs", "ssl/certs/a.0", "a.pem"));
    assert_true(
        host_link_allowed(HOST_CERTS, "ssl/certs", "ssl/certs/a", "/usr/share/ca-certificates/a"));
    assert_false(host_link_allowed(HOST_CERTS, "ssl/certs", "ssl/certs/a", "/usr/share/x"));
    assert_false(host_link_allowed(HOST_CERTS, "ssl/certs", "ssl/certs/a", "../private/a"));
    assert_false(host_link_allowed(HOST_CERTS, "ssl/certs", "ssl/certs/a", "/home/me/a"));
}

CHECK_CASE(certificates)
{
    assert_true(host_is_certificate(some_certificate, strlen(some_certificate)));
    assert_false(host_is_certificate(some_key, strlen(some_key)));
    assert_false(host_is_certificate("hello", 5));
    assert_false(host_is_certificate("", 0));
}

static void host_takes_only_what_it_may(void **state)
{
    const struct place *place = *state;
    if (place == NULL)
        skip();
    struct image image;
    assert_int_equal(open_host(place, &image), 0);
    int root = image.root_fd;
    static const char *const there[] = {"etc/ld.so.cache",
                                        "etc/alternatives/awk",
                                        "etc/alternatives/chain",
                                        "etc/ssl/certs/ca-certificates.crt",
                                        "etc/ssl/certs/0a1b.0",
                                        "etc/ssl/certs/ca.pem",
                                        "etc/fonts/conf.avail/10.conf",
                                        "etc/fonts/conf.d/10.conf",
                                        "etc/fonts/conf.d/20.conf",
                                        "etc/java-17-openjdk/security/java.security",
                                        "etc/php/8.2/cli/php.ini",
                                        "etc/php/8.2/cli/conf.d/a.ini",
                                        "etc/perl/Net/x",
                                        "etc/nsswitch.conf",
                                        "etc/passwd",
                                        "home/user/workspace",
                                        "workspace",
                                        "usr",
                                        "opt/cay/bin/python",
                                        "var/run",
                                        "run/lock"};
    static const char *const absent[] = {"etc/shadow",
                                         "etc/ssh",
                                         "etc/alternatives/out",
                                         "etc/alternatives/far",
                                         "etc/alternatives/README",
                                         "etc/ssl/certs/with-key.pem",
                                         "etc/ssl/certs/closed.pem",
                                         "etc/ssl/certs/notes.txt",
                                         "etc/ssl/certs/ssl-cert-snakeoil.pem",
                                         "etc/ssl/certs/leak.pem",
                                         "etc/ssl/certs/leak2.pem",
                                         "etc/ssl/private",
                                         "etc/fonts/conf.d/30.conf",
                                         "etc/java-17-openjdk/management/jmxremote.password",
                                         "etc/php/8.2/apache2",
                                         "etc/R/closed",
                                         "usr/bin",
                                         "sbin"};
    for (size_t i = 0; i < sizeof there / sizeof there[0]; i++) {
        if (!is_there(root, there[i]))
            fail_msg("%s is missing", there[i]);
    }
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) {
        if (is_there(root, absent[i]))
            fail_msg("%s was copied", absent[i]);
    }
    char text[4096];
    assert_true(fd_read_file(root, "etc/hostname", text, sizeof text) > 0);
    assert_string_equal(text, "cay\n");
    assert_true(fd_read_file(root, "etc/environment", text, sizeof text) > 0);
    assert_null(strstr(text, "secret"));
    assert_int_equal(fd_read_file(root, "etc/machine-id", text, sizeof text), 0);
    assert_true(fd_read_file(root, "etc/passwd", text, sizeof text) > 0);
    assert_non_null(strstr(text, "user:*:1000:1000:user:/home/user:/bin/bash\n"));
    assert_true(readlinkat(root, "bin", text, sizeof text) == 7);
    assert_int_equal(image.n_binds, 1);
    assert_string_equal(image.binds[0].target, "usr");
    image_done(&image);
    assert_int_equal(image.root_fd, -1);
}

static void host_on_a_machine_that_is_not_merged(void **state)
{
    const struct place *place = *state;
    if (place == NULL)
        skip();
    assert_int_equal(unlinkat(place->machine, "bin", 0), 0);
    put_at(place->machine, "bin/sh", "", 0755);
    struct image image;
    assert_int_equal(open_host(place, &image), 0);
    assert_int_equal(image.n_binds, 2);
    assert_string_equal(image.binds[1].target, "bin");
    struct stat st;
    assert_int_equal(fstatat(image.root_fd, "bin", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISDIR(st.st_mode));
    image_done(&image);
}

// -- staleness

// A change that a stamp must notice, undone by nobody.
struct change {
    const char *what;
    void (*make)(int machine);
};

static void touch_cache(int machine)
{
    auto_fd fd = openat(machine, "etc/ld.so.cache", O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_int_equal(fd_write_all(fd, "x", 1), 0);
}

static void close_cache(int machine)
{
    assert_int_equal(fchmodat(machine, "etc/ld.so.cache", 0600, 0), 0);
}

static void add_alternative(int machine)
{
    link_at(machine, "etc/alternatives/vi", "/usr/bin/vim");
}

static void add_certificate(int machine)
{
    put_at(machine, "etc/ssl/certs/new.pem", some_certificate, 0644);
}

static void add_row(int machine)
{
    put_at(machine, "etc/inputrc", "x", 0644);
}

static void add_deep_row(int machine)
{
    put_at(machine, "etc/php/8.3/cli/php.ini", "x", 0644);
}

static void add_python(int machine)
{
    put_at(machine, "usr/bin/python", "", 0755);
}

static void add_lib32(int machine)
{
    link_at(machine, "lib32", "usr/lib32");
}

static const struct change changes[] = {
    {"a file grows",         touch_cache    },
    {"a file is closed",     close_cache    },
    {"an alternative comes", add_alternative},
    {"a certificate comes",  add_certificate},
    {"a row comes",          add_row        },
    {"a deep row comes",     add_deep_row   },
    {"python comes",         add_python     },
    {"lib32 comes",          add_lib32      },
};

static void host_is_made_again_when_stale(void **state)
{
    const struct place *place = *state;
    if (place == NULL)
        skip();
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct image first, again, later;
        (void)usleep(20000); // the clock of file times ticks every 10 ms at worst
        assert_int_equal(open_host(place, &first), 0);
        assert_int_equal(open_host(place, &again), 0);
        assert_int_equal(inode_of(first.root_fd), inode_of(again.root_fd));
        (void)usleep(20000);
        changes[i].make(place->machine);
        assert_int_equal(open_host(place, &later), 0);
        if (inode_of(first.root_fd) == inode_of(later.root_fd))
            fail_msg("not noticed: %s", changes[i].what);
        // Boxes still stand on the old one: it must be whole until they are gone.
        assert_true(is_there(first.root_fd, "etc/passwd"));
        assert_int_equal(count_names(place->data, ".trash-"), 1);
        image_done(&first);
        image_done(&again);
        image_done(&later);
        struct err err = {0};
        assert_int_equal(image_sweep(place->data, &err), 0);
        assert_int_equal(count_names(place->data, "."), 2); // itself and its parent
    }
    struct image last;
    assert_int_equal(open_host(place, &last), 0);
    assert_false(is_there(last.root_fd, "etc/ld.so.cache")); // it was closed to others
    assert_false(is_there(last.root_fd, "opt/cay/bin/python"));
    image_done(&last);
}

// Opens it many times and looks whether it is whole; the exit code says.
static int open_often(const struct place *place)
{
    for (int i = 0; i < 100; i++) {
        struct image image;
        struct err err = {0};
        if (host_image_open(place->data, place->machine, &image, &err) < 0)
            return 1;
        bool whole = is_there(image.root_fd, "etc/passwd");
        (void)usleep(500);
        whole = whole && is_there(image.root_fd, "etc/passwd") &&
                is_there(image.root_fd, "etc/ssl/certs/ca-certificates.crt");
        image_done(&image);
        if (!whole)
            return 2;
    }
    return 0;
}

static void host_is_whole_while_it_is_replaced(void **state)
{
    enum { N = 6 };
    const struct place *place = *state;
    if (place == NULL)
        skip();
    pid_t children[N];
    for (int i = 0; i < N; i++) {
        children[i] = fork();
        if (children[i] == 0)
            _exit(open_often(place));
    }
    for (int i = 0; i < 30; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "etc/alternatives/tool-%d", i);
        link_at(place->machine, path, "/usr/bin/tool");
        (void)usleep(4000);
    }
    for (int i = 0; i < N; i++) {
        int status = -1;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    struct err err = {0};
    assert_int_equal(image_sweep(place->data, &err), 0);
    assert_int_equal(count_names(place->data, "."), 2);
}

static void stamps(void **state)
{
    const struct place *place = *state;
    if (place == NULL)
        skip();
    auto_buf stamp;
    buf_init(&stamp, HOST_STAMP_MAX);
    host_stamp_begin(&stamp);
    host_stamp_add(&stamp, place->machine, "etc/ld.so.cache");
    host_stamp_add(&stamp, place->machine, "etc/none");
    size_t len = stamp.len;
    host_stamp_add(&stamp, place->machine, "etc/none"); // once is enough
    assert_int_equal(stamp.len, len);
    assert_true(host_stamp_fresh(buf_str(&stamp), place->machine));
    char cut[HOST_STAMP_MAX];
    for (size_t i = 0; i < len; i++) { // no cut stamp is fresh, but for whole lines
        memcpy(cut, stamp.data, i);
        cut[i] = '\0';
        bool whole = i > 0 && cut[i - 1] == '\n';
        assert_int_equal(host_stamp_fresh(cut, place->machine), whole);
    }
    put_at(place->machine, "etc/none", "", 0644);
    assert_false(host_stamp_fresh(buf_str(&stamp), place->machine));
}

// -- the store

static int make_image(int data, const char *name, struct err *err)
{
    struct image_draft draft = IMAGE_DRAFT_NONE;
    struct tree_survey survey;
    int r = image_draft_begin(data, name, &draft, err);
    if (r == 0) {
        put_at(draft.root_fd, "usr/bin/x", "hello", 0755);
        r = image_draft_commit(&draft, "test", &survey, err);
    }
    image_draft_done(&draft);
    return r;
}

static void drafts_and_removal(void **state)
{
    const struct place *place = *state;
    if (place == NULL)
        skip();
    struct err err = {0};
    struct image image;
    assert_int_equal(image_open(place->data, "a", &image, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(make_image(place->data, "a", &err), 0);
    assert_int_equal(make_image(place->data, "a", &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_int_equal(make_image(place->data, "host", &err), -1);
    assert_int_equal(image_open(place->data, "a", &image, &err), 0);
    assert_int_equal(image.n_binds, 0);
    assert_int_equal(image_remove(place->data, "a", &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    image_done(&image);
    struct image_info *list;
    size_t n;
    assert_int_equal(image_list(place->data, &list, &n, &err), 0);
    assert_int_equal(n, 2);
    assert_string_equal(list[0].name, "a");
    assert_string_equal(list[0].kind, "test");
    assert_true(list[0].made > 0 && list[0].bytes > 0);
    free(list);
    assert_int_equal(image_remove(place->data, "a", &err), 0);
    assert_int_equal(image_remove(place->data, "a", &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void sweep_leaves_what_is_held(void **state)
{
    const struct place *place = *state;
    if (place == NULL)
        skip();
    struct err err = {0};
    struct image_draft draft = IMAGE_DRAFT_NONE;
    assert_int_equal(image_draft_begin(place->data, "a", &draft, &err), 0);
    assert_int_equal(image_sweep(place->data, &err), 0);
    assert_int_equal(count_names(place->data, ".new-"), 1);
    fd_close(TAKE_FD(draft.dir_fd)); // as if its maker had died
    assert_int_equal(image_sweep(place->data, &err), 0);
    assert_int_equal(count_names(place->data, ".new-"), 0);
    image_draft_done(&draft);
}

// -- trees

static void trees_do_not_follow(void **state)
{
    const struct place *place = *state;
    if (place == NULL)
        skip();
    int fd = place->fd;
    put_at(fd, "out/keep", "x", 0644);
    link_at(fd, "tree/link", "../out");
    assert_int_equal(tree_mkdir(fd, "tree/link", 0755, 0), -ENOTDIR);
    assert_int_equal(tree_mkdir(fd, "tree/link/a", 0755, 0), -ELOOP);
    assert_int_equal(tree_write(fd, "tree/link/a", "", 0, 0644), -ELOOP);
    assert_int_equal(tree_symlink(fd, "tree/../out/a", "x"), 0); // inside the place
    assert_int_equal(tree_open_dir(place->data, "../out"), -EXDEV);
    assert_int_equal(tree_remove(fd, "tree"), 0);
    assert_true(is_there(fd, "out/keep"));
    assert_int_equal(tree_remove(fd, "nothing"), -ENOENT);
}

static void deep_trees_go(void **state)
{
    const struct place *place = *state;
    if (place == NULL)
        skip();
    enum { DEPTH = 3000 }; // more descriptors than a process has
    assert_int_equal(mkdirat(place->fd, "deep", 0755), 0);
    int at = openat(place->fd, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < DEPTH; i++) {
        assert_int_equal(mkdirat(at, ".deep-0", 0700), 0); // the name that tree_remove would use
        int next = openat(at, ".deep-0", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        fd_close(at);
        at = next;
    }
    fd_close(at);
    struct tree_survey survey;
    auto_fd top = tree_open_dir(place->fd, "deep");
    assert_int_equal(tree_survey(top, &survey), -ELOOP);
    assert_int_equal(tree_remove(place->fd, "deep"), 0);
    assert_false(is_there(place->fd, "deep"));
}

static void data_directories(void **state)
{
    const struct place *place = *state;
    if (place == NULL)
        skip();
    struct err err = {0};
    char path[128];
    (void)snprintf(path, sizeof path, "%s/made", place->path);
    auto_fd fd = data_open(path, &err);
    assert_true(fd >= 0);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0711);
    assert_int_equal(fchmod(fd, 0733), 0);
    assert_int_equal(data_open(path, &err), -1);
    assert_int_equal(err.code, ERR_DENIED);
    put_at(place->fd, "file", "", 0644);
    (void)snprintf(path, sizeof path, "%s/file", place->path);
    assert_int_equal(data_open(path, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    (void)snprintf(path, sizeof path, "%s/no/such", place->path);
    assert_int_equal(data_open(path, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
}

#define PLACED(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

CHECK_MAIN(cmocka_unit_test(names), cmocka_unit_test(what_to_build), cmocka_unit_test(links),
           cmocka_unit_test(certificates), PLACED(host_takes_only_what_it_may),
           PLACED(host_on_a_machine_that_is_not_merged), PLACED(host_is_made_again_when_stale),
           PLACED(host_is_whole_while_it_is_replaced), PLACED(stamps), PLACED(drafts_and_removal),
           PLACED(sweep_leaves_what_is_held), PLACED(trees_do_not_follow), PLACED(deep_trees_go),
           PLACED(data_directories))
