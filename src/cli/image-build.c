// SPDX-License-Identifier: Apache-2.0
// `cay image build` and `cay image recipe`.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "box/data.h"
#include "box/image.h"
#include "box/recipe.h"
#include "cli/cli.h"
#include "cli/image.h"

#define FILE_ENDING ".image"

static const struct opt build_opts[] = {
    {"recipe",   'r', "RECIPE",  "what it is made of, when that is not NAME's own",              NULL        },
    {"from",     0,   "BASE",    "what it stands on: debian:SUITE, as debian:bookworm, or host", NULL        },
    {"packages", 'p', "A,B,...", "packages to install beside those; may be repeated",            NULL        },
    {"data",     0,   "DIR",     DATA_HELP,                                                      DATA_DEFAULT},
};
enum build_flag { BUILD_RECIPE, BUILD_FROM, BUILD_PACKAGES, BUILD_DATA, BUILD_MAX };

static const struct opt_spec build_spec = {
    .usage = "cay image build NAME|FILE [--recipe RECIPE] [--from BASE] [--packages A,B,...]",
    .summary =
        "Makes an image of Debian's packages with mmdebstrap, from the mirrors that this machine's apt\n"
        "uses. What goes into it stands in a recipe: one of those that come with Cay ('cay image recipe'\n"
        "lists them), or a file. Without one, --from gives the smallest Debian with apt and\n"
        "ca-certificates, and --packages what else you name. With --from host it stands on this\n"
        "machine's own /usr: nothing is installed, and the rest of the recipe is made in seconds.\n"
        "The recipe agents has programs of npm, which this machine's own npm fetches.",
    .opts = build_opts,
    .n_opts = BUILD_MAX,
    .more = "examples:\n"
            "  cay image build data\n"
            "  cay image build agents --from host\n"
            "  cay image build ./my.image\n"
            "  cay image build big --recipe data --packages gfortran,ffmpeg\n"
            "  cay image build web --from debian:bookworm --packages python3,nodejs,git\n"
            "  cay run --image web -- node --version\n",
};

struct build {
    const char *recipe, *from, *data;
    struct buf packages;
    struct image_words words;
    char name[IMAGE_NAME_MAX];
};

// -- which recipe

static bool is_path(const char *word)
{
    return strchr(word, '/') != NULL;
}

// A file's name without its directory and ending, else the word itself.
static int name_image(struct build *b, struct err *err)
{
    const char *word = b->words.word[0], *slash = strrchr(word, '/');
    const char *base = slash != NULL ? slash + 1 : word;
    size_t len = strlen(base), ending = strlen(FILE_ENDING);
    if (slash != NULL && len > ending && strcmp(base + len - ending, FILE_ENDING) == 0)
        len -= ending;
    if (len >= sizeof b->name)
        return image_name_check(base, err);
    (void)snprintf(b->name, sizeof b->name, "%.*s", (int)len, base);
    if (image_name_check(b->name, err) == 0)
        return 0;
    return slash != NULL
               ? err_wrap(err, "%.80s ('cay image build NAME --recipe FILE' gives another)", word)
               : -1;
}

// The recipe that the words ask for, with what the flags say in place of it or beside it.
static int gather(struct build *b, struct recipe *ret, struct err *err)
{
    const char *word = b->words.word[0];
    if (b->recipe != NULL && is_path(word))
        return err_set(err, ERR_INVALID, "with --recipe, '%.60s' must be a name", word);
    const char *recipe = b->recipe != NULL ? b->recipe : word;
    bool wanted = b->recipe != NULL || b->from == NULL || is_path(word);
    if (name_image(b, err) < 0)
        return -1;
    if ((wanted || recipe_find(recipe) != NULL) && recipe_load(recipe, ret, err) < 0)
        return -1;
    if (b->from != NULL)
        (void)snprintf(ret->from, sizeof ret->from, "%s", b->from);
    if (ret->from[0] == '\0')
        return err_set(err, ERR_INVALID,
                       "%.80s does not say 'from': add a line 'from debian:bookworm', or --from",
                       recipe);
    return image_packages_add(&ret->packages, buf_str(&b->packages), err);
}

// -- the command

static int take_flag(struct build *b, int which, const char *value, struct err *err)
{
    switch (which) {
    case BUILD_RECIPE:
        b->recipe = value;
        return 0;
    case BUILD_FROM:
        b->from = value;
        return image_from_check(value, err);
    case BUILD_PACKAGES:
        return image_packages_add(&b->packages, value, err);
    case BUILD_DATA:
        b->data = value;
        return 0;
    default:
        return image_add_word(&b->words, value, err);
    }
}

static int build(struct build *b, struct recipe *recipe)
{
    struct err err = {0};
    if (gather(b, recipe, &err) < 0)
        return err.sys_errno != 0 ? cli_fail(&err) : image_usage(&err);
    auto_fd data_fd = image_open_data(b->data, &err);
    struct image_watch watch;
    if (data_fd < 0 || image_catch_signals(&watch, &err) < 0)
        return cli_fail(&err);
    return image_made(image_build(data_fd, b->name, recipe, &watch, &err), &watch, &err);
}

int cmd_image_build(int argc, char **argv)
{
    struct build b = {.data = NULL};
    buf_init(&b.packages, IMAGE_PACKAGES_MAX);
    struct opt_reader reader;
    struct err err = {0};
    const char *value;
    int which, code, r = 0;
    opt_start(&reader, &build_spec, argc, argv);
    while (r == 0 && (which = opt_next(&reader, &value, &err)) >= 0)
        r = take_flag(&b, which, value, &err);
    if (r < 0) {
        code = image_usage(&err);
    } else if (image_flags_ended(which, &build_spec, &err, &code) == 0) {
        struct recipe recipe;
        recipe_init(&recipe);
        code = b.words.n == 1
                   ? build(&b, &recipe)
                   : image_usage_text("build needs one NAME for the image, or the FILE of "
                                      "a recipe");
        recipe_done(&recipe);
    }
    buf_done(&b.packages);
    return code;
}

// -- recipe

static const struct opt_spec recipe_spec = {
    .usage = "cay image recipe [NAME]",
    .summary = "Lists the recipes that come with Cay, or prints one, to begin one's own with.",
    .more = "examples:\n"
            "  cay image recipe data > my.image\n"
            "  cay image build ./my.image\n",
};

static void print_recipes(void)
{
    const struct recipe_known *known;
    for (unsigned i = 0; (known = recipe_known(i)) != NULL; i++) {
        struct recipe recipe;
        struct err err;
        recipe_init(&recipe);
        if (recipe_parse(known->text, known->len, &recipe, &err) == 0)
            (void)printf("%-10s  %s\n", known->name, recipe.about);
        recipe_done(&recipe);
    }
}

int cmd_image_recipe(int argc, char **argv)
{
    struct image_words words = {.n = 0};
    struct opt_reader reader;
    struct err err = {0};
    const char *value;
    int which, code, r = 0;
    opt_start(&reader, &recipe_spec, argc, argv);
    while (r == 0 && (which = opt_next(&reader, &value, &err)) >= 0)
        r = image_add_word(&words, value, &err);
    if (r < 0)
        return image_usage(&err);
    if (image_flags_ended(which, &recipe_spec, &err, &code) < 0)
        return code;
    const struct recipe_known *known = words.n == 1 ? recipe_find(words.word[0]) : NULL;
    if (words.n > 1)
        return image_usage_text("recipe prints one at a time");
    if (words.n == 1 && known == NULL) {
        (void)recipe_unknown(words.word[0], &err);
        return image_usage(&err);
    }
    if (known != NULL)
        (void)fwrite(known->text, 1, known->len, stdout);
    else
        print_recipes();
    if (fflush(stdout) == 0)
        return CLI_OK;
    (void)err_sys(&err, errno, "print it");
    return cli_fail(&err);
}
