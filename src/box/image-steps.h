// SPDX-License-Identifier: Apache-2.0
// The parts of `cay image build`, in the order of their use: what this machine's apt says
// (image-apt.c), mmdebstrap (image-bootstrap.c), and the links, files and commands of a recipe
// (image-recipe.c). Programs run as children in a workplace, a mount namespace with the new root at
// a path that everybody can reach (image-step.c).
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "box/image-make.h"
#include "box/recipe.h"

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
    bool in_root; // the new root is its root, with a /proc, a few devices and this machine's names
    void (*each)(void *arg, const char *line); // of its output
    void *arg;
};

// Where the new root is bound in every workplace.
const char *step_place(void);
// Runs it to its end: the exit code, TOOL_BROKEN when it could not be started, or -1 with err when
// we were stopped.
int step_run(const struct step *step, int root_fd, const struct image_watch *watch,
             struct err *err);

// -- image-bootstrap.c, image-recipe.c

int image_bootstrap(int root_fd, const struct recipe *recipe, const struct apt_settings *settings,
                    const struct image_watch *watch, struct err *err);
// After image_prepare.
int image_follow(int root_fd, const struct recipe *recipe, const struct apt_settings *settings,
                 const struct image_watch *watch, struct err *err);
