// SPDX-License-Identifier: Apache-2.0
// What the tests drive a store with: `store-tool put KEY FILE + get KEY + list PREFIX`. Where the
// store is stands in the environment: STORE_DIR, or S3_ENDPOINT and its like. Ends with 1 and
// "CODE ERRNO message" on stderr when one of the commands fails. Never installed.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "store/sha256.h"
#include "store/store.h"

struct tool {
    struct store *store;
    atomic_bool stop;
};

static const char *setting(const char *name, const char *fallback)
{
    const char *value = getenv(name);
    return value != NULL ? value : fallback;
}

// --- bytes ---

// A pattern that is not the same in any two parts.
struct pattern {
    uint64_t at, size;
    uint32_t state;
    uint64_t stop_at;
    atomic_bool *stop;
};

static ssize_t read_pattern(void *data, void *buf, size_t size, struct err *err)
{
    struct pattern *p = data;
    size_t n = p->size - p->at < size ? (size_t)(p->size - p->at) : size;
    (void)err;
    for (size_t i = 0; i < n; i++) {
        p->state = p->state * 1664525 + 1013904223;
        ((unsigned char *)buf)[i] = (unsigned char)(p->state >> 24);
    }
    p->at += n;
    if (p->stop_at > 0 && p->at >= p->stop_at)
        *p->stop = true;
    return (ssize_t)n;
}

static ssize_t read_fd(void *data, void *buf, size_t size, struct err *err)
{
    ssize_t n = read(*(int *)data, buf, size);
    return n < 0 ? err_sys(err, errno, "read the file") : n;
}

static int write_fd(void *data, const void *buf, size_t size, struct err *err)
{
    int r = fd_write_all(*(int *)data, buf, size);
    return r < 0 ? err_sys(err, -r, "write") : 0;
}

static int sum_up(void *data, const void *buf, size_t size, struct err *err)
{
    (void)err;
    sha256_add(data, buf, size);
    return 0;
}

static void print_info(const struct store_info *info)
{
    char hex[65] = "-";
    if (info->has_sha256)
        sha256_hex(info->sha256, hex);
    (void)printf("%" PRIu64 " %s\n", info->size, hex);
}

// --- commands ---

// KEY FILE [sha256 [size]]: of a length that is not told beforehand where there is no size
static int cmd_put(struct tool *tool, char **args, int n, struct err *err)
{
    uint8_t sha[32];
    auto_fd fd = open(args[1], O_RDONLY | O_CLOEXEC);
    struct store_info info;
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", args[1]);
    bool has_sha = n > 2 && sha256_from_hex(args[2], sha);
    const struct store_put put = {.key = args[0],
                                  .read = read_fd,
                                  .data = &fd,
                                  .size = n > 3 ? strtoll(args[3], NULL, 10) : -1,
                                  .sha256 = has_sha ? sha : NULL,
                                  .stop = &tool->stop};
    if (store_put(tool->store, &put, &info, err) < 0)
        return -1;
    print_info(&info);
    return 0;
}

// KEY SIZE [known|unknown [stop-at]]: a pattern
static int cmd_generate(struct tool *tool, char **args, int n, struct err *err)
{
    struct pattern p = {.size = strtoull(args[1], NULL, 10), .stop = &tool->stop};
    bool known = n > 2 && strcmp(args[2], "known") == 0;
    struct store_info info;
    p.stop_at = n > 3 ? strtoull(args[3], NULL, 10) : 0;
    const struct store_put put = {.key = args[0],
                                  .read = read_pattern,
                                  .data = &p,
                                  .size = known ? (int64_t)p.size : -1,
                                  .stop = &tool->stop};
    int r = store_put(tool->store, &put, &info, err);
    tool->stop = false;
    if (r == 0)
        print_info(&info);
    return r;
}

// KEY [offset length]
static int cmd_get(struct tool *tool, char **args, int n, struct err *err)
{
    int out = STDOUT_FILENO;
    const struct store_get get = {.key = args[0],
                                  .offset = n > 1 ? strtoull(args[1], NULL, 10) : 0,
                                  .length = n > 2 ? strtoull(args[2], NULL, 10) : 0,
                                  .write = write_fd,
                                  .data = &out};
    (void)fflush(stdout);
    return store_get(tool->store, &get, NULL, err);
}

// KEY [sha256]: its size and SHA-256, as they were read
static int cmd_sum(struct tool *tool, char **args, int n, struct err *err)
{
    auto_sha256 sha = {0};
    uint8_t expected[32];
    struct store_info info;
    if (!sha256_init(&sha))
        return err_sys(err, ENOMEM, "sum");
    const struct store_get get = {.key = args[0],
                                  .write = sum_up,
                                  .data = &sha,
                                  .sha256 = n > 1 && sha256_from_hex(args[1], expected) ? expected
                                                                                        : NULL};
    if (store_get(tool->store, &get, &info, err) < 0)
        return -1;
    info.has_sha256 = true;
    sha256_end(&sha, info.sha256);
    print_info(&info);
    return 0;
}

static int cmd_head(struct tool *tool, char **args, int n, struct err *err)
{
    struct store_info info;
    (void)n;
    int r = store_head(tool->store, args[0], &info, err);
    if (r == 1)
        print_info(&info);
    else if (r == 0)
        (void)printf("none\n");
    return r;
}

static int cmd_delete(struct tool *tool, char **args, int n, struct err *err)
{
    (void)n;
    int r = store_delete(tool->store, args[0], err);
    if (r >= 0)
        (void)printf("%d\n", r);
    return r;
}

static int cmd_delete_all(struct tool *tool, char **args, int n, struct err *err)
{
    (void)n;
    return store_delete_all(tool->store, args[0], err);
}

static int print_listed(void *data, const struct store_listed *object)
{
    (void)data;
    (void)printf("%s\t%" PRIu64 "\n", object->key, object->size);
    return 0;
}

// PREFIX [after [max]]; "" after: from the beginning
static int cmd_list(struct tool *tool, char **args, int n, struct err *err)
{
    const char *after = n > 1 && args[1][0] != '\0' ? args[1] : NULL;
    unsigned max = n > 2 ? (unsigned)strtoul(args[2], NULL, 10) : 0;
    return store_list(tool->store, args[0], after, max, print_listed, NULL, err);
}

static int cmd_check(struct tool *tool, char **args, int n, struct err *err)
{
    (void)args, (void)n;
    return store_check(tool->store, err);
}

static int cmd_sync(struct tool *tool, char **args, int n, struct err *err)
{
    (void)args, (void)n;
    return store_sync(tool->store, err);
}

// PREFIX COUNT SIZE: many small ones, and how long that took
static int cmd_many(struct tool *tool, char **args, int n, struct err *err)
{
    size_t size = strtoul(args[2], NULL, 10);
    char *bytes = calloc(1, size + 1), key[128];
    int64_t began = clock_ns();
    int r = 0;
    (void)n;
    for (long i = 0, count = strtol(args[1], NULL, 10); r == 0 && i < count; i++) {
        (void)snprintf(key, sizeof key, "%.64s%ld/%ld", args[0], i % 100, i);
        r = store_put_bytes(tool->store, key, bytes, size, err);
    }
    free(bytes);
    (void)printf("%.3f s\n", (double)(clock_ns() - began) / NS_PER_S);
    return r;
}

static int cmd_counts(struct tool *tool, char **args, int n, struct err *err)
{
    struct store_counts counts;
    struct rusage usage;
    (void)args, (void)n, (void)err;
    store_counts(tool->store, &counts);
    (void)getrusage(RUSAGE_SELF, &usage);
    (void)printf("failed %" PRIu64 " retried %" PRIu64 " in %" PRIu64 " out %" PRIu64 " rss %ld\n",
                 counts.failed, counts.retried, counts.bytes_in, counts.bytes_out, usage.ru_maxrss);
    return 0;
}

static const struct {
    const char *name;
    int least;
    int (*run)(struct tool *tool, char **args, int n, struct err *err);
} commands[] = {
    {"put",        2, cmd_put       },
    {"generate",   2, cmd_generate  },
    {"get",        1, cmd_get       },
    {"sum",        1, cmd_sum       },
    {"head",       1, cmd_head      },
    {"delete",     1, cmd_delete    },
    {"delete-all", 1, cmd_delete_all},
    {"list",       1, cmd_list      },
    {"check",      0, cmd_check     },
    {"sync",       0, cmd_sync      },
    {"many",       3, cmd_many      },
    {"counts",     0, cmd_counts    },
};

static int run(struct tool *tool, char **args, int n, struct err *err)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (n > commands[i].least && strcmp(args[0], commands[i].name) == 0)
            return commands[i].run(tool, args + 1, n - 1, err);
    }
    return err_set(err, ERR_INVALID, "no such command: '%s'", args[0]);
}

// --- opening ---

static int open_store(struct tool *tool, struct err *err)
{
    const char *dir = getenv("STORE_DIR");
    const struct store_s3 s3 = {
        .endpoint = setting("S3_ENDPOINT", ""),
        .bucket = setting("S3_BUCKET", "test"),
        .region = setting("S3_REGION", "us-east-1"),
        .prefix = setting("S3_PREFIX", ""),
        .access_key = setting("S3_ACCESS_KEY", "S3RVER"),
        .secret_key = setting("S3_SECRET_KEY", "S3RVER"),
        .host_style = strcmp(setting("S3_STYLE", "path"), "host") == 0,
        .ca_file = setting("S3_CA", ""),
        .part = (uint32_t)strtoul(setting("S3_PART", "0"), NULL, 10),
        .page = (uint32_t)strtoul(setting("S3_PAGE", "0"), NULL, 10),
        .tries = (uint32_t)strtoul(setting("S3_TRIES", "0"), NULL, 10),
        .patience_ms = (uint32_t)strtoul(setting("S3_PATIENCE", "0"), NULL, 10),
    };
    auto_fd fd = dir != NULL ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (dir != NULL && fd < 0)
        return err_sys(err, errno, "open '%s'", dir);
    const struct store_config config = {.dir = fd, .s3 = &s3};
    if (store_open(&config, &tool->store, err) < 0)
        return -1;
    (void)TAKE_FD(fd); // lent until the end
    return 0;
}

int main(int argc, char **argv)
{
    struct tool tool = {0};
    struct err err = {0};
    int r = open_store(&tool, &err);
    for (int i = 1, n; r >= 0 && i < argc; i += n + 1) {
        for (n = 0; i + n < argc && strcmp(argv[i + n], "+") != 0;)
            n++;
        r = run(&tool, argv + i, n, &err);
    }
    if (r < 0)
        (void)fprintf(stderr, "%d %d %s\n", (int)err.code, err.sys_errno, err.msg);
    if (tool.store != NULL)
        store_close(tool.store);
    return r < 0 ? 1 : 0;
}
