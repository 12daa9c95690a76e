// SPDX-License-Identifier: Apache-2.0
// Compiles filter-table.h for one architecture, while Cay is built. Prints the initialiser of an
// array of struct sock_filter.
//
// The program has three parts: a tree that finds the call by its number, a block for each call
// whose arguments matter, and one return per answer, shared by all. Jumps only go forward, 255
// instructions at most.
//
// libseccomp gives the numbers, but not the program. Every box pays for loading it: a little per
// instruction, for check, translation and compilation, and a little per number, because the kernel
// tries them all once to know which need no filter from then on. So the tree works on ranges of
// numbers with the same answer and is the cheapest there is; libseccomp's own tree has four times
// the instructions and takes two and a half times as long to load.
#include <err.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdio.h>

#include "guest/filter-table.h"

enum {
    CHECKS = sizeof filter_checks / sizeof *filter_checks,
    GROUPS = sizeof filter_groups / sizeof *filter_groups,
    TARGET_CHECK = 10000, // + index of a call's first row in filter_checks; below, an answer
    INSNS_MAX = 1024,
    LABELS_MAX = 1024,
    NEXT = -1, // in place of a label: the instruction that follows
};

struct arch {
    const char *name;
    uint32_t seccomp;
    uint32_t audit;
};

static const struct arch archs[] = {
    {"x86_64",  SCMP_ARCH_X86_64,  AUDIT_ARCH_X86_64 },
    {"aarch64", SCMP_ARCH_AARCH64, AUDIT_ARCH_AARCH64},
};

// -- the policy by number

static int target_of[FILTER_NR_MAX]; // an answer, or TARGET_CHECK + row
static bool placed[FILTER_NR_MAX];

// The call's number, or -1 where this architecture does not have it.
static int resolve(const struct arch *arch, const char *name, int given)
{
    int nr = seccomp_syscall_resolve_name_arch(arch->seccomp, name);
    if (nr == __NR_SCMP_ERROR && given < 0)
        errx(1, "%s: no such call, or one that needs its number in the table", name);
    if (nr == __NR_SCMP_ERROR)
        nr = given;
    if (given >= 0 && nr >= 0 && nr != given)
        errx(1, "%s is %d, the table says %d", name, nr, given);
    if (nr >= FILTER_NR_MAX)
        errx(1, "%s: number %d is past the table", name, nr);
    return nr < 0 ? -1 : nr;
}

static void place(const struct arch *arch, const char *name, int given, int target)
{
    int nr = resolve(arch, name, given);
    if (nr < 0)
        return;
    if (placed[nr])
        errx(1, "%s stands in the table twice", name);
    placed[nr] = true;
    target_of[nr] = target;
}

static bool same_call(int row, int other)
{
    return other < CHECKS && strcmp(filter_checks[row].call, filter_checks[other].call) == 0;
}

static void read_table(const struct arch *arch)
{
    for (int nr = 0; nr < FILTER_NR_MAX; nr++)
        target_of[nr] = ENOSYS;
    for (int i = 0; i < GROUPS; i++) {
        const char *list = filter_groups[i].calls;
        char name[FILTER_NAME_MAX];
        int given;
        while (filter_next_call(&list, name, &given))
            place(arch, name, given, filter_groups[i].answer);
        if (*list != '\0')
            errx(1, "cannot read the table at '%s'", list);
    }
    for (int i = 0; i < CHECKS; i++) {
        if (i == 0 || !same_call(i - 1, i))
            place(arch, filter_checks[i].call, -1, TARGET_CHECK + i);
    }
}

// -- ranges of numbers that share a target; the last one is open

struct range {
    uint32_t start;
    uint32_t width;
    int target;
};

static struct range ranges[FILTER_NR_MAX];
static int n_ranges;

static void make_ranges(void)
{
    for (uint32_t nr = 0; nr < FILTER_NR_MAX; nr++) {
        if (n_ranges > 0 && ranges[n_ranges - 1].target == target_of[nr])
            ranges[n_ranges - 1].width++;
        else
            ranges[n_ranges++] = (struct range){nr, 1, target_of[nr]};
    }
    if (ranges[n_ranges - 1].target != ENOSYS)
        errx(1, "numbers past the last call must be unknown: raise FILTER_NR_MAX");
}

// -- the cheapest tree

// What an instruction costs to load, in steps of the kernel's run over all numbers.
enum { INSN_COST = 100 };

// How to tell the ranges [i, j) apart: by a comparison that parts them at `split`, or, with split
// 0, by asking one by one for the numbers whose target is not `rest`, if all of those stand alone.
struct plan {
    unsigned cost;
    int split;
    int rest;
};

static struct plan plans[FILTER_NR_MAX][FILTER_NR_MAX + 1];

static unsigned width(int i, int j)
{
    return ranges[j - 1].start + ranges[j - 1].width - ranges[i].start;
}

static unsigned chain_cost(int i, int j, int rest)
{
    unsigned cost = 0, asked = 0, others = 0;
    for (int k = i; k < j; k++) {
        if (ranges[k].target == rest) {
            others += ranges[k].width;
        } else if (ranges[k].width == 1 && k != n_ranges - 1) {
            asked++;
            cost += INSN_COST + asked;
        } else {
            return UINT32_MAX;
        }
    }
    return cost + asked * others;
}

static void plan_tree(void)
{
    for (int len = 2; len <= n_ranges; len++) {
        for (int i = 0; i + len <= n_ranges; i++) {
            int j = i + len;
            struct plan best = {.cost = UINT32_MAX};
            for (int k = i; k < j; k++) {
                unsigned cost = chain_cost(i, j, ranges[k].target);
                if (cost < best.cost)
                    best = (struct plan){cost, 0, ranges[k].target};
            }
            for (int k = i + 1; k < j; k++) {
                unsigned cost = INSN_COST + width(i, j) + plans[i][k].cost + plans[k][j].cost;
                if (cost < best.cost)
                    best = (struct plan){cost, k, 0};
            }
            plans[i][j] = best;
        }
    }
}

// -- instructions and labels

struct insn {
    uint16_t code;
    uint32_t k;
    int yes, no; // labels, or NEXT
};

static struct insn insns[INSNS_MAX];
static int n_insns;
static int label_at[LABELS_MAX];
static int n_labels;

// A return for each answer in use, behind everything else.
struct ret {
    int answer;
    int label;
};
static struct ret rets[16];
static int n_rets;

static int check_label[CHECKS];

static void emit(int code, uint32_t k, int yes, int no)
{
    if (n_insns == INSNS_MAX)
        errx(1, "too many instructions");
    insns[n_insns++] = (struct insn){(uint16_t)code, k, yes, no};
}

static int label_new(void)
{
    if (n_labels == LABELS_MAX)
        errx(1, "too many labels");
    return n_labels++;
}

static void label_here(int label)
{
    label_at[label] = n_insns;
}

static int label_of(int target)
{
    if (target >= TARGET_CHECK) {
        int *label = &check_label[target - TARGET_CHECK];
        if (*label == 0)
            *label = label_new();
        return *label;
    }
    for (int i = 0; i < n_rets; i++) {
        if (rets[i].answer == target)
            return rets[i].label;
    }
    if (n_rets == sizeof rets / sizeof *rets)
        errx(1, "too many different answers");
    rets[n_rets] = (struct ret){target, label_new()};
    return rets[n_rets++].label;
}

// -- the three parts

// Where possible one of a comparison's two ways is the next instruction: the kernel translates that
// into one instruction of its own, two far ways into two.
static void emit_tree(int i, int j)
{
    const struct plan *plan = &plans[i][j];
    if (plan->split == 0) {
        int left = 0;
        for (int k = i; k < j; k++)
            left += ranges[k].target != plan->rest;
        for (int k = i; k < j; k++) {
            if (ranges[k].target != plan->rest)
                emit(BPF_JMP | BPF_JEQ | BPF_K, ranges[k].start, label_of(ranges[k].target),
                     --left > 0 ? NEXT : label_of(plan->rest));
        }
        return;
    }
    int k = plan->split;
    bool low_ends = k - i == 1, high_ends = j - k == 1;
    int high = high_ends ? label_of(ranges[k].target) : low_ends ? NEXT : label_new();
    int low = low_ends ? label_of(ranges[i].target) : NEXT;
    emit(BPF_JMP | BPF_JGE | BPF_K, ranges[k].start, high, low);
    if (!low_ends)
        emit_tree(i, k);
    if (!high_ends) {
        if (high != NEXT)
            label_here(high);
        emit_tree(k, j);
    }
}

// What the accumulator holds: argument `arg` under `mask`, or nothing of use with mask 0.
struct held {
    unsigned arg;
    uint32_t mask;
};

static void emit_load(struct held *held, const struct filter_test *test)
{
    if (held->arg == test->arg && held->mask == test->mask)
        return;
    if (held->arg != test->arg || held->mask != UINT32_MAX) {
        // The lower half: both architectures are little endian.
        size_t at = offsetof(struct seccomp_data, args) + test->arg * sizeof(uint64_t);
        emit(BPF_LD | BPF_W | BPF_ABS, (uint32_t)at, NEXT, NEXT);
    }
    if (test->mask != UINT32_MAX)
        emit(BPF_ALU | BPF_AND | BPF_K, test->mask, NEXT, NEXT);
    *held = (struct held){test->arg, test->mask};
}

static int count_tests(const struct filter_check *row)
{
    int n = 0;
    while (n < FILTER_TESTS_MAX && row->tests[n].mask != 0)
        n++;
    return n;
}

static void emit_check(int row)
{
    struct held held = {0};
    label_here(label_of(TARGET_CHECK + row));
    if (count_tests(&filter_checks[row]) == 0)
        errx(1, "%s has nothing to test", filter_checks[row].call);
    for (int n = count_tests(&filter_checks[row]); n > 0; row++) {
        const struct filter_check *check = &filter_checks[row];
        if (!same_call(row, row + 1))
            errx(1, "%s has no last row without tests", check->call);
        int n_after = count_tests(&check[1]);
        int miss = n_after == 0 ? label_of(check[1].answer) : label_new();
        bool same = true; // whichever test fails, the next row finds the accumulator the same
        for (int t = 0; t < n; t++) {
            const struct filter_test *test = &check->tests[t];
            emit_load(&held, test);
            same = same && held.arg == check->tests[0].arg && held.mask == check->tests[0].mask;
            bool last = t == n - 1;
            int hit = last ? label_of(check->answer) : NEXT;
            int fail = last && n_after > 0 ? NEXT : miss;
            emit(BPF_JMP | BPF_JEQ | BPF_K, test->value, test->equal ? hit : fail,
                 test->equal ? fail : hit);
        }
        if (!same)
            held = (struct held){0};
        if (n_after > 0)
            label_here(miss);
        n = n_after;
    }
    if (same_call(row, row + 1))
        errx(1, "%s has rows after its last", filter_checks[row].call);
}

static void emit_program(const struct arch *arch)
{
    label_new(); // 0 means none in check_label
    emit(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), NEXT, NEXT);
    emit(BPF_JMP | BPF_JEQ | BPF_K, arch->audit, NEXT, label_of(ENOSYS));
    emit(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), NEXT, NEXT);
    emit_tree(0, n_ranges);
    for (int i = 0; i < CHECKS; i++) {
        if (check_label[i] != 0)
            emit_check(i);
    }
    for (int i = 0; i < n_rets; i++) {
        label_here(rets[i].label);
        uint32_t action = rets[i].answer == FILTER_ALLOW
                              ? SECCOMP_RET_ALLOW
                              : SECCOMP_RET_ERRNO | ((uint32_t)rets[i].answer & SECCOMP_RET_DATA);
        emit(BPF_RET | BPF_K, action, NEXT, NEXT);
    }
}

static int distance(int from, int label)
{
    int d = label == NEXT ? 0 : label_at[label] - from - 1;
    if (d < 0 || d > 255)
        errx(1, "instruction %d jumps %d far", from, d);
    return d;
}

int main(int argc, char **argv)
{
    const struct arch *arch = NULL;
    for (size_t i = 0; argc == 2 && i < sizeof archs / sizeof *archs; i++) {
        if (strcmp(argv[1], archs[i].name) == 0)
            arch = &archs[i];
    }
    if (arch == NULL)
        errx(2, "usage: filter-gen x86_64|aarch64");
    read_table(arch);
    make_ranges();
    plan_tree();
    emit_program(arch);

    printf("// Made from filter-table.h for %s: %d ranges, %d instructions.\n", arch->name,
           n_ranges, n_insns);
    for (int i = 0; i < n_insns; i++)
        printf("{0x%02x, %d, %d, 0x%08x},\n", insns[i].code, distance(i, insns[i].yes),
               distance(i, insns[i].no), insns[i].k);
    return ferror(stdout) || fclose(stdout) != 0;
}
