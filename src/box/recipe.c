// SPDX-License-Identifier: Apache-2.0
#include "box/recipe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/words.h"
#include "box/image-make.h"

#define SUM_PREFIX "sha512-"

void recipe_init(struct recipe *recipe)
{
    *recipe = (struct recipe){.n_steps = 0};
    buf_init(&recipe->packages, IMAGE_PACKAGES_MAX);
}

void recipe_done(struct recipe *recipe)
{
    for (unsigned i = 0; i < recipe->n_steps; i++) {
        free(recipe->steps[i].path);
        free(recipe->steps[i].text);
        free(recipe->steps[i].sum);
        free(recipe->steps[i].member);
    }
    for (unsigned i = 0; i < recipe->n_without; i++)
        free(recipe->without[i]);
    buf_done(&recipe->packages);
    recipe_init(recipe);
}

// -- one value

// Absolute and in the one form that means it: what is made lies where it seems to lie.
static int check_path(const char *path, struct err *err)
{
    static const char *const mounted[] = {"/dev", "/proc", "/sys"};
    size_t len = strlen(path);
    if (path[0] != '/' || len < 2 || len >= RECIPE_PATH_MAX || path[len - 1] == '/')
        return err_set(err, ERR_INVALID, "'%.60s' is not a path such as /etc/pip.conf", path);
    for (const char *p = path; *p != '\0'; p += 1 + strcspn(p + 1, "/")) {
        size_t part = strcspn(p + 1, "/");
        if (part == 0 || (part == 1 && p[1] == '.') || (part == 2 && p[1] == '.' && p[2] == '.'))
            return err_set(err, ERR_INVALID, "'%.60s': a path without '//', '.' and '..'", path);
    }
    for (size_t i = 0; i < sizeof mounted / sizeof *mounted; i++) {
        size_t n = strlen(mounted[i]);
        if (strncmp(path, mounted[i], n) == 0 && (path[n] == '/' || path[n] == '\0'))
            return err_set(err, ERR_INVALID, "%s is not part of an image: each box has its own",
                           mounted[i]);
    }
    return 0;
}

static int add_step(struct recipe *recipe, enum recipe_step_kind kind, const char *path,
                    const char *text, struct err *err)
{
    if (recipe->n_steps == RECIPE_STEPS_MAX)
        return err_set(err, ERR_INVALID, "at most %d links, files, programs and commands",
                       RECIPE_STEPS_MAX);
    if (path != NULL && check_path(path, err) < 0)
        return -1;
    struct recipe_step *step = &recipe->steps[recipe->n_steps++];
    *step = (struct recipe_step){
        .kind = kind,
        .path = path != NULL ? strdup(path + 1) : NULL,
        .text = strdup(text),
    };
    if (step->text == NULL || (path != NULL && step->path == NULL))
        return err_sys(err, ENOMEM, "keep the recipe");
    return 0;
}

// -- the words that a line may begin with

static int copy_once(char *to, size_t size, const char *rest, struct err *err)
{
    if (to[0] != '\0')
        return err_set(err, ERR_INVALID, "it was said before");
    if (strlen(rest) >= size)
        return err_set(err, ERR_INVALID, "at most %zu characters", size - 1);
    memcpy(to, rest, strlen(rest) + 1);
    return 0;
}

static int take_about(struct recipe *recipe, char *rest, struct err *err)
{
    return copy_once(recipe->about, sizeof recipe->about, rest, err);
}

// With a colon a release, else a recipe: recipe-load.c looks for it.
static int take_from(struct recipe *recipe, char *rest, struct err *err)
{
    if (strchr(rest, ':') != NULL && image_from_check(rest, err) < 0)
        return -1;
    if (strpbrk(rest, " \t") != NULL)
        return err_set(err, ERR_INVALID, "'%.60s' is more than one word", rest);
    return copy_once(recipe->from, sizeof recipe->from, rest, err);
}

static int take_packages(struct recipe *recipe, char *rest, struct err *err)
{
    for (char *p = rest; *p != '\0'; p++)
        *p = *p == '\t' ? ' ' : *p;
    return image_packages_add(&recipe->packages, rest, err);
}

// A pattern goes to dpkg, whose '*' and '?' it may hold, as one option: no blanks, no more.
static int take_without(struct recipe *recipe, char *rest, struct err *err)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+*?";
    if (strcmp(rest, "docs") == 0) {
        recipe->without_docs = true;
        return 0;
    }
    if (strspn(rest, plain) != strlen(rest))
        return err_set(err, ERR_INVALID,
                       "'%.60s' is neither docs nor a pattern such as /usr/include/boost/*", rest);
    if (check_path(rest, err) < 0)
        return -1;
    if (recipe->n_without == RECIPE_WITHOUT_MAX)
        return err_set(err, ERR_INVALID, "at most %d patterns", RECIPE_WITHOUT_MAX);
    char *copy = strdup(rest);
    if (copy == NULL)
        return err_sys(err, ENOMEM, "keep the recipe");
    recipe->without[recipe->n_without++] = copy;
    return 0;
}

static int take_link(struct recipe *recipe, char *rest, struct err *err)
{
    size_t len = strcspn(rest, " \t");
    char *target = rest + len + strspn(rest + len, " \t");
    rest[len] = '\0';
    if (target[0] == '\0' || strlen(target) >= RECIPE_PATH_MAX || strpbrk(target, " \t") != NULL)
        return err_set(err, ERR_INVALID,
                       "a path and where it leads, as in '/usr/bin/python python3'");
    return add_step(recipe, STEP_LINK, rest, target, err);
}

static int take_file(struct recipe *recipe, char *rest, struct err *err)
{
    unsigned mode = 0644;
    char *path = words_next(&rest), *octal = words_next(&rest);
    if (octal != NULL) {
        if (strlen(octal) != 4 || octal[0] != '0' || strspn(octal, "01234567") != 4 ||
            words_next(&rest) != NULL)
            return err_set(err, ERR_INVALID, "a path, and a mode if it shall not be 0644: 0755");
        mode = (unsigned)strtoul(octal, NULL, 8);
    }
    if (add_step(recipe, STEP_FILE, path, "", err) < 0)
        return -1;
    recipe->steps[recipe->n_steps - 1].mode = mode;
    return 0;
}

// -- packages of npm

// "NAME@1.2.3" or "@SCOPE/NAME@1.2.3": one version, from wherever npm here looks for names; nothing
// that npm could take for a path, an address or an option.
static bool package_valid(const char *text)
{
    static const char name[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
    static const char version[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-";
    const char *at = text;
    for (int part = text[0] == '@' ? 0 : 1; part < 2; part++) {
        at += part == 0;
        size_t len = strspn(at, name);
        if (len == 0 || strchr("._-", at[0]) != NULL || at[len] != (part == 0 ? '/' : '@'))
            return false;
        at += len + 1;
    }
    return at[0] >= '0' && at[0] <= '9' && strspn(at, version) == strlen(at) &&
           strchr(at, '.') != NULL && strlen(text) < RECIPE_PATH_MAX;
}

static bool sum_valid(const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    enum { LEN = 86 }; // 64 bytes in base64, and "=="
    size_t prefix = strlen(SUM_PREFIX);
    return strncmp(text, SUM_PREFIX, prefix) == 0 && strspn(text + prefix, plain) == LEN &&
           strcmp(text + prefix + LEN, "==") == 0;
}

static int add_npm(struct recipe *recipe, const char *machine, char *rest, struct err *err)
{
    const char *package = words_next(&rest), *sum = words_next(&rest), *member = words_next(&rest),
               *path = words_next(&rest);
    char absolute[RECIPE_PATH_MAX + 1];
    if (path == NULL || words_next(&rest) != NULL)
        return err_set(err, ERR_INVALID,
                       "four words: NAME@VERSION sha512-SUM, the FILE in it, and the /PATH for it");
    if (!package_valid(package))
        return err_set(err, ERR_INVALID, "'%.60s' is not a package and one version, as rg@14.1.0",
                       package);
    if (!sum_valid(sum))
        return err_set(err, ERR_INVALID,
                       "'%.30s' is not the sum that 'npm view %.60s dist.integrity' shows", sum,
                       package);
    (void)snprintf(absolute, sizeof absolute, "/%s", member);
    if (strlen(member) >= RECIPE_PATH_MAX || check_path(absolute, err) < 0)
        return err_set(err, ERR_INVALID, "'%.60s' is not a file in a package, as bin/rg", member);
    if (add_step(recipe, STEP_NPM, path, package, err) < 0)
        return -1;
    struct recipe_step *step = &recipe->steps[recipe->n_steps - 1];
    (void)snprintf(step->machine, sizeof step->machine, "%s", machine);
    step->sum = strdup(sum + strlen(SUM_PREFIX));
    step->member = strdup(member);
    return step->sum != NULL && step->member != NULL ? 0 : err_sys(err, ENOMEM, "keep the recipe");
}

static int take_npm(struct recipe *recipe, char *rest, struct err *err)
{
    return add_npm(recipe, "", rest, err);
}

static int take_npm_x86_64(struct recipe *recipe, char *rest, struct err *err)
{
    return add_npm(recipe, "x86_64", rest, err);
}

static int take_npm_aarch64(struct recipe *recipe, char *rest, struct err *err)
{
    return add_npm(recipe, "aarch64", rest, err);
}

static int take_run(struct recipe *recipe, char *rest, struct err *err)
{
    return add_step(recipe, STEP_RUN, NULL, rest, err);
}

static const struct {
    const char *word;
    int (*take)(struct recipe *recipe, char *rest, struct err *err);
} words[] = {
    {"about",       take_about      },
    {"from",        take_from       },
    {"packages",    take_packages   },
    {"without",     take_without    },
    {"link",        take_link       },
    {"file",        take_file       },
    {"npm",         take_npm        },
    {"npm@x86_64",  take_npm_x86_64 },
    {"npm@aarch64", take_npm_aarch64},
    {"run",         take_run        },
};

// -- lines

// "| text" is a line of the file that the line before has named.
static int take_text(struct recipe *recipe, const char *line, bool in_file, struct err *err)
{
    if (!in_file)
        return err_set(err, ERR_INVALID, "a line with '|' belongs under a 'file PATH'");
    struct recipe_step *step = &recipe->steps[recipe->n_steps - 1];
    line += line[1] == ' ' ? 2 : 1;
    size_t old = strlen(step->text), len = strlen(line);
    char *text = realloc(step->text, old + len + 2);
    if (text == NULL)
        return err_sys(err, ENOMEM, "keep the recipe");
    memcpy(text + old, line, len);
    memcpy(text + old + len, "\n", 2);
    step->text = text;
    return 0;
}

static int take_words(struct recipe *recipe, char *line, bool *ret_in_file, struct err *err)
{
    char *rest = words_cut(line);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(line, words[i].word) != 0)
            continue;
        if (rest[0] == '\0')
            return err_set(err, ERR_INVALID, "'%s' needs something after it", line);
        *ret_in_file = words[i].take == take_file;
        return words[i].take(recipe, rest, err) < 0 ? err_wrap(err, "%s", words[i].word) : 0;
    }
    return err_set(err, ERR_INVALID,
                   "'%.40s' is none of about, from, packages, without, link, file, npm, run", line);
}

int recipe_parse(const char *text, size_t len, struct recipe *ret, struct err *err)
{
    if (words_check(text, len, RECIPE_TEXT_MAX, err) < 0)
        return -1;
    auto_free char *copy = strndup(text, len);
    if (copy == NULL)
        return err_sys(err, ENOMEM, "keep the recipe");
    bool in_file = false;
    unsigned number = 0;
    char *rest = copy;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        number++;
        int r = words_line(line, err);
        if (r > 0)
            r = line[0] == '|' ? take_text(ret, line, in_file, err)
                               : take_words(ret, line, &in_file, err);
        if (r < 0)
            return err_wrap(err, "line %u", number);
    }
    return 0;
}
