// SPDX-License-Identifier: Apache-2.0
// `cay image build`: Debian's packages, then what every root of a box needs, then what the recipe
// wants beside that.
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "box/image-internal.h"
#include "box/image-make.h"
#include "box/image-steps.h"
#include "box/tree.h"
#include "box/watch.h"

#define FROM_PREFIX "debian:"

enum { SUITE_MAX = 32 };

// -- what is asked for

int image_from_check(const char *from, struct err *err)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    size_t prefix = strlen(FROM_PREFIX);
    if (strcmp(from, RECIPE_ON_HOST) == 0)
        return 0;
    if (strncmp(from, FROM_PREFIX, prefix) != 0)
        return err_set(err, ERR_INVALID,
                       "'%.60s' is not known: use debian:SUITE, as debian:bookworm, or host", from);
    const char *suite = from + prefix;
    size_t len = strlen(suite);
    if (len == 0 || len > SUITE_MAX || suite[0] < 'a' || suite[0] > 'z' ||
        strspn(suite, plain) != len)
        return err_set(err, ERR_INVALID,
                       "'%.60s' is not a Debian suite: use its name in small letters, as bookworm",
                       suite);
    return 0;
}

static bool package_valid(const char *name, size_t len)
{
    // Versions (=1.2~3) and architectures (:i386) are apt's to judge; options and paths are not for
    // it.
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.:=~_";
    return len >= 2 && len <= 128 && strspn(name, plain) >= len &&
           strchr("+-.:=~_", name[0]) == NULL;
}

int image_packages_add(struct buf *packages, const char *list, struct err *err)
{
    for (const char *p = list;;) {
        p += strspn(p, ", ");
        size_t len = strcspn(p, ", ");
        if (len == 0)
            return 0;
        if (!package_valid(p, len))
            return err_set(err, ERR_INVALID, "'%.*s' cannot be a package's name",
                           (int)(len < 80 ? len : 80), p);
        (void)buf_append_char(packages, ',');
        if (buf_append(packages, p, len) < 0)
            return err_set(err, ERR_INVALID, "that is too long a list of packages");
        p += len;
    }
}

// -- making it

static int make(struct image_work *work, struct err *err)
{
    int r = work->on_host
                ? image_take_host(work, err)
                : image_bootstrap(work->root_fd, work->recipe, work->settings, work->watch, err);
    if (r == 0)
        r = image_prepare(work->root_fd, err);
    if (r == 0)
        r = image_follow(work, err);
    // A command may have changed what a box needs.
    if (r == 0 && work->recipe->n_steps > 0)
        r = image_prepare(work->root_fd, err);
    return r < 0 || watch_stopped(work->watch, err) ? -1 : 0;
}

static int make_draft(const struct image_draft *draft, const struct recipe *recipe,
                      const struct image_watch *watch, struct err *err)
{
    struct apt_settings settings;
    apt_find_settings(&settings);
    struct image_work work = {
        .root_fd = draft->root_fd,
        .beside_fd = draft->dir_fd,
        .recipe = recipe,
        .settings = &settings,
        .watch = watch,
        .on_host = strcmp(recipe->from, RECIPE_ON_HOST) == 0,
        .host = {.root_fd = -1, .lock_fd = -1},
    };
    int r = make(&work, err);
    image_done(&work.host);
    return r;
}

int image_build(int data_fd, const char *name, const struct recipe *recipe,
                const struct image_watch *watch, struct err *err)
{
    int64_t start = clock_ns();
    if (image_name_check(name, err) < 0 || image_from_check(recipe->from, err) < 0)
        return -1;
    struct image_draft draft = IMAGE_DRAFT_NONE;
    if (image_draft_begin(data_fd, name, &draft, err) < 0)
        return -1;
    struct tree_survey survey;
    int r = make_draft(&draft, recipe, watch, err);
    if (r == 0)
        r = image_draft_commit(&draft, recipe->from, &survey, err);
    image_draft_done(&draft);
    if (r == 0)
        watch_say(watch, "image '%s': %llu entries, %llu MiB, in %lld s", name,
                  (unsigned long long)survey.entries, (unsigned long long)(survey.bytes >> 20),
                  (long long)((clock_ns() - start) / (1000 * NS_PER_MS)));
    return r;
}
