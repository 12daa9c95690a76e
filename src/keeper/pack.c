// SPDX-License-Identifier: Apache-2.0
// cay-pack at work on a disk: KEEPER_DISK_WORK. The program sees the disk, or what a box would see,
// and nothing else (box/confine.h); what it is told is looked at here, word by word, although it
// looks again.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/confine.h"
#include "keeper/keeper-internal.h"
#include "wire/pack-msg.h"

enum {
    ARGS_MAX = 512,
    FILES_MAX = 128 * 1024, // one for each level of a deep tree
};

// Many are at work at once, and an archive says itself how much memory its compression needs. What
// the others need grows with the number of files.
#define UNPACK_MEMORY (UINT64_C(512) << 20)
#define WORK_MEMORY   (UINT64_C(3) << 30)

#define CAP(name) (UINT64_C(1) << CAP_##name)

static const uint64_t reading = CAP(DAC_READ_SEARCH);
static const uint64_t writing = CAP(CHOWN) | CAP(FOWNER) | CAP(DAC_OVERRIDE) | CAP(FSETID);

static const struct pack_work {
    const char *name;
    int is_disk; // as it is stored, which attributes of the overlay's are part of
    int writes;
    int packs, selects, is_unpack; // which options it has
} pack_works[WORK_MAX] = {
    [WORK_PACK_DISK] = {"pack-disk",     .is_disk = 1, .packs = 1},
    [WORK_PACK_TREE] = {"pack-tree",               .packs = 1,                 .selects = 1},
    [WORK_UNPACK_DISK] = {"unpack-disk",   .is_disk = 1,.writes = 1, .is_unpack = 1},
    [WORK_UNPACK_TREE] = {"unpack-tree", .writes = 1,    .is_unpack = 1},
    [WORK_SYNC] = {"sync",               .selects = 1              },
    [WORK_UNSYNC] = {"unsync", .writes = 1         },
};

struct pack_data { // of a work that waits or runs
    uint32_t work;
    struct disk_ref disk;
    struct keeper_image *image; // with a user more; NULL for the disk alone
    unsigned n_args;
    const char *argv[ARGS_MAX + 2]; // into `text`
    char text[];
};

// --- what is asked ---

static int is_number(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && len <= 20 && strspn(text, "0123456789") == len;
}

// How many words the option has, or 0 when the work has no such one.
static unsigned option_words(const struct pack_work *work, const char *word, const char *next)
{
    if (work->selects && strcmp(word, "--gitignore") == 0)
        return 1;
    if (next == NULL)
        return 0;
    if (work->selects && (strcmp(word, "--exclude") == 0 || strcmp(word, "--include") == 0))
        return 2;
    if (work->is_unpack && strcmp(word, "--max-entries") == 0)
        return is_number(next) ? 2 : 0;
    if ((work->is_unpack || strcmp(work->name, "sync") == 0) && strcmp(word, "--max-bytes") == 0)
        return is_number(next) ? 2 : 0;
    if (work->packs && strcmp(word, "--threads") == 0)
        return is_number(next) ? 2 : 0;
    return 0;
}

static int is_dir(const char *path)
{
    size_t len = strlen(path);
    if (len == 0 || len >= PACK_PATH_MAX || path[0] != '/')
        return 0;
    for (const char *at = path; *at != '\0'; at += strcspn(at, "/")) {
        while (*at == '/')
            at++;
        size_t name = strcspn(at, "/");
        if (name == 2 && at[0] == '.' && at[1] == '.')
            return 0;
    }
    return 1;
}

static int check_args(const struct pack_work *work, const struct pack_data *data, struct err *err)
{
    unsigned i = 0;
    if (!work->is_disk && (data->n_args == 0 || !is_dir(data->argv[1 + i++])))
        return err_set(err, ERR_INVALID, "no directory to work on");
    while (i < data->n_args) {
        unsigned words = option_words(work, data->argv[1 + i], data->argv[2 + i]);
        if (words == 0)
            return err_set(err, ERR_INVALID, "'%.40s' is no argument of %s", data->argv[1 + i],
                           work->name);
        i += words;
    }
    return 0;
}

// The texts, each with its NUL.
static int split_args(struct pack_data *data, size_t len, struct err *err)
{
    size_t at = 0;
    for (unsigned i = 0; i < data->n_args; i++) {
        const char *end = memchr(data->text + at, '\0', len - at);
        if (end == NULL)
            return err_set(err, ERR_INVALID, "an argument has no end");
        data->argv[1 + i] = data->text + at;
        at = (size_t)(end + 1 - data->text);
    }
    data->argv[1 + data->n_args] = NULL;
    return at == len ? 0 : err_set(err, ERR_INVALID, "more than arguments");
}

static int check_disk(const struct keeper *k, const struct keeper_disk_work *msg, struct err *err)
{
    if (k->volume == NULL)
        return err_set(err, ERR_UNSUPPORTED, "this keeper has no volume for disks");
    if (k->config.pack == NULL)
        return err_set(err, ERR_UNSUPPORTED, "there is no cay-pack");
    if (msg->work == 0 || msg->work >= WORK_MAX || !work_is_disk(msg->disk))
        return err_set(err, ERR_INVALID, "no such work, or no such disk");
    if (pack_works[msg->work].writes && msg->disk.place != PLACE_MAKING)
        return err_set(err, ERR_INVALID, "only a disk in the making is written to");
    if (msg->disk.place == PLACE_KEPT && table_find_disk(k, msg->disk.number) != NULL)
        return err_set(err, ERR_CONFLICT, "disk %" PRIu64 " is in use", msg->disk.number);
    return 0;
}

static struct keeper_image *find_image(struct keeper *k, const struct keeper_disk_work *msg,
                                       struct err *err)
{
    if (memchr(msg->image, '\0', sizeof msg->image) == NULL || !image_name_valid(msg->image)) {
        (void)err_set(err, ERR_INVALID, "not an image name");
        return NULL;
    }
    return build_image(k, msg->image, err);
}

static struct pack_data *read_ask(struct keeper *k, const struct keeper_disk_work *msg,
                                  const char *args, struct err *err)
{
    if (check_disk(k, msg, err) < 0)
        return NULL;
    if (msg->n_args > ARGS_MAX || msg->args_len > KEEPER_ARGS_MAX) {
        (void)err_set(err, ERR_INVALID, "too many arguments");
        return NULL;
    }
    const struct pack_work *work = &pack_works[msg->work];
    struct pack_data *data = malloc(sizeof *data + msg->args_len);
    if (data == NULL) {
        (void)err_sys(err, ENOMEM, "work on a disk");
        return NULL;
    }
    *data = (struct pack_data){
        .work = msg->work, .disk = msg->disk, .n_args = msg->n_args, .argv = {work->name}};
    if (msg->args_len > 0)
        memcpy(data->text, args, msg->args_len);
    if (split_args(data, msg->args_len, err) < 0 || check_args(work, data, err) < 0 ||
        (!work->is_disk && (data->image = find_image(k, msg, err)) == NULL)) {
        free(data);
        return NULL;
    }
    if (data->image != NULL)
        data->image->users++;
    return data;
}

// --- the process ---

static int start_program(const struct pack_data *data, struct work *w, int program, int target,
                         struct err *err)
{
    const struct pack_work *work = &pack_works[data->work];
    // Attributes of the overlay's are for who may administer the machine.
    uint64_t caps = (work->writes ? writing : reading) | (work->is_disk ? CAP(SYS_ADMIN) : 0);
    const struct confine_how how = {
        .program = program,
        .is_mount = !work->is_disk,
        .is_read_only = !work->writes,
        .caps = caps,
        .files_max = FILES_MAX,
        .data_max = work->is_unpack ? UNPACK_MEMORY : WORK_MEMORY,
    };
    const char *argv[ARGS_MAX + 3] = {"cay-pack"};
    memcpy(&argv[1], data->argv, (data->n_args + 2) * sizeof *argv);
    const struct confined confined = {
        .argv = argv,
        .fds = {w->fds[0], w->fds[1], w->fds[2]},
        .target_fd = target,
        .file_max = UINT64_MAX,
        .how = &how,
    };
    return confine_start(&confined, err);
}

static int start(struct keeper *k, struct work *w, struct err *err)
{
    const struct pack_data *data = w->data;
    auto_fd program = open(k->config.pack, O_PATH | O_CLOEXEC);
    if (program < 0)
        return err_sys(err, errno, "'%.150s' should lie beside cay", k->config.pack);
    auto_fd disk = volume_open_disk(k->volume, data->disk, err);
    if (disk < 0)
        return -1;
    if (pack_works[data->work].writes && volume_will_write(disk, err) < 0)
        return -1;
    auto_fd view = data->image == NULL
                       ? -1
                       : root_view(&data->image->image, disk, pack_works[data->work].writes, err);
    if (data->image != NULL && view < 0)
        return -1;
    int pidfd = start_program(data, w, program, view >= 0 ? view : disk, err);
    // Its own: whoever is at the other ends shall notice when it has gone.
    for (unsigned i = 0; pidfd >= 0 && i < WORK_FDS_MAX; i++)
        fd_close(TAKE_FD(w->fds[i]));
    return pidfd;
}

// Its own code is one of enum err_code, and the verdict has said why.
static void answer(struct keeper *k, struct work *w, const struct err *err)
{
    struct err why = *err;
    if (err->code != ERR_NONE && !w->cancelled && w->exit_code > 0 && w->exit_code < ERR_CODE_MAX)
        (void)err_set(&why, (enum err_code)w->exit_code, "cay-pack has failed");
    if (why.code != ERR_NONE)
        reply_error(k, w->request, &why);
    else
        reply_ok(k, w->request);
}

static void over(struct keeper *k, struct work *w)
{
    struct pack_data *data = w->data;
    (void)k;
    if (data->image != NULL)
        data->image->users--;
}

static const struct work_kind packing = {
    .lane = LANE_PACK, .start = start, .answer = answer, .over = over};

void pack_ask(struct keeper *k, const struct keeper_disk_work *msg, const char *args,
              struct wire_fds *fds)
{
    struct err err = {0};
    struct pack_data *data = NULL;
    if (fds->n != WORK_FDS_MAX)
        (void)err_set(&err, ERR_INVALID, "a work has three descriptors");
    else
        data = read_ask(k, msg, args, &err);
    struct work *w = data != NULL ? work_new(&packing, msg->head.id) : NULL;
    if (w == NULL) {
        if (data != NULL && data->image != NULL)
            data->image->users--;
        if (data != NULL)
            (void)err_sys(&err, ENOMEM, "work on a disk");
        free(data);
        reply_error(k, msg->head.id, &err);
        return;
    }
    w->data = data;
    if (pack_works[msg->work].writes)
        w->writes[0] = msg->disk;
    else
        w->reads = msg->disk;
    for (unsigned i = 0; i < WORK_FDS_MAX; i++)
        w->fds[i] = wire_fds_take(fds, i);
    work_submit(k, w);
}

void pack_cancel(struct keeper *k, uint32_t request)
{
    struct work *w = work_find(k, &packing, request);
    if (w != NULL)
        work_cancel(k, w);
}
