// SPDX-License-Identifier: Apache-2.0
// The texts of images/, put into the program when it is built (scripts/embed), so that it needs no
// files beside it.
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "box/recipe.h"

extern const char recipe_agents[], recipe_agents_end[];
extern const char recipe_data[], recipe_data_end[];
extern const char recipe_minimal[], recipe_minimal_end[];

enum { N_KNOWN = 3 };

const struct recipe_known *recipe_known(unsigned index)
{
    static struct recipe_known known[N_KNOWN];
    known[0] =
        (struct recipe_known){"agents", recipe_agents, (size_t)(recipe_agents_end - recipe_agents)};
    known[1] = (struct recipe_known){"data", recipe_data, (size_t)(recipe_data_end - recipe_data)};
    known[2] = (struct recipe_known){"minimal", recipe_minimal,
                                     (size_t)(recipe_minimal_end - recipe_minimal)};
    return index < N_KNOWN ? &known[index] : NULL;
}

const struct recipe_known *recipe_find(const char *name)
{
    const struct recipe_known *known;
    for (unsigned i = 0; (known = recipe_known(i)) != NULL; i++) {
        if (strcmp(known->name, name) == 0)
            return known;
    }
    return NULL;
}

int recipe_unknown(const char *name, struct err *err)
{
    auto_buf names;
    buf_init(&names, 256);
    const struct recipe_known *known;
    const char *near = NULL;
    for (unsigned i = 0; (known = recipe_known(i)) != NULL; i++) {
        (void)buf_printf(&names, "%s%s", i > 0 ? ", " : "", known->name);
        near = text_near(name, known->name) ? known->name : near;
    }
    if (near != NULL)
        return err_set(err, ERR_INVALID, "there is no recipe '%.60s', did you mean '%s'?", name,
                       near);
    return err_set(
        err, ERR_INVALID,
        "there is no recipe '%.60s': there are %s; a file of yours is named with a slash "
        "(./%.40s), and --from debian:bookworm needs none",
        name, buf_str(&names), name);
}
