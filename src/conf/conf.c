// SPDX-License-Identifier: Apache-2.0
// Everything about a setting is one row of the table; nothing else in this file knows any of them.
#include "conf/conf.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/opt.h"
#include "base/text.h"

#define CONF_FILE "/etc/cay/cay.conf"

enum { TEXT_MAX = 64 * 1024, NAME_MAX_LEN = 48 };

enum kind {
    KIND_TEXT,
    KIND_URL,    // of HTTP
    KIND_LEVEL,  // of the log
    KIND_EITHER, // one of two words
    KIND_BOOL,
    KIND_COUNT,    // uint32_t
    KIND_SIZE,     // uint64_t, bytes
    KIND_DURATION, // int64_t, milliseconds
    KIND_MS,       // the same, and digits alone are milliseconds, too; `min` to `max` of them
    KIND_MAX,
};

struct row {
    const char *name; // of the flag and in the file; the variable is CAY_NAME
    enum kind kind;
    size_t at; // in struct conf
    const char *fallback;
    const char *metavar;
    const char *help;
    uint64_t min, max; // of counts
    bool secret;       // never a flag: everybody reads command lines
    const char *other; // a variable that others know it by, too; CAY_NAME wins
    const char *either[2];
};

// name, field, default, metavar, help. Settings without a metavar are switches.
#define ROW(kind_, name_, field_, fallback_, metavar_, help_, ...)                                 \
    {                                                                                              \
        .kind = (kind_), .name = (name_), .at = offsetof(struct conf, field_),                     \
        .fallback = (fallback_), .metavar = (metavar_), .help = (help_), __VA_ARGS__               \
    }
#define TEXT(name, field, fallback, metavar, help)                                                 \
    ROW(KIND_TEXT, name, field, fallback, metavar, help, )
#define SECRET(name, field, metavar, help)                                                         \
    ROW(KIND_TEXT, name, field, "", metavar, help, .secret = true)
#define COUNT(name, field, fallback, least, most, help)                                            \
    ROW(KIND_COUNT, name, field, fallback, "N", help, .min = (least), .max = (most))
#define EITHER(name, field, one, two, metavar, help)                                               \
    ROW(KIND_EITHER, name, field, one, metavar, help, .either = {one, two})
#define SIZE(name, field, fallback, help) ROW(KIND_SIZE, name, field, fallback, "SIZE", help, )
#define TIME(name, field, fallback, help) ROW(KIND_DURATION, name, field, fallback, "TIME", help, )

static const struct row rows[] = {
    TEXT("listen", listen, "127.0.0.1:8787", "ADDRESS:PORT",
         "where HTTP is served; port 0 is any that is free"),
    TEXT("data", data, "/var/lib/cay", "DIR", "where everything is kept"),
    TEXT("socket", socket, "", "PATH",
         "unix socket for local use without a token; cay.sock in data otherwise"),
    TEXT("group", group, "cay", "NAME", "who may use that socket"),
    TEXT("user", user, "cay", "NAME",
         "whom the server runs as; an unused id where there is no such user"),
    SECRET("token", token, "TOKEN", "the administrator's token; made on first start otherwise"),
    EITHER("auth", auth, "token", "none", "HOW",
           "token, or none: whoever is on this machine may do everything but manage it"),
    TEXT("cors", cors, "", "ORIGINS", "web origins that may call, separated by commas; * for all"),
    TEXT("preview-domain", preview_domain, "localhost", "HOST[:PORT]",
         "previews are hosts below this one; behind a proxy its own, with a wildcard"),
    ROW(KIND_LEVEL, "log-level", log_level, "info", "LEVEL", "error, warn, info or debug", ),
    ROW(KIND_BOOL, "behind-proxy", behind_proxy, "no", NULL,
        "something in front does TLS: any address may be listened on", ),
    COUNT("boxes", boxes, "1024", 1, 4095, "how many sandboxes may run at once"),
    TEXT("image", image, "host", "NAME",
         "what sandboxes stand on that name none, and boxes that are kept ready"),
    COUNT("pool", pool, "16", 0, 1024, "boxes kept ready for new sandboxes"),
    COUNT("pool-blank", pool_blank, "4", 0, 1024, "boxes kept ready for sandboxes that wake"),
    TEXT("preload", preload, "numpy,pandas,matplotlib", "MODULES",
         "what Python contexts find loaded, where the image has it; off: nothing is loaded ahead"),
    TIME("zygote-renew", zygote_renew_ms, "10m", "how long what is loaded ahead is used"),
    SIZE("volume", volume, "64g", "of the file that holds the disks; 0: disks are in memory"),
    SIZE("disk-spare", disk_spare, "512m",
         "what disks leave free on the file system of the data directory; `store = local` twice "
         "that"),
    SIZE("memory-spare", memory_spare, "256m",
         "memory that must stay available for a sandbox to be started"),
    COUNT("tenant-sandboxes", tenant_sandboxes, "0", 0, UINT32_MAX,
          "how many sandboxes a tenant may have; 0: any number"),
    COUNT("tenant-running", tenant_running, "0", 0, UINT32_MAX,
          "how many of these may run at once; 0: any number"),
    SIZE("tenant-memory", tenant_memory, "0",
         "memory of a tenant's running sandboxes together; 0: any"),
    SIZE("tenant-disk", tenant_disk, "0", "disk of a tenant's sandboxes together; 0: any"),
    COUNT("rate", rate, "0", 0, UINT32_MAX, "requests a minute for each token; 0: any number"),
    TIME("sleep-after", sleep_after_ms, "10m", "how long a sandbox may be idle before it sleeps"),
    TIME("drain", drain_ms, "10s", "how long a stop waits for requests that run"),
    SIZE("process-log", process_log, "8m", "what is kept of each output of a process"),
    TIME("keep-results", keep_results_ms, "30d", "how long answers of models are kept"),
    COUNT("max-results", max_results, "10000", 1, UINT32_MAX,
          "how many of them a tenant has at most; the oldest go"),
    SIZE("max-results-bytes", max_results_bytes, "1g", "and how many bytes"),
    EITHER("store", store, "local", "s3", "KIND",
           "where stored files, backups and results are kept: local or s3"),
    TEXT("store-dir", store_dir, "", "DIR", "of store = local; store in data otherwise"),
    ROW(KIND_URL, "s3-endpoint", s3_endpoint, "", "URL",
        "of store = s3: any server that speaks S3", ),
    TEXT("s3-bucket", s3_bucket, "", "NAME", "in which everything is kept; it must exist"),
    ROW(KIND_TEXT, "s3-region", s3_region, "us-east-1", "NAME", "of the bucket",
        .other = "AWS_REGION"),
    TEXT("s3-prefix", s3_prefix, "", "TEXT", "what all names in the bucket begin with, as in cay/"),
    ROW(KIND_TEXT, "s3-access-key", s3_access_key, "", "KEY", "the credentials' id", .secret = true,
        .other = "AWS_ACCESS_KEY_ID"),
    ROW(KIND_TEXT, "s3-secret-key", s3_secret_key, "", "KEY", "and their secret", .secret = true,
        .other = "AWS_SECRET_ACCESS_KEY"),
    EITHER("s3-style", s3_style, "path", "host", "STYLE",
           "where requests name the bucket: path or host"),
    TEXT("s3-ca", s3_ca, "", "FILE",
         "certificates that are trusted for the endpoint, instead of the machine's"),
    TEXT("egress-private", egress_private, "", "NETWORKS",
         "private networks that sandboxes may be let at, separated by commas"),
    TEXT("egress-ca", egress_ca, "", "FILE",
         "certificates that are trusted for the upstreams of secrets, beside the machine's"),
    ROW(KIND_TEXT, "anthropic-api-key", api_key, "", "KEY",
        "for the model's API, sent as x-api-key", .secret = true, .other = "ANTHROPIC_API_KEY"),
    ROW(KIND_TEXT, "anthropic-auth-token", auth_token, "", "TOKEN",
        "instead of a key: sent as a bearer", .secret = true, .other = "ANTHROPIC_AUTH_TOKEN"),
    ROW(KIND_TEXT, "anthropic-refresh-token", refresh_token, "", "TOKEN",
        "with which that one is renewed", .secret = true, .other = "ANTHROPIC_REFRESH_TOKEN"),
    ROW(KIND_URL, "anthropic-token-url", token_url, "", "URL", "where it is renewed",
        .other = "ANTHROPIC_TOKEN_URL"),
    ROW(KIND_TEXT, "anthropic-client-id", client_id, "", "ID", "as which client",
        .other = "ANTHROPIC_CLIENT_ID"),
    ROW(KIND_URL, "anthropic-base-url", base_url, "https://api.anthropic.com", "URL",
        "where the model's API is, without /v1", .other = "ANTHROPIC_BASE_URL"),
    TEXT("model", model, "sonnet", "NAME", "that is asked when a request names none"),
    ROW(KIND_MS, "max-execution-time", max_execution_ms, "5m", "TIME",
        "how long a task may take, if it does not say less; a number alone is milliseconds",
        .min = 1, .max = 24 * 3600 * 1000, .other = "MAX_EXECUTION_TIME"),
    TEXT("agents", agents, CONF_AGENTS, "DIR", "files of agents, beside those that are built in"),
    TEXT("components", components, CONF_COMPONENTS, "DIR",
         "what tasks may name as components: agents, commands, mcps, settings, hooks"),
};

enum { N_ROWS = sizeof rows / sizeof *rows };

static void *field(const struct conf *conf, const struct row *row)
{
    return (char *)(uintptr_t)conf + row->at;
}

static bool is_text(const struct row *row)
{
    return row->kind == KIND_TEXT || row->kind == KIND_URL || row->kind == KIND_LEVEL ||
           row->kind == KIND_EITHER;
}

static const struct row *find_row(const char *name)
{
    for (unsigned i = 0; i < N_ROWS; i++) {
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    }
    return NULL;
}

// --- one value ---

static int set_text(char **at, const char *value, struct err *err)
{
    for (const char *p = value; *p != '\0'; p++) {
        if (iscntrl((unsigned char)*p))
            return err_set(err, ERR_INVALID, "it holds a character that cannot be printed");
    }
    char *copy = strdup(value);
    if (copy == NULL)
        return err_sys(err, ENOMEM, "settings");
    if (*at != NULL)
        explicit_bzero(*at, strlen(*at)); // it may be secret
    free(*at);
    *at = copy;
    return 0;
}

// Behind the host, or behind the ']' of one that is an address: a port, or nothing.
static bool is_port(const char *text, size_t len)
{
    uint64_t n;
    struct err ignored;
    char port[8] = "";
    if (len == 0)
        return true;
    if (text[0] != ':' || len > 6)
        return false;
    memcpy(port, text + 1, len - 1);
    return parse_u64(port, 1, UINT16_MAX, &n, &ignored) == 0;
}

static bool is_url(const char *text)
{
    size_t scheme = strncmp(text, "https://", 8) == 0  ? 8
                    : strncmp(text, "http://", 7) == 0 ? 7
                                                       : 0;
    const char *host = text + scheme;
    size_t len = strcspn(host, "/");
    bool is_address = host[0] == '[';
    size_t host_len = strcspn(host, is_address ? "]/" : ":/");
    if (scheme == 0 || host_len == 0 || strpbrk(text, "@?#\\ \"<>") != NULL)
        return false;
    if (is_address && host[host_len++] != ']')
        return false;
    return is_port(host + host_len, len - host_len);
}

// The value is not said: somebody may have put a password into it.
static int set_url(char **at, const struct row *row, const char *value, struct err *err)
{
    if (*value == '\0')
        value = row->fallback;
    if (*value != '\0' && !is_url(value))
        return err_set(err, ERR_INVALID,
                       "it is no address: http://HOST or https://HOST, with :PORT and /PATH if "
                       "need be, without a user, a query or a fragment");
    return set_text(at, value, err);
}

static int set_level(char **at, const char *value, struct err *err)
{
    enum log_level level;
    if (log_parse_level(value, &level) < 0)
        return err_set(err, ERR_INVALID, "'%.40s' is none of error, warn, info, debug", value);
    return set_text(at, value, err);
}

static int set_either(char **at, const struct row *row, const char *value, struct err *err)
{
    if (strcmp(value, row->either[0]) != 0 && strcmp(value, row->either[1]) != 0)
        return err_set(err, ERR_INVALID, "'%.40s' is neither %s nor %s", value, row->either[0],
                       row->either[1]);
    return set_text(at, value, err);
}

static int set_bool(bool *at, const char *value, struct err *err)
{
    static const char *const words[] = {"no", "yes", "false", "true", "0", "1", "off", "on"};
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcasecmp(value, words[i]) == 0) {
            *at = i % 2 == 1;
            return 0;
        }
    }
    return err_set(err, ERR_INVALID, "'%.40s' is neither yes nor no", value);
}

static int set_count(uint32_t *at, const struct row *row, const char *value, struct err *err)
{
    uint64_t n;
    if (parse_u64(value, row->min, row->max, &n, err) < 0)
        return -1;
    *at = (uint32_t)n;
    return 0;
}

static int set_ms(int64_t *at, const struct row *row, const char *value, struct err *err)
{
    char text[40];
    int64_t ms;
    bool is_bare = *value != '\0' && value[strspn(value, "0123456789")] == '\0';
    (void)snprintf(text, sizeof text, "%.32s%s", value, is_bare ? "ms" : "");
    if (parse_duration(text, &ms, err) < 0)
        return -1;
    if (ms < (int64_t)row->min || ms > (int64_t)row->max)
        return err_set(err, ERR_INVALID, "must be from %llu to %llu milliseconds",
                       (unsigned long long)row->min, (unsigned long long)row->max);
    *at = ms;
    return 0;
}

static int set_value(struct conf *conf, const struct row *row, const char *value, struct err *err)
{
    switch (row->kind) {
    case KIND_TEXT:
        return set_text(field(conf, row), value, err);
    case KIND_URL:
        return set_url(field(conf, row), row, value, err);
    case KIND_LEVEL:
        return set_level(field(conf, row), value, err);
    case KIND_EITHER:
        return set_either(field(conf, row), row, value, err);
    case KIND_BOOL:
        return set_bool(field(conf, row), value, err);
    case KIND_COUNT:
        return set_count(field(conf, row), row, value, err);
    case KIND_SIZE:
        return parse_size(value, field(conf, row), err);
    case KIND_DURATION:
        return parse_duration(value, field(conf, row), err);
    case KIND_MS:
        return set_ms(field(conf, row), row, value, err);
    case KIND_MAX:
        break;
    }
    return err_set(err, ERR_INTERNAL, "setting of no kind");
}

static void print_value(const struct conf *conf, const struct row *row, struct buf *out)
{
    const void *at = field(conf, row);
    switch (row->kind) {
    case KIND_TEXT:
    case KIND_URL:
    case KIND_LEVEL:
    case KIND_EITHER:
        (void)buf_append_str(out, *(char *const *)at);
        break;
    case KIND_BOOL:
        (void)buf_append_str(out, *(const bool *)at ? "yes" : "no");
        break;
    case KIND_COUNT:
        (void)buf_printf(out, "%u", *(const uint32_t *)at);
        break;
    case KIND_SIZE:
        (void)buf_printf(out, "%llu", (unsigned long long)*(const uint64_t *)at);
        break;
    case KIND_DURATION:
    case KIND_MS:
        (void)buf_printf(out, "%lldms", (long long)*(const int64_t *)at);
        break;
    case KIND_MAX:
        break;
    }
}

int conf_init(struct conf *conf, struct err *err)
{
    *conf = (struct conf){0};
    for (unsigned i = 0; i < N_ROWS; i++) {
        if (set_value(conf, &rows[i], rows[i].fallback, err) < 0)
            return err_wrap(err, "default of '%s'", rows[i].name);
    }
    return 0;
}

void conf_forget_secrets(struct conf *conf)
{
    for (unsigned i = 0; i < N_ROWS; i++) {
        char **text = field(conf, &rows[i]);
        if (rows[i].secret && *text != NULL)
            explicit_bzero(*text, strlen(*text));
    }
}

void conf_done(struct conf *conf)
{
    conf_forget_secrets(conf);
    for (unsigned i = 0; i < N_ROWS; i++) {
        char **text = field(conf, &rows[i]);
        if (!is_text(&rows[i]))
            continue;
        free(*text);
        *text = NULL;
    }
}

// --- lines ---

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t len = strlen(text);
    while (len > 0 && isspace((unsigned char)text[len - 1]))
        text[--len] = '\0';
    return text;
}

static int unknown_name(const char *name, struct err *err)
{
    for (unsigned i = 0; i < N_ROWS; i++) {
        if (text_near(name, rows[i].name))
            return err_set(err, ERR_NOT_FOUND, "unknown setting '%.40s', did you mean '%s'?", name,
                           rows[i].name);
    }
    return err_set(err, ERR_NOT_FOUND,
                   "unknown setting '%.40s' ('cay serve --print-example' lists them)", name);
}

static int take_line(struct conf *conf, char *line, struct err *err)
{
    line = trim(line);
    if (*line == '\0' || *line == '#')
        return 0;
    char *equals = strchr(line, '=');
    if (equals == NULL)
        return err_set(err, ERR_INVALID, "'%.40s' is not of the form 'name = value'", line);
    *equals = '\0';
    const char *name = trim(line), *value = trim(equals + 1);
    const struct row *row = find_row(name);
    if (row == NULL)
        return unknown_name(name, err);
    return set_value(conf, row, value, err) < 0 ? err_wrap(err, "%s", row->name) : 0;
}

static int parse_lines(struct conf *conf, const char *text, bool skip_unknown, struct err *err)
{
    auto_free char *copy = strdup(text);
    if (copy == NULL)
        return err_sys(err, ENOMEM, "settings");
    int number = 0, r = 0;
    for (char *rest = copy, *line; r == 0 && (line = strsep(&rest, "\n")) != NULL;) {
        number++;
        r = take_line(conf, line, err);
        if (r < 0 && skip_unknown && err->code == ERR_NOT_FOUND)
            r = 0;
    }
    explicit_bzero(copy, strlen(text));
    return r < 0 ? err_wrap(err, "line %d", number) : 0;
}

int conf_parse_text(struct conf *conf, const char *text, struct err *err)
{
    return parse_lines(conf, text, false, err);
}

int conf_parse_older(struct conf *conf, const char *text, struct err *err)
{
    return parse_lines(conf, text, true, err);
}

int conf_write_text(const struct conf *conf, struct buf *ret)
{
    for (unsigned i = 0; i < N_ROWS; i++) {
        (void)buf_printf(ret, "%s = ", rows[i].name);
        print_value(conf, &rows[i], ret);
        (void)buf_append_char(ret, '\n');
    }
    return ret->failed;
}

static int read_file(struct conf *conf, const char *path, bool may_miss, struct err *err)
{
    auto_free char *text = malloc(TEXT_MAX);
    if (text == NULL)
        return err_sys(err, ENOMEM, "settings");
    ssize_t n = fd_read_file(AT_FDCWD, path, text, TEXT_MAX);
    if (n == -ENOENT && may_miss)
        return 0;
    if (n < 0)
        return err_sys(err, (int)-n, "read the settings in '%s'", path);
    if (strlen(text) != (size_t)n)
        return err_set(err, ERR_INVALID, "'%s' is not a text file", path);
    int r = conf_parse_text(conf, text, err);
    explicit_bzero(text, (size_t)n);
    return r < 0 ? err_wrap(err, "%s", path) : 0;
}

// --- environment and flags ---

static const char *variable_name(const struct row *row, char ret[NAME_MAX_LEN])
{
    (void)snprintf(ret, NAME_MAX_LEN, "CAY_%s", row->name);
    for (char *p = ret; *p != '\0'; p++)
        *p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
    return ret;
}

static int read_environment(struct conf *conf, struct err *err)
{
    char name[NAME_MAX_LEN];
    for (unsigned i = 0; i < N_ROWS; i++) {
        const char *value = getenv(variable_name(&rows[i], name));
        if ((value == NULL || *value == '\0') && rows[i].other != NULL) {
            (void)snprintf(name, sizeof name, "%s", rows[i].other);
            value = getenv(name);
        }
        if (value != NULL && *value != '\0' && set_value(conf, &rows[i], value, err) < 0)
            return err_wrap(err, "%s (from the environment variable %s)", rows[i].name, name);
    }
    return 0;
}

enum { EXTRA_CONFIG, EXTRA_EXAMPLE, N_EXTRAS };

static const struct opt extras[N_EXTRAS] = {
    [EXTRA_CONFIG] = {.name = "config",
                      .metavar = "FILE",
                      .help = "read settings from there, not from " CONF_FILE},
    [EXTRA_EXAMPLE] = {.name = "print-example",                .help = "print such a file with the defaults"},
};

struct flags {
    struct opt_spec spec;
    struct opt opts[N_ROWS + N_EXTRAS];
    const struct row *row[N_ROWS]; // of each opt that is a setting
    unsigned n_settings;
};

static void make_flags(struct flags *flags)
{
    unsigned n = 0;
    for (unsigned i = 0; i < N_ROWS; i++) {
        if (rows[i].secret)
            continue;
        flags->row[n] = &rows[i];
        flags->opts[n++] = (struct opt){
            .name = rows[i].name,
            .metavar = rows[i].metavar,
            .help = rows[i].help,
            .default_text =
                *rows[i].fallback != '\0' && rows[i].metavar != NULL ? rows[i].fallback : NULL,
        };
    }
    flags->n_settings = n;
    memcpy(&flags->opts[n], extras, sizeof extras);
    flags->spec = (struct opt_spec){
        .usage = "cay serve [flags]",
        .summary = "Serves sandboxes over HTTP, until it is told to stop. Needs root.",
        .opts = flags->opts,
        .n_opts = n + N_EXTRAS,
        .more =
            "Every setting may also stand in " CONF_FILE " (name = value), or in the\n"
            "environment (CAY_LISTEN for listen). Flags win over variables, those over the file.\n"
            "The administrator's token is not a flag: it is CAY_TOKEN, or in the file, or made.",
    };
}

typedef int (*flag_fn)(struct conf *conf, const struct row *row, const char *value,
                       struct err *err);

static int set_flag(struct conf *conf, const struct row *row, const char *value, struct err *err)
{
    return set_value(conf, row, value != NULL ? value : "yes", err) < 0
               ? err_wrap(err, "--%s", row->name)
               : 0;
}

// The file is named by a flag and weaker than all flags: so they are read twice, and looked at the
// first time only for that.
static int ignore_flag(struct conf *conf, const struct row *row, const char *value, struct err *err)
{
    (void)conf, (void)row, (void)value, (void)err;
    return 0;
}

static int read_flags(struct conf *conf, const struct flags *flags, int argc, char **argv,
                      flag_fn take, const char **ret_file, bool *ret_example, struct err *err)
{
    struct opt_reader reader;
    const char *value;
    int which;
    opt_start(&reader, &flags->spec, argc, argv);
    while ((which = opt_next(&reader, &value, err)) >= 0) {
        if (which == OPT_WORD) {
            (void)err_set(err, ERR_INVALID, "'%.40s' is one word too many", value);
            return OPT_FAILED;
        }
        if ((unsigned)which == flags->n_settings + EXTRA_CONFIG) {
            *ret_file = value;
        } else if ((unsigned)which == flags->n_settings + EXTRA_EXAMPLE) {
            *ret_example = true;
        } else if (take(conf, flags->row[which], value, err) < 0) {
            return OPT_FAILED;
        }
    }
    return which;
}

int conf_read(struct conf *conf, int argc, char **argv, struct err *err)
{
    struct flags flags;
    const char *file = NULL;
    bool example = false;
    make_flags(&flags);
    int which = read_flags(conf, &flags, argc, argv, ignore_flag, &file, &example, err);
    if (which == OPT_HELP)
        opt_print_help(stdout, &flags.spec);
    if (which == OPT_END && example) {
        conf_print_example(stdout);
        return OPT_HELP;
    }
    if (which != OPT_END)
        return which;
    if (read_file(conf, file != NULL ? file : CONF_FILE, file == NULL, err) < 0 ||
        read_environment(conf, err) < 0)
        return OPT_FAILED;
    return read_flags(conf, &flags, argc, argv, set_flag, &file, &example, err);
}

void conf_print_example(FILE *out)
{
    (void)fputs(
        "# Settings of `cay serve`, with their defaults. It reads " CONF_FILE
        ",\n# or the file that --config names. An environment variable (CAY_LISTEN for listen)\n"
        "# wins over this file, a flag over both. Sizes: 512m, 2g. Times: 30s, 10m, 1h.\n",
        out);
    for (unsigned i = 0; i < N_ROWS; i++)
        (void)fprintf(out, "\n# %s\n#%s =%s%s\n", rows[i].help, rows[i].name,
                      rows[i].fallback[0] != '\0' ? " " : "", rows[i].fallback);
}
