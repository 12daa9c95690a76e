// SPDX-License-Identifier: Apache-2.0
// escape: makes attempts to get out of a box and says for each what happened. It is copied into a
// box, so it is static and needs nothing. Without names it makes every attempt that can share a box
// with others.
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attempt.h"
#include "helpers.h"
#include "machine.h"
#include "runner.h"
#include "witness.h"
#include "world.h"

const struct attempt_list *const all_attempts[] = {
    &process_attempts, &memory_attempts,    &disk_attempts,  &files_attempts,
    &output_attempts,  &clock_attempts,     &exe_attempts,   &root_attempts,
    &mount_attempts,   &cgroup_attempts,    &proc_attempts,  &sys_attempts,
    &device_attempts,  &namespace_attempts, &guest_attempts, &key_attempts,
    &call_attempts,    &network_attempts,   &tty_attempts,   &privilege_attempts,
    &ipc_attempts,
};
const size_t n_attempt_lists = sizeof(all_attempts) / sizeof(all_attempts[0]);

static const char *const place_names[PLACE_MAX] = {
    [TOGETHER] = "together",
    [ALONE] = "alone",
    [OUTSIDE] = "outside",
};

enum option_id {
    OPT_HELP = 1,
    OPT_LIST,
    OPT_JSON,
    OPT_FEATURES,
    OPT_WITNESS,
    OPT_DIRECT,
    OPT_HOST,
    OPT_NEIGHBOUR,
    OPT_HOST_PIDNS,
    OPT_HOST_NETNS,
    OPT_DISK_DEVICE,
    OPT_MEMORY,
    OPT_DISK,
    OPT_PIDS,
    OPT_FILES,
    OPT_MILLI_CPUS,
};

static const struct {
    const char *name;
    const char *arg; // NULL: a switch
    enum option_id id;
    const char *help;
} option_table[] = {
    {"help",        NULL,          OPT_HELP,        "this text"                                      },
    {"list",        NULL,          OPT_LIST,        "the attempts and what they try; --json for all" },
    {"json",        NULL,          OPT_JSON,        "one JSON object a line"                         },
    {"features",    NULL,          OPT_FEATURES,    "what this machine has that canaries need"       },
    {"witness",     "TOKEN",       OPT_WITNESS,     "own things that attempts look for, until killed"},
    {"direct",      "NAME",        OPT_DIRECT,      "make one attempt in this very process"          },
    {"host",        "PEER",        OPT_HOST,        "the witness on the host"                        },
    {"neighbour",   "PEER",        OPT_NEIGHBOUR,   "the witness in another box"                     },
    {"host-pidns",  "INODE",       OPT_HOST_PIDNS,  "number of the host's pid namespace"             },
    {"host-netns",  "INODE",       OPT_HOST_NETNS,  "number of the host's network namespace"         },
    {"disk-device", "MAJOR:MINOR", OPT_DISK_DEVICE, "the host's disk"                                },
    {"memory",      "BYTES",       OPT_MEMORY,      "the box's limit"                                },
    {"disk",        "BYTES",       OPT_DISK,        "the box's limit"                                },
    {"pids",        "N",           OPT_PIDS,        "the box's limit"                                },
    {"files",       "N",           OPT_FILES,       "the box's limit"                                },
    {"milli-cpus",  "N",           OPT_MILLI_CPUS,  "the box's limit in thousandths of a processor"  },
};

enum {
    N_OPTIONS = sizeof(option_table) / sizeof(option_table[0]),
};

struct settings {
    bool list, json, features;
    const char *witness;
    const char *direct;
};

static void usage(FILE *out)
{
    fprintf(out, "usage: escape [options] [NAME...]\n");
    for (size_t i = 0; i < N_OPTIONS; i++)
        fprintf(out, "  --%s %s\t%s\n", option_table[i].name,
                option_table[i].arg != NULL ? option_table[i].arg : "", option_table[i].help);
}

static bool apply(enum option_id id, const char *arg, struct settings *s)
{
    switch (id) {
    case OPT_HELP:
        usage(stdout);
        exit(0);
    case OPT_LIST:
        s->list = true;
        return true;
    case OPT_JSON:
        s->json = true;
        return true;
    case OPT_FEATURES:
        s->features = true;
        return true;
    case OPT_WITNESS:
        s->witness = arg;
        return strlen(arg) < TOKEN_MAX;
    case OPT_DIRECT:
        s->direct = arg;
        return true;
    case OPT_HOST:
        return peer_parse(&world.host, arg);
    case OPT_NEIGHBOUR:
        return peer_parse(&world.neighbour, arg);
    case OPT_HOST_PIDNS:
        world.host_pidns = strtoul(arg, NULL, 10);
        return world.host_pidns != 0;
    case OPT_HOST_NETNS:
        world.host_netns = strtoul(arg, NULL, 10);
        return world.host_netns != 0;
    case OPT_DISK_DEVICE:
        return sscanf(arg, "%u:%u", &world.disk_major, &world.disk_minor) == 2;
    case OPT_MEMORY:
        world.memory = strtol(arg, NULL, 10);
        return world.memory > 0;
    case OPT_DISK:
        world.disk = strtol(arg, NULL, 10);
        return world.disk > 0;
    case OPT_PIDS:
        world.pids = (int)strtol(arg, NULL, 10);
        return world.pids > 0;
    case OPT_FILES:
        world.files = (int)strtol(arg, NULL, 10);
        return world.files > 0;
    case OPT_MILLI_CPUS:
        world.milli_cpus = (int)strtol(arg, NULL, 10);
        return world.milli_cpus > 0;
    }
    return false;
}

static bool parse(int argc, char **argv, struct settings *s)
{
    struct option longopts[N_OPTIONS + 1] = {0};
    int id;
    for (size_t i = 0; i < N_OPTIONS; i++) {
        longopts[i].name = option_table[i].name;
        longopts[i].has_arg = option_table[i].arg != NULL ? required_argument : no_argument;
        longopts[i].val = (int)option_table[i].id;
    }
    while ((id = getopt_long(argc, argv, "", longopts, NULL)) != -1) {
        if (id == '?')
            return false;
        if (!apply((enum option_id)id, optarg, s)) {
            fprintf(stderr, "escape: '%s' is no good value\n", optarg);
            return false;
        }
    }
    return true;
}

static const struct attempt *find(const char *name)
{
    for (size_t i = 0; i < n_attempt_lists; i++) {
        for (size_t j = 0; j < all_attempts[i]->n; j++) {
            if (strcmp(all_attempts[i]->first[j].name, name) == 0)
                return &all_attempts[i]->first[j];
        }
    }
    return NULL;
}

static void print_field(const char *key, const char *value)
{
    printf(",\"%s\":", key);
    if (value != NULL)
        print_json_string(value);
    else
        printf("null");
}

static void print_entry(const struct attempt *a, bool json)
{
    if (!json) {
        printf("%2d %-24s %s\n", a->number, a->name, a->tries);
        return;
    }
    printf("{\"n\":%d,\"name\":\"%s\",\"place\":\"%s\"", a->number, a->name, place_names[a->place]);
    print_field("tries", a->tries);
    print_field("heldBy", a->held_by);
    print_field("canary", a->canary);
    print_field("needs", a->needs);
    print_field("noCanary", a->no_canary);
    printf(",\"killedIsHeld\":%s}\n", a->killed_is_held ? "true" : "false");
}

static bool make(const struct attempt *attempt, bool json)
{
    struct result result;
    run_attempt(attempt, &result);
    if (json)
        print_result_json(attempt, &result);
    else
        print_result_text(attempt, &result);
    fflush(stdout);
    return result.outcome == HELD || result.outcome == CANNOT;
}

static int make_together(bool json, bool list)
{
    bool good = true;
    for (size_t i = 0; i < n_attempt_lists; i++) {
        for (size_t j = 0; j < all_attempts[i]->n; j++) {
            const struct attempt *a = &all_attempts[i]->first[j];
            if (list)
                print_entry(a, json);
            else if (a->place == TOGETHER)
                good = make(a, json) && good;
        }
    }
    return good ? 0 : 1;
}

static int make_direct(const char *name)
{
    const struct attempt *attempt = find(name);
    struct result result = {0};
    if (attempt == NULL) {
        fprintf(stderr, "escape: no attempt is called '%s'\n", name);
        return 2;
    }
    result.outcome = attempt->run(attempt);
    snprintf(result.detail, sizeof(result.detail), "%s", verdict_detail());
    print_result_json(attempt, &result);
    return 0;
}

static int make_named(char **names, bool json)
{
    bool good = true;
    for (char **name = names; *name != NULL; name++) {
        if (find(*name) == NULL) {
            fprintf(stderr, "escape: no attempt is called '%s'\n", *name);
            return 2;
        }
    }
    for (char **name = names; *name != NULL; name++)
        good = make(find(*name), json) && good;
    return good ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct settings settings = {0};
    if (helper_main(argc, argv))
        return 0;
    world_note_leaks();
    if (!parse(argc, argv, &settings)) {
        usage(stderr);
        return 2;
    }
    if (settings.features)
        return features_print();
    if (settings.witness != NULL)
        return witness_run(settings.witness);
    if (settings.direct != NULL)
        return make_direct(settings.direct);
    if (argv[optind] != NULL)
        return make_named(argv + optind, settings.json);
    return make_together(settings.json, settings.list);
}
