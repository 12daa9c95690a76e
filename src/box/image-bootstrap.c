// SPDX-License-Identifier: Apache-2.0
// mmdebstrap makes a Debian root from the mirrors that this machine's own apt uses.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "box/image-steps.h"
#include "box/tool.h"
#include "box/watch.h"

// Without it Debian 12 installs Perl only to find that /bin is a link already.
#define MERGED_HOOKS "/usr/share/mmdebstrap/hooks/maybe-merged-usr"

enum {
    MIRRORS_MAX = 24,
    MIRRORS_SIZE = 16 * 1024,
    OPTIONS_SIZE = 16 * 1024,
    DOC_OPTIONS = 5,
    ARGS_MAX = 16 + MIRRORS_MAX + DOC_OPTIONS + RECIPE_WITHOUT_MAX,
};

// -- what it says

struct bootstrap_log {
    const struct image_watch *watch;
    char reason[200]; // the first error, or the last line
    bool has_error, no_mirror;
    unsigned total, unpacked, set_up; // packages of the present part
};

static bool begins(const char *line, const char *with)
{
    return strncmp(line, with, strlen(with)) == 0;
}

static bool is_about_network(const char *line)
{
    static const char *const words[] = {
        "Temporary failure resolving", "Could not resolve",
        "Could not connect",           "Cannot initiate the connection",
        "Unable to connect",           "Connection failed",
        "Connection timed out"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strstr(line, words[i]) != NULL)
            return true;
    }
    return false;
}

// What apt and dpkg say while they work: only how far they are.
static void take_progress(struct bootstrap_log *log, const char *line)
{
    const char *count = strstr(line, " upgraded, ");
    if (count != NULL) {
        log->total = (unsigned)strtoul(count + strlen(" upgraded, "), NULL, 10);
        log->unpacked = log->set_up = 0;
    } else if (begins(line, "Get:") && log->total > 0) {
        watch_tick(log->watch, "fetching: %lu of %u packages", strtoul(line + 4, NULL, 10),
                   log->total);
    } else if (begins(line, "Unpacking ")) {
        watch_tick(log->watch, "unpacking: %u of %u packages", ++log->unpacked, log->total);
    } else if (begins(line, "Setting up ")) {
        watch_tick(log->watch, "setting up: %u of %u packages", ++log->set_up, log->total);
    }
}

// Of what mmdebstrap tells of itself, the parts of the work.
static bool is_part(const char *line)
{
    static const char *const words[] = {"running apt-get", "downloading", "extracting",
                                        "installing", "cleaning"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (begins(line, words[i]))
            return true;
    }
    return false;
}

static void take_log_line(void *arg, const char *line)
{
    struct bootstrap_log *log = arg;
    bool is_error = begins(line, "E: ");
    log->no_mirror |= is_about_network(line);
    if (is_error && strstr(line, "mmdebstrap failed") != NULL)
        return; // says that there was an error
    if (!log->has_error)
        memccpy(log->reason, line, '\0', sizeof log->reason - 1);
    log->has_error |= is_error;
    if (begins(line, "I: ") && is_part(line + 3))
        watch_say(log->watch, "%s", line + 3);
    else if (begins(line, "W: "))
        watch_say(log->watch, "warning: %s", line + 3);
    else
        take_progress(log, line);
}

static int explain(int status, const struct bootstrap_log *log, struct err *err)
{
    if (status == TOOL_BROKEN && begins(log->reason, "mmdebstrap: "))
        return err_set(
            err, ERR_UNSUPPORTED,
            "mmdebstrap is needed to build images and is not installed ('apt-get install mmdebstrap')");
    if (log->no_mirror)
        return err_set(
            err, ERR_UNAVAILABLE,
            "mmdebstrap reached no Debian mirror. What it uses is what apt uses here: make "
            "'apt-get update' work (network, sources, proxy), or build the image elsewhere "
            "and bring it as an archive ('cay image import')");
    return err_set(err, ERR_UNAVAILABLE, "mmdebstrap failed: %s", log->reason);
}

// -- how it is asked

// Options live in a buffer, one NUL-terminated text after the other, until it runs.
struct arguments {
    const char *argv[ARGS_MAX];
    unsigned n;
    struct buf texts;
};

static void add(struct arguments *args, const char *text)
{
    if (args->n < ARGS_MAX - 1)
        args->argv[args->n++] = text;
}

static void add_joined(struct arguments *args, const char *option, const char *value)
{
    char *at;
    size_t room, len = strlen(option) + strlen(value) + 1;
    if (buf_reserve(&args->texts, len, &at, &room) < 0 || room < len)
        return;
    (void)snprintf(at, len, "%s%s", option, value);
    buf_commit(&args->texts, len);
    add(args, at);
}

static void add_exclusions(struct arguments *args, const struct recipe *recipe)
{
    // Licences stay: whoever passes the packages on owes them.
    static const char *const docs[DOC_OPTIONS] = {
        "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/info/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*", "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-include=/usr/share/doc/*/copyright"};
    for (unsigned i = 0; recipe->without_docs && i < DOC_OPTIONS; i++)
        add(args, docs[i]);
    for (unsigned i = 0; i < recipe->n_without; i++)
        add_joined(args, "--dpkgopt=path-exclude=", recipe->without[i]);
}

static void add_options(struct arguments *args, const struct recipe *recipe,
                        const struct apt_settings *settings)
{
    add(args, "mmdebstrap");
    add(args, "--mode=root");
    add(args, "--variant=minbase");
    add(args, "--format=directory");
    add(args, "--verbose");
    add_joined(args, "--include=ca-certificates", buf_str(&recipe->packages));
    if (access(MERGED_HOOKS, R_OK | X_OK) == 0)
        add(args, "--hook-dir=" MERGED_HOOKS);
    if (settings->old_lists)
        add(args, "--aptopt=Acquire::Check-Valid-Until \"false\"");
    add_exclusions(args, recipe);
}

int image_bootstrap(int root_fd, const struct recipe *recipe, const struct apt_settings *settings,
                    const struct image_watch *watch, struct err *err)
{
    const char *suite = strchr(recipe->from, ':') + 1;
    auto_buf mirrors;
    buf_init(&mirrors, MIRRORS_SIZE);
    unsigned n_mirrors = apt_find_mirrors(suite, MIRRORS_MAX, &mirrors);
    struct arguments args = {.n = 0};
    buf_init(&args.texts, IMAGE_PACKAGES_MAX + OPTIONS_SIZE);
    char *at;
    size_t room; // all of it now: the texts must not move
    if (buf_reserve(&args.texts, IMAGE_PACKAGES_MAX + OPTIONS_SIZE, &at, &room) < 0)
        return err_sys(err, ENOMEM, "list the packages");
    add_options(&args, recipe, settings);
    add(&args, "--");
    add(&args, suite);
    add(&args, step_place());
    const char *mirror = buf_str(&mirrors);
    for (unsigned i = 0; i < n_mirrors; i++, mirror += strlen(mirror) + 1)
        add(&args, mirror);

    const char *envp[APT_ENV_MAX];
    apt_environment(settings, envp);
    struct bootstrap_log log = {.watch = watch};
    struct step step = {.argv = args.argv, .envp = envp, .each = take_log_line, .arg = &log};
    watch_say(watch, "bootstrapping Debian %s from %s", suite,
              n_mirrors > 0 ? "this machine's mirrors" : "the default mirror");
    int status = step_run(&step, root_fd, watch, err);
    buf_done(&args.texts);
    if (status > 0)
        return explain(status, &log, err);
    return status;
}
