// SPDX-License-Identifier: Apache-2.0
// HAND_WATCH: changes below a path, as inotify tells them, until somebody closes the pipe. With
// HAND_RECURSIVE all directories below are watched, also those that appear; what is in a new one
// when it is found is told as created. Some things are told twice, and nothing is lost in silence:
// where the kernel's queue ran over (the reader was too slow, or stopped), or a directory could not
// be watched, there is HAND_OVERFLOW, and whoever wants to know has to look.
//
// Links are not followed below the path. Names that `exclude` has are not told, and directories of
// such names are not watched; with `include`, only names that it has are told. Writes through
// memory maps, and those of other names of a file that lie elsewhere, are not seen by inotify.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "hand/watch-internal.h"

enum {
    LOOK_MS = 5000, // how often it is made sure that what is watched is still there
    AGAIN_MS = 50,  // until what failed is tried again, if nothing else happens
    EVENTS_SIZE = 64 * 1024,
};

// --- names

bool watch_is_excluded(const struct watch *w, const char *name)
{
    return hand_globs_have(w->exclude, name);
}

static int take_globs(struct watch *w)
{
    static char include[HAND_DATA_MAX + 2], exclude[HAND_DATA_MAX + 2];
    const struct hand_texts *t = &w->work->texts;
    struct hand_watch head;
    if (t->data_len == 0)
        return 0;
    if (t->data_len < sizeof head || t->data_len > HAND_DATA_MAX)
        return -EINVAL;
    memcpy(&head, t->data, sizeof head);
    if ((uint64_t)head.include_len + head.exclude_len + 2 != t->data_len - sizeof head)
        return -EINVAL;
    const char *texts = t->data + sizeof head;
    w->include = hand_globs_split(texts, head.include_len, include);
    w->exclude = hand_globs_split(texts + head.include_len + 1, head.exclude_len, exclude);
    return 0;
}

// --- telling

int watch_tell(struct watch *w, enum hand_change_kind kind, const struct watch_node *dir,
               const char *name, bool is_dir, uint32_t cookie)
{
    char path[WATCH_PATH_SIZE];
    if (name[0] != '\0' && w->include != NULL && !hand_globs_have(w->include, name))
        return 0;
    int n = watch_path(&w->table, dir, path, sizeof path - NAME_MAX - 1);
    if (n < 0) {
        w->lost = true;
        return 0;
    }
    if (n > 0 && name[0] != '\0')
        path[n++] = '/';
    size_t len = strlen(name);
    memcpy(path + n, name, len + 1);
    len += (size_t)n;
    struct hand_change rec = {
        .kind = kind, .is_dir = is_dir, .cookie = cookie, .path_len = (uint32_t)len};
    w->work->n++;
    return work_record(w->work, HAND_REC_CHANGE, &rec, sizeof rec, &(struct work_text){path, len},
                       1);
}

static int tell_itself(struct watch *w, enum hand_change_kind kind)
{
    return watch_tell(w, kind, w->table.node, "", w->root_is_dir, 0);
}

// --- events

// Moved away, or removed. A move tells where to by its cookie.
static void went(struct watch *w, struct watch_node *dir, const struct inotify_event *ev)
{
    struct watch_table *t = &w->table;
    struct watch_node *node = watch_child(t, dir, ev->name);
    struct watch_node *old = w->displaced != 0 ? &t->node[w->displaced - 1] : NULL;
    // Two that are exchanged: the first has just taken the name of the second, which goes now.
    if ((ev->mask & IN_MOVED_FROM) && old != NULL && old->wd > 0 && old->detached &&
        &t->node[old->parent] == dir && strcmp(old->name, ev->name) == 0) {
        node = old;
        w->displaced = 0;
        w->all = true; // to be sure
    }
    if (node == NULL)
        return;
    watch_detach(t, node, ev->mask & IN_MOVED_FROM ? ev->cookie : 0);
    w->moved = (uint32_t)(node - t->node);
    w->loose = true;
}

static bool has_moved(const struct watch_node *node, uint32_t cookie)
{
    return node->wd > 0 && node->detached && node->cookie == cookie;
}

// Nearly always it is the one before.
static struct watch_node *find_moved(struct watch *w, uint32_t cookie)
{
    struct watch_table *t = &w->table;
    if (!w->loose || cookie == 0)
        return NULL;
    if (has_moved(&t->node[w->moved], cookie))
        return &t->node[w->moved];
    for (uint32_t i = 1; i < t->used; i++)
        if (has_moved(&t->node[i], cookie))
            return &t->node[i];
    return NULL;
}

// By now another directory may have the name than when the event was written, and then the one that
// was known by the name it came from is not the one that moved. So what is taken from events alone,
// which keeps the paths of those events right that follow, is looked at when there are no more.
static int came(struct watch *w, struct watch_node *dir, const struct inotify_event *ev)
{
    struct watch_node *node = ev->mask & IN_MOVED_TO ? find_moved(w, ev->cookie) : NULL;
    if (node == NULL)
        return watch_appeared(w, dir, ev->name);
    if (watch_is_above(&w->table, node, dir)) {
        w->all = true; // something was missed
        return 0;
    }
    watch_displace(w, dir, ev->name);
    watch_attach(&w->table, node, dir, ev->name);
    watch_look_later(w, dir);
    return 0;
}

static int on_itself(struct watch *w, struct watch_node *node, const struct inotify_event *ev)
{
    const uint32_t lost_name = IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED;
    bool root = node == w->table.node;
    if (root && !w->root_is_dir && (ev->mask & lost_name) && watch_takes_new_file(w))
        return tell_itself(w, HAND_MODIFIED);
    if (ev->mask & IN_IGNORED) {
        w->freed = true;
        w->gone |= root;
        if (!root) {
            w->loose = true;
            watch_bury(&w->table, node);
        }
        return 0;
    }
    // A directory that another one was moved over has lost its last name, which is told right then;
    // one that was exchanged has not.
    if ((ev->mask & IN_ATTRIB) && w->displaced == (uint32_t)(node - w->table.node) + 1)
        w->displaced = 0;
    if (!root)
        return 0; // the directory above tells
    if (ev->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT))
        w->gone = true;
    else if (ev->mask & (IN_MODIFY | IN_ATTRIB))
        return tell_itself(w, ev->mask & IN_MODIFY ? HAND_MODIFIED : HAND_ATTRIB);
    return 0;
}

static int on_entry(struct watch *w, struct watch_node *dir, const struct inotify_event *ev)
{
    static const struct {
        uint32_t mask;
        enum hand_change_kind kind;
    } kinds[] = {
        {IN_CREATE,     HAND_CREATED   },
        {IN_MODIFY,     HAND_MODIFIED  },
        {IN_DELETE,     HAND_DELETED   },
        {IN_MOVED_FROM, HAND_MOVED_FROM},
        {IN_MOVED_TO,   HAND_MOVED_TO  },
        {IN_ATTRIB,     HAND_ATTRIB    },
    };
    bool is_dir = ev->mask & IN_ISDIR;
    int r = 0;
    if (watch_hides(w, dir, ev) || watch_is_excluded(w, ev->name))
        return 0;
    if (watch_is_put(w, ev))
        return watch_tell(w, HAND_MODIFIED, dir, ev->name, false, 0);
    for (size_t i = 0; r == 0 && i < sizeof kinds / sizeof *kinds; i++)
        if (ev->mask & kinds[i].mask)
            r = watch_tell(w, kinds[i].kind, dir, ev->name, is_dir, ev->cookie);
    if (r < 0 || !is_dir || !w->recursive)
        return r;
    if (ev->mask & (IN_DELETE | IN_MOVED_FROM))
        went(w, dir, ev);
    return ev->mask & (IN_CREATE | IN_MOVED_TO) ? came(w, dir, ev) : 0;
}

// The same file modified again, before anybody was told of the first time.
static bool is_repeated(const struct inotify_event *ev, const struct inotify_event *last)
{
    return last != NULL && (ev->mask & IN_MODIFY) && ev->mask == last->mask && ev->wd == last->wd &&
           ev->len == last->len && memcmp(ev->name, last->name, ev->len) == 0;
}

static int on_event(struct watch *w, const struct inotify_event *ev)
{
    if (ev->mask & IN_Q_OVERFLOW) {
        w->lost = true;
        w->all = w->recursive;
        return 0;
    }
    struct watch_node *node = watch_by_wd(&w->table, ev->wd);
    if (node == NULL)
        return 0; // of a watch that we removed
    return ev->len == 0 ? on_itself(w, node, ev) : on_entry(w, node, ev);
}

static int read_events(struct watch *w)
{
    static _Alignas(struct inotify_event) char buf[EVENTS_SIZE];
    const struct inotify_event *last = NULL;
    ssize_t n = read(w->fd, buf, sizeof buf);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN ? 0 : -errno;
    for (ssize_t at = 0; at < n && !w->gone;) {
        const struct inotify_event *ev = (const void *)(buf + at);
        int r = is_repeated(ev, last) ? 0 : on_event(w, ev);
        if (r == 0 && w->lost) {
            w->lost = false;
            r = tell_itself(w, HAND_OVERFLOW);
        }
        if (r < 0)
            return r;
        last = ev;
        at += (ssize_t)sizeof *ev + ev->len;
    }
    return 0;
}

// --- the whole

static bool has_events(const struct watch *w)
{
    struct pollfd p = {.fd = w->fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

static int wait_and_read(struct watch *w)
{
    struct pollfd p[] = {
        {.fd = w->fd,        .events = POLLIN},
        {.fd = w->work->out, .events = 0     },
    };
    int r = work_flush(w->work);
    if (r < 0)
        return r;
    int n = poll(p, 2, w->later || w->all ? AGAIN_MS : LOOK_MS);
    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    if (p[1].revents != 0)
        return -EPIPE;
    if (n == 0) {
        watch_look_at_root(w);
        w->all |= w->limited && w->freed; // perhaps there is room now
    }
    r = p[0].revents != 0 ? read_events(w) : 0;
    if (r == 0 && !w->gone && !has_events(w))
        r = watch_settle(w);
    if (r == 0 && w->lost) {
        w->lost = false;
        r = tell_itself(w, HAND_OVERFLOW);
    }
    return r;
}

static int watch(struct watch *w)
{
    w->starting = true;
    int r = w->recursive && w->root_is_dir ? watch_first(w) : 0;
    w->starting = false;
    if (r == 0)
        r = tell_itself(w, HAND_WATCHING);
    while (r == 0 && !w->gone)
        r = wait_and_read(w);
    return r < 0 ? r : tell_itself(w, HAND_ROOT_GONE);
}

// The watch of the path itself, where it leads.
static int watch_path_itself(struct watch *w, const char *path)
{
    auto_fd fd = hand_open(AT_FDCWD, path, O_PATH);
    struct stat st;
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (hand_is_made_up(fd))
        return -EOPNOTSUPP; // nothing would ever be told
    w->root_is_dir = S_ISDIR(st.st_mode);
    int wd = inotify_add_watch(w->fd, path, WATCH_EVENTS);
    if (wd < 0)
        return -errno;
    watch_table_init(&w->table, wd);
    return 0;
}

static int begin(struct watch *w)
{
    const char *path = w->work->texts.path;
    int r = take_globs(w);
    if (r < 0)
        return r;
    auto_fd fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd < 0)
        return -errno;
    w->fd = fd;
    w->recursive = w->work->req->flags & HAND_RECURSIVE;
    r = watch_path_itself(w, path);
    return r < 0 ? work_failed(w->work, path, -r) : watch(w);
}

int work_watch(struct work *work)
{
    struct watch *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (w == MAP_FAILED)
        return -errno;
    w->work = work;
    int r = begin(w);
    (void)munmap(w, sizeof *w);
    return r;
}
