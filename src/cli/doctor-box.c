// SPDX-License-Identifier: Apache-2.0
// The last check: a box, made, used and removed by the code of `cay run`.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "box/data.h"
#include "box/limits.h"
#include "cli/doctor.h"
#include "cli/run.h"

enum { BOX_TIMEOUT_MS = 20 * 1000 };

// How long it took, or -1.
static int64_t run_true(const char *data, struct err *err)
{
    static const char *const argv[] = {"true", NULL};
    static struct run_options options;
    struct run_result result = {0};
    options = (struct run_options){
        .claim = {.image = "host",          .limits = limits_default(), .disk_kind = DISK_TMPFS},
        .data = data,
        .workdir = "/workspace",
        .files = LIMIT_FILES_DEFAULT,
        .output = 4096,
        .timeout_ms = BOX_TIMEOUT_MS,
        .json = true,
        .env = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
        .n_env = 1,
        .argv = argv,
    };
    buf_init(&result.out, options.output);
    buf_init(&result.err, options.output);
    int64_t began = clock_ns();
    int r = run_in_box(&options, &result, err);
    int64_t took = clock_ns() - began;
    buf_done(&result.out);
    buf_done(&result.err);
    if (r < 0)
        return -1;
    if (result.reason != RUN_EXIT || result.status != 0)
        return err_set(err, ERR_INTERNAL, "`true` did not end well in a box (status 0x%x)",
                       (unsigned)result.status);
    return took;
}

// Twice: the first may have to make the image.
static void check_box_in(const char *data, struct finding *ret)
{
    struct err err = {0};
    int64_t first = run_true(data, &err);
    int64_t second = first < 0 ? -1 : run_true(data, &err);
    if (second < 0) {
        found(ret, DOCTOR_MISSING, "%s", err.msg);
        return;
    }
    found(ret, DOCTOR_OK, "made, used for `true` and removed in %.1f ms",
          (double)second / NS_PER_MS);
    if (first > 100 * NS_PER_MS && first > 4 * second)
        found(ret, DOCTOR_OK, "%.1f s the first time, with the image `host` to be made",
              (double)first / NS_PER_S);
}

// A data directory that only this check uses, inside the real one or beside where that will be.
static int scratch_path(const struct doctor *doctor, bool exists, const struct scratch *scratch,
                        char *ret, size_t size)
{
    size_t len = strlen(doctor->data);
    while (len > 1 && doctor->data[len - 1] == '/')
        len--;
    while (!exists && len > 0 && doctor->data[len - 1] != '/')
        len--;
    int n =
        snprintf(ret, size, "%.*s%s%s", (int)len, doctor->data, exists ? "/" : "", scratch->name);
    return n > 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

void check_box(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    bool exists = false;
    struct scratch scratch;
    struct err err = {0};
    char path[4096];
    auto_fd place = data_place(doctor, &exists);
    auto_fd data = place >= 0 && exists ? data_open(doctor->data, &err) : -1;
    if (place < 0 || (exists && data < 0)) {
        found(ret, DOCTOR_MISSING, "%s",
              place < 0 ? "there is no place for the data directory" : err.msg);
        return;
    }
    // Where the image is made already nothing new would stay.
    if ((exists && faccessat(data, "images/host", F_OK, AT_SYMLINK_NOFOLLOW) == 0) ||
        scratch_make(place, &scratch, &err) < 0) {
        check_box_in(doctor->data, ret);
        return;
    }
    if (scratch_path(doctor, exists, &scratch, path, sizeof path) < 0)
        found(ret, DOCTOR_MISSING, "the name of the data directory is too long");
    else
        check_box_in(path, ret);
    scratch_done(&scratch);
}
