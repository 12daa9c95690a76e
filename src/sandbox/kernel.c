// SPDX-License-Identifier: Apache-2.0
#include "sandbox/kernel.h"

#include "sandbox/exec.h"
#include "sandbox/sandbox-internal.h"

static int start_ordinary(struct sandbox *s, enum kernel_kind kind,
                          const struct job_events *events, void *data, struct kernel_begun *ret,
                          struct err *err)
{
    char **env = exec_env(s, NULL, KERNEL_UID, err);
    if (env == NULL)
        return -1;
    struct exec_spec spec = {
        .cwd = "/",
        .argv = kernel_argv(kind),
        .envp = (const char *const *)env,
        .uid = KERNEL_UID,
        .gid = KERNEL_GID,
        .files = EXEC_FILES,
        .flags = GUEST_EXEC_CONTROL,
    };
    ret->job = job_start(s, &spec, 0, events, data, err);
    exec_env_free(env);
    return ret->job != NULL ? 0 : -1;
}

int kernel_start(struct sandbox *s, const struct kernel_start *start,
                 const struct job_events *events, void *data, struct kernel_begun *ret,
                 struct err *err)
{
    *ret = (struct kernel_begun){.wants_boot = true, .is_ordinary = true};
    return start_ordinary(s, start->kind, events, data, ret, err);
}

void kernels_adopt(struct sandbox *s)
{
    (void)s;
}
