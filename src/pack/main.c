// SPDX-License-Identifier: Apache-2.0
// cay-pack: see wire/pack-msg.h. By hand, for tests: cay-pack --top DIR WORK ARGUMENT...
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "pack/guard.h"
#include "pack/hash.h"
#include "pack/ignore.h"
#include "pack/pack-internal.h"

#define TOP "/t"

enum {
    PIPE_SIZE = 1024 * 1024,
    THREADS_MAX = 64,
    ENTRIES_MAX = 10 * 1000 * 1000, // when nothing is said
};

static const struct work {
    const char *name;
    int (*run)(struct job *job, struct err *err);
    bool is_disk;
} works[] = {
    {"pack-disk",   job_pack,   true },
    {"pack-tree",   job_pack,   false},
    {"unpack-disk", job_unpack, true },
    {"unpack-tree", job_unpack, false},
    {"sync",        job_sync,   false},
    {"unsync",      job_unsync, false},
};

// --- arguments ---

static int take_exclude(struct job *job, const char *value, struct err *err)
{
    int r = ignore_add_exclude(job->ignore, value);
    return r < 0 ? err_sys(err, -r, "--exclude") : 0;
}

static int take_include(struct job *job, const char *value, struct err *err)
{
    int r = ignore_add_include(job->ignore, value);
    return r < 0 ? err_sys(err, -r, "--include") : 0;
}

static int take_gitignore(struct job *job, const char *value, struct err *err)
{
    (void)value, (void)err;
    job->gitignore = true;
    return 0;
}

static int take_max_bytes(struct job *job, const char *value, struct err *err)
{
    return parse_u64(value, 0, UINT64_MAX, &job->max_bytes, err);
}

static int take_max_entries(struct job *job, const char *value, struct err *err)
{
    return parse_u64(value, 0, UINT64_MAX, &job->max_entries, err);
}

static int take_threads(struct job *job, const char *value, struct err *err)
{
    uint64_t n;
    if (parse_u64(value, 1, THREADS_MAX, &n, err) < 0)
        return -1;
    job->threads = (unsigned)n;
    return 0;
}

static const struct option {
    const char *name;
    bool has_value;
    int (*take)(struct job *job, const char *value, struct err *err);
} options[] = {
    {"--exclude",     true,  take_exclude    },
    {"--include",     true,  take_include    },
    {"--gitignore",   false, take_gitignore  },
    {"--max-bytes",   true,  take_max_bytes  },
    {"--max-entries", true,  take_max_entries},
    {"--threads",     true,  take_threads    },
};

// How many arguments it was, or -1.
static int take_option(struct job *job, char *const *argv, struct err *err)
{
    char text[100];
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const struct option *option = &options[i];
        if (strcmp(argv[0], option->name) != 0)
            continue;
        if (option->has_value && argv[1] == NULL)
            return err_set(err, ERR_INVALID, "%s needs a value", option->name);
        if (option->take(job, argv[1], err) < 0)
            return err_wrap(err, "%s", option->name);
        return option->has_value ? 2 : 1;
    }
    return err_set(err, ERR_INVALID, "unknown argument '%s'", shown(argv[0], text));
}

static int take_dir(struct job *job, const char *dir, struct err *err)
{
    size_t len = dir != NULL ? strlen(dir) : 0;
    if (len == 0 || dir[0] != '/' || len >= PACK_PATH_MAX)
        return err_set(err, ERR_INVALID, "the directory must be an absolute path");
    job->dir = dir;
    return 0;
}

static const struct work *take_arguments(struct job *job, char *const *argv, struct err *err)
{
    const struct work *work = NULL;
    for (size_t i = 0; argv[0] != NULL && i < sizeof works / sizeof *works; i++) {
        if (strcmp(argv[0], works[i].name) == 0)
            work = &works[i];
    }
    if (work == NULL) {
        (void)err_set(err, ERR_INVALID, "no such work");
        return NULL;
    }
    job->is_disk = work->is_disk;
    argv++;
    if (!work->is_disk && take_dir(job, *argv++, err) < 0)
        return NULL;
    while (*argv != NULL) {
        int n = take_option(job, argv, err);
        if (n < 0)
            return NULL;
        argv += n;
    }
    return work;
}

// --- the whole ---

// Everything that libraries look for in files or start beforehand, then the filter.
static int prepare(struct job *job, const char *top, struct err *err)
{
    cpu_set_t set;
    (void)signal(SIGPIPE, SIG_IGN);
    // Names in UTF-8 are written as such; other bytes stay as they are either way.
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL)
        return err_set(err, ERR_UNSUPPORTED, "the C library has no C.UTF-8");
    if (hash_prepare(err) < 0)
        return -1;
    (void)fcntl(job->in, F_SETPIPE_SZ, PIPE_SIZE); // where it is one, and may be
    (void)fcntl(job->out, F_SETPIPE_SZ, PIPE_SIZE);
    if (job->threads == 0 && sched_getaffinity(0, sizeof set, &set) == 0)
        job->threads = (unsigned)CPU_COUNT(&set);
    if (job->threads > THREADS_MAX)
        job->threads = THREADS_MAX;
    job->top = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (job->top < 0)
        return err_sys(err, errno, "open '%s'", top);
    return guard_load(err);
}

static int run(struct job *job, char *const *argv, struct err *err)
{
    const char *top = TOP;
    argv++;
    if (argv[0] != NULL && strcmp(argv[0], "--top") == 0 && argv[1] != NULL) {
        top = argv[1];
        argv += 2;
    }
    job->ignore = ignore_new();
    if (job->ignore == NULL)
        return err_sys(err, ENOMEM, "start");
    const struct work *work = take_arguments(job, argv, err);
    if (work == NULL || prepare(job, top, err) < 0)
        return -1;
    return work->run(job, err);
}

static void tell(const struct job *job, const struct err *err)
{
    char line[PACK_VERDICT_MAX], skipped[48] = "";
    if (job->skipped > 0)
        (void)snprintf(skipped, sizeof skipped, " skipped %llu", (unsigned long long)job->skipped);
    if (err->code == ERR_NONE)
        (void)snprintf(line, sizeof line, "ok %llu %llu%s\n", (unsigned long long)job->entries,
                       (unsigned long long)job->bytes, skipped);
    else
        (void)snprintf(line, sizeof line, "failed %d %s\n", (int)err->code, err->msg);
    (void)fd_write_all(STDERR_FILENO, line, strlen(line));
}

int main(int argc, char **argv)
{
    struct job job = {.top = -1,
                      .in = STDIN_FILENO,
                      .out = STDOUT_FILENO,
                      .max_bytes = UINT64_MAX,
                      .max_entries = ENTRIES_MAX};
    struct err err = {0};
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return puts("cay-pack " CAY_VERSION) < 0;
    if (run(&job, argv, &err) < 0 && err.code == ERR_NONE)
        (void)err_set(&err, ERR_INTERNAL, "failed without a reason");
    tell(&job, &err);
    _exit((int)err.code); // nothing is left to be done, and threads may be at work
}
