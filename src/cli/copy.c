// SPDX-License-Identifier: Apache-2.0
#include "cli/copy.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "cli/table.h"

enum { SHOW_NS = 200 * 1000 * 1000 };

// -- places

bool file_place_is(const char *word)
{
    size_t n = strcspn(word, ":/");
    return n > 0 && word[n] == ':';
}

int file_place_read(struct file_place *ret, const char *word, struct err *err)
{
    size_t n = strcspn(word, ":/");
    if (!file_place_is(word))
        return err_set(err, ERR_INVALID, "'%.100s' is not ID:/path", word);
    if (n >= sizeof ret->id)
        return err_set(err, ERR_INVALID, "'%.100s' has too long an ID", word);
    if (word[n + 1] != '/')
        return err_set(err, ERR_INVALID, "'%.100s': a path in a sandbox begins with '/'", word);
    (void)snprintf(ret->id, sizeof ret->id, "%.*s", (int)n, word);
    ret->path = word + n + 1;
    return 0;
}

const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

void file_target(struct buf *target, const char *id, const char *path)
{
    char part[4097];
    remote_target(target, "sandbox", id, "files");
    for (path += *path == '/'; *path != '\0';) {
        size_t n = strcspn(path, "/");
        (void)snprintf(part, sizeof part, "%.*s", (int)n, path);
        (void)buf_append_char(target, '/');
        (void)http_encode(target, part);
        path += n;
        path += *path == '/' && path[1] != '\0'; // one at the end stays, for the server to refuse
        if (*path == '/') {
            (void)buf_append_char(target, '/');
            break;
        }
    }
}

// -- how far it is

void progress_begin(struct progress *p, bool on, int64_t total)
{
    *p = (struct progress){.on = on && isatty(STDERR_FILENO), .total = total};
    p->start_ns = p->shown_ns = clock_ns();
}

static void show(struct progress *p, int64_t now)
{
    char done[16], rate[16], total[16];
    double seconds = (double)(now - p->start_ns) / 1e9;
    uint64_t speed = seconds > 0 ? (uint64_t)((double)p->done / seconds) : 0;
    (void)fprintf(stderr, "\r\033[K%s", text_size(done, sizeof done, p->done));
    if (p->total > 0)
        (void)fprintf(stderr, " of %s, %d%%", text_size(total, sizeof total, (uint64_t)p->total),
                      (int)(100.0 * (double)p->done / (double)p->total));
    (void)fprintf(stderr, ", %s/s", text_size(rate, sizeof rate, speed));
    (void)fflush(stderr);
    p->shown_ns = now;
}

void progress_add(struct progress *p, uint64_t bytes)
{
    p->done += bytes;
    if (!p->on)
        return;
    int64_t now = clock_ns();
    if (now - p->shown_ns >= SHOW_NS)
        show(p, now);
}

void progress_end(struct progress *p)
{
    if (p->on)
        (void)fputs("\r\033[K", stderr);
}

// -- up

struct sending {
    int fd;
    struct progress progress;
};

static ssize_t read_body(void *data, void *bytes, size_t max, struct err *err)
{
    struct sending *s = data;
    ssize_t n;
    do
        n = read(s->fd, bytes, max);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_sys(err, errno, "read what is to be sent");
    progress_add(&s->progress, (uint64_t)n);
    return n;
}

int copy_upload(struct remote *remote, const struct upload *upload, struct answer *ret,
                struct err *err)
{
    struct stat st;
    struct sending sending = {.fd = upload->fd};
    bool is_file = fstat(upload->fd, &st) == 0 && S_ISREG(st.st_mode);
    off_t at = is_file ? lseek(upload->fd, 0, SEEK_CUR) : 0;
    uint64_t left = is_file && at >= 0 && st.st_size > at ? (uint64_t)(st.st_size - at) : 0;
    const struct http_call call = {
        .method = upload->method != NULL ? upload->method : "PUT",
        .target = upload->target,
        .content_type = upload->type,
        .if_none = upload->is_new ? "*" : NULL,
        .read_body = read_body,
        .read_data = &sending,
        .read_length = is_file ? left : HTTP_UNKNOWN,
    };
    (void)signal(SIGPIPE, SIG_IGN);
    progress_begin(&sending.progress, upload->progress, is_file ? (int64_t)left : -1);
    int r = remote_ask(remote, &call, ret, err);
    progress_end(&sending.progress);
    return r;
}

// -- down

struct receiving {
    struct remote *remote;
    int fd;
    struct progress progress;
};

// A reader that has gone (`| head`) ends us as it would end any filter.
static int write_body(void *data, const void *bytes, size_t len, struct err *err)
{
    struct receiving *r = data;
    int e = fd_write_all(r->fd, bytes, len);
    if (e == -EPIPE) {
        (void)signal(SIGPIPE, SIG_DFL);
        (void)raise(SIGPIPE);
    }
    if (e < 0)
        return err_sys(err, -e, "write what came");
    r->progress.total = r->remote->length;
    progress_add(&r->progress, len);
    return 0;
}

int64_t copy_download(struct remote *remote, const char *target, int fd, bool progress,
                      struct err *err)
{
    enum http_broken broken;
    struct receiving receiving = {.remote = remote, .fd = fd};
    const struct http_call call = {.method = "GET", .target = target, .accept = "*/*"};
    progress_begin(&receiving.progress, progress, -1);
    int r = remote_stream(remote, &call, write_body, &receiving, &broken, err);
    progress_end(&receiving.progress);
    return r < 0 ? -1 : (int64_t)receiving.progress.done;
}
