// SPDX-License-Identifier: Apache-2.0
// A child that shares our memory and runs on a stack of its own, until it execs or ends; we stand
// still meanwhile. clone3 is the only call that can place it in a cgroup, and libc has no wrapper
// that takes a function, hence the few instructions.
#pragma once

#include <linux/sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>

// args->flags must have CLONE_VM and CLONE_VFORK and args->stack be set. The child ends with what
// fn returns. The child's pid, or -errno.
static inline long spawn(struct clone_args *args, int (*fn)(void *), void *arg)
{
#if defined(__x86_64__)
    register int (*entry)(void *) __asm__("r12") = fn;
    register void *entry_arg __asm__("r13") = arg;
    long ret;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "mov %%r13, %%rdi\n\t"
                     "call *%%r12\n\t"
                     "mov %%eax, %%edi\n\t"
                     "mov %[exit], %%eax\n\t"
                     "syscall\n\t"
                     "hlt\n"
                     "1:"
                     : "=a"(ret)
                     : "0"((long)SYS_clone3), "D"(args), "S"(sizeof *args), "r"(entry),
                       "r"(entry_arg), [exit] "i"(SYS_exit)
                     : "rcx", "r11", "memory", "cc");
    return ret;
#elif defined(__aarch64__)
    register long x0 __asm__("x0") = (long)args;
    register long x1 __asm__("x1") = sizeof *args;
    register long x8 __asm__("x8") = SYS_clone3;
    register int (*entry)(void *) __asm__("x19") = fn;
    register void *entry_arg __asm__("x20") = arg;
    __asm__ volatile("svc #0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "mov x0, x20\n\t"
                     "blr x19\n\t"
                     "mov x8, %[exit]\n\t"
                     "svc #0\n"
                     "1:"
                     : "+r"(x0)
                     : "r"(x1), "r"(x8), "r"(entry), "r"(entry_arg), [exit] "i"(SYS_exit)
                     : "x30", "memory", "cc");
    return x0;
#else
#    error "this architecture has no spawn() yet"
#endif
}
