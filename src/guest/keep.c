// SPDX-License-Identifier: Apache-2.0
// What the guest keeps of execs, so that a client may die and the next one goes on: our ends of
// their pipes, whose bytes wait meanwhile, and how they ended. Not kept unasked: a reader that is
// gone for good is something that a program shall notice.
#include <string.h>

#include "base/fd.h"
#include "guest/guest-internal.h"

enum { PLACE_STDIN = 2 }; // among the ends, if it is there

static int is_stdin(const struct exec *exec, unsigned place)
{
    uint32_t what = exec->flags & (GUEST_EXEC_STDIN | GUEST_EXEC_TTY);
    return place == PLACE_STDIN && what == GUEST_EXEC_STDIN;
}

void guest_keep(struct exec *exec, int *ends, unsigned n)
{
    int keep_stdin = (exec->flags & GUEST_EXEC_KEEP_STDIN) != 0;
    exec->n_kept = 0;
    for (unsigned i = 0; i < n; i++) {
        if (keep_stdin || !is_stdin(exec, i))
            exec->kept[exec->n_kept++] = TAKE_FD(ends[i]);
    }
    if (!keep_stdin)
        exec->flags &= ~(uint32_t)GUEST_EXEC_STDIN;
}

void guest_drop_kept(struct exec *exec)
{
    for (unsigned i = 0; i < exec->n_kept; i++)
        fd_close(exec->kept[i]);
    exec->n_kept = 0;
}

static void drop_stdin(struct exec *exec)
{
    if (exec->n_kept <= PLACE_STDIN || !is_stdin(exec, PLACE_STDIN))
        return;
    int *at = &exec->kept[PLACE_STDIN];
    fd_close(*at);
    exec->n_kept--;
    memmove(at, at + 1, (exec->n_kept - PLACE_STDIN) * sizeof *at);
    exec->flags &= ~(uint32_t)GUEST_EXEC_STDIN;
}

void guest_list(struct guest *guest, uint32_t request)
{
    struct guest_listed msg = {
        .head = {.version = WIRE_VERSION, .type = GUEST_LISTED, .id = request},
    };
    for (unsigned i = 0; i < guest->n_execs; i++)
        msg.n += guest->execs[i].n_kept > 0;
    (void)wire_send(FD_SOCK, &msg, sizeof msg, NULL, 0, NULL, 0);
    for (unsigned i = 0; i < guest->n_execs; i++) {
        const struct exec *exec = &guest->execs[i];
        if (exec->n_kept == 0)
            continue;
        (void)guest_tell_started(exec, exec->kept, exec->n_kept);
        if (exec->state == EXEC_ENDED)
            (void)guest_tell_exited(exec);
    }
}

void guest_forget(struct guest *guest, const struct guest_forget *msg)
{
    struct exec *exec = guest_find_exec(guest, msg->head.id);
    if (exec == NULL)
        return;
    if (msg->what == GUEST_FORGET_STDIN)
        drop_stdin(exec);
    if (msg->what != GUEST_FORGET_ALL)
        return;
    guest_drop_kept(exec);
    exec->flags &= ~(uint32_t)(GUEST_EXEC_KEEP | GUEST_EXEC_KEEP_EXIT);
    if (exec->state == EXEC_ENDED)
        exec->state = EXEC_LINGERING;
}
