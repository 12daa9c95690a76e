// SPDX-License-Identifier: Apache-2.0
// Keys in the order of their bytes. Within a directory that is the order of its names, with a '/'
// after those of directories: "a-b" comes before what is in "a". Of each directory the lowest names
// above the last one are kept, as many as a window has; after these it is read once more. So memory
// does not grow with the directory, and no descriptor is kept while its objects are told of.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "store/local-internal.h"

enum { WINDOW = 16 * 1024 };

struct name {
    char *text; // with a '/' at the end: a directory
    uint64_t size;
    int64_t modified_ms;
};

struct window {
    struct name *names;
    size_t n, cap, max; // `max` are kept, up to twice as many gathered
    bool cut;           // there are more, above the last
};

struct walk {
    const struct local *local;
    const char *prefix, *after;
    unsigned left; // UINT_MAX: all
    store_list_fn fn;
    void *data;
    char path[STORE_KEY_MAX + NAME_MAX + 2]; // of the directory, ended with '/', or ""
    bool stopped;
};

// --- window ---

static int by_text(const void *a, const void *b)
{
    return strcmp(((const struct name *)a)->text, ((const struct name *)b)->text);
}

static void window_cut(struct window *window)
{
    if (window->n == 0)
        return;
    qsort(window->names, window->n, sizeof *window->names, by_text);
    for (; window->n > window->max; window->n--) {
        free(window->names[window->n - 1].text);
        window->cut = true;
    }
}

static int window_add(struct window *window, const char *text)
{
    if (window->n == 2 * window->max)
        window_cut(window);
    if (window->n == window->cap) {
        size_t cap = window->cap == 0 ? 64 : 2 * window->cap;
        struct name *names = reallocarray(window->names, cap, sizeof *names);
        if (names == NULL)
            return -ENOMEM;
        window->names = names;
        window->cap = cap;
    }
    struct name name = {.text = strdup(text)};
    if (name.text == NULL)
        return -ENOMEM;
    window->names[window->n++] = name;
    return 0;
}

static void window_done(struct window *window)
{
    for (size_t i = 0; i < window->n; i++)
        free(window->names[i].text);
    free(window->names);
}

// --- what may be in it ---

// Whether keys that begin with `path` may begin with the prefix, and lie above `after`.
static bool is_wanted(const struct walk *walk, const char *path, bool is_dir)
{
    size_t len = strlen(path), prefix = strlen(walk->prefix);
    size_t common = is_dir && len < prefix ? len : prefix;
    if (strncmp(path, walk->prefix, common) != 0)
        return false;
    if (walk->after == NULL)
        return true;
    return is_dir && strncmp(path, walk->after, len) == 0 ? true : strcmp(path, walk->after) > 0;
}

static bool is_dir(int dir, const struct dirent *entry)
{
    struct stat st;
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_DIR;
    return fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int consider(struct walk *walk, int dir, const struct dirent *entry, const char *above,
                    struct window *window)
{
    char name[NAME_MAX + 2], path[sizeof walk->path];
    bool directory = is_dir(dir, entry);
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
        (walk->path[0] == '\0' && strcmp(entry->d_name, LOCAL_TMP) == 0))
        return 0;
    (void)snprintf(name, sizeof name, "%s%s", entry->d_name, directory ? "/" : "");
    if (above != NULL && strcmp(name, above) <= 0)
        return 0;
    int n = snprintf(path, sizeof path, "%s%s", walk->path, name);
    if (n > STORE_KEY_MAX || !is_wanted(walk, path, directory))
        return 0;
    return window_add(window, name);
}

// Only files are objects; what is gone by now is left out.
static void look_at(int dir, struct window *window)
{
    size_t kept = 0;
    for (size_t i = 0; i < window->n; i++) {
        struct name name = window->names[i];
        struct stat st;
        bool directory = name.text[strlen(name.text) - 1] == '/';
        if (!directory &&
            (fstatat(dir, name.text, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))) {
            free(name.text);
            continue;
        }
        if (!directory) {
            name.size = (uint64_t)st.st_size;
            name.modified_ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
        }
        window->names[kept++] = name;
    }
    window->n = kept;
}

// `ret_last` is the last name that was looked at, which may have been left out since.
static int gather(struct walk *walk, const char *above, struct window *window, char **ret_last)
{
    int fd = local_open_key(walk->local, walk->path[0] != '\0' ? walk->path : ".",
                            O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return fd == -ENOENT || fd == -ENOTDIR ? 0 : fd;
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        fd_close(fd);
        return -ENOMEM;
    }
    struct dirent *entry;
    int r = 0;
    while (r == 0 && (errno = 0, entry = readdir(dir)) != NULL)
        r = consider(walk, fd, entry, above, window);
    if (r == 0 && entry == NULL && errno != 0)
        r = -errno;
    window_cut(window);
    if (r == 0 && window->cut)
        *ret_last = strdup(window->names[window->n - 1].text);
    look_at(fd, window);
    (void)closedir(dir);
    return r == 0 && window->cut && *ret_last == NULL ? -ENOMEM : r;
}

// --- walk ---

static int walk_dir(struct walk *walk);

static int tell(struct walk *walk, const struct name *name)
{
    size_t len = strlen(walk->path);
    (void)snprintf(walk->path + len, sizeof walk->path - len, "%s", name->text);
    int r = 0;
    if (name->text[strlen(name->text) - 1] == '/') {
        r = walk_dir(walk);
    } else if (store_key_valid(walk->path)) {
        const struct store_listed object = {
            .key = walk->path, .size = name->size, .modified_ms = name->modified_ms};
        walk->stopped = walk->fn(walk->data, &object) != 0;
        if (walk->left != UINT_MAX)
            walk->stopped |= --walk->left == 0;
    }
    walk->path[len] = '\0';
    return r;
}

// A window of it; `above` is where it begins and where the next one does, NULL after the last.
static int walk_window(struct walk *walk, char **above)
{
    struct window window = {.max = walk->left < WINDOW ? walk->left : WINDOW};
    auto_free char *last = NULL;
    int r = gather(walk, *above, &window, &last);
    for (size_t i = 0; r == 0 && !walk->stopped && i < window.n; i++)
        r = tell(walk, &window.names[i]);
    window_done(&window);
    char *before = *above;
    *above = last;
    last = before;
    return r;
}

static int walk_dir(struct walk *walk)
{
    char *above = NULL;
    int r;
    do {
        r = walk_window(walk, &above);
    } while (r == 0 && !walk->stopped && above != NULL);
    free(above);
    return r;
}

int local_list(void *driver, const char *prefix, const char *after, unsigned max, store_list_fn fn,
               void *data, struct err *err)
{
    struct walk walk = {
        .local = driver,
        .prefix = prefix,
        .after = after,
        .left = max == 0 ? UINT_MAX : max,
        .fn = fn,
        .data = data,
    };
    // What is above the prefix's last '/' need not be read.
    const char *slash = strrchr(prefix, '/');
    if (slash != NULL)
        (void)snprintf(walk.path, sizeof walk.path, "%.*s", (int)(slash + 1 - prefix), prefix);
    int r = walk_dir(&walk);
    return r < 0 ? err_sys(err, -r, "list '%.100s'", prefix) : 0;
}
