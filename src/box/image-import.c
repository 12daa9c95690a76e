// SPDX-License-Identifier: Apache-2.0
// `cay image import`. The archive is hostile. It is read by two confined children (confine.h): a
// decompressor that sees nothing, and a tar that sees only the new root. We stand between them and
// count:
//
//     archive -> us -> gzip, zstd, xz -> us -> tar -> the new root
//                                              its list of names -> us
//
// so that an archive that unpacks to too many bytes or too many entries ends where the limit is.
// Whatever tar refuses (names with "..", links out of the root, device nodes, a truncated end)
// refuses the archive.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "box/confine.h"
#include "box/image-internal.h"
#include "box/image-make.h"
#include "box/tool.h"
#include "box/tree.h"
#include "box/watch.h"

enum {
    HEAD_SIZE = 512, // as much as is looked at to know the compression
    FLOW_SIZE = 256 * 1024,
};
#define DISK_RESERVE    (UINT64_C(256) << 20) // left free on the disk, whatever the limit says
#define DISK_FULL       (UINT64_C(64) << 10)
#define DISK_LOOK_EVERY (UINT64_C(32) << 20)
#define CANNOT          "Cannot" // how tar begins to say what failed
#define SAY_EVERY_NS    (5 * NS_PER_S)

struct format {
    const char *magic;
    size_t magic_len;
    const char *argv[5];
};

static const struct format formats[] = {
    {"\x1f\x8b",         2, {"gzip", "-dcq"}                 },
    {"\x28\xb5\x2f\xfd", 4, {"zstd", "-dcq"}                 },
    {"\xfd\x37zXZ",      6, {"xz", "-dcq", "--memlimit=1GiB"}}, // the sixth byte is the literal's NUL
    {"BZh",              3, {"bzip2", "-dcq"}                },
};

static const char *const tar_argv[] = {
    "tar", "--extract", "--verbose", "--file=-", "--directory=" CONFINE_TARGET, "--numeric-owner",
    "--same-owner", "--same-permissions", "--delay-directory-restore", "--no-acls", "--no-selinux",
    "--no-xattrs", "--quoting-style=escape", "--warning=no-timestamp",
    // Boxes have a /dev of their own; archives of whole systems bring theirs.
    "--anchored", "--exclude=dev/*", "--exclude=./dev/*", "--exclude=/dev/*", NULL};

// Bytes on their way from one descriptor to the other. -1 is an end that is closed.
struct flow {
    int in;
    int out;
    char *data;
    size_t at;
    size_t len;
    uint64_t total; // read so far
    bool ended;     // the writer closed it, not we
};

// A child's stderr: the line that tells most is kept.
struct complaint {
    int fd;
    struct line_cutter cutter;
    char line[200];
};

struct unpacking {
    const struct import_limits *limits;
    const struct image_watch *watch;
    int root_fd;
    struct flow packed; // archive -> decompressor; unused for a plain tar
    struct flow plain;  // decompressor or archive -> tar
    int names_fd;       // tar's list
    uint64_t names;
    struct complaint unzip_err;
    struct complaint tar_err;
    int unzip; // pidfds
    int tar;
    int tar_status;
    uint64_t looked_at; // plain.total when the disk was last looked at
    int64_t said_at;
};

static void close_end(int *fd)
{
    fd_close(*fd);
    *fd = -1;
}

// -- moving bytes

static void flow_fill(struct flow *flow)
{
    ssize_t n = read(flow->in, flow->data, FLOW_SIZE);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        flow->ended = n == 0;
        close_end(&flow->in);
        close_end(&flow->out);
        return;
    }
    flow->len = (size_t)n;
    flow->at = flow->out < 0 ? flow->len : 0; // nobody left to read it
    flow->total += (uint64_t)n;
}

static void flow_drain(struct flow *flow)
{
    ssize_t n = write(flow->out, flow->data + flow->at, flow->len - flow->at);
    if (n < 0) {
        if (errno == EINTR || errno == EAGAIN)
            return;
        close_end(&flow->out); // the reader is gone; its exit code tells why
        flow->at = flow->len;
        return;
    }
    flow->at += (size_t)n;
}

static struct pollfd flow_wants(const struct flow *flow)
{
    if (flow->at < flow->len)
        return (struct pollfd){.fd = flow->out, .events = POLLOUT};
    return (struct pollfd){.fd = flow->in, .events = POLLIN};
}

static void flow_step(struct flow *flow, short events)
{
    if (events == 0)
        return;
    if (flow->at < flow->len)
        flow_drain(flow);
    else
        flow_fill(flow);
}

static void keep_complaint(void *arg, const char *line)
{
    struct complaint *complaint = arg;
    // tar makes absolute names relative by itself, and says so.
    if (strncmp(line, "tar: Removing leading", 21) == 0)
        return;
    if (complaint->line[0] == '\0' ||
        (strstr(line, CANNOT) != NULL && strstr(complaint->line, CANNOT) == NULL))
        memccpy(complaint->line, line, '\0', sizeof complaint->line - 1);
}

static void complaint_step(struct complaint *complaint, short events)
{
    char data[4096];
    if (events == 0)
        return;
    ssize_t n = read(complaint->fd, data, sizeof data);
    if (n > 0)
        line_cutter_feed(&complaint->cutter, data, (size_t)n, keep_complaint, complaint);
    else if (n == 0 || errno != EINTR)
        close_end(&complaint->fd);
}

static void names_step(struct unpacking *work, short events)
{
    char data[16 * 1024];
    if (events == 0)
        return;
    ssize_t n = read(work->names_fd, data, sizeof data);
    if (n <= 0 && !(n < 0 && errno == EINTR))
        close_end(&work->names_fd);
    for (ssize_t i = 0; i < n; i++)
        work->names += data[i] == '\n';
}

// -- limits

static int check_limits(struct unpacking *work, struct err *err)
{
    if (work->plain.total > work->limits->bytes)
        return err_set(err, ERR_EXHAUSTED,
                       "the archive unpacks to more than %llu MiB (--limit allows more)",
                       (unsigned long long)(work->limits->bytes >> 20));
    if (work->names > work->limits->entries)
        return err_set(err, ERR_EXHAUSTED, "the archive holds more than %llu entries",
                       (unsigned long long)work->limits->entries);
    if (work->plain.total - work->looked_at >= DISK_LOOK_EVERY) {
        work->looked_at = work->plain.total;
        struct statvfs disk;
        if (fstatvfs(work->root_fd, &disk) == 0 &&
            (uint64_t)disk.f_bavail * disk.f_frsize < DISK_RESERVE)
            return err_set(err, ERR_EXHAUSTED, "the disk of the data directory is nearly full");
    }
    int64_t now = clock_ns();
    if (now - work->said_at >= SAY_EVERY_NS) {
        work->said_at = now;
        watch_say(work->watch, "unpacked %llu entries, %llu MiB", (unsigned long long)work->names,
                  (unsigned long long)(work->plain.total >> 20));
    }
    return 0;
}

static bool tar_runs(const struct unpacking *work)
{
    return work->names_fd >= 0 || work->tar_err.fd >= 0;
}

// Until tar has ended, as its closed output shows, and what comes after the end that it saw is read
// too, so that the decompressor has checked all of it.
static int run_flows(struct unpacking *work, struct err *err)
{
    while (tar_runs(work) || (work->unzip >= 0 && work->plain.in >= 0)) {
        struct pollfd wants[] = {
            {.fd = work->watch->stop_fd, .events = POLLIN},
            flow_wants(&work->packed),
            flow_wants(&work->plain),
            {.fd = work->names_fd,       .events = POLLIN},
            {.fd = work->tar_err.fd,     .events = POLLIN},
            {.fd = work->unzip_err.fd,   .events = POLLIN},
        };
        if (poll(wants, sizeof wants / sizeof wants[0], -1) < 0 && errno != EINTR)
            return err_sys(err, errno, "wait for tar");
        if (watch_stopped(work->watch, err))
            return -1;
        flow_step(&work->packed, wants[1].revents);
        flow_step(&work->plain, wants[2].revents);
        names_step(work, wants[3].revents);
        complaint_step(&work->tar_err, wants[4].revents);
        complaint_step(&work->unzip_err, wants[5].revents);
        if (check_limits(work, err) < 0)
            return -1;
        if (!tar_runs(work) && work->tar >= 0) {
            work->tar_status = tool_wait(TAKE_FD(work->tar));
            if (work->tar_status != 0 && !work->plain.ended)
                break; // it gave up: the rest does not matter
        }
    }
    return 0;
}

// -- children

// Our end and the child's end of a pipe, ours not blocking when we write.
static int make_pipe(int *ret_read, int *ret_write, struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(err, errno, "make a pipe");
    *ret_read = ends[0];
    *ret_write = ends[1];
    return 0;
}

static int start_child(struct unpacking *work, const char *const *argv, int target_fd, int *ret_in,
                       int *ret_out, int *ret_err, struct err *err)
{
    auto_fd in = -1, out = -1, complaints = -1;  // the child's
    auto_fd feed = -1, answer = -1, listen = -1; // ours
    if (make_pipe(&in, &feed, err) < 0 || make_pipe(&answer, &out, err) < 0 ||
        make_pipe(&listen, &complaints, err) < 0)
        return -1;
    (void)fd_set_nonblock(feed, 1);
    (void)fcntl(feed, F_SETPIPE_SZ, FLOW_SIZE);
    struct confined confined = {
        .argv = argv,
        .fds = {in, out, complaints},
        .target_fd = target_fd,
        .file_max = work->limits->bytes,
    };
    int pidfd = confine_start(&confined, err);
    if (pidfd < 0)
        return -1;
    *ret_in = TAKE_FD(feed);
    *ret_out = TAKE_FD(answer);
    *ret_err = TAKE_FD(listen);
    return pidfd;
}

static const struct format *find_format(const char *head, size_t len)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (len >= formats[i].magic_len &&
            memcmp(head, formats[i].magic, formats[i].magic_len) == 0)
            return &formats[i];
    }
    return NULL;
}

// The first bytes, waited for with an eye on the stop.
static ssize_t read_head(int fd, char *data, const struct image_watch *watch, struct err *err)
{
    size_t len = 0;
    while (len < HEAD_SIZE) {
        struct pollfd wants[] = {
            {.fd = watch->stop_fd, .events = POLLIN},
            {.fd = fd,             .events = POLLIN},
        };
        if (poll(wants, 2, -1) < 0 && errno != EINTR)
            return err_sys(err, errno, "wait for the archive");
        if (watch_stopped(watch, err))
            return -1;
        ssize_t n = wants[1].revents == 0 ? -1 : read(fd, data + len, HEAD_SIZE - len);
        if (n == 0)
            break;
        if (n > 0)
            len += (size_t)n;
        else if (wants[1].revents != 0 && errno != EINTR && errno != EAGAIN)
            return err_sys(err, errno, "read the archive");
    }
    if (len == 0)
        return err_set(err, ERR_INVALID, "the archive is empty");
    return (ssize_t)len;
}

static int start_children(struct unpacking *work, int archive_fd, struct err *err)
{
    char head[HEAD_SIZE];
    ssize_t len = read_head(archive_fd, head, work->watch, err);
    if (len < 0)
        return -1;
    const struct format *format = find_format(head, (size_t)len);
    struct flow *first = format == NULL ? &work->plain : &work->packed;
    first->in = fcntl(archive_fd, F_DUPFD_CLOEXEC, 0);
    memcpy(first->data, head, (size_t)len);
    first->len = (size_t)len;
    first->total = (uint64_t)len;
    work->tar = start_child(work, tar_argv, work->root_fd, &work->plain.out, &work->names_fd,
                            &work->tar_err.fd, err);
    if (work->tar < 0)
        return -1;
    if (format != NULL)
        work->unzip = start_child(work, format->argv, -1, &work->packed.out, &work->plain.in,
                                  &work->unzip_err.fd, err);
    return format != NULL && work->unzip < 0 ? -1 : 0;
}

static int child_failed(const char *name, int status, const struct complaint *complaint,
                        struct err *err)
{
    if (status == TOOL_BROKEN)
        return err_set(err, ERR_UNSUPPORTED, "cannot start %s here: %s", name, complaint->line);
    if (complaint->line[0] == '\0')
        return err_set(err, ERR_INVALID, "the archive was refused: %s ended with code %d", name,
                       status);
    return err_set(err, ERR_INVALID, "the archive was refused: %s", complaint->line);
}

static int finish_children(struct unpacking *work, struct err *err)
{
    if (work->unzip >= 0 && work->plain.ended) {
        // Both have ended. A decompressor that failed made tar fail: its words come first.
        while (work->unzip_err.fd >= 0)
            complaint_step(&work->unzip_err, POLLIN);
        int status = tool_wait(TAKE_FD(work->unzip));
        if (status != 0)
            return child_failed("the decompressor", status, &work->unzip_err, err);
    }
    // Of a file that it cannot make as large as it should be, tar only warns.
    if (work->tar_status == 0 && strstr(work->tar_err.line, "Warning: " CANNOT) == NULL)
        return 0;
    struct statvfs disk;
    if (fstatvfs(work->root_fd, &disk) == 0 &&
        ((uint64_t)disk.f_bavail * disk.f_frsize < DISK_FULL ||
         (disk.f_files > 0 && disk.f_favail == 0)))
        return err_set(err, ERR_EXHAUSTED, "the disk of the data directory is full");
    return child_failed("tar", work->tar_status, &work->tar_err, err);
}

static void unpacking_done(struct unpacking *work)
{
    tool_kill(TAKE_FD(work->unzip));
    tool_kill(TAKE_FD(work->tar));
    const int fds[] = {work->packed.in, work->packed.out, work->plain.in,    work->plain.out,
                       work->names_fd,  work->tar_err.fd, work->unzip_err.fd};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        fd_close(fds[i]);
    free(work->packed.data);
    free(work->plain.data);
}

int archive_unpack(int archive_fd, int root_fd, const struct import_limits *limits,
                   const struct image_watch *watch, struct err *err)
{
    struct unpacking work = {
        .limits = limits,
        .watch = watch,
        .root_fd = root_fd,
        .packed = {.in = -1,                   .out = -1, .data = malloc(FLOW_SIZE)},
        .plain = {.in = -1, .out = -1, .data = malloc(FLOW_SIZE)},
        .names_fd = -1,
        .unzip_err = {.fd = -1                  },
        .tar_err = {.fd = -1},
        .unzip = -1,
        .tar = -1,
        .said_at = clock_ns(),
    };
    int r = -1;
    if (work.packed.data == NULL || work.plain.data == NULL)
        (void)err_sys(err, ENOMEM, "unpack the archive");
    else if (start_children(&work, archive_fd, err) == 0 && run_flows(&work, err) == 0)
        r = finish_children(&work, err);
    unpacking_done(&work);
    return r;
}

// -- the image

static bool has(int root_fd, const char *name, mode_t type)
{
    struct stat st;
    return fstatat(root_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && (st.st_mode & S_IFMT) == type;
}

static int check_root(int root_fd, struct err *err)
{
    if (has(root_fd, "usr", S_IFDIR) || has(root_fd, "bin", S_IFDIR))
        return 0;
    if (has(root_fd, "manifest.json", S_IFREG) || has(root_fd, "oci-layout", S_IFREG))
        return err_set(
            err, ERR_INVALID,
            "this is a container image in layers, not a root file system; 'docker export' makes one");
    return err_set(
        err, ERR_INVALID,
        "this does not look like a root file system: it has neither usr/ nor bin/ at its top");
}

int image_import(int data_fd, const char *name, int archive_fd, const struct import_limits *limits,
                 const struct image_watch *watch, struct err *err)
{
    if (image_name_check(name, err) < 0)
        return -1;
    struct image_draft draft = IMAGE_DRAFT_NONE;
    if (image_draft_begin(data_fd, name, &draft, err) < 0)
        return -1;
    struct tree_survey survey;
    int r = archive_unpack(archive_fd, draft.root_fd, limits, watch, err);
    if (r == 0)
        r = check_root(draft.root_fd, err);
    if (r == 0)
        r = image_prepare(draft.root_fd, err);
    if (r == 0 && watch_stopped(watch, err))
        r = -1;
    if (r == 0)
        r = image_draft_commit(&draft, "import", &survey, err);
    image_draft_done(&draft);
    if (r < 0)
        return -1;
    if (survey.devices > 0)
        watch_say(watch, "left out %llu device nodes", (unsigned long long)survey.devices);
    if (survey.high_ids > 0)
        watch_say(watch, "%llu entries belong to ids above 65535: boxes show them as nobody's",
                  (unsigned long long)survey.high_ids);
    watch_say(watch, "image '%s': %llu entries, %llu MiB", name, (unsigned long long)survey.entries,
              (unsigned long long)(survey.bytes >> 20));
    return 0;
}
