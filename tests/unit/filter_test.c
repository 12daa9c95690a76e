// SPDX-License-Identifier: Apache-2.0
// The compiled filters of both architectures, run by a small interpreter, held against the table
// that they were made from. What the kernel makes of the one for this machine is
// filter_load_test.c's matter.
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "guest/filter-table.h"

static const struct sock_filter x86_64_program[] = {
#include "guest/filter-x86_64.inc"
};
static const struct sock_filter aarch64_program[] = {
#include "guest/filter-aarch64.inc"
};

enum {
    CHECKS = sizeof filter_checks / sizeof *filter_checks,
    GROUPS = sizeof filter_groups / sizeof *filter_groups,
    LAST_KNOWN = 471,         // the newest call of the table
    BROKEN = SECCOMP_RET_LOG, // no program of ours returns it: the interpreter gave up
};

struct arch {
    const char *name;
    uint32_t seccomp, audit;
    const struct sock_filter *program;
    unsigned len;
    // The table for this architecture, by number.
    bool known[FILTER_NR_MAX];
    int answer[FILTER_NR_MAX];
    int row[FILTER_NR_MAX]; // first in filter_checks, or -1
};

static struct arch archs[] = {
    {
     .name = "x86_64",
     .seccomp = SCMP_ARCH_X86_64,
     .audit = AUDIT_ARCH_X86_64,
     .program = x86_64_program,
     .len = sizeof x86_64_program / sizeof *x86_64_program,
     },
    {
     .name = "aarch64",
     .seccomp = SCMP_ARCH_AARCH64,
     .audit = AUDIT_ARCH_AARCH64,
     .program = aarch64_program,
     .len = sizeof aarch64_program / sizeof *aarch64_program,
     },
};

#define EACH_ARCH(a) (struct arch *a = archs; a < archs + sizeof archs / sizeof *archs; a++)

// -- the table as a function

static void learn(struct arch *a, const char *name, int given, int answer, int row)
{
    int nr = given >= 0 ? given : seccomp_syscall_resolve_name_arch(a->seccomp, name);
    if (nr < 0) // the other architecture's
        return;
    assert_true(nr < FILTER_NR_MAX);
    assert_false(a->known[nr]);
    a->known[nr] = true;
    a->answer[nr] = answer;
    a->row[nr] = row;
}

static int read_table(void **state __attribute__((unused)))
{
    for
        EACH_ARCH(a)
        {
            for (int nr = 0; nr < FILTER_NR_MAX; nr++) {
                a->answer[nr] = ENOSYS;
                a->row[nr] = -1;
            }
            for (int i = 0; i < GROUPS; i++) {
                const char *list = filter_groups[i].calls;
                char name[FILTER_NAME_MAX];
                int given;
                while (filter_next_call(&list, name, &given))
                    learn(a, name, given, filter_groups[i].answer, -1);
                assert_string_equal(list, "");
            }
            for (int i = 0; i < CHECKS; i++) {
                if (i == 0 || strcmp(filter_checks[i].call, filter_checks[i - 1].call) != 0)
                    learn(a, filter_checks[i].call, -1, ENOSYS, i);
            }
        }
    return 0;
}

static bool holds(const struct filter_check *row, const struct seccomp_data *data)
{
    for (int i = 0; i < FILTER_TESTS_MAX && row->tests[i].mask != 0; i++) {
        const struct filter_test *test = &row->tests[i];
        bool equal = ((uint32_t)data->args[test->arg] & test->mask) == test->value;
        if (equal != test->equal)
            return false;
    }
    return true;
}

static uint32_t by_table(const struct arch *a, const struct seccomp_data *data)
{
    int answer = ENOSYS;
    if (data->arch == a->audit && data->nr >= 0 && data->nr < FILTER_NR_MAX) {
        answer = a->answer[data->nr];
        if (a->row[data->nr] >= 0) {
            const struct filter_check *row = &filter_checks[a->row[data->nr]];
            while (!holds(row, data))
                row++;
            answer = row->answer;
        }
    }
    return answer == FILTER_ALLOW ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | (uint32_t)answer;
}

// -- the program as a function

static uint32_t by_program(const struct sock_filter *program, unsigned len,
                           const struct seccomp_data *data, bool *ret_looked_at_args)
{
    uint32_t acc = 0;
    *ret_looked_at_args = false;
    for (unsigned pc = 0; pc < len; pc++) {
        const struct sock_filter *f = &program[pc];
        switch (f->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            if (f->k % 4 != 0 || f->k >= sizeof *data)
                return BROKEN;
            memcpy(&acc, (const char *)data + f->k, sizeof acc);
            *ret_looked_at_args |= f->k >= offsetof(struct seccomp_data, instruction_pointer);
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            acc &= f->k;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            pc += acc == f->k ? f->jt : f->jf;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            pc += acc >= f->k ? f->jt : f->jf;
            break;
        case BPF_RET | BPF_K:
            return f->k;
        default:
            return BROKEN;
        }
    }
    return BROKEN;
}

// -- what both are asked

static bool agree(const struct arch *a, const struct sock_filter *program, unsigned len,
                  const struct seccomp_data *data)
{
    bool looked;
    return by_program(program, len, data, &looked) == by_table(a, data);
}

// An argument's values around which the rows of its call decide: each value itself, its neighbours,
// the same under rubbish in the upper half, and with every bit of a mask, and all bits outside it,
// turned.
static unsigned values_of(int row, unsigned arg, uint64_t *ret, unsigned max)
{
    unsigned n = 0;
    const char *call = filter_checks[row].call;
    ret[n++] = 0;
    ret[n++] = UINT64_MAX;
    for (; row < CHECKS && strcmp(filter_checks[row].call, call) == 0; row++) {
        for (int i = 0; i < FILTER_TESTS_MAX && filter_checks[row].tests[i].mask != 0; i++) {
            const struct filter_test *test = &filter_checks[row].tests[i];
            if (test->arg != arg)
                continue;
            assert_true(n + 40 <= max);
            ret[n++] = test->value;
            ret[n++] = test->value + 1;
            ret[n++] = test->value - 1;
            ret[n++] = test->value | 0xdeadbeefull << 32;
            ret[n++] = test->value | (uint32_t)~test->mask;
            for (uint32_t bit = 1; bit != 0 && test->mask != UINT32_MAX; bit <<= 1) {
                if (test->mask & bit)
                    ret[n++] = test->value ^ bit;
            }
        }
    }
    return n;
}

// Whether the program answers call nr unlike the table for any arguments that matter to it.
static bool differs_in_args(const struct arch *a, const struct sock_filter *program, unsigned len,
                            int nr)
{
    uint64_t v[3][256];
    unsigned n[3];
    for (unsigned arg = 0; arg < 3; arg++)
        n[arg] = values_of(a->row[nr], arg, v[arg], 256);
    struct seccomp_data data = {.nr = nr, .arch = a->audit};
    for (unsigned i = 0; i < n[0]; i++) {
        for (unsigned j = 0; j < n[1]; j++) {
            for (unsigned k = 0; k < n[2]; k++) {
                data.args[0] = v[0][i];
                data.args[1] = v[1][j];
                data.args[2] = v[2][k];
                if (!agree(a, program, len, &data))
                    return true;
            }
        }
    }
    return false;
}

// Calls, known or not, that the program answers unlike the table.
static unsigned differences(const struct arch *a, const struct sock_filter *program, unsigned len)
{
    unsigned found = 0;
    for (int nr = 0; nr < 2 * FILTER_NR_MAX; nr++) {
        struct seccomp_data data = {.nr = nr, .arch = a->audit};
        bool bad = !agree(a, program, len, &data);
        memset(data.args, 0xff, sizeof data.args);
        bad = bad || !agree(a, program, len, &data);
        if (!bad && nr < FILTER_NR_MAX && a->row[nr] >= 0)
            bad = differs_in_args(a, program, len, nr);
        found += bad;
    }
    struct seccomp_data foreign = {.nr = 1, .arch = a->audit ^ 1};
    return found + !agree(a, program, len, &foreign);
}

CHECK_CASE(programs_do_what_the_table_says)
{
    for
        EACH_ARCH(a)
        {
            assert_true(a->len > 50);
            assert_int_equal(differences(a, a->program, a->len), 0);
        }
}

// So that the case above means something: no instruction can be off by one unnoticed, nor can the
// architectures be mixed up.
CHECK_CASE(every_wrong_instruction_is_noticed)
{
    for
        EACH_ARCH(a)
        {
            struct sock_filter copy[1024];
            assert_true(a->len < 1024);
            for (unsigned i = 0; i < a->len; i++) {
                memcpy(copy, a->program, a->len * sizeof *copy);
                copy[i].k++;
                if (differences(a, copy, a->len) == 0)
                    fail_msg("%s: instruction %u may be anything", a->name, i);
            }
            const struct arch *other = a == archs ? a + 1 : archs;
            assert_true(differences(a, other->program, other->len) > 100);
        }
}

// The kernel keeps a bitmap of calls that are allowed whatever their arguments, and asks no filter
// for them: it finds them by running the filter on the number alone.
CHECK_CASE(plain_answers_need_the_number_only)
{
    for
        EACH_ARCH(a)
        {
            unsigned plain = 0, checked = 0;
            for (int nr = 0; nr < FILTER_NR_MAX; nr++) {
                struct seccomp_data data = {.nr = nr, .arch = a->audit};
                bool looked;
                (void)by_program(a->program, a->len, &data, &looked);
                assert_int_equal(looked, a->row[nr] >= 0);
                plain += a->answer[nr] == FILTER_ALLOW;
                checked += looked;
            }
            assert_true(plain > 200);
            assert_true(checked >= 8);
        }
}

static uint32_t ask(const struct arch *a, uint32_t audit, uint32_t nr, uint64_t arg0, uint64_t arg1)
{
    struct seccomp_data data = {
        .nr = (int)nr, .arch = audit, .args = {arg0, arg1}
    };
    bool looked;
    return by_program(a->program, a->len, &data, &looked);
}

CHECK_CASE(only_one_entry_is_open)
{
    static const uint32_t others[] = {AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_ARMEB, 0,
                                      UINT32_MAX};
    const uint32_t none = SECCOMP_RET_ERRNO | ENOSYS;
    for
        EACH_ARCH(a)
        {
            for (uint32_t nr = 0; nr < FILTER_NR_MAX; nr++) {
                for (size_t i = 0; i < sizeof others / sizeof *others; i++)
                    assert_int_equal(ask(a, others[i], nr, 0, 0), none);
                assert_int_equal(ask(a, a == archs ? archs[1].audit : archs[0].audit, nr, 0, 0),
                                 none);
                assert_int_equal(ask(a, a->audit, nr | 0x40000000, 0, 0), none); // x32
                assert_int_equal(ask(a, a->audit, nr | 0x80000000, 0, 0), none);
            }
            for (uint32_t nr = 512; nr < 548;
                 nr++) // x32's own, which old kernels took without the bit
                assert_int_equal(ask(a, a->audit, nr, 0, 0), none);
            assert_int_equal(ask(a, a->audit, UINT32_MAX, 0, 0),
                             none); // a call that a tracer skipped
        }
}

// Numbers and answers written out once more by hand, should the table or the lookup of names be
// wrong.
CHECK_CASE(known_points)
{
    const uint32_t allow = SECCOMP_RET_ALLOW, perm = SECCOMP_RET_ERRNO | EPERM;
    const struct arch *x = &archs[0], *arm = &archs[1];
    assert_int_equal(ask(x, x->audit, 0, 0, 0), allow);                   // read
    assert_int_equal(ask(x, x->audit, 59, 0, 0), allow);                  // execve
    assert_int_equal(ask(x, x->audit, 435, 0, 0), allow);                 // clone3
    assert_int_equal(ask(x, x->audit, 165, 0, 0), perm);                  // mount
    assert_int_equal(ask(x, x->audit, 321, 0, 0), perm);                  // bpf
    assert_int_equal(ask(x, x->audit, 425, 0, 0), perm);                  // io_uring_setup
    assert_int_equal(ask(x, x->audit, 467, 0, 0), perm);                  // open_tree_attr
    assert_int_equal(ask(x, x->audit, 16, 0, 0x5401), allow);             // ioctl TCGETS
    assert_int_equal(ask(x, x->audit, 16, 0, 0x5412), perm);              // TIOCSTI
    assert_int_equal(ask(x, x->audit, 16, 0, 0x5412 | 1ull << 32), perm); // and in disguise
    assert_int_equal(ask(x, x->audit, 56, 0x10000000, 0), perm);          // clone CLONE_NEWUSER
    assert_int_equal(ask(x, x->audit, 56, 0x11, 0), allow);               // SIGCHLD only
    assert_int_equal(ask(x, x->audit, 41, 40, 1), SECCOMP_RET_ERRNO | EAFNOSUPPORT);    // vsock
    assert_int_equal(ask(x, x->audit, 41, 38, 5), SECCOMP_RET_ERRNO | EAFNOSUPPORT);    // alg
    assert_int_equal(ask(x, x->audit, 41, 2, 10), SECCOMP_RET_ERRNO | ESOCKTNOSUPPORT); // packet

    assert_int_equal(ask(arm, arm->audit, 63, 0, 0), allow);                  // read
    assert_int_equal(ask(arm, arm->audit, 221, 0, 0), allow);                 // execve
    assert_int_equal(ask(arm, arm->audit, 435, 0, 0), allow);                 // clone3
    assert_int_equal(ask(arm, arm->audit, 40, 0, 0), perm);                   // mount
    assert_int_equal(ask(arm, arm->audit, 280, 0, 0), perm);                  // bpf
    assert_int_equal(ask(arm, arm->audit, 425, 0, 0), perm);                  // io_uring_setup
    assert_int_equal(ask(arm, arm->audit, 29, 0, 0x5412 | 1ull << 32), perm); // ioctl TIOCSTI
    assert_int_equal(ask(arm, arm->audit, 220, 0x10000000, 0), perm);         // clone CLONE_NEWUSER
    assert_int_equal(ask(arm, arm->audit, 198, 16, 3), allow); // netlink route: protocol is 0
}

// Nothing that the kernel had when the table was written is missing by oversight.
CHECK_CASE(every_call_was_thought_of)
{
    for
        EACH_ARCH(a)
        {
            for (int nr = 0; nr <= LAST_KNOWN; nr++) {
                char *name = seccomp_syscall_resolve_num_arch(a->seccomp, nr);
                // Made by the kernel's own trampolines, past every filter; and not for others to
                // call.
                bool trampoline =
                    name != NULL && (strcmp(name, "uretprobe") == 0 || strcmp(name, "uprobe") == 0);
                if (name != NULL && !a->known[nr] && !trampoline)
                    fail_msg("%s: %s (%d) stands nowhere in the table", a->name, name, nr);
                free(name);
            }
        }
}

// The kernel checks a filter for a socket by the same rules, for whichever architecture it is
// meant.
CHECK_CASE(kernel_finds_both_well_formed)
{
    for
        EACH_ARCH(a)
        {
            struct sock_filter copy[1024];
            memcpy(copy, a->program, a->len * sizeof *copy);
            struct sock_fprog prog = {.len = (unsigned short)a->len, .filter = copy};
            int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
            assert_true(fd >= 0);
            assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof prog), 0);
            prog.len--; // a program whose last way leads nowhere
            assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof prog), -1);
            (void)close(fd);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_do_what_the_table_says),
        cmocka_unit_test(every_wrong_instruction_is_noticed),
        cmocka_unit_test(plain_answers_need_the_number_only),
        cmocka_unit_test(only_one_entry_is_open),
        cmocka_unit_test(known_points),
        cmocka_unit_test(every_call_was_thought_of),
        cmocka_unit_test(kernel_finds_both_well_formed),
    };
    return cmocka_run_group_tests(tests, read_table, NULL);
}
