// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernels.h"

#define BLOB(name) extern const char kernel_##name[], kernel_##name##_end[]
BLOB(python);
BLOB(node);
BLOB(bash);
BLOB(once);
BLOB(typescript);

#define SOURCE(name)                                                                               \
    (struct kernel_source)                                                                         \
    {                                                                                              \
        .bytes = kernel_##name, .len = (size_t)(kernel_##name##_end - kernel_##name)               \
    }

struct kernel_source kernel_source(enum kernel_kind kind)
{
    switch (kind) {
    case KERNEL_PYTHON:
        return SOURCE(python);
    case KERNEL_NODE:
        return SOURCE(node);
    case KERNEL_BASH:
        return SOURCE(bash);
    case KERNEL_ONCE:
        return SOURCE(once);
    case KERNEL_KIND_MAX:
        break;
    }
    return (struct kernel_source){0};
}

struct kernel_source kernel_typescript_tool(void)
{
    return SOURCE(typescript);
}

// Each reads one frame, `boot 0 LENGTH`, and runs what is in it.
#define BOOT_PYTHON                                                                                \
    "import os\n"                                                                                  \
    "h=b''\n"                                                                                      \
    "while h[-1:]!=b'\\n': h+=os.read(60,1) or os._exit(1)\n"                                      \
    "n=int(h.split()[2]);b=[]\n"                                                                   \
    "while n:\n"                                                                                   \
    " b.append(os.read(60,n) or os._exit(1));n-=len(b[-1])\n"                                      \
    "exec(compile(b''.join(b),'<cay>','exec'),{'__name__':'cay_boot'})"

// In a block: its names are not those of the cells.
#define BOOT_NODE                                                                                  \
    "{const fs=require('fs');"                                                                     \
    "const get=n=>{const b=Buffer.alloc(n);let k=0;"                                               \
    "while(k<n){const r=fs.readSync(60,b,k,n-k);if(!r)process.exit(1);k+=r}return b};"             \
    "let h='';while(!h.endsWith('\\n'))h+=get(1).toString('latin1');"                              \
    "const src=get(+h.split(' ')[2]).toString();"                                                  \
    "new (require('module'))('cay-kernel')._compile(src,'/cay/kernel.js')}"

// The source is in a variable: everybody in the box reads command lines.
#define RUN_NODE                                                                                   \
    "{const src=process.env.CAY_KERNEL;delete process.env.CAY_KERNEL;"                             \
    "new (require('module'))('cay-kernel')._compile(src,'/cay/kernel.js')}"

#define BOOT_SHELL                                                                                 \
    "IFS=' ' read -r _ _ n <&60 && LC_ALL=C read -r -N \"$n\" src <&60 && eval \"$src\" && "       \
    "eval \"$__cay_loop\""

const char *const *kernel_argv(enum kernel_kind kind)
{
    static const char *const python[] = {"python3", "-I", "-c", BOOT_PYTHON, NULL};
    // The flag: an interrupt may end a callback, after which Node would find its books wrong.
    static const char *const node[] = {"node", "--no-force-async-hooks-checks", "-e", BOOT_NODE,
                                       NULL};
    static const char *const shell[] = {"bash", "--norc", "--noprofile", "-c", BOOT_SHELL, NULL};
    static const char *const *const argv[KERNEL_KIND_MAX] = {
        [KERNEL_PYTHON] = python,
        [KERNEL_NODE] = node,
        [KERNEL_BASH] = shell,
        [KERNEL_ONCE] = shell,
    };
    return kind < KERNEL_KIND_MAX ? argv[kind] : NULL;
}

const char *const *kernel_parked_node(void)
{
    static const char *const argv[] = {"node", "--no-force-async-hooks-checks", "-e", RUN_NODE,
                                       NULL};
    return argv;
}
