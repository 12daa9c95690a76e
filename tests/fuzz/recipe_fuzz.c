// SPDX-License-Identifier: Apache-2.0
// Recipes of images: what is taken stays below the root and within its bounds.
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "box/image-make.h"
#include "box/recipe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_path(const char *path)
{
    char around[RECIPE_PATH_MAX + 2] = "/";
    assert(strlen(path) < RECIPE_PATH_MAX && path[0] != '/');
    strncat(around, path, sizeof around - 3);
    strncat(around, "/", 2);
    assert(strstr(around, "//") == NULL && strstr(around, "/../") == NULL &&
           strstr(around, "/./") == NULL && strncmp(around, "/proc/", 6) != 0);
}

static void check_step(const struct recipe_step *step)
{
    assert(step->kind < STEP_KIND_MAX && step->text != NULL);
    assert((step->path == NULL) == (step->kind == STEP_RUN));
    assert((step->sum != NULL) == (step->kind == STEP_NPM));
    assert((step->member != NULL) == (step->kind == STEP_NPM));
    if (step->path != NULL)
        check_path(step->path);
    if (step->kind == STEP_FILE)
        assert(step->mode <= 0777);
    if (step->kind == STEP_NPM) {
        check_path(step->member);
        assert(strlen(step->sum) == 88 && step->text[0] != '-' && step->text[0] != '.' &&
               strpbrk(step->text, " \t:\\'\"") == NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct recipe recipe;
    struct err err = {0};
    recipe_init(&recipe);
    if (recipe_parse((const char *)data, size, &recipe, &err) < 0) {
        assert(err.code == ERR_INVALID && err.msg[0] != '\0');
    } else {
        struct err ignored;
        assert(strchr(recipe.from, ':') == NULL || image_from_check(recipe.from, &ignored) == 0);
        for (unsigned i = 0; i < recipe.n_steps; i++)
            check_step(&recipe.steps[i]);
        for (unsigned i = 0; i < recipe.n_without; i++)
            assert(recipe.without[i][0] == '/' && strpbrk(recipe.without[i], " \t\n'\"") == NULL);
        for (const char *p = buf_str(&recipe.packages); *p != '\0'; p += 1 + strcspn(p + 1, ","))
            assert(p[0] == ',' && p[1] != '-');
    }
    recipe_done(&recipe);
    return 0;
}
