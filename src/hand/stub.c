// SPDX-License-Identifier: Apache-2.0
// Stands in for what is not there yet.
#include <errno.h>

#include "hand/hand-internal.h"

#define STUB(name)                                                                                 \
    __attribute__((weak)) int name(struct work *work)                                              \
    {                                                                                              \
        (void)work;                                                                                \
        return -ENOSYS;                                                                            \
    }
STUB(work_list)
STUB(work_delete_tree)
STUB(work_copy)
STUB(work_search)
STUB(work_replace)
STUB(work_tar_out)
STUB(work_tar_in)
STUB(work_watch)
