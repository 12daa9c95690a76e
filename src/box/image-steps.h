// SPDX-License-Identifier: Apache-2.0
// The parts of `cay image build`, in the order of their use: what this machine's apt says
// (image-apt.c), mmdebstrap (image-bootstrap.c) or this machine's own /usr (image-host.c), and the
// links, files and commands of a recipe (image-recipe.c), its programs from npm (image-npm.c).
// Programs run as children in a workplace, a mount namespace with a directory of ours, mostly the
// new root, at a path that everybody can reach (image-step.c).
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "box/image-make.h"
#include "box/image.h"
#include "box/recipe.h"

// An image in the making.
struct image_work {
    int root_fd;
    int beside_fd; // a directory that nobody else sees, for what is fetched
    const struct recipe *recipe;
    const struct apt_settings *settings;
    const struct image_watch *watch;
    bool on_host;      // /usr is this machine's and is not written to
    bool lacks;        // and has not every package that the recipe names
    struct image host; // its binds: this machine's /usr
};

// -- image-apt.c

struct apt_settings {
    char http_proxy[300]; // "http_proxy=..." or ""
    char https_proxy[300];
    char path[64];
    bool old_lists; // accept lists past their date, as frozen mirrors need
};

// Lines for sources.list, each ended by a NUL, of what apt here knows of the suite; how many. None
// when it knows nothing, and then mmdebstrap takes its own default.
unsigned apt_find_mirrors(const char *suite, unsigned max, struct buf *ret);
void apt_find_settings(struct apt_settings *ret);

// The environment of whatever is started: at most this many words, and NULL.
enum { APT_ENV_MAX = 8 };
void apt_environment(const struct apt_settings *settings, const char *ret[APT_ENV_MAX]);

// -- image-step.c

struct step {
    const char *const *argv;
    const char *const *envp;
    bool in_root; // the directory is its root, with a /proc, a few devices and this machine's names
    bool at_place;             // it begins there
    const struct image *below; // whose binds are laid over the root, read-only; NULL for none
    void (*each)(void *arg, const char *line); // of its output
    void *arg;
};

// Where the directory is bound in every workplace.
const char *step_place(void);
// Runs it to its end: the exit code, TOOL_BROKEN when it could not be started, or -1 with err when
// we were stopped.
int step_run(const struct step *step, int dir_fd, const struct image_watch *watch, struct err *err);

// -- image-bootstrap.c, image-host.c: the root, with or without packages

int image_bootstrap(int root_fd, const struct recipe *recipe, const struct apt_settings *settings,
                    const struct image_watch *watch, struct err *err);
int image_take_host(struct image_work *work, struct err *err);

// -- image-recipe.c, image-npm.c

// After image_prepare.
int image_follow(const struct image_work *work, struct err *err);
// Says why something could not be made at a path of the recipe; -1.
int image_step_failed(const struct recipe_step *step, int r, struct err *err);
int image_take_npm(const struct image_work *work, const struct recipe_step *step, struct err *err);
