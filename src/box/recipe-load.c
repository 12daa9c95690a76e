// SPDX-License-Identifier: Apache-2.0
// A recipe together with those that it stands on. Each is read whole before anything is made of it,
// the lowest first, so that a line of an upper one comes later and wins.
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "box/image-make.h"
#include "box/recipe.h"

// Who has asked for whom, up to the one that was named first.
struct asking {
    const struct asking *by;
    char place[PATH_MAX]; // the file's path without links, or a known recipe's name
    int depth;
};

static bool is_path(const char *word)
{
    return strchr(word, '/') != NULL;
}

// What stands below everything: no recipe.
static bool is_ground(const char *from)
{
    return strchr(from, ':') != NULL || strcmp(from, RECIPE_ON_HOST) == 0 || from[0] == '\0';
}

static int read_text(const char *path, char **ret, size_t *ret_len, struct err *err)
{
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(err, errno, "open the recipe '%.100s'", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_INVALID, "'%.100s' is not a file with a recipe", path);
    char *text = malloc(RECIPE_TEXT_MAX + 1);
    if (text == NULL)
        return err_sys(err, ENOMEM, "read the recipe");
    ssize_t n = fd_read_all(fd, text, RECIPE_TEXT_MAX + 1);
    if (n < 0) {
        free(text);
        return err_sys(err, (int)-n, "read the recipe '%.100s'", path);
    }
    *ret = text;
    *ret_len = (size_t)n;
    return 0;
}

// Its text, whose memory is the caller's if it was a file's; and where it was found. `word` of a
// file is seen from the file that asks for it.
static int find_text(const char *word, struct asking *self, char **ret_own, const char **ret_text,
                     size_t *ret_len, struct err *err)
{
    if (!is_path(word)) {
        const struct recipe_known *known = recipe_find(word);
        if (known == NULL)
            return recipe_unknown(word, err);
        (void)snprintf(self->place, sizeof self->place, "%s", known->name);
        *ret_text = known->text;
        *ret_len = known->len;
        return 0;
    }
    char path[PATH_MAX], beside[PATH_MAX] = ".";
    if (self->by != NULL && word[0] != '/')
        (void)snprintf(beside, sizeof beside, "%s", self->by->place);
    int n = self->by == NULL || word[0] == '/'
                ? snprintf(path, sizeof path, "%s", word)
                : snprintf(path, sizeof path, "%s/%s", dirname(beside), word);
    if (n < 0 || (size_t)n >= sizeof path)
        return err_sys(err, ENAMETOOLONG, "open the recipe '%.100s'", word);
    if (realpath(path, self->place) == NULL)
        return err_sys(err, errno, "open the recipe '%.100s'", word);
    if (read_text(path, ret_own, ret_len, err) < 0)
        return -1;
    *ret_text = *ret_own;
    return 0;
}

static int check_circle(const struct asking *self, struct err *err)
{
    for (const struct asking *up = self->by; up != NULL; up = up->by) {
        if (strcmp(up->place, self->place) == 0)
            return err_set(err, ERR_INVALID, "it is made from itself");
    }
    if (self->depth > RECIPE_DEPTH_MAX)
        return err_set(err, ERR_INVALID, "at most %d recipes stand on each other",
                       RECIPE_DEPTH_MAX);
    return 0;
}

// What the text says it is from. Everything else in it is checked on the way, too.
static int find_from(const char *text, size_t len, char ret[RECIPE_FROM_MAX], struct err *err)
{
    struct recipe alone;
    recipe_init(&alone);
    int r = recipe_parse(text, len, &alone, err);
    (void)snprintf(ret, RECIPE_FROM_MAX, "%s", alone.from);
    recipe_done(&alone);
    return r;
}

static int load(const char *word, const struct asking *by, struct recipe *ret, struct err *err);

// The lines of what it stands on come first; then its own.
static int load_text(const char *text, size_t len, const struct asking *self, struct recipe *ret,
                     struct err *err)
{
    char from[RECIPE_FROM_MAX];
    if (find_from(text, len, from, err) < 0)
        return -1;
    if (is_ground(from))
        return recipe_parse(text, len, ret, err);
    if (load(from, self, ret, err) < 0)
        return err_wrap(err, "from %.60s", from);
    memcpy(from, ret->from, sizeof from);
    ret->from[0] = '\0';
    ret->about[0] = '\0';
    int r = recipe_parse(text, len, ret, err);
    memcpy(ret->from, from, sizeof from);
    return r;
}

static int load(const char *word, const struct asking *by, struct recipe *ret, struct err *err)
{
    auto_free struct asking *self = malloc(sizeof *self);
    auto_free char *own = NULL;
    const char *text;
    size_t len;
    if (self == NULL)
        return err_sys(err, ENOMEM, "read the recipe");
    *self = (struct asking){.by = by, .depth = by != NULL ? by->depth + 1 : 1};
    if (find_text(word, self, &own, &text, &len, err) < 0 || check_circle(self, err) < 0)
        return -1;
    int r = load_text(text, len, self, ret, err);
    return r < 0 && own != NULL ? err_wrap(err, "%.100s", word) : r;
}

int recipe_load(const char *word, struct recipe *ret, struct err *err)
{
    return load(word, NULL, ret, err);
}

static bool has_step_for(const struct recipe *recipe, const char *path, const char *machine)
{
    for (unsigned i = 0; i < recipe->n_steps; i++) {
        const struct recipe_step *step = &recipe->steps[i];
        if (step->path != NULL && strcmp(step->path, path) == 0 &&
            (step->machine[0] == '\0' || strcmp(step->machine, machine) == 0))
            return true;
    }
    return false;
}

int recipe_check_machine(const struct recipe *recipe, const char *machine, struct err *err)
{
    for (unsigned i = 0; i < recipe->n_steps; i++) {
        const struct recipe_step *step = &recipe->steps[i];
        if (step->machine[0] != '\0' && !has_step_for(recipe, step->path, machine))
            return err_set(err, ERR_UNSUPPORTED,
                           "the recipe has no '/%.80s' for a machine of this kind (%.20s)",
                           step->path, machine);
    }
    return 0;
}
