// SPDX-License-Identifier: Apache-2.0
// The texts of agents/, put into the program when it is built (scripts/embed), and those of a
// folder.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agents/agent-file-internal.h"
#include "base/fd.h"
#include "base/mem.h"

extern const char agent_claude[], agent_claude_end[];
extern const char agent_opencode[], agent_opencode_end[];

enum { N_KNOWN = 2, FILES_MAX = 64 };

struct agent_files {
    struct agent_file *file[FILES_MAX]; // by name
    unsigned n;
    char names[FILES_MAX * (AGENT_NAME_MAX + 2) + 1];
};

const struct agent_known *agent_known(unsigned index)
{
    static struct agent_known known[N_KNOWN];
    known[0] =
        (struct agent_known){"claude", agent_claude, (size_t)(agent_claude_end - agent_claude)};
    known[1] = (struct agent_known){"opencode", agent_opencode,
                                    (size_t)(agent_opencode_end - agent_opencode)};
    return index < N_KNOWN ? &known[index] : NULL;
}

// -- the list

static int add_parsed(struct agent_files *files, const char *name, const char *text, size_t len,
                      struct err *err)
{
    struct agent_file *file;
    unsigned at = 0;
    if (files->n == FILES_MAX)
        return err_set(err, ERR_INVALID, "at most %d agents", FILES_MAX);
    if (agent_file_parse(name, text, len, &file, err) < 0)
        return -1;
    while (at < files->n && strcmp(agent_file_name(files->file[at]), name) < 0)
        at++;
    memmove(&files->file[at + 1], &files->file[at], (files->n - at) * sizeof *files->file);
    files->file[at] = file;
    files->n++;
    return 0;
}

// -- a folder

// Notes and what an editor leaves are no agents.
static bool is_agent_name(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len <= AGENT_NAME_MAX && name[0] != '-' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

static int add_file(struct agent_files *files, int dir_fd, const char *name, struct err *err)
{
    auto_fd fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(err, errno, "open it");
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_INVALID, "it is not a file");
    auto_free char *text = malloc(AGENT_TEXT_MAX + 1);
    if (text == NULL)
        return err_sys(err, ENOMEM, "read it");
    ssize_t n = fd_read_all(fd, text, AGENT_TEXT_MAX + 1);
    if (n < 0)
        return err_sys(err, (int)-n, "read it");
    return add_parsed(files, name, text, (size_t)n, err);
}

static int add_folder(struct agent_files *files, const char *path, struct err *err)
{
    DIR *dir = opendir(path);
    int r = 0;
    if (dir == NULL)
        return err_sys(err, errno, "open the folder of agents '%.100s'", path);
    for (struct dirent *entry; r == 0 && (entry = readdir(dir)) != NULL;) {
        if (is_agent_name(entry->d_name) && add_file(files, dirfd(dir), entry->d_name, err) < 0)
            r = err_wrap(err, "the agent '%.80s/%s'", path, entry->d_name);
    }
    (void)closedir(dir);
    return r;
}

static int add_known(struct agent_files *files, struct err *err)
{
    const struct agent_known *known;
    for (unsigned i = 0; (known = agent_known(i)) != NULL; i++) {
        if (agent_files_find(files, known->name) == NULL &&
            add_parsed(files, known->name, known->text, known->len, err) < 0)
            return err_wrap(err, "the agent '%s'", known->name);
    }
    return 0;
}

static void list_names(struct agent_files *files)
{
    char *at = files->names;
    for (unsigned i = 0; i < files->n; i++) {
        at = stpcpy(at, i > 0 ? ", " : "");
        at = stpcpy(at, agent_file_name(files->file[i]));
    }
}

int agent_files_open(const char *dir, struct agent_files **ret, struct err *err)
{
    struct agent_files *files = calloc(1, sizeof *files);
    if (files == NULL)
        return err_sys(err, ENOMEM, "keep what is known of agents");
    // The folder first: what it has goes before what the program brings.
    if ((dir != NULL && add_folder(files, dir, err) < 0) || add_known(files, err) < 0) {
        agent_files_free(files);
        return -1;
    }
    list_names(files);
    *ret = files;
    return 0;
}

void agent_files_free(struct agent_files *files)
{
    for (unsigned i = 0; files != NULL && i < files->n; i++)
        agent_file_free(files->file[i]);
    free(files);
}

const struct agent_file *agent_files_find(const struct agent_files *files, const char *name)
{
    for (unsigned i = 0; i < files->n; i++) {
        if (strcmp(agent_file_name(files->file[i]), name) == 0)
            return files->file[i];
    }
    return NULL;
}

const struct agent_file *agent_files_at(const struct agent_files *files, unsigned n)
{
    return n < files->n ? files->file[n] : NULL;
}

const char *agent_files_names(const struct agent_files *files)
{
    return files->names;
}
