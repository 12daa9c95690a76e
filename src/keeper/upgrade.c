// SPDX-License-Identifier: Apache-2.0
// Making way for a new program: same process, so that boxes stay our children, and same
// descriptors. And the status file, by which whoever asked for it learns how it went.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "keeper/keeper-internal.h"
#include "keeper/serve-internal.h"

// --- status ---

// In place: the file carries our lock, so that it cannot be replaced. Readers take a text without
// its last line for one that is being written.
void serve_tell_status(struct keeper *k)
{
    const struct serve *s = k->serve;
    char text[512];
    if (s->config->status < 0)
        return;
    int n = snprintf(text, sizeof text,
                     "%d\nversion %s\ngeneration %u\nserving %d\nrefused %u\nwhy %s\nend\n",
                     getpid(), CAY_VERSION, s->generation, s->serving, s->refused, s->why);
    if (ftruncate(s->config->status, 0) < 0 ||
        pwrite(s->config->status, text, (size_t)n, 0) != (ssize_t)n)
        log_line(LOG_WARN, "cannot write the pid file, ignoring", NULL);
}

// The rest of the line that begins with this word, without its end.
static int take_word(const char *text, const char *word, char *ret, size_t size)
{
    char key[24];
    (void)snprintf(key, sizeof key, "\n%s ", word);
    const char *at = strstr(text, key);
    if (at == NULL)
        return -EINVAL;
    at += strlen(key);
    size_t len = strcspn(at, "\n");
    (void)snprintf(ret, size, "%.*s", (int)len, at);
    return 0;
}

static unsigned take_number(const char *text, const char *word)
{
    char digits[24];
    return take_word(text, word, digits, sizeof digits) < 0 ? 0
                                                            : (unsigned)strtoul(digits, NULL, 10);
}

int keeper_status_read(int fd, struct keeper_status *ret)
{
    char text[512];
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n < 0)
        return -errno;
    text[n] = '\0';
    if (strstr(text, "\nend\n") == NULL)
        return -EAGAIN;
    *ret = (struct keeper_status){
        .pid = (pid_t)strtol(text, NULL, 10),
        .generation = take_number(text, "generation"),
        .serving = take_number(text, "serving") != 0,
        .refused = take_number(text, "refused"),
    };
    (void)take_word(text, "version", ret->version, sizeof ret->version);
    (void)take_word(text, "why", ret->why, sizeof ret->why);
    return ret->pid > 0 ? 0 : -EINVAL;
}

// --- upgrade ---

void serve_refuse_upgrade(struct keeper *k, const struct err *why)
{
    struct serve *s = k->serve;
    log_line(LOG_ERROR, "no upgrade, going on as before", "why", why->msg, NULL);
    s->refused++;
    (void)snprintf(s->why, sizeof s->why, "%.*s", (int)sizeof s->why - 1, why->msg);
    for (char *p = s->why; *p != '\0'; p++)
        *p = *p == '\n' ? ' ' : *p;
    if (s->upgrading)
        serve_resume_work(k);
    serve_tell_status(k);
}

void serve_upgrade(struct keeper *k)
{
    static const char *const envp[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", NULL};
    const struct keeper_serving *config = k->serve->config;
    struct err err = {0};
    char number[16];
    // A spawner is a fork of the old program; the new one has its own, in a Z of its own.
    spawner_link_forget(k);
    auto_fd state = state_save(k, &err);
    if (state >= 0) {
        (void)snprintf(number, sizeof number, "%d", state);
        const char *const argv[] = {"cay", "serve", "--resume", number, NULL};
        (void)execve(config->self, (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)envp);
        (void)err_sys(&err, errno, "execute '%.100s'", config->self);
    }
    serve_refuse_upgrade(k, &err);
}
