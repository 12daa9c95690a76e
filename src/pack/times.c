// SPDX-License-Identifier: Apache-2.0
#include "pack/times.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pack/pack-internal.h"
#include "pack/place.h"

int times_add(struct times *times, const char *path, const struct timespec *mtime)
{
    size_t len = strlen(path) + 1;
    while (times->room - times->len < len + sizeof *mtime) {
        size_t room = times->room > 0 ? times->room * 2 : 64 * 1024;
        char *data = realloc(times->data, room);
        if (data == NULL)
            return -ENOMEM;
        times->data = data;
        times->room = room;
    }
    memcpy(times->data + times->len, mtime, sizeof *mtime);
    memcpy(times->data + times->len + sizeof *mtime, path, len);
    times->len += sizeof *mtime + len;
    return 0;
}

int times_apply(const struct times *times, struct place *place, struct err *err)
{
    char text[100];
    for (size_t at = 0; at < times->len;) {
        struct timespec both[2] = {{.tv_nsec = UTIME_OMIT}};
        const char *path = times->data + at + sizeof both[1], *name;
        memcpy(&both[1], times->data + at, sizeof both[1]);
        at += sizeof both[1] + strlen(path) + 1;
        int dir = place_find(place, path, &name, err);
        if (dir < 0)
            return -1;
        if (utimensat(dir, name, both, AT_SYMLINK_NOFOLLOW) < 0)
            return err_sys(err, errno, "date '%s'", shown(path, text));
    }
    return 0;
}

void times_done(struct times *times)
{
    free(times->data);
    *times = (struct times){0};
}
