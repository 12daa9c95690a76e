// SPDX-License-Identifier: Apache-2.0
#include "cli/run.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/opt.h"
#include "base/text.h"
#include "base/weaken.h"
#include "box/image.h"
#include "box/limits.h"
#include "cli/cli.h"
#include "wire/spawner-msg.h"

enum run_flag {
    FLAG_IMAGE,
    FLAG_MEMORY,
    FLAG_CPUS,
    FLAG_PIDS,
    FLAG_DISK,
    FLAG_FILES,
    FLAG_OUTPUT,
    FLAG_TIMEOUT,
    FLAG_ENV,
    FLAG_WORKDIR,
    FLAG_USER,
    FLAG_DATA,
    FLAG_JSON,
};

static const struct opt opts[] = {
    [FLAG_IMAGE] = {"image",   'i', "NAME",      "root file system: `host` is this machine's /usr",
                    "host"                                                                                            },
    [FLAG_MEMORY] = {"memory",  'm', "SIZE",      "most memory, files in the box included",              "1g"          },
    [FLAG_CPUS] = {"cpus",    'c', "N",         "most processor time, in cores; 0.5 is half of one",   "1"           },
    [FLAG_PIDS] = {"pids",    'p', "N",         "most processes and threads",                          "256"         },
    [FLAG_DISK] = {"disk",    'd', "SIZE",      "most that may be written; it lies in memory",         "2g"          },
    [FLAG_FILES] = {"files",   0,   "N",         "most open files of a process",                        "4096"        },
    [FLAG_OUTPUT] = {"output",  0,   "SIZE",      "most output that --json keeps",                       "16m"         },
    [FLAG_TIMEOUT] = {"timeout", 't', "TIME",      "end everything after this long (500ms, 10s, 2m)",
                    "none"                                                                                            },
    [FLAG_ENV] = {"env",     'e', "K=V",       "set a variable; K alone takes ours. May be repeated", NULL          },
    [FLAG_WORKDIR] = {"workdir", 'w', "DIR",       "working directory in the box",                        "/workspace"  },
    [FLAG_USER] = {"user",    'u', "UID[:GID]", "who to be in the box, 0 to 65534",                    "0"           },
    [FLAG_DATA] = {"data",    0,   "DIR",       "where Cay keeps its images",                          "/var/lib/cay"},
    [FLAG_JSON] = {"json",    'j', NULL,        "print one JSON object with the output in it",         NULL          },
};

static const struct opt_spec spec = {
    .usage = "cay run [flags] [--] COMMAND [ARG...]",
    .summary =
        "Runs a command in a box of its own: its own files, processes and network (loopback\n"
        "only), limits on what it may take, no way to this machine's files or secrets. Input,\n"
        "output and exit code pass through; on a terminal it gets one. Everything it wrote is\n"
        "gone afterwards.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more =
        "Examples:\n"
        "  cay run -- python3 -c 'print(6 * 7)'\n"
        "  cay run bash                                   a shell to look around in\n"
        "  cay run -m 64m -t 5s --json -- ./untrusted     limits, and a report\n"
        "  tar c src | cay run -- sh -c 'tar x && make'\n"
        "\n"
        "Exit codes: the command's own; 128+N when signal N ended it (137: also out of memory);\n"
        "124 timeout; 125 Cay failed; 126 and 127 the command cannot be run, is not there; 2 usage.",
    .stop_at_word = true,
};

// --- reading the command line ---

static int parse_u32(const char *text, uint64_t min, uint64_t max, uint32_t *ret, struct err *err)
{
    uint64_t value;
    if (parse_u64(text, min, max, &value, err) < 0)
        return -1;
    *ret = (uint32_t)value;
    return 0;
}

// No more than we may have ourselves: raising that takes a capability that root may lack.
static int parse_files(const char *text, uint32_t *ret, struct err *err)
{
    struct rlimit ours;
    uint64_t max = LIMIT_FILES_MAX;
    if (getrlimit(RLIMIT_NOFILE, &ours) == 0 && ours.rlim_max < max)
        max = ours.rlim_max;
    return parse_u32(text, LIMIT_FILES_MIN, max, ret, err);
}

static int parse_user(const char *text, struct run_options *o, struct err *err)
{
    char uid[16];
    const char *colon = strchr(text, ':');
    size_t len = colon != NULL ? (size_t)(colon - text) : strlen(text);
    if (len >= sizeof uid)
        return err_set(err, ERR_INVALID, "'%s' is not a user id from 0 to 65534", text);
    (void)snprintf(uid, sizeof uid, "%.*s", (int)len, text);
    if (parse_u32(uid, 0, SLOT_BOX_IDS - 1, &o->uid, err) < 0)
        return -1;
    o->gid = o->uid;
    return colon != NULL ? parse_u32(colon + 1, 0, SLOT_BOX_IDS - 1, &o->gid, err) : 0;
}

// The later of two settings of one variable counts.
static int add_env(struct run_options *o, const char *setting, struct err *err)
{
    size_t len = strcspn(setting, "=");
    if (len == 0)
        return err_set(err, ERR_INVALID, "'%s' has no name before its '='", setting);
    for (unsigned i = 0; i < o->n_env; i++) {
        if (strncmp(o->env[i], setting, len) == 0 && o->env[i][len] == '=') {
            o->env[i] = setting;
            return 0;
        }
    }
    if (o->n_env == RUN_ENV_MAX)
        return err_set(err, ERR_INVALID, "more than %d variables", RUN_ENV_MAX);
    o->env[o->n_env++] = setting;
    return 0;
}

static int parse_env(struct run_options *o, const char *setting, struct err *err)
{
    if (strchr(setting, '=') != NULL)
        return add_env(o, setting, err);
    const char *ours = getenv(setting);
    if (ours == NULL)
        return 0;
    // "NAME=value" lies in our own environment already, just before the value.
    return add_env(o, ours - strlen(setting) - 1, err);
}

static int take_flag(struct run_options *o, enum run_flag flag, const char *value, struct err *err)
{
    struct box_limits *l = &o->claim.limits;
    switch (flag) {
    case FLAG_IMAGE:
        if (!image_name_valid(value))
            return err_set(err, ERR_INVALID, "not a name that an image can have");
        o->claim.image = value;
        return 0;
    case FLAG_MEMORY:
        return parse_size(value, &l->memory, err);
    case FLAG_CPUS:
        return parse_cpus(value, &l->cpu_milli, err);
    case FLAG_PIDS:
        return parse_u32(value, LIMIT_PIDS_MIN, LIMIT_PIDS_MAX, &l->pids, err);
    case FLAG_DISK:
        return parse_size(value, &l->disk, err);
    case FLAG_FILES:
        return parse_files(value, &o->files, err);
    case FLAG_OUTPUT:
        return parse_size(value, &o->output, err);
    case FLAG_TIMEOUT:
        return parse_duration(value, &o->timeout_ms, err);
    case FLAG_ENV:
        return parse_env(o, value, err);
    case FLAG_WORKDIR:
        if (value[0] != '/')
            return err_set(err, ERR_INVALID, "'%s' is not an absolute path", value);
        o->workdir = value;
        return 0;
    case FLAG_USER:
        return parse_user(value, o, err);
    case FLAG_DATA:
        o->data = value;
        return 0;
    case FLAG_JSON:
        o->json = true;
        return 0;
    }
    return 0;
}

static int default_env(struct run_options *o, struct err *err)
{
    static const char *const common[] = {
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/cay/bin",
        "LANG=C.UTF-8",
        "HOSTNAME=cay",
    };
    for (unsigned i = 0; i < sizeof common / sizeof *common; i++) {
        if (add_env(o, common[i], err) < 0)
            return -1;
    }
    return 0;
}

// What depends on the flags, unless a flag said otherwise.
static void late_env(struct run_options *o)
{
    struct err ignored;
    unsigned n = o->n_env;
    const char *late[] = {
        o->uid == 0 ? "HOME=/root" : "HOME=/home/user",
        o->uid == 0 ? "USER=root" : "USER=user",
        "TERM=xterm-256color",
    };
    for (unsigned i = 0; i < (o->tty ? 3u : 2u); i++) {
        size_t len = strcspn(late[i], "=") + 1;
        bool there = false;
        for (unsigned j = 0; j < n; j++)
            there = there || strncmp(o->env[j], late[i], len) == 0;
        if (!there)
            (void)add_env(o, late[i], &ignored);
    }
}

// --- telling how it ended ---

static const char *const reason_names[] = {
    [RUN_EXIT] = "exit",     [RUN_SIGNAL] = "signal", [RUN_TIMEOUT] = "timeout",
    [RUN_KILLED] = "killed", [RUN_OOM] = "oom",       [RUN_BOX_LOST] = "box_lost",
};

static int exit_code(const struct run_result *r)
{
    if (r->start_failed != 0)
        return r->start_failed;
    switch (r->reason) {
    case RUN_EXIT:
        return WEXITSTATUS(r->status);
    case RUN_SIGNAL:
    case RUN_KILLED:
        return 128 + WTERMSIG(r->status);
    case RUN_OOM:
        return 128 + SIGKILL;
    case RUN_TIMEOUT:
        return 124;
    case RUN_BOX_LOST:
        break;
    }
    return CLI_FAILED;
}

static void put_output(struct json *j, const struct run_result *r)
{
    bool text = utf8_valid(r->out.data, r->out.len) && utf8_valid(r->err.data, r->err.len);
    const struct buf *bufs[] = {&r->out, &r->err};
    const char *const keys[] = {"stdout", "stderr"};
    for (int i = 0; i < 2; i++) {
        json_key(j, keys[i]);
        if (text)
            json_put_strn(j, bufs[i]->data, bufs[i]->len);
        else
            json_put_base64(j, bufs[i]->data, bufs[i]->len);
    }
    if (!text) { // both streams, so that a reader has one question to ask
        json_key(j, "encoding");
        json_put_str(j, "base64");
    }
    json_key(j, "truncated");
    json_put_bool(j, r->truncated);
}

static void put_limits(struct json *j, const struct run_result *r)
{
    json_key(j, "limitsHit");
    json_open_array(j);
    if (r->limits & GUEST_LIMIT_PIDS)
        json_put_str(j, "pids");
    if (r->limits & GUEST_LIMIT_DISK)
        json_put_str(j, "disk");
    if (r->truncated)
        json_put_str(j, "output");
    json_close_array(j);
}

static int print_json(const struct run_result *r, const struct err *err)
{
    auto_buf text;
    struct json j;
    buf_init(&text, SIZE_MAX / 2);
    json_init(&j, &text);
    json_open_object(&j);
    json_key(&j, "success");
    json_put_bool(&j, r->reason == RUN_EXIT && exit_code(r) == 0);
    json_key(&j, "exitCode");
    json_put_int(&j, exit_code(r));
    json_key(&j, "reason");
    json_put_str(&j, reason_names[r->reason]);
    if (r->reason == RUN_SIGNAL || r->reason == RUN_KILLED) {
        json_key(&j, "signal");
        json_put_int(&j, WTERMSIG(r->status));
    }
    if (r->start_failed != 0) {
        json_key(&j, "error");
        json_put_str(&j, err->msg);
    }
    put_limits(&j, r);
    put_output(&j, r);
    json_key(&j, "duration");
    json_put_double(&j, (double)(r->wall_ns / NS_PER_US) / 1000.0);
    json_key(&j, "cpu");
    json_put_double(&j, (double)r->cpu_usec / 1000.0);
    json_key(&j, "peakMemory");
    json_put_uint(&j, r->memory_peak);
    json_close_object(&j);
    (void)buf_append_char(&text, '\n');
    struct err failed;
    int e = json_finish(&j);
    if (e == 0)
        e = fd_write_all(1, text.data, text.len);
    if (e < 0) {
        (void)err_sys(&failed, -e, "print the result");
        return cli_fail(&failed);
    }
    return exit_code(r);
}

// On a terminal or in a script a silent end would leave the reader guessing.
static void explain(const struct run_options *o, const struct run_result *r)
{
    if (r->reason == RUN_TIMEOUT)
        (void)fprintf(stderr, "cay: ended after its time was up (--timeout)\n");
    else if (r->reason == RUN_OOM)
        (void)fprintf(stderr, "cay: ended: it wanted more than its memory of %llu MiB (--memory)\n",
                      (unsigned long long)(o->claim.limits.memory >> 20));
    else if (r->reason == RUN_BOX_LOST)
        (void)fprintf(stderr, "cay: the box was lost while the command ran\n");
}

// --- the command ---

static int parse(int argc, char **argv, struct run_options *o, struct err *err)
{
    struct opt_reader reader;
    const char *value;
    int which;
    opt_start(&reader, &spec, argc, argv);
    while ((which = opt_next(&reader, &value, err)) >= 0) {
        if (take_flag(o, (enum run_flag)which, value, err) < 0) {
            (void)err_wrap(err, "--%s", opts[which].name);
            return OPT_FAILED;
        }
    }
    if (which != OPT_END)
        return which;
    if (reader.next == argc)
        (void)err_set(err, ERR_INVALID, "no command to run");
    o->argv = (const char *const *)(argv + reader.next);
    return reader.next == argc || limits_check(&o->claim.limits, err) < 0 ? OPT_FAILED : OPT_END;
}

int cmd_run(int argc, char **argv)
{
    struct err err = {0};
    struct run_result result = {0};
    static struct run_options o;
    o = (struct run_options){
        .claim = {.image = "host", .limits = limits_default(), .disk_kind = DISK_TMPFS},
        .workdir = "/workspace",
        .files = LIMIT_FILES_DEFAULT,
        .output = LIMIT_OUTPUT_DEFAULT,
    };
    int which = default_env(&o, &err) < 0 ? OPT_FAILED : parse(argc, argv, &o, &err);
    if (which == OPT_HELP) {
        opt_print_help(stdout, &spec);
        return CLI_OK;
    }
    if (which == OPT_FAILED)
        return cli_usage("run", &err);
    o.tty = !o.json && isatty(0) && isatty(1);
    late_env(&o);
    if (weaken(WEAKEN_OUTPUT))
        o.output = 1 << 30;
    buf_init(&result.out, o.output);
    buf_init(&result.err, o.output);
    int code;
    if (run_in_box(&o, &result, &err) < 0 && !(o.json && result.start_failed != 0)) {
        (void)cli_fail(&err);
        code = result.start_failed != 0 ? result.start_failed : CLI_FAILED;
    } else if (o.json) {
        code = print_json(&result, &err);
    } else {
        explain(&o, &result);
        code = exit_code(&result);
    }
    buf_done(&result.out);
    buf_done(&result.err);
    return code;
}
