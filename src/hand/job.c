// SPDX-License-Identifier: Apache-2.0
// Long requests: a process each, with nothing open but its pipes. What it has to tell in the end
// stands in memory that it shares with the hand, a place for each.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "hand/hand-internal.h"

struct job {
    pid_t pid; // 0: free
    uint32_t id;
    bool cancelled, forgotten;
};

struct result {
    uint64_t n, bytes;
    int32_t sys_errno;
    uint32_t done; // the rest counts
    char path[256];
};

static struct job jobs[HAND_LONG_MAX];
static struct result *results; // as many
static struct hand_ended ended;

// Where a worker has them, so that all above can be closed at once.
enum { FD_OUT = 3, FD_IN, FD_WORK_FREE };

static const work_fn works[] = {
    [HAND_LIST - HAND_LIST] = work_list,       [HAND_DELETE_TREE - HAND_LIST] = work_delete_tree,
    [HAND_COPY - HAND_LIST] = work_copy,       [HAND_SEARCH - HAND_LIST] = work_search,
    [HAND_REPLACE - HAND_LIST] = work_replace, [HAND_TAR_OUT - HAND_LIST] = work_tar_out,
    [HAND_TAR_IN - HAND_LIST] = work_tar_in,   [HAND_WATCH - HAND_LIST] = work_watch,
};

int job_init(void)
{
    size_t size = HAND_LONG_MAX * sizeof *results;
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return -errno;
    results = at;
    return 0;
}

// --- in the worker

static void arrange_fds(int out, int in)
{
    // Neither may be overwritten before it has moved.
    int o = fcntl(out, F_DUPFD, FD_WORK_FREE), i = in >= 0 ? fcntl(in, F_DUPFD, FD_WORK_FREE) : -1;
    if (o < 0 || dup2(o, FD_OUT) < 0 || (in >= 0 && (i < 0 || dup2(i, FD_IN) < 0)))
        _exit(1);
    (void)close_range(in >= 0 ? FD_WORK_FREE : FD_IN, ~0u, 0);
}

static void arrange_signals(void)
{
    sigset_t none;
    (void)signal(SIGCHLD, SIG_DFL);
    (void)signal(SIGPIPE, SIG_IGN); // a closed pipe is an error that is returned
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void run(const struct hand_request *req, const struct hand_texts *texts,
                          struct result *result, int out, int in)
{
    static struct work work;
    arrange_fds(out, in);
    arrange_signals();
    work = (struct work){.req = req, .texts = *texts, .out = FD_OUT, .in = in >= 0 ? FD_IN : -1};
    int r = works[req->head.type - HAND_LIST](&work);
    int flushed = work_flush(&work);
    if (r >= 0)
        r = flushed;
    result->n = work.n;
    result->bytes = work.bytes;
    result->sys_errno = r < 0 ? -r : 0;
    memcpy(result->path, work.path, sizeof result->path);
    result->done = 1;
    _exit(0);
}

// --- in the hand

struct pipes {
    int out[2], in[2]; // read end, write end
};

static void close_pipes(struct pipes *p)
{
    for (int i = 0; i < 2; i++) {
        fd_close(p->out[i]);
        fd_close(p->in[i]);
    }
}

static int open_pipes(struct pipes *p, bool with_in)
{
    *p = (struct pipes){
        {-1, -1},
        {-1, -1}
    };
    if (pipe2(p->out, O_CLOEXEC) < 0 || (with_in && pipe2(p->in, O_CLOEXEC) < 0)) {
        int r = -errno;
        close_pipes(p);
        return r;
    }
    return 0;
}

static struct job *find(uint32_t id)
{
    for (unsigned i = 0; i < HAND_LONG_MAX; i++)
        if (jobs[i].pid > 0 && jobs[i].id == id)
            return &jobs[i];
    return NULL;
}

static struct job *find_free(void)
{
    for (unsigned i = 0; i < HAND_LONG_MAX; i++)
        if (jobs[i].pid == 0)
            return &jobs[i];
    return NULL;
}

int job_start(const struct hand_request *req, const struct hand_texts *texts, int ret_fds[2],
              unsigned *ret_n)
{
    struct pipes p;
    struct job *job = find_free();
    if (find(req->head.id) != NULL)
        return -EEXIST;
    if (job == NULL)
        return -EAGAIN;
    int r = open_pipes(&p, req->head.type == HAND_TAR_IN);
    if (r < 0)
        return r;
    struct result *result = &results[job - jobs];
    *result = (struct result){0};
    pid_t hand = getpid(), pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != hand)
            _exit(1);
        run(req, texts, result, p.out[1], p.in[0]);
    }
    r = pid < 0 ? -errno : 0;
    if (r == 0) {
        *job = (struct job){.pid = pid, .id = req->head.id};
        *ret_n = p.in[1] >= 0 ? 2 : 1;
        ret_fds[0] = TAKE_FD(p.out[0]);
        ret_fds[1] = TAKE_FD(p.in[1]);
    }
    close_pipes(&p);
    return r;
}

void job_cancel(uint32_t id)
{
    struct job *job = find(id);
    if (job == NULL)
        return;
    // The first one may be held up by what must not be left half done, or by a signal that stopped
    // it; the second one by nothing.
    (void)kill(job->pid, job->cancelled ? SIGKILL : SIGTERM);
    (void)kill(job->pid, SIGCONT);
    job->cancelled = true;
}

void job_forget(uint32_t id)
{
    struct job *job = find(id);
    if (job == NULL)
        return;
    (void)kill(job->pid, SIGKILL);
    job->forgotten = true;
}

static void tell(const struct job *job, int status)
{
    const struct result *result = &results[job - jobs];
    ended = (struct hand_ended){
        .head = {.version = WIRE_VERSION, .type = HAND_ENDED, .id = job->id},
    };
    if (result->done && WIFEXITED(status)) {
        ended.sys_errno = result->sys_errno;
        ended.n = result->n;
        ended.bytes = result->bytes;
        memcpy(ended.path, result->path, sizeof ended.path);
        ended.path[sizeof ended.path - 1] = '\0';
    } else {
        ended.sys_errno = job->cancelled ? ECANCELED : ECHILD;
    }
}

const struct hand_ended *job_next_ended(void)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid <= 0)
            return NULL;
        for (unsigned i = 0; i < HAND_LONG_MAX; i++) {
            struct job *job = &jobs[i];
            if (job->pid != pid)
                continue;
            bool told = !job->forgotten;
            tell(job, status);
            *job = (struct job){0};
            if (told)
                return &ended;
            break;
        }
    }
}

void job_kill_all(void)
{
    for (unsigned i = 0; i < HAND_LONG_MAX; i++)
        if (jobs[i].pid > 0)
            (void)kill(jobs[i].pid, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
}
