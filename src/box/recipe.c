// SPDX-License-Identifier: Apache-2.0
#include "box/recipe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "box/image-make.h"

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
        return err_set(err, ERR_INVALID, "at most %d links, files and commands", RECIPE_STEPS_MAX);
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

static int take_from(struct recipe *recipe, char *rest, struct err *err)
{
    if (image_from_check(rest, err) < 0)
        return -1;
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
    return add_step(recipe, STEP_FILE, rest, "", err);
}

static int take_run(struct recipe *recipe, char *rest, struct err *err)
{
    return add_step(recipe, STEP_RUN, NULL, rest, err);
}

static const struct {
    const char *word;
    int (*take)(struct recipe *recipe, char *rest, struct err *err);
} words[] = {
    {"about",    take_about   },
    {"from",     take_from    },
    {"packages", take_packages},
    {"without",  take_without },
    {"link",     take_link    },
    {"file",     take_file    },
    {"run",      take_run     },
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
    size_t len = strcspn(line, " \t");
    char *rest = line + len + strspn(line + len, " \t");
    line[len] = '\0';
    for (size_t end = strlen(rest); end > 0 && (rest[end - 1] == ' ' || rest[end - 1] == '\t');)
        rest[--end] = '\0';
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(line, words[i].word) != 0)
            continue;
        if (rest[0] == '\0')
            return err_set(err, ERR_INVALID, "'%s' needs something after it", line);
        *ret_in_file = words[i].take == take_file;
        return words[i].take(recipe, rest, err) < 0 ? err_wrap(err, "%s", words[i].word) : 0;
    }
    return err_set(err, ERR_INVALID,
                   "'%.40s' is none of about, from, packages, without, link, file, run", line);
}

static int check_text(const char *text, size_t len, struct err *err)
{
    if (len > RECIPE_TEXT_MAX)
        return err_set(err, ERR_INVALID, "longer than the %d KiB that a recipe may have",
                       RECIPE_TEXT_MAX / 1024);
    bool plain = utf8_valid(text, len);
    for (size_t i = 0; plain && i < len; i++)
        plain = ((unsigned char)text[i] >= ' ' && text[i] != 0x7f) || text[i] == '\n' ||
                text[i] == '\t';
    return plain ? 0 : err_set(err, ERR_INVALID, "a recipe is plain text, and this is not");
}

int recipe_parse(const char *text, size_t len, struct recipe *ret, struct err *err)
{
    if (check_text(text, len, err) < 0)
        return -1;
    auto_free char *copy = strndup(text, len);
    if (copy == NULL)
        return err_sys(err, ENOMEM, "keep the recipe");
    bool in_file = false;
    unsigned number = 0;
    char *rest = copy;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        int r = 0;
        number++;
        if (line[0] == '|')
            r = take_text(ret, line, in_file, err);
        else if (line[0] == ' ' || line[0] == '\t')
            r = line[strspn(line, " \t")] == '\0'
                    ? 0
                    : err_set(err, ERR_INVALID, "a line begins with its word, not with blanks");
        else if (line[0] != '\0' && line[0] != '#')
            r = take_words(ret, line, &in_file, err);
        if (r < 0)
            return err_wrap(err, "line %u", number);
    }
    return 0;
}

int recipe_read(const char *path, struct recipe *ret, struct err *err)
{
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(err, errno, "open the recipe '%.100s'", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_INVALID, "'%.100s' is not a file with a recipe", path);
    auto_free char *text = malloc(RECIPE_TEXT_MAX + 1);
    if (text == NULL)
        return err_sys(err, ENOMEM, "read the recipe");
    ssize_t n = fd_read_all(fd, text, RECIPE_TEXT_MAX + 1);
    if (n < 0)
        return err_sys(err, (int)-n, "read the recipe '%.100s'", path);
    return recipe_parse(text, (size_t)n, ret, err) < 0 ? err_wrap(err, "%.100s", path) : 0;
}
