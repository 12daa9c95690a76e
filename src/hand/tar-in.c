// SPDX-License-Identifier: Apache-2.0
// HAND_TAR_IN: unpacks the archive that comes through work->in below the path. It stops at the
// first thing that it will not do, and says which entry that was: a name that leads elsewhere, a
// directory where a file shall be, a disk that is full. What it unpacked until then stays. Devices
// are left out, and not counted. Nothing is written to work->out.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "hand/hand-internal.h"
#include "hand/tar-format.h"
#include "hand/tar-place.h"
#include "hand/tar-source.h"

enum { PIPE_SIZE = 1024 * 1024 };

struct unpack {
    struct work *work;
    bool begun; // there was a block that is a header
    struct tar_head head;
    struct tar_extra all, extra;
    struct tar_source source;
    struct tar_place place;
    struct tar_extent extents[TAR_EXTENTS_MAX];
    char text[TAR_EXTRA_MAX];
};

// --- content

// Reads the map where it has not been yet, and how many bytes of `head.size` are left after it.
static int read_map(struct unpack *u, struct tar_map *map, uint64_t *ret_left)
{
    uint64_t left = u->head.size;
    int r = 1;
    while (u->head.kind == TAR_FILE && r == 1) {
        const uint8_t *block;
        size_t len;
        if (left < TAR_BLOCK)
            return -EBADMSG;
        r = tar_source_block(&u->source, &block, &len);
        if (r == 1)
            r = tar_map_text(map, block);
        else if (r == 0)
            r = -EBADMSG;
        left -= TAR_BLOCK;
    }
    *ret_left = left;
    return r < 0 ? r : 0;
}

static int put_sparse(struct unpack *u, struct tar_map *map, int fd)
{
    uint64_t left;
    int r = read_map(u, map, &left);
    if (r < 0)
        return r;
    if (!tar_map_fits(map, u->head.real_size, left))
        return -EBADMSG;
    if (ftruncate(fd, (off_t)u->head.real_size) < 0)
        return -errno;
    for (size_t i = 0; i < map->n && r == 0; i++) {
        if (lseek(fd, (off_t)map->extents[i].at, SEEK_SET) < 0)
            return -errno;
        r = tar_source_file(&u->source, fd, map->extents[i].len);
    }
    return r;
}

static int put_file(struct unpack *u, struct tar_map *map)
{
    auto_fd fd = -1;
    int r = tar_place_file(&u->place, &u->head, &fd);
    if (r < 0)
        return r;
    r = u->head.sparse ? put_sparse(u, map, fd) : tar_source_file(&u->source, fd, u->head.size);
    if (r == 0)
        r = tar_place_file_consume(&u->place, &u->head, TAKE_FD(fd));
    if (r < 0) {
        tar_place_undo(&u->place, &u->head);
        return r;
    }
    u->work->bytes += u->head.sparse ? u->head.real_size : u->head.size;
    return tar_source_skip(&u->source, tar_padding(u->head.size));
}

// --- entries

static int put_entry(struct unpack *u, struct tar_map *map)
{
    switch (u->head.kind) {
    case TAR_FILE:
    case TAR_OLD_SPARSE:
        return put_file(u, map);
    case TAR_DIR:
        return tar_place_dir(&u->place, &u->head);
    case TAR_SYMLINK:
        return tar_place_symlink(&u->place, &u->head);
    case TAR_HARDLINK:
        return tar_place_hardlink(&u->place, &u->head);
    case TAR_FIFO:
        return tar_place_fifo(&u->place, &u->head);
    case TAR_DEVICE:
    case TAR_LABEL:
    case TAR_LONG_NAME:
    case TAR_LONG_LINK:
    case TAR_PAX:
    case TAR_PAX_ALL:
    case TAR_KIND_MAX:
        break;
    }
    return -EBADMSG;
}

// Names below the target, and nothing else.
static int check_names(struct tar_head *head)
{
    size_t len = strlen(head->name);
    // A file called "x/" is written by nobody, and is a directory to some.
    if (head->kind != TAR_DIR && len > 0 && head->name[len - 1] == '/')
        return -EBADMSG;
    int r = tar_clean_name(head->name);
    if (r < 0)
        return r;
    if (r == 0 && head->kind != TAR_DIR)
        return -EINVAL;
    if (head->kind != TAR_HARDLINK)
        return 0;
    r = tar_clean_name(head->link);
    return r == 0 ? -EINVAL : r < 0 ? r : 0;
}

// What the header and those before it describe.
static int take_entry(struct unpack *u, struct tar_map *map)
{
    int r = tar_apply(&u->head, &u->all, &u->extra);
    u->extra.said = 0;
    if (r < 0)
        return work_failed(u->work, u->head.name, -r);
    if (u->head.kind == TAR_DEVICE || u->head.kind == TAR_LABEL)
        return tar_source_skip(&u->source, u->head.size + tar_padding(u->head.size));
    r = check_names(&u->head);
    if (r == 0)
        r = put_entry(u, map);
    if (r < 0)
        return work_failed(u->work, u->head.name[0] == '\0' ? "." : u->head.name, -r);
    u->work->n++;
    return 0;
}

// What is said of the next entry.
static int take_extra(struct unpack *u)
{
    enum tar_kind kind = u->head.kind;
    size_t len = (size_t)u->head.size;
    if (u->head.size > sizeof u->text)
        return -EBADMSG;
    int r = tar_source_read(&u->source, u->text, len);
    if (r == 0)
        r = tar_source_skip(&u->source, tar_padding(len));
    if (r < 0)
        return r;
    if (kind == TAR_LONG_NAME || kind == TAR_LONG_LINK)
        return tar_get_long(u->text, len, kind, &u->extra);
    return tar_get_pax(u->text, len, kind == TAR_PAX_ALL,
                       kind == TAR_PAX_ALL ? &u->all : &u->extra);
}

static int take_header(struct unpack *u, const uint8_t *block)
{
    struct tar_map map = {.extents = u->extents};
    int r = tar_get_head(block, &u->head);
    if (r < 0)
        return !u->begun && tar_is_compressed(block, TAR_BLOCK) ? -EPROTONOSUPPORT : r;
    u->begun = true;
    if (u->head.kind > TAR_LABEL)
        return take_extra(u);
    if (u->head.kind == TAR_OLD_SPARSE) {
        r = tar_map_old_head(&map, block);
        for (size_t len; r == 1;) {
            r = tar_source_block(&u->source, &block, &len);
            r = r == 1 ? tar_map_old_more(&map, block) : -EBADMSG;
        }
        if (r < 0)
            return work_failed(u->work, u->head.name, -r);
    }
    return take_entry(u, &map);
}

// Until the first block of zeros. An archive that ends before was cut.
static int take_all(struct unpack *u)
{
    for (;;) {
        const uint8_t *block = NULL;
        size_t len = 0;
        int r = tar_source_block(&u->source, &block, &len);
        if (r != 1 && !u->begun && tar_is_compressed(block, len))
            return -EPROTONOSUPPORT;
        if (r != 1)
            return r < 0 ? r : -EBADMSG;
        if (tar_is_end(block))
            return u->extra.said == 0 ? 0 : -EBADMSG;
        r = take_header(u, block);
        if (r < 0)
            return r;
    }
}

static int unpack(struct unpack *u, const char *path)
{
    struct work *work = u->work;
    int r = tar_place_init(&u->place, path, work->req->flags);
    if (r < 0)
        return work_failed(work, path, -r);
    r = take_all(u);
    int r2 = tar_place_finish(&u->place); // also of what was unpacked before it failed
    tar_place_done(&u->place);
    if (r == 0)
        r = r2;
    return r < 0 ? r : tar_source_drain(&u->source);
}

int work_tar_in(struct work *work)
{
    // Most of it is never touched.
    struct unpack *u = mmap(NULL, sizeof *u, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (u == MAP_FAILED)
        return -errno;
    mode_t mask = umask(0);
    u->work = work;
    u->source.fd = work->in;
    (void)fcntl(work->in, F_SETPIPE_SZ, PIPE_SIZE); // fewer turns; it works with any size
    int r = unpack(u, work->texts.path);
    (void)umask(mask);
    (void)munmap(u, sizeof *u);
    return r;
}
