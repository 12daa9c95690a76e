// SPDX-License-Identifier: Apache-2.0
// `cay image import|ls|rm`, and what the commands of images share (image.h).
#include "box/image.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/opt.h"
#include "base/text.h"
#include "box/data.h"
#include "box/image-make.h"
#include "cli/cli.h"
#include "cli/image.h"

enum { LIST_SIZE = 1024 * 1024 };

int image_usage(const struct err *err)
{
    return cli_usage("image", err);
}

int image_usage_text(const char *text)
{
    struct err err;
    (void)err_set(&err, ERR_INVALID, "%s", text);
    return image_usage(&err);
}

int image_add_word(struct image_words *words, const char *word, struct err *err)
{
    if (words->n >= IMAGE_WORDS_MAX)
        return err_set(err, ERR_INVALID, "at most %d names at one time", IMAGE_WORDS_MAX);
    words->word[words->n++] = word;
    return 0;
}

int image_flags_ended(int which, const struct opt_spec *spec, const struct err *err, int *ret_exit)
{
    if (which == OPT_HELP) {
        opt_print_help(stdout, spec);
        *ret_exit = CLI_OK;
        return -1;
    }
    if (which == OPT_FAILED) {
        *ret_exit = image_usage(err);
        return -1;
    }
    return 0;
}

int image_open_data(const char *path, struct err *err)
{
    if (geteuid() != 0)
        return err_set(err, ERR_DENIED, "images belong to root: run this as root");
    return data_open(path, err);
}

// -- watching: progress to stderr, and the signals that stop us

static void say(void *arg, const char *line)
{
    const struct image_watch *watch = arg;
    (void)fprintf(stderr, "%scay: %s\n", watch->tick != NULL ? "\r\033[K" : "", line);
}

// On a terminal: stays until the next line takes its place, and so must not be broken into two.
static void tick(void *arg, const char *line)
{
    (void)arg;
    (void)fprintf(stderr, "\r\033[K     %.70s", line);
}

int image_catch_signals(struct image_watch *ret, struct err *err)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGHUP);
    (void)signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return err_sys(err, errno, "block signals");
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return err_sys(err, errno, "watch for signals");
    *ret = (struct image_watch){
        .stop_fd = fd, .say = say, .tick = isatty(STDERR_FILENO) ? tick : NULL, .arg = ret};
    return 0;
}

// Ends the way the signal would have ended us, so that a shell stops its loop too. Returns when
// there was none.
static void die_of_signal(const struct image_watch *watch)
{
    struct signalfd_siginfo info;
    if (read(watch->stop_fd, &info, sizeof info) != sizeof info)
        return;
    int number = (int)info.ssi_signo;
    (void)signal(number, SIG_DFL);
    (void)raise(number);
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, number);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int image_made(int r, const struct image_watch *watch, const struct err *err)
{
    if (r < 0 && watch->tick != NULL)
        (void)fputs("\r\033[K", stderr);
    int code = r < 0 ? cli_fail(err) : CLI_OK;
    if (r < 0)
        die_of_signal(watch);
    fd_close(watch->stop_fd);
    return code;
}

// -- import

static const struct opt import_opts[] = {
    {"limit", 0, "SIZE", "the most that the archive may unpack to", "16g"       },
    {"data",  0, "DIR",  DATA_HELP,                                 DATA_DEFAULT},
};
enum import_flag { IMPORT_LIMIT, IMPORT_DATA, IMPORT_MAX };

static const struct opt_spec import_spec = {
    .usage = "cay image import NAME FILE|-",
    .summary =
        "Makes an image of a root file system in a tar archive, plain or compressed with gzip, zstd, xz\n"
        "or bzip2; '-' reads it from standard input. The archive need not be trusted: it is unpacked\n"
        "where it reaches nothing else, and refused when it tries.",
    .opts = import_opts,
    .n_opts = IMPORT_MAX,
    .more = "examples:\n"
            "  cay image import alpine alpine-minirootfs.tar.gz\n"
            "  docker export $(docker create node:22) | cay image import node -\n",
};

static int open_archive(const char *path, struct err *err)
{
    if (strcmp(path, "-") == 0) {
        if (isatty(STDIN_FILENO))
            return err_set(err, ERR_INVALID,
                           "standard input is a terminal: pipe an archive into it, or name a file");
        int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
        return fd < 0 ? err_sys(err, errno, "read standard input") : fd;
    }
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(err, errno, "open '%s'", path);
    if (S_ISDIR(st.st_mode))
        return err_set(
            err, ERR_INVALID,
            "'%s' is a directory: pack it first ('tar -C %s -c . | cay image import NAME -')", path,
            path);
    return TAKE_FD(fd);
}

static int cmd_image_import(int argc, char **argv)
{
    struct image_words words = {.n = 0};
    const char *data = NULL, *value;
    struct import_limits limits = {.bytes = IMPORT_BYTES_MAX, .entries = IMPORT_ENTRIES_MAX};
    struct opt_reader reader;
    struct err err = {0};
    int which, code, r = 0;
    opt_start(&reader, &import_spec, argc, argv);
    while (r == 0 && (which = opt_next(&reader, &value, &err)) >= 0) {
        if (which == IMPORT_LIMIT)
            r = parse_size(value, &limits.bytes, &err) < 0 ? err_wrap(&err, "--limit") : 0;
        else if (which == IMPORT_DATA)
            data = value;
        else
            r = image_add_word(&words, value, &err);
    }
    if (r < 0)
        return image_usage(&err);
    if (image_flags_ended(which, &import_spec, &err, &code) < 0)
        return code;
    if (words.n != 2)
        return image_usage_text("import needs a NAME and a FILE ('-' for standard input)");
    if (image_name_check(words.word[0], &err) < 0)
        return image_usage(&err);
    auto_fd archive = open_archive(words.word[1], &err);
    if (archive < 0)
        return cli_fail(&err);
    auto_fd data_fd = image_open_data(data, &err);
    struct image_watch watch;
    if (data_fd < 0 || image_catch_signals(&watch, &err) < 0)
        return cli_fail(&err);
    r = image_import(data_fd, words.word[0], archive, &limits, &watch, &err);
    return image_made(r, &watch, &err);
}

// -- ls

static const struct opt ls_opts[] = {
    {"json", 0, NULL,  "print a JSON array instead of a table", NULL        },
    {"data", 0, "DIR", DATA_HELP,                               DATA_DEFAULT},
};
enum ls_flag { LS_JSON, LS_DATA, LS_MAX };

static const struct opt_spec ls_spec = {
    .usage = "cay image ls [--json]",
    .summary =
        "Lists the images that boxes can stand on. 'host' is this machine's own /usr with a made-up\n"
        "rest; it is always there and made on first use.",
    .opts = ls_opts,
    .n_opts = LS_MAX,
};

// "2026-02-03T04:05:06Z"; empty for no time.
static void format_time(int64_t when, char ret[32])
{
    struct tm parts;
    time_t seconds = when;
    ret[0] = '\0';
    if (when != 0 && gmtime_r(&seconds, &parts) != NULL)
        (void)strftime(ret, 32, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

static void format_size(uint64_t bytes, char *ret, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    unsigned unit = 0;
    double value = (double)bytes;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    (void)snprintf(ret, size, unit > 0 && value < 10 ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

static void print_table(const struct image_info *infos, size_t n)
{
    int width = (int)strlen("NAME");
    for (size_t i = 0; i < n; i++) {
        int len = (int)strlen(infos[i].name);
        width = len > width ? len : width;
    }
    (void)printf("%-*s  %9s  %-20s  %s\n", width, "NAME", "SIZE", "MADE", "KIND");
    for (size_t i = 0; i < n; i++) {
        char size[16] = "-", when[32];
        if (infos[i].made != 0)
            format_size(infos[i].bytes, size, sizeof size);
        format_time(infos[i].made, when);
        (void)printf("%-*s  %9s  %-20s  %s\n", width, infos[i].name, size,
                     when[0] == '\0' ? "on first use" : when, infos[i].kind);
    }
}

static int print_json(const struct image_info *infos, size_t n)
{
    auto_buf buf;
    buf_init(&buf, LIST_SIZE);
    struct json json;
    json_init(&json, &buf);
    json_open_array(&json);
    for (size_t i = 0; i < n; i++) {
        char when[32];
        format_time(infos[i].made, when);
        json_open_object(&json);
        json_key(&json, "name");
        json_put_str(&json, infos[i].name);
        json_key(&json, "kind");
        json_put_str(&json, infos[i].kind);
        json_key(&json, "bytes");
        json_put_uint(&json, infos[i].bytes);
        json_key(&json, "made");
        json_put_str(&json, when[0] == '\0' ? NULL : when);
        json_close_object(&json);
    }
    json_close_array(&json);
    if (json_finish(&json) < 0)
        return -1;
    return puts(buf_str(&buf)) < 0 ? -1 : 0;
}

static int cmd_image_ls(int argc, char **argv)
{
    const char *data = NULL, *value;
    bool as_json = false;
    struct opt_reader reader;
    struct err err = {0};
    int which, code;
    opt_start(&reader, &ls_spec, argc, argv);
    while ((which = opt_next(&reader, &value, &err)) >= 0) {
        if (which == LS_JSON)
            as_json = true;
        else if (which == LS_DATA)
            data = value;
        else
            return image_usage_text("ls takes no names");
    }
    if (image_flags_ended(which, &ls_spec, &err, &code) < 0)
        return code;
    auto_fd data_fd = image_open_data(data, &err);
    struct image_info *infos = NULL;
    size_t n = 0;
    if (data_fd < 0 || image_sweep(data_fd, &err) < 0 || image_list(data_fd, &infos, &n, &err) < 0)
        return cli_fail(&err);
    int r = 0;
    if (as_json)
        r = print_json(infos, n);
    else
        print_table(infos, n);
    free(infos);
    if (r < 0 || fflush(stdout) != 0) {
        (void)err_sys(&err, errno, "print the list");
        return cli_fail(&err);
    }
    return CLI_OK;
}

// -- rm

static const struct opt rm_opts[] = {
    {"data", 0, "DIR", DATA_HELP, DATA_DEFAULT},
};
enum rm_flag { RM_DATA, RM_MAX };

static const struct opt_spec rm_spec = {
    .usage = "cay image rm NAME...",
    .summary = "Removes images. One that a running box stands on is kept and said to be in use.",
    .opts = rm_opts,
    .n_opts = RM_MAX,
};

static int cmd_image_rm(int argc, char **argv)
{
    struct image_words words = {.n = 0};
    const char *data = NULL, *value;
    struct opt_reader reader;
    struct err err = {0};
    int which, code, r = 0;
    opt_start(&reader, &rm_spec, argc, argv);
    while (r == 0 && (which = opt_next(&reader, &value, &err)) >= 0) {
        if (which == RM_DATA)
            data = value;
        else
            r = image_name_check(value, &err) < 0 ? -1 : image_add_word(&words, value, &err);
    }
    if (r < 0)
        return image_usage(&err);
    if (image_flags_ended(which, &rm_spec, &err, &code) < 0)
        return code;
    if (words.n == 0)
        return image_usage_text("rm needs the NAME of at least one image");
    auto_fd data_fd = image_open_data(data, &err);
    if (data_fd < 0 || image_sweep(data_fd, &err) < 0)
        return cli_fail(&err);
    code = CLI_OK;
    for (int i = 0; i < words.n; i++) {
        if (image_remove(data_fd, words.word[i], &err) < 0)
            code = cli_fail(&err); // and on with the others
    }
    return code;
}

// -- all of them

struct image_command {
    const char *name;
    const char *args;
    const char *help;
    int (*run)(int argc, char **argv);
};

static const struct image_command commands[] = {
    {"build",  "NAME|FILE",   "make an image of Debian's packages", cmd_image_build },
    {"recipe", "[NAME]",      "what images can be made of",         cmd_image_recipe},
    {"import", "NAME FILE|-", "make an image of a tar archive",     cmd_image_import},
    {"ls",     "[--json]",    "list the images",                    cmd_image_ls    },
    {"rm",     "NAME...",     "remove images",                      cmd_image_rm    },
};

enum {
    N_COMMANDS = sizeof commands / sizeof commands[0],
};

static void print_overview(FILE *out)
{
    (void)fputs(
        "usage: cay image COMMAND [ARG...]\n\n"
        "An image is a read-only root file system that boxes share; what a box writes lands on its own\n"
        "disk. 'host', this machine's own programs, is there from the start.\n\n"
        "commands:\n",
        out);
    for (size_t i = 0; i < N_COMMANDS; i++)
        (void)fprintf(out, "  %-6s %-12s  %s\n", commands[i].name, commands[i].args,
                      commands[i].help);
    (void)fputs("\n'cay image COMMAND --help' says more about one.\n", out);
}

int cmd_image(int argc, char **argv)
{
    if (argc < 2) {
        print_overview(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_overview(stdout);
        return CLI_OK;
    }
    const char *near = NULL;
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
        if (text_near(argv[1], commands[i].name))
            near = commands[i].name;
    }
    struct err err;
    if (near != NULL)
        (void)err_set(&err, ERR_INVALID, "unknown command '%.60s', did you mean '%s'?", argv[1],
                      near);
    else
        (void)err_set(&err, ERR_INVALID,
                      "unknown command '%.60s': there are build, recipe, import, ls and rm",
                      argv[1]);
    return image_usage(&err);
}
