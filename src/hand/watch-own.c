// SPDX-License-Identifier: Apache-2.0
// A file that is put is told as one change: as modified if it was there, as created if not. How it
// gets there is nobody's business (draft.c): it is written without a name, which the kernel tells
// of as '#' and a number, and has a passing one before it is renamed over what was there.
#include <string.h>
#include <sys/stat.h>

#include "hand/watch-internal.h"

// '#' and a number are also what somebody may call a file. That one is there, by this name, and was
// created or moved there; one without a name only ever changes.
static bool is_nameless(struct watch *w, const struct watch_node *dir,
                        const struct inotify_event *ev)
{
    const char *digits = ev->name + 1;
    if (ev->name[0] != '#' || digits[0] == '\0' || digits[strspn(digits, "0123456789")] != '\0')
        return false;
    return (ev->mask & (IN_MODIFY | IN_ATTRIB)) && watch_is_missing(w, dir, ev->name);
}

bool watch_hides(struct watch *w, const struct watch_node *dir, const struct inotify_event *ev)
{
    if (ev->mask & IN_ISDIR)
        return false;
    if (!hand_is_passing(ev->name))
        return is_nameless(w, dir, ev);
    if (ev->mask & IN_MOVED_FROM)
        w->passed[w->n_passed++ % WATCH_PASSED] = ev->cookie;
    return true;
}

bool watch_is_put(struct watch *w, const struct inotify_event *ev)
{
    for (unsigned i = 0; (ev->mask & IN_MOVED_TO) && ev->cookie != 0 && i < WATCH_PASSED; i++) {
        if (w->passed[i] != ev->cookie)
            continue;
        w->passed[i] = 0;
        return true;
    }
    return false;
}

bool watch_takes_new_file(struct watch *w)
{
    const char *path = w->work->texts.path;
    struct watch_node *node = w->table.node;
    struct stat st;
    int wd = inotify_add_watch(w->fd, path, WATCH_EVENTS);
    if (wd < 0 || wd == node->wd)
        return false;
    if (stat(path, &st) < 0 || S_ISDIR(st.st_mode)) {
        (void)inotify_rm_watch(w->fd, wd);
        return false;
    }
    (void)inotify_rm_watch(w->fd, node->wd);
    watch_rebind(&w->table, node, wd);
    return true;
}
