// SPDX-License-Identifier: Apache-2.0
// `cay init [TEMPLATE [DIR]]`: copies a template that runs, with the client's library beside it, so
// that nothing has to be fetched. Nothing that is there is touched: all paths are looked at before
// the first is made.
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/opt.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/templates.h"

enum init_flag { FLAG_LANGUAGE, FLAG_QUIET };

static const struct opt opts[] = {
    {"language", 'l', "NAME", "typescript or python",         "typescript"},
    {"quiet",    'q', NULL,   "without TEMPLATE: only names", NULL        },
};

static const struct opt_spec spec = {
    .usage = "cay init [TEMPLATE [DIR]] [flags]",
    .summary =
        "Copies a template to begin with into DIR (a new one of the template's name unless given),\n"
        "with the library that it needs: it runs at once, without fetching anything. Files that are\n"
        "there are never overwritten. Without TEMPLATE it lists them.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more =
        "Examples:\n"
        "  cay init\n"
        "  cay init basic-executor && cd basic-executor && node main.js\n"
        "  cay init code-interpreter . --language python && python3 main.py\n"
        "The programs ask the server at CAY_URL (http://127.0.0.1:8787 unless it is set), with the\n"
        "token in CAY_TOKEN.",
};

// How a language's programs find the library.
struct language {
    const char *name;
    const char *library; // its directory
    const char *link;    // where it is looked for, if elsewhere
    const char *link_to;
    const char *run;
    const char *tools; // what the build needs for it
};

static const struct language languages[] = {
    {"typescript", "cay-sandbox", "node_modules/@cay/sandbox", "../../cay-sandbox", "node main.js",
     "npm (install it, then 'touch kernels/node/package.json && make build')"                                   },
    {"python",     "cay",         NULL,                        NULL,                "python3 main.py", "python3"},
};
enum { N_LANGUAGES = sizeof languages / sizeof *languages };

struct init {
    const char *template, *dir;
    const struct language *language;
    bool quiet;
};

// -- what there is

static bool has_folder(const struct language *language, const char *name)
{
    char prefix[TEMPLATE_PATH_MAX];
    struct template_file file;
    (void)snprintf(prefix, sizeof prefix, "%s/%.200s/", language->name, name);
    return template_find(prefix, &file);
}

static bool has_template(const struct language *language, const char *name)
{
    return strcmp(name, "sdk") != 0 && strcmp(name, "common") != 0 && has_folder(language, name);
}

// Calls `each` with a name and what it is, until it returns false.
static void each_template(bool (*each)(void *data, const char *name, const char *about), void *data)
{
    struct template_file file;
    char line[256];
    if (!template_find("templates", &file))
        return;
    for (const char *at = file.data, *end = at + file.len; at < end;) {
        size_t len = strcspn(at, "\n");
        (void)snprintf(line, sizeof line, "%.*s", (int)len, at);
        at += len + 1;
        size_t name = strcspn(line, " "), about = name + strspn(line + name, " ");
        line[name] = '\0';
        if (!each(data, line, line + about))
            return;
    }
}

static bool print_template(void *data, const char *name, const char *about)
{
    const struct init *init = data;
    bool any = false;
    char which[64] = "";
    for (unsigned i = 0; i < N_LANGUAGES; i++) {
        if (!has_template(&languages[i], name))
            continue;
        size_t len = strlen(which);
        (void)snprintf(which + len, sizeof which - len, "%s%s", any ? ", " : "", languages[i].name);
        any = true;
    }
    if (any && init->quiet)
        (void)printf("%s\n", name);
    else if (any)
        (void)printf("  %-20s  %s (%s)\n", name, about, which);
    return true;
}

static int list_templates(const struct init *init)
{
    struct err err;
    if (!init->quiet)
        (void)puts("Templates, for 'cay init TEMPLATE':");
    each_template(print_template, (void *)(uintptr_t)init);
    if (!init->quiet)
        (void)puts("'cay help init' says more.");
    if (fflush(stdout) == 0)
        return CLI_OK;
    (void)err_sys(&err, errno, "print the templates");
    return cli_fail(&err);
}

struct search {
    const char *name;
    char near[64];
};

static bool look_near(void *data, const char *name, const char *about)
{
    struct search *search = data;
    (void)about;
    if (search->near[0] == '\0' && text_near(search->name, name))
        (void)snprintf(search->near, sizeof search->near, "%s", name);
    return true;
}

static int unknown_template(const struct init *init, struct err *err)
{
    struct search search = {.name = init->template};
    for (unsigned i = 0; i < N_LANGUAGES; i++) {
        if (has_template(&languages[i], init->template))
            return err_set(err, ERR_INVALID, "there is no '%.60s' in %s, but in %s (--language %s)",
                           init->template, init->language->name, languages[i].name,
                           languages[i].name);
    }
    each_template(look_near, &search);
    if (search.near[0] != '\0')
        return err_set(err, ERR_INVALID, "there is no template '%.60s', did you mean '%s'?",
                       init->template, search.near);
    return err_set(err, ERR_INVALID, "there is no template '%.60s': 'cay init' lists them",
                   init->template);
}

// -- copying

// Whether the template brings a file of its own in the place of one that all have.
static bool has_own(const struct init *init, const char *name)
{
    char path[TEMPLATE_PATH_MAX];
    struct template_file file;
    (void)snprintf(path, sizeof path, "%s/%.60s/%.100s", init->language->name, init->template,
                   name);
    return template_find(path, &file);
}

// Where a file of the bundle goes, below DIR; false when it is not of this template.
static bool target_of(const struct init *init, const char *path, char ret[TEMPLATE_PATH_MAX])
{
    size_t len = strlen(init->language->name), name = strlen(init->template);
    if (strncmp(path, init->language->name, len) != 0 || path[len] != '/')
        return false;
    const char *rest = path + len + 1;
    if (strncmp(rest, "sdk/", 4) == 0)
        (void)snprintf(ret, TEMPLATE_PATH_MAX, "%.64s/%.180s", init->language->library, rest + 4);
    else if (strncmp(rest, "common/", 7) == 0 && !has_own(init, rest + 7))
        (void)snprintf(ret, TEMPLATE_PATH_MAX, "%.200s", rest + 7);
    else if (strncmp(rest, init->template, name) == 0 && rest[name] == '/')
        (void)snprintf(ret, TEMPLATE_PATH_MAX, "%.200s", rest + name + 1);
    else
        return false;
    return true;
}

static int check_free(int dir, const char *path, struct err *err)
{
    struct stat st;
    if (fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return err_set(err, ERR_CONFLICT,
                       "'%.200s' is there already, and nothing is overwritten: name another DIR",
                       path);
    return errno == ENOENT ? 0 : err_sys(err, errno, "look at '%.200s'", path);
}

static int make_parents(int dir, const char *path, struct err *err)
{
    char part[TEMPLATE_PATH_MAX];
    for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        (void)snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        if (mkdirat(dir, part, 0777) < 0 && errno != EEXIST)
            return err_sys(err, errno, "make '%.200s'", part);
    }
    return 0;
}

static int write_file(int dir, const char *path, const struct template_file *file, struct err *err)
{
    if (make_parents(dir, path, err) < 0)
        return -1;
    auto_fd fd = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    int r = fd < 0 ? -errno : fd_write_all(fd, file->data, file->len);
    return r < 0 ? err_sys(err, -r, "write '%.200s'", path) : 0;
}

static int make_link(int dir, const struct language *language, struct err *err)
{
    if (language->link == NULL)
        return 0;
    if (make_parents(dir, language->link, err) < 0)
        return -1;
    if (symlinkat(language->link_to, dir, language->link) < 0)
        return err_sys(err, errno, "make '%s'", language->link);
    return 0;
}

// Both rounds go over the same files: first all are looked at, then they are made.
static int copy_files(const struct init *init, int dir, struct err *err)
{
    char path[TEMPLATE_PATH_MAX];
    struct template_file file;
    for (int round = 0; round < 2; round++) {
        for (const char *at = NULL; template_next(&at, &file);) {
            if (!target_of(init, file.path, path))
                continue;
            if ((round == 0 ? check_free(dir, path, err) : write_file(dir, path, &file, err)) < 0)
                return -1;
        }
        if (round == 0 && init->language->link != NULL &&
            check_free(dir, init->language->link, err) < 0)
            return -1;
    }
    return make_link(dir, init->language, err);
}

static int copy_template(const struct init *init, struct err *err)
{
    if (!has_folder(init->language, "sdk"))
        return err_set(err, ERR_UNSUPPORTED,
                       "this cay was built without %s, for want of %s; or use another --language",
                       init->language->name, init->language->tools);
    if (!has_template(init->language, init->template))
        return unknown_template(init, err);
    if (mkdir(init->dir, 0777) < 0 && errno != EEXIST)
        return err_sys(err, errno, "make '%.200s'", init->dir);
    auto_fd dir = open(init->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return err_sys(err, errno, "open '%.200s'", init->dir);
    return copy_files(init, dir, err);
}

// -- the command

static int take_language(const char *name, const struct language **ret, struct err *err)
{
    for (unsigned i = 0; i < N_LANGUAGES; i++) {
        if (strcmp(languages[i].name, name) == 0) {
            *ret = &languages[i];
            return 0;
        }
    }
    return err_set(err, ERR_INVALID, "--language: '%.40s' is none of typescript and python", name);
}

static int take_word(struct init *init, const char *word, struct err *err)
{
    if (init->dir != NULL)
        return err_set(err, ERR_INVALID, "TEMPLATE and DIR are all that it takes");
    *(init->template == NULL ? &init->template : &init->dir) = word;
    return 0;
}

static int read_line(struct init *init, int argc, char **argv, struct err *err)
{
    struct opt_reader reader;
    const char *value;
    int which, r = 0;
    opt_start(&reader, &spec, argc, argv);
    while (r == 0 && (which = opt_next(&reader, &value, err)) >= 0) {
        if (which == FLAG_LANGUAGE)
            r = take_language(value, &init->language, err);
        else if (which == FLAG_QUIET)
            init->quiet = true;
        else
            r = take_word(init, value, err);
    }
    return r < 0 ? OPT_FAILED : which;
}

static int say_how(const struct init *init)
{
    bool here = strcmp(init->dir, ".") == 0;
    bool one = has_own(init, "main.js") || has_own(init, "main.py");
    (void)printf("Made. To run it:\n  %s%s%s%s\n", here ? "" : "cd ", here ? "" : init->dir,
                 here ? "" : " && ", one ? init->language->run : "cat README.md");
    return fflush(stdout) == 0 ? CLI_OK : CLI_FAILED;
}

int cmd_init(int argc, char **argv)
{
    struct err err = {0};
    struct init init = {.language = &languages[0]};
    int end = read_line(&init, argc, argv, &err);
    if (end == OPT_HELP) {
        opt_print_help(stdout, &spec);
        return CLI_OK;
    }
    if (end == OPT_FAILED)
        return cli_usage("init", &err);
    if (init.template == NULL)
        return list_templates(&init);
    init.dir = init.dir != NULL ? init.dir : init.template;
    if (copy_template(&init, &err) < 0)
        return err.code == ERR_INVALID ? cli_usage("init", &err) : cli_fail(&err);
    return say_how(&init);
}
