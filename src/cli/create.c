// SPDX-License-Identifier: Apache-2.0
// `cay create [ID]`: makes a sandbox, or finds the one that has this id and these settings.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/body.h"
#include "cli/cli.h"
#include "cli/remote.h"

enum create_flag {
    FLAG_IMAGE,
    FLAG_MEMORY,
    FLAG_CPUS,
    FLAG_PIDS,
    FLAG_DISK,
    FLAG_ENV,
    FLAG_LABEL,
    FLAG_SLEEP_AFTER,
    FLAG_KEEP_ALIVE,
    FLAG_EPHEMERAL,
    FLAG_ALLOW,
    FLAG_INTERNET,
    FLAG_SECRET,
    FLAG_DESTROY_AFTER,
    FLAG_BUDGET_USD,
    FLAG_BUDGET_TOKENS,
    FLAG_SNAPSHOT,
    FLAG_RESTORE,
    FLAG_SYNC,
    FLAG_DURABLE,
    FLAG_ARCHIVE_AFTER,
};

static const struct opt opts[] = {
    {"image",         'i', "NAME", "what it stands on ('cay image ls' on the server)",                "the server's"},
    {"memory",        'm', "SIZE", "most memory",                                                     "the server's"},
    {"cpus",          'c', "N",    "most processor time, in cores; 0.5 is half of one",               "the server's"},
    {"pids",          'p', "N",    "most processes and threads",                                      "the server's"},
    {"disk",          'd', "SIZE", "most that its files may take",                                    "the server's"},
    {"env",           'e', "K=V",  "a variable of all its programs; K alone takes ours",              NULL          },
    {"label",         'l', "K=V",  "a label to find it by; may be repeated",                          NULL          },
    {"sleep-after",   0,   "TIME", "without use for this long it sleeps (30s, 10m, 1h)",
     "the server's"                                                                                                 },
    {"keep-alive",    0,   NULL,   "never let it sleep",                                              NULL          },
    {"ephemeral",     0,   NULL,   "its files go when it sleeps",                                     NULL          },
    {"allow",         0,   "HOST", "it may reach this host (*.x.org:443); may be repeated",           NULL          },
    {"internet",      0,   NULL,   "it may reach all but private networks",                           NULL          },
    {"secret",        0,   "NAME", "it may use this secret; may be repeated",                         NULL          },
    {"destroy-after", 0,   "TIME", "without use for this long it is destroyed (12h, 7d)",             "never"       },
    {"budget-usd",    0,   "USD",  "most dollars that it may spend on models",                        "any"         },
    {"budget-tokens", 0,   "N",    "most tokens that it may spend on models",                         "any"         },
    {"snapshot",      0,   "SNAP", "it begins with the files of this snapshot of another",            NULL          },
    {"restore",       0,   NULL,   "it begins with the files that are stored under its id",           NULL          },
    {"sync",          0,   NULL,   "its workspace goes to the store whenever it falls asleep",        NULL          },
    {"durable",       0,   NULL,   "fsync in it reaches the disk, for what must outlive a power cut", NULL          },
    {"archive-after", 0,   "TIME", "asleep for this long, its disk goes to the store (7d)",           "never"       },
    REMOTE_OPTS,
};

static const struct opt_spec spec = {
    .usage = "cay create [ID] [flags]",
    .summary =
        "Makes a sandbox and prints its id; without an ID one is made up. One that is there already\n"
        "with the same settings is found, not made again.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more = "Examples:\n"
            "  cay create build --memory 2g --cpus 2 --label team=web\n"
            "  cay create notes --sync --restore      # the files of a 'notes' that was\n"
            "  cay create agent --allow pypi.org --allow '*.pythonhosted.org' --secret github\n"
            "  id=$(cay create) && cay exec $id -- python3 -c 'print(6 * 7)' && cay rm $id",
};

struct create {
    const char *image;
    uint64_t memory, disk, pids;
    uint32_t cpu_milli;
    const char *sleep_after, *destroy_after, *archive_after, *snapshot;
    double budget_usd;
    uint64_t budget_tokens;
    bool keep_alive, ephemeral, internet, restore, sync, durable;
    struct pairs env, labels;
    struct names allow, secrets;
};

// "1.5", "$0.25".
static int parse_usd(const char *text, double *ret, struct err *err)
{
    const char *digits = text[0] == '$' ? text + 1 : text;
    size_t whole = strspn(digits, "0123456789");
    size_t rest = digits[whole] == '.' ? 1 + strspn(digits + whole + 1, "0123456789") : 0;
    double usd = strtod(digits, NULL);
    if (whole + rest == 0 || digits[whole + rest] != '\0' || rest == 1 || usd <= 0 || usd > 1e6)
        return err_set(err, ERR_INVALID, "'%.40s' is no amount of dollars, such as 1.5", text);
    *ret = usd;
    return 0;
}

static void put_budget(struct json *j, const struct create *c)
{
    if (c->budget_usd <= 0 && c->budget_tokens == 0)
        return;
    json_key(j, "budget");
    json_open_object(j);
    if (c->budget_usd > 0) {
        json_key(j, "usd");
        json_put_double(j, c->budget_usd);
    }
    if (c->budget_tokens > 0) {
        json_key(j, "tokens");
        json_put_uint(j, c->budget_tokens);
    }
    json_close_object(j);
}

static int take_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    struct create *c = data;
    int64_t ms;
    switch ((enum create_flag)flag) {
    case FLAG_IMAGE:
        c->image = value;
        return 0;
    case FLAG_MEMORY:
        return parse_size(value, &c->memory, err);
    case FLAG_CPUS:
        return parse_cpus(value, &c->cpu_milli, err);
    case FLAG_PIDS:
        return parse_u64(value, 1, UINT32_MAX, &c->pids, err);
    case FLAG_DISK:
        return parse_size(value, &c->disk, err);
    case FLAG_ENV:
        return pairs_add(&c->env, value, true, err);
    case FLAG_LABEL:
        return pairs_add(&c->labels, value, false, err);
    case FLAG_SLEEP_AFTER:
        c->sleep_after = value;
        return parse_duration(value, &ms, err);
    case FLAG_KEEP_ALIVE:
        c->keep_alive = true;
        return 0;
    case FLAG_EPHEMERAL:
        c->ephemeral = true;
        return 0;
    case FLAG_ALLOW:
        return names_add(&c->allow, value, err);
    case FLAG_INTERNET:
        c->internet = true;
        return 0;
    case FLAG_SECRET:
        return names_add(&c->secrets, value, err);
    case FLAG_DESTROY_AFTER:
        c->destroy_after = value;
        return parse_duration(value, &ms, err);
    case FLAG_BUDGET_USD:
        return parse_usd(value, &c->budget_usd, err);
    case FLAG_BUDGET_TOKENS:
        return parse_u64(value, 1, UINT64_C(1000000000000), &c->budget_tokens, err);
    case FLAG_SNAPSHOT:
        c->snapshot = value;
        return 0;
    case FLAG_RESTORE:
        c->restore = true;
        return 0;
    case FLAG_SYNC:
        c->sync = true;
        return 0;
    case FLAG_DURABLE:
        c->durable = true;
        return 0;
    case FLAG_ARCHIVE_AFTER:
        c->archive_after = value;
        return parse_duration(value, &ms, err);
    }
    return 0;
}

static void put_network(struct json *j, const struct create *c)
{
    body_text(j, "network", c->internet ? "internet" : NULL);
    if (c->allow.n == 0)
        return;
    json_key(j, "network");
    json_open_object(j);
    body_names(j, "allow", &c->allow);
    json_close_object(j);
}

static void write_body(const struct create *c, const char *id, struct buf *body)
{
    struct json j;
    json_init(&j, body);
    json_open_object(&j);
    body_text(&j, "id", id);
    body_text(&j, "image", c->image);
    body_number(&j, "memory", c->memory);
    body_number(&j, "disk", c->disk);
    body_number(&j, "pids", c->pids);
    if (c->cpu_milli != 0) {
        json_key(&j, "cpus");
        json_put_double(&j, c->cpu_milli / 1000.0);
    }
    body_text(&j, "sleepAfter", c->sleep_after);
    body_text(&j, "destroyAfter", c->destroy_after);
    body_text(&j, "archiveAfter", c->archive_after);
    put_budget(&j, c);
    body_flag(&j, "keepAlive", c->keep_alive);
    body_flag(&j, "ephemeral", c->ephemeral);
    body_text(&j, "snapshot", c->snapshot);
    body_flag(&j, "restore", c->restore);
    body_flag(&j, "sync", c->sync);
    body_flag(&j, "durable", c->durable);
    pairs_put(&j, "env", &c->env);
    pairs_put(&j, "labels", &c->labels);
    put_network(&j, c);
    body_names(&j, "secrets", &c->secrets);
    json_close_object(&j);
    (void)json_finish(&j); // remote_do looks at the buffer
}

int cmd_create(int argc, char **argv)
{
    static struct create create;
    int code;
    auto_remote remote;
    const struct command_line line = {"create", &spec, take_flag, &create, 0, 1, "one ID at most"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    if (create.internet && create.allow.n > 0)
        return remote_usage(&remote, "--internet and --allow do not go together");
    struct err err;
    auto_answer answer;
    auto_buf target, body, id;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    buf_init(&body, REMOTE_BODY_MAX);
    buf_init(&id, REMOTE_TARGET_MAX);
    write_body(&create, remote.n_words > 0 ? remote.word[0] : NULL, &body);
    remote_target(&target, "sandbox");
    if (remote_do(&remote, "POST", &target, &body, &answer, &err) < 0)
        return remote_fail(&remote, &err);
    if (remote.json)
        return remote_print(&remote, &answer);
    (void)printf("%s\n", remote_text(&id, answer_root(&answer), "sandboxId"));
    return remote_flush(&remote);
}
