// SPDX-License-Identifier: Apache-2.0
// The texts of images/, put into the program when it is built (scripts/embed), so that it needs no
// files beside it.
#include <string.h>

#include "box/recipe.h"

extern const char recipe_data[], recipe_data_end[];
extern const char recipe_minimal[], recipe_minimal_end[];

enum { N_KNOWN = 2 };

const struct recipe_known *recipe_known(unsigned index)
{
    static struct recipe_known known[N_KNOWN];
    known[0] = (struct recipe_known){"data", recipe_data, (size_t)(recipe_data_end - recipe_data)};
    known[1] = (struct recipe_known){"minimal", recipe_minimal,
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
