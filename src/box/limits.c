// SPDX-License-Identifier: Apache-2.0
#include "box/limits.h"

struct box_limits limits_default(void)
{
    return (struct box_limits){
        .memory = LIMIT_MEMORY_DEFAULT,
        .disk = LIMIT_DISK_DEFAULT,
        .pids = LIMIT_PIDS_DEFAULT,
        .cpu_milli = LIMIT_CPU_DEFAULT,
    };
}

int limits_check(const struct box_limits *l, struct err *err)
{
    if (l->memory < LIMIT_MEMORY_MIN || l->memory > LIMIT_BYTES_MAX)
        return err_set(err, ERR_INVALID, "memory must be 4m to 64t");
    if (l->disk < LIMIT_DISK_MIN || l->disk > LIMIT_BYTES_MAX)
        return err_set(err, ERR_INVALID, "disk must be 1m to 64t");
    if (l->pids < LIMIT_PIDS_MIN || l->pids > LIMIT_PIDS_MAX)
        return err_set(err, ERR_INVALID, "pids must be %d to %d", LIMIT_PIDS_MIN, LIMIT_PIDS_MAX);
    if (l->cpu_milli < LIMIT_CPU_MIN || l->cpu_milli > LIMIT_CPU_MAX)
        return err_set(err, ERR_INVALID, "cpus must be 0.01 to 1024");
    return 0;
}
